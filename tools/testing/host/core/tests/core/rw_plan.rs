// SPDX-License-Identifier: GPL-2.0

//! `rw_plan` and `cq_pool`: every byte once and in order, and room for all.

use rdma_core_engines::proto::cq_pool;
use rdma_core_engines::proto::rw_plan::covered;
use rdma_core_engines::proto::rw_plan::next_key;
use rdma_core_engines::proto::rw_plan::runs;
use rdma_core_engines::proto::rw_plan::segments;
use rdma_core_engines::proto::rw_plan::skip;
use rdma_core_engines::proto::rw_plan::Direction;
use rdma_core_engines::proto::rw_plan::Port;
use rdma_core_engines::rng::Rng;

fn any_port(rng: &mut Rng) -> Port {
    Port {
        iwarp: rng.one_in(3),
        force: rng.one_in(5),
        max_sgl_rd: rng.pick(&[0, 0, 1, 8, 32]),
        max_sge_rd: rng.pick(&[0, 1, 4, 30]),
        max_pages: rng.pick(&[0, 1, 16, 256, 512, u32::MAX]),
        max_pi_pages: rng.pick(&[0, 8, 128]),
        max_wr: rng.pick(&[1, 100, 16384, u32::MAX]),
    }
}

#[test]
fn runs_are_a_partition() {
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let (pieces, each) = (rng.below(2_000) as u32, rng.below(300) as u32);
        let mut at = 0;
        let count = runs(pieces, each).len();
        assert_eq!(runs(pieces, each).count(), count);
        for run in runs(pieces, each) {
            assert_eq!(run.start, at);
            assert!(!run.is_empty() && run.len() as u32 <= each.max(1));
            at = run.end;
        }
        assert_eq!(at, pieces);
    }
    // At the edges of 32 bits.
    let last = runs(u32::MAX, 256).last().unwrap();
    assert_eq!(last, u32::MAX - 255..u32::MAX);
    assert_eq!(runs(u32::MAX, u32::MAX).len(), 1);
    assert_eq!(runs(0, 0).len(), 0);
}

#[test]
fn skipping() {
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let lens: Vec<u32> = (0..rng.below(8)).map(|_| rng.below(4) as u32).collect();
        let bytes: Vec<(u32, u32)> = lens
            .iter()
            .enumerate()
            .flat_map(|(at, len)| (0..*len).map(move |into| (at as u32, into)))
            .collect();
        for offset in 0..bytes.len() + 3 {
            let got = skip(lens.iter().copied(), offset as u32);
            assert_eq!(got, bytes.get(offset).copied(), "seed {seed}");
        }
    }
    assert_eq!(
        skip([u32::MAX, u32::MAX].into_iter(), u32::MAX),
        Some((1, 0))
    );
}

#[test]
fn segments_have_every_byte_once() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let lens: Vec<u32> = (0..rng.below(7)).map(|_| rng.below(5) as u32).collect();
        let first = rng.below(9) as u32;
        let done = rng.below(6) as u32;
        let size = rng.below(25) as u32;
        // The same byte by byte.
        let mut want: Vec<(usize, u32)> = Vec::new();
        for (at, len) in lens.iter().enumerate().skip(first as usize) {
            let from = if at == first as usize { done } else { 0 };
            want.extend((from..*len).map(|into| (at, into)));
        }
        let whole = want.len() >= size as usize;
        want.truncate(size as usize);
        let got: Vec<_> = segments(&lens, first, done, size, |len| *len).collect();
        let bytes: Vec<(usize, u32)> = got
            .iter()
            .flat_map(|s| (0..s.len).map(move |i| (s.entry, s.offset + i)))
            .collect();
        assert_eq!(bytes, want, "seed {seed}");
        assert!(got.iter().all(|segment| segment.len != 0));
        let counted = covered(got.iter().copied(), size);
        assert_eq!(counted, whole.then_some(got.len() as u32), "seed {seed}");
    }
}

#[test]
fn queues_have_room_for_what_is_planned() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let port = any_port(&mut rng);
        let pages = rng.below(3_000) as u32;
        let integrity = rng.one_in(3);
        let each = port.region_pages(integrity);
        assert!((1..=256).contains(&each));
        for direction in [Direction::Read, Direction::Write] {
            let registers = port.registers(direction, pages);
            // There are regions wherever there may be a use for them.
            assert!(!registers || port.may_register());
            assert!(!port.must_register() || port.may_register());
            if port.registers_pages(direction) {
                assert!(port.must_register() && registers);
            }
        }
        // So many contexts carry so many pages.
        let parts = port.factor(pages);
        let carried = if port.may_register() {
            port.region_pages(false)
        } else {
            port.max_sge_rd.max(1)
        };
        assert!(u64::from(parts) * u64::from(carried) >= u64::from(pages));

        let transfers = rng.pick(&[0, 1, 128, 100_000, u32::MAX]);
        let regions = port.regions(transfers, integrity);
        let needed = port.max_requests(transfers, integrity);
        assert!(regions.plain == 0 || regions.plain == transfers);
        assert_eq!(regions.signed, if integrity { transfers } else { 0 });
        let requests = if regions.plain > 0 { 3 } else { 1 };
        assert!(transfers == 0 || needed == transfers.saturating_mul(requests));
        let size = port.queue_size(50, transfers, integrity);
        assert!(size <= port.max_wr);
        assert_eq!(size, needed.saturating_add(50).min(port.max_wr));
    }
}

#[test]
fn keys_go_round_in_their_byte() {
    let mut key = 0x1234_56fe;
    let seen: Vec<u32> = (0..3)
        .map(|_| {
            key = next_key(key);
            key
        })
        .collect();
    assert_eq!(seen, [0x1234_56ff, 0x1234_5600, 0x1234_5601]);
    assert_eq!(next_key(u32::MAX), 0xffff_ff00);
}

#[test]
fn shared_queues() {
    assert_eq!(cq_pool::vectors(0, 8), 1);
    assert_eq!(cq_pool::vectors(4, 2), 2);
    assert_eq!(cq_pool::size(10, 100_000), Some(4096));
    assert_eq!(cq_pool::size(10, 100), Some(100));
    assert_eq!(cq_pool::size(5_000, 100_000), Some(5_000));
    assert_eq!(cq_pool::size(100, 100), Some(100));
    assert_eq!(cq_pool::size(101, 100), None);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let vectors = 1 + rng.below(5) as u32;
        let mut last = rng.below(5) as u32;
        let mut served = vec![0; vectors as usize];
        for _ in 0..vectors * 3 {
            let (vector, next) = cq_pool::choose(-1, last, vectors);
            served[vector as usize] += 1;
            last = next;
        }
        // All alike.
        assert!(served.iter().all(|count| *count == 3), "seed {seed}");
        let hint = rng.below(100) as i32;
        assert_eq!(
            cq_pool::choose(hint, last, vectors),
            (hint as u32 % vectors, last)
        );

        // Claims of one queue never go over its size, and a claim fails only if it would.
        let size = 1 + rng.below(1_000) as u32;
        let mut used = 0;
        let mut claims = Vec::new();
        for _ in 0..50 {
            let wanted = rng.below(400) as u32;
            match cq_pool::claim(used, wanted, size) {
                Some(sum) => {
                    assert!(sum <= size);
                    used = sum;
                    claims.push(wanted);
                }
                None => assert!(used + wanted > size),
            }
            if rng.one_in(3) {
                if let Some(claimed) = claims.pop() {
                    used -= claimed;
                }
            }
        }
        assert_eq!(used, claims.iter().sum::<u32>());
    }
    assert_eq!(cq_pool::claim(u32::MAX, 1, u32::MAX), None);
}
