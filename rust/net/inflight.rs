// SPDX-License-Identifier: GPL-2.0

//! How many packets of a sender are inside the machine, and who wants to know.
//!
//! A sender takes a [`Token`] from its [`InFlight`] for each packet and gives it to
//! the buffer, which gives it back when it is freed, wherever that is: by the
//! network card's driver, a queueing discipline, or the receiver if it is on this
//! machine. A sender that got no token is woken when enough have come back.
//!
//! Buffers may outlive everything else of a sender. So an `InFlight` is an object
//! of its own, and a module must wait for all of them before its code goes away:
//! that is what [`Live`] is for.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering;

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use super::skb::NewSkb;
use crate::bindings;

/// Counts the [`InFlight`] objects of a module. A static of that module.
pub struct Live(AtomicUsize);

impl Live {
    /// None so far.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Waits until there is none, and no code of theirs runs. Nobody may make new
    /// ones meanwhile. May sleep, as long as packets wait in the network stack:
    /// usually not at all, but a few seconds for an address that nobody answers for.
    pub fn wait_until_none(&self) {
        while self.0.load(Ordering::Acquire) != 0 {
            fsleep(Delta::from_millis(10));
        }
        // The last destructor may still have instructions to go, with or without
        // preemption disabled.
        // SAFETY: Process context, by this function's contract.
        unsafe { bindings::rdma_helper_synchronize_rcu_tasks() };
        crate::sync::rcu::synchronize();
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

/// A sender that wants to know when it may send again.
pub trait TxWake: Send + Sync + 'static {
    /// Where objects with this waker are counted.
    fn live() -> &'static Live;

    /// There is room again. Any context but hard interrupts, also from inside
    /// [`InFlight::try_take`]: only take note and have the sending done elsewhere.
    fn wake(&self);
}

/// Counts a sender's packets. The waker is dropped with it, possibly in a softirq.
pub struct InFlight<W: TxWake> {
    count: AtomicU32,
    waiting: AtomicBool,
    high: u32,
    low: u32,
    waker: W,
}

impl<W: TxWake> InFlight<W> {
    /// A count that refuses tokens from `high` packets on, and then wakes when there
    /// are `low` or fewer.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(high: u32, low: u32, waker: W) -> Result<Arc<Self>> {
        let _: usize = W::live().0.fetch_add(1, Ordering::Relaxed);
        // Counted down by the drop, also that of a failed allocation's argument.
        Ok(Arc::new(
            Self {
                count: AtomicU32::new(0),
                waiting: AtomicBool::new(false),
                high,
                low: low.min(high.saturating_sub(1)),
                waker,
            },
            GFP_KERNEL,
        )?)
    }

    /// Packets that are in the machine now.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// A token for one packet. `None` if there are enough packets; then the waker is
    /// called, once, when there is room. Softirq or process context.
    #[inline]
    pub fn try_take(self: &Arc<Self>) -> Option<Token<W>> {
        let token = Token(self.clone());
        if self.count.fetch_add(1, Ordering::Relaxed) < self.high {
            return Some(token);
        }
        // First the flag, then the count goes down again, by the token's drop. So
        // either a later release sees the flag, or this one is the last.
        self.waiting.store(true, Ordering::SeqCst);
        None
    }
}

impl<W: TxWake> Drop for InFlight<W> {
    fn drop(&mut self) {
        let _: usize = W::live().0.fetch_sub(1, Ordering::Release);
    }
}

/// The right to have one packet in the machine. Dropping it gives it back.
pub struct Token<W: TxWake>(Arc<InFlight<W>>);

impl<W: TxWake> Token<W> {
    /// Gives the token to a buffer, which gives it back when it is freed.
    #[inline]
    pub fn attach(self, skb: &mut NewSkb) {
        let arg = Arc::as_ptr(&self.0).cast_mut();
        core::mem::forget(self);
        // SAFETY: The buffer is under construction: nobody else uses it, and it has no
        // socket. If it has a destructor already, that is called first. The argument is
        // the reference that was forgotten.
        unsafe {
            bindings::rdma_helper_skb_orphan(skb.as_raw());
            bindings::rdma_helper_skb_set_destructor_arg(skb.as_raw(), arg.cast());
            bindings::rdma_helper_skb_set_destructor(skb.as_raw(), Some(give_back::<W>));
        }
    }
}

impl<W: TxWake> Drop for Token<W> {
    #[inline]
    fn drop(&mut self) {
        let left = self
            .0
            .count
            .fetch_sub(1, Ordering::SeqCst)
            .saturating_sub(1);
        if left <= self.0.low
            && self.0.waiting.load(Ordering::SeqCst)
            && self.0.waiting.swap(false, Ordering::SeqCst)
        {
            self.0.waker.wake();
        }
    }
}

/// # Safety
///
/// For C only, as the destructor of a buffer that [`Token::attach`] set up, called
/// once.
unsafe extern "C" fn give_back<W: TxWake>(skb: *mut bindings::sk_buff) {
    // SAFETY: The buffer is valid for the call; its argument is a reference that was
    // forgotten in `attach`.
    let owner = unsafe {
        let arg = bindings::rdma_helper_skb_destructor_arg(skb);
        Arc::from_raw(arg.cast::<InFlight<W>>().cast_const())
    };
    drop(Token(owner));
}
