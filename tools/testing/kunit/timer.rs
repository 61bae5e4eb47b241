// SPDX-License-Identifier: GPL-2.0

//! `rdma::timer`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_timer)]
mod tests {
    use crate::context;
    use kernel::prelude::*;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Full;
    use kernel::sync::atomic::Release;
    use kernel::sync::Arc;
    use kernel::sync::ArcBorrow;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use rdma::impl_has_timer;
    use rdma::new_timer;
    use rdma::timer;
    use rdma::timer::Armed;
    use rdma::timer::Timer;
    use rdma::timer::TimerCallback;
    use rdma::workqueue::QueueOptions;

    #[pin_data]
    struct Clock {
        before: u64,
        #[pin]
        once: Timer<Clock>,
        #[pin]
        thrice: Timer<Clock, 1>,
        ran: Atomic<i32>,
        ran_thrice: Atomic<i32>,
        wrong_context: Atomic<i32>,
    }

    impl_has_timer! {
        impl HasTimer for Clock { self.once }
        impl HasTimer<1> for Clock { self.thrice }
    }

    impl TimerCallback for Clock {
        fn run(this: ArcBorrow<'_, Self>) {
            if !context::in_softirq() || this.before != 0x1234 {
                this.wrong_context.store(1, Release);
            }
            let _: i32 = this.ran.fetch_add(1, Full);
        }
    }

    impl TimerCallback<1> for Clock {
        fn run(this: ArcBorrow<'_, Self>) {
            if this.ran_thrice.fetch_add(1, Full) < 2 {
                Timer::<Self, 1>::arm_after(this, Delta::from_millis(1));
            }
        }
    }

    impl Clock {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    before: 0x1234,
                    once <- new_timer!("Clock::once"),
                    thrice <- new_timer!("Clock::thrice"),
                    ran: Atomic::new(0),
                    ran_thrice: Atomic::new(0),
                    wrong_context: Atomic::new(0),
                }),
                GFP_KERNEL,
            )
        }
    }

    /// Waits up to twenty seconds for `count` to become `n`.
    fn reaches(count: &Atomic<i32>, n: i32) -> bool {
        for _ in 0..10_000 {
            if count.load(Acquire) == n {
                return true;
            }
            fsleep(Delta::from_millis(2));
        }
        false
    }

    /// Whether nobody else has a reference; waits a little for a callback's end.
    fn alone(mut clock: Arc<Clock>) -> bool {
        for _ in 0..100 {
            let other = clock.clone();
            drop(clock);
            clock = other;
            fsleep(Delta::from_millis(1));
        }
        Arc::into_unique_or_drop(clock).is_some()
    }

    #[test]
    fn fires_once_in_softirq_and_not_early() -> Result {
        let clock = Clock::new()?;
        let start = timer::jiffies();
        let armed = Timer::<Clock>::arm_after(clock.as_arc_borrow(), Delta::from_millis(200));
        assert!(armed == Armed::Started);
        assert!(Timer::<Clock>::is_pending(clock.as_arc_borrow()));
        assert!(reaches(&clock.ran, 1));
        let ticks = timer::jiffies().wrapping_sub(start);
        assert!(ticks >= kernel::time::msecs_to_jiffies(200));
        assert!(!Timer::<Clock>::is_pending(clock.as_arc_borrow()));
        assert_eq!(clock.wrong_context.load(Acquire), 0);
        fsleep(Delta::from_millis(30));
        assert_eq!(clock.ran.load(Acquire), 1);
        assert!(alone(clock));
        Ok(())
    }

    #[test]
    fn two_timers_are_apart_and_a_callback_can_rearm() -> Result {
        let clock = Clock::new()?;
        Timer::<Clock, 1>::arm_after(clock.as_arc_borrow(), Delta::from_millis(1));
        assert!(reaches(&clock.ran_thrice, 3));
        assert_eq!(clock.ran.load(Acquire), 0);
        assert!(alone(clock));
        Ok(())
    }

    #[test]
    fn the_pending_timer_keeps_its_object() -> Result {
        let clock = Clock::new()?;
        Timer::<Clock>::arm_after(clock.as_arc_borrow(), Delta::from_secs(600));
        // Armed twice, one reference.
        let again = Timer::<Clock>::arm_after(clock.as_arc_borrow(), Delta::from_secs(300));
        assert!(again == Armed::Already);
        let other = clock.clone();
        assert!(Arc::into_unique_or_drop(other).is_none());
        assert!(Timer::<Clock>::cancel(clock.as_arc_borrow()));
        assert!(!Timer::<Clock>::cancel(clock.as_arc_borrow()));
        assert_eq!(clock.ran.load(Acquire), 0);
        assert!(alone(clock));
        Ok(())
    }

    #[test]
    fn only_an_earlier_time_counts() -> Result {
        let clock = Clock::new()?;
        let soon = timer::after(Delta::from_millis(200));
        let late = timer::after(Delta::from_secs(600));
        let borrow = clock.as_arc_borrow();
        assert!(Timer::<Clock>::arm_if_earlier(borrow, late) == Armed::Started);
        assert!(Timer::<Clock>::arm_if_earlier(borrow, soon) == Armed::Already);
        assert!(Timer::<Clock>::arm_if_earlier(borrow, late) == Armed::Already);
        assert!(reaches(&clock.ran, 1));
        assert!(alone(clock));
        Ok(())
    }

    #[test]
    fn after_shutdown_nothing_runs() -> Result {
        let clock = Clock::new()?;
        Timer::<Clock>::arm_after(clock.as_arc_borrow(), Delta::from_secs(600));
        Timer::<Clock>::shutdown(&clock);
        Timer::<Clock>::shutdown(&clock);
        let armed = Timer::<Clock>::arm_at(clock.as_arc_borrow(), timer::jiffies());
        assert!(armed == Armed::Refused);
        fsleep(Delta::from_millis(20));
        assert_eq!(clock.ran.load(Acquire), 0);
        assert!(alone(clock));
        Ok(())
    }

    /// Somebody arms all the time while the timer is shut down.
    #[test]
    fn shutdown_races_with_arming() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_timer", rdma::resident!())?;
        for round in 0..50 {
            let clock = Clock::new()?;
            let stopped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
            let other = clock.clone();
            let signal = stopped.clone();
            queue.try_spawn(GFP_KERNEL, move || {
                while Timer::<Clock>::arm_at(other.as_arc_borrow(), timer::jiffies())
                    != Armed::Refused
                {}
                drop(other);
                signal.store(1, Release);
            })?;
            fsleep(Delta::from_micros(200 * (round % 10)));
            Timer::<Clock>::shutdown(&clock);
            let ran = clock.ran.load(Acquire);
            assert!(reaches(&stopped, 1));
            fsleep(Delta::from_millis(5));
            assert_eq!(clock.ran.load(Acquire), ran);
            assert!(!Timer::<Clock>::is_pending(clock.as_arc_borrow()));
            assert!(Arc::into_unique_or_drop(clock).is_some());
        }
        Ok(())
    }

    #[test]
    fn delays_convert_without_being_cut_short() {
        // The clock may tick while we look, hence the margin of a second.
        let margin = kernel::time::msecs_to_jiffies(1000);
        let now = timer::jiffies();
        let past = timer::after(Delta::from_secs(-5)).wrapping_sub(now);
        assert!(past >= 1 && past <= margin);
        let tiny = timer::after(Delta::from_nanos(1)).wrapping_sub(now);
        assert!(tiny >= 2 && tiny <= margin);
        // Beyond 2^32 microseconds, where the kernel's own conversion gives up.
        let hours = timer::after(Delta::from_secs(10_000)).wrapping_sub(now);
        let exact = kernel::time::msecs_to_jiffies(10_000_000);
        assert!(hours > exact && hours <= exact + margin);
        let ever = timer::after(Delta::from_nanos(i64::MAX)).wrapping_sub(now);
        assert!(ever > hours && ever < usize::MAX / 2);
    }
}
