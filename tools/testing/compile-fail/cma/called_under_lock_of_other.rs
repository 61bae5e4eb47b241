// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 call

//! A consumer that is called for one ID under the lock of callbacks of another: its handler may run
//! twice at a time, and for an ID that is being destroyed.

use crate::edge::event::Event;
use crate::edge::id::Id;
use kernel::ffi::c_int;

pub(crate) fn tell(id: &Id, other: &Id) -> c_int {
    let mut event = Event::new();
    #[cfg(not(wrong))]
    let answer = id.lock().call(&mut event);
    #[cfg(wrong)]
    let answer = id.call(&mut event, &other.lock());
    let _ = other;
    answer
}
