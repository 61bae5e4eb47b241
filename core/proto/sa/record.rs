// SPDX-License-Identifier: GPL-2.0

//! The lesser records: services, GUIDs, and what a manager says of itself.

use super::super::gid::Gid;
use super::wire::Cursor;
use super::wire::Record;

/// A service: `ServiceRecord` (IBTA 15.2.5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The service.
    pub id: u64,
    /// Who offers it.
    pub gid: Gid,
    /// Partition.
    pub pkey: u16,
    /// For how many seconds.
    pub lease: u32,
    /// What proves that one may change it.
    pub key: [u8; 16],
    /// Its name, to be shown.
    pub name: [u8; 64],
    /// What those who know the service know, as 8, 16, 32 and 64 bits, 16 bytes of each.
    pub data: [u8; 64],
}

impl Default for Service {
    fn default() -> Self {
        Self {
            id: 0,
            gid: Gid::default(),
            pkey: 0,
            lease: 0,
            key: [0; 16],
            name: [0; 64],
            data: [0; 64],
        }
    }
}

impl Record for Service {
    const LEN: usize = 176;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(64, &mut self.id);
        at.gid(&mut self.gid);
        at.number(16, &mut self.pkey);
        at.reserved(16);
        at.number(32, &mut self.lease);
        at.bytes(&mut self.key);
        at.bytes(&mut self.name);
        at.bytes(&mut self.data);
    }
}

/// Eight GUIDs of a port: `GuidInfoRecord` (IBTA 15.2.5.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidInfo {
    /// The port.
    pub lid: u16,
    /// Which eight.
    pub block: u8,
    /// Reserved, but a component of its own.
    pub reserved1: u8,
    /// As above.
    pub reserved2: u32,
    /// The GUIDs.
    pub guids: [u8; 64],
}

impl Default for GuidInfo {
    fn default() -> Self {
        Self {
            lid: 0,
            block: 0,
            reserved1: 0,
            reserved2: 0,
            guids: [0; 64],
        }
    }
}

impl Record for GuidInfo {
    const LEN: usize = 72;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(16, &mut self.lid);
        at.number(8, &mut self.block);
        at.number(8, &mut self.reserved1);
        at.number(32, &mut self.reserved2);
        at.bytes(&mut self.guids);
    }
}

/// The beginning of `ClassPortInfo` (IBTA 13.4.8.1), the same in both kinds of fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// Of datagrams.
    pub base_version: u8,
    /// Of the class.
    pub class_version: u8,
    /// What it can do.
    pub capabilities: u16,
    /// What else it can do, 27 bits.
    pub capabilities2: u32,
    /// How long it takes to answer, as a packet's life.
    pub response_time: u8,
}

impl ClassPortInfo {
    /// Whether Omni-Path's SA knows Omni-Path's form of a path.
    pub const fn knows_opa_paths(&self) -> bool {
        self.capabilities2 & 1 << 26 != 0
    }
}

impl Record for ClassPortInfo {
    const LEN: usize = 8;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(8, &mut self.base_version);
        at.number(8, &mut self.class_version);
        at.number(16, &mut self.capabilities);
        at.number(27, &mut self.capabilities2);
        at.number(5, &mut self.response_time);
    }
}
