// SPDX-License-Identifier: GPL-2.0

//! Sets of bits and enumerations that the core passes as C numbers.
//!
//! C header: `include/rdma/ib_verbs.h`.

use crate::bindings;
use kernel::prelude::*;

/// Defines a set of bits taken from C, with named members.
macro_rules! bits {
    ($(#[$doc:meta])* $name:ident: $($(#[$vdoc:meta])* $v:ident = $c:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            $($(#[$vdoc])* pub const $v: Self = Self(bindings::$c);)*

            /// Creates the set of these C bits.
            #[inline]
            pub const fn from_raw(bits: u32) -> Self {
                Self(bits)
            }

            /// Returns the C bits.
            #[inline]
            pub const fn raw(self) -> u32 {
                self.0
            }

            /// Returns whether all of `other` are in this set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns whether any of `other` is in this set.
            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Returns this set without `other`.
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Returns whether the set is empty.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns the union of both sets.
            #[inline]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

bits! {
    /// Rights that a region, a window or a queue pair grants.
    Access:
    /// The device may write to the memory.
    LOCAL_WRITE = ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    /// Peers may write.
    REMOTE_WRITE = ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    /// Peers may read.
    REMOTE_READ = ib_access_flags_IB_ACCESS_REMOTE_READ;
    /// Peers may use atomic operations.
    REMOTE_ATOMIC = ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
    /// Windows may be bound to the region.
    MW_BIND = ib_access_flags_IB_ACCESS_MW_BIND;
    /// Addresses count from the start of the region.
    ZERO_BASED = ib_access_flags_IB_ZERO_BASED;
    /// Pages are faulted in on access, not pinned.
    ON_DEMAND = ib_access_flags_IB_ACCESS_ON_DEMAND;
    /// The memory consists of huge pages.
    HUGETLB = ib_access_flags_IB_ACCESS_HUGETLB;
    /// Peers may flush to global visibility.
    FLUSH_GLOBAL = ib_access_flags_IB_ACCESS_FLUSH_GLOBAL;
    /// Peers may flush to persistence.
    FLUSH_PERSISTENT = ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;
    /// Writes may become visible in another order.
    RELAXED_ORDERING = ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
    /// Hints, ignored by drivers that do not know them.
    OPTIONAL = ib_access_flags_IB_ACCESS_OPTIONAL;
}

bits! {
    /// Attributes of a queue pair that a call sets or queries.
    QpAttrMask:
    /// The state.
    STATE = ib_qp_attr_mask_IB_QP_STATE;
    /// The state that the caller assumes the queue pair to be in.
    CUR_STATE = ib_qp_attr_mask_IB_QP_CUR_STATE;
    /// Whether an event reports that the send queue is drained.
    EN_SQD_ASYNC_NOTIFY = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
    /// Rights of peers.
    ACCESS_FLAGS = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
    /// Index of the partition key.
    PKEY_INDEX = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    /// The port.
    PORT = ib_qp_attr_mask_IB_QP_PORT;
    /// The queue key.
    QKEY = ib_qp_attr_mask_IB_QP_QKEY;
    /// The path to the peer.
    AV = ib_qp_attr_mask_IB_QP_AV;
    /// Maximum payload of a packet.
    PATH_MTU = ib_qp_attr_mask_IB_QP_PATH_MTU;
    /// Timeout for an acknowledgement.
    TIMEOUT = ib_qp_attr_mask_IB_QP_TIMEOUT;
    /// Number of retries without a response.
    RETRY_CNT = ib_qp_attr_mask_IB_QP_RETRY_CNT;
    /// Number of retries after RNR NAKs.
    RNR_RETRY = ib_qp_attr_mask_IB_QP_RNR_RETRY;
    /// First packet sequence number to receive.
    RQ_PSN = ib_qp_attr_mask_IB_QP_RQ_PSN;
    /// Maximum number of outstanding reads and atomics as requester.
    MAX_QP_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
    /// The alternate path.
    ALT_PATH = ib_qp_attr_mask_IB_QP_ALT_PATH;
    /// Time that a peer waits after an RNR NAK.
    MIN_RNR_TIMER = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
    /// First packet sequence number to send.
    SQ_PSN = ib_qp_attr_mask_IB_QP_SQ_PSN;
    /// Maximum number of outstanding reads and atomics as responder.
    MAX_DEST_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
    /// State of path migration.
    PATH_MIG_STATE = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
    /// Sizes of the queues.
    CAP = ib_qp_attr_mask_IB_QP_CAP;
    /// Number of the peer's queue pair.
    DEST_QPN = ib_qp_attr_mask_IB_QP_DEST_QPN;
    /// Rate limit.
    RATE_LIMIT = ib_qp_attr_mask_IB_QP_RATE_LIMIT;
    /// All attributes of the specification.
    STANDARD = ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS;
}

bits! {
    /// Attributes of a shared receive queue to change.
    SrqAttrMask:
    /// The size.
    MAX_WR = ib_srq_attr_mask_IB_SRQ_MAX_WR;
    /// The limit below which an event is raised.
    LIMIT = ib_srq_attr_mask_IB_SRQ_LIMIT;
}

bits! {
    /// Attributes of a device to change.
    DeviceModifyMask:
    /// The system image GUID.
    SYS_IMAGE_GUID = ib_device_modify_flags_IB_DEVICE_MODIFY_SYS_IMAGE_GUID;
    /// The node description.
    NODE_DESC = ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC;
}

bits! {
    /// Attributes of a port to change.
    PortModifyMask:
    /// Take the port down.
    SHUTDOWN = ib_port_modify_flags_IB_PORT_SHUTDOWN;
    /// How the port is initialised.
    INIT_TYPE = ib_port_modify_flags_IB_PORT_INIT_TYPE;
    /// Set the counter of queue key violations to zero.
    RESET_QKEY_CNTR = ib_port_modify_flags_IB_PORT_RESET_QKEY_CNTR;
    /// The capabilities of an OPA port.
    OPA_MASK_CHG = ib_port_modify_flags_IB_PORT_OPA_MASK_CHG;
}

bits! {
    /// Attributes of a memory region to change.
    RegionMask:
    /// The memory.
    TRANSLATION = ib_mr_rereg_flags_IB_MR_REREG_TRANS;
    /// The protection domain.
    PD = ib_mr_rereg_flags_IB_MR_REREG_PD;
    /// Rights that the region grants.
    ACCESS = ib_mr_rereg_flags_IB_MR_REREG_ACCESS;
}

bits! {
    /// Completions for which the consumer is notified.
    NotifyFlags:
    /// The next solicited completion, or an error.
    SOLICITED = ib_cq_notify_flags_IB_CQ_SOLICITED;
    /// The next completion.
    NEXT_COMP = ib_cq_notify_flags_IB_CQ_NEXT_COMP;
    /// Report whether completions are already queued.
    REPORT_MISSED_EVENTS = ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
}

/// Defines an enum with the numbers of a C enum.
macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident: $($(#[$vdoc:meta])* $v:ident = $c:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$vdoc])* $v = bindings::$c,)* }

        impl $name {
            /// The C number.
            #[inline]
            pub const fn raw(self) -> u32 {
                // CAST: The enum is `repr(u32)`.
                self as u32
            }
        }

        impl TryFrom<u32> for $name {
            type Error = Error;

            /// Converts a C number. `EINVAL` if it is not listed here.
            #[inline]
            fn try_from(raw: u32) -> Result<Self> {
                match raw {
                    $(bindings::$c => Ok(Self::$v),)*
                    _ => Err(EINVAL),
                }
            }
        }
    };
}

c_enum! {
    /// Types of queue pairs (IBTA 3.2.1). Obsolete ones are not listed.
    QpType:
    /// Management, queue pair 0.
    Smi = ib_qp_type_IB_QPT_SMI;
    /// Management, queue pair 1.
    Gsi = ib_qp_type_IB_QPT_GSI;
    /// Reliable connection.
    Rc = ib_qp_type_IB_QPT_RC;
    /// Unreliable connection.
    Uc = ib_qp_type_IB_QPT_UC;
    /// Unreliable datagram.
    Ud = ib_qp_type_IB_QPT_UD;
    /// Whole Ethernet frames.
    RawPacket = ib_qp_type_IB_QPT_RAW_PACKET;
    /// Extended reliable connection, sending side.
    XrcIni = ib_qp_type_IB_QPT_XRC_INI;
    /// Extended reliable connection, receiving side.
    XrcTgt = ib_qp_type_IB_QPT_XRC_TGT;
    /// Specific to the driver.
    Driver = ib_qp_type_IB_QPT_DRIVER;
}

c_enum! {
    /// States of a queue pair (IBTA 10.3.1).
    QpState:
    /// As created.
    Reset = ib_qp_state_IB_QPS_RESET;
    /// Receives may be posted.
    Init = ib_qp_state_IB_QPS_INIT;
    /// Ready to receive.
    Rtr = ib_qp_state_IB_QPS_RTR;
    /// Ready to send.
    Rts = ib_qp_state_IB_QPS_RTS;
    /// The send queue is draining or drained.
    Sqd = ib_qp_state_IB_QPS_SQD;
    /// The send queue had an error.
    Sqe = ib_qp_state_IB_QPS_SQE;
    /// Error: all work is flushed.
    Err = ib_qp_state_IB_QPS_ERR;
}

c_enum! {
    /// Link layer of a port.
    LinkLayer:
    /// Unknown.
    Unspecified = rdma_link_layer_IB_LINK_LAYER_UNSPECIFIED;
    /// InfiniBand.
    Infiniband = rdma_link_layer_IB_LINK_LAYER_INFINIBAND;
    /// Ethernet.
    Ethernet = rdma_link_layer_IB_LINK_LAYER_ETHERNET;
}

c_enum! {
    /// Types of regions that a kernel consumer allocates.
    MrType:
    /// Whole pages.
    MemReg = ib_mr_type_IB_MR_TYPE_MEM_REG;
    /// Pages with gaps.
    SgGaps = ib_mr_type_IB_MR_TYPE_SG_GAPS;
}

c_enum! {
    /// Advice of a process about on-demand memory.
    Advice:
    /// Prefetch for reading.
    Prefetch = ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
    /// Prefetch for writing.
    PrefetchWrite = ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    /// Prefetch only pages that are in memory.
    PrefetchNoFault = ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
}

c_enum! {
    /// Types of shared receive queues.
    SrqType:
    /// For all types of queue pairs except those below.
    Basic = ib_srq_type_IB_SRQT_BASIC;
    /// For extended reliable connections.
    Xrc = ib_srq_type_IB_SRQT_XRC;
    /// With tag matching.
    Tm = ib_srq_type_IB_SRQT_TM;
}
