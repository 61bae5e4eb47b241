// SPDX-License-Identifier: GPL-2.0

//! Registered memory: page arithmetic against a plain model, copies, atomics, and
//! scatter-gather walks.

use crate::common::{rounds, Rng};
use rxe_mem::mem::edge::{AtomicOp, Filled, Part, Reach, Room};
use rxe_mem::mem::map::{self, Pieces, Shape};
use rxe_mem::mem::sge::{in_one_entry, Cursor, Piece, Sge, TooShort, Walk};
use std::mem::MaybeUninit;

/// A region of separately allocated blocks, and its contents as one vector.
struct Region {
    shift: u32,
    first: usize,
    len: usize,
    blocks: Vec<*mut u8>,
}

impl Region {
    fn new(shift: u32, first: usize, len: usize) -> Self {
        let count = (first + len).div_ceil(1 << shift);
        let block = || Box::into_raw(vec![0u64; (1 << shift) / 8].into_boxed_slice());
        Self {
            shift,
            first,
            len,
            blocks: (0..count).map(|_| block().cast::<u8>()).collect(),
        }
    }

    fn shape(&self) -> Shape {
        Shape::new(self.shift, self.first as u64, self.len as u64).unwrap()
    }

    fn addresses(&self) -> Vec<usize> {
        self.blocks.iter().map(|b| b.expose_provenance()).collect()
    }

    /// The address of a byte, computed by the letter.
    fn byte(&self, offset: usize) -> *mut u8 {
        let at = self.first + offset;
        self.blocks[at >> self.shift].wrapping_add(at & ((1 << self.shift) - 1))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        for block in &self.blocks {
            let words = (1usize << self.shift) / 8;
            let slice = std::ptr::slice_from_raw_parts_mut(block.cast::<u64>(), words);
            // SAFETY: Made by `Box::into_raw` with this length in `new`.
            drop(unsafe { Box::from_raw(slice) });
        }
    }
}

/// Every range; of those under Miri few.
const STEP: usize = if cfg!(miri) { 13 } else { 1 };

#[test]
fn every_range_is_found_byte_for_byte() {
    for (shift, first, len) in [(3, 0, 8), (3, 7, 40), (4, 5, 64), (5, 31, 1), (6, 10, 200)] {
        let region = Region::new(shift, first, len);
        let blocks = region.addresses();
        assert_eq!(region.shape().blocks(), blocks.len() as u64);
        for offset in (0..=len).step_by(STEP) {
            for count in (0..=len - offset).step_by(STEP) {
                let pieces = region.shape().walk(&blocks, offset as u64, count).unwrap();
                let mut at = offset;
                for piece in pieces {
                    for i in 0..piece.len {
                        let address = piece.at.as_ptr().wrapping_add(i);
                        assert_eq!(address.addr(), region.byte(at).addr());
                        at += 1;
                    }
                }
                assert_eq!(at, offset + count);
                // The short way is there exactly where one block has it all.
                let one = region.shape().in_one_block(offset as u64, count);
                let (start, size) = (first + offset, 1 << shift);
                let fits = start % size + count <= size;
                assert_eq!(one, fits.then_some((start / size, start % size)));
            }
            let beyond = len - offset + 1;
            assert_eq!(region.shape().in_one_block(offset as u64, beyond), None);
        }
        assert_eq!(region.shape().in_one_block(len as u64 + 1, 0), None);
    }
}

/// Blocks that are not in one list, but in several, which are asked for one after another.
#[test]
fn every_range_is_found_in_parts() {
    for (shift, first, len) in [(3, 0, 8), (3, 7, 40), (4, 5, 64), (5, 31, 1), (6, 10, 200)] {
        let region = Region::new(shift, first, len);
        let blocks = region.addresses();
        for part in 1..=blocks.len() + 1 {
            for offset in (0..len).step_by(STEP) {
                for count in (0..=len - offset).step_by(STEP) {
                    let end = first + offset + count;
                    let more = |left: usize| {
                        let block = (end - left) >> shift;
                        let stop = ((block / part + 1) * part).min(blocks.len());
                        &blocks[block..stop]
                    };
                    let from = (first + offset) as u64;
                    let pieces = Pieces::in_parts(&more, shift, from, count).unwrap();
                    let mut at = offset;
                    for piece in pieces {
                        assert!(piece.len > 0);
                        for i in 0..piece.len {
                            let address = piece.at.as_ptr().wrapping_add(i);
                            assert_eq!(address.addr(), region.byte(at).addr());
                            at += 1;
                        }
                    }
                    assert_eq!(at, offset + count);
                }
            }
        }
    }
}

#[test]
fn parts_that_are_missing_end_the_range() {
    let block = [8usize, 16];
    let more = |left: usize| if left > 4 { &block[..1] } else { &[] };
    let pieces = Pieces::in_parts(&more, 3, 6, 12).unwrap();
    let lens: Vec<usize> = pieces.map(|piece| piece.len).collect();
    assert_eq!(lens, [2, 8]);
    assert!(Pieces::in_parts(&more, 64, 0, 1).is_none());
}

#[test]
fn no_range_beyond_the_region_is_found() {
    let region = Region::new(4, 3, 50);
    let blocks = region.addresses();
    let shape = region.shape();
    for (offset, len) in [
        (0, 51),
        (50, 1),
        (51, 0),
        (49, 2),
        (u64::MAX, 1),
        (u64::MAX, 0),
        (1, usize::MAX),
        (u64::MAX - 3, 8),
    ] {
        assert!(shape.walk(&blocks, offset, len).is_none(), "{offset} {len}");
    }
    assert!(shape.walk(&blocks, 50, 0).is_some());
    // A list shorter than the shape says is never overrun.
    assert!(shape.walk(&blocks[..3], 0, 50).is_none());
    assert!(shape.walk(&[], 0, 1).is_none());
}

#[test]
fn impossible_shapes_are_refused() {
    for (shift, first, len) in [(32, 0, 1), (64, 0, 1), (12, 4096, 1), (12, 1, u64::MAX)] {
        assert_eq!(Shape::new(shift, first, len), None);
    }
    assert!(Shape::new(31, 0, u64::MAX).is_some());
    assert!(Shape::EMPTY.walk(&[], 0, 0).is_some());
    assert!(Shape::EMPTY.walk(&[1], 0, 1).is_none());
    assert!(Pieces::direct(&0, 1).is_none());
}

#[test]
fn copies_go_in_and_out() {
    let mut rng = Rng(1);
    for _ in 0..rounds(300) {
        let shift = 3 + u32::try_from(rng.below(5)).unwrap();
        let first = rng.below(1 << shift) as usize;
        let len = 1 + rng.below(300) as usize;
        let region = Region::new(shift, first, len);
        let blocks = region.addresses();
        let mut model = vec![0u8; len];
        for _ in 0..10 {
            let offset = rng.below(len as u64 + 1) as usize;
            let count = rng.below((len - offset) as u64 + 1) as usize;
            let mut data = vec![0; count];
            rng.fill(&mut data);
            let walk = || region.shape().walk(&blocks, offset as u64, count).unwrap();
            // SAFETY: The blocks are alive, and nobody else uses them; so in all of this.
            let reach = |pieces, writable| unsafe { Reach::new(pieces, writable) };
            assert_eq!(reach(walk(), true).write(&data), count);
            model[offset..offset + count].copy_from_slice(&data);
            let mut got = vec![0; len];
            let all = region.shape().walk(&blocks, 0, len).unwrap();
            assert!(reach(all, false).read(Room::of(&mut got)).is_some());
            assert_eq!(got, model);
            // What is not to be written stays as it is.
            if count != 0 {
                assert_eq!(reach(walk(), false).write(&data), 0);
            }
            assert_eq!(reach(walk(), false).rooms().count(), 0);
            let rooms = reach(walk(), true).rooms();
            assert_eq!(rooms.map(|room| room.len()).sum::<usize>(), count);
        }
    }
}

#[test]
fn atomics_are_eight_aligned_bytes() {
    let region = Region::new(4, 0, 64);
    let blocks = region.addresses();
    let walk = |offset, len| region.shape().walk(&blocks, offset, len).unwrap();
    // SAFETY: The blocks are alive, and nobody else uses them.
    let reach = |offset, len| unsafe { Reach::new(walk(offset, len), true) };
    let atomic = |offset, op| reach(offset, 8).atomic(op);
    assert_eq!(atomic(8, AtomicOp::FetchAdd { add: u64::MAX }), Some(0));
    assert_eq!(atomic(8, AtomicOp::FetchAdd { add: 2 }), Some(u64::MAX));
    let cas = |compare, swap| AtomicOp::CompareSwap { compare, swap };
    assert_eq!(atomic(8, cas(2, 9)), Some(1));
    assert_eq!(atomic(8, cas(1, 9)), Some(1));
    assert_eq!(atomic(8, cas(0, 0)), Some(9));
    for offset in [1, 4, 7, 12] {
        assert_eq!(atomic(offset, cas(0, 1)), None, "at {offset}");
    }
    assert_eq!(reach(0, 7).atomic(cas(0, 1)), None);
    assert_eq!(reach(0, 0).atomic(cas(0, 1)), None);
    assert_eq!(reach(8, 16).atomic(cas(0, 1)), None);
    assert_eq!(reach(24, 8).atomic_write(*b"whatever"), Some(()));
    assert_eq!(reach(25, 8).atomic_write(*b"whatever"), None);
    // SAFETY: As above.
    let to_read = unsafe { Reach::new(walk(24, 8), false) };
    assert_eq!(to_read.atomic_write(*b"anything"), None);
    let mut got = [0; 10];
    assert!(reach(23, 10).read(Room::of(&mut got)).is_some());
    assert_eq!(&got, b"\0whatever\0");
}

/// One part is copied as a whole or not at all.
#[test]
fn parts_go_in_and_out() {
    let region = Region::new(5, 0, 32);
    let at = std::ptr::NonNull::new(region.byte(4)).unwrap();
    // SAFETY: The block is alive, and nobody else uses it.
    let part = |writable| unsafe { Part::new(map::Piece { at, len: 6 }, writable) };
    let get = || {
        let mut got = [0; 6];
        assert!(part(false).read(Room::of(&mut got)).is_some());
        got
    };
    for refused in [
        part(true).write(b"short"),
        part(true).write(b"too long"),
        part(false).write(b"unheld"),
        part(true).read(Room::of(&mut [1; 5])).map(drop),
        part(true).read(Room::of(&mut [1; 7])).map(drop),
    ] {
        assert_eq!(refused, None);
    }
    assert!(part(false).room().is_none());
    assert_eq!(get(), [0; 6]);
    assert_eq!(part(true).write(b"string"), Some(()));
    assert_eq!(&get(), b"string");
    // Into itself, of which the copy takes care.
    assert!(part(true).read(part(true).room().unwrap()).is_some());
    assert_eq!(&get(), b"string");
    assert!(part(true).room().unwrap().fill(b"strong").is_some());
    assert_eq!(&get(), b"strong");
    // Some bytes of it, up to its end and not beyond.
    let mut some = [0; 3];
    let slice = part(false).slice(3, 3).unwrap();
    assert!(slice.read(Room::of(&mut some)).is_some());
    assert_eq!(&some, b"ong");
    assert!(part(true).slice(1, 2).unwrap().room().is_some());
    assert!(part(false).slice(1, 2).unwrap().room().is_none());
    assert_eq!(part(true).slice(6, 0).unwrap().range().1, 0);
    for (at, len) in [(4, 3), (6, 1), (7, 0), (usize::MAX, 1), (1, usize::MAX)] {
        assert!(part(true).slice(at, len).is_none());
    }
}

/// A slice counts as initialised if all of it was written, in order, and nothing else.
#[test]
fn a_slice_is_initialised_as_a_whole() {
    let mut spare = [MaybeUninit::uninit(); 6];
    let mut write = |fill: &dyn for<'r> Fn(Room<'r>) -> Option<Filled<'r>>| {
        let written = Room::initialise(&mut spare, |room| fill(room).ok_or(()));
        written.map(|bytes| bytes.map(|bytes| bytes.to_vec()))
    };
    assert_eq!(
        write(&|room| room.fill(b"sixsix")),
        Ok(Some(b"sixsix".into()))
    );
    fn parts(room: Room<'_>, swapped: bool) -> Option<Filled<'_>> {
        let (front, back) = room.split_at(2)?;
        let (front, back) = (front.fill(b"in")?, back.fill(b"part")?);
        if swapped {
            back.and(front)
        } else {
            front.and(back)
        }
    }
    fn half(room: Room<'_>, behind: bool) -> Option<Filled<'_>> {
        let (front, back) = room.split_at(3)?;
        if behind {
            back.fill(b"end")
        } else {
            front.fill(b"end")
        }
    }
    assert_eq!(
        write(&|room| parts(room, false)),
        Ok(Some(b"inpart".into()))
    );
    assert_eq!(write(&|room| parts(room, true)), Err(()));
    assert_eq!(write(&|room| half(room, false)), Ok(None));
    assert_eq!(write(&|room| half(room, true)), Ok(None));
    assert_eq!(write(&|room| Some(room.nothing())), Ok(None));
    assert_eq!(
        write(&|_| Room::of(Box::leak(Box::new([0; 6]))).fill(b"others")),
        Ok(None)
    );
}

#[test]
fn atomics_of_two_threads_lose_nothing() {
    let region = Region::new(6, 0, 64);
    let blocks = region.addresses();
    let shape = region.shape();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let pieces = shape.walk(&blocks, 8, 8).unwrap();
                    // SAFETY: The block is alive, and only accessed by atomics.
                    let word = unsafe { Reach::new(pieces, true) };
                    let old = word.atomic(AtomicOp::FetchAdd { add: 3 });
                    assert!(old.is_some());
                }
            });
        }
    });
    let mut got = [0; 8];
    // SAFETY: The threads are gone.
    let word = unsafe { Reach::new(shape.walk(&blocks, 8, 8).unwrap(), false) };
    assert!(word.read(Room::of(&mut got)).is_some());
    assert_eq!(u64::from_ne_bytes(got), 6000);
}

/// Walks of any order agree with a list of all bytes.
#[test]
fn walks_agree_with_the_list() {
    let mut short = 0;
    for seed in 0..rounds(2000) {
        let mut rng = Rng(seed);
        let list: Vec<Sge> = (0..rng.below(6))
            .map(|n| Sge {
                addr: 1000 * n,
                length: u32::try_from(rng.below(5) * rng.below(20)).unwrap(),
                lkey: u32::try_from(n).unwrap(),
            })
            .collect();
        let bytes: Vec<(u32, u64)> = list
            .iter()
            .flat_map(|s| (0..u64::from(s.length)).map(|i| (s.lkey, s.addr + i)))
            .collect();
        let mut cursor = Cursor::START;
        let mut next = 0;
        for _ in 0..20 {
            // In order mostly, as packets come; sometimes from anywhere.
            let offset = if rng.below(4) == 0 {
                rng.below(bytes.len() as u64 + 3) as usize
            } else {
                next
            };
            let len = rng.below(30) as usize;
            let at = u32::try_from(offset).unwrap();
            if let Some(Piece { lkey, addr, len }) = in_one_entry(&list, &cursor, at, len) {
                let whole: Vec<_> = (0..len as u64).map(|i| (lkey, addr + i)).collect();
                assert_ne!(len, 0);
                assert_eq!(Some(&whole[..]), bytes.get(offset..offset + len));
                short += 1;
            }
            let mut got = Vec::new();
            let mut ended = None;
            for piece in Walk::new(&list, &mut cursor, u32::try_from(offset).unwrap(), len) {
                match piece {
                    Ok(Piece { lkey, addr, len }) => {
                        assert_ne!(len, 0);
                        got.extend((0..len as u64).map(|i| (lkey, addr + i)));
                    }
                    Err(TooShort) => ended = Some(TooShort),
                }
            }
            let end = (offset + len).min(bytes.len());
            let expected = bytes.get(offset..end).unwrap_or(&[]);
            assert_eq!(got, expected, "seed {seed}: {len} at {offset}");
            assert_eq!(ended.is_some(), len > expected.len(), "seed {seed}");
            next = if ended.is_some() { 0 } else { offset + len };
        }
    }
    assert_ne!(short, 0);
}

#[test]
fn nonsensical_lists_end_instead_of_wrapping() {
    let long = Sge {
        addr: u64::MAX - 1,
        length: u32::MAX,
        lkey: 0,
    };
    let list = [long, long, long];
    let mut cursor = Cursor::START;
    let pieces: Vec<_> = Walk::new(&list, &mut cursor, u32::MAX - 1, 100).collect();
    assert_eq!(pieces, [Err(TooShort)]);
    // The second entry begins where no message reaches.
    let pieces: Vec<_> = Walk::new(&list, &mut cursor, u32::MAX - 1, 1).collect();
    assert_eq!(pieces.len(), 1);
    assert!(pieces[0].is_ok());
}
