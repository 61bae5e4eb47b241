// SPDX-License-Identifier: GPL-2.0

//! `rdma::sync`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_sync)]
mod tests {
    use crate::context;
    use kernel::prelude::*;
    use kernel::sync::Arc;
    use rdma::sync::bh;
    use rdma::sync::new_spinlock_bh;
    use rdma::sync::new_spinlock_irq;
    use rdma::sync::Key;
    use rdma::sync::Keyed;

    #[test]
    fn irq_lock_turns_interrupts_off_and_back() -> Result {
        let lock = Arc::pin_init(new_spinlock_irq!(1, "rdma_kunit::outer"), GFP_KERNEL)?;
        let inner = Arc::pin_init(new_spinlock_irq!(2, "rdma_kunit::inner"), GFP_KERNEL)?;
        assert!(!context::irqs_off());
        {
            let mut outer = lock.lock();
            assert!(context::irqs_off());
            {
                let inner = inner.lock();
                *outer += *inner;
            }
            // The inner guard restores "off", which is what it found.
            assert!(context::irqs_off());
        }
        assert!(!context::irqs_off());
        assert_eq!(*lock.lock(), 3);
        Ok(())
    }

    #[test]
    fn irq_try_lock_fails_while_held() -> Result {
        let lock = Arc::pin_init(new_spinlock_irq!((), "rdma_kunit::try"), GFP_KERNEL)?;
        {
            let held = lock.lock();
            assert!(lock.try_lock().is_none());
            assert!(context::irqs_off());
            drop(held);
        }
        assert!(lock.try_lock().is_some());
        assert!(!context::irqs_off());
        Ok(())
    }

    #[test]
    fn bh_lock_holds_softirqs_off() -> Result {
        let lock = Arc::pin_init(new_spinlock_bh!(7, "rdma_kunit::bh"), GFP_KERNEL)?;
        assert!(!context::bh_off());
        {
            let held = lock.lock();
            assert_eq!(*held, 7);
            assert!(context::bh_off());
            assert!(!context::irqs_off());
            assert!(lock.try_lock().is_none());
            assert!(context::bh_off());
        }
        assert!(!context::bh_off());
        assert!(lock.try_lock().is_some());
        assert!(!context::bh_off());
        Ok(())
    }

    #[test]
    fn keyed_data_is_accessed_with_its_key() -> Result {
        let key = Key::new();
        assert!(key.id() != Key::new().id());
        let (first, second) = (Keyed::new(key.id(), 1), Keyed::new(key.id(), 2));
        let lock = Arc::pin_init(new_spinlock_irq!(key, "rdma_kunit::key"), GFP_KERNEL)?;
        {
            let mut key = lock.lock();
            let sum = first
                .access(&key)
                .copied()
                .zip(second.access(&key).copied());
            assert_eq!(sum, Some((1, 2)));
            *first.access_mut(&mut key).ok_or(EINVAL)? = 3;
        }
        assert_eq!(first.access(&lock.lock()).copied(), Some(3));
        Ok(())
    }

    #[test]
    fn bh_sections_nest() {
        let outer = bh::disable();
        let inner = bh::disable();
        assert!(context::bh_off());
        drop(inner);
        assert!(context::bh_off());
        drop(outer);
        assert!(!context::bh_off());
    }
}
