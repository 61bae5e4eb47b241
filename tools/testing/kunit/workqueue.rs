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
    use kernel::time::Instant;
    use kernel::time::Monotonic;
    use kernel::workqueue::DelayedWork;
    use kernel::workqueue::Work;
    use kernel::workqueue::WorkItem;
    use rdma::workqueue;
    use rdma::workqueue::Delayed;
    use rdma::workqueue::OwnedQueue;
    use rdma::workqueue::QueueLease;
    use rdma::workqueue::QueueOptions;

    #[pin_data]
    struct Job {
        #[pin]
        now: Work<Job>,
        slow: bool,
        ran: Atomic<i32>,
        in_softirq: Atomic<i32>,
    }

    /// A job for later.
    #[pin_data]
    struct Late {
        #[pin]
        later: DelayedWork<Late>,
        ran: Atomic<i32>,
        lease: QueueLease,
    }

    impl_has_work! {
        impl HasWork<Self> for Job { self.now }
    }
    impl_has_delayed_work! {
        impl HasDelayedWork<Self> for Late { self.later }
    }

    impl Delayed for Late {
        fn lease(&self) -> &QueueLease {
            &self.lease
        }
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

    impl WorkItem for Late {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            let _: i32 = this.ran.fetch_add(100, Full);
        }
    }

    impl Late {
        fn new(queue: &OwnedQueue) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    later <- new_delayed_work!("Late::later"),
                    ran: Atomic::new(0),
                    lease: queue.lease(),
                }),
                GFP_KERNEL,
            )
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
            (
                QueueOptions::per_cpu().create(c"rdma_kunit_cpu", rdma::resident!())?,
                0,
            ),
            (
                QueueOptions::per_cpu()
                    .high_priority()
                    .create(c"rdma_kunit_hi", rdma::resident!())?,
                0,
            ),
            (
                QueueOptions::unbound()
                    .mem_reclaim()
                    .create(c"rdma_kunit_unb", rdma::resident!())?,
                0,
            ),
            (
                QueueOptions::ordered().create(c"rdma_kunit_ord", rdma::resident!())?,
                0,
            ),
            (
                QueueOptions::bh().create(c"rdma_kunit_bh", rdma::resident!())?,
                1,
            ),
            (
                QueueOptions::bh()
                    .high_priority()
                    .create(c"rdma_kunit_bhhi", rdma::resident!())?,
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
        let queue = QueueOptions::unbound().create(c"rdma_kunit_drop", rdma::resident!())?;
        let job = Job::new(true)?;
        assert!(queue.enqueue::<_, 0>(job.clone()).is_ok());
        drop(queue);
        assert_eq!(job.ran.load(Acquire), 1);
        Ok(())
    }

    #[test]
    fn flush_waits_for_one_item() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_flush", rdma::resident!())?;
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
        let queue = QueueOptions::ordered().create(c"rdma_kunit_cancel", rdma::resident!())?;
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
        let queue = QueueOptions::unbound().create(c"rdma_kunit_dis", rdma::resident!())?;
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
        let queue = QueueOptions::unbound().create(c"rdma_kunit_later", rdma::resident!())?;
        let job = Late::new(&queue)?;
        let long = kernel::time::msecs_to_jiffies(600_000);
        assert!(workqueue::enqueue_delayed::<Late, 0>(job.clone(), long).is_ok());
        assert!(workqueue::enqueue_delayed::<Late, 0>(job.clone(), long).is_err());
        assert!(workqueue::cancel_delayed::<Late, 0>(&job).is_some());
        assert!(workqueue::cancel_delayed::<Late, 0>(&job).is_none());
        assert!(workqueue::enqueue_delayed::<Late, 0>(job.clone(), 1).is_ok());
        // The timer is a softirq's, and that may be late.
        for _ in 0..1_000 {
            if job.ran.load(Acquire) == 100 {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        queue.flush();
        assert_eq!(job.ran.load(Acquire), 100);
        assert!(Arc::into_unique_or_drop(job).is_some());
        Ok(())
    }

    /// A queue whose owner goes waits for work that is still a timer.
    #[test]
    fn dropping_a_queue_waits_for_delayed_work() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_wait", rdma::resident!())?;
        let job = Late::new(&queue)?;
        let soon = kernel::time::msecs_to_jiffies(100);
        let before = Instant::<Monotonic>::now();
        assert!(workqueue::enqueue_delayed::<Late, 0>(job, soon).is_ok());
        drop(queue);
        assert!(before.elapsed().as_millis() >= 90);
        Ok(())
    }

    /// A queue is not destroyed under work that waits for longer than its owner can.
    #[test]
    fn delayed_work_keeps_its_queue() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_keep", rdma::resident!())?;
        let job = Late::new(&queue)?;
        let late = kernel::time::msecs_to_jiffies(10_000);
        assert!(workqueue::enqueue_delayed::<Late, 0>(job.clone(), late).is_ok());
        drop(queue);
        assert_eq!(job.ran.load(Acquire), 0);
        for _ in 0..1_500 {
            if job.ran.load(Acquire) == 100 {
                return Ok(());
            }
            fsleep(Delta::from_millis(10));
        }
        Err(ETIMEDOUT)
    }
}
