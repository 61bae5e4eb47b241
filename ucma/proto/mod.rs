// SPDX-License-Identifier: GPL-2.0

//! Pure engines of `rdma_ucm`, for bytes from programs. No kernel calls, no allocation.
//!
//! * [`command`]: commands, and all refusals that need no object;
//! * [`option`]: values of options;
//! * [`answer`]: answers to queries;
//! * [`event`]: events as programs read them;
//! * [`life`]: states of a context;
//! * [`queue`]: backlog, and bounds on events that wait;
//! * [`joins`]: joins of multicast groups, which the connection manager knows by address only.
//!
//! Specification: `include/uapi/rdma/rdma_user_cm.h`.

pub mod answer;
pub mod command;
pub mod event;
pub mod joins;
pub mod life;
pub mod option;
pub mod queue;

/// Why a command is refused before any object is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// `EINVAL`.
    Invalid,
    /// `ENOSPC`: there is not enough room for the response.
    NoRoom,
    /// `ENOSYS`: there is no such command or option.
    Unknown,
}

/// Returns `N` bytes at an offset.
#[inline]
fn bytes<const N: usize>(from: &[u8], at: usize) -> Result<[u8; N], Wrong> {
    from.get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .ok_or(Wrong::Invalid)
}

/// Copies as much as fits.
fn put(to: &mut [u8], at: usize, from: &[u8]) {
    let to = to.get_mut(at..).unwrap_or_default();
    let len = to.len().min(from.len());
    if let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) {
        to.copy_from_slice(from);
    }
}

#[inline]
fn u8_at(from: &[u8], at: usize) -> Result<u8, Wrong> {
    from.get(at).copied().ok_or(Wrong::Invalid)
}

#[inline]
fn u16_at(from: &[u8], at: usize) -> Result<u16, Wrong> {
    bytes(from, at).map(u16::from_ne_bytes)
}

#[inline]
fn u32_at(from: &[u8], at: usize) -> Result<u32, Wrong> {
    bytes(from, at).map(u32::from_ne_bytes)
}

#[inline]
fn u64_at(from: &[u8], at: usize) -> Result<u64, Wrong> {
    bytes(from, at).map(u64::from_ne_bytes)
}
