// SPDX-License-Identifier: GPL-2.0

//! Memory windows.
//!
//! C headers: `struct ib_uverbs_alloc_mw` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::handle::Shared;
use crate::edge::object::mw;
use crate::object::pd::Pd;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_alloc_mw;
use rdma::bindings::ib_uverbs_alloc_mw_resp;
use rdma::bindings::ib_uverbs_dealloc_mw;

/// Handles of memory windows.
pub(crate) struct Mw;

impl Kind for Mw {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Mw {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        mw::dealloc(object)
    }
}

static TYPE: NumberedType<Mw> = NumberedType::new();

/// The table of memory windows.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Mw::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_mw_UVERBS_METHOD_MW_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_mw_destroy_ids_UVERBS_ATTR_DESTROY_MW_HANDLE,
                Mw::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(dealloc_mw)),
    Def::Write(
        Write::both::<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_MW,
            alloc,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(alloc_mw)),
    Def::Write(Write::input::<ib_uverbs_dealloc_mw>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_MW,
        dealloc,
    )),
    Def::CommandNeeds(needs!(dealloc_mw)),
];

fn alloc(call: &Call) -> Result {
    let request: ib_uverbs_alloc_mw = call.request()?;
    let new = New::<Mw>::begin(call)?;
    let pd = Shared::<Pd>::get(call, request.pd_handle)?;
    let kind = u32::from(request.mw_type);
    if kind != bindings::ib_mw_type_IB_MW_TYPE_1 && kind != bindings::ib_mw_type_IB_MW_TYPE_2 {
        return Err(EINVAL);
    }
    let made = mw::alloc(&new, &pd, kind)?;
    drop(pd);
    let rkey = made.rkey();
    let handle = new.made(made);
    call.respond(|answer: &mut ib_uverbs_alloc_mw_resp| {
        answer.rkey = rkey;
        answer.mw_handle = handle.number();
    })
}

fn dealloc(call: &Call) -> Result {
    let request: ib_uverbs_dealloc_mw = call.request()?;
    handle::destroy::<Mw>(call, request.mw_handle)
}
