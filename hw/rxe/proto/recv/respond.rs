// SPDX-License-Identifier: GPL-2.0

//! Replies of the receive side to the peer: responses, acknowledgments, NAKs.
//!
//! IBTA 9.4.4, 9.4.5 (repeated reads and atomics), 9.7.5 (acknowledgments), 9.7.7 (MSN).

use core::ops::DerefMut;

use crate::wire::Aeth;
use crate::wire::AethSyndrome;
use crate::wire::AtomicAckEth;
use crate::wire::Ext;
use crate::wire::Msn;
use crate::wire::NakCode;
use crate::wire::Opcode;
use crate::wire::Operation;
use crate::wire::Psn;

use super::super::host::Progress;
use super::super::host::QpEvent;
use super::super::host::RecvHost;
use super::super::host::TxError;
use super::super::packet::Dest;
use super::super::packet::Payload;
use super::super::packet::RxPacket;
use super::super::packet::TxPacket;
use super::super::types::ahead;
use super::super::types::packets;
use super::super::types::Key;
use super::RecvSide;
use super::Refusal;
use super::Reply;
use super::Told;

/// A request with an individual response: first the remainder to be sent, then what is needed to
/// answer a repetition.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// First PSN of the response; `count` is the number of PSNs.
    first: Psn,
    count: u32,
    /// Segment size in bytes of a read response.
    mtu: u32,
    /// MSN to report.
    msn: Msn,
    saved: Saved,
    run: Option<Run>,
    /// Whether all of the response was sent once.
    answered: bool,
}

impl Resource {
    /// Unused storage.
    pub const EMPTY: Resource = Resource {
        first: Psn::new(0),
        count: 0,
        mtu: 0,
        msn: Msn::new(0),
        saved: Saved::Free,
        run: None,
        answered: false,
    };
}

impl Default for Resource {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Returns the number of reads and atomics that a peer may have outstanding if it was told `depth`.
/// The requester of the C driver rounds it up to a power of two, so there must be that many
/// [`Resource`]s.
#[must_use]
pub fn rounded_depth(depth: u8) -> u8 {
    match depth {
        0 => 0,
        _ => depth.checked_next_power_of_two().unwrap_or(u8::MAX),
    }
}

/// What is kept of an answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// No request.
    Free,
    /// A read, which is executed again when it is repeated.
    Read { key: Key, va: u64, len: u32 },
    /// An atomic, which is not executed again; its result is returned.
    Atomic { value: u64 },
    /// An atomic write or a flush, which is not executed again.
    Done,
}

/// A response in progress.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// PSN of the next packet.
    psn: Psn,
    /// For a read: the address and number of the bytes still to be sent.
    va: u64,
    left: u32,
}

impl<R: DerefMut<Target = [Resource]>> RecvSide<R> {
    /// Checks that a resource is free. There are as many as the peer may have requests outstanding
    /// (IBTA 9.4.4). If the oldest response runs only because its request was repeated, a new
    /// request implies that the peer does not wait for it any more.
    pub(super) fn check_free_resource(&self) -> Result<(), Refusal> {
        match self.resource(self.oldest) {
            Some(resource) if resource.run.is_none() || resource.answered => Ok(()),
            Some(_) | None => Err(Refusal::Unsupported),
        }
    }

    /// Takes the oldest resource, which was checked to be free, for a request.
    pub(super) fn owe(&mut self, packet: &RxPacket, count: u32, saved: Saved) {
        let (psn, mtu) = (packet.psn, self.mtu_of(packet));
        let msn = self.msn;
        let (va, left) = match saved {
            Saved::Read { key: _, va, len } => (va, len),
            Saved::Free | Saved::Atomic { .. } | Saved::Done => (0, 0),
        };
        let oldest = self.oldest;
        self.start(oldest, Run { psn, va, left });
        if let Some(resource) = self.resource_mut(oldest) {
            *resource = Resource {
                first: psn,
                count,
                mtu,
                msn,
                saved,
                run: resource.run,
                ..Resource::EMPTY
            };
            self.oldest = self.after(oldest);
        }
    }

    /// Answers a repeated request, if possible (C9-105).
    pub(super) fn repeat(&mut self, packet: &RxPacket) {
        match packet.opcode.operation() {
            Operation::Send | Operation::Write => {
                // One cumulative acknowledgment covers all repeated packets.
                if self.reply == Reply::Nothing {
                    self.reply = Reply::Ack;
                }
            }
            Operation::ReadRequest => {
                let Some(reth) = packet.ext.reth() else {
                    return;
                };
                let mtu = self.mtu_of(packet);
                let Some(at) = self.find(packet.psn) else {
                    return;
                };
                let Some(resource) = self.resource_mut(at) else {
                    return;
                };
                let Saved::Read { key, va, len } = resource.saved else {
                    return;
                };
                // It must be the same read or a part of it, in bytes and in PSNs, with the same
                // segment size. Ends are compared as offsets, which cannot wrap.
                let offset = reth.va.wrapping_sub(va);
                let end = offset.checked_add(u64::from(reth.length));
                let index = ahead(resource.first, packet.psn);
                let psns = index.saturating_add(packets(reth.length, mtu));
                if reth.rkey != key.0
                    || mtu != resource.mtu
                    || end.is_none_or(|end| end > u64::from(len))
                    || psns > resource.count
                {
                    return;
                }
                self.start(
                    at,
                    Run {
                        psn: packet.psn,
                        va: reth.va,
                        left: reth.length,
                    },
                );
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                self.replay(packet.psn, |saved| matches!(saved, Saved::Atomic { .. }));
            }
            Operation::AtomicWrite | Operation::Flush => {
                self.replay(packet.psn, |saved| matches!(saved, Saved::Done));
            }
            Operation::ReadResponse
            | Operation::Acknowledge
            | Operation::AtomicAcknowledge
            | Operation::CongestionNotification => {}
        }
    }

    /// Repeats a saved response of one packet.
    fn replay(&mut self, psn: Psn, same_kind: impl Fn(&Saved) -> bool) {
        let Some(at) = self.find(psn) else { return };
        match self.resource(at) {
            Some(resource) if same_kind(&resource.saved) => {
                self.start(
                    at,
                    Run {
                        psn,
                        va: 0,
                        left: 0,
                    },
                );
            }
            Some(_) | None => {}
        }
    }

    /// Starts or restarts a response.
    fn start(&mut self, at: u32, run: Run) {
        let Some(resource) = self.resource_mut(at) else {
            return;
        };
        if resource.run.replace(run).is_none() {
            self.running = self.running.saturating_add(1);
        }
    }

    /// Finds the resource whose response includes this PSN. Searches from the newest, since the
    /// PSNs of an old one may be a whole cycle behind.
    fn find(&self, psn: Psn) -> Option<u32> {
        let mut at = self.oldest;
        for _ in 0..self.resources.len() {
            at = self.before(at);
            let resource = self.resource(at)?;
            if resource.saved != Saved::Free && ahead(resource.first, psn) < resource.count {
                return Some(at);
            }
        }
        None
    }

    /// Sends responses, oldest first, and then the reply.
    pub(super) fn respond(&mut self, host: &mut impl RecvHost, left: &mut u32) -> Progress {
        while let Some(at) = self.oldest_running() {
            while let Some((packet, next)) = self.next_response(at) {
                if *left == 0 {
                    return Progress::More;
                }
                *left = left.saturating_sub(1);
                match host.emit(&packet) {
                    Ok(()) => {}
                    Err(TxError::Blocked) => return Progress::Blocked,
                    Err(TxError::Enough) => return Progress::More,
                    Err(TxError::BadPayload(_)) => {
                        // The memory was invalidated after the request was accepted.
                        self.clear_resources();
                        self.end(Some((packet.psn, NakCode::RemoteAccess)));
                        host.event(QpEvent::AccessError);
                        break;
                    }
                }
                let done = next.is_none();
                if let Some(resource) = self.resource_mut(at) {
                    resource.run = next;
                    resource.answered |= done;
                }
                if done {
                    self.running = self.running.saturating_sub(1);
                }
            }
        }
        let (psn, syndrome) = match self.reply {
            Reply::Nothing => return Progress::Idle,
            Reply::Missing if self.ahead.is_before(self.expected) => {
                (self.expected - 1, AethSyndrome::ACK)
            }
            Reply::Ack => (self.expected - 1, AethSyndrome::ACK),
            Reply::Missing => (self.expected, AethSyndrome::Nak(NakCode::PsnSequence)),
            Reply::NotReady => (self.expected, AethSyndrome::Rnr(self.attr.rnr_timer)),
            Reply::Refused { psn, code } => (psn, AethSyndrome::Nak(code)),
        };
        let packet = self.acknowledgement(psn, syndrome);
        if *left == 0 {
            return Progress::More;
        }
        *left = left.saturating_sub(1);
        match host.emit(&packet) {
            Err(TxError::Blocked) => Progress::Blocked,
            Err(TxError::Enough) => Progress::More,
            Ok(()) | Err(TxError::BadPayload(_)) => {
                if syndrome == AethSyndrome::Nak(NakCode::PsnSequence) {
                    self.told = Told::Missing;
                    self.reordering.told(psn);
                }
                self.reply = Reply::Nothing;
                Progress::Idle
            }
        }
    }

    /// Sends the acknowledgment that [may wait](Self::ack_may_wait), if there is one, with `send`.
    /// Returns `false` on failure; the acknowledgment is then still pending.
    #[must_use]
    pub fn send_ack_by(&mut self, send: impl FnOnce(&TxPacket) -> Result<(), TxError>) -> bool {
        if !self.ack_may_wait() {
            return true;
        }
        let packet = self.acknowledgement(self.expected - 1, AethSyndrome::ACK);
        let sent = send(&packet).is_ok();
        if sent {
            self.reply = Reply::Nothing;
        }
        sent
    }

    fn acknowledgement(&self, psn: Psn, syndrome: AethSyndrome) -> TxPacket {
        let aeth = Aeth {
            syndrome,
            msn: self.msn,
        };
        self.packet(Opcode::RcAck, psn, Ext::Aeth(aeth), Payload::None)
    }

    /// Returns the next packet of the response that runs at `at`, and the remainder after it.
    fn next_response(&self, at: u32) -> Option<(TxPacket, Option<Run>)> {
        let &Resource {
            first,
            count: _,
            mtu,
            msn,
            saved,
            run,
            answered: _,
        } = self.resource(at)?;
        let run = run?;
        let aeth = Aeth {
            syndrome: AethSyndrome::ACK,
            msn,
        };
        match saved {
            Saved::Read { key, va: _, len: _ } => {
                let len = run.left.min(mtu);
                let last = len == run.left;
                // A read resumed in the middle uses the opcodes of an uninterrupted response: the C
                // driver's requester expects that, and ours accepts it.
                let (opcode, ext) = match (run.psn == first, last) {
                    (true, true) => (Opcode::RcReadRespOnly, Ext::Aeth(aeth)),
                    (true, false) => (Opcode::RcReadRespFirst, Ext::Aeth(aeth)),
                    (false, true) => (Opcode::RcReadRespLast, Ext::Aeth(aeth)),
                    (false, false) => (Opcode::RcReadRespMiddle, Ext::None),
                };
                let payload = if len == 0 {
                    Payload::None
                } else {
                    Payload::Remote {
                        key,
                        va: run.va,
                        len,
                    }
                };
                let next = (!last).then_some(Run {
                    psn: run.psn + 1,
                    va: run.va.wrapping_add(u64::from(len)),
                    left: run.left.saturating_sub(len),
                });
                let packet = TxPacket {
                    mtu,
                    ..self.packet(opcode, run.psn, ext, payload)
                };
                Some((packet, next))
            }
            Saved::Atomic { value } => {
                let ext = Ext::AethAtomicAck(aeth, AtomicAckEth { original: value });
                let packet = self.packet(Opcode::RcAtomicAck, run.psn, ext, Payload::None);
                Some((packet, None))
            }
            Saved::Done => {
                let ext = Ext::Aeth(aeth);
                let packet = self.packet(Opcode::RcReadRespOnly, run.psn, ext, Payload::None);
                Some((packet, None))
            }
            Saved::Free => None,
        }
    }

    fn packet(&self, opcode: Opcode, psn: Psn, ext: Ext, payload: Payload) -> TxPacket {
        TxPacket {
            opcode,
            psn,
            ack_req: false,
            solicited: false,
            ext,
            payload,
            dest: Dest::Peer(self.attr.dest),
            mtu: self.attr.mtu,
        }
    }

    /// Returns the running resource with the oldest request. Running ones are among the newest, so
    /// the search starts there and stops after the last one.
    fn oldest_running(&self) -> Option<u32> {
        let mut found = None;
        let mut left = self.running;
        let mut at = self.oldest;
        for _ in 0..self.resources.len() {
            if left == 0 {
                break;
            }
            at = self.before(at);
            if self.resource(at)?.run.is_some() {
                found = Some(at);
                left = left.saturating_sub(1);
            }
        }
        found
    }

    pub(super) fn clear_resources(&mut self) {
        self.resources.fill(Resource::EMPTY);
        self.oldest = 0;
        self.running = 0;
    }

    fn after(&self, at: u32) -> u32 {
        let next = at.saturating_add(1);
        match u32::try_from(self.resources.len()) {
            Ok(len) if next >= len => 0,
            Ok(_) | Err(_) => next,
        }
    }

    fn before(&self, at: u32) -> u32 {
        match at.checked_sub(1) {
            Some(before) => before,
            None => u32::try_from(self.resources.len()).map_or(0, |len| len.saturating_sub(1)),
        }
    }

    fn resource(&self, at: u32) -> Option<&Resource> {
        self.resources.get(usize::try_from(at).ok()?)
    }

    fn resource_mut(&mut self, at: u32) -> Option<&mut Resource> {
        self.resources.get_mut(usize::try_from(at).ok()?)
    }
}
