// SPDX-License-Identifier: GPL-2.0

//! What the connection manager tells: events, and connection requests.
//!
//! Handlers run under the handler lock of the identifier, but for a listener on a wildcard address: there
//! they run under the locks of hidden identifiers, one for each device, so several at a time, and the
//! listener may move to another file meanwhile. Nobody waits for an event that cannot be queued for lack of memory, as in the C module; a connection
//! request that cannot be queued is not answered, so that the peer repeats it.

use crate::context::Context;
use crate::context::Event;
use crate::context::Kind;
use crate::context::Loose;
use crate::edge;
use crate::file::File;
use crate::proto::command::Ece;
use crate::proto::event;
use crate::proto::event::Body;
use crate::proto::event::Conn;
use crate::proto::event::Ud;
use crate::proto::joins;
use crate::Shared;
use kernel::alloc::Flags;
use kernel::list::ListArc;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use rdma::bindings;
use rdma::cm::Answered;
use rdma::cm::CmEvent;
use rdma::cm::CmUser;
use rdma::cm::Params;
use rdma::cm::Refusal;
use rdma::cm::Request;
use rdma::module::Resident;

/// Returns the parameters of an event.
fn body<'a>(event: &'a CmEvent<'_>) -> Body<'a> {
    if event.kind() == bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDRINFO_RESOLVED {
        return Body::Empty;
    }
    match event.params() {
        Params::Conn(conn, private) => Body::Conn(Conn {
            qp_num: conn.qp_num(),
            private,
            srq: conn.srq(),
            responder_resources: conn.responder_resources(),
            initiator_depth: conn.initiator_depth(),
            flow_control: conn.flow_control(),
            retry_count: conn.retry_count(),
            rnr_retry_count: conn.rnr_retry_count(),
        }),
        Params::Ud(ud, private) => Body::Ud(Ud {
            qp_num: ud.qp_num(),
            qkey: ud.qkey(),
            vector: edge::vector(event, ud),
            private,
        }),
    }
}

/// An event with the names that the program gave.
fn told<'a>(event: &'a CmEvent<'_>, uid: u64, id: u32) -> event::Event<'a> {
    let (vendor_id, attr_mod) = event.ece();
    event::Event {
        uid,
        id,
        event: event.kind(),
        // CAST: Programs know the bits of the number.
        status: event.status() as u32,
        body: body(event),
        ece: Ece {
            vendor_id,
            attr_mod,
        },
    }
}

/// Queues an event of a join. Joins may change meanwhile, since a program leaves a group without
/// the handler lock.
fn queue_join(context: &Arc<Context>, event: &CmEvent<'_>, cookie: usize) -> Result {
    loop {
        let (uid, id) = {
            let queue = context.queue.lock();
            let at = joins::by_cookie(&queue.joins, cookie).ok_or(ENOENT)?;
            let join = queue.joins.get(at).ok_or(ENOENT)?;
            (join.uid, join.id)
        };
        let new = Event::new(context, Kind::Join(id), &told(event, uid, id), GFP_KERNEL)?;
        let same = File::push(context, new, |queue| {
            joins::by_cookie(&queue.joins, cookie)
                .and_then(|at| queue.joins.get(at))
                .is_some_and(|join| join.id == id)
        });
        if same {
            return Ok(());
        }
    }
}

/// Queues an event of a context whose name the program has given.
pub(crate) fn queue(context: &Arc<Context>, told: &event::Event<'_>, flags: Flags) -> Result {
    let new = Event::new(context, Kind::Plain, told, flags)?;
    // Nothing is checked, so it is taken.
    let _: bool = File::push(context, new, |_| true);
    Ok(())
}

/// What the context of a connection request is made of.
struct Prepared<'a> {
    slot: rdma::table::Slot<'a, Context, { crate::FRONT }>,
    context: ListArc<Context>,
    event: Loose,
}

fn prepare<'a>(
    shared: &'a Shared,
    file: &Arc<File>,
    listener: &Arc<Context>,
    event: &CmEvent<'_>,
) -> Result<Prepared<'a>> {
    let slot = crate::number(&shared.contexts, GFP_KERNEL)?;
    let id = slot.id();
    let context = Context::new(id, file.clone(), 0, GFP_KERNEL)?;
    let uid = listener.uid.load(Relaxed);
    Ok(Prepared {
        event: Event::new(
            listener,
            Kind::Request(context.clone_arc()),
            &told(event, uid, id),
            GFP_KERNEL,
        )?,
        slot,
        context,
    })
}

fn request<'r>(
    listener: &Arc<Context>,
    request: Request<'r, Context>,
    event: &CmEvent<'_>,
) -> Answered<'r> {
    let file = listener.file();
    let Ok(prepared) = prepare(&file.shared, &file, listener, event) else {
        listener.queue.lock().backlog.give();
        return request.refuse(Refusal::Silent);
    };
    let Prepared {
        slot,
        context: own,
        event,
    } = prepared;
    let context = own.clone_arc();
    // Nobody else knows the context, so it is free.
    let Some(mut cm) = context.cm.try_lock() else {
        listener.queue.lock().backlog.give();
        return request.refuse(Refusal::Silent);
    };
    let (id, answered) = match request.take(context.clone()) {
        Ok(taken) => taken,
        Err(answered) => {
            listener.queue.lock().backlog.give();
            return answered;
        }
    };
    *cm = Some(id);
    drop(cm);
    File::push_request(listener, own, event, || {
        context.place.lock().life.publish();
        let _: u32 = slot.publish(context.clone());
    });
    answered
}

impl CmUser for Context {
    fn resident() -> Resident {
        rdma::resident!()
    }

    type After = ();

    fn event(this: ArcBorrow<'_, Self>, event: &CmEvent<'_>) {
        let context: Arc<Context> = this.into();
        if event.kind() == bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDRINFO_RESOLVED {
            context.has_services.store(true, Relaxed);
        }
        let uid = context.uid.load(Relaxed);
        if uid != 0 {
            let _: Result = match event.join() {
                Some(cookie) => queue_join(&context, event, cookie),
                None => queue(&context, &told(event, uid, context.id), GFP_KERNEL),
            };
        }
        if event.kind() == bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL {
            context.close_later();
        }
    }

    fn request<'a>(
        this: ArcBorrow<'_, Self>,
        new: Request<'a, Self>,
        event: &CmEvent<'_>,
    ) -> Answered<'a> {
        let listener: Arc<Context> = this.into();
        if !listener.queue.lock().backlog.take() {
            return new.refuse(Refusal::Silent);
        }
        request(&listener, new, event)
    }
}
