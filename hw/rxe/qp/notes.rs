// SPDX-License-Identifier: GPL-2.0

//! What a turn of a queue pair leaves to be done after it: events, notifications, page faults.
//!
//! Consumers are notified only after memory and packets are released.

use crate::cq::Told;
use crate::mem::Fault;
use crate::proto::QpEvent;

/// What the engine and the host noted during a turn, to be acted on after it.
pub(super) struct Notes {
    pub(super) told: Told,
    /// One bit for each kind of event.
    pub(super) events: u8,
    /// Packets were dropped because a queue of the network is full.
    pub(super) congested: bool,
    /// Completions of sends were posted.
    pub(super) completed: bool,
    /// Memory that the half waits for.
    pub(super) fault: Option<Fault>,
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
        completed: false,
        fault: None,
    };

    /// Whether nothing is noted that somebody is to hear of.
    pub(super) fn is_empty(&self) -> bool {
        self.told == Told::Nothing && self.events == 0
    }

    /// Whether an event is noted.
    #[inline]
    pub(super) fn has_events(&self) -> bool {
        self.events != 0
    }

    const fn bit(event: QpEvent) -> u8 {
        // CAST: there are six of them.
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
