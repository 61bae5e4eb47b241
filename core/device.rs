// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: registration, lifetime and the data that belongs to them.
//!
//! [`Device`] is any device whose memory is allocated; [`Registered`] keeps a device registered
//! while it exists, which is what most of the core needs.
//!
//! | file | what |
//! |---|---|
//! | `alloc` | allocation and release, its class in sysfs |
//! | `edge` | the C structure, references, use counts, and waiting for their end |
//! | `ops` | the table of a driver's methods |
//! | `registry` | list of devices, by name and index |
//! | `hooks` | calls to the parts built on this one |
//! | `client` | clients, which are notified of devices |
//! | `event` | events and their handlers |
//! | `netdev` | network devices of ports |
//! | `port` | port attributes and queries |
//! | `netns` | network namespaces |
//! | `sub` | subdevices |
//! | `queues` | workqueues |
//! | `dma` | scatterlists of devices without DMA |

use kernel::fmt;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Mutex;
use rdma::net::Net;
use rdma::sync::rcu;
use rdma::sync::RwSem;

use crate::edge::class::Class;
use crate::proto::errno::Errno;
use crate::proto::names;

pub(crate) mod alloc;
mod caps;
pub(crate) mod client;
#[cfg(CONFIG_INFINIBAND_VIRT_DMA)]
mod dma;
mod edge;
pub(crate) mod event;
mod hooks;
pub(crate) mod netdev;
pub(crate) mod netns;
mod ops;
pub(crate) mod port;
pub(crate) mod queues;
pub(crate) mod registry;
pub(crate) mod sub;

pub(crate) use self::caps::Caps;
pub(crate) use self::client::nl_info as client_nl_info;
pub(crate) use self::edge::Device;
pub(crate) use self::edge::LastReference;
pub(crate) use self::edge::Registered;
pub(crate) use self::edge::Uses;
pub(crate) use self::hooks::unregister;
pub(crate) use self::hooks::Core;
pub(crate) use self::hooks::HasSlot;
pub(crate) use self::hooks::Hooks;
pub(crate) use self::hooks::Notice;
pub(crate) use self::hooks::PerDevice;
pub(crate) use self::registry::rename;

/// Core state of a device besides the C structure. Created with the device, freed with its memory.
#[pin_data]
pub(crate) struct State {
    /// Per-device data of the other parts of the core.
    #[pin]
    slots: hooks::Slots,
    /// Serialises registration, unregistration and namespace moves.
    #[pin]
    unregistration: Mutex<()>,
    /// Clients that were notified of the device.
    #[pin]
    clients: RwSem<client::Slots>,
    /// Copies of the device in namespaces.
    #[pin]
    namesakes: Mutex<netns::Copies>,
    /// Held while one of them is removed, which uses its namespace.
    #[pin]
    parting: Mutex<()>,
    /// Subdevices of this device.
    #[pin]
    subdevices: Mutex<sub::List>,
    /// Whether the device is in the registry and so has a name and an index. Changed only under the
    /// registry's lock.
    named: Atomic<bool>,
    /// While set, a thread that unregisters the device leaves its memory to the thread that failed
    /// to register it.
    keep_memory: Atomic<bool>,
}

impl State {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            slots <- Core::slots(),
            unregistration <- kernel::new_mutex!((), "Device::unregistration"),
            clients <- rdma::new_rwsem!(client::Slots::new(), "Device::client_slots"),
            namesakes <- kernel::new_mutex!(netns::Copies::new(), "Device::copies"),
            parting <- kernel::new_mutex!((), "Device::parting"),
            subdevices <- kernel::new_mutex!(sub::List::new(), "Device::subdevices"),
            named: Atomic::new(false),
            keep_memory: Atomic::new(false),
        })
    }
}

impl Device {
    /// Returns whether the device is currently in this namespace. Any context.
    pub(crate) fn is_in(&self, net: &Net) -> bool {
        self.net(&rcu::read_lock()) == net
    }

    /// Use count of the device.
    pub(crate) fn uses(&self) -> Uses<'_> {
        let fields = self.fields();
        Uses::new(fields.refcount(), fields.unreg_completion())
    }

    /// Locks the device against registration, unregistration and namespace moves. May sleep.
    pub(crate) fn lock_registration(&self) -> RegistrationLock<'_> {
        RegistrationLock {
            device: self,
            _guard: self.state().unregistration.lock(),
        }
    }

    /// While set, a thread that unregisters the device leaves its memory to the thread that failed
    /// to register it.
    pub(crate) fn keep_memory(&self) -> &Atomic<bool> {
        &self.state().keep_memory
    }

    /// Returns whether the device is in the registry.
    fn is_named(&self) -> bool {
        self.state().named.load(Relaxed)
    }

    /// Takes a reference, which keeps the device's memory but not its registration. Any context.
    pub(crate) fn hold(&self) -> ARef<Self> {
        self.into()
    }
}

/// The registration lock of a device, held ([`Device::lock_registration`]).
pub(crate) struct RegistrationLock<'a> {
    device: &'a Device,
    _guard: Guard<'a, (), MutexBackend>,
}

impl<'a> RegistrationLock<'a> {
    /// The device.
    pub(crate) fn device(&self) -> &'a Device {
        self.device
    }
}

/// Name of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceName([u8; names::NAME_MAX]);

impl DeviceName {
    /// The name without the terminating NUL.
    #[inline(never)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The name padded with NULs.
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

/// Converts an error of `proto` to a kernel error.
pub(crate) fn errno(refused: Errno) -> Error {
    Error::from_errno(refused.to_ret())
}

/// Module-wide state for devices: workqueues, class, registry, per-namespace data, and the network
/// device notifier. Dropped in order of the fields.
pub(crate) struct Subsystem {
    _netdevs: netdev::Subsystem,
    _netns: netns::Subsystem,
    _class: Class,
    _registry: registry::Subsystem,
    _queues: queues::Subsystem,
}

impl Subsystem {
    /// Sets up the module's state. Must be called only once. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the registrations.
    pub(crate) fn new() -> Result<Self> {
        let queues = queues::Subsystem::new()?;
        let registry = registry::Subsystem::new();
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
