// SPDX-License-Identifier: GPL-2.0

//! Lists of C objects that are linked by a field of theirs (`struct list_head`), where the head is
//! a field of a C structure.
//!
//! A list owns its objects: adding one takes it by value, and removing one gives it back. The head
//! is a view for tables of [`c_struct!`](crate::c_struct). It is used under a lock, which
//! [`Chain::locked_by`] says. C header: `include/linux/list.h`.

use super::object::Owned;
use super::View;
use crate::bindings;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::types::Opaque;

/// An object that lists link by a field of its own.
///
/// # Safety
///
/// At byte `AT` of the C structure is a `list_head`, which only [`Chain`]s of such objects use.
pub unsafe trait Linked: View {
    /// Where the field is.
    const AT: usize;
}

/// The head of a list.
///
/// A reference promises that the list is initialised, and that its entries are those fields of
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
/// For `'g` nobody else uses the list.
pub struct Locked<'g, K: Linked>(&'g Chain<K>, PhantomData<&'g mut K>);

impl<K: Linked> Chain<K> {
    /// The list, for as long as the lock is held that `guard` is of.
    ///
    /// # Safety
    ///
    /// That lock protects the list.
    #[inline]
    pub unsafe fn locked_by<'g, G>(&'g self, _guard: &'g mut G) -> Locked<'g, K> {
        // INVARIANT: The contract of this function.
        Locked(self, PhantomData)
    }
}

impl<K: Linked> Locked<'_, K> {
    /// Links an object by a function of `list.h`.
    #[inline]
    fn link(
        &mut self,
        object: Owned<K>,
        how: unsafe extern "C" fn(*mut bindings::list_head, *mut bindings::list_head),
    ) {
        let entry = object.into_raw().as_ptr().wrapping_byte_add(K::AT).cast();
        // SAFETY: The list is initialised (promise of the head), and ours (type invariant). The
        // object is in no list, since it had another owner, and is the list's from now on.
        unsafe { how(entry, self.0.raw()) };
    }

    /// Adds an object before all others.
    #[inline]
    pub fn push_front(&mut self, object: Owned<K>) {
        self.link(object, bindings::rdma_helper_qp_list_add);
    }

    /// Adds an object behind all others.
    #[inline]
    pub fn push_back(&mut self, object: Owned<K>) {
        self.link(object, bindings::rdma_helper_list_add_tail);
    }

    /// Takes the first object out, if there is one.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Owned<K>> {
        let head = self.0.raw();
        // SAFETY: The list is valid and ours (type invariant). Its entries are objects that it owns
        // (promise of the head), and the caller owns the one that is taken out.
        unsafe {
            let first = (*head).next;
            if first == head {
                return None;
            }
            bindings::rdma_helper_list_del(first);
            NonNull::new(first.wrapping_byte_sub(K::AT).cast()).map(|object| Owned::new(object))
        }
    }

    /// The objects in their order.
    pub fn iter(&self) -> impl Iterator<Item = &K> + '_ {
        let head = self.0.raw();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: The list is valid, and nobody changes it while `self` is borrowed (type
            // invariant). Its entries are objects that it owns (promise of the head).
            unsafe {
                at = (*at).next;
                (at != head).then(|| K::view(at.wrapping_byte_sub(K::AT).cast()))
            }
        })
    }
}
