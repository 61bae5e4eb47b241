// SPDX-License-Identifier: GPL-2.0

//! Packets of a sender that were passed to the stack and have not left it yet.
//!
//! An [`InFlight`] counts them from [`Route::send`](super::Route::send) until the first buffer of a
//! train is freed, or a receiver's IP stack or a device that gives buffers away takes it over
//! (`skb_orphan`); a namespace's border does not end it. So the count grows while packets wait in a
//! queue of the stack or of a card. A sender that has to wait for some of
//! them to leave calls [`InFlight::wait`]; the packet that brings the count down to the mark wakes it.
//!
//! Lifetimes: each buffer has a reference to the `InFlight`, which does not keep its sender: that is
//! detached by [`InFlight::detach`]. A packet may wait in a queue indefinitely.
//!
//! Context: a buffer is freed in any context but a hard interrupt, with locks of the stack held. So its
//! destructor calls no sender: it queues a work item. It takes `InFlight::ends` only as the last user of
//! the count; under that lock, no other is taken.
//!
//! C header: `include/linux/skbuff.h` (`destructor`).

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;

use kernel::alloc::Flags;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

use super::skb::Skb;
use crate::bindings;
use crate::module::Resident;
use crate::new_spinlock_irq;
use crate::sync::SpinLockIrq;

/// The sender waits: the packet that reaches the mark wakes it.
const WAITS: u32 = 1 << 31;

/// A sender that may wait for its packets to leave.
pub trait Waiter: Send + Sync {
    /// The number of packets has fallen to the mark. Softirq, from a work item: calls do not overlap.
    fn go_on(self: Arc<Self>);
}

/// Number of packets of a sender on their way to a device; see the module.
#[pin_data]
pub struct InFlight {
    /// The number, and [`WAITS`].
    word: AtomicU32,
    /// The mark: the number of packets at which a waiting sender is woken. Written before `WAITS` is
    /// set.
    mark: AtomicU32,
    #[pin]
    ends: SpinLockIrq<Ends>,
    #[pin]
    work: Work<Self>,
}

struct Ends {
    /// `None` before the sender is attached, and after it is detached.
    waiter: Option<Arc<dyn Waiter>>,
    /// The kernel calls back as long as there are packets; `None` once the last call ends.
    resident: Option<Resident>,
}

// References may be moved.
impl Unpin for Ends {}

impl_has_work! {
    impl HasWork<Self> for InFlight { self.work }
}

impl InFlight {
    /// Creates a count of zero. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(resident: Resident, flags: Flags) -> Result<Arc<Self>> {
        // The sender may drop the last reference while a task returns from `leave`.
        resident.outlived_by_callbacks();
        let ends = Ends {
            waiter: None,
            resident: Some(resident),
        };
        Arc::pin_init(
            pin_init!(Self {
                word: AtomicU32::new(0),
                mark: AtomicU32::new(0),
                ends <- new_spinlock_irq!(ends, "rdma::InFlight::ends"),
                work <- new_work!("rdma::InFlight::work"),
            }),
            flags,
        )
    }

    /// Sets the sender to be woken. It must be detached again, since the reference is mutual.
    pub fn attach(&self, waiter: Arc<dyn Waiter>) {
        let before = self.ends.lock().waiter.replace(waiter);
        drop(before);
    }

    /// Removes the sender, which is not called any more when this returns. May sleep.
    pub fn detach(self: &Arc<Self>) {
        let waiter = self.ends.lock().waiter.take();
        drop(waiter);
        drop(crate::workqueue::disable::<Self, 0>(self));
    }

    /// Returns the number of packets; `None` while the sender waits.
    #[inline]
    pub fn count(&self) -> Option<u32> {
        let word = self.word.load(Ordering::Relaxed);
        (word & WAITS == 0).then_some(word)
    }

    /// Lets the sender wait until at most `mark` packets are in flight: it is called then. Returns
    /// false if that is so already. Called by the sender, in one context at a time.
    pub fn wait(&self, mark: u32) -> bool {
        self.mark.store(mark, Ordering::Relaxed);
        // Release: who sees the bit sees the mark.
        let before = self.word.fetch_or(WAITS, Ordering::Release);
        if before & !WAITS > mark {
            return true;
        }
        // If a packet has left meanwhile, the sender is also called, in vain.
        let _: u32 = self.word.fetch_and(!WAITS, Ordering::Relaxed);
        false
    }

    /// Counts a buffer of `packets` packets, which was under construction, until it is freed.
    #[inline]
    pub(super) fn add(this: &Arc<Self>, skb: &mut Skb, packets: u32) {
        // OVERFLOW: the buffers of 2^31 packets do not fit into memory.
        let _: u32 = this.word.fetch_add(packets, Ordering::Relaxed);
        let owner = Arc::into_raw(this.clone()).cast_mut();
        // SAFETY:
        // - the buffer is changed through this reference only (invariant of `Skb`), and has no
        //   destructor, since it was under construction;
        // - `leave` is called once, and gets the reference that is passed here;
        // - the module is not unloaded before: the object has a `Resident` until `leave` returns.
        unsafe {
            bindings::rdma_helper_skb_set_owner(skb.as_raw(), Some(leave), owner.cast(), packets);
        }
    }

    /// Subtracts `packets`, and wakes the sender if it waits for that.
    #[inline]
    fn subtract(this: &Arc<Self>, packets: u32) {
        // Acquire: the mark is that of the sender which has set `WAITS`.
        let word = this.word.fetch_sub(packets, Ordering::Acquire);
        // OVERFLOW: these packets were added before.
        let left = (word & !WAITS).wrapping_sub(packets);
        if word & WAITS != 0 && left <= this.mark.load(Ordering::Relaxed) {
            this.wake();
        }
    }

    #[cold]
    fn wake(self: &Arc<Self>) {
        // Of several packets one wakes it.
        if self.word.fetch_and(!WAITS, Ordering::Relaxed) & WAITS != 0 {
            // Fails if the work item is queued already, or the sender is detached.
            let _: Result<(), Arc<Self>> = workqueue::system_bh().enqueue(self.clone());
        }
    }
}

impl WorkItem for InFlight {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let waiter = this.ends.lock().waiter.clone();
        if let Some(waiter) = waiter {
            waiter.go_on();
        }
    }
}

/// The destructor of a buffer that [`InFlight::add`] counted.
///
/// # Safety
///
/// Only for C, which calls it once for each such buffer.
unsafe extern "C" fn leave(skb: *mut bindings::sk_buff) {
    let mut packets = 0;
    // SAFETY: The buffer is valid, and was given an owner by `add` (contract of this function).
    let owner = unsafe { bindings::rdma_helper_skb_owner(skb, &mut packets) };
    let Some(owner) = NonNull::new(owner.cast::<InFlight>()) else {
        return;
    };
    // SAFETY: This is the reference that `add` gave to the buffer; it is used up here.
    let this = unsafe { Arc::from_raw(owner.as_ptr()) };
    InFlight::subtract(&this, packets);
    // If the sender is gone, the module may be unloaded once this returns (`outlived_by_callbacks`).
    if let Some(last) = Arc::into_unique_or_drop(this) {
        let resident = last.ends.lock().resident.take();
        drop(last);
        drop(resident);
    }
}
