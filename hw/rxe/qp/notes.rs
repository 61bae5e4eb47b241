// SPDX-License-Identifier: GPL-2.0

//! Notes of a turn of a queue pair, acted on after it: events, notifications, page faults.
//!
//! Consumers are notified only after memory and packets are released.

use crate::cq::Told;
use crate::mem::Fault;
use crate::proto::QpEvent;

/// What engine and host noted during a turn.
pub(super) struct Notes {
    pub(super) told: Told,
    /// One bit per kind of event.
    pub(super) events: u8,
    /// Packets were dropped because a network queue is full.
    pub(super) congested: bool,
    /// As many packets were sent as the turn might.
    pub(super) full: bool,
    /// The half waits for its packets to leave, which wakes it.
    pub(super) waits: bool,
    /// Completions of sends were posted.
    pub(super) completed: bool,
    /// The page fault that the half waits for.
    pub(super) fault: Option<Fault>,
    /// The half waits for a page fault of the peer on the same device, which wakes it.
    pub(super) peer_faults: bool,
    /// The current request is a long flush, which the next turn continues.
    pub(super) flushes: bool,
}

impl Notes {
    const EVENTS: [QpEvent; 6] = [
        QpEvent::SqDrained,
        QpEvent::AccessError,
        QpEvent::RequestError,
        QpEvent::SendFailed,
        QpEvent::RecvFailed,
        QpEvent::LastRecv,
    ];

    pub(super) const NONE: Notes = Notes {
        told: Told::Nothing,
        events: 0,
        congested: false,
        full: false,
        waits: false,
        completed: false,
        fault: None,
        peer_faults: false,
        flushes: false,
    };

    /// Returns whether there is nothing to report to consumers.
    pub(super) fn is_empty(&self) -> bool {
        self.told == Told::Nothing && self.events == 0
    }

    /// Returns whether an event is noted.
    #[inline]
    pub(super) fn has_events(&self) -> bool {
        self.events != 0
    }

    const fn bit(event: QpEvent) -> u8 {
        // CAST: there are six events.
        1 << event as u8
    }

    pub(super) fn event(&mut self, event: QpEvent) {
        self.events |= Self::bit(event);
    }

    pub(super) fn events(&self) -> impl Iterator<Item = QpEvent> {
        let noted = self.events;
        Self::EVENTS
            .into_iter()
            .filter(move |event| noted & Self::bit(*event) != 0)
    }

    pub(super) fn posted(&mut self, told: Told) {
        self.told = match (self.told, told) {
            (Told::Overflow, _) | (_, Told::Overflow) => Told::Overflow,
            (Told::Dead, _) | (_, Told::Dead) => Told::Dead,
            (Told::Completed, _) | (_, Told::Completed) => Told::Completed,
            (Told::Nothing, Told::Nothing) => Told::Nothing,
        };
    }
}
