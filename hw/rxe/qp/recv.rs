// SPDX-License-Identifier: GPL-2.0

//! The world of the engine's receive half: receive queue, remote memory, wire,
//! completions.

use super::counter;
use super::send::copy_bytes;
use super::wire::Sender;
use super::Notes;
use super::Qp;
use crate::cq::Cqe;
use crate::mem::Batch;
use crate::mem::MemError;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::proto;
use crate::proto::AccessFlags;
use crate::proto::AtomicOp;
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
use crate::srq::Srq;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the receive token guards.
pub(super) struct RecvHalf {
    pub(super) engine: RecvSide<KVec<proto::Resource>>,
    pub(super) io: RecvIo,
    /// Requests taken off the queue and not handled yet.
    pub(super) backlog: Option<RxBatch>,
    /// The request in hand, which waits for memory and comes before the backlog.
    pub(super) parked: Option<RxPacket>,
}

/// Where receive requests come from.
pub(super) enum Source {
    /// The queue pair's own queue.
    Own(RecvQueue),
    /// One that it shares.
    Shared(Arc<Srq>),
}

/// The host's share of the receive half.
pub(super) struct RecvIo {
    pub(super) source: Source,
    /// The buffers of the request in hand.
    current: RecvBuffers,
    /// The way back to the peer of a connected queue pair.
    pub(super) sender: Option<Sender>,
}

impl RecvHalf {
    /// The half of a queue pair in reset.
    pub(super) fn new(source: Source, max_sge: u32, attr: proto::RecvAttr) -> Result<Self> {
        Ok(Self {
            engine: RecvSide::new(KVec::new(), attr),
            io: RecvIo {
                source,
                current: RecvBuffers::new(usize::try_from(max_sge)?)?,
                sender: None,
            },
            backlog: None,
            parked: None,
        })
    }
}

impl RecvIo {
    /// The host for one turn.
    pub(super) fn host<'a>(&'a mut self, qp: &'a Qp) -> RecvWorld<'a> {
        RecvWorld {
            batch: qp.batch(),
            qp,
            io: self,
            packet: None,
            notes: Notes::NONE,
        }
    }

    /// Forgets all requests of the queue pair's own queue; the engine does too.
    pub(super) fn reset(&mut self) {
        if let Source::Own(queue) = &mut self.source {
            queue.reset();
        }
    }
}

/// Implements the engine's wishes for one turn.
pub(super) struct RecvWorld<'a> {
    qp: &'a Qp,
    io: &'a mut RecvIo,
    batch: Batch<'a>,
    packet: Option<RxPacket>,
    notes: Notes,
}

impl RecvWorld<'_> {
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
        let waits = self.qp.recv_parking.is_hopeful(fault);
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

    /// What a failed access by the peer means for the engine.
    fn remote_fault(&mut self, error: MemError) -> RemoteFault {
        match error {
            MemError::Absent if !self.waits() => RemoteFault::Access,
            error => error.into(),
        }
    }

    /// Ends the turn: lets go of all memory.
    pub(super) fn finish(self) -> Notes {
        self.notes
    }

    fn payload(&self) -> &[u8] {
        self.packet.as_ref().map_or(&[], RxPacket::payload)
    }
}

impl RecvHost for RecvWorld<'_> {
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        let failed = TxError::BadPayload(WcStatus::RemOp);
        let mut fault = None;
        let batch = &mut self.batch;
        let fill = |to: &mut [u8]| -> Result {
            let filled = match packet.payload {
                Payload::None => Ok(()),
                Payload::Bytes(bytes) => copy_bytes(to, &bytes),
                Payload::Remote { key, va, len: _ } => batch.read_remote(key, va, to),
                Payload::Slot { .. } => Err(MemError::ListTooShort),
            };
            filled.map_err(|error| {
                fault = Some(error);
                EFAULT
            })
        };
        let sender = self.io.sender.as_mut().ok_or(failed)?;
        let sent = sender.send(&self.qp.dev, packet, fill);
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
        let payload = self.packet.as_ref().map_or(&[][..], RxPacket::payload);
        let current = &mut self.io.current;
        current
            .scatter(offset, payload, &mut self.batch)
            .map_err(|error| self.local_fault(error))
    }

    fn scatter_grh(&mut self) -> Result<(), LocalFault> {
        let grh = self.packet.as_ref().map_or([0; 40], RxPacket::grh);
        let current = &mut self.io.current;
        current
            .scatter(0, &grh, &mut self.batch)
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
        let payload = self.packet.as_ref().map_or(&[][..], RxPacket::payload);
        let done = self.batch.write_remote(key, va, payload);
        done.map_err(|error| self.remote_fault(error))
    }

    fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteFault> {
        let done = self.batch.atomic(key, va, op);
        done.map_err(|error| self.remote_fault(error))
    }

    fn atomic_write(&mut self, key: Key, va: u64) -> Result<(), RemoteFault> {
        let value = *self.payload().first_chunk().ok_or(RemoteFault::Failed)?;
        let done = self.batch.atomic_write(key, va, value);
        done.map_err(|error| self.remote_fault(error))
    }

    fn flush(&mut self, key: Key, va: u64, len: u32, what: FlushKind) -> Result<(), RemoteFault> {
        let done = self.batch.flush(key, va, len, what);
        done.map_err(|error| self.remote_fault(error))
    }

    fn invalidate(&mut self, key: Key) -> Result<(), RemoteFault> {
        Ok(self.batch.invalidate(key, true)?)
    }

    fn complete(&mut self, completion: &RecvCompletion) {
        let network = self
            .packet
            .as_ref()
            .map_or_else(Network::default, |packet| Network {
                is_v6: packet.is_v6(),
                vlan: packet.vlan(),
            });
        let cqe = Cqe::of_recv(completion, self.qp.origin, network);
        self.notes.posted(self.qp.recv_cq.post(&cqe));
    }

    fn event(&mut self, event: QpEvent) {
        self.notes.event(event);
    }

    fn count(&mut self, what: proto::Counter) {
        self.qp.counters().inc(counter(what));
    }
}
