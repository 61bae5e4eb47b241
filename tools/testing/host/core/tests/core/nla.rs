// SPDX-License-Identifier: GPL-2.0

//! `nla`: bytes by hand, random trees there and back at every size of the buffer,
//! lists that are continued, and what a policy makes of garbage.

use rdma_core_engines::proto::nla::parse;
use rdma_core_engines::proto::nla::Align64;
use rdma_core_engines::proto::nla::Attrs;
use rdma_core_engines::proto::nla::Entry;
use rdma_core_engines::proto::nla::Full;
use rdma_core_engines::proto::nla::Kind;
use rdma_core_engines::proto::nla::ListError;
use rdma_core_engines::proto::nla::Message;
use rdma_core_engines::proto::nla::Refusal;
use rdma_core_engines::proto::nla::Slice;
use rdma_core_engines::proto::nla::Strictness;
use rdma_core_engines::proto::nla::Why;
use rdma_core_engines::proto::nla::Writer;
use rdma_core_engines::rng::Rng;

#[test]
fn bytes_by_hand() {
    let mut buf = [0xff; 64];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    w.put_u8(5, 7).unwrap();
    w.put_str(2, b"rxe0\0junk").unwrap();
    w.nest(1, |w| w.put_u32(3, 0x0102_0304)).unwrap();
    w.nest_unmarked(1, |_| Ok::<(), Full>(())).unwrap();
    let mut want = vec![5, 0, 5, 0, 7, 0, 0, 0, 9, 0, 2, 0];
    want.extend(*b"rxe0\0\0\0\0");
    want.extend([12, 0, 1, 0x80, 8, 0, 3, 0, 4, 3, 2, 1, 4, 0, 1, 0]);
    assert_eq!(w.written(), want);
}

#[test]
fn sixty_four_bits_are_aligned_where_they_must_be() {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf, Align64::Aligned);
    w.put_u64(9, 1, 0).unwrap();
    // A filler of four bytes, then the value at a multiple of eight.
    assert_eq!(&w.written()[..8], [4, 0, 0, 0, 12, 0, 9, 0]);
    w.put_u8(1, 1).unwrap();
    assert_eq!(w.written().len(), 24);
    w.put_u64(9, 2, 0).unwrap();
    assert_eq!(w.written()[24..32], [4, 0, 0, 0, 12, 0, 9, 0]);
    // The filler does not stay when the value does not fit.
    let mut small = [0; 12];
    let mut w = Writer::new(&mut small, Align64::Aligned);
    assert_eq!(w.put_u64(9, 1, 0), Err(Full));
    assert!(w.written().is_empty());
}

#[test]
fn a_message_has_its_length() {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    let head = Message {
        message_type: 0x1401,
        flags: 2,
        seq: 0x1234,
        port: 9,
    };
    w.message(head, |w| w.put_u8(1, 2)).unwrap();
    assert_eq!(
        w.written(),
        [24, 0, 0, 0, 1, 0x14, 2, 0, 0x34, 0x12, 0, 0, 9, 0, 0, 0, 5, 0, 1, 0, 2, 0, 0, 0]
    );
    // So does one behind another.
    let mut two = [0; 64];
    let mut both = Writer::new(&mut two, Align64::Packed);
    both.message(head, |w| w.put_u8(1, 2)).unwrap();
    both.message(head, |w| w.put_u32(1, 2)).unwrap();
    assert_eq!(both.written()[..24], *w.written());
    assert_eq!(both.written()[24..28], [24, 0, 0, 0]);
    assert_eq!(both.written()[40..], [8, 0, 1, 0, 2, 0, 0, 0]);
    // One that fails leaves nothing, and no trace in the next.
    let failed: Result<(), ListError<u8>> = w.message(head, |w| {
        w.put_u8(1, 2)?;
        Err(ListError::Failed(3))
    });
    assert_eq!(failed, Err(ListError::Failed(3)));
    assert_eq!(w.written().len(), 24);
}

#[test]
fn an_attribute_has_no_more_bytes_than_its_length_can_say() {
    let mut buf = vec![0; 1 << 17];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    assert_eq!(w.put(1, &[0; 0xfffc]), Err(Full));
    assert_eq!(w.put(1, &[0; 0xfffb]), Ok(()));
    let text = vec![b'x'; 0xfffb];
    assert_eq!(w.put_str(1, &text), Err(Full));
    let len = w.written().len();
    let nest = w.nest(1, |w| {
        w.put(2, &[0; 0x8000])?;
        w.put(2, &[0; 0x8000])
    });
    assert_eq!(nest, Err(Full));
    assert_eq!(w.written().len(), len);
}

#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Leaf(u16, Vec<u8>),
    Nest(u16, Vec<Tree>),
}

fn tree(rng: &mut Rng, depth: usize) -> Tree {
    let attr = 1 + rng.below(200) as u16;
    if depth > 0 && rng.one_in(3) {
        return Tree::Nest(
            attr,
            (0..rng.below(4)).map(|_| tree(rng, depth - 1)).collect(),
        );
    }
    Tree::Leaf(attr, (0..rng.below(13)).map(|_| rng.any() as u8).collect())
}

fn write(w: &mut Writer<Slice<'_>>, tree: &Tree) -> Result<(), Full> {
    match tree {
        Tree::Leaf(attr, bytes) => w.put(*attr, bytes),
        Tree::Nest(attr, inside) => w.nest(*attr, |w| inside.iter().try_for_each(|t| write(w, t))),
    }
}

fn read(bytes: &[u8]) -> Vec<Tree> {
    let mut attrs = Attrs::new(bytes);
    let trees = (&mut attrs)
        .map(|a| match a.nested {
            true => Tree::Nest(a.attr, read(a.payload)),
            false => Tree::Leaf(a.attr, a.payload.to_vec()),
        })
        .collect();
    assert!(attrs.rest().is_empty());
    trees
}

#[test]
fn trees_there_and_back_in_every_buffer() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let trees: Vec<Tree> = (0..rng.below(5)).map(|_| tree(&mut rng, 3)).collect();
        let mut large = vec![0xaa; 4096];
        let mut w = Writer::new(&mut large, Align64::Packed);
        trees.iter().try_for_each(|t| write(&mut w, t)).unwrap();
        let whole = w.written().to_vec();
        assert_eq!(read(&whole), trees, "seed {seed}");
        for len in 0..=whole.len() {
            let mut small = vec![0xaa; len];
            let mut w = Writer::new(&mut small, Align64::Packed);
            let fit = trees
                .iter()
                .take_while(|t| write(&mut w, t).is_ok())
                .count();
            // What is there is what fits, whole, and nothing of the next.
            assert_eq!(read(w.written()), trees[..fit], "seed {seed}, {len} bytes");
            assert_eq!(fit == trees.len(), len == whole.len() || trees.is_empty());
            assert_eq!(w.written(), &whole[..w.written().len()]);
        }
    }
}

#[test]
fn lists_are_continued_until_their_end() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let items: Vec<usize> = (0..rng.below(30)).map(|_| rng.below(40)).collect();
        let room = 20 + rng.below(100);
        let (mut at, mut seen, mut stuck) = (0, Vec::new(), false);
        for _ in 0..100 {
            let mut buf = vec![0; room];
            let mut w = Writer::new(&mut buf, Align64::Packed);
            // Every third is not to be shown.
            let listed = w.list(7, 8, items[at..].iter(), |w, size| {
                if size % 3 == 0 {
                    return Err(Entry::<()>::Skip);
                }
                Ok(w.put(1, &vec![*size as u8; *size])?)
            });
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    assert_eq!(error, ListError::Full(Full));
                    assert!(w.written().is_empty());
                    stuck = true;
                    break;
                }
            };
            let table = Attrs::new(w.written()).next().unwrap();
            assert_eq!((table.attr, table.nested), (7, false));
            let mut written = 0;
            for entry in table.attrs() {
                assert_eq!(entry.attr, 8);
                seen.push(entry.attrs().next().unwrap().payload.len());
                written += 1;
            }
            assert_eq!(listed.written, written);
            at += listed.passed;
            if !listed.more {
                assert_eq!(at, items.len());
                break;
            }
            assert!(listed.written > 0, "no progress");
        }
        let shown: Vec<usize> = items.iter().copied().filter(|s| s % 3 != 0).collect();
        if stuck {
            // The list's head, the entry's, the attribute's.
            let next = shown[seen.len()];
            assert!(
                12 + next.next_multiple_of(4) > room,
                "seed {seed}: it would have fit"
            );
        } else {
            assert_eq!(seen, shown, "seed {seed}");
        }
    }
}

#[test]
fn a_failed_entry_fails_its_list() {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf, Align64::Packed);
    let listed = w.list(1, 2, 0..3, |_, i| match i {
        2 => Err(Entry::Failed("driver")),
        _ => Ok(()),
    });
    assert_eq!(listed, Err(ListError::Failed("driver")));
    assert!(w.written().is_empty());
}

fn policy(attr: u16) -> Kind {
    match attr {
        1 => Kind::U8,
        2 => Kind::U32,
        3 => Kind::U64,
        4 => Kind::Text(4),
        5 => Kind::Nested,
        6 => Kind::Binary,
        7 => Kind::AtLeast(3),
        8 => Kind::Text(0),
        _ => Kind::Unnamed,
    }
}

/// Judges an attribute that comes after another, liberally and strictly.
fn judge(raw_type: u16, payload: &[u8]) -> [Result<(), Why>; 2] {
    let mut bytes = vec![5, 0, 1, 0, 7, 0, 0, 0];
    bytes.extend(((payload.len() + 4) as u16).to_ne_bytes());
    bytes.extend(raw_type.to_ne_bytes());
    bytes.extend(payload);
    [Strictness::Liberal, Strictness::Strict].map(|strictness| {
        parse(&bytes, strictness, policy, &mut [None; 10]).map_err(|refusal| {
            assert_eq!(refusal.at, 8, "the second");
            refusal.why
        })
    })
}

#[test]
fn kinds() {
    let ok = Ok(());
    let (range, length) = (Err(Why::Range), Err(Why::Length));
    assert_eq!(judge(1, &[1]), [ok, ok]);
    assert_eq!(judge(1, &[]), [range, length]);
    assert_eq!(judge(1, &[1, 2]), [ok, length]);
    assert_eq!(judge(2, &[0; 3]), [range, length]);
    assert_eq!(judge(2, &[0; 8]), [ok, length]);
    assert_eq!(judge(3, &[0; 8]), [ok, ok]);
    for (text, want) in [
        (&b"abcd\0"[..], ok),
        (b"\0", ok),
        (b"abc", Err(Why::NoEnd)),
        (b"", Err(Why::NoEnd)),
        (b"abcde\0", Err(Why::NoEnd)),
        (b"a\0bc\0", ok),
        (b"a\0bcde", range),
        (b"a\0bcde\0", range),
    ] {
        assert_eq!(judge(4, text), [want; 2], "{text:?}");
    }
    assert_eq!(judge(8, &[&[b'x'; 300][..], &[0]].concat()), [ok; 2]);
    assert_eq!(judge(5, &[]), [ok, Err(Why::NoMark)]);
    assert_eq!(judge(5 | 0x8000, &[]), [ok, ok]);
    assert_eq!(judge(5 | 0x8000, &[1]), [range; 2]);
    assert_eq!(judge(2 | 0x8000, &[0; 4]), [ok, Err(Why::Mark)]);
    assert_eq!(judge(6, &[1; 99]), [ok, ok]);
    let unsupported = Err(Why::Unsupported);
    assert_eq!(judge(7, &[0; 2]), [range, unsupported]);
    assert_eq!(judge(7, &[0; 3]), [ok, unsupported]);
    assert_eq!(judge(9, &[]), [ok, unsupported]);
    for attr in [0, 10, 0x3fff] {
        assert_eq!(judge(attr, &[]), [ok, Err(Why::UnknownType)]);
    }
}

#[test]
fn the_last_of_a_type_counts_and_rests_are_seen() {
    let bytes = [5, 0, 1, 0, 7, 0, 0, 0, 5, 0, 1, 0, 8];
    let mut table = [None; 10];
    parse(&bytes, Strictness::Strict, policy, &mut table).unwrap();
    assert_eq!(
        table[1].unwrap().u8(),
        Some(8),
        "and without the zeros after it"
    );
    assert_eq!(table[1].unwrap().u32(), None);
    let bytes = [&bytes[..], &[0, 0, 0, 3, 0, 1]].concat();
    let mut table = [None; 10];
    assert_eq!(
        parse(&bytes, Strictness::Strict, policy, &mut table),
        Err(Refusal {
            why: Why::Trailing,
            at: 16
        })
    );
    parse(&bytes, Strictness::Liberal, policy, &mut table).unwrap();
    assert_eq!(table[1].unwrap().text(8), [8]);
}

#[test]
fn garbage_is_survived() {
    for seed in 0..50_000 {
        let mut rng = Rng::new(seed);
        let mut bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.any() as u8).collect();
        // Lengths and types that mean something now and then.
        for at in (0..bytes.len()).step_by(4) {
            if rng.one_in(2) {
                bytes[at] = rng.below(16) as u8;
                for high in [at + 1, at + 3] {
                    if let Some(byte) = bytes.get_mut(high) {
                        *byte = 0;
                    }
                }
            }
        }
        for strictness in [Strictness::Liberal, Strictness::Strict] {
            let mut table = [None; 10];
            let judged = parse(&bytes, strictness, policy, &mut table);
            if judged.is_ok() && strictness == Strictness::Strict {
                let parsed = Attrs::new(&bytes).map(|a| a.payload.len()).sum::<usize>();
                assert!(parsed <= bytes.len());
            }
            for attr in table.iter().flatten() {
                let _ = (
                    attr.u8(),
                    attr.u32(),
                    attr.u64(),
                    attr.text(3),
                    attr.attrs().count(),
                );
            }
        }
    }
}
