// SPDX-License-Identifier: GPL-2.0

//! One node and a hand that plays its peer, for tests that follow a script.

#![allow(unreachable_pub, reason = "one program has all the tests")]

use rxe_sim::host::PostedRecv;
use rxe_sim::host::PostedSend;
use rxe_sim::host::Region;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

pub const MTU: u32 = 256;
pub const KEY: Key = Key(0x100);
pub const BASE: u64 = 0x1000;
pub const TIMEOUT: Nanos = Nanos(1_000_000);
/// Both sides start here, just before the wrap.
pub const START: Psn = Psn::new(0x00ff_fffe);

/// A packet as the script sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub opcode: Opcode,
    /// Counted from [`START`].
    pub psn: i32,
    pub ack_req: bool,
    pub solicited: bool,
    pub ext: Ext,
    pub payload: Vec<u8>,
}

pub fn node_of(kind: QpType, resources: usize) -> Node {
    let mut send = SendAttr::new(kind, Qpn(7));
    send.dest = Qpn(9);
    send.mtu = MTU;
    send.timeout = Some(TIMEOUT);
    send.retry = RetryLimit::from_retry_cnt(3);
    send.rnr_retry = RetryLimit::from_rnr_retry(2);
    send.max_rd_atomic = 2;
    let mut recv = RecvAttr::new(kind);
    recv.dest = Qpn(9);
    recv.mtu = MTU;
    recv.access = AccessFlags(!0);
    recv.rnr_timer = RnrTimer::new(5);
    recv.qkey = 77;
    let mut node = Node::new(send, recv, 64, resources);
    node.host.regions.push(Region {
        key: KEY,
        base: BASE,
        bytes: (0..4096u32).map(|i| i as u8).collect(),
        access: AccessFlags(!0),
        valid: true,
    });
    node.ready(START.get(), START.get());
    node
}

pub fn node() -> Node {
    node_of(QpType::Rc, 2)
}

/// Posts a send request; the `wr_id` counts up from 0.
pub fn post(node: &mut Node, op: SendOp, length: u32) {
    post_with(node, op, length, |_| {});
}

pub fn post_with(node: &mut Node, op: SendOp, length: u32, change: impl Fn(&mut SendWqe)) {
    let posted = node.host.sent.len() + node.host.in_queue();
    let mut wqe = SendWqe {
        wr_id: posted as u64,
        op,
        flags: SendFlags {
            signaled: true,
            ..SendFlags::default()
        },
        length,
        ud: None,
    };
    change(&mut wqe);
    let buf = (0..length).map(|i| i as u8).collect();
    node.host.sq.push_back(PostedSend { wqe: Ok(wqe), buf });
}

pub fn post_recv(node: &mut Node, wr_id: u64, capacity: usize) {
    node.host.rq.push_back(PostedRecv {
        wr_id,
        good: true,
        buf: vec![0; capacity],
    });
}

pub fn send() -> SendOp {
    SendOp::Send { imm: None }
}

pub fn read() -> SendOp {
    SendOp::Read { va: BASE, key: KEY }
}

pub fn add() -> SendOp {
    SendOp::FetchAdd {
        va: BASE,
        key: KEY,
        add: 5,
    }
}

/// Polls, and says what was sent.
pub fn poll(node: &mut Node, now: Nanos) -> Vec<Seen> {
    node.poll(now, 64);
    seen(node)
}

/// What was sent since the last look.
pub fn seen(node: &mut Node) -> Vec<Seen> {
    let out = std::mem::take(&mut node.host.out);
    out.iter()
        .map(|bytes| {
            let p = Packet::parse(bytes).expect("a packet");
            assert_eq!(p.bth.dest_qpn, 9);
            if !p.bth.opcode.is_request() {
                assert!(!p.bth.ack_req && !p.bth.solicited, "an answer asks");
            }
            Seen {
                opcode: p.bth.opcode,
                psn: p.bth.psn.distance(START),
                ack_req: p.bth.ack_req,
                solicited: p.bth.solicited,
                ext: p.ext,
                payload: p.payload.to_vec(),
            }
        })
        .collect()
}

/// The opcodes and PSNs of packets.
pub fn brief(seen: &[Seen]) -> Vec<(Opcode, i32)> {
    seen.iter().map(|p| (p.opcode, p.psn)).collect()
}

/// A packet from the peer, `psn` counted from [`START`].
pub fn give(
    node: &mut Node,
    now: Nanos,
    opcode: Opcode,
    psn: i32,
    ext: Ext,
    payload: &[u8],
) -> Disposition {
    node.host.payload = payload.to_vec();
    let steps = u32::from_ne_bytes(psn.to_ne_bytes());
    let packet = RxPacket {
        opcode,
        psn: START + steps,
        ack_req: true,
        solicited: false,
        ext,
        len: payload.len() as u32,
        mtu: None,
    };
    if opcode.is_request() {
        node.recv.on_request(&packet, &mut node.host)
    } else {
        node.send.on_response(now, &packet, &mut node.host)
    }
}

pub fn aeth(syndrome: AethSyndrome) -> Ext {
    Ext::Aeth(Aeth {
        syndrome,
        msn: Msn::new(0),
    })
}

pub fn ack(node: &mut Node, now: Nanos, psn: i32) -> Disposition {
    give(node, now, Opcode::RcAck, psn, aeth(AethSyndrome::ACK), &[])
}

pub fn nak(node: &mut Node, now: Nanos, psn: i32, code: NakCode) -> Disposition {
    give(
        node,
        now,
        Opcode::RcAck,
        psn,
        aeth(AethSyndrome::Nak(code)),
        &[],
    )
}

pub fn rnr(node: &mut Node, now: Nanos, psn: i32) -> Disposition {
    let timer = RnrTimer::new(14);
    give(
        node,
        now,
        Opcode::RcAck,
        psn,
        aeth(AethSyndrome::Rnr(timer)),
        &[],
    )
}

/// What the acknowledgements among these say.
pub fn syndromes(seen: &[Seen]) -> Vec<(i32, AethSyndrome)> {
    seen.iter()
        .filter(|p| p.opcode == Opcode::RcAck)
        .map(|p| match p.ext {
            Ext::Aeth(aeth) => (p.psn, aeth.syndrome),
            _ => unreachable!(),
        })
        .collect()
}

pub fn done(node: &Node) -> Vec<(u64, WcStatus)> {
    node.host
        .send_cq
        .iter()
        .map(|c| (c.wr_id, c.status))
        .collect()
}

pub fn received(node: &Node) -> Vec<(u64, WcStatus)> {
    node.host
        .recv_cq
        .iter()
        .map(|c| (c.0.wr_id, c.0.status))
        .collect()
}
