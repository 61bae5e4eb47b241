// SPDX-License-Identifier: GPL-2.0

//! Devices: who is there, and for how long.
//!
//! [`Device`] is any device whose memory is there; [`Registered`] one that stays
//! registered meanwhile, which is what most of the core asks for.
//!
//! | file | what |
//! |---|---|
//! | `alloc` | memory of a device, its class in sysfs |
//! | `edge` | the C structure, references and use counts |
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
mod uses;

pub(crate) use self::caps::Caps;
pub(crate) use self::client::nl_info as client_nl_info;
pub(crate) use self::edge::Device;
pub(crate) use self::edge::Registered;
pub(crate) use self::hooks::unregister;
pub(crate) use self::hooks::Core;
pub(crate) use self::hooks::HasSlot;
pub(crate) use self::hooks::Hooks;
pub(crate) use self::hooks::Notice;
pub(crate) use self::hooks::PerDevice;
pub(crate) use self::registry::rename;
use self::uses::Uses;

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

    /// Whether it is in that namespace, now. Any context.
    pub(crate) fn is_in(&self, net: &Net) -> bool {
        self.net(&rcu::read_lock()) == net
    }

    /// Its use count.
    pub(crate) fn uses(&self) -> Uses<'_> {
        let fields = self.fields();
        Uses::new(fields.refcount(), fields.unreg_completion())
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
}

/// The name of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceName([u8; names::NAME_MAX]);

impl DeviceName {
    /// Its bytes, without an end marker.
    #[inline(never)]
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
