// SPDX-License-Identifier: GPL-2.0

//! Messages of `RDMA_NL_NLDEV`: requests of iproute2's `rdma`, and responses.
//!
//! * [`attr`]: attributes, and the policy for requests;
//! * [`dev`]: responses about devices, ports and the whole system;
//! * [`res`]: responses about the objects of a device;
//! * [`stat`]: responses about counters;
//! * [`frmr`]: responses about FRMR pools;
//! * [`event`]: events, and character devices.
//!
//! A response is written from a plain struct that the host filled while it held the lock that keeps
//! the object stable. The order is that of the C core: user space reads by type, but a dump is to
//! be byte for byte the same. A driver's own attributes follow. Numbers:
//! `include/uapi/rdma/rdma_netlink.h`.

use super::nla::Attr as Received;
use super::nla::Attrs;
use super::nla::Refusal;
use super::nla::Strictness;

pub mod attr;
pub mod dev;
pub mod event;
pub mod frmr;
pub mod res;
pub mod stat;

pub use self::attr::Attr;
pub use self::attr::ATTR_MAX;

/// Netlink client of these messages (`RDMA_NL_NLDEV`).
pub const CLIENT: u16 = 5;

/// Command of a request (`enum rdma_nldev_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Get devices.
    Get = 1,
    /// Set name, namespace or moderation of a device.
    Set = 2,
    /// Add a device on a network device.
    NewLink = 3,
    /// Delete such a device.
    DelLink = 4,
    /// Get ports.
    PortGet = 5,
    /// Get settings of the whole system.
    SysGet = 6,
    /// Change settings of the whole system.
    SysSet = 7,
    /// Get the number of objects of each kind.
    ResGet = 9,
    /// Get queue pairs.
    ResQpGet = 10,
    /// Get ids of the connection manager.
    ResCmIdGet = 11,
    /// Get completion queues.
    ResCqGet = 12,
    /// Get memory regions.
    ResMrGet = 13,
    /// Get protection domains.
    ResPdGet = 14,
    /// Get the character device of a client.
    GetChardev = 15,
    /// Bind counters.
    StatSet = 16,
    /// Get counters.
    StatGet = 17,
    /// Unbind counters.
    StatDel = 18,
    /// Get queue pairs in the driver's raw format.
    ResQpGetRaw = 19,
    /// Get completion queues in the driver's raw format.
    ResCqGetRaw = 20,
    /// Get memory regions in the driver's raw format.
    ResMrGetRaw = 21,
    /// Get user contexts.
    ResCtxGet = 22,
    /// Get shared receive queues.
    ResSrqGet = 23,
    /// Get which counters are enabled.
    StatGetStatus = 24,
    /// Get shared receive queues in the driver's raw format.
    ResSrqGetRaw = 25,
    /// Add a device under a parent device.
    NewDev = 26,
    /// Delete such a device.
    DelDev = 27,
    /// Monitor events.
    Monitor = 28,
    /// Get FRMR pools.
    FrmrPoolsGet = 29,
    /// Change settings of FRMR pools.
    FrmrPoolsSet = 30,
}

impl Command {
    /// The command of a message type. The upper bits of the type are the client.
    pub const fn from_type(message_type: u16) -> Option<Self> {
        if message_type >> 10 != CLIENT {
            return None;
        }
        Some(match message_type & 0x3ff {
            1 => Self::Get,
            2 => Self::Set,
            3 => Self::NewLink,
            4 => Self::DelLink,
            5 => Self::PortGet,
            6 => Self::SysGet,
            7 => Self::SysSet,
            9 => Self::ResGet,
            10 => Self::ResQpGet,
            11 => Self::ResCmIdGet,
            12 => Self::ResCqGet,
            13 => Self::ResMrGet,
            14 => Self::ResPdGet,
            15 => Self::GetChardev,
            16 => Self::StatSet,
            17 => Self::StatGet,
            18 => Self::StatDel,
            19 => Self::ResQpGetRaw,
            20 => Self::ResCqGetRaw,
            21 => Self::ResMrGetRaw,
            22 => Self::ResCtxGet,
            23 => Self::ResSrqGet,
            24 => Self::StatGetStatus,
            25 => Self::ResSrqGetRaw,
            26 => Self::NewDev,
            27 => Self::DelDev,
            28 => Self::Monitor,
            29 => Self::FrmrPoolsGet,
            30 => Self::FrmrPoolsSet,
            _ => return None,
        })
    }

    /// The message type of this command.
    pub const fn message_type(self) -> u16 {
        CLIENT << 10 | self as u16
    }

    /// Returns whether the command can be sent without `NLM_F_DUMP`.
    pub const fn has_answer(self) -> bool {
        !matches!(self, Self::Monitor | Self::FrmrPoolsGet)
    }

    /// Returns whether the command can be sent as a dump.
    pub const fn has_list(self) -> bool {
        match self {
            Self::Get
            | Self::PortGet
            | Self::ResGet
            | Self::ResQpGet
            | Self::ResCmIdGet
            | Self::ResCqGet
            | Self::ResMrGet
            | Self::ResPdGet
            | Self::ResCtxGet
            | Self::ResSrqGet
            | Self::StatGet
            | Self::ResQpGetRaw
            | Self::ResCqGetRaw
            | Self::ResMrGetRaw
            | Self::ResSrqGetRaw
            | Self::FrmrPoolsGet => true,
            Self::Set
            | Self::NewLink
            | Self::DelLink
            | Self::SysGet
            | Self::SysSet
            | Self::GetChardev
            | Self::StatSet
            | Self::StatDel
            | Self::StatGetStatus
            | Self::NewDev
            | Self::DelDev
            | Self::Monitor
            | Self::FrmrPoolsSet => false,
        }
    }

    /// Returns whether the command requires `CAP_NET_ADMIN`.
    pub const fn needs_admin(self) -> bool {
        match self {
            Self::Set
            | Self::NewLink
            | Self::DelLink
            | Self::SysSet
            | Self::StatSet
            | Self::StatDel
            | Self::ResQpGetRaw
            | Self::ResCqGetRaw
            | Self::ResMrGetRaw
            | Self::ResSrqGetRaw
            | Self::NewDev
            | Self::DelDev
            | Self::FrmrPoolsSet => true,
            Self::Get
            | Self::PortGet
            | Self::SysGet
            | Self::ResGet
            | Self::ResQpGet
            | Self::ResCmIdGet
            | Self::ResCqGet
            | Self::ResMrGet
            | Self::ResPdGet
            | Self::GetChardev
            | Self::StatGet
            | Self::ResCtxGet
            | Self::ResSrqGet
            | Self::StatGetStatus
            | Self::Monitor
            | Self::FrmrPoolsGet => false,
        }
    }
}

/// The attributes of a valid request.
///
/// Stores offsets instead of attributes, to be small enough for the stack.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    /// Offset of each attribute's header plus one; 0 if it was not sent.
    places: [u32; ATTR_MAX],
}

impl<'a> Request<'a> {
    /// Validates the bytes after the message header, or those of a nest. `types` is the first
    /// attribute number that the kernel does not know: [`ATTR_MAX`] or less, since older kernels
    /// know fewer.
    pub fn parse(bytes: &'a [u8], strictness: Strictness, types: usize) -> Result<Self, Refusal> {
        let mut places = [0; ATTR_MAX];
        super::nla::judge(bytes, strictness, attr::policy, types, |at, attr| {
            // Messages are far shorter than `u32::MAX`.
            let at = u32::try_from(at.saturating_add(1)).unwrap_or(0);
            if let Some(place) = places.get_mut(usize::from(attr.attr)) {
                *place = at;
            }
        })?;
        Ok(Self { bytes, places })
    }

    /// An attribute, if it was sent.
    pub fn get(&self, attr: Attr) -> Option<Received<'a>> {
        let place = *self.places.get(usize::from(attr.raw()))?;
        let at = usize::try_from(place.checked_sub(1)?).ok()?;
        Attrs::new(self.bytes.get(at..)?).next()
    }

    /// Whether an attribute was sent.
    pub fn has(&self, attr: Attr) -> bool {
        self.get(attr).is_some()
    }

    /// An 8-bit attribute, if it was sent.
    pub fn u8(&self, attr: Attr) -> Option<u8> {
        self.get(attr)?.u8()
    }

    /// A 32-bit attribute, if it was sent.
    pub fn u32(&self, attr: Attr) -> Option<u32> {
        self.get(attr)?.u32()
    }

    /// A 64-bit attribute, if it was sent.
    pub fn u64(&self, attr: Attr) -> Option<u64> {
        self.get(attr)?.u64()
    }

    /// A text attribute, if it was sent; at most `max` bytes of it.
    pub fn text(&self, attr: Attr, max: usize) -> Option<&'a [u8]> {
        Some(self.get(attr)?.text(max))
    }
}
