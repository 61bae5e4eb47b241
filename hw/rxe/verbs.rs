// SPDX-License-Identifier: GPL-2.0

//! The verbs of a soft-RoCE device: thin wrappers around the other files.

use crate::ah::Handle;
use crate::counters;
use crate::cq::Cq;
use crate::cq::Cqe;
use crate::device::enabled;
use crate::device::Dev;
use crate::device::Rxe;
use crate::faults::Share;
use crate::limits;
use crate::mem;
use crate::mem::access;
use crate::mem::Fault;
use crate::mem::PdId;
use crate::pma;
use crate::proto::Key;
use crate::proto::WcStatus;
use crate::qp::verbs::QpObject;
use crate::qp::Parking;
use crate::qp::Qp as QpCore;
use crate::queue::cq::Arm;
use crate::queue::cqe::flags;
use crate::queue::cqe::Extra;
use crate::srq::SrqObject;
use crate::user;
use crate::user::Context;
use crate::user::QueueMap;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::net::DeviceName;
use rdma::provider::attr::CMD_POST_SEND;
use rdma::provider::attr::CMD_REQ_NOTIFY_CQ;
use rdma::provider::*;
use rdma::udata::Udata;
use rdma::umem::dmabuf::DmaBuf;
use rdma::umem::odp::Chunked;
use rdma::umem::odp::OnDemand;
use rdma::umem::odp::Touch;
use rdma::umem::Umem;

/// The driver's data of a protection domain.
pub(crate) struct PdObject {
    dev: Arc<Dev>,
    pub(crate) id: PdId,
    /// The page faults of its user context.
    faults: Option<Arc<Share>>,
}

impl Drop for PdObject {
    fn drop(&mut self) {
        self.dev.uncount_pd();
    }
}

/// The driver's data of a completion queue.
#[pin_data(PinnedDrop)]
pub(crate) struct CqObject {
    pub(crate) core: Arc<Cq>,
    #[pin]
    map: Mutex<Option<QueueMap>>,
}

#[pinned_drop]
impl PinnedDrop for CqObject {
    fn drop(self: Pin<&mut Self>) {
        self.core.retire();
    }
}

/// Sets fields that C declares as signed integers to limits that fit.
macro_rules! set {
    ($attr:ident: $($field:ident = $limit:expr;)*) => {
        $($attr.$field = raw_limit($limit);)*
    };
}

#[vtable]
impl Provider for Rxe {
    const DRIVER_ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_RXE;
    const UVERBS_ABI_VERSION: u32 = 2;
    const NODE_DESC: &'static CStr = c"rxe";
    const UVERBS_CMDS: u64 = CMD_POST_SEND | CMD_REQ_NOTIFY_CQ;
    const PORT_STATS: &'static [StatDesc] = &counters::DESCRIPTIONS;

    type UContext = Context;
    type Pd = PdObject;
    type Ah = Handle;
    type Cq = CqObject;
    type Qp = QpObject;
    type Srq = SrqObject;
    type Mr = mem::Mr;
    type Mw = mem::Mw;
    type Xrcd = ();

    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, udata: &mut Udata<'_>) -> Result {
        udata.expect_no_input()?;
        attr.vendor_id = limits::VENDOR_ID;
        attr.sys_image_guid = dev.image_guid.load(Relaxed).to_be();
        attr.max_mr_size = u64::MAX;
        attr.page_size_cap = limits::PAGE_SIZE_CAP;
        attr.device_cap_flags = limits::DEVICE_CAPS;
        attr.kernel_cap_flags = bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG.into();
        if OnDemand::is_supported() {
            attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
            attr.odp_caps.general_caps = limits::ODP.into();
            attr.odp_caps.per_transport_caps.ud_odp_caps = limits::ODP_UD;
            attr.odp_caps.per_transport_caps.rc_odp_caps = limits::ODP_RC;
        }
        attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_GLOB;
        attr.max_fast_reg_page_list_len = limits::MAX_FAST_REG_PAGES;
        attr.max_pkeys = limits::MAX_PKEYS;
        attr.local_ca_ack_delay = limits::ACK_DELAY;
        set! { attr:
            max_qp = limits::MAX_QP;
            max_qp_wr = limits::MAX_QP_WR;
            max_send_sge = limits::MAX_SGE;
            max_recv_sge = limits::MAX_SGE;
            max_sge_rd = limits::MAX_SGE;
            max_cq = limits::MAX_CQ;
            max_cqe = limits::MAX_CQE;
            max_mr = limits::MAX_MR;
            max_mw = limits::MAX_MW;
            max_pd = limits::MAX_PD;
            max_qp_rd_atom = limits::MAX_RD_ATOMIC;
            max_qp_init_rd_atom = limits::MAX_RD_ATOMIC;
            max_res_rd_atom = limits::MAX_RES_RD_ATOMIC;
            max_ah = limits::MAX_AH;
            max_mcast_grp = limits::MAX_MCAST_GRP;
            max_mcast_qp_attach = limits::MAX_MCAST_QP_ATTACH;
            max_total_mcast_qp_attach = limits::MAX_TOTAL_MCAST_QP_ATTACH;
            max_srq = limits::MAX_SRQ;
            max_srq_wr = limits::MAX_SRQ_WR;
            max_srq_sge = limits::MAX_SRQ_SGE;
        }
        udata.respond_nothing()
    }

    fn modify_device(dev: &Device<Self>, mask: DeviceModifyMask, attr: &DeviceModify) -> Result {
        let known = DeviceModifyMask::SYS_IMAGE_GUID | DeviceModifyMask::NODE_DESC;
        if !known.contains(mask) {
            return Err(unsupported());
        }
        if mask.intersects(DeviceModifyMask::SYS_IMAGE_GUID) {
            dev.image_guid.store(attr.sys_image_guid, Relaxed);
        }
        if mask.intersects(DeviceModifyMask::NODE_DESC) {
            dev.set_node_desc(&attr.node_desc.map(|c| c.to_ne_bytes()[0]));
        }
        Ok(())
    }

    fn query_port(dev: &Device<Self>, _port: u32, attr: &mut PortAttr) -> Result {
        attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
        attr.active_mtu = dev.dev.mtu_code();
        attr.gid_tbl_len = limits::GID_TABLE;
        attr.pkey_tbl_len = 1;
        attr.port_cap_flags = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
        attr.max_msg_sz = limits::MAX_MESSAGE;
        attr.max_vl_num = 1;
        attr.bad_pkey_cntr = dev.dev.bad_pkeys.load(Relaxed).min(0xffff);
        attr.qkey_viol_cntr = dev.dev.bad_qkeys.load(Relaxed).min(0xffff);
        (attr.active_speed, attr.active_width) = dev.port_speed(1)?;
        let link = if dev.netdev.is_active() {
            attr.state = bindings::ib_port_state_IB_PORT_ACTIVE;
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP
        } else {
            attr.state = bindings::ib_port_state_IB_PORT_DOWN;
            if dev.netdev.is_up() {
                bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING
            } else {
                bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED
            }
        };
        // CAST: the constants fit `u8`.
        attr.phys_state = link as u8;
        Ok(())
    }

    fn modify_port(
        dev: &Device<Self>,
        _port: u32,
        mask: PortModifyMask,
        _attr: &PortModify,
    ) -> Result {
        if !PortModifyMask::RESET_QKEY_CNTR.contains(mask) {
            return Err(unsupported());
        }
        if mask.intersects(PortModifyMask::RESET_QKEY_CNTR) {
            dev.dev.bad_qkeys.store(0, Relaxed);
        }
        Ok(())
    }

    fn port_immutable(_: &Device<Self>, _port: u32) -> Result<PortImmutable> {
        Ok(PortImmutable {
            core_cap_flags: bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP,
            gid_tbl_len: limits::GID_TABLE,
            pkey_tbl_len: 1,
            max_mad_size: bindings::IB_MGMT_MAD_SIZE,
        })
    }

    fn link_layer(_: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Ethernet
    }

    fn query_pkey(_: &Device<Self>, _port: u32, index: u16) -> Result<u16> {
        match index {
            0 => Ok(0xffff),
            _ => Err(EINVAL),
        }
    }

    fn query_gid(dev: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        let mut gid = [0; 16];
        for (to, from) in gid.iter_mut().zip(dev.mac) {
            *to = from;
        }
        Ok(gid)
    }

    fn parent(dev: &Device<Self>) -> Result<DeviceName> {
        Ok(dev.netdev.name())
    }

    fn enable_driver(dev: &Device<Self>) -> Result {
        if let Some(edge) = crate::network() {
            enabled(dev, &edge);
        }
        Ok(())
    }

    fn process_mad(dev: &Device<Self>, port: u32, mad: &mut Mad<'_>) -> MadResult {
        match port {
            1 => pma::answer(&dev.dev.counters, mad),
            _ => MadResult::Failure,
        }
    }

    fn get_hw_stats(dev: &Device<Self>, _port: u32, stats: &mut HwStats<'_>) -> Result {
        for index in 0..stats.len() {
            stats.set(index, dev.dev.counters.sum_at(index));
        }
        Ok(())
    }

    fn alloc_ucontext(
        context: &New<'_, UContext<Self>>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Context>> {
        Context::new(&context.device().dev)
    }

    fn disassociate_ucontext(_: &UContext<Self>) {
        // Mapped queues keep their pages, but are not served any more.
    }

    fn alloc_pd(pd: &New<'_, Pd<Self>>, udata: &mut Udata<'_>) -> Result<impl PinInit<PdObject>> {
        let dev = pd.device().dev.clone();
        let id = dev.count_pd()?;
        Ok(PdObject {
            dev,
            id,
            faults: user::faults(udata).cloned(),
        })
    }

    fn create_ah(
        ah: &New<'_, Ah<Self>>,
        init: &AhInit<'_>,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Handle>> {
        Handle::create(ah, init, udata)
    }

    fn modify_ah(ah: &Ah<Self>, attr: &AhAttr) -> Result {
        ah.modify(attr)
    }

    fn query_ah(ah: &Ah<Self>, attr: &mut AhAttr) -> Result {
        ah.query(attr);
        Ok(())
    }

    fn create_cq(
        cq: &New<'_, CoreCq>,
        attr: &CqAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<CqObject>> {
        if attr.flags() != 0 {
            return Err(unsupported());
        }
        let mut map = None;
        let core = if udata.is_user() {
            udata.expect_room::<bindings::rxe_create_cq_resp>()?;
            let (core, ring) = Cq::user(attr.entries(), cq.upcall(), user::store(udata))?;
            map = QueueMap::new(udata, &ring)?;
            if let Some(map) = &map {
                udata.respond_all(&map.info())?;
            }
            core
        } else {
            Cq::kernel(attr.entries(), cq.upcall())?
        };
        cq.set_entries(core.capacity());
        Ok(pin_init!(CqObject {
            core,
            map <- new_mutex!(map, "rxe::CqObject::map"),
        }))
    }

    fn resize_cq(cq: &CoreCq, entries: u32, udata: &mut Udata<'_>) -> Result {
        udata.expect_room::<bindings::rxe_resize_cq_resp>()?;
        let mut map = cq.map.lock();
        let mut fresh = None;
        let store = user::store(udata).cloned();
        cq.core.resize(entries, store.as_ref(), |ring| {
            let made = QueueMap::new(udata, ring)?.ok_or(EINVAL)?;
            udata.respond_all(&made.info())?;
            fresh = Some(made);
            Ok(())
        })?;
        *map = fresh;
        cq.set_entries(cq.core.capacity());
        Ok(())
    }

    fn poll_cq(cq: &CoreCq, out: &mut WcSlots<'_>) -> Result {
        while !out.is_full() {
            let Some(cqe) = cq.core.poll() else { break };
            // The loop condition guarantees room.
            let _ = out.push(kernel_completion(&cqe));
        }
        Ok(())
    }

    fn peek_cq(cq: &CoreCq, max: u32) -> Result<u32> {
        Ok(cq.core.waiting().min(max))
    }

    fn req_notify_cq(cq: &CoreCq, flags: NotifyFlags) -> Result<bool> {
        let arm = if flags.intersects(NotifyFlags::NEXT_COMP) {
            Arm::Next
        } else {
            Arm::Solicited
        };
        // A consumer that arms a queue is about to sleep, so requests must not be held back any
        // longer. Send them before arming, since completions that this causes need no notification.
        if let Some(number) = cq.core.held() {
            if let Some(qp) = cq.device().dev.qps.get(number) {
                QpCore::uncork(qp.as_arc_borrow());
            }
        }
        Ok(cq.core.arm(arm))
    }

    fn create_qp(
        qp: &mut New<'_, Qp<Self>>,
        attr: &mut QpInitAttr<Self>,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<QpObject>> {
        QpObject::create(qp, attr, udata)
    }

    fn modify_qp(qp: &Qp<Self>, attr: QpChange<'_>, mask: QpAttrMask, _: &mut Udata<'_>) -> Result {
        QpCore::modify(&qp.core, attr, mask)
    }

    fn query_qp(
        qp: &Qp<Self>,
        attr: &mut QpAttr,
        _mask: QpAttrMask,
        init: &mut QpInitAttr<Self>,
    ) -> Result {
        init.fill_from(qp);
        QpCore::query(&qp.core, attr, init);
        Ok(())
    }

    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        QpCore::post_send(&qp.core, wrs)
    }

    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        QpCore::post_recv(&qp.core, wrs)
    }

    fn create_srq(
        srq: &New<'_, Srq<Self>>,
        attr: &mut SrqInitAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<SrqObject>> {
        SrqObject::create(srq, attr, udata)
    }

    fn modify_srq(
        srq: &Srq<Self>,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        udata: &mut Udata<'_>,
    ) -> Result {
        srq.modify(attr, mask, udata)
    }

    fn query_srq(srq: &Srq<Self>) -> Result<SrqAttr> {
        Ok(srq.query())
    }

    fn post_srq_recv(srq: &Srq<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        srq.post(wrs)
    }

    fn get_dma_mr(mr: &New<'_, Mr<Self>>, access: Access) -> Result<impl PinInit<mem::Mr>> {
        let made = mem::Mr::dma(&mr.device().dev.memory, mr.pd().id, access.raw())?;
        mr.set_keys(made.key().0, made.key().0);
        Ok(made)
    }

    fn reg_user_mr(
        mr: &New<'_, Mr<Self>>,
        region: &UserRegion,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<mem::Mr>> {
        if region.access.raw() & !access::REGION != 0 {
            return Err(unsupported());
        }
        let (dev, access) = (mr.device(), region.access.raw());
        let (memory, pd) = (&dev.dev.memory, mr.pd().id);
        let everything = region.start == 0 && region.length == u64::MAX;
        let made = if access & access::ON_DEMAND != 0 && everything {
            // Which of the memory is persistent is unknown, and a flush cannot fault in all of it.
            if region.iova != 0 || access & access::FLUSH_PERSISTENT != 0 {
                return Err(EINVAL);
            }
            let pages = Chunked::whole(rdma::resident!(), dev, region.access)?;
            mem::Mr::chunked(memory, pd, access, 0, pages)?
        } else if access & access::ON_DEMAND != 0 && OnDemand::is_long(region.length) {
            let pages = Chunked::part(
                rdma::resident!(),
                dev,
                region.start,
                region.length,
                region.access,
            )?;
            mem::Mr::chunked(memory, pd, access, region.iova, pages)?
        } else if access & access::ON_DEMAND != 0 {
            let pages = OnDemand::get(
                rdma::resident!(),
                dev,
                region.start,
                region.length,
                region.access,
            )?;
            mem::Mr::on_demand(memory, pd, access, region.iova, pages)?
        } else {
            let umem = Umem::get(dev, region.start, region.length, region.access)?;
            mem::Mr::user(memory, pd, access, region.iova, umem)?
        };
        mr.set_keys(made.key().0, made.key().0);
        Ok(made)
    }

    fn reg_user_mr_dmabuf(
        mr: &New<'_, Mr<Self>>,
        region: &UserRegion,
        fd: i32,
    ) -> Result<impl PinInit<mem::Mr>> {
        let access = region.access.raw();
        // Whether that memory is persistent is unknown.
        if access & !access::REGION != 0
            || access & (access::ON_DEMAND | access::FLUSH_PERSISTENT) != 0
        {
            return Err(unsupported());
        }
        let buffer = DmaBuf::get(fd, region.start, region.length)?;
        let memory = &mr.device().dev.memory;
        let made = mem::Mr::shared(memory, mr.pd().id, access, region.iova, buffer)?;
        mr.set_keys(made.key().0, made.key().0);
        Ok(made)
    }

    fn rereg_user_mr(
        mr: &Mr<Self>,
        mask: RegionMask,
        region: &UserRegion,
        pd: &Pd<Self>,
        _: &mut Udata<'_>,
    ) -> Result {
        if mask.intersects(RegionMask::TRANSLATION) {
            return Err(unsupported());
        }
        let change_access = mask.intersects(RegionMask::ACCESS);
        mr.check_rereg(mask, region.access)?;
        // Persistence of the memory was determined at registration.
        let possible = access::REGION & (mr.access() | !access::FLUSH_PERSISTENT);
        if change_access && region.access.raw() & !possible != 0 {
            return Err(unsupported());
        }
        mr.change(
            mask.intersects(RegionMask::PD).then_some(pd.id),
            change_access.then_some(region.access.raw()),
        );
        Ok(())
    }

    fn advise_mr(pd: &Pd<Self>, advice: Advice, flush: bool, list: &[Sge]) -> Result {
        let dev = &pd.device().dev;
        let memory = &dev.memory;
        let (touch, may_fault) = match advice {
            Advice::Prefetch => (Touch::Read, true),
            Advice::PrefetchWrite => (Touch::Write, true),
            Advice::PrefetchNoFault => (Touch::Read, false),
        };
        for sge in list {
            let fault = Fault {
                key: Key(sge.lkey),
                va: sge.addr,
                len: usize::try_from(sge.length)?,
                touch,
            };
            // Without flush, the pages come later: their file may not even be readable.
            if let (Some(share), false, true) = (&pd.faults, flush, may_fault) {
                memory.check_prefetch(pd.id, &fault)?;
                Parking::advise(share, dev, fault)?;
                continue;
            }
            match memory.prefetch(pd.id, &fault, may_fault) {
                // A failed prefetch without flush is not an error, but an invalid key is.
                Err(error) if !flush && error != EINVAL => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn alloc_mr(
        mr: &New<'_, Mr<Self>>,
        kind: MrType,
        max_sg: u32,
    ) -> Result<impl PinInit<mem::Mr>> {
        if kind != MrType::MemReg || max_sg > limits::MAX_FAST_REG_PAGES {
            return Err(EINVAL);
        }
        let blocks = usize::try_from(max_sg)?;
        let made = mem::Mr::fast(&mr.device().dev.memory, mr.pd().id, blocks)?;
        mr.set_keys(made.key().0, made.key().0);
        Ok(made)
    }

    fn map_mr_sg(mr: &Mr<Self>, sg: SgList<'_>) -> Result<u32> {
        mr.map_begin(usize::try_from(mr.page_size())?)?;
        let mapped = sg.to_pages(mr)?;
        mr.map_end(mr.iova(), mr.length())?;
        Ok(mapped)
    }

    fn set_page(mr: &Mr<Self>, addr: u64) -> Result {
        mr.map_block(addr)
    }

    fn dereg_mr(mr: &Mr<Self>, _: &mut Udata<'_>) -> Result {
        mr.may_go()
    }

    fn alloc_mw(mw: &New<'_, Mw<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<mem::Mw>> {
        let kind = if mw.is_type_2() {
            mem::MwKind::Two
        } else {
            mem::MwKind::One
        };
        let made = mem::Mw::new(&mw.device().dev.memory, mw.pd().id, kind)?;
        mw.set_rkey(made.key().0);
        Ok(made)
    }

    fn attach_mcast(qp: &Qp<Self>, group: &Gid, _lid: u16) -> Result {
        qp.core
            .dev
            .groups
            .attach(&qp.device().netdev, group, qp.core.number)
    }

    fn detach_mcast(qp: &Qp<Self>, group: &Gid, _lid: u16) -> Result {
        qp.core
            .dev
            .groups
            .detach(&qp.device().netdev, group, qp.core.number)
    }
}

/// Verbs object of a completion queue.
type CoreCq = rdma::provider::Cq<Rxe>;

/// Converts a completion for kernel consumers.
fn kernel_completion(cqe: &Cqe) -> Wc {
    let qp = cqe.origin.qp;
    let status = u32::from(cqe.status.code());
    let opcode = u32::from(cqe.opcode.code());
    let mut wc = Wc::new(cqe.wr_id, qp, status, opcode)
        .byte_len(cqe.byte_len)
        .port(u32::from(cqe.origin.port));
    if cqe.status != WcStatus::Success {
        return wc;
    }
    wc = match cqe.extra {
        Extra::None => wc,
        Extra::Imm(imm) => wc.imm(imm),
        Extra::Invalidated(key) => wc.invalidated(key.0),
    };
    if let Some(network) = cqe.network {
        if cqe.flags & flags::GRH != 0 {
            wc = wc.from_datagram(cqe.src_qpn, 0, u32::from(cqe.origin.port));
        }
        // CAST: the constants fit `u8`.
        let kind = if network.is_v6 {
            bindings::rdma_network_type_RDMA_NETWORK_IPV6 as u8
        } else {
            bindings::rdma_network_type_RDMA_NETWORK_IPV4 as u8
        };
        wc = wc.network(kind);
        if let Some(vlan) = network.vlan {
            wc = wc.vlan(vlan);
        }
    }
    wc
}
