// SPDX-License-Identifier: GPL-2.0

//! What is remembered of a port, and which events make it be asked for again.
//!
//! Readers never wait for a driver: they read a copy, which a worker brings up to
//! date *before* it tells clients of the event that changed it. Numbers are those
//! of `enum ib_event_type` and `enum ib_port_state` (`include/rdma/ib_verbs.h`).

/// An event that comes with a port. All others go to clients as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The link came up.
    Active,
    /// The link went down.
    Error,
    /// The subnet manager gave another LID.
    LidChange,
    /// The table of partition keys changed.
    PkeyChange,
    /// The subnet manager lost what clients had told it.
    ClientReregister,
    /// The table of GIDs changed.
    GidChange,
}

impl PortEvent {
    /// The event of this number, if a copy depends on it.
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

    /// What it makes stale. State, LMC and subnet prefix are asked for each time.
    pub const fn refresh(self) -> Refresh {
        Refresh {
            gids: matches!(self, Self::GidChange | Self::ClientReregister),
            pkeys: matches!(self, Self::PkeyChange),
            security: matches!(self, Self::PkeyChange | Self::GidChange),
            // Each changed entry was an event of its own.
            tell_clients: !matches!(self, Self::GidChange),
        }
    }
}

/// What is to be done for an event, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Ask for the GIDs. Only on ports whose GIDs a subnet manager gives; a RoCE
    /// port's follow its network devices.
    pub gids: bool,
    /// Ask for the partition keys.
    pub pkeys: bool,
    /// Have the security module look at all queue pairs of the port again.
    pub security: bool,
    /// Pass the event on, if all of the above was done.
    pub tell_clients: bool,
}

impl Refresh {
    /// What is done when a device is registered: everything, and nobody is there
    /// yet to be told.
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
    /// Nothing is known yet.
    pub const NOP: PortState = PortState(0);
    /// Ready.
    pub const ACTIVE: PortState = PortState(4);

    /// Its name in the kernel log.
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

/// The copy, without its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCache {
    /// How many low bits of the LID are a path's own.
    pub lmc: u8,
    /// State of the link.
    pub state: PortState,
    /// Upper half of the port's GIDs.
    pub subnet_prefix: u64,
}

impl PortCache {
    /// Takes what the driver says now. Answers the new state, if that is worth a
    /// line in the kernel log: it changed, and not from the first unknown.
    pub fn update(&mut self, now: PortCache) -> Option<PortState> {
        let before = core::mem::replace(self, now);
        (before.state != PortState::NOP && before.state != now.state).then_some(now.state)
    }
}
