// SPDX-License-Identifier: GPL-2.0

//! Shared queues: the format, both ends, and a user who writes nonsense into them.

use crate::common::{rounds, Rng, Shared};
use rxe_mem::queue::layout::{self, Layout};
use rxe_mem::queue::ring::{Consumer, Producer, PushError};

fn entry(n: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(&n.to_ne_bytes());
    bytes
}

#[test]
fn the_format_is_the_uapi_header_s() {
    // struct rxe_queue_buf: two words, 30 of padding, index, 31, index, 31, data.
    assert_eq!(layout::LOG2_ELEM_SIZE, 0);
    assert_eq!(layout::INDEX_MASK, 4);
    assert_eq!(layout::PRODUCER_INDEX, 4 * (2 + 30));
    assert_eq!(layout::CONSUMER_INDEX, layout::PRODUCER_INDEX + 4 * 32);
    assert_eq!(layout::SLOTS, layout::CONSUMER_INDEX + 4 * 32);

    let l = Layout::new(100, 48).unwrap();
    let mem = Shared::new(&l);
    assert_eq!(u32::from_ne_bytes(mem.peek(0)), 6);
    assert_eq!(u32::from_ne_bytes(mem.peek(4)), 127);
}

#[test]
fn sizes_round_up_and_leave_a_slot_free() {
    for (entries, size, capacity, log2) in [
        (0, 1, 0, 6),
        (1, 64, 1, 6),
        (2, 65, 3, 7),
        (3, 208, 3, 8),
        (4, 720, 7, 10),
        (32767, 48, 32767, 6),
        (32768, 48, 65535, 6),
        (1 << 20, 720, (1 << 21) - 1, 10),
    ] {
        let l = Layout::new(entries, size).unwrap();
        assert_eq!(
            (l.capacity(), l.log2_slot()),
            (capacity, log2),
            "{entries} of {size}"
        );
        assert_eq!(l.size(), 384 + (l.slots() as usize) * (1 << log2));
        assert_eq!(l.slot(l.mask()), l.size() - (1 << log2));
        assert_eq!(l.slot(l.slots()), l.slot(0), "indices are masked");
    }
    for (entries, size) in [
        (1 << 21, 48),
        (u32::MAX, 48),
        (1, 0),
        (1, 1025),
        (1, usize::MAX),
    ] {
        assert_eq!(Layout::new(entries, size), None);
    }
}

#[test]
fn a_producer_fills_exactly_its_capacity() {
    let l = Layout::new(3, 64).unwrap();
    let mem = Shared::new(&l);
    let mut kernel = Producer::new(mem.clone(), l);
    for n in 0..3 {
        kernel.push(|e| e.write(0, &entry(n))).unwrap();
    }
    assert_eq!(kernel.push(|e| e.write(0, &entry(9))), Err(PushError::Full));
    assert_eq!(mem.consume::<4>(&l), Some(0u32.to_ne_bytes()));
    kernel.push(|e| e.write(0, &entry(3))).unwrap();
    for n in 1u32..4 {
        assert_eq!(mem.consume(&l), Some(n.to_ne_bytes()));
    }
    assert_eq!(mem.consume::<4>(&l), None);
}

#[test]
fn nothing_is_announced_that_does_not_fit_its_slot() {
    let l = Layout::new(3, 48).unwrap();
    let mem = Shared::new(&l);
    let mut kernel = Producer::new(mem.clone(), l);
    for (offset, len) in [(0, 49), (48, 1), (1, 48), (usize::MAX, 1), (49, 0)] {
        let result = kernel.push(|e| e.write(offset, &vec![0; len]));
        assert_eq!(result, Err(PushError::TooLong));
    }
    assert_eq!(mem.producer(), 0);
    kernel.push(|e| e.write(48, &[])).unwrap();
}

#[test]
fn a_consumer_takes_in_order_and_retires_later() {
    let l = Layout::new(3, 64).unwrap();
    let mem = Shared::new(&l);
    let mut kernel = Consumer::new(mem.clone(), l);
    assert!(kernel.peek().is_none());
    for n in 0..3 {
        mem.produce(&l, &entry(n));
    }
    for n in 0..3u32 {
        let mut got = [0; 4];
        kernel.peek().unwrap().read(0, &mut got).unwrap();
        assert_eq!(u32::from_ne_bytes(got), n);
        assert_eq!(kernel.take(), n);
    }
    assert!(kernel.peek().is_none());
    assert_eq!((kernel.in_work(), mem.consumer()), (3, 0));
    kernel.retire(1);
    assert_eq!((kernel.in_work(), mem.consumer()), (2, 1));
    // The user fills the slot that came back; it comes after those in work.
    mem.produce(&l, &entry(3));
    assert_eq!(kernel.waiting(), 1);
    kernel.retire(9);
    assert_eq!((kernel.in_work(), mem.consumer()), (0, 3));
}

#[test]
fn entries_are_read_within_their_bounds() {
    let l = Layout::new(1, 100).unwrap();
    let mem = Shared::new(&l);
    let kernel = Consumer::new(mem.clone(), l);
    mem.set_producer(1);
    let entry = kernel.peek().unwrap();
    assert!(entry.read(0, &mut [0; 100]).is_some());
    assert!(entry.read(100, &mut []).is_some());
    assert!(entry.read(0, &mut [0; 101]).is_none());
    assert!(entry.read(101, &mut []).is_none());
    assert!(entry.read(usize::MAX, &mut [0; 1]).is_none());
}

#[test]
fn reset_agrees_with_the_user_s_index() {
    let l = Layout::new(7, 64).unwrap();
    let mem = Shared::new(&l);
    let mut kernel = Consumer::new(mem.clone(), l);
    (0..5).for_each(|n| mem.produce(&l, &entry(n)));
    kernel.take();
    kernel.reset();
    assert_eq!(
        (kernel.waiting(), kernel.in_work(), mem.consumer()),
        (0, 0, 5)
    );
    mem.produce(&l, &entry(8));
    assert_eq!(kernel.waiting(), 1);
}

/// Whatever the user writes into the header, the kernel's end neither leaves the
/// memory (which would panic here) nor hands out more than a ring of entries, nor
/// shows a slot in work a second time.
#[test]
fn scribbled_indices_do_no_harm() {
    for seed in 0..rounds(2000) {
        let mut rng = Rng(seed);
        let l = Layout::new(u32::try_from(rng.below(20)).unwrap(), 64).unwrap();
        let mem = Shared::new(&l);
        let mut consumer = Consumer::new(mem.clone(), l);
        let other = Shared::new(&l);
        let mut producer = Producer::new(other.clone(), l);
        let mut working = std::collections::VecDeque::new();
        for _ in 0..100 {
            match rng.below(6) {
                0 => mem.set_producer(rng.u32()),
                1 => mem.poke(0, &rng.next().to_ne_bytes()),
                2 => mem.set_consumer(rng.u32()),
                3 => other.set_consumer(rng.u32()),
                4 => {
                    let _: Result<_, _> = producer.push(|e| e.write(0, &entry(1)));
                }
                _ => {
                    if consumer.peek().is_some() {
                        let slot = consumer.take();
                        assert!(!working.contains(&slot), "seed {seed}");
                        working.push_back(slot);
                    }
                }
            }
            assert!(
                consumer.waiting() + consumer.in_work() <= l.capacity(),
                "seed {seed}"
            );
            assert!(producer.used() <= l.capacity());
            assert_eq!(consumer.in_work() as usize, working.len());
            if rng.below(3) == 0 && working.pop_front().is_some() {
                consumer.retire(1);
            }
        }
    }
}

#[test]
fn resizing_keeps_every_entry_wherever_it_wraps() {
    for consumed in 0..16u32 {
        for live in 0..=7u32 {
            let old = Layout::new(7, 64).unwrap();
            let mem = Shared::new(&old);
            let mut kernel = Producer::new(mem.clone(), old);
            for _ in 0..consumed {
                kernel.push(|e| e.write(0, &entry(99))).unwrap();
                mem.consume::<4>(&old).unwrap();
            }
            for n in 0..live {
                kernel.push(|e| e.write(0, &entry(n))).unwrap();
            }
            let too_small = Layout::new(1, 64).unwrap();
            assert_eq!(
                kernel.move_to(Shared::new(&too_small), too_small).is_ok(),
                live <= 1,
            );
            if live <= 1 {
                continue;
            }
            let new = Layout::new(15, 64).unwrap();
            let fresh = Shared::new(&new);
            assert!(kernel.move_to(fresh.clone(), new).is_ok());
            kernel.push(|e| e.write(0, &entry(live))).unwrap();
            for n in 0..=live {
                assert_eq!(fresh.consume(&new), Some(n.to_ne_bytes()));
            }
            assert_eq!(fresh.consume::<4>(&new), None);
        }
    }
}

#[test]
fn a_consumer_s_resize_needs_rest() {
    let l = Layout::new(3, 64).unwrap();
    let mem = Shared::new(&l);
    let mut kernel = Consumer::new(mem.clone(), l);
    (0..3).for_each(|n| mem.produce(&l, &entry(n)));
    let new = Layout::new(7, 64).unwrap();
    kernel.take();
    assert!(kernel.move_to(Shared::new(&new), new).is_err());
    kernel.retire(1);
    let fresh = Shared::new(&new);
    assert!(kernel.move_to(fresh.clone(), new).is_ok());
    assert_eq!((kernel.waiting(), fresh.producer()), (2, 2));
    let mut got = [0; 4];
    kernel.peek().unwrap().read(0, &mut got).unwrap();
    assert_eq!(u32::from_ne_bytes(got), 1);
    // A kernel user goes on producing where the new ring stands.
    let mut ulp = Producer::resume(fresh, new);
    ulp.push(|e| e.write(0, &entry(7))).unwrap();
    assert_eq!(kernel.waiting(), 3);
}
