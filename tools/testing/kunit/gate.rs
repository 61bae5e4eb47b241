// SPDX-License-Identifier: GPL-2.0

//! `rdma::gate`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_gate)]
mod tests {
    use kernel::prelude::*;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Full;
    use kernel::sync::atomic::Release;
    use kernel::sync::Arc;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use rdma::gate::Gate;
    use rdma::gate::OwnedPass;
    use rdma::gate::Owner;
    use rdma::new_table;
    use rdma::sync::rcu;
    use rdma::table::Table;
    use rdma::workqueue::QueueOptions;

    #[pin_data]
    struct Guarded {
        #[pin]
        gate: Gate,
        inside: Atomic<i32>,
        entered: Atomic<i32>,
    }

    impl Guarded {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    gate <- Gate::new(),
                    inside: Atomic::new(0),
                    entered: Atomic::new(0),
                }),
                GFP_KERNEL,
            )
        }

        fn enter(self: &Arc<Self>) -> Option<OwnedPass<Self>> {
            OwnedPass::try_enter(self.clone(), |this| &this.gate)
        }
    }

    #[test]
    fn closed_gate_refuses_for_good() -> Result {
        let gate = Arc::pin_init(Gate::new(), GFP_KERNEL)?;
        assert!(!gate.is_closed());
        assert!(gate.try_enter().is_some());
        gate.close_and_wait();
        assert!(gate.is_closed());
        assert!(gate.try_enter().is_none());
        // Idempotent.
        gate.close();
        gate.close_and_wait();
        // Being refused changes nothing, however often.
        for _ in 0..3 {
            assert!(gate.try_enter().is_none());
            assert!(gate.is_closed());
        }
        Ok(())
    }

    #[test]
    fn closing_with_users_inside_refuses_new_ones() -> Result {
        let gate = Arc::pin_init(Gate::new(), GFP_KERNEL)?;
        let first = gate.try_enter();
        let second = gate.try_enter();
        gate.close();
        assert!(gate.try_enter().is_none());
        assert!(gate.is_closed());
        drop(first);
        assert!(gate.try_enter().is_none());
        drop(second);
        gate.close_and_wait();
        Ok(())
    }

    #[test]
    fn owned_pass_keeps_the_object() -> Result {
        let object = Guarded::new()?;
        let pass = object.enter().ok_or(EINVAL)?;
        assert!(Arc::ptr_eq(pass.owner(), &object));
        drop(object);
        pass.inside.store(5, kernel::sync::atomic::Relaxed);
        assert_eq!(pass.inside.load(Acquire), 5);
        drop(pass);
        Ok(())
    }

    #[test]
    fn wait_outlasts_every_user() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_gate", rdma::resident!())?;
        for _ in 0..20 {
            let object = Guarded::new()?;
            for _ in 0..4 {
                let object = object.clone();
                queue.try_spawn(GFP_KERNEL, move || {
                    while let Some(pass) = object.enter() {
                        let _: i32 = pass.inside.fetch_add(1, Full);
                        let _: i32 = pass.entered.fetch_add(1, Full);
                        fsleep(Delta::from_micros(50));
                        let _: i32 = pass.inside.fetch_sub(1, Full);
                    }
                })?;
            }
            while object.entered.load(Acquire) < 4 {
                fsleep(Delta::from_micros(100));
            }
            object.gate.close_and_wait();
            let entered = object.entered.load(Acquire);
            assert_eq!(object.inside.load(Acquire), 0);
            fsleep(Delta::from_micros(200));
            assert_eq!(object.inside.load(Acquire), 0);
            assert_eq!(object.entered.load(Acquire), entered);
        }
        Ok(())
    }

    /// Sets a flag on drop.
    struct Watched {
        value: u32,
        gone: Arc<Atomic<bool>>,
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.gone.store(true, Release);
        }
    }

    fn owned(value: u32) -> Result<(Owner<Watched>, Arc<Atomic<bool>>)> {
        let gone = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let watched = Watched {
            value,
            gone: gone.clone(),
        };
        Ok((Owner::new(watched, GFP_KERNEL)?, gone))
    }

    #[test]
    fn an_owner_waits_for_users_without_a_reference() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_owner", rdma::resident!())?;
        for value in 0..20 {
            let (owner, gone) = owned(value)?;
            let entered = owner.share().enter().ok_or(EINVAL)?;
            let seen = gone.clone();
            let left = Arc::new(Atomic::new(false), GFP_KERNEL)?;
            let leaves = left.clone();
            queue.try_spawn(GFP_KERNEL, move || {
                fsleep(Delta::from_millis(2));
                if entered.value == value && !seen.load(Acquire) {
                    leaves.store(true, Release);
                }
                drop(entered);
            })?;
            drop(owner);
            assert!(left.load(Acquire));
            assert!(gone.load(Acquire));
        }
        Ok(())
    }

    #[test]
    fn an_object_without_owner_is_not_entered() -> Result {
        let (owner, gone) = owned(7)?;
        let shared = owner.share();
        owner.close_and_wait();
        assert!(shared.enter().is_none());
        assert_eq!(owner.value, 7);
        drop(owner);
        assert!(shared.enter().is_none());
        assert_eq!(shared.outside().value, 7);
        assert!(!gone.load(Acquire));
        drop(shared);
        assert!(gone.load(Acquire));
        Ok(())
    }

    #[test]
    fn an_object_of_a_table_is_used_after_the_lookup() -> Result {
        let table: Pin<KBox<Table<_>>> =
            KBox::pin_init(new_table!("rdma_kunit::gated"), GFP_KERNEL)?;
        let (owner, gone) = owned(3)?;
        let slot = table.reserve(1..=9, GFP_KERNEL)?;
        let id = slot.publish(owner.share());
        let find = || table.borrow(id, &rcu::read_lock())?.enter();
        let entered = find().ok_or(EINVAL)?;
        drop(table.remove(id));
        rcu::synchronize();
        rcu::barrier();
        assert!(find().is_none());
        assert_eq!(entered.value, 3);
        assert!(!gone.load(Acquire));
        drop(entered);
        drop(owner);
        assert!(gone.load(Acquire));
        Ok(())
    }
}
