// SPDX-License-Identifier: GPL-2.0

//! What the objects of a device have in common, whatever their kind.
//!
//! | file | what |
//! |---|---|
//! | `edge` | allocation, tracking and use counts of objects |
//! | `edge::tables` | the C structures, field by field |
//! | `edge::driver` | the methods of drivers |
//! | `edge::out` | structures with address vectors, that C hands over to be filled |
//! | `ah_attr` | address vectors with their local GIDs |

pub(crate) mod ah_attr;
mod edge;

pub(crate) use self::ah_attr::Filled;
pub(crate) use self::edge::*;
