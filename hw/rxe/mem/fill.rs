// SPDX-License-Identifier: GPL-2.0

//! Writes into regions whose bytes come from a function: a packet, or another region, which may have a
//! lock of its own.

use super::edge::Room;
use super::region::MrCore;
use super::{Claim, MemError};
use rdma::gate::Entered;

/// Bytes per step of a copy between two regions that both have a lock; the buffer is on the stack.
const BOUNCE: usize = 256;

/// Source of bytes that are copied only once: writes the bytes of a message from the given offset
/// on into a room. It must not sleep. With [`Locks::Held`] it must not take the lock of a region or a
/// window, and not enter a gate; if it cannot do without, it fails with [`MemError::Locked`] and is
/// called again later.
pub(crate) type Fill<'f> = &'f mut dyn FnMut(usize, Room<'_>, Locks) -> Result<(), MemError>;

/// Whether the caller of a [`Fill`] holds the lock of the region that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    Free,
    Held,
}

/// Calls `fill` to write a range of a region. A fast or on-demand region is written under its lock.
/// If `fill` needs such a lock as well, the bytes are first copied to the stack.
pub(super) fn write_by(
    core: &Entered<MrCore>,
    claim: &Claim,
    va: u64,
    len: usize,
    fill: Fill<'_>,
) -> Result<(), MemError> {
    let locks = match core.is_locked() {
        true => Locks::Held,
        false => Locks::Free,
    };
    let mut done = 0usize;
    let written = MrCore::with(core, claim, va, len, |memory| {
        for part in memory {
            let room = part.room().ok_or(MemError::Range)?;
            let some = room.len();
            fill(done, room, locks)?;
            done = done.saturating_add(some);
        }
        whole(done, len)
    })?;
    match written {
        Err(MemError::Locked) => write_bounced(core, claim, va, len, fill),
        Ok(()) | Err(_) => written,
    }
}

/// [`write_by`] by way of the stack, for a region that has a lock.
#[inline(never)]
fn write_bounced(
    core: &Entered<MrCore>,
    claim: &Claim,
    va: u64,
    len: usize,
    fill: Fill<'_>,
) -> Result<(), MemError> {
    let mut done = 0usize;
    let mut bounce = [0; BOUNCE];
    while done < len {
        let some = bounce.len().min(len.saturating_sub(done));
        let part = bounce.get_mut(..some).ok_or(MemError::Range)?;
        fill(done, Room::of(part), Locks::Free)?;
        let at = u64::try_from(done)
            .ok()
            .and_then(|done| va.checked_add(done));
        let at = at.ok_or(MemError::Range)?;
        let put = MrCore::with(core, claim, at, some, |memory| memory.write(part))?;
        whole(put, some)?;
        done = done.saturating_add(some);
    }
    Ok(())
}

/// Checks that a copy was complete. It is shorter only if a region's pieces do not add up to the
/// range that was granted, which would be a bug; report it rather than ignore it.
pub(super) fn whole(done: usize, len: usize) -> Result<(), MemError> {
    if done == len {
        Ok(())
    } else {
        Err(MemError::Range)
    }
}
