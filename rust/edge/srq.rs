// SPDX-License-Identifier: GPL-2.0

//! What a shared receive queue of each type refers to, besides its protection domain. The table is
//! in [`super::verbs`]. Must match `struct ib_srq` in `include/rdma/ib_verbs.h`.

use super::verbs::Pd;
use super::verbs::Srq;
use super::verbs::SrqInit;
use super::verbs::SrqMake;
use super::verbs::Xrcd;
use crate::bindings;
use crate::edge::FromC;
use crate::edge::Init;
use crate::edge::Passed;
use crate::edge::View;

/// A new queue as a consumer asks for it: [`SrqInit`], and the references that a queue of its type has.
pub struct SrqWhole<'a> {
    init: SrqInit<'a>,
    asked: &'a SrqMake,
}

impl<'a> SrqWhole<'a> {
    /// A queue in a protection domain, with its user's handle.
    pub fn new(pd: &'a Pd, uobject: Passed<bindings::ib_usrq_object>, asked: &'a SrqMake) -> Self {
        Self {
            init: SrqInit {
                dev: pd.dev(),
                pd,
                uobject,
                event_handler: asked.event_handler(),
                srq_context: asked.srq_context(),
                srq_type: asked.srq_type(),
            },
            asked,
        }
    }
}

// SAFETY: `SrqInit` writes the `init` fields. Of the union, the members are written that the type of
// the queue determines.
unsafe impl Init<Srq> for SrqWhole<'_> {
    unsafe fn fill(self, c: *mut bindings::ib_srq) {
        let kind = self.init.srq_type;
        let asked = self.asked.raw();
        // SAFETY: The caller owns the memory exclusively (contract). The type of the queue is the one
        // that is asked for (`new`), and determines the members in both unions.
        unsafe {
            self.init.fill(c);
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
