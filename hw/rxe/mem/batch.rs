// SPDX-License-Identifier: GPL-2.0

//! What a queue pair does with memory while it runs.
//!
//! A [`Batch`] lives as long as one run of a queue pair's half: a doorbell, a run of
//! packets. It keeps the regions it found inside their gates, so that a message of
//! many packets looks its region up once; and it must not outlive the run, since
//! deregistration waits for it. A peer that stops in the middle of a message
//! therefore holds up nobody.
//!
//! Each access is checked anew, for rights and range: what is kept is only the way
//! to the region.
//!
//! Context: any that may not be preempted while it holds a batch; never sleeps.

use super::copy::{AtomicOp, Part, Reach, Room};
use super::region::MrCore;
use super::sge::{self, in_one_entry, Cursor, Sge, TooShort, Walk};
use super::window::MwCore;
use super::{access, index, Claim, Fault, MemError, Memory, PdId, QpTag, MW_INDICES};
use crate::edge::write_back;
use crate::proto::{FlushKind, Key};
use crate::queue::wqe::{BindMw, LocalOp};
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::gate::Pass;
use rdma::sync::rcu;
use rdma::umem::odp::Touch;

/// How many regions a batch keeps: a header's and a payload's.
const KEPT: usize = 2;

/// Bytes that a copy under a region's lock takes at a time; they are on the stack.
const BOUNCE: usize = 256;

/// Bytes that are flushed at a time: it may be under a region's lock.
const FLUSH_PART: usize = 1 << 18;

/// Where bytes come from that are copied only once: it puts those of a message from
/// a given place on into a room. It may take leaf locks, but not sleep.
pub(crate) type Fill<'f> = &'f mut dyn FnMut(usize, Room<'_>) -> Result<(), MemError>;

/// Access to memory for one run of one queue pair.
pub(crate) struct Batch<'m> {
    memory: &'m Memory,
    pd: PdId,
    qp: QpTag,
    kept: [Option<Held<'m>>; KEPT],
    /// Which of `kept` goes next.
    next: usize,
    /// What was wanted last and was not there.
    absent: Option<Fault>,
}

/// A region, from inside its gate.
///
/// # Invariants
///
/// `_pass` is one of `core`'s gate, so that `core` is alive: its owner, `Mr`, gives
/// up its reference only after it has closed the gate and waited for all passes.
struct Held<'m> {
    index: u32,
    core: NonNull<MrCore>,
    _pass: Pass<'m>,
}

impl Held<'_> {
    fn core(&self) -> &MrCore {
        // SAFETY: Alive by the type invariant, and only ever shared.
        unsafe { self.core.as_ref() }
    }
}

impl<'m> Batch<'m> {
    /// Begins a run of the queue pair `qp` in `pd`.
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

    /// What the last access wanted that failed with [`MemError::Absent`], if it was one to
    /// memory of this queue pair or its peer, and not to where a [`Fill`] has it from.
    pub(crate) fn take_absent(&mut self) -> Option<Fault> {
        self.absent.take()
    }

    /// Fills `to` with bytes of a message out of its buffers, from `offset` on.
    ///
    /// # Errors
    ///
    /// Why the buffers may not be read, or `ListTooShort`.
    pub(crate) fn gather(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'_>,
    ) -> Result<(), MemError> {
        if let Some(part) = self.part_of(list, cursor, offset, to.len(), Touch::Read) {
            return part.read(to).ok_or(MemError::Range);
        }
        self.gather_walk(list, cursor, offset, to)
    }

    /// [`Self::gather`] of what is not in one piece, or may not be read.
    #[inline(never)]
    fn gather_walk(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        to: Room<'_>,
    ) -> Result<(), MemError> {
        let mut rest = to;
        for piece in Walk::new(list, cursor, offset, rest.len()) {
            let piece = piece?;
            let (part, behind) = rest.split_at(piece.len).ok_or(MemError::ListTooShort)?;
            let claim = self.local(piece.lkey, Touch::Read);
            self.read(&claim, piece.addr, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// Checks that [`Self::gather`] of `len` bytes would succeed now.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// Has `fill` write `len` bytes into the buffers of a message, from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Self::scatter`], and what `fill` says. Some of the bytes may have been
    /// written.
    pub(crate) fn scatter_by(
        &mut self,
        list: &[Sge],
        cursor: &mut Cursor,
        offset: u32,
        len: usize,
        fill: Fill<'_>,
    ) -> Result<(), MemError> {
        if let Some(part) = self.part_of(list, cursor, offset, len, Touch::Write) {
            return fill(0, part.room().ok_or(MemError::Range)?);
        }
        let mut done = 0usize;
        for piece in Walk::new(list, cursor, offset, len) {
            let piece = piece?;
            let claim = self.local(piece.lkey, Touch::Write);
            self.put(&claim, piece.addr, piece.len, &mut |at, room| {
                fill(done.saturating_add(at), room)
            })?;
            done = done.saturating_add(piece.len);
        }
        Ok(())
    }

    /// Has `fill` write what the peer writes.
    ///
    /// # Errors
    ///
    /// Why it may not be written, or what `fill` says.
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

    /// Copies `from` into the buffers of a message, from `offset` on.
    ///
    /// # Errors
    ///
    /// Why the buffers may not be written, or `ListTooShort`. Some of the bytes may
    /// have been written.
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

    /// [`Self::scatter`] into what is not in one piece, or may not be written.
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

    /// Checks that `key` gives the peer all rights of `access` to a range.
    ///
    /// # Errors
    ///
    /// Why it does not.
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

    /// Copies memory that the peer reads.
    ///
    /// # Errors
    ///
    /// Why it may not be read.
    pub(crate) fn read_remote(&mut self, key: Key, va: u64, to: Room<'_>) -> Result<(), MemError> {
        let len = to.len();
        let claim = self.by_peer(key, access::REMOTE_READ, Touch::Read);
        if let Some(part) = self.part_by_peer(&claim, va, len) {
            return part.read(to).ok_or(MemError::Range);
        }
        let done = self.remote(&claim, va, len, |memory| memory.read(to))?;
        whole(done, len)
    }

    /// Copies what the peer writes.
    ///
    /// # Errors
    ///
    /// Why it may not be written.
    pub(crate) fn write_remote(&mut self, key: Key, va: u64, from: &[u8]) -> Result<(), MemError> {
        let len = from.len();
        let claim = self.by_peer(key, access::REMOTE_WRITE, Touch::Write);
        if let Some(part) = self.part_by_peer(&claim, va, len) {
            return part.write(from).ok_or(MemError::Range);
        }
        let done = self.remote(&claim, va, len, |memory| memory.write(from))?;
        whole(done, len)
    }

    /// Carries out the peer's atomic, and returns what was there before.
    ///
    /// # Errors
    ///
    /// Why it may not; `Misaligned` if the address is no multiple of eight.
    pub(crate) fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, MemError> {
        if va % 8 != 0 {
            return Err(MemError::Misaligned);
        }
        let claim = self.by_peer(key, access::REMOTE_ATOMIC, Touch::Write);
        self.remote(&claim, va, 8, |memory| memory.atomic(op))?
            .ok_or(MemError::Misaligned)
    }

    /// Stores eight bytes of the peer at once.
    ///
    /// # Errors
    ///
    /// Why it may not; `Misaligned` if the address is no multiple of eight.
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

    /// Makes what was written to a range persistent; that it is visible needs nothing,
    /// since it was written to memory that all see. If the whole region is to be
    /// flushed, the range means nothing (annex A19).
    ///
    /// # Errors
    ///
    /// Why it may not; among the rights are those to flush.
    pub(crate) fn flush(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        what: FlushKind,
    ) -> Result<(), MemError> {
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
            return Ok(());
        }
        let claim = self.by_peer(key, rights, Touch::Read);
        let (mut va, mut left) = (va, len);
        while left != 0 {
            let part = left.min(FLUSH_PART);
            self.remote(&claim, va, part, |memory| {
                for part in memory {
                    write_back(&part);
                }
            })?;
            va = va.wrapping_add(part as u64);
            left = left.saturating_sub(part);
        }
        Ok(())
    }

    /// Invalidates a key for a work request (`from_peer` false) or a packet.
    ///
    /// # Errors
    ///
    /// Why it cannot be invalidated.
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

    /// Registers a fast region, or binds a window.
    ///
    /// # Errors
    ///
    /// Why it cannot.
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

    fn read(&mut self, claim: &Claim, va: u64, to: Room<'_>) -> Result<(), MemError> {
        let len = to.len();
        let done = self.touch(claim, va, len, |memory| memory.read(to))?;
        whole(done, len)
    }

    fn write(&mut self, claim: &Claim, va: u64, from: &[u8]) -> Result<(), MemError> {
        let len = from.len();
        let done = self.touch(claim, va, len, |memory| memory.write(from))?;
        whole(done, len)
    }

    /// Lets `f` use a range that the peer names, through a region's key or a
    /// window's.
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

    /// Lets `f` use the region behind a key that the peer names, by a claim and an
    /// address to show to that.
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
                // The window has the rights; its region had only to allow binding it.
                let claim = Claim {
                    key: inside.region.0,
                    access: 0,
                    ..*claim
                };
                f(self, &claim, inside.va)
            })?
        })?
    }

    /// Lets `f` use a range of a region, and notes what was not there.
    fn touch<R>(
        &mut self,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Reach<'_>) -> R,
    ) -> Result<R, MemError> {
        let done = self.region(Key(claim.key))?.with(claim, va, len, f);
        if matches!(done, Err(MemError::Absent)) {
            self.note_absent(claim, va, len);
        }
        done
    }

    /// Has `fill` write a range of a region, and notes what was not there of that.
    fn put(&mut self, claim: &Claim, va: u64, len: usize, fill: Fill<'_>) -> Result<(), MemError> {
        let mut filled = true;
        let core = self.region(Key(claim.key))?;
        let done = write_by(core, claim, va, len, &mut |at, room| {
            let done = fill(at, room);
            filled = done.is_ok();
            done
        });
        if filled && matches!(done, Err(MemError::Absent)) {
            // All of it, so that it comes at once.
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

    /// The range of a region or a window.
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

    /// A range of a region as one part, as most are. Who gets `None` goes the long way, and
    /// learns there why.
    #[inline(always)]
    fn part(&mut self, claim: &Claim, va: u64, len: usize) -> Option<Part<'_>> {
        self.find(Key(claim.key))?.part(claim, va, len)
    }

    /// [`Self::part`] of a message's buffers, if one entry of the list has it all.
    #[inline(always)]
    fn part_of(
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

    /// [`Self::part`] of what the peer names by a region's key.
    #[inline(always)]
    fn part_by_peer(&mut self, claim: &Claim, va: u64, len: usize) -> Option<Part<'_>> {
        if is_window(Key(claim.key)) {
            return None;
        }
        self.part(claim, va, len)
    }

    /// Finds a region by the index in a key, and stays inside its gate.
    #[inline]
    fn region(&mut self, key: Key) -> Result<&MrCore, MemError> {
        self.find(key).ok_or(MemError::Key)
    }

    /// [`Self::region`]; `None` if there is none, or none any more.
    #[inline]
    fn find(&mut self, key: Key) -> Option<&MrCore> {
        let index = index(key);
        let is_it = |held: &Option<Held<'_>>| held.as_ref().is_some_and(|h| h.index == index);
        let place = match self.kept.iter().position(is_it) {
            Some(place) => place,
            None => return self.enter(index),
        };
        self.kept.get(place)?.as_ref().map(Held::core)
    }

    /// Finds a region that the batch does not keep yet.
    #[inline(never)]
    fn enter(&mut self, index: u32) -> Option<&MrCore> {
        let held = self.memory.enter(index)?;
        let place = self.next % KEPT;
        self.next = place.wrapping_add(1);
        Some(self.kept.get_mut(place)?.insert(held).core())
    }
}

impl Memory {
    /// Enters the gate of the region with this index, if there is one.
    fn enter(&self, index: u32) -> Option<Held<'_>> {
        let guard = rcu::read_lock();
        let found = self.regions.borrow(index, &guard)?;
        let core = NonNull::from(&*found);
        // SAFETY: The object is alive now, by the read section, and stays so while
        // the pass taken here exists (see `Held`). If the gate is closed, the
        // reference is not used beyond the read section.
        let pass = unsafe { core.as_ref() }.gate.try_enter()?;
        // INVARIANT: It is a pass of `core`'s gate.
        Some(Held {
            index,
            core,
            _pass: pass,
        })
    }

    /// Brings in pages that somebody waits for, of a region on demand; without
    /// `may_fault` those only that its process has in memory. May sleep, for long, and
    /// holds up deregistration of that region meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`MrCore::fault_in`]; `EINVAL` if the key names no region.
    pub(crate) fn fault_in(&self, fault: &Fault, may_fault: bool) -> Result {
        let held = self.enter(index(fault.key)).ok_or(EINVAL)?;
        held.core().fault_in(fault, may_fault)
    }

    /// As [`Memory::fault_in`], of a region in `pd`, for its owner.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the key names no region on demand in `pd`, `EPERM` if it may not be
    /// written to, `EFAULT` if it has no such bytes.
    pub(crate) fn prefetch(&self, pd: PdId, fault: &Fault, may_fault: bool) -> Result {
        let held = self.enter(index(fault.key)).ok_or(EINVAL)?;
        held.core().check_domain(pd)?;
        match held.core().fault_in(fault, may_fault) {
            Err(error) if error == EACCES => Err(EPERM),
            done => done,
        }
    }

    /// Lets `f` use the window that a key names. The key is `f`'s to check.
    fn with_window<R>(&self, key: Key, f: impl FnOnce(&MwCore) -> R) -> Result<R, MemError> {
        let guard = rcu::read_lock();
        let window = self
            .windows
            .borrow(index(key), &guard)
            .ok_or(MemError::Key)?;
        Ok(f(&window))
    }

    /// Takes back a window's binding to the region with this key.
    pub(super) fn unbind(&self, region: Key) {
        let guard = rcu::read_lock();
        if let Some(core) = self.regions.borrow(index(region), &guard) {
            core.unbind_window();
        }
    }
}

fn is_window(key: Key) -> bool {
    MW_INDICES.contains(&index(key))
}

/// Has `fill` write a range of a region. While memory of a fast region or one on demand is
/// written a lock is held, which `fill` may want as well: so it goes by way of the stack.
fn write_by(
    core: &MrCore,
    claim: &Claim,
    va: u64,
    len: usize,
    fill: Fill<'_>,
) -> Result<(), MemError> {
    let mut done = 0usize;
    if !core.is_locked() {
        return core.with(claim, va, len, |memory| {
            for part in memory {
                let room = part.room().ok_or(MemError::Range)?;
                let some = room.len();
                fill(done, room)?;
                done = done.saturating_add(some);
            }
            whole(done, len)
        })?;
    }
    let mut bounce = [0; BOUNCE];
    while done < len {
        let some = bounce.len().min(len.saturating_sub(done));
        let part = bounce.get_mut(..some).ok_or(MemError::Range)?;
        fill(done, Room::of(part))?;
        let at = u64::try_from(done)
            .ok()
            .and_then(|done| va.checked_add(done));
        let put = core.with(claim, at.ok_or(MemError::Range)?, some, |memory| {
            memory.write(part)
        })?;
        whole(put, some)?;
        done = done.saturating_add(some);
    }
    Ok(())
}

/// A copy ends early only if a region's pieces do not add up to the range it
/// agreed to, which would be a mistake of ours; better an error than silence.
fn whole(done: usize, len: usize) -> Result<(), MemError> {
    if done == len {
        Ok(())
    } else {
        Err(MemError::Range)
    }
}

impl From<TooShort> for MemError {
    fn from(TooShort: TooShort) -> Self {
        MemError::ListTooShort
    }
}
