// SPDX-License-Identifier: GPL-2.0

//! Queue pairs 0 and 1 of a port: receives, which are always posted, and sends, of which only as
//! many are posted at a time as fit into the send queue.
//!
//! Locks: `SpecialQp::sends` and `SpecialQp::receives` are innermost. The driver is called with the
//! receives mutex held, and without spinlocks.

use super::edge::port::Change;
use super::edge::port::Gone;
use super::edge::port::Live;
use super::edge::receive::Came;
use super::edge::receive::Posted;
use super::edge::receive::RecvMad;
use super::edge::send::Claim;
use super::edge::send::Mapped;
use super::edge::send::MappedList;
use super::edge::send::SendRequest;
use super::edge::trace;
use crate::proto::mad::wire::Special;
use core::ops::Deref;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

/// Sends that are posted, and sends that wait for queue space.
struct Sends {
    /// Number of posted sends.
    posted: u32,
    /// Sequence number of the next send to be posted; may wrap.
    next: u32,
    /// Flushed sends with a lower number than this are posted again: they were flushed because
    /// another send failed.
    again_before: Option<u32>,
    /// Sends that wait for space in the send queue.
    waiting: MappedList,
}

/// The receives of a queue pair.
struct Receives {
    /// Posted buffers. `None` is a slot that waits for a buffer.
    slots: KVec<Option<Posted>>,
    /// Whether a slot is empty because a buffer could not be posted.
    missing: bool,
}

/// Send and receive state of a special queue pair.
#[pin_data]
pub(super) struct SpecialQp {
    kind: Special,
    send_limit: u32,
    mad_size: usize,
    #[pin]
    sends: SpinLockIrq<Sends>,
    #[pin]
    receives: Mutex<Receives>,
}

impl SpecialQp {
    /// An idle queue pair.
    pub(super) fn new(kind: Special, send_limit: u32, mad_size: usize) -> impl PinInit<Self> {
        pin_init!(Self {
            kind,
            send_limit,
            mad_size,
            sends <- rdma::new_spinlock_irq!(Sends {
                posted: 0,
                next: 0,
                again_before: None,
                waiting: MappedList::new(),
            }, "SpecialQp::sends"),
            receives <- new_mutex!(Receives {
                slots: KVec::new(),
                missing: false,
            }, "SpecialQp::receives"),
        })
    }

    /// Frees the posted receives. May sleep.
    pub(super) fn stop_receiving(&self, gone: &Gone<'_>) {
        for slot in self.receives.lock().slots.drain_all() {
            drop(slot.map(|posted| posted.gone(gone)));
        }
    }

    /// Takes the first waiting send if the queue has space; the caller posts it.
    fn give_room(&self, sends: &mut Sends) -> Option<Mapped> {
        if sends.posted >= self.send_limit {
            return None;
        }
        let next = sends.waiting.pop()?;
        sends.posted = sends.posted.saturating_add(1);
        number(sends, &next);
        Some(next)
    }
}

/// Assigns the next sequence number to a send.
fn number(sends: &mut Sends, send: &SendRequest) {
    send.set_number(sends.next);
    sends.next = sends.next.wrapping_add(1);
}

/// A [`SpecialQp`] of an open port.
#[derive(Clone, Copy)]
pub(super) struct SpecialRef<'a> {
    live: Live<'a>,
    state: &'a SpecialQp,
}

impl Deref for SpecialRef<'_> {
    type Target = SpecialQp;

    fn deref(&self) -> &SpecialQp {
        self.state
    }
}

impl<'a> SpecialRef<'a> {
    /// For [`Live::special`].
    pub(super) fn new(live: Live<'a>, state: &'a SpecialQp) -> Self {
        Self { live, state }
    }

    /// Posts a send, or queues it if the send queue is full. The caller has put the send
    /// into state "sent"; `transact::sent` handles its completion. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub(super) fn submit(self, send: Claim) -> Result {
        let send = send.map(self.live)?;
        let mut sends = self.sends.lock();
        let send = if sends.posted >= self.send_limit {
            match sends.waiting.push(send) {
                Ok(()) => return Ok(()),
                Err(send) => send,
            }
        } else {
            send
        };
        sends.posted = sends.posted.saturating_add(1);
        number(&mut sends, &send);
        drop(sends);
        trace::send(&send, trace::SEND);
        self.post(send).map_err(|(send, error)| {
            let send = send.finish();
            if self.give_up_room() {
                // The work posts them: if that fails, their consumers are notified, which must not
                // be done from here.
                send.agent().queue_local();
            }
            error
        })
    }

    /// Releases the queue space of a send that was not posted. Returns whether others wait for
    /// space.
    fn give_up_room(self) -> bool {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        !sends.waiting.is_empty()
    }

    /// Takes the first waiting send, if the queue has space for it; the caller posts it.
    #[must_use]
    pub(super) fn next_waiting(self) -> Option<Mapped> {
        self.give_room(&mut self.sends.lock())
    }

    /// Posts a send to the driver.
    ///
    /// # Errors
    ///
    /// Errors of the driver; `EINVAL` if there is no queue pair.
    pub(super) fn post(self, send: Mapped) -> Result<(), (Mapped, Error)> {
        match self.live.qp(self.kind) {
            Some(qp) => send.post(qp),
            None => Err((send, EINVAL)),
        }
    }

    /// Releases the queue space of a completed send. Returns the next waiting send, which takes its
    /// space and must be posted.
    #[must_use]
    pub(super) fn release(self) -> Option<Mapped> {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        self.give_room(&mut sends)
    }

    /// Returns whether a flushed send must be posted again, because it was flushed only because
    /// another one failed.
    pub(super) fn is_to_repeat(self, send: &SendRequest) -> bool {
        let mut sends = self.sends.lock();
        let Some(end) = sends.again_before else {
            return false;
        };
        // The sign of the difference tells which is older.
        let repeat = (send.number().wrapping_sub(end) as i32) < 0;
        if repeat {
            number(&mut sends, send);
        }
        repeat
    }

    /// Recovers the queue pair from the error state (SQE) after a failed send, and has those that
    /// were posted meanwhile posted again. May sleep.
    pub(super) fn recover(self) {
        let Some(qp) = self.live.qp(self.kind) else {
            return;
        };
        let change = Change {
            mask: bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_CUR_STATE,
            state: bindings::ib_qp_state_IB_QPS_RTS,
            current: bindings::ib_qp_state_IB_QPS_SQE,
            ..Change::default()
        };
        match change.apply(qp) {
            Ok(()) => {
                let mut sends = self.sends.lock();
                sends.again_before = Some(sends.next);
            }
            Err(error) => pr_err!("a management queue pair stays in error: {error:?}\n"),
        }
    }

    /// Creates `count` receive slots, and posts a receive in each. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub(super) fn start_receiving(self, count: usize) -> Result {
        let mut receives = self.receives.lock();
        while receives.slots.len() < count {
            receives.slots.push(None, GFP_KERNEL)?;
        }
        self.fill(&mut receives.slots)
    }

    /// Takes the buffer of a completed receive. Its slot is empty from now on. May sleep.
    pub(super) fn received(self, index: usize, came: &Came<'_>) -> Option<KBox<RecvMad>> {
        let mut receives = self.receives.lock();
        let slot = receives.slots.get_mut(index)?;
        match slot.take()?.completed(self.live, came) {
            Ok(buffer) => Some(buffer),
            Err(other) => {
                *slot = Some(other);
                None
            }
        }
    }

    /// Posts a receive with this buffer in an empty slot. If that fails, the slot stays empty until
    /// the next refill. May sleep.
    pub(super) fn refill(self, index: usize, buffer: KBox<RecvMad>) {
        let mut receives = self.receives.lock();
        let mut posted = match receives.slots.get_mut(index) {
            Some(slot) => self.receive(index, slot, buffer),
            None => Err(EINVAL),
        };
        if posted.is_ok() && receives.missing {
            posted = self.fill(&mut receives.slots);
        }
        receives.missing = posted.is_err();
        if let Err(error) = posted {
            pr_err!("a receive of management datagrams is missing: {error:?}\n");
        }
    }

    /// Posts a buffer in an empty slot.
    fn receive(self, index: usize, slot: &mut Option<Posted>, buffer: KBox<RecvMad>) -> Result {
        *slot = Some(buffer.post(self.live, self.kind, index)?);
        Ok(())
    }

    /// Posts a receive in each empty slot.
    fn fill(self, slots: &mut [Option<Posted>]) -> Result {
        for (index, slot) in slots.iter_mut().enumerate() {
            if slot.is_none() {
                let buffer = RecvMad::new(self.mad_size, GFP_KERNEL)?;
                self.receive(index, slot, buffer)?;
            }
        }
        Ok(())
    }
}
