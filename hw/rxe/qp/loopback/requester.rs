// SPDX-License-Identifier: GPL-2.0

//! The requester's side of loopback: passes on requests, fetches and handles responses.
//!
//! Context: the runner of the send half; softirq, or bottom halves off.

use super::super::recv::RecvHalf;
use super::super::send::SendIo;
use super::super::send::SendWorld;
use super::super::Qp;
use super::answers::received;
use super::answers::Answer;
use super::answers::Answers;
use super::visit::Handed;
use super::visit::Visit;
use super::LoopbackPeer;
use super::Read;
use super::Request;
use super::PIECE;
use crate::counters::Counter;
use crate::mem::Batch;
use crate::mem::Fault;
use crate::mem::Locks;
use crate::mem::MemError;
use crate::mem::Part;
use crate::mem::Room;
use crate::proto;
use crate::proto::Disposition;
use crate::proto::LocalFault;
use crate::proto::Nanos;
use crate::proto::Payload;
use crate::proto::Progress;
use crate::proto::QpState;
use crate::proto::QpType;
use crate::proto::SendSide;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::proto::WcStatus;
use crate::queue::lazy::LazyVec;
use crate::queue::work::SendQueue;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;

/// Reads the payload of a request for a peer on this device. The payload was checked before, but may
/// have become unreadable since: pages may have become absent, and the user may have deregistered
/// or changed the region.
pub(super) struct Data<'d, 'b> {
    source: Source<'d, 'b>,
    /// Why it could not be read.
    failed: Option<MemError>,
}

enum Source<'d, 'b> {
    /// Contiguous memory, which the check has found: no further lookup is needed.
    Whole(Part<'d>),
    /// Everything else.
    Pieces {
        payload: Payload,
        queue: &'d mut SendQueue,
        batch: &'d mut Batch<'b>,
    },
}

/// Checks that the payload of a request can be read now, and calls `hand` to read it.
///
/// # Errors
///
/// The reason why it may not be read; `hand` is not called then.
#[inline(always)]
pub(super) fn with_data<R>(
    packet: &TxPacket,
    queue: &mut SendQueue,
    batch: &mut Batch<'_>,
    hand: impl FnOnce(&mut Data<'_, '_>) -> R,
) -> Result<R, MemError> {
    let payload = packet.payload;
    if let Payload::Slot { slot, offset, len } = payload {
        if let Some(part) = queue.source(slot, offset, len, batch) {
            return Ok(hand(&mut Data {
                source: Source::Whole(part),
                failed: None,
            }));
        }
        queue.check_gather(slot, offset, len, batch)?;
    }
    let source = Source::Pieces {
        payload,
        queue,
        batch,
    };
    Ok(hand(&mut Data {
        source,
        failed: None,
    }))
}

impl Data<'_, '_> {
    /// Copies the payload from offset `at` on into `room`.
    ///
    /// # Errors
    ///
    /// `Locked` if it must be called again without a lock. Otherwise `Absent`, whatever failed: an
    /// error in the requester's memory must not affect the peer, which then leaves the request as if
    /// it had not come. [`failed`](Self::failed) tells the requester.
    pub(super) fn fill(&mut self, at: usize, room: Room<'_>, locks: Locks) -> Result<(), MemError> {
        match self.read(at, room, locks) {
            Ok(()) => Ok(()),
            Err(MemError::Locked) => Err(MemError::Locked),
            Err(error) => {
                self.failed = Some(error);
                Err(MemError::Absent)
            }
        }
    }

    fn read(&mut self, at: usize, room: Room<'_>, locks: Locks) -> Result<(), MemError> {
        let (payload, queue, batch) = match &mut self.source {
            Source::Whole(part) => {
                let part = part.slice(at, room.len());
                return part
                    .and_then(|part| part.read(room))
                    .map(drop)
                    .ok_or(MemError::ListTooShort);
            }
            Source::Pieces {
                payload,
                queue,
                batch,
            } => (*payload, queue, batch),
        };
        match payload {
            Payload::Slot { slot, offset, .. } => {
                let at = u32::try_from(at).ok().and_then(|at| offset.checked_add(at));
                let at = at.ok_or(MemError::ListTooShort)?;
                queue.gather(slot, at, room, locks, batch).map(drop)
            }
            Payload::Bytes(bytes) => bytes
                .get(at..)
                .and_then(|bytes| room.fill(bytes))
                .map(drop)
                .ok_or(MemError::ListTooShort),
            Payload::None | Payload::Remote { .. } => Err(MemError::ListTooShort),
        }
    }

    /// Returns why the payload could not be read, if so.
    #[inline]
    pub(super) fn failed(&self) -> Option<MemError> {
        self.failed
    }
}

/// What a request to the peer on this device finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiver {
    /// The peer, which is being visited.
    Visited,
    /// The peer's receive half is busy.
    Busy,
    /// It must handle a packet first that waits for memory.
    Parked,
    /// The peer expects requests from another address.
    Nobody,
}

/// Begins a visit to the peer of a connected queue pair, and returns its receive half. If that is busy,
/// the peer restarts the requester when it is not, and `None` is returned.
fn take_peer<'v, 'a>(
    visit: &'v mut Visit<'a>,
    peer: ArcBorrow<'a, Qp>,
) -> Option<&'v mut RecvHalf> {
    if !visit.begin(peer) {
        // The holder checks the flag after it releases the token, which may be now.
        let _: u32 = peer.recv_wanted.xchg(1, Full);
        if !visit.begin(peer) {
            return None;
        }
    }
    let half = visit.half()?.state();
    half.io.loopback = true;
    Some(half)
}

impl Qp {
    /// Sends requests, handles the responses of a peer on this device, and sends what they permit,
    /// up to the budget of a turn.
    pub(in crate::qp) fn converse(
        engine: &mut SendSide<LazyVec<proto::Slot>>,
        host: &mut SendWorld<'_>,
        at: Nanos,
        left: u32,
    ) -> Progress {
        loop {
            host.spent.peer_faults = false;
            let progress = engine.poll(at, host, left);
            if !host.qp.kind.is_datagram() {
                host.end_visit_to_peer();
            }
            let heard = host.hear(engine, at);
            if host.spent.busy || host.spent.parked {
                return Progress::Blocked;
            } else if host.io.link.owed {
                return Progress::More;
            } else if !heard || (progress == Progress::Idle && !engine.has_unsent()) {
                // A concurrent poster kicks the half.
                return progress;
            } else if host.spent.all() {
                return Progress::More;
            }
        }
    }
}

impl<'a> SendWorld<'a> {
    /// Returns the peer, if loopback can be used now.
    #[inline]
    fn loopback_peer(&mut self) -> Option<LoopbackPeer<'a>> {
        match self.loopback_peer {
            Some(None) => None,
            Some(Some(_)) | None => self.look_for_peer(),
        }
    }

    fn look_for_peer(&mut self) -> Option<LoopbackPeer<'a>> {
        let found = match self.loopback_peer {
            Some(found) => found,
            None => {
                let found = self.find_loopback_peer();
                *self.loopback_peer.insert(found)
            }
        };
        // The peer may have failed or gone away since the turn began.
        found.filter(|there| {
            there.qp.hears_requests() && there.qp.dest.load(Relaxed) == self.qp.number
        })
    }

    fn find_loopback_peer(&mut self) -> Option<LoopbackPeer<'a>> {
        if self.qp.kind.is_datagram() || (self.qp.kind == QpType::Uc && self.io.link.on_lane) {
            return None;
        }
        let network = self.io.sender.as_mut()?.loopback(&self.qp.dev)?;
        let qp = self.qp.loopback_peer(self.rcu)?;
        Some(LoopbackPeer { qp, network })
    }

    /// Returns the segment size in bytes for a message that starts now.
    pub(in crate::qp) fn cut_loopback(&mut self, mtu: u32) -> u32 {
        match self.loopback_peer() {
            Some(_) => PIECE,
            None => mtu,
        }
    }

    /// Passes a request to the peer on this device; `None` if it must be sent as a packet.
    pub(in crate::qp) fn emit_loopback(
        &mut self,
        packet: &TxPacket,
    ) -> Option<Result<(), TxError>> {
        let Some(peer) = self.loopback_peer() else {
            if packet.mtu == PIECE {
                // The path changed in the middle of the message.
                self.qp.counters().inc(Counter::SendError);
                return Some(Ok(()));
            }
            if self.qp.kind == QpType::Uc {
                self.io.link.on_lane = true;
                self.loopback_peer = Some(None);
            }
            return None;
        };
        if self.spent.all() {
            return Some(Err(TxError::Enough));
        }
        Some(self.hand_over(peer, packet))
    }

    fn hand_over(&mut self, peer: LoopbackPeer<'a>, packet: &TxPacket) -> Result<(), TxError> {
        let len = packet.payload.len();
        match self.visit_peer(peer.qp)? {
            Receiver::Visited => {}
            Receiver::Busy => {
                self.spent.busy = true;
                return Err(TxError::Blocked);
            }
            Receiver::Parked => {
                self.spent.peer_faults = true;
                return Err(TxError::Blocked);
            }
            Receiver::Nobody => {
                let checked = with_data(packet, &mut self.io.queue, &mut self.batch, |_| ());
                checked.map_err(|error| self.refused(error))?;
                self.spent.add(len);
                return Ok(());
            }
        }
        let Self {
            io, batch, visit, ..
        } = self;
        let SendIo { queue, .. } = &mut **io;
        let failed = TxError::BadPayload(WcStatus::LocQpOp);
        let half = visit.half().ok_or(failed)?;
        // Errors in local memory must not affect the peer.
        let handed = with_data(packet, queue, batch, |data| {
            let handed = half.receive(Request {
                packet: &received(packet),
                network: peer.network,
                grh: None,
                fill: &mut |at, room, locks| data.fill(at, room, locks),
            });
            half.state().requester_waits = handed == Handed::Parked;
            (handed, data.failed())
        });
        let is_responding = half.state().engine.is_responding();
        match handed.map_err(|error| self.refused(error))? {
            (Handed::Over, _) => {
                self.spent.add(len);
                if is_responding {
                    // The peer sends its responses now: it may have room for one such request only.
                    self.end_visit_to_peer();
                }
                Ok(())
            }
            (Handed::Dropped, _) => {
                self.spent.add(len);
                // If no receive request was posted, the consumer can post one when it is notified.
                self.end_visit_to_peer();
                Ok(())
            }
            (Handed::Parked, Some(error)) => Err(self.refused(error)),
            (Handed::Parked, None) => {
                self.spent.peer_faults = true;
                Err(TxError::Blocked)
            }
        }
    }

    /// Visits the peer, unless this is the present visit.
    #[inline]
    fn visit_peer(&mut self, peer: ArcBorrow<'a, Qp>) -> Result<Receiver, TxError> {
        if self.visit.goes_on(peer.number) {
            return Ok(Receiver::Visited);
        }
        self.begin_visit_to_peer(peer)
    }

    #[inline(never)]
    fn begin_visit_to_peer(&mut self, peer: ArcBorrow<'a, Qp>) -> Result<Receiver, TxError> {
        self.end_visit_to_peer();
        let from = self.io.sender.as_ref().map(|sender| sender.path().addrs());
        let from = from.ok_or(TxError::BadPayload(WcStatus::LocQpOp))?;
        let Some(half) = take_peer(&mut self.visit, peer) else {
            return Ok(Receiver::Busy);
        };
        let to = half.io.sender.as_ref();
        let receiver = if !to.is_some_and(|to| to.path().addrs().is_answered_by(from)) {
            half.requester_waits = false;
            Receiver::Nobody
        } else if half.parked.is_some() {
            // Nothing may overtake a parked packet from the network.
            half.requester_waits = true;
            Receiver::Parked
        } else {
            return Ok(Receiver::Visited);
        };
        self.end_visit_to_peer();
        Ok(receiver)
    }

    /// Ends the present visit to the peer of a connected queue pair, and takes its responses.
    #[inline]
    fn end_visit_to_peer(&mut self) {
        let link = &mut self.io.link;
        if let Some(owed) = self.visit.end_with(&mut link.answers) {
            link.owed = owed;
        }
    }

    /// Converts the failure to read a request's buffers.
    pub(super) fn refused(&mut self, error: MemError) -> TxError {
        match self.local_fault(error) {
            LocalFault::Absent => TxError::Blocked,
            LocalFault::Status(status) => TxError::BadPayload(status),
        }
    }

    /// Returns whether responses are present; between turns, these wait for memory.
    pub(in crate::qp) fn has_answers(&self) -> bool {
        !self.io.link.answers.is_empty()
    }

    /// Returns whether the engine has nothing to take from the ring or from a peer on this device.
    #[inline]
    pub(in crate::qp) fn is_quiet(&self) -> bool {
        self.io.sq_empty && !self.io.link.owed && !self.has_answers()
    }

    /// Passes the peer's responses to the engine and fetches those that it still owes. Returns
    /// whether there were any.
    pub(in crate::qp) fn hear(
        &mut self,
        engine: &mut SendSide<LazyVec<proto::Slot>>,
        now: Nanos,
    ) -> bool {
        let mut heard = false;
        loop {
            while let Some(answer) = self.io.link.answers.pop() {
                let packet = answer.packet;
                self.set_answer(answer);
                // The engine counts other dispositions where they matter.
                if engine.on_response(now, &packet, self) == Disposition::Parked {
                    if core::mem::take(&mut self.spent.lost) {
                        self.lose_answers();
                        return heard;
                    }
                    self.io.link.answers.put_back(answer);
                    self.spent.parked = true;
                    self.drop_answer();
                    return heard;
                }
                heard = true;
                self.spent.bytes = self.spent.bytes.saturating_add(packet.len);
                self.spent.answers = self.spent.answers.saturating_add(1);
            }
            self.drop_answer();
            if !self.io.link.owed || self.spent.all() || self.spent.busy {
                return heard;
            }
            self.fetch();
        }
    }

    /// Discards the responses of a peer that is gone, as a wire would have lost them: the request
    /// times out.
    #[cold]
    fn lose_answers(&mut self) {
        self.drop_answer();
        self.io.link.answers = Answers::NONE;
        self.io.link.owed = false;
    }

    /// Fetches responses that the peer owes.
    fn fetch(&mut self) {
        let link = &mut self.io.link;
        let peer = match self.qp.state() {
            QpState::Rts | QpState::Sqd => self.qp.loopback_peer(self.rcu),
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe | QpState::Err => None,
        };
        let Some(peer) = peer else {
            link.owed = false;
            return;
        };
        if take_peer(&mut self.visit, peer).is_none() {
            self.spent.busy = true;
            return;
        }
        self.end_visit_to_peer();
        // The peer keeps responses only if it has filled the available room.
        let link = &mut self.io.link;
        link.owed &= !link.answers.is_empty();
    }

    /// Copies response data of the peer into the buffers of a request.
    ///
    /// # Errors
    ///
    /// The status with which the request fails; or `Absent` if memory of either side is absent.
    pub(in crate::qp) fn scatter_answer(
        &mut self,
        answer: &Answer,
        slot: u32,
        offset: u32,
    ) -> Result<(), LocalFault> {
        let Payload::Remote { key, va, len } = answer.payload else {
            return Err(WcStatus::LocQpOp.into());
        };
        let mut theirs = Batch::new(&self.qp.dev.memory, answer.pd, answer.tag);
        let mut gone = false;
        let mut fill = |at: usize, room: Room<'_>, locks: Locks| {
            // The peer's region is looked up, and may have a lock of its own.
            if locks == Locks::Held {
                return Err(MemError::Locked);
            }
            let at = u64::try_from(at).ok().and_then(|at| va.checked_add(at));
            let read = theirs.read_remote(key, at.ok_or(MemError::Range)?, room);
            gone |= read.is_err();
            read.map(drop)
        };
        let batch = &mut self.batch;
        let done = self
            .io
            .queue
            .scatter_by(slot, offset, len as usize, &mut fill, batch);
        let fault = theirs.take_absent();
        match (done, fault) {
            (Ok(()), _) => Ok(()),
            (Err(MemError::Absent), Some(fault)) if gone => Err(self.ask_peer(answer, fault)),
            // It was accessible when the peer replied.
            (Err(_), _) if gone => Err(WcStatus::RemAccess.into()),
            (Err(error), _) => Err(self.local_fault(error)),
        }
    }

    /// Has the peer that sent a response fault in its memory, from which the data are read.
    #[cold]
    fn ask_peer(&mut self, answer: &Answer, fault: Fault) -> LocalFault {
        let peer = self.qp.loopback_peer(self.rcu);
        let peer = peer.filter(|peer| peer.tag == answer.tag);
        match peer.map_or(Read::Lost, |peer| Qp::fault_for_requester(peer, fault)) {
            Read::Waits => self.spent.peer_faults = true,
            Read::Busy => self.spent.busy = true,
            Read::Refused => return WcStatus::RemAccess.into(),
            Read::Lost => self.spent.lost = true,
        }
        LocalFault::Absent
    }
}
