// SPDX-License-Identifier: GPL-2.0

//! Other records: services, GUIDs, and class information.

use super::super::gid::Gid;
use super::wire::Cursor;
use super::wire::Record;

/// A service: `ServiceRecord` (IBTA 15.2.5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Service id.
    pub id: u64,
    /// GID of the port that offers the service.
    pub gid: Gid,
    /// P_Key.
    pub pkey: u16,
    /// Lease time in seconds.
    pub lease: u32,
    /// Service key, which authorizes changes.
    pub key: [u8; 16],
    /// Service name.
    pub name: [u8; 64],
    /// Service data: 16 bytes each as 8-, 16-, 32- and 64-bit values.
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
    /// LID of the port.
    pub lid: u16,
    /// Index of the block of eight GUIDs.
    pub block: u8,
    /// Reserved, but has a component mask bit of its own.
    pub reserved1: u8,
    /// Reserved, but has a component mask bit of its own.
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

/// The start of `ClassPortInfo` (IBTA 13.4.8.1), the same on both fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPortInfo {
    /// Version of management datagrams.
    pub base_version: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Capability mask.
    pub capabilities: u16,
    /// Additional capability mask, 27 bits.
    pub capabilities2: u32,
    /// Response time, encoded as a packet lifetime.
    pub response_time: u8,
}

impl ClassPortInfo {
    /// Returns whether an Omni-Path SA supports path records in Omni-Path format.
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
