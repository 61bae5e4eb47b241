// SPDX-License-Identifier: GPL-2.0

//! When the work item of an identifier runs.
//!
//! The item delivers events, and is the timer: it runs at once if there is an event, else at the
//! [deadline](super::conn::Conn::deadline). While it calls a handler nothing is done for an event, as it
//! looks for more when the handler has returned.
//!
//! Owner: an identifier has an [`Item`], protected by its lock, and so are all timers of the work item.

use super::ids::Instant;
use core::mem;

/// What is done with the work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nothing.
    No,
    /// It is queued, unless it is queued already. It does not lose its place in the queue: a peer that
    /// sends messages without end must not hold up an event.
    Queue,
    /// It is taken off its timer, if that is pending, and queued.
    Now,
    /// Its timer is set to this time.
    At(Instant),
}

/// What is known of the work item.
#[derive(Debug, Default)]
pub struct Item {
    /// Its timer may be pending. That it has fired is not known, as one that was set while a handler ran
    /// cannot be told from it.
    armed: bool,
    /// What its timer was set to since the item last looked at the time.
    at: Option<Instant>,
}

impl Item {
    /// What is done with the work item after a step. `running`: it calls a handler.
    pub fn wake(&mut self, has_events: bool, running: bool, deadline: Option<Instant>) -> Wake {
        match (has_events, deadline) {
            (true, _) if running => Wake::No,
            (true, _) if mem::take(&mut self.armed) => {
                self.at = None;
                Wake::Now
            }
            (true, _) => Wake::Queue,
            // Its timer is pending, or has queued it: messages without end must not move it to the end
            // of the queue.
            (false, Some(at)) if self.at == Some(at) => Wake::No,
            (false, Some(at)) => {
                self.armed = true;
                self.at = Some(at);
                Wake::At(at)
            }
            (false, None) => Wake::No,
        }
    }

    /// The item runs and has looked at the time: a deadline that is left needs the timer once more.
    pub fn looked(&mut self) {
        self.at = None;
    }
}
