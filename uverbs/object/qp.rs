// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: how they are made, opened and destroyed. Their attributes are in
//! [`super::qp_attr`].
//!
//! A command and a method make queue pairs. Both end in [`create`]; what needs a right is of a type
//! that only somebody who has it can make ([`Type`], [`SourceQpn`]).
//!
//! C headers: `struct ib_uverbs_create_qp` and others in `include/uapi/rdma/ib_user_verbs.h`,
//! `enum uverbs_attrs_create_qp_cmd_attr_ids` in `ib_user_ioctl_cmds.h`.

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
use crate::edge::object::qp;
use crate::edge::object::qp::Asked;
use crate::edge::object::qp::Parts;
use crate::edge::object::xrcd::DomainUse;
use crate::edge::user::Plain;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::object::cq::Cq;
use crate::object::mcast::Groups;
use crate::object::pd::Pd;
use crate::object::rwq_table::RwqTable;
use crate::object::srq::Srq;
use crate::object::xrcd::Xrcd;
use crate::proto::spec::Access;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::bindings::ib_uverbs_buffer_desc;
use rdma::bindings::ib_uverbs_create_qp;
use rdma::bindings::ib_uverbs_create_qp_resp;
use rdma::bindings::ib_uverbs_destroy_qp;
use rdma::bindings::ib_uverbs_destroy_qp_resp;
use rdma::bindings::ib_uverbs_ex_create_qp;
use rdma::bindings::ib_uverbs_ex_create_qp_resp;
use rdma::bindings::ib_uverbs_open_qp;
use rdma::bindings::ib_uverbs_qp_cap;
use rdma::edge::uverbs::Reason;

/// Handles of queue pairs.
pub(crate) struct Qp;

/// What a handle has beside its queue pair.
#[pin_data]
pub(crate) struct Beside {
    /// Its events.
    #[pin]
    pub(crate) events: Asynchronous,
    /// The multicast groups that it is attached to.
    #[pin]
    pub(crate) groups: Groups,
    /// The XRC domain of a target.
    domain: DomainUse,
    /// The number, for completions.
    pub(crate) number: Atomic<u32>,
}

impl Ends for Beside {
    fn end(this: Ended<'_, Self>) {
        this.groups.free();
        DomainUse::end(this.part(|this| &this.domain));
        Asynchronous::end(this.part(|this| &this.events));
    }
}

impl Kind for Qp {
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            events <- Asynchronous::new(),
            groups <- Groups::new(),
            domain: DomainUse::new(),
            number: Atomic::new(0),
        })
    }
}

impl Object for Qp {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        let groups = &object.handle().beside().groups;
        if object.why() != Reason::DESTROY {
            groups.leave(object.object());
        } else if groups.any() {
            return Err(EBUSY);
        }
        qp::destroy(object)
    }
}

static TYPE: NumberedType<Qp> = NumberedType::new();

use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_BUF_UMEM as BUF_UMEM;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_CAP as CAP;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_EVENT_FD as EVENT_FD;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_FLAGS as FLAGS;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_HANDLE as HANDLE;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE as IND_TABLE;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_PD_HANDLE as PD;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE as RECV_CQ;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_RESP_CAP as RESP_CAP;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_RESP_QP_NUM as RESP_QP_NUM;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM as RQ_BUF_UMEM;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE as SEND_CQ;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_SOURCE_QPN as SOURCE_QPN;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM as SQ_BUF_UMEM;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_SRQ_HANDLE as SRQ;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_TYPE as TYPE_OF_QP;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_USER_HANDLE as USER_HANDLE;
use bindings::uverbs_attrs_create_qp_cmd_attr_ids_UVERBS_ATTR_CREATE_QP_XRCD_HANDLE as XRCD;
use bindings::uverbs_attrs_destroy_qp_cmd_attr_ids_UVERBS_ATTR_DESTROY_QP_HANDLE as DESTROY_HANDLE;
use bindings::uverbs_attrs_destroy_qp_cmd_attr_ids_UVERBS_ATTR_DESTROY_QP_RESP as DESTROY_RESP;

/// The table of queue pairs.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Qp::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_qp_UVERBS_METHOD_QP_CREATE,
                run: create_by_ioctl,
                attributes: &[
                    &[
                        Attribute::handle(HANDLE, Qp::ID, Access::New),
                        Attribute::handle(XRCD, Xrcd::ID, Access::Read),
                        Attribute::handle(PD, Pd::ID, Access::Read),
                        Attribute::handle(SRQ, Srq::ID, Access::Read),
                        Attribute::handle(SEND_CQ, Cq::ID, Access::Read),
                        Attribute::handle(RECV_CQ, Cq::ID, Access::Read),
                        Attribute::handle(IND_TABLE, RwqTable::ID, Access::Read),
                        Attribute::input_of::<u64>(USER_HANDLE).mandatory(),
                        Attribute::input_struct::<ib_uverbs_qp_cap>(
                            CAP,
                            size_of::<ib_uverbs_qp_cap>(),
                        )
                        .mandatory(),
                        Attribute::constant(TYPE_OF_QP).mandatory(),
                        Attribute::flags(FLAGS),
                        Attribute::input_of::<u32>(SOURCE_QPN),
                        Attribute::file(EVENT_FD, AsyncFile::ID, Access::Read),
                        Attribute::output_struct::<ib_uverbs_qp_cap>(
                            RESP_CAP,
                            size_of::<ib_uverbs_qp_cap>(),
                        )
                        .mandatory(),
                        Attribute::output_of::<u32>(RESP_QP_NUM).mandatory(),
                        Attribute::input_of::<ib_uverbs_buffer_desc>(BUF_UMEM),
                        Attribute::input_of::<ib_uverbs_buffer_desc>(RQ_BUF_UMEM),
                        Attribute::input_of::<ib_uverbs_buffer_desc>(SQ_BUF_UMEM),
                    ],
                    UHW,
                ],
            },
            Method {
                id: bindings::uverbs_methods_qp_UVERBS_METHOD_QP_DESTROY,
                run: destroy_by_ioctl,
                attributes: &[&[
                    Attribute::handle(DESTROY_HANDLE, Qp::ID, Access::Destroy),
                    Attribute::output_of::<ib_uverbs_destroy_qp_resp>(DESTROY_RESP).mandatory(),
                ]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(destroy_qp)),
    Def::Write(
        Write::both::<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_QP,
            create_by_command,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(create_qp)),
    Def::Write(Write::extended::<
        ib_uverbs_ex_create_qp,
        ib_uverbs_ex_create_qp_resp,
    >(
        bindings::IB_USER_VERBS_EX_CMD_CREATE_QP, create_extended
    )),
    Def::CommandNeeds(needs!(create_qp)),
    Def::Write(
        Write::both::<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_QP,
            destroy,
        ),
    ),
    Def::CommandNeeds(needs!(destroy_qp)),
    Def::Object(Xrcd::ID),
    Def::Write(
        Write::both::<ib_uverbs_open_qp, ib_uverbs_create_qp_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_QP,
            open,
        )
        .udata(),
    ),
];

/// The type of a queue pair, which the program may make.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Type(u32);

impl Type {
    const XRC_INITIATOR: Self = Self(bindings::ib_qp_type_IB_QPT_XRC_INI);
    const XRC_TARGET: Self = Self(bindings::ib_qp_type_IB_QPT_XRC_TGT);

    /// The type of a number (`enum ib_qp_type`).
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is none that programs make; `EPERM`: it is for those with `CAP_NET_RAW`.
    fn permitted(call: &Call, number: u32) -> Result<Self> {
        match number {
            bindings::ib_qp_type_IB_QPT_RAW_PACKET if !qp::has_raw_right(call) => Err(EPERM),
            bindings::ib_qp_type_IB_QPT_RAW_PACKET
            | bindings::ib_qp_type_IB_QPT_RC
            | bindings::ib_qp_type_IB_QPT_UC
            | bindings::ib_qp_type_IB_QPT_UD
            | bindings::ib_qp_type_IB_QPT_XRC_INI
            | bindings::ib_qp_type_IB_QPT_XRC_TGT
            | bindings::ib_qp_type_IB_QPT_DRIVER => Ok(Self(number)),
            _ => Err(EINVAL),
        }
    }
}

/// A number of another queue pair as the source of packets, which the program may use.
#[derive(Clone, Copy)]
struct SourceQpn(u32);

impl SourceQpn {
    /// # Errors
    ///
    /// `EPERM`: it is for those with `CAP_NET_RAW`.
    fn permitted(call: &Call, number: u32) -> Result<Self> {
        match qp::has_raw_right(call) {
            true => Ok(Self(number)),
            false => Err(EPERM),
        }
    }
}

/// A queue pair that a program asks for.
struct Request<'a> {
    of: Type,
    user_handle: u64,
    cap: ib_uverbs_qp_cap,
    flags: u32,
    source: Option<SourceQpn>,
    signals_all: bool,
    /// The handle of its XRC domain.
    domain: Option<&'a Handle<Xrcd>>,
    parts: Parts<'a>,
    events: Option<Kept<AsyncFile>>,
}

/// What is answered.
struct Made {
    handle: u32,
    number: u32,
    cap: ib_uverbs_qp_cap,
}

/// Makes a queue pair, for both ways to ask for one. May sleep.
fn create(mut new: New<'_, Qp>, request: Request<'_>) -> Result<Made> {
    new.set_user_handle(request.user_handle);
    new.handle().beside().events.attach(request.events);
    let asked = Asked {
        kind: request.of.0,
        cap: request.cap,
        flags: request.flags,
        source_qpn: request.source.map(|SourceQpn(number)| number),
        signals_all: request.signals_all,
    };
    let (made, cap) = qp::create(new, &request.parts, &asked)?;
    let beside = made.handle().beside();
    if let Some(domain) = request.domain {
        beside.domain.attach(domain);
    }
    let number = made.qp_num();
    beside.number.store(number, Relaxed);
    Ok(Made {
        handle: made.handle().number(),
        number,
        cap,
    })
}

fn create_by_command(call: &Call) -> Result {
    let request: ib_uverbs_create_qp = call.request()?;
    let mut extended = ib_uverbs_ex_create_qp::zeroed();
    extended.user_handle = request.user_handle;
    extended.pd_handle = request.pd_handle;
    extended.send_cq_handle = request.send_cq_handle;
    extended.recv_cq_handle = request.recv_cq_handle;
    extended.srq_handle = request.srq_handle;
    extended.max_send_wr = request.max_send_wr;
    extended.max_recv_wr = request.max_recv_wr;
    extended.max_send_sge = request.max_send_sge;
    extended.max_recv_sge = request.max_recv_sge;
    extended.max_inline_data = request.max_inline_data;
    extended.sq_sig_all = request.sq_sig_all;
    extended.qp_type = request.qp_type;
    extended.is_srq = request.is_srq;
    answer(call, &create_by_numbers(call, &extended)?)
}

fn create_extended(call: &Call) -> Result {
    let request: ib_uverbs_ex_create_qp = call.request()?;
    let known = bindings::ib_uverbs_create_qp_mask_IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    if request.comp_mask & !known != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    answer(call, &create_by_numbers(call, &request)?)
}

/// Answers both commands alike, as the C module does: the plain one has room for the first part.
fn answer(call: &Call, made: &Made) -> Result {
    call.respond(|answer: &mut ib_uverbs_ex_create_qp_resp| {
        fill(&mut answer.base, made);
        answer.response_length = call.response_length::<ib_uverbs_ex_create_qp_resp>();
    })
}

fn fill(answer: &mut ib_uverbs_create_qp_resp, made: &Made) {
    answer.qp_handle = made.handle;
    answer.qpn = made.number;
    answer.max_send_wr = made.cap.max_send_wr;
    answer.max_recv_wr = made.cap.max_recv_wr;
    answer.max_send_sge = made.cap.max_send_sge;
    answer.max_recv_sge = made.cap.max_recv_sge;
    answer.max_inline_data = made.cap.max_inline_data;
}

/// Flags that a command may have.
// CAST: Bits of 32.
const COMMAND_FLAGS: u32 = (bindings::ib_qp_create_flags_IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
    | bindings::ib_qp_create_flags_IB_QP_CREATE_CROSS_CHANNEL
    | bindings::ib_qp_create_flags_IB_QP_CREATE_MANAGED_SEND
    | bindings::ib_qp_create_flags_IB_QP_CREATE_MANAGED_RECV
    | bindings::ib_qp_create_flags_IB_QP_CREATE_SCATTER_FCS
    | bindings::ib_qp_create_flags_IB_QP_CREATE_CVLAN_STRIPPING
    | bindings::ib_qp_create_flags_IB_QP_CREATE_SOURCE_QPN
    | bindings::ib_qp_create_flags_IB_QP_CREATE_PCI_WRITE_END_PADDING)
    as u32;

/// A queue pair whose parts are named by numbers.
fn create_by_numbers(call: &Call, request: &ib_uverbs_ex_create_qp) -> Result<Made> {
    let of = Type::permitted(call, request.qp_type.into())?;
    let new = New::<Qp>::begin(call)?;
    let mut cap = ib_uverbs_qp_cap {
        max_send_wr: request.max_send_wr,
        max_recv_wr: request.max_recv_wr,
        max_send_sge: request.max_send_sge,
        max_recv_sge: request.max_recv_sge,
        max_inline_data: request.max_inline_data,
    };
    let (mut pd, mut srq, mut send, mut recv, mut table, mut domain) =
        (None, None, None, None, None, None);

    let with_table = bindings::ib_uverbs_create_qp_mask_IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    if request.comp_mask & with_table != 0 {
        table = Some(Shared::<RwqTable>::get(call, request.rwq_ind_tbl_handle)?);
        // A target, which does not receive by itself, would not count as a user of the table.
        let target = of == Type::XRC_TARGET;
        if target || cap.max_recv_wr != 0 || cap.max_recv_sge != 0 || request.is_srq != 0 {
            return Err(EINVAL);
        }
    }
    let receives = of != Type::XRC_INITIATOR && of != Type::XRC_TARGET;
    if of == Type::XRC_TARGET {
        let found = Shared::<Xrcd>::get(call, request.pd_handle).map_err(|_| EINVAL)?;
        domain = Some(found);
    } else {
        if of == Type::XRC_INITIATOR {
            cap.max_recv_wr = 0;
            cap.max_recv_sge = 0;
        } else {
            if request.is_srq != 0 {
                let found = Shared::<Srq>::get(call, request.srq_handle)?;
                if found.srq_type() == bindings::ib_srq_type_IB_SRQT_XRC {
                    return Err(EINVAL);
                }
                srq = Some(found);
            }
            if table.is_none() && request.recv_cq_handle != request.send_cq_handle {
                recv = Some(Shared::<Cq>::get(call, request.recv_cq_handle)?);
            }
        }
        if table.is_none() || cap.max_send_wr != 0 {
            send = Some(Shared::<Cq>::get(call, request.send_cq_handle)?);
        }
        pd = Some(Shared::<Pd>::get(call, request.pd_handle)?);
    }
    if request.create_flags & !COMMAND_FLAGS != 0 {
        return Err(EINVAL);
    }
    // CAST: A bit.
    let with_source = bindings::ib_qp_create_flags_IB_QP_CREATE_SOURCE_QPN as u32;
    let source = match request.create_flags & with_source {
        0 => None,
        _ => Some(SourceQpn::permitted(call, request.source_qpn)?),
    };
    let recv_cq = match receives && table.is_none() {
        true => recv.as_deref().or(send.as_deref()),
        false => None,
    };
    create(
        new,
        Request {
            of,
            user_handle: request.user_handle,
            cap,
            flags: request.create_flags,
            source,
            signals_all: request.sq_sig_all != 0,
            domain: domain.as_ref().map(|domain| domain.handle()),
            parts: Parts {
                pd: pd.as_deref(),
                send_cq: send.as_deref(),
                recv_cq,
                srq: srq.as_deref(),
                xrcd: domain.as_deref(),
                table: table.as_deref(),
            },
            events: events::default_file(call),
        },
    )
}

use bindings::ib_uverbs_qp_create_flags_IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK as BLOCK_LOOPBACK;
use bindings::ib_uverbs_qp_create_flags_IB_UVERBS_QP_CREATE_CVLAN_STRIPPING as CVLAN_STRIPPING;
use bindings::ib_uverbs_qp_create_flags_IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING as END_PADDING;
use bindings::ib_uverbs_qp_create_flags_IB_UVERBS_QP_CREATE_SCATTER_FCS as SCATTER_FCS;
use bindings::ib_uverbs_qp_create_flags_IB_UVERBS_QP_CREATE_SQ_SIG_ALL as SIGNAL_ALL;

/// Whether a queue pair of a type may have flags of the method.
fn is_flagged_so(of: Type, flags: u32) -> bool {
    let flags = flags & !SIGNAL_ALL;
    if flags == 0 || of.0 == bindings::ib_qp_type_IB_QPT_DRIVER {
        return true;
    }
    match of.0 {
        bindings::ib_qp_type_IB_QPT_RAW_PACKET => true,
        bindings::ib_qp_type_IB_QPT_UD => flags & (SCATTER_FCS | CVLAN_STRIPPING) == 0,
        _ => false,
    }
}

/// The object in an attribute, if it was given.
fn part<K: Object>(call: &Call, id: u32) -> Result<Option<&K::Of>> {
    match call.has(id) {
        true => call.object::<K>(id).map(Some),
        false => Ok(None),
    }
}

fn create_by_ioctl(call: &Call) -> Result {
    let cap: ib_uverbs_qp_cap = call.input_or_zero(CAP)?;
    let user_handle = call.input(USER_HANDLE)?;
    let of = Type::permitted(call, call.constant(TYPE_OF_QP)?)?;
    let mut parts = Parts::default();
    let mut domain = None;
    if of == Type::XRC_TARGET {
        if [RECV_CQ, SEND_CQ, PD, IND_TABLE]
            .iter()
            .any(|id| call.has(*id))
        {
            return Err(EINVAL);
        }
        domain = Some(call.handle::<Xrcd>(XRCD)?);
        parts.xrcd = Some(call.object::<Xrcd>(XRCD)?);
    } else {
        if call.has(XRCD) || (of == Type::XRC_INITIATOR && call.has(SRQ)) {
            return Err(EINVAL);
        }
        parts.pd = Some(call.object::<Pd>(PD)?);
        parts.table = part::<RwqTable>(call, IND_TABLE)?;
        if parts.table.is_some() {
            let receives = cap.max_recv_wr != 0 || cap.max_recv_sge != 0;
            if receives || call.has(RECV_CQ) || call.has(SRQ) {
                return Err(EINVAL);
            }
            if cap.max_send_wr != 0 {
                parts.send_cq = Some(call.object::<Cq>(SEND_CQ)?);
            }
        } else {
            parts.send_cq = Some(call.object::<Cq>(SEND_CQ)?);
            if of != Type::XRC_INITIATOR {
                parts.recv_cq = Some(call.object::<Cq>(RECV_CQ)?);
            }
        }
    }
    let known = BLOCK_LOOPBACK | SCATTER_FCS | CVLAN_STRIPPING | END_PADDING | SIGNAL_ALL;
    let flags = call.flags32(FLAGS, known.into())?;
    if !is_flagged_so(of, flags) {
        return Err(EINVAL);
    }
    let source = match call.has(SOURCE_QPN) {
        true => Some(SourceQpn::permitted(call, call.input(SOURCE_QPN)?)?),
        false => None,
    };
    parts.srq = part::<Srq>(call, SRQ)?;
    if let Some(srq) = parts.srq {
        let is_xrc = srq.srq_type() == bindings::ib_srq_type_IB_SRQT_XRC;
        if is_xrc != (of == Type::XRC_TARGET) {
            return Err(EINVAL);
        }
    }
    let made = create(
        call.take_new::<Qp>(HANDLE)?,
        Request {
            of,
            user_handle,
            cap,
            flags: flags & !SIGNAL_ALL,
            source,
            signals_all: flags & SIGNAL_ALL != 0,
            domain,
            parts,
            events: async_event::of_attribute(call, EVENT_FD)?,
        },
    )?;
    call.output_struct(RESP_CAP, &made.cap)?;
    call.output(RESP_QP_NUM, &made.number)
}

/// Opens a target that another program may have made.
fn open(call: &Call) -> Result {
    let request: ib_uverbs_open_qp = call.request()?;
    let mut new = New::<Qp>::begin(call)?;
    let domain = Shared::<Xrcd>::get(call, request.pd_handle).map_err(|_| EINVAL)?;
    new.set_user_handle(request.user_handle);
    let events = events::default_file(call);
    new.handle().beside().events.attach(events);
    let opened = qp::open(new, &domain, (request.qpn, request.qp_type.into()))?;
    let beside = opened.handle().beside();
    beside.domain.attach(domain.handle());
    let number = opened.qp_num();
    beside.number.store(number, Relaxed);
    let handle = opened.handle().number();
    call.respond(|answer: &mut ib_uverbs_create_qp_resp| {
        answer.qpn = number;
        answer.qp_handle = handle;
    })
}

/// What is answered when a queue pair was destroyed.
fn end(handle: &Handle<Qp>) -> ib_uverbs_destroy_qp_resp {
    ib_uverbs_destroy_qp_resp {
        events_reported: handle.beside().events.reported(),
    }
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_destroy_qp = call.request()?;
    let answer = end(Destroyed::<Qp>::destroy(call, request.qp_handle)?.handle());
    call.respond_with(&answer)
}

fn destroy_by_ioctl(call: &Call) -> Result {
    call.output(DESTROY_RESP, &end(call.handle::<Qp>(DESTROY_HANDLE)?))
}
