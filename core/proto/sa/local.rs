// SPDX-License-Identifier: GPL-2.0

//! Path queries to a service on this machine, by netlink (`RDMA_NL_LS` of
//! `include/uapi/rdma/rdma_netlink.h`). The service may cache responses of the SA.
//!
//! The kernel multicasts a request to all listeners; a service that knows the path responds with
//! the sequence number of the request.

use super::super::nla::Attrs;
use super::super::nla::Full;
use super::super::nla::Message;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::path::component;
use super::path::Path;

/// `RDMA_NL_LS` with the operation `RDMA_NL_LS_OP_RESOLVE`.
const RESOLVE: u16 = 4 << 10;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `RDMA_NL_LS_F_ERR`: the service has no result.
pub const FAILED: u16 = 0x100;

/// A service that does not know an attribute with this flag must not respond
/// (`RDMA_NLA_F_MANDATORY`).
const MANDATORY: u16 = 1 << 13;

const PATH_RECORD: u16 = 1;
const TIMEOUT: u16 = 2;
const SERVICE_ID: u16 = 3;
const DGID: u16 = 4;
const SGID: u16 = 5;
const TRAFFIC_CLASS: u16 = 6;
const PKEY: u16 = 7;
const QOS_CLASS: u16 = 8;

/// Size of a device name with its NUL, in bytes.
const NAME: usize = 64;
/// Size of a packed path record in bytes.
const RECORD: usize = 64;

/// Maximum number of paths read from one response.
pub const PATHS: usize = 3;

/// Timeout for the service, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(pub u32);

impl Patience {
    /// Default timeout.
    pub const DEFAULT: Self = Self(2_000);

    /// The requested timeout, clamped to the permitted range.
    pub fn of(millis: i32) -> Self {
        Self(u32::try_from(millis).unwrap_or(0).clamp(100, 200_000))
    }

    /// Milliseconds left for a request made at `asked_at`; `None` if the timeout has expired.
    pub fn left(self, asked_at: u64, now: u64) -> Option<u64> {
        let gone = now.saturating_sub(asked_at);
        u64::from(self.0)
            .checked_sub(gone)
            .filter(|left| *left != 0)
    }
}

/// Intended use of a path (`LS_RESOLVE_PATH_USE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Both directions, for a connection.
    All,
    /// One direction.
    Unidirectional,
}

/// `IB_PATH_PRIMARY` and `IB_PATH_OUTBOUND`.
const PRIMARY: u32 = 1 << 1;
const OUTBOUND: u32 = 1 << 3;

impl Use {
    /// The use of a path that is queried with these fields.
    pub const fn of(path: &Path, mask: u64) -> Self {
        if mask & component::REVERSIBLE != 0 && path.reversible != 0 {
            Self::All
        } else {
            Self::Unidirectional
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::All => 0,
            Self::Unidirectional => 1,
        }
    }

    /// Flags that a path in the response must have.
    const fn flags(self) -> u32 {
        match self {
            Self::All => PRIMARY,
            Self::Unidirectional => PRIMARY | OUTBOUND,
        }
    }
}

/// Returns whether the service can resolve a path with these significant fields.
pub const fn can_ask(mask: u64) -> bool {
    use component as c;
    mask & (c::SERVICE_ID | c::DGID | c::SGID | c::TRAFFIC_CLASS | c::PKEY | c::QOS_CLASS) != 0
}

/// A path query.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Sequence number of the request.
    pub seq: u32,
    /// Name of the device.
    pub device: &'a [u8],
    /// Port number.
    pub port: u8,
    /// The requested path.
    pub path: &'a Path,
    /// Component mask: which fields of `path` are significant.
    pub mask: u64,
}

impl Request<'_> {
    /// Writes the request as a netlink message.
    ///
    /// # Errors
    ///
    /// [`Full`] if it does not fit.
    pub fn write<S: Sink>(&self, to: &mut Writer<S>) -> Result<(), Full> {
        let message = Message {
            message_type: RESOLVE,
            flags: REQUEST,
            seq: self.seq,
            port: 0,
        };
        to.message(message, |to| self.body(to))
    }

    fn body<S: Sink>(&self, to: &mut Writer<S>) -> Result<(), Full> {
        // Name, port, use, and two bytes of padding to a multiple of four.
        let room = to.sink().grow(NAME + 4).ok_or(Full)?;
        let name = self.device.get(..NAME - 1).unwrap_or(self.device);
        let fixed = [self.port, Use::of(self.path, self.mask).number()];
        room.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let rest = room.iter_mut().skip(NAME);
        rest.zip(fixed).for_each(|(to, from)| *to = from);

        let path = self.path;
        let mut put = |component: u64, attr: u16, payload: &[u8]| {
            if self.mask & component == 0 {
                return Ok(());
            }
            to.put(MANDATORY | attr, payload)
        };
        use component as c;
        put(c::SERVICE_ID, SERVICE_ID, &path.service_id.to_ne_bytes())?;
        put(c::DGID, DGID, &path.dgid.0)?;
        put(c::SGID, SGID, &path.sgid.0)?;
        put(c::TRAFFIC_CLASS, TRAFFIC_CLASS, &[path.traffic_class])?;
        put(c::PKEY, PKEY, &path.pkey.to_ne_bytes())?;
        put(c::QOS_CLASS, QOS_CLASS, &path.qos_class.to_ne_bytes())
    }
}

/// Returns whether all attributes of a message have a valid length.
fn is_sound(payload: &[u8]) -> bool {
    Attrs::new(payload).all(|attr| {
        let len = attr.payload.len();
        match attr.attr {
            PATH_RECORD => len == RECORD + 8,
            TIMEOUT => len >= 4,
            SERVICE_ID => len >= 8,
            DGID | SGID => len <= 16,
            TRAFFIC_CLASS => len >= 1,
            PKEY | QOS_CLASS => len >= 2,
            _ => true,
        }
    })
}

/// The timeout that a message sets.
pub fn timeout(payload: &[u8]) -> Option<Patience> {
    if !is_sound(payload) {
        return None;
    }
    // If the attribute is repeated, the last one counts.
    let timeout = Attrs::new(payload)
        .filter(|attr| attr.attr == TIMEOUT)
        .last()?;
    // CAST: read as signed, so that a value above `i32::MAX` gives the minimum.
    Some(Patience::of(timeout.u32()? as i32))
}

/// A path of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Flags of the path (`IB_PATH_*`).
    pub flags: u32,
    /// The packed path record.
    pub record: &'a [u8; RECORD],
}

/// A response of the service.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a>(&'a [u8]);

impl<'a> Answer<'a> {
    /// A valid response; `None` if it is malformed or reports an error.
    pub fn read(flags: u16, payload: &'a [u8]) -> Option<Self> {
        (flags & FAILED == 0 && is_sound(payload)).then_some(Self(payload))
    }

    /// The first [`PATHS`] paths suitable for this use.
    pub fn paths(self, wanted: Use) -> impl Iterator<Item = Found<'a>> {
        Attrs::new(self.0)
            .filter(|attr| attr.attr == PATH_RECORD)
            .filter_map(|attr| {
                let (flags, rest) = attr.payload.split_first_chunk()?;
                Some(Found {
                    flags: u32::from_ne_bytes(*flags),
                    record: rest.get(4..)?.first_chunk()?,
                })
            })
            .filter(move |found| found.flags & wanted.flags() == wanted.flags())
            .take(PATHS)
    }
}
