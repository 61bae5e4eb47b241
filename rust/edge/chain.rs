// SPDX-License-Identifier: GPL-2.0

//! Lists of C objects, linked by a field of the objects (`struct list_head`), whose head is a field
//! of a C structure.
//!
//! A list owns its objects: adding takes an object by value, and removing returns it. The head is a
//! view for tables of [`c_struct!`](crate::c_struct). It is accessed under a lock, see
//! [`Chain::locked_by`]. C header: `include/linux/list.h`.

use super::object::Owned;
use super::View;
use crate::bindings;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::types::Opaque;

/// An object with a field that links it in lists.
///
/// # Safety
///
/// The C structure has a `list_head` at offset `AT`, which only [`Chain`]s of such objects use.
pub unsafe trait Linked: View {
    /// Offset of the field in bytes.
    const AT: usize;
}

/// The head of a list.
///
/// A reference guarantees that the list is initialised, and that its entries are the link fields of
/// objects that the list owns.
#[repr(transparent)]
pub struct Chain<K: Linked>(Opaque<bindings::list_head>, PhantomData<K>);

// SAFETY: Transparent over the head.
unsafe impl<K: Linked> View for Chain<K> {
    type C = bindings::list_head;
}

/// A list whose lock is held.
///
/// # Invariants
///
/// Nobody else uses the list during `'g`.
pub struct Locked<'g, K: Linked>(&'g Chain<K>, PhantomData<&'g mut K>);

impl<K: Linked> Chain<K> {
    /// Accesses the list while the lock of `guard` is held.
    ///
    /// # Safety
    ///
    /// That lock protects the list.
    #[inline]
    pub unsafe fn locked_by<'g, G>(&'g self, _guard: &'g mut G) -> Locked<'g, K> {
        // INVARIANT: The lock is held during `'g`, and protects the list (contract of this
        // function).
        Locked(self, PhantomData)
    }
}

impl<K: Linked> Locked<'_, K> {
    /// Links an object with a function of `list.h`.
    #[inline]
    fn link(
        &mut self,
        object: Owned<K>,
        how: unsafe extern "C" fn(*mut bindings::list_head, *mut bindings::list_head),
    ) {
        let entry = object.into_raw().as_ptr().wrapping_byte_add(K::AT).cast();
        // SAFETY: The list is initialised (guarantee of the head), and nobody else uses it (type
        // invariant). The object is in no list, since `object` owned it; the list owns it from
        // now on.
        unsafe { how(entry, self.0.raw()) };
    }

    /// Adds an object at the front.
    #[inline]
    pub fn push_front(&mut self, object: Owned<K>) {
        self.link(object, bindings::rdma_helper_qp_list_add);
    }

    /// Adds an object at the back.
    #[inline]
    pub fn push_back(&mut self, object: Owned<K>) {
        self.link(object, bindings::rdma_helper_list_add_tail);
    }

    /// Removes and returns the first object, if any.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Owned<K>> {
        let head = self.0.raw();
        // SAFETY: The list is initialised, and nobody else uses it (type invariant). Its entries
        // are objects that it owns (guarantee of the head); ownership of the removed one passes to
        // the caller.
        unsafe {
            let first = (*head).next;
            if first == head {
                return None;
            }
            bindings::rdma_helper_list_del(first);
            NonNull::new(first.wrapping_byte_sub(K::AT).cast()).map(|object| Owned::new(object))
        }
    }

    /// Iterates over the objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> + '_ {
        let head = self.0.raw();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: The list is initialised, and does not change while `self` is borrowed (type
            // invariant). Its entries are objects that it owns (guarantee of the head).
            unsafe {
                at = (*at).next;
                (at != head).then(|| K::view(at.wrapping_byte_sub(K::AT).cast()))
            }
        })
    }
}
