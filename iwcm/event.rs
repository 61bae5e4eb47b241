// SPDX-License-Identifier: GPL-2.0

//! Events of a provider, and the storage in which those of an ID wait.
//!
//! Events come in any context, so the storage is allocated in advance, when the consumer listens or
//! connects.

use crate::edge::CmEvent;
use crate::edge::ProviderData;
use crate::proto::addr::Address;
use crate::proto::conn;
use crate::proto::ring::Ring;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Type of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A peer requests a connection.
    Request,
    /// The peer has replied to a request.
    Reply,
    /// The connection is established, passive side.
    Established,
    /// The peer has disconnected.
    Disconnect,
    /// The connection is closed.
    Close,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST => Self::Request,
            bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY => Self::Reply,
            bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED => Self::Established,
            bindings::iw_cm_event_type_IW_CM_EVENT_DISCONNECT => Self::Disconnect,
            bindings::iw_cm_event_type_IW_CM_EVENT_CLOSE => Self::Close,
            _ => return None,
        })
    }

    /// Number of the type (`enum iw_cm_event_type`).
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Request => bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST,
            Self::Reply => bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY,
            Self::Established => bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED,
            Self::Disconnect => bindings::iw_cm_event_type_IW_CM_EVENT_DISCONNECT,
            Self::Close => bindings::iw_cm_event_type_IW_CM_EVENT_CLOSE,
        }
    }
}

/// An event, with a copy of its private data.
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) status: c_int,
    pub(crate) local: Address,
    pub(crate) remote: Address,
    pub(crate) private_data: KVec<u8>,
    pub(crate) provider_data: ProviderData,
    pub(crate) ord: u8,
    pub(crate) ird: u8,
}

impl Event {
    /// Copies an event. Only requests and replies have private data. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown type; `ENOMEM`.
    pub(crate) fn copy(event: &CmEvent) -> Result<Self> {
        let kind = Kind::of(event.kind()).ok_or(EINVAL)?;
        Ok(Self {
            kind,
            status: event.status(),
            local: event.local(),
            remote: event.remote(),
            private_data: match kind {
                Kind::Request | Kind::Reply => event.private_data()?,
                Kind::Established | Kind::Disconnect | Kind::Close => KVec::new(),
            },
            provider_data: event.provider_data(),
            ord: event.ord(),
            ird: event.ird(),
        })
    }

    /// Returns what the event means for a connection; `None` for a request.
    pub(crate) fn of_connection(&self) -> Option<conn::Event> {
        Some(match self.kind {
            Kind::Request => return None,
            Kind::Reply => conn::Event::Reply {
                accepted: self.status == 0,
            },
            Kind::Established => conn::Event::Established,
            Kind::Disconnect => conn::Event::Disconnect,
            Kind::Close => conn::Event::Close,
        })
    }
}

/// Number of places that are allocated together. As many as an active connection needs.
const CHUNK: usize = 4;

/// Events that wait, oldest first.
pub(crate) struct Events {
    chunks: KVec<KBox<[Option<Event>; CHUNK]>>,
    ring: Ring,
}

impl Events {
    /// No storage.
    pub(crate) const fn none() -> Self {
        Self {
            chunks: KVec::new(),
            ring: Ring::new(0),
        }
    }

    /// Allocates storage for `count` events. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let chunks = count.div_ceil(CHUNK);
        let mut events = Self {
            // A backlog may be absurdly large.
            chunks: KVec::with_capacity(chunks, GFP_KERNEL | __GFP_NOWARN)?,
            ring: Ring::new(count),
        };
        for _ in 0..chunks {
            let chunk = KBox::new([const { None }; CHUNK], GFP_KERNEL)?;
            events.chunks.push(chunk, GFP_KERNEL)?;
        }
        Ok(events)
    }

    /// Returns whether no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds an event; returns it if there is no place. Does not allocate.
    pub(crate) fn push(&mut self, event: Event) -> Result<(), Event> {
        let Some(place) = self.ring.push().and_then(|at| self.place(at)) else {
            return Err(event);
        };
        // The place is empty: its event was taken when it left the ring.
        *place = Some(event);
        Ok(())
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let at = self.ring.pop()?;
        self.place(at)?.take()
    }

    fn place(&mut self, at: usize) -> Option<&mut Option<Event>> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }
}
