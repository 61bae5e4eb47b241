// SPDX-License-Identifier: GPL-2.0

//! Completion counters, which queue pairs count completed operations in; also in error, in an entry of
//! its own. Not all kernels have them ([`rdma::features::COMP_CNTR`]), so what queue pairs and the
//! device have for them is in the table here.
//!
//! C headers: `enum uverbs_methods_comp_cntr` in `include/uapi/rdma/ib_user_ioctl_cmds.h`,
//! `enum ib_uverbs_comp_cntr_entry` and others in `ib_user_ioctl_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::comp_cntr;
use crate::edge::object::comp_cntr::Attach;
use crate::edge::object::comp_cntr::Modify;
use crate::edge::object::comp_cntr::QueryCaps;
use crate::edge::object::comp_cntr::Read;
use crate::object::qp::Qp;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::features::uapi;

/// Handles of completion counters.
pub(crate) struct CompCntr;

impl Kind for CompCntr {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for CompCntr {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        comp_cntr::destroy(object)
    }
}

static TYPE: NumberedType<CompCntr> = NumberedType::new();

const DEVICE: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE;

/// The attributes of the methods.
mod attr {
    use rdma::features::uapi;

    pub(super) use uapi::uverbs_attrs_create_comp_cntr_cmd_attr_ids_UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE as CREATE_HANDLE;
    pub(super) use uapi::uverbs_attrs_destroy_comp_cntr_cmd_attr_ids_UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE as DESTROY_HANDLE;
    pub(super) use uapi::uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY as MODIFY_ENTRY;
    pub(super) use uapi::uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE as MODIFY_HANDLE;
    pub(super) use uapi::uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_OP as MODIFY_OP;
    pub(super) use uapi::uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE as MODIFY_VALUE;
    pub(super) use uapi::uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE as ATTACH_COUNTER;
    pub(super) use uapi::uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE as ATTACH_QP;
    pub(super) use uapi::uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK as ATTACH_OPS;
    pub(super) use uapi::uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS as MAX_COUNTERS;
    pub(super) use uapi::uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE as MAX_VALUE;
    pub(super) use uapi::uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS as SUPPORTED_OPS;
    pub(super) use uapi::uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_ENTRY as READ_ENTRY;
    pub(super) use uapi::uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_HANDLE as READ_HANDLE;
    pub(super) use uapi::uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE as READ_VALUE;
}

/// The operations that a counter can count.
const OPERATIONS: u32 = uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND
    | uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV
    | uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
    | uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
    | uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
    | uapi::ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

/// The table of completion counters.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: CompCntr::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: uapi::uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_CREATE,
                run: create,
                attributes: &[&[Attribute::handle(
                    attr::CREATE_HANDLE,
                    CompCntr::ID,
                    Access::New,
                )]],
            },
            Method {
                id: uapi::uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_DESTROY,
                run: nothing,
                attributes: &[&[Attribute::handle(
                    attr::DESTROY_HANDLE,
                    CompCntr::ID,
                    Access::Destroy,
                )]],
            },
            Method {
                id: uapi::uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_MODIFY,
                run: modify,
                attributes: &[&[
                    Attribute::handle(attr::MODIFY_HANDLE, CompCntr::ID, Access::Write).mandatory(),
                    Attribute::constant(attr::MODIFY_ENTRY).mandatory(),
                    Attribute::constant(attr::MODIFY_OP).mandatory(),
                    Attribute::input_of::<u64>(attr::MODIFY_VALUE).mandatory(),
                ]],
            },
            Method {
                id: uapi::uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_READ,
                run: read,
                attributes: &[&[
                    Attribute::handle(attr::READ_HANDLE, CompCntr::ID, Access::Read).mandatory(),
                    Attribute::constant(attr::READ_ENTRY).mandatory(),
                    Attribute::output_of::<u64>(attr::READ_VALUE).mandatory(),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_comp_cntr)),
    Def::Tree(Tree {
        id: Qp::ID,
        of: None,
        methods: &[Method {
            id: uapi::uverbs_methods_qp_UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
            run: attach,
            attributes: &[&[
                Attribute::handle(attr::ATTACH_QP, Qp::ID, Access::Write).mandatory(),
                Attribute::handle(attr::ATTACH_COUNTER, CompCntr::ID, Access::Read).mandatory(),
                Attribute::flags(attr::ATTACH_OPS).mandatory(),
            ]],
        }],
    }),
    Def::Tree(Tree {
        id: DEVICE,
        of: None,
        methods: &[Method {
            id: uapi::uverbs_methods_device_UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
            run: query_caps,
            attributes: &[&[
                Attribute::output_of::<u32>(attr::MAX_COUNTERS),
                Attribute::output_of::<u64>(attr::MAX_VALUE),
                Attribute::output_of::<u32>(attr::SUPPORTED_OPS),
            ]],
        }],
    }),
];

fn create(call: &Call) -> Result {
    let new = call.take_new::<CompCntr>(attr::CREATE_HANDLE)?;
    let made = comp_cntr::create(&new)?;
    new.made(made);
    Ok(())
}

/// Changes the value of an entry. Which entries there are, and what can be done with them, is the
/// driver's matter.
fn modify(call: &Call) -> Result {
    let modify = Modify::of(call.object::<CompCntr>(attr::MODIFY_HANDLE)?)?;
    let entry = call.constant(attr::MODIFY_ENTRY)?;
    let op = call.constant(attr::MODIFY_OP)?;
    modify.call(entry, op, call.input(attr::MODIFY_VALUE)?)
}

fn read(call: &Call) -> Result {
    let read = Read::of(call.object::<CompCntr>(attr::READ_HANDLE)?)?;
    let value = read.call(call.constant(attr::READ_ENTRY)?)?;
    call.output(attr::READ_VALUE, &value)
}

/// Makes a counter count operations of a queue pair, which no other one counts, until the queue pair
/// is destroyed.
fn attach(call: &Call) -> Result {
    let qp = call.alone::<Qp>(attr::ATTACH_QP)?;
    let attach = Attach::of(call.object::<CompCntr>(attr::ATTACH_COUNTER)?, qp)?;
    let operations = call.flags32(attr::ATTACH_OPS, OPERATIONS.into())?;
    attach.call(operations)
}

/// What a device can count.
fn query_caps(call: &Call) -> Result {
    let caps = QueryCaps::of(call)?.call()?;
    call.output_if(attr::MAX_COUNTERS, &caps.max_counters)?;
    call.output_if(attr::MAX_VALUE, &caps.max_value)?;
    call.output_if(attr::SUPPORTED_OPS, &caps.supported_qp_attach_ops)
}
