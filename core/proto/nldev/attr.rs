// SPDX-License-Identifier: GPL-2.0

//! Attributes of `RDMA_NL_NLDEV` messages, and the policy for requests.
//!
//! `enum rdma_nldev_attr` of `include/uapi/rdma/rdma_netlink.h`, row by row in its order, which is
//! ABI: names are the header's without `RDMA_NLDEV_ATTR_` or `RDMA_NLDEV_`, with `SYS_ATTR_` as
//! `Sys`. The kind is that of the C core's policy for requests; a response may hold attributes that
//! a request may not ([`Kind::Unnamed`]). Texts of at most one byte are not needed in any request.

use super::super::nla::Kind;

/// Padding attribute before 64-bit values, on machines that need alignment (`RDMA_NLDEV_ATTR_PAD`).
pub const PAD: u16 = 0;

macro_rules! attrs {
    ($($name:ident = $kind:expr,)*) => {
        /// An attribute's type.
        #[allow(missing_docs, reason = "the header documents its names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Attr {
            /// Type 0, also the padding attribute.
            Unspec,
            $($name,)*
        }

        impl Attr {
            /// All attributes but `Unspec`, in order.
            pub const ALL: &[Attr] = &[$(Attr::$name,)*];

            /// The policy for this attribute in a request.
            pub const fn kind(self) -> Kind {
                use Kind::*;
                match self {
                    Attr::Unspec => Unnamed,
                    $(Attr::$name => $kind,)*
                }
            }
        }
    };
}

attrs! {
    DevIndex = U32,
    DevName = Text(64),
    PortIndex = U32,
    CapFlags = Unnamed,
    FwVersion = Text(1),
    NodeGuid = U64,
    SysImageGuid = U64,
    SubnetPrefix = U64,
    Lid = U32,
    SmLid = U32,
    Lmc = U8,
    PortState = U8,
    PortPhysState = U8,
    DevNodeType = U8,
    ResSummary = Nested,
    ResSummaryEntry = Nested,
    ResSummaryEntryName = Text(1),
    ResSummaryEntryCurr = U64,
    ResQp = Nested,
    ResQpEntry = Nested,
    ResLqpn = U32,
    ResRqpn = U32,
    ResRqPsn = U32,
    ResSqPsn = U32,
    ResPathMigState = U8,
    ResType = U8,
    ResState = U8,
    ResPid = U32,
    ResKernName = Text(1),
    ResCmId = Nested,
    ResCmIdEntry = Nested,
    ResPs = U32,
    ResSrcAddr = AtLeast(128),
    ResDstAddr = AtLeast(128),
    ResCq = Nested,
    ResCqEntry = Nested,
    ResCqe = U32,
    ResUsecnt = U64,
    ResPollCtx = U8,
    ResMr = Nested,
    ResMrEntry = Nested,
    ResRkey = U32,
    ResLkey = U32,
    ResIova = U64,
    ResMrlen = U64,
    ResPd = Nested,
    ResPdEntry = Nested,
    ResLocalDmaLkey = U32,
    ResUnsafeGlobalRkey = U32,
    NdevIndex = U32,
    NdevName = Text(16),
    Driver = Nested,
    DriverEntry = Nested,
    DriverString = Text(1),
    DriverPrintType = U8,
    DriverS32 = U32,
    DriverU32 = U32,
    DriverS64 = U64,
    DriverU64 = U64,
    ResPdn = U32,
    ResCqn = U32,
    ResMrn = U32,
    ResCmIdn = U32,
    ResCtxn = U32,
    LinkType = Text(16),
    SysNetnsMode = U8,
    DevProtocol = Text(1),
    NetNsFd = U32,
    ChardevType = Text(32),
    ChardevName = Text(1),
    ChardevAbi = U64,
    Chardev = U64,
    UverbsDriverId = U32,
    StatMode = U32,
    StatRes = U32,
    StatAutoModeMask = U32,
    StatCounter = Nested,
    StatCounterEntry = Nested,
    StatCounterId = U32,
    StatHwcounters = Nested,
    StatHwcounterEntry = Nested,
    StatHwcounterEntryName = Text(0),
    StatHwcounterEntryValue = U64,
    DevDim = U8,
    ResRaw = Binary,
    ResCtx = Nested,
    ResCtxEntry = Nested,
    ResSrq = Nested,
    ResSrqEntry = Nested,
    ResSrqn = U32,
    MinRange = U32,
    MaxRange = U32,
    SysCopyOnFork = U8,
    StatHwcounterIndex = U32,
    StatHwcounterDynamic = U8,
    SysPrivilegedQkeyMode = U8,
    DriverDetails = U8,
    ResSubtype = Text(1),
    DevType = U8,
    ParentName = Text(0),
    NameAssignType = U8,
    EventType = U8,
    SysMonitorMode = Unnamed,
    StatOpcounterEnabled = U8,
    FrmrPools = Nested,
    FrmrPoolEntry = Nested,
    FrmrPoolKey = Nested,
    FrmrPoolKeyAts = U8,
    FrmrPoolKeyAccessFlags = U32,
    FrmrPoolKeyVendorKey = U64,
    FrmrPoolKeyNumDmaBlocks = U64,
    FrmrPoolQueueHandles = U32,
    FrmrPoolMaxInUse = U64,
    FrmrPoolInUse = U64,
    FrmrPoolsAgingPeriod = U32,
    FrmrPoolPinnedHandles = U32,
    FrmrPoolKeyKernelVendorKey = U64,
    ResSummaryEntryMax = U64,
}

/// The first number without a name (`RDMA_NLDEV_ATTR_MAX` of the newest kernel): length of a table
/// of attributes by number.
pub const ATTR_MAX: usize = Attr::ALL.len() + 1;

impl Attr {
    /// The number of the attribute.
    pub const fn raw(self) -> u16 {
        self as u16
    }
}

/// The policy for an attribute number in a request.
pub fn policy(raw: u16) -> Kind {
    usize::from(raw)
        .checked_sub(1)
        .and_then(|at| Attr::ALL.get(at))
        .map_or(Kind::Unnamed, |attr| attr.kind())
}
