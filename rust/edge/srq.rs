// SPDX-License-Identifier: GPL-2.0

//! What a shared receive queue of each type refers to, besides its protection domain. The table is
//! in [`super::verbs`]. Must match `struct ib_srq` in `include/rdma/ib_verbs.h`.

use super::verbs::Srq;
use super::verbs::SrqInit;
use super::verbs::SrqMake;
use super::verbs::Xrcd;
use crate::bindings;
use crate::edge::FromC;
use crate::edge::Init;
use crate::edge::View;

/// [`SrqInit`], and the references that a queue of its type has, as requested.
pub struct SrqWhole<'a> {
    /// The other fields. The type is taken from what is asked for.
    pub init: SrqInit<'a>,
    /// What the consumer asks for.
    pub asked: &'a SrqMake,
}

// SAFETY: `SrqInit` writes the `init` fields. Of the union, the members are written that the type of
// the queue determines.
unsafe impl Init<Srq> for SrqWhole<'_> {
    unsafe fn fill(self, c: *mut bindings::ib_srq) {
        let kind = self.asked.srq_type();
        let asked = self.asked.raw();
        let init = SrqInit {
            srq_type: kind,
            ..self.init
        };
        // SAFETY: The caller owns the memory exclusively (contract). The type that the consumer asks
        // for is the queue's, and determines the members in both unions.
        unsafe {
            init.fill(c);
            if has_cq(kind) {
                (*c).ext.cq = (*asked).ext.cq;
            }
            if kind == bindings::ib_srq_type_IB_SRQT_XRC {
                (*(*c).ext.__bindgen_anon_1.xrc).xrcd = (*asked).ext.__bindgen_anon_1.xrc.xrcd;
            }
        }
    }
}

/// Returns whether a shared receive queue of this type has its own completion queue.
fn has_cq(kind: u32) -> bool {
    matches!(
        kind,
        bindings::ib_srq_type_IB_SRQT_XRC | bindings::ib_srq_type_IB_SRQT_TM
    )
}

impl Srq {
    /// Returns whether the queue has its own completion queue.
    pub fn has_cq(&self) -> bool {
        has_cq(self.srq_type())
    }

    /// Returns its XRC domain, if it has one.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        if self.srq_type() != bindings::ib_srq_type_IB_SRQT_XRC {
            return None;
        }
        // SAFETY: Written before a reference exists; the type of the queue determines the member of
        // the union.
        unsafe { Option::from_c((*self.raw()).ext.__bindgen_anon_1.xrc.xrcd) }
    }
}
