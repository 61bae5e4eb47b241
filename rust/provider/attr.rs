// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices, ports, queue pairs and other objects, as the core passes them.
//!
//! Plain records of numbers are the C structures themselves, under other names. Structures with
//! pointers or flags are wrapped without a copy: getters read the C fields, and setters write them.
//! All are borrowed from the caller of the verb for the duration of the call.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::object::Cq;
use super::object::Srq;
use super::unsupported;
use super::Provider;
use crate::accounted;
use crate::bindings;
use crate::net::GidAttr;
use core::marker::PhantomData;
use core::ops::Deref;
use kernel::alloc::Flags;
use kernel::prelude::*;

mod flags;
mod ib;

pub use self::flags::Access;
pub use self::flags::Advice;
pub use self::flags::DeviceModifyMask;
pub use self::flags::LinkLayer;
pub use self::flags::MrType;
pub use self::flags::NotifyFlags;
pub use self::flags::PortModifyMask;
pub use self::flags::QpAttrMask;
pub use self::flags::QpState;
pub use self::flags::QpType;
pub use self::flags::RegionMask;
pub use self::flags::SrqAttrMask;
pub use self::flags::SrqType;

/// Capabilities of a device; filled in by [`Provider::query_device`].
pub type DeviceAttr = bindings::ib_device_attr;
/// The state of a port; filled in by [`Provider::query_port`].
pub type PortAttr = bindings::ib_port_attr;
/// Constant properties of a port; returned by [`Provider::port_immutable`].
pub type PortImmutable = bindings::ib_port_immutable;
/// New values for [`Provider::modify_device`].
pub type DeviceModify = bindings::ib_device_modify;
/// New values for [`Provider::modify_port`].
pub type PortModify = bindings::ib_port_modify;
/// Sizes of a queue pair's queues, in requests, scatter-gather entries and bytes.
pub type QpCap = bindings::ib_qp_cap;
/// Sizes of a shared receive queue, and its limit.
pub type SrqAttr = bindings::ib_srq_attr;
/// A GID, 16 bytes in network order.
pub type Gid = [u8; 16];

/// Node type of a channel adapter, for [`Provider::NODE_TYPE`].
pub const NODE_IB_CA: u8 = 1;
const _: () = assert!(bindings::RDMA_NODE_IB_CA == 1);

/// Bit of the old doorbell command, for [`Provider::UVERBS_CMDS`].
pub const CMD_POST_SEND: u64 = 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND;
/// Bit of the old command that posts receives, for [`Provider::UVERBS_CMDS`].
pub const CMD_POST_RECV: u64 = 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_RECV;
/// Bit of the old command that posts receives to a shared queue, for [`Provider::UVERBS_CMDS`].
pub const CMD_POST_SRQ_RECV: u64 =
    1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SRQ_RECV;
/// Bit of the old command that polls a completion queue, for [`Provider::UVERBS_CMDS`].
pub const CMD_POLL_CQ: u64 = 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POLL_CQ;
/// Bit of the old command that arms a completion queue, for [`Provider::UVERBS_CMDS`].
pub const CMD_REQ_NOTIFY_CQ: u64 =
    1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

/// Returns whether a queue pair of type `kind` may change from `from` to `to` with the attributes
/// of `mask`. Any context.
pub fn modify_is_ok(from: QpState, to: QpState, kind: QpType, mask: QpAttrMask) -> bool {
    // SAFETY: The function only reads a table with these numbers.
    unsafe { bindings::ib_modify_qp_is_ok(from.raw(), to.raw(), kind.raw(), mask.raw()) }
}

/// Defines getters, and setters named `set_...`, of fields of a wrapped C structure.
macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $t:ty;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $get(&self) -> $t {
                self.0.$get
            }

            #[doc = concat!("Sets [`Self::", stringify!($get), "`].")]
            #[inline]
            pub fn $set(&mut self, v: $t) {
                self.0.$get = v;
            }
        )*
    };
}

/// An address vector, the destination of packets: `struct rdma_ah_attr`.
///
/// # Invariants
///
/// If there is a GRH, `grh.sgid_attr` is null or an entry of the device's GID tables, to which the
/// creator of the attribute holds a reference while it exists (`rdma_fill_sgid_attr` of the core).
#[repr(transparent)]
pub struct AhAttr(bindings::rdma_ah_attr);

impl AhAttr {
    /// # Safety
    ///
    /// For `'a`, `ptr` must point to an attribute that fulfils the invariant and does not change.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *const bindings::rdma_ah_attr) -> &'a Self {
        // SAFETY: Valid and constant for `'a` (contract of this function); the type is transparent.
        unsafe { &*ptr.cast() }
    }

    fields! {
        /// Service level.
        sl, set_sl: u8;
        /// Static rate, the limit of the packet rate (IBTA 9.11.1).
        static_rate, set_static_rate: u8;
        /// Port of the device.
        port_num, set_port_num: u32;
        /// `IB_AH_GRH` or 0.
        ah_flags, set_ah_flags: u8;
    }

    /// Returns whether there is a GRH; always the case on Ethernet.
    #[inline]
    pub fn has_grh(&self) -> bool {
        u32::from(self.0.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0
    }

    /// Returns the type of address, `RDMA_AH_ATTR_TYPE_*`.
    #[inline]
    pub fn kind(&self) -> u32 {
        self.0.type_
    }

    /// Returns the destination GID.
    #[inline]
    pub fn dgid(&self) -> Gid {
        // SAFETY: The union's `raw` covers all of it, and any bits are valid.
        unsafe { *self.0.grh.dgid.raw }
    }

    /// Returns the index of the source GID in the port's table.
    #[inline]
    pub fn sgid_index(&self) -> u8 {
        self.0.grh.sgid_index
    }

    /// Returns the hop limit, or time to live.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.0.grh.hop_limit
    }

    /// Returns the traffic class, or type of service.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.0.grh.traffic_class
    }

    /// Returns the flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.0.grh.flow_label
    }

    /// Sets the GRH, and the flag that there is one.
    pub fn set_grh(
        &mut self,
        dgid: Gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    ) {
        let grh = &mut self.0.grh;
        grh.dgid.raw = core::mem::ManuallyDrop::new(dgid);
        grh.flow_label = flow_label;
        grh.sgid_index = sgid_index;
        grh.hop_limit = hop_limit;
        grh.traffic_class = traffic_class;
        // CAST: The flag is bit 0.
        self.0.ah_flags |= bindings::ib_ah_flags_IB_AH_GRH as u8;
    }

    /// Returns the destination MAC address of a RoCE address, `None` for other types.
    #[inline]
    pub fn dmac(&self) -> Option<[u8; 6]> {
        if self.0.type_ != bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE {
            return None;
        }
        // SAFETY: The variant of this type is in use; it contains only bytes.
        Some(unsafe { self.0.__bindgen_anon_1.roce.dmac })
    }

    /// Sets the destination MAC address and the type, RoCE.
    pub fn set_dmac(&mut self, dmac: [u8; 6]) {
        self.0.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        self.0.__bindgen_anon_1.roce =
            core::mem::ManuallyDrop::new(bindings::roce_ah_attr { dmac });
    }

    /// Returns the entry of the source GID; `None` if there is none, or no GRH.
    #[inline]
    pub fn sgid(&self) -> Option<&GidAttr> {
        if !self.has_grh() {
            return None;
        }
        // SAFETY: The field is null or holds a reference (type invariant); no method changes it.
        unsafe { GidAttr::of_field(&self.0.grh.sgid_attr) }
    }
}

/// Attributes of a new address handle.
pub struct AhInit<'a>(&'a bindings::rdma_ah_init_attr);

impl<'a> AhInit<'a> {
    /// # Safety
    ///
    /// `ptr` must be the argument of a call of `create_ah` by the core, for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: *const bindings::rdma_ah_init_attr) -> Self {
        // SAFETY: The core's argument of `create_ah` is valid for the call (contract of this
        // function).
        Self(unsafe { &*ptr })
    }

    /// Returns the destination.
    #[inline]
    pub fn attr(&self) -> &'a AhAttr {
        // SAFETY: The core passes an attribute to whose GID entry it holds a reference during the
        // call (`rdma_create_ah`).
        unsafe { AhAttr::from_raw(self.0.ah_attr) }
    }

    /// Returns whether the caller may sleep.
    #[inline]
    pub fn can_sleep(&self) -> bool {
        self.0.flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0
    }

    /// Returns the allocation flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        if self.can_sleep() {
            accounted::GFP
        } else {
            GFP_ATOMIC
        }
    }
}

/// Attributes of a new completion queue.
#[repr(transparent)]
pub struct CqAttr(pub(crate) bindings::ib_cq_init_attr);

impl CqAttr {
    /// Returns the minimum number of entries.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.0.cqe
    }

    /// Returns the index of the completion vector.
    #[inline]
    pub fn comp_vector(&self) -> u32 {
        self.0.comp_vector
    }

    /// Returns the `IB_UVERBS_CQ_FLAGS_*`.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.0.flags
    }
}

/// Attributes of a new queue pair.
///
/// # Invariants
///
/// Its queues are null or live objects of the device of `P`.
#[repr(transparent)]
pub struct QpInitAttr<P: Provider>(pub(crate) bindings::ib_qp_init_attr, PhantomData<P>);

impl<P: Provider> QpInitAttr<P> {
    /// Returns the type; `EOPNOTSUPP` for an unknown one.
    #[inline]
    pub fn qp_type(&self) -> Result<QpType> {
        QpType::try_from(self.0.qp_type).map_err(|_| unsupported())
    }

    /// Returns the sizes of the queues.
    #[inline]
    pub fn cap(&self) -> &QpCap {
        &self.0.cap
    }

    /// Returns the sizes of the queues, to be set to the actual ones.
    #[inline]
    pub fn cap_mut(&mut self) -> &mut QpCap {
        &mut self.0.cap
    }

    /// Returns whether every send request has a completion.
    #[inline]
    pub fn signals_all(&self) -> bool {
        self.0.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR
    }

    /// Sets [`Self::signals_all`].
    #[inline]
    pub fn set_signals_all(&mut self, all: bool) {
        self.0.sq_sig_type = if all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }

    /// Returns the `IB_QP_CREATE_*` flags.
    #[inline]
    pub fn create_flags(&self) -> u32 {
        self.0.create_flags
    }

    /// Returns the port, for management queue pairs.
    #[inline]
    pub fn port_num(&self) -> u32 {
        self.0.port_num
    }

    /// Returns the completion queue for sends.
    #[inline]
    pub fn send_cq(&self) -> Option<&Cq<P>> {
        // SAFETY: Null or a live queue (type invariant).
        unsafe { Cq::from_raw_opt(self.0.send_cq) }
    }

    /// Returns the completion queue for receives.
    #[inline]
    pub fn recv_cq(&self) -> Option<&Cq<P>> {
        // SAFETY: Null or a live queue (type invariant).
        unsafe { Cq::from_raw_opt(self.0.recv_cq) }
    }

    /// Returns the shared receive queue, if any.
    #[inline]
    pub fn srq(&self) -> Option<&Srq<P>> {
        // SAFETY: Null or a live queue (type invariant).
        unsafe { Srq::from_raw_opt(self.0.srq) }
    }

    /// For [`Provider::query_qp`]: sets what the core knows of the attributes with which `qp` was
    /// created.
    pub fn fill_from(&mut self, qp: &super::object::Qp<P>) {
        let c = qp.as_raw();
        // SAFETY: `qp` is a live queue pair; these fields do not change after its creation.
        unsafe {
            self.0.qp_context = (*c).qp_context;
            self.0.send_cq = (*c).send_cq;
            self.0.recv_cq = (*c).recv_cq;
            self.0.srq = (*c).srq;
            self.0.qp_type = (*c).qp_type;
            self.0.event_handler = (*c).event_handler;
        }
    }
}

/// Attributes of a queue pair. Those that a mask does not name are undefined.
#[repr(transparent)]
pub struct QpAttr(pub(crate) bindings::ib_qp_attr);

impl QpAttr {
    fields! {
        /// Path MTU, `IB_MTU_*`.
        path_mtu, set_path_mtu: u32;
        /// State of path migration, `IB_MIG_*`.
        path_mig_state, set_path_mig_state: u32;
        /// Queue key.
        qkey, set_qkey: u32;
        /// First packet sequence number to receive. Not validated: mask it to 24 bits.
        rq_psn, set_rq_psn: u32;
        /// First packet sequence number to send. Not validated: mask it to 24 bits.
        sq_psn, set_sq_psn: u32;
        /// Number of the peer's queue pair.
        dest_qp_num, set_dest_qp_num: u32;
        /// Index of the partition key.
        pkey_index, set_pkey_index: u16;
        /// Index of the partition key of the alternate path.
        alt_pkey_index, set_alt_pkey_index: u16;
        /// Whether to raise an event when the send queue has drained.
        en_sqd_async_notify, set_en_sqd_async_notify: u8;
        /// Whether the send queue is draining.
        sq_draining, set_sq_draining: u8;
        /// Maximum number of outstanding reads and atomics as requester.
        max_rd_atomic, set_max_rd_atomic: u8;
        /// Maximum number of outstanding reads and atomics as responder.
        max_dest_rd_atomic, set_max_dest_rd_atomic: u8;
        /// Code of the time that a peer waits after an RNR NAK (IBTA table 46).
        min_rnr_timer, set_min_rnr_timer: u8;
        /// The port.
        port_num, set_port_num: u32;
        /// Timeout for a response, 4.096 us << timeout; 0 means none.
        timeout, set_timeout: u8;
        /// Number of retries without a response.
        retry_cnt, set_retry_cnt: u8;
        /// Number of retries after RNR NAKs; 7 means no limit.
        rnr_retry, set_rnr_retry: u8;
        /// Port of the alternate path.
        alt_port_num, set_alt_port_num: u32;
        /// Timeout of the alternate path.
        alt_timeout, set_alt_timeout: u8;
        /// Rate limit in kbit/s.
        rate_limit, set_rate_limit: u32;
    }

    /// Returns the new state, or the current one. `EINVAL` for an invalid number.
    #[inline]
    pub fn state(&self) -> Result<QpState> {
        QpState::try_from(self.0.qp_state)
    }

    /// Sets [`Self::state`].
    #[inline]
    pub fn set_state(&mut self, s: QpState) {
        self.0.qp_state = s.raw();
    }

    /// Returns the state that the caller assumes the queue pair to be in.
    #[inline]
    pub fn cur_state(&self) -> Result<QpState> {
        QpState::try_from(self.0.cur_qp_state)
    }

    /// Sets [`Self::cur_state`].
    #[inline]
    pub fn set_cur_state(&mut self, s: QpState) {
        self.0.cur_qp_state = s.raw();
    }

    /// Returns the rights of peers.
    #[inline]
    pub fn access(&self) -> Access {
        // CAST: Flags, whose sign has no meaning.
        Access::from_raw(self.0.qp_access_flags as u32)
    }

    /// Sets [`Self::access`].
    #[inline]
    pub fn set_access(&mut self, a: Access) {
        // CAST: Flags, whose sign has no meaning.
        self.0.qp_access_flags = a.raw() as i32;
    }

    /// Returns the sizes of the queues.
    #[inline]
    pub fn cap(&self) -> &QpCap {
        &self.0.cap
    }

    /// Returns the sizes of the queues, to be filled in.
    #[inline]
    pub fn cap_mut(&mut self) -> &mut QpCap {
        &mut self.0.cap
    }

    /// Returns the path, to be filled in.
    #[inline]
    pub fn ah_mut(&mut self) -> &mut AhAttr {
        // SAFETY: Only [`Provider::query_qp`](super::Provider::query_qp) gets mutable attributes.
        // Its adapter has set them to their default, without a GRH, and only `AhAttr` writes this
        // one.
        unsafe { &mut *(&raw mut self.0.ah_attr).cast() }
    }
}

/// Attributes of a queue pair to be changed; dereferences to all of them.
///
/// # Invariants
///
/// The core has resolved the paths that `mask` names (`_ib_modify_qp`).
#[derive(Clone, Copy)]
pub struct QpChange<'a> {
    attr: &'a QpAttr,
    mask: QpAttrMask,
}

impl<'a> QpChange<'a> {
    /// # Safety
    ///
    /// They must be the arguments of a call of `modify_qp` by the core, for `'a`.
    #[inline]
    pub(crate) unsafe fn new(attr: &'a QpAttr, mask: QpAttrMask) -> Self {
        // INVARIANT: The core resolves the paths before it calls a driver.
        Self { attr, mask }
    }

    /// Returns the path, if it changes.
    #[inline]
    pub fn ah(&self) -> Option<&'a AhAttr> {
        self.mask
            .intersects(QpAttrMask::AV)
            // SAFETY: The mask names the path, so the core has resolved it (type invariant).
            .then(|| unsafe { AhAttr::from_raw(&self.attr.0.ah_attr) })
    }

    /// Returns the alternate path, if it changes.
    #[inline]
    pub fn alt_ah(&self) -> Option<&'a AhAttr> {
        self.mask
            .intersects(QpAttrMask::ALT_PATH)
            // SAFETY: The mask names the path, so the core has resolved it (type invariant).
            .then(|| unsafe { AhAttr::from_raw(&self.attr.0.alt_ah_attr) })
    }
}

impl Deref for QpChange<'_> {
    type Target = QpAttr;

    #[inline]
    fn deref(&self) -> &QpAttr {
        self.attr
    }
}

/// Attributes of a new shared receive queue.
#[repr(transparent)]
pub struct SrqInitAttr(pub(crate) bindings::ib_srq_init_attr);

impl SrqInitAttr {
    /// Returns the type; `EOPNOTSUPP` for an unknown one.
    #[inline]
    pub fn srq_type(&self) -> Result<SrqType> {
        SrqType::try_from(self.0.srq_type).map_err(|_| unsupported())
    }

    /// Returns the sizes.
    #[inline]
    pub fn attr(&self) -> &SrqAttr {
        &self.0.attr
    }

    /// Returns the sizes, to be set to the actual ones.
    #[inline]
    pub fn attr_mut(&mut self) -> &mut SrqAttr {
        &mut self.0.attr
    }
}

/// Memory that a process registers.
#[derive(Clone, Copy, Debug)]
pub struct UserRegion {
    /// Address in the process.
    pub start: u64,
    /// Length in bytes. Not validated.
    pub length: u64,
    /// Address of the first byte in requests.
    pub iova: u64,
    /// Rights that the region grants.
    pub access: Access,
}
