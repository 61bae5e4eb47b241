// SPDX-License-Identifier: GPL-2.0

//! Devices: who is there, and for how long.
//!
//! [`Device`] is any device whose memory is there; [`Registered`] one that stays
//! registered meanwhile, which is what most of the core asks for.
//!
//! | file | what |
//! |---|---|
//! | `alloc` | memory of a device, its class in sysfs |
//! | `ops` | the table of a driver's methods |
//! | `registry` | who is there, by name and index |
//! | `hooks` | calls to the parts that are built on this one |
//! | `client` | who is told of devices |
//! | `event` | events and their handlers |
//! | `netdev` | network devices of ports |
//! | `port` | what ports answer |
//! | `netns` | network namespaces |
//! | `sub` | devices made under a device |
//! | `queues` | workqueues |
//! | `uses` | a count, and who waits for its end |
//! | `dma` | scatterlists of devices without DMA |

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::net::Net;
use rdma::sync::rcu;
use rdma::sync::RwSem;

use crate::edge::class::Class;
use crate::proto::errno::Errno;
use crate::proto::names;

pub(crate) mod alloc;
pub(crate) mod client;
mod dma;
pub(crate) mod event;
mod hooks;
pub(crate) mod netdev;
pub(crate) mod netns;
mod ops;
pub(crate) mod port;
pub(crate) mod queues;
pub(crate) mod registry;
pub(crate) mod sub;
mod uses;

pub(crate) use self::client::nl_info as client_nl_info;
pub(crate) use self::hooks::unregister;
pub(crate) use self::hooks::Core;
pub(crate) use self::hooks::HasSlot;
pub(crate) use self::hooks::Hooks;
pub(crate) use self::hooks::Notice;
pub(crate) use self::hooks::PerDevice;
pub(crate) use self::registry::rename;
use self::uses::Uses;

/// A device (`struct ib_device`), of this or any driver.
///
/// # Invariants
///
/// A reference is to memory that [`alloc`] made and that is not freed
/// while the reference exists; `res` points to its [`State`].
#[repr(transparent)]
pub(crate) struct Device(rdma::edge::device::Device);

impl Deref for Device {
    type Target = rdma::edge::device::Device;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: Transparent over the structure.
unsafe impl rdma::edge::View for Device {
    type C = bindings::ib_device;
}

/// What the core keeps of a device beside the C structure. Made with the device, freed
/// with its memory.
#[pin_data]
pub(crate) struct State {
    /// What the other parts of the core keep of it.
    #[pin]
    slots: hooks::Slots,
    /// One of register, unregister, move at a time.
    #[pin]
    unregistration: Mutex<()>,
    /// Clients that were told of the device.
    #[pin]
    clients: RwSem<client::Slots>,
    /// The copies of the device in namespaces.
    #[pin]
    namesakes: Mutex<netns::Copies>,
    /// Devices made under this one.
    #[pin]
    subdevices: Mutex<sub::List>,
    /// Whether it is in the registry: has its name and index. Changed under the
    /// registry's lock only.
    named: Atomic<bool>,
    /// While it is set, whoever unregisters the device leaves its memory to the thread
    /// that failed to register it.
    keep_memory: Atomic<bool>,
}

impl State {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            slots <- Core::slots(),
            unregistration <- kernel::new_mutex!((), "Device::unregistration"),
            clients <- rdma::new_rwsem!(client::Slots::new(), "Device::client_slots"),
            namesakes <- kernel::new_mutex!(netns::Copies::new(), "Device::copies"),
            subdevices <- kernel::new_mutex!(sub::List::new(), "Device::subdevices"),
            named: Atomic::new(false),
            keep_memory: Atomic::new(false),
        })
    }
}

impl Device {
    /// # Safety
    ///
    /// For `'a`, `ptr` is a device that fulfils the type invariant.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: By this function's duty; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// A device as all modules know it, as the core does.
    #[inline]
    pub(crate) fn of(device: &rdma::edge::device::Device) -> &Self {
        // SAFETY: Every `struct ib_device` is made by `alloc`, so `res` points to its `State`; the
        // reference promises that its memory is there.
        unsafe { Self::from_raw(rdma::edge::View::raw(device)) }
    }

    /// The C structure.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        rdma::edge::View::raw(&self.0)
    }

    /// What the core keeps of it.
    #[inline]
    fn state(&self) -> &State {
        // SAFETY: By the type invariant `res` points to the state, which lives as long.
        unsafe { &*(*self.as_raw()).res.cast::<State>() }
    }

    /// The numbers of its ports: 1 to n, or 0 alone for a switch.
    pub(crate) fn ports(&self) -> core::ops::RangeInclusive<u32> {
        if self.is_switch() {
            0..=0
        } else {
            1..=self.phys_port_cnt()
        }
    }

    /// Whether there is a port of this number.
    pub(crate) fn has_port(&self, port: u32) -> bool {
        self.ports().contains(&port)
    }

    /// Its name as it is now; empty before it has one. Any context.
    pub(crate) fn name(&self) -> DeviceName {
        // SAFETY: The array is there as long as the device. A rename may change it
        // meanwhile, which bytes that are read for themselves tolerate.
        DeviceName(unsafe {
            (&raw const (*self.as_raw()).name)
                .cast::<[u8; 64]>()
                .read_volatile()
        })
    }

    /// Its `struct device`, which is its [`Copy`](netns::Copies)'s kind of the namespace it is in.
    pub(crate) fn dev(&self) -> *mut bindings::device {
        // SAFETY: The place is in the structure.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// The part of it that copies in other namespaces have, too.
    pub(crate) fn core_device(&self) -> *mut bindings::ib_core_device {
        self.dev().cast()
    }

    /// The namespace it is in. It does not count that; so the device may be moved out of it, and
    /// it may go. Any context.
    pub(crate) fn net<'a>(&'a self, _rcu: &'a rcu::Guard) -> &'a Net {
        // SAFETY: Set at allocation. A namespace that goes moves its devices to the first one,
        // and then waits for RCU (`netns::leave`), so that it is there as long as the guard.
        unsafe {
            Net::from_raw(bindings::rdma_helper_read_pnet(
                &raw const (*self.core_device()).rdma_net,
            ))
        }
    }

    /// Whether it is in that namespace, now. Any context.
    pub(crate) fn is_in(&self, net: &Net) -> bool {
        self.net(&rcu::read_lock()) == net
    }

    /// Its use count.
    pub(crate) fn uses(&self) -> Uses<'_> {
        let fields = self.fields();
        Uses::new(fields.refcount(), fields.unreg_completion())
    }

    /// Turns adaptive moderation of its completion queues on or off.
    pub(crate) fn set_dim(&self, on: bool) {
        // SAFETY: The bits beside it are written before registration only.
        unsafe { (*self.as_raw()).set_use_cq_dim(u16::from(on)) };
    }

    /// Held while it is registered, unregistered or moved. May sleep.
    pub(crate) fn lock_registration(&self) -> Guard<'_, (), MutexBackend> {
        self.state().unregistration.lock()
    }

    /// While it is set, a thread that unregisters the device leaves its memory to the one that
    /// failed to register it.
    pub(crate) fn keep_memory(&self) -> &Atomic<bool> {
        &self.state().keep_memory
    }

    /// Whether it is in the registry.
    fn is_named(&self) -> bool {
        self.state().named.load(Relaxed)
    }

    /// A reference that keeps the memory. Any context.
    pub(crate) fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// Keeps the device registered, unless it is not, or is being unregistered. Any context.
    pub(crate) fn live(&self) -> Option<Registered> {
        if self.uses().try_get() {
            // INVARIANT: Just counted.
            Some(Registered(NonNull::from(self)))
        } else {
            None
        }
    }
}

// SAFETY: `get_device` and `put_device` count the memory, which alloc::release frees with
// the last.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The device is there.
        unsafe { bindings::get_device(self.dev()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives a reference up.
        unsafe { bindings::put_device(obj.as_ref().dev()) };
    }
}

/// The name of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceName([u8; names::NAME_MAX]);

impl DeviceName {
    /// Its bytes, without an end marker.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Its bytes, and zeros.
    #[cfg(CONFIG_SECURITY_INFINIBAND)]
    pub(crate) fn with_end(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(BStr::from_bytes(self.as_bytes()), f)
    }
}

/// An engine's refusal as the kernel's error.
pub(crate) fn errno(refused: Errno) -> Error {
    Error::from_errno(refused.to_ret())
}

/// A device that stays registered as long as this exists; keep it shortly, since whoever
/// unregisters the device waits.
///
/// # Invariants
///
/// `0` is a device of which this holds one count of `refcount`.
pub(crate) struct Registered(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Registered {}
// SAFETY: As above.
unsafe impl Sync for Registered {}

impl Registered {
    /// One more count of a device that has one.
    fn another(device: &Device) -> Self {
        device.uses().get();
        // INVARIANT: Just counted.
        Self(NonNull::from(device))
    }

    /// Takes over a count that C counted.
    ///
    /// # Safety
    ///
    /// `ptr` is a device of which the caller has a count to give away.
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::ib_device>) -> Self {
        // INVARIANT: By this function's duty.
        Self(ptr.cast())
    }

    /// Leaves the count to somebody who gives it back with `uses().put()`.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }

    /// Gives the count to C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Deref for Registered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: By the type invariant the device is there.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.uses().put();
    }
}

/// What the module as a whole needs for devices: workqueues, class, registry, parts per
/// namespace, and who listens to network devices. Dropped in this order.
pub(crate) struct Subsystem {
    _netdevs: netdev::Subsystem,
    _netns: netns::Subsystem,
    _class: Class,
    _registry: registry::Subsystem,
    _queues: queues::Subsystem,
}

impl Subsystem {
    /// May sleep. Once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the kernel's registrations.
    pub(crate) fn new() -> Result<Self> {
        let queues = queues::Subsystem::new()?;
        // SAFETY: Before anything that uses devices.
        let registry = unsafe { registry::Subsystem::new() };
        let class = Class::register()?;
        let netns = netns::Subsystem::new()?;
        let netdevs = netdev::Subsystem::new()?;
        Ok(Self {
            _netdevs: netdevs,
            _netns: netns,
            _class: class,
            _registry: registry,
            _queues: queues,
        })
    }
}
