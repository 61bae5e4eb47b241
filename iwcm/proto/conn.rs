// SPDX-License-Identifier: GPL-2.0

//! The states of an ID, and what calls and events do in each.
//!
//! Calls come from the consumer, events from the provider. A state holds the queue pair of the
//! connection, as a reference `Q`, exactly while there is one. A method that ends the use of a
//! queue pair returns it, because the caller must drop it without its lock.
//!
//! ```text
//!   Idle -listen-> Starting -> Listening
//!   Idle -connect-> Connecting -reply-> Established -disconnect-> Closing -close-> Idle
//!   (new) Requested -accept-> Accepting -established-> Established
//!         Requested -reject-> Leaving -> Idle
//!         Accepting, Connecting -close-> Idle
//!   any -destroy-> Destroyed
//! ```
//!
//! While a call to the provider is open, or a connection is being set up, disconnection and
//! destruction wait ([`Conn::is_busy`]).
//!
//! The provider may send any event at any time. An event that the state does not expect is ignored.

/// State of an ID. `Q` is a reference to a queue pair.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Conn<Q> {
    /// Not connected.
    #[default]
    Idle,
    /// A call to listen is open. Requests may already come.
    Starting,
    /// Listens for requests.
    Listening,
    /// A request, which the consumer has neither accepted nor rejected.
    Requested,
    /// The consumer has accepted; the provider sets the connection up.
    Accepting(Q),
    /// The consumer has requested a connection; the peer has not replied.
    Connecting(Q),
    /// A call that ends the connection's setup is open: the provider rejects the request, or has
    /// failed to connect or to accept.
    Leaving,
    /// Connected.
    Established(Q),
    /// One side has disconnected; the provider has not yet reported that the connection is closed.
    Closing(Q),
    /// Being destroyed.
    Destroyed,
}

/// The call is refused with `EINVAL`. Returns what it was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<T>(pub T);

/// An event of a provider, except a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has replied to a connection request.
    Reply {
        /// Whether it has accepted.
        accepted: bool,
    },
    /// The connection is established, passive side.
    Established,
    /// The peer has disconnected.
    Disconnect,
    /// The connection is closed.
    Close,
}

/// What to do about an event.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it may contain a queue pair, and the consumer waits for the event"]
pub struct Step<Q> {
    /// Whether the consumer is told.
    pub deliver: bool,
    /// The queue pair, if the connection does not use it any more.
    pub unused: Option<Q>,
}

impl<Q> Step<Q> {
    const IGNORE: Self = Self {
        deliver: false,
        unused: None,
    };
    const DELIVER: Self = Self {
        deliver: true,
        unused: None,
    };
    fn last(unused: Q) -> Self {
        Self {
            deliver: true,
            unused: Some(unused),
        }
    }
}

/// What the destruction of an ID requires of the provider.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the provider must be told"]
pub enum End<Q> {
    /// Nothing. The queue pair, if any, is not used any more.
    Quiet(Option<Q>),
    /// The end of listening.
    Unlisten,
    /// Rejection of the request.
    Reject,
    /// The queue pair must go to the error state.
    Abort(Q),
}

/// Why an ID is not destroyed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// It [is busy](Conn::is_busy).
    Busy,
    /// Another caller destroys it.
    Begun,
}

impl<Q> Conn<Q> {
    /// State of the ID of a new request.
    pub const fn requested() -> Self {
        Self::Requested
    }

    /// Returns whether disconnection and destruction must wait.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Starting | Self::Accepting(_) | Self::Connecting(_) | Self::Leaving => true,
            Self::Idle
            | Self::Listening
            | Self::Requested
            | Self::Established(_)
            | Self::Closing(_)
            | Self::Destroyed => false,
        }
    }

    /// Returns whether requests are accepted.
    pub fn is_listening(&self) -> bool {
        matches!(self, Self::Starting | Self::Listening)
    }

    /// Returns whether the ID is being destroyed.
    pub fn is_destroyed(&self) -> bool {
        matches!(self, Self::Destroyed)
    }

    /// Returns whether attributes for a queue pair can be given. As in the C module, not for a
    /// listener, nor after a disconnection.
    pub fn gives_attributes(&self) -> bool {
        match self {
            Self::Idle
            | Self::Requested
            | Self::Accepting(_)
            | Self::Connecting(_)
            | Self::Leaving
            | Self::Established(_) => true,
            Self::Starting | Self::Listening | Self::Closing(_) | Self::Destroyed => false,
        }
    }

    /// Returns whether [`listen`](Self::listen) and [`connect`](Self::connect) are possible.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Returns whether [`accept`](Self::accept) and [`reject`](Self::reject) are possible.
    pub fn is_requested(&self) -> bool {
        matches!(self, Self::Requested)
    }

    /// Begins to listen; [`listened`](Self::listened) follows.
    ///
    /// # Errors
    ///
    /// [`Refused`] unless idle.
    pub fn listen(&mut self) -> Result<(), Refused<()>> {
        if !self.is_idle() {
            return Err(Refused(()));
        }
        *self = Self::Starting;
        Ok(())
    }

    /// The provider listens, or has refused to.
    pub fn listened(&mut self, accepted: bool) {
        if matches!(self, Self::Starting) {
            *self = if accepted {
                Self::Listening
            } else {
                Self::Idle
            };
        }
    }

    /// Begins to connect `qp`.
    ///
    /// # Errors
    ///
    /// [`Refused`] unless idle.
    pub fn connect(&mut self, qp: Q) -> Result<(), Refused<Q>> {
        if !self.is_idle() {
            return Err(Refused(qp));
        }
        *self = Self::Connecting(qp);
        Ok(())
    }

    /// Begins to accept a request with `qp`.
    ///
    /// # Errors
    ///
    /// [`Refused`] unless there is a request that is not accepted yet.
    pub fn accept(&mut self, qp: Q) -> Result<(), Refused<Q>> {
        if !self.is_requested() {
            return Err(Refused(qp));
        }
        *self = Self::Accepting(qp);
        Ok(())
    }

    /// Begins to reject a request. [`left`](Self::left) follows.
    ///
    /// # Errors
    ///
    /// [`Refused`] if there is no request, or if it was accepted: a provider is never told both.
    pub fn reject(&mut self) -> Result<(), Refused<()>> {
        if !self.is_requested() {
            return Err(Refused(()));
        }
        *self = Self::Leaving;
        Ok(())
    }

    /// The provider has refused to connect or to accept. Whatever it reported meanwhile, there is
    /// no connection. [`left`](Self::left) follows.
    ///
    /// `None` if the ID left the connection by itself: it was closed, or abandoned.
    pub fn failed(&mut self) -> Option<Q> {
        match self.take() {
            Self::Connecting(qp)
            | Self::Accepting(qp)
            | Self::Established(qp)
            | Self::Closing(qp) => {
                *self = Self::Leaving;
                Some(qp)
            }
            other @ (Self::Idle
            | Self::Starting
            | Self::Listening
            | Self::Requested
            | Self::Leaving
            | Self::Destroyed) => {
                *self = other;
                None
            }
        }
    }

    /// The call that [`reject`](Self::reject) or [`failed`](Self::failed) began is over.
    pub fn left(&mut self) {
        if matches!(self, Self::Leaving) {
            *self = Self::Idle;
        }
    }

    /// Takes the steps of an event.
    pub fn event(&mut self, event: Event) -> Step<Q> {
        match (self.take(), event) {
            (Self::Connecting(qp), Event::Reply { accepted: true }) => {
                *self = Self::Established(qp);
                Step::DELIVER
            }
            (Self::Connecting(qp), Event::Reply { accepted: false }) => Step::last(qp),
            (Self::Accepting(qp), Event::Established) => {
                *self = Self::Established(qp);
                Step::DELIVER
            }
            (Self::Established(qp), Event::Disconnect) => {
                *self = Self::Closing(qp);
                Step::IGNORE
            }
            // Also of a connection that was never reported as established: no other event follows.
            (
                Self::Accepting(qp)
                | Self::Connecting(qp)
                | Self::Established(qp)
                | Self::Closing(qp),
                Event::Close,
            ) => Step::last(qp),
            (state, _) => {
                *self = state;
                Step::IGNORE
            }
        }
    }

    /// Disconnects. Must not be busy.
    ///
    /// Returns the queue pair that must leave its state, if any: the peer may have been first.
    ///
    /// # Errors
    ///
    /// [`Refused`] for a listener, and for an ID that is being destroyed.
    pub fn disconnect(&mut self) -> Result<Option<&Q>, Refused<()>> {
        match self.take() {
            Self::Established(qp) => {
                *self = Self::Closing(qp);
                let Self::Closing(qp) = self else {
                    return Ok(None);
                };
                Ok(Some(qp))
            }
            other @ (Self::Starting | Self::Listening | Self::Destroyed) => {
                *self = other;
                Err(Refused(()))
            }
            other @ (Self::Idle
            | Self::Requested
            | Self::Accepting(_)
            | Self::Connecting(_)
            | Self::Leaving
            | Self::Closing(_)) => {
                *self = other;
                Ok(None)
            }
        }
    }

    /// Returns whether [`disconnect`](Self::disconnect) must wait. A listener refuses at once.
    pub fn delays_disconnect(&self) -> bool {
        self.is_busy() && !matches!(self, Self::Starting)
    }

    /// Destroys the ID. Only one caller succeeds.
    ///
    /// # Errors
    ///
    /// See [`Unable`].
    pub fn destroy(&mut self) -> Result<End<Q>, Unable> {
        if self.is_busy() {
            return Err(Unable::Busy);
        }
        let end = match self.take() {
            Self::Listening => End::Unlisten,
            Self::Requested => End::Reject,
            Self::Established(qp) => End::Abort(qp),
            Self::Closing(qp) => End::Quiet(Some(qp)),
            Self::Destroyed => {
                *self = Self::Destroyed;
                return Err(Unable::Begun);
            }
            // Not busy, as was checked, so it is idle.
            Self::Idle
            | Self::Starting
            | Self::Leaving
            | Self::Accepting(_)
            | Self::Connecting(_) => End::Quiet(None),
        };
        *self = Self::Destroyed;
        Ok(end)
    }

    /// Destroys the ID for its own event handler, which no event can follow: also while a
    /// connection is being set up. Only one caller succeeds.
    ///
    /// # Errors
    ///
    /// See [`Unable`]; busy if another task's call is open.
    pub fn abandon(&mut self) -> Result<End<Q>, Unable> {
        match self.take() {
            Self::Accepting(qp) | Self::Connecting(qp) => {
                *self = Self::Destroyed;
                Ok(End::Abort(qp))
            }
            other @ (Self::Idle
            | Self::Starting
            | Self::Listening
            | Self::Requested
            | Self::Leaving
            | Self::Established(_)
            | Self::Closing(_)
            | Self::Destroyed) => {
                *self = other;
                self.destroy()
            }
        }
    }

    /// Takes the state out, and leaves `Idle`.
    fn take(&mut self) -> Self {
        core::mem::take(self)
    }
}
