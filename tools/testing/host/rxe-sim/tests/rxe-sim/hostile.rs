// SPDX-License-Identifier: GPL-2.0

//! Users and peers who want to do harm: nothing they say may panic the engine or make
//! it break its contract with the host (which asserts it).

use rxe_sim::host::PostedRecv;
use rxe_sim::host::PostedSend;
use rxe_sim::host::Region;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::*;

const RUNS: u64 = 20_000;

fn number(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.any(),
        1 => rng.pick(&[0, 1, !0, 1 << 31, (1 << 31) + 1, 0xffff_ffff, 1 << 63]),
        2 => 0x1000 + u64::from(rng.below(300)),
        _ => u64::from(rng.below(200)),
    }
}

fn length(rng: &mut Rng) -> u32 {
    (number(rng) & 0xffff_ffff) as u32
}

fn key(rng: &mut Rng) -> Key {
    Key(rng.pick(&[0, 1, 1, 1, rng.clone().any32()]))
}

fn syndrome(rng: &mut Rng) -> AethSyndrome {
    loop {
        if let Some(syndrome) = AethSyndrome::from_byte(rng.any32() as u8) {
            return syndrome;
        }
    }
}

fn ext(rng: &mut Rng, layout: Layout) -> Option<Ext> {
    let reth = Reth {
        va: number(rng),
        rkey: key(rng).0,
        length: length(rng),
    };
    let imm = ImmDt([1, 2, 3, 4]);
    let aeth = Aeth {
        syndrome: if rng.one_in(2) {
            AethSyndrome::ACK
        } else {
            syndrome(rng)
        },
        msn: Msn::new(rng.any32()),
    };
    let deth = Deth {
        qkey: rng.below(2),
        src_qpn: rng.any32() & 0xff_ffff,
    };
    Some(match layout {
        Layout::None => Ext::None,
        Layout::Imm => Ext::Imm(imm),
        Layout::Ieth => Ext::Ieth(Ieth { rkey: key(rng).0 }),
        Layout::Reth => Ext::Reth(reth),
        Layout::RethImm => Ext::RethImm(reth, imm),
        Layout::FethReth => {
            let feth = Feth {
                placement: rng.below(16) as u8,
                selectivity: rng.below(4) as u8,
            };
            Ext::FethReth(feth, reth)
        }
        Layout::AtomicEth => Ext::AtomicEth(AtomicEth {
            va: number(rng),
            rkey: key(rng).0,
            swap_or_add: rng.any(),
            compare: rng.any(),
        }),
        Layout::Aeth => Ext::Aeth(aeth),
        Layout::AethAtomicAck => Ext::AethAtomicAck(
            aeth,
            AtomicAckEth {
                original: rng.any(),
            },
        ),
        Layout::Deth => Ext::Deth(deth),
        Layout::DethImm => Ext::DethImm(deth, imm),
        _ => return None,
    })
}

/// A packet that is well formed, and else anything. Its PSN is near what counts.
fn packet(rng: &mut Rng, node: &Node) -> Option<Vec<u8>> {
    let opcode = rng.pick(Opcode::ALL);
    let ext = ext(rng, opcode.layout())?;
    let near = if opcode.is_request() {
        node.recv.psn()
    } else {
        node.send.psn()
    };
    let psn = match rng.below(6) {
        0 => Psn::new(rng.any32()),
        1 => near + rng.below(40),
        2 => near - rng.below(40),
        3 => near - 1,
        _ => near,
    };
    let mtu = node.recv.attr().mtu.min(300);
    let len = match opcode.payload_rule() {
        PayloadRule::None => 0,
        PayloadRule::Fixed(n) => n.into(),
        PayloadRule::Mtu | PayloadRule::OneToMtu | PayloadRule::ZeroToMtu => {
            rng.pick(&[0, 1, mtu, mtu, mtu + 1, rng.clone().below(300)]) as usize
        }
    };
    let mut bth = Bth::new(opcode, 7, psn);
    bth.pad = pad_len(len);
    bth.ack_req = rng.one_in(2);
    bth.solicited = rng.one_in(2);
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let headers = write_headers(&mut bytes, &bth, &ext)?;
    bytes.truncate(headers);
    bytes.extend(rng.bytes(len as u32));
    bytes.resize(bytes.len() + usize::from(bth.pad) + ICRC_LEN, 0);
    Some(bytes)
}

fn send_request(rng: &mut Rng) -> PostedSend {
    let (va, key) = (number(rng), key(rng));
    let imm = rng.one_in(2).then_some([9; 4]);
    let op = match rng.below(12) {
        0 | 1 => SendOp::Send { imm },
        2 => SendOp::SendInv { key },
        3 | 4 => SendOp::Write { va, key, imm },
        5 => SendOp::Read { va, key },
        6 => SendOp::CompareSwap {
            va,
            key,
            compare: 1,
            swap: 2,
        },
        7 => SendOp::FetchAdd { va, key, add: 1 },
        8 => SendOp::AtomicWrite {
            va,
            key,
            value: [1; 8],
        },
        9 => SendOp::Flush {
            va,
            key,
            length: length(rng),
            kind: rng.any32() as u8,
            level: rng.any32() as u8,
        },
        10 => SendOp::LocalInv { key },
        _ => rng.pick(&[SendOp::RegMr, SendOp::BindMw]),
    };
    let ud = (!rng.one_in(4)).then_some(UdDest {
        qpn: Qpn(rng.any32()),
        qkey: rng.below(2),
    });
    let length = length(rng);
    let wqe = SendWqe {
        wr_id: rng.any(),
        op,
        flags: SendFlags {
            signaled: rng.one_in(2),
            solicited: rng.one_in(2),
            fence: rng.one_in(3),
        },
        length,
        ud,
    };
    // A length that the buffers do not back is a local protection error.
    let backed = if rng.one_in(5) {
        rng.below(50)
    } else {
        length.min(5_000)
    };
    PostedSend {
        wqe: if rng.one_in(9) {
            Err((wqe.wr_id, WcStatus::LocQpOp))
        } else {
            Ok(wqe)
        },
        buf: vec![3; backed as usize],
    }
}

fn modify(rng: &mut Rng, node: &mut Node) {
    match rng.below(6) {
        0 | 1 => {
            let state = QpState::from_code(rng.below(8));
            if let Some(state) = state {
                let _ = node.modify(state);
            }
        }
        2 => {
            let mut attr = *node.send.attr();
            attr.mtu = rng.pick(&[0, 1, 16, 64, 64, 256, u32::MAX]);
            attr.timeout = rng.pick(&[None, Some(Nanos(0)), Some(Nanos(900)), Some(Nanos(!0))]);
            attr.retry = rng.pick(&[RetryLimit::Endless, RetryLimit::from_retry_cnt(2)]);
            attr.rnr_retry = rng.pick(&[RetryLimit::Endless, RetryLimit::from_rnr_retry(1)]);
            attr.max_rd_atomic = rng.pick(&[0, 1, 4, u32::MAX]);
            attr.window = rng.pick(&[0, 1, 5, 128, u32::MAX]);
            node.send.set_attr(attr);
        }
        3 => {
            let mut attr = *node.recv.attr();
            attr.mtu = rng.pick(&[0, 1, 16, 64, 64, 256, u32::MAX]);
            attr.access = AccessFlags(rng.pick(&[0, !0, !0, 0x6]));
            attr.qkey = rng.below(2);
            node.recv.set_attr(attr);
            let n = rng.below(4) as usize;
            drop(node.recv.set_resources(vec![Resource::EMPTY; n]));
        }
        4 => node.recv.set_psn(Psn::new(rng.any32())),
        _ => {
            let _ = node.send.set_psn(Psn::new(rng.any32()));
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let kind = rng.pick(&[
        QpType::Rc,
        QpType::Rc,
        QpType::Rc,
        QpType::Uc,
        QpType::Ud,
        QpType::Gsi,
    ]);
    let mut send = SendAttr::new(kind, Qpn(7));
    send.mtu = 64;
    send.timeout = Some(Nanos(1000));
    send.retry = RetryLimit::from_retry_cnt(7);
    send.max_rd_atomic = 2;
    let mut recv = RecvAttr::new(kind);
    recv.mtu = 64;
    recv.access = AccessFlags(!0);
    let mut node = Node::new(send, recv, rng.below(9) as usize, 2);
    node.host.mtu = None;
    node.host.regions.push(Region {
        key: Key(1),
        base: 0x1000,
        bytes: vec![0; 4096],
        access: AccessFlags(!0),
        valid: true,
    });
    node.ready(rng.any32(), rng.any32());
    let slots = node.host.slots.len();
    let mut now = Nanos(0);
    let mut posted = 0;
    for _ in 0..rng.below(250) {
        match rng.below(12) {
            0..=4 => {
                if let Some(bytes) = packet(&mut rng, &node) {
                    let _ = node.receive(now, &bytes);
                }
            }
            5 => {
                let mut bytes = packet(&mut rng, &node).unwrap_or_default();
                for _ in 0..rng.below(4) {
                    let at = rng.below(bytes.len().max(1) as u32) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = rng.any32() as u8;
                    }
                }
                bytes.truncate(rng.below(400) as usize);
                let _ = node.receive(now, &bytes);
            }
            6 | 7 if slots > 0 => {
                posted += 1;
                node.host.sq.push_back(send_request(&mut rng));
            }
            8 => {
                let capacity = rng.pick(&[0, 1, 64, 100, 500]);
                node.host.rq.push_back(PostedRecv {
                    wr_id: rng.any(),
                    good: !rng.one_in(6),
                    buf: vec![0; capacity],
                });
            }
            9 if rng.one_in(4) => modify(&mut rng, &mut node),
            10 => {
                now = Nanos(now.0.saturating_add(rng.any() % 3000));
                node.send.on_timer(now, &mut node.host);
            }
            _ => {
                node.host.room = rng.one_in(4).then(|| rng.below(5));
                // Once or to the end: a big message may take long, so it is cut short.
                let budget = rng.below(70);
                let _ = node.send.poll(now, &mut node.host, budget);
                let _ = node.recv.poll(&mut node.host, budget);
                node.host.out.clear();
            }
        }
    }
    assert!(node.host.sent.len() + node.host.in_queue() <= posted);
    // Whatever state it is in, it can be brought to an end.
    if node.state != QpState::Reset {
        node.modify(QpState::Err).expect("any state leads to Err");
        node.poll(now, 50);
        assert_eq!(node.host.in_queue(), 0);
        assert!(node.host.rq.is_empty() && node.host.current.is_none());
        assert_eq!(node.send.next_deadline(), None);
    }
    node.modify(QpState::Reset)
        .expect("any state leads to Reset");
}

#[test]
fn nothing_panics() {
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS").unwrap_or(RUNS),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed} fails; run it alone with SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
