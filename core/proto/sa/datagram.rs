// SPDX-License-Identifier: GPL-2.0

//! Headers of the SA's datagrams (IBTA 13.4.2, 15.2.1.1): 56 bytes before the record.

use super::wire::Cursor;
use super::wire::Record;

/// Bytes of an InfiniBand datagram: headers and a record.
pub const DATAGRAM: usize = Header::LEN + super::DATA;

/// The class of datagrams: subnet administration.
const CLASS: u8 = 3;

/// What is done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// Look one up.
    Get = 0x01,
    /// Set one; joins a group.
    Set = 0x02,
    /// Look all up.
    GetTable = 0x12,
    /// Delete one; leaves a group.
    Delete = 0x15,
}

impl Method {
    /// One that GUIDs are asked for with.
    pub const fn of_guids(raw: u8) -> Option<Self> {
        match raw {
            0x01 => Some(Self::Get),
            0x02 => Some(Self::Set),
            0x15 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Of what kind the record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Attribute {
    /// What the SA says of itself.
    ClassPortInfo = 0x01,
    /// GUIDs of a port.
    GuidInfo = 0x30,
    /// A service.
    Service = 0x31,
    /// A path.
    Path = 0x35,
    /// A member of a group.
    Member = 0x38,
}

/// Whose datagrams they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// InfiniBand's.
    Ib,
    /// Omni-Path's.
    Opa,
}

impl Fabric {
    /// The version of all datagrams.
    pub const fn base_version(self) -> u8 {
        match self {
            Self::Ib => 1,
            Self::Opa => 0x80,
        }
    }

    /// The version of this class.
    const fn class_version(self) -> u8 {
        match self {
            Self::Ib => 2,
            Self::Opa => 0x80,
        }
    }
}

/// The headers, but for those of long answers, which are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Of all datagrams.
    pub base_version: u8,
    /// Subnet administration.
    pub class: u8,
    /// Of the class.
    pub class_version: u8,
    /// What is done.
    pub method: u8,
    /// Zero if it was.
    pub status: u16,
    /// Which question it belongs to.
    pub transaction: u64,
    /// Of what kind the record is.
    pub attribute: u16,
    /// Which fields of it count.
    pub mask: u64,
}

impl Header {
    /// Of a question.
    pub fn question(
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
            // CAST: By their representation.
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
        // Of long answers.
        at.reserved(32);
        at.reserved(32);
        at.reserved(32);
        // The key of the subnet manager, the distance between records.
        at.reserved(64);
        at.reserved(32);
        at.number(64, &mut self.mask);
    }
}
