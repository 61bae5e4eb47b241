// SPDX-License-Identifier: GPL-2.0

//! Host of the engine's receive half: receive queue, remote memory, network, completions.
//!
//! [`RecvIo`] lives as long as the half, [`RecvWorld`] for one turn; both belong to the runner of
//! the half. Context: softirq, or bottom halves off.

use super::early::Keeper;
use super::early::Stash;
use super::loopback;
use super::loopback::Answers;
use super::loopback::Request;
use super::send::copy_bytes;
use super::wire::Sender;
use super::Notes;
use super::Qp;
use crate::cq::Cqe;
use crate::device::Dev;
use crate::mem::Batch;
use crate::mem::Locks;
use crate::mem::MemError;
use crate::mem::Reach;
use crate::mem::Room;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::proto;
use crate::proto::delayed_ack::DelayedAck;
use crate::proto::AccessFlags;
use crate::proto::AtomicOp;
use crate::proto::Disposition;
use crate::proto::FlushKind;
use crate::proto::Key;
use crate::proto::LocalFault;
use crate::proto::Payload;
use crate::proto::QpEvent;
use crate::proto::RecvCompletion;
use crate::proto::RecvFetch;
use crate::proto::RecvHost;
use crate::proto::RecvSide;
use crate::proto::RemoteFault;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::proto::WcStatus;
use crate::queue::cqe::Network;
use crate::queue::work::RecvBuffers;
use crate::queue::work::RecvQueue;
use crate::queue::RingBuf;
use crate::srq::Srq;
use crate::wire::Psn;
use kernel::prelude::*;
use kernel::sync::Arc;

/// State guarded by the receive token.
pub(super) struct RecvHalf {
    pub(super) engine: RecvSide<KVec<proto::Resource>>,
    pub(super) io: RecvIo,
    /// Requests taken off the queue and not handled yet.
    pub(super) backlog: Option<RxBatch>,
    /// The current request, if it waits for memory; it precedes the backlog.
    pub(super) parked: Option<RxPacket>,
    /// State of the delayed acknowledgment.
    pub(super) delayed_ack: DelayedAck,
    /// The requester on this device waits for a page fault of this half.
    pub(super) requester_waits: bool,
}

/// Source of receive requests.
pub(super) enum Source {
    /// The queue pair's own queue.
    Own(RecvQueue),
    /// A shared receive queue.
    Shared(Arc<Srq>),
}

impl Source {
    /// Takes the memory of the queue pair's own queue: [`RingBuf::take`].
    pub(super) fn take_memory(&mut self) -> Option<RingBuf> {
        match self {
            Self::Own(queue) => Some(queue.take_memory()),
            Self::Shared(_) => None,
        }
    }
}

/// The host's part of the receive half.
pub(super) struct RecvIo {
    pub(super) source: Source,
    /// Buffers of the current receive request.
    current: RecvBuffers,
    /// Path to the peer of a connected queue pair.
    pub(super) sender: Option<Sender>,
    /// The last request came from a peer on this device, which fetches the responses.
    pub(super) loopback: bool,
    /// Requests that arrived early.
    pub(super) early: Stash,
    /// The flush in progress: the PSN of its request, and the number of bytes flushed so far.
    flushed: Option<(Psn, usize)>,
}

impl RecvHalf {
    /// Creates the half of a queue pair in RESET. Inlined, since the half is large: it is built in
    /// place.
    #[inline(always)]
    pub(super) fn new(source: Source, buffers: RecvBuffers, attr: proto::RecvAttr) -> Self {
        Self {
            engine: RecvSide::new(KVec::new(), attr),
            io: RecvIo {
                source,
                current: buffers,
                sender: None,
                loopback: false,
                early: Stash::EMPTY,
                flushed: None,
            },
            backlog: None,
            parked: None,
            delayed_ack: DelayedAck::new(),
            requester_waits: false,
        }
    }
}

impl RecvHalf {
    /// Returns whether a queue pair that enters the error state has requests to flush or events to
    /// report. With a shared queue it always reports that it takes no more requests from it.
    pub(super) fn has_work(&self) -> bool {
        let waiting = match &self.io.source {
            Source::Own(queue) => queue.waiting() != 0,
            Source::Shared(_) => true,
        };
        waiting || self.engine.is_busy() || self.parked.is_some() || self.backlog.is_some()
    }
}

impl RecvIo {
    /// Returns the host for one turn.
    pub(super) fn host<'a, 'm>(
        &'a mut self,
        qp: &'a Qp,
        batch: &'a mut Batch<'m>,
        notes: &'a mut Notes,
    ) -> RecvWorld<'a, 'm> {
        RecvWorld {
            batch,
            qp,
            io: self,
            present: Present::Nothing,
            answers: None,
            notes,
        }
    }

    /// Returns the host that only puts responses into `answers`, for a requester on this device.
    pub(super) fn host_answers<'a, 'm>(
        &'a mut self,
        qp: &'a Qp,
        batch: &'a mut Batch<'m>,
        answers: &'a mut Answers,
        notes: &'a mut Notes,
    ) -> RecvWorld<'a, 'm> {
        RecvWorld {
            answers: Some(answers),
            ..self.host(qp, batch, notes)
        }
    }

    /// Returns the host for a request of a sender on this device, in the sender's turn.
    pub(super) fn host_request<'a, 'm>(
        &'a mut self,
        qp: &'a Qp,
        batch: &'a mut Batch<'m>,
        request: Request<'a>,
        notes: &'a mut Notes,
    ) -> RecvWorld<'a, 'm> {
        RecvWorld {
            present: Present::Request(request),
            ..self.host(qp, batch, notes)
        }
    }

    /// Discards all requests of the queue pair's own queue; the engine does the same.
    pub(super) fn reset(&mut self, dev: &Dev) {
        self.early.clear(dev);
        self.loopback = false;
        self.flushed = None;
        if let Source::Own(queue) = &mut self.source {
            queue.reset();
        }
    }
}

/// Implements the engine's host interface for one turn.
pub(super) struct RecvWorld<'a, 'm> {
    qp: &'a Qp,
    io: &'a mut RecvIo,
    /// Owned by the caller, who drops it after the turn; requests on one device share it.
    batch: &'a mut Batch<'m>,
    present: Present<'a>,
    /// Destination of responses, if a requester on this device takes them.
    answers: Option<&'a mut Answers>,
    /// Owned by the caller, who reads them after the turn; a reference avoids moving them.
    notes: &'a mut Notes,
}

/// The packet that the engine is processing.
enum Present<'a> {
    Nothing,
    /// From the network.
    Wire(RxPacket),
    /// From a peer on this device.
    Request(Request<'a>),
}

impl Present<'_> {
    /// Writes the payload from offset `at` on into `room`.
    #[inline]
    fn write(&mut self, at: usize, room: Room<'_>) -> Result<(), MemError> {
        match self {
            _ if room.len() == 0 => Ok(()),
            Present::Wire(packet) => {
                let rest = packet.payload().get(at..).ok_or(MemError::ListTooShort)?;
                copy_bytes(room, rest).map(drop)
            }
            Present::Request(request) => (request.fill)(at, room, Locks::Free),
            Present::Nothing => Err(MemError::ListTooShort),
        }
    }
}

impl RecvWorld<'_, '_> {
    /// Makes a received packet the current one.
    #[inline]
    pub(super) fn set_packet(&mut self, packet: RxPacket) {
        self.io.loopback = false;
        self.present = Present::Wire(packet);
    }

    /// Returns the current packet for the engine, if it is for this queue pair.
    #[inline]
    pub(super) fn header(&self) -> Option<proto::RxPacket> {
        match &self.present {
            Present::Wire(packet) => {
                super::wire::engine_packet(self.qp.kind, self.io.sender.as_ref(), packet)
            }
            Present::Request(request) => Some(*request.packet),
            Present::Nothing => None,
        }
    }

    /// Returns whether the last request came from a peer on this device.
    #[inline]
    pub(super) fn is_loopback(&self) -> bool {
        self.io.loopback
    }

    /// Passes kept packets that are now due to `engine`. Returns whether the current packet must be
    /// parked.
    #[cold]
    pub(super) fn hand_in_early(&mut self, engine: &mut RecvSide<KVec<proto::Resource>>) -> bool {
        let qp = self.qp;
        while let Some(packet) = self.io.early.take(&qp.dev, |psn| engine.is_due(psn)) {
            self.set_packet(packet);
            let Some(header) = self.header() else {
                continue;
            };
            match engine.on_request(&header, self) {
                Disposition::Parked => return true,
                // A due packet is not early; if it were, it would count as lost.
                Disposition::Early | Disposition::Done | Disposition::Dropped(_) => {}
            }
        }
        false
    }

    /// Returns whether the half waits for absent memory, and notes the fault to resolve.
    fn waits(&mut self) -> bool {
        let fault = self.batch.take_absent();
        if fault.is_none() && matches!(self.present, Present::Request(_)) {
            // The requester's own memory is absent; the requester notes the fault.
            return true;
        }
        let waits = self.qp.recv_parking.is_hopeful(fault);
        if waits {
            self.notes.fault = fault;
        }
        waits
    }

    /// Converts a failed access to local buffers.
    fn local_fault(&mut self, error: MemError) -> LocalFault {
        match error {
            MemError::Absent if self.waits() => LocalFault::Absent,
            error => LocalFault::Status(error.wc_status()),
        }
    }

    /// Converts a failed access by the peer.
    fn remote_fault(&mut self, error: MemError) -> RemoteFault {
        match error {
            MemError::Absent if !self.waits() => RemoteFault::Access,
            error => error.into(),
        }
    }

    /// Ends the turn and sends its packets.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        if let Some(sender) = &mut self.io.sender {
            self.notes.congested |= sender.flush(&self.qp.dev);
        }
    }

    /// Drops the current packet.
    #[inline(always)]
    pub(super) fn drop_packet(&mut self) {
        self.present = Present::Nothing;
    }

    /// Returns the network header of the current packet as a datagram's receiver sees it.
    #[inline]
    fn grh(&self) -> [u8; 40] {
        match &self.present {
            Present::Wire(packet) => packet.grh(),
            Present::Request(request) => *request.grh.unwrap_or(&[0; 40]),
            Present::Nothing => [0; 40],
        }
    }

    /// [`RecvHost::scatter_datagram`] into a buffer that is not contiguous, as one that crosses a
    /// page, or not accessible.
    #[inline(never)]
    fn scatter_datagram_in_pieces(&mut self, grh: &[u8; 40], len: u32) -> Result<(), LocalFault> {
        // CAST: u32 to usize, lossless on the supported 64-bit machines.
        let all = grh.len().saturating_add(len as usize);
        let mut rooms = self.io.current.reach(all, self.batch).map(Reach::rooms);
        let first = rooms.as_mut().and_then(Iterator::next);
        let (Some(rooms), Some((head, body))) =
            (rooms, first.and_then(|room| room.split_at(grh.len())))
        else {
            return self.scatter_datagram_in_parts(len);
        };
        let written = head.fill(grh).ok_or(MemError::ListTooShort);
        let done = written.and_then(|_head| {
            let mut at = body.len();
            self.present.write(0, body)?;
            for room in rooms {
                let some = room.len();
                self.present.write(at, room)?;
                at = at.saturating_add(some);
            }
            if at == len as usize {
                Ok(())
            } else {
                Err(MemError::Range)
            }
        });
        done.map_err(|error| self.local_fault(error))
    }

    /// Returns the network properties of the current packet.
    fn network(&self) -> Network {
        match &self.present {
            Present::Wire(packet) => Network {
                is_v6: packet.is_v6(),
                vlan: packet.vlan(),
            },
            Present::Request(request) => request.network,
            Present::Nothing => Network::default(),
        }
    }
}

impl Keeper for RecvWorld<'_, '_> {
    #[inline]
    fn take_packet(&mut self) -> Option<RxPacket> {
        match core::mem::replace(&mut self.present, Present::Nothing) {
            Present::Wire(packet) => Some(packet),
            Present::Request(_) | Present::Nothing => None,
        }
    }

    #[inline]
    fn stash(&self) -> &Stash {
        &self.io.early
    }

    fn stash_mut(&mut self) -> (&Dev, &mut Stash) {
        (&self.qp.dev, &mut self.io.early)
    }
}

impl RecvHost for RecvWorld<'_, '_> {
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        let failed = TxError::BadPayload(WcStatus::RemOp);
        if let Some(answers) = &mut self.answers {
            return loopback::answer(self.qp, answers, self.batch, packet);
        }
        if self.io.loopback {
            // If there is no requester to fetch it, the response counts as lost.
            return match self.qp.poke() {
                true => Err(TxError::Blocked),
                false => Ok(()),
            };
        }
        let mut fault = None;
        let batch = &mut *self.batch;
        let sender = self.io.sender.as_mut().ok_or(failed)?;
        let sent = sender.send(&self.qp.dev, packet, |to| {
            let filled = match packet.payload {
                Payload::None => Ok(to.nothing()),
                Payload::Bytes(bytes) => copy_bytes(to, &bytes),
                Payload::Remote { key, va, len: _ } => batch.read_remote(key, va, to),
                Payload::Slot { .. } => Err(MemError::ListTooShort),
            };
            filled.map_err(|error| {
                fault = Some(error);
                EFAULT
            })
        });
        match fault.map(|error| self.remote_fault(error)) {
            Some(RemoteFault::Absent) => Err(TxError::Blocked),
            Some(RemoteFault::Access | RemoteFault::Misaligned | RemoteFault::Failed) => {
                Err(failed)
            }
            None => sent,
        }
    }

    fn take_recv(&mut self) -> RecvFetch {
        match &mut self.io.source {
            Source::Own(queue) => queue.take(&mut self.io.current),
            Source::Shared(srq) => srq.take(&mut self.io.current),
        }
    }

    fn flush_recv(&mut self) -> RecvFetch {
        match &mut self.io.source {
            Source::Own(queue) => queue.take(&mut self.io.current),
            Source::Shared(_) => RecvFetch::Empty,
        }
    }

    fn scatter_recv(&mut self, offset: u32) -> Result<(), LocalFault> {
        let current = &mut self.io.current;
        let batch = &mut *self.batch;
        match &mut self.present {
            Present::Wire(packet) => current.scatter(offset, packet.payload(), batch),
            Present::Request(Request { packet, fill, .. }) => {
                current.scatter_by(offset, packet.len as usize, fill, batch)
            }
            Present::Nothing => Err(MemError::ListTooShort),
        }
        .map_err(|error| self.local_fault(error))
    }

    fn scatter_datagram(&mut self, len: u32) -> Result<(), LocalFault> {
        let grh = self.grh();
        // CAST: u32 to usize, lossless on the supported 64-bit machines.
        let all = grh.len().saturating_add(len as usize);
        let room = self.io.current.room(all, self.batch);
        let Some((head, body)) = room.and_then(|room| room.split_at(grh.len())) else {
            return self.scatter_datagram_in_pieces(&grh, len);
        };
        let written = head.fill(&grh).ok_or(MemError::ListTooShort);
        let done = written.and_then(|_head| self.present.write(0, body));
        done.map_err(|error| self.local_fault(error))
    }

    fn scatter_grh(&mut self) -> Result<(), LocalFault> {
        let grh = self.grh();
        let current = &mut self.io.current;
        current
            .scatter(0, &grh, self.batch)
            .map_err(|error| self.local_fault(error))
    }

    fn check_remote(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: AccessFlags,
    ) -> Result<(), RemoteFault> {
        Ok(self.batch.check_remote(key, va, len, access.0)?)
    }

    fn write_remote(&mut self, key: Key, va: u64) -> Result<(), RemoteFault> {
        let done = match &mut self.present {
            Present::Wire(packet) => self.batch.write_remote(key, va, packet.payload()),
            Present::Request(Request { packet, fill, .. }) => {
                let len = packet.len as usize;
                self.batch.write_remote_by(key, va, len, fill)
            }
            Present::Nothing => return Err(RemoteFault::Failed),
        };
        done.map_err(|error| self.remote_fault(error))
    }

    fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteFault> {
        let done = self.batch.atomic(key, va, op);
        done.map_err(|error| self.remote_fault(error))
    }

    fn atomic_write(&mut self, key: Key, va: u64) -> Result<(), RemoteFault> {
        let mut value = [0; 8];
        let filled = match &mut self.present {
            Present::Wire(packet) => {
                value = *packet.payload().first_chunk().ok_or(RemoteFault::Failed)?;
                Ok(())
            }
            Present::Request(request) => (request.fill)(0, Room::of(&mut value), Locks::Free),
            Present::Nothing => return Err(RemoteFault::Failed),
        };
        let done = filled.and_then(|()| self.batch.atomic_write(key, va, value));
        done.map_err(|error| self.remote_fault(error))
    }

    fn flush(&mut self, key: Key, va: u64, len: u32, what: FlushKind) -> Result<(), RemoteFault> {
        let psn = self.header().map(|packet| packet.psn);
        let mut so_far = match self.io.flushed.take() {
            Some((of, so_far)) if psn == Some(of) => so_far,
            Some(_) | None => 0,
        };
        let fault = match self.batch.flush(key, va, len, what, &mut so_far) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                // As for absent memory, but there is nothing to wait for.
                self.notes.flushes = true;
                RemoteFault::Absent
            }
            Err(error) => self.remote_fault(error),
        };
        if fault == RemoteFault::Absent {
            self.io.flushed = psn.map(|psn| (psn, so_far));
        }
        Err(fault)
    }

    fn invalidate(&mut self, key: Key) -> Result<(), RemoteFault> {
        Ok(self.batch.invalidate(key, true)?)
    }

    fn complete(&mut self, completion: &RecvCompletion) {
        let network = self.network();
        let cqe = Cqe::of_recv(completion, self.qp.origin, network);
        self.notes.posted(self.qp.recv_cq.post(&cqe));
    }

    fn event(&mut self, event: QpEvent) {
        self.notes.event(event);
    }

    fn count(&mut self, what: proto::Counter) {
        self.qp.counters().inc(what.into());
    }
}
