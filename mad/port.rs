// SPDX-License-Identifier: GPL-2.0

//! A port that has management datagrams, and what is opened for it: a domain, a completion
//! queue, queue pairs 0 and 1, a queue for work, and the agents that answers are sent by.
//!
//! [`Port`] is what agents and completions share; it lives as long as anybody has it, and
//! its last reference may be dropped in any context. [`Open`] owns what the driver made, and
//! takes it back when it is dropped. Clients have unregistered their agents by then: theirs
//! are told of the device's end before this one.
//!
//! Locks: `Port::rules` and `Port::repliers`, in any context; nothing is taken inside.

use super::agent::Agent;
use super::agent::OwnedPass;
use super::queue::SpecialQp;
use super::reply;
use crate::device::Device;
use crate::proto::mad::registry::Refused;
use crate::proto::mad::registry::Rule;
use crate::proto::mad::smi::Node;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use crate::verbs::Caps;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::workqueue::Queue;
use rdma::bindings;
use rdma::sync::SpinLockIrq;
use rdma::table::Slot;
use rdma::table::Table;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

/// Who restrack says has made the objects.
const OWNER: &CStr = c"ib_core";
/// The P_Key of the default partition, for full members.
const DEFAULT_PKEY: u16 = 0xffff;
/// The key of queue pair 1.
const QP1_QKEY: u32 = 0x8001_0000;

/// The agents, by the upper half of the transactions that they begin.
#[pin_data]
pub(super) struct Tids {
    #[pin]
    agents: Table<Agent>,
}

impl Tids {
    /// None yet.
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

    /// A number that nobody has. Its upper byte is zero: a driver uses that for itself.
    pub(super) fn reserve(&self) -> Result<Slot<'_, Agent>> {
        self.agents.reserve(1..=0xff_ffff, GFP_KERNEL)
    }

    pub(super) fn remove(&self, tid: u32) -> Option<Arc<Agent>> {
        self.agents.remove(tid)
    }
}

/// How many work requests a queue pair has: what the parameter says, within bounds.
fn queue_size(parameter: *const kernel::ffi::c_int) -> u32 {
    // SAFETY: A parameter that is not changed after loading.
    let size = unsafe { parameter.read_volatile() };
    size.clamp(64, 8192) as u32
}

/// See the [module](self).
#[pin_data]
pub(crate) struct Port {
    device: NonNull<bindings::ib_device>,
    number: u32,
    caps: Caps,
    opa: bool,
    mad_size: usize,
    receives: u32,
    node: Node,
    queue: NonNull<bindings::workqueue_struct>,
    tids: Arc<Tids>,
    closing: Atomic<bool>,
    #[pin]
    qp0: SpecialQp,
    #[pin]
    qp1: SpecialQp,
    #[pin]
    rules: SpinLockIrq<KVec<(Rule, Arc<Agent>)>>,
    #[pin]
    repliers: SpinLockIrq<[Option<Arc<Agent>>; 2]>,
}

// SAFETY: Pointers are to objects that belong to no thread; the rest has locks.
unsafe impl Send for Port {}
// SAFETY: As above.
unsafe impl Sync for Port {}

impl Port {
    pub(super) fn device(&self) -> *mut bindings::ib_device {
        self.device.as_ptr()
    }

    /// The driver's methods.
    pub(super) fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: The device stays while the port is open, and nobody asks later.
        unsafe { &(*self.device.as_ptr()).ops }
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) const fn caps(&self) -> Caps {
        self.caps
    }

    /// Whether it is of Omni-Path, which has longer MADs.
    pub(super) const fn is_opa(&self) -> bool {
        self.opa
    }

    /// Bytes of the longest MAD.
    pub(super) const fn mad_size(&self) -> usize {
        self.mad_size
    }

    /// How many receives each queue pair has.
    pub(super) const fn receives(&self) -> u32 {
        self.receives
    }

    pub(super) const fn node(&self) -> Node {
        self.node
    }

    /// Where its work is done, one item after the other.
    pub(super) fn queue(&self) -> &Queue {
        // SAFETY: The queue stays while the port is open: agents are gone by then.
        unsafe { Queue::from_raw(self.queue.as_ptr()) }
    }

    /// Waits until what is queued has been done. May sleep; not from there.
    pub(super) fn flush(&self) {
        // SAFETY: As above.
        unsafe { bindings::__flush_workqueue(self.queue.as_ptr()) };
    }

    pub(super) fn tids(&self) -> &Tids {
        &self.tids
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    pub(super) const fn special(&self, which: Special) -> &SpecialQp {
        match which {
            Special::Smi => &self.qp0,
            Special::Gsi => &self.qp1,
        }
    }

    /// The agent that answers are sent by.
    pub(super) fn replier(&self, which: Special) -> Option<Arc<Agent>> {
        let [smi, gsi] = &*self.repliers.lock();
        match which {
            Special::Smi => smi.clone(),
            Special::Gsi => gsi.clone(),
        }
    }

    /// Has an agent get what a rule says. May sleep.
    ///
    /// # Errors
    ///
    /// Why not; none, if there is no memory.
    pub(super) fn add_rule(&self, rule: Rule, agent: &Arc<Agent>) -> Result<(), Option<Refused>> {
        loop {
            let len = self.rules.lock().len();
            // No memory is to be had under the lock.
            let mut room = KVec::with_capacity(len + 1, GFP_KERNEL).map_err(|_| None)?;
            let mut rules = self.rules.lock();
            rule.join(rules.iter().map(|(rule, _)| rule))
                .map_err(Some)?;
            if rules.len() >= room.capacity() {
                continue;
            }
            core::mem::swap(&mut *rules, &mut room);
            for each in room.drain_all() {
                // There is room for these and for one more.
                let _ = rules.push_within_capacity(each);
            }
            let _ = rules.push_within_capacity((rule, agent.clone()));
            drop(rules);
            return Ok(());
        }
    }

    /// Has an agent get nothing any more that it does not wait for.
    pub(super) fn remove_rules(&self, agent: &Arc<Agent>) {
        // The caller has the agent, so what is dropped under the lock is not the last.
        self.rules
            .lock()
            .retain(|(_, other)| !Arc::ptr_eq(other, agent));
    }

    /// The agent that gets a MAD, unless it is going, or gets none at all. Any context.
    pub(super) fn find_agent(&self, mad: &[u8]) -> Option<OwnedPass> {
        let header = wire::Header::parse(mad)?;
        let agent = if header.is_response() {
            let high = u32::try_from(header.tid >> 32).ok()?;
            let agent = self.tids.agents.get(high)?;
            // An answer comes where the request left from.
            if !ptr::eq(Arc::as_ptr(agent.port()), self) {
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
        OwnedPass::try_enter(agent, |agent: &Agent| agent.gate())
    }
}

/// An open port: what it owns.
pub(super) struct Open {
    port: Arc<Port>,
    queue: Option<OwnedQueue>,
    pd: *mut bindings::ib_pd,
    cq: *mut bindings::ib_cq,
}

// SAFETY: Objects of devices belong to no thread.
unsafe impl Send for Open {}

impl Open {
    /// Opens a port of a device that is registered. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the driver's MADs are too short; `ENOMEM`; the driver's.
    pub(super) fn new(device: &Device, number: u32, tids: Arc<Tids>) -> Result<Self> {
        let immutable = device.immutable(number).ok_or(ENODEV)?;
        let opa = immutable.core_cap_flags & bindings::RDMA_CORE_CAP_OPA_MAD != 0;
        let mad_size = immutable.max_mad_size as usize;
        let least = if opa {
            wire::OPA_MAD_SIZE
        } else {
            wire::MAD_SIZE
        };
        if kernel::warn_on!(mad_size < least) {
            return Err(EFAULT);
        }
        let sends = queue_size(&raw const bindings::rdma_mad_send_queue);
        let receives = queue_size(&raw const bindings::rdma_mad_recv_queue);
        let name = CString::try_from_fmt(fmt!("ib_mad{number}"))?;
        let queue = QueueOptions::ordered().mem_reclaim().create(&name)?;
        let raw = device.as_raw();
        // SAFETY: Written before the device is registered.
        let (node_type, ports) = unsafe { ((*raw).node_type, (*raw).phys_port_cnt) };
        let node = Node {
            is_switch: u32::from(node_type) == bindings::RDMA_NODE_IB_SWITCH,
            ports,
        };
        let queue_ptr = NonNull::from(&*queue).cast();
        let device_ptr = NonNull::new(raw).ok_or(EINVAL)?;
        let caps = Caps::of(device, number);
        let port = Arc::pin_init(
            pin_init!(Port {
                device: device_ptr,
                number,
                caps,
                opa,
                mad_size,
                receives,
                node,
                queue: queue_ptr,
                tids,
                closing: Atomic::new(false),
                // SAFETY: The queue pairs go before the device does.
                qp0 <- unsafe { SpecialQp::new(Special::Smi, raw, sends, *mad_size) },
                // SAFETY: As above.
                qp1 <- unsafe { SpecialQp::new(Special::Gsi, raw, sends, *mad_size) },
                rules <- rdma::new_spinlock_irq!(KVec::new(), "Port::rules"),
                repliers <- rdma::new_spinlock_irq!([None, None], "Port::repliers"),
            }),
            GFP_KERNEL,
        )?;
        // What follows is undone by dropping this.
        let mut this = Self {
            port,
            queue: Some(queue),
            pd: ptr::null_mut(),
            cq: ptr::null_mut(),
        };
        let smi = immutable.core_cap_flags & bindings::RDMA_CORE_CAP_IB_SMI != 0;
        let cm = immutable.core_cap_flags & bindings::RDMA_CORE_CAP_IB_CM != 0;
        this.make(smi, cm, sends, receives)?;
        Ok(this)
    }

    /// What agents see of it.
    pub(super) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Makes the objects.
    fn make(&mut self, smi: bool, cm: bool, sends: u32, receives: u32) -> Result {
        let port = self.port.clone();
        let device = port.device();
        let owner = OWNER.as_char_ptr();
        let entries = sends.saturating_add(receives) * if smi { 2 } else { 1 };
        // SAFETY: The device is registered; the name is static; the queue's context is the
        // port, which stays until the queue is freed.
        unsafe {
            self.pd = from_err_ptr(bindings::__ib_alloc_pd(device, 0, owner))?;
            self.cq = from_err_ptr(bindings::__ib_alloc_cq(
                device,
                Arc::as_ptr(&port).cast_mut().cast(),
                entries as i32,
                0,
                bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
                owner,
            ))?;
        }
        for (which, wanted) in [(Special::Smi, smi), (Special::Gsi, cm)] {
            if wanted {
                self.make_qp(which, sends, receives)?;
            }
        }
        self.start()
    }

    fn make_qp(&self, which: Special, sends: u32, receives: u32) -> Result {
        // SAFETY: Zeros are one.
        let mut init: bindings::ib_qp_init_attr = unsafe { core::mem::zeroed() };
        init.send_cq = self.cq;
        init.recv_cq = self.cq;
        init.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_ALL_WR;
        init.cap.max_send_wr = sends;
        init.cap.max_recv_wr = receives;
        init.cap.max_send_sge = 2;
        init.cap.max_recv_sge = 1;
        init.qp_type = match which {
            Special::Smi => bindings::ib_qp_type_IB_QPT_SMI,
            Special::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
        };
        init.port_num = self.port.number();
        init.event_handler = Some(fatal);
        // SAFETY: Domain and queue are there; the handler takes no context.
        let qp = from_err_ptr(unsafe {
            bindings::ib_create_qp_kernel(self.pd, &mut init, OWNER.as_char_ptr())
        })
        .inspect_err(|error| pr_err!("no management queue pair: {error:?}\n"))?;
        self.port.special(which).set_qp(qp);
        Ok(())
    }

    /// Makes the queue pairs work.
    fn start(&self) -> Result {
        let port = &self.port;
        let mut index = 0;
        // SAFETY: The device is registered.
        let found = unsafe {
            bindings::ib_find_pkey(port.device(), port.number(), DEFAULT_PKEY, &mut index)
        };
        let index = if found == 0 { index } else { 0 };
        for special in [&port.qp0, &port.qp1] {
            let Some(qp) = special.qp() else { continue };
            change(qp, index).inspect_err(|error| {
                pr_err!("a management queue pair does not start: {error:?}\n");
            })?;
        }
        // SAFETY: The queue is there.
        to_result(unsafe { bindings::rdma_helper_ib_req_notify_cq(self.cq) })?;
        for special in [&port.qp0, &port.qp1] {
            if special.qp().is_some() {
                special.start_receiving(port.receives() as usize)?;
            }
        }
        Ok(())
    }

    /// Makes the agents that answers are sent by. The port can be found.
    pub(super) fn open_repliers(&self) -> Result {
        for (index, which) in [Special::Smi, Special::Gsi].into_iter().enumerate() {
            if self.port.special(which).qp().is_none() {
                continue;
            }
            let agent = reply::agent(&self.port, which)?;
            if let Some(place) = self.port.repliers.lock().get_mut(index) {
                *place = Some(agent);
            }
        }
        Ok(())
    }
}

/// Brings a queue pair from reset to where it sends.
fn change(qp: *mut bindings::ib_qp, pkey_index: u16) -> Result {
    const STATE: u32 = bindings::ib_qp_attr_mask_IB_QP_STATE;
    // SAFETY: Zeros are one; the queue pair is there.
    let mut attr: bindings::ib_qp_attr = unsafe { core::mem::zeroed() };
    attr.pkey_index = pkey_index;
    // SAFETY: As above.
    attr.qkey = if unsafe { (*qp).qp_num } == 0 {
        0
    } else {
        QP1_QKEY
    };
    let steps = [
        (
            bindings::ib_qp_state_IB_QPS_INIT,
            STATE
                | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | bindings::ib_qp_attr_mask_IB_QP_QKEY,
        ),
        (bindings::ib_qp_state_IB_QPS_RTR, STATE),
        (
            bindings::ib_qp_state_IB_QPS_RTS,
            STATE | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN,
        ),
    ];
    for (state, mask) in steps {
        attr.qp_state = state;
        // SAFETY: As above.
        to_result(unsafe { bindings::ib_modify_qp(qp, &mut attr, mask as i32) })?;
    }
    Ok(())
}

/// # Safety
///
/// For drivers only.
unsafe extern "C" fn fatal(event: *mut bindings::ib_event, _context: *mut kernel::ffi::c_void) {
    // SAFETY: The driver gives a valid event.
    let event = unsafe { (*event).event };
    pr_err!("fatal error ({event}) on a management queue pair\n");
}

impl Drop for Open {
    /// Closes it; may sleep. It cannot be found any more.
    fn drop(&mut self) {
        self.port.closing.store(true, Release);
        let repliers = core::mem::take(&mut *self.port.repliers.lock());
        for agent in repliers.into_iter().flatten() {
            Agent::unregister(&agent);
        }
        kernel::warn_on!(!self.port.rules.lock().is_empty());
        self.queue = None;
        // SAFETY: All were made by `make`, and nobody else uses them any more. Objects are
        // destroyed before what they were made of.
        unsafe {
            for special in [&self.port.qp1, &self.port.qp0] {
                if let Some(qp) = special.qp() {
                    let _ = bindings::ib_destroy_qp_user(qp, ptr::null_mut());
                }
            }
            if !self.cq.is_null() {
                bindings::ib_free_cq(self.cq);
            }
            self.port.qp0.stop_receiving();
            self.port.qp1.stop_receiving();
            if !self.pd.is_null() {
                let _ = bindings::ib_dealloc_pd_user(self.pd, ptr::null_mut());
            }
        }
    }
}
