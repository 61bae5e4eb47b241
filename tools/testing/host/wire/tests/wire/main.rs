// SPDX-License-Identifier: GPL-2.0

//! Tests of the wire formats: fixed vectors, all 256 opcodes, and properties.

mod gro;
mod icrc;
mod opcode;
mod outer;
mod packet;
mod psn;
mod timer;
