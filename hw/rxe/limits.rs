// SPDX-License-Identifier: GPL-2.0

//! Limits of the device, as `ibv_devinfo -v` shows them.
//!
//! They equal those of the C driver wherever a user could depend on them. Features that the C
//! driver reports but does not implement (automatic path migration) are not reported.

use rdma::bindings;

/// Maximum number of objects of a kind that has no other limit.
const MANY: u32 = 1 << 20;

pub(crate) const VENDOR_ID: u32 = 0xff_ffff;
pub(crate) const PAGE_SIZE_CAP: u64 = 0xffff_f000;
pub(crate) const MAX_QP_WR: u32 = MANY;
pub(crate) const MAX_SGE: u32 = 32;
/// Inline data uses the space of the scatter-gather list in a WQE.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * 16;
pub(crate) const MAX_CQ: u32 = MANY;
pub(crate) const MAX_CQE: u32 = (1 << 15) - 1;
pub(crate) const MAX_PD: u32 = MANY;
pub(crate) const MAX_RD_ATOMIC: u32 = 128;
pub(crate) const MAX_RES_RD_ATOMIC: u32 = 0x3_f000;
pub(crate) const MAX_MCAST_GRP: u32 = 8192;
pub(crate) const MAX_MCAST_QP_ATTACH: u32 = 56;
pub(crate) const MAX_TOTAL_MCAST_QP_ATTACH: u32 = 0x7_0000;
pub(crate) const MAX_SRQ_WR: u32 = MANY;
pub(crate) const MAX_SRQ_SGE: u32 = 27;
pub(crate) const MAX_FAST_REG_PAGES: u32 = 512;
pub(crate) const MAX_PKEYS: u16 = 64;
pub(crate) const ACK_DELAY: u8 = 15;
pub(crate) const GID_TABLE: i32 = 1024;
/// Maximum message length in bytes (IBTA C9-94).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Queue pair numbers. 0 and 1 are special; 2 to 15 are not used.
pub(crate) const QPN: core::ops::RangeInclusive<u32> = 16..=MANY;
/// Shared receive queue numbers.
pub(crate) const SRQN: core::ops::RangeInclusive<u32> = 0x2_0001..=MANY;
/// Address handle numbers; librxe takes 0 as "none". The C driver has 2^15, which one user takes in
/// two seconds. Here memory, which is charged, is the limit before the numbers are.
pub(crate) const AHN: core::ops::RangeInclusive<u32> = 1..=0xff_ffff;

pub(crate) const MAX_QP: u32 = *QPN.end() - *QPN.start();
pub(crate) const MAX_SRQ: u32 = *SRQN.end() - *SRQN.start();
pub(crate) const MAX_AH: u32 = *AHN.end();
/// Memory region indices end where memory window indices begin.
pub(crate) const MAX_MR: u32 = (MANY >> 1) - 1;
pub(crate) const MAX_MW: u32 = MANY - (MANY >> 1) - 1;

/// `enum ib_odp_general_cap_bits`: on-demand paging support. Unlike the C driver, implicit regions
/// (a whole address space) are supported.
pub(crate) const ODP: u32 = bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT
    | bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT_IMPLICIT;
/// `enum ib_odp_transport_cap_bits`: operations of datagram queue pairs that support ODP.
pub(crate) const ODP_UD: u32 = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
/// The same for reliable connections.
pub(crate) const ODP_RC: u32 = ODP_UD
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH
    | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE;

/// `enum ib_device_cap_flags`.
pub(crate) const DEVICE_CAPS: u64 = bindings::ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_CHANGE_PHY_PORT as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_UD_AV_PORT_ENFORCE as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE as u64;
