// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues. Programs post receives to them with commands of
//! [`post`](super::post).
//!
//! C headers: `struct ib_uverbs_create_srq` and others in `include/uapi/rdma/ib_user_verbs.h`.

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
use crate::edge::object::srq;
use crate::edge::object::srq::Type;
use crate::edge::object::srq::Wanted;
use crate::edge::object::xrcd::DomainUse;
use crate::edge::unsupported;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::object::cq::Cq;
use crate::object::pd::Pd;
use crate::object::xrcd::Xrcd;
use crate::proto::spec::Access;
use crate::table::only;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_buffer_desc;
use rdma::bindings::ib_uverbs_create_srq;
use rdma::bindings::ib_uverbs_create_srq_resp;
use rdma::bindings::ib_uverbs_create_xsrq;
use rdma::bindings::ib_uverbs_destroy_srq;
use rdma::bindings::ib_uverbs_destroy_srq_resp;
use rdma::bindings::ib_uverbs_modify_srq;
use rdma::bindings::ib_uverbs_query_srq;
use rdma::bindings::ib_uverbs_query_srq_resp;
use rdma::edge::verbs;

/// Handles of shared receive queues.
pub(crate) struct Srq;

/// What a queue has beside its handle.
#[pin_data]
pub(crate) struct Beside {
    /// Its events.
    #[pin]
    pub(crate) events: Asynchronous,
    /// The XRC domain that it was made with, if any.
    domain: DomainUse,
}

impl Beside {
    /// How many events were read.
    fn reported(&self) -> ib_uverbs_destroy_srq_resp {
        ib_uverbs_destroy_srq_resp {
            events_reported: self.events.reported(),
        }
    }
}

impl Ends for Beside {
    fn end(this: Ended<'_, Self>) {
        DomainUse::end(this.part(|this| &this.domain));
        Asynchronous::end(this.part(|this| &this.events));
    }
}

impl Kind for Srq {
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            events <- Asynchronous::new(),
            domain: DomainUse::new(),
        })
    }
}

impl Object for Srq {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        srq::destroy(object)
    }
}

static TYPE: NumberedType<Srq> = NumberedType::new();

/// The attributes of the methods.
mod attr {
    use rdma::bindings;
    use rdma::features;

    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE as CQ_HANDLE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_EVENT_FD as EVENT_FD;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_HANDLE as HANDLE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_LIMIT as LIMIT;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS as MAX_NUM_TAGS;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_MAX_SGE as MAX_SGE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_MAX_WR as MAX_WR;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_PD_HANDLE as PD_HANDLE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE as RESP_MAX_SGE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR as RESP_MAX_WR;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM as RESP_SRQ_NUM;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_TYPE as TYPE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_USER_HANDLE as USER_HANDLE;
    pub(super) use bindings::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE as XRCD_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_srq_cmd_attr_ids_UVERBS_ATTR_DESTROY_SRQ_HANDLE as DESTROY_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_srq_cmd_attr_ids_UVERBS_ATTR_DESTROY_SRQ_RESP as DESTROY_RESP;
    pub(super) use features::uapi::uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_BUF_UMEM as BUF_UMEM;
}

/// The table of shared receive queues.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Srq::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_srq_UVERBS_METHOD_SRQ_CREATE,
                run: create_by_ioctl,
                attributes: &[
                    &[
                        Attribute::handle(attr::HANDLE, Srq::ID, Access::New),
                        Attribute::handle(attr::PD_HANDLE, Pd::ID, Access::Read).mandatory(),
                        Attribute::constant(attr::TYPE).mandatory(),
                        Attribute::input_of::<u64>(attr::USER_HANDLE).mandatory(),
                        Attribute::input_of::<u32>(attr::MAX_WR).mandatory(),
                        Attribute::input_of::<u32>(attr::MAX_SGE).mandatory(),
                        Attribute::input_of::<u32>(attr::LIMIT).mandatory(),
                        Attribute::handle(attr::XRCD_HANDLE, Xrcd::ID, Access::Read),
                        Attribute::handle(attr::CQ_HANDLE, Cq::ID, Access::Read),
                        Attribute::input_of::<u32>(attr::MAX_NUM_TAGS),
                        Attribute::file(attr::EVENT_FD, AsyncFile::ID, Access::Read),
                        Attribute::output_of::<u32>(attr::RESP_MAX_WR).mandatory(),
                        Attribute::output_of::<u32>(attr::RESP_MAX_SGE).mandatory(),
                        Attribute::output_of::<u32>(attr::RESP_SRQ_NUM),
                    ],
                    only!(
                        SRQ_BUF_UMEM,
                        &[Attribute::input_of::<ib_uverbs_buffer_desc>(attr::BUF_UMEM)]
                    ),
                    UHW,
                ],
            },
            Method {
                id: bindings::uverbs_methods_srq_UVERBS_METHOD_SRQ_DESTROY,
                run: destroyed_by_ioctl,
                attributes: &[&[
                    Attribute::handle(attr::DESTROY_HANDLE, Srq::ID, Access::Destroy),
                    Attribute::output_of::<ib_uverbs_destroy_srq_resp>(attr::DESTROY_RESP)
                        .mandatory(),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_srq)),
    Def::Write(
        Write::both::<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_SRQ,
            create_basic,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(create_srq)),
    Def::Write(
        Write::both::<ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_XSRQ,
            create_of_type,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(create_srq)),
    Def::Write(Write::both::<
        ib_uverbs_destroy_srq,
        ib_uverbs_destroy_srq_resp,
    >(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_SRQ,
        destroy,
    )),
    Def::CommandNeeds(needs!(destroy_srq)),
    Def::Write(
        Write::input::<ib_uverbs_modify_srq>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_SRQ,
            modify,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(modify_srq)),
    Def::Write(
        Write::both::<ib_uverbs_query_srq, ib_uverbs_query_srq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_SRQ,
            query,
        ),
    ),
    Def::CommandNeeds(needs!(query_srq)),
];

/// What a queue is made of.
struct Arguments<'a> {
    wanted: Wanted<'a>,
    pd: &'a verbs::Pd,
    /// The handle of the domain of an XRC queue.
    domain: Option<&'a Handle<Xrcd>>,
    user_handle: u64,
    events: Option<Kept<AsyncFile>>,
}

/// What programs are told of a queue.
struct Facts {
    max_wr: u32,
    max_sge: u32,
    number: Option<u32>,
}

/// Makes a queue.
fn create<'c>(mut new: New<'c, Srq>, arguments: Arguments<'_>) -> Result<(&'c Handle<Srq>, Facts)> {
    new.set_user_handle(arguments.user_handle);
    // The driver may raise events before it returns.
    new.handle().beside().events.attach(arguments.events);
    let made = srq::create(new, arguments.pd, &arguments.wanted)?;
    let handle = made.srq.handle();
    if let Some(domain) = arguments.domain {
        handle.beside().domain.attach(domain);
    }
    let facts = Facts {
        max_wr: made.max_wr,
        max_sge: made.max_sge,
        number: made.number,
    };
    Ok((handle, facts))
}

/// Makes a queue for a command.
fn create_by_command(call: &Call, request: &ib_uverbs_create_xsrq) -> Result {
    use bindings::ib_srq_type_IB_SRQT_BASIC as BASIC;
    use bindings::ib_srq_type_IB_SRQT_TM as TM;
    use bindings::ib_srq_type_IB_SRQT_XRC as XRC;

    let new = New::<Srq>::begin(call)?;
    let domain = match request.srq_type {
        XRC => Some(Shared::<Xrcd>::get(call, request.xrcd_handle).map_err(|_| EINVAL)?),
        _ => None,
    };
    let cq = match request.srq_type {
        XRC | TM => Some(Shared::<Cq>::get(call, request.cq_handle)?),
        _ => None,
    };
    let pd = Shared::<Pd>::get(call, request.pd_handle)?;
    let kind = match (request.srq_type, &cq, &domain) {
        (BASIC, _, _) => Type::Basic,
        (XRC, Some(cq), Some(domain)) => Type::Xrc(cq, domain),
        (TM, Some(cq), _) => Type::TagMatching(cq, request.max_num_tags),
        // As drivers answer, to whom the C module passes any number.
        _ => return Err(unsupported()),
    };
    let (handle, facts) = create(
        new,
        Arguments {
            wanted: Wanted {
                max_wr: request.max_wr,
                max_sge: request.max_sge,
                limit: request.srq_limit,
                kind,
            },
            pd: &pd,
            domain: domain.as_ref().map(Shared::handle),
            user_handle: request.user_handle,
            events: events::default_file(call),
        },
    )?;
    call.respond(|answer: &mut ib_uverbs_create_srq_resp| {
        answer.srq_handle = handle.number();
        answer.max_wr = facts.max_wr;
        answer.max_sge = facts.max_sge;
        answer.srqn = facts.number.unwrap_or(0);
    })
}

fn create_basic(call: &Call) -> Result {
    let request: ib_uverbs_create_srq = call.request()?;
    create_by_command(
        call,
        &ib_uverbs_create_xsrq {
            user_handle: request.user_handle,
            srq_type: bindings::ib_srq_type_IB_SRQT_BASIC,
            pd_handle: request.pd_handle,
            max_wr: request.max_wr,
            max_sge: request.max_sge,
            srq_limit: request.srq_limit,
            ..Default::default()
        },
    )
}

fn create_of_type(call: &Call) -> Result {
    create_by_command(call, &call.request()?)
}

fn create_by_ioctl(call: &Call) -> Result {
    let new = call.take_new::<Srq>(attr::HANDLE)?;
    let pd = call.object::<Pd>(attr::PD_HANDLE)?;
    let max_sge = call.input(attr::MAX_SGE)?;
    let max_wr = call.input(attr::MAX_WR)?;
    let limit = call.input(attr::LIMIT)?;
    let user_handle = call.input(attr::USER_HANDLE)?;
    let (kind, domain) = match call.constant(attr::TYPE)? {
        bindings::ib_uverbs_srq_type_IB_UVERBS_SRQT_BASIC => (Type::Basic, None),
        bindings::ib_uverbs_srq_type_IB_UVERBS_SRQT_XRC => {
            let cq = call.object::<Cq>(attr::CQ_HANDLE)?;
            let domain = call.object::<Xrcd>(attr::XRCD_HANDLE)?;
            let handle = call.handle::<Xrcd>(attr::XRCD_HANDLE)?;
            (Type::Xrc(cq, domain), Some(handle))
        }
        bindings::ib_uverbs_srq_type_IB_UVERBS_SRQT_TM => {
            let cq = call.object::<Cq>(attr::CQ_HANDLE)?;
            let tags = call.input(attr::MAX_NUM_TAGS)?;
            (Type::TagMatching(cq, tags), None)
        }
        _ => return Err(EINVAL),
    };
    let (_, facts) = create(
        new,
        Arguments {
            wanted: Wanted {
                max_wr,
                max_sge,
                limit,
                kind,
            },
            pd,
            domain,
            user_handle,
            events: async_event::of_attribute(call, attr::EVENT_FD)?,
        },
    )?;
    call.output(attr::RESP_MAX_WR, &facts.max_wr)?;
    call.output(attr::RESP_MAX_SGE, &facts.max_sge)?;
    match facts.number {
        Some(number) => call.output(attr::RESP_SRQ_NUM, &number),
        None => Ok(()),
    }
}

fn modify(call: &Call) -> Result {
    let request: ib_uverbs_modify_srq = call.request()?;
    let queue = Shared::<Srq>::get(call, request.srq_handle)?;
    srq::modify(
        call,
        &queue,
        request.max_wr,
        request.srq_limit,
        request.attr_mask,
    )
}

fn query(call: &Call) -> Result {
    let request: ib_uverbs_query_srq = call.request()?;
    let queue = Shared::<Srq>::get(call, request.srq_handle)?;
    let attr = srq::query(&queue)?;
    call.respond(|answer: &mut ib_uverbs_query_srq_resp| {
        answer.max_wr = attr.max_wr;
        answer.max_sge = attr.max_sge;
        answer.srq_limit = attr.srq_limit;
    })
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_destroy_srq = call.request()?;
    let reported = {
        let destroyed = Destroyed::<Srq>::destroy(call, request.srq_handle)?;
        destroyed.handle().beside().reported()
    };
    call.respond_with(&reported)
}

/// Tells how many events were read of a queue that was destroyed.
fn destroyed_by_ioctl(call: &Call) -> Result {
    let reported = call
        .handle::<Srq>(attr::DESTROY_HANDLE)?
        .beside()
        .reported();
    call.output(attr::DESTROY_RESP, &reported)
}
