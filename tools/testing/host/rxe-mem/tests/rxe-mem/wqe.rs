// SPDX-License-Identifier: GPL-2.0

//! Work queue entries: bytes as librxe writes them, bytes as nobody should, and
//! kernel users' requests there and back.

use crate::common::{Rng, Shared};
use rxe_mem::mem::sge::Sge;
use rxe_mem::parse_send;
use rxe_mem::proto::{Key, QpType, Qpn, SendFlags, SendOp, UdDest, WcStatus};
use rxe_mem::queue::encode::{post_recv, post_send, KernelData, KernelSend, PostError};
use rxe_mem::queue::layout::Layout;
use rxe_mem::queue::ring::{Consumer, Producer};
use rxe_mem::queue::wqe::{
    parse_recv, BadSend, BindMw, Buffers, LocalOp, Route, SendCaps, SendRequest,
};

/// The values of `enum ib_uverbs_wr_opcode`.
const WRITE: u32 = 0;
const WRITE_IMM: u32 = 1;
const SEND: u32 = 2;
const SEND_IMM: u32 = 3;
const READ: u32 = 4;
const CAS: u32 = 5;
const FAA: u32 = 6;
const LOCAL_INV: u32 = 7;
const BIND_MW: u32 = 8;
const SEND_INV: u32 = 9;
const FLUSH: u32 = 14;
const ATOMIC_WRITE: u32 = 15;
const REG_MR: u32 = 0x20;

const RC: SendCaps = SendCaps {
    qp_type: QpType::Rc,
    user: true,
    signal_all: false,
    max_inline: 64,
};

fn caps(qp_type: QpType) -> SendCaps {
    SendCaps { qp_type, ..RC }
}

/// A send entry, built as `struct rxe_send_wqe` lies in memory.
struct Wqe([u8; 208 + 512]);

impl Wqe {
    fn new(opcode: u32) -> Self {
        Self([0; 208 + 512]).u64(0, 0xabcd).u32(12, opcode)
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn u32(self, at: usize, value: u32) -> Self {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn u64(self, at: usize, value: u64) -> Self {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn flags(self, flags: u32) -> Self {
        self.u32(16, flags)
    }

    fn sges(mut self, list: &[(u64, u32, u32)]) -> Self {
        let mut length = 0u32;
        for (i, (addr, len, lkey)) in list.iter().enumerate() {
            let at = 208 + 16 * i;
            self = self.u64(at, *addr).u32(at + 8, *len).u32(at + 12, *lkey);
            length = length.wrapping_add(*len);
        }
        let count = u32::try_from(list.len()).unwrap();
        self.u32(184, length).u32(184 + 12, count)
    }

    /// Puts it into a ring and lets the kernel parse it, with room for 4 entries.
    fn parse(&self, caps: &SendCaps) -> (Result<SendRequest, BadSend>, [Sge; 4]) {
        let layout = Layout::new(1, 208 + 64).unwrap();
        let mem = Shared::new(&layout);
        mem.produce(&layout, &self.0[..208 + 64]);
        let ring = Consumer::new(mem, layout);
        let mut store = [Sge::default(); 4];
        let parsed = parse_send(&ring.peek().unwrap(), caps, &mut store);
        (parsed, store)
    }

    fn ok(&self, caps: &SendCaps) -> SendRequest {
        self.parse(caps).0.unwrap()
    }

    fn fails(&self, caps: &SendCaps) -> WcStatus {
        let BadSend { wr_id, status } = self.parse(caps).0.unwrap_err();
        assert_eq!(wr_id, 0xabcd);
        status
    }
}

#[test]
fn sends_and_writes_keep_their_buffers() {
    let wqe = Wqe::new(SEND)
        .flags(2 | 4)
        .sges(&[(0x1000, 10, 5), (0x2000, 20, 6)]);
    let (parsed, store) = wqe.parse(&RC);
    let parsed = parsed.unwrap();
    assert_eq!(parsed.wqe.wr_id, 0xabcd);
    assert_eq!(parsed.wqe.op, SendOp::Send { imm: None });
    assert_eq!(parsed.wqe.length, 30);
    assert_eq!(parsed.wqe.ud, None);
    let flags = SendFlags {
        signaled: true,
        solicited: true,
        fence: false,
    };
    assert_eq!(parsed.wqe.flags, flags);
    assert_eq!(parsed.buffers, Buffers::Sges(2));
    assert_eq!(
        store[1],
        Sge {
            addr: 0x2000,
            length: 20,
            lkey: 6
        }
    );

    let wqe = Wqe::new(WRITE_IMM)
        .bytes(20, &[1, 2, 3, 4])
        .u64(24, 0xdead_0000)
        .u32(32, 77)
        .sges(&[]);
    let write = SendOp::Write {
        va: 0xdead_0000,
        key: Key(77),
        imm: Some([1, 2, 3, 4]),
    };
    assert_eq!(wqe.ok(&RC).wqe.op, write);
    assert_eq!(wqe.ok(&RC).wqe.length, 0);
    let all = SendCaps {
        signal_all: true,
        ..RC
    };
    assert!(wqe.ok(&all).wqe.flags.signaled);
}

#[test]
fn the_other_operations_find_their_fields() {
    let at = |opcode| {
        Wqe::new(opcode)
            .u64(24, 64)
            .u64(32, 3)
            .u64(40, 4)
            .u32(48, 5)
    };
    let eight = [(0x1000, 8, 1)];
    assert_eq!(
        at(CAS).sges(&eight).ok(&RC).wqe.op,
        SendOp::CompareSwap {
            va: 64,
            key: Key(5),
            compare: 3,
            swap: 4
        },
    );
    assert_eq!(
        at(FAA).sges(&eight).ok(&RC).wqe.op,
        SendOp::FetchAdd {
            va: 64,
            key: Key(5),
            add: 3
        },
    );
    // librxe lets a longer buffer pass; eight bytes of it are used.
    assert_eq!(at(FAA).sges(&[(0, 9, 1)]).ok(&RC).wqe.length, 8);
    assert_eq!(at(FAA).sges(&[(0, 7, 1)]).fails(&RC), WcStatus::LocLen);

    let read = Wqe::new(READ)
        .u64(24, 9)
        .u32(32, 8)
        .sges(&[(0, 100, 1)])
        .ok(&RC);
    assert_eq!(read.wqe.op, SendOp::Read { va: 9, key: Key(8) });
    assert_eq!(read.wqe.length, 100);

    let inv = Wqe::new(SEND_INV).u32(20, 0x777).ok(&RC);
    assert_eq!(inv.wqe.op, SendOp::SendInv { key: Key(0x777) });
    let inv = Wqe::new(LOCAL_INV).u32(20, 0x777).sges(&eight).ok(&RC);
    assert_eq!(inv.wqe.op, SendOp::LocalInv { key: Key(0x777) });
    assert_eq!((inv.wqe.length, inv.buffers), (0, Buffers::Sges(0)));

    let write = Wqe::new(ATOMIC_WRITE)
        .u64(24, 16)
        .u32(32, 5)
        .bytes(208, &[1, 2, 3, 4, 5, 6, 7, 8])
        .u32(184, 8)
        .ok(&RC);
    let value = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(
        write.wqe.op,
        SendOp::AtomicWrite {
            va: 16,
            key: Key(5),
            value
        }
    );
    assert_eq!(write.wqe.length, 8);

    let flush = Wqe::new(FLUSH)
        .u64(24, 16)
        .u32(36, 5)
        .bytes(40, &[2, 1])
        .u32(184, 300);
    let op = SendOp::Flush {
        va: 16,
        key: Key(5),
        length: 300,
        kind: 2,
        level: 1,
    };
    assert_eq!(flush.ok(&RC).wqe.op, op);

    let bind = Wqe::new(BIND_MW)
        .u64(24, 1)
        .u64(32, 2)
        .u32(40, 3)
        .u32(44, 4)
        .u32(48, 5)
        .u32(52, 6);
    let params = BindMw {
        window: Key(4),
        new_key: Key(5),
        region: Key(3),
        addr: 1,
        length: 2,
        access: 6,
    };
    assert_eq!(bind.ok(&RC).local, Some(LocalOp::BindMw(params)));
}

#[test]
fn datagrams_name_their_way() {
    let ud = caps(QpType::Ud);
    let wqe = Wqe::new(SEND)
        .u32(24, 0xff00_0012)
        .u32(28, 0x1234)
        .u32(36, 9);
    let parsed = wqe.ok(&ud);
    let dest = UdDest {
        qpn: Qpn(0x12),
        qkey: 0x1234,
    };
    assert_eq!(parsed.wqe.ud, Some(dest));
    assert_eq!(parsed.route, Some(Route::Ah(9)));

    let wqe = wqe
        .u32(36, 0)
        .bytes(56, &[1, 2])
        .bytes(58, &[0xa, 0xb, 0xc, 0xd, 0xe, 0xf])
        .bytes(64, &[0x20; 16])
        .u32(80, 0x1_2345)
        .bytes(84, &[3, 64, 7]);
    let Some(Route::Av(av)) = wqe.ok(&ud).route else {
        panic!("no address");
    };
    assert_eq!(
        (av.network_type, av.dmac),
        (2, [0xa, 0xb, 0xc, 0xd, 0xe, 0xf])
    );
    assert_eq!((av.dgid, av.flow_label), ([0x20; 16], 0x1_2345));
    assert_eq!((av.sgid_index, av.hop_limit, av.traffic_class), (3, 64, 7));
    assert_eq!(wqe.ok(&RC).route, None);
}

#[test]
fn each_transport_has_its_opcodes() {
    use QpType::{Gsi, Rc, Uc, Ud};
    let legal = |opcode, user| {
        [Rc, Uc, Ud, Gsi].map(|qp_type| {
            let caps = SendCaps {
                qp_type,
                user,
                ..RC
            };
            Wqe::new(opcode).sges(&[(0, 8, 0)]).parse(&caps).0.is_ok()
        })
    };
    for opcode in 0..=300 {
        let expected = match opcode {
            SEND | SEND_IMM => [true; 4],
            WRITE | WRITE_IMM | BIND_MW => [true, true, false, false],
            READ | CAS | FAA | LOCAL_INV | SEND_INV | FLUSH | ATOMIC_WRITE => {
                [true, false, false, false]
            }
            _ => [false; 4],
        };
        assert_eq!(legal(opcode, true), expected, "opcode {opcode}");
    }
    // Registering memory by a work request is for the kernel only.
    assert_eq!(legal(REG_MR, false), [true, false, false, false]);
    assert_eq!(Wqe::new(REG_MR).fails(&RC), WcStatus::LocQpOp);
    assert_eq!(Wqe::new(u32::MAX).fails(&RC), WcStatus::LocQpOp);
}

#[test]
fn buffers_are_bounded() {
    // The queue allows 4 entries.
    let four = [(0, 1, 0); 4];
    assert_eq!(Wqe::new(SEND).sges(&four).ok(&RC).wqe.length, 4);
    for num_sge in [5, 33, 0x8000_0000, u32::MAX] {
        let wqe = Wqe::new(SEND).sges(&four).u32(196, num_sge);
        assert_eq!(wqe.fails(&RC), WcStatus::LocQpOp);
    }
    let gib = 1 << 30;
    let most = [(0, gib, 0), (0, gib, 0)];
    assert_eq!(Wqe::new(SEND).sges(&most).ok(&RC).wqe.length, 1 << 31);
    let more = [(0, gib, 0), (0, gib, 0), (0, 1, 0)];
    assert_eq!(Wqe::new(SEND).sges(&more).fails(&RC), WcStatus::LocLen);
    let wraps = [(0, u32::MAX, 0), (0, 2, 0)];
    assert_eq!(Wqe::new(SEND).sges(&wraps).fails(&RC), WcStatus::LocLen);
}

#[test]
fn inline_data_is_copied_out() {
    let data = *b"sixteen bytes...sixteen more....";
    // As `ibv_post_send` leaves it (entries counted), and as `wr_set_inline_data`
    // does (none, and no flag).
    for (flags, num_sge) in [(8, 2), (8, 0), (0, 0)] {
        let wqe = Wqe::new(SEND)
            .flags(flags)
            .bytes(208, &data)
            .u32(184, 32)
            .u32(196, num_sge);
        let (parsed, store) = wqe.parse(&RC);
        let parsed = parsed.unwrap();
        assert_eq!(
            (parsed.buffers, parsed.wqe.length),
            (Buffers::Inline(32), 32)
        );
        assert_eq!(zerocopy::IntoBytes::as_bytes(&store)[..32], data);
    }
    let at = |len| Wqe::new(WRITE).flags(8).u32(184, len);
    assert_eq!(at(64).ok(&RC).wqe.length, 64);
    for len in [65, 0x1000, u32::MAX] {
        assert_eq!(at(len).fails(&RC), WcStatus::LocLen);
    }
    // The queue's own limit counts, not the room that happens to be there.
    let less = SendCaps {
        max_inline: 32,
        ..RC
    };
    assert_eq!(at(32).ok(&less).wqe.length, 32);
    assert_eq!(at(33).fails(&less), WcStatus::LocLen);
    // The flag means nothing where no data goes out.
    let read = Wqe::new(READ).flags(8).sges(&[(0, 100, 0)]).ok(&RC);
    assert_eq!(read.buffers, Buffers::Sges(1));
}

#[test]
fn receive_entries_are_bounded() {
    let layout = Layout::new(4, 40 + 2 * 16).unwrap();
    let parse = |num_sge: u32, lengths: [u32; 2]| {
        let mem = Shared::new(&layout);
        let mut entry = [0u8; 72];
        entry[..8].copy_from_slice(&9u64.to_ne_bytes());
        entry[28..32].copy_from_slice(&num_sge.to_ne_bytes());
        entry[48..52].copy_from_slice(&lengths[0].to_ne_bytes());
        entry[64..68].copy_from_slice(&lengths[1].to_ne_bytes());
        mem.produce(&layout, &entry);
        let ring = Consumer::new(mem, layout);
        let mut store = [Sge::default(); 2];
        parse_recv(&ring.peek().unwrap(), &mut store)
    };
    let (wqe, count) = parse(2, [100, 200]).unwrap();
    assert_eq!((wqe.wr_id, wqe.capacity, count), (9, 300, 2));
    assert_eq!(parse(1, [100, 200]).unwrap().0.capacity, 100);
    assert_eq!(parse(0, [100, 200]).unwrap().0.capacity, 0);
    // More room than a message can need is no mistake.
    for lengths in [[u32::MAX, u32::MAX], [u32::MAX, 0], [1 << 31, 1]] {
        assert_eq!(parse(2, lengths).unwrap().0.capacity, 1 << 31);
    }
    for num_sge in [3, u32::MAX] {
        let bad = parse(num_sge, [0, 0]).unwrap_err();
        assert_eq!((bad.wr_id, bad.status), (9, WcStatus::LocQpOp));
    }
}

/// The store may have more room than an entry has (for inline data, say): what is beyond
/// the entry is somebody else's, and what the store held before is not a buffer.
#[test]
fn lists_end_where_their_entry_ends() {
    let stale = Sge {
        addr: 0xbad,
        length: 77,
        lkey: 0xbad,
    };
    let send = |num_sge: u32| {
        let layout = Layout::new(3, 208 + 2 * 16).unwrap();
        let mem = Shared::new(&layout);
        let wqe = Wqe::new(SEND).sges(&[(0x1000, 1, 5), (0x2000, 2, 6)]);
        mem.produce(&layout, &wqe.u32(196, num_sge).0[..208 + 2 * 16]);
        let ring = Consumer::new(mem, layout);
        parse_send(&ring.peek().unwrap(), &RC, &mut [stale; 4])
    };
    let recv = |num_sge: u32| {
        let layout = Layout::new(3, 40 + 2 * 16).unwrap();
        let mem = Shared::new(&layout);
        let mut entry = [0u8; 72];
        entry[28..32].copy_from_slice(&num_sge.to_ne_bytes());
        mem.produce(&layout, &entry);
        let ring = Consumer::new(mem, layout);
        parse_recv(&ring.peek().unwrap(), &mut [stale; 4])
    };
    assert_eq!(send(2).unwrap().wqe.length, 3);
    assert_eq!(recv(2).unwrap().0.capacity, 0);
    for num_sge in [3, 4] {
        assert_eq!(send(num_sge).unwrap_err().status, WcStatus::LocQpOp);
        assert_eq!(recv(num_sge).unwrap_err().status, WcStatus::LocQpOp);
    }
}

/// What a kernel user posts is what the parser finds.
#[test]
fn kernel_requests_go_round() {
    let layout = Layout::new(4, 208 + 4 * 16).unwrap();
    let list = [Sge {
        addr: 1,
        length: 8,
        lkey: 3,
    }];
    let key = Key(0x1234);
    let reg = LocalOp::RegMr {
        key,
        access: 7,
        iova: 0x5000,
    };
    let bind = LocalOp::BindMw(BindMw {
        window: Key(1),
        new_key: Key(2),
        region: Key(3),
        addr: 4,
        length: 5,
        access: 6,
    });
    let cases = [
        (QpType::Rc, SendOp::Send { imm: None }, None),
        (
            QpType::Uc,
            SendOp::Send {
                imm: Some([1, 2, 3, 4]),
            },
            None,
        ),
        (
            QpType::Ud,
            SendOp::Send {
                imm: Some([1, 2, 3, 4]),
            },
            None,
        ),
        (QpType::Gsi, SendOp::Send { imm: None }, None),
        (QpType::Rc, SendOp::SendInv { key }, None),
        (
            QpType::Rc,
            SendOp::Write {
                va: 5,
                key,
                imm: None,
            },
            None,
        ),
        (
            QpType::Rc,
            SendOp::Write {
                va: 5,
                key,
                imm: Some([5, 6, 7, 8]),
            },
            None,
        ),
        (QpType::Rc, SendOp::Read { va: 5, key }, None),
        (
            QpType::Rc,
            SendOp::CompareSwap {
                va: 8,
                key,
                compare: 1,
                swap: 2,
            },
            None,
        ),
        (QpType::Rc, SendOp::FetchAdd { va: 8, key, add: 3 }, None),
        (
            QpType::Rc,
            SendOp::AtomicWrite {
                va: 8,
                key,
                value: *b"atomic w",
            },
            None,
        ),
        (
            QpType::Rc,
            SendOp::Flush {
                va: 8,
                key,
                length: 99,
                kind: 1,
                level: 0,
            },
            None,
        ),
        (QpType::Rc, SendOp::LocalInv { key }, None),
        (QpType::Rc, SendOp::RegMr, Some(reg)),
        (QpType::Rc, SendOp::BindMw, Some(bind)),
    ];
    for (n, (qp_type, op, local)) in cases.into_iter().enumerate() {
        let caps = SendCaps {
            qp_type,
            user: false,
            signal_all: false,
            max_inline: 64,
        };
        let mem = Shared::new(&layout);
        let mut ulp = Producer::new(mem.clone(), layout);
        let ud = qp_type.is_datagram().then_some((
            UdDest {
                qpn: Qpn(3),
                qkey: 4,
            },
            5,
        ));
        let flags = SendFlags {
            signaled: n % 2 == 0,
            solicited: n % 3 == 0,
            fence: n % 5 == 0,
        };
        let send = KernelSend {
            wr_id: 0xfeed,
            op,
            flags,
            ud,
            local,
            data: KernelData::Sges(&list),
        };
        post_send(&mut ulp, &caps, 4, &send).unwrap();
        let ring = Consumer::new(mem, layout);
        let mut store = [Sge::default(); 4];
        let parsed = parse_send(&ring.peek().unwrap(), &caps, &mut store).unwrap();
        assert_eq!(parsed.wqe.op, op);
        assert_eq!((parsed.wqe.wr_id, parsed.wqe.flags), (0xfeed, flags));
        assert_eq!(parsed.wqe.ud, ud.map(|(dest, _)| dest));
        assert_eq!(parsed.route, ud.map(|(_, ah)| Route::Ah(ah)));
        assert_eq!(parsed.local, local);
        if parsed.buffers == Buffers::Sges(1) {
            assert_eq!(store[0], list[0]);
            assert_eq!(parsed.wqe.length, 8);
        }
    }
}

#[test]
fn kernel_requests_are_refused_at_once() {
    let layout = Layout::new(2, 208 + 2 * 16).unwrap();
    let caps = SendCaps {
        qp_type: QpType::Rc,
        user: false,
        signal_all: false,
        max_inline: 32,
    };
    let mut ulp = Producer::new(Shared::new(&layout), layout);
    let one = [Sge {
        addr: 0,
        length: 8,
        lkey: 0,
    }];
    let send = KernelSend {
        wr_id: 1,
        op: SendOp::Send { imm: None },
        flags: SendFlags::default(),
        ud: None,
        local: None,
        data: KernelData::Sges(&one),
    };
    let mut post = |caps: &SendCaps, send: KernelSend<'_>| post_send(&mut ulp, caps, 2, &send);
    let invalid = Err(PostError::Invalid);
    let long = [Sge {
        addr: 0,
        length: u32::MAX,
        lkey: 0,
    }];
    let three = [one[0]; 3];
    let cas = |va| SendOp::CompareSwap {
        va,
        key: Key(0),
        compare: 0,
        swap: 0,
    };
    for data in [
        KernelData::Sges(&three),
        KernelData::Sges(&long),
        KernelData::Inline(&[&[0; 33]]),
    ] {
        assert_eq!(post(&caps, KernelSend { data, ..send }), invalid);
    }
    for op in [cas(4), cas(1), SendOp::RegMr, SendOp::BindMw] {
        assert_eq!(post(&caps, KernelSend { op, ..send }), invalid);
    }
    let ud = SendCaps {
        qp_type: QpType::Ud,
        ..caps
    };
    assert_eq!(post(&ud, send), invalid);
    let read = SendOp::Read { va: 0, key: Key(0) };
    let data = KernelData::Inline(&[b"x"]);
    assert_eq!(
        post(
            &caps,
            KernelSend {
                op: read,
                data,
                ..send
            }
        ),
        invalid
    );

    let inline = KernelSend {
        data: KernelData::Inline(&[b"hello ", b"", b"world"]),
        ..send
    };
    assert_eq!(post(&caps, inline), Ok(()));
    for _ in 0..2 {
        assert_eq!(post(&caps, send), Ok(()));
    }
    assert_eq!(post(&caps, send), Err(PostError::Full));

    let layout = Layout::new(1, 40 + 2 * 16).unwrap();
    let mut ulp = Producer::new(Shared::new(&layout), layout);
    assert_eq!(post_recv(&mut ulp, 2, 1, &three), invalid);
    assert_eq!(post_recv(&mut ulp, 2, 1, &[long[0], one[0]]), invalid);
    assert_eq!(post_recv(&mut ulp, 2, 1, &one), Ok(()));
    assert_eq!(post_recv(&mut ulp, 2, 1, &one), Err(PostError::Full));
}

/// Bytes of every kind: nothing panics, and whatever is called valid keeps its
/// bounds.
#[test]
fn scribbled_entries_do_no_harm() {
    let mut accepted = 0u32;
    for seed in 0..20_000 {
        let mut rng = Rng(seed);
        let mut wqe = Wqe::new(0);
        rng.fill(&mut wqe.0);
        // Mostly near misses: random bytes alone are hardly ever valid.
        if rng.below(8) != 0 {
            let opcode = u32::try_from(rng.below(40)).unwrap();
            let length = u32::try_from(rng.below(100)).unwrap();
            let num_sge = u32::try_from(rng.below(7)).unwrap();
            wqe = wqe.u32(12, opcode).u32(184, length).u32(196, num_sge);
        }
        let qp_type = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi][rng.below(4) as usize];
        let (parsed, store) = wqe.parse(&caps(qp_type));
        let Ok(SendRequest {
            wqe,
            buffers,
            route,
            local,
        }) = parsed
        else {
            continue;
        };
        accepted += 1;
        assert!(
            wqe.op != SendOp::RegMr && wqe.length <= 1 << 31,
            "seed {seed}"
        );
        match buffers {
            Buffers::Sges(n) => assert!(n <= store.len()),
            Buffers::Inline(n) => assert!(n <= 64 && n == wqe.length as usize),
        }
        assert_eq!(route.is_some(), qp_type.is_datagram());
        assert_eq!(local.is_some(), wqe.op == SendOp::BindMw);
    }
    assert!(accepted > 1000, "only {accepted} of the entries were valid");
}
