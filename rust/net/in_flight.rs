// SPDX-License-Identifier: GPL-2.0

//! Packets that were passed to the stack and that no device has sent yet.
//!
//! An [`InFlight`] counts them for one sender: from [`Route::send`](super::Route::send) until the
//! first buffer of a train is freed, or leaves the sender's namespace. So it grows while they wait in
//! a queue of the stack or of a card.
//!
//! C header: `include/linux/skbuff.h` (`destructor`).

use core::ptr::NonNull;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use super::skb::Skb;
use crate::bindings;
use crate::module::Resident;

/// Number of packets of a sender on their way to a device; see the module.
pub struct InFlight {
    packets: Atomic<u32>,
    /// The kernel calls back as long as there are packets; `None` once the last call ends.
    resident: Option<Resident>,
}

impl InFlight {
    /// Creates a count of zero.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(resident: Resident, flags: Flags) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                packets: Atomic::new(0),
                resident: Some(resident),
            },
            flags,
        )?)
    }

    /// Returns the number of packets.
    #[inline]
    pub fn count(&self) -> u32 {
        self.packets.load(Relaxed)
    }

    /// Counts a buffer of `packets` packets, which was under construction, until it is freed.
    #[inline]
    pub(super) fn counts(this: &Arc<Self>, skb: &mut Skb, packets: u32) {
        let _: u32 = this.packets.fetch_add(packets, Relaxed);
        let token = Arc::into_raw(this.clone()).cast_mut();
        // SAFETY: The buffer is changed through this reference only (type invariant) and has no
        // destructor, since it was under construction. `ended` is called once, with the reference
        // that is passed here. The module is not unloaded before: `InFlight` has a `Resident`.
        unsafe {
            bindings::rdma_helper_skb_set_token(skb.as_raw(), Some(ended), token.cast(), packets)
        };
    }
}

/// # Safety
///
/// Only for C, as destructor of a buffer that was passed to [`InFlight::counts`].
unsafe extern "C" fn ended(skb: *mut bindings::sk_buff) {
    let mut packets = 0;
    // SAFETY: The buffer is valid (contract of this function).
    let token = unsafe { bindings::rdma_helper_skb_token(skb, &mut packets) };
    let Some(token) = NonNull::new(token.cast::<InFlight>()) else {
        return;
    };
    // SAFETY: The reference that `counts` passed, which is used up here.
    let this = unsafe { Arc::from_raw(token.as_ptr()) };
    let _: u32 = this.packets.fetch_sub(packets, Relaxed);
    // If the sender is gone, the module may be unloaded once this returns.
    if let Some(mut last) = Arc::into_unique_or_drop(this) {
        if let Some(resident) = last.as_mut().resident_mut().take() {
            resident.end_at_return();
        }
    }
}

impl InFlight {
    fn resident_mut(self: Pin<&mut Self>) -> &mut Option<Resident> {
        // SAFETY: No field is pinned structurally.
        unsafe { &mut self.get_unchecked_mut().resident }
    }
}
