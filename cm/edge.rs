// SPDX-License-Identifier: GPL-2.0

//! The edge: all `unsafe` code of the module.
//!
//! | file | what |
//! |---|---|
//! | `id` | `struct ib_cm_id`, which consumers own |
//! | `args` | the parameters of the exported functions |
//! | `event` | `struct ib_cm_event`, and the call of a consumer's handler |
//! | `path` | path records: of consumers, and those made of messages |
//! | `counters` | files of the counters in the directories of ports |
//! | `random` | random numbers |
//! | `trace` | tracepoints |

pub(crate) mod args;
pub(crate) mod counters;
pub(crate) mod event;
pub(crate) mod id;
pub(crate) mod path;
mod random;
pub(crate) mod trace;

pub(crate) use self::random::random;
