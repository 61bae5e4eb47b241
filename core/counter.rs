// SPDX-License-Identifier: GPL-2.0

//! Counters bound to queue pairs (`rdma statistic`).
//!
//! A port has a *mode*. In manual mode, a user binds a queue pair to an existing or a new counter.
//! In auto mode, each new user queue pair is bound to the counter for its type, its process or
//! both, as selected by the mode's mask. When the last queue pair leaves a counter, its values are
//! added to the *history* of the port, so that the sum never decreases.
//!
//! Locks: `Counters::bindings` of a device guards which queue pair has which counter;
//! `Counters::port` guards the mode of a port and the number of its counters; `Counter::driver` is
//! held around a driver's methods of a counter. The last two are innermost.

mod counted;
pub(crate) mod edge;

use crate::device::netns;
use crate::device::Device;
use crate::edge::device::Unregistered;
use crate::edge::tracked::Tracked;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::restrack::Kind;
use crate::restrack::Held;
use crate::stats;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::provider::unsupported;

pub(crate) use self::edge::release;
use self::edge::Counted;
use self::edge::PortCounter;
pub(crate) use crate::edge::counter::Counter;

/// Counter state of a device.
#[pin_data]
pub(crate) struct Bindings {
    /// Held while a queue pair is bound or unbound.
    #[pin]
    lock: Mutex<()>,
}

impl crate::device::PerDevice for Bindings {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            lock <- kernel::new_mutex!((), "Counters::bindings"),
        })
    }
}

/// How queue pairs are bound to counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not configured.
    None,
    /// Automatically, when they are created.
    Auto,
    /// By user command.
    Manual,
}

impl Mode {
    /// Converts to the value used by C and netlink (`enum rdma_nl_counter_mode`).
    pub(crate) fn to_raw(self) -> bindings::rdma_nl_counter_mode {
        match self {
            Self::None => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_NONE,
            Self::Auto => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO,
            Self::Manual => bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_MANUAL,
        }
    }

    fn from_raw(raw: bindings::rdma_nl_counter_mode) -> Self {
        match raw {
            bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO => Self::Auto,
            bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_MANUAL => Self::Manual,
            _ => Self::None,
        }
    }
}

/// Counter mode of a port and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortMode {
    pub(crate) mode: Mode,
    /// In auto mode, the attributes that queue pairs of one counter share (`enum
    /// rdma_nl_counter_mask`).
    pub(crate) mask: u32,
    /// Whether optional counters are bound as well.
    pub(crate) bind_opcnt: bool,
}

/// Valid bits of a mask.
const MASKS: u32 = bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE
    | bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID;

/// Counters of a port.
#[derive(Clone, Copy)]
struct Port<'a> {
    device: &'a Device,
    port: u32,
    data: &'a PortCounter,
}

impl<'a> Port<'a> {
    fn of(device: &'a Device, port: u32) -> Option<Self> {
        let data = device.port(port)?.counter();
        Some(Self { device, port, data })
    }

    fn lock(&self) -> Locked<'a> {
        Locked {
            data: self.data,
            guard: self.data.mutex().lock(),
        }
    }

    /// Sums of freed counters; `None` if the driver has no port counters.
    fn history(&self) -> Option<&stats::HwStats> {
        self.data.history()
    }
}

/// Counter state of a port, locked.
struct Locked<'a> {
    data: &'a PortCounter,
    guard: edge::Locked<'a>,
}

impl Locked<'_> {
    fn mode(&self) -> PortMode {
        PortMode {
            mode: Mode::from_raw(self.data.raw_mode(&self.guard)),
            mask: self.data.mask(&self.guard),
            bind_opcnt: self.data.bind_opcnt(&self.guard),
        }
    }

    fn set(&mut self, mode: PortMode) {
        self.data.set_raw_mode(&mut self.guard, mode.mode.to_raw());
        self.data.set_mask(&mut self.guard, mode.mask);
        self.data.set_bind_opcnt(&mut self.guard, mode.bind_opcnt);
    }

    /// Number of counters.
    fn counters(&self) -> u32 {
        self.data.num_counters(&self.guard)
    }

    /// Adds one to the number of counters.
    fn count_one_more(&mut self) {
        let counters = self.counters().saturating_add(1);
        self.data.set_num_counters(&mut self.guard, counters);
    }

    /// Subtracts one from the number of counters. Manual mode ends with the last one.
    fn forget_counter(&mut self) {
        let counters = self.counters().saturating_sub(1);
        self.data.set_num_counters(&mut self.guard, counters);
        if counters == 0 && self.mode().mode == Mode::Manual {
            self.set(PortMode {
                mode: Mode::None,
                mask: 0,
                bind_opcnt: false,
            });
        }
    }
}

/// Prepares the ports of a device that is about to be registered. A port without driver counters
/// gets no history and cannot bind counters. May sleep.
pub(crate) fn set_up(alone: &mut Unregistered<'_>) {
    let device = alone.device();
    for port in device.ports() {
        let history = stats::Owned::of_port(device, port).ok().flatten();
        edge::set_up(alone, port, history);
    }
}

/// Puts a port into auto mode with this mask, or ends auto mode if the mask is empty. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if the port has no counters, `EINVAL` for an invalid mask or port, `EBUSY` if a
/// queue pair is bound.
pub(crate) fn set_auto_mode(device: &Device, port: u32, mask: u32, bind_opcnt: bool) -> Result {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    if port.history().is_none() {
        return Err(unsupported());
    }
    let mut locked = port.lock();
    let bound = locked.counters() != 0;
    let mode = PortMode {
        mode: match (mask, bound) {
            (0, false) => Mode::None,
            (0, true) => Mode::Manual,
            _ => Mode::Auto,
        },
        mask,
        bind_opcnt,
    };
    if locked.mode() == mode {
        return Ok(());
    }
    if mode.mode == Mode::Auto {
        if mask & !MASKS != 0 {
            return Err(EINVAL);
        }
        if bound {
            return Err(EBUSY);
        }
    }
    locked.set(mode);
    Ok(())
}

/// Returns the mode of a port; [`Mode::None`] if there is no such port. May sleep.
pub(crate) fn get_mode(device: &Device, port: u32) -> PortMode {
    match Port::of(device, port) {
        Some(port) => port.lock().mode(),
        None => PortMode {
            mode: Mode::None,
            mask: 0,
            bind_opcnt: false,
        },
    }
}

/// Enables or disables an optional counter of a port. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if the driver does not support it, `EINVAL` if the counter does not exist or is not
/// optional; errors of the driver.
pub(crate) fn modify(device: &Device, port: u32, index: usize, enable: bool) -> Result {
    device.ops().modify_hw_stat.ok_or_else(unsupported)?;
    let stats = device
        .port_stats(port)
        .filter(|stats| stats.is_optional(index))
        .ok_or(EINVAL)?;
    let mut values = stats.lock();
    if enable != stats.is_disabled(index) {
        return Ok(());
    }
    let number = u32::try_from(index)?;
    device.driver().modify_hw_stat(port, number, enable)?;
    values.set_disabled(index, !enable);
    Ok(())
}

/// A reference to a queue pair.
///
/// # Invariants
///
/// The restrack entry is a queue pair's.
struct HeldQp(Held);

impl HeldQp {
    /// # Errors
    ///
    /// `ENOENT` if there is none, or it is a raw packet queue pair and the caller lacks the
    /// capability.
    fn find(device: &Device, number: u32) -> Result<Self> {
        let held = device
            .slot::<crate::restrack::Tables>()
            .of(Kind::Qp)
            .get(number);
        let held = held.ok_or(ENOENT)?;
        let kind = Qp::of_entry(&held).ok_or(ENOENT)?.qp_type();
        if kind == bindings::ib_qp_type_IB_QPT_RAW_PACKET && !netns::has_raw_cap(device) {
            return Err(ENOENT);
        }
        // INVARIANT: `Qp::of_entry` succeeded above.
        Ok(Self(held))
    }

    /// # Errors
    ///
    /// None in practice: the entry is a queue pair's (type invariant).
    fn qp(&self) -> Result<&Qp> {
        Qp::of_entry(&self.0).ok_or(ENOENT)
    }

    /// Port of the queue pair; not a valid port number before it has one.
    fn port(&self) -> u32 {
        self.qp().map_or(0, Qp::port)
    }

    fn is_elsewhere(&self, port: &Port<'_>) -> bool {
        port.device.has_port(self.port()) && self.port() != port.port
    }
}

/// Binds a queue pair to a counter of the same port. May sleep.
///
/// # Errors
///
/// `EINVAL` in auto mode, for an invalid port, for a queue pair that has a counter or is on another
/// port, and if only one of the two belongs to the kernel; `ENOENT` if there is no such queue pair
/// or counter; `EOPNOTSUPP`; errors of the driver.
pub(crate) fn bind_qpn(device: &Device, port: u32, qpn: u32, counter: u32) -> Result {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    if port.lock().mode().mode == Mode::Auto {
        return Err(EINVAL);
    }
    let qp = HeldQp::find(device, qpn)?;
    let counter = Counted::find(device, counter).ok_or(ENOENT)?;
    if counter.entry().is_kernel() != qp.0.is_kernel() || counter.port() != qp.port() {
        return Err(EINVAL);
    }
    counter.bind(qp.qp()?, port.port)
}

/// Creates a counter and binds a queue pair to it. Returns the counter's ID. May sleep.
///
/// # Errors
///
/// `EINVAL` in auto mode, for an invalid port and for a queue pair on another one; `EOPNOTSUPP` if
/// the port has no counters; `ENOENT` if there is no such queue pair; `ENOMEM` for any failure of
/// the driver.
pub(crate) fn bind_qpn_alloc(device: &Device, port: u32, qpn: u32) -> Result<u32> {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    if port.history().is_none() {
        return Err(unsupported());
    }
    if port.lock().mode().mode == Mode::Auto {
        return Err(EINVAL);
    }
    let qp = HeldQp::find(device, qpn)?;
    if qp.is_elsewhere(&port) {
        return Err(EINVAL);
    }
    Counter::make(port, qp.qp()?, Mode::Manual, true).ok_or(ENOMEM)
}

/// Unbinds a queue pair from its counter. May sleep.
///
/// # Errors
///
/// `EINVAL` if the queue pair is not bound to that counter, for another port and if the port is not
/// in manual mode; `ENOENT` if there is no such queue pair; `EOPNOTSUPP`; errors of the driver.
pub(crate) fn unbind_qpn(device: &Device, port: u32, qpn: u32, counter: u32) -> Result {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    let qp = HeldQp::find(device, qpn)?;
    if qp.is_elsewhere(&port) || port.lock().mode().mode != Mode::Manual {
        return Err(EINVAL);
    }
    Counted::unbind(qp.qp()?, port.port, Some(counter), false)
}

/// Binds a new user queue pair to the counter for its kind if its port is in auto mode. If that
/// fails, the queue pair works without a counter. May sleep.
pub(crate) fn bind_qp_auto(qp: &Qp, port: u32) {
    let entry = qp.res();
    let entry = crate::restrack::Entry::of(entry);
    if !entry.is_tracked() || entry.is_kernel() {
        return;
    }
    let Some(port) = Port::of(qp.device(), port) else {
        return;
    };
    let mode = port.lock().mode();
    if mode.mode != Mode::Auto {
        return;
    }
    match Counted::for_kind(port, qp, mode.mask) {
        Some(counter) => {
            let _: Result = counter.bind(qp, port.port);
        }
        None => {
            let _: Option<u32> = Counter::make(port, qp, Mode::Auto, mode.bind_opcnt);
        }
    }
}

/// Unbinds a queue pair that is being destroyed from its counter, if it has one. May sleep.
pub(crate) fn unbind_qp(qp: &Qp, port: u32) {
    // Checked without the lock: no counter is bound any more at this point.
    if qp.counter().is_null() {
        return;
    }
    let _: Result = Counted::unbind(qp, port, None, true);
}

/// Returns the sum of the port's counter `index` over all counters bound to queue pairs, including
/// freed ones. May sleep; the lock of the port's values may be held.
pub(crate) fn hwstats(device: &Device, port: u32, index: usize) -> u64 {
    let Some(port) = Port::of(device, port) else {
        return 0;
    };
    let Some(history) = port.history() else {
        return 0;
    };
    let mut sum = 0_u64;
    // Read the history last, so that a counter that is freed meanwhile is included.
    Counter::for_each(device, |counter| {
        if counter.port() == port.port {
            if let Ok(value) = counter.read(index) {
                sum = sum.wrapping_add(value);
            }
        }
    });
    history.shared(index).map_or(sum, |gone| {
        sum.wrapping_add(gone.load(kernel::sync::atomic::Relaxed))
    })
}
