// SPDX-License-Identifier: GPL-2.0

//! Handles that quick calls use.

use super::Handle;
use super::Object;
use crate::edge::device::Quick;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use rdma::edge::View;
use rdma::sync::rcu;
/// A handle that a quick call uses together with others, until dropped.
///
/// # Invariants
///
/// The handle is in the table of its open file, its object is `object`, and one of its users is this value,
/// which exists in a [`Quick`] section of the file. Its object is not destroyed meanwhile: by its
/// user only if there is no other user (`usecnt`), by the end of the file after the last call, by the
/// removal of the device after the section. So the table keeps its reference to the handle.
pub(crate) struct Used<'a, K: Object> {
    handle: NonNull<Handle<K>>,
    object: NonNull<<K::Of as View>::C>,
    _section: PhantomData<&'a Quick<'a>>,
}

impl<'a, K: Object> Used<'a, K> {
    /// Finds a handle by its number; `None` if there is none of the type, it has no object, or
    /// somebody has it alone.
    #[inline]
    pub(crate) fn find(section: &'a Quick<'_>, number: u32) -> Option<Self> {
        let reader = rcu::read_lock();
        let handle = Handle::<K>::of(section.file().idr().load(number, &reader)?)?;
        handle.try_lock(rdma::edge::uverbs::Access::Read).ok()?;
        let Some(object) = NonNull::new(handle.object_at()) else {
            // SAFETY: Locked above.
            unsafe { handle.unlock(rdma::edge::uverbs::Access::Read) };
            return None;
        };
        // INVARIANT: One that is destroyed at its user's request stays locked exclusively, and the
        // device was there after the section had begun, so no other has been destroyed.
        Some(Self {
            handle: NonNull::from(handle),
            object,
            _section: PhantomData,
        })
    }
}

impl<K: Object> Deref for Used<'_, K> {
    type Target = K::Of;

    #[inline]
    fn deref(&self) -> &K::Of {
        // SAFETY: The object stays: type invariant.
        unsafe { K::Of::view(self.object.as_ptr()) }
    }
}

impl<K: Object> Drop for Used<'_, K> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The handle exists as long as it has this user: type invariant.
        let handle = unsafe { self.handle.as_ref() };
        // SAFETY: `find` has locked the handle for this value.
        unsafe { handle.unlock(rdma::edge::uverbs::Access::Read) };
    }
}
