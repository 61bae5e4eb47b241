// SPDX-License-Identifier: GPL-2.0

//! Work queues: receive queues of which an indirection table has several.
//!
//! C headers: `struct ib_uverbs_ex_create_wq` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::events;
use crate::edge::events::Asynchronous;
use crate::edge::handle::Dead;
use crate::edge::handle::Destroyed;
use crate::edge::handle::Dying;
use crate::edge::handle::Ended;
use crate::edge::handle::Ends;
use crate::edge::handle::Handle;
use crate::edge::handle::Id;
use crate::edge::handle::Kept;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::handle::Shared;
use crate::edge::object::wq;
use crate::edge::object::wq::Wanted;
use crate::edge::unsupported;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::object::cq::Cq;
use crate::object::pd::Pd;
use crate::proto::spec::Access;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_ex_create_wq;
use rdma::bindings::ib_uverbs_ex_create_wq_resp;
use rdma::bindings::ib_uverbs_ex_destroy_wq;
use rdma::bindings::ib_uverbs_ex_destroy_wq_resp;
use rdma::bindings::ib_uverbs_ex_modify_wq;
use rdma::edge::verbs;

/// Handles of work queues.
pub(crate) struct Wq;

/// The events of a queue, beside its handle.
#[pin_data]
pub(crate) struct Beside {
    /// Asynchronous events.
    #[pin]
    pub(crate) events: Asynchronous,
}

impl Ends for Beside {
    fn end(this: Ended<'_, Self>) {
        Asynchronous::end(this.part(|this| &this.events));
    }
}

impl Kind for Wq {
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            events <- Asynchronous::new(),
        })
    }
}

impl Object for Wq {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        wq::destroy(object)
    }
}

static TYPE: NumberedType<Wq> = NumberedType::new();

/// The attributes of the methods.
mod attr {
    use rdma::bindings;

    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_CQ_HANDLE as CQ_HANDLE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_EVENT_FD as EVENT_FD;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_FLAGS as FLAGS;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_HANDLE as HANDLE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_MAX_SGE as MAX_SGE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_MAX_WR as MAX_WR;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_PD_HANDLE as PD_HANDLE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE as RESP_MAX_SGE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR as RESP_MAX_WR;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM as RESP_WQ_NUM;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_TYPE as TYPE;
    pub(super) use bindings::uverbs_attrs_create_wq_cmd_attr_ids_UVERBS_ATTR_CREATE_WQ_USER_HANDLE as USER_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_wq_cmd_attr_ids_UVERBS_ATTR_DESTROY_WQ_HANDLE as DESTROY_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_wq_cmd_attr_ids_UVERBS_ATTR_DESTROY_WQ_RESP as DESTROY_RESP;
}

/// The table of work queues.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Wq::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_wq_UVERBS_METHOD_WQ_CREATE,
                run: create_by_ioctl,
                attributes: &[
                    &[
                        Attribute::handle(attr::HANDLE, Wq::ID, Access::New),
                        Attribute::handle(attr::PD_HANDLE, Pd::ID, Access::Read).mandatory(),
                        Attribute::constant(attr::TYPE).mandatory(),
                        Attribute::input_of::<u64>(attr::USER_HANDLE).mandatory(),
                        Attribute::input_of::<u32>(attr::MAX_WR).mandatory(),
                        Attribute::input_of::<u32>(attr::MAX_SGE).mandatory(),
                        Attribute::flags(attr::FLAGS).mandatory(),
                        Attribute::handle(attr::CQ_HANDLE, Cq::ID, Access::Read),
                        Attribute::file(attr::EVENT_FD, AsyncFile::ID, Access::Read),
                        Attribute::output_of::<u32>(attr::RESP_MAX_WR).mandatory(),
                        Attribute::output_of::<u32>(attr::RESP_MAX_SGE).mandatory(),
                        Attribute::output_of::<u32>(attr::RESP_WQ_NUM),
                    ],
                    UHW,
                ],
            },
            Method {
                id: bindings::uverbs_methods_wq_UVERBS_METHOD_WQ_DESTROY,
                run: destroyed_by_ioctl,
                attributes: &[&[
                    Attribute::handle(attr::DESTROY_HANDLE, Wq::ID, Access::Destroy),
                    Attribute::output_of::<u32>(attr::DESTROY_RESP).mandatory(),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_wq)),
    Def::Write(Write::extended::<
        ib_uverbs_ex_create_wq,
        ib_uverbs_ex_create_wq_resp,
    >(
        bindings::IB_USER_VERBS_EX_CMD_CREATE_WQ,
        create_by_command,
    )),
    Def::CommandNeeds(needs!(create_wq)),
    Def::Write(Write::extended::<
        ib_uverbs_ex_destroy_wq,
        ib_uverbs_ex_destroy_wq_resp,
    >(bindings::IB_USER_VERBS_EX_CMD_DESTROY_WQ, destroy)),
    Def::CommandNeeds(needs!(destroy_wq)),
    Def::Write(Write::extended::<ib_uverbs_ex_modify_wq, ()>(
        bindings::IB_USER_VERBS_EX_CMD_MODIFY_WQ,
        modify,
    )),
    Def::CommandNeeds(needs!(modify_wq)),
];

/// What a queue is made of.
struct Arguments<'a> {
    wanted: Wanted<'a>,
    pd: &'a verbs::Pd,
    user_handle: u64,
    events: Option<Kept<AsyncFile>>,
}

/// What programs are told of a queue.
struct Facts {
    max_wr: u32,
    max_sge: u32,
    number: u32,
}

/// Makes a queue.
fn create<'c>(mut new: New<'c, Wq>, arguments: Arguments<'_>) -> Result<(&'c Handle<Wq>, Facts)> {
    new.set_user_handle(arguments.user_handle);
    // The driver may raise events before it returns.
    new.handle().beside().events.attach(arguments.events);
    let made = wq::create(new, arguments.pd, &arguments.wanted)?;
    let facts = Facts {
        max_wr: made.max_wr,
        max_sge: made.max_sge,
        number: made.wq.wq_num(),
    };
    Ok((made.wq.handle(), facts))
}

/// The type of all queues.
const RECEIVE: u32 = bindings::ib_wq_type_IB_WQT_RQ;

fn create_by_command(call: &Call) -> Result {
    let request: ib_uverbs_ex_create_wq = call.request()?;
    if request.comp_mask != 0 {
        return Err(unsupported());
    }
    let new = New::<Wq>::begin(call)?;
    let pd = Shared::<Pd>::get(call, request.pd_handle)?;
    let cq = Shared::<Cq>::get(call, request.cq_handle)?;
    let (handle, facts) = create(
        new,
        Arguments {
            wanted: Wanted {
                cq: &cq,
                // Drivers refuse others.
                kind: request.wq_type,
                max_wr: request.max_wr,
                max_sge: request.max_sge,
                flags: request.create_flags,
            },
            pd: &pd,
            user_handle: request.user_handle,
            events: events::default_file(call),
        },
    )?;
    call.respond(|answer: &mut ib_uverbs_ex_create_wq_resp| {
        answer.response_length = call.response_length::<ib_uverbs_ex_create_wq_resp>();
        answer.wq_handle = handle.number();
        answer.max_wr = facts.max_wr;
        answer.max_sge = facts.max_sge;
        answer.wqn = facts.number;
    })
}

fn create_by_ioctl(call: &Call) -> Result {
    const FLAGS: u32 = bindings::ib_uverbs_wq_flags_IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING
        | bindings::ib_uverbs_wq_flags_IB_UVERBS_WQ_FLAGS_SCATTER_FCS
        | bindings::ib_uverbs_wq_flags_IB_UVERBS_WQ_FLAGS_DELAY_DROP
        | bindings::ib_uverbs_wq_flags_IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING;

    let new = call.take_new::<Wq>(attr::HANDLE)?;
    let pd = call.object::<Pd>(attr::PD_HANDLE)?;
    let flags = call.flags32(attr::FLAGS, FLAGS.into())?;
    let max_sge = call.input(attr::MAX_SGE)?;
    let max_wr = call.input(attr::MAX_WR)?;
    let user_handle = call.input(attr::USER_HANDLE)?;
    if call.constant::<u32>(attr::TYPE)? != RECEIVE {
        return Err(EINVAL);
    }
    // C takes it as optional, and hands an error to the driver in its place.
    let cq = call.object::<Cq>(attr::CQ_HANDLE)?;
    let (_, facts) = create(
        new,
        Arguments {
            wanted: Wanted {
                cq,
                kind: RECEIVE,
                max_wr,
                max_sge,
                flags,
            },
            pd,
            user_handle,
            events: async_event::of_attribute(call, attr::EVENT_FD)?,
        },
    )?;
    call.output(attr::RESP_MAX_WR, &facts.max_wr)?;
    call.output(attr::RESP_MAX_SGE, &facts.max_sge)?;
    call.output(attr::RESP_WQ_NUM, &facts.number)
}

fn modify(call: &Call) -> Result {
    use bindings::ib_wq_attr_mask_IB_WQ_CUR_STATE as CURRENT;
    use bindings::ib_wq_attr_mask_IB_WQ_FLAGS as FLAGS;
    use bindings::ib_wq_attr_mask_IB_WQ_STATE as STATE;

    let request: ib_uverbs_ex_modify_wq = call.request()?;
    let mask = request.attr_mask;
    if mask == 0 || mask > STATE | CURRENT | FLAGS {
        return Err(EINVAL);
    }
    let queue = Shared::<Wq>::get(call, request.wq_handle)?;
    let mut attr = bindings::ib_wq_attr::default();
    if mask & FLAGS != 0 {
        attr.flags = request.flags;
        attr.flags_mask = request.flags_mask;
    }
    attr.curr_wq_state = match mask & CURRENT {
        0 => queue.state(),
        _ => state(request.curr_wq_state)?,
    };
    attr.wq_state = match mask & STATE {
        0 => attr.curr_wq_state,
        _ => state(request.wq_state)?,
    };
    wq::modify(call, &queue, attr, mask)
}

/// A state that there is (`enum ib_wq_state`).
fn state(state: u32) -> Result<u32> {
    if state > bindings::ib_wq_state_IB_WQS_ERR {
        return Err(EINVAL);
    }
    Ok(state)
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_ex_destroy_wq = call.request()?;
    if request.comp_mask != 0 {
        return Err(unsupported());
    }
    let reported = {
        let destroyed = Destroyed::<Wq>::destroy(call, request.wq_handle)?;
        destroyed.handle().beside().events.reported()
    };
    call.respond(|answer: &mut ib_uverbs_ex_destroy_wq_resp| {
        answer.response_length = call.response_length::<ib_uverbs_ex_destroy_wq_resp>();
        answer.events_reported = reported;
    })
}

/// Tells how many events were read of a queue that was destroyed.
fn destroyed_by_ioctl(call: &Call) -> Result {
    let handle = call.handle::<Wq>(attr::DESTROY_HANDLE)?;
    call.output(attr::DESTROY_RESP, &handle.beside().events.reported())
}
