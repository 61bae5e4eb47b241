// SPDX-License-Identifier: GPL-2.0

//! Tests of `hw/rxe/mem`: access checks and the lifetime of memory objects.

use kernel::prelude::kunit_tests;

#[kunit_tests(rxe_memory)]
mod tests {
    use crate::edge::checked;
    use crate::mem::access;
    use crate::mem::Batch;
    use crate::mem::Cursor;
    use crate::mem::Locks;
    use crate::mem::MemError;
    use crate::mem::Memory;
    use crate::mem::Mr;
    use crate::mem::Mw;
    use crate::mem::MwKind;
    use crate::mem::PdId;
    use crate::mem::QpTag;
    use crate::mem::Room;
    use crate::mem::Sge;
    use crate::proto::AtomicOp;
    use crate::proto::Key;
    use crate::queue::wqe::BindMw;
    use crate::queue::wqe::LocalOp;
    use kernel::impl_has_work;
    use kernel::new_work;
    use kernel::page::PAGE_SIZE;
    use kernel::prelude::*;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::atomic::Release;
    use kernel::sync::Arc;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use kernel::workqueue::Work;
    use kernel::workqueue::WorkItem;
    use rdma::workqueue::QueueOptions;

    const PD: PdId = PdId(7);
    const QP: QpTag = QpTag(1);
    const ALL: u32 = access::REMOTE | access::LOCAL_WRITE | access::MW_BIND;

    /// Kernel pages that a region may cover. Atomics, since regions write them through their own
    /// pointers.
    struct Buffer(KVec<Atomic<u64>>);

    impl Buffer {
        /// `pages` contiguous pages.
        fn new(pages: usize) -> Result<Self> {
            let words = pages * PAGE_SIZE / 8;
            let mut buffer = KVec::with_capacity(words, GFP_KERNEL)?;
            for _ in 0..words {
                buffer.push(Atomic::new(0), GFP_KERNEL)?;
            }
            Ok(Self(buffer))
        }

        /// Returns the address of byte `offset`.
        fn at(&self, offset: usize) -> u64 {
            self.0.as_ptr().expose_provenance() as u64 + offset as u64
        }

        /// Returns a copy of the bytes, as the CPU sees them.
        fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
            let mut bytes = [0; N];
            for (i, byte) in bytes.iter_mut().enumerate() {
                let at = offset + i;
                let word = self.0.get(at / 8).map_or(0, |word| word.load(Relaxed));
                *byte = word.to_ne_bytes().get(at % 8).copied().unwrap_or(0);
            }
            bytes
        }
    }

    fn memory() -> Result<Arc<Memory>> {
        Arc::pin_init(Memory::new(), GFP_KERNEL)
    }

    fn batch(memory: &Memory) -> Batch<'_> {
        Batch::new(memory, PD, QP)
    }

    /// Maps a fast region to the first pages of a buffer, in reverse order.
    fn map_reversed(mr: &Mr, buffer: &Buffer, pages: usize, iova: u64, len: u64) -> Result {
        mr.map_begin(PAGE_SIZE)?;
        for page in (0..pages).rev() {
            mr.map_block(buffer.at(page * PAGE_SIZE))?;
        }
        mr.map_end(iova, len)
    }

    #[test]
    fn all_memory_by_its_address() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::dma(&memory, PD, ALL)?;
        let key = mr.key();
        let mut batch = batch(&memory);
        assert_eq!(batch.write_remote(key, buffer.at(3), b"written"), Ok(()));
        assert_eq!(buffer.bytes(2), *b"\0written\0");
        let mut got = [0; 7];
        assert_eq!(
            batch
                .read_remote(key, buffer.at(3), Room::of(&mut got))
                .map(drop),
            Ok(())
        );
        assert_eq!(got, *b"written");

        let list = [
            Sge {
                addr: buffer.at(100),
                length: 3,
                lkey: key.0,
            },
            Sge {
                addr: 0,
                length: 0,
                lkey: 0,
            },
            Sge {
                addr: buffer.at(3),
                length: 5,
                lkey: key.0,
            },
        ];
        let mut cursor = Cursor::START;
        assert_eq!(batch.scatter(&list, &mut cursor, 1, b"abcd"), Ok(()));
        assert_eq!(buffer.bytes(100), *b"\0ab");
        assert_eq!(buffer.bytes(3), *b"cditten");
        let mut got = [0; 5];
        assert_eq!(
            batch
                .gather(&list, &mut cursor, 2, Room::of(&mut got))
                .map(drop),
            Ok(())
        );
        assert_eq!(got, *b"bcdit");
        // The list has eight bytes only.
        assert_eq!(
            batch
                .gather(&list, &mut cursor, 4, Room::of(&mut got))
                .map(drop),
            Err(MemError::ListTooShort)
        );
        Ok(())
    }

    #[test]
    fn a_claim_needs_key_domain_and_rights() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::dma(&memory, PD, access::REMOTE_READ)?;
        let key = mr.key();
        let va = buffer.at(0);
        let mut ours = batch(&memory);
        assert_eq!(ours.check_remote(key, va, 8, access::REMOTE_READ), Ok(()));
        assert_eq!(
            ours.check_remote(key, va, 8, access::REMOTE_WRITE),
            Err(MemError::Access)
        );
        assert_eq!(ours.write_remote(key, va, b"x"), Err(MemError::Access));
        // Sending needs no right, receiving does.
        let list = [Sge {
            addr: va,
            length: 1,
            lkey: key.0,
        }];
        let mut cursor = Cursor::START;
        assert_eq!(
            ours.gather(&list, &mut cursor, 0, Room::of(&mut [0]))
                .map(drop),
            Ok(())
        );
        assert_eq!(
            ours.scatter(&list, &mut cursor, 0, b"x"),
            Err(MemError::Access)
        );
        for wrong in [key.0 ^ 1, key.0 ^ 0x80, key.0 ^ 0x100, 0, u32::MAX] {
            assert_eq!(ours.check_remote(Key(wrong), va, 8, 0), Err(MemError::Key));
        }
        let mut theirs = Batch::new(&memory, PdId(8), QP);
        assert_eq!(theirs.check_remote(key, va, 8, 0), Err(MemError::Domain));
        mr.change(Some(PdId(8)), Some(access::REMOTE_WRITE));
        assert_eq!(theirs.write_remote(key, va, b"x"), Ok(()));
        assert_eq!(ours.check_remote(key, va, 8, 0), Err(MemError::Domain));
        Ok(())
    }

    #[test]
    fn a_peer_cannot_access_unmapped_addresses() -> Result {
        let memory = memory()?;
        let mr = Mr::dma(&memory, PD, ALL)?;
        let mut batch = batch(&memory);
        for va in [
            0,
            1,
            0x1000,
            0x7fff_ffff_f000,
            1 << 63,
            u64::MAX - 7,
            u64::MAX,
        ] {
            let mut got = [0; 8];
            let refused = batch.read_remote(mr.key(), va, Room::of(&mut got));
            assert_eq!(refused.map(drop), Err(MemError::Range));
            let refused = batch.write_remote(mr.key(), va, &[0; 8]);
            assert_eq!(refused, Err(MemError::Range));
        }
        Ok(())
    }

    #[test]
    fn a_message_is_checked_at_its_ends_and_a_packet_at_each_page() -> Result {
        const PAGES: usize = 8;
        let memory = memory()?;
        let buffer = Buffer::new(PAGES)?;
        let mr = Mr::dma(&memory, PD, ALL)?;
        let key = mr.key();
        let mut batch = batch(&memory);
        // The allocator aligns a power of two of pages to its size.
        let va = buffer.at(0);
        let len = PAGES * PAGE_SIZE;

        let before = checked();
        let bytes = u32::try_from(len)?;
        let whole = batch.check_remote(key, va, bytes, access::REMOTE_WRITE);
        assert_eq!(whole, Ok(()));
        assert_eq!(checked() - before, 2);

        // The longest message. Whether its last byte is mapped depends on the machine.
        let before = checked();
        let _: Result<(), MemError> = batch.check_remote(key, va, 1 << 31, access::REMOTE_WRITE);
        assert!(checked() - before <= 2);

        let bytes = KVec::from_elem(1u8, len, GFP_KERNEL)?;
        let before = checked();
        assert_eq!(batch.write_remote(key, va, &bytes), Ok(()));
        assert_eq!(checked() - before, PAGES as u64);
        Ok(())
    }

    #[test]
    fn atomics_are_aligned_and_exact() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::dma(&memory, PD, ALL)?;
        let key = mr.key();
        let va = buffer.at(16);
        let mut batch = batch(&memory);
        let add = AtomicOp::FetchAdd { add: 5 };
        let swap = AtomicOp::CompareSwap {
            compare: 5,
            swap: u64::MAX,
        };
        assert_eq!(batch.atomic(key, va, add), Ok(0));
        assert_eq!(batch.atomic(key, va, swap), Ok(5));
        assert_eq!(batch.atomic(key, va, swap), Ok(u64::MAX));
        assert_eq!(batch.atomic_write(key, va, *b"at once!"), Ok(()));
        assert_eq!(buffer.bytes(16), *b"at once!");
        assert_eq!(batch.atomic(key, va + 4, add), Err(MemError::Misaligned));
        assert_eq!(
            batch.atomic_write(key, va + 1, [0; 8]),
            Err(MemError::Misaligned)
        );
        assert_eq!(buffer.bytes(16), *b"at once!");
        Ok(())
    }

    #[test]
    fn a_fast_region_lives_from_registration_to_invalidation() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(3)?;
        let mr = Mr::fast(&memory, PD, 3)?;
        let first = mr.key();
        let second = Key(first.0 ^ 0x55);
        // The first byte lies 100 bytes into the last page of the buffer.
        let iova = 0x10_0000 + 100;
        let len = 2 * PAGE_SIZE as u64;
        map_reversed(&mr, &buffer, 3, iova, len)?;
        let mut batch = batch(&memory);
        assert_eq!(batch.check_remote(first, iova, 1, 0), Err(MemError::Key));

        let register = |key| LocalOp::RegMr {
            key,
            access: ALL,
            iova,
        };
        let foreign = register(Key(first.0 ^ 0x100));
        assert!(batch.local_op(&foreign).is_err());
        assert_eq!(batch.local_op(&register(second)), Ok(()));
        assert_eq!(batch.check_remote(first, iova, 1, 0), Err(MemError::Key));
        assert_eq!(batch.write_remote(second, iova, b"first"), Ok(()));
        assert_eq!(buffer.bytes(2 * PAGE_SIZE + 100), *b"first");
        // From the last page into the middle one, which follows in the region.
        let edge = iova + PAGE_SIZE as u64 - 100 - 2;
        assert_eq!(batch.write_remote(second, edge, b"edge"), Ok(()));
        assert_eq!(buffer.bytes(3 * PAGE_SIZE - 2), *b"ed");
        assert_eq!(buffer.bytes(PAGE_SIZE), *b"ge");
        for (va, count) in [(iova - 1, 1), (iova + len, 1), (iova + len - 1, 2), (0, 1)] {
            assert_eq!(
                batch.check_remote(second, va, count, 0),
                Err(MemError::Range)
            );
        }
        // It must be invalidated before it is registered again.
        assert_eq!(batch.local_op(&register(first)), Err(MemError::Key));

        assert_eq!(batch.invalidate(first, true), Err(MemError::Key));
        let mut theirs = Batch::new(&memory, PdId(8), QP);
        assert_eq!(theirs.invalidate(second, true), Err(MemError::Domain));
        assert_eq!(batch.invalidate(second, true), Ok(()));
        assert_eq!(batch.check_remote(second, iova, 1, 0), Err(MemError::Key));
        assert_eq!(batch.local_op(&register(first)), Ok(()));
        assert_eq!(batch.check_remote(first, iova, 1, ALL), Ok(()));
        // Mapping new pages ends the old registration.
        map_reversed(&mr, &buffer, 1, iova, 10)?;
        assert_eq!(batch.check_remote(first, iova, 1, 0), Err(MemError::Key));
        // An invalidation posted for the old registration still succeeds.
        assert_eq!(batch.invalidate(first, false), Ok(()));
        Ok(())
    }

    #[test]
    fn a_fast_region_has_blocks_of_any_size() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(4)?;
        for size in [512, 2 * PAGE_SIZE] {
            let mr = Mr::fast(&memory, PD, 2)?;
            mr.map_begin(size)?;
            mr.map_block(buffer.at(size))?;
            mr.map_block(buffer.at(0))?;
            assert_eq!(mr.map_block(buffer.at(0)), Err(ENOMEM));
            assert_eq!(mr.map_end(4, 2 * size as u64), Err(EINVAL));
            mr.map_end(4, 2 * size as u64 - 4)?;
            let key = mr.key();
            let mut batch = batch(&memory);
            let register = LocalOp::RegMr {
                key,
                access: ALL,
                iova: 4,
            };
            assert_eq!(batch.local_op(&register), Ok(()));
            assert_eq!(batch.write_remote(key, size as u64 - 2, b"edge"), Ok(()));
            assert_eq!(buffer.bytes(2 * size - 2), *b"ed");
            assert_eq!(buffer.bytes(0), *b"ge");
        }
        let mr = Mr::fast(&memory, PD, 2)?;
        assert_eq!(mr.map_begin(3000), Err(EINVAL));
        assert_eq!(mr.map_begin(0), Err(EINVAL));
        assert_eq!(Mr::dma(&memory, PD, 0)?.map_begin(4096), Err(EINVAL));
        Ok(())
    }

    /// Creates a fast region of the first pages of a buffer, in reverse order, and registers it.
    fn registered(memory: &Arc<Memory>, buffer: &Buffer, pages: usize, iova: u64) -> Result<Mr> {
        let mr = Mr::fast(memory, PD, pages)?;
        let len = u64::try_from(pages * PAGE_SIZE)?;
        map_reversed(&mr, buffer, pages, iova, len)?;
        let register = LocalOp::RegMr {
            key: mr.key(),
            access: ALL,
            iova,
        };
        assert_eq!(batch(memory).local_op(&register), Ok(()));
        Ok(mr)
    }

    #[test]
    fn a_fast_region_is_filled_in_place() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(2)?;
        let mr = registered(&memory, &buffer, 2, 0x5000)?;
        let data = KVec::from_elem(0x5au8, PAGE_SIZE, GFP_KERNEL)?;
        // Each of the two pages is written at once, under the lock of the region.
        let (mut calls, mut bytes) = (0, 0);
        let mut fill = |at: usize, room: Room<'_>, locks: Locks| {
            assert_eq!((at, locks), (bytes, Locks::Held));
            calls += 1;
            bytes += room.len();
            room.fill(&data).map(drop).ok_or(MemError::Range)
        };
        let done = batch(&memory).write_remote_by(mr.key(), 0x5000 + 96, PAGE_SIZE, &mut fill);
        assert_eq!((done, calls, bytes), (Ok(()), 2, PAGE_SIZE));
        assert_eq!(buffer.bytes(PAGE_SIZE + 94), *b"\0\0ZZ");
        assert_eq!(buffer.bytes(2 * PAGE_SIZE - 2), *b"ZZ");
        assert_eq!(buffer.bytes(94), *b"ZZ\0\0");
        Ok(())
    }

    #[test]
    fn a_fast_region_is_filled_from_one_with_a_lock() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(2)?;
        let mr = registered(&memory, &buffer, 2, 0)?;
        let dma = Mr::dma(&memory, PD, ALL)?;
        let mut theirs = batch(&memory);
        assert_eq!(
            theirs.write_remote(mr.key(), 4000, b"copied by itself"),
            Ok(())
        );
        // A region is copied to another place in itself: its lock cannot be taken twice.
        let list = [Sge {
            addr: 4000,
            length: 16,
            lkey: mr.key().0,
        }];
        let mut refused = 0;
        let mut fill = |at: usize, room: Room<'_>, locks: Locks| {
            let at = u32::try_from(at).map_err(|_| MemError::Range)?;
            let mut cursor = Cursor::START;
            match locks {
                Locks::Free => theirs.gather(&list, &mut cursor, at, room).map(drop),
                Locks::Held => {
                    refused += 1;
                    theirs.gather_kept(&list, &mut cursor, at, room).map(drop)
                }
            }
        };
        let done = batch(&memory).write_remote_by(mr.key(), 5000, 16, &mut fill);
        assert_eq!((done, refused), (Ok(()), 1));
        // The second page of the region is the first of the buffer.
        assert_eq!(buffer.bytes(5000 - PAGE_SIZE), *b"copied by itself");

        // A region without a lock is read at once, but only if the batch keeps it already.
        let mut got = [0; 6];
        let list = [Sge {
            addr: buffer.at(5000 - PAGE_SIZE),
            length: 6,
            lkey: dma.key().0,
        }];
        let mut fresh = batch(&memory);
        let mut cursor = Cursor::START;
        let early = fresh.gather_kept(&list, &mut cursor, 0, Room::of(&mut got));
        assert_eq!(early.map(drop), Err(MemError::Locked));
        assert_eq!(fresh.check_gather(&list, Cursor::START, 0, 6), Ok(()));
        let done = fresh
            .gather_kept(&list, &mut cursor, 0, Room::of(&mut got))
            .map(drop);
        assert_eq!((done, got), (Ok(()), *b"copied"));
        Ok(())
    }

    #[test]
    fn a_window_shows_part_of_a_region() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::fast(&memory, PD, 1)?;
        map_reversed(&mr, &buffer, 1, 0x1000, 4096)?;
        let mut ours = batch(&memory);
        let register = LocalOp::RegMr {
            key: mr.key(),
            access: access::LOCAL_WRITE | access::MW_BIND,
            iova: 0x1000,
        };
        assert_eq!(ours.local_op(&register), Ok(()));
        let mw = Mw::new(&memory, PD, MwKind::Two)?;
        let key = Key(mw.key().0 ^ 3);
        assert_eq!(
            ours.check_remote(mw.key(), 0x1100, 1, 0),
            Err(MemError::Key)
        );
        let bind = BindMw {
            window: mw.key(),
            new_key: key,
            region: mr.key(),
            addr: 0x1100,
            length: 0x100,
            access: access::REMOTE_WRITE,
        };
        for bad in [
            BindMw {
                addr: 0xfff,
                ..bind
            },
            BindMw {
                length: 0xf01,
                ..bind
            },
            BindMw {
                addr: u64::MAX,
                ..bind
            },
            BindMw { length: 0, ..bind },
            BindMw {
                window: key,
                ..bind
            },
            BindMw {
                region: Key(mr.key().0 ^ 1),
                ..bind
            },
            BindMw {
                access: access::ON_DEMAND,
                ..bind
            },
        ] {
            assert!(ours.local_op(&LocalOp::BindMw(bad)).is_err());
        }
        assert_eq!(ours.local_op(&LocalOp::BindMw(bind)), Ok(()));
        assert_eq!(ours.local_op(&LocalOp::BindMw(bind)), Err(MemError::Key));
        // The region itself grants the peer nothing.
        assert_eq!(
            ours.write_remote(mr.key(), 0x1100, b"x"),
            Err(MemError::Access)
        );
        assert_eq!(ours.write_remote(key, 0x1100, b"window"), Ok(()));
        assert_eq!(buffer.bytes(0x100), *b"window");
        for (va, len) in [(0x10ff, 1), (0x1200, 1), (0x11ff, 2), (0x1000, 1)] {
            assert_eq!(ours.check_remote(key, va, len, 0), Err(MemError::Range));
        }
        let mut got = [0];
        assert_eq!(
            ours.read_remote(key, 0x1100, Room::of(&mut got)).map(drop),
            Err(MemError::Access)
        );
        // The window belongs to the queue pair that bound it.
        let mut other = Batch::new(&memory, PD, QpTag(2));
        assert_eq!(other.check_remote(key, 0x1100, 1, 0), Err(MemError::Key));
        assert_eq!(other.invalidate(key, true), Err(MemError::Key));
        // While the window is bound, the region cannot change.
        assert_eq!(mr.may_go(), Err(EINVAL));
        assert_eq!(ours.invalidate(mr.key(), false), Err(MemError::Bound));
        assert_eq!(ours.invalidate(key, true), Ok(()));
        assert_eq!(ours.check_remote(key, 0x1100, 1, 0), Err(MemError::Key));

        let zero_based = BindMw {
            window: key,
            access: access::REMOTE_WRITE | access::ZERO_BASED,
            ..bind
        };
        assert_eq!(ours.local_op(&LocalOp::BindMw(zero_based)), Ok(()));
        assert_eq!(ours.write_remote(key, 0, b"zero"), Ok(()));
        assert_eq!(buffer.bytes(0x100), *b"zeroow");
        drop(mw);
        assert_eq!(mr.may_go(), Ok(()));
        assert_eq!(ours.check_remote(key, 0, 1, 0), Err(MemError::Key));
        Ok(())
    }

    #[test]
    fn a_destroyed_window_is_not_bound() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        for kind in [MwKind::One, MwKind::Two] {
            let mr = Mr::fast(&memory, PD, 1)?;
            map_reversed(&mr, &buffer, 1, 0, 4096)?;
            let register = LocalOp::RegMr {
                key: mr.key(),
                access: ALL,
                iova: 0,
            };
            let mut batch = batch(&memory);
            assert_eq!(batch.local_op(&register), Ok(()));
            let mw = Mw::new(&memory, PD, kind)?;
            let bind = BindMw {
                window: mw.key(),
                new_key: mw.key(),
                region: mr.key(),
                addr: 0,
                length: 16,
                access: access::REMOTE_READ,
            };
            assert_eq!(batch.local_op(&LocalOp::BindMw(bind)), Ok(()));
            // Another context found the window before it was destroyed and binds it afterwards.
            mw.retire();
            let late = batch.local_op(&LocalOp::BindMw(bind));
            assert_eq!(late, Err(MemError::Key));
            drop(mw);
            assert_eq!(mr.may_go(), Ok(()));
        }
        Ok(())
    }

    #[test]
    fn a_type_1_window_is_bound_again_at_will() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::fast(&memory, PD, 1)?;
        map_reversed(&mr, &buffer, 1, 0, 4096)?;
        let mut batch = batch(&memory);
        let register = LocalOp::RegMr {
            key: mr.key(),
            access: ALL,
            iova: 0,
        };
        assert_eq!(batch.local_op(&register), Ok(()));
        let mw = Mw::new(&memory, PD, MwKind::One)?;
        let mut bind = BindMw {
            window: mw.key(),
            new_key: Key(1),
            region: mr.key(),
            addr: 0,
            length: 16,
            access: access::REMOTE_READ,
        };
        for n in 1..10u32 {
            bind.new_key = Key(n);
            bind.addr = u64::from(n) * 16;
            assert_eq!(batch.local_op(&LocalOp::BindMw(bind)), Ok(()));
            bind.window = Key(mw.key().0 & !0xff | n);
            assert_eq!(batch.check_remote(bind.window, bind.addr, 16, 0), Ok(()));
            assert_eq!(
                batch.check_remote(bind.window, bind.addr - 1, 1, 0),
                Err(MemError::Range)
            );
        }
        assert_eq!(batch.invalidate(bind.window, false), Err(MemError::Key));
        assert_eq!(mr.may_go(), Err(EINVAL));
        bind.length = 0;
        assert_eq!(batch.local_op(&LocalOp::BindMw(bind)), Ok(()));
        assert_eq!(mr.may_go(), Ok(()));
        Ok(())
    }

    /// Deregisters in a thread. `Queue::try_spawn` cannot be used: lockdep complains if two modules
    /// use it, since its single lock class has a different name in each.
    #[pin_data]
    struct Deregister {
        #[pin]
        work: Work<Deregister>,
        mr: Mr,
        told: Arc<Atomic<i32>>,
    }

    impl_has_work! {
        impl HasWork<Self> for Deregister { self.work }
    }

    impl WorkItem for Deregister {
        type Pointer = Pin<KBox<Self>>;

        fn run(this: Pin<KBox<Self>>) {
            let told = this.told.clone();
            drop(this);
            told.store(1, Release);
        }
    }

    #[test]
    fn deregistration_waits_for_users() -> Result {
        let memory = memory()?;
        let buffer = Buffer::new(1)?;
        let mr = Mr::dma(&memory, PD, ALL)?;
        let key = mr.key();
        let va = buffer.at(0);
        let mut inside = batch(&memory);
        assert_eq!(inside.write_remote(key, va, b"before"), Ok(()));

        let gone = Arc::new(Atomic::new(0i32), GFP_KERNEL)?;
        let told = gone.clone();
        let queue = QueueOptions::unbound().create(c"rxe_kunit_memory", rdma::resident!())?;
        let work = KBox::pin_init(
            pin_init!(Deregister {
                work <- new_work!("Deregister::work"),
                mr,
                told,
            }),
            GFP_KERNEL,
        )?;
        queue.enqueue::<_, 0>(work);
        let mut late = batch(&memory);
        while late.check_remote(key, va, 1, 0).is_ok() {
            late = batch(&memory);
            fsleep(Delta::from_micros(100));
        }
        // Nobody new gets in; deregistration waits for the batch that is inside.
        fsleep(Delta::from_millis(20));
        assert_eq!(gone.load(Acquire), 0);
        assert_eq!(inside.write_remote(key, va, b"during"), Ok(()));
        assert_eq!(buffer.bytes(0), *b"during");
        drop(inside);
        while gone.load(Acquire) == 0 {
            fsleep(Delta::from_micros(100));
        }
        Ok(())
    }
}
