// SPDX-License-Identifier: GPL-2.0

//! Circular numbers, at the wrap above all.

use proptest::prelude::*;
use rdma_wire::{Msn, Psn};

const HALF: u32 = 1 << 23;

#[test]
fn boundaries() {
    let last = Psn::new(Psn::MASK);
    let zero = Psn::new(0);
    assert_eq!(last + 1, zero);
    assert_eq!(zero - 1, last);
    assert_eq!(Psn::new(1 << 24), zero);
    assert_eq!(zero.distance(last), 1);
    assert_eq!(last.distance(zero), -1);
    assert!(last.is_before(zero) && zero.is_after(last));
    assert_eq!((zero + (HALF - 1)).distance(zero), 0x7f_ffff);
    assert!((zero + (HALF - 1)).is_after(zero));
    // Half a circle apart: before, seen from both sides.
    assert_eq!((zero + HALF).distance(zero), -0x80_0000);
    assert!((zero + HALF).is_before(zero) && zero.is_before(zero + HALF));
    assert!(!zero.is_before(zero) && !zero.is_after(zero));
    let mut msn = Msn::new(Msn::MASK);
    msn += 2;
    assert_eq!(msn.get(), 1);
}

#[test]
fn text() {
    assert_eq!(format!("{:?}", Psn::new(0xabc)), "Psn(0x000abc)");
    assert_eq!(format!("{}", Psn::new(0xabc)), "2748");
}

proptest! {
    #[test]
    fn distance_is_what_was_added(start: u32, steps in 0..HALF) {
        let a = Psn::new(start);
        let b = a + steps;
        prop_assert_eq!(i64::from(b.distance(a)), i64::from(steps));
        prop_assert_eq!(i64::from(a.distance(b)), -i64::from(steps));
        prop_assert_eq!(b.is_after(a), steps > 0);
        prop_assert_eq!(a.is_before(b), steps > 0);
        prop_assert_eq!(b - steps, a);
    }

    #[test]
    fn values_keep_24_bits(a: u32, b: u32) {
        let sum = Psn::new(a) + b;
        prop_assert!(sum.get() <= Psn::MASK);
        prop_assert_eq!(sum, Psn::new(a.wrapping_add(b)));
        prop_assert_eq!(Psn::new(a) - b, Psn::new(a.wrapping_sub(b)));
    }

    #[test]
    fn adding_the_distance_leads_there(a: u32, b: u32) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        let way = b.distance(a);
        let there = if way >= 0 { a + way.unsigned_abs() } else { a - way.unsigned_abs() };
        prop_assert_eq!(there, b);
    }
}
