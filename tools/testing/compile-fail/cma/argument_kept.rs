// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0521 borrowed data escapes

//! A place for an answer that is kept after the call: its caller has written over it, or freed it.

use crate::edge::core::GidOut;

/// What another thread may do.
#[cfg(not(wrong))]
fn later<T>(_place: T) {}
#[cfg(wrong)]
fn later<T: 'static>(_place: T) {}

pub(crate) fn answer(place: GidOut<'_>) {
    later(place);
}
