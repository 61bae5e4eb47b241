// SPDX-License-Identifier: GPL-2.0

//! Headers of SA datagrams (IBTA 13.4.2, 15.2.1.1): 56 bytes before the record.

use super::wire::Cursor;
use super::wire::Record;

/// Size of an InfiniBand SA datagram in bytes: headers and a record.
pub const DATAGRAM: usize = Header::LEN + super::DATA;

/// Management class: subnet administration.
const CLASS: u8 = 3;

/// Method: what is done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// Look up one record.
    Get = 0x01,
    /// Set a record; joins a group.
    Set = 0x02,
    /// Look up all matching records.
    GetTable = 0x12,
    /// Delete a record; leaves a group.
    Delete = 0x15,
}

impl Method {
    /// The method of a GUID query; `None` for others.
    pub const fn of_guids(raw: u8) -> Option<Self> {
        match raw {
            0x01 => Some(Self::Get),
            0x02 => Some(Self::Set),
            0x15 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Attribute: type of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Attribute {
    /// Class information of the SA.
    ClassPortInfo = 0x01,
    /// GUIDs of a port.
    GuidInfo = 0x30,
    /// A service.
    Service = 0x31,
    /// A path.
    Path = 0x35,
    /// A multicast group member.
    Member = 0x38,
}

/// Type of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// InfiniBand.
    Ib,
    /// Omni-Path.
    Opa,
}

impl Fabric {
    /// Base version of management datagrams.
    pub const fn base_version(self) -> u8 {
        match self {
            Self::Ib => 1,
            Self::Opa => 0x80,
        }
    }

    /// Class version of subnet administration.
    const fn class_version(self) -> u8 {
        match self {
            Self::Ib => 2,
            Self::Opa => 0x80,
        }
    }
}

/// The headers. The fields for multi-packet (RMPP) transfers are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version of management datagrams.
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method.
    pub method: u8,
    /// Status; zero for success.
    pub status: u16,
    /// Transaction id, the same in query and response.
    pub transaction: u64,
    /// Type of the record.
    pub attribute: u16,
    /// Component mask: which fields of the record are significant.
    pub mask: u64,
}

impl Header {
    /// Header of a query.
    pub fn of_query(
        fabric: Fabric,
        method: Method,
        attribute: Attribute,
        mask: u64,
        transaction: u64,
    ) -> Self {
        Self {
            base_version: fabric.base_version(),
            class: CLASS,
            class_version: fabric.class_version(),
            // CAST: both are `repr` enums.
            method: method as u8,
            status: 0,
            transaction,
            attribute: attribute as u16,
            mask,
        }
    }
}

impl Record for Header {
    const LEN: usize = 56;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(8, &mut self.base_version);
        at.number(8, &mut self.class);
        at.number(8, &mut self.class_version);
        at.number(8, &mut self.method);
        at.number(16, &mut self.status);
        at.reserved(16);
        at.number(64, &mut self.transaction);
        at.number(16, &mut self.attribute);
        at.reserved(16);
        at.reserved(32);
        // RMPP fields.
        at.reserved(32);
        at.reserved(32);
        at.reserved(32);
        // SM key, and offset between records.
        at.reserved(64);
        at.reserved(32);
        at.number(64, &mut self.mask);
    }
}
