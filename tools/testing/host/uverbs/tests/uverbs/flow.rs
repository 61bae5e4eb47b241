// SPDX-License-Identifier: GPL-2.0

//! Rules of flows.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::flow::*;
use rdma_uverbs_engines::proto::Refusal;

fn header(kind: u32, size: u16, specs: u8, reserved: [u8; 2], flags: u32) -> Header {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&kind.to_ne_bytes());
    bytes[4..6].copy_from_slice(&size.to_ne_bytes());
    bytes[8] = specs;
    bytes[9..11].copy_from_slice(&reserved);
    bytes[12..].copy_from_slice(&flags.to_ne_bytes());
    Header::parse(bytes)
}

fn of(specs: u8) -> Header {
    header(0, 0, specs, [0; 2], 0)
}

fn spec(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + SPEC_HEADER).unwrap();
    let mut all = kind.to_ne_bytes().to_vec();
    all.extend(size.to_ne_bytes());
    all.extend([0, 0]);
    all.extend(body);
    all
}

fn only(bytes: &[u8]) -> Result<Option<Spec<'_>>, Refusal> {
    Specs::new(&of(1), bytes).next()
}

#[test]
fn headers() {
    for (kind, size, specs, reserved, flags, good) in [
        (0, 0, 0, [0, 0], 0, true),
        (0, 880, 10, [0, 0], 7, true),
        (0, 881, 10, [0, 0], 0, false),
        (0, 0, 11, [0, 0], 0, false),
        (0, 1, 0, [0, 0], 0, false),
        (0, 0, 0, [1, 0], 0, false),
        (0, 0, 0, [0, 1], 0, false),
        (0, 0, 0, [0, 0], 8, false),
        (1, 0, 0, [0, 0], 2, false),
        (2, 0, 0, [0, 0], 2, false),
        (2, 0, 0, [0, 0], 4, true),
        (3, 0, 0, [0, 0], 2, true),
    ] {
        let header = header(kind, size, specs, reserved, flags);
        assert_eq!(header.check().is_ok(), good, "{header:?}");
    }
}

#[test]
fn actions() {
    let number = [7, 0, 0, 0, 9, 9, 9, 9];
    let seven = u32::from_ne_bytes([7, 0, 0, 0]);
    assert_eq!(only(&spec(0x1000, &number)), Ok(Some(Spec::Tag(seven))));
    assert_eq!(only(&spec(0x1001, &[])), Ok(Some(Spec::Drop)));
    assert_eq!(only(&spec(0x1002, &number)), Ok(Some(Spec::Action(seven))));
    assert_eq!(only(&spec(0x1003, &number)), Ok(Some(Spec::Count(seven))));
    for kind in [0x1000, 0x1001, 0x1003, 0x1004, u32::MAX] {
        assert_eq!(only(&spec(kind, &number[..4])), Err(Refusal::Invalid));
    }
    assert_eq!(
        only(&spec(0x1002, &number[..4])),
        Err(Refusal::NotSupported)
    );
    // A reserved field comes first.
    let mut reserved = spec(0x1002, &number[..4]);
    reserved[6] = 1;
    assert_eq!(only(&reserved), Err(Refusal::Invalid));
}

#[test]
fn filters_may_be_shorter_or_longer_than_what_is_known() {
    for (kind, layer, size) in [
        (0x20, Layer::Eth, 16),
        (0x30, Layer::Ipv4, 12),
        (0x31, Layer::Ipv6, 39),
        (0x34, Layer::Esp, 8),
        (0x40, Layer::Tcp, 4),
        (0x41, Layer::Udp, 4),
        (0x50, Layer::Vxlan, 4),
        (0x51, Layer::Gre, 8),
        (0x60, Layer::Mpls, 4),
    ] {
        assert_eq!(layer.size(), size);
        for len in 0..60 {
            for inner in [0, 0x100] {
                let bytes = spec(kind | inner, &vec![0; len * 2]);
                let good = len > 0 && len % 4 == 0 && (inner == 0 || layer != Layer::Vxlan);
                match only(&bytes) {
                    Ok(Some(Spec::Filter {
                        value,
                        mask,
                        layer: found,
                        inner: is_inner,
                        ..
                    })) => {
                        assert!(good);
                        assert_eq!((found, is_inner), (layer, inner != 0));
                        assert_eq!((value.len(), mask.len()), (len.min(size), len.min(size)));
                    }
                    other => assert!(
                        !good && other == Err(Refusal::Invalid),
                        "{layer:?} {len} {other:?}"
                    ),
                }
            }
        }
        // Unknown bits of the mask; those of the value do not matter.
        let len = size.next_multiple_of(4) + 4;
        let mut body = vec![0; len * 2];
        body[len - 1] = 1;
        assert!(only(&spec(kind, &body)).is_ok());
        body[len * 2 - 1] = 1;
        assert_eq!(only(&spec(kind, &body)), Err(Refusal::Invalid));
    }
    assert_eq!(only(&spec(0x22, &[0; 8])), Err(Refusal::Invalid));
}

#[test]
fn numbers_of_less_than_32_bits() {
    let body = |len: usize, at: usize, number: u32| {
        let mut body = vec![0; len];
        body[at..at + 4].copy_from_slice(&number.to_be_bytes());
        body
    };
    for (kind, len, at, bits) in [
        (0x31, 80, 32, 20),
        (0x31, 80, 72, 20),
        (0x50, 8, 0, 24),
        (0x50, 8, 4, 24),
    ] {
        assert!(only(&spec(kind, &body(len, at, (1 << bits) - 1))).is_ok());
        assert_eq!(
            only(&spec(kind, &body(len, at, 1 << bits))),
            Err(Refusal::Invalid)
        );
    }
    // One that the filter is too short for is 0.
    assert!(only(&spec(0x31, &[0xff; 64])).is_ok());
}

#[test]
fn all_bytes_and_all_specifications_are_used() {
    let two: Vec<u8> = [spec(0x1001, &[]), spec(0x40, &[1; 8])].concat();
    let mut specs = Specs::new(&of(2), &two);
    assert_eq!(specs.next(), Ok(Some(Spec::Drop)));
    assert!(matches!(specs.next(), Ok(Some(Spec::Filter { .. }))));
    assert_eq!(specs.next(), Ok(None));
    let mut fewer = Specs::new(&of(1), &two);
    assert_eq!(
        (fewer.next(), fewer.next()),
        (Ok(Some(Spec::Drop)), Err(Refusal::Invalid))
    );
    let mut more = Specs::new(&of(3), &two);
    assert!(more.next().is_ok() && more.next().is_ok());
    assert_eq!(more.next(), Err(Refusal::Invalid));
    for cut in 1..two.len() {
        let mut specs = Specs::new(&of(2), &two[..two.len() - cut]);
        let results = [specs.next(), specs.next(), specs.next()];
        assert!(results.contains(&Err(Refusal::Invalid)), "{cut}");
    }
}

proptest! {
    /// Whatever bytes there are, it ends, and what it gives lies within them.
    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), count: u8, kinds in prop::collection::vec(0_usize..15, 4)) {
        let all = [0x20, 0x30, 0x31, 0x34, 0x40, 0x41, 0x50, 0x51, 0x60, 0x120, 0x1000, 0x1001, 0x1002, 0x1003, 0x22_u32];
        let mut bytes = bytes;
        // Known types, reserved fields of 0 and short lengths reach further.
        let mut at = 0;
        for kind in kinds {
            let Some(header) = bytes.get_mut(at..at + 8) else { break };
            header[..4].copy_from_slice(&all[kind].to_ne_bytes());
            let size = u16::from(header[4] % 64);
            header[4..6].copy_from_slice(&size.to_ne_bytes());
            header[6..8].fill(0);
            at += usize::from(size).max(1);
        }
        let mut specs = Specs::new(&of(count), &bytes);
        let mut given = 0_u32;
        while let Ok(Some(spec)) = specs.next() {
            given += 1;
            if let Spec::Filter { layer, value, mask, .. } = spec {
                prop_assert!(value.len() == mask.len() && value.len() <= layer.size());
            }
        }
        prop_assert!(given <= u32::from(count));
    }
}
