// SPDX-License-Identifier: GPL-2.0

//! The device and its verbs.

use crate::cq::CqCore;
use crate::cq::Done;
use crate::mem;
use crate::mem::Owner;
use crate::mem::Region;
use crate::proto::fabric::Host;
use crate::proto::fabric::HOST_PORT;
use crate::proto::mad as wire;
use crate::proto::mad::Answer;
use crate::proto::port::Port;
use crate::proto::port::GUIDS;
use crate::proto::port::PKEYS;
use crate::proto::port_info;
use crate::qp::Plan;
use crate::qp::QpCore;
use crate::qp::Sizes;
use crate::qp::Way;
use crate::qp::MAX_SGE;
use crate::world::Adapter;
use crate::world::World;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Relaxed;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::provider::attr::modify_is_ok;
use rdma::provider::attr::CMD_POLL_CQ;
use rdma::provider::attr::CMD_POST_RECV;
use rdma::provider::attr::CMD_POST_SEND;
use rdma::provider::attr::CMD_REQ_NOTIFY_CQ;
use rdma::provider::unsupported;
use rdma::provider::*;
use rdma::udata::Udata;

const MAX_QP: u32 = 1 << 12;
const MAX_WR: u32 = 1 << 13;
const MAX_CQE: u32 = 1 << 16;
/// Numbers of queue pairs; 0 and 1 are those of management.
const QP_NUMBERS: core::ops::RangeInclusive<u32> = 2..=0xff_ffff;
/// Vendor in `ibv_devinfo`, and in the fabric.
const VENDOR: [u8; 4] = {
    let [a, b, c] = crate::proto::node::VENDOR;
    [0, a, b, c]
};

/// The data of a device.
pub(crate) struct Fakeib {
    pub(crate) world: Arc<World>,
    pub(crate) adapter: Arc<Adapter>,
    /// Its number in the fabric; `None` if it has no cable.
    pub(crate) host: Option<usize>,
    /// The GUID of the node.
    pub(crate) guid: u64,
    /// Number of the next protection domain.
    pds: Atomic<u32>,
    /// It is the device below another.
    below: Option<Below>,
}

/// There is a device below the device of an adapter, until this is dropped.
struct Below(Arc<Adapter>);

impl Below {
    /// `EEXIST` if there is one already.
    fn new(adapter: &Arc<Adapter>) -> Result<Self> {
        if adapter.has_below.xchg(true, Relaxed) {
            return Err(EEXIST);
        }
        Ok(Self(adapter.clone()))
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        self.0.has_below.store(false, Relaxed);
    }
}

impl Fakeib {
    /// The device at an end of the fabric.
    pub(crate) fn new(world: &Arc<World>, host: usize, guid: u64) -> Result<Self> {
        Ok(Self {
            world: world.clone(),
            adapter: world.adapters.get(host).ok_or(EINVAL)?.clone(),
            host: Some(host),
            guid,
            pds: Atomic::new(1),
            below: None,
        })
    }

    /// The device below this one, whose port has no cable.
    fn below(&self) -> Result<Self> {
        Ok(Self {
            world: self.world.clone(),
            adapter: Adapter::new()?,
            host: None,
            guid: self.guid,
            pds: Atomic::new(1),
            below: Some(Below::new(&self.adapter)?),
        })
    }

    /// Looks at the port; without a cable, at one that was never connected.
    fn port<R>(&self, f: impl FnOnce(&Port) -> R) -> Result<R> {
        match self.host {
            Some(host) => self
                .world
                .look(|w| w.host(host).map(|h| f(&h.port)).ok_or(EINVAL)),
            None => Ok(f(&Host::new(self.guid, [0; 64], 0).port)),
        }
    }
}

#[vtable]
impl Provider for Fakeib {
    // The library of hfi1 asks the kernel for each step of a queue if the version is 1, which
    // is what a device without memory shared with processes needs.
    const DRIVER_ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_HFI1;
    const UVERBS_ABI_VERSION: u32 = 1;
    const UVERBS_CMDS: u64 = CMD_POLL_CQ | CMD_POST_SEND | CMD_POST_RECV | CMD_REQ_NOTIFY_CQ;
    const NODE_DESC: &'static CStr = c"fakeib adapter";

    type UContext = ();
    type Pd = u32;
    type Ah = Way;
    type Cq = Arc<CqCore>;
    type Qp = Arc<QpCore>;
    type Srq = ();
    type Mr = Option<Arc<Region>>;
    type Mw = ();
    type Xrcd = ();

    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, _: &mut Udata<'_>) -> Result {
        attr.sys_image_guid = dev.guid.to_be();
        attr.vendor_id = u32::from_be_bytes(VENDOR);
        attr.vendor_part_id = 0xfa01;
        attr.hw_ver = 1;
        attr.kernel_cap_flags = bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY.into();
        attr.page_size_cap = kernel::page::PAGE_SIZE as u64;
        attr.max_mr_size = u64::MAX;
        // CAST: A small constant.
        let sges = raw_limit(MAX_SGE as u32);
        attr.max_qp = raw_limit(MAX_QP);
        attr.max_qp_wr = raw_limit(MAX_WR);
        attr.max_cqe = raw_limit(MAX_CQE);
        attr.max_send_sge = sges;
        attr.max_recv_sge = sges;
        attr.max_cq = 1 << 16;
        attr.max_pd = 1 << 16;
        attr.max_ah = 1 << 16;
        attr.max_mr = 1 << 15;
        attr.max_mcast_grp = 1 << 10;
        attr.max_mcast_qp_attach = 1 << 10;
        attr.max_total_mcast_qp_attach = 1 << 20;
        attr.max_pkeys = PKEYS as u16;
        attr.max_qp_rd_atom = 16;
        attr.max_qp_init_rd_atom = 16;
        attr.max_res_rd_atom = raw_limit(16 * MAX_QP);
        attr.local_ca_ack_delay = 15;
        Ok(())
    }

    fn modify_device(dev: &Device<Self>, mask: DeviceModifyMask, new: &DeviceModify) -> Result {
        if !DeviceModifyMask::NODE_DESC.contains(mask) {
            return Err(unsupported());
        }
        if mask.contains(DeviceModifyMask::NODE_DESC) {
            let mut text = [0u8; 64];
            for (to, from) in text.iter_mut().zip(new.node_desc.iter()) {
                // CAST: a character.
                *to = *from as u8;
            }
            dev.set_node_desc(&text);
            if let Some(host) = dev.host {
                dev.world.with(|fabric| {
                    if let Some(own) = fabric.host_mut(host) {
                        own.id.description = text;
                    }
                });
            }
        }
        Ok(())
    }

    fn query_port(dev: &Device<Self>, _port: u32, attr: &mut PortAttr) -> Result {
        dev.port(|port| {
            // CAST: the enums have the numbers of the wire.
            attr.state = port.state as u32;
            attr.phys_state = port.phys as u8;
            attr.active_mtu = port.mtu.into();
            attr.lid = port.lid.into();
            attr.lmc = port.lmc;
            attr.sm_lid = port.sm_lid.into();
            attr.sm_sl = port.sm_sl;
            attr.port_cap_flags = port.capabilities;
            let [_, pkeys, qkeys] = port.violations;
            attr.bad_pkey_cntr = pkeys.into();
            attr.qkey_viol_cntr = qkeys.into();
            attr.subnet_timeout = port.subnet_timeout & 0x1f;
        })?;
        attr.max_mtu = port_info::MTU_CAP.into();
        // CAST: small constants.
        attr.gid_tbl_len = GUIDS as i32;
        attr.pkey_tbl_len = PKEYS as u16;
        attr.max_msg_sz = crate::connected::MAX_MESSAGE;
        attr.max_vl_num = port_info::LANES_CAP;
        attr.active_width = port_info::WIDTH_ACTIVE;
        // 25 Gbit/s a lane.
        attr.active_speed = bindings::ib_port_speed_IB_SPEED_EDR as u16;
        Ok(())
    }

    fn modify_port(
        dev: &Device<Self>,
        _port: u32,
        mask: PortModifyMask,
        new: &PortModify,
    ) -> Result {
        let Some(host) = dev.host else {
            return Ok(());
        };
        dev.world.with(|fabric| {
            fabric.set_capabilities(host, new.clr_port_cap_mask, new.set_port_cap_mask);
            if let Some(own) = fabric.host_mut(host) {
                if mask.contains(PortModifyMask::RESET_QKEY_CNTR) {
                    let [_, _, qkeys] = &mut own.port.violations;
                    *qkeys = 0;
                }
            }
        });
        Ok(())
    }

    fn port_immutable(dev: &Device<Self>, _port: u32) -> Result<PortImmutable> {
        // CAST: small constants.
        Ok(PortImmutable {
            core_cap_flags: if dev.below.is_some() {
                bindings::RDMA_CORE_CAP_IB_MAD | bindings::RDMA_CORE_CAP_IB_SMI
            } else {
                bindings::RDMA_CORE_PORT_IBA_IB
            },
            gid_tbl_len: GUIDS as i32,
            pkey_tbl_len: PKEYS as i32,
            max_mad_size: wire::LEN as u32,
        })
    }

    fn link_layer(_: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Infiniband
    }

    fn query_pkey(dev: &Device<Self>, _port: u32, index: u16) -> Result<u16> {
        dev.port(|port| port.pkeys.get(usize::from(index)).copied())?
            .ok_or(EINVAL)
    }

    fn query_gid(dev: &Device<Self>, _port: u32, index: u32) -> Result<Gid> {
        let index = usize::try_from(index)?;
        dev.port(|port| port.gid(index))?.ok_or(EINVAL)
    }

    fn enable_driver(dev: &Device<Self>) -> Result {
        dev.adapter.set_device(Some(dev.reference()));
        Ok(())
    }

    fn add_sub_device(
        dev: &Device<Self>,
        kind: SubDevice,
        name: &CStr,
    ) -> Result<Registration<Self>> {
        if dev.below.is_some() {
            return Err(unsupported());
        }
        let mut below =
            Unregistered::new(rdma::resident!(), rdma::this_module!(), Ok(dev.below()?))?;
        below.set_sub_device(kind);
        below.set_node_guid(dev.guid.to_be_bytes());
        below.set_local_dma_lkey(mem::DMA_KEY);
        below.register(name)
    }

    fn process_mad(dev: &Device<Self>, _port: u32, mad: &mut Mad<'_>) -> MadResult {
        let Some(host) = dev.host else {
            return MadResult::Success;
        };
        let trusted = mad.flags & bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY != 0;
        *mad.reply = *mad.request;
        match dev
            .world
            .with(|fabric| fabric.host_mad(host, trusted, mad.reply))
        {
            Answer::Reply => MadResult::Reply,
            Answer::Taken => MadResult::Consumed,
            Answer::Others => MadResult::Success,
        }
    }

    fn alloc_ucontext(_: &New<'_, UContext<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<()>> {
        Ok(())
    }

    fn disassociate_ucontext(_: &UContext<Self>) {}

    fn alloc_pd(pd: &New<'_, Pd<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<u32>> {
        Ok(pd.device().pds.fetch_add(1, Relaxed))
    }

    fn create_ah(
        _: &New<'_, Ah<Self>>,
        init: &AhInit<'_>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Way>> {
        Way::new(init.attr())
    }

    fn query_ah(ah: &Ah<Self>, attr: &mut AhAttr) -> Result {
        ah.tell(attr);
        Ok(())
    }

    fn alloc_xrcd(_: &New<'_, Xrcd<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<()>> {
        Ok(())
    }

    fn create_cq(
        cq: &New<'_, Cq<Self>>,
        attr: &CqAttr,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Cq>> {
        if attr.entries() == 0 || attr.entries() > MAX_CQE || attr.flags() != 0 {
            return Err(EINVAL);
        }
        cq.set_entries(attr.entries());
        CqCore::new(attr.entries(), cq.upcall())
    }

    fn destroy_cq(cq: &Cq<Self>, _: &mut Udata<'_>) -> Result {
        cq.stop();
        Ok(())
    }

    fn poll_cq(cq: &Cq<Self>, out: &mut WcSlots<'_>) -> Result {
        cq.poll(out);
        Ok(())
    }

    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool> {
        Ok(cq.arm(flags))
    }

    fn create_qp(
        qp: &mut New<'_, Qp<Self>>,
        attr: &mut QpInitAttr<Self>,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Qp>> {
        let kind = attr.qp_type()?;
        if attr.srq().is_some() || attr.create_flags() != 0 {
            return Err(unsupported());
        }
        let owner = match (kind, qp.pd()) {
            // It has no memory and no queues. Nothing is ever sent to it.
            (QpType::XrcTgt, _) => 0,
            (_, Some(pd)) if attr.send_cq().is_some() && attr.recv_cq().is_some() => **pd,
            _ => return Err(EINVAL),
        };
        let cap = attr.cap();
        // CAST: a small constant.
        if cap.max_send_wr.max(cap.max_recv_wr) > MAX_WR
            || cap.max_send_sge.max(cap.max_recv_sge) > MAX_SGE as u32
            || cap.max_inline_data > 0
        {
            return Err(EINVAL);
        }
        let qps = &qp.device().adapter.qps;
        let slot = match kind {
            QpType::Smi => qps.reserve_exact(0, GFP_KERNEL)?,
            QpType::Gsi => qps.reserve_exact(1, GFP_KERNEL)?,
            QpType::Ud | QpType::Rc | QpType::XrcTgt => qps.reserve(QP_NUMBERS, GFP_KERNEL)?,
            _ => return Err(unsupported()),
        };
        let core = QpCore::new(Plan {
            number: slot.id(),
            kind,
            sizes: Sizes::new(cap),
            signals_all: attr.signals_all(),
            owner: Owner {
                pd: owner,
                user: udata.is_user(),
            },
            token: qp.token(),
            send_cq: Done(attr.send_cq().map(|cq| Arc::clone(cq))),
            recv_cq: Done(attr.recv_cq().map(|cq| Arc::clone(cq))),
        })?;
        qp.set_qp_num(slot.id());
        // Others can find the queue pair from here on, and nothing can fail any more.
        slot.publish(core.clone());
        Ok(core)
    }

    fn modify_qp(qp: &Qp<Self>, attr: QpChange<'_>, mask: QpAttrMask, _: &mut Udata<'_>) -> Result {
        let mut inner = qp.lock();
        let from = if mask.contains(QpAttrMask::CUR_STATE) {
            attr.cur_state()?
        } else {
            inner.state
        };
        let to = if mask.contains(QpAttrMask::STATE) {
            attr.state()?
        } else {
            from
        };
        if !modify_is_ok(from, to, qp.kind, mask) {
            return Err(EINVAL);
        }
        // CAST: a small constant.
        if mask.contains(QpAttrMask::PKEY_INDEX) && attr.pkey_index() >= PKEYS as u16 {
            return Err(EINVAL);
        }
        if mask.contains(QpAttrMask::PKEY_INDEX) {
            inner.pkey_index = attr.pkey_index();
        }
        if mask.contains(QpAttrMask::QKEY) {
            inner.qkey = attr.qkey();
        }
        inner.connection.set(attr, mask)?;
        inner.state = to;
        let woken = match to {
            QpState::Reset => qp.reset(&mut inner),
            QpState::Err => qp.flush(&mut inner),
            // It may have sends from before it was drained.
            QpState::Rts => qp.device().host.map(|host| (host, qp.number)),
            QpState::Init | QpState::Rtr | QpState::Sqd | QpState::Sqe => None,
        };
        drop(inner);
        qp.device().world.wake(woken);
        Ok(())
    }

    fn query_qp(
        qp: &Qp<Self>,
        attr: &mut QpAttr,
        _: QpAttrMask,
        init: &mut QpInitAttr<Self>,
    ) -> Result {
        let inner = qp.lock();
        attr.set_state(inner.state);
        attr.set_cur_state(inner.state);
        attr.set_qkey(inner.qkey);
        attr.set_pkey_index(inner.pkey_index);
        attr.set_port_num(HOST_PORT.into());
        if matches!(qp.kind, QpType::Rc | QpType::XrcTgt) {
            inner.connection.tell(attr);
        }
        qp.sizes.tell(attr.cap_mut());
        qp.sizes.tell(init.cap_mut());
        init.set_signals_all(qp.signals_all);
        Ok(())
    }

    fn destroy_qp(qp: &Qp<Self>, _: &mut Udata<'_>) -> Result {
        qp.device().adapter.qps.remove(qp.qp_num());
        qp.device().world.wake(qp.end());
        Ok(())
    }

    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        if qp.kind == QpType::XrcTgt {
            return Err(EINVAL);
        }
        let device = qp.device();
        for wr in wrs {
            match qp.kind {
                QpType::Rc => qp.post_connected(device, &wr)?,
                _ => qp.post_send(device, &wr)?,
            }
        }
        Ok(())
    }

    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        if qp.kind == QpType::XrcTgt {
            return Err(EINVAL);
        }
        for wr in wrs {
            qp.post_recv(qp.device(), &wr)?;
        }
        Ok(())
    }

    fn get_dma_mr(mr: &New<'_, Mr<Self>>, _: Access) -> Result<impl PinInit<Self::Mr>> {
        mr.set_keys(mem::DMA_KEY, mem::DMA_KEY);
        Ok(None)
    }

    fn reg_user_mr(
        mr: &New<'_, Mr<Self>>,
        region: &UserRegion,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Mr>> {
        let slot = mr
            .device()
            .adapter
            .regions
            .reserve(mem::NUMBERS, GFP_KERNEL)?;
        let new = Region::of_user(mr.device(), **mr.pd(), region)?;
        mr.set_keys(slot.id() << 8, slot.id() << 8);
        slot.publish(new.clone());
        Ok(Some(new))
    }

    fn dereg_mr(mr: &Mr<Self>, _: &mut Udata<'_>) -> Result {
        if let Some(region) = &**mr {
            mr.device().adapter.regions.remove(mr.lkey() >> 8);
            region.end();
        }
        Ok(())
    }

    fn attach_mcast(qp: &Qp<Self>, gid: &Gid, _lid: u16) -> Result {
        qp.device().adapter.attach(gid, qp.qp_num())
    }

    fn detach_mcast(qp: &Qp<Self>, gid: &Gid, _lid: u16) -> Result {
        qp.device().adapter.detach(gid, qp.qp_num())
    }
}
