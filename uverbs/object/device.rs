// SPDX-License-Identifier: GPL-2.0

//! The device: contexts, and commands that are invoked by ioctl.
//!
//! C headers: `struct ib_uverbs_get_context` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::api::errno;
use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::New;
use crate::edge::object::context::NewContext;
use crate::edge::user::plain;
use crate::edge::user::Plain;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::proto::write::Header;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_get_context;
use rdma::bindings::ib_uverbs_get_context_resp;

const ID: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE;

plain!(ib_uverbs_get_context, ib_uverbs_get_context_resp);

/// The table of the device.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: ID,
        of: None,
        methods: &[
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_INVOKE_WRITE,
                run: invoke_write,
                attributes: &[
                    &[
                        Attribute::constant(
                            bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_WRITE_CMD,
                        )
                        .mandatory(),
                        Attribute::input(
                            bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_IN,
                            4,
                            u16::MAX,
                        ),
                        Attribute::output(
                            bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_OUT,
                            0,
                            u16::MAX,
                        ),
                    ],
                    UHW,
                ],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_GET_CONTEXT,
                run: get_context_by_ioctl,
                attributes: &[
                    &[
                        Attribute::output_of::<u32>(
                            bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
                        ),
                        Attribute::output_of::<u64>(
                            bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
                        ),
                        Attribute::input(
                            bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_FD_ARR,
                            4,
                            u16::MAX,
                        )
                        .copied(),
                    ],
                    UHW,
                ],
            },
        ],
    }),
    Def::Write(
        Write::both::<ib_uverbs_get_context, ib_uverbs_get_context_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_GET_CONTEXT,
            get_context,
        )
        .udata(),
    ),
    Def::ObjectNeeds(needs!(alloc_ucontext)),
    Def::ObjectNeeds(needs!(dealloc_ucontext)),
];

/// A command in attributes.
fn invoke_write(call: &Call) -> Result {
    use bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_IN as CORE_IN;
    use bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_OUT as CORE_OUT;
    use bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_WRITE_CMD as COMMAND;

    let header = Header {
        command: call.constant(COMMAND)?,
        in_words: 0,
        out_words: 0,
    };
    let number = header.number().map_err(errno)?;
    let command = call.char_device().api().command(number)?;
    call.fill_core(CORE_IN, CORE_OUT);
    let (request, room) = (call.core().inlen(), call.core().outlen());
    if request < command.command.request.into() || room < command.command.response.into() {
        return Err(ENOSPC);
    }
    call.command(|call| command.run(call))
}

/// A context, with a file for its asynchronous events.
fn get_context(call: &Call) -> Result {
    call.request::<ib_uverbs_get_context>()?;
    let context = NewContext::alloc(call)?;
    let new = New::<AsyncFile>::begin(call)?;
    call.respond(|answer: &mut ib_uverbs_get_context_resp| {
        answer.num_comp_vectors = call.char_device().completion_vectors();
        answer.async_fd = new.handle().number();
    })?;
    context.publish(None)?;
    async_event::start(&new)?;
    new.commit();
    Ok(())
}

/// A context.
fn get_context_by_ioctl(call: &Call) -> Result {
    use bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT as SUPPORT;
    use bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_FD_ARR as RIGHTS;
    use bindings::uverbs_attrs_get_context_attr_ids_UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS as VECTORS;

    let device = call.device()?;
    call.output_if(VECTORS, &call.char_device().completion_vectors())?;
    let mut support: u64 =
        bindings::ib_uverbs_core_support_IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS.into();
    if device.ops().uverbs_robust_udata() != 0 {
        support |= u64::from(bindings::ib_uverbs_core_support_IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA);
    }
    call.output_if(SUPPORT, &support)?;
    let context = NewContext::alloc(call)?;
    let rights = match call.has(RIGHTS) {
        true => Some(call.copied_array::<i32>(RIGHTS)?),
        false => None,
    };
    context.publish(rights)
}
