// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C headers: `struct ib_uverbs_alloc_pd` and others in `include/uapi/rdma/ib_user_verbs.h`.

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
use crate::edge::object::pd;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_alloc_pd;
use rdma::bindings::ib_uverbs_alloc_pd_resp;
use rdma::bindings::ib_uverbs_dealloc_pd;

/// Handles of protection domains.
pub(crate) struct Pd;

impl Kind for Pd {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Pd {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        pd::dealloc(object)
    }
}

static TYPE: NumberedType<Pd> = NumberedType::new();

/// The table of protection domains.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Pd::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_pd_UVERBS_METHOD_PD_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_pd_destroy_ids_UVERBS_ATTR_DESTROY_PD_HANDLE,
                Pd::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(dealloc_pd)),
    Def::Write(
        Write::both::<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_PD,
            alloc,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(alloc_pd)),
    Def::Write(Write::input::<ib_uverbs_dealloc_pd>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_PD,
        dealloc,
    )),
    Def::CommandNeeds(needs!(dealloc_pd)),
];

fn alloc(call: &Call) -> Result {
    call.request::<ib_uverbs_alloc_pd>()?;
    let new = New::<Pd>::begin(call)?;
    let made = pd::alloc(&new)?;
    let handle = new.made(made);
    call.respond(|answer: &mut ib_uverbs_alloc_pd_resp| answer.pd_handle = handle.number())
}

fn dealloc(call: &Call) -> Result {
    let request: ib_uverbs_dealloc_pd = call.request()?;
    handle::destroy::<Pd>(call, request.pd_handle)
}
