// SPDX-License-Identifier: GPL-2.0

//! Queue pairs 0 and 1 of a port: receives that are always posted, and sends, of which no
//! more are given to the device at a time than it has room for.
//!
//! Locks: `SpecialQp::sends` and `SpecialQp::receives` are innermost. The driver is called
//! with the mutex of receives held, and with no spinlock.

use super::edge::port::Change;
use super::edge::port::Gone;
use super::edge::port::Live;
use super::edge::receive::Came;
use super::edge::receive::Posted;
use super::edge::receive::RecvMad;
use super::edge::send::Claim;
use super::edge::send::Mapped;
use super::edge::send::MappedList;
use super::edge::send::Send;
use super::edge::trace;
use crate::proto::mad::wire::Special;
use core::ops::Deref;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

/// What is with the device, or waits for it.
struct Sends {
    /// How many the device has.
    posted: u32,
    /// The number of the next to be posted, which may wrap.
    next: u32,
    /// Those that were posted before this one and come back flushed are posted again: the
    /// queue pair was in error for the sake of another.
    again_before: Option<u32>,
    /// Those that the device has no room for.
    waiting: MappedList,
}

/// The receives of a queue pair.
struct Receives {
    /// What the device has. None is a slot that waits for a buffer.
    slots: KVec<Option<Posted>>,
    /// Whether some slot is empty that should not be.
    missing: bool,
}

/// What is with a queue pair for management, or waits for it.
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
    /// Nothing yet.
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

    /// Frees what was posted. May sleep.
    pub(super) fn stop_receiving(&self, gone: &Gone<'_>) {
        for slot in self.receives.lock().slots.drain_all() {
            drop(slot.map(|posted| posted.gone(gone)));
        }
    }

    /// Gives room to the first send that waits, if there is room; it is to be posted.
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

/// Gives a send the next number.
fn number(sends: &mut Sends, send: &Send) {
    send.set_number(sends.next);
    sends.next = sends.next.wrapping_add(1);
}

/// A [`SpecialQp`] of a port that is open.
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

    /// Gives a send to the device, or has it wait for room. The caller has the send in the state
    /// "sent", and is called back when it is completed. Any context.
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
                // They are posted by a work: if they fail, their consumers are told, who may
                // not be called from here.
                send.agent().queue_local();
            }
            error
        })
    }

    /// One that had room was not posted. Whether others wait for that.
    fn give_up_room(self) -> bool {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        !sends.waiting.is_empty()
    }

    /// The first of those that wait, if it has room now; it is to be posted.
    #[must_use]
    pub(super) fn next_waiting(self) -> Option<Mapped> {
        self.give_room(&mut self.sends.lock())
    }

    /// Calls the driver.
    ///
    /// # Errors
    ///
    /// The driver's; `EINVAL` if there is no queue pair.
    pub(super) fn post(self, send: Mapped) -> Result<(), (Mapped, Error)> {
        match self.live.qp(self.kind) {
            Some(qp) => send.post(qp),
            None => Err((send, EINVAL)),
        }
    }

    /// The device is done with one. Returns the next, which gets its room and is to be posted.
    #[must_use]
    pub(super) fn release(self) -> Option<Mapped> {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        self.give_room(&mut sends)
    }

    /// A send was flushed: whether that is for the sake of another, so that it is to be
    /// posted again.
    pub(super) fn is_to_repeat(self, send: &Send) -> bool {
        let mut sends = self.sends.lock();
        let Some(end) = sends.again_before else {
            return false;
        };
        // The sign of the difference says which is older.
        let repeat = (send.number().wrapping_sub(end) as i32) < 0;
        if repeat {
            number(&mut sends, send);
        }
        repeat
    }

    /// A send failed, which has put the queue pair into error: makes it work again, and has
    /// those that were posted meanwhile be posted again. May sleep.
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

    /// Makes room for so many receives, and posts them. May sleep.
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

    /// A receive was completed: takes the buffer. Its slot is empty from now on. May sleep.
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

    /// Posts a receive in a slot again, with this buffer. One that cannot be posted is
    /// missing until the next comes. May sleep.
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

    /// Posts a buffer in a slot that is empty.
    fn receive(self, index: usize, slot: &mut Option<Posted>, buffer: KBox<RecvMad>) -> Result {
        *slot = Some(buffer.post(self.live, self.kind, index)?);
        Ok(())
    }

    /// Posts a receive in each slot that is empty.
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
