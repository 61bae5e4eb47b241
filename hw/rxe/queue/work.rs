// SPDX-License-Identifier: GPL-2.0

//! Send and receive queues: a consumer, and private room for what it took.
//!
//! [`SendQueue`] belongs to the send half of a queue pair and answers its `fetch`,
//! `retire` and payload calls; [`RecvQueue`] is a queue pair's own or a shared one.
//! A request in work is kept in a slot of kernel memory; the ring is not read again.
//!
//! Context: `&mut self`, brought by the half's run token or, for a shared receive
//! queue, by its lock. Only the constructors sleep.

use super::layout::Layout;
use super::lazy::LazyVec;
use super::ring::{Consumer, Producer};
use super::wqe::{
    at, parse_recv, parse_send, BadSend, Buffers, LocalOp, Route, SendCaps, SendRequest,
};
use super::RingBuf;
use crate::mem::{Batch, Cursor, Fill, MemError, Room, Sge};
use crate::proto::{RecvFetch, SendFetch};
use kernel::prelude::*;
use zerocopy::IntoBytes;

/// A send queue.
pub(crate) struct SendQueue {
    ring: Consumer<RingBuf>,
    caps: SendCaps,
    slots: LazyVec<Slot>,
    /// Entries or inline data of all slots, `share` entries each.
    store: LazyVec<Sge>,
    share: usize,
}

/// One request in work, but for its entries.
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
    /// The queue on a fresh ring, whose entries have room for `max_sge` scatter-gather
    /// entries or the inline data of `caps`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for absurd sizes.
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

    /// How many slots there are; the engine's numbers stay below.
    pub(crate) fn slots(&self) -> u32 {
        self.ring.layout().slots()
    }

    /// How many requests wait to be taken, and how many bytes the newest of them says that
    /// it has: a hint, which nobody has checked.
    pub(crate) fn waiting(&self) -> (u32, u32) {
        let mut length = [0; 4];
        let newest = self.ring.peek_newest();
        let _: Option<()> =
            newest.and_then(|entry| entry.read(at::DMA + at::DMA_LENGTH, &mut length));
        (self.ring.waiting(), u32::from_ne_bytes(length))
    }

    /// Whether no request waits to be taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.waiting() == 0
    }

    /// Takes the next request off the ring into `slot`, which is free; who calls has seen that
    /// there is one.
    // By itself: a turn asks until there is none, so that is what it hears at least once.
    #[inline(never)]
    pub(crate) fn fetch(&mut self, slot: u32) -> SendFetch {
        let entry = self.ring.next_entry();
        let made = make(&mut self.slots, &mut self.store, self.share, slot);
        let Some((place, store)) = made else {
            // The engine has fewer slots than we, so it does not ask for this one.
            return SendFetch::Empty;
        };
        let parsed = parse_send(&entry, &self.caps, store);
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
                // These are large and mostly absent; only otherwise they are copied.
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

    /// Gives the oldest ring entry in work back to the user.
    pub(crate) fn retire(&mut self) {
        self.ring.retire(1);
    }

    /// Forgets everything, posted and in work: the queue pair is reset.
    pub(crate) fn reset(&mut self) {
        self.ring.reset();
    }

    /// The way of the datagram in `slot`.
    pub(crate) fn route(&self, slot: u32) -> Option<Route> {
        self.slots.get(slot as usize)?.route
    }

    /// The parameters of the local operation in `slot`.
    pub(crate) fn local(&self, slot: u32) -> Option<LocalOp> {
        self.slots.get(slot as usize)?.local
    }

    /// Copies bytes of the message in `slot` into a packet.
    ///
    /// # Errors
    ///
    /// As [`Batch::gather`].
    pub(crate) fn gather(
        &mut self,
        slot: u32,
        offset: u32,
        to: Room<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let (place, store) = place(&mut self.slots, &mut self.store, self.share, slot)
            .ok_or(MemError::ListTooShort)?;
        match place.buffers {
            Buffers::Sges(count) => {
                let list = store.get(..count).ok_or(MemError::ListTooShort)?;
                batch.gather(list, &mut place.cursor, offset, to)
            }
            Buffers::Inline(len) => {
                let data = store.as_bytes().get(..len);
                data.and_then(|data| data.get(offset as usize..))
                    .and_then(|data| to.fill(data))
                    .ok_or(MemError::ListTooShort)
            }
        }
    }

    /// Checks that [`Self::gather`] of `len` bytes would succeed now.
    ///
    /// # Errors
    ///
    /// As there.
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
    /// As [`Batch::scatter`].
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

    /// Has `fill` write bytes of a response into the buffers of the request in `slot`.
    ///
    /// # Errors
    ///
    /// As [`Batch::scatter_by`].
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

    /// Where the response to the request in `slot` goes.
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

/// [`place`], of a slot that may be used for the first time.
#[inline]
fn make<'a>(
    slots: &'a mut LazyVec<Slot>,
    store: &'a mut LazyVec<Sge>,
    share: usize,
    slot: u32,
) -> Option<(&'a mut Slot, &'a mut [Sge])> {
    if slot as usize >= slots.len() {
        let count = (slot as usize).checked_add(1)?;
        store.make(count.checked_mul(share)?, Sge::default())?;
        slots.make(count, EMPTY)?;
    }
    place(slots, store, share, slot)
}

/// A slot and its share of the store.
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

/// A receive queue, a queue pair's own or a shared one.
pub(crate) struct RecvQueue {
    ring: Consumer<RingBuf>,
    max_sge: usize,
}

/// The receive request that a queue pair is filling.
pub(crate) struct RecvBuffers {
    list: KVec<Sge>,
    count: usize,
    cursor: Cursor,
}

impl RecvQueue {
    /// The queue on a fresh ring.
    pub(crate) fn new(ring: Consumer<RingBuf>, max_sge: usize) -> Self {
        Self { ring, max_sge }
    }

    /// How many requests wait, as the user has it.
    pub(crate) fn waiting(&self) -> u32 {
        self.ring.waiting()
    }

    /// Takes the ring's memory: [`RingBuf::take`].
    pub(crate) fn take_memory(&mut self) -> RingBuf {
        self.ring.mem_mut().take()
    }

    /// The ring's end, for its dimensions and memory.
    pub(crate) fn ring(&self) -> &Consumer<RingBuf> {
        &self.ring
    }

    /// Takes the next request off the ring, and frees its entry at once: its buffers
    /// are copied into `buffers`.
    pub(crate) fn take(&mut self, buffers: &mut RecvBuffers) -> RecvFetch {
        let Some(entry) = self.ring.peek() else {
            return RecvFetch::Empty;
        };
        let room = buffers.list.len().min(self.max_sge);
        let parsed = match buffers.list.get_mut(..room) {
            Some(list) => parse_recv(&entry, list),
            None => return RecvFetch::Empty,
        };
        self.ring.take();
        self.ring.retire(1);
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

    /// Forgets all that was posted: the queue pair is reset.
    pub(crate) fn reset(&mut self) {
        self.ring.reset();
    }

    /// Moves a shared receive queue to a new ring, with what waits in it. Returns the
    /// old ring, to be dropped after unlocking, and where a kernel user posts from
    /// now on.
    ///
    /// # Errors
    ///
    /// Gives `fresh` back if that does not fit; nothing has changed then.
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
    /// Room for requests of up to `max_sge` entries. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: usize) -> Result<Self> {
        Ok(Self {
            list: KVec::from_elem(Sge::default(), max_sge, GFP_KERNEL_ACCOUNT)?,
            count: 0,
            cursor: Cursor::START,
        })
    }

    /// Copies bytes of a message into the buffers, from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Batch::scatter`].
    pub(crate) fn scatter(
        &mut self,
        offset: u32,
        from: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<(), MemError> {
        let list = self.list.get(..self.count).ok_or(MemError::ListTooShort)?;
        batch.scatter(list, &mut self.cursor, offset, from)
    }

    /// Has `fill` write `len` bytes of a message into the buffers, from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Batch::scatter_by`].
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
