// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `trace/events/ib_umad.h`, which `trace.c` instantiates.

use crate::proto::header;
use crate::proto::wire::HEADER;
use rdma::bindings;

/// Bytes that C reads as a structure.
#[repr(C, align(8))]
struct Aligned<T>(T);

const _: () = {
    type Header = bindings::ib_user_mad_hdr;
    type Mad = bindings::ib_mad_hdr;
    assert!(size_of::<Header>() == header::SIZE);
    assert!(size_of::<Mad>() == HEADER);
    assert!(align_of::<Header>() <= align_of::<Aligned<[u8; header::SIZE]>>());
    assert!(align_of::<Mad>() <= align_of::<Aligned<[u8; HEADER]>>());
};

/// The traced operation.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A program sends a MAD.
    Write,
    /// A program reads a received MAD.
    ReadReceived,
    /// A program reads the header of a send without response.
    ReadSent,
}

/// Traces that a program writes or reads a MAD at a port of the device `index`.
pub(crate) fn trace(
    event: Event,
    index: u32,
    port: u32,
    header: [u8; header::SIZE],
    mad: [u8; HEADER],
) {
    let (mut header, mut mad) = (Aligned(header), Aligned(mad));
    let which = match event {
        Event::Write => 0,
        Event::ReadReceived => 1,
        Event::ReadSent => 2,
    };
    // SAFETY: The headers are local, and have at least the size and alignment of the structures
    // that are read (`trace.c`; asserted above).
    unsafe {
        bindings::rdma_helper_umad_trace(
            which,
            index,
            port,
            (&raw mut header).cast(),
            (&raw mut mad).cast(),
        )
    };
}
