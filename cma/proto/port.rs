// SPDX-License-Identifier: GPL-2.0

//! Sharing of ports. Each port of a port space has the list of IDs that are bound to it, its
//! owners; the caller keeps the lists, newest owner first.
//!
//! A port that the consumer names may be shared with IDs that have other addresses, or by IDs that
//! all allow it. An automatic port may be shared with IDs that have other destinations.

use super::addr::Address;
use super::Refusal;

/// The first port number that needs no privilege.
const UNPRIVILEGED: u16 = 1024;

/// What an owner says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Local address.
    pub source: Address,
    /// Remote address; unspecified if there is none yet.
    pub destination: Address,
    /// Whether it allows others that do so, too.
    pub reuse: bool,
    /// Whether it leaves the other address families of the port alone.
    pub afonly: bool,
}

/// Whether an ID may take, or listen on, a port that has these other owners. `reuse`: whether the
/// ID allows others; a listener does not.
///
/// # Errors
///
/// [`Refusal::NotAvailable`], [`Refusal::InUse`], for the first owner that has a conflict.
pub fn share(
    others: impl IntoIterator<Item = Owner>,
    id: &Owner,
    reuse: bool,
) -> Result<(), Refusal> {
    for other in others {
        if reuse && other.reuse {
            continue;
        }
        let families = id.source.family() != other.source.family();
        if id.afonly && other.afonly && families {
            continue;
        }
        if id.source.is_any() || other.source.is_any() {
            return Err(Refusal::NotAvailable);
        }
        if id.source.is_same_host(&other.source) {
            return Err(Refusal::InUse);
        }
    }
    Ok(())
}

/// Whether an ID may take a port that its consumer names and that has these owners.
///
/// # Errors
///
/// [`Refusal::Access`]: the port is privileged and the task is not; those of [`share`].
pub fn take(
    port: u16,
    privileged: impl FnOnce() -> bool,
    others: impl IntoIterator<Item = Owner>,
    id: &Owner,
) -> Result<(), Refusal> {
    if port < UNPRIVILEGED && !privileged() {
        return Err(Refusal::Access);
    }
    share(others, id, id.reuse)
}

/// Whether two IDs on one port cannot be confused: a part of their addresses is known of both and
/// differs.
fn differ(a: &Owner, b: &Owner) -> bool {
    let ports = (a.destination.port(), b.destination.port());
    let known = |a: &Address, b: &Address| !a.is_any() && !b.is_any() && !a.is_same_host(b);
    (ports.0 != 0 && ports.1 != 0 && ports.0 != ports.1)
        || known(&a.source, &b.source)
        || known(&a.destination, &b.destination)
}

/// Whether an ID may get a port with these owners as an automatic one.
///
/// # Errors
///
/// [`Refusal::NotAvailable`].
pub fn share_automatic(others: impl IntoIterator<Item = Owner>, id: &Owner) -> Result<(), Refusal> {
    if others.into_iter().all(|other| differ(id, &other)) {
        Ok(())
    } else {
        Err(Refusal::NotAvailable)
    }
}

/// A range of port numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest.
    pub low: u16,
    /// The highest; not below `low`.
    pub high: u16,
}

/// Looks for an automatic port in `range`, upwards from `start`, and around. `try_port` takes the
/// port, or refuses. The port that was `last` given is not tried, so that it is not reused at once
/// when its owner is gone.
///
/// # Errors
///
/// [`Refusal::NotAvailable`]: no port is left. Another error of `try_port` ends the search.
pub fn automatic(
    range: Range,
    start: u16,
    last: Option<u16>,
    mut try_port: impl FnMut(u16) -> Result<(), Refusal>,
) -> Result<u16, Refusal> {
    let start = start.clamp(range.low, range.high.max(range.low));
    let above = start..=range.high;
    let below = range.low..start;
    for port in above.chain(below) {
        if Some(port) == last {
            continue;
        }
        match try_port(port) {
            Ok(()) => return Ok(port),
            Err(Refusal::NotAvailable) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Refusal::NotAvailable)
}
