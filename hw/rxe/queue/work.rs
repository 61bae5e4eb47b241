// SPDX-License-Identifier: GPL-2.0

//! Send and receive queues: the consuming end of a ring, and private copies of its requests.
//!
//! [`SendQueue`] belongs to the send half of a queue pair and implements its `fetch`, `retire` and
//! payload calls; [`RecvQueue`] is a queue pair's own queue or a shared one. A request in progress
//! is kept in a slot of kernel memory; its ring entry is not read again.
//!
//! Context: `&mut self`, guaranteed by the half's run token or, for a shared receive queue, by its
//! lock. Only the constructors may sleep.

use super::layout::Layout;
use super::lazy::LazyVec;
use super::ring::{Consumer, Entry, Producer};
use super::wqe::{
    at, parse_connected, parse_datagram, parse_recv, BadSend, Buffers, LocalOp, Route, SendCaps,
    SendRequest,
};
use super::RingBuf;
use crate::mem::{Batch, Cursor, Fill, Filled, Locks, MemError, Part, Reach, Room, Sge};
use crate::proto::{RecvFetch, SendFetch};
use kernel::prelude::*;
use rdma::accounted;
use rdma::umem::odp::Touch;
use zerocopy::IntoBytes;

/// A send queue.
pub(crate) struct SendQueue {
    ring: Consumer<RingBuf>,
    caps: SendCaps,
    slots: LazyVec<Slot>,
    /// Entries or inline data of all slots; each slot has `share` entries.
    store: LazyVec<Sge>,
    share: usize,
}

/// One request in progress, except for its entries.
#[derive(Clone, Copy)]
struct Slot {
    buffers: Buffers,
    cursor: Cursor,
    route: Option<Route>,
    local: Option<LocalOp>,
}

const EMPTY: Slot = Slot {
    buffers: Buffers::Sges(0),
    cursor: Cursor::START,
    route: None,
    local: None,
};

impl SendQueue {
    /// Creates the queue on a new ring, whose entries have room for `max_sge` scatter-gather
    /// entries or the inline data of `caps`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for invalid sizes.
    pub(crate) fn new(ring: Consumer<RingBuf>, caps: SendCaps, max_sge: usize) -> Result<Self> {
        let inline = usize::try_from(caps.max_inline)?.div_ceil(size_of::<Sge>());
        let share = max_sge.max(inline);
        let slots = usize::try_from(ring.layout().slots())?;
        let entries = slots.checked_mul(share).ok_or(EINVAL)?;
        Ok(Self {
            slots: LazyVec::new(slots)?,
            store: LazyVec::new(entries)?,
            ring,
            caps,
            share,
        })
    }

    /// Takes the ring's memory: [`RingBuf::take`].
    pub(crate) fn take_memory(&mut self) -> RingBuf {
        self.ring.mem_mut().take()
    }

    /// Returns the number of slots; the engine's slot numbers are smaller.
    pub(crate) fn slots(&self) -> u32 {
        self.ring.layout().slots()
    }

    /// Returns the number of waiting requests and the length in bytes that the newest of them
    /// claims: an unchecked hint.
    pub(crate) fn waiting(&self) -> (u32, u32) {
        let waiting = self.ring.waiting();
        // The length and the field behind it: a whole word is read at once.
        let mut dma = [0; 8];
        let newest = self.ring.newest(waiting);
        let _: Option<()> = newest.and_then(|entry| entry.read(at::DMA + at::DMA_LENGTH, &mut dma));
        let [length @ .., _, _, _, _] = dma;
        (waiting, u32::from_ne_bytes(length))
    }

    /// Returns whether no requests are waiting.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.waiting() == 0
    }

    /// Takes the next request off the ring into the free slot `slot`. The caller has checked that a
    /// request is waiting.
    #[inline]
    pub(crate) fn fetch(&mut self, slot: u32) -> SendFetch {
        if self.caps.qp_type.is_datagram() {
            self.fetch_datagram(slot)
        } else {
            self.fetch_connected(slot)
        }
    }

    // Not inlined: every turn checks at least once without a waiting request, which is the fast
    // path.
    #[inline(never)]
    fn fetch_connected(&mut self, slot: u32) -> SendFetch {
        self.fetch_by(slot, parse_connected)
    }

    #[inline(never)]
    fn fetch_datagram(&mut self, slot: u32) -> SendFetch {
        self.fetch_by(slot, parse_datagram)
    }

    #[inline(always)]
    fn fetch_by(
        &mut self,
        slot: u32,
        parse: impl FnOnce(&Entry<'_, RingBuf>, &SendCaps, &mut [Sge]) -> Result<SendRequest, BadSend>,
    ) -> SendFetch {
        let entry = self.ring.next_entry();
        let made = make(&mut self.slots, &mut self.store, self.share, slot);
        let Some((place, store)) = made else {
            // Not reached: the engine has no more slots than this queue.
            return SendFetch::Empty;
        };
        let parsed = parse(&entry, &self.caps, store);
        self.ring.take();
        match parsed {
            Ok(SendRequest {
                wqe,
                buffers,
                route,
                local,
            }) => {
                place.buffers = buffers;
                place.cursor = Cursor::START;
                // These are large and usually absent; copy them only if needed.
                if route.is_some() || place.route.is_some() {
                    place.route = route;
                }
                if local.is_some() || place.local.is_some() {
                    place.local = local;
                }
                SendFetch::Wqe(wqe)
            }
            Err(BadSend { wr_id, status }) => {
                *place = EMPTY;
                SendFetch::Bad { wr_id, status }
            }
        }
    }

    /// Returns the oldest ring entry in progress to the user.
    pub(crate) fn retire(&mut self) {
        self.ring.retire(1);
    }

    /// Discards all requests, posted and in progress, as the queue pair is reset.
    pub(crate) fn reset(&mut self) {
        self.ring.reset();
    }

    /// Returns the route of the datagram in `slot`.
    #[inline]
    pub(crate) fn route(&self, slot: u32) -> Option<&Route> {
        self.slots.get(slot as usize)?.route.as_ref()
    }

    /// Returns the parameters of the local operation in `slot`.
    pub(crate) fn local(&self, slot: u32) -> Option<LocalOp> {
        self.slots.get(slot as usize)?.local
    }

    /// Copies bytes of the message in `slot` into a packet.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::gather`].
    pub(crate) fn gather<'r>(
        &mut self,
        slot: u32,
        offset: u32,
        to: Room<'r>,
        locks: Locks,
        batch: &mut Batch<'_>,
    ) -> Result<Filled<'r>, MemError> {
        let (place, store) = place(&mut self.slots, &mut self.store, self.share, slot)
            .ok_or(MemError::ListTooShort)?;
        match place.buffers {
            Buffers::Sges(count) => {
                let list = store.get(..count).ok_or(MemError::ListTooShort)?;
                match locks {
                    Locks::Free => batch.gather(list, &mut place.cursor, offset, to),
                    Locks::Held => batch.gather_kept(list, &mut place.cursor, offset, to),
                }
            }
            Buffers::Inline(len) => {
                let data = store.as_bytes().get(..len);
                data.and_then(|data| data.get(offset as usize..))
                    .and_then(|data| to.fill(data))
                    .ok_or(MemError::ListTooShort)
            }
        }
    }

    /// Returns `len` bytes of the message in `slot`, if they are contiguous in a region and may be
    /// read. Otherwise [`Self::gather`] finds the error, if there is one.
    #[inline(always)]
    pub(crate) fn source<'b>(
        &self,
        slot: u32,
        offset: u32,
        len: u32,
        batch: &'b mut Batch<'_>,
    ) -> Option<Part<'b>> {
        let place = self.slots.get(slot as usize)?;
        let start = (slot as usize).checked_mul(self.share)?;
        match place.buffers {
            Buffers::Sges(count) => {
                let list = self.store.get(start..)?.get(..count)?;
                batch.part_of(list, &place.cursor, offset, len as usize, Touch::Read)
            }
            Buffers::Inline(_) => None,
        }
    }

    /// Checks whether [`Self::gather`] of `len` bytes would succeed now.
    ///
    /// # Errors
    ///
    /// Those of [`Self::gather`].
    pub(crate) fn check_gather(
        &mut self,
        slot: u32,
        offset: u32,
        len: u32,
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let (place, store) = place(&mut self.slots, &mut self.store, self.share, slot)
            .ok_or(MemError::ListTooShort)?;
        match place.buffers {
            Buffers::Sges(count) => {
                let list = store.get(..count).ok_or(MemError::ListTooShort)?;
                batch.check_gather(list, place.cursor, offset, len as usize)
            }
            Buffers::Inline(size) => match offset.checked_add(len) {
                Some(end) if end as usize <= size => Ok(()),
                Some(_) | None => Err(MemError::ListTooShort),
            },
        }
    }

    /// Copies bytes of a response into the buffers of the request in `slot`.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::scatter`].
    #[inline]
    pub(crate) fn scatter(
        &mut self,
        slot: u32,
        offset: u32,
        from: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let (list, cursor) = self.buffers(slot)?;
        batch.scatter(list, cursor, offset, from)
    }

    /// Calls `fill` to write bytes of a response into the buffers of the request in `slot`.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::scatter_by`].
    pub(crate) fn scatter_by(
        &mut self,
        slot: u32,
        offset: u32,
        len: usize,
        fill: Fill<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let (list, cursor) = self.buffers(slot)?;
        batch.scatter_by(list, cursor, offset, len, fill)
    }

    /// Returns the buffers for the response to the request in `slot`.
    #[inline(always)]
    fn buffers(&mut self, slot: u32) -> Result<(&[Sge], &mut Cursor), MemError> {
        let (place, store) = place(&mut self.slots, &mut self.store, self.share, slot)
            .ok_or(MemError::ListTooShort)?;
        let count = match place.buffers {
            Buffers::Sges(count) => count,
            Buffers::Inline(_) => return Err(MemError::ListTooShort),
        };
        let list = store.get(..count).ok_or(MemError::ListTooShort)?;
        Ok((list, &mut place.cursor))
    }
}

/// [`place`] for a slot that may be used for the first time.
#[inline]
fn make<'a>(
    slots: &'a mut LazyVec<Slot>,
    store: &'a mut LazyVec<Sge>,
    share: usize,
    slot: u32,
) -> Option<(&'a mut Slot, &'a mut [Sge])> {
    if slot as usize >= slots.len() {
        make_first(slots, store, share, slot)?;
    }
    place(slots, store, share, slot)
}

#[cold]
fn make_first(
    slots: &mut LazyVec<Slot>,
    store: &mut LazyVec<Sge>,
    share: usize,
    slot: u32,
) -> Option<()> {
    let count = (slot as usize).checked_add(1)?;
    store.make(count.checked_mul(share)?, Sge::default())?;
    slots.make(count, EMPTY)
}

/// Returns a slot and its part of the store.
fn place<'a>(
    slots: &'a mut [Slot],
    store: &'a mut [Sge],
    share: usize,
    slot: u32,
) -> Option<(&'a mut Slot, &'a mut [Sge])> {
    let slot = slot as usize;
    let start = slot.checked_mul(share)?;
    let ours = store.get_mut(start..)?.get_mut(..share)?;
    Some((slots.get_mut(slot)?, ours))
}

/// A receive queue: a queue pair's own or a shared one.
pub(crate) struct RecvQueue {
    ring: Consumer<RingBuf>,
    max_sge: usize,
}

/// The receive request that a queue pair is currently filling.
pub(crate) struct RecvBuffers {
    list: KVec<Sge>,
    count: usize,
    cursor: Cursor,
}

impl RecvQueue {
    /// Creates the queue on a new ring.
    pub(crate) fn new(ring: Consumer<RingBuf>, max_sge: usize) -> Self {
        Self { ring, max_sge }
    }

    /// Returns the number of waiting requests, according to the user's index.
    pub(crate) fn waiting(&self) -> u32 {
        self.ring.waiting()
    }

    /// Takes the ring's memory: [`RingBuf::take`].
    pub(crate) fn take_memory(&mut self) -> RingBuf {
        self.ring.mem_mut().take()
    }

    /// Returns the consumer of the ring, for its dimensions and memory.
    pub(crate) fn ring(&self) -> &Consumer<RingBuf> {
        &self.ring
    }

    /// Takes the next request off the ring, copies its buffers to `buffers` and frees the ring
    /// entry at once.
    pub(crate) fn take(&mut self, buffers: &mut RecvBuffers) -> RecvFetch {
        let Some(entry) = self.ring.peek() else {
            return RecvFetch::Empty;
        };
        let room = buffers.list.len().min(self.max_sge);
        let parsed = match buffers.list.get_mut(..room) {
            Some(list) => parse_recv(&entry, list),
            None => return RecvFetch::Empty,
        };
        self.ring.consume();
        buffers.cursor = Cursor::START;
        match parsed {
            Ok((wqe, count)) => {
                buffers.count = count;
                RecvFetch::Wqe(wqe)
            }
            Err(bad) => {
                buffers.count = 0;
                RecvFetch::Bad(bad)
            }
        }
    }

    /// Discards all posted requests, as the queue pair is reset.
    pub(crate) fn reset(&mut self) {
        self.ring.reset();
    }

    /// Moves a shared receive queue with its waiting requests to a new ring. Returns the old ring,
    /// to be dropped after unlocking, and the producer with which a kernel user posts from now on.
    ///
    /// # Errors
    ///
    /// Returns `fresh` if the requests do not fit; nothing has changed then.
    pub(crate) fn resize(
        &mut self,
        fresh: RingBuf,
        layout: Layout,
    ) -> Result<(RingBuf, Producer<RingBuf>), RingBuf> {
        let old = self.ring.move_to(fresh.clone(), layout)?;
        Ok((old, Producer::resume(fresh, layout)))
    }
}

impl RecvBuffers {
    /// Creates buffers for requests of up to `max_sge` entries. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: usize) -> Result<Self> {
        Ok(Self {
            list: KVec::from_elem(Sge::default(), max_sge, accounted::GFP)?,
            count: 0,
            cursor: Cursor::START,
        })
    }

    /// Copies bytes of a message into the buffers, starting at `offset`.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::scatter`].
    pub(crate) fn scatter(
        &mut self,
        offset: u32,
        from: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let list = self.list.get(..self.count).ok_or(MemError::ListTooShort)?;
        batch.scatter(list, &mut self.cursor, offset, from)
    }

    /// Returns the room for the first `len` bytes of a message, if it is contiguous and may be
    /// written. Otherwise [`Self::scatter`] finds the error, if there is one.
    #[inline]
    pub(crate) fn room<'b>(&self, len: usize, batch: &'b mut Batch<'_>) -> Option<Room<'b>> {
        let list = self.list.get(..self.count)?;
        let part = batch.part_of(list, &self.cursor, 0, len, Touch::Write)?;
        part.room()
    }

    /// [`Self::room`] in pieces, if one buffer contains it.
    #[inline]
    pub(crate) fn reach<'b>(&self, len: usize, batch: &'b mut Batch<'_>) -> Option<Reach<'b>> {
        let list = self.list.get(..self.count)?;
        batch.reach_of(list, &self.cursor, 0, len, Touch::Write)
    }

    /// Calls `fill` to write `len` bytes of a message into the buffers, starting at `offset`.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::scatter_by`].
    pub(crate) fn scatter_by(
        &mut self,
        offset: u32,
        len: usize,
        fill: Fill<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let list = self.list.get(..self.count).ok_or(MemError::ListTooShort)?;
        batch.scatter_by(list, &mut self.cursor, offset, len, fill)
    }
}
