// SPDX-License-Identifier: GPL-2.0

//! The header before each MAD of a program: `struct ib_user_mad_hdr`, and the older one, which ends
//! before the index of the P_Key.

use super::wire::bytes;

/// Bytes of a header.
pub const SIZE: usize = 64;
/// Bytes of the older header.
pub const OLD_SIZE: usize = 56;

/// Which header an open file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Without an index of a P_Key.
    Old,
    /// With one.
    Pkey,
}

impl Layout {
    /// Bytes of the header.
    pub const fn size(self) -> usize {
        match self {
            Self::Old => OLD_SIZE,
            Self::Pkey => SIZE,
        }
    }
}

/// A header. Numbers are in the order of this machine, but for `qpn`, `qkey`, `lid` and
/// `flow_label`, which are in network order in memory and in machine order here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The agent's number in the open file.
    pub id: u32,
    /// 0, or the error of a send that got no answer.
    pub status: u32,
    /// How long to wait for an answer.
    pub timeout_ms: u32,
    /// How often to send again.
    pub retries: u32,
    /// Bytes of a MAD that was received, with this header.
    pub length: u32,
    /// The queue pair at the other end.
    pub qpn: u32,
    /// Its key; ignored, since special queue pairs have a fixed one.
    pub qkey: u32,
    /// The LID of the other end.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits of the LID at this end.
    pub path_bits: u8,
    /// Whether `gid_index` to `flow_label` mean something.
    pub grh_present: u8,
    /// Where the GID of this end is in its table.
    pub gid_index: u8,
    /// How many hops the packet may go.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// The GID of the other end.
    pub gid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Where the P_Key is in its table.
    pub pkey_index: u16,
    /// Not used; given back with a send that got no answer.
    pub reserved: [u8; 6],
}

impl Header {
    /// Reads a header; none, if there are not enough bytes for one.
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

    /// The bytes of the header. Those of the older one are the first of them.
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

    /// Whether it goes to the same port as another one.
    pub fn same_destination(&self, other: &Self) -> bool {
        match (self.grh_present != 0, other.grh_present != 0) {
            (false, false) => self.lid == other.lid,
            (true, true) => self.gid == other.gid,
            (true, false) | (false, true) => false,
        }
    }
}
