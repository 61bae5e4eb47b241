// SPDX-License-Identifier: GPL-2.0

//! Device memory, which regions are registered of ([`super::mr`]).
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::dm;
use crate::edge::unsupported;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::uverbs_attrs_alloc_dm_cmd_attr_ids_UVERBS_ATTR_ALLOC_DM_ALIGNMENT as ALIGNMENT;
use rdma::bindings::uverbs_attrs_alloc_dm_cmd_attr_ids_UVERBS_ATTR_ALLOC_DM_HANDLE as HANDLE;
use rdma::bindings::uverbs_attrs_alloc_dm_cmd_attr_ids_UVERBS_ATTR_ALLOC_DM_LENGTH as LENGTH;

/// Handles of device memory.
pub(crate) struct Dm;

impl Kind for Dm {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Dm {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        dm::free(object)
    }
}

static TYPE: NumberedType<Dm> = NumberedType::new();

/// The table of device memory.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Dm::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_dm_UVERBS_METHOD_DM_ALLOC,
                run: alloc,
                attributes: &[&[
                    Attribute::handle(HANDLE, Dm::ID, Access::New),
                    Attribute::input_of::<u64>(LENGTH).mandatory(),
                    Attribute::input_of::<u32>(ALIGNMENT).mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_dm_UVERBS_METHOD_DM_FREE,
                run: nothing,
                attributes: &[&[Attribute::handle(
                    bindings::uverbs_attrs_free_dm_cmd_attr_ids_UVERBS_ATTR_FREE_DM_HANDLE,
                    Dm::ID,
                    Access::Destroy,
                )]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(dealloc_dm)),
];

fn alloc(call: &Call) -> Result {
    let new = call.take_new::<Dm>(HANDLE)?;
    if new.device()?.ops().alloc_dm.is_none() {
        return Err(unsupported());
    }
    let made = dm::alloc(&new, call.input(LENGTH)?, call.input(ALIGNMENT)?)?;
    new.made(made);
    Ok(())
}
