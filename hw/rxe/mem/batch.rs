// SPDX-License-Identifier: GPL-2.0

//! A queue pair's access to memory during a turn.
//!
//! A [`Batch`] lives for one turn of a queue pair's half. It keeps the regions that it has looked
//! up inside their gates, so that a message of many packets needs one lookup. It must not outlive
//! the turn, since deregistration waits for it; thus a peer that stops in the middle of a message
//! does not delay deregistration.
//!
//! Each access is checked anew for rights and range; only the result of the lookup is cached.
//!
//! Context: any in which preemption is disabled while a batch is held; never sleeps.

use super::edge::{AtomicOp, Filled, Part, Reach, Room};
use super::fill::{whole, write_by, Fill, Locks};
use super::region::MrCore;
use super::sge::{self, in_one_entry, Cursor, Sge, TooShort, Walk};
use super::window::MwCore;
use super::{access, index, Claim, Fault, MemError, Memory, PdId, QpTag, MW_INDICES};
use crate::edge::write_back;
use crate::proto::{FlushKind, Key};
use crate::queue::wqe::{BindMw, LocalOp};
use kernel::prelude::*;
use rdma::gate::Entered;
use rdma::sync::rcu;
use rdma::umem::odp::Touch;

/// Number of regions that a batch keeps: one for a header and one for a payload.
const KEPT: usize = 2;

/// Bytes that are flushed per step, as a region's lock may be held.
const FLUSH_PART: usize = 1 << 18;
/// Bytes that are flushed per turn, with bottom halves off. A region may be of any length.
const FLUSH_TURN: usize = 1 << 20;

/// Access to memory for one turn of one queue pair.
pub(crate) struct Batch<'m> {
    memory: &'m Memory,
    pd: PdId,
    qp: QpTag,
    kept: [Option<Held>; KEPT],
    /// Index in `kept` of the next entry to replace.
    next: usize,
    /// The last access that failed because its memory was absent.
    absent: Option<Fault>,
}

/// A region, used inside its gate: its owner, `Mr`, waits until this is dropped.
struct Held {
    index: u32,
    core: Entered<MrCore>,
}

impl<'m> Batch<'m> {
    /// Begins a turn of the queue pair `qp` in `pd`.
    pub(crate) fn new(memory: &'m Memory, pd: PdId, qp: QpTag) -> Self {
        Self {
            memory,
            pd,
            qp,
            kept: [const { None }; KEPT],
            next: 0,
            absent: None,
        }
    }

    /// Returns the last access that failed with [`MemError::Absent`], if it was to memory of this
    /// queue pair or its peer, and not to the source of a [`Fill`].
    pub(crate) fn take_absent(&mut self) -> Option<Fault> {
        self.absent.take()
    }

    /// Fills `to` with bytes of a message from its buffers, starting at `offset`.
    ///
    /// # Errors
    ///
    /// The reason why the buffers may not be read, or `ListTooShort`.
    pub(crate) fn gather<'r>(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'r>,
    ) -> Result<Filled<'r>, MemError> {
        if let Some(part) = self.part_of(list, cursor, offset, to.len(), Touch::Read) {
            return part.read(to).ok_or(MemError::Range);
        }
        self.gather_walk(list, cursor, offset, to)
    }

    /// [`Self::gather`] of bytes that are not contiguous or may not be read.
    #[inline(never)]
    fn gather_walk<'r>(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'r>,
    ) -> Result<Filled<'r>, MemError> {
        self.gather_by(list, cursor, offset, to, Self::read)
    }

    /// [`Self::gather`] for a caller that holds the lock of a region: only from regions that the
    /// batch keeps already, as after [`Self::check_gather`], and that have no lock.
    ///
    /// # Errors
    ///
    /// `Locked` for other regions; otherwise those of [`Self::gather`].
    pub(crate) fn gather_kept<'r>(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'r>,
    ) -> Result<Filled<'r>, MemError> {
        self.gather_by(list, cursor, offset, to, Self::read_kept)
    }

    /// Fills `to` by calls of `read`, one for each piece of the list.
    #[inline(always)]
    fn gather_by<'r>(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'r>,
        read: impl Fn(&mut Self, &Claim, u64, Room<'r>) -> Result<Filled<'r>, MemError>,
    ) -> Result<Filled<'r>, MemError> {
        let mut filled = to.nothing();
        let mut rest = to;
        for piece in Walk::new(list, cursor, offset, rest.len()) {
            let piece = piece?;
            let (part, behind) = rest.split_at(piece.len).ok_or(MemError::ListTooShort)?;
            let claim = self.local(piece.lkey, Touch::Read);
            let some = read(self, &claim, piece.addr, part)?;
            filled = filled.and(some).ok_or(MemError::Range)?;
            rest = behind;
        }
        Ok(filled)
    }

    /// Checks whether [`Self::gather`] of `len` bytes would succeed now.
    ///
    /// # Errors
    ///
    /// Those of [`Self::gather`].
    pub(crate) fn check_gather(
        &mut self,
        list: &[Sge],
        mut cursor: Cursor,
        offset: u32,
        len: usize,
    ) -> Result<(), MemError> {
        let part = self.part_of(list, &cursor, offset, len, Touch::Read);
        if part.is_some() {
            return Ok(());
        }
        for piece in Walk::new(list, &mut cursor, offset, len) {
            let piece = piece?;
            let claim = self.local(piece.lkey, Touch::Read);
            self.touch(&claim, piece.addr, piece.len, |_| ())?;
        }
        Ok(())
    }

    /// Calls `fill` to write `len` bytes into the buffers of a message, starting at `offset`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::scatter`] and of `fill`. Some of the bytes may have been written.
    pub(crate) fn scatter_by(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        len: usize,
        fill: Fill<'_>,
    ) -> Result<(), MemError> {
        if let Some(part) = self.part_of(list, cursor, offset, len, Touch::Write) {
            return fill(0, part.room().ok_or(MemError::Range)?, Locks::Free);
        }
        let mut done = 0usize;
        for piece in Walk::new(list, cursor, offset, len) {
            let piece = piece?;
            let claim = self.local(piece.lkey, Touch::Write);
            self.put(&claim, piece.addr, piece.len, &mut |at, room, locks| {
                fill(done.saturating_add(at), room, locks)
            })?;
            done = done.saturating_add(piece.len);
        }
        Ok(())
    }

    /// Calls `fill` to write `len` bytes to memory that the peer names.
    ///
    /// # Errors
    ///
    /// The reason why it may not be written, or the error of `fill`.
    pub(crate) fn write_remote_by(
        &mut self,
        key: Key,
        va: u64,
        len: usize,
        fill: Fill<'_>,
    ) -> Result<(), MemError> {
        let claim = self.by_peer(key, access::REMOTE_WRITE, Touch::Write);
        self.remote_region(&claim, va, len, |batch, claim, va| {
            batch.put(claim, va, len, fill)
        })
    }

    /// Copies `from` into the buffers of a message, starting at `offset`.
    ///
    /// # Errors
    ///
    /// The reason why the buffers may not be written, or `ListTooShort`. Some of the bytes may have
    /// been written.
    pub(crate) fn scatter(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        from: &[u8],
    ) -> Result<(), MemError> {
        if let Some(part) = self.part_of(list, cursor, offset, from.len(), Touch::Write) {
            return part.write(from).ok_or(MemError::Range);
        }
        self.scatter_walk(list, cursor, offset, from)
    }

    /// [`Self::scatter`] to buffers that are not contiguous or may not be written.
    #[inline(never)]
    fn scatter_walk(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        from: &[u8],
    ) -> Result<(), MemError> {
        let mut rest = from;
        for piece in Walk::new(list, cursor, offset, rest.len()) {
            let piece = piece?;
            let (part, behind) = rest
                .split_at_checked(piece.len)
                .ok_or(MemError::ListTooShort)?;
            let claim = self.local(piece.lkey, Touch::Write);
            self.write(&claim, piece.addr, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// Checks that `key` grants the peer all rights of `access` to a range.
    ///
    /// # Errors
    ///
    /// The reason why it does not.
    pub(crate) fn check_remote(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: u32,
    ) -> Result<(), MemError> {
        let len = usize::try_from(len).map_err(|_| MemError::Range)?;
        let claim = self.by_peer(key, access, Touch::Nothing);
        if self.part_by_peer(&claim, va, len).is_some() {
            return Ok(());
        }
        self.remote(&claim, va, len, |_| ())
    }

    /// Copies memory that the peer reads to `to`.
    ///
    /// # Errors
    ///
    /// The reason why it may not be read.
    pub(crate) fn read_remote<'r>(
        &mut self,
        key: Key,
        va: u64,
        to: Room<'r>,
    ) -> Result<Filled<'r>, MemError> {
        let len = to.len();
        let claim = self.by_peer(key, access::REMOTE_READ, Touch::Read);
        if let Some(part) = self.part_by_peer(&claim, va, len) {
            return part.read(to).ok_or(MemError::Range);
        }
        let filled = self.remote(&claim, va, len, |memory| memory.read(to))?;
        filled.ok_or(MemError::Range)
    }

    /// Copies `from` to memory that the peer writes.
    ///
    /// # Errors
    ///
    /// The reason why it may not be written.
    pub(crate) fn write_remote(&mut self, key: Key, va: u64, from: &[u8]) -> Result<(), MemError> {
        let len = from.len();
        let claim = self.by_peer(key, access::REMOTE_WRITE, Touch::Write);
        if let Some(part) = self.part_by_peer(&claim, va, len) {
            return part.write(from).ok_or(MemError::Range);
        }
        let done = self.remote(&claim, va, len, |memory| memory.write(from))?;
        whole(done, len)
    }

    /// Executes an atomic operation of the peer and returns the previous value.
    ///
    /// # Errors
    ///
    /// The reason why it may not; `Misaligned` if the address is not a multiple of eight.
    pub(crate) fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, MemError> {
        if va % 8 != 0 {
            return Err(MemError::Misaligned);
        }
        let claim = self.by_peer(key, access::REMOTE_ATOMIC, Touch::Write);
        self.remote(&claim, va, 8, |memory| memory.atomic(op))?
            .ok_or(MemError::Misaligned)
    }

    /// Stores eight bytes of the peer atomically.
    ///
    /// # Errors
    ///
    /// The reason why it may not; `Misaligned` if the address is not a multiple of eight.
    pub(crate) fn atomic_write(
        &mut self,
        key: Key,
        va: u64,
        value: [u8; 8],
    ) -> Result<(), MemError> {
        if va % 8 != 0 {
            return Err(MemError::Misaligned);
        }
        let claim = self.by_peer(key, access::REMOTE_WRITE, Touch::Write);
        self.remote(&claim, va, 8, |memory| memory.atomic_write(value))?
            .ok_or(MemError::Misaligned)
    }

    /// Makes data written to a range persistent. Global visibility needs no action, since writes go
    /// to coherent memory. If the whole region is to be flushed, the range is ignored (annex A19).
    ///
    /// `done` is the number of bytes that earlier calls for this range have flushed, and is updated.
    /// Returns whether that is all of it; otherwise another call must follow, in a later turn.
    ///
    /// # Errors
    ///
    /// The reason why it may not; the rights to flush are required.
    pub(crate) fn flush(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        what: FlushKind,
        done: &mut usize,
    ) -> Result<bool, MemError> {
        let mut rights = 0;
        if what.global {
            rights |= access::FLUSH_GLOBAL;
        }
        if what.persistent {
            rights |= access::FLUSH_PERSISTENT;
        }
        let (va, len) = if what.whole_region {
            self.extent(key)?
        } else {
            (va, u64::from(len))
        };
        let len = usize::try_from(len).map_err(|_| MemError::Range)?;
        let claim = self.by_peer(key, rights, Touch::Nothing);
        self.remote(&claim, va, len, |_| ())?;
        if !what.persistent {
            return Ok(true);
        }
        let claim = self.by_peer(key, rights, Touch::Read);
        let stop = done.saturating_add(FLUSH_TURN).min(len);
        while *done < stop {
            let part = stop.saturating_sub(*done).min(FLUSH_PART);
            self.remote(&claim, va.wrapping_add(*done as u64), part, |memory| {
                for part in memory {
                    write_back(&part);
                }
            })?;
            *done = done.saturating_add(part);
        }
        Ok(*done >= len)
    }

    /// Invalidates a key on behalf of a work request (`from_peer` false) or a packet.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be invalidated.
    pub(crate) fn invalidate(&mut self, key: Key, from_peer: bool) -> Result<(), MemError> {
        if is_window(key) {
            let qp = self.qp;
            let pd = self.pd;
            return self
                .memory
                .with_window(key, |mw| mw.invalidate(key, pd, qp, self.memory))?;
        }
        let claim = Claim {
            key: key.0,
            pd: self.pd,
            access: 0,
            from_peer,
            touch: Touch::Nothing,
        };
        self.region(key)?.invalidate(&claim)
    }

    /// Registers a fast region or binds a window.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub(crate) fn local_op(&mut self, op: &LocalOp) -> Result<(), MemError> {
        match *op {
            LocalOp::RegMr { key, access, iova } => {
                let claim = Claim {
                    access,
                    ..self.local(key.0, Touch::Nothing)
                };
                self.region(key)?.register(&claim, iova)
            }
            LocalOp::BindMw(bind) => self.bind(&bind),
        }
    }

    fn bind(&mut self, bind: &BindMw) -> Result<(), MemError> {
        let (pd, qp, memory) = (self.pd, self.qp, self.memory);
        let region = if bind.length == 0 {
            None
        } else {
            Some(self.region(bind.region)?)
        };
        memory.with_window(bind.window, |mw| mw.bind(bind, pd, qp, region, memory))?
    }

    fn read<'r>(&mut self, claim: &Claim, va: u64, to: Room<'r>) -> Result<Filled<'r>, MemError> {
        let filled = self.touch(claim, va, to.len(), |memory| memory.read(to))?;
        filled.ok_or(MemError::Range)
    }

    /// [`Self::read`] of a region that the batch keeps already and that has no lock; `Locked` for
    /// others.
    fn read_kept<'r>(
        &mut self,
        claim: &Claim,
        va: u64,
        to: Room<'r>,
    ) -> Result<Filled<'r>, MemError> {
        let core = self.find_kept(index(Key(claim.key)));
        let core = core.filter(|core| !core.is_locked());
        let core = core.ok_or(MemError::Locked)?;
        let filled = MrCore::with(core, claim, va, to.len(), |from| from.read(to))?;
        filled.ok_or(MemError::Range)
    }

    fn write(&mut self, claim: &Claim, va: u64, from: &[u8]) -> Result<(), MemError> {
        let len = from.len();
        let done = self.touch(claim, va, len, |memory| memory.write(from))?;
        whole(done, len)
    }

    /// Calls `f` with a range that the peer names, by the key of a region or a window.
    fn remote<R>(
        &mut self,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Reach<'_>) -> R,
    ) -> Result<R, MemError> {
        self.remote_region(claim, va, len, |batch, claim, va| {
            batch.touch(claim, va, len, f)
        })
    }

    /// Calls `f` for the region behind a key that the peer names, with a claim and an address that
    /// are valid for the region.
    fn remote_region<R>(
        &mut self,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(&mut Self, &Claim, u64) -> Result<R, MemError>,
    ) -> Result<R, MemError> {
        let key = Key(claim.key);
        if !is_window(key) {
            return f(self, claim, va);
        }
        let (memory, qp) = (self.memory, self.qp);
        memory.with_window(key, |mw| {
            mw.with(claim, va, len, qp, |inside| {
                // The window grants the rights; its region was only required to allow the binding.
                let claim = Claim {
                    key: inside.region.0,
                    access: 0,
                    ..*claim
                };
                f(self, &claim, inside.va)
            })?
        })?
    }

    /// Calls `f` with a range of a region; records the range if it is absent.
    fn touch<R>(
        &mut self,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Reach<'_>) -> R,
    ) -> Result<R, MemError> {
        let core = self.region(Key(claim.key))?;
        let done = MrCore::with(core, claim, va, len, f);
        if matches!(done, Err(MemError::Absent)) {
            self.note_absent(claim, va, len);
        }
        done
    }

    /// Calls `fill` to write a range of a region; records the range if it is absent.
    fn put(&mut self, claim: &Claim, va: u64, len: usize, fill: Fill<'_>) -> Result<(), MemError> {
        let mut filled = true;
        let core = self.region(Key(claim.key))?;
        let done = write_by(core, claim, va, len, &mut |at, room, locks| {
            let done = fill(at, room, locks);
            filled = done.is_ok();
            done
        });
        if filled && matches!(done, Err(MemError::Absent)) {
            // Record the whole range, so that all of it is faulted in at once.
            self.note_absent(claim, va, len);
        }
        done
    }

    fn note_absent(&mut self, claim: &Claim, va: u64, len: usize) {
        self.absent = Some(Fault {
            key: Key(claim.key),
            va,
            len,
            touch: claim.touch,
        });
    }

    /// Returns the range of a region or a window.
    fn extent(&mut self, key: Key) -> Result<(u64, u64), MemError> {
        if is_window(key) {
            return self.memory.with_window(key, MwCore::extent)?;
        }
        self.region(key)?.extent()
    }

    fn local(&self, lkey: u32, touch: Touch) -> Claim {
        Claim {
            key: lkey,
            pd: self.pd,
            access: match touch {
                Touch::Write => access::LOCAL_WRITE,
                Touch::Read | Touch::Nothing => 0,
            },
            from_peer: false,
            touch,
        }
    }

    fn by_peer(&self, key: Key, access: u32, touch: Touch) -> Claim {
        Claim {
            key: key.0,
            pd: self.pd,
            access,
            from_peer: true,
            touch,
        }
    }

    /// Returns a range of a region as one contiguous part, the common case. On `None` the caller
    /// takes the general path, which finds the error.
    #[inline(always)]
    fn part(&mut self, claim: &Claim, va: u64, len: usize) -> Option<Part<'_>> {
        MrCore::part(self.find(Key(claim.key))?, claim, va, len)
    }

    /// [`Self::part`] for a message's buffers, if one entry of the list covers the range. It needs no
    /// lock ([`Locks::Free`]).
    #[inline(always)]
    pub(crate) fn part_of(
        &mut self,
        list: &[Sge],
        cursor: &Cursor,
        offset: u32,
        len: usize,
        touch: Touch,
    ) -> Option<Part<'_>> {
        let sge::Piece { lkey, addr, len } = in_one_entry(list, cursor, offset, len)?;
        let claim = self.local(lkey, touch);
        self.part(&claim, addr, len)
    }

    /// [`Self::part_of`] for a range that need not be contiguous.
    #[inline]
    pub(crate) fn reach_of(
        &mut self,
        list: &[Sge],
        cursor: &Cursor,
        offset: u32,
        len: usize,
        touch: Touch,
    ) -> Option<Reach<'_>> {
        let sge::Piece { lkey, addr, len } = in_one_entry(list, cursor, offset, len)?;
        let claim = self.local(lkey, touch);
        MrCore::reach(self.find(Key(lkey))?, &claim, addr, len)
    }

    /// [`Self::part`] for a range that the peer names by a region's key.
    #[inline(always)]
    fn part_by_peer(&mut self, claim: &Claim, va: u64, len: usize) -> Option<Part<'_>> {
        if is_window(Key(claim.key)) {
            return None;
        }
        self.part(claim, va, len)
    }

    /// Finds a region by the index in a key and stays inside its gate.
    #[inline]
    fn region(&mut self, key: Key) -> Result<&Entered<MrCore>, MemError> {
        self.find(key).ok_or(MemError::Key)
    }

    /// [`Self::region`]; `None` if there is none or it is being deregistered.
    #[inline]
    fn find(&mut self, key: Key) -> Option<&Entered<MrCore>> {
        let index = index(key);
        let place = match self.kept.iter().position(|held| has_index(held, index)) {
            Some(place) => place,
            None => return self.enter(index),
        };
        self.kept.get(place)?.as_ref().map(|held| &held.core)
    }

    /// Returns a region if the batch keeps it.
    fn find_kept(&self, index: u32) -> Option<&Entered<MrCore>> {
        let held = self.kept.iter().find(|held| has_index(held, index))?;
        held.as_ref().map(|held| &held.core)
    }

    /// Enters a region that the batch does not keep yet.
    #[inline(never)]
    fn enter(&mut self, index: u32) -> Option<&Entered<MrCore>> {
        let core = self.memory.enter(index)?;
        let place = self.next % KEPT;
        self.next = place.wrapping_add(1);
        let held = self.kept.get_mut(place)?.insert(Held { index, core });
        Some(&held.core)
    }
}

impl Memory {
    /// Enters the gate of the region with this index, if it exists.
    fn enter(&self, index: u32) -> Option<Entered<MrCore>> {
        let guard = rcu::read_lock();
        self.regions.borrow(index, &guard)?.enter()
    }

    /// Faults in pages of an on-demand region; without `may_fault`, only those that its process has
    /// in memory. May sleep for long, or for ever. Process context.
    ///
    /// # Errors
    ///
    /// Those of [`MrCore::fault_in`]; `EINVAL` if the key does not name a region.
    pub(crate) fn fault_in(&self, fault: &Fault, may_fault: bool) -> Result {
        // Not inside the gate: a fault may take for ever, and the owner does not wait for it.
        let core = self.regions.get(index(fault.key)).ok_or(EINVAL)?;
        core.outside().fault_in(fault, may_fault)
    }

    /// Like [`Memory::fault_in`], for the owner of a region in `pd`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the key does not name an on-demand region in `pd`, `EPERM` if the region is not
    /// writable, `EFAULT` if the range is outside the region or not mapped.
    pub(crate) fn prefetch(&self, pd: PdId, fault: &Fault, may_fault: bool) -> Result {
        // Not inside the gate: a fault may take for ever, and the owner does not wait for it.
        let core = self.regions.get(index(fault.key)).ok_or(EINVAL)?;
        let core = core.outside();
        core.check_domain(pd)?;
        match core.fault_in(fault, may_fault) {
            Err(error) if error == EACCES => Err(EPERM),
            done => done,
        }
    }

    /// Checks that the owner of a region in `pd` may have it faulted in.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the key does not name an on-demand region in `pd`.
    pub(crate) fn check_prefetch(&self, pd: PdId, fault: &Fault) -> Result {
        let guard = rcu::read_lock();
        let core = self.regions.borrow(index(fault.key), &guard);
        let core = core.ok_or(EINVAL)?;
        core.outside().check_domain(pd)?;
        match core.outside().is_on_demand(fault.key) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// Calls `f` with the window at a key's index. `f` must check the key.
    fn with_window<R>(&self, key: Key, f: impl FnOnce(&MwCore) -> R) -> Result<R, MemError> {
        let guard = rcu::read_lock();
        let window = self
            .windows
            .borrow(index(key), &guard)
            .ok_or(MemError::Key)?;
        Ok(f(&window))
    }

    /// Removes a window's binding from the region with this key.
    pub(super) fn unbind(&self, region: Key) {
        let guard = rcu::read_lock();
        if let Some(core) = self.regions.borrow(index(region), &guard) {
            core.outside().unbind_window();
        }
    }
}

#[inline(always)]
fn has_index(held: &Option<Held>, index: u32) -> bool {
    held.as_ref().is_some_and(|held| held.index == index)
}

fn is_window(key: Key) -> bool {
    MW_INDICES.contains(&index(key))
}

impl From<TooShort> for MemError {
    fn from(TooShort: TooShort) -> Self {
        MemError::ListTooShort
    }
}
