// SPDX-License-Identifier: GPL-2.0

//! The loaded `ib_core`, and chance that a seed decides.

use super::proto::modify_qp::Attrs;
use super::proto::modify_qp::QpState;
use super::proto::modify_qp::QpType;

/// `ib_modify_qp_is_ok` of the loaded core.
pub(crate) fn modify_qp_is_ok(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> bool {
    // SAFETY: It reads a constant table. The states and the type index it, and all
    // values of ours are inside: `QpState::ALL` and `QpType::ALL` end with the last
    // index that the table has.
    unsafe { rdma::bindings::ib_modify_qp_is_ok(from.raw(), to.raw(), qp_type.raw(), attrs.0) }
}

/// A small generator (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    /// One that this seed decides.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// `ib_rate_to_mult` of the loaded core.
pub(crate) fn rate_to_mult(raw: u32) -> i32 {
    // SAFETY: It computes with the number and takes nothing else.
    unsafe { rdma::bindings::ib_rate_to_mult(raw) }
}

/// `ib_rate_to_mbps` of the loaded core.
pub(crate) fn rate_to_mbps(raw: u32) -> i32 {
    // SAFETY: As above.
    unsafe { rdma::bindings::ib_rate_to_mbps(raw) }
}

/// `mult_to_ib_rate` of the loaded core.
pub(crate) fn mult_to_rate(mult: u32) -> u32 {
    // SAFETY: As above.
    unsafe { rdma::bindings::mult_to_ib_rate(mult as i32) }
}
