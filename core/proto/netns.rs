// SPDX-License-Identifier: GPL-2.0

//! Which network namespace sees which device, and where.
//!
//! The whole subsystem is in one of two modes (`rdma system set netns`):
//!
//! * *shared*: every namespace uses every device. All devices belong to the first
//!   namespace; each other one has a *copy* of each device in its sysfs, so that
//!   its libraries find it. A copy is no device of its own.
//! * *exclusive*: a device belongs to one namespace and is seen in no other. It may
//!   be moved, and returns to the first one when its own goes.
//!
//! The mode may be changed only while there is no namespace but the first, so that
//! no device is ever taken from under a user.
//!
//! These are judgements only. The host keeps devices, namespaces and mode still
//! while it acts on them: see `Documentation/core_locking.md`.

use super::errno::Errno;

/// A network namespace, by a name that the host gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net(pub u64);

impl Net {
    /// The first one, which never goes.
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

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A mode of that number does not exist.
    NoSuchMode,
    /// There are other namespaces than the first.
    OtherNamespaces,
    /// The caller has no power over the namespace to move to.
    NotAllowed,
    /// Devices are shared, or the driver cannot take a device from its users.
    NotSupported,
    /// The device has gone, or was moved by another meanwhile.
    Gone,
}

impl Refusal {
    /// The number that the caller is told.
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

/// What a change of the mode brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChange {
    /// It is this mode already.
    None,
    /// The mode is now this one. Since there is no other namespace, no copy has to
    /// be made or removed; one that appears meanwhile sees the new mode.
    To(Mode),
}

impl Mode {
    /// The mode of this number (`RDMA_NLDEV_SYS_ATTR_NETNS_MODE`), from a user.
    pub const fn from_raw(raw: u8) -> Result<Self, Refusal> {
        match raw {
            0 => Ok(Self::Exclusive),
            1 => Ok(Self::Shared),
            _ => Err(Refusal::NoSuchMode),
        }
    }

    /// Its number.
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// Judges a change to another mode.
    pub fn change(self, to: Mode, other_namespaces: bool) -> Result<ModeChange, Refusal> {
        if self == to {
            Ok(ModeChange::None)
        } else if other_namespaces {
            Err(Refusal::OtherNamespaces)
        } else {
            Ok(ModeChange::To(to))
        }
    }

    /// The namespace that a new device belongs to, made by somebody in `asker`.
    pub fn home(self, asker: Net) -> Net {
        match self {
            Self::Shared => Net::INIT,
            Self::Exclusive => asker,
        }
    }

    /// Whether somebody in `net` may use a device (`rdma_dev_access_netns`).
    pub fn sees(self, device_in: Net, net: Net) -> bool {
        match self {
            Self::Shared => true,
            Self::Exclusive => device_in == net,
        }
    }

    /// The namespace whose owner must have `CAP_NET_RAW` for raw queue pairs and
    /// raw flows on a device (`rdma_dev_has_raw_cap`).
    pub fn raw_cap(self, device_in: Net) -> Net {
        match self {
            Self::Shared => Net::INIT,
            Self::Exclusive => device_in,
        }
    }

    /// Whether a registered device has a copy in the sysfs of `net`.
    pub fn has_copy(self, device_in: Net, net: Net) -> bool {
        match self {
            Self::Shared => net != Net::INIT && net != device_in,
            Self::Exclusive => false,
        }
    }

    /// Judges a user's wish to move a device (`RDMA_NLDEV_NET_NS_FD`).
    pub fn judge_move(self, ask: &Move) -> Result<(), Refusal> {
        if !ask.admin_of_target {
            Err(Refusal::NotAllowed)
        } else if !ask.can_disassociate || self == Self::Shared {
            Err(Refusal::NotSupported)
        } else if ask.unregistering || ask.device_in != ask.asker {
            Err(Refusal::Gone)
        } else {
            Ok(())
        }
    }
}

/// What has to be known to judge a move.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Where the device is; read again under the lock of its registration.
    pub device_in: Net,
    /// Where the caller is.
    pub asker: Net,
    /// Whether the caller has `CAP_NET_ADMIN` over the namespace to move to.
    pub admin_of_target: bool,
    /// Whether the driver can take the device from its users, whom nobody waits for.
    pub can_disassociate: bool,
    /// Whether it is being unregistered.
    pub unregistering: bool,
}

/// Where a device goes when a namespace goes: home, if it was in that one.
pub fn after_exit(device_in: Net, leaving: Net) -> Net {
    if device_in == leaving {
        Net::INIT
    } else {
        device_in
    }
}
