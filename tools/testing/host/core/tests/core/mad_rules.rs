// SPDX-License-Identifier: GPL-2.0

//! `mad`, rule by rule: what packets of RMPP say, what acknowledgements mean to the sender,
//! which MADs are responses and where their data is, and vendors' rules.

use rdma_core_engines::proto::mad::registry::Refused;
use rdma_core_engines::proto::mad::registry::Request;
use rdma_core_engines::proto::mad::registry::Rule;
use rdma_core_engines::proto::mad::rmpp::message_len;
use rdma_core_engines::proto::mad::rmpp::Acked;
use rdma_core_engines::proto::mad::rmpp::Arrival;
use rdma_core_engines::proto::mad::rmpp::Header as Rmpp;
use rdma_core_engines::proto::mad::rmpp::Packet;
use rdma_core_engines::proto::mad::rmpp::Phase;
use rdma_core_engines::proto::mad::rmpp::Receiver;
use rdma_core_engines::proto::mad::rmpp::Sender;
use rdma_core_engines::proto::mad::smi::opa_headers;
use rdma_core_engines::proto::mad::wire;
use rdma_core_engines::proto::mad::wire::Header;
use rdma_core_engines::proto::mad::wire::Layout;
use rdma_core_engines::proto::mad::wire::Special;

const fn rmpp(kind: u8, flags: u8, status: u8, segment: u32, length_or_window: u32) -> Rmpp {
    Rmpp {
        version: 1,
        kind,
        flags,
        status,
        segment,
        length_or_window,
    }
}

#[test]
fn packets_are_judged_by_their_headers() {
    let wrong = |status, data| Packet::Wrong { status, data };
    let data = |segment, last| Packet::Data { segment, last };
    for (header, judged) in [
        // Flags: 1 active, 2 first, 4 last.
        (rmpp(1, 3, 0, 1, 0), data(1, false)),
        (rmpp(1, 7, 0, 1, 0), data(1, true)),
        (rmpp(1, 1, 0, 2, 0), data(2, false)),
        (rmpp(1, 5, 0, 2, 0), data(2, true)),
        (rmpp(1, 1, 0, 1, 0), wrong(120, true)),
        (rmpp(1, 3, 0, 2, 0), wrong(120, true)),
        (rmpp(1, 3, 1, 1, 0), wrong(124, true)),
        (
            rmpp(2, 1, 0, 4, 4),
            Packet::Ack {
                segment: 4,
                window_end: 4,
            },
        ),
        (rmpp(2, 1, 0, 4, 3), wrong(122, false)),
        (rmpp(2, 1, 1, 4, 4), wrong(124, false)),
        (rmpp(3, 1, 1, 0, 0), Packet::Ended(1)),
        (rmpp(3, 1, 0, 0, 0), wrong(124, false)),
        (rmpp(3, 1, 118, 0, 0), wrong(124, false)),
        (rmpp(4, 1, 117, 0, 0), wrong(124, false)),
        (rmpp(4, 1, 118, 0, 0), Packet::Ended(118)),
        (rmpp(4, 1, 127, 0, 0), Packet::Ended(127)),
        (rmpp(4, 1, 128, 0, 0), wrong(124, false)),
        (rmpp(0, 1, 0, 0, 0), wrong(121, false)),
        (rmpp(5, 1, 0, 0, 0), wrong(121, false)),
    ] {
        assert_eq!(Packet::judge(&header), judged, "{header:?}");
        let old = Rmpp {
            version: 2,
            ..header
        };
        assert_eq!(Packet::judge(&old), wrong(125, false));
    }
}

#[test]
fn a_header_is_written_as_it_is_read() {
    let mut mad = [0xff; 40];
    mad[26] = 0xa8;
    let header = rmpp(2, 5, 6, 0x0708_090a, 0x0b0c_0d0e);
    header.write(&mut mad);
    // The time above the flags stays.
    let want = [1, 2, 0xad, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    assert_eq!(mad[24..36], want);
    assert!(mad[..24].iter().chain(&mad[36..]).all(|b| *b == 0xff));
    assert_eq!(Rmpp::parse(&mad), Some(header));
    assert_eq!(Rmpp::parse(&mad[..36]), Some(header));
    assert_eq!(Rmpp::parse(&mad[..35]), None);
    let mut short = [0; 35];
    header.write(&mut short);
    assert_eq!(short, [0; 35]);
}

#[test]
fn a_sender_moves_by_acknowledgements() {
    // 256 bytes less 56 of headers are 200 of data; RMPP counts from its own header on: 220.
    let layout = Layout::new(256, 56, 900, true).unwrap();
    assert_eq!((layout.segments, layout.pad), (5, 100));
    assert_eq!((layout.segment(), layout.rmpp_segment()), (200, 220));
    let mut sender = Sender::new(&layout).unwrap();
    sender.start(1);
    assert_eq!(sender.current(), 1);
    assert!(sender.may_send() && !sender.is_done());
    let next = |sender: &mut Sender| {
        let segment = sender.next_segment().unwrap();
        (segment.number, segment.flags, segment.length)
    };
    // The first one says how long all is, the last one how much of it counts.
    assert_eq!(next(&mut sender), (1, 3, 5 * 220 - 100));
    assert!(!sender.may_send());
    assert_eq!(sender.ack(2, 4), Acked::TooMuch);
    assert_eq!(sender.ack(1, 4), Acked::Some { new: true });
    assert_eq!(sender.ack(1, 4), Acked::Some { new: false });
    assert_eq!(sender.ack(0, 4), Acked::Old);
    assert_eq!(sender.ack(1, 3), Acked::Old);
    assert_eq!(next(&mut sender), (2, 1, 0));
    assert_eq!(next(&mut sender), (3, 1, 0));
    assert_eq!(sender.current(), 3);
    assert_eq!(sender.ack(2, 4), Acked::Some { new: true });
    sender.rewind();
    assert_eq!(sender.current(), 2);
    assert_eq!(next(&mut sender), (3, 1, 0));
    assert_eq!(next(&mut sender), (4, 1, 0));
    assert!(!sender.may_send());
    // Beyond the window, then beyond the end.
    assert_eq!(sender.ack(5, 9), Acked::TooMuch);
    assert_eq!(sender.ack(4, 9), Acked::Some { new: true });
    assert_eq!(sender.ack(6, 9), Acked::TooMuch);
    assert_eq!(next(&mut sender), (5, 5, 220 - 100));
    assert_eq!(sender.next_segment(), None);
    assert!(!sender.may_send() && !sender.is_done());
    assert_eq!(sender.ack(5, 9), Acked::All);
    assert!(sender.is_done());
    // A new beginning.
    sender.start(0);
    assert!(sender.may_send() && !sender.is_done());
    // All in one segment is first and last.
    let mut one = Sender::new(&Layout::new(256, 56, 200, true).unwrap()).unwrap();
    one.start(1);
    assert_eq!(next(&mut one), (1, 7, 220));
    // No transfer at all.
    assert_eq!(
        Sender::new(&Layout::new(256, 56, 200, false).unwrap()),
        None
    );
}

#[test]
fn a_receiver_acknowledges_at_the_end_of_its_window() {
    let mut receiver = Receiver::new(2, false);
    assert_eq!(receiver.phase(), Phase::Active);
    assert_eq!(receiver.acknowledge(), (1, 3));
    assert_eq!(receiver.arrived(1, false), Arrival::Repeat);
    assert_eq!(receiver.arrived(4, false), Arrival::Drop);
    assert_eq!(receiver.arrived(3, false), Arrival::Keep { ack: false });
    assert_eq!(receiver.arrived(3, false), Arrival::Drop);
    assert_eq!(receiver.contiguous(), 1);
    assert_eq!(receiver.arrived(2, false), Arrival::Keep { ack: true });
    assert_eq!(receiver.contiguous(), 3);
    // It came, and is not acknowledged yet.
    assert_eq!(receiver.arrived(3, false), Arrival::Drop);
    assert_eq!(receiver.acknowledge(), (3, 5));
    assert_eq!(receiver.arrived(3, false), Arrival::Repeat);
    receiver.open_reply(7);
    assert_eq!(receiver.reply_window(), 1);
    assert_eq!(receiver.arrived(4, true), Arrival::Last(4));
    assert_eq!(receiver.phase(), Phase::Complete);
    assert_eq!(receiver.acknowledge(), (4, 5));
    receiver.open_reply(7);
    assert_eq!(receiver.reply_window(), 7);
    assert_eq!(receiver.arrived(5, false), Arrival::Repeat);
    assert_eq!(receiver.arrived(6, false), Arrival::Drop);
    assert!(!receiver.time_out());
    // What says that it is the last is so for those behind it.
    let mut receiver = Receiver::new(8, false);
    assert_eq!(receiver.arrived(4, true), Arrival::Keep { ack: false });
    assert_eq!(receiver.arrived(5, false), Arrival::Drop);
    assert_eq!(receiver.arrived(3, false), Arrival::Keep { ack: false });
    assert_eq!(receiver.arrived(2, false), Arrival::Last(4));
    // Time.
    let mut receiver = Receiver::new(8, false);
    assert!(receiver.time_out());
    assert!(!receiver.time_out());
    assert_eq!(receiver.phase(), Phase::TimedOut);
    assert_eq!(receiver.arrived(2, false), Arrival::Drop);
    // All in one.
    let mut receiver = Receiver::new(8, true);
    assert_eq!(receiver.phase(), Phase::Complete);
    assert_eq!(receiver.acknowledge(), (1, 1));
}

#[test]
fn the_length_of_a_message_is_that_of_its_data() {
    // SA: 56 bytes of headers, 200 of data in each; the last one's length has 20 of headers.
    assert_eq!(message_len(3, 1, 220, 256), Some(56 + 200));
    assert_eq!(message_len(3, 5, 120, 256), Some(56 + 900));
    assert_eq!(message_len(3, 5, 1000, 256), Some(56 + 1000));
    assert_eq!(message_len(0x30, 2, 20, 256), Some(40 + 2 * 216 - 200));
    assert_eq!(message_len(3, u32::MAX, 220, 256), None);
    assert_eq!(message_len(3, 1, 0, 35), None);
}

#[test]
fn which_mads_are_responses_and_which_queue_pair_has_them() {
    let header = |class, method, attr, attr_mod| Header {
        base_version: 1,
        class,
        class_version: 1,
        method,
        tid: 0,
        attr,
        attr_mod,
    };
    assert!(header(3, 0x81, 0, 0).is_response());
    assert!(header(3, 0x07, 0, 0).is_response());
    assert!(!header(3, 0x01, 0, 1).is_response());
    // Baseboard management has a bit in the modifier.
    assert!(header(5, 0x01, 0, 1).is_response());
    assert!(header(5, 0x01, 0, 3).is_response());
    assert!(!header(5, 0x01, 0, 2).is_response());
    let comes = |header: Header, qp| header.is_admissible(qp, false);
    for class in [0x01, 0x81] {
        assert!(comes(header(class, 1, 0, 0), Special::Smi));
        assert!(!comes(header(class, 1, 0, 0), Special::Gsi));
    }
    assert!(!comes(header(3, 1, 0, 0), Special::Smi));
    assert!(comes(header(3, 1, 0, 0), Special::Gsi));
    // Communication management: Send, or ClassPortInfo.
    assert!(comes(header(7, 3, 0x10, 0), Special::Gsi));
    assert!(comes(header(7, 1, 1, 0), Special::Gsi));
    assert!(!comes(header(7, 1, 0x10, 0), Special::Gsi));
    for (version, ib, opa) in [(1, true, true), (0x80, false, true), (2, false, false)] {
        let header = Header {
            base_version: version,
            ..header(3, 1, 0, 0)
        };
        assert_eq!(header.is_admissible(Special::Gsi, false), ib);
        assert_eq!(header.is_admissible(Special::Gsi, true), opa);
    }
    for (class, at) in [
        (0x01, 24),
        (0x03, 56),
        (0x06, 64),
        (0x10, 64),
        (0x12, 64),
        (0x2f, 24),
        (0x30, 40),
        (0x4f, 40),
        (0x50, 24),
    ] {
        assert_eq!(wire::data_offset(class), at, "{class:#x}");
        assert_eq!(wire::has_rmpp(class), at != 24, "{class:#x}");
        assert_eq!(wire::is_vendor(class), at == 40, "{class:#x}");
    }
}

#[test]
fn eight_vendors_share_a_class() {
    let rule = |vendor: u8, methods| {
        let request = Request {
            class: 0x30,
            version: 1,
            oui: [0, 0, vendor],
            methods,
        };
        Rule::new(request, Special::Gsi, false).unwrap()
    };
    let mut rules: Vec<Rule> = (1..=7).map(|vendor| rule(vendor, 1)).collect();
    // A second rule of a vendor is not one more vendor.
    rules.push(rule(7, 2));
    assert_eq!(rule(8, 1).join(rules.iter()), Ok(()));
    rules.push(rule(8, 1));
    assert_eq!(rule(9, 1).join(rules.iter()), Err(Refused::Full));
    for vendor in 1..=8 {
        assert_eq!(rule(vendor, 4).join(rules.iter()), Ok(()), "{vendor}");
        assert_eq!(rule(vendor, 5).join(rules.iter()), Err(Refused::Taken));
    }
    assert_eq!(rule(1, 1).class(), (0x30, 1));
}

#[test]
fn omni_path_headers_have_their_lengths() {
    // Common header, keys and LIDs; on a directed route both paths of 64 hops.
    assert_eq!((opa_headers(false), opa_headers(true)), (32, 176));
}

#[test]
fn each_field_of_a_header_has_its_bytes() {
    let mad: Vec<u8> = (1..=24).collect();
    let header = Header {
        base_version: 1,
        class: 2,
        class_version: 3,
        method: 4,
        tid: 0x090a_0b0c_0d0e_0f10,
        attr: 0x1112,
        attr_mod: 0x1516_1718,
    };
    assert_eq!(Header::parse(&mad), Some(header));
    for len in 0..24 {
        assert_eq!(Header::parse(&mad[..len]), None, "{len}");
    }
}
