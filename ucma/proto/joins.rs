// SPDX-License-Identifier: GPL-2.0

//! Joins of multicast groups.
//!
//! A program leaves a group by the number of its join; the connection manager ends the newest join
//! with that address, whichever it is. Its events name a join by a cookie. So if a program has
//! joined a group twice, what it leaves and what the connection manager ends may differ. Then the
//! join that stays takes over the cookie of the one that the program has left: cookies always name
//! the joins that the connection manager still has.

use super::command::Address;

/// A join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number that the program knows.
    pub id: u32,
    /// The program's name of the join.
    pub uid: u64,
    /// What the connection manager knows; larger for a newer join.
    pub cookie: usize,
    /// The group.
    pub address: Address,
    /// Number of events that the program has read.
    pub reported: u32,
}

/// Returns the place of the join that an event is about.
pub fn by_cookie(joins: &[Joined], cookie: usize) -> Option<usize> {
    joins.iter().position(|join| join.cookie == cookie)
}

/// Returns the place of a join that the program knows.
pub fn by_id(joins: &[Joined], id: u32) -> Option<usize> {
    joins.iter().position(|join| join.id == id)
}

/// The connection manager was told to leave the group of a join. Returns the place of the join,
/// which is to be removed from the list; the others have cookies that it still has.
pub fn left(joins: &mut [Joined], id: u32) -> Option<usize> {
    let at = by_id(joins, id)?;
    let left = *joins.get(at)?;
    let newest = joins
        .iter_mut()
        .filter(|join| join.address == left.address)
        .max_by_key(|join| join.cookie)?;
    newest.cookie = left.cookie;
    Some(at)
}
