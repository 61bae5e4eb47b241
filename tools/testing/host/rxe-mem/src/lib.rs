// SPDX-License-Identifier: GPL-2.0

//! The pure parts of `hw/rxe/queue` and `hw/rxe/mem`, as a crate of their own: the
//! formats of shared queues and their entries, and page arithmetic. The tests are
//! in `tests/`; locks, gates and tables are the kernel's and not here.

pub use rxe_sim::{proto, wire};

#[deny(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing
)]
pub mod mem;
#[deny(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing
)]
pub mod queue;
