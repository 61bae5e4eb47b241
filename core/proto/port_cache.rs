// SPDX-License-Identifier: GPL-2.0

//! Cached attributes of a port, and which events invalidate them.
//!
//! Readers never wait for a driver: they read a copy, which a worker updates *before* it reports
//! the event that changed it to clients. Numbers are those of `enum ib_event_type` and `enum
//! ib_port_state` (`include/rdma/ib_verbs.h`).

/// A port event that affects the cache. All others are passed to clients unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The link came up.
    Active,
    /// The link went down.
    Error,
    /// The subnet manager assigned another LID.
    LidChange,
    /// The P_Key table changed.
    PkeyChange,
    /// The subnet manager lost the registrations of clients.
    ClientReregister,
    /// The GID table changed.
    GidChange,
}

impl PortEvent {
    /// The event of this number, if it affects the cache.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            9 => Self::Active,
            10 => Self::Error,
            11 => Self::LidChange,
            12 => Self::PkeyChange,
            17 => Self::ClientReregister,
            18 => Self::GidChange,
            _ => return None,
        })
    }

    /// Returns what the event invalidates. State, LMC and subnet prefix are always queried again.
    pub const fn refresh(self) -> Refresh {
        Refresh {
            gids: matches!(self, Self::GidChange | Self::ClientReregister),
            pkeys: matches!(self, Self::PkeyChange),
            security: matches!(self, Self::PkeyChange | Self::GidChange),
            // Each changed entry was reported as an event of its own.
            tell_clients: !matches!(self, Self::GidChange),
        }
    }
}

/// Actions on an event, performed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Query the GIDs. Only on ports whose GIDs a subnet manager assigns; those of a RoCE port
    /// follow its network devices.
    pub gids: bool,
    /// Query the partition keys.
    pub pkeys: bool,
    /// Have the security module check all queue pairs of the port again.
    pub security: bool,
    /// Report the event to clients, if all of the above succeeded.
    pub tell_clients: bool,
}

impl Refresh {
    /// Actions when a device is registered: everything, except that there are no clients to inform
    /// yet.
    pub const REGISTRATION: Refresh = Refresh {
        gids: true,
        pkeys: true,
        security: true,
        tell_clients: false,
    };
}

/// State of a port (`enum ib_port_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState(pub u8);

impl PortState {
    /// Not known yet.
    pub const NOP: PortState = PortState(0);
    /// Ready for traffic.
    pub const ACTIVE: PortState = PortState(4);

    /// Name of the state in the kernel log.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "NOP",
            1 => "DOWN",
            2 => "INIT",
            3 => "ARMED",
            4 => "ACTIVE",
            5 => "ACTIVE_DEFER",
            _ => "UNKNOWN",
        }
    }
}

/// The cached attributes, without the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCache {
    /// LID mask control: number of low LID bits that select a path.
    pub lmc: u8,
    /// State of the link.
    pub state: PortState,
    /// Upper half of the port's GIDs.
    pub subnet_prefix: u64,
}

impl PortCache {
    /// Stores what the driver reports now. Returns the new state if it is to be logged: it changed,
    /// and the old one was known.
    pub fn update(&mut self, now: PortCache) -> Option<PortState> {
        let before = core::mem::replace(self, now);
        (before.state != PortState::NOP && before.state != now.state).then_some(now.state)
    }
}
