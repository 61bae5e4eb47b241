// SPDX-License-Identifier: GPL-2.0

//! Scatter lists as pages.

use rdma_core_engines::proto::sg_pages::take;
use rdma_core_engines::proto::sg_pages::Entry;
use rdma_core_engines::proto::sg_pages::Refusal;
use rdma_core_engines::proto::sg_pages::Taken;
use rdma_core_engines::rng::Rng;

const PAGE: u32 = 4096;

/// Takes at most `room` pages; the result, and the pages.
fn run(list: &[(u64, u32)], offset: u32, room: usize) -> (Result<Taken, Refusal<i32>>, Vec<u64>) {
    let mut pages = Vec::new();
    let entries = list.iter().map(|&(addr, len)| Entry { addr, len });
    let taken = take(entries, offset, PAGE, |page| {
        if pages.len() == room {
            return Err(-12);
        }
        pages.push(page);
        Ok(())
    });
    (taken, pages)
}

fn taken(entries: usize, offset: u32, length: u64) -> Result<Taken, Refusal<i32>> {
    Ok(Taken {
        entries,
        offset,
        length,
    })
}

#[test]
fn whole_pages() {
    let (result, pages) = run(&[(0x10000, 8192), (0x40000, 4096)], 0, 9);
    assert_eq!(result, taken(2, 0, 12288));
    assert_eq!(pages, [0x10000, 0x11000, 0x40000]);
}

#[test]
fn first_and_last_may_be_parts() {
    let (result, pages) = run(&[(0x10100, 0xf00), (0x40000, 10)], 0, 9);
    assert_eq!(result, taken(2, 0, 0xf0a));
    assert_eq!(pages, [0x10000, 0x40000]);
    // By an offset as well.
    let (result, pages) = run(&[(0x10000, 0x1000), (0x40000, 10)], 0x100, 9);
    assert_eq!(result, taken(2, 0, 0xf0a));
    assert_eq!(pages, [0x10000, 0x40000]);
}

#[test]
fn gaps_end_it() {
    let (result, pages) = run(&[(0x10000, 100), (0x40000, 10)], 0, 9);
    assert_eq!(result, taken(1, 0, 100));
    assert_eq!(pages, [0x10000]);
    let (result, _) = run(&[(0x10000, 4096), (0x40010, 10)], 0, 9);
    assert_eq!(result, taken(1, 0, 4096));
}

#[test]
fn end_to_end_shares_a_page() {
    let (result, pages) = run(&[(0x10000, 100), (0x10064, 10), (0x1006e, 8000)], 0, 9);
    assert_eq!(result, taken(3, 0, 8110));
    assert_eq!(pages, [0x10000, 0x11000]);
}

#[test]
fn no_room() {
    assert_eq!(run(&[(0x10000, 4096)], 0, 0).0, Err(Refusal::Page(-12)));
    // Some of an entry: it says from where to go on.
    assert_eq!(run(&[(0x10000, 12288)], 0, 2).0, taken(0, 8192, 8192));
    assert_eq!(
        run(&[(0x10000, 4096), (0x20000, 8192)], 0, 2).0,
        taken(1, 4096, 8192)
    );
    assert_eq!(
        run(&[(0x10000, 4096), (0x20000, 8192)], 0, 1).0,
        taken(1, 0, 4096)
    );
    // The next page of an entry that continues the one before.
    assert_eq!(
        run(&[(0x10000, 100), (0x10064, 8192)], 0, 1).0,
        taken(1, 3996, 4096)
    );
}

#[test]
fn nonsense() {
    assert_eq!(run(&[], 0, 9).0, Err(Refusal::Invalid));
    assert_eq!(run(&[(0, 10)], 11, 9).0, Err(Refusal::Invalid));
    for size in [0, 3, 4097, u32::MAX] {
        let list = [Entry { addr: 0, len: 1 }];
        let result = take(list.into_iter(), 0, size, |_| Ok::<(), ()>(()));
        assert_eq!(result, Err(Refusal::Invalid));
    }
    // The end of all addresses.
    let (result, _) = run(&[(u64::MAX - 10, u32::MAX)], 0, 9);
    assert!(result.is_ok());
}

/// What is taken, in pieces with little room, is the list: every byte once, in order.
#[test]
fn pieces_add_up() {
    let mut rng = Rng::new(7);
    for _ in 0..2000 {
        let mut list = Vec::new();
        let mut addr = rng.below(1 << 20) as u64;
        for _ in 0..1 + rng.below(6) {
            let len = 1 + rng.below(20_000) as u32;
            list.push((addr, len));
            addr += u64::from(len);
            if rng.below(2) == 0 {
                addr = (addr + 0x10_0000) & !0xfff;
            }
        }
        let room = 1 + rng.below(4);
        let (mut from, mut offset) = (0, 0);
        let mut rounds = 0;
        while from < list.len() {
            let (result, pages) = run(&list[from..], offset, room);
            let Ok(got) = result else {
                panic!("{list:?} from {from} at {offset}: {result:?}");
            };
            let whole: u64 = list[from..from + got.entries]
                .iter()
                .map(|e| u64::from(e.1))
                .sum();
            assert_eq!(
                got.length,
                whole + u64::from(got.offset) - u64::from(offset)
            );
            assert!(got.length <= pages.len() as u64 * u64::from(PAGE));
            assert!(got.length > 0);
            from += got.entries;
            offset = got.offset;
            rounds += 1;
            assert!(rounds < 1000);
        }
        assert_eq!(offset, 0);
    }
}
