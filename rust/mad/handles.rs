// SPDX-License-Identifier: GPL-2.0

//! Address handles of an agent, kept for more sends to the same destinations.
//!
//! A table has one place for each hash of an address vector. The last vector of a hash has it, so a
//! lookup takes the same time however many destinations there are. Who owns the table sweeps it now
//! and then, which drops handles that were not used since the last time: a handle has a reference to
//! its local GID.
//!
//! Context: all functions may sleep.

use super::route::Key;
use crate::bindings;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

/// Number of places.
const PLACES: usize = 128;

/// An address handle, destroyed on drop.
///
/// # Invariants
///
/// It is owned by this, and in the protection domain of an agent. It is dropped before the agent is
/// unregistered.
pub(super) struct Handle(NonNull<bindings::ib_ah>);

// SAFETY: Handles are not bound to a thread (`include/rdma/ib_verbs.h`).
unsafe impl Send for Handle {}
// SAFETY: As for `Send`; it does not change.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: Owned by this, and its agent is registered (type invariant).
        unsafe { bindings::rdma_helper_mad_ah_destroy(self.0.as_ptr()) };
    }
}

impl Handle {
    /// Takes over a handle, or the error of its creation.
    ///
    /// # Errors
    ///
    /// That one; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `raw` is an error, or a handle that nobody else owns, in the protection domain of an agent
    /// that stays registered until the result is dropped.
    pub(super) unsafe fn own(raw: *mut bindings::ib_ah) -> Result<Arc<Self>> {
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: Contract of this function.
        Ok(Arc::new(Self(raw), GFP_KERNEL)?)
    }

    /// Returns the C structure, which exists as long as this.
    pub(super) fn raw(&self) -> *mut bindings::ib_ah {
        self.0.as_ptr()
    }
}

/// A handle in its place.
struct Kept {
    key: Key,
    handle: Arc<Handle>,
    /// It was used since the last sweep.
    used: bool,
}

/// A table of handles.
#[pin_data]
pub(super) struct Handles {
    #[pin]
    places: SpinLock<KVec<Option<Kept>>>,
}

impl Handles {
    /// Creates an empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Pin<KBox<Self>>> {
        let mut places = KVec::with_capacity(PLACES, GFP_KERNEL)?;
        while places.len() < PLACES {
            places.push(None, GFP_KERNEL)?;
        }
        KBox::pin_init(
            pin_init!(Self { places <- new_spinlock!(places, "Handles::places") }),
            GFP_KERNEL,
        )
    }

    /// Returns the handle of an address vector.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Handle>> {
        let mut places = self.places.lock();
        let kept = places.get_mut(key.hash() % PLACES)?.as_mut()?;
        if kept.key != *key {
            return None;
        }
        kept.used = true;
        Some(kept.handle.clone())
    }

    /// Keeps the handle of an address vector.
    pub(super) fn keep(&self, key: Key, handle: Arc<Handle>) {
        let kept = Kept {
            key,
            handle,
            used: true,
        };
        let mut places = self.places.lock();
        let old = places
            .get_mut(key.hash() % PLACES)
            .and_then(|place| place.replace(kept));
        drop(places);
        drop(old);
    }

    /// Drops the handles that were not used since the last sweep. Returns whether others are left.
    pub(super) fn sweep(&self) -> bool {
        let mut left = false;
        for at in 0..PLACES {
            let mut places = self.places.lock();
            let Some(place) = places.get_mut(at) else {
                break;
            };
            let old = place.take_if(|kept| !core::mem::take(&mut kept.used));
            left |= place.is_some();
            drop(places);
            drop(old);
        }
        left
    }

    /// Drops all handles.
    pub(super) fn clear(&self) {
        let places = core::mem::replace(&mut *self.places.lock(), KVec::new());
        drop(places);
    }
}
