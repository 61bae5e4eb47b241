// SPDX-License-Identifier: GPL-2.0

//! Quick calls: each is one that the usual way carries out, with the same meaning.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::ioctl;
use rdma_uverbs_engines::proto::key::Bit;
use rdma_uverbs_engines::proto::post;
use rdma_uverbs_engines::proto::quick::*;
use rdma_uverbs_engines::proto::spec::{Bytes, Choices, Kind, Spec};
use rdma_uverbs_engines::proto::write;

fn word(low: u32, high: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&low.to_ne_bytes());
    bytes[4..].copy_from_slice(&high.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn head(a: u16, b: u16, c: u16, d: u16) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.chunks_exact_mut(2).zip([a, b, c, d]) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    u64::from_ne_bytes(bytes)
}

fn header(command: u32, words: u16, room: u16) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&command.to_ne_bytes());
    bytes[4..6].copy_from_slice(&words.to_ne_bytes());
    bytes[6..].copy_from_slice(&room.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn doorbell() -> [u64; RING] {
    [header(28, 8, 1), 0x7f00_1234, word(5, 0), word(0, 128)]
}

#[test]
fn the_doorbell_of_a_library() {
    let expected = Ring {
        qp: 5,
        answer: 0x7f00_1234,
    };
    assert_eq!(Ring::written(&doorbell()), Some(expected));
    // The size of a request that is not there must be one that is known.
    let [a, b, c, _] = doorbell();
    assert!(Ring::written(&[a, b, c, word(0, 56)]).is_some());
    assert_eq!(Ring::written(&[a, b, c, word(0, 55)]), None);
}

#[test]
fn no_other_command_is_a_doorbell() {
    let [_, b, c, d] = doorbell();
    for first in [
        header(27, 8, 1),
        header(29, 8, 1),
        header(0x8000_001c, 8, 1),
        header(0x11c, 8, 1),
        header(28, 7, 1),
        header(28, 9, 1),
        header(28, 8, 0),
        header(28, 8, 2),
    ] {
        assert_eq!(Ring::written(&[first, b, c, d]), None);
    }
    let [a, b, _, d] = doorbell();
    assert_eq!(Ring::written(&[a, b, word(5, 1), d]), None);
    let [a, b, c, _] = doorbell();
    assert_eq!(Ring::written(&[a, b, c, word(1, 128)]), None);
}

#[test]
fn a_request_for_an_event_that_is_written() {
    let notify = |cq, solicited| Some(Notify { cq, solicited });
    let call = |first, second| Notify::written(&[first, second]);
    assert_eq!(call(header(23, 4, 0), word(9, 0)), notify(9, false));
    assert_eq!(call(header(23, 4, 0), word(9, 2)), notify(9, true));
    for other in [
        header(22, 4, 0),
        header(23, 3, 0),
        header(23, 5, 0),
        header(23, 4, 1),
        header(0x8000_0017, 4, 0),
    ] {
        assert_eq!(call(other, word(9, 0)), None);
    }
}

fn attributes() -> [u64; ATTRIBUTES] {
    [
        head(WRITE_CMD, 8, 0, 0),
        23,
        head(CORE_IN, 8, 1, 0),
        word(9, 1),
    ]
}

#[test]
fn a_request_for_an_event_by_ioctl() {
    let expected = Notify {
        cq: 9,
        solicited: true,
    };
    assert_eq!(Notify::invoked(&attributes()), Some(expected));
    let [a, b, c, d] = attributes();
    // Flags do not matter.
    assert!(Notify::invoked(&[head(WRITE_CMD, 8, 0xffff, 0), b, c, d]).is_some());
    for other in [
        head(1, 8, 0, 0),
        head(WRITE_CMD, 7, 0, 0),
        head(WRITE_CMD, 8, 0, 1),
        head(WRITE_CMD, 8, 0, 0x100),
    ] {
        assert_eq!(Notify::invoked(&[other, b, c, d]), None);
        assert_eq!(Notify::invoked(&[a, b, other, d]), None);
    }
    assert_eq!(Notify::invoked(&[a, 22, c, d]), None);
    assert_eq!(Notify::invoked(&[a, 23 | 1 << 32, c, d]), None);
    // In this order only.
    assert_eq!(Notify::invoked(&[c, d, a, b]), None);
}

#[test]
fn the_header_of_such_an_ioctl() {
    let good = [head(56, 0, 0, 2), 0, word(3, 0)];
    assert!(Notify::has_header(&ioctl::Header::parse(good)));
    assert_eq!(ioctl::Header::parse(good).check(4096), Ok(()));
    for (first, second, third) in [
        (head(40, 0, 0, 1), 0, 3),
        (head(57, 0, 0, 2), 0, 3),
        (head(56, 1, 0, 2), 0, 3),
        (head(56, 0, 1, 2), 0, 3),
        (head(56, 0, 0, 3), 0, 3),
        (head(56, 0, 0, 2), 1, 3),
        (head(56, 0, 0, 2), 0, word(3, 1)),
    ] {
        let header = ioctl::Header::parse([first, second, third]);
        assert!(!Notify::has_header(&header));
    }
}

#[derive(Clone, Copy)]
struct NoChoices;

impl Choices for NoChoices {
    fn known(&self, _: u8) -> bool {
        false
    }

    fn get(&self, _: u8) -> Option<Bytes> {
        None
    }
}

/// A word of `good`, or one with a few bits changed, or any.
fn near(good: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => Just(good),
        3 => (0..64_u32).prop_map(move |bit| good ^ 1 << bit),
        1 => any::<u64>(),
    ]
}

proptest! {
    #[test]
    fn a_doorbell_is_a_command_without_requests(
        a in near(doorbell()[0]), b in any::<u64>(), c in near(doorbell()[2]), d in near(doorbell()[3])
    ) {
        const POST: write::Command = write::Command {
            is_extended: false,
            request: 24,
            response: 4,
            has_response: true,
            has_udata: false,
        };
        let header = write::Header::parse(a.to_ne_bytes());
        let [low, high] = [c, d].map(|word| {
            let bytes = word.to_ne_bytes();
            let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            (half(0), half(4))
        });
        let usual = header.number() == Ok(write::Number::Plain(POST_SEND))
            && write::plain(&header, 32, &POST)
                .is_ok_and(|layout| layout.core_in.len == 24 && layout.core_out.len == 4)
            && (low.1, high.0) == (0, 0)
            && post::layout(post::Way::Send, (low.1, high.1, high.0), 0, |_| false).is_ok();
        let quick = Ring::written(&[a, b, c, d]);
        prop_assert_eq!(quick.is_some(), usual);
        if let Some(ring) = quick {
            prop_assert_eq!(ring, Ring { qp: low.0, answer: b });
        }
    }

    #[test]
    fn an_ioctl_is_one_that_is_accepted(
        a in near(attributes()[0]), b in near(attributes()[1]),
        c in near(attributes()[2]), d in any::<u64>()
    ) {
        let Some(notify) = Notify::invoked(&[a, b, c, d]) else {
            return Ok(());
        };
        let eight = Bytes { min: 4, len: 8, zero_trailing: false, alloc_and_copy: false };
        let spec: Spec<NoChoices> = Spec { kind: Kind::In(eight), mandatory: false, is_udata: false };
        let mut call = ioctl::Call::new();
        for (first, second, id) in [(a, b, WRITE_CMD), (c, d, CORE_IN)] {
            let mut bytes = [0; ioctl::ATTRIBUTE];
            bytes[..8].copy_from_slice(&first.to_ne_bytes());
            bytes[8..].copy_from_slice(&second.to_ne_bytes());
            let attribute = ioctl::Attribute::parse(bytes);
            prop_assert_eq!(attribute.id, id);
            prop_assert!(attribute.is_inline());
            let bit = Bit::of_attribute(id).unwrap();
            let step = call.judge(&attribute, |_| Some(&spec), |_, _| false);
            prop_assert_eq!(step, Ok(ioctl::Step::Bytes { bit, choice: None, copy: false }));
            call.note(bit);
        }
        let (cq, solicited) = (d.to_ne_bytes(), d >> 32);
        if cfg!(target_endian = "little") {
            prop_assert_eq!(notify.solicited, solicited != 0);
        }
        prop_assert_eq!(notify.cq, u32::from_ne_bytes(cq[..4].try_into().unwrap()));
    }
}
