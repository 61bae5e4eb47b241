// SPDX-License-Identifier: GPL-2.0

//! Posted work requests.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::post::*;
use rdma_uverbs_engines::proto::Refusal;

#[test]
fn parts_follow_each_other() {
    let found = layout(Way::Send, (2, 60, 3), 120 + 48, |_| false).unwrap();
    assert_eq!(
        found,
        Layout {
            size: 60,
            requests: 120,
            entries: 3,
            end: 168
        }
    );
    assert_eq!(
        layout(Way::Send, (2, 60, 3), 167, |_| true),
        Err(Refusal::NoSpace)
    );
    assert_eq!(
        layout(Way::Send, (2, 60, 0), 119, |_| true),
        Err(Refusal::NoSpace)
    );
    assert_eq!(
        layout(Way::Send, (2, 60, 3), 169, |_| false),
        Err(Refusal::NotSupported)
    );
    assert!(layout(Way::Send, (2, 60, 3), 169, |at| at == 168).is_ok());
    // None at all: the doorbell of a driver whose queues programs write to.
    assert!(layout(Way::Send, (0, 128, 0), 0, |_| false).is_ok());
    assert!(layout(Way::Recv, (0, 16, 0), 0, |_| false).is_ok());
}

#[test]
fn the_size_is_looked_at_last_or_first() {
    assert_eq!(
        layout(Way::Send, (1, 55, 0), 54, |_| true),
        Err(Refusal::NoSpace)
    );
    assert_eq!(
        layout(Way::Send, (1, 55, 0), 56, |_| false),
        Err(Refusal::NotSupported)
    );
    assert_eq!(
        layout(Way::Send, (1, 55, 0), 55, |_| true),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        layout(Way::Recv, (1, 15, 0), 0, |_| true),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        layout(Way::Recv, (1, 16, 0), 0, |_| true),
        Err(Refusal::NoSpace)
    );
}

#[test]
fn entries_are_taken_in_order() {
    let layout = layout(Way::Recv, (3, 16, 5), 48 + 80, |_| true).unwrap();
    for way in [Way::Send, Way::Recv] {
        let mut entries = Entries::new(&layout);
        assert_eq!(entries.take(way, 2), Ok(0));
        assert_eq!(entries.take(way, 0), Ok(2));
        assert_eq!(entries.take(way, 4), Err(Refusal::Invalid));
        assert_eq!(entries.take(way, 3), Ok(2));
        assert_eq!(entries.take(way, 1), Err(Refusal::Invalid));
        // The sum of 32 bits is small, the number is not.
        let none = match way {
            Way::Send => Refusal::NoMemory,
            Way::Recv => Refusal::Invalid,
        };
        assert_eq!(entries.take(way, u32::MAX - 3), Err(none));
        assert_eq!(entries.check(u32::MAX - 3), Ok(()));
    }
}

#[test]
fn forms() {
    for opcode in 0..=0x100 {
        let rc = form(opcode, false).ok();
        let expected = match opcode {
            0 | 4 => Some((Form::Rdma, Extra::None)),
            1 => Some((Form::Rdma, Extra::Immediate)),
            2 => Some((Form::Plain, Extra::None)),
            3 => Some((Form::Plain, Extra::Immediate)),
            5 | 6 => Some((Form::Atomic, Extra::None)),
            9 => Some((Form::Plain, Extra::Invalidate)),
            _ => None,
        };
        assert_eq!(rc, expected, "{opcode}");
        let ud = form(opcode, true).ok();
        let expected = expected
            .filter(|_| matches!(opcode, 2 | 3))
            .map(|(_, extra)| (Form::Ud, extra));
        assert_eq!(ud, expected, "{opcode}");
    }
}

/// Bytes of a work request, each of which tells its place.
fn numbered<const N: usize>() -> [u8; N] {
    core::array::from_fn(|at| at as u8 + 1)
}

fn at<const N: usize>(from: usize) -> [u8; N] {
    core::array::from_fn(|at| (from + at) as u8 + 1)
}

#[test]
fn fields_are_where_the_header_has_them() {
    assert_eq!(
        SendRequest::parse(&numbered()),
        SendRequest {
            id: u64::from_ne_bytes(at(0)),
            entries: u32::from_ne_bytes(at(8)),
            opcode: u32::from_ne_bytes(at(12)),
            flags: u32::from_ne_bytes(at(16)) & 0x03ff_ffff,
            extra: u32::from_ne_bytes(at(20)),
            address: u64::from_ne_bytes(at(24)),
            key: u32::from_ne_bytes(at(32)),
            compare_add: u64::from_ne_bytes(at(32)),
            swap: u64::from_ne_bytes(at(40)),
            atomic_key: u32::from_ne_bytes(at(48)),
            ah: u32::from_ne_bytes(at(24)),
            qpn: u32::from_ne_bytes(at(28)),
            qkey: u32::from_ne_bytes(at(32)),
        }
    );
    assert_eq!(
        RecvRequest::parse(&numbered()),
        RecvRequest {
            id: u64::from_ne_bytes(at(0)),
            entries: u32::from_ne_bytes(at(8)),
        }
    );
}

/// Drivers use bits 26 to 31 among themselves.
#[test]
fn programs_cannot_set_flags_of_drivers() {
    let mut request = [0; SEND];
    request[16..20].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(SendRequest::parse(&request).flags, (1 << 26) - 1);
}

#[test]
fn entries_that_were_taken_are_counted() {
    let layout = layout(Way::Recv, (2, 16, 5), 32 + 80, |_| false).unwrap();
    let mut entries = Entries::new(&layout);
    assert_eq!(entries.take(Way::Recv, 2), Ok(0));
    assert_eq!(entries.take(Way::Recv, 3), Ok(2));
    assert_eq!(entries.taken(), 5);
    assert_eq!(entries.take(Way::Recv, 1), Err(Refusal::Invalid));
    assert_eq!(entries.taken(), 5);
}

proptest! {
    /// Parts lie within what there is, whatever the numbers.
    #[test]
    fn nothing_is_beyond_the_end(count: u32, size: u32, entries: u32, room in 0_usize..1 << 18, small: bool, send: bool,
                                 takes in prop::collection::vec(any::<u32>(), 0..8)) {
        let of = if small { (count % 64, size % 256, entries % 64) } else { (count, size, entries) };
        let way = if send { Way::Send } else { Way::Recv };
        if let Ok(layout) = layout(way, of, room, |_| true) {
            prop_assert_eq!(layout.requests as u64, u64::from(of.0) * u64::from(of.1));
            prop_assert_eq!(layout.end as u64, layout.requests as u64 + u64::from(of.2) * SGE as u64);
            prop_assert!(layout.end <= room);
            let mut entries = Entries::new(&layout);
            for count in takes {
                let count = if small { count % 32 } else { count };
                if let Ok(first) = entries.take(way, count) {
                    prop_assert!(u64::from(first) + u64::from(count) <= u64::from(layout.entries));
                }
            }
        }
    }
}
