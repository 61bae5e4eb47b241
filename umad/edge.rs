// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `trace/events/ib_umad.h`, which `trace.c` has.

use crate::proto::header;
use crate::proto::wire::HEADER;
use rdma::bindings;

/// What happens.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A program sends.
    Write,
    /// It reads what came.
    ReadReceived,
    /// It reads what got no answer.
    ReadSent,
}

/// A program writes or reads a MAD at a port of the device `index`.
pub(crate) fn trace(
    event: Event,
    index: u32,
    port: u32,
    mut header: [u8; header::SIZE],
    mut mad: [u8; HEADER],
) {
    let which = match event {
        Event::Write => 0,
        Event::ReadReceived => 1,
        Event::ReadSent => 2,
    };
    // SAFETY: The headers are ours, as long as the structures that are read (`trace.c`).
    unsafe {
        bindings::rdma_helper_umad_trace(
            which,
            index,
            port,
            header.as_mut_ptr().cast(),
            mad.as_mut_ptr().cast(),
        )
    };
}
