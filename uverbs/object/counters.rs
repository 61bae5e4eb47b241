// SPDX-License-Identifier: GPL-2.0

//! Counters, which flows count in.
//!
//! C header: `enum uverbs_methods_actions_counters_ops` in
//! `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::counters;
use crate::edge::object::counters::Read;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;

/// Handles of counters.
pub(crate) struct Counters;

impl Kind for Counters {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Counters {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        counters::destroy(object)
    }
}

static TYPE: NumberedType<Counters> = NumberedType::new();

/// The table of counters.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Counters::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_actions_counters_ops_UVERBS_METHOD_COUNTERS_CREATE,
                run: create,
                attributes: &[&[Attribute::handle(
                    bindings::uverbs_attrs_create_counters_cmd_attr_ids_UVERBS_ATTR_CREATE_COUNTERS_HANDLE,
                    Counters::ID,
                    Access::New,
                )]],
            },
            Method {
                id: bindings::uverbs_methods_actions_counters_ops_UVERBS_METHOD_COUNTERS_DESTROY,
                run: nothing,
                attributes: &[&[Attribute::handle(
                    bindings::uverbs_attrs_destroy_counters_cmd_attr_ids_UVERBS_ATTR_DESTROY_COUNTERS_HANDLE,
                    Counters::ID,
                    Access::Destroy,
                )]],
            },
            Method {
                id: bindings::uverbs_methods_actions_counters_ops_UVERBS_METHOD_COUNTERS_READ,
                run: read,
                attributes: &[&[
                    Attribute::handle(
                        bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_HANDLE,
                        Counters::ID,
                        Access::Read,
                    )
                    .mandatory(),
                    Attribute::output(
                        bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_BUFF,
                        0,
                        u16::MAX,
                    )
                    .mandatory(),
                    Attribute::flags(
                        bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_FLAGS,
                    ),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_counters)),
];

fn create(call: &Call) -> Result {
    let new = call.take_new::<Counters>(
        bindings::uverbs_attrs_create_counters_cmd_attr_ids_UVERBS_ATTR_CREATE_COUNTERS_HANDLE,
    )?;
    let made = counters::create(&new)?;
    new.made(made);
    Ok(())
}

/// Reads counters that a flow uses.
fn read(call: &Call) -> Result {
    use bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_BUFF as BUFFER;
    use bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_FLAGS as FLAGS;
    use bindings::uverbs_attrs_read_counters_cmd_attr_ids_UVERBS_ATTR_READ_COUNTERS_HANDLE as HANDLE;

    let set = call.object::<Counters>(HANDLE)?;
    let read = Read::of(set)?;
    if !set.usecnt().is_used() {
        return Err(EINVAL);
    }
    let cached = bindings::ib_uverbs_read_counters_flags_IB_UVERBS_READ_COUNTERS_PREFER_CACHED;
    let flags = call.flags32(FLAGS, cached.into())?;
    // OVERFLOW: The size of a counter is not zero.
    let room = call.len(BUFFER)? / size_of::<u64>();
    let mut values = KVVec::from_elem(0_u64, room, GFP_KERNEL)?;
    let count = read.call(call, flags, &mut values)?;
    call.output_slice(BUFFER, values.get(..count).ok_or(EINVAL)?)
}
