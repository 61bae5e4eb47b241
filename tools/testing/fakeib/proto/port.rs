// SPDX-License-Identifier: GPL-2.0

//! One port: its states, what a subnet manager sets, and what it counts.

/// Partition keys of a port; the standard's blocks are as long.
pub const PKEYS: usize = 32;
/// GUIDs of a port, likewise.
pub const GUIDS: usize = 8;
/// Virtual lanes for data, and service levels that are mapped to them.
pub const SERVICE_LEVELS: usize = 16;
/// Ports of a switch at most, with its own: a row of the multicast table is as wide.
pub const MAX_PORTS: usize = 16;
/// The partition that all ports are in until somebody says otherwise (IBA 10.9.1.2).
pub const DEFAULT_PKEY: u16 = 0xffff;
/// The subnet prefix until somebody says otherwise (IBA 4.1.1).
pub const DEFAULT_PREFIX: u64 = 0xfe80 << 48;

/// State of the link, as the manager sees it (IBA 7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// No link.
    Down = 1,
    /// A link that carries subnet management only.
    Init = 2,
    /// As `Init`, and it takes data but sends none.
    Armed = 3,
    /// Carries all.
    Active = 4,
}

/// State of the cable's end (IBA 14.2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phys {
    /// Looks for the other end from time to time.
    Sleep = 1,
    /// Looks for the other end.
    Polling = 2,
    /// Turned off.
    Disabled = 3,
    /// The other end is there.
    LinkUp = 5,
}

/// What a port is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An adapter.
    Adapter,
    /// A switch, of which it is the end (port 0).
    SwitchEnd,
    /// A switch, of which it is one of the outer ports.
    SwitchOuter,
}

impl Role {
    /// Whether the port has LIDs of its own.
    pub fn is_end(self) -> bool {
        !matches!(self, Self::SwitchOuter)
    }
}

/// What happened to a port, as a set of bits; the driver tells the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u8);

impl Events {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The link went down.
    pub const DOWN: Self = Self(1 << 0);
    /// Its GIDs are others.
    pub const GIDS: Self = Self(1 << 1);
    /// Its LID is another.
    pub const LID: Self = Self(1 << 2);
    /// Its partition keys are others.
    pub const PKEYS: Self = Self(1 << 3);
    /// Its subnet manager is another.
    pub const MANAGER: Self = Self(1 << 4);
    /// Clients shall register again.
    pub const REREGISTER: Self = Self(1 << 5);
    /// The link became active.
    pub const ACTIVE: Self = Self(1 << 6);

    /// Adds what another has.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Adds `other` if `so`.
    pub fn add_if(&mut self, so: bool, other: Self) {
        if so {
            self.add(other);
        }
    }

    /// Whether all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing happened.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a port counts (IBA 16.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Links lost.
    pub link_downed: u8,
    /// Packets that could not be sent on.
    pub discards: u16,
    /// Packets of other partitions, refused on the way in.
    pub rcv_constraint: u8,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub rcvd_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub rcvd: u64,
    /// Of these, for groups.
    pub sent_multicast: u64,
    /// Likewise.
    pub rcvd_multicast: u64,
}

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number on its node.
    pub number: u8,
    /// What it is part of.
    pub role: Role,
    /// State of the link.
    pub state: State,
    /// State of the cable's end.
    pub phys: Phys,
    /// What `phys` becomes when the manager takes the link down.
    pub down_default: Phys,
    /// M_Key, with the time of its lease in seconds, and how it protects.
    pub mkey: u64,
    /// See `mkey`.
    pub mkey_lease: u16,
    /// See `mkey`; 2 bits.
    pub mkey_protect: u8,
    /// Prefix of its GIDs.
    pub prefix: u64,
    /// Its first LID; 0 before it has one.
    pub lid: u16,
    /// How many low bits of a LID are free, 0 to 7.
    pub lmc: u8,
    /// LID of the master subnet manager.
    pub sm_lid: u16,
    /// Service level to it.
    pub sm_sl: u8,
    /// What it can do, `IB_PORT_*_SUP`.
    pub capabilities: u32,
    /// Widths in use, a mask.
    pub width_enabled: u8,
    /// Speeds in use, masks: old and extended.
    pub speed_enabled: u8,
    /// See `speed_enabled`.
    pub speed_ext_enabled: u8,
    /// Code of the largest packet, 1 (256 bytes) to 5 (4096).
    pub mtu: u8,
    /// Code of how many lanes work.
    pub lanes: u8,
    /// Lifetime of packets at the head of a queue, and the count before it stalls.
    pub stall: u8,
    /// Limit of high-priority packets.
    pub high_limit: u8,
    /// Which packets are filtered, 4 bits.
    pub filters: u8,
    /// Code of the time of a subnet, with what else is in its byte but the reregister bit.
    pub subnet_timeout: u8,
    /// Thresholds of errors.
    pub thresholds: u8,
    /// Wrong keys seen: M_Keys, P_Keys, Q_Keys.
    pub violations: [u16; 3],
    /// Partition keys.
    pub pkeys: [u16; PKEYS],
    /// GUIDs; the first is the port's own.
    pub guids: [u64; GUIDS],
    /// Lane of each service level, two in a byte, by the port that packets come in by.
    pub lanes_of: [[u8; SERVICE_LEVELS / 2]; MAX_PORTS],
    /// Arbitration between lanes: low priority, high priority.
    pub arbitration: [[u8; 64]; 2],
    /// What it counted.
    pub counters: Counters,
}

impl Port {
    /// A port of which nobody has asked anything.
    pub fn new(number: u8, role: Role, guid: u64, capabilities: u32) -> Self {
        let mut pkeys = [0; PKEYS];
        let mut guids = [0; GUIDS];
        pkeys[0] = DEFAULT_PKEY;
        guids[0] = guid;
        Self {
            number,
            role,
            // The inner port of a switch is always there.
            state: if role == Role::SwitchEnd {
                State::Active
            } else {
                State::Down
            },
            phys: if role == Role::SwitchEnd {
                Phys::LinkUp
            } else {
                Phys::Polling
            },
            down_default: Phys::Polling,
            mkey: 0,
            mkey_lease: 0,
            mkey_protect: 0,
            prefix: DEFAULT_PREFIX,
            lid: 0,
            lmc: 0,
            sm_lid: 0,
            sm_sl: 0,
            capabilities,
            width_enabled: super::port_info::WIDTHS,
            speed_enabled: super::port_info::SPEEDS,
            speed_ext_enabled: super::port_info::SPEEDS_EXT,
            mtu: super::port_info::MTU_CAP,
            lanes: super::port_info::LANES_CAP,
            stall: 0,
            high_limit: 0,
            filters: 0,
            subnet_timeout: 0,
            thresholds: 0,
            violations: [0; 3],
            pkeys,
            guids,
            lanes_of: [[0; SERVICE_LEVELS / 2]; MAX_PORTS],
            arbitration: [[0; 64]; 2],
            counters: Counters::default(),
        }
    }

    /// Whether it would take the other end of a cable.
    pub fn wants_link(&self) -> bool {
        matches!(self.phys, Phys::Polling | Phys::LinkUp)
    }

    /// Whether a LID is one of this port's.
    pub fn has_lid(&self, lid: u16) -> bool {
        self.lid != 0 && lid & !self.lid_mask() == self.lid & !self.lid_mask()
    }

    /// The bits of a LID that are free.
    pub fn lid_mask(&self) -> u16 {
        (1 << (self.lmc & 7)) - 1
    }

    /// GID number `index`; with a prefix also where there is no GUID, as the core takes the
    /// subnet's from the last one.
    pub fn gid(&self, index: usize) -> Option<[u8; 16]> {
        let gid = u128::from(self.prefix) << 64 | u128::from(*self.guids.get(index)?);
        Some(gid.to_be_bytes())
    }

    /// Where in the table a packet's partition key fits (IBA 10.9.3): the partitions are the
    /// same, and not both ends are limited members. Nobody knows partition 0.
    pub fn matching_pkey(&self, key: u16) -> Option<usize> {
        self.pkeys.iter().position(|own| pkeys_match(*own, key))
    }

    /// The link came up: the manager has everything to do.
    pub fn link_up(&mut self) {
        self.phys = Phys::LinkUp;
        self.state = State::Init;
    }

    /// The link went away, while this end goes to `phys`. Whether there was one.
    pub fn link_down(&mut self, phys: Phys) -> bool {
        let was = self.phys == Phys::LinkUp;
        self.phys = phys;
        self.state = State::Down;
        if was {
            self.counters.link_downed = self.counters.link_downed.saturating_add(1);
        }
        was
    }

    /// Counts a packet that left.
    pub fn sent(&mut self, bytes: usize, multicast: bool) {
        let c = &mut self.counters;
        c.sent = c.sent.wrapping_add(1);
        c.sent_multicast = c.sent_multicast.wrapping_add(u64::from(multicast));
        c.sent_bytes = c.sent_bytes.wrapping_add(bytes as u64);
    }

    /// Counts a packet that came.
    pub fn rcvd(&mut self, bytes: usize, multicast: bool) {
        let c = &mut self.counters;
        c.rcvd = c.rcvd.wrapping_add(1);
        c.rcvd_multicast = c.rcvd_multicast.wrapping_add(u64::from(multicast));
        c.rcvd_bytes = c.rcvd_bytes.wrapping_add(bytes as u64);
    }

    /// Counts a packet that could not be sent on.
    pub fn discard(&mut self) {
        self.counters.discards = self.counters.discards.saturating_add(1);
    }
}

/// Whether two ends may talk (IBA 10.9.3).
pub fn pkeys_match(a: u16, b: u16) -> bool {
    a & 0x7fff != 0 && a & 0x7fff == b & 0x7fff && (a | b) & 0x8000 != 0
}
