// SPDX-License-Identifier: GPL-2.0

//! `gid_marks`: how marks add up. What becomes of them is in `gid_plan`.

use rdma_core_engines::proto::gid_marks::Dirty;
use rdma_core_engines::proto::gid_marks::Event;
use rdma_core_engines::proto::gid_marks::Marks;
use rdma_core_engines::proto::gid_marks::Word;
use rdma_core_engines::proto::gid_marks::MARKS;
use rdma_core_engines::proto::gid_plan::Address;
use rdma_core_engines::proto::gid_table::Ndev;

/// Addresses are marked one by one, then their device, then all devices.
#[test]
fn marks_grow_coarse() {
    let address = |i: usize| Address::V4([10, 0, 0, i as u8]);
    let marked = |dirty: &Dirty, id| {
        let marks = dirty.clone().take();
        let addresses = marks.addresses_of(Ndev(id)).map(|list| list.count());
        (marks.has(Ndev(id)), addresses)
    };
    let mut dirty = Dirty::default();
    for i in 0..MARKS {
        dirty.note(Event::Address(Ndev(1), address(i), Word::Unknown));
        dirty.note(Event::Address(Ndev(1), address(0), Word::Unknown));
        assert_eq!(marked(&dirty, 1), (true, Some(i + 1)));
    }
    assert!(!marked(&dirty, 2).0);
    dirty.note(Event::Address(Ndev(1), address(MARKS), Word::Unknown));
    assert_eq!(marked(&dirty, 1), (true, None));
    // A marked device is marked for all addresses, and takes one place.
    for i in 0..MARKS - 1 {
        dirty.note(Event::Address(Ndev(1), address(i), Word::Unknown));
        dirty.note(Event::Address(Ndev(2), address(i), Word::Unknown));
    }
    assert_eq!(marked(&dirty, 2), (true, Some(MARKS - 1)));
    dirty.note(Event::Device(Ndev(2)));
    assert_eq!(marked(&dirty, 2), (true, None));
    for i in 3..=MARKS {
        dirty.note(Event::Device(Ndev(i as u64)));
    }
    assert_ne!(dirty.clone().take(), Marks::All);
    dirty.note(Event::Device(Ndev(100)));
    assert_eq!(dirty.take(), Marks::All);
}

/// The last word about an address counts, unless its marks were put back.
#[test]
fn the_last_event_counts() {
    let address = Address::V4([10, 0, 0, 1]);
    let mut dirty = Dirty::default();
    let mut after = |word| {
        dirty.note(Event::Address(Ndev(1), address, word));
        let marks = dirty.clone().take();
        let words: Vec<_> = marks.addresses_of(Ndev(1)).unwrap().collect();
        words
    };
    for word in [Word::Has, Word::Unknown, Word::Unknown, Word::Has] {
        assert_eq!(after(word), [(address, word)]);
    }
    let marks = dirty.take();
    dirty.put_back(marks);
    let marks = dirty.take();
    let words: Vec<_> = marks.addresses_of(Ndev(1)).unwrap().collect();
    assert_eq!(words, [(address, Word::Unknown)]);
}

/// A device that is marked takes the places of its addresses, and there is room for others.
#[test]
fn a_marked_device_takes_one_place() {
    let address = |i: usize| Address::V4([10, 0, 0, i as u8]);
    let mut dirty = Dirty::default();
    for i in 0..3 {
        dirty.note(Event::Address(Ndev(1), address(i), Word::Unknown));
    }
    dirty.note(Event::Device(Ndev(1)));
    for i in 0..MARKS - 1 {
        dirty.note(Event::Address(Ndev(2), address(i), Word::Unknown));
    }
    let marks = dirty.take();
    assert!(marks.has(Ndev(1)) && marks.addresses_of(Ndev(1)).is_none());
    let others = marks.addresses_of(Ndev(2)).map(|list| list.count());
    assert_eq!(others, Some(MARKS - 1));
}

#[test]
fn nothing_and_all() {
    assert!(!Marks::None.has(Ndev(1)) && Marks::All.has(Ndev(1)));
    assert_eq!(Dirty::default().take(), Marks::None);
    assert!(Marks::All.addresses_of(Ndev(1)).is_none());
}
