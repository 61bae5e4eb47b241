// SPDX-License-Identifier: GPL-2.0

//! What programs hand to `ib_umad`, byte by byte.

use rdma_umad_engines::proto::header::Header;
use rdma_umad_engines::proto::header::Layout;
use rdma_umad_engines::proto::receive::copied;
use rdma_umad_engines::proto::receive::part;
use rdma_umad_engines::proto::receive::Copied;
use rdma_umad_engines::proto::register::Form;
use rdma_umad_engines::proto::register::Request;
use rdma_umad_engines::proto::register::Wrong;
use rdma_umad_engines::proto::send::Key;
use rdma_umad_engines::proto::send::Plan;
use rdma_umad_engines::proto::send::Rmpp;
use rdma_umad_engines::proto::send::Start;
use rdma_umad_engines::proto::wire::Special;
use rdma_umad_engines::proto::Invalid;

const SA: u8 = 3;
const PERF: u8 = 4;
const BM: u8 = 5;
const VENDOR: u8 = 0x30;

/// Bytes 0, 1, 2...
fn ramp<const N: usize>() -> [u8; N] {
    core::array::from_fn(|i| i as u8)
}

#[test]
fn headers_as_the_uapi_lays_them_out() {
    let raw: [u8; 64] = ramp();
    let new = Header::parse(&raw, Layout::Pkey).unwrap();
    assert_eq!(new.id, u32::from_ne_bytes([0, 1, 2, 3]));
    assert_eq!(new.length, u32::from_ne_bytes([16, 17, 18, 19]));
    assert_eq!(new.qpn, 0x14151617);
    assert_eq!(new.lid, 0x1c1d);
    assert_eq!((new.sl, new.path_bits, new.grh_present), (30, 31, 32));
    assert_eq!(
        (new.gid_index, new.hop_limit, new.traffic_class),
        (33, 34, 35)
    );
    assert_eq!((new.gid[0], new.gid[15]), (36, 51));
    assert_eq!(new.flow_label, 0x34353637);
    assert_eq!(new.pkey_index, u16::from_ne_bytes([56, 57]));
    assert_eq!(new.reserved, [58, 59, 60, 61, 62, 63]);
    assert_eq!(new.to_bytes(), raw);

    let old = Header::parse(&raw[..56], Layout::Old).unwrap();
    assert_eq!(old.pkey_index, 0);
    assert_eq!(old.to_bytes()[..56], raw[..56]);
    assert_eq!(old.to_bytes()[56..], [0; 8]);
    assert_eq!(Header::parse(&raw[..55], Layout::Old), None);
    assert_eq!(Header::parse(&raw[..63], Layout::Pkey), None);
}

#[test]
fn destinations() {
    let lid = |lid| Header {
        lid,
        ..Header::default()
    };
    let gid = |last, lid| Header {
        lid,
        grh_present: 2,
        gid: [last; 16],
        ..Header::default()
    };
    assert!(lid(1).same_destination(&lid(1)));
    assert!(!lid(1).same_destination(&lid(2)));
    assert!(gid(1, 1).same_destination(&gid(1, 2)));
    assert!(!gid(1, 1).same_destination(&gid(2, 1)));
    assert!(!gid(1, 1).same_destination(&lid(1)));
}

#[test]
fn reads_of_one_segment_and_of_many() {
    // What is refused stays, so nothing may have been copied of it.
    assert_eq!(copied(63, 64, 256, 256), Err(Invalid));
    assert_eq!(copied(319, 64, 256, 256), Err(Invalid));
    assert_eq!(copied(320, 64, 256, 256), Ok(Copied::All));
    // A MAD that is shorter than a segment.
    assert_eq!(copied(64 + 24, 64, 24, 256), Ok(Copied::All));
    assert_eq!(copied(64 + 23, 64, 24, 256), Err(Invalid));
    // A transfer.
    assert_eq!(copied(319, 64, 257, 256), Err(Invalid));
    assert_eq!(copied(320, 64, 257, 256), Ok(Copied::First));
    assert_eq!(copied(321, 64, 257, 256), Ok(Copied::All));
    assert_eq!(copied(usize::MAX, 64, usize::MAX, 256), Ok(Copied::First));
}

#[test]
fn parts_make_up_the_message() {
    // The first segment whole, then the data of those that follow, the last one cut.
    assert_eq!(part(0, 600, 256, 56), Some((0, 256)));
    assert_eq!(part(1, 344, 256, 56), Some((56, 200)));
    assert_eq!(part(2, 144, 256, 56), Some((56, 144)));
    assert_eq!(part(3, 0, 256, 56), None);
    assert_eq!(part(1, 1, 56, 56), None);
    assert_eq!(part(1, 1, 10, 56), None);
}

fn first(qpn: u8, class: u8) -> [u8; 28] {
    let mut raw = ramp::<28>();
    raw[20] = qpn;
    raw[21] = class;
    raw
}

#[test]
fn first_request() {
    let request = Request::parse(&first(1, VENDOR), Form::First, 8).unwrap();
    assert_eq!(request.special, Special::Gsi);
    assert_eq!((request.rmpp_version, request.flags), (26, 0));
    let unsolicited = request.unsolicited.unwrap();
    assert_eq!((unsolicited.class, unsolicited.version), (VENDOR, 22));
    assert_eq!(unsolicited.oui, [23, 24, 25]);
    let low = u64::from_ne_bytes([4, 5, 6, 7, 8, 9, 10, 11]);
    let high = u64::from_ne_bytes([12, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(
        unsolicited.methods,
        u128::from(low) | u128::from(high) << 64
    );
    // A class of 0: it gets answers only.
    let request = Request::parse(&first(0, 0), Form::First, 8).unwrap();
    assert_eq!((request.special, request.unsolicited), (Special::Smi, None));
    assert_eq!(
        Request::parse(&first(2, 0), Form::First, 8),
        Err(Wrong::Qpn(2))
    );
    assert_eq!(
        Request::parse(&first(1, 0)[..27], Form::First, 8),
        Err(Wrong::Short)
    );
}

#[test]
fn words_of_32_bit_programs() {
    let mut raw = first(1, PERF);
    raw[4..20].fill(0);
    // Word 1, bit 0: method 32.
    raw[8..12].copy_from_slice(&1_u32.to_ne_bytes());
    let methods = |form, word| {
        Request::parse(&raw, form, word)
            .unwrap()
            .unsolicited
            .unwrap()
            .methods
    };
    assert_eq!(methods(Form::FirstCompat, 8), 1 << 32);
    assert_eq!(methods(Form::First, 4), 1 << 32);
    if cfg!(target_endian = "little") {
        assert_eq!(methods(Form::First, 8), 1 << 32);
    }
}

fn second(qpn: u32, class: u8, flags: u32, oui: u32) -> [u8; 40] {
    let mut raw = ramp::<40>();
    raw[4..8].copy_from_slice(&qpn.to_ne_bytes());
    raw[8] = class;
    raw[12..16].copy_from_slice(&flags.to_ne_bytes());
    raw[32..36].copy_from_slice(&oui.to_ne_bytes());
    raw
}

#[test]
fn second_request_and_the_order_of_its_refusals() {
    let parse = |raw: [u8; 40]| Request::parse(&raw, Form::Second, 8);
    let request = parse(second(1, VENDOR, 1, 0x123456)).unwrap();
    assert_eq!((request.rmpp_version, request.flags), (36, 1));
    let unsolicited = request.unsolicited.unwrap();
    assert_eq!(unsolicited.oui, [0x12, 0x34, 0x56]);
    assert_eq!(unsolicited.version, 9);
    assert_eq!(parse(second(2, 1, 2, 1 << 24)), Err(Wrong::Qpn(2)));
    assert_eq!(
        parse(second(256, 1, 0, 0)),
        Err(Wrong::Qpn(256)),
        "all 32 bits count"
    );
    assert_eq!(parse(second(1, 1, 2, 1 << 24)), Err(Wrong::Flags(2)));
    assert_eq!(parse(second(1, 1, 0, 1 << 24)), Err(Wrong::Oui(1 << 24)));
    // Without a class nobody looks at the OUI.
    assert!(parse(second(1, 0, 0, 1 << 24)).is_ok());
}

fn start(class: u8, of_method: u8, tid: u64, flags: u8) -> Start {
    let mut raw = [0; 36];
    raw[0] = 1;
    raw[1] = class;
    raw[3] = of_method;
    raw[8..16].copy_from_slice(&tid.to_be_bytes());
    raw[26] = flags;
    Start(raw)
}

#[test]
fn lengths_of_a_write() {
    let plan = |count, class, flags, kernel| {
        Plan::new(count, Layout::Pkey, &start(class, 1, 0, flags), kernel)
    };
    let whole = plan(64 + 256, PERF, 0, false).unwrap();
    assert_eq!((whole.headers, whole.data, whole.copied), (24, 232, 256));
    assert!(whole.rmpp == Rmpp::Program && !whole.may_repeat);
    // CVE-2026-23243: a length below that of the class's headers.
    assert_eq!(plan(64 + 55, SA, 0, true), Err(Invalid));
    assert_eq!(plan(64 + 56, SA, 0, true).unwrap().data, 0);
    assert_eq!(plan(63, PERF, 0, false), Err(Invalid));
    // Who does RMPP: the core, the program, or nobody in that class.
    let long = 64 + 1_000_000;
    let ours = plan(long, SA, 1, true).unwrap();
    assert!(ours.rmpp == Rmpp::Core && !ours.may_repeat);
    assert_eq!((ours.data, ours.copied), (999_944, 1_000_000));
    let theirs = plan(long, SA, 1, false).unwrap();
    assert!(theirs.rmpp == Rmpp::Program && theirs.may_repeat);
    assert_eq!(theirs.copied, 2048);
    let none = plan(long, PERF, 1, true).unwrap();
    assert!(none.rmpp == Rmpp::Program && !none.may_repeat);
    // No transfer, so the core sends no RMPP header.
    let single = plan(long, SA, 6, true).unwrap();
    assert!(single.rmpp == Rmpp::Cleared && !single.may_repeat);
    assert_eq!(single.copied, 2048);
}

#[test]
fn rmpp_headers_as_they_are_sent() {
    let start = Start(ramp());
    assert_eq!(start.sent(Rmpp::Program), start.0);
    assert_eq!(start.sent(Rmpp::Core), start.0);
    let cleared = start.sent(Rmpp::Cleared);
    assert_eq!(cleared[..24], start.0[..24]);
    assert_eq!(cleared[24..], [0; 12]);
}

#[test]
fn responses() {
    assert!(start(SA, 0x81, 0, 0).is_response());
    assert!(start(SA, 0x07, 0, 0).is_response());
    assert!(!start(SA, 0x01, 0, 0).is_response());
    let mut bm = start(BM, 1, 0, 0);
    assert!(!bm.is_response());
    bm.0[23] = 1;
    assert!(bm.is_response());
    bm.0[1] = PERF;
    assert!(!bm.is_response());
}

#[test]
fn transactions() {
    let mut request = start(SA, 1, 0x1111_1111_2222_2222, 0);
    request.set_hi_tid(0xdead_beef);
    assert_eq!(request.tid(), 0xdead_beef_2222_2222);
}

#[test]
fn duplicates() {
    let to = |lid| Header {
        lid,
        ..Header::default()
    };
    let key = |of_method, tid, seq| Key::new(&start(SA, of_method, tid, 0), seq);
    let request = key(1, 7, 1);
    // Requests to whomever; answers to the same port.
    assert!(request.repeats(&to(1), &key(1, 7, 9), &to(2)));
    assert!(!request.repeats(&to(1), &key(1, 8, 9), &to(1)));
    assert!(!request.repeats(&to(1), &key(0x81, 7, 9), &to(1)));
    let answer = key(0x81, 7, 1);
    assert!(answer.repeats(&to(1), &key(0x81, 7, 9), &to(1)));
    assert!(!answer.repeats(&to(1), &key(0x81, 7, 9), &to(2)));
    let other = Key::new(&start(PERF, 1, 7, 0), 1);
    assert!(!request.repeats(&to(1), &other, &to(1)));
}

#[test]
fn alike_ones_come_together() {
    let mut keys = Vec::new();
    for class in [SA, PERF] {
        for of_method in [1, 0x81] {
            for tid in [1, 2] {
                for seq in [3, 0, 2] {
                    keys.push(Key::new(&start(class, of_method, tid, 0), seq));
                }
            }
        }
    }
    keys.sort();
    for key in keys.clone() {
        let from = keys.iter().position(|k| *k >= key.first_alike()).unwrap();
        let run = keys[from..].iter().take_while(|k| k.is_alike(&key)).count();
        assert_eq!(run, 3);
        assert_eq!(keys.iter().filter(|k| k.is_alike(&key)).count(), 3);
    }
}
