// SPDX-License-Identifier: GPL-2.0

//! What connections give up when their device is removed.

use super::Conn;
use crate::proto::conn::Destroy;
use crate::proto::conn::Event;
use crate::proto::conn::StateName;
use kernel::prelude::*;
use kernel::sync::Arc;

impl Conn {
    /// The device is being removed, which waits for ways: gives up all that needs it. The consumer is not
    /// told, and destroys the ID as ever. Waits for the handler if it runs. May sleep.
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
        while state.running {
            state.waited = true;
            self.cm.idle.wait(&mut state);
        }
        drop(state);
        // The consumer does not have the ID of a request that it was not told of.
        let mut all = events.iter().filter_map(|queued| queued.more.as_ref());
        if all.any(|more| more.listener.is_some()) {
            self.destroy(Destroy::Consumer);
        }
        drop((events, ways));
    }
}
