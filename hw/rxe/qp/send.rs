// SPDX-License-Identifier: GPL-2.0

//! Host of the engine's send half: send queue, memory, network, completions.
//!
//! [`SendIo`] lives as long as the half, [`SendWorld`] for one turn; both belong to the runner of
//! the half, except what is reached through the queue pair's `Arc`s. Context: softirq, or bottom
//! halves off.

use super::datagram::Destinations;
use super::early::Keeper;
use super::early::Stash;
use super::loopback::Answer;
use super::loopback::Link;
use super::loopback::LoopbackPeer;
use super::loopback::Spent;
use super::loopback::Visit;
use super::wire::Sender;
use super::Notes;
use super::Qp;
use crate::cq::Cqe;
use crate::device::Dev;
use crate::mem::Batch;
use crate::mem::Fault;
use crate::mem::Filled;
use crate::mem::Locks;
use crate::mem::MemError;
use crate::mem::Room;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::proto;
use crate::proto::cork::Cork;
use crate::proto::pace::Pace;
use crate::proto::Disposition;
use crate::proto::LocalFault;
use crate::proto::Nanos;
use crate::proto::Payload;
use crate::proto::QpEvent;
use crate::proto::SendCompletion;
use crate::proto::SendFetch;
use crate::proto::SendHost;
use crate::proto::SendOp;
use crate::proto::SendSide;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::proto::WcStatus;
use crate::queue::lazy::LazyVec;
use crate::queue::work::SendQueue;
use crate::wire::Psn;
use kernel::prelude::*;
use kernel::sync::rcu;

/// State guarded by the send token.
pub(super) struct SendHalf {
    pub(super) engine: SendSide<LazyVec<proto::Slot>>,
    pub(super) io: SendIo,
    /// Responses taken off the queue and not handled yet.
    pub(super) backlog: Option<RxBatch>,
    /// The current response, if it waits for memory; it precedes the backlog.
    pub(super) parked: Option<RxPacket>,
    /// Latest time at which the timer fires, if it is armed.
    pub(super) armed: Option<proto::Nanos>,
    /// State of doorbells that are held back.
    pub(super) cork: Cork,
    /// Whether completions were posted since the last doorbell.
    pub(super) completed: bool,
}

/// The host's part of the send half.
pub(super) struct SendIo {
    pub(super) queue: SendQueue,
    /// Path to the peer of a connected queue pair.
    pub(super) sender: Option<Sender>,
    /// Destinations of a datagram queue pair.
    pub(super) destinations: Destinations,
    /// State of loopback to a peer on this device.
    pub(super) link: Link,
    /// Responses that arrived early.
    pub(super) early: Stash,
    /// Notes of a change of state, for the next turn to act on.
    pub(super) noted: Option<Notes>,
    /// The ring was empty when last read, and nobody has signalled a post since.
    pub(super) sq_empty: bool,
    /// Limits the packets of `Qp::unsent`.
    pub(super) pace: Pace,
}

impl SendHalf {
    /// Creates storage for as many requests as `queue` holds.
    pub(super) fn slots(queue: &SendQueue) -> Result<LazyVec<proto::Slot>> {
        LazyVec::new(usize::try_from(queue.slots())?)
    }

    /// Creates the half of a queue pair in RESET. Inlined, since the half is large: it is built in
    /// place.
    #[inline(always)]
    pub(super) fn new(
        slots: LazyVec<proto::Slot>,
        queue: SendQueue,
        destinations: Destinations,
        attr: proto::SendAttr,
    ) -> Self {
        Self {
            engine: SendSide::new(slots, attr),
            io: SendIo {
                queue,
                sender: None,
                link: Link::NEW,
                destinations,
                early: Stash::EMPTY,
                noted: None,
                sq_empty: false,
                pace: Pace::new(),
            },
            backlog: None,
            parked: None,
            armed: None,
            cork: Cork::new(),
            completed: false,
        }
    }
}

impl SendHalf {
    /// Returns whether requests are posted or in progress, or consumers must be notified.
    pub(super) fn has_work(&self) -> bool {
        let noted = self.io.noted.as_ref();
        self.io.queue.waiting().0 != 0
            || self.engine.is_busy()
            || noted.is_some_and(|noted| !noted.is_empty())
    }
}

impl proto::Slots for LazyVec<proto::Slot> {
    #[inline]
    fn room(&self) -> u32 {
        u32::try_from(LazyVec::room(self)).unwrap_or(u32::MAX)
    }

    #[inline]
    fn put(&mut self, index: u32, slot: proto::Slot) {
        let index = index as usize;
        if index == self.len() {
            let _: Option<()> = self.make(index.saturating_add(1), slot);
        } else if let Some(place) = self.get_mut(index) {
            *place = slot;
        }
    }
}

impl SendIo {
    /// Returns the host for one turn.
    pub(super) fn host<'a>(
        &'a mut self,
        qp: &'a Qp,
        rcu: &'a rcu::Guard,
        notes: &'a mut Notes,
    ) -> SendWorld<'a> {
        // Usually there are none; move them only if there are.
        if self.noted.is_some() {
            *notes = self.noted.take().unwrap_or(Notes::NONE);
        }
        let room = match &qp.unsent {
            None => u32::MAX,
            Some(unsent) => unsent.count().map_or(0, |count| self.pace.begin(count)),
        };
        SendWorld {
            rcu,
            room,
            loopback_peer: None,
            notes,
            batch: qp.batch(),
            qp,
            io: self,
            packet: None,
            answer: None,
            spent: Spent::default(),
            visit: Visit::NONE,
        }
    }

    /// Discards all requests; the engine does the same.
    pub(super) fn reset(&mut self, dev: &Dev) {
        self.early.clear(dev);
        self.queue.reset();
        self.sq_empty = false;
        self.link = Link::NEW;
        self.destinations.reset();
        self.pace = Pace::new();
    }
}

/// Implements the engine's host interface for one turn.
pub(super) struct SendWorld<'a> {
    pub(super) qp: &'a Qp,
    pub(super) io: &'a mut SendIo,
    pub(super) batch: Batch<'a>,
    /// The packet from the network that the engine is processing.
    packet: Option<RxPacket>,
    /// The response from a peer on this device that the engine is processing; excludes `packet`.
    answer: Option<Answer>,
    pub(super) rcu: &'a rcu::Guard,
    /// Number of packets that may be sent before others have left.
    room: u32,
    /// The peer on this device, if there is one; `None` until it is looked up.
    pub(super) loopback_peer: Option<Option<LoopbackPeer<'a>>>,
    pub(super) spent: Spent,
    /// Owned by the caller, who reads them after the turn; a reference avoids moving them.
    notes: &'a mut Notes,
    /// The visit to the receiver of the last requests, if it is on this device. The last field: the
    /// consumer of datagrams is notified after the memory of this half is released.
    pub(super) visit: Visit<'a>,
}

impl SendWorld<'_> {
    /// Makes a received packet the current one.
    #[inline]
    pub(super) fn set_packet(&mut self, packet: RxPacket) {
        self.packet = Some(packet);
    }

    /// Makes a response from this device the current packet.
    pub(super) fn set_answer(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// Records that the peer on this device has responses.
    pub(super) fn fetch_soon(&mut self) {
        self.io.link.note_owed();
    }

    /// Drops the current response.
    pub(super) fn drop_answer(&mut self) {
        self.answer = None;
    }

    /// Returns the current packet for the engine, if it is for this queue pair.
    #[inline]
    pub(super) fn header(&self) -> Option<proto::RxPacket> {
        let packet = self.packet.as_ref()?;
        super::wire::engine_packet(self.qp.kind, self.io.sender.as_ref(), packet)
    }

    /// Passes kept packets that are now due to `engine`. Returns whether the current packet must be
    /// parked.
    #[cold]
    pub(super) fn hand_in_early(
        &mut self,
        engine: &mut SendSide<LazyVec<proto::Slot>>,
        now: Nanos,
    ) -> bool {
        let qp = self.qp;
        while let Some(packet) = self.io.early.take(&qp.dev, |psn| engine.is_due(psn)) {
            self.set_packet(packet);
            let Some(header) = self.header() else {
                continue;
            };
            match engine.on_response(now, &header, self) {
                Disposition::Parked => return true,
                // A due packet is not early; if it were, it would count as lost.
                Disposition::Early | Disposition::Done | Disposition::Dropped(_) => {}
            }
        }
        false
    }

    /// Returns whether the half waits for `fault`, and notes it to be resolved.
    pub(super) fn waits_for(&mut self, fault: Option<Fault>) -> bool {
        let waits = self.qp.send_parking.is_hopeful(fault);
        if waits {
            self.notes.fault = fault;
        }
        waits
    }

    /// Converts a failed access to local buffers.
    pub(super) fn local_fault(&mut self, error: MemError) -> LocalFault {
        let fault = self.batch.take_absent();
        match error {
            MemError::Absent if self.waits_for(fault) => LocalFault::Absent,
            error => LocalFault::Status(error.wc_status()),
        }
    }

    /// Returns whether requests are about to be sent, with which an acknowledgment may leave.
    #[inline]
    pub(super) fn has_company(&self) -> bool {
        self.io.sender.as_ref().is_some_and(Sender::has_company)
    }

    /// Sends an acknowledgment of the receive half together with the requests.
    pub(super) fn carry(&mut self, ack: &TxPacket) -> Result<(), TxError> {
        match &mut self.io.sender {
            Some(sender) => sender.send(&self.qp.dev, ack, |to| Ok(to.nothing())),
            None => Err(TxError::Blocked),
        }
    }

    /// Takes the room for a packet. If there is none, the turn ends, and the half waits if it must.
    #[inline]
    fn take_room(&mut self) -> Result<(), TxError> {
        match self.room.checked_sub(1) {
            Some(less) => {
                self.room = less;
                Ok(())
            }
            None => {
                self.notes.full = true;
                Err(TxError::Blocked)
            }
        }
    }

    /// Sends the datagram in `slot` to its own destination.
    fn emit_datagram(&mut self, packet: &TxPacket, slot: u32) -> Result<(), TxError> {
        let failed = TxError::BadPayload(WcStatus::LocQpOp);
        let qp = self.qp;
        let SendIo {
            queue,
            destinations,
            ..
        } = &mut *self.io;
        let route = queue.route(slot).ok_or(failed)?;
        let found = destinations.find(qp, route, &mut self.notes.congested);
        let Some(sender) = found.ok_or(failed)? else {
            // A datagram with an unusable address is lost, like any other.
            return Ok(());
        };
        let local = sender.loopback(&qp.dev);
        if let Some(network) = local.filter(|_| !sender.path().addrs().is_multicast()) {
            if let Some(handed) = self.hand_datagram(packet, network) {
                return handed;
            }
        }
        // The packet takes the lane or the network, and the last receiver must not be kept busy.
        self.end_visit();
        self.take_room()?;
        let SendIo {
            queue,
            destinations,
            ..
        } = &mut *self.io;
        let batch = &mut self.batch;
        let sender = destinations.found().ok_or(failed)?;
        let mut fault = None;
        let sent = sender.send(&qp.dev, packet, |to| {
            write_payload(packet, queue, batch, to, &mut fault)
        });
        self.sent(fault, sent)
    }

    /// Returns the result of sending a packet whose payload was not accessible if there is a
    /// `fault`.
    #[inline(always)]
    fn sent(&mut self, fault: Option<MemError>, sent: Result<(), TxError>) -> Result<(), TxError> {
        match fault.map(|error| self.local_fault(error)) {
            Some(LocalFault::Absent) => Err(TxError::Blocked),
            Some(LocalFault::Status(status)) => Err(TxError::BadPayload(status)),
            None => sent,
        }
    }

    /// Ends the turn: sends its packets. The drop, which must follow, releases memory, and then leaves
    /// the receiver of datagrams on this device, whose consumer is notified.
    #[inline(always)]
    pub(super) fn finish(&mut self) {
        if let Some(sender) = &mut self.io.sender {
            self.notes.congested |= sender.flush(&self.qp.dev);
        } else {
            self.notes.congested |= self.io.destinations.flush(&self.qp.dev);
        }
        self.notes.peer_faults = self.spent.peer_faults && !self.spent.busy;
        self.spent.count(self.qp.counters());
    }

    /// Drops the current packet.
    #[inline(always)]
    pub(super) fn drop_packet(&mut self) {
        self.packet = None;
    }
}

impl Keeper for SendWorld<'_> {
    #[inline]
    fn take_packet(&mut self) -> Option<RxPacket> {
        self.packet.take()
    }

    #[inline]
    fn stash(&self) -> &Stash {
        &self.io.early
    }

    fn stash_mut(&mut self) -> (&Dev, &mut Stash) {
        (&self.qp.dev, &mut self.io.early)
    }
}

impl SendHost for SendWorld<'_> {
    #[inline]
    fn fetch(&mut self, slot: u32) -> SendFetch {
        if self.io.sq_empty || self.io.queue.is_empty() {
            self.io.sq_empty = true;
            return SendFetch::Empty;
        }
        self.io.queue.fetch(slot)
    }

    fn retire(&mut self, _slot: u32) {
        self.io.queue.retire();
    }

    fn cut(&mut self, mtu: u32) -> u32 {
        self.cut_loopback(mtu)
    }

    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        let failed = TxError::BadPayload(WcStatus::LocQpOp);
        match packet.dest {
            proto::Dest::Datagram { slot, qpn: _ } => return self.emit_datagram(packet, slot),
            proto::Dest::Peer(_) => {}
        }
        if let Some(sent) = self.emit_loopback(packet) {
            return sent;
        }
        self.take_room()?;
        let qp = self.qp;
        let mut fault = None;
        let SendIo { queue, sender, .. } = &mut *self.io;
        let batch = &mut self.batch;
        let sender = sender.as_mut().ok_or(failed)?;
        let sent = sender.send(&qp.dev, packet, |to| {
            write_payload(packet, queue, batch, to, &mut fault)
        });
        self.sent(fault, sent)
    }

    #[inline]
    fn first_early(&self) -> Option<Psn> {
        self.io.early.first()
    }

    fn scatter(&mut self, slot: u32, offset: u32) -> Result<(), LocalFault> {
        if let Some(answer) = self.answer {
            return self.scatter_answer(&answer, slot, offset);
        }
        let Some(packet) = &self.packet else {
            return Err(WcStatus::LocQpOp.into());
        };
        let queue = &mut self.io.queue;
        queue
            .scatter(slot, offset, packet.payload(), &mut self.batch)
            .map_err(|error| self.local_fault(error))
    }

    fn scatter_u64(&mut self, slot: u32, value: u64) -> Result<(), LocalFault> {
        let queue = &mut self.io.queue;
        queue
            .scatter(slot, 0, &value.to_ne_bytes(), &mut self.batch)
            .map_err(|error| self.local_fault(error))
    }

    fn local(&mut self, slot: u32, op: &SendOp) -> Result<(), WcStatus> {
        let status = |error| match error {
            MemError::Key | MemError::Bound => WcStatus::LocQpOp,
            other => other.wc_status(),
        };
        let local = self.io.queue.local(slot).ok_or(WcStatus::LocQpOp);
        match op {
            SendOp::LocalInv { key } => self.batch.invalidate(*key, false).map_err(status),
            SendOp::RegMr => self.batch.local_op(&local?).map_err(status),
            SendOp::BindMw => (self.batch.local_op(&local?)).map_err(|_| WcStatus::MwBind),
            // Not local operations.
            SendOp::Send { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. } => Err(WcStatus::LocQpOp),
        }
    }

    fn complete(&mut self, completion: &SendCompletion) {
        let cqe = Cqe::of_send(completion, self.qp.origin);
        self.notes.completed = true;
        self.notes.posted(self.qp.send_cq.post(&cqe));
    }

    fn event(&mut self, event: QpEvent) {
        self.notes.event(event);
    }

    fn count(&mut self, what: proto::Counter) {
        self.qp.counters().inc(what.into());
    }
}

/// Writes the payload of a packet into its buffer. Stores the reason of a failure in `fault`.
#[inline(always)]
fn write_payload<'r>(
    packet: &TxPacket,
    queue: &mut SendQueue,
    batch: &mut Batch<'_>,
    to: Room<'r>,
    fault: &mut Option<MemError>,
) -> Result<Filled<'r>> {
    let filled = match packet.payload {
        Payload::None => Ok(to.nothing()),
        Payload::Bytes(bytes) => copy_bytes(to, &bytes),
        Payload::Slot { slot, offset, .. } => queue.gather(slot, offset, to, Locks::Free, batch),
        Payload::Remote { .. } => Err(MemError::ListTooShort),
    };
    filled.map_err(|error| {
        *fault = Some(error);
        EFAULT
    })
}

/// Copies `from` to the start of `to`.
pub(super) fn copy_bytes<'r>(to: Room<'r>, from: &[u8]) -> Result<Filled<'r>, MemError> {
    to.fill(from).ok_or(MemError::ListTooShort)
}
