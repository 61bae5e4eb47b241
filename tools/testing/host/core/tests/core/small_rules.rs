// SPDX-License-Identifier: GPL-2.0

//! Small rules of several engines that only a table shows: words, single fields, defaults.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::gid::GidType;
use rdma_core_engines::proto::gid::GidTypes;
use rdma_core_engines::proto::gid_table::Entry;
use rdma_core_engines::proto::gid_table::GidTable;
use rdma_core_engines::proto::gid_table::Ndev;
use rdma_core_engines::proto::gid_table::Origin;
use rdma_core_engines::proto::gid_table::Slot;
use rdma_core_engines::proto::mad::smi::Form;
use rdma_core_engines::proto::mad::smi::Node;
use rdma_core_engines::proto::mad::smi::Smp;
use rdma_core_engines::proto::mad::smi::Verdict;
use rdma_core_engines::proto::nla::Attrs;
use rdma_core_engines::proto::nla::Why;
use rdma_core_engines::proto::rates;
use rdma_core_engines::proto::ud_header::Header;
use rdma_core_engines::proto::ud_header::Network;
use rdma_core_engines::proto::ud_header::Shape;

#[test]
fn each_cause_has_the_words_of_the_kernel() {
    // lib/nlattr.c
    for (why, words) in [
        (Why::UnknownType, c"Unknown attribute type"),
        (Why::Unsupported, c"Unsupported attribute"),
        (Why::Length, c"invalid attribute length"),
        (Why::Range, c"Attribute failed policy validation"),
        (Why::NoEnd, c"Attribute failed policy validation"),
        (Why::NoMark, c"NLA_F_NESTED is missing"),
        (Why::Mark, c"NLA_F_NESTED not expected"),
        (Why::Trailing, c"bytes leftover after parsing attributes"),
    ] {
        assert_eq!(why.words(), words);
        assert_eq!(why.is_range(), why == Why::Range);
    }
}

#[test]
fn numbers_are_the_first_bytes_of_an_attribute() {
    let bytes = [16, 0, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let attr = Attrs::new(&bytes).next().unwrap();
    assert_eq!(attr.u8(), Some(1));
    assert_eq!(attr.u32(), Some(u32::from_ne_bytes([1, 2, 3, 4])));
    let eight = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(attr.u64(), Some(u64::from_ne_bytes(eight)));
    assert_eq!(attr.text(3), &bytes[4..7]);
    assert_eq!(attr.text(100), &bytes[4..]);
    let short = Attrs::new(&[6, 0, 3, 0, 1, 0, 0, 0]).next().unwrap();
    assert_eq!(
        (short.u8(), short.u32(), short.u64()),
        (Some(1), None, None)
    );
    assert_eq!(short.text(5), [1]);
}

#[test]
fn a_local_header_counts_words_and_names_what_follows() {
    let local = |network| {
        let shape = Shape {
            lrh: true,
            eth: false,
            vlan: false,
            network,
            immediate: false,
        };
        let lrh = Header::new(254, shape).unwrap().lrh;
        (lrh.next_header, lrh.packet_length)
    };
    // IBA 7.7.4: 2 is a transport header, 3 a GRH. Words of LRH, GRH, BTH and DETH, payload
    // with pad, and ICRC.
    assert_eq!(local(Network::None), (2, (8 + 20 + 256 + 4) / 4));
    assert_eq!(local(Network::Grh), (3, (8 + 40 + 20 + 256 + 4) / 4));
}

#[test]
fn a_slot_that_is_taken_is_not_filled_again() {
    let entry = |last| Entry {
        origin: Origin::Ip,
        gid: Gid::from_ipv4([10, 0, 0, last]),
        gid_type: GidType::RoceV2,
        ndev: Ndev(1),
        mac: [2, 0, 0, 0, 0, 1],
    };
    let mut slots = vec![Slot::default(); 4];
    let mut table = GidTable::new(&mut slots, GidTypes::roce(true, true));
    assert!(table.insert(2, entry(1)));
    assert!(!table.insert(2, entry(2)));
    assert!(!table.insert(4, entry(2)));
    assert_eq!(table.delete(2), Some(entry(1)));
    assert_eq!(table.delete(2), None);
    assert!(table.insert(2, entry(2)));
}

#[test]
fn each_rate_has_its_number() {
    // enum ib_rate, in the order of its numbers from 2 on; 24 is not given.
    let mbps = [
        2_500, 10_000, 30_000, 5_000, 20_000, 40_000, 60_000, 80_000, 120_000, 14_062, 56_250,
        112_500, 168_750, 25_781, 103_125, 206_250, 309_375, 28_125, 53_125, 425_000, 637_500,
        850_000,
    ];
    for (raw, mbps) in (2..).zip(mbps) {
        assert_eq!(rates::mbps(raw), Some(mbps), "{raw}");
    }
    assert_eq!(rates::mbps(25), Some(1_700_000));
    for raw in [0, 1, 24, 26] {
        assert_eq!(rates::mbps(raw), None, "{raw}");
    }
}

#[test]
fn a_route_that_goes_on_by_lid_does_not_end_at_a_channel_adapter() {
    for (is_switch, permissive, verdict) in [
        (false, true, Verdict::Handle),
        (false, false, Verdict::Discard),
        (true, false, Verdict::Handle),
    ] {
        // One hop, of which the pointer says that it is behind us.
        let mut mad = [0; 256];
        (mad[1], mad[6], mad[7]) = (0x81, 1, 1);
        mad[32..34].fill(0xff);
        mad[34..36].fill(if permissive { 0xff } else { 0 });
        let mut smp = Smp::new(&mut mad, Form::Ib).unwrap();
        let node = Node {
            is_switch,
            ports: 2,
        };
        assert_eq!(smp.receive(node, 1), verdict, "{is_switch} {permissive}");
    }
}
