// SPDX-License-Identifier: GPL-2.0

//! The coded times.

use rdma_wire::{ack_timeout_ns, RnrTimer};

#[test]
fn rnr_times() {
    // A few rows of the standard's table; the C peer has 61.41 ms for code 25.
    for (code, micros) in [
        (0, 655_360),
        (1, 10),
        (4, 40),
        (5, 60),
        (12, 640),
        (13, 960),
        (14, 1_280),
        (25, 61_440),
        (31, 491_520),
    ] {
        assert_eq!(RnrTimer::new(code).nanos(), micros * 1000, "code {code}");
    }
    // Each code but the first is longer than the one before, and from code 4 on
    // two codes double the time.
    for code in 2..32 {
        assert!(RnrTimer::new(code).nanos() > RnrTimer::new(code - 1).nanos());
        if code >= 4 {
            let earlier = RnrTimer::new(code - 2).nanos();
            assert_eq!(RnrTimer::new(code).nanos(), 2 * earlier, "code {code}");
        }
    }
    assert_eq!(RnrTimer::new(0xff).code(), 31);
}

#[test]
fn ack_timeouts() {
    assert_eq!(ack_timeout_ns(0), None);
    assert_eq!(ack_timeout_ns(1), Some(8_192));
    assert_eq!(ack_timeout_ns(14), Some(67_108_864));
    assert_eq!(ack_timeout_ns(31), Some(4096 << 31));
    assert_eq!(ack_timeout_ns(32), None);
}
