// SPDX-License-Identifier: GPL-2.0

//! What `rdma` of iproute2 asks and is answered: the messages of `RDMA_NL_NLDEV`.
//!
//! * [`attr`]: the attributes, and what a request may hold;
//! * [`dev`]: answers about devices, ports and the whole system;
//! * [`res`]: answers about the objects of a device;
//! * [`stat`]: answers about counters;
//! * [`frmr`]: answers about pools of memory regions;
//! * [`event`]: what happens, and character devices.
//!
//! An answer is written from a plain struct that the host filled while it held
//! what keeps the object still, in the order in which the C core writes it: user
//! space reads by type, but a dump is to be the same byte for byte. What a driver
//! adds of its own goes after. Numbers: `include/uapi/rdma/rdma_netlink.h`.

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

/// The client of these messages (`RDMA_NL_NLDEV`).
pub const CLIENT: u16 = 5;

/// What is asked (`enum rdma_nldev_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Devices.
    Get = 1,
    /// Name, namespace, moderation of a device.
    Set = 2,
    /// A new device on a network device.
    NewLink = 3,
    /// Its end.
    DelLink = 4,
    /// Ports.
    PortGet = 5,
    /// Settings of the whole system.
    SysGet = 6,
    /// The same, changed.
    SysSet = 7,
    /// How many objects there are.
    ResGet = 9,
    /// Queue pairs.
    ResQpGet = 10,
    /// Connection manager's ids.
    ResCmIdGet = 11,
    /// Completion queues.
    ResCqGet = 12,
    /// Memory regions.
    ResMrGet = 13,
    /// Protection domains.
    ResPdGet = 14,
    /// The character device of a client.
    GetChardev = 15,
    /// Counters, bound.
    StatSet = 16,
    /// Counters.
    StatGet = 17,
    /// Counters, unbound.
    StatDel = 18,
    /// Queue pairs as the driver has them.
    ResQpGetRaw = 19,
    /// Completion queues as the driver has them.
    ResCqGetRaw = 20,
    /// Memory regions as the driver has them.
    ResMrGetRaw = 21,
    /// User's contexts.
    ResCtxGet = 22,
    /// Shared receive queues.
    ResSrqGet = 23,
    /// Which counters are on.
    StatGetStatus = 24,
    /// Shared receive queues as the driver has them.
    ResSrqGetRaw = 25,
    /// A new device under another.
    NewDev = 26,
    /// Its end.
    DelDev = 27,
    /// What happens, as events.
    Monitor = 28,
    /// Pools of memory regions.
    FrmrPoolsGet = 29,
    /// Their settings.
    FrmrPoolsSet = 30,
}

impl Command {
    /// The command of a message's type. The upper bits are the client.
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

    /// The type of a message of this command.
    pub const fn message_type(self) -> u16 {
        CLIENT << 10 | self as u16
    }

    /// Whether it is answered by one message, or done without one.
    pub const fn has_answer(self) -> bool {
        !matches!(self, Self::Monitor | Self::FrmrPoolsGet)
    }

    /// Whether it may be answered by a list.
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

    /// Whether only a network administrator may ask it.
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

/// The attributes of a request that was found in order.
///
/// It keeps places instead of the attributes, so that it is small enough for the stack.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    /// One more than the place of each one's header; 0 if it was not sent.
    places: [u32; ATTR_MAX],
}

impl<'a> Request<'a> {
    /// Judges the bytes after the message's header, or those of a nest.
    pub fn parse(bytes: &'a [u8], strictness: Strictness) -> Result<Self, Refusal> {
        let mut places = [0; ATTR_MAX];
        super::nla::judge(bytes, strictness, attr::policy, ATTR_MAX, |at, attr| {
            // No message is as long as that this does not fit.
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

    /// One of 8 bits.
    pub fn u8(&self, attr: Attr) -> Option<u8> {
        self.get(attr)?.u8()
    }

    /// One of 32 bits.
    pub fn u32(&self, attr: Attr) -> Option<u32> {
        self.get(attr)?.u32()
    }

    /// One of 64 bits.
    pub fn u64(&self, attr: Attr) -> Option<u64> {
        self.get(attr)?.u64()
    }

    /// A text, at most `max` bytes of it.
    pub fn text(&self, attr: Attr, max: usize) -> Option<&'a [u8]> {
        Some(self.get(attr)?.text(max))
    }
}
