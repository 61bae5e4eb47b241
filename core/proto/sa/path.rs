// SPDX-License-Identifier: GPL-2.0

//! Paths: `PathRecord` of InfiniBand (IBTA 15.2.5.16) and of Omni-Path.
//!
//! Omni-Path LIDs have 32 bits. An SA may not support the Omni-Path format; then the InfiniBand
//! format is used, and LIDs that do not fit are encoded in the GIDs.

use super::super::gid::Gid;
use super::wire::Cursor;
use super::wire::Record;
use super::MULTICAST_LIDS;

/// Component mask bits: which fields of the record are significant.
pub mod component {
    /// Service id (two bits of the mask).
    pub const SERVICE_ID: u64 = 0b11;
    /// Destination GID.
    pub const DGID: u64 = 1 << 2;
    /// Source GID.
    pub const SGID: u64 = 1 << 3;
    /// Traffic class.
    pub const TRAFFIC_CLASS: u64 = 1 << 10;
    /// Reversible path.
    pub const REVERSIBLE: u64 = 1 << 11;
    /// P_Key.
    pub const PKEY: u64 = 1 << 13;
    /// QoS class.
    pub const QOS_CLASS: u64 = 1 << 14;
}

/// Addresses of a path on an InfiniBand link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IbLink {
    /// Destination LID.
    pub dlid: u16,
    /// Source LID.
    pub slid: u16,
    /// Whether it carries raw packets.
    pub raw_traffic: u8,
}

/// Addresses of a path on an Omni-Path link, and its packet formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpaLink {
    /// Destination LID.
    pub dlid: u32,
    /// Source LID.
    pub slid: u32,
    /// Whether it carries raw packets.
    pub raw_traffic: u8,
    /// Permitted header formats: of 8, 10, 9 and 16 bytes.
    pub forms: [u8; 4],
    /// QoS type.
    pub qos_type: u8,
    /// QoS priority.
    pub qos_priority: u8,
}

/// Format of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand format.
    Ib(IbLink),
    /// Omni-Path format.
    Opa(OpaLink),
}

impl Default for Link {
    fn default() -> Self {
        Self::Ib(IbLink::default())
    }
}

/// A path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Service id.
    pub service_id: u64,
    /// Destination GID.
    pub dgid: Gid,
    /// Source GID.
    pub sgid: Gid,
    /// Link addresses, and the format of the record.
    pub link: Link,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Whether the path is reversible: one bit.
    pub reversible: u8,
    /// Number of paths requested: 7 bits.
    pub numb_path: u8,
    /// P_Key.
    pub pkey: u16,
    /// QoS class, 12 bits.
    pub qos_class: u16,
    /// Service level.
    pub sl: u8,
    /// How `mtu` is compared: greater, less, equal, best.
    pub mtu_selector: u8,
    /// `enum ib_mtu`.
    pub mtu: u8,
    /// How `rate` is compared, as in `mtu_selector`.
    pub rate_selector: u8,
    /// `enum ib_rate`.
    pub rate: u8,
    /// How `life_time` is compared, as in `mtu_selector`.
    pub life_time_selector: u8,
    /// Packet lifetime: 4.096 microseconds times two to the power of this.
    pub life_time: u8,
    /// Preference; lower is better.
    pub preference: u8,
}

impl Record for Path {
    const LEN: usize = 64;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(64, &mut self.service_id);
        at.gid(&mut self.dgid);
        at.gid(&mut self.sgid);
        match &mut self.link {
            Link::Ib(link) => {
                at.number(16, &mut link.dlid);
                at.number(16, &mut link.slid);
                at.number(1, &mut link.raw_traffic);
            }
            Link::Opa(link) => {
                at.number(32, &mut link.dlid);
                at.number(32, &mut link.slid);
                at.number(1, &mut link.raw_traffic);
            }
        }
        at.reserved(3);
        at.number(20, &mut self.flow_label);
        at.number(8, &mut self.hop_limit);
        at.number(8, &mut self.traffic_class);
        at.number(1, &mut self.reversible);
        at.number(7, &mut self.numb_path);
        at.number(16, &mut self.pkey);
        match &mut self.link {
            Link::Ib(_) => {
                at.number(12, &mut self.qos_class);
                at.number(4, &mut self.sl);
            }
            Link::Opa(link) => {
                link.forms.iter_mut().for_each(|form| at.number(1, form));
                at.reserved(2);
                at.number(2, &mut link.qos_type);
                at.number(8, &mut link.qos_priority);
                at.reserved(3);
                at.number(5, &mut self.sl);
                at.reserved(8);
            }
        }
        at.number(2, &mut self.mtu_selector);
        at.number(6, &mut self.mtu);
        at.number(2, &mut self.rate_selector);
        at.number(6, &mut self.rate);
        at.number(2, &mut self.life_time_selector);
        at.number(6, &mut self.life_time);
        at.number(8, &mut self.preference);
        if let Link::Ib(_) = self.link {
            at.reserved(48);
        }
    }
}

/// Upper 24 bits of an interface id that encodes an Omni-Path LID.
const OPA_OUI: u64 = 0x00_066a;

/// The lower half of a GID.
fn interface_id(gid: &Gid) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = gid.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The GID with its lower half replaced by an encoded LID.
fn with_lid(gid: Gid, lid: u32) -> Gid {
    let id = (OPA_OUI << 40 | u64::from(lid)).to_be_bytes();
    let [a, b, c, d, e, f, g, h, ..] = gid.0;
    let [i, j, k, l, m, n, o, p] = id;
    Gid([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

fn has_lid(gid: &Gid) -> bool {
    interface_id(gid) >> 40 == OPA_OUI
}

impl Path {
    /// Converts an Omni-Path record to the InfiniBand format. Other records are unchanged.
    pub fn to_ib(self) -> Self {
        let Link::Opa(link) = self.link else {
            return self;
        };
        let raw_traffic = link.raw_traffic;
        let extended = link.dlid >= MULTICAST_LIDS || link.slid >= MULTICAST_LIDS;
        if extended {
            return Self {
                dgid: with_lid(self.dgid, link.dlid),
                sgid: with_lid(self.sgid, link.slid),
                link: Link::Ib(IbLink {
                    dlid: 0,
                    slid: 0,
                    raw_traffic,
                }),
                ..self
            };
        }
        Self {
            link: Link::Ib(IbLink {
                // CAST: Below `MULTICAST_LIDS`, checked above.
                dlid: link.dlid as u16,
                slid: link.slid as u16,
                raw_traffic,
            }),
            ..self
        }
    }

    /// Converts an InfiniBand record to the Omni-Path format. Other records are unchanged.
    pub fn to_opa(self) -> Self {
        let Link::Ib(link) = self.link else {
            return self;
        };
        let (dlid, slid) = if has_lid(&self.dgid) || has_lid(&self.sgid) {
            // CAST: The lower half of such an interface id is the LID.
            (
                interface_id(&self.dgid) as u32,
                interface_id(&self.sgid) as u32,
            )
        } else {
            (link.dlid.into(), link.slid.into())
        };
        Self {
            link: Link::Opa(OpaLink {
                dlid,
                slid,
                raw_traffic: link.raw_traffic,
                ..OpaLink::default()
            }),
            ..self
        }
    }
}
