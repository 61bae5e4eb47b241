// SPDX-License-Identifier: GPL-2.0

//! Which network namespace sees which device, and where.
//!
//! The whole subsystem is in one of two modes (`rdma system set netns`):
//!
//! * *shared*: every namespace uses every device. All devices belong to the initial namespace; each
//!   other namespace has a *copy* of each device in its sysfs, where its libraries find it. A copy
//!   is not a device of its own.
//! * *exclusive*: a device belongs to one namespace and is visible in no other. It may be moved,
//!   and returns to the initial namespace when its own is removed.
//!
//! The mode may be changed only while there is no namespace but the initial one, so that no device
//! is taken away from its users.
//!
//! This module only decides. The host keeps devices, namespaces and mode stable while it acts on a
//! decision: see `Documentation/core_locking.md`.

use super::errno::Errno;

/// A network namespace, by a number that the host assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net(pub u64);

impl Net {
    /// The initial namespace, which is never removed.
    pub const INIT: Net = Net(0);
}

/// How devices are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// A device belongs to one namespace.
    Exclusive = 0,
    /// Every namespace uses every device; the default.
    #[default]
    Shared = 1,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no mode of that number.
    NoSuchMode,
    /// There are namespaces besides the initial one.
    OtherNamespaces,
    /// The caller lacks `CAP_NET_ADMIN` over the target namespace.
    NotAllowed,
    /// Devices are shared, or the driver cannot disassociate a device from its users.
    NotSupported,
    /// The device is gone, or was moved concurrently.
    Gone,
}

impl Refusal {
    /// The errno that the caller sees.
    pub const fn errno(self) -> Errno {
        match self {
            Self::NoSuchMode => Errno::Einval,
            Self::OtherNamespaces => Errno::Ebusy,
            Self::NotAllowed => Errno::Eperm,
            Self::NotSupported => Errno::Eopnotsupp,
            Self::Gone => Errno::Enodev,
        }
    }
}

/// Effect of a change of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChange {
    /// None: this already is the mode.
    None,
    /// The mode is now this one. Since there is no other namespace, no copy has to be made or
    /// removed; a namespace created meanwhile sees the new mode.
    To(Mode),
}

impl Mode {
    /// Converts a number from user space (`RDMA_NLDEV_SYS_ATTR_NETNS_MODE`).
    pub const fn from_raw(raw: u8) -> Result<Self, Refusal> {
        match raw {
            0 => Ok(Self::Exclusive),
            1 => Ok(Self::Shared),
            _ => Err(Refusal::NoSuchMode),
        }
    }

    /// The number of the mode in netlink messages.
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// Decides on a change to another mode.
    pub fn change(self, to: Mode, other_namespaces: bool) -> Result<ModeChange, Refusal> {
        if self == to {
            Ok(ModeChange::None)
        } else if other_namespaces {
            Err(Refusal::OtherNamespaces)
        } else {
            Ok(ModeChange::To(to))
        }
    }

    /// The namespace of a new device created by a caller in `asker`.
    pub fn home(self, asker: Net) -> Net {
        match self {
            Self::Shared => Net::INIT,
            Self::Exclusive => asker,
        }
    }

    /// Returns whether a caller in `net` may use a device (`rdma_dev_access_netns`).
    pub fn sees(self, device_in: Net, net: Net) -> bool {
        match self {
            Self::Shared => true,
            Self::Exclusive => device_in == net,
        }
    }

    /// The network namespace in whose user namespace a caller needs `CAP_NET_RAW` for raw queue
    /// pairs and raw flows on a device (`rdma_dev_has_raw_cap`).
    pub fn raw_cap(self, device_in: Net) -> Net {
        match self {
            Self::Shared => Net::INIT,
            Self::Exclusive => device_in,
        }
    }

    /// Returns whether a registered device has a copy in the sysfs of `net`.
    pub fn has_copy(self, device_in: Net, net: Net) -> bool {
        match self {
            Self::Shared => net != Net::INIT && net != device_in,
            Self::Exclusive => false,
        }
    }

    /// Decides on a user's request to move a device (`RDMA_NLDEV_NET_NS_FD`). If the result is
    /// false, nothing is to be done.
    pub fn judge_move(self, ask: &Move) -> Result<bool, Refusal> {
        if !ask.admin_of_target {
            Err(Refusal::NotAllowed)
        } else if ask.is_there {
            Ok(false)
        } else if !ask.can_disassociate || self == Self::Shared {
            Err(Refusal::NotSupported)
        } else if ask.unregistering || ask.device_in != ask.asker {
            Err(Refusal::Gone)
        } else {
            Ok(true)
        }
    }
}

/// Input of the decision on a move.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Namespace of the device; read again under the lock of its registration.
    pub device_in: Net,
    /// Namespace of the caller.
    pub asker: Net,
    /// Whether the caller has `CAP_NET_ADMIN` over the target namespace.
    pub admin_of_target: bool,
    /// Whether the device is in the target namespace already. False on a kernel where the C core
    /// judges such a request as any other.
    pub is_there: bool,
    /// Whether the driver can disassociate the device from its users without waiting for them.
    pub can_disassociate: bool,
    /// Whether the device is being unregistered.
    pub unregistering: bool,
}

/// The namespace of a device after `leaving` is removed: the initial one, if it was in `leaving`.
pub fn after_exit(device_in: Net, leaving: Net) -> Net {
    if device_in == leaving {
        Net::INIT
    } else {
        device_in
    }
}
