// SPDX-License-Identifier: GPL-2.0

//! `rdma::workqueue`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_workqueue)]
mod tests {
    use crate::context;
    use kernel::impl_has_delayed_work;
    use kernel::impl_has_work;
    use kernel::new_delayed_work;
    use kernel::new_work;
    use kernel::prelude::*;
    use kernel::sync::atomic::Acquire;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Full;
    use kernel::sync::atomic::Release;
    use kernel::sync::Arc;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use kernel::workqueue::DelayedWork;
    use kernel::workqueue::Work;
    use kernel::workqueue::WorkItem;
    use rdma::workqueue;
    use rdma::workqueue::QueueOptions;

    #[pin_data]
    struct Job {
        #[pin]
        now: Work<Job>,
        #[pin]
        later: DelayedWork<Job, 1>,
        slow: bool,
        ran: Atomic<i32>,
        in_softirq: Atomic<i32>,
    }

    impl_has_work! {
        impl HasWork<Self> for Job { self.now }
    }
    impl_has_delayed_work! {
        impl HasDelayedWork<Self, 1> for Job { self.later }
    }

    impl WorkItem for Job {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            if this.slow {
                fsleep(Delta::from_millis(30));
            }
            if context::in_softirq() {
                this.in_softirq.store(1, Release);
            }
            let _: i32 = this.ran.fetch_add(1, Full);
        }
    }

    impl WorkItem<1> for Job {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            let _: i32 = this.ran.fetch_add(100, Full);
        }
    }

    impl Job {
        fn new(slow: bool) -> Result<Arc<Self>> {
            Self::with(new_work!("Job::now"), slow)
        }

        /// For softirq: lockdep wants to tell such work from a thread's.
        fn new_bh() -> Result<Arc<Self>> {
            Self::with(new_work!("Job::now_bh"), false)
        }

        fn with(now: impl PinInit<Work<Job>>, slow: bool) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    now <- now,
                    later <- new_delayed_work!("Job::later"),
                    slow,
                    ran: Atomic::new(0),
                    in_softirq: Atomic::new(0),
                }),
                GFP_KERNEL,
            )
        }
    }

    #[test]
    fn every_kind_of_queue_runs_work() -> Result {
        let kinds = [
            (QueueOptions::per_cpu().create(c"rdma_kunit_cpu")?, 0),
            (
                QueueOptions::per_cpu()
                    .high_priority()
                    .create(c"rdma_kunit_hi")?,
                0,
            ),
            (
                QueueOptions::unbound()
                    .mem_reclaim()
                    .create(c"rdma_kunit_unb")?,
                0,
            ),
            (QueueOptions::ordered().create(c"rdma_kunit_ord")?, 0),
            (QueueOptions::bh().create(c"rdma_kunit_bh")?, 1),
            (
                QueueOptions::bh()
                    .high_priority()
                    .create(c"rdma_kunit_bhhi")?,
                1,
            ),
        ];
        for (queue, in_softirq) in &kinds {
            let job = match in_softirq {
                0 => Job::new(false)?,
                _ => Job::new_bh()?,
            };
            assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
            queue.flush();
            assert_eq!(job.ran.load(Acquire), 1);
            assert_eq!(job.in_softirq.load(Acquire), *in_softirq);
            assert!(Arc::into_unique_or_drop(job).is_some());
        }
        Ok(())
    }

    #[test]
    fn dropping_a_queue_finishes_its_work() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_drop")?;
        let job = Job::new(true)?;
        assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
        drop(queue);
        assert_eq!(job.ran.load(Acquire), 1);
        Ok(())
    }

    #[test]
    fn flush_waits_for_one_item() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_flush")?;
        let job = Job::new(true)?;
        assert!(!workqueue::flush::<Job, 0>(&job));
        assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
        assert!(workqueue::flush::<Job, 0>(&job));
        assert_eq!(job.ran.load(Acquire), 1);
        queue.drain();
        Ok(())
    }

    #[test]
    fn cancel_gives_the_reference_back() -> Result {
        // Behind a slow job on an ordered queue, the second cannot have started.
        let queue = QueueOptions::ordered().create(c"rdma_kunit_cancel")?;
        let slow = Job::new(true)?;
        let job = Job::new(false)?;
        assert!(queue.enqueue::<_, 0>(slow.clone()).is_ok());
        assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
        assert!(queue.enqueue::<_, 0>(job.clone()).is_err());
        let back = workqueue::cancel::<Job, 0>(&job).ok_or(ENOENT)?;
        assert!(Arc::ptr_eq(&back, &job));
        assert!(workqueue::cancel::<Job, 0>(&job).is_none());
        drop(back);
        queue.flush();
        assert_eq!(slow.ran.load(Acquire), 1);
        assert_eq!(job.ran.load(Acquire), 0);
        // It can be used again.
        assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
        queue.flush();
        assert_eq!(job.ran.load(Acquire), 1);
        assert!(Arc::into_unique_or_drop(job).is_some());
        Ok(())
    }

    #[test]
    fn disabled_work_is_refused() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_dis")?;
        let job = Job::new(false)?;
        assert!(workqueue::disable::<Job, 0>(&job).is_none());
        assert!(queue.enqueue::<_, 0>(job.clone()).is_err());
        queue.flush();
        assert_eq!(job.ran.load(Acquire), 0);
        assert!(Arc::into_unique_or_drop(job).is_some());
        Ok(())
    }

    #[test]
    fn delayed_work_can_be_cancelled() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_later")?;
        let job = Job::new(false)?;
        let long = kernel::time::msecs_to_jiffies(600_000);
        assert!(queue.enqueue_delayed::<_, 1>(job.clone(), long).is_ok());
        assert!(queue.enqueue_delayed::<_, 1>(job.clone(), long).is_err());
        assert!(workqueue::cancel_delayed::<Job, 1>(&job).is_some());
        assert!(workqueue::cancel_delayed::<Job, 1>(&job).is_none());
        assert!(queue.enqueue_delayed::<_, 1>(job.clone(), 1).is_ok());
        fsleep(Delta::from_millis(40));
        queue.flush();
        assert_eq!(job.ran.load(Acquire), 100);
        assert!(Arc::into_unique_or_drop(job).is_some());
        Ok(())
    }
}
