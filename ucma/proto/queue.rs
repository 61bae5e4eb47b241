// SPDX-License-Identifier: GPL-2.0

//! Bounds on events that wait to be read.

/// Number of events that programs have queued themselves, by file, from which on further ones are
/// refused.
pub const WRITTEN: u32 = 4096;

/// Number of unread events of a context from which on its program may not ask for further ones.
pub const UNREAD: u32 = 16;

/// Events of a context that its program has not read: those that tell of the context itself, not
/// requests, events of joins, or events that the program has queued.
///
/// A program that asks for addresses, routes or services again and again without reading the answers
/// would queue events without bound. No answer is dropped; the next question is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread(u32);

impl Unread {
    /// An event was queued.
    pub fn queued(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// An event was read.
    pub fn read(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// Returns whether the program may ask for something that an event answers.
    pub fn may_ask(self) -> bool {
        self.0 < UNREAD
    }
}

/// Connection requests of a listener that its program has not read, and how many there may be.
///
/// A program may set the limit anew at any time, also by a call to listen that fails. What is queued
/// stays counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    limit: u32,
    queued: u32,
}

impl Backlog {
    /// Sets the limit to the one that a program has asked for. Returns it.
    pub fn set(&mut self, asked: u32, max: u32) -> u32 {
        self.limit = match asked {
            0 => max,
            _ => asked.min(max),
        };
        self.limit
    }

    /// Takes a place for a request. Returns whether there was one.
    pub fn take(&mut self) -> bool {
        let free = self.queued < self.limit;
        if free {
            self.queued = self.queued.saturating_add(1);
        }
        free
    }

    /// Gives a place back: the request was read, or came to nothing.
    pub fn give(&mut self) {
        self.queued = self.queued.saturating_sub(1);
    }
}
