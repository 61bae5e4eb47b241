// SPDX-License-Identifier: GPL-2.0

//! `pkey`, `port_cache`, `rates` and `page_size`: values, and brute force where
//! there is a rule behind them.

use rdma_core_engines::proto::errno::Errno;
use rdma_core_engines::proto::page_size;
use rdma_core_engines::proto::page_size::Segment;
use rdma_core_engines::proto::pkey;
use rdma_core_engines::proto::pkey::Limited;
use rdma_core_engines::proto::pkey::Pkey;
use rdma_core_engines::proto::port_cache::PortCache;
use rdma_core_engines::proto::port_cache::PortEvent;
use rdma_core_engines::proto::port_cache::PortState;
use rdma_core_engines::proto::port_cache::Refresh;
use rdma_core_engines::proto::rates;
use rdma_core_engines::proto::rates::Speed;
use rdma_core_engines::proto::rates::Width;
use rdma_core_engines::rng::Rng;

#[test]
fn partition_membership() {
    let (full, limited) = (Pkey(0x8001), Pkey(0x0001));
    assert!(full.matches(full) && full.matches(limited) && limited.matches(full));
    assert!(!limited.matches(limited));
    assert!(!full.matches(Pkey(0x8002)));
    assert!(!Pkey(0x8000).matches(Pkey(0x8000)), "no partition at all");
    assert!(Pkey::DEFAULT.is_full());
}

#[test]
fn partition_lookup() {
    let table = [0x7fff, 0x0002, 0xffff, 0x0002, 0x8003].map(Pkey);
    let both = |key| [Limited::First, Limited::Last].map(|l| pkey::find(&table, Pkey(key), l));
    assert_eq!(both(0x7fff), [Ok(2), Ok(2)], "a full member goes first");
    assert_eq!(both(0x0002), [Ok(1), Ok(3)]);
    assert_eq!(
        both(0x8002),
        [Ok(1), Ok(3)],
        "the membership asked for is not looked at"
    );
    assert_eq!(both(0x0003), [Ok(4), Ok(4)]);
    let none = Err(pkey::Refusal::NotFound);
    assert_eq!(both(0x0004), [none, none]);
    assert_eq!(pkey::Refusal::NotFound.errno(), Errno::Enoent);
    assert_eq!(pkey::get(&table, 4), Ok(Pkey(0x8003)));
    for outside in [-1, 5, i32::MAX, i32::MIN] {
        assert_eq!(pkey::get(&table, outside), Err(pkey::Refusal::NoSuchIndex));
    }
    // A table with more entries than indices ends at the last index.
    let long = vec![Pkey(1); 70_000];
    assert_eq!(pkey::find(&long, Pkey(1), Limited::Last), Ok(u16::MAX));
}

#[test]
fn events_and_copies() {
    let known: Vec<u32> = (0..64)
        .filter(|e| PortEvent::from_raw(*e).is_some())
        .collect();
    assert_eq!(known, [9, 10, 11, 12, 17, 18]);
    let gid = PortEvent::GidChange.refresh();
    assert!(gid.gids && !gid.pkeys && gid.security && !gid.tell_clients);
    let pkey = PortEvent::PkeyChange.refresh();
    assert!(!pkey.gids && pkey.pkeys && pkey.security && pkey.tell_clients);
    let again = PortEvent::ClientReregister.refresh();
    assert!(again.gids && !again.pkeys && !again.security && again.tell_clients);

    let first = Refresh::REGISTRATION;
    assert!(first.gids && first.pkeys && first.security && !first.tell_clients);

    let mut cache = PortCache::default();
    let now = |state| PortCache {
        lmc: 1,
        state: PortState(state),
        subnet_prefix: 0xfe80 << 48,
    };
    assert_eq!(cache.update(now(1)), None, "the first is no news");
    assert_eq!(cache.update(now(4)), Some(PortState::ACTIVE));
    assert_eq!(cache.update(now(4)), None);
    assert_eq!(cache, now(4));
    assert_eq!(PortState(1).name(), "DOWN");
    assert_eq!(PortState(77).name(), "UNKNOWN");
}

#[test]
fn rates_there_and_back() {
    for raw in 0..64 {
        match rates::mult(raw) {
            Some(mult) => {
                assert_eq!(rates::from_mult(mult), raw);
                // Multiples are the speed in units of 2.5 Gb/s, of the rounded names.
                let mbps = rates::mbps(raw).unwrap();
                assert!(mbps.abs_diff(mult * 2_500) * 10 <= mbps, "{raw}");
            }
            None => assert_eq!(rates::mbps(raw), None),
        }
    }
    assert_eq!(rates::from_mult(3), rates::PORT_CURRENT);
    assert_eq!(rates::mbps(3), Some(10_000));
    // By number, from 2 on; there is no 24.
    let mults = [
        1, 4, 12, 2, 8, 16, 24, 32, 48, 6, 22, 45, 67, 10, 40, 80, 120, 11, 20, 160, 240, 320,
    ];
    for (raw, mult) in (2..).zip(mults) {
        assert_eq!(rates::mult(raw), Some(mult), "{raw}");
    }
    assert_eq!(rates::mult(25), Some(640));
}

#[test]
fn ethernet_speeds() {
    for (mbps, lanes, speed, width) in [
        (0, 0, Speed::Sdr, Width::X1),
        (1_000, 0, Speed::Sdr, Width::X1),
        (1_001, 0, Speed::Fdr10, Width::X1),
        (10_000, 0, Speed::Fdr10, Width::X1),
        (10_001, 0, Speed::Ddr, Width::X4),
        (20_000, 0, Speed::Ddr, Width::X4),
        (20_001, 0, Speed::Edr, Width::X1),
        (25_000, 0, Speed::Edr, Width::X1),
        (25_001, 0, Speed::Fdr10, Width::X4),
        (40_000, 0, Speed::Fdr10, Width::X4),
        (40_001, 0, Speed::Edr, Width::X2),
        (50_000, 0, Speed::Edr, Width::X2),
        (50_001, 0, Speed::Edr, Width::X4),
        (100_000, 0, Speed::Edr, Width::X4),
        (100_001, 0, Speed::Hdr, Width::X4),
        (200_000, 0, Speed::Hdr, Width::X4),
        (200_001, 0, Speed::Ndr, Width::X4),
        (u32::MAX, 0, Speed::Ndr, Width::X4),
        (100_000, 4, Speed::Edr, Width::X4),
        (100_000, 2, Speed::Hdr, Width::X2),
        (400_000, 8, Speed::Hdr, Width::X8),
        (300_000, 12, Speed::Edr, Width::X12),
        (400_000, 4, Speed::Ndr, Width::X4),
        (5_000, 1, Speed::Ddr, Width::X1),
        (14_000, 1, Speed::Fdr, Width::X1),
        (30_000, 3, Speed::Fdr10, Width::X1),
        (1_000, u32::MAX, Speed::Sdr, Width::X1),
    ] {
        assert_eq!(
            rates::of_ethernet(mbps, lanes),
            (speed, width),
            "{mbps} {lanes}"
        );
    }
    for width in [1, 2, 4, 8, 16].map(|raw| Width::from_raw(raw).unwrap()) {
        assert_eq!(Width::from_raw(width as u32), Some(width));
    }
    assert_eq!(Width::from_raw(3), None);
    let lanes = [1, 2, 4, 8, 16].map(|raw| Width::from_raw(raw).unwrap().lanes());
    assert_eq!(lanes, [1, 4, 8, 12, 2]);
}

/// Whether pages of a size can be laid over the bytes, each of which has a virtual
/// and a DMA address: tried out byte by byte.
fn fits(size: u64, bytes: &[(u64, u64)]) -> bool {
    let mut base = std::collections::BTreeMap::new();
    bytes.iter().all(|(va, dma)| {
        let start = dma.wrapping_sub(va % size);
        start % size == 0 && *base.entry(va / size).or_insert(start) == start
    })
}

#[test]
fn page_sizes_by_brute_force() {
    let mut sizes_seen = std::collections::BTreeSet::new();
    for seed in 0..30_000 {
        let mut rng = Rng::new(seed);
        let unit = 1 << rng.below(5);
        let mut next = 0x1000 + unit * rng.below(32) as u64;
        let mut segments = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let len = unit * (1 + rng.below(8)) as u64;
            segments.push(Segment { addr: next, len });
            next += len
                + unit
                    * if rng.one_in(2) {
                        0
                    } else {
                        rng.below(6) as u64
                    };
        }
        let offset = rng.below(segments[0].len as usize) as u64 * u64::from(rng.one_in(3));
        let total: u64 = segments.iter().map(|s| s.len).sum();
        let length = total - offset;
        let iova = match rng.below(3) {
            0 => segments[0].addr + offset,
            1 => 0x4000 + unit * rng.below(64) as u64,
            _ => rng.below(4096) as u64,
        };
        let sizes = rng.any() & 0x7fff;
        let bytes: Vec<(u64, u64)> = segments
            .iter()
            .flat_map(|s| s.addr..s.addr + s.len)
            .skip(offset as usize)
            .enumerate()
            .map(|(i, dma)| (iova + i as u64, dma))
            .collect();
        // No larger than the smallest size of which one page takes in all.
        let known = (0..15).map(|b| 1_u64 << b).filter(|s| sizes & s != 0);
        let covers = |s: &u64| *s > 1 && iova / s == (iova + length - 1) / s;
        let limit = known.clone().find(covers).unwrap_or(u64::MAX);
        let want = known.filter(|s| *s <= limit && fits(*s, &bytes)).max();
        let got = page_size::best(sizes, iova, length, offset, segments.iter().copied());
        assert_eq!(
            got, want,
            "seed {seed}: {sizes:#x} {iova:#x} {offset} {segments:x?}"
        );
        sizes_seen.extend(got);
    }
    assert!(sizes_seen.len() > 10, "{sizes_seen:?}");
}

#[test]
fn page_sizes_at_the_edges() {
    let one = |addr, len| [Segment { addr, len }].into_iter();
    let all = u64::MAX;
    assert_eq!(page_size::best(all, 0, 0, 0, one(0, 0)), None);
    assert_eq!(page_size::best(0, 0, 1, 0, one(0, 4096)), None);
    assert_eq!(page_size::best(all, u64::MAX, 2, 0, one(0, 4096)), None);
    assert_eq!(
        page_size::best(all, 0, u64::MAX, 0, one(0, u64::MAX)),
        Some(1 << 63)
    );
    assert_eq!(
        page_size::best(
            1 << 12 | 1 << 21,
            1 << 30,
            1 << 22,
            0,
            one(1 << 31, 1 << 22)
        ),
        Some(1 << 21)
    );
    assert_eq!(
        page_size::best(
            1 << 12 | 1 << 21,
            1 << 30 | 1 << 12,
            1 << 22,
            0,
            one(1 << 31, 1 << 22)
        ),
        Some(1 << 12)
    );
    assert_eq!(page_size::pages(0xfff, 2, 0x1000), Some(2));
    assert_eq!(page_size::pages(0x1000, 0x1000, 0x1000), Some(1));
    assert_eq!(page_size::pages(0x1000, 0, 0x1000), Some(0));
    assert_eq!(page_size::pages(u64::MAX, 1, 0x1000), None);
    assert_eq!(page_size::pages(0, 1, 3), None);
}
