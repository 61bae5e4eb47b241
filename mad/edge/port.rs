// SPDX-License-Identifier: GPL-2.0

//! An open port: the objects that exist while it is open, and the proof that it is.
//!
//! [`Open`] owns device, workqueue, protection domain, completion queue and queue pairs. A gate in
//! [`Opened`] counts users; [`Open`] waits for all of them before it destroys an object. Each agent
//! is a user until it is freed, and so is each callback of a receive. A [`Live`] comes from such a
//! user, and gives access to the objects.

use super::receive::RecvMad;
use super::receive::GRH;
use super::Wc;
use crate::cq;
use crate::cq::edge::OwnedPolled;
use crate::device::Device;
use crate::device::Registered;
use crate::mad::port::Params;
use crate::mad::port::Port;
use crate::mad::queue::SpecialRef;
use crate::object::tables::QpAttr;
use crate::object::tables::QpEvent;
use crate::object::tables::QpMake;
use crate::object::Given;
use crate::object::Owned;
use crate::object::Pd;
use crate::object::Qp;
use crate::proto::mad::smi::Node;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use crate::verbs;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::SetOnce;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::gate::Gate;
use rdma::gate::OwnedPass;
use rdma::gate::Pass;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;

/// Creator of the objects, as restrack shows it.
const OWNER: &CStr = c"ib_core";

/// A pointer to an object that [`Open`] owns.
struct Raw<V: View>(NonNull<V::C>);

// SAFETY: Objects of devices are not bound to a thread; functions that use them do their own
// locking (`include/rdma/ib_verbs.h`).
unsafe impl<V: View> Send for Raw<V> {}
// SAFETY: As for `Send`; the pointer itself is not modified.
unsafe impl<V: View> Sync for Raw<V> {}

/// The objects that a port refers to while it is open.
///
/// # Invariants
///
/// Until `gate` is closed and empty, `device` is registered, and the objects that `pd`, `smi` and
/// `gsi` point to exist.
#[pin_data]
pub(crate) struct Opened {
    device: NonNull<Device>,
    queue: QueueLease,
    pd: SetOnce<Raw<Pd>>,
    smi: SetOnce<Raw<Qp>>,
    gsi: SetOnce<Raw<Qp>>,
    #[pin]
    gate: Gate,
}

// SAFETY: The pointer is to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Opened {}
// SAFETY: As for `Send`.
unsafe impl Sync for Opened {}

impl Opened {
    fn slot(&self, which: Special) -> &SetOnce<Raw<Qp>> {
        match which {
            Special::Smi => &self.smi,
            Special::Gsi => &self.gsi,
        }
    }

    /// Returns whether this is a port of `device`.
    pub(crate) fn is_of(&self, device: &Device) -> bool {
        ptr::eq(self.device.as_ptr(), device)
    }
}

/// Proof that a port is open: for `'a`, its gate has a user, or its [`Open`] is borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a>(&'a Port);

impl Deref for Live<'_> {
    type Target = Port;

    fn deref(&self) -> &Port {
        self.0
    }
}

/// Result of passing a MAD to the driver.
pub(crate) struct Processed {
    /// `enum ib_mad_result`.
    pub(crate) result: u32,
    /// Size of the reply in bytes, if there is one.
    pub(crate) len: usize,
    /// P_Key index of the reply; Omni-Path only.
    pub(crate) pkey_index: u16,
}

impl<'a> Live<'a> {
    /// The port.
    #[inline]
    pub(crate) fn port(self) -> &'a Port {
        self.0
    }

    /// The device, which is registered.
    pub(crate) fn device(self) -> &'a Device {
        // SAFETY: `Opened` invariant: registered while its gate has a user, which it has (`Live`).
        unsafe { self.0.opened().device.as_ref() }
    }

    /// Workqueue of the port, which runs one item at a time.
    pub(crate) fn queue(self) -> &'a QueueLease {
        &self.0.opened().queue
    }

    /// Waits for the queued work. May sleep; not from that work.
    pub(crate) fn flush(self) {
        self.queue().flush();
    }

    /// The protection domain.
    pub(crate) fn pd(self) -> Option<&'a Pd> {
        let pd = self.0.opened().pd.as_ref()?;
        // SAFETY: `Opened` invariant: exists while its gate has a user, which it has (`Live`).
        Some(unsafe { Pd::view(pd.0.as_ptr()) })
    }

    /// A queue pair, if the port has it.
    pub(crate) fn qp(self, which: Special) -> Option<&'a Qp> {
        let qp = self.0.opened().slot(which).as_ref()?;
        // SAFETY: `Opened` invariant: exists while its gate has a user, which it has (`Live`).
        Some(unsafe { Qp::view(qp.0.as_ptr()) })
    }

    /// A queue pair with its send and receive state.
    pub(in crate::mad) fn special(self, which: Special) -> SpecialRef<'a> {
        SpecialRef::new(self, self.0.special_qp(which))
    }

    /// Returns whether the driver handles MADs.
    pub(crate) fn driver_handles(self) -> bool {
        self.device().ops().process_mad.is_some()
    }

    /// Passes a MAD to the driver, which may write a reply. Returns `None` if the driver handles no
    /// MADs. The driver may sleep if called for a received MAD; for a send, the context is the
    /// sender's.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the MAD is shorter than its version says.
    pub(crate) fn process_mad(
        self,
        port: u32,
        wc: &Wc,
        grh: Option<&[u8; GRH]>,
        mad: &[u8],
        answer: &mut RecvMad,
    ) -> Result<Option<Processed>> {
        let Some(process) = self.device().ops().process_mad else {
            return Ok(None);
        };
        let is_long = self.is_opa() && mad.first() == Some(&wire::OPA_VERSION);
        let needed = if is_long {
            wire::OPA_MAD_SIZE
        } else {
            wire::MAD_SIZE
        };
        if mad.len() < needed || answer.mad_size() < needed {
            return Err(EINVAL);
        }
        let (mut len, mut pkey_index) = (answer.mad_size(), 0_u16);
        // SAFETY: The method belongs to the device, which is registered; both MADs are as long as
        // the version of the first one says, which drivers rely on (`process_mad` in
        // `include/rdma/ib_verbs.h`); the rest is borrowed for the call.
        let result = unsafe {
            process(
                self.device().raw(),
                0,
                port,
                wc.raw(),
                grh.map_or(ptr::null(), |grh| grh.as_ptr().cast()),
                mad.as_ptr().cast(),
                answer.mad().as_mut_ptr().cast(),
                &mut len,
                &mut pkey_index,
            )
        };
        Ok(Some(Processed {
            result: result as u32,
            len,
            pkey_index,
        }))
    }
}

/// Keeps a port open as long as it exists.
pub(crate) struct OpenPort(OwnedPass<Port>);

impl OpenPort {
    /// Returns `None` if the port is being closed.
    pub(crate) fn enter(port: Arc<Port>) -> Option<Self> {
        OwnedPass::try_enter(port, |port| &port.opened().gate).map(Self)
    }

    /// Proof that the port is open.
    #[inline]
    pub(crate) fn live(&self) -> Live<'_> {
        Live(self.0.owner())
    }
}

/// Like [`OpenPort`], for a callback.
pub(crate) struct Entered<'a> {
    _pass: Pass<'a>,
    port: &'a Port,
}

impl Entered<'_> {
    /// Proof that the port is open.
    pub(crate) fn live(&self) -> Live<'_> {
        Live(self.port)
    }
}

/// The port of a completion queue, as its callbacks receive it.
pub(crate) struct PortOf<'a>(&'a Port);

impl<'a> PortOf<'a> {
    /// Returns `None` if the port is being closed.
    pub(crate) fn enter(self) -> Option<Entered<'a>> {
        Some(Entered {
            _pass: self.0.opened().gate.try_enter()?,
            port: self.0,
        })
    }
}

// SAFETY: `from_c` is for the completion queue of a port, in a callback of its polling. The context
// of such a queue is the port (`Open::add_cq`), which `Open` keeps until the queue is freed, which
// ends its polling.
unsafe impl FromC for PortOf<'_> {
    type C = *mut bindings::ib_cq;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: See the implementation: the queue is live, and its context is a live port and
        // does not change.
        Self(unsafe { &*(*c).cq_context.cast::<Port>() })
    }
}
// SAFETY: `Open` keeps the port for the call.
unsafe impl<'a> Within<'a> for PortOf<'a> {}

/// Proof that a queue pair and its completions are gone, so the device uses none of its requests.
/// The device still exists.
pub(crate) struct Gone<'a> {
    device: &'a Device,
}

impl Gone<'_> {
    /// The device.
    pub(super) fn device(&self) -> &Device {
        self.device
    }
}

/// An open port, owner of its objects. Dropping it closes the port, and waits for all agents.
pub(crate) struct Open {
    port: Arc<Port>,
    cq: Option<OwnedPolled>,
    // After the port, which has a lease of it.
    queue: OwnedQueue,
    device: Registered,
}

// SAFETY: The completion queue is not bound to a thread; the rest is `Send`.
unsafe impl Send for Open {}

impl Open {
    /// Creates a port without objects, whose work runs on `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: Registered, queue: OwnedQueue, params: Params) -> Result<Self> {
        // INVARIANT: `Open` keeps device and queue until the gate is closed and empty. There are no
        // objects yet.
        let (device_at, lease) = (NonNull::from(&*device), queue.lease());
        let opened = pin_init!(Opened {
            device: device_at,
            queue: lease,
            pd: SetOnce::new(),
            smi: SetOnce::new(),
            gsi: SetOnce::new(),
            gate <- Gate::new(),
        });
        Ok(Self {
            port: Port::new(params, opened)?,
            cq: None,
            queue,
            device,
        })
    }

    /// The part of the port that agents share.
    pub(crate) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Proof that the port is open.
    pub(crate) fn live(&self) -> Live<'_> {
        // The gate need not have a user: only dropping `self` closes it.
        Live(&self.port)
    }

    /// Creates the protection domain. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the driver.
    pub(crate) fn add_pd(&mut self) -> Result {
        let pd = verbs::alloc_pd(&self.device, 0, Some(OWNER))?;
        self.port
            .opened()
            .pd
            .populate(Raw(NonNull::new(pd.ok()).ok_or(ENOMEM)?));
        Ok(())
    }

    /// Creates the completion queue. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the driver.
    pub(crate) fn add_cq(&mut self, entries: i32) -> Result {
        let context: *mut kernel::ffi::c_void = Arc::as_ptr(&self.port).cast_mut().cast();
        // SAFETY: The pointer is only passed on.
        let private = unsafe { Passed::from_c(context) };
        let request = cq::Request {
            private,
            size: entries,
            vector: 0,
            context: cq::Context::Unbound,
            caller: Some(OWNER),
        };
        self.cq = Some(cq::alloc(&self.device, &request)?);
        Ok(())
    }

    /// Requests an event of the completion queue at the next completion.
    ///
    /// # Errors
    ///
    /// Errors of the driver; `EINVAL` if there is no queue.
    pub(crate) fn request_event(&self) -> Result {
        let cq = self.cq.as_ref().ok_or(EINVAL)?;
        // SAFETY: `self` owns the queue.
        to_result(unsafe { bindings::rdma_helper_ib_req_notify_cq(cq.raw()) })
    }

    /// Creates a queue pair with the given queue sizes. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the driver; `EINVAL` if protection domain or completion queue are
    /// missing.
    pub(crate) fn add_qp(&mut self, which: Special, sends: u32, receives: u32) -> Result {
        let pd = self.live().pd().ok_or(EINVAL)?;
        let cq = self.cq.as_ref().ok_or(EINVAL)?.raw();
        let mut make = bindings::ib_qp_init_attr {
            event_handler: Some(on_fatal),
            send_cq: cq,
            recv_cq: cq,
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: match which {
                Special::Smi => bindings::ib_qp_type_IB_QPT_SMI,
                Special::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
            },
            port_num: self.port.number(),
            ..Default::default()
        };
        make.cap.max_send_wr = sends;
        make.cap.max_recv_wr = receives;
        make.cap.max_send_sge = 2;
        make.cap.max_recv_sge = 1;
        // SAFETY: `make` is valid, its completion queue exists, and it is not shared.
        let make = unsafe { QpMake::view(&raw mut make) };
        let qp = verbs::create_qp(pd, make, Some(OWNER))?;
        let qp = Raw(NonNull::new(qp.ok()).ok_or(ENOMEM)?);
        self.port.opened().slot(which).populate(qp);
        Ok(())
    }

    /// Destroys a queue pair, if there is one. Returns whether it is gone.
    ///
    /// # Safety
    ///
    /// The gate must be closed and empty, and this must be called once.
    unsafe fn destroy_qp(&self, which: Special) -> bool {
        let Some(qp) = self.port.opened().slot(which).as_ref() else {
            return true;
        };
        // SAFETY: `add_qp` created it. By the contract of this function there are no users, and
        // nothing else destroys it.
        let qp = unsafe { Owned::from_c(qp.0.as_ptr()) };
        verbs::destroy_qp(Given::of(qp), None).is_ok()
    }
}

/// Handles an event of a queue pair: none is expected.
fn fatal(event: &QpEvent, _context: Passed<kernel::ffi::c_void>) {
    pr_err!(
        "fatal error ({}) on a management queue pair\n",
        event.kind()
    );
}

rdma::callback! {
    /// Event handler of the queue pairs, called by drivers.
    fn on_fatal(event: &QpEvent, context: Passed<kernel::ffi::c_void>) = fatal;
}

impl Drop for Open {
    /// May sleep. The port is not found any more.
    fn drop(&mut self) {
        self.port.close();
        // INVARIANT of `Opened`: its guarantee ends here.
        self.port.opened().gate.close_and_wait();
        self.queue.drain();
        let gone = [Special::Gsi, Special::Smi].map(|which| {
            // SAFETY: The gate was closed just now, and this is the only call per queue pair.
            (which, unsafe { self.destroy_qp(which) })
        });
        if let Some(cq) = self.cq.take() {
            cq::free(cq);
        }
        for (which, gone) in gone {
            // If the driver refused, the device still uses the receives.
            if !kernel::warn_on!(!gone) {
                let gone = Gone {
                    device: &self.device,
                };
                self.port.special_qp(which).stop_receiving(&gone);
            }
        }
        if let Some(pd) = self.port.opened().pd.as_ref() {
            // SAFETY: `add_pd` created it, and there are no users any more.
            let pd = unsafe { Owned::from_c(pd.0.as_ptr()) };
            let _: Result = verbs::dealloc_pd(Given::of(pd), None);
        }
    }
}

/// Attributes of a change of a queue pair.
#[derive(Clone, Copy, Default)]
pub(crate) struct Change {
    /// `enum ib_qp_attr_mask`: which attributes are used.
    pub(crate) mask: u32,
    /// `enum ib_qp_state`.
    pub(crate) state: u32,
    /// The current state.
    pub(crate) current: u32,
    /// P_Key index.
    pub(crate) pkey_index: u16,
    /// Q_Key.
    pub(crate) qkey: u32,
}

impl Change {
    /// Modifies a queue pair. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(crate) fn apply(self, qp: &Qp) -> Result {
        let mut attr = bindings::ib_qp_attr {
            qp_state: self.state,
            cur_qp_state: self.current,
            pkey_index: self.pkey_index,
            qkey: self.qkey,
            ..Default::default()
        };
        // SAFETY: `attr` is valid and not shared.
        let attr = unsafe { QpAttr::view(&raw mut attr) };
        verbs::modify_qp(qp, attr, self.mask as i32)
    }
}

/// Properties of the device for directed routes: whether it is a switch, and its number of ports.
pub(crate) fn node(device: &Device) -> Node {
    // SAFETY: The driver writes both before the device is registered, and they do not change.
    let (node_type, ports) = unsafe { ((*device.raw()).node_type, (*device.raw()).phys_port_cnt) };
    Node {
        is_switch: u32::from(node_type) == bindings::RDMA_NODE_IB_SWITCH,
        ports,
    }
}

/// Queue sizes of a queue pair (sends, receives): the module parameters, within bounds.
pub(crate) fn queue_sizes() -> (u32, u32) {
    // SAFETY: Module parameters that cannot be changed after loading (`core/exports.c`).
    let (sends, receives) = unsafe {
        (
            (&raw const bindings::rdma_mad_send_queue).read_volatile(),
            (&raw const bindings::rdma_mad_recv_queue).read_volatile(),
        )
    };
    let bounded = |size: i32| size.clamp(64, 8192) as u32;
    (bounded(sends), bounded(receives))
}
