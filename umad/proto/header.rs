// SPDX-License-Identifier: GPL-2.0

//! The header before each MAD of a program: `struct ib_user_mad_hdr`, and the older layout, which
//! ends before the P_Key index.

use super::wire::bytes;

/// Size of a header in bytes.
pub const SIZE: usize = 64;
/// Size of the older layout in bytes.
pub const OLD_SIZE: usize = 56;

/// Header layout of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Without a P_Key index.
    Old,
    /// With a P_Key index.
    Pkey,
}

impl Layout {
    /// Returns the size of the header in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Old => OLD_SIZE,
            Self::Pkey => SIZE,
        }
    }
}

/// A header. In memory, `qpn`, `qkey`, `lid` and `flow_label` are in network order, other numbers
/// in native order; here all are in native order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the agent in the open file.
    pub id: u32,
    /// 0, or the error of a send without response.
    pub status: u32,
    /// Timeout for a response.
    pub timeout_ms: u32,
    /// Number of retries.
    pub retries: u32,
    /// Length of a received MAD in bytes, including this header.
    pub length: u32,
    /// Remote QP number.
    pub qpn: u32,
    /// Q_Key; ignored, since special queue pairs have a fixed one.
    pub qkey: u32,
    /// Remote LID.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits of the local LID.
    pub path_bits: u8,
    /// Whether `gid_index` to `flow_label` are valid.
    pub grh_present: u8,
    /// Index of the local GID.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Remote GID.
    pub gid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Index of the P_Key.
    pub pkey_index: u16,
    /// Unused; returned with a send that got no response.
    pub reserved: [u8; 6],
}

impl Header {
    /// Parses a header. `None` if there are too few bytes.
    pub fn parse(from: &[u8], layout: Layout) -> Option<Self> {
        let (pkey_index, reserved) = match layout {
            Layout::Old => (0, [0; 6]),
            Layout::Pkey => (u16::from_ne_bytes(bytes(from, 56)?), bytes(from, 58)?),
        };
        let [sl, path_bits, grh_present, gid_index, hop_limit, traffic_class] = bytes(from, 30)?;
        Some(Self {
            id: u32::from_ne_bytes(bytes(from, 0)?),
            status: u32::from_ne_bytes(bytes(from, 4)?),
            timeout_ms: u32::from_ne_bytes(bytes(from, 8)?),
            retries: u32::from_ne_bytes(bytes(from, 12)?),
            length: u32::from_ne_bytes(bytes(from, 16)?),
            qpn: u32::from_be_bytes(bytes(from, 20)?),
            qkey: u32::from_be_bytes(bytes(from, 24)?),
            lid: u16::from_be_bytes(bytes(from, 28)?),
            sl,
            path_bits,
            grh_present,
            gid_index,
            hop_limit,
            traffic_class,
            gid: bytes(from, 36)?,
            flow_label: u32::from_be_bytes(bytes(from, 52)?),
            pkey_index,
            reserved,
        })
    }

    /// Returns the bytes of the header; the older layout is a prefix.
    pub fn to_bytes(self) -> [u8; SIZE] {
        let mut to = [0; SIZE];
        let mut at = 0_usize;
        let mut put = |field: &[u8]| {
            let end = at.saturating_add(field.len());
            if let Some(place) = to.get_mut(at..end) {
                place.copy_from_slice(field);
            }
            at = end;
        };
        for number in [
            self.id,
            self.status,
            self.timeout_ms,
            self.retries,
            self.length,
        ] {
            put(&number.to_ne_bytes());
        }
        put(&self.qpn.to_be_bytes());
        put(&self.qkey.to_be_bytes());
        put(&self.lid.to_be_bytes());
        put(&[
            self.sl,
            self.path_bits,
            self.grh_present,
            self.gid_index,
            self.hop_limit,
            self.traffic_class,
        ]);
        put(&self.gid);
        put(&self.flow_label.to_be_bytes());
        put(&self.pkey_index.to_ne_bytes());
        put(&self.reserved);
        to
    }

    /// Returns whether both headers have the same destination port.
    pub fn same_destination(&self, other: &Self) -> bool {
        match (self.grh_present != 0, other.grh_present != 0) {
            (false, false) => self.lid == other.lid,
            (true, true) => self.gid == other.gid,
            (true, false) | (false, true) => false,
        }
    }
}
