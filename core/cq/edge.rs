// SPDX-License-Identifier: GPL-2.0

//! FFI of completion queues that the core polls: the polling state in `struct ib_cq`, and the
//! rights to it as types.
//!
//! | type | right | made from |
//! |---|---|---|
//! | [`NewPolled`] | a queue under construction, set up for its context | [`New`] |
//! | [`Made`] | a queue that the driver has created | [`NewPolled::make`] |
//! | [`OwnedPolled`] | only the polling uses the queue | [`Made::finish`], C |
//! | [`Untracked`] | restrack readers do not find the queue | [`OwnedPolled::untrack`] |
//! | [`Stopped`] | the queue is not polled any more | [`Untracked::stop`] |
//! | [`Unmeasured`] | nor moderated: it may be destroyed | [`Stopped::end_measure`] |
//! | [`Polled`] | a queue whose completions the core may take | the others, C |
//! | [`By`] | same, polled in softirq or by a work item | C |
//! | [`Turn`] | to poll the queue now, on one CPU at a time | `irq_poll`, the workqueue |
//! | [`Measured`] | to apply the choice of adaptive moderation | the workqueue |
//!
//! `marker` drains the requests of a queue pair; `pools` has the shared queues of a device.
//!
//! Must match `include/rdma/ib_verbs.h`, `include/linux/irq_poll.h`, `include/linux/dim.h`.

pub(crate) mod marker;
pub(super) mod pools;

use super::Context;
use crate::object::tables::CqMake;
use crate::object::Cq;
use crate::object::New;
use crate::object::Object;
use crate::object::Owned;
use crate::private;
use crate::restrack::OwnerRef;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Given;
use rdma::edge::verbs::Dim;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::workqueue::CWork;
use rdma::workqueue::QueueLease;

/// Maximum number of completions polled at once.
pub(super) const BATCH: u32 = 16;

/// Buffer for work completions.
pub(super) type Room<const N: usize> = [MaybeUninit<bindings::ib_wc>; N];

/// Polling resources of a queue: a buffer for completions, and a lease of the workqueue that is its
/// `comp_wq`.
#[repr(C)]
pub(super) struct Batch {
    room: Room<{ BATCH as usize }>,
    queue: Option<QueueLease>,
}

impl Batch {
    /// `queue` is the workqueue that polls the queue, if work items poll it.
    pub(super) fn new(queue: Option<QueueLease>) -> Result<KBox<Self>> {
        let room = [const { MaybeUninit::uninit() }; BATCH as usize];
        Ok(KBox::new(Self { room, queue }, GFP_KERNEL)?)
    }
}

/// Offset of the polling part of a queue: an `irq_poll` or a `work_struct`.
const PART: usize = offset_of!(bindings::ib_cq, __bindgen_anon_1);

/// Returns the polling part of a queue.
fn part<T>(cq: *mut bindings::ib_cq) -> *mut T {
    cq.wrapping_byte_add(PART).cast()
}

/// Returns the queue that contains this polling part.
fn whole<T>(part: *mut T) -> *mut bindings::ib_cq {
    part.wrapping_byte_sub(PART).cast()
}

/// A queue of a kernel consumer. Its completions identify requests by `wr_cqe`, so the core can
/// call back.
///
/// # Invariants
///
/// `0` is the queue of an [`OwnedPolled`], or an argument of `ib_process_cq_direct`, which requires
/// the same of its completions.
#[derive(Clone, Copy)]
pub(crate) struct Polled<'a>(&'a Cq);

impl Deref for Polled<'_> {
    type Target = Cq;

    #[inline(always)]
    fn deref(&self) -> &Cq {
        self.0
    }
}

/// Method of polling.
pub(super) trait How {
    /// Type of the polling part of the queue.
    type Part: View;
}

/// Polled in softirq.
pub(super) struct Softirq;
/// Polled by a work item.
pub(super) struct Work;

impl How for Softirq {
    type Part = IrqPoll;
}

impl How for Work {
    type Part = CWork;
}

/// A queue that is polled by method `In`.
///
/// # Invariants
///
/// [`NewPolled::set_up`] has initialised the polling part: an `irq_poll` for [`Softirq`], a
/// `work_struct` for [`Work`]. In the latter case `comp_wq` exists: the queue's [`Batch`] holds a
/// lease of it.
pub(super) struct By<'a, In: How>(Polled<'a>, PhantomData<In>);

rdma::argument! {
    impl<'a> Polled<'a> = |cq: &'a Cq| Polled(cq);
    impl<'a> By<'a, Softirq> = |cq: &'a Cq| By(Polled(cq), PhantomData);
    impl<'a> By<'a, Work> = |cq: &'a Cq| By(Polled(cq), PhantomData);
    impl<'a> Returned = |cq: Given<Cq>| Returned(cq.owned().ok().map(OwnedPolled));
}

rdma::c_struct! {
    /// An `irq_poll` in a C structure. A reference implies that it is initialised.
    pub(super) struct IrqPoll: bindings::irq_poll;
    fields {}
}

rdma::import! {
    in rdma::bindings;

    /// Tracepoints.
    pub(super) fn trace_process(cq: &Cq) = rdma_helper_trace_cq_process;
    pub(super) fn trace_poll(cq: &Cq, wanted: c_int, polled: c_int) = rdma_helper_trace_cq_poll;
    pub(super) fn trace_schedule(cq: &Cq) = rdma_helper_trace_cq_schedule;
    pub(super) fn trace_reschedule(cq: &Cq) = rdma_helper_trace_cq_reschedule;
    pub(super) fn trace_modify(cq: &Cq, completions: u16, usec: u16)
        = rdma_helper_trace_cq_modify;
    pub(super) fn trace_alloc(cq: &Cq, size: c_int, vector: c_int, context: u32)
        = rdma_helper_trace_cq_alloc;
    pub(super) fn trace_alloc_error(size: c_int, vector: c_int, context: u32, error: c_int)
        = rdma_helper_trace_cq_alloc_error;
    pub(super) fn trace_free(cq: &Cq) = rdma_helper_trace_cq_free;
    pub(crate) fn trace_drain_complete(cq: &Cq) = rdma_helper_trace_cq_drain_complete;
    /// Number of online CPUs.
    pub(super) fn online_cpus() -> u32 = rdma_helper_num_online_cpus;
}

rdma::import! {
    in crate::private;

    /// Schedules the `irq_poll`. Any context.
    fn irq_poll_sched(part: &IrqPoll) = irq_poll_sched;
    /// Ends a run, so that the `irq_poll` can be scheduled again.
    fn irq_poll_complete(turn: Turn<'_, Softirq>) = irq_poll_complete;
    /// Waits for a run to end and prevents further ones. Must be called only once. May sleep.
    fn irq_poll_disable(part: &IrqPoll) = irq_poll_disable;
}

/// A queue and its driver's `poll_cq` method.
pub(super) struct Poller<'a> {
    cq: Polled<'a>,
    poll: unsafe extern "C" fn(*mut bindings::ib_cq, c_int, *mut bindings::ib_wc) -> c_int,
}

impl<'a> Polled<'a> {
    /// Returns the queue with its driver's `poll_cq` method.
    #[inline(always)]
    pub(super) fn poller(self) -> Option<Poller<'a>> {
        let poll = self.device().ops().poll_cq?;
        Some(Poller { cq: self, poll })
    }

    /// Arms the queue for an event (`enum ib_cq_notify_flags`). Positive: completions may be
    /// pending for which no event comes. Negative: the driver failed.
    #[inline(always)]
    pub(super) fn notify(self, flags: u32) -> c_int {
        self.driver().req_notify_cq(flags)
    }
}

impl Poller<'_> {
    /// Polls up to `wanted` completions, limited by `room`, and calls back for each. Returns their
    /// number, or `None` if the driver fails.
    #[inline(always)]
    pub(super) fn turn(
        &self,
        wanted: u32,
        room: &mut [MaybeUninit<bindings::ib_wc>],
    ) -> Option<u32> {
        // CAST: buffers are small arrays.
        let wanted = wanted.min(room.len() as u32);
        let room: *mut bindings::ib_wc = room.as_mut_ptr().cast();
        let cq = self.cq.raw();
        // SAFETY: `room` holds `wanted` completions; the method is from the queue's own driver.
        let polled = unsafe { (self.poll)(cq, wanted as c_int, room) };
        trace_poll(&self.cq, wanted as c_int, polled);
        let polled = u32::try_from(polled).ok()?.min(wanted);
        for at in 0..polled as usize {
            // SAFETY: The driver has written `polled` completions, within `room`. They identify
            // requests by `wr_cqe` (invariant of `Polled`). The consumer of a request keeps its
            // `cqe` until then, possibly unaligned in a packed structure (as in iSER).
            unsafe {
                let wc = room.add(at);
                let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
                if cqe.is_null() {
                    kernel::warn_on!((*wc).status == bindings::ib_wc_status_IB_WC_SUCCESS);
                } else if let Some(consume) = (&raw const (*cqe).done).read_unaligned() {
                    consume(cq, wc);
                }
            }
        }
        Some(polled)
    }
}

impl<'a, In: How> By<'a, In> {
    /// The queue.
    #[inline(always)]
    pub(super) fn cq(&self) -> Polled<'a> {
        self.0
    }

    /// The polling part of the queue.
    #[inline(always)]
    fn part(&self) -> &'a In::Part {
        // SAFETY: The polling part is initialised as an `In::Part` (type invariant) and is a field
        // of the queue.
        unsafe { View::view(part(self.0.raw())) }
    }
}

impl By<'_, Softirq> {
    /// Schedules polling. Any context.
    #[inline(always)]
    pub(super) fn schedule(self) {
        irq_poll_sched(self.part());
    }
}

impl By<'_, Work> {
    /// Schedules polling, unless it is queued already. Any context.
    #[inline(always)]
    pub(super) fn schedule(self) {
        let cq = self.0.raw();
        // SAFETY: The work item is initialised and the workqueue exists (type invariant); `comp_wq`
        // is written before the driver has the queue.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                (*cq).comp_wq,
                self.part().raw(),
            );
        }
    }
}

/// The right to poll a queue, including the use of its batch and its moderation data.
///
/// # Invariants
///
/// Only one exists at a time: an `irq_poll` runs on one CPU until `irq_poll_complete`, and a work
/// item does not run concurrently with itself. [`Untracked::stop`] waits for it.
pub(super) struct Turn<'a, In: How> {
    by: By<'a, In>,
    _batch: PhantomData<&'a mut Batch>,
}

/// Converts the polling part that the kernel runs to the right to poll.
macro_rules! turns {
    ($($run:ident($part:ident);)*) => { $(
        // SAFETY: `from_c`'s contract: the kernel runs the polling part of a queue of this method.
        unsafe impl<'a> FromC for Turn<'a, $run> {
            type C = *mut bindings::$part;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: `from_c`'s contract. The queue is valid: `stop` waits for running turns.
                let by = unsafe { FromC::from_c(whole(c)) };
                // INVARIANT: A polling part runs on one CPU at a time.
                Self {
                    by,
                    _batch: PhantomData,
                }
            }
        }
        // SAFETY: The value is bounded by `'a`.
        unsafe impl<'a> Within<'a> for Turn<'a, $run> {}
    )* };
}

turns! {
    Softirq(irq_poll);
    Work(work_struct);
}

impl IntoC<*mut bindings::irq_poll> for Turn<'_, Softirq> {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::irq_poll {
        self.by.part().raw()
    }
}

impl<'a, In: How> Turn<'a, In> {
    /// The queue.
    #[inline(always)]
    pub(super) fn cq(&self) -> Polled<'a> {
        self.by.cq()
    }

    /// Buffer for completions.
    #[inline(always)]
    pub(super) fn room(&mut self) -> &mut Room<{ BATCH as usize }> {
        // SAFETY: `wc` is the buffer of a `Batch`. It is written before the driver has the queue
        // and freed after the last turn; nobody else uses it meanwhile (type invariant).
        unsafe { &mut *(*self.cq().raw()).wc.cast() }
    }

    /// Reports the number of completions of this turn to adaptive moderation.
    #[inline(always)]
    pub(super) fn measure(&mut self, completions: u32) {
        // SAFETY: `dim` is written only before the first and after the last turn. Its only other
        // user is its work item, which the library allows (type invariant).
        unsafe {
            let dim = (*self.cq().raw()).dim;
            if !dim.is_null() {
                private::rdma_dim(dim, completions.into());
            }
        }
    }
}

impl<'a> Turn<'a, Softirq> {
    /// Ends the turn, so that the queue can be scheduled again.
    #[inline(always)]
    pub(super) fn complete(self) -> By<'a, Softirq> {
        // INVARIANT: Same as `self.by`.
        let by = By(self.cq(), PhantomData);
        irq_poll_complete(self);
        by
    }
}

impl<'a> Turn<'a, Work> {
    /// Schedules another turn after this one.
    #[inline(always)]
    pub(super) fn again(self) {
        self.by.schedule();
    }
}

rdma::callback! {
    /// Callback of `irq_poll`.
    fn softirq(turn: Turn<'_, Softirq>, budget: c_int) -> c_int = super::poll::on_softirq;
    /// Callback of workqueues.
    fn work(turn: Turn<'_, Work>) = super::poll::on_work;
    /// Completion handler for drivers; so are the next two.
    fn softirq_event(cq: By<'_, Softirq>, _context: Passed<c_void>) = super::poll::event_for_softirq;
    fn work_event(cq: By<'_, Work>, _context: Passed<c_void>) = super::poll::event_for_work;
    fn other_event(_cq: Passed<bindings::ib_cq>, _context: Passed<c_void>)
        = super::poll::event_for_nobody;
    /// Callback of workqueues.
    fn measured(measured: Measured<'_>) = super::moderation::apply;
}

/// A queue under construction that the core will poll.
///
/// # Invariants
///
/// Polling context, polling part, `wc` and `comp_wq` are set up consistently; `batch` is what `wc`
/// points to.
pub(super) struct NewPolled {
    cq: New<Cq>,
    batch: KBox<Batch>,
}

impl NewPolled {
    /// Sets up a queue for polling in a context, before the driver has it. `budget` is that of
    /// `irq_poll`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the batch has no workqueue where one is needed.
    pub(super) fn set_up(
        mut cq: New<Cq>,
        mut batch: KBox<Batch>,
        context: Context,
        budget: c_int,
    ) -> Result<Self> {
        let c = cq.sole();
        // SAFETY: The queue has no other user and does not move (`New`); its polling part is
        // zeroed. The batch is boxed, so its address is stable while the queue exists.
        unsafe {
            let handler: unsafe extern "C" fn(*mut bindings::ib_cq, *mut c_void) = match context {
                Context::Direct => other_event,
                Context::Softirq => {
                    private::irq_poll_init(part(c), budget, Some(softirq));
                    softirq_event
                }
                Context::Workqueue | Context::Unbound => {
                    (*c).comp_wq = batch.queue.as_ref().ok_or(EINVAL)?.as_raw();
                    bindings::rdma_helper_init_work(part(c), Some(work));
                    work_event
                }
            };
            (*c).poll_ctx = context.into_raw();
            (*c).wc = core::ptr::from_mut(&mut *batch).cast();
            (*c).comp_handler = Some(handler);
        }
        // INVARIANT: Just set up.
        Ok(Self { cq, batch })
    }

    /// Has the driver create the queue.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(super) fn make(self, attr: &CqMake) -> Result<Made> {
        self.cq.driver().create_cq(In(attr), None)?;
        // INVARIANT: The driver has just created the queue.
        Ok(Made(self))
    }
}

/// A queue that the driver has created and that has no users yet.
///
/// # Invariants
///
/// The driver has created the queue. Nobody polls it.
pub(super) struct Made(NewPolled);

impl Deref for Made {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0.cq
    }
}

impl Made {
    /// The queue.
    pub(super) fn polled(&self) -> Polled<'_> {
        // INVARIANT: The queue becomes an `OwnedPolled`; consumers do not have it yet.
        Polled(self)
    }

    /// Starts adaptive moderation, unless it has started already.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn begin_measure(&mut self) -> Result {
        if !self.dim().is_empty() {
            return Ok(());
        }
        // CAST: the constants fit into their 8-bit fields.
        let dim = bindings::dim {
            state: private::dim_state_DIM_START_MEASURE as u8,
            tune_state: private::dim_tune_state_DIM_GOING_RIGHT as u8,
            profile_ix: private::RDMA_DIM_START_PROFILE as u8,
            priv_: self.raw().cast(),
            ..Default::default()
        };
        let mut dim = KBox::new(dim, GFP_KERNEL)?;
        // SAFETY: `dim` is not shared yet. It is boxed, so its address is stable until
        // `Stopped::end_measure`.
        unsafe { bindings::rdma_helper_init_work(&mut dim.work, Some(measured)) };
        // The old value is `None`, as checked above.
        let _: Option<Owned<Dim>> = self.dim().put(Some(Owned::of_box(dim)));
        Ok(())
    }

    /// Completes the construction; restrack readers may find the queue from now on.
    pub(super) fn finish(self) -> OwnedPolled {
        let NewPolled { cq, batch } = self.0;
        // The queue owns the batch from now on; `Unmeasured::destroy` frees it.
        let _: *mut Batch = KBox::into_raw(batch);
        // INVARIANT: This is `Made::finish`.
        OwnedPolled(cq.finish())
    }
}

/// A queue of `ib_alloc_cq` or of a pool. Only the polling uses it.
///
/// # Invariants
///
/// [`Made::finish`] returned the queue.
#[must_use = "a queue that is not given to C is never freed"]
pub(crate) struct OwnedPolled(Owned<Cq>);

impl Deref for OwnedPolled {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

/// A queue of `ib_alloc_cq` that its consumer returns, or null.
pub(super) struct Returned(pub(super) Option<OwnedPolled>);

impl AnswerOk for OwnedPolled {
    type C = *mut bindings::ib_cq;

    fn ok(self) -> Self::C {
        self.0.ok()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

impl OwnedPolled {
    /// Deletes the restrack entry and waits for its readers. May sleep.
    pub(super) fn untrack(mut self) -> Untracked {
        if let Some(mut entry) = OwnerRef::of(&mut self.0) {
            entry.del();
        }
        // INVARIANT: The entry has just been deleted.
        Untracked(self)
    }

    /// Sets whether the queue belongs to a pool.
    pub(super) fn set_shared(&mut self, shared: bool) {
        Cq::set_shared(&mut self.0, shared);
    }
}

/// A queue that restrack readers do not find any more.
///
/// # Invariants
///
/// The queue has no restrack entry; only the polling uses it.
pub(super) struct Untracked(OwnedPolled);

impl Deref for Untracked {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

impl Untracked {
    /// Calls the driver's `pre_destroy_cq`, if there is one.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(super) fn announce_end(&mut self) -> Result {
        match self.device().ops().pre_destroy_cq {
            // SAFETY: The method is from the queue's own driver; nobody uses the queue (`Owned`).
            Some(stop) => crate::object::outcome(unsafe { stop(self.raw()) }),
            None => Ok(()),
        }
    }

    /// Ends the polling and waits for a running turn. Later events have no effect. May sleep.
    pub(super) fn stop(self) -> Stopped {
        let cq = Polled(&self);
        match Context::from_raw(self.poll_ctx()) {
            Some(Context::Direct) => {}
            Some(Context::Softirq) => {
                // INVARIANT: The polling part is an `irq_poll` in this context (invariant of
                // `NewPolled`).
                irq_poll_disable(By::<Softirq>(cq, PhantomData).part());
                // `irq_poll_disable` waits only for `irq_poll_complete`, after which the softirq
                // still rearms the queue.
                rdma::sync::rcu::synchronize();
            }
            Some(Context::Workqueue | Context::Unbound) => {
                // INVARIANT: The polling part is a work item in this context (invariant of
                // `NewPolled`).
                let _was_queued: bool = By::<Work>(cq, PhantomData).part().disable();
            }
            None => {
                kernel::warn_on!(true);
            }
        }
        // INVARIANT: No turn is running, and none starts.
        Stopped(self.0)
    }
}

/// A queue that is not polled any more.
///
/// # Invariants
///
/// There is no [`Turn`] of the queue, and none starts. It is [`Untracked`].
pub(super) struct Stopped(OwnedPolled);

impl Stopped {
    /// Ends adaptive moderation, if there is any. May sleep.
    pub(super) fn end_measure(self) -> Unmeasured {
        if let Some(dim) = self.0.dim().take() {
            // Only turns queue the work, and there are none (type invariant).
            let _was_queued: bool = dim.work().cancel();
            drop(dim.into_box());
        }
        // INVARIANT: Moderation has just ended.
        Unmeasured(self.0)
    }
}

/// A queue that is neither polled nor moderated any more.
///
/// # Invariants
///
/// Those of [`Stopped`]; adaptive moderation has ended.
pub(super) struct Unmeasured(OwnedPolled);

impl Deref for Unmeasured {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

impl Unmeasured {
    /// Has the driver destroy the queue, then frees it. May sleep.
    pub(super) fn destroy(self) {
        let ops = self.device().ops();
        let cq = self.raw();
        // SAFETY: Nobody uses the queue (`Owned`, and the type invariant). The methods are from its
        // own driver, and the device outlives it. `NewPolled` allocated the batch, `New` the
        // memory.
        unsafe {
            match (ops.post_destroy_cq, ops.destroy_cq) {
                (Some(destroy), _) => destroy(cq),
                (None, Some(destroy)) => {
                    // Destroying a kernel queue must not fail.
                    kernel::warn_on!(destroy(cq, core::ptr::null_mut()) != 0);
                }
                (None, None) => {}
            }
            drop(KBox::<Batch>::from_raw((*cq).wc.cast()));
            bindings::kfree(cq.cast());
        }
    }
}

/// Adaptive moderation data for which the library has chosen a new profile.
///
/// # Invariants
///
/// `0` is from [`Made::begin_measure`]. The library has queued its work and does not touch it until
/// its state is `DIM_START_MEASURE` again. [`Stopped::end_measure`] waits for the work.
pub(super) struct Measured<'a>(NonNull<bindings::dim>, PhantomData<&'a Cq>);

// SAFETY: `from_c`'s contract: a workqueue runs the work item of a `dim`.
unsafe impl FromC for Measured<'_> {
    type C = *mut bindings::work_struct;

    unsafe fn from_c(work: Self::C) -> Self {
        const WORK: usize = offset_of!(bindings::dim, work);
        // SAFETY: Not null. INVARIANT: `from_c`'s contract.
        let dim = unsafe { NonNull::new_unchecked(work.wrapping_byte_sub(WORK).cast()) };
        Self(dim, PhantomData)
    }
}
// SAFETY: The value is bounded by `'a`.
unsafe impl<'a> Within<'a> for Measured<'a> {}

impl<'a> Measured<'a> {
    /// Returns the index of the new profile, and the queue. The library then resumes measuring.
    pub(super) fn take(self) -> (usize, &'a Cq) {
        let dim = self.0.as_ptr();
        // SAFETY: `dim` is valid, and exclusively ours until the state is written (type invariant).
        // The queue outlives it.
        unsafe {
            let (profile, cq) = ((*dim).profile_ix, (*dim).priv_.cast());
            // CAST: the constant fits into 8 bits.
            (*dim).state = private::dim_state_DIM_START_MEASURE as u8;
            (usize::from(profile), Cq::view(cq))
        }
    }
}
