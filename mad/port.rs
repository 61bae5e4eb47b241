// SPDX-License-Identifier: GPL-2.0

//! A port that supports MADs: a protection domain, a completion queue, queue pairs 0 and 1, a
//! workqueue, and the agents that send responses.
//!
//! [`Port`] is shared by agents and completions; its last reference may be dropped in any context.
//! [`Open`] owns the driver's objects, and destroys them when it is dropped, after all agents are
//! gone. Clients have unregistered their agents by then: the device is removed from them before it
//! is removed from this client.
//!
//! Locks: `Port::rules`, `Port::repliers` and `Port::handing`, in any context; all are innermost.

use super::agent::Agent;
use super::edge::agent::AgentPass;
use super::edge::port::node;
use super::edge::port::queue_sizes;
use super::edge::port::Change;
use super::edge::port::Live;
use super::edge::port::Open;
use super::edge::port::Opened;
use super::queue::SpecialQp;
use super::reply;
use crate::device::Caps;
use crate::device::Device;
use crate::proto::mad::registry::Refused;
use crate::proto::mad::registry::Rule;
use crate::proto::mad::smi::Node;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use core::ptr;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::kvec::retain;
use rdma::sync::SpinLockIrq;
use rdma::table::Slot;
use rdma::table::Table;
use rdma::workqueue::QueueOptions;

/// The P_Key of the default partition, for full members.
const DEFAULT_PKEY: u16 = 0xffff;
/// Q_Key of queue pair 1.
const QP1_QKEY: u32 = 0x8001_0000;

/// Agents, by the upper half of their transaction ids.
#[pin_data]
pub(super) struct Tids {
    #[pin]
    agents: Table<Place>,
}

/// Entry of an agent in [`Tids`].
///
/// The table keeps an entry until the end of a grace period. The agent is removed from the entry at
/// once, because the close of a port waits until its agents are gone.
#[pin_data]
struct Place {
    #[pin]
    agent: SpinLockIrq<Option<Arc<Agent>>>,
}

/// A transaction id that is reserved for an agent.
pub(super) struct Reserved<'a> {
    slot: Slot<'a, Place>,
    place: Arc<Place>,
}

impl Reserved<'_> {
    /// The reserved id.
    pub(super) fn tid(&self) -> u32 {
        self.slot.id()
    }

    /// Makes the agent visible: responses are delivered to it from now on.
    pub(super) fn publish(self, agent: Arc<Agent>) {
        *self.place.agent.lock() = Some(agent);
        self.slot.publish(self.place);
    }
}

impl Tids {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { agents <- rdma::new_table!("Tids::agents") }),
            GFP_KERNEL,
        )
    }

    /// Reserves a free transaction id. Its upper byte is zero: a driver uses that byte itself.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY`.
    pub(super) fn reserve(&self) -> Result<Reserved<'_>> {
        let place = Arc::pin_init(
            pin_init!(Place { agent <- rdma::new_spinlock_irq!(None, "Place::agent") }),
            GFP_KERNEL,
        )?;
        let slot = self.agents.reserve(1..=0xff_ffff, GFP_KERNEL)?;
        Ok(Reserved { slot, place })
    }

    /// The agent of a transaction id. Any context.
    fn get(&self, tid: u32) -> Option<Arc<Agent>> {
        let place = self.agents.get(tid)?;
        let agent = place.agent.lock().clone();
        agent
    }

    /// Frees a transaction id. Its agent is not found any more.
    pub(super) fn remove(&self, tid: u32) -> Option<Arc<Agent>> {
        let place = self.agents.remove(tid)?;
        let agent = place.agent.lock().take();
        agent
    }
}

/// Parameters of a port, known before it is opened.
pub(super) struct Params {
    number: u32,
    caps: Caps,
    opa: bool,
    mad_size: usize,
    sends: u32,
    receives: u32,
    node: Node,
    tids: Arc<Tids>,
}

/// See the [module](self).
#[pin_data]
pub(crate) struct Port {
    number: u32,
    caps: Caps,
    opa: bool,
    mad_size: usize,
    receives: u32,
    node: Node,
    tids: Arc<Tids>,
    #[pin]
    opened: Opened,
    #[pin]
    qp0: SpecialQp,
    #[pin]
    qp1: SpecialQp,
    #[pin]
    rules: SpinLockIrq<KVec<(Rule, Arc<Agent>)>>,
    #[pin]
    repliers: SpinLockIrq<[Option<Arc<Agent>>; 2]>,
    #[pin]
    handing: SpinLockIrq<Option<Handing>>,
}

/// A received MAD is being handed to its agent.
struct Handing {
    /// The task that does it.
    task: usize,
    /// The first agent of which the handler has cancelled a send.
    cancelled: Option<Arc<Agent>>,
}

/// Address of the current task, for comparisons.
fn current() -> usize {
    kernel::current!().as_ptr().addr()
}

impl Port {
    /// For [`Open::new`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(params: Params, opened: impl PinInit<Opened>) -> Result<Arc<Self>> {
        let sends = params.sends;
        Arc::pin_init(
            pin_init!(Self {
                number: params.number,
                caps: params.caps,
                opa: params.opa,
                mad_size: params.mad_size,
                receives: params.receives,
                node: params.node,
                tids: params.tids,
                opened <- opened,
                qp0 <- SpecialQp::new(Special::Smi, sends, *mad_size),
                qp1 <- SpecialQp::new(Special::Gsi, sends, *mad_size),
                rules <- rdma::new_spinlock_irq!(KVec::new(), "Port::rules"),
                repliers <- rdma::new_spinlock_irq!([None, None], "Port::repliers"),
                handing <- rdma::new_spinlock_irq!(None, "Port::handing"),
            }),
            GFP_KERNEL,
        )
    }

    /// The objects that the port refers to while it is open.
    #[inline]
    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Returns whether this is port `number` of `device`.
    pub(super) fn is_of(&self, device: &Device, number: u32) -> bool {
        self.opened.is_of(device) && self.number == number
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) const fn caps(&self) -> Caps {
        self.caps
    }

    /// Returns whether it is an Omni-Path port, which has longer MADs.
    pub(super) const fn is_opa(&self) -> bool {
        self.opa
    }

    /// Maximum size of a MAD in bytes.
    pub(super) const fn mad_size(&self) -> usize {
        self.mad_size
    }

    /// Number of receives per queue pair.
    pub(super) const fn receives(&self) -> u32 {
        self.receives
    }

    pub(super) const fn node(&self) -> Node {
        self.node
    }

    pub(super) fn tids(&self) -> &Tids {
        &self.tids
    }

    pub(super) const fn special_qp(&self, which: Special) -> &SpecialQp {
        match which {
            Special::Smi => &self.qp0,
            Special::Gsi => &self.qp1,
        }
    }

    /// Unregisters the agents that send responses. May sleep. The port is not found any more.
    pub(super) fn close(&self) {
        let repliers = core::mem::take(&mut *self.repliers.lock());
        for agent in repliers.into_iter().flatten() {
            Agent::unregister(&agent);
        }
        kernel::warn_on!(!self.rules.lock().is_empty());
    }

    /// Handles a received MAD by `f`, then ends the sends of an agent that its handler has cancelled:
    /// that needs no other task. Receives of a port are handled one at a time. May sleep.
    pub(super) fn handing<T>(&self, f: impl FnOnce() -> T) -> T {
        *self.handing.lock() = Some(Handing {
            task: current(),
            cancelled: None,
        });
        let result = f();
        let ended = self.handing.lock().take();
        if let Some(agent) = ended.and_then(|handing| handing.cancelled) {
            agent.expire();
        }
        result
    }

    /// Notes that a send of an agent is cancelled. Returns whether it ends without the agent's work,
    /// as the current task is in [`handing`](Self::handing). Any context.
    pub(super) fn cancels(&self, agent: &Arc<Agent>) -> bool {
        let mut handing = self.handing.lock();
        match &mut *handing {
            Some(handing) if handing.task == current() => {
                let noted = handing.cancelled.get_or_insert_with(|| agent.clone());
                Arc::ptr_eq(noted, agent)
            }
            _ => false,
        }
    }

    /// The agent that sends responses.
    pub(super) fn replier(&self, which: Special) -> Option<Arc<Agent>> {
        let [smi, gsi] = &*self.repliers.lock();
        match which {
            Special::Smi => smi.clone(),
            Special::Gsi => gsi.clone(),
        }
    }

    /// Has an agent receive the requests that match a rule. May sleep.
    ///
    /// # Errors
    ///
    /// The reason; `None` if there is no memory.
    pub(super) fn add_rule(&self, rule: Rule, agent: &Arc<Agent>) -> Result<(), Option<Refused>> {
        loop {
            let len = self.rules.lock().len();
            // Allocate before taking the lock.
            let wanted = len.checked_add(1).ok_or(None)?;
            let mut room = KVec::with_capacity(wanted, GFP_KERNEL).map_err(|_| None)?;
            let mut rules = self.rules.lock();
            rule.join(rules.iter().map(|(rule, _)| rule))
                .map_err(Some)?;
            if rules.len() >= room.capacity() {
                continue;
            }
            core::mem::swap(&mut *rules, &mut room);
            for each in room.drain_all() {
                // There is room for these and one more.
                let _ = rules.push_within_capacity(each);
            }
            let _ = rules.push_within_capacity((rule, agent.clone()));
            drop(rules);
            return Ok(());
        }
    }

    /// Removes all rules of an agent: it receives only responses from now on.
    pub(super) fn remove_rules(&self, agent: &Arc<Agent>) {
        // The caller holds a reference to the agent, so the last one is not dropped under the lock.
        retain(&mut self.rules.lock(), |(_, other)| {
            !Arc::ptr_eq(other, agent)
        });
    }

    /// Returns the agent that receives a MAD; `None` if there is none or it is being unregistered.
    /// Any context.
    pub(super) fn find_agent(&self, mad: &[u8]) -> Option<AgentPass> {
        let header = wire::Header::parse(mad)?;
        let agent = if header.is_response() {
            let high = u32::try_from(header.tid >> 32).ok()?;
            let agent = self.tids.get(high)?;
            // A response arrives on the port of its request.
            if !ptr::eq(agent.live().port(), self) {
                return None;
            }
            agent
        } else {
            let rules = self.rules.lock();
            let (_, agent) = rules.iter().find(|(rule, _)| rule.takes(&header, mad))?;
            agent.clone()
        };
        if !agent.receives() {
            pr_notice!("no receive handler for a client on port {}\n", self.number);
            return None;
        }
        AgentPass::enter(agent)
    }
}

/// Opens a port of a registered device. May sleep.
///
/// # Errors
///
/// `EFAULT` if the driver's MADs are too short; `ENOMEM`; errors of the driver.
pub(super) fn open(device: &Device, number: u32, tids: Arc<Tids>) -> Result<Open> {
    let immutable = device.immutable(number).ok_or(ENODEV)?;
    let has = |cap| immutable.core_cap_flags & cap != 0;
    let opa = has(bindings::RDMA_CORE_CAP_OPA_MAD);
    let mad_size = immutable.max_mad_size as usize;
    let least = if opa {
        wire::OPA_MAD_SIZE
    } else {
        wire::MAD_SIZE
    };
    if kernel::warn_on!(mad_size < least) {
        return Err(EFAULT);
    }
    let (sends, receives) = queue_sizes();
    let name = CString::try_from_fmt(fmt!("ib_mad{number}"))?;
    let queue = QueueOptions::ordered()
        .mem_reclaim()
        .create(&name, rdma::resident!())?;
    let params = Params {
        number,
        caps: Caps::of(device, number),
        opa,
        mad_size,
        sends,
        receives,
        node: node(device),
        tids,
    };
    // On error, dropping this undoes what follows.
    let mut open = Open::new(device.live().ok_or(ENODEV)?, queue, params)?;
    let queue_pairs = [
        (Special::Smi, has(bindings::RDMA_CORE_CAP_IB_SMI)),
        (Special::Gsi, has(bindings::RDMA_CORE_CAP_IB_CM)),
    ];
    let entries =
        sends
            .saturating_add(receives)
            .saturating_mul(if has(bindings::RDMA_CORE_CAP_IB_SMI) {
                2
            } else {
                1
            });
    open.add_pd()?;
    open.add_cq(i32::try_from(entries).map_err(|_| EINVAL)?)?;
    for (which, wanted) in queue_pairs {
        if wanted {
            open.add_qp(which, sends, receives)
                .inspect_err(|error| pr_err!("no management queue pair: {error:?}\n"))?;
        }
    }
    start(&open)?;
    Ok(open)
}

/// Brings the queue pairs into operation.
fn start(open: &Open) -> Result {
    let live = open.live();
    let index = live
        .device()
        .find_pkey(live.number(), DEFAULT_PKEY)
        .unwrap_or(0);
    for which in [Special::Smi, Special::Gsi] {
        change(live, which, index).inspect_err(|error| {
            pr_err!("a management queue pair does not start: {error:?}\n");
        })?;
    }
    open.request_event()?;
    for which in [Special::Smi, Special::Gsi] {
        if live.qp(which).is_some() {
            let count = live.receives() as usize;
            live.special(which).start_receiving(count)?;
        }
    }
    Ok(())
}

/// Moves a queue pair from RESET to RTS, if the port has it.
fn change(live: Live<'_>, which: Special, pkey_index: u16) -> Result {
    const STATE: u32 = bindings::ib_qp_attr_mask_IB_QP_STATE;
    const PKEY: u32 = bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    const QKEY: u32 = bindings::ib_qp_attr_mask_IB_QP_QKEY;
    const PSN: u32 = bindings::ib_qp_attr_mask_IB_QP_SQ_PSN;
    let Some(qp) = live.qp(which) else {
        return Ok(());
    };
    let steps = [
        (bindings::ib_qp_state_IB_QPS_INIT, STATE | PKEY | QKEY),
        (bindings::ib_qp_state_IB_QPS_RTR, STATE),
        (bindings::ib_qp_state_IB_QPS_RTS, STATE | PSN),
    ];
    for (state, mask) in steps {
        let change = Change {
            mask,
            state,
            current: 0,
            pkey_index,
            qkey: if qp.qp_num() == 0 { 0 } else { QP1_QKEY },
        };
        change.apply(qp)?;
    }
    Ok(())
}

/// Creates the agents that send responses of a port.
pub(super) fn open_repliers(port: &Arc<Port>) -> Result {
    for (index, which) in [Special::Smi, Special::Gsi].into_iter().enumerate() {
        let Some(agent) = reply::agent(port, which)? else {
            continue;
        };
        if let Some(place) = port.repliers.lock().get_mut(index) {
            *place = Some(agent);
        }
    }
    Ok(())
}
