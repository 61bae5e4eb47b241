// SPDX-License-Identifier: GPL-2.0

//! softpair: a minimal device that transports messages.
//!
//! An example of the Provider API (`rust/provider.rs`, introduced in `Documentation/provider.md`).
//! It registers one device, `softpair0`, whose UC queue pairs are connected within the device: a
//! SEND on one is copied into the oldest posted receive of the other. Nothing leaves the machine,
//! and only kernel consumers can use the device, as there is no user library.
//!
//! - `main.rs`: the module, the device, and the verbs (this file);
//! - `queue.rs`: completion queues and queue pairs, independent of the verbs;
//! - `edge.rs`: access to the consumers' memory.
//!
//! Features that it omits are optional for a device: address handles, shared receive queues,
//! windows, user memory, events. The C consumer in `check.c` exercises everything else.

use crate::queue::CqCore;
use crate::queue::QpCore;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::new_table;
use rdma::provider::attr::modify_is_ok;
use rdma::provider::unsupported;
use rdma::provider::*;
use rdma::table::Table;
use rdma::udata::Udata;

mod edge;
mod queue;

rdma::resident_module! { struct Main(SoftpairModule); }

module! {
    type: Main,
    name: "softpair",
    authors: ["The rust-rdma authors"],
    description: "Example RDMA device: queue pairs that meet in memory",
    license: "GPL",
    params: {
        hold_ms: u32 {
            default: 0,
            description: "For tests: how long a message is held before it is copied; the sender sleeps",
        },
    },
}

/// The module owns the device; dropping the registration unregisters it.
struct SoftpairModule {
    _device: Registration<Softpair>,
}

impl kernel::Module for SoftpairModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let data = try_pin_init!(Softpair { qps <- new_table!("Softpair::qps") });
        let mut device = Unregistered::new(rdma::resident!(), module, data)?;
        device.set_node_guid(GUID);
        Ok(Self {
            _device: device.register(c"softpair%d")?,
        })
    }
}

/// The data of the device.
#[pin_data]
struct Softpair {
    /// All queue pairs, by number.
    #[pin]
    qps: Table<QpCore>,
}

/// A locally administered GUID.
const GUID: [u8; 8] = [0x02, b's', b'o', b'f', b't', b'p', b'a', b'r'];
/// The only memory key, for all kernel memory.
const KEY: u32 = 1;
const MAX_QP: u32 = 1 << 10;
const MAX_WR: u32 = 1 << 10;
const MAX_CQE: u32 = 1 << 12;
/// Numbers of queue pairs; 0 and 1 are reserved for management.
const QP_NUMBERS: core::ops::RangeInclusive<u32> = 2..=MAX_QP + 1;

#[vtable]
impl Provider for Softpair {
    const UVERBS_ABI_VERSION: u32 = 1;
    const NODE_DESC: &'static CStr = c"softpair example";

    type UContext = ();
    type Pd = ();
    type Ah = ();
    type Cq = Arc<CqCore>;
    type Qp = Arc<QpCore>;
    type Srq = ();
    type Mr = ();
    type Mw = ();
    type Xrcd = ();

    fn query_device(_: &Device<Self>, attr: &mut DeviceAttr, _: &mut Udata<'_>) -> Result {
        attr.sys_image_guid = u64::from_ne_bytes(GUID);
        attr.max_mr_size = u64::MAX;
        attr.max_qp = raw_limit(MAX_QP);
        attr.max_qp_wr = raw_limit(MAX_WR);
        attr.max_cqe = raw_limit(MAX_CQE);
        attr.max_cq = raw_limit(u32::MAX);
        attr.max_pd = raw_limit(u32::MAX);
        attr.max_mr = raw_limit(u32::MAX);
        attr.max_send_sge = 1;
        attr.max_recv_sge = 1;
        attr.max_pkeys = 1;
        Ok(())
    }

    fn query_port(_: &Device<Self>, _port: u32, attr: &mut PortAttr) -> Result {
        attr.state = bindings::ib_port_state_IB_PORT_ACTIVE;
        // CAST: the constant fits `u8`.
        attr.phys_state = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8;
        attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
        attr.active_mtu = bindings::ib_mtu_IB_MTU_4096;
        attr.gid_tbl_len = 1;
        attr.pkey_tbl_len = 1;
        attr.max_msg_sz = queue::MAX_MESSAGE;
        attr.active_width = 1;
        attr.active_speed = 1;
        Ok(())
    }

    fn port_immutable(_: &Device<Self>, _port: u32) -> Result<PortImmutable> {
        // The port supports neither connection management nor management datagrams.
        Ok(PortImmutable {
            core_cap_flags: bindings::RDMA_CORE_PORT_RAW_PACKET,
            gid_tbl_len: 1,
            pkey_tbl_len: 1,
            max_mad_size: 0,
        })
    }

    fn query_gid(_: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        let mut gid = [0; 16];
        gid[..2].copy_from_slice(&[0xfe, 0x80]);
        gid[8..].copy_from_slice(&GUID);
        Ok(gid)
    }

    fn query_pkey(_: &Device<Self>, _port: u32, _index: u16) -> Result<u16> {
        Ok(0xffff)
    }

    fn alloc_pd(_: &New<'_, Pd<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<()>> {
        Ok(())
    }

    fn create_cq(
        cq: &New<'_, Cq<Self>>,
        attr: &CqAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Cq>> {
        if udata.is_user() {
            return Err(unsupported());
        }
        if attr.entries() > MAX_CQE {
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
        if udata.is_user() || attr.qp_type()? != QpType::Uc || attr.srq().is_some() {
            return Err(unsupported());
        }
        let (Some(send_cq), Some(recv_cq)) = (attr.send_cq(), attr.recv_cq()) else {
            return Err(EINVAL);
        };
        let (send_cq, recv_cq) = (Arc::clone(send_cq), Arc::clone(recv_cq));
        let cap = attr.cap();
        let most = cap.max_send_wr.max(cap.max_recv_wr);
        if most > MAX_WR || cap.max_send_sge.max(cap.max_recv_sge) > 1 || cap.max_inline_data > 0 {
            return Err(EINVAL);
        }
        let slot = qp.device().qps.reserve(QP_NUMBERS, GFP_KERNEL)?;
        qp.set_qp_num(slot.id());
        let core = QpCore::new(
            qp.token(),
            send_cq,
            recv_cq,
            cap.max_recv_wr,
            attr.signals_all(),
        )?;
        // From here on, others can find the queue pair, and nothing can fail any more.
        slot.publish(core.clone());
        Ok(core)
    }

    fn modify_qp(qp: &Qp<Self>, attr: QpChange<'_>, mask: QpAttrMask, _: &mut Udata<'_>) -> Result {
        let mut inner = qp.lock();
        let from = inner.state;
        let to = if mask.contains(QpAttrMask::STATE) {
            attr.state()?
        } else {
            from
        };
        if !modify_is_ok(from, to, QpType::Uc, mask) {
            return Err(EINVAL);
        }
        if mask.contains(QpAttrMask::DEST_QPN) {
            inner.peer = attr.dest_qp_num();
        }
        inner.state = to;
        drop(inner);
        match to {
            QpState::Reset => {
                qp.settle();
                qp.reset();
            }
            QpState::Err => {
                qp.settle();
                qp.flush();
            }
            QpState::Init | QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => (),
        }
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
        attr.set_dest_qp_num(inner.peer);
        attr.set_port_num(1);
        attr.cap_mut().max_recv_wr = inner.recv_limit();
        attr.cap_mut().max_send_sge = 1;
        attr.cap_mut().max_recv_sge = 1;
        init.cap_mut().max_recv_wr = inner.recv_limit();
        Ok(())
    }

    fn destroy_qp(qp: &Qp<Self>, _: &mut Udata<'_>) -> Result {
        qp.device().qps.remove(qp.qp_num());
        qp.end();
        Ok(())
    }

    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result {
        let device = qp.device();
        for wr in wrs {
            qp.send(&device.qps, &wr)?;
        }
        Ok(())
    }

    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        for wr in wrs {
            qp.post_recv(&wr)?;
        }
        Ok(())
    }

    fn get_dma_mr(mr: &New<'_, Mr<Self>>, _: Access) -> Result<impl PinInit<()>> {
        mr.set_keys(KEY, KEY);
        Ok(())
    }

    fn reg_user_mr(
        _: &New<'_, Mr<Self>>,
        _: &UserRegion,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<()>> {
        Err::<(), Error>(unsupported())
    }
}
