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

use mem::sge::Sge;
use queue::ring::{Entry, RingMem};
use queue::wqe::{parse_connected, parse_datagram, BadSend, SendCaps, SendRequest};

/// Parses a send entry as the kernel's send queue does.
///
/// # Errors
///
/// Those of [`parse_connected`].
pub fn parse_send<M: RingMem>(
    entry: &Entry<'_, M>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, BadSend> {
    if caps.qp_type.is_datagram() {
        parse_datagram(entry, caps, store)
    } else {
        parse_connected(entry, caps, store)
    }
}
