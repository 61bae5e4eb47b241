// SPDX-License-Identifier: GPL-2.0

//! The numbers of the types of handles, and the objects that handles of a number have: the table by
//! which the edge reads what is behind a `struct ib_uobject`.
//!
//! C header: `enum uverbs_default_objects` in `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use super::handle::Holds;
use super::handle::Id;
use super::object::comp_cntr;
use super::object::counters;
use super::object::flow;
use super::object::flow_action;
use crate::object;
use rdma::edge::verbs;

/// The numbers: those of the bindings, and of objects that not all kernels have.
mod names {
    pub(super) use rdma::bindings::*;
    #[allow(unused_imports, reason = "the bindings may have all")]
    pub(super) use rdma::features::uapi::*;
}

/// Numbers the types of handles, each once; with the type of their objects if they have numbers.
macro_rules! kinds {
    ($($kind:ty = $id:ident $(: $of:ty)?;)*) => {
        const _: () = {
            let mut all: &[u32] = &[$(names::$id),*];
            while let [first, rest @ ..] = all {
                let mut others = rest;
                while let [other, more @ ..] = others {
                    assert!(*first != *other, "a number has two types");
                    others = more;
                }
                all = rest;
            }
        };
        $(
            // SAFETY: No other type has the number: the assertion above.
            unsafe impl Id for $kind {
                const ID: u32 = names::$id;
            }
            $(
                // SAFETY: Whoever makes an object for such a handle, `ib_uverbs` or a driver, makes
                // this one (`uverbs_types.h`, `uverbs_std_types.h`).
                unsafe impl Holds for $kind {
                    type Of = $of;
                }
            )?
        )*
    };
}

kinds! {
    object::ah::Ah = uverbs_default_objects_UVERBS_OBJECT_AH: verbs::Ah;
    object::async_event::AsyncFile = uverbs_default_objects_UVERBS_OBJECT_ASYNC_EVENT;
    object::comp_channel::Channel = uverbs_default_objects_UVERBS_OBJECT_COMP_CHANNEL;
    object::comp_cntr::CompCntr = uverbs_default_objects_UVERBS_OBJECT_COMP_CNTR: comp_cntr::Counter;
    object::counters::Counters = uverbs_default_objects_UVERBS_OBJECT_COUNTERS: counters::Set;
    object::cq::Cq = uverbs_default_objects_UVERBS_OBJECT_CQ: verbs::Cq;
    object::dm::Dm = uverbs_default_objects_UVERBS_OBJECT_DM: verbs::Dm;
    object::dmabuf::DmaBuf = uverbs_default_objects_UVERBS_OBJECT_DMABUF;
    object::dmah::Dmah = uverbs_default_objects_UVERBS_OBJECT_DMAH: verbs::Dmah;
    object::flow::Flow = uverbs_default_objects_UVERBS_OBJECT_FLOW: flow::Flow;
    object::flow_action::FlowAction = uverbs_default_objects_UVERBS_OBJECT_FLOW_ACTION: flow_action::Action;
    object::mr::Mr = uverbs_default_objects_UVERBS_OBJECT_MR: verbs::Mr;
    object::mw::Mw = uverbs_default_objects_UVERBS_OBJECT_MW: verbs::Mw;
    object::pd::Pd = uverbs_default_objects_UVERBS_OBJECT_PD: verbs::Pd;
    object::qp::Qp = uverbs_default_objects_UVERBS_OBJECT_QP: verbs::Qp;
    object::rwq_table::RwqTable = uverbs_default_objects_UVERBS_OBJECT_RWQ_IND_TBL: verbs::RwqTable;
    object::srq::Srq = uverbs_default_objects_UVERBS_OBJECT_SRQ: verbs::Srq;
    object::wq::Wq = uverbs_default_objects_UVERBS_OBJECT_WQ: verbs::Wq;
    object::xrcd::Xrcd = uverbs_default_objects_UVERBS_OBJECT_XRCD: verbs::Xrcd;
}
