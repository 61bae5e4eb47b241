// SPDX-License-Identifier: GPL-2.0

//! Events of `ib_cm` and `iw_cm`, and the events that consumers get for them.
//!
//! C headers: `rdma/rdma_cm.h`, `rdma/ib_cm.h`, `rdma/iw_cm.h`.

/// An event for the consumer (`enum rdma_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The destination's address is known.
    AddrResolved,
    /// It is not.
    AddrError,
    /// The path is known.
    RouteResolved,
    /// It is not.
    RouteError,
    /// A peer wants to connect.
    ConnectRequest,
    /// The peer accepted; the consumer moves its queue pair itself.
    ConnectResponse,
    /// The connection failed.
    ConnectError,
    /// The peer does not answer.
    Unreachable,
    /// The peer refused.
    Rejected,
    /// The connection is established.
    Established,
    /// It is over.
    Disconnected,
    /// The device is being removed.
    DeviceRemoval,
    /// A multicast group was joined.
    MulticastJoin,
    /// It was not.
    MulticastError,
    /// The hardware address of the network device has changed.
    AddrChange,
    /// Late packets of the connection are gone.
    TimewaitExit,
    /// Service records are known.
    AddrinfoResolved,
    /// They are not.
    AddrinfoError,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::AddrResolved,
        Self::AddrError,
        Self::RouteResolved,
        Self::RouteError,
        Self::ConnectRequest,
        Self::ConnectResponse,
        Self::ConnectError,
        Self::Unreachable,
        Self::Rejected,
        Self::Established,
        Self::Disconnected,
        Self::DeviceRemoval,
        Self::MulticastJoin,
        Self::MulticastError,
        Self::AddrChange,
        Self::TimewaitExit,
        Self::AddrinfoResolved,
        Self::AddrinfoError,
    ];

    /// The number of the event.
    pub const fn raw(self) -> u32 {
        match self {
            Self::AddrResolved => 0,
            Self::AddrError => 1,
            Self::RouteResolved => 2,
            Self::RouteError => 3,
            Self::ConnectRequest => 4,
            Self::ConnectResponse => 5,
            Self::ConnectError => 6,
            Self::Unreachable => 7,
            Self::Rejected => 8,
            Self::Established => 9,
            Self::Disconnected => 10,
            Self::DeviceRemoval => 11,
            Self::MulticastJoin => 12,
            Self::MulticastError => 13,
            Self::AddrChange => 14,
            Self::TimewaitExit => 15,
            Self::AddrinfoResolved => 16,
            Self::AddrinfoError => 17,
        }
    }
}

/// The text of an event, by its number. Those of service records have none.
pub const fn text(raw: u32) -> &'static core::ffi::CStr {
    match raw {
        0 => c"address resolved",
        1 => c"address error",
        2 => c"route resolved ",
        3 => c"route error",
        4 => c"connect request",
        5 => c"connect response",
        6 => c"connect error",
        7 => c"unreachable",
        8 => c"rejected",
        9 => c"established",
        10 => c"disconnected",
        11 => c"device removal",
        12 => c"multicast join",
        13 => c"multicast error",
        14 => c"address change",
        15 => c"timewait exit",
        _ => c"unrecognized event",
    }
}

/// `ETIMEDOUT`, `ECONNRESET`, `ECONNREFUSED`.
const TIMED_OUT: i32 = 110;
const RESET: i32 = 104;
const REFUSED: i32 = 111;

/// The status of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 0.
    Ok,
    /// `-ETIMEDOUT`.
    TimedOut,
    /// What the peer or the transport reported.
    Reported(i32),
}

impl Status {
    /// The number in the event.
    pub const fn raw(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::TimedOut => -TIMED_OUT,
            Self::Reported(status) => status,
        }
    }
}

/// What happened to a connection, as far as its state matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Something that does not end the connection attempt or the connection.
    News,
    /// The connection is over.
    Disconnected,
    /// The time after a connection is over.
    TimewaitExit,
}

/// An event for the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The event.
    pub kind: Kind,
    /// Its status.
    pub status: Status,
    /// What it means for the state.
    pub happened: Happened,
}

impl Told {
    const fn new(kind: Kind, status: Status, happened: Happened) -> Self {
        Self {
            kind,
            status,
            happened,
        }
    }
}

/// Event of an `ib_cm` ID (`enum ib_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IbEvent {
    /// A request was not answered.
    ReqError,
    /// A reply was not answered.
    RepError,
    /// The peer accepts.
    RepReceived,
    /// The peer is ready to use.
    RtuReceived,
    /// A message arrived before the peer said so.
    UserEstablished,
    /// A request to disconnect was not answered.
    DreqError,
    /// The peer disconnects.
    DreqReceived,
    /// The peer agrees to disconnect.
    DrepReceived,
    /// The time after a connection is over.
    TimewaitExit,
    /// The peer needs more time.
    MraReceived,
    /// The peer refused.
    RejReceived,
    /// Others, which an established connection does not get.
    Other,
}

impl IbEvent {
    /// The event with this number.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::ReqError,
            2 => Self::RepError,
            3 => Self::RepReceived,
            4 => Self::RtuReceived,
            5 => Self::UserEstablished,
            6 => Self::DreqError,
            7 => Self::DreqReceived,
            8 => Self::DrepReceived,
            9 => Self::TimewaitExit,
            10 => Self::MraReceived,
            11 => Self::RejReceived,
            _ => Self::Other,
        }
    }

    /// Whether the event is of the time when a connection is over.
    pub const fn is_late(self) -> bool {
        matches!(self, Self::TimewaitExit)
    }
}

/// What an event of an `ib_cm` ID leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IbPlan {
    /// The consumer is told.
    Tell(Told),
    /// The peer accepted. If `rdma_cm` has the queue pair, it makes it ready and tells the peer;
    /// see [`replied`].
    Reply,
    /// The peer refused, for a reason in the event. A queue pair that `rdma_cm` has goes into the
    /// error state.
    Rejected,
    /// Nothing.
    Ignore,
    /// The event makes no sense.
    Unexpected,
}

/// What an event of an `ib_cm` ID leads to.
pub const fn of_ib(event: IbEvent) -> IbPlan {
    use Happened::{Disconnected, News, TimewaitExit};
    IbPlan::Tell(match event {
        IbEvent::ReqError | IbEvent::RepError => {
            Told::new(Kind::Unreachable, Status::TimedOut, News)
        }
        IbEvent::RepReceived => return IbPlan::Reply,
        IbEvent::RtuReceived | IbEvent::UserEstablished => {
            Told::new(Kind::Established, Status::Ok, News)
        }
        IbEvent::DreqError => Told::new(Kind::Disconnected, Status::TimedOut, Disconnected),
        IbEvent::DreqReceived | IbEvent::DrepReceived => {
            Told::new(Kind::Disconnected, Status::Ok, Disconnected)
        }
        IbEvent::TimewaitExit => Told::new(Kind::TimewaitExit, Status::Ok, TimewaitExit),
        IbEvent::MraReceived => return IbPlan::Ignore,
        IbEvent::RejReceived => return IbPlan::Rejected,
        IbEvent::Other => return IbPlan::Unexpected,
    })
}

/// The event for a reply of the peer. `ready` is the result of making the queue pair ready, if
/// `rdma_cm` has it.
pub fn replied(ready: Option<Result<(), i32>>) -> Told {
    let (kind, status) = match ready {
        None => (Kind::ConnectResponse, Status::Ok),
        Some(Ok(())) => (Kind::Established, Status::Ok),
        Some(Err(errno)) => (Kind::ConnectError, Status::Reported(errno)),
    };
    Told::new(kind, status, Happened::News)
}

/// The event for a refusal of the peer.
pub const fn rejected(reason: i32) -> Told {
    Told::new(Kind::Rejected, Status::Reported(reason), Happened::News)
}

/// The event for the answer to a request for datagrams: its status, and whether its Q_Key can be
/// used.
pub fn of_sidr(status: i32, qkey: Result<(), i32>) -> Told {
    let (kind, status) = match (status, qkey) {
        (0, Ok(())) => (Kind::Established, Status::Ok),
        (0, Err(errno)) => (Kind::AddrError, Status::Reported(errno)),
        (status, _) => (Kind::Unreachable, Status::Reported(status)),
    };
    Told::new(kind, status, Happened::News)
}

/// The event when a request for datagrams is not answered.
pub const SIDR_TIMED_OUT: Told = Told::new(Kind::Unreachable, Status::TimedOut, Happened::News);

/// Event of an `iw_cm` ID (`enum iw_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IwEvent {
    /// The answer to a connection request.
    ConnectReply,
    /// An accepted connection is established.
    Established,
    /// The connection is closed.
    Close,
    /// Others.
    Other,
}

impl IwEvent {
    /// The event with this number.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            2 => Self::ConnectReply,
            3 => Self::Established,
            5 => Self::Close,
            _ => Self::Other,
        }
    }
}

/// The event for one of an `iw_cm` ID, if any. The end of an iWARP connection does not change the
/// state.
pub const fn of_iw(event: IwEvent, status: i32) -> Option<Told> {
    let kind = match event {
        IwEvent::Close => Kind::Disconnected,
        IwEvent::Established => Kind::Established,
        IwEvent::ConnectReply => match status.wrapping_neg() {
            0 => Kind::Established,
            RESET | REFUSED => Kind::Rejected,
            TIMED_OUT => Kind::Unreachable,
            _ => Kind::ConnectError,
        },
        IwEvent::Other => return None,
    };
    Some(Told::new(kind, Status::Reported(status), Happened::News))
}
