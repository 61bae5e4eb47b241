// SPDX-License-Identifier: GPL-2.0

//! Delivery of events: the work item of an ID, which calls the consumer's handler.
//!
//! An item does not run twice at a time, so the handler is called for one event after the other. An
//! ID whose handler returns an error is destroyed here.

use super::Conn;
use super::Held;
use super::More;
use super::Queued;
use super::State;
use crate::edge::event;
use crate::edge::event::Extra;
use crate::edge::event::Returned;
use crate::edge::event::What;
use crate::proto::conn::Destroy;
use crate::proto::conn::Event;
use crate::proto::ids::Instant;
use crate::proto::wake::Wake;
use crate::proto::wire::Message;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::WorkItem;
use rdma::workqueue;

impl Conn {
    /// Takes the next event, if there is one, and the handler may be called.
    fn next(self: &Arc<Self>, state: &mut State) -> Option<Queued> {
        if state.gone {
            return None;
        }
        self.read_notes(state);
        self.expire(state);
        state.item.looked();
        if state.events.is_empty() {
            self.schedule(state);
            return None;
        }
        let next = state.events.remove(0).ok()?;
        state.running = true;
        Some(next)
    }

    /// Runs the work item when it is needed.
    pub(super) fn schedule(self: &Arc<Self>, state: &mut State) {
        if state.gone {
            return;
        }
        let (has_events, deadline) = (!state.events.is_empty(), state.engine.deadline());
        match state.item.wake(has_events, state.running, deadline) {
            Wake::No => {}
            Wake::Queue => {
                // If it is queued already, that is enough.
                let _ = workqueue::enqueue_delayed(self.clone(), 0);
            }
            Wake::Now => workqueue::modify_delayed(self, 0),
            Wake::At(Instant(at)) => {
                let left = at.saturating_sub(self.cm.now().0);
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                workqueue::modify_delayed(self, msecs_to_jiffies(left));
                // A note that was left meanwhile had queued the item; the timer has replaced that.
                if self.has_notes() {
                    workqueue::modify_delayed(self, 0);
                }
            }
        }
    }

    /// Calls the handler.
    fn deliver(self: &Arc<Self>, queued: Queued) -> Option<Returned> {
        let Queued {
            event,
            mad,
            mut more,
            transport,
            way,
        } = queued;
        let message = mad.as_ref().and_then(|mad| Message::parse(mad.bytes()));
        let what = match (event, &message) {
            (Event::Received(_), Some(message)) => What::Message(message),
            (Event::Received(_), None) => return None,
            (Event::Failed(_, status), _) => What::SendError(event.number(), status),
            (Event::UserEstablished | Event::TimewaitExit, _) => What::Plain(event.number()),
        };
        let mut extra = Extra {
            gid: way.as_ref().and_then(|way| way.route.gid()),
            transport: Some(transport),
            ..Extra::default()
        };
        let mut new = false;
        if let Some(more) = &mut more {
            let More {
                listener,
                port,
                bth_pkey,
                paths,
            } = &mut **more;
            new = listener.is_some();
            extra.listener = listener.as_ref().map(Held::conn);
            extra.port = *port;
            extra.bth_pkey = *bth_pkey;
            extra.paths = Some(paths);
        }
        event::call(self, new, what, extra)
    }
}

/// Why an ID is destroyed whose handler returned an error.
fn why(error: c_int) -> Destroy {
    if error == ENOMEM.to_errno() {
        Destroy::NoMemory
    } else {
        Destroy::Consumer
    }
}

impl WorkItem for Conn {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut state = this.state.lock();
        while let Some(queued) = this.next(&mut state) {
            drop(state);
            let returned = this.deliver(queued);
            state = this.state.lock();
            state.running = false;
            this.wake(&mut state);
            if let Some(Returned { id, error }) = returned {
                drop(state);
                id.0.destroy(why(error));
                return;
            }
        }
    }
}
