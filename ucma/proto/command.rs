// SPDX-License-Identifier: GPL-2.0

//! Commands of programs: `struct rdma_ucm_cmd_hdr` and the structure behind it.
//!
//! A command passes three checks, and the first that fails is reported, as the C module does it:
//!
//! ```text
//!   Header -> admit() -> copy of the structure -> parse() -> the context is looked up
//!             lengths    EFAULT                   fields
//! ```
//!
//! The length in the header says only how much the program has written. Except for CONNECT and
//! ACCEPT, which have grown, the whole structure is copied, whatever the header says.

use super::bytes;
use super::event;
use super::put;
use super::u16_at;
use super::u32_at;
use super::u64_at;
use super::u8_at;
use super::Wrong;

/// Bytes of the header.
pub const HEADER: usize = 8;
/// Bytes of the longest structure of most commands.
pub const SHORT: usize = 24;
/// Bytes of the longest structure.
pub const LONGEST: usize = 320;
/// Bytes of private data in a structure.
pub const PRIVATE: usize = 256;
/// Bytes of `struct rdma_ucm_ib_service`.
pub const SERVICE: usize = 80;
/// Bytes of `struct sockaddr_storage`.
pub const STORAGE: usize = 128;

/// Bytes of a response that consists of a number.
pub const NUMBER: usize = 4;
/// Bytes of `struct rdma_ucm_query_route_resp`, and those that old programs know.
pub const ROUTE: (usize, usize) = (208, 200);
/// Bytes of `struct rdma_ucm_query_addr_resp`, and those that old programs know.
pub const ADDR: (usize, usize) = (280, 272);
/// Bytes of `struct ib_uverbs_qp_attr`.
pub const QP_ATTR: usize = 144;
/// Bytes of a response that consists of a count and records.
pub const COUNT: usize = 8;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum Op {
    CreateId,
    DestroyId,
    BindIp,
    ResolveIp,
    ResolveRoute,
    QueryRoute,
    Connect,
    Listen,
    Accept,
    Reject,
    Disconnect,
    InitQpAttr,
    GetEvent,
    GetOption,
    SetOption,
    Notify,
    JoinIpMcast,
    LeaveMcast,
    MigrateId,
    Query,
    Bind,
    ResolveAddr,
    JoinMcast,
    ResolveIbService,
    WriteCmEvent,
}

/// All commands, by number.
pub const OPS: [Op; 25] = [
    Op::CreateId,
    Op::DestroyId,
    Op::BindIp,
    Op::ResolveIp,
    Op::ResolveRoute,
    Op::QueryRoute,
    Op::Connect,
    Op::Listen,
    Op::Accept,
    Op::Reject,
    Op::Disconnect,
    Op::InitQpAttr,
    Op::GetEvent,
    Op::GetOption,
    Op::SetOption,
    Op::Notify,
    Op::JoinIpMcast,
    Op::LeaveMcast,
    Op::MigrateId,
    Op::Query,
    Op::Bind,
    Op::ResolveAddr,
    Op::JoinMcast,
    Op::ResolveIbService,
    Op::WriteCmEvent,
];

impl Op {
    /// Returns the size of the structure.
    pub const fn size(self) -> usize {
        match self {
            Self::CreateId | Self::SetOption => 24,
            Self::DestroyId
            | Self::QueryRoute
            | Self::InitQpAttr
            | Self::LeaveMcast
            | Self::MigrateId
            | Self::Query => 16,
            Self::BindIp => 40,
            Self::ResolveIp => 64,
            Self::ResolveRoute | Self::Listen | Self::GetEvent | Self::Notify => 8,
            Self::Connect => 288,
            Self::Accept => 296,
            Self::Reject => 264,
            Self::Disconnect => 4,
            Self::GetOption => 0,
            Self::JoinIpMcast => 48,
            Self::Bind => 136,
            Self::ResolveAddr => 272,
            Self::JoinMcast => 152,
            Self::ResolveIbService => 88,
            Self::WriteCmEvent => 320,
        }
    }

    /// Returns the size of the structure before it grew, if it did.
    const fn old_size(self) -> Option<usize> {
        match self {
            Self::Connect => Some(280),
            Self::Accept => Some(288),
            // OTHERS: Structures that have not grown; those of new commands have not either.
            _ => None,
        }
    }

    /// Returns the room that the response needs, for commands that check it before they copy the
    /// structure.
    const fn room(self) -> usize {
        match self {
            Self::CreateId | Self::DestroyId | Self::LeaveMcast => NUMBER,
            Self::QueryRoute => ROUTE.1,
            Self::InitQpAttr => QP_ATTR,
            Self::GetEvent => event::OLD,
            // OTHERS: The room is checked when the response is copied.
            _ => 0,
        }
    }
}

/// The header of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the command.
    pub number: u32,
    /// Bytes that follow.
    pub len: u16,
    /// Bytes that the response may have.
    pub room: u16,
}

impl Header {
    /// Parses the header.
    pub fn parse(from: &[u8; HEADER]) -> Self {
        let [a, b, c, d, e, f, g, h] = *from;
        Self {
            number: u32::from_ne_bytes([a, b, c, d]),
            len: u16::from_ne_bytes([e, f]),
            room: u16::from_ne_bytes([g, h]),
        }
    }

    /// Returns how many bytes of the structure are copied, for a write of `len` bytes in all.
    ///
    /// # Errors
    ///
    /// See [`Wrong`].
    pub fn admit(&self, op: Op, len: usize) -> Result<usize, Wrong> {
        let behind = usize::from(self.len);
        if behind.checked_add(HEADER).is_none_or(|all| all > len) {
            return Err(Wrong::Invalid);
        }
        if op == Op::GetOption {
            return Err(Wrong::Unknown);
        }
        if usize::from(self.room) < op.room() {
            return Err(Wrong::NoRoom);
        }
        match op.old_size() {
            None => Ok(op.size()),
            Some(old) if behind < old => Err(Wrong::Invalid),
            Some(_) => Ok(behind.min(op.size())),
        }
    }
}

/// A socket address, followed by zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub [u8; STORAGE]);

impl Address {
    fn of(from: &[u8]) -> Self {
        let mut all = [0; STORAGE];
        put(&mut all, 0, from);
        Self(all)
    }
}

/// A socket address in a command, where it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a>(&'a [u8]);

impl<'a> Named<'a> {
    /// The address that these bytes begin with.
    pub const fn new(from: &'a [u8]) -> Self {
        Self(from)
    }

    /// Returns the bytes of the address; none of a family that has no RDMA addresses.
    pub fn bytes(self) -> &'a [u8] {
        self.alone().0
    }

    /// Returns the first bytes.
    pub fn first(self, len: usize) -> &'a [u8] {
        self.0.get(..len).unwrap_or_default()
    }

    fn at(from: &'a [u8], at: usize, len: usize) -> Result<Self, Wrong> {
        let end = at.checked_add(len).ok_or(Wrong::Invalid)?;
        from.get(at..end).map(Self).ok_or(Wrong::Invalid)
    }

    /// Returns the address, followed by zeros.
    pub fn whole(self) -> Address {
        Address::of(self.0)
    }

    /// Returns the family.
    pub fn family(self) -> u16 {
        match self.0 {
            [a, b, ..] => u16::from_ne_bytes([*a, *b]),
            _ => 0,
        }
    }

    /// Returns the length of an address of this family; 0 for a family that has no RDMA addresses.
    pub fn len(self) -> usize {
        match self.family() {
            INET => 16,
            INET6 => 28,
            IB => 48,
            _ => 0,
        }
    }

    /// Returns whether the family has no RDMA addresses.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is an RDMA address that fits into a `struct sockaddr_in6`.
    fn is_ip(self) -> bool {
        matches!(self.len(), 1..=IN6)
    }

    /// Returns the address without the bytes behind it.
    fn alone(self) -> Self {
        Self(self.0.get(..self.len()).unwrap_or_default())
    }
}

/// `AF_INET`.
pub const INET: u16 = 2;
/// `AF_INET6`.
pub const INET6: u16 = 10;
/// `AF_IB`.
pub const IB: u16 = 27;
/// Bytes of `struct sockaddr_in6`.
const IN6: usize = 28;

/// Kind of queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable datagram.
    Ud,
    /// Any number; the connection manager checks it.
    Other(u8),
}

/// Parameters of a connection (`struct rdma_ucm_conn_param`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub struct Param<'a> {
    pub qp_num: u32,
    pub qkey: u32,
    pub private: &'a [u8],
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
}

/// Bytes of the parameters.
const PARAM: usize = 272;

impl<'a> Param<'a> {
    /// Parses the parameters; `None` if the program says that they are not valid.
    fn parse(from: &'a [u8], at: usize) -> Result<Option<Self>, Wrong> {
        let from = from
            .get(at..)
            .and_then(|rest| rest.get(..PARAM))
            .ok_or(Wrong::Invalid)?;
        let [len, srq, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, valid] =
            bytes(from, 8 + PRIVATE)?;
        if valid == 0 {
            return Ok(None);
        }
        let private = from.get(8..).and_then(|rest| rest.get(..len.into()));
        Ok(Some(Self {
            qp_num: u32_at(from, 0)? & 0x00ff_ffff,
            qkey: u32_at(from, 4)?,
            private: private.ok_or(Wrong::Invalid)?,
            srq,
            responder_resources,
            initiator_depth,
            flow_control,
            retry_count,
            rnr_retry_count,
        }))
    }
}

/// Enhanced connection establishment (`struct rdma_ucm_ece`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// Vendor.
    pub vendor_id: u32,
    /// Attributes.
    pub attr_mod: u32,
}

impl Ece {
    /// Parses it; zeros if the program is older than it.
    fn parse(from: &[u8], at: usize) -> Self {
        match (u32_at(from, at), u32_at(from, at.saturating_add(4))) {
            (Ok(vendor_id), Ok(attr_mod)) => Self {
                vendor_id,
                attr_mod,
            },
            _ => Self::default(),
        }
    }
}

/// A join of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join<'a> {
    /// Where the number goes.
    pub response: u64,
    /// The program's name of the join.
    pub uid: u64,
    /// The context.
    pub id: u32,
    /// The group.
    pub address: Named<'a>,
    /// Whether only to send.
    pub send_only: bool,
}

/// A command whose fields are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum Command<'a> {
    Create {
        uid: u64,
        response: u64,
        space: u16,
        qp: QpType,
    },
    Destroy {
        response: u64,
        id: u32,
    },
    Bind {
        id: u32,
        address: Named<'a>,
    },
    ResolveAddr {
        id: u32,
        from: Named<'a>,
        to: Named<'a>,
        timeout_ms: u32,
    },
    ResolveRoute {
        id: u32,
        timeout_ms: u32,
    },
    QueryRoute {
        response: u64,
        id: u32,
    },
    Query {
        response: u64,
        id: u32,
        option: u32,
    },
    Connect {
        id: u32,
        param: Param<'a>,
        ece: Ece,
    },
    Listen {
        id: u32,
        backlog: u32,
    },
    Accept {
        uid: u64,
        id: u32,
        param: Option<Param<'a>>,
        ece: Ece,
    },
    Reject {
        id: u32,
        reason: u8,
        private: &'a [u8],
    },
    Disconnect {
        id: u32,
    },
    InitQpAttr {
        response: u64,
        id: u32,
        state: u32,
    },
    GetEvent {
        response: u64,
    },
    SetOption {
        value: u64,
        id: u32,
        level: u32,
        name: u32,
        len: u32,
    },
    Notify {
        id: u32,
        event: u32,
    },
    Join(Join<'a>),
    Leave {
        response: u64,
        id: u32,
    },
    Migrate {
        response: u64,
        id: u32,
        fd: u32,
    },
    ResolveIbService {
        id: u32,
        service: &'a [u8; SERVICE],
    },
    WriteEvent {
        id: u32,
        event: u32,
        status: u32,
        arg: u64,
    },
}

/// Port spaces (`enum rdma_ucm_port_space`).
const IPOIB_SPACE: u16 = 0x0002;
const TCP_SPACE: u16 = 0x0106;
const UDP_SPACE: u16 = 0x0111;
const IB_SPACE: u16 = 0x013f;

/// Reasons to reject that programs may give.
const REJECT_CONSUMER: u8 = 28;
const REJECT_VENDOR: u8 = 35;

/// The last state of a queue pair (`IB_QPS_ERR`).
const LAST_STATE: u32 = 6;

/// The longest value of an option (`KMALLOC_MAX_SIZE` with pages of 4 KiB).
pub const LONGEST_OPTION: u32 = 4 << 20;

/// A response of a query consists of a structure that grew, or of a count and records.
///
/// # Errors
///
/// [`Wrong::NoRoom`].
pub fn response(room: u16, (now, old): (usize, usize)) -> Result<usize, Wrong> {
    match usize::from(room) {
        room if room < old => Err(Wrong::NoRoom),
        room => Ok(room.min(now)),
    }
}

/// Returns how many records of a size fit behind the count.
///
/// # Errors
///
/// [`Wrong::NoRoom`] if not even the count fits.
pub fn records(room: u16, size: usize) -> Result<usize, Wrong> {
    let left = usize::from(room).checked_sub(COUNT).ok_or(Wrong::NoRoom)?;
    left.checked_div(size).ok_or(Wrong::Invalid)
}

fn join(from: &[u8], op: Op, room: u16) -> Result<Join<'_>, Wrong> {
    let (id, address, len, flags) = if op == Op::JoinIpMcast {
        let address = Named::at(from, 16, IN6)?;
        if !address.is_ip() {
            return Err(Wrong::Invalid);
        }
        (u32_at(from, 44)?, address, address.len(), 0)
    } else {
        let address = Named::at(from, 24, STORAGE)?;
        if address.is_empty() {
            return Err(Wrong::Invalid);
        }
        let len = u16_at(from, 20)?;
        (u32_at(from, 16)?, address, len.into(), u16_at(from, 22)?)
    };
    if usize::from(room) < NUMBER {
        return Err(Wrong::NoRoom);
    }
    if len != address.len() || flags > 1 {
        return Err(Wrong::Invalid);
    }
    Ok(Join {
        response: u64_at(from, 0)?,
        uid: u64_at(from, 8)?,
        id,
        address: address.alone(),
        send_only: flags == 1,
    })
}

impl<'a> Command<'a> {
    /// Parses the bytes that [`Header::admit`] has told to copy.
    ///
    /// # Errors
    ///
    /// See [`Wrong`].
    pub fn parse(op: Op, from: &'a [u8], room: u16) -> Result<Self, Wrong> {
        let response = || u64_at(from, 0);
        Ok(match op {
            Op::CreateId => {
                let space = u16_at(from, 16)?;
                let qp = match space {
                    TCP_SPACE => QpType::Rc,
                    UDP_SPACE | IPOIB_SPACE => QpType::Ud,
                    IB_SPACE => QpType::Other(u8_at(from, 18)?),
                    _ => return Err(Wrong::Invalid),
                };
                Self::Create {
                    uid: u64_at(from, 0)?,
                    response: u64_at(from, 8)?,
                    space,
                    qp,
                }
            }
            Op::DestroyId => Self::Destroy {
                response: response()?,
                id: u32_at(from, 8)?,
            },
            Op::BindIp => {
                let address = Named::at(from, 8, IN6)?;
                if !address.is_ip() {
                    return Err(Wrong::Invalid);
                }
                Self::Bind {
                    id: u32_at(from, 36)?,
                    address,
                }
            }
            Op::Bind => {
                let address = Named::at(from, 8, STORAGE)?;
                let len = usize::from(u16_at(from, 4)?);
                if u16_at(from, 6)? != 0 || len == 0 || len != address.len() {
                    return Err(Wrong::Invalid);
                }
                Self::Bind {
                    id: u32_at(from, 0)?,
                    address,
                }
            }
            Op::ResolveIp => {
                let (source, to) = (Named::at(from, 0, IN6)?, Named::at(from, IN6, IN6)?);
                if (source.family() != 0 && !source.is_ip()) || !to.is_ip() {
                    return Err(Wrong::Invalid);
                }
                Self::ResolveAddr {
                    id: u32_at(from, 56)?,
                    from: source,
                    to,
                    timeout_ms: u32_at(from, 60)?,
                }
            }
            Op::ResolveAddr => {
                let source = Named::at(from, 16, STORAGE)?;
                let to = Named::at(from, 16 + STORAGE, STORAGE)?;
                let source_len = usize::from(u16_at(from, 8)?);
                let len = usize::from(u16_at(from, 10)?);
                if u32_at(from, 12)? != 0
                    || (source_len != 0 && source_len != source.len())
                    || len == 0
                    || len != to.len()
                {
                    return Err(Wrong::Invalid);
                }
                Self::ResolveAddr {
                    id: u32_at(from, 0)?,
                    from: source,
                    to,
                    timeout_ms: u32_at(from, 4)?,
                }
            }
            Op::ResolveRoute => Self::ResolveRoute {
                id: u32_at(from, 0)?,
                timeout_ms: u32_at(from, 4)?,
            },
            Op::QueryRoute => Self::QueryRoute {
                response: response()?,
                id: u32_at(from, 8)?,
            },
            Op::Query => Self::Query {
                response: response()?,
                id: u32_at(from, 8)?,
                option: u32_at(from, 12)?,
            },
            Op::Connect => Self::Connect {
                id: u32_at(from, PARAM)?,
                param: Param::parse(from, 0)?.ok_or(Wrong::Invalid)?,
                ece: Ece::parse(from, PARAM + 8),
            },
            Op::Listen => Self::Listen {
                id: u32_at(from, 0)?,
                backlog: u32_at(from, 4)?,
            },
            Op::Accept => Self::Accept {
                uid: u64_at(from, 0)?,
                id: u32_at(from, 8 + PARAM)?,
                param: Param::parse(from, 8)?,
                ece: Ece::parse(from, PARAM + 16),
            },
            Op::Reject => {
                let reason = match u8_at(from, 5)? {
                    0 => REJECT_CONSUMER,
                    reason @ (REJECT_CONSUMER | REJECT_VENDOR) => reason,
                    _ => return Err(Wrong::Invalid),
                };
                let len = usize::from(u8_at(from, 4)?);
                let private = from.get(8..).and_then(|rest| rest.get(..len));
                Self::Reject {
                    id: u32_at(from, 0)?,
                    reason,
                    private: private.ok_or(Wrong::Invalid)?,
                }
            }
            Op::Disconnect => Self::Disconnect {
                id: u32_at(from, 0)?,
            },
            Op::InitQpAttr => {
                let state = u32_at(from, 12)?;
                if state > LAST_STATE {
                    return Err(Wrong::Invalid);
                }
                Self::InitQpAttr {
                    response: response()?,
                    id: u32_at(from, 8)?,
                    state,
                }
            }
            Op::GetEvent => Self::GetEvent {
                response: response()?,
            },
            Op::GetOption => return Err(Wrong::Unknown),
            Op::SetOption => {
                let len = u32_at(from, 20)?;
                if len > LONGEST_OPTION {
                    return Err(Wrong::Invalid);
                }
                Self::SetOption {
                    value: u64_at(from, 0)?,
                    id: u32_at(from, 8)?,
                    level: u32_at(from, 12)?,
                    name: u32_at(from, 16)?,
                    len,
                }
            }
            Op::Notify => Self::Notify {
                id: u32_at(from, 0)?,
                event: u32_at(from, 4)?,
            },
            Op::JoinIpMcast | Op::JoinMcast => Self::Join(join(from, op, room)?),
            Op::LeaveMcast => Self::Leave {
                response: response()?,
                id: u32_at(from, 8)?,
            },
            Op::MigrateId => Self::Migrate {
                response: response()?,
                id: u32_at(from, 8)?,
                fd: u32_at(from, 12)?,
            },
            Op::ResolveIbService => Self::ResolveIbService {
                id: u32_at(from, 0)?,
                service: from
                    .get(8..)
                    .and_then(|rest| rest.first_chunk())
                    .ok_or(Wrong::Invalid)?,
            },
            Op::WriteCmEvent => {
                let event = u32_at(from, 8)?;
                if !matches!(event, event::USER | event::INTERNAL) {
                    return Err(Wrong::Invalid);
                }
                Self::WriteEvent {
                    id: u32_at(from, 0)?,
                    event,
                    status: u32_at(from, 12)?,
                    arg: u64_at(from, 16)?,
                }
            }
        })
    }
}
