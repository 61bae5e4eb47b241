// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0423 Ended

//! The events of an object, ended while its driver raises some: the queue that they go to may be
//! freed under the driver.

use crate::edge::events::Asynchronous;
use crate::edge::handle::Ended;
use crate::edge::handle::Ends;

pub(crate) fn look(events: &Asynchronous, ended: Ended<'_, Asynchronous>) -> u32 {
    #[cfg(not(wrong))]
    Asynchronous::end(ended);
    #[cfg(wrong)]
    Asynchronous::end(Ended(events));
    events.reported()
}
