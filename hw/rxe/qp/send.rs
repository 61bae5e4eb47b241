// SPDX-License-Identifier: GPL-2.0

//! The world of the engine's send half: send queue, memory, wire, completions.
//!
//! Everything here belongs to whoever runs the half, except what is reached through
//! the queue pair's `Arc`s.

use super::counter;
use super::wire::Sender;
use super::Notes;
use super::Qp;
use crate::ah::Ah;
use crate::cq::Cqe;
use crate::mem::Batch;
use crate::mem::MemError;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::proto;
use crate::proto::LocalFault;
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
use crate::queue::work::SendQueue;
use crate::queue::wqe::Route;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the send token guards.
pub(super) struct SendHalf {
    pub(super) engine: SendSide<KVVec<proto::Slot>>,
    pub(super) io: SendIo,
    /// Responses taken off the queue and not handled yet.
    pub(super) backlog: Option<RxBatch>,
    /// The response in hand, which waits for memory and comes before the backlog.
    pub(super) parked: Option<RxPacket>,
    /// When the timer will fire at the latest, if it is armed.
    pub(super) armed: Option<proto::Nanos>,
}

/// The host's share of the send half.
pub(super) struct SendIo {
    pub(super) queue: SendQueue,
    /// The way to the peer of a connected queue pair.
    pub(super) sender: Option<Sender>,
    /// The address handle of the datagram sent last, by its number.
    handle: Option<(u32, Arc<Ah>)>,
    /// What a change of state noted, for the next turn to act on.
    pub(super) noted: Notes,
}

impl SendHalf {
    /// The half of a queue pair in reset.
    pub(super) fn new(queue: SendQueue, attr: proto::SendAttr) -> Result<Self> {
        let count = usize::try_from(queue.slots())?;
        let slots = KVVec::from_elem(proto::Slot::EMPTY, count, GFP_KERNEL)?;
        Ok(Self {
            engine: SendSide::new(slots, attr),
            io: SendIo {
                queue,
                sender: None,
                handle: None,
                noted: Notes::NONE,
            },
            backlog: None,
            parked: None,
            armed: None,
        })
    }
}

impl SendIo {
    /// The host for one turn.
    pub(super) fn host<'a>(&'a mut self, qp: &'a Qp) -> SendWorld<'a> {
        SendWorld {
            notes: core::mem::replace(&mut self.noted, Notes::NONE),
            batch: qp.batch(),
            qp,
            io: self,
            packet: None,
        }
    }

    /// Forgets all requests; the engine does too.
    pub(super) fn reset(&mut self) {
        self.queue.reset();
        self.handle = None;
    }

    /// The address handle with this number, if the queue pair may use it.
    fn handle(&mut self, qp: &Qp, number: u32) -> Option<&Ah> {
        if self
            .handle
            .as_ref()
            .is_none_or(|(kept, ah)| *kept != number || ah.is_gone())
        {
            let found = qp.dev.ahs.get(number).filter(|ah| ah.pd == qp.pd)?;
            self.handle = Some((number, found));
        }
        self.handle.as_ref().map(|(_, ah)| &**ah)
    }
}

/// Implements the engine's wishes for one turn.
pub(super) struct SendWorld<'a> {
    qp: &'a Qp,
    io: &'a mut SendIo,
    batch: Batch<'a>,
    packet: Option<RxPacket>,
    notes: Notes,
}

impl SendWorld<'_> {
    /// Makes a received packet the present one.
    #[inline]
    pub(super) fn set_packet(&mut self, packet: RxPacket) {
        self.packet = Some(packet);
    }

    /// The present packet as the engine sees it, if it is for this queue pair.
    #[inline]
    pub(super) fn header(&self) -> Option<proto::RxPacket> {
        super::engine_packet(self.qp.kind, self.io.sender.as_ref(), self.packet.as_ref()?)
    }

    /// There is no present packet any more. Returns it.
    #[inline]
    pub(super) fn take_packet(&mut self) -> Option<RxPacket> {
        self.packet.take()
    }

    /// Whether what was not there will come, so that the half waits; it notes that then.
    fn waits(&mut self) -> bool {
        let fault = self.batch.absent();
        let waits = self.qp.send_parking.is_hopeful(fault);
        if waits {
            self.notes.fault = fault;
        }
        waits
    }

    /// What a failed access to local buffers means for the engine.
    fn local_fault(&mut self, error: MemError) -> LocalFault {
        match error {
            MemError::Absent if self.waits() => LocalFault::Absent,
            error => LocalFault::Status(error.wc_status()),
        }
    }

    /// Ends the turn: lets go of all memory.
    pub(super) fn finish(self) -> Notes {
        self.notes
    }
}

impl SendHost for SendWorld<'_> {
    fn fetch(&mut self, slot: u32) -> SendFetch {
        self.io.queue.fetch(slot)
    }

    fn retire(&mut self, _slot: u32) {
        self.io.queue.retire();
    }

    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        let failed = TxError::BadPayload(WcStatus::LocQpOp);
        let qp = self.qp;
        // A datagram's path, before the queue is borrowed for its payload.
        let datagram = match packet.dest {
            proto::Dest::Peer(_) => None,
            proto::Dest::Datagram { slot, qpn: _ } => {
                let route = self.io.queue.route(slot).ok_or(failed)?;
                let path = match route {
                    Route::Ah(number) => self.io.handle(qp, number).ok_or(failed)?.path(qp.number),
                    Route::Av(av) => qp.dev.path_of_av(&av, qp.number),
                };
                Some(path)
            }
        };
        let mut fault = None;
        let (queue, batch) = (&mut self.io.queue, &mut self.batch);
        let fill = |to: &mut [u8]| -> Result {
            let filled = match packet.payload {
                Payload::None => Ok(()),
                Payload::Bytes(bytes) => copy_bytes(to, &bytes),
                Payload::Slot { slot, offset, .. } => queue.gather(slot, offset, to, batch),
                Payload::Remote { .. } => Err(MemError::ListTooShort),
            };
            filled.map_err(|error| {
                fault = Some(error);
                EFAULT
            })
        };
        let sent = match datagram {
            None => match &mut self.io.sender {
                Some(sender) => sender.send(&qp.dev, packet, fill),
                None => return Err(failed),
            },
            // An address that leads nowhere loses the datagram, as any other would.
            Some(None) => Ok(()),
            Some(Some(path)) => Sender::new(path).send(&qp.dev, packet, fill),
        };
        match fault.map(|error| self.local_fault(error)) {
            Some(LocalFault::Absent) => Err(TxError::Blocked),
            Some(LocalFault::Status(status)) => Err(TxError::BadPayload(status)),
            None => sent,
        }
    }

    fn scatter(&mut self, slot: u32, offset: u32) -> Result<(), LocalFault> {
        let packet = self.packet.as_ref().ok_or(WcStatus::LocQpOp)?;
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
        let done = match op {
            SendOp::LocalInv { key } => self.batch.invalidate(*key, false),
            _ => {
                let op = self.io.queue.local(slot).ok_or(WcStatus::LocQpOp)?;
                self.batch.local_op(&op)
            }
        };
        done.map_err(|error| match op {
            SendOp::BindMw => WcStatus::MwBind,
            _ => match error {
                MemError::Key | MemError::Bound => WcStatus::LocQpOp,
                other => other.wc_status(),
            },
        })
    }

    fn complete(&mut self, completion: &SendCompletion) {
        let cqe = Cqe::of_send(completion, self.qp.origin);
        self.notes.posted(self.qp.send_cq.post(&cqe));
    }

    fn event(&mut self, event: QpEvent) {
        self.notes.event(event);
    }

    fn count(&mut self, what: proto::Counter) {
        self.qp.counters().inc(counter(what));
    }
}

/// Copies `from` to the start of `to`.
pub(super) fn copy_bytes(to: &mut [u8], from: &[u8]) -> Result<(), MemError> {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    Ok(())
}
