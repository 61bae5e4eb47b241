// SPDX-License-Identifier: GPL-2.0

//! Members of multicast groups: `MCMemberRecord` (IBTA 15.2.5.17).

use super::super::gid::Gid;
use super::wire::Cursor;
use super::wire::Record;

/// Fields of the record, as bits of the mask that says which of them count.
pub mod component {
    /// The group.
    pub const MGID: u64 = 1;
    /// The member.
    pub const PORT_GID: u64 = 1 << 1;
    /// The key of its queue pairs.
    pub const QKEY: u64 = 1 << 2;
    /// Its LID.
    pub const MLID: u64 = 1 << 3;
    /// How the next is compared.
    pub const MTU_SELECTOR: u64 = 1 << 4;
    /// The largest packet.
    pub const MTU: u64 = 1 << 5;
    /// The traffic class.
    pub const TRAFFIC_CLASS: u64 = 1 << 6;
    /// The partition.
    pub const PKEY: u64 = 1 << 7;
    /// How the next is compared.
    pub const RATE_SELECTOR: u64 = 1 << 8;
    /// The rate.
    pub const RATE: u64 = 1 << 9;
    /// How the next is compared.
    pub const LIFE_TIME_SELECTOR: u64 = 1 << 10;
    /// How long a packet lives.
    pub const LIFE_TIME: u64 = 1 << 11;
    /// The service level.
    pub const SL: u64 = 1 << 12;
    /// The label of the flow.
    pub const FLOW_LABEL: u64 = 1 << 13;
    /// The hops.
    pub const HOP_LIMIT: u64 = 1 << 14;
    /// How far the group reaches.
    pub const SCOPE: u64 = 1 << 15;
    /// What kind of member.
    pub const JOIN_STATE: u64 = 1 << 16;
}

/// Kinds of members: full, non, send-only non, send-only full, a bit each from the lowest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinState(pub u8);

/// How many kinds there are.
pub const KINDS: usize = 4;

impl JoinState {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// Whether all kinds of another are in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those of one or the other.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in another.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it has the kind of this bit.
    pub const fn has(self, kind: usize) -> bool {
        kind < KINDS && self.0 >> kind & 1 != 0
    }
}

/// A member of a group, or the group itself: then `join_state` are those of all its members
/// on this port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The group; zeros ask for one that is free.
    pub mgid: Gid,
    /// The member's port.
    pub port_gid: Gid,
    /// Key of its queue pairs.
    pub qkey: u32,
    /// Its LID.
    pub mlid: u16,
    /// How the next one is compared: more, less, equal, best.
    pub mtu_selector: u8,
    /// `enum ib_mtu`.
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition.
    pub pkey: u16,
    /// As `mtu_selector`.
    pub rate_selector: u8,
    /// `enum ib_rate`.
    pub rate: u8,
    /// As `mtu_selector`.
    pub life_time_selector: u8,
    /// How long a packet lives, as in a path.
    pub life_time: u8,
    /// Service level.
    pub sl: u8,
    /// Label of the flow, 20 bits.
    pub flow_label: u32,
    /// Hops.
    pub hop_limit: u8,
    /// How far it reaches.
    pub scope: u8,
    /// What kind of member.
    pub join_state: JoinState,
    /// Whether it was joined for somebody else.
    pub proxy_join: u8,
}

impl Record for Member {
    const LEN: usize = 52;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.gid(&mut self.mgid);
        at.gid(&mut self.port_gid);
        at.number(32, &mut self.qkey);
        at.number(16, &mut self.mlid);
        at.number(2, &mut self.mtu_selector);
        at.number(6, &mut self.mtu);
        at.number(8, &mut self.traffic_class);
        at.number(16, &mut self.pkey);
        at.number(2, &mut self.rate_selector);
        at.number(6, &mut self.rate);
        at.number(2, &mut self.life_time_selector);
        at.number(6, &mut self.life_time);
        at.number(4, &mut self.sl);
        at.number(20, &mut self.flow_label);
        at.number(8, &mut self.hop_limit);
        at.number(4, &mut self.scope);
        at.number(4, &mut self.join_state.0);
        at.number(1, &mut self.proxy_join);
        at.reserved(23);
    }
}

/// How a value is to compare with the one that was asked for.
fn fits(selector: u8, have: u8, asked: u8) -> bool {
    match selector {
        0 => have > asked,
        1 => have < asked,
        2 => have == asked,
        // The best there is, whatever that be.
        _ => true,
    }
}

impl Member {
    /// Whether a group is what a member asks for, as far as the mask names fields. The group's
    /// GID is the same already; kinds of members are another question.
    pub fn satisfies(&self, asked: &Self, mask: u64) -> bool {
        let same = |component: u64, same: bool| mask & component == 0 || same;
        let selected = |selector: u64, value: u64, fits: bool| {
            mask & selector == 0 || mask & value == 0 || fits
        };
        same(component::PORT_GID, self.port_gid == asked.port_gid)
            && same(component::QKEY, self.qkey == asked.qkey)
            && same(component::MLID, self.mlid == asked.mlid)
            && selected(
                component::MTU_SELECTOR,
                component::MTU,
                fits(asked.mtu_selector, self.mtu, asked.mtu),
            )
            && same(
                component::TRAFFIC_CLASS,
                self.traffic_class == asked.traffic_class,
            )
            && same(component::PKEY, self.pkey == asked.pkey)
            && selected(
                component::RATE_SELECTOR,
                component::RATE,
                fits(asked.rate_selector, self.rate, asked.rate),
            )
            && selected(
                component::LIFE_TIME_SELECTOR,
                component::LIFE_TIME,
                fits(asked.life_time_selector, self.life_time, asked.life_time),
            )
            && same(component::SL, self.sl == asked.sl)
            && same(component::FLOW_LABEL, self.flow_label == asked.flow_label)
            && same(component::HOP_LIMIT, self.hop_limit == asked.hop_limit)
            && same(component::SCOPE, self.scope == asked.scope)
    }
}
