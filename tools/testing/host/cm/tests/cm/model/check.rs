// SPDX-License-Identifier: GPL-2.0

//! The invariants that hold after every step.

use super::gid;
use super::Rt;
use super::World;
use super::FORGER;
use super::RANDOM;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::RtsAttr;
use rdma_cm_engine::proto::conn::StateName;

impl World<'_> {
    /// Invariant 1 for a connection, and that the tables know it (4).
    pub(super) fn check(&mut self, node: u8, slot: u32) {
        let index = usize::from(node);
        let it = &self.nodes[index].slots[slot as usize];
        let conn = &it.conn;
        let tables = &self.nodes[index];
        if let Some(keys) = conn.keys() {
            assert!(it.alive);
            let ids = tables.ids.0.borrow();
            let qpns = tables.qpns.0.borrow();
            assert_eq!(ids.get(&keys.id_key()), Some(&slot));
            assert_eq!(qpns.get(&keys.qpn_key()), Some(&slot));
        }
        let open = it.sends.iter().filter(|send| !send.cancelled).count();
        if let Some(id) = conn.current_send() {
            assert!(it.sends.iter().any(|send| send.id == id), "a send is lost");
        } else {
            assert_eq!(open, 0, "a send that nobody owns");
        }
        if conn.state() != StateName::Established {
            return;
        }
        let other = &self.nodes[1 - index];
        let number = conn.remote_id().0 ^ RANDOM;
        if number >> 16 != 1 - index as u32 {
            return;
        }
        let Some(peer) = (number & 0xffff)
            .checked_sub(1)
            .and_then(|slot| other.slots.get(slot as usize))
        else {
            return;
        };
        if peer.conn.state() != StateName::Established {
            return;
        }
        // One of them may be connected with the forger, who may say that it has the id of the other.
        let is_forger = |conn: &Conn<Rt>| conn.rtr_attr().unwrap().path.peer == gid(FORGER);
        if is_forger(conn) || is_forger(&peer.conn) || it.claimed || peer.claimed {
            return;
        }
        if peer.conn.remote_id() != conn.local_id() {
            // The peer's end is that of a later connection, and this one not yet known to be over.
            assert!(
                peer.uses > 1,
                "two connections share an end: {conn:?} and {:?}",
                peer.conn
            );
            return;
        }
        let (a, b) = (conn.rtr_attr().unwrap(), peer.conn.rtr_attr().unwrap());
        let (RtsAttr::First { sq_psn: a_sq, .. }, RtsAttr::First { sq_psn: b_sq, .. }) =
            (conn.rts_attr().unwrap(), peer.conn.rts_attr().unwrap())
        else {
            return;
        };
        assert_eq!((a.rq_psn, b.rq_psn), (b_sq, a_sq));
        assert_eq!(a.mtu, b.mtu);
        let depths = |conn: &Conn<Rt>| match conn.rts_attr() {
            Ok(RtsAttr::First {
                initiator: Some(initiator),
                ..
            }) => initiator.max_rd_atomic,
            _ => unreachable!(),
        };
        assert_eq!(a.max_dest_rd_atomic, Some(depths(&peer.conn)));
        assert_eq!(b.max_dest_rd_atomic, Some(depths(conn)));
        let qpns = (conn.keys().unwrap().qpn, peer.conn.keys().unwrap().qpn);
        assert_eq!(qpns, (a.dest_qpn, b.dest_qpn));
        self.tally.mirrored += 1;
    }

    /// Invariant 4: the tables hold the live connections and nothing else.
    pub(super) fn check_tables(&self) {
        for node in &self.nodes {
            let live = node
                .slots
                .iter()
                .filter(|s| s.conn.keys().is_some())
                .count();
            assert_eq!(node.ids.0.borrow().len(), live);
            assert_eq!(node.qpns.0.borrow().len(), live);
            let asked = node
                .slots
                .iter()
                .filter(|s| s.conn.state() == StateName::SidrReqRcvd)
                .count();
            assert_eq!(node.sidr.0.borrow().len(), asked);
        }
    }

    /// Invariant 3: nothing waits for ever.
    pub(super) fn check_quiet(&self) {
        for node in &self.nodes {
            for it in &node.slots {
                assert!(it.sends.is_empty(), "a send is left");
                assert!(it.timer.is_none(), "a timer is left");
                assert!(it.events.is_empty(), "an event is left");
                assert_eq!(it.conn.current_send(), None);
                assert!(!matches!(
                    it.conn.state(),
                    StateName::ReqSent
                        | StateName::MraReqRcvd
                        | StateName::RepSent
                        | StateName::MraRepRcvd
                        | StateName::DreqSent
                        | StateName::SidrReqSent
                        | StateName::Timewait
                ));
            }
        }
        self.check_tables();
    }
}
