// SPDX-License-Identifier: GPL-2.0

//! Counters of messages, per port.

use crate::proto::counters::Group;
use crate::proto::wire::Kind;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// The counters of a port: by group, and by kind of message.
pub(crate) struct Counters([[Atomic<u64>; 11]; 4]);

impl Counters {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Self([const { [const { Atomic::new(0) }; 11] }; 4])
    }

    fn of(&self, group: Group, kind: Kind) -> Option<&Atomic<u64>> {
        // CAST: Small numbers.
        self.0.get(group as usize)?.get(kind.index())
    }

    /// Returns a counter.
    pub(crate) fn get(&self, group: Group, kind: Kind) -> u64 {
        self.of(group, kind).map_or(0, |it| it.load(Relaxed))
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, group: Group, kind: Kind, count: u64) {
        if let Some(it) = self.of(group, kind) {
            let _: u64 = it.fetch_add(count, Relaxed);
        }
    }
}
