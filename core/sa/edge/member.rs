// SPDX-License-Identifier: GPL-2.0

//! Memberships as seen by their owners (`struct ib_sa_multicast`).
//!
//! `ib_sa_join_multicast` returns the structure, with a reference to the [`Member`] that embeds it.
//! The owner returns the reference by `ib_sa_free_multicast`, or by a nonzero return value of its
//! callback. C header: `include/rdma/ib_sa.h`.

use kernel::container_of;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::gate::OwnedPass;

use super::super::convert::member_to_c;
use super::super::group::Groups;
use super::super::group::Member;
use super::user::Callback;
use crate::proto::sa::member::Member as Record;

/// Callback of an owner. The membership ends if it returns a nonzero value.
pub(in crate::sa) type JoinDone =
    Option<unsafe extern "C" fn(status: c_int, multicast: *mut bindings::ib_sa_multicast) -> c_int>;

rdma::c_struct! {
    /// The part of a membership that its owner sees. Callback and context do not change. The owner
    /// reads the record after its callback got status 0.
    pub(in crate::sa) struct Multicast: bindings::ib_sa_multicast;
    fields {
        /// Called with the result of the join, and when the membership is lost.
        const callback: JoinDone;
    }
}

// SAFETY: The callback may be called from any thread, with its context (`Done`).
unsafe impl Send for Multicast {}
// SAFETY: The record is written under a lock ([`Multicast::set_record`]), the rest does not change.
unsafe impl Sync for Multicast {}

impl Multicast {
    /// Initialises the structure from the parameters of a join.
    pub(in crate::sa) fn new(asked: &Record, mask: u64, user: Callback<JoinDone>) -> Self {
        let (callback, context) = user.into_parts();
        Self(Opaque::new(bindings::ib_sa_multicast {
            rec: member_to_c(asked),
            comp_mask: mask.to_be(),
            callback,
            context,
        }))
    }

    /// Sets the record, under the lock of the port, before the callback is called with status 0.
    pub(in crate::sa) fn set_record(&self, record: &Record, _by: &mut Groups) {
        // SAFETY: `self` keeps the structure valid; the lock excludes other writers. The owner
        // reads the record only after its callback was called (table).
        unsafe { (&raw mut (*self.raw()).rec).write(member_to_c(record)) };
    }
}

/// Whether the owner of a membership has a reference to it.
pub(in crate::sa) struct Owner(Atomic<bool>);

impl Owner {
    /// The owner has no reference yet.
    pub(in crate::sa) const fn new() -> Self {
        Self(Atomic::new(false))
    }
}

/// The owner's pointer to a membership. The owner may have freed the membership already, so the
/// pointer is not dereferenced.
#[must_use = "the owner's reference is lost"]
pub(in crate::sa) struct Joined(*mut bindings::ib_sa_multicast);

impl Joined {
    /// Transfers the reference to the owner, unless it has one.
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

/// A membership that its owner frees.
pub(in crate::sa) struct Freed(pub(in crate::sa) Arc<Member>);

// SAFETY: `from_c` is for a membership that `ib_sa_join_multicast` returned and that its owner
// frees with this call (`ib_sa_free_multicast`).
unsafe impl FromC for Freed {
    type C = *mut bindings::ib_sa_multicast;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is embedded in a member. The owner returns its reference to the member
        // (`Joined`) by this call (contract of `from_c`).
        let member = unsafe { Arc::from_raw(container_of!(c.cast::<Multicast>(), Member, c)) };
        member.owner.0.store(false, Relaxed);
        Self(member)
    }
}
// SAFETY: It owns the member.
unsafe impl Within<'_> for Freed {}

/// A use of a membership. The owner has not freed the membership as long as this exists.
///
/// # Invariants
///
/// It is a pass of the member's own gate. `Member::free` closes the gate and waits until it is
/// empty, before the owner is told that the membership is freed.
pub(in crate::sa) struct Inside(OwnedPass<Member>);

impl Inside {
    /// Returns `None` if the owner has freed the membership. Any context.
    pub(in crate::sa) fn enter(member: &Arc<Member>) -> Option<Self> {
        // INVARIANT: The pass is of the member's own gate.
        OwnedPass::try_enter(member.clone(), |member| &member.gate).map(Self)
    }

    /// Calls the owner's callback. Returns the membership if the callback frees it by a nonzero
    /// return value. The use ends before this returns.
    pub(in crate::sa) fn tell(self, status: c_int) -> Option<Freed> {
        let member = &self.0;
        let c = member.c.raw();
        let done = member.c.callback()?;
        // SAFETY: The callback gets the owner's membership (`Done`), which is not freed meanwhile
        // (type invariant).
        if unsafe { done(status, c) } == 0 {
            return None;
        }
        // INVARIANT: The owner has freed the membership.
        member.gate.close();
        let had = member.owner.0.xchg(false, Full);
        // SAFETY: The owner had a reference (`Owner`), and gives it back by its return value
        // (`ib_sa_free_multicast` in `ib_sa.h`). The exchange hands it to one caller only.
        had.then(|| Freed(unsafe { Arc::from_raw(Arc::as_ptr(self.0.owner())) }))
    }
}
