// SPDX-License-Identifier: GPL-2.0

//! Wire formats of InfiniBand transport packets, as RoCEv2 carries them.
//!
//! The module is pure: it uses `core` and `zerocopy` and itself, never `kernel`.
//! The same files are a module of the kernel crate `rdma` and, on the host, the
//! crate `rdma-wire` with its tests. Nothing here sleeps, locks or allocates,
//! so every function may be called from any context.
//!
//! * [`opcode`]: the operations and, for each, the shape of its packets;
//! * [`headers`]: the base and extension headers as plain values;
//! * [`packet`]: a whole packet, parsed once into a value that is valid, and
//!   headers written back;
//! * [`outer`]: IP and UDP headers of packets to be sent;
//! * [`psn`]: numbers that wrap at 24 bits;
//! * [`timer`]: the two coded times of the transport;
//! * [`icrc`]: which bytes the invariant CRC covers, and how;
//! * [`gro`]: which received packets are chained into one buffer.
//!
//! Source: IBTA Architecture Specification volume 1, chapter 9 ("Transport
//! layer") and annexes A14 (XRC), A17 (RoCEv2), A19 (memory placement
//! extensions). C header: `include/rdma/ib_pack.h`.

mod bytes;
pub mod gro;
pub mod headers;
pub mod icrc;
pub mod opcode;
pub mod outer;
pub mod packet;
pub mod psn;
pub mod timer;

pub use headers::{
    Aeth, AethSyndrome, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Grh, Ieth, ImmDt, NakCode, Reth,
    XrcEth,
};
pub use icrc::ICRC_LEN;
pub use opcode::{Layout, Opcode, Operation, PayloadRule, Position, Transport, UnknownOpcode};
pub use packet::{pad_len, write_headers, DropReason, Ext, Header, Packet, Start, MAX_HEADER_LEN};
pub use psn::{Msn, Psn};
pub use timer::{ack_timeout_ns, RnrTimer};

/// UDP destination port of RoCEv2 (IBTA annex A17; IANA name `roce`).
pub const ROCE_V2_UDP_PORT: u16 = 4791;
