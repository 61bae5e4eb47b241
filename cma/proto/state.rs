// SPDX-License-Identifier: GPL-2.0

//! The life of an ID.
//!
//! ```text
//!            bind             resolve_addr           answer
//!   Idle -----------> AddrBound ---------> AddrQuery -------> AddrResolved --+-- set_path ---+
//!                      |     ^  <--- answer: error ---+            |         |               |
//!               listen |     |                                     | resolve_route           |
//!                      v     |  resolve_service                    v         ^ error         v
//!                    Listen  +--------- AddrinfoQuery          RouteQuery ---+---------> RouteResolved
//!                                          |                       ^                         |
//!                                          +--> AddrinfoResolved --+                 connect |
//!                                                                                            v
//!                                      Disconnect <------------------------------------- Connect
//! ```
//!
//! Requests of peers are born in `Connect`. From each state there is a way to `DeviceRemoval` and
//! to `Destroying`, and from these none but from the former to the latter.
//!
//! The consumer gets one event at a time, in a callback. It may make calls from the callback, but
//! for destruction: it asks for that by its answer, [`Answer::Destroy`]. From `DeviceRemoval` and
//! `Destroying` on it gets no event.
//!
//! A query that is answered later has a [`Ticket`]. An answer with another ticket than that of the
//! state is for a query that is over, and is dropped.

use super::event::Happened;
use super::event::Kind;
use super::Refusal;

/// Number of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The state from which a route is resolved, and to which an ID returns if that cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// By an address.
    Addr,
    /// By a service record.
    Service,
}

/// The state of an ID (`enum rdma_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// New.
    Idle,
    /// The destination's address is being resolved.
    AddrQuery(Ticket),
    /// The destination's address is known.
    AddrResolved,
    /// The path is being resolved.
    RouteQuery(Ticket, Resolved),
    /// The path is known.
    RouteResolved,
    /// A connection is being made, or is established.
    Connect,
    /// The connection is over.
    Disconnect,
    /// It has a local address and port.
    AddrBound,
    /// It waits for requests.
    Listen,
    /// Its device is being removed.
    DeviceRemoval,
    /// It is being destroyed.
    Destroying,
    /// Service records are being asked for.
    AddrinfoQuery(Ticket),
    /// Service records are known.
    AddrinfoResolved,
}

impl State {
    /// The number of the state.
    pub const fn raw(self) -> u32 {
        match self {
            Self::Idle => 0,
            Self::AddrQuery(_) => 1,
            Self::AddrResolved => 2,
            Self::RouteQuery(..) => 3,
            Self::RouteResolved => 4,
            Self::Connect => 5,
            Self::Disconnect => 6,
            Self::AddrBound => 7,
            Self::Listen => 8,
            Self::DeviceRemoval => 9,
            Self::Destroying => 10,
            Self::AddrinfoQuery(_) => 11,
            Self::AddrinfoResolved => 12,
        }
    }

    /// Whether no event is delivered any more.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::DeviceRemoval | Self::Destroying)
    }

    /// What is in progress.
    const fn pending(self) -> Pending {
        match self {
            Self::AddrQuery(_) => Pending::Addr,
            Self::RouteQuery(..) => Pending::Route,
            Self::AddrinfoQuery(_) => Pending::Service,
            Self::Listen => Pending::Listen,
            Self::Idle
            | Self::AddrResolved
            | Self::RouteResolved
            | Self::Connect
            | Self::Disconnect
            | Self::AddrBound
            | Self::DeviceRemoval
            | Self::Destroying
            | Self::AddrinfoResolved => Pending::Nothing,
        }
    }
}

/// What was in progress when an ID was removed or destroyed. Who ends the ID first cancels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it must be cancelled"]
pub enum Pending {
    /// Nothing.
    Nothing,
    /// Resolution of an address.
    Addr,
    /// Resolution of a path.
    Route,
    /// Resolution of service records.
    Service,
    /// Internal IDs that listen.
    Listen,
}

/// Why an event may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The answer to a query for an address, and whether it succeeded.
    Addr(Ticket, bool),
    /// As before, for a path.
    Route(Ticket, bool),
    /// As before, for service records.
    Service(Ticket, bool),
    /// A peer's request, for the ID that was born for it.
    Request,
    /// What happened to the connection, and the event for it.
    Connection(Happened, Kind),
    /// What happened around the ID: multicast groups, network devices, neighbours.
    Around(Kind),
}

/// Permission to call the consumer. Ended by [`Life::over`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the callback is not over before `Life::over`"]
pub struct Delivery {
    /// The event.
    pub kind: Kind,
    /// What the removal of the device has left in progress, for whom the callback ends it.
    removal: Option<Pending>,
}

/// Whether an event is delivered.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is.
    Deliver(Delivery),
    /// Not in this state.
    Drop,
    /// A callback is running. The caller does not hold the lock of callbacks, which is a bug.
    Busy,
}

/// The consumer's answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Zero.
    Keep,
    /// Not zero: the ID is destroyed.
    Destroy,
}

/// Whether an ID is in the list for users (`rdma resource`). The consumer may end the ID while it is being
/// bound, by its answer to an event. The ID must not be listed after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracked {
    /// It is not.
    #[default]
    No,
    /// It is.
    Yes,
    /// It is not, and will not be.
    Over,
}

impl Tracked {
    /// Lists the ID. Returns whether the caller must do so now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: it was ended.
    pub fn begin(&mut self) -> Result<bool, Refusal> {
        match self {
            Self::No => {
                *self = Self::Yes;
                Ok(true)
            }
            Self::Yes => Ok(false),
            Self::Over => Err(Refusal::Invalid),
        }
    }

    /// The ID ends.
    pub fn end(&mut self) {
        *self = Self::Over;
    }
}

/// What follows a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is in progress must be cancelled"]
pub enum After {
    /// Nothing.
    Keep,
    /// The device is being removed; the ID stays until its consumer destroys it.
    Removed(Pending),
    /// The ID is destroyed by who called the consumer.
    Destroy(Pending),
}

/// The life of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    state: State,
    /// A callback is running.
    busy: bool,
    /// Number of queries so far.
    tickets: u32,
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

impl Life {
    const fn at(state: State) -> Self {
        Self {
            state,
            busy: false,
            tickets: 0,
        }
    }

    /// That of a new ID.
    pub const fn new() -> Self {
        Self::at(State::Idle)
    }

    /// That of an ID for a peer's request.
    pub const fn passive() -> Self {
        Self::at(State::Connect)
    }

    /// That of an internal ID of a listener without address.
    pub const fn internal() -> Self {
        Self::at(State::AddrBound)
    }

    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }

    const fn ticket(&mut self) -> Ticket {
        // Numbers may wrap: an answer is at most one query late, because the next one cancels it.
        self.tickets = self.tickets.wrapping_add(1);
        Ticket(self.tickets)
    }

    /// `from` to `to`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: it is in another state.
    fn step(&mut self, from: State, to: State) -> Result<(), Refusal> {
        if self.state != from {
            return Err(Refusal::Invalid);
        }
        self.state = to;
        Ok(())
    }

    /// Returns to an earlier state, if nobody has ended the ID meanwhile.
    fn back(&mut self, from: State, to: State) {
        if self.state == from {
            self.state = to;
        }
    }

    /// Begins to bind.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: not idle.
    pub fn bind(&mut self) -> Result<(), Refusal> {
        self.step(State::Idle, State::AddrBound)
    }

    /// Binding failed.
    pub fn bind_failed(&mut self) {
        self.back(State::AddrBound, State::Idle);
    }

    /// Begins to resolve an address.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: not only bound.
    pub fn resolve_addr(&mut self) -> Result<Ticket, Refusal> {
        let ticket = self.ticket();
        self.step(State::AddrBound, State::AddrQuery(ticket))?;
        Ok(ticket)
    }

    /// Resolution of an address could not begin.
    pub fn resolve_addr_failed(&mut self, ticket: Ticket) {
        self.back(State::AddrQuery(ticket), State::AddrBound);
    }

    /// Begins to resolve a path.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the address is not resolved.
    pub fn resolve_route(&mut self) -> Result<Ticket, Refusal> {
        let from = match self.state {
            State::AddrResolved => Resolved::Addr,
            State::AddrinfoResolved => Resolved::Service,
            State::Idle
            | State::AddrQuery(_)
            | State::RouteQuery(..)
            | State::RouteResolved
            | State::Connect
            | State::Disconnect
            | State::AddrBound
            | State::Listen
            | State::DeviceRemoval
            | State::Destroying
            | State::AddrinfoQuery(_) => return Err(Refusal::Invalid),
        };
        let ticket = self.ticket();
        self.state = State::RouteQuery(ticket, from);
        Ok(ticket)
    }

    /// Resolution of a path could not begin.
    pub fn resolve_route_failed(&mut self, ticket: Ticket) {
        match self.state {
            State::RouteQuery(of, Resolved::Addr) if of == ticket => {
                self.state = State::AddrResolved;
            }
            State::RouteQuery(of, Resolved::Service) if of == ticket => {
                self.state = State::AddrinfoResolved;
            }
            State::RouteQuery(..)
            | State::Idle
            | State::AddrQuery(_)
            | State::AddrResolved
            | State::RouteResolved
            | State::Connect
            | State::Disconnect
            | State::AddrBound
            | State::Listen
            | State::DeviceRemoval
            | State::Destroying
            | State::AddrinfoQuery(_)
            | State::AddrinfoResolved => {}
        }
    }

    /// Takes the consumer's own path.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the address is not resolved.
    pub fn set_path(&mut self) -> Result<(), Refusal> {
        self.step(State::AddrResolved, State::RouteResolved)
    }

    /// The consumer's own path could not be used.
    pub fn set_path_failed(&mut self) {
        self.back(State::RouteResolved, State::AddrResolved);
    }

    /// Begins to ask for service records. `on_device`: whether the ID is bound to a device.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: not only bound, or to no device.
    pub fn resolve_service(&mut self, on_device: bool) -> Result<Ticket, Refusal> {
        if !on_device {
            return Err(Refusal::Invalid);
        }
        let ticket = self.ticket();
        self.step(State::AddrBound, State::AddrinfoQuery(ticket))?;
        Ok(ticket)
    }

    /// Service records could not be asked for.
    pub fn resolve_service_failed(&mut self, ticket: Ticket) {
        self.back(State::AddrinfoQuery(ticket), State::AddrBound);
    }

    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: not only bound.
    pub fn listen(&mut self) -> Result<(), Refusal> {
        self.step(State::AddrBound, State::Listen)
    }

    /// Listening failed.
    pub fn listen_failed(&mut self) {
        self.back(State::Listen, State::AddrBound);
    }

    /// Begins to connect. The caller holds the lock of callbacks.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the path is not resolved.
    pub fn connect(&mut self) -> Result<(), Refusal> {
        self.step(State::RouteResolved, State::Connect)
    }

    /// A connection could not be begun. The caller holds the lock of callbacks.
    pub fn connect_failed(&mut self) {
        self.back(State::Connect, State::RouteResolved);
    }

    /// Checks that a request or reply may be accepted. The caller holds the lock of callbacks.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: there is no connection.
    pub fn accept(&self) -> Result<(), Refusal> {
        if self.state == State::Connect {
            Ok(())
        } else {
            Err(Refusal::Invalid)
        }
    }

    /// Whether a listener still takes requests. The caller holds the lock of callbacks.
    pub fn is_listening(&self) -> bool {
        self.state == State::Listen
    }

    /// Whether an ID may get a transport's ID. The task that destroys the ID would not end it.
    pub const fn takes_transport(&self) -> bool {
        !matches!(self.state, State::Destroying)
    }

    /// Whether an ID may join multicast groups.
    pub const fn may_join(&self) -> bool {
        matches!(self.state, State::AddrBound | State::AddrResolved)
    }

    /// Whether `cause` leads to an event; if so, changes the state. The caller holds the lock of
    /// callbacks.
    pub fn begin(&mut self, cause: Cause) -> Turn {
        if self.busy {
            return Turn::Busy;
        }
        let (state, kind) = match (cause, self.state) {
            (_, State::DeviceRemoval | State::Destroying) => return Turn::Drop,
            (Cause::Addr(of, true), State::AddrQuery(ticket)) if of == ticket => {
                (State::AddrResolved, Kind::AddrResolved)
            }
            (Cause::Addr(of, false), State::AddrQuery(ticket)) if of == ticket => {
                (State::AddrBound, Kind::AddrError)
            }
            (Cause::Route(of, true), State::RouteQuery(ticket, _)) if of == ticket => {
                (State::RouteResolved, Kind::RouteResolved)
            }
            (Cause::Route(of, false), State::RouteQuery(ticket, _)) if of == ticket => {
                (State::AddrResolved, Kind::RouteError)
            }
            (Cause::Service(of, true), State::AddrinfoQuery(ticket)) if of == ticket => {
                (State::AddrinfoResolved, Kind::AddrinfoResolved)
            }
            (Cause::Service(of, false), State::AddrinfoQuery(ticket)) if of == ticket => {
                (State::AddrBound, Kind::AddrinfoError)
            }
            (Cause::Request, State::Connect) => (State::Connect, Kind::ConnectRequest),
            (Cause::Connection(Happened::News, kind), State::Connect) => (State::Connect, kind),
            (Cause::Connection(Happened::Disconnected, kind), State::Connect) => {
                (State::Disconnect, kind)
            }
            (Cause::Connection(Happened::TimewaitExit, kind), State::Disconnect) => {
                (State::Disconnect, kind)
            }
            (Cause::Around(kind), state) => (state, kind),
            (
                Cause::Addr(..)
                | Cause::Route(..)
                | Cause::Service(..)
                | Cause::Request
                | Cause::Connection(..),
                _,
            ) => return Turn::Drop,
        };
        self.state = state;
        self.busy = true;
        Turn::Deliver(Delivery {
            kind,
            removal: None,
        })
    }

    /// The device is being removed. The caller holds the lock of callbacks.
    pub fn remove(&mut self) -> Turn {
        if self.busy {
            return Turn::Busy;
        }
        if self.state.is_over() {
            return Turn::Drop;
        }
        let pending = self.state.pending();
        self.state = State::DeviceRemoval;
        self.busy = true;
        Turn::Deliver(Delivery {
            kind: Kind::DeviceRemoval,
            removal: Some(pending),
        })
    }

    /// A callback is over. The caller still holds the lock of callbacks.
    pub fn over(&mut self, delivery: Delivery, answer: Answer) -> After {
        self.busy = false;
        match (answer, delivery.removal) {
            (Answer::Keep, None) => After::Keep,
            (Answer::Keep, Some(pending)) => After::Removed(pending),
            (Answer::Destroy, Some(pending)) => {
                self.state = State::Destroying;
                After::Destroy(pending)
            }
            (Answer::Destroy, None) => {
                let pending = self.state.pending();
                self.state = State::Destroying;
                After::Destroy(pending)
            }
        }
    }

    /// Begins to destroy the ID. The caller holds the lock of callbacks, so no callback is running.
    /// `None`: it is being destroyed already.
    pub fn destroy(&mut self) -> Option<Pending> {
        if self.state == State::Destroying {
            return None;
        }
        let pending = self.state.pending();
        self.state = State::Destroying;
        Some(pending)
    }
}
