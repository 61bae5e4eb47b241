// SPDX-License-Identifier: GPL-2.0

//! Lists of C objects that are linked by a field of theirs (`struct list_head`), where the
//! list's head is in a structure that consumers see.
//!
//! A [`Chain`] borrows the guard of the lock that protects the list, so that what changes it
//! is alone. C header: `include/linux/list.h`.

use core::marker::PhantomData;
use core::ptr::NonNull;
use rdma::bindings;

/// A list of `T`s, linked by a field at `AT`.
///
/// # Invariants
///
/// `head` is a list whose entries are those fields of `T`s that live, and which only this
/// changes during `'g`.
pub(crate) struct Chain<'g, T, const AT: usize> {
    head: NonNull<bindings::list_head>,
    _guard: PhantomData<&'g mut T>,
}

impl<'g, T, const AT: usize> Chain<'g, T, AT> {
    /// # Safety
    ///
    /// `guard` is of the lock that protects the list, of which the entries are `list_head`s at
    /// byte `AT` of `T`s that live.
    pub(crate) unsafe fn new<G>(head: NonNull<bindings::list_head>, _guard: &'g mut G) -> Self {
        // INVARIANT: By this function's duty.
        Self {
            head,
            _guard: PhantomData,
        }
    }

    fn entry(of: NonNull<T>) -> *mut bindings::list_head {
        of.as_ptr().wrapping_byte_add(AT).cast()
    }

    /// # Safety
    ///
    /// `object` lives as long as it is in the list, and is in none now.
    pub(crate) unsafe fn push_front(&mut self, object: NonNull<T>) {
        // SAFETY: By the type invariant and this function's duty.
        unsafe { bindings::rdma_helper_qp_list_add(Self::entry(object), self.head.as_ptr()) };
    }

    /// # Safety
    ///
    /// As for [`Self::push_front`].
    pub(crate) unsafe fn push_back(&mut self, object: NonNull<T>) {
        // SAFETY: By the type invariant and this function's duty.
        unsafe { bindings::rdma_helper_list_add_tail(Self::entry(object), self.head.as_ptr()) };
    }

    /// Takes the first object out, if there is one.
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<T>> {
        // SAFETY: By the type invariant the list is valid.
        unsafe {
            let first = (*self.head.as_ptr()).next;
            if first == self.head.as_ptr() {
                return None;
            }
            bindings::rdma_helper_list_del(first);
            NonNull::new(first.wrapping_byte_sub(AT).cast())
        }
    }

    /// The objects in their order. Their addresses only: whoever holds the lock may change what
    /// it protects of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<T>> + '_ {
        let head = self.head.as_ptr();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: By the type invariant the list is valid, and nobody changes it while
            // `self` is borrowed.
            at = unsafe { (*at).next };
            (at != head).then(|| NonNull::new(at.wrapping_byte_sub(AT).cast()))?
        })
    }
}
