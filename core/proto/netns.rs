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

use core::ffi::CStr;

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
    /// Devices are shared.
    SharedDevices,
    /// The driver cannot disassociate a device from its users.
    CannotDisassociate,
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
            Self::SharedDevices | Self::CannotDisassociate => Errno::Eopnotsupp,
            Self::Gone => Errno::Enodev,
        }
    }

    /// What the sender of the request is told besides, where the C core has words for it.
    pub const fn complaint(self) -> Option<Complaint> {
        match self {
            Self::NotAllowed => Some(Complaint::NotAllowed),
            Self::SharedDevices => Some(Complaint::SharedDevices),
            Self::CannotDisassociate => Some(Complaint::CannotDisassociate),
            Self::NoSuchMode | Self::OtherNamespaces | Self::Gone => None,
        }
    }
}

/// Why a move fails, for the sender of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// The file descriptor is not one of a network namespace.
    BadFile,
    /// See [`Refusal::NotAllowed`].
    NotAllowed,
    /// See [`Refusal::SharedDevices`].
    SharedDevices,
    /// See [`Refusal::CannotDisassociate`].
    CannotDisassociate,
    /// Another device in the target namespace has the name.
    NameInUse,
    /// The name of the request cannot be the device's.
    BadName,
}

impl Complaint {
    /// The words for an error of the move itself, or of the renaming that takes its place.
    pub fn of(error: i32, named: bool) -> Option<Self> {
        if error == Errno::Eexist.to_ret() {
            Some(Self::NameInUse)
        } else if error == Errno::Einval.to_ret() && named {
            Some(Self::BadName)
        } else {
            None
        }
    }

    /// The words, which are those of the C core: programs print them.
    pub const fn words(self) -> &'static CStr {
        match self {
            Self::BadFile => c"Invalid target net namespace fd",
            Self::NotAllowed => c"Missing CAP_NET_ADMIN in the target net namespace",
            Self::SharedDevices => {
                c"Cannot change net namespace of RDMA device in shared netns mode"
            }
            Self::CannotDisassociate => {
                c"Device does not support namespace changes (no disassociate support)"
            }
            Self::NameInUse => c"Device name already exists in the target net namespace",
            Self::BadName => c"Unable to use requested device name in the target net namespace",
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

    /// Returns whether a registered device has a copy in the sysfs of `net`. A shared device that is
    /// not in the initial namespace is in one that is being removed, where it may have the name of
    /// another device; it gets its copies when it has moved.
    pub fn has_copy(self, device_in: Net, net: Net) -> bool {
        match self {
            Self::Shared => net != Net::INIT && device_in == Net::INIT,
            Self::Exclusive => false,
        }
    }

    /// Decides on a user's request to move a device (`RDMA_NLDEV_NET_NS_FD`). If the result is
    /// false, the device stays, and only gets the name of the request, if there is one.
    pub fn judge_move(self, ask: &Move) -> Result<bool, Refusal> {
        if !ask.admin_of_target {
            Err(Refusal::NotAllowed)
        } else if ask.is_there {
            Ok(false)
        } else if self == Self::Shared {
            Err(Refusal::SharedDevices)
        } else if !ask.can_disassociate {
            Err(Refusal::CannotDisassociate)
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
