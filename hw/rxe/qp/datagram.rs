// SPDX-License-Identifier: GPL-2.0

//! Destinations of a datagram queue pair.
//!
//! Each request of a datagram queue pair names its own destination, mostly one of a few. Those used
//! last are kept, each with its route and the train of this turn: a request to one of them costs no
//! lookup, and those to the same one leave together, whatever lies between them. Order is preserved
//! for each address handle, as it would be on a network.
//!
//! An address handle has one place, determined by its number; handles created in succession have
//! different ones. Paths that a request contains itself share a place.
//!
//! Context: softirq, or bottom halves off; called by the runner of the send half.

use super::wire::Sender;
use super::Qp;
use crate::ah::Ah;
use crate::ah::Edition;
use crate::device::Dev;
use crate::proto::QpType;
use crate::queue::wqe::Route;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::accounted;

/// Number of places: as many as a mask of 8 bits has.
const PLACES: u32 = 8;

/// Destinations that were used last.
pub(super) struct Destinations {
    /// [`PLACES`] of them on a datagram queue pair, otherwise none.
    places: KVec<Option<Destination>>,
    /// Places used in this turn, one bit each.
    used: u8,
    /// The place found last.
    last: u32,
}

struct Destination {
    /// The address handle that was used; `None` if the request contained the path.
    handle: Option<Handle>,
    /// `None` if the address is not usable.
    sender: Option<Sender>,
}

struct Handle {
    number: u32,
    ah: Arc<Ah>,
    /// State of the handle that the path was made from.
    edition: Edition,
}

impl Destinations {
    /// Creates the storage that a queue pair of this type needs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(kind: QpType) -> Result<Self> {
        let mut places = KVec::new();
        if kind.is_datagram() {
            for _ in 0..PLACES {
                places.push(None, accounted::GFP)?;
            }
        }
        Ok(Self {
            places,
            used: 0,
            last: 0,
        })
    }

    /// Returns the sender to the destination of a request; the inner `None` if its address is not
    /// usable. Returns `None` if there is no such address handle, or the queue pair may not use it.
    ///
    /// May have to send the packets of another destination first; sets `congested` if some of them
    /// were dropped because a network queue is full.
    #[inline]
    pub(super) fn find(
        &mut self,
        qp: &Qp,
        route: &Route,
        congested: &mut bool,
    ) -> Option<Option<&mut Sender>> {
        let at = match route {
            Route::Ah(number) => *number % PLACES,
            Route::Av(_) => 0,
        };
        self.used |= 1u8.wrapping_shl(at);
        self.last = at;
        let place = self.places.get_mut(at as usize)?;
        match route {
            Route::Ah(number) => {
                if !place.as_ref().is_some_and(|kept| kept.is(*number)) {
                    *congested |= Destination::end(place, &qp.dev);
                    *place = Some(Destination::of_handle(qp, *number)?);
                }
            }
            Route::Av(av) => {
                // Made anew for each request: it depends on the table of GIDs.
                let path = qp.dev.path_of_av(av, qp.number);
                let same = place.as_ref().is_some_and(|kept| {
                    kept.handle.is_none() && kept.sender.as_ref().map(Sender::path) == path.as_ref()
                });
                if !same {
                    *congested |= Destination::end(place, &qp.dev);
                    *place = Some(Destination {
                        handle: None,
                        sender: path.map(|path| Sender::new(path, qp.unsent.clone())),
                    });
                }
            }
        }
        Some(place.as_mut()?.sender.as_mut())
    }

    /// Returns the sender that [`Self::find`] found last.
    #[inline]
    pub(super) fn found(&mut self) -> Option<&mut Sender> {
        let place = self.places.get_mut(self.last as usize)?;
        place.as_mut()?.sender.as_mut()
    }

    /// Sends the packets of this turn. Returns whether some were dropped because a network queue is
    /// full.
    #[inline]
    pub(super) fn flush(&mut self, dev: &Dev) -> bool {
        let mut congested = false;
        let mut used = core::mem::take(&mut self.used);
        while used != 0 {
            let at = used.trailing_zeros();
            used &= used.wrapping_sub(1);
            if let Some(Some(kept)) = self.places.get_mut(at as usize) {
                if let Some(sender) = &mut kept.sender {
                    congested |= sender.flush(dev);
                }
            }
        }
        congested
    }

    /// Forgets all destinations.
    pub(super) fn reset(&mut self) {
        self.used = 0;
        for place in &mut self.places {
            *place = None;
        }
    }
}

impl Destination {
    /// Returns whether this is the destination of address handle `number`.
    #[inline]
    fn is(&self, number: u32) -> bool {
        self.handle
            .as_ref()
            .is_some_and(|kept| kept.number == number && kept.ah.is(kept.edition))
    }

    /// Returns the destination of address handle `number`, if the queue pair may use it.
    #[inline(never)]
    fn of_handle(qp: &Qp, number: u32) -> Option<Self> {
        let ah = qp.dev.ahs.get(number).filter(|ah| ah.pd == qp.pd)?;
        let (path, edition) = ah.path(qp.number)?;
        Some(Self {
            handle: Some(Handle {
                number,
                ah,
                edition,
            }),
            sender: path.map(|path| Sender::new(path, qp.unsent.clone())),
        })
    }

    /// Empties a place. Its packets are sent first.
    fn end(place: &mut Option<Self>, dev: &Dev) -> bool {
        let kept = place.take().and_then(|kept| kept.sender);
        kept.is_some_and(|mut sender| sender.flush(dev))
    }
}
