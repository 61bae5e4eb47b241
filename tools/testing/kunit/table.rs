// SPDX-License-Identifier: GPL-2.0

//! `rdma::table`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_table)]
mod tests {
    use crate::context::dropped;
    use crate::context::Tracer;
    use kernel::prelude::*;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Full;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::Arc;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use rdma::new_table;
    use rdma::sync::bh;
    use rdma::sync::rcu;
    use rdma::table::Table;
    use rdma::workqueue::QueueOptions;

    struct Item {
        value: u32,
        _tracer: Option<Tracer>,
    }

    fn item(value: u32) -> Result<Arc<Item>> {
        let item = Item {
            value,
            _tracer: None,
        };
        Ok(Arc::new(item, GFP_KERNEL)?)
    }

    fn traced(value: u32, count: &Arc<Atomic<i32>>) -> Result<Arc<Item>> {
        let item = Item {
            value,
            _tracer: Some(Tracer(count.clone())),
        };
        Ok(Arc::new(item, GFP_KERNEL)?)
    }

    /// A table with a front that is smaller than what the tests put in.
    type Fronted = Table<Item, 4>;

    fn table() -> Result<Arc<Fronted>> {
        Arc::pin_init(new_table!("rdma_kunit::table"), GFP_KERNEL)
    }

    fn value(table: &Fronted, id: u32) -> Option<u32> {
        table.get(id).map(|item| item.value)
    }

    #[test]
    fn published_items_are_found_until_removed() -> Result {
        let table = table()?;
        let slot = table.reserve(5..=9, GFP_KERNEL)?;
        assert_eq!(slot.id(), 5);
        assert!(table.get(5).is_none());
        assert_eq!(slot.publish(item(50)?), 5);
        assert_eq!(value(&table, 5), Some(50));
        assert!(table.get(4).is_none());
        assert!(table.get(u32::MAX).is_none());
        let removed = table.remove(5).ok_or(ENOENT)?;
        assert_eq!(removed.value, 50);
        assert!(table.get(5).is_none());
        assert!(table.remove(5).is_none());
        Ok(())
    }

    #[test]
    fn numbers_that_share_a_place_are_told_apart() -> Result {
        let table = table()?;
        // Three of one place, in each order of coming and going.
        for [first, second, third] in [[1, 5, 9], [5, 9, 1], [9, 1, 5]] {
            for id in [first, second, third] {
                table.reserve_exact(id, GFP_KERNEL)?.publish(item(id)?);
            }
            for gone in [first, second, third] {
                for id in [1, 5, 9] {
                    assert_eq!(value(&table, id).unwrap_or(id), id);
                }
                assert!(table.remove(gone).is_some());
                assert!(value(&table, gone).is_none());
                // It comes back into the place that it left, or behind who has that.
                table.reserve_exact(gone, GFP_KERNEL)?.publish(item(100)?);
                assert_eq!(value(&table, gone), Some(100));
                assert!(table.remove(gone).is_some());
                assert!(value(&table, gone).is_none());
            }
        }
        Ok(())
    }

    #[test]
    fn a_table_needs_no_front() -> Result {
        let table: Arc<Table<Item>> = Arc::pin_init(new_table!("rdma_kunit::table"), GFP_KERNEL)?;
        table.reserve_exact(6, GFP_KERNEL)?.publish(item(60)?);
        assert_eq!(table.get(6).map(|item| item.value), Some(60));
        assert!(table.remove(6).is_some());
        assert!(table.get(6).is_none());
        Ok(())
    }

    #[test]
    fn a_reservation_is_its_slots_alone() -> Result {
        let table = table()?;
        let slot = table.reserve_exact(1, GFP_KERNEL)?;
        // Whoever guesses the number neither takes it nor frees it.
        assert!(table.remove(1).is_none());
        assert!(table.reserve_exact(1, GFP_KERNEL).err() == Some(EBUSY));
        drop(slot);
        let slot = table.reserve_exact(1, GFP_KERNEL)?;
        slot.publish(item(1)?);
        assert!(table.reserve_exact(1, GFP_KERNEL).err() == Some(EBUSY));
        assert_eq!(value(&table, 1), Some(1));
        Ok(())
    }

    #[test]
    fn numbers_go_round_before_they_come_back() -> Result {
        let table = table()?;
        for expected in [2, 3, 4, 2, 3, 4] {
            let slot = table.reserve(2..=4, GFP_KERNEL)?;
            assert_eq!(slot.id(), expected);
            // Freed at once, yet not the next to be given out.
            drop(slot);
        }
        let slots = [
            table.reserve(2..=4, GFP_KERNEL)?,
            table.reserve(2..=4, GFP_KERNEL)?,
            table.reserve(2..=4, GFP_KERNEL)?,
        ];
        assert!(table.reserve(2..=4, GFP_KERNEL).err() == Some(EBUSY));
        // A fixed number beside does not move the cursor.
        drop(table.reserve_exact(1, GFP_KERNEL)?);
        drop(slots);
        assert_eq!(table.reserve(2..=4, GFP_KERNEL)?.id(), 2);
        Ok(())
    }

    #[test]
    fn a_number_that_keeps_the_memory_is_there_when_it_is_needed() -> Result {
        let table = table()?;
        for round in 0..3 {
            // The only number of its range.
            assert_eq!(table.reserve(7..=7, GFP_KERNEL)?.publish(item(round)?), 7);
            assert_eq!(value(&table, 7), Some(round));
            assert!(table.reserve(7..=7, GFP_KERNEL).err() == Some(EBUSY));
            drop(table.remove(7));
            assert!(table.get(7).is_none());
            assert!(table.remove(7).is_none());
            // By its name.
            table.reserve_exact(7, GFP_KERNEL)?.publish(item(round)?);
            assert!(table.reserve_exact(7, GFP_KERNEL).err() == Some(EBUSY));
            drop(table.remove(7));
        }
        // Far beyond the first, so that nodes come and go.
        for id in 0..1000 {
            let slot = table.reserve(100..=u32::MAX, GFP_KERNEL)?;
            assert_eq!(slot.id(), 100 + id);
            slot.publish(item(id)?);
            assert_eq!(value(&table, 100 + id), Some(id));
            assert!(table.remove(100 + id).is_some());
        }
        assert_eq!(table.reserve_exact(7, GFP_KERNEL)?.id(), 7);
        Ok(())
    }

    #[test]
    fn the_whole_range_of_numbers_works() -> Result {
        let table = table()?;
        for id in [0, 1, 63, 64, 4095, 0xff_ffff, u32::MAX - 1, u32::MAX] {
            table.reserve_exact(id, GFP_KERNEL)?.publish(item(id)?);
        }
        for id in [0, 1, 63, 64, 4095, 0xff_ffff, u32::MAX - 1, u32::MAX] {
            assert_eq!(value(&table, id), Some(id));
        }
        assert_eq!(table.remove(0).map(|item| item.value), Some(0));
        assert_eq!(value(&table, 1), Some(1));
        let slot = table.reserve(u32::MAX - 2..=u32::MAX, GFP_KERNEL)?;
        assert_eq!(slot.id(), u32::MAX - 2);
        drop(slot);
        // The rest goes with the table.
        Ok(())
    }

    #[test]
    fn readers_keep_what_they_found() -> Result {
        let count = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let table = table()?;
        table
            .reserve_exact(3, GFP_KERNEL)?
            .publish(traced(30, &count)?);
        {
            let rcu = rcu::read_lock();
            let found = table.borrow(3, &rcu).ok_or(ENOENT)?;
            drop(table.remove(3));
            assert!(table.borrow(3, &rcu).is_none());
            assert_eq!(found.value, 30);
            assert_eq!(dropped(&count), 0);
        }
        rcu::barrier();
        assert_eq!(dropped(&count), 1);
        Ok(())
    }

    #[test]
    fn dropping_the_table_drops_everything() -> Result {
        let count = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let table = table()?;
        for id in 0..200 {
            let slot = table.reserve(0..=u32::MAX, GFP_KERNEL)?;
            assert_eq!(slot.id(), id);
            slot.publish(traced(id, &count)?);
        }
        let kept = table.get(100).ok_or(ENOENT)?;
        drop(table.remove(7));
        rcu::barrier();
        assert_eq!(dropped(&count), 1);
        drop(table);
        assert_eq!(dropped(&count), 199);
        drop(kept);
        assert_eq!(dropped(&count), 200);
        Ok(())
    }

    /// What owns the table, and is owned by its items.
    #[pin_data]
    struct Owner {
        #[pin]
        children: Table<Child>,
        _tracer: Tracer,
    }

    struct Child {
        _owner: Arc<Owner>,
    }

    #[test]
    fn the_last_item_may_take_the_table_along() -> Result {
        let count = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let tracer = Tracer(count.clone());
        let owner = Arc::pin_init(
            pin_init!(Owner {
                children <- new_table!("Owner::children"),
                _tracer: tracer,
            }),
            GFP_KERNEL,
        )?;
        for id in 1..=2 {
            let child = Child {
                _owner: owner.clone(),
            };
            let child = Arc::new(child, GFP_KERNEL)?;
            owner.children.reserve_exact(id, GFP_KERNEL)?.publish(child);
        }
        drop(owner.children.remove(1));
        drop(owner.children.remove(2));
        drop(owner);
        // The table goes inside the callback of its own last node.
        rcu::barrier();
        assert_eq!(dropped(&count), 1);
        Ok(())
    }

    #[test]
    fn atomic_context_suffices() -> Result {
        let table = table()?;
        let item = item(4)?;
        let id = {
            let _bh = bh::disable();
            let id = table.reserve(1..=0xff_ffff, GFP_ATOMIC)?.publish(item);
            assert_eq!(value(&table, id), Some(4));
            id
        };
        {
            let _bh = bh::disable();
            assert!(table.remove(id).is_some());
        }
        Ok(())
    }

    /// Readers look up two numbers of one place of the front, which are published and removed
    /// all the time, and only ever see a whole object, and the right one.
    #[test]
    fn lookups_race_with_removal() -> Result {
        let count = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let stop = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let done = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let wrong = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let found = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let table = table()?;
        let queue = QueueOptions::unbound().create(c"rdma_kunit_table", rdma::resident!())?;
        for _ in 0..2 {
            let (table, stop) = (table.clone(), stop.clone());
            let (done, wrong, found) = (done.clone(), wrong.clone(), found.clone());
            queue.try_spawn(GFP_KERNEL, move || {
                while stop.load(Acquire) == 0 {
                    for _ in 0..100 {
                        for (id, value) in [(9, 90), (13, 130)] {
                            if let Some(item) = table.get(id) {
                                let _: i32 = found.fetch_add(1, Relaxed);
                                if item.value != value {
                                    wrong.store(1, Relaxed);
                                }
                            }
                            let rcu = rcu::read_lock();
                            let borrowed = table.borrow(id, &rcu);
                            if borrowed.is_some_and(|item| item.value != value) {
                                wrong.store(1, Relaxed);
                            }
                        }
                    }
                    // Less would be a busy wait, and the kernel may not be preemptible.
                    fsleep(Delta::from_micros(50));
                }
                drop(table);
                let _: i32 = done.fetch_add(1, Full);
            })?;
        }
        // As long as no lookup has found anything, nothing has raced.
        let mut rounds = 0;
        while rounds < 500 || (found.load(Acquire) == 0 && rounds < 50_000) {
            rounds += 1;
            for (id, value) in [(9, 90), (13, 130)] {
                table
                    .reserve_exact(id, GFP_KERNEL)?
                    .publish(traced(value, &count)?);
            }
            fsleep(Delta::from_micros(20));
            assert!(table.remove(9).is_some());
            assert!(table.remove(13).is_some());
        }
        stop.store(1, kernel::sync::atomic::Release);
        while done.load(Acquire) != 2 {
            fsleep(Delta::from_micros(100));
        }
        assert_eq!(wrong.load(Acquire), 0);
        assert!(found.load(Acquire) > 0);
        drop(table);
        rcu::barrier();
        assert_eq!(dropped(&count), 2 * rounds);
        Ok(())
    }
}
