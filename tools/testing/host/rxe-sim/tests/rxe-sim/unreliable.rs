// SPDX-License-Identifier: GPL-2.0

//! UC and UD queue pairs on a bad wire: what arrives is whole, and nothing waits.

use rxe_sim::host::PostedRecv;
use rxe_sim::host::PostedSend;
use rxe_sim::host::Region;
use rxe_sim::node::Node;
use rxe_sim::proto::recv::GRH_LEN;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::world::Weather;
use rxe_sim::world::World;

const RUNS: u64 = 3_000;
const KEY: Key = Key(0x100);
const QKEY: u32 = 0x1234_5678;

/// A message says who it is: every byte of number `k` is `k`.
fn message(k: u8, len: u32) -> Vec<u8> {
    vec![k; len as usize]
}

fn run(seed: u64, kind: QpType) {
    let mut rng = Rng::new(seed);
    let mtu = rng.pick(&[4, 16, 60]);
    let count = 1 + rng.below(60) as u8;
    let longest = if kind == QpType::Uc { mtu * 5 } else { mtu + 2 };
    let mut send = SendAttr::new(kind, Qpn(7));
    send.mtu = mtu;
    let mut recv = RecvAttr::new(kind);
    recv.mtu = mtu;
    recv.access = AccessFlags(!0);
    recv.qkey = QKEY;
    let weather = Weather {
        loss: rng.pick(&[0, 100, 300]),
        duplicate: rng.pick(&[0, 100]),
        late: rng.pick(&[0, 0, 200]),
        blocked: rng.pick(&[0, 300]),
        absent: rng.pick(&[0, 0, 200]),
        delay: 500,
        lateness: 5_000,
    };
    let psn = 0x00ff_ffff - rng.below(30);
    let nodes = [0, 1].map(|_| {
        let mut node = Node::new(send, recv, 1 + rng.below(9) as usize, 0);
        node.ready(psn, psn);
        node.host.regions.push(Region {
            key: KEY,
            base: 0x1000,
            bytes: vec![0; usize::from(count) * longest as usize],
            access: AccessFlags(!0),
            valid: true,
        });
        node
    });
    let mut world = World::new(nodes, weather, rng);
    world.budget = 1 + world.rng.below(20);
    let mut sent = Vec::new();
    for k in 0..count {
        let rng = &mut world.rng;
        let len = rng.below(longest + 1);
        let imm = rng.one_in(2).then_some([k; 4]);
        let va = 0x1000 + u64::from(k) * u64::from(longest);
        let ud = kind.is_datagram().then_some(UdDest {
            qpn: Qpn(7),
            qkey: QKEY,
        });
        let wrong_key = ud.is_some() && rng.one_in(8);
        let op = if kind == QpType::Uc && rng.one_in(2) {
            SendOp::Write { va, key: KEY, imm }
        } else {
            SendOp::Send { imm }
        };
        let wqe = SendWqe {
            wr_id: u64::from(k),
            op,
            flags: SendFlags {
                signaled: true,
                ..SendFlags::default()
            },
            length: len,
            ud: ud.map(|ud| UdDest {
                qkey: ud.qkey ^ u32::from(wrong_key),
                ..ud
            }),
        };
        sent.push((wqe, wrong_key));
        let buf = message(k, len);
        world.script_at(u64::from(k) * 1_000, u32::from(k));
        world.nodes[0]
            .host
            .sq
            .push_back(PostedSend { wqe: Ok(wqe), buf });
        if world.rng.below(8) != 0 {
            let capacity = GRH_LEN + world.rng.below(longest + 1);
            world.nodes[1].host.rq.push_back(PostedRecv {
                wr_id: u64::from(k),
                good: true,
                buf: vec![0; capacity as usize],
            });
        }
    }
    let mut waiting: Vec<_> = world.nodes[0].host.sq.drain(..).rev().collect();
    world.run(&mut |world, _| {
        world.nodes[0].host.sq.extend(waiting.pop());
        world.poll(0);
    });

    let [from, to] = &world.nodes;
    // Gone is done.
    let done: Vec<_> = from
        .host
        .send_cq
        .iter()
        .map(|c| (c.wr_id, c.status))
        .collect();
    let want: Vec<_> = sent
        .iter()
        .map(|s| (s.0.wr_id, WcStatus::Success))
        .collect();
    assert_eq!(done, want);
    assert_eq!((from.state, to.state), (QpState::Rts, QpState::Rts));
    assert_eq!(to.host.events, []);
    // What was received is whole messages.
    let mut last = None;
    for (k, (c, buf)) in to.host.recv_cq.iter().enumerate() {
        assert_eq!(
            (c.wr_id, c.status),
            (to.host.recv_cq[0].0.wr_id.max(c.wr_id), WcStatus::Success)
        );
        let skip = if kind.is_datagram() {
            GRH_LEN as usize
        } else {
            0
        };
        assert_eq!(c.src_qpn, kind.is_datagram().then_some(Qpn(7)), "{k}");
        let id = match (c.imm, buf.get(skip)) {
            (Some([id, ..]), _) => id,
            (None, Some(&id)) if c.byte_len as usize > skip => id,
            (None, _) => continue,
        };
        let (wqe, wrong_key) = sent[usize::from(id)];
        assert!(!wrong_key && (kind == QpType::Uc || wqe.length <= mtu));
        assert_eq!(c.byte_len as usize, skip + wqe.length as usize);
        if c.opcode == WcOpcode::Recv {
            assert!(buf[skip..c.byte_len as usize].iter().all(|&b| b == id));
        } else {
            let at = usize::from(id) * longest as usize;
            let memory = &to.host.regions[0].bytes[at..][..wqe.length as usize];
            assert!(memory.iter().all(|&b| b == id));
        }
        // UC keeps the order unless the wire does not; nothing comes twice without that.
        if weather.late == 0 && weather.duplicate == 0 {
            assert!(last < Some(id));
        }
        last = Some(id);
    }
    if weather.loss == 0 && weather.late == 0 && weather.duplicate == 0 && kind == QpType::Uc {
        // Writes without immediate data need no receive request, so all of them came.
        for &(wqe, _) in &sent {
            if let SendOp::Write {
                imm: None,
                va,
                key: _,
            } = wqe.op
            {
                let memory = &to.host.regions[0].bytes[(va - 0x1000) as usize..];
                let k = wqe.wr_id as u8;
                assert!(memory[..wqe.length as usize].iter().all(|&b| b == k));
            }
        }
    }
}

fn seeds(kind: QpType) {
    let runs = std::env::var("RUNS").ok().and_then(|s| s.parse().ok());
    for seed in 0..runs.unwrap_or(RUNS) {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed, kind)) {
            eprintln!("{kind:?}: seed {seed} fails");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn uc_delivers_whole_messages_or_nothing() {
    seeds(QpType::Uc);
}

#[test]
fn ud_delivers_datagrams_or_nothing() {
    seeds(QpType::Ud);
}
