// SPDX-License-Identifier: GPL-2.0

//! Packet and message sequence numbers: counters that wrap at 24 bits.
//!
//! A circular number has no total order, so these types deliberately implement
//! neither `PartialOrd` nor `Ord`; ask [`Psn::is_before`] or [`Psn::distance`].
//!
//! Source: IBTA volume 1, 9.7.2 (PSN) and 9.7.7 (MSN).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

macro_rules! circular24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Invariants
        ///
        /// The value is less than 2^24.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            /// The bits that a value may use.
            pub const MASK: u32 = 0x00ff_ffff;

            /// Makes a number from the low 24 bits of `value`; the rest is ignored.
            #[inline]
            pub const fn new(value: u32) -> Self {
                // INVARIANT: the mask leaves 24 bits.
                Self(value & Self::MASK)
            }

            /// The number, less than 2^24.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Signed way from `other` to `self` round the circle: positive when
            /// `self` comes later. It lies in -2^23 ..= 2^23 - 1; two numbers
            /// exactly half a circle apart are at -2^23 in both directions.
            #[inline]
            pub const fn distance(self, other: Self) -> i32 {
                // Shifting up and, as a signed number, down again extends bit 23.
                // CAST: same width.
                (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
            }

            /// True when `self` comes before `other` by less than half a circle
            /// (or by exactly half: see [`Self::distance`]).
            #[inline]
            pub const fn is_before(self, other: Self) -> bool {
                self.distance(other) < 0
            }

            /// True when `self` comes after `other` by less than half a circle.
            #[inline]
            pub const fn is_after(self, other: Self) -> bool {
                self.distance(other) > 0
            }
        }

        impl Add<u32> for $name {
            type Output = Self;

            #[inline]
            fn add(self, steps: u32) -> Self {
                Self::new(self.0.wrapping_add(steps))
            }
        }

        impl AddAssign<u32> for $name {
            #[inline]
            fn add_assign(&mut self, steps: u32) {
                *self = self.add(steps);
            }
        }

        impl Sub<u32> for $name {
            type Output = Self;

            #[inline]
            fn sub(self, steps: u32) -> Self {
                Self::new(self.0.wrapping_sub(steps))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#08x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

circular24! {
    /// Packet sequence number.
    Psn
}

circular24! {
    /// Message sequence number, as the responder counts completed requests.
    Msn
}
