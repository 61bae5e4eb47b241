// SPDX-License-Identifier: GPL-2.0

//! What connections give up when their device is removed.

use super::Conn;
use crate::proto::conn::Destroy;
use crate::proto::conn::Event;
use crate::proto::conn::StateName;
use kernel::prelude::*;
use kernel::sync::Arc;

impl Conn {
    /// Releases what keeps the device, which is being removed: the removal waits for ways. The consumer
    /// gets no event, and still destroys the ID. Waits for the handler if it runs. May sleep.
    pub(crate) fn device_gone(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.gone || state.engine.state() == StateName::Listen {
            // Listeners have no ways.
            return;
        }
        let mut actions = state.engine.device_gone();
        let _: Option<Event> = self.act(&mut state, &mut actions, None, None);
        self.show(&state);
        let events = core::mem::replace(&mut state.events, KVec::new());
        let ways = (state.way.take(), core::mem::take(&mut state.old));
        self.wait_while(&mut state, |state| state.running);
        drop(state);
        // The ID of a request that was never delivered has no owner who would destroy it.
        let mut all = events.iter().filter_map(|queued| queued.more.as_ref());
        if all.any(|more| more.listener.is_some()) {
            self.destroy(Destroy::Consumer);
        }
        drop((events, ways));
    }
}
