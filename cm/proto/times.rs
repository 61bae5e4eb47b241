// SPDX-License-Identifier: GPL-2.0

//! Timeout fields, which are exponents, in milliseconds.
//!
//! Source: IBTA volume 1, 12.7.26 (CM response timeout), 9.7.6.1.3 (acknowledgement timeout).

/// Largest timeout field: 5 bits.
const MAX_FIELD: u8 = 31;

/// The service timeout in MRAs: 65 seconds.
pub const MRA: u8 = 24;

/// Milliseconds of a timeout field: about 4.096 us * 2^field, at least 1. Fields above 31 count as
/// 31.
pub const fn ms(field: u8) -> u32 {
    let field = if field > MAX_FIELD { MAX_FIELD } else { field };
    // OVERFLOW: At most 31 - 8.
    1 << field.saturating_sub(8)
}

/// Acknowledgement timeout of a queue pair: for the acknowledgement delay of the responder and
/// twice the packet life time, which is one more in the exponent. The larger one, and one more if
/// the other is within one of it.
pub const fn ack_timeout(ack_delay: u8, life_time: u8) -> u8 {
    let path = life_time.saturating_add(1);
    let timeout = if path >= ack_delay {
        // CAST: 0 or 1.
        path.saturating_add((ack_delay >= path.saturating_sub(1)) as u8)
    } else {
        // CAST: 0 or 1.
        ack_delay.saturating_add((path >= ack_delay.saturating_sub(1)) as u8)
    };
    if timeout > MAX_FIELD {
        MAX_FIELD
    } else {
        timeout
    }
}

/// Time to the repetition of a REQ: the response timeout of the peer, and the way there and back.
pub const fn request_ms(life_time: u8, response_timeout: u8) -> u32 {
    ms(life_time)
        .saturating_mul(2)
        .saturating_add(ms(response_timeout))
}
