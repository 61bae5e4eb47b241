// SPDX-License-Identifier: GPL-2.0

//! Counters bound to queue pairs (`rdma statistic`).
//!
//! A port has a *mode*. In manual mode a user binds a queue pair to a counter, one that is there
//! or a new one; in auto mode each new queue pair of a user is bound to the counter of its kind:
//! of its type, of its process, or both, as the mode's mask says. What a counter counted stays in
//! the port's *history* when its last queue pair leaves it, so that the sum never falls.
//!
//! Locks: `Counters::bindings` of a device says which queue pair has which counter;
//! `Counters::port` keeps the mode of a port and the number of its counters; `Counter::driver` is
//! held around a driver's methods of a counter. The last two are innermost.

mod counted;
pub(crate) mod edge;

use crate::device::netns;
use crate::device::Device;
use crate::edge::device::Unregistered;
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
pub(crate) use self::edge::Counter;
use self::edge::PortCounter;

/// What the core keeps of a device for its counters.
#[pin_data]
pub(crate) struct Bindings {
    /// Held while a queue pair gets or loses a counter.
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

/// How queue pairs get counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nobody has said.
    None,
    /// By themselves.
    Auto,
    /// By a user's command.
    Manual,
}

impl Mode {
    /// As C and netlink number it (`enum rdma_nl_counter_mode`).
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

/// The mode of a port with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortMode {
    pub(crate) mode: Mode,
    /// In auto mode, what queue pairs of one counter have in common
    /// (`enum rdma_nl_counter_mask`).
    pub(crate) mask: u32,
    /// Whether optional counters are bound as well.
    pub(crate) bind_opcnt: bool,
}

/// What queue pairs may have in common.
const MASKS: u32 = bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE
    | bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID;

/// Counting on a port of a device.
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

    /// What counters counted that are gone, if the port's driver has counters for ports.
    fn history(&self) -> Option<&stats::HwStats> {
        self.data.history()
    }
}

/// A port's state, locked.
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

    /// How many counters there are.
    fn counters(&self) -> u32 {
        self.data.num_counters(&self.guard)
    }

    /// There is one counter more.
    fn count_one_more(&mut self) {
        let counters = self.counters().saturating_add(1);
        self.data.set_num_counters(&mut self.guard, counters);
    }

    /// There is one counter less. The last one takes manual mode with it.
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

/// Prepares the ports of a device that is about to be registered. A port whose driver has no
/// counters for it gets no history, and binds none. May sleep.
pub(crate) fn set_up(device: &Device, alone: &mut Unregistered<'_>) {
    for port in device.ports() {
        let Some(data) = device.port(port) else {
            return;
        };
        let history = stats::Owned::of_port(device, port).ok().flatten();
        edge::set_up(alone, data.counter(), history);
    }
}

/// Puts a port into auto mode with this mask, or out of it if the mask is empty. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if the port cannot count, `EINVAL` for a mask or port that there is not, `EBUSY`
/// if a queue pair is bound.
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

/// The mode of a port; [`Mode::None`] for one that there is not. May sleep.
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

/// Switches an optional counter of a port on or off. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if the driver cannot, `EINVAL` for a counter that there is not or that is not
/// optional, else that of the driver.
pub(crate) fn modify(device: &Device, port: u32, index: usize, enable: bool) -> Result {
    device.ops().modify_hw_stat.ok_or_else(unsupported)?;
    let stats = stats::of_port(device, port)
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

/// A queue pair that is held.
///
/// # Invariants
///
/// The entry is that of a queue pair.
struct HeldQp(Held);

impl HeldQp {
    /// # Errors
    ///
    /// `ENOENT`: there is none, or the caller may not know of it.
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
        // INVARIANT: As just seen.
        Ok(Self(held))
    }

    /// # Errors
    ///
    /// None that are seen.
    fn qp(&self) -> Result<&Qp> {
        Qp::of_entry(&self.0).ok_or(ENOENT)
    }

    /// The port that it is on; not one of the device's before it has one.
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
/// `EINVAL` in auto mode, for a port that there is not, for a queue pair that has a counter or is
/// on another port, and if one is the kernel's and the other is not; `ENOENT` if there is no such
/// queue pair or counter; `EOPNOTSUPP`; that of the driver.
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

/// Makes a counter, and binds a queue pair to it. Returns its number. May sleep.
///
/// # Errors
///
/// `EINVAL` in auto mode, for a port that there is not and for a queue pair on another one;
/// `EOPNOTSUPP` if the port cannot count; `ENOENT` if there is no such queue pair; `ENOMEM` if the
/// driver does not, whatever its reason.
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

/// Takes a queue pair from its counter. May sleep.
///
/// # Errors
///
/// `EINVAL` if it does not have that counter, for another port and if the port is not in manual
/// mode; `ENOENT` if there is no such queue pair; `EOPNOTSUPP`; that of the driver.
pub(crate) fn unbind_qpn(device: &Device, port: u32, qpn: u32, counter: u32) -> Result {
    let port = Port::of(device, port).ok_or(EINVAL)?;
    let qp = HeldQp::find(device, qpn)?;
    if qp.is_elsewhere(&port) || port.lock().mode().mode != Mode::Manual {
        return Err(EINVAL);
    }
    Counted::unbind(qp.qp()?, port.port, Some(counter), false)
}

/// Binds a new queue pair of a user to the counter of its kind if its port is in auto mode. If
/// that fails the queue pair works all the same, uncounted. May sleep.
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

/// Takes a queue pair that is being destroyed from its counter, if it has one. May sleep.
pub(crate) fn unbind_qp(qp: &Qp, port: u32) {
    // Most have none; and it gets none any more.
    if qp.counter().is_null() {
        return;
    }
    let _: Result = Counted::unbind(qp, port, None, true);
}

/// What the counters bound to queue pairs of a port counted, those that are gone among them, of
/// the port's counter `index`. May sleep; the lock of the port's values may be held.
pub(crate) fn hwstats(device: &Device, port: u32, index: usize) -> u64 {
    let Some(port) = Port::of(device, port) else {
        return 0;
    };
    let Some(history) = port.history() else {
        return 0;
    };
    let mut sum = 0_u64;
    // Those that are gone after those that are there: so one that goes meanwhile is in there.
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
