// SPDX-License-Identifier: GPL-2.0

//! `sa::wire`: fields at any bit against a string of bits, and records that come in parts.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::sa::wire::Cursor;
use rdma_core_engines::proto::sa::wire::Parts;
use rdma_core_engines::proto::sa::wire::Record;
use rdma_core_engines::rng::Rng;

/// A number, a hole, bytes and a number again, of any width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Odd {
    first: (u32, u64),
    hole: u32,
    gid: Gid,
    last: (u32, u64),
}

impl Record for Odd {
    const LEN: usize = 64;

    fn walk(&mut self, at: &mut impl Cursor) {
        at.number(self.first.0, &mut self.first.1);
        at.reserved(self.hole);
        at.gid(&mut self.gid);
        at.number(self.last.0, &mut self.last.1);
    }
}

/// The lower bits of a number.
fn bits(width: u32, value: u64) -> Vec<bool> {
    (0..width).rev().map(|k| value >> k & 1 != 0).collect()
}

fn low(width: u32, value: u64) -> u64 {
    bits(width, value)
        .iter()
        .fold(0, |sum, bit| sum << 1 | u64::from(*bit))
}

#[test]
fn fields_lie_one_behind_the_other() {
    let mut rng = Rng::new(5);
    for round in 0..20_000 {
        // All offsets of the bytes up to some of a GID, and then any.
        let first = if round < 65 {
            round
        } else {
            rng.below(65) as u32
        };
        let record = Odd {
            first: (first, rng.any()),
            hole: rng.below(3) as u32 * rng.below(9) as u32,
            gid: Gid(core::array::from_fn(|_| rng.any() as u8)),
            last: (rng.below(65) as u32, rng.any()),
        };
        let mut want = bits(record.first.0, record.first.1);
        want.extend(bits(record.hole, 0));
        want.extend(record.gid.0.iter().flat_map(|byte| bits(8, (*byte).into())));
        want.extend(bits(record.last.0, record.last.1));
        // Behind the record nothing is written, nor behind the end of the bytes.
        let before = [0x5a; 64];
        let end = if rng.one_in(3) { rng.below(40) } else { 64 };
        let mut packed = before;
        record.pack(&mut packed[..end]);
        for (at, byte) in packed.iter().enumerate() {
            for bit in 0..8 {
                let old = before[at] >> (7 - bit) & 1 != 0;
                let new = want.get(at * 8 + bit).copied().filter(|_| at < end);
                assert_eq!(
                    byte >> (7 - bit) & 1 != 0,
                    new.unwrap_or(old),
                    "{record:?} {at} {bit} {end}"
                );
            }
        }
        if end == 64 {
            let mut read = Odd {
                first: (record.first.0, 0),
                gid: Gid::default(),
                last: (record.last.0, 0),
                ..record
            };
            read.read(&packed);
            assert_eq!(read.first.1, low(record.first.0, record.first.1));
            assert_eq!(read.gid, record.gid);
            assert_eq!(read.last.1, low(record.last.0, record.last.1));
        }
    }
}

#[test]
fn records_come_in_parts() {
    let mut parts = Parts::<5>::new();
    let mut records = Vec::new();
    let bytes: Vec<u8> = (0..104).collect();
    for byte in &bytes {
        records.extend(parts.add(*byte).copied());
        // One is complete as soon as its last byte is there.
        assert_eq!(records.len(), (usize::from(*byte) + 1) / 5);
    }
    assert_eq!(records.as_flattened(), &bytes[..100]);
    assert_eq!(Parts::<1>::default().add(7), Some(&[7]));
    assert_eq!(Parts::<0>::new().add(7), None);
}
