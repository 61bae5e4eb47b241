// SPDX-License-Identifier: GPL-2.0

//! Queue pairs 0 and 1 of a port: receives that are always posted, and sends, of which no
//! more are given to the device at a time than it has room for.
//!
//! Locks: `SpecialQp::sends` and `SpecialQp::receives` are innermost. The driver is called
//! with the mutex of receives held, and with no spinlock.

use super::buffer::Mapping;
use super::buffer::Way;
use super::receive::RecvMad;
use super::send::Send;
use super::trace;
use crate::proto::mad::wire::Special;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::to_result;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::sync::SetOnce;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

/// A pointer to an object of the device.
#[derive(Clone, Copy)]
struct Raw<T>(*mut T);

// SAFETY: Objects of devices belong to no thread; the methods that are called lock.
unsafe impl<T> core::marker::Send for Raw<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for Raw<T> {}

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
    waiting: List<Send, 1>,
}

/// What one receive has.
#[derive(Default)]
enum Slot {
    /// Nothing.
    #[default]
    Empty,
    /// A buffer that the device has.
    Posted(*mut RecvMad, Mapping),
}

// SAFETY: A posted buffer belongs to its slot, not to a thread.
unsafe impl core::marker::Send for Slot {}

/// The receives of a queue pair.
struct Receives {
    slots: KVec<Slot>,
    /// Whether some slot is empty that should not be.
    missing: bool,
}

/// A queue pair for management.
#[pin_data]
pub(super) struct SpecialQp {
    kind: Special,
    device: Raw<bindings::ib_device>,
    send_limit: u32,
    mad_size: usize,
    qp: SetOnce<Raw<bindings::ib_qp>>,
    #[pin]
    sends: SpinLockIrq<Sends>,
    #[pin]
    receives: Mutex<Receives>,
}

impl SpecialQp {
    /// One without a queue pair yet.
    ///
    /// # Safety
    ///
    /// The device stays until the queue pair was taken, if one is set.
    pub(super) unsafe fn new(
        kind: Special,
        device: *mut bindings::ib_device,
        send_limit: u32,
        mad_size: usize,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            kind,
            device: Raw(device),
            send_limit,
            mad_size,
            qp: SetOnce::new(),
            sends <- rdma::new_spinlock_irq!(Sends {
                posted: 0,
                next: 0,
                again_before: None,
                waiting: List::new(),
            }, "SpecialQp::sends"),
            receives <- new_mutex!(Receives {
                slots: KVec::new(),
                missing: false,
            }, "SpecialQp::receives"),
        })
    }

    /// The queue pair, if there is one.
    pub(super) fn qp(&self) -> Option<*mut bindings::ib_qp> {
        self.qp.as_ref().map(|qp| qp.0)
    }

    /// Which it is.
    pub(super) const fn kind(&self) -> Special {
        self.kind
    }

    /// Sets the queue pair, once.
    pub(super) fn set_qp(&self, qp: *mut bindings::ib_qp) {
        let _: bool = self.qp.populate(Raw(qp));
    }

    fn lkey(&self) -> u32 {
        // SAFETY: The queue pair and its domain are there while anybody posts.
        self.qp()
            .map_or(0, |qp| unsafe { (*(*qp).pd).local_dma_lkey })
    }

    /// Gives a send to the device, or has it wait for room. Whoever calls this has the send
    /// in the state "sent", and is called back when it is completed. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub(super) fn submit(&self, send: &Arc<Send>) -> Result {
        // SAFETY: By this function's duty the work request is ours until it is posted.
        unsafe { send.map(self.device.0, self.lkey()) }?;
        let mut sends = self.sends.lock();
        if sends.posted >= self.send_limit {
            if let Ok(item) = ListArc::try_from_arc(send.clone()) {
                sends.waiting.push_back(item);
                return Ok(());
            }
        }
        sends.posted = sends.posted.saturating_add(1);
        self.number(&mut sends, send);
        drop(sends);
        trace::send(send, trace::SEND);
        self.post(send).inspect_err(|_| {
            // SAFETY: It was not posted, so it is ours.
            unsafe { send.unmap(self.device.0) };
            if self.give_up_room() {
                // They are posted by a work: if they fail, their consumers are told, who may
                // not be called from here.
                send.agent().queue_local();
            }
        })
    }

    /// One that had room was not posted; answers whether others wait for that.
    fn give_up_room(&self) -> bool {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        !sends.waiting.is_empty()
    }

    /// The first of those that wait, which has room now and is to be posted.
    #[must_use]
    pub(super) fn next_waiting(&self) -> Option<Arc<Send>> {
        self.give_room(&mut self.sends.lock())
    }

    fn give_room(&self, sends: &mut Sends) -> Option<Arc<Send>> {
        if sends.posted >= self.send_limit {
            return None;
        }
        let next = sends.waiting.pop_front()?.into_arc();
        sends.posted = sends.posted.saturating_add(1);
        self.number(sends, &next);
        Some(next)
    }

    fn number(&self, sends: &mut Sends, send: &Send) {
        send.set_number(sends.next);
        sends.next = sends.next.wrapping_add(1);
    }

    /// Calls the driver.
    pub(super) fn post(&self, send: &Arc<Send>) -> Result {
        let qp = self.qp().ok_or(EINVAL)?;
        // The device's reference; the completion takes it back.
        let reference = Arc::into_raw(send.clone());
        // SAFETY: The queue pair is there while anybody posts; the request is valid, and
        // what it points to stays until it is completed.
        let posted = to_result(unsafe { bindings::rdma_helper_ib_post_send(qp, send.wr()) });
        if posted.is_err() {
            // SAFETY: The driver did not take it.
            drop(unsafe { Arc::from_raw(reference) });
        }
        posted
    }

    /// The device is done with one; answers the next, which has its room and is to be
    /// posted.
    #[must_use]
    pub(super) fn release(&self) -> Option<Arc<Send>> {
        let mut sends = self.sends.lock();
        sends.posted = sends.posted.saturating_sub(1);
        self.give_room(&mut sends)
    }

    /// The device is done with a send: unmaps it.
    ///
    /// # Safety
    ///
    /// It was [mapped](Send::map), and is not with the device.
    pub(super) unsafe fn unmap(&self, send: &Send) {
        // SAFETY: By this function's duty.
        unsafe { send.unmap(self.device.0) };
    }

    /// A send was flushed: whether that is for the sake of another, so that it is to be
    /// posted again.
    pub(super) fn is_to_repeat(&self, send: &Send) -> bool {
        let mut sends = self.sends.lock();
        let Some(end) = sends.again_before else {
            return false;
        };
        // The sign of the difference says which is older.
        let repeat = (send.number().wrapping_sub(end) as i32) < 0;
        if repeat {
            self.number(&mut sends, send);
        }
        repeat
    }

    /// A send failed, which has put the queue pair into error: makes it work again, and has
    /// those that were posted meanwhile be posted again. May sleep.
    pub(super) fn recover(&self) {
        let Some(qp) = self.qp() else { return };
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_RTS,
            cur_qp_state: bindings::ib_qp_state_IB_QPS_SQE,
            // SAFETY: Zeros are one.
            ..unsafe { core::mem::zeroed() }
        };
        let mask =
            bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_CUR_STATE;
        // SAFETY: The queue pair is there while it has completions.
        let done = to_result(unsafe { bindings::ib_modify_qp(qp, &mut attr, mask as i32) });
        match done {
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
    pub(super) fn start_receiving(&self, count: usize) -> Result {
        let mut receives = self.receives.lock();
        while receives.slots.len() < count {
            receives.slots.push(Slot::Empty, GFP_KERNEL)?;
        }
        self.fill(&mut receives.slots)
    }

    /// Posts a receive of a slot that is empty.
    fn receive(&self, slots: &mut [Slot], index: usize, mut buffer: KBox<RecvMad>) -> Result {
        let slot = slots.get_mut(index).ok_or(EINVAL)?;
        let qp = self.qp().ok_or(EINVAL)?;
        buffer.slot = index;
        buffer.kind = self.kind;
        buffer.cqe.done = Some(super::incoming::recv_done);
        let len = u32::try_from(buffer.area().len()).map_err(|_| EINVAL)?;
        // SAFETY: The device stays while there is a queue pair; the slot keeps the buffer
        // until it is unmapped.
        let mapping =
            unsafe { Mapping::new(self.device.0, buffer.area().as_ptr(), len, Way::FromDevice) }?;
        let buffer = KBox::into_raw(buffer);
        *slot = Slot::Posted(buffer, mapping);
        let mut sge = mapping.sge(self.lkey());
        // SAFETY: Zeros are one.
        let mut wr: bindings::ib_recv_wr = unsafe { core::mem::zeroed() };
        // SAFETY: The buffer stays where it is.
        wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(unsafe { &raw mut (*buffer).cqe });
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.next = ptr::null_mut();
        // SAFETY: The queue pair is there; the request is copied by the driver.
        let posted = to_result(unsafe { bindings::rdma_helper_ib_post_recv(qp, &wr) });
        if posted.is_err() {
            self.take(slots, index);
        }
        posted
    }

    /// Takes what a slot has.
    fn take(&self, slots: &mut [Slot], index: usize) -> Option<KBox<RecvMad>> {
        match core::mem::take(slots.get_mut(index)?) {
            Slot::Empty => None,
            Slot::Posted(buffer, mapping) => {
                // SAFETY: It was mapped for this device; the slot owned the buffer.
                Some(unsafe {
                    mapping.unmap(self.device.0);
                    KBox::from_raw(buffer)
                })
            }
        }
    }

    /// A receive was completed: takes the buffer. Its slot is empty from now on. May sleep.
    pub(super) fn received(&self, index: usize) -> Option<KBox<RecvMad>> {
        self.take(&mut self.receives.lock().slots, index)
    }

    /// Posts a receive in a slot again, with this buffer. One that cannot be posted is
    /// missing until the next comes. May sleep.
    pub(super) fn refill(&self, index: usize, buffer: KBox<RecvMad>) {
        let mut receives = self.receives.lock();
        let mut posted = self.receive(&mut receives.slots, index, buffer);
        if posted.is_ok() && receives.missing {
            posted = self.fill(&mut receives.slots);
        }
        if let Err(error) = posted {
            receives.missing = true;
            pr_err!("a receive of management datagrams is missing: {error:?}\n");
        } else {
            receives.missing = false;
        }
    }

    /// Posts a receive in each slot that is empty.
    fn fill(&self, slots: &mut [Slot]) -> Result {
        for index in 0..slots.len() {
            if matches!(slots.get(index), Some(Slot::Empty)) {
                let buffer = RecvMad::new(self.mad_size, GFP_KERNEL)?;
                self.receive(slots, index, buffer)?;
            }
        }
        Ok(())
    }

    /// Frees what was posted: the device does not use it any more. May sleep.
    pub(super) fn stop_receiving(&self) {
        let mut receives = self.receives.lock();
        for index in 0..receives.slots.len() {
            drop(self.take(&mut receives.slots, index));
        }
    }
}
