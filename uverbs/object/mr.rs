// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! C headers: `struct ib_uverbs_reg_mr` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Exclusive;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::handle::Shared;
use crate::edge::object::mr;
use crate::edge::object::mr::Memory;
use crate::edge::object::mr::Registration;
use crate::edge::unsupported;
use crate::object::dm::Dm;
use crate::object::dmah::Dmah;
use crate::object::pd::Pd;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use crate::table::UHW;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_sge;
use rdma::bindings::ib_uverbs_dereg_mr;
use rdma::bindings::ib_uverbs_reg_mr;
use rdma::bindings::ib_uverbs_reg_mr_resp;
use rdma::bindings::ib_uverbs_rereg_mr;
use rdma::bindings::ib_uverbs_rereg_mr_resp;
use rdma::edge::device::Device;
use rdma::edge::verbs;

/// Handles of memory regions.
pub(crate) struct Mr;

impl Kind for Mr {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Mr {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        mr::deregister(object)
    }
}

static TYPE: NumberedType<Mr> = NumberedType::new();

/// Attributes of [`register_by_ioctl`].
mod reg {
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_ACCESS_FLAGS as ACCESS;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_ADDR as ADDRESS;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_DMA_HANDLE as DMAH;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_FD as FD;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_FD_OFFSET as FD_OFFSET;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_HANDLE as HANDLE;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_IOVA as IOVA;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_LENGTH as LENGTH;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_PD_HANDLE as PD;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_RESP_LKEY as LKEY;
    pub(super) use rdma::bindings::uverbs_attrs_reg_mr_cmd_attr_ids_UVERBS_ATTR_REG_MR_RESP_RKEY as RKEY;
}

/// Attributes of [`register_dmabuf`].
mod reg_dmabuf {
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS as ACCESS;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_FD as FD;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_HANDLE as HANDLE;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_IOVA as IOVA;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_LENGTH as LENGTH;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_OFFSET as OFFSET;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE as PD;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY as LKEY;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids_UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY as RKEY;
}

/// Attributes of [`register_dm`].
mod reg_dm {
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS as ACCESS;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_DM_HANDLE as DM;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_HANDLE as HANDLE;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_LENGTH as LENGTH;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_OFFSET as OFFSET;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_PD_HANDLE as PD;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_RESP_LKEY as LKEY;
    pub(super) use rdma::bindings::uverbs_attrs_reg_dm_mr_cmd_attr_ids_UVERBS_ATTR_REG_DM_MR_RESP_RKEY as RKEY;
}

/// Attributes of [`query`].
mod query_mr {
    pub(super) use rdma::bindings::uverbs_attrs_query_mr_cmd_attr_ids_UVERBS_ATTR_QUERY_MR_HANDLE as HANDLE;
    pub(super) use rdma::bindings::uverbs_attrs_query_mr_cmd_attr_ids_UVERBS_ATTR_QUERY_MR_RESP_IOVA as IOVA;
    pub(super) use rdma::bindings::uverbs_attrs_query_mr_cmd_attr_ids_UVERBS_ATTR_QUERY_MR_RESP_LENGTH as LENGTH;
    pub(super) use rdma::bindings::uverbs_attrs_query_mr_cmd_attr_ids_UVERBS_ATTR_QUERY_MR_RESP_LKEY as LKEY;
    pub(super) use rdma::bindings::uverbs_attrs_query_mr_cmd_attr_ids_UVERBS_ATTR_QUERY_MR_RESP_RKEY as RKEY;
}

/// Attributes of [`advise`].
mod advise_mr {
    pub(super) use rdma::bindings::uverbs_attrs_advise_mr_cmd_attr_ids_UVERBS_ATTR_ADVISE_MR_ADVICE as ADVICE;
    pub(super) use rdma::bindings::uverbs_attrs_advise_mr_cmd_attr_ids_UVERBS_ATTR_ADVISE_MR_FLAGS as FLAGS;
    pub(super) use rdma::bindings::uverbs_attrs_advise_mr_cmd_attr_ids_UVERBS_ATTR_ADVISE_MR_PD_HANDLE as PD;
    pub(super) use rdma::bindings::uverbs_attrs_advise_mr_cmd_attr_ids_UVERBS_ATTR_ADVISE_MR_SGE_LIST as RANGES;
}

/// The table of memory regions.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Mr::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_ADVISE_MR,
                run: advise,
                attributes: &[&[
                    Attribute::handle(advise_mr::PD, Pd::ID, Access::Read).mandatory(),
                    Attribute::constant(advise_mr::ADVICE).mandatory(),
                    Attribute::flags(advise_mr::FLAGS).mandatory(),
                    Attribute::input(
                        advise_mr::RANGES,
                        // CAST: 16.
                        size_of::<bindings::ib_uverbs_sge>() as u16,
                        u16::MAX,
                    )
                    .mandatory()
                    .copied(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_DM_MR_REG,
                run: register_dm,
                attributes: &[&[
                    Attribute::handle(reg_dm::HANDLE, Mr::ID, Access::New),
                    Attribute::input_of::<u64>(reg_dm::OFFSET).mandatory(),
                    Attribute::input_of::<u64>(reg_dm::LENGTH).mandatory(),
                    Attribute::handle(reg_dm::PD, Pd::ID, Access::Read).mandatory(),
                    Attribute::flags(reg_dm::ACCESS),
                    Attribute::handle(reg_dm::DM, Dm::ID, Access::Read).mandatory(),
                    Attribute::output_of::<u32>(reg_dm::LKEY).mandatory(),
                    Attribute::output_of::<u32>(reg_dm::RKEY).mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_MR_DESTROY,
                run: nothing,
                attributes: &[&[Attribute::handle(
                    bindings::uverbs_attrs_mr_destroy_ids_UVERBS_ATTR_DESTROY_MR_HANDLE,
                    Mr::ID,
                    Access::Destroy,
                )]],
            },
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_QUERY_MR,
                run: query,
                attributes: &[&[
                    Attribute::handle(query_mr::HANDLE, Mr::ID, Access::Read).mandatory(),
                    Attribute::output_of::<u32>(query_mr::RKEY).mandatory(),
                    Attribute::output_of::<u32>(query_mr::LKEY).mandatory(),
                    Attribute::output_of::<u64>(query_mr::LENGTH).mandatory(),
                    Attribute::output_of::<u64>(query_mr::IOVA),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_REG_DMABUF_MR,
                run: register_dmabuf,
                attributes: &[&[
                    Attribute::handle(reg_dmabuf::HANDLE, Mr::ID, Access::New),
                    Attribute::handle(reg_dmabuf::PD, Pd::ID, Access::Read).mandatory(),
                    Attribute::input_of::<u64>(reg_dmabuf::OFFSET).mandatory(),
                    Attribute::input_of::<u64>(reg_dmabuf::LENGTH).mandatory(),
                    Attribute::input_of::<u64>(reg_dmabuf::IOVA).mandatory(),
                    Attribute::input_of::<u32>(reg_dmabuf::FD).mandatory(),
                    Attribute::flags(reg_dmabuf::ACCESS),
                    Attribute::output_of::<u32>(reg_dmabuf::LKEY).mandatory(),
                    Attribute::output_of::<u32>(reg_dmabuf::RKEY).mandatory(),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_mr_UVERBS_METHOD_REG_MR,
                run: register_by_ioctl,
                attributes: &[
                    &[
                        Attribute::handle(reg::HANDLE, Mr::ID, Access::New),
                        Attribute::handle(reg::PD, Pd::ID, Access::Read).mandatory(),
                        Attribute::handle(reg::DMAH, Dmah::ID, Access::Read),
                        Attribute::input_of::<u64>(reg::IOVA).mandatory(),
                        Attribute::input_of::<u64>(reg::LENGTH).mandatory(),
                        Attribute::flags(reg::ACCESS).mandatory(),
                        Attribute::input_of::<u64>(reg::ADDRESS),
                        Attribute::input_of::<u64>(reg::FD_OFFSET),
                        Attribute::raw_file(reg::FD),
                        Attribute::output_of::<u32>(reg::LKEY).mandatory(),
                        Attribute::output_of::<u32>(reg::RKEY).mandatory(),
                    ],
                    UHW,
                ],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(dereg_mr)),
    Def::Write(Write::input::<ib_uverbs_dereg_mr>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEREG_MR,
        deregister,
    )),
    Def::CommandNeeds(needs!(dereg_mr)),
    Def::Write(
        Write::both::<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REG_MR,
            register,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(reg_user_mr)),
    Def::Write(
        Write::both::<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REREG_MR,
            register_again,
        )
        .udata(),
    ),
    Def::CommandNeeds(needs!(rereg_user_mr)),
];

/// Access flags of regions of a DMA-buf.
const OF_DMABUF: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING;

/// Checks access flags.
///
/// # Errors
///
/// `EINVAL`: remote writes without local ones, or unknown flags; `EOPNOTSUPP`: the device does not
/// have what the flags ask for.
fn check_access(device: &Device, access: u32) -> Result {
    let has = |flags: u32| access & flags != 0;
    let remote_writes = bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    if (has(remote_writes) && !has(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE))
        || has(!bindings::ib_access_flags_IB_ACCESS_SUPPORTED)
    {
        return Err(EINVAL);
    }
    let capability = |all: u64, one: u64| all & one != 0;
    let on_demand = u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
    // CAST: Bits of 64.
    let global = bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64;
    let persistent = bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT as u64;
    if (has(bindings::ib_access_flags_IB_ACCESS_ON_DEMAND)
        && !capability(device.attrs().kernel_cap_flags(), on_demand))
        || (has(bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL)
            && !capability(device.attrs().device_cap_flags(), global))
        || (has(bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT)
            && !capability(device.attrs().device_cap_flags(), persistent))
    {
        return Err(unsupported());
    }
    Ok(())
}

/// Whether two addresses have the same offset in a page.
fn same_offset(one: u64, other: u64) -> bool {
    // CAST: The size of a page.
    (one ^ other) & (PAGE_SIZE as u64).wrapping_sub(1) == 0
}

fn register(call: &Call) -> Result {
    let request: ib_uverbs_reg_mr = call.request()?;
    if !same_offset(request.start, request.hca_va) {
        return Err(EINVAL);
    }
    let new = New::<Mr>::begin(call)?;
    check_access(new.device()?, request.access_flags)?;
    let asked = Registration {
        memory: Memory::User {
            start: request.start,
        },
        length: request.length,
        iova: request.hca_va,
        access: request.access_flags,
    };
    let pd = Shared::<Pd>::get(call, request.pd_handle)?;
    let place = Some((request.hca_va, request.length));
    let made = mr::register(new, &pd, &asked, None, place)?;
    drop(pd);
    let (lkey, rkey) = (made.lkey(), made.rkey());
    call.respond(|answer: &mut ib_uverbs_reg_mr_resp| {
        answer.lkey = lkey;
        answer.rkey = rkey;
        answer.mr_handle = made.handle().number();
    })
}

fn register_by_ioctl(call: &Call) -> Result {
    let pd = call.object::<Pd>(reg::PD)?;
    let device = pd.dev();
    let iova: u64 = call.input(reg::IOVA)?;
    let length: u64 = call.input(reg::LENGTH)?;
    let given = |id| call.has(id).then(|| call.input::<u64>(id)).transpose();
    let start = given(reg::ADDRESS)?;
    let offset = given(reg::FD_OFFSET)?;
    let (memory, allowed) = if call.has(reg::FD) {
        let fd = call.raw_file(reg::FD)?;
        if device.ops().reg_user_mr_dmabuf.is_none() {
            return Err(unsupported());
        }
        let (Some(offset), None) = (offset, start) else {
            return Err(EINVAL);
        };
        if !same_offset(offset, iova) {
            return Err(EINVAL);
        }
        (Memory::DmaBuf { fd, offset }, OF_DMABUF)
    } else {
        let (None, Some(start)) = (offset, start) else {
            return Err(EINVAL);
        };
        if !same_offset(start, iova) {
            return Err(EINVAL);
        }
        (
            Memory::User { start },
            bindings::ib_access_flags_IB_ACCESS_SUPPORTED,
        )
    };
    let dmah = match call.has(reg::DMAH) {
        true => Some(call.object::<Dmah>(reg::DMAH)?),
        false => None,
    };
    let access = call.flags32(reg::ACCESS, allowed.into())?;
    check_access(device, access)?;
    let new = call.take_new::<Mr>(reg::HANDLE)?;
    let asked = Registration {
        memory,
        length,
        iova,
        access,
    };
    let made = mr::register(new, pd, &asked, dmah, None)?;
    let (lkey, rkey) = (made.lkey(), made.rkey());
    call.output(reg::LKEY, &lkey)?;
    call.output(reg::RKEY, &rkey)
}

fn register_dmabuf(call: &Call) -> Result {
    let pd = call.object::<Pd>(reg_dmabuf::PD)?;
    let device = pd.dev();
    if device.ops().reg_user_mr_dmabuf.is_none() {
        return Err(unsupported());
    }
    let offset: u64 = call.input(reg_dmabuf::OFFSET)?;
    let length: u64 = call.input(reg_dmabuf::LENGTH)?;
    let iova: u64 = call.input(reg_dmabuf::IOVA)?;
    if !same_offset(offset, iova) {
        return Err(EINVAL);
    }
    let fd: i32 = call.input(reg_dmabuf::FD)?;
    let access = call.flags32(reg_dmabuf::ACCESS, OF_DMABUF.into())?;
    check_access(device, access)?;
    let new = call.take_new::<Mr>(reg_dmabuf::HANDLE)?;
    let asked = Registration {
        memory: Memory::DmaBuf { fd, offset },
        length,
        iova,
        access,
    };
    let made = mr::register(new, pd, &asked, None, None)?;
    let (lkey, rkey) = (made.lkey(), made.rkey());
    call.output(reg_dmabuf::LKEY, &lkey)?;
    call.output(reg_dmabuf::RKEY, &rkey)
}

fn register_dm(call: &Call) -> Result {
    let pd = call.object::<Pd>(reg_dm::PD)?;
    let dm = call.object::<Dm>(reg_dm::DM)?;
    let device = pd.dev();
    if device.ops().reg_dm_mr.is_none() {
        return Err(unsupported());
    }
    let offset: u64 = call.input(reg_dm::OFFSET)?;
    let length: u64 = call.input(reg_dm::LENGTH)?;
    let supported = bindings::ib_access_flags_IB_ACCESS_SUPPORTED;
    let access = call.flags32(reg_dm::ACCESS, supported.into())?;
    if access & bindings::ib_access_flags_IB_ZERO_BASED == 0 {
        return Err(EINVAL);
    }
    check_access(device, access)?;
    let end = offset.checked_add(length).ok_or(EINVAL)?;
    if end > dm.length().into() {
        return Err(EINVAL);
    }
    let new = call.take_new::<Mr>(reg_dm::HANDLE)?;
    let made = mr::register_dm(new, pd, dm, (offset, length), access)?;
    let (lkey, rkey) = (made.lkey(), made.rkey());
    call.output(reg_dm::LKEY, &lkey)?;
    call.output(reg_dm::RKEY, &rkey)
}

fn register_again(call: &Call) -> Result {
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as ACCESS;
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_PD as PD;
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_SUPPORTED as SUPPORTED;
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS as MEMORY;

    let request: ib_uverbs_rereg_mr = call.request()?;
    let what = request.flags;
    if what == 0 {
        return Err(EINVAL);
    }
    if what & !SUPPORTED != 0 {
        return Err(unsupported());
    }
    if what & MEMORY != 0 && !same_offset(request.start, request.hca_va) {
        return Err(EINVAL);
    }
    let old = Exclusive::<Mr>::get(call, request.mr_handle)?;
    if old.dm().is_some() {
        return Err(EINVAL);
    }
    if what & ACCESS != 0 {
        check_access(old.dev(), request.access_flags)?;
    }
    let mut pd = None;
    if what & PD != 0 {
        let asked = Shared::<Pd>::get(call, request.pd_handle)?;
        if !core::ptr::eq::<verbs::Pd>(&*asked, old.pd()) {
            pd = Some(asked);
        }
    }
    let to = Registration {
        memory: Memory::User {
            start: request.start,
        },
        length: request.length,
        iova: request.hca_va,
        access: request.access_flags,
    };
    // The driver may make a new region.
    let new = New::<Mr>::begin(call)?;
    let keys = mr::register_again(old, new, pd.as_deref(), what, &to)?;
    call.respond(|answer: &mut ib_uverbs_rereg_mr_resp| (answer.lkey, answer.rkey) = keys)
}

fn deregister(call: &Call) -> Result {
    let request: ib_uverbs_dereg_mr = call.request()?;
    handle::destroy::<Mr>(call, request.mr_handle)
}

fn query(call: &Call) -> Result {
    let mr = call.object::<Mr>(query_mr::HANDLE)?;
    call.output(query_mr::LKEY, &mr.lkey())?;
    call.output(query_mr::RKEY, &mr.rkey())?;
    call.output(query_mr::LENGTH, &mr.length())?;
    call.output_if(query_mr::IOVA, &mr.iova())
}

fn advise(call: &Call) -> Result {
    let pd = call.object::<Pd>(advise_mr::PD)?;
    if pd.dev().ops().advise_mr.is_none() {
        return Err(unsupported());
    }
    let advice: u32 = call.constant(advise_mr::ADVICE)?;
    let allowed = bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    let flags = call.flags32(advise_mr::FLAGS, allowed.into())?;
    let ranges: &[ib_sge] = call.copied_array(advise_mr::RANGES)?;
    mr::advise(call, pd, advice, flags, ranges)
}
