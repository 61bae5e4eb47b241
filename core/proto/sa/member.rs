// SPDX-License-Identifier: GPL-2.0

//! Members of multicast groups: `MCMemberRecord` (IBTA 15.2.5.17).

use super::super::gid::Gid;
use super::wire::Cursor;
use super::wire::Record;

/// Component mask bits: which fields of the record are significant.
pub mod component {
    /// GID of the group.
    pub const MGID: u64 = 1;
    /// GID of the member's port.
    pub const PORT_GID: u64 = 1 << 1;
    /// Q_Key.
    pub const QKEY: u64 = 1 << 2;
    /// Multicast LID.
    pub const MLID: u64 = 1 << 3;
    /// How the MTU is compared.
    pub const MTU_SELECTOR: u64 = 1 << 4;
    /// MTU.
    pub const MTU: u64 = 1 << 5;
    /// Traffic class.
    pub const TRAFFIC_CLASS: u64 = 1 << 6;
    /// P_Key.
    pub const PKEY: u64 = 1 << 7;
    /// How the rate is compared.
    pub const RATE_SELECTOR: u64 = 1 << 8;
    /// Rate.
    pub const RATE: u64 = 1 << 9;
    /// How the packet lifetime is compared.
    pub const LIFE_TIME_SELECTOR: u64 = 1 << 10;
    /// Packet lifetime.
    pub const LIFE_TIME: u64 = 1 << 11;
    /// Service level.
    pub const SL: u64 = 1 << 12;
    /// Flow label.
    pub const FLOW_LABEL: u64 = 1 << 13;
    /// Hop limit.
    pub const HOP_LIMIT: u64 = 1 << 14;
    /// Scope of the group.
    pub const SCOPE: u64 = 1 << 15;
    /// Join state.
    pub const JOIN_STATE: u64 = 1 << 16;
}

/// Membership types, one bit each from the lowest on: full member, non-member, send-only
/// non-member, send-only full member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinState(pub u8);

/// Number of membership types.
pub const KINDS: usize = 4;

impl JoinState {
    /// No membership.
    pub const NONE: Self = Self(0);

    /// Returns whether all bits of another are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The intersection.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The union.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not set in another.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether no bit is set.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether this bit is set.
    pub const fn has(self, kind: usize) -> bool {
        kind < KINDS && self.0 >> kind & 1 != 0
    }
}

/// A member of a group, or the group itself: then `join_state` is the union of all its members on
/// this port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// GID of the group; zero to have the SA choose one.
    pub mgid: Gid,
    /// GID of the member's port.
    pub port_gid: Gid,
    /// Q_Key.
    pub qkey: u32,
    /// Multicast LID.
    pub mlid: u16,
    /// How `mtu` is compared: greater, less, equal, best.
    pub mtu_selector: u8,
    /// `enum ib_mtu`.
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// P_Key.
    pub pkey: u16,
    /// How `rate` is compared, as in `mtu_selector`.
    pub rate_selector: u8,
    /// `enum ib_rate`.
    pub rate: u8,
    /// How `life_time` is compared, as in `mtu_selector`.
    pub life_time_selector: u8,
    /// Packet lifetime, encoded as in a path.
    pub life_time: u8,
    /// Service level.
    pub sl: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope of the group.
    pub scope: u8,
    /// Join state.
    pub join_state: JoinState,
    /// Whether it was joined on behalf of another port.
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

/// Returns whether a value compares with the requested one as the selector says.
fn fits(selector: u8, have: u8, asked: u8) -> bool {
    match selector {
        0 => have > asked,
        1 => have < asked,
        2 => have == asked,
        // The best available, whatever it is.
        _ => true,
    }
}

impl Member {
    /// Returns whether a group matches a request, in the fields selected by the mask. The GID of
    /// the group already matches; the join state is not compared here.
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
