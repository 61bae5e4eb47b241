// SPDX-License-Identifier: GPL-2.0

//! The device: contexts, what devices and ports tell of themselves, and commands that are invoked by
//! ioctl.
//!
//! C headers: `struct ib_uverbs_get_context` and others in `include/uapi/rdma/ib_user_verbs.h`,
//! `struct ib_uverbs_gid_entry` in `include/uapi/rdma/ib_user_ioctl_verbs.h`.

use crate::api::errno;
use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::object::context::NewContext;
use crate::edge::object::device;
use crate::edge::object::device::Port;
use crate::edge::object::device::QueryContext;
use crate::edge::object::device::QuerySpeed;
use crate::edge::unsupported;
use crate::object::async_event;
use crate::object::async_event::AsyncFile;
use crate::proto::write::Header;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_port_attr;
use rdma::bindings::ib_uverbs_ex_query_device;
use rdma::bindings::ib_uverbs_ex_query_device_resp;
use rdma::bindings::ib_uverbs_get_context;
use rdma::bindings::ib_uverbs_get_context_resp;
use rdma::bindings::ib_uverbs_gid_entry;
use rdma::bindings::ib_uverbs_query_device;
use rdma::bindings::ib_uverbs_query_device_resp;
use rdma::bindings::ib_uverbs_query_port;
use rdma::bindings::ib_uverbs_query_port_resp;
use rdma::bindings::ib_uverbs_query_port_resp_ex;
use rdma::edge::device::Device;
use rdma::edge::device::DeviceAttr;
use rdma::features::limit_bits;

const ID: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE;

/// What all contexts support.
// CAST: A flag.
const OPTIONAL_MR_ACCESS: u64 =
    bindings::ib_uverbs_core_support_IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS as u64;

/// DMA uses bounce buffers.
// CAST: A flag of 64 bits.
const CC_DMA_BOUNCE: u64 =
    bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_CC_DMA_BOUNCE as u64;

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
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_INFO_HANDLES,
                run: info_handles,
                attributes: &[&[
                    Attribute::constant(
                        bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_OBJECT_ID,
                    )
                    .mandatory(),
                    Attribute::output_of::<u32>(
                        bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_TOTAL_HANDLES,
                    ),
                    Attribute::output(
                        bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_HANDLES_LIST,
                        4,
                        u16::MAX,
                    ),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_PORT,
                run: query_port_by_ioctl,
                attributes: &[&[
                    Attribute::constant(
                        bindings::uverbs_attrs_query_port_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_PORT_NUM,
                    )
                    .mandatory(),
                    Attribute::output_struct::<ib_uverbs_query_port_resp_ex>(
                        bindings::uverbs_attrs_query_port_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_RESP,
                        offset_of!(ib_uverbs_query_port_resp_ex, active_speed_ex) + size_of::<u32>(),
                    )
                    .mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_PORT_SPEED,
                run: query_port_speed,
                attributes: &[&[
                    Attribute::constant(
                        bindings::uverbs_attrs_query_port_speed_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM,
                    )
                    .mandatory(),
                    Attribute::output_of::<u64>(
                        bindings::uverbs_attrs_query_port_speed_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_SPEED_RESP,
                    )
                    .mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_CONTEXT,
                run: query_context,
                attributes: &[&[
                    Attribute::output_of::<u32>(
                        bindings::uverbs_attrs_query_context_attr_ids_UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
                    ),
                    Attribute::output_of::<u64>(
                        bindings::uverbs_attrs_query_context_attr_ids_UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
                    ),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_GID_TABLE,
                run: query_gid_table,
                attributes: &[&[
                    Attribute::constant(
                        bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
                    )
                    .mandatory(),
                    Attribute::flags(
                        bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
                    ),
                    Attribute::output(
                        bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
                        0,
                        u16::MAX,
                    )
                    .mandatory(),
                    Attribute::output_of::<u64>(
                        bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
                    )
                    .mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_GID_ENTRY,
                run: query_gid_entry,
                attributes: &[&[
                    Attribute::constant(
                        bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_PORT,
                    )
                    .mandatory(),
                    Attribute::constant(
                        bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
                    )
                    .mandatory(),
                    Attribute::flags(
                        bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS,
                    )
                    .mandatory(),
                    Attribute::output_struct::<ib_uverbs_gid_entry>(
                        bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
                        offset_of!(ib_uverbs_gid_entry, netdev_ifindex) + size_of::<u32>(),
                    )
                    .mandatory(),
                ]],
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
    Def::Write(Write::both::<ib_uverbs_query_device, ib_uverbs_query_device_resp>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_DEVICE,
        query_device,
    )),
    Def::Write(Write::both::<ib_uverbs_query_port, ib_uverbs_query_port_resp>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_PORT,
        query_port,
    )),
    Def::CommandNeeds(needs!(query_port)),
    Def::Write(Write::extended::<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
        bindings::IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
        query_device_extended,
    )),
    Def::CommandNeeds(needs!(query_device)),
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
    let new = context.begin::<AsyncFile>()?;
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
    let mut support = OPTIONAL_MR_ACCESS;
    call.output_if(VECTORS, &call.char_device().completion_vectors())?;
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

/// What a context supports.
fn query_context(call: &Call) -> Result {
    use bindings::uverbs_attrs_query_context_attr_ids_UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT as SUPPORT;
    use bindings::uverbs_attrs_query_context_attr_ids_UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS as VECTORS;

    let context = call.ucontext()?;
    let query = QueryContext::of(context)?;
    call.output_if(VECTORS, &call.char_device().completion_vectors())?;
    call.output_if(SUPPORT, &OPTIONAL_MR_ACCESS)?;
    query.call(call)
}

/// The attributes of a device, for programs.
fn device_attributes(device: &Device, attr: &DeviceAttr) -> ib_uverbs_query_device_resp {
    ib_uverbs_query_device_resp {
        fw_ver: attr.fw_ver(),
        node_guid: device.node_guid(),
        sys_image_guid: attr.sys_image_guid(),
        max_mr_size: attr.max_mr_size(),
        page_size_cap: attr.page_size_cap(),
        vendor_id: attr.vendor_id(),
        vendor_part_id: attr.vendor_part_id(),
        hw_ver: attr.hw_ver(),
        max_qp: limit_bits(attr.max_qp()),
        max_qp_wr: limit_bits(attr.max_qp_wr()),
        // CAST: The low half; the other one is in the extended answer.
        device_cap_flags: attr.device_cap_flags() as u32,
        max_sge: limit_bits(attr.max_send_sge().min(attr.max_recv_sge())),
        max_sge_rd: limit_bits(attr.max_sge_rd()),
        max_cq: limit_bits(attr.max_cq()),
        max_cqe: limit_bits(attr.max_cqe()),
        max_mr: limit_bits(attr.max_mr()),
        max_pd: limit_bits(attr.max_pd()),
        max_qp_rd_atom: limit_bits(attr.max_qp_rd_atom()),
        max_ee_rd_atom: limit_bits(attr.max_ee_rd_atom()),
        max_res_rd_atom: limit_bits(attr.max_res_rd_atom()),
        max_qp_init_rd_atom: limit_bits(attr.max_qp_init_rd_atom()),
        max_ee_init_rd_atom: limit_bits(attr.max_ee_init_rd_atom()),
        atomic_cap: attr.atomic_cap(),
        max_ee: limit_bits(attr.max_ee()),
        max_rdd: limit_bits(attr.max_rdd()),
        max_mw: limit_bits(attr.max_mw()),
        max_raw_ipv6_qp: limit_bits(attr.max_raw_ipv6_qp()),
        max_raw_ethy_qp: limit_bits(attr.max_raw_ethy_qp()),
        max_mcast_grp: limit_bits(attr.max_mcast_grp()),
        max_mcast_qp_attach: limit_bits(attr.max_mcast_qp_attach()),
        max_total_mcast_qp_attach: limit_bits(attr.max_total_mcast_qp_attach()),
        max_ah: limit_bits(attr.max_ah()),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: limit_bits(attr.max_srq()),
        max_srq_wr: limit_bits(attr.max_srq_wr()),
        max_srq_sge: limit_bits(attr.max_srq_sge()),
        max_pkeys: attr.max_pkeys(),
        local_ca_ack_delay: attr.local_ca_ack_delay(),
        phys_port_cnt: u8::try_from(device.phys_port_cnt()).unwrap_or(u8::MAX),
        reserved: [0; 4],
    }
}

/// The attributes of the device.
fn query_device(call: &Call) -> Result {
    let device = call.ucontext()?.dev();
    call.request::<ib_uverbs_query_device>()?;
    call.respond_with(&device_attributes(device, device.attrs()))
}

/// The attributes of the device, as the driver tells them now.
fn query_device_extended(call: &Call) -> Result {
    let device = call.ucontext()?.dev();
    let request: ib_uverbs_ex_query_device = call.request()?;
    if request.comp_mask != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    let attr = device::query(device, call.udata())?;
    call.respond(|answer: &mut ib_uverbs_ex_query_device_resp| {
        answer.base = device_attributes(device, &attr);
        answer.response_length = call.response_length::<ib_uverbs_ex_query_device_resp>();

        let to = &mut answer.odp_caps;
        to.general_caps = attr.general_odp_caps();
        to.per_transport_caps.rc_odp_caps = attr.rc_odp_caps();
        to.per_transport_caps.uc_odp_caps = attr.uc_odp_caps();
        to.per_transport_caps.ud_odp_caps = attr.ud_odp_caps();
        answer.xrc_odp_caps = attr.xrc_odp_caps();

        answer.timestamp_mask = attr.timestamp_mask();
        answer.hca_core_clock = attr.hca_core_clock();
        answer.device_cap_flags_ex = attr.device_cap_flags();
        if device.cc_dma_bounce() {
            answer.device_cap_flags_ex |= CC_DMA_BOUNCE;
        }

        let to = &mut answer.rss_caps;
        to.supported_qpts = attr.rss_types();
        to.max_rwq_indirection_tables = attr.max_rwq_tables();
        to.max_rwq_indirection_table_size = attr.max_rwq_table_size();
        answer.max_wq_type_rq = attr.max_wq_type_rq();
        answer.raw_packet_caps = attr.raw_packet_caps();

        let to = &mut answer.tm_caps;
        to.max_rndv_hdr_size = attr.max_rndv_hdr_size();
        to.max_num_tags = attr.max_num_tags();
        to.flags = attr.tag_flags();
        to.max_ops = attr.max_tag_ops();
        to.max_sge = attr.max_tag_sge();

        let to = &mut answer.cq_moderation_caps;
        to.max_cq_moderation_count = attr.max_cq_moderation_count();
        to.max_cq_moderation_period = attr.max_cq_moderation_period();
        answer.max_dm_size = attr.max_dm_size();
    })
}

/// The attributes of a port, for programs.
fn port_attributes(port: Port<'_>, attr: ib_port_attr) -> ib_uverbs_query_port_resp {
    // Of this bit the meaning is not that of the capability mask that ports have.
    const IP_GIDS: u32 = bindings::ib_uverbs_query_port_cap_flags_IB_UVERBS_PCF_IP_BASED_GIDS;
    let mut capabilities = attr.port_cap_flags & !IP_GIDS;
    if attr.ip_gids() != 0 {
        capabilities |= IP_GIDS;
    }
    let flags = match port.needs_grh() {
        true => bindings::ib_uverbs_query_port_flags_IB_UVERBS_QPF_GRH_REQUIRED,
        false => 0,
    };
    ib_uverbs_query_port_resp {
        port_cap_flags: capabilities,
        max_msg_sz: attr.max_msg_sz,
        bad_pkey_cntr: attr.bad_pkey_cntr,
        qkey_viol_cntr: attr.qkey_viol_cntr,
        // CAST: Programs get the same bits.
        gid_tbl_len: attr.gid_tbl_len as u32,
        pkey_tbl_len: attr.pkey_tbl_len,
        lid: port.lid(attr.lid),
        sm_lid: port.lid(attr.sm_lid),
        // CAST: Enumerations with small values.
        state: attr.state as u8,
        max_mtu: attr.max_mtu as u8,
        active_mtu: attr.active_mtu as u8,
        lmc: attr.lmc,
        max_vl_num: attr.max_vl_num,
        sm_sl: attr.sm_sl,
        subnet_timeout: attr.subnet_timeout,
        init_type_reply: attr.init_type_reply,
        active_width: attr.active_width,
        active_speed: speed(attr.active_speed),
        phys_state: attr.phys_state,
        // CAST: An enumeration with three values, and a flag of the lowest byte.
        link_layer: port.link_layer() as u8,
        flags: flags as u8,
        reserved: 0,
    }
}

/// A speed in the eight bits that the structures have for it: faster ones than NDR do not fit, and
/// are told as NDR.
fn speed(active: u16) -> u8 {
    // CAST: Both are less than 256.
    active.min(bindings::ib_port_speed_IB_SPEED_NDR as u16) as u8
}

/// The attributes of a port.
fn query_port(call: &Call) -> Result {
    let device = call.ucontext()?.dev();
    let request: ib_uverbs_query_port = call.request()?;
    let attr = device::query_port(device, request.port_num.into())?;
    let port = Port::of(device, request.port_num.into())?;
    call.respond_with(&port_attributes(port, attr))
}

/// The attributes of a port, with those that do not fit into the command's answer.
fn query_port_by_ioctl(call: &Call) -> Result {
    use bindings::uverbs_attrs_query_port_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_PORT_NUM as PORT;
    use bindings::uverbs_attrs_query_port_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_RESP as ANSWER;

    let device = call.ucontext()?.dev();
    if device.ops().query_port.is_none() {
        return Err(unsupported());
    }
    let port: u8 = call.constant(PORT)?;
    let attr = device::query_port(device, port.into())?;
    let answer = ib_uverbs_query_port_resp_ex {
        port_cap_flags2: attr.port_cap_flags2,
        reserved: [0; 2],
        active_speed_ex: attr.active_speed.into(),
        legacy_resp: port_attributes(Port::of(device, port.into())?, attr),
    };
    call.output_struct(ANSWER, &answer)
}

/// The speed of a port.
fn query_port_speed(call: &Call) -> Result {
    use bindings::uverbs_attrs_query_port_speed_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM as PORT;
    use bindings::uverbs_attrs_query_port_speed_cmd_attr_ids_UVERBS_ATTR_QUERY_PORT_SPEED_RESP as ANSWER;

    let device = call.ucontext()?.dev();
    let query = QuerySpeed::of(device)?;
    call.output(ANSWER, &query.call(call.constant(PORT)?)?)
}

/// The numbers of the handles of a type.
fn info_handles(call: &Call) -> Result {
    use bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_HANDLES_LIST as LIST;
    use bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_OBJECT_ID as TYPE;
    use bindings::uverbs_attrs_info_handles_id_UVERBS_ATTR_INFO_TOTAL_HANDLES as TOTAL;

    /// Stands for objects of all types.
    const ANY: u16 = u16::MAX;

    let len = call.len(LIST).unwrap_or(0);
    // OVERFLOW: The size of a number is not zero.
    if len == 0 || len % size_of::<u32>() != 0 {
        return Err(EINVAL);
    }
    let kind: u16 = call.constant(TYPE)?;
    if kind == ANY {
        return Err(rdma::errno::enomsg());
    }
    let of = call.char_device().object(kind.into()).ok_or(ENOENT)?;
    // OVERFLOW: As above.
    let mut ids = KVVec::from_elem(0_u32, len / size_of::<u32>(), GFP_KERNEL)?;
    let count = device::handles(call.file(), of, &mut ids);
    call.output_slice(LIST, ids.get(..count).ok_or(EINVAL)?)?;
    // CAST: Less than 64 KiB.
    call.output(TOTAL, &(count as u32))
}

/// The entries of the GID tables of all ports.
fn query_gid_table(call: &Call) -> Result {
    use bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE as SIZE;
    use bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_FLAGS as FLAGS;
    use bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES as ENTRIES;
    use bindings::uverbs_attrs_query_gid_table_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES as COUNT;

    call.flags32(FLAGS, 0)?;
    let size: usize = call.constant(SIZE)?;
    let len = call.len(ENTRIES)?;
    let room = len.checked_div(size).ok_or(EINVAL)?;
    if room == 0 || len.checked_rem(size) != Some(0) {
        return Err(EINVAL);
    }
    let device = call.ucontext()?.dev();
    let mut entries = KVVec::with_capacity(room, GFP_KERNEL)?;
    for _ in 0..room {
        entries.push(ib_uverbs_gid_entry::default(), GFP_KERNEL)?;
    }
    let count = device::gids(device, &mut entries)?;
    let entries = entries.get(..count).ok_or(EINVAL)?;
    if size == size_of::<ib_uverbs_gid_entry>() {
        call.output_slice(ENTRIES, entries)?;
    } else {
        // The program knows a shorter entry, or a longer one.
        let mut at = call.address(ENTRIES)?;
        for entry in entries {
            at.write(entry, size)?;
            let known = size_of::<ib_uverbs_gid_entry>();
            at.after(known).clear(size.saturating_sub(known))?;
            at = at.after(size);
        }
        call.set_written(ENTRIES)?;
    }
    // CAST: Less than 64 Ki.
    call.output(COUNT, &(count as u64))
}

/// An entry of a port's GID table.
fn query_gid_entry(call: &Call) -> Result {
    use bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS as FLAGS;
    use bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX as INDEX;
    use bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_PORT as PORT;
    use bindings::uverbs_attrs_query_gid_entry_cmd_attr_ids_UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY as ANSWER;

    call.flags32(FLAGS, 0)?;
    let number = call.constant(PORT)?;
    let index = call.constant(INDEX)?;
    let port = Port::of(call.ucontext()?.dev(), number)?;
    call.output_struct(ANSWER, &port.gid(index)?)
}
