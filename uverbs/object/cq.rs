// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! C headers: `struct ib_uverbs_create_cq` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::events;
use crate::edge::events::Asynchronous;
use crate::edge::events::Completions;
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
use crate::edge::object::cq;
use crate::edge::object::cq::LastQp;
use crate::edge::object::cq::Wanted;
use crate::edge::unsupported;
use crate::edge::user::Plain;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::object::comp_channel;
use crate::object::comp_channel::Channel;
use crate::proto::spec::Access;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_create_cq;
use rdma::bindings::ib_uverbs_create_cq_resp;
use rdma::bindings::ib_uverbs_destroy_cq;
use rdma::bindings::ib_uverbs_destroy_cq_resp;
use rdma::bindings::ib_uverbs_ex_create_cq;
use rdma::bindings::ib_uverbs_ex_create_cq_resp;
use rdma::bindings::ib_uverbs_ex_modify_cq;
use rdma::bindings::ib_uverbs_poll_cq;
use rdma::bindings::ib_uverbs_poll_cq_resp;
use rdma::bindings::ib_uverbs_req_notify_cq;
use rdma::bindings::ib_uverbs_resize_cq;
use rdma::bindings::ib_uverbs_resize_cq_resp;
use rdma::bindings::ib_uverbs_wc;

/// Handles of completion queues.
pub(crate) struct Cq;

/// The events of a queue, beside its handle.
#[pin_data]
pub(crate) struct Beside {
    /// Completions.
    #[pin]
    pub(crate) completions: Completions,
    /// Asynchronous events.
    #[pin]
    pub(crate) events: Asynchronous,
}

impl Beside {
    /// How many events were read.
    fn reported(&self) -> ib_uverbs_destroy_cq_resp {
        ib_uverbs_destroy_cq_resp {
            comp_events_reported: self.completions.reported(),
            async_events_reported: self.events.reported(),
        }
    }
}

impl Ends for Beside {
    fn end(this: Ended<'_, Self>) {
        Completions::end(this.part(|this| &this.completions));
        Asynchronous::end(this.part(|this| &this.events));
    }
}

impl Kind for Cq {
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            completions <- Completions::new(),
            events <- Asynchronous::new(),
        })
    }
}

impl Object for Cq {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        cq::destroy(object)
    }
}

static TYPE: NumberedType<Cq> = NumberedType::new();

/// The attributes of `UVERBS_METHOD_CQ_CREATE`.
mod attr {
    use rdma::bindings;

    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD as BUFFER_FD;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH as BUFFER_LENGTH;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET as BUFFER_OFFSET;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA as BUFFER_VA;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM as BUF_UMEM;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL as COMP_CHANNEL;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_COMP_VECTOR as COMP_VECTOR;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_CQE as CQE;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_EVENT_FD as EVENT_FD;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_FLAGS as FLAGS;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_HANDLE as HANDLE;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_RESP_CQE as RESP_CQE;
    pub(super) use bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_USER_HANDLE as USER_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_cq_cmd_attr_ids_UVERBS_ATTR_DESTROY_CQ_HANDLE as DESTROY_HANDLE;
    pub(super) use bindings::uverbs_attrs_destroy_cq_cmd_attr_ids_UVERBS_ATTR_DESTROY_CQ_RESP as DESTROY_RESP;
}

/// The table of completion queues.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Cq::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_cq_UVERBS_METHOD_CQ_CREATE,
                run: create_by_ioctl,
                attributes: &[
                    &[
                        Attribute::handle(attr::HANDLE, Cq::ID, Access::New),
                        Attribute::input_of::<u32>(attr::CQE).mandatory(),
                        Attribute::input_of::<u64>(attr::USER_HANDLE).mandatory(),
                        Attribute::file(attr::COMP_CHANNEL, Channel::ID, Access::Read),
                        Attribute::input_of::<u32>(attr::COMP_VECTOR).mandatory(),
                        Attribute::flags(attr::FLAGS),
                        Attribute::output_of::<u32>(attr::RESP_CQE).mandatory(),
                        Attribute::file(attr::EVENT_FD, AsyncFile::ID, Access::Read),
                        // For drivers with `create_user_cq`.
                        Attribute::input_of::<u64>(attr::BUFFER_VA),
                        Attribute::input_of::<u64>(attr::BUFFER_LENGTH),
                        Attribute::raw_file(attr::BUFFER_FD),
                        Attribute::input_of::<u64>(attr::BUFFER_OFFSET),
                        Attribute::input_of::<bindings::ib_uverbs_buffer_desc>(attr::BUF_UMEM),
                    ],
                    UHW,
                ],
            },
            Method {
                id: bindings::uverbs_methods_cq_UVERBS_METHOD_CQ_DESTROY,
                run: destroyed_by_ioctl,
                attributes: &[&[
                    Attribute::handle(attr::DESTROY_HANDLE, Cq::ID, Access::Destroy),
                    Attribute::output_of::<ib_uverbs_destroy_cq_resp>(attr::DESTROY_RESP)
                        .mandatory(),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_cq)),
    Def::Write(
        Write::both::<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_CQ,
            create_by_write,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(create_cq)),
    Def::Write(
        Write::both::<ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_CQ,
            destroy,
        ),
    ),
    Def::CommandNeeds(needs!(destroy_cq)),
    Def::Write(Write::both::<ib_uverbs_poll_cq, ib_uverbs_poll_cq_resp>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POLL_CQ,
        poll,
    )),
    Def::CommandNeeds(needs!(poll_cq)),
    Def::Write(Write::input::<ib_uverbs_req_notify_cq>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        request_notify,
    )),
    Def::CommandNeeds(needs!(req_notify_cq)),
    Def::Write(
        Write::both::<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_RESIZE_CQ,
            resize,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(resize_user_cq)),
    Def::Write(Write::extended::<
        ib_uverbs_ex_create_cq,
        ib_uverbs_ex_create_cq_resp,
    >(
        bindings::IB_USER_VERBS_EX_CMD_CREATE_CQ, create_extended
    )),
    Def::CommandNeeds(needs!(create_cq)),
    Def::Write(Write::extended::<ib_uverbs_ex_modify_cq, ()>(
        bindings::IB_USER_VERBS_EX_CMD_MODIFY_CQ,
        modify,
    )),
    Def::CommandNeeds(needs!(modify_cq)),
];

/// What a queue is made of.
struct Arguments {
    wanted: Wanted,
    user_handle: u64,
    channel: Option<Kept<Channel>>,
    events: Option<Kept<AsyncFile>>,
}

/// Makes a queue, and returns its handle and size.
fn create(mut new: New<'_, Cq>, arguments: Arguments) -> Result<(&Handle<Cq>, u32)> {
    new.set_user_handle(arguments.user_handle);
    // The driver may raise events before it returns.
    let beside = new.handle().beside();
    if let Some(channel) = arguments.channel {
        beside.completions.attach(channel);
    }
    beside.events.attach(arguments.events);
    let made = cq::create(new, &arguments.wanted)?;
    // CAST: Drivers set a size that is not negative.
    let size = made.cqe() as u32;
    Ok((made.handle(), size))
}

/// Makes a queue for a command.
fn create_by_command(call: &Call, request: &ib_uverbs_ex_create_cq) -> Result {
    if request.comp_vector >= call.char_device().completion_vectors() || request.cqe == 0 {
        return Err(EINVAL);
    }
    let new = New::<Cq>::begin(call)?;
    let channel = match request.comp_channel {
        0.. => Some(comp_channel::get(call, request.comp_channel)?),
        // No channel.
        _ => None,
    };
    let (handle, size) = create(
        new,
        Arguments {
            wanted: Wanted {
                cqe: request.cqe,
                vector: request.comp_vector,
                flags: request.flags,
            },
            user_handle: request.user_handle,
            channel,
            events: events::default_file(call),
        },
    )?;
    call.respond(|answer: &mut ib_uverbs_ex_create_cq_resp| {
        answer.base.cq_handle = handle.number();
        answer.base.cqe = size;
        answer.response_length = call.response_length::<ib_uverbs_ex_create_cq_resp>();
    })
}

fn create_by_write(call: &Call) -> Result {
    let request: ib_uverbs_create_cq = call.request()?;
    create_by_command(
        call,
        &ib_uverbs_ex_create_cq {
            user_handle: request.user_handle,
            cqe: request.cqe,
            comp_vector: request.comp_vector,
            comp_channel: request.comp_channel,
            ..Default::default()
        },
    )
}

fn create_extended(call: &Call) -> Result {
    let request: ib_uverbs_ex_create_cq = call.request()?;
    if request.comp_mask != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    create_by_command(call, &request)
}

fn create_by_ioctl(call: &Call) -> Result {
    const FLAGS: u32 =
        bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
            | bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;

    let new = call.take_new::<Cq>(attr::HANDLE)?;
    if !cq::can_create(new.device()?) {
        return Err(unsupported());
    }
    let vector = call.input(attr::COMP_VECTOR)?;
    let cqe = call.input(attr::CQE)?;
    if cqe == 0 {
        return Err(EINVAL);
    }
    let user_handle = call.input(attr::USER_HANDLE)?;
    let flags = call.flags32(attr::FLAGS, FLAGS.into())?;
    let channel = match call.has(attr::COMP_CHANNEL) {
        true => Some(call.handle::<Channel>(attr::COMP_CHANNEL)?.keep()),
        false => None,
    };
    let events = async_event::of_attribute(call, attr::EVENT_FD)?;
    if vector >= call.char_device().completion_vectors() {
        return Err(EINVAL);
    }
    let (_, size) = create(
        new,
        Arguments {
            wanted: Wanted { cqe, vector, flags },
            user_handle,
            channel,
            events,
        },
    )?;
    call.output(attr::RESP_CQE, &size)
}

fn resize(call: &Call) -> Result {
    let request: ib_uverbs_resize_cq = call.request()?;
    if request.cqe == 0 {
        return Err(EINVAL);
    }
    let queue = Shared::<Cq>::get(call, request.cq_handle)?;
    cq::resize(call, &queue, request.cqe)?;
    call.respond(|answer: &mut ib_uverbs_resize_cq_resp| {
        // CAST: Drivers set a size that is not negative.
        answer.cqe = queue.cqe() as u32;
    })
}

/// Writes completions to the program, behind their number. The program tells how many it has room
/// for in the request; the length of its answer does not count.
fn poll(call: &Call) -> Result {
    use bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_OUT as CORE_OUT;

    let request: ib_uverbs_poll_cq = call.request()?;
    let queue = Shared::<Cq>::get(call, request.cq_handle)?;
    let (start, _) = call.answer();
    let mut at = start.after(size_of::<ib_uverbs_poll_cq_resp>());
    let mut answer = ib_uverbs_poll_cq_resp::zeroed();
    let mut last = LastQp::NONE;
    while answer.count < request.ne {
        let Some(completion) = cq::poll(call, &queue, &mut last)? else {
            break;
        };
        at.write(&completion, size_of::<ib_uverbs_wc>())?;
        at = at.after(size_of::<ib_uverbs_wc>());
        answer.count = answer.count.saturating_add(1);
    }
    start.write(&answer, size_of::<ib_uverbs_poll_cq_resp>())?;
    match call.has(CORE_OUT) {
        true => call.set_written(CORE_OUT),
        false => Ok(()),
    }
}

fn request_notify(call: &Call) -> Result {
    let request: ib_uverbs_req_notify_cq = call.request()?;
    let queue = Shared::<Cq>::get(call, request.cq_handle)?;
    cq::request_notify(&queue, request.solicited_only != 0)
}

fn modify(call: &Call) -> Result {
    let request: ib_uverbs_ex_modify_cq = call.request()?;
    if request.attr_mask == 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    if request.attr_mask > bindings::ib_cq_attr_mask_IB_CQ_MODERATE {
        return Err(unsupported());
    }
    let queue = Shared::<Cq>::get(call, request.cq_handle)?;
    cq::moderate(&queue, request.attr.cq_count, request.attr.cq_period)
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_destroy_cq = call.request()?;
    let reported = {
        let destroyed = Destroyed::<Cq>::destroy(call, request.cq_handle)?;
        destroyed.handle().beside().reported()
    };
    call.respond_with(&reported)
}

/// Tells how many events were read of a queue that was destroyed.
fn destroyed_by_ioctl(call: &Call) -> Result {
    let reported = call.handle::<Cq>(attr::DESTROY_HANDLE)?.beside().reported();
    call.output(attr::DESTROY_RESP, &reported)
}
