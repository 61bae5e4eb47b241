// SPDX-License-Identifier: GPL-2.0

//! Code common to all kinds of verbs objects of a device.
//!
//! | file | what |
//! |---|---|
//! | `edge` | allocation, tracking and use counts of objects |
//! | `edge::tables` | tables of the C structures |
//! | `edge::driver` | driver methods |
//! | `edge::out` | output parameters that contain address vectors |
//! | `ah_attr` | address vectors and their local GIDs |

pub(crate) mod ah_attr;
mod edge;

pub(crate) use self::ah_attr::Filled;
pub(crate) use self::edge::*;
