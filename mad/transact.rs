// SPDX-License-Identifier: GPL-2.0

//! Life of a send, from post to completion: the host side of [`crate::proto::mad::send`].

use super::agent::ack_timeout;
use super::agent::Agent;
use super::agent::Inner;
use super::edge::agent::AgentPass;
use super::edge::agent::AhPath;
use super::edge::now;
use super::edge::receive::Received;
use super::edge::send::Claim;
use super::edge::send::Done;
use super::edge::send::For;
use super::edge::send::Mapped;
use super::edge::send::SendRequest;
use super::edge::ticks;
use super::edge::trace;
use super::local;
use super::queue::SpecialRef;
use super::transfer::Transfer;
use crate::cache;
use crate::device::Caps;
use crate::gid;
use crate::object::tables::Ah;
use crate::proto::gid::Gid;
use crate::proto::mad::matching;
use crate::proto::mad::matching::Arrived;
use crate::proto::mad::rmpp;
use crate::proto::mad::send::AckResult;
use crate::proto::mad::send::Do;
use crate::proto::mad::send::End;
use crate::proto::mad::send::Order;
use crate::proto::mad::wire;
use crate::proto::mad::wire::class;
use crate::proto::roce;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::edge::Passed;

impl WorkItem<0> for Agent {
    type Pointer = Arc<Self>;

    /// Ends or retransmits expired sends. Runs on the port's workqueue.
    fn run(this: Arc<Self>) {
        this.inner().lock().disarm();
        this.expire();
    }
}

impl WorkItem<1> for Agent {
    type Pointer = Arc<Self>;

    /// Delivers locally processed packets, and posts sends that wait for queue space that was
    /// released by a failed post. Runs on the port's workqueue.
    fn run(this: Arc<Self>) {
        while let Some(local) = this.next_local() {
            local.hand_over();
        }
        while let Some(send) = this.special().next_waiting() {
            repost(this.special(), send);
        }
    }
}

impl Agent {
    /// Ends or retransmits expired sends. Called without locks; may sleep, as handlers may.
    pub(super) fn expire(self: &Arc<Self>) {
        loop {
            let mut inner = self.inner().lock();
            let Some(send) = inner.first_expired(now()) else {
                self.arm(&mut inner);
                break;
            };
            let queueing = inner.is_queueing();
            let step = inner.step(&send, |life, flow| {
                let todo = life.expired(queueing, ack_timeout(), flow);
                (todo, life.retries_made())
            });
            drop(inner);
            let Some((todo, retries)) = step else { break };
            send.buf().set_retries(retries as i32);
            carry_out(&send, todo);
        }
        self.work_off();
    }

    fn next_local(&self) -> Option<kernel::list::ListArc<local::Local>> {
        self.inner().lock().locals.pop_front()
    }

    /// Posts queued sends, as far as there is room. Called without locks.
    fn work_off(&self) {
        loop {
            let mut inner = self.inner().lock();
            let Some(send) = inner.first_queued() else {
                return;
            };
            let todo = inner.step(&send, |life, flow| life.dequeue(flow));
            drop(inner);
            let Some(todo) = todo else { return };
            carry_out(&send, todo);
        }
    }

    /// Cancels all sends. Posted ones end with their completion, the others now. Called without
    /// locks; may sleep, as handlers may.
    pub(super) fn abandon(&self) {
        let mut inner = self.inner().lock();
        inner.close();
        let sent = inner.collect_sent();
        for send in sent.iter() {
            let send: Arc<SendRequest> = send.into();
            // The queue pair or a handler still has it and will finish it.
            let _: Option<Do> = inner.step(&send, |life, flow| life.abandon(flow));
        }
        inner.put_sent(sent);
        while let Some(send) = inner.any() {
            let todo = inner.step(&send, |life, flow| life.abandon(flow));
            drop(inner);
            let Some(todo) = todo else { return };
            carry_out(&send, todo);
            // It may be the last reference, and freeing a long transfer may sleep.
            drop(send);
            inner = self.inner().lock();
        }
    }
}

/// Source and destination GID in the header of a received MAD.
fn gids(message: &Received, caps: Caps) -> Option<(matching::Gid, matching::Gid)> {
    const HAS_GRH: u32 = bindings::ib_wc_flags_IB_WC_GRH;
    let wc = message.wc();
    if wc.wc_flags() as u32 & HAS_GRH == 0 {
        return None;
    }
    let area = message.grh();
    let header = match roce::header(area) {
        Some(header) if caps.is_roce() => header,
        // Without RoCE there is only a global route header.
        _ => roce::Header::Ipv6,
    };
    let ends = roce::ends(area, header);
    let Gid(source) = ends.source;
    let Gid(destination) = ends.destination;
    Some((source, destination))
}

/// The properties by which a message is matched with a request.
pub(super) fn arrived(agent: &Agent, message: &Received) -> Option<Arrived> {
    let header = wire::Header::parse(message.mad())?;
    let live = agent.live();
    let wc = message.wc();
    Some(Arrived {
        tid: header.tid,
        class: header.class,
        is_response: header.is_response(),
        lid: wc.slid(),
        path_bits: wc.dlid_path_bits(),
        lmc: cache::lmc(live.device(), live.number()),
        gids: gids(message, live.caps()),
    })
}

impl Inner {
    /// The send that a message responds to.
    pub(super) fn answered_by(&self, arrived: &Arrived) -> Option<Arc<SendRequest>> {
        self.find(|send, inner| {
            let Some(sent) = send.sent.access(&inner.key) else {
                return false;
            };
            if !arrived.is_of(sent) {
                return false;
            }
            let path = sent.path.or_else(|| {
                let ah = send.awaiting_ah(&inner.key)?;
                path(send.agent(), ah)
            });
            arrived.answers(&matching::Sent { path, ..*sent })
        })
    }
}

/// Destination path of a send, from its address handle.
fn path(agent: &Agent, ah: &Ah) -> Option<matching::Path> {
    let path = AhPath::of(ah)?;
    let gids = path.grh.map(|(index, there)| {
        let live = agent.live();
        let here = gid::query(live.device(), live.number(), index.into()).ok();
        matching::Ends {
            here: here.map(|Gid(here)| here),
            there,
        }
    });
    Some(matching::Path {
        lid: path.lid,
        path_bits: path.path_bits,
        gids,
    })
}

/// Posts a send. Any context.
///
/// # Errors
///
/// `EINVAL` if the agent cannot send it, or it is already posted; `EACCES` and others of a security
/// module; errors of the driver. The send then belongs to the caller again.
pub(super) fn post(send: &Arc<SendRequest>) -> Result {
    let mut claim = Claim::new(send).ok_or(EINVAL)?;
    let (agent, buf) = (send.agent(), send.buf());
    let (pkey_index, _) = claim.pkey_and_port();
    agent.rights().check(pkey_index)?;
    let header = wire::Header::parse(claim.mad()).ok_or(EINVAL)?;
    let is_ours = !matches!(send.whom(), For::Consumer);
    if !agent.sends() && !is_ours {
        return Err(EINVAL);
    }
    if agent.rmpp_version() != 0 && !wire::has_rmpp(header.class) {
        return Err(EINVAL);
    }
    claim.take_ah();
    if header.class == class::SMI_DIRECTED {
        if let Some(local) = local::outgoing(&mut claim)? {
            // Before the send may end, and be posted again.
            drop(claim);
            agent.inner().lock().locals.push_back(local);
            agent.queue_local();
            return Ok(());
        }
    }
    let is_part_of_transfer = || {
        agent.rmpp_version() != 0
            && rmpp::Header::parse(claim.mad()).is_some_and(|rmpp| rmpp.is_active())
    };
    let timeout = ticks(buf.timeout_ms());
    let order = Order {
        timeout,
        retries: buf.retries() as u32,
        counted: timeout != 0
            && !is_part_of_transfer()
            && (wire::is_smi(header.class) || matches!(header.class, class::CM | class::SA)),
    };
    let sent = matching::Sent {
        tid: header.tid,
        class: header.class,
        is_response: header.is_response(),
        // For a single MAD it is looked up when a MAD arrives that may be the response.
        path: if send.layout().segments != 0 {
            claim.ah().and_then(|ah| path(agent, ah))
        } else {
            None
        },
    };
    buf.set_retries(0);
    let (todo, claim) = {
        let mut inner = agent.inner().lock();
        let window = if send.layout().segments != 0 && sent.is_response {
            Transfer::reply_window(&inner, &header, sent.path.as_ref().map(|path| path.lid))
        } else {
            1
        };
        let queueing = inner.is_queueing();
        let todo = inner
            .step(send, |life, flow| {
                life.post(order, queueing, window, ack_timeout(), flow)
            })
            .ok_or(EINVAL)?
            .map_err(|_| EINVAL)?;
        // Succeeds: it has the same key as `life`.
        if let Some(kept) = send.sent.access_mut(&mut inner.key) {
            *kept = sent;
        }
        // A queued send may be posted by another task, which needs the claim, as soon as the lock
        // is released.
        let claim = match todo {
            Do::Post | Do::PostSegment(_) => Some(claim),
            Do::Nothing | Do::Finish(_) => None,
        };
        (todo, claim)
    };
    let submitted = match claim {
        Some(claim) => submit(send, claim, &todo),
        None => Ok(()),
    };
    submitted.inspect_err(|_| {
        let mut inner = agent.inner().lock();
        let _: Option<()> = inner.step(send, |life, flow| life.not_posted(flow));
    })
}

/// Submits a send to its queue pair, given its claim: the whole send or one segment.
fn submit(send: &Arc<SendRequest>, mut claim: Claim, todo: &Do) -> Result {
    if let Do::PostSegment(segment) = todo {
        claim.set_segment(segment);
    }
    send.agent().special().submit(claim)
}

/// Carries out the action for a send. Called without locks.
pub(super) fn carry_out(send: &Arc<SendRequest>, todo: Do) {
    match todo {
        Do::Nothing => {}
        Do::Finish(end) => finish(send, end, None),
        Do::Post | Do::PostSegment(_) => {
            // The previous owner has released the claim, or the state would be another.
            let claim = Claim::new(send).ok_or(EINVAL);
            if claim.and_then(|claim| submit(send, claim, &todo)).is_err() {
                completed(send, bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR, 0);
            }
        }
    }
}

/// Posts a send for which there is queue space now.
pub(super) fn repost(special: SpecialRef<'_>, send: Mapped) {
    let mut next = Some(send);
    while let Some(send) = next.take() {
        trace::send(&send, trace::RESEND);
        if let Err((send, _)) = special.post(send) {
            let send = send.finish();
            next = special.release();
            completed(&send, bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR, 0);
        }
    }
}

/// Handles the completion of a send. Called by the completion queue's work.
pub(super) fn sent(_cq: Passed<bindings::ib_cq>, done: Done<'_>) {
    let Done { wc, mut send } = done;
    let (status, vendor) = (wc.status(), wc.vendor_err());
    trace::send_done(&send, wc);
    if status == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR {
        let agent = send.agent().clone();
        if agent.special().is_to_repeat(&send) {
            trace::send(&send, trace::REPEAT);
            send = match agent.special().post(send) {
                Ok(()) => return,
                Err((send, _)) => send,
            };
        }
    } else if status != bindings::ib_wc_status_IB_WC_SUCCESS {
        send.agent().special().recover();
    }
    let send = send.finish();
    let special = send.agent().special();
    let next = special.release();
    completed(&send, status, vendor);
    if let Some(next) = next {
        repost(special, next);
    }
}

/// Handles a send that was completed or could not be posted. Called without locks; may sleep.
fn completed(send: &Arc<SendRequest>, status: bindings::ib_wc_status, vendor: u32) {
    let agent = send.agent();
    let ok = status == bindings::ib_wc_status_IB_WC_SUCCESS;
    let todo = {
        let mut inner = agent.inner().lock();
        let todo = inner.step(send, |life, flow| {
            life.completed(ok, now(), ack_timeout(), flow)
        });
        agent.arm(&mut inner);
        todo
    };
    match todo {
        None => {}
        Some(Do::Finish(end)) => finish(send, end, Some((status, vendor))),
        Some(other) => carry_out(send, other),
    }
}

/// Finishes a send. Called without locks; may sleep.
pub(super) fn finish(
    send: &Arc<SendRequest>,
    end: End,
    completion: Option<(bindings::ib_wc_status, u32)>,
) {
    let agent = send.agent();
    let (status, vendor) = match end {
        End::AsCompleted => completion.unwrap_or((bindings::ib_wc_status_IB_WC_SUCCESS, 0)),
        End::Success => (bindings::ib_wc_status_IB_WC_SUCCESS, 0),
        End::Flushed => (bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR, 0),
        End::TimedOut => (bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR, 0),
        End::Aborted(status) => (
            bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
            u32::from(status),
        ),
        End::Failed => (bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR, 0),
    };
    agent.work_off();
    match send.whom() {
        For::Consumer => send.pass().tell(send, status, vendor),
        // Its resources are freed with it.
        For::Nobody(_) | For::Transfer(_) => {}
    }
}

/// Ends a send that awaits a response, which has arrived or will not arrive. Called without locks.
pub(super) fn end(send: &Arc<SendRequest>, how: End) {
    let todo = {
        let mut inner = send.agent().inner().lock();
        inner.step(send, |life, flow| life.end(how, flow))
    };
    if let Some(todo) = todo {
        carry_out(send, todo);
    }
}

/// Delivers a response to the agent, and then ends the send that it matches. None of the agent's
/// locks is held.
pub(super) fn answer(agent: &AgentPass, message: Received) {
    let Some(arrived) = arrived(agent, &message) else {
        return;
    };
    let send = {
        let mut inner = agent.inner().lock();
        let send = inner.answered_by(&arrived);
        if let Some(send) = &send {
            let _: Option<()> = inner.step(send, |life, flow| life.answered(flow));
        }
        send
    };
    match send {
        Some(send) => {
            // First the response, then the completion of the request.
            agent.hand(Some(&send), message);
            let todo = agent
                .inner()
                .lock()
                .step(&send, |life, flow| life.handed(flow));
            if let Some(todo) = todo {
                carry_out(&send, todo);
            }
        }
        None if !agent.does_rmpp() && is_active_rmpp(&message) => agent.hand(None, message),
        None => drop(message),
    }
}

/// Returns whether a message is part of a transfer that the consumer reassembles itself.
fn is_active_rmpp(message: &Received) -> bool {
    wire::Header::parse(message.mad()).is_some_and(|header| wire::has_rmpp(header.class))
        && rmpp::Header::parse(message.mad()).is_some_and(|rmpp| rmpp.is_active())
}

/// Handles an acknowledgement of segments. Called without locks. `None` as [`Inner::step`].
pub(super) fn acked(send: &Arc<SendRequest>, segment: u32, window_end: u32) -> Option<AckResult> {
    let agent = send.agent();
    let mut inner = agent.inner().lock();
    let result = inner.step(send, |life, flow| {
        life.acked(segment, window_end, now(), ack_timeout(), flow)
    });
    agent.arm(&mut inner);
    result
}

/// Changes the response timeout of a send; 0 cancels it. Any context.
///
/// # Errors
///
/// `EINVAL` if it is not posted, or has ended.
pub(super) fn modify(send: &Arc<SendRequest>, timeout_ms: u32) -> Result {
    let agent = send.agent();
    let mut inner = agent.inner().lock();
    let timeout = ticks(timeout_ms as i32);
    if inner.step(send, |life, flow| life.modify(timeout, now(), flow)) != Some(true) {
        return Err(EINVAL);
    }
    send.buf().set_timeout_ms(timeout_ms as i32);
    if timeout_ms != 0 || !agent.live().port().cancels(agent) {
        agent.arm(&mut inner);
    }
    Ok(())
}
