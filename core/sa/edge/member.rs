// SPDX-License-Identifier: GPL-2.0

//! Memberships as their owners have them (`struct ib_sa_multicast`).
//!
//! The owner gets the structure, with a reference to the [`Member`] that it is part of, from
//! `ib_sa_join_multicast`. It gives the reference back to `ib_sa_free_multicast`, or by what its
//! function returns.

use kernel::container_of;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::gate::OwnedPass;

use super::super::convert::member_to_c;
use super::super::group::Groups;
use super::super::group::Member;
use super::user::Done;
use crate::proto::sa::member::Member as Record;

/// The function of an owner. The membership ends if it does not return zero.
pub(in crate::sa) type JoinDone =
    Option<unsafe extern "C" fn(status: c_int, multicast: *mut bindings::ib_sa_multicast) -> c_int>;

rdma::c_struct! {
    /// What the owner of a membership sees of it. Function and context are written when it is
    /// made; the owner reads the record from when it is told that it is a member.
    pub(in crate::sa) struct Multicast: bindings::ib_sa_multicast;
    fields {
        /// The owner's function.
        const callback: JoinDone;
    }
}

// SAFETY: The pointers in it are the owner's, who expects to be called by any thread.
unsafe impl Send for Multicast {}
// SAFETY: The record is written under a lock ([`Multicast::set_record`]), the rest does not change.
unsafe impl Sync for Multicast {}

impl Multicast {
    /// Of what an owner asked for.
    pub(in crate::sa) fn new(
        asked: &Record,
        mask: u64,
        Done(callback): Done<JoinDone>,
        context: Passed<c_void>,
    ) -> Self {
        Self(Opaque::new(bindings::ib_sa_multicast {
            rec: member_to_c(asked),
            comp_mask: mask.to_be(),
            callback,
            context: context.into_c(),
        }))
    }

    /// Sets the record that the owner sees, under the lock of the port. The owner is not told yet.
    pub(in crate::sa) fn set_record(&self, record: &Record, _by: &mut Groups) {
        // SAFETY: The structure is there (promise of a reference); other writers are kept out by
        // the lock. The owner reads the record only after it has been told.
        unsafe { (&raw mut (*self.raw()).rec).write(member_to_c(record)) };
    }
}

/// Whether the owner of a membership has a reference to it.
pub(in crate::sa) struct Owner(Atomic<bool>);

impl Owner {
    /// Not yet.
    pub(in crate::sa) const fn new() -> Self {
        Self(Atomic::new(false))
    }
}

/// A membership for its owner, who has a reference to it. The owner may have given it back
/// already, so it is only passed on.
#[must_use = "the owner's reference is lost"]
pub(in crate::sa) struct Joined(*mut bindings::ib_sa_multicast);

impl Joined {
    /// Gives the reference to the owner, unless it has one.
    pub(in crate::sa) fn new(member: Arc<Member>) -> Self {
        let c = member.c.raw();
        if !member.owner.0.xchg(true, Full) {
            let _: *const Member = Arc::into_raw(member);
        }
        Self(c)
    }
}

impl AnswerOk for Joined {
    type C = *mut bindings::ib_sa_multicast;

    #[inline(always)]
    fn ok(self) -> Self::C {
        self.0
    }

    #[inline(always)]
    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// A membership that its owner gives back.
pub(in crate::sa) struct Freed(pub(in crate::sa) Arc<Member>);

// SAFETY: `from_c` is for a membership that `ib_sa_join_multicast` returned and that its owner has
// not given back; the owner does not use it any more (`ib_sa_free_multicast`).
unsafe impl FromC for Freed {
    type C = *mut bindings::ib_sa_multicast;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: It is part of a member, of which the owner's reference (`Joined`) is given back
        // (contract of `from_c`).
        let member = unsafe { Arc::from_raw(container_of!(c.cast::<Multicast>(), Member, c)) };
        member.owner.0.store(false, Relaxed);
        Self(member)
    }
}
// SAFETY: It owns what it refers to.
unsafe impl Within<'_> for Freed {}

/// Use of a membership, which its owner has not given back as long as this exists.
///
/// # Invariants
///
/// It is a pass of the member's own gate, which is closed when the owner gives the membership back;
/// `Member::free` waits until the gate is empty.
pub(in crate::sa) struct Inside(OwnedPass<Member>);

impl Inside {
    /// None, if the owner has given the membership back. Any context.
    pub(in crate::sa) fn enter(member: &Arc<Member>) -> Option<Self> {
        // INVARIANT: The member's own gate.
        OwnedPass::try_enter(member.clone(), |member| &member.gate).map(Self)
    }

    /// Tells the owner. Returns the membership if the owner gives it back by what its function
    /// returns. The use ends before this returns.
    pub(in crate::sa) fn tell(self, status: c_int) -> Option<Freed> {
        let member = &self.0;
        let c = member.c.raw();
        // SAFETY: The owner's function (`Done`), with its membership, which it has not given back
        // (type invariant).
        let over = member
            .c
            .callback()
            .is_some_and(|done| unsafe { done(status, c) } != 0);
        if !over {
            return None;
        }
        // INVARIANT: The owner has given the membership back.
        member.gate.close();
        let had = member.owner.0.xchg(false, Full);
        // SAFETY: The owner has a reference (`Owner`), which it gives back by not returning zero
        // (`ib_sa_free_multicast` in `ib_sa.h`); the exchange says so to one caller only.
        had.then(|| Freed(unsafe { Arc::from_raw(Arc::as_ptr(self.0.owner())) }))
    }
}
