// SPDX-License-Identifier: GPL-2.0

//! Completion queues that the core polls, at the edge: what the polling keeps in `struct ib_cq`,
//! and the rights to it as types.
//!
//! | type | right | made from |
//! |---|---|---|
//! | [`NewPolled`] | a queue in the making, set up for its context | [`New`] |
//! | [`Made`] | one that the driver has made | [`NewPolled::make`] |
//! | [`OwnedPolled`] | nobody uses the queue but its polling | [`Made::finish`], C |
//! | [`Untracked`] | readers of restrack do not find it | [`OwnedPolled::untrack`] |
//! | [`Stopped`] | it is not polled any more | [`Untracked::stop`] |
//! | [`Unmeasured`] | nor moderated: it may be destroyed | [`Stopped::end_measure`] |
//! | [`Polled`] | a queue whose completions the core may take | the others, C |
//! | [`By`] | the same, polled in softirq or by work | C |
//! | [`Turn`] | to poll it now, which one CPU has at a time | `irq_poll`, the workqueue |
//! | [`Measured`] | to apply what adaptive moderation chose | the workqueue |
//!
//! `marker` waits for the end of a queue pair's requests, `pools` are the shared queues of a device.
//!
//! To be held against `include/rdma/ib_verbs.h`, `include/linux/irq_poll.h`, `include/linux/dim.h`.

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

/// How many completions are taken at once.
pub(super) const BATCH: u32 = 16;

/// Room for some completions.
pub(super) type Room<const N: usize> = [MaybeUninit<bindings::ib_wc>; N];

/// What a queue keeps while the core polls it: room for completions, and a right to the workqueue
/// that it names as `comp_wq`.
#[repr(C)]
pub(super) struct Batch {
    room: Room<{ BATCH as usize }>,
    queue: Option<QueueLease>,
}

impl Batch {
    /// `queue` is the one that the queue is polled on, if it is polled by work.
    pub(super) fn new(queue: Option<QueueLease>) -> Result<KBox<Self>> {
        let room = [const { MaybeUninit::uninit() }; BATCH as usize];
        Ok(KBox::new(Self { room, queue }, GFP_KERNEL)?)
    }
}

/// Where the polling's own part of a queue is: an `irq_poll` or a `work_struct`.
const PART: usize = offset_of!(bindings::ib_cq, __bindgen_anon_1);

/// The polling's own part of a queue.
fn part<T>(cq: *mut bindings::ib_cq) -> *mut T {
    cq.wrapping_byte_add(PART).cast()
}

/// The queue that this is the polling's own part of.
fn whole<T>(part: *mut T) -> *mut bindings::ib_cq {
    part.wrapping_byte_sub(PART).cast()
}

/// A queue of a consumer in the kernel whose completions name requests by `wr_cqe`, so that the
/// core can hand them out.
///
/// # Invariants
///
/// `0` is a queue of [`OwnedPolled`], or one that `ib_process_cq_direct` is asked for, which wants
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

/// How a queue is polled.
pub(super) trait How {
    /// The polling's own part of the queue.
    type Part: View;
}

/// Polled in softirq.
pub(super) struct Softirq;
/// Polled by work.
pub(super) struct Work;

impl How for Softirq {
    type Part = IrqPoll;
}

impl How for Work {
    type Part = CWork;
}

/// A queue that is polled in this context.
///
/// # Invariants
///
/// [`NewPolled::set_up`] has initialised its part: an `irq_poll` for [`Softirq`], a `work_struct`
/// for [`Work`], whose `comp_wq` exists: there is a lease of it in the queue's [`Batch`].
pub(super) struct By<'a, In: How>(Polled<'a>, PhantomData<In>);

rdma::argument! {
    impl<'a> Polled<'a> = |cq: &'a Cq| Polled(cq);
    impl<'a> By<'a, Softirq> = |cq: &'a Cq| By(Polled(cq), PhantomData);
    impl<'a> By<'a, Work> = |cq: &'a Cq| By(Polled(cq), PhantomData);
    impl<'a> Returned = |cq: Given<Cq>| Returned(cq.owned().ok().map(OwnedPolled));
}

rdma::c_struct! {
    /// An `irq_poll` within a C structure. A reference promises that it is initialised.
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
    /// Number of CPUs that are online.
    pub(super) fn online_cpus() -> u32 = rdma_helper_num_online_cpus;
}

rdma::import! {
    in crate::private;

    /// Has it run soon. Any context.
    fn irq_poll_sched(part: &IrqPoll) = irq_poll_sched;
    /// Ends a run, so that it can be scheduled again.
    fn irq_poll_complete(turn: Turn<'_, Softirq>) = irq_poll_complete;
    /// Waits for the run, and has it run no more. Once; may sleep.
    fn irq_poll_disable(part: &IrqPoll) = irq_poll_disable;
}

/// The driver's method that takes completions of a queue.
pub(super) struct Poller<'a> {
    cq: Polled<'a>,
    poll: unsafe extern "C" fn(*mut bindings::ib_cq, c_int, *mut bindings::ib_wc) -> c_int,
}

impl<'a> Polled<'a> {
    /// The driver's method that takes completions.
    #[inline(always)]
    pub(super) fn poller(self) -> Option<Poller<'a>> {
        let poll = self.device().ops().poll_cq?;
        Some(Poller { cq: self, poll })
    }

    /// Has the driver send an event (`enum ib_cq_notify_flags`). Positive: there may be
    /// completions that no event comes for. Negative: the driver cannot.
    #[inline(always)]
    pub(super) fn notify(self, flags: u32) -> c_int {
        self.driver().req_notify_cq(flags)
    }
}

impl Poller<'_> {
    /// Takes completions, `wanted` and what there is room for at most, and hands each to its
    /// consumer. Returns how many, or none if the driver fails.
    #[inline(always)]
    pub(super) fn turn(
        &self,
        wanted: u32,
        room: &mut [MaybeUninit<bindings::ib_wc>],
    ) -> Option<u32> {
        // CAST: Rooms have few places.
        let wanted = wanted.min(room.len() as u32);
        let room: *mut bindings::ib_wc = room.as_mut_ptr().cast();
        let cq = self.cq.raw();
        // SAFETY: There is room for as many; the method is of the queue's own driver.
        let polled = unsafe { (self.poll)(cq, wanted as c_int, room) };
        trace_poll(&self.cq, wanted as c_int, polled);
        let polled = u32::try_from(polled).ok()?.min(wanted);
        for at in 0..polled as usize {
            // SAFETY: The driver has written so many, within the room. They name their requests by
            // `wr_cqe` (invariant of `Polled`); the consumer of a request keeps its `cqe` until
            // then, maybe in a packed structure, where it is not aligned (iSER does).
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

    /// The polling's own part of it.
    #[inline(always)]
    fn part(&self) -> &'a In::Part {
        // SAFETY: It is initialised as such a part (type invariant), and a field of the queue.
        unsafe { View::view(part(self.0.raw())) }
    }
}

impl By<'_, Softirq> {
    /// Has the queue polled soon. Any context.
    #[inline(always)]
    pub(super) fn schedule(self) {
        irq_poll_sched(self.part());
    }
}

impl By<'_, Work> {
    /// Has the queue polled soon, unless it is queued already. Any context.
    #[inline(always)]
    pub(super) fn schedule(self) {
        let cq = self.0.raw();
        // SAFETY: Work is initialised, and the workqueue exists (type invariant); `comp_wq` is
        // written before the driver has the queue.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                (*cq).comp_wq,
                self.part().raw(),
            );
        }
    }
}

/// The right to poll a queue, with its batch and its measure.
///
/// # Invariants
///
/// Nobody else has it: an `irq_poll` runs on one CPU at a time until `irq_poll_complete`, and a
/// work item does. [`Untracked::stop`] waits for it.
pub(super) struct Turn<'a, In: How> {
    by: By<'a, In>,
    _batch: PhantomData<&'a mut Batch>,
}

/// Arguments that are the right to poll, from the part that the kernel runs.
macro_rules! turns {
    ($($run:ident($part:ident);)*) => { $(
        // SAFETY: `from_c`'s contract: the kernel runs the part of a queue that is polled so.
        unsafe impl<'a> FromC for Turn<'a, $run> {
            type C = *mut bindings::$part;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: `from_c`'s contract. The queue lives: `stop` waits for what runs.
                let by = unsafe { FromC::from_c(whole(c)) };
                // INVARIANT: A part runs in one place at a time.
                Self {
                    by,
                    _batch: PhantomData,
                }
            }
        }
        // SAFETY: It is limited to `'a`.
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

    /// Room for completions.
    #[inline(always)]
    pub(super) fn room(&mut self) -> &mut Room<{ BATCH as usize }> {
        // SAFETY: `wc` is the room of a `Batch`, is written before the driver has the queue, and
        // freed after the last turn; nobody else uses it (type invariant).
        unsafe { &mut *(*self.cq().raw()).wc.cast() }
    }

    /// Counts, for adaptive moderation, what was polled in this turn.
    #[inline(always)]
    pub(super) fn measure(&mut self, completions: u32) {
        // SAFETY: The field is written before the queue is polled, and after its last turn;
        // nobody else uses the measure but its work, as the library allows (type invariant).
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
        // INVARIANT: That of `self.by`.
        let by = By(self.cq(), PhantomData);
        irq_poll_complete(self);
        by
    }
}

impl<'a> Turn<'a, Work> {
    /// Has the queue polled again after this turn.
    #[inline(always)]
    pub(super) fn again(self) {
        self.by.schedule();
    }
}

rdma::callback! {
    /// For `irq_poll`.
    fn softirq(turn: Turn<'_, Softirq>, budget: c_int) -> c_int = super::poll::on_softirq;
    /// For workqueues.
    fn work(turn: Turn<'_, Work>) = super::poll::on_work;
    /// For drivers, as the next ones.
    fn softirq_event(cq: By<'_, Softirq>, _context: Passed<c_void>) = super::poll::event_for_softirq;
    fn work_event(cq: By<'_, Work>, _context: Passed<c_void>) = super::poll::event_for_work;
    fn other_event(_cq: Passed<bindings::ib_cq>, _context: Passed<c_void>)
        = super::poll::event_for_nobody;
    /// For workqueues.
    fn measured(measured: Measured<'_>) = super::moderation::apply;
}

/// A queue in the making that the core will poll.
///
/// # Invariants
///
/// Its context, its part, `wc` and `comp_wq` are set up to fit each other; `batch` is what `wc`
/// points to.
pub(super) struct NewPolled {
    cq: New<Cq>,
    batch: KBox<Batch>,
}

impl NewPolled {
    /// Prepares a queue to be polled in a context, before the driver has it. `budget` is that of
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
        // SAFETY: Nobody else has the queue, which does not move (`New`); its part is zeros. The
        // batch stays at its place, in a box, as long as the queue.
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

    /// Has the driver make the queue.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(super) fn make(self, attr: &CqMake) -> Result<Made> {
        self.cq.driver().create_cq(In(attr), None)?;
        // INVARIANT: Just made.
        Ok(Made(self))
    }
}

/// A queue that the driver has made, and that nobody has yet.
///
/// # Invariants
///
/// The driver has made it. Nobody polls it.
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
        // INVARIANT: It will be an `OwnedPolled`; consumers do not have it yet.
        Polled(self)
    }

    /// Begins to measure for adaptive moderation, unless it has.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn begin_measure(&mut self) -> Result {
        if !self.dim().is_empty() {
            return Ok(());
        }
        // CAST: small numbers, of fields with eight bits.
        let dim = bindings::dim {
            state: private::dim_state_DIM_START_MEASURE as u8,
            tune_state: private::dim_tune_state_DIM_GOING_RIGHT as u8,
            profile_ix: private::RDMA_DIM_START_PROFILE as u8,
            priv_: self.raw().cast(),
            ..Default::default()
        };
        let mut dim = KBox::new(dim, GFP_KERNEL)?;
        // SAFETY: Nobody has the measure, which stays at its place, in a box, until
        // `Stopped::end_measure`.
        unsafe { bindings::rdma_helper_init_work(&mut dim.work, Some(measured)) };
        // There was none.
        let _: Option<Owned<Dim>> = self.dim().put(Some(Owned::of_box(dim)));
        Ok(())
    }

    /// Readers of restrack may find it from now on.
    pub(super) fn finish(self) -> OwnedPolled {
        let NewPolled { cq, batch } = self.0;
        // The queue's from now on; `Unmeasured::destroy` frees it.
        let _: *mut Batch = KBox::into_raw(batch);
        // INVARIANT: Set up, with its batch.
        OwnedPolled(cq.finish())
    }
}

/// A queue of `ib_alloc_cq` or of a pool, that nobody uses but its polling.
///
/// # Invariants
///
/// [`Made::finish`] made it.
#[must_use = "a queue that is not given to C is never freed"]
pub(crate) struct OwnedPolled(Owned<Cq>);

impl Deref for OwnedPolled {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

/// A queue of `ib_alloc_cq` that its consumer gives back, or null.
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
    /// Ends its entry of restrack, and waits for the entry's readers. May sleep.
    pub(super) fn untrack(mut self) -> Untracked {
        if let Some(mut entry) = OwnerRef::of(&mut self.0) {
            entry.del();
        }
        // INVARIANT: It has no entry any more.
        Untracked(self)
    }

    /// Says whether it is one of a pool.
    pub(super) fn set_shared(&mut self, shared: bool) {
        Cq::set_shared(&mut self.0, shared);
    }
}

/// A queue that readers of restrack do not find any more.
///
/// # Invariants
///
/// As said, and nobody uses it but its polling.
pub(super) struct Untracked(OwnedPolled);

impl Deref for Untracked {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

impl Untracked {
    /// Tells a driver that wants to know it that the queue is about to be destroyed.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(super) fn announce_end(&mut self) -> Result {
        match self.device().ops().pre_destroy_cq {
            // SAFETY: The method is of the queue's own driver; nobody uses the queue (`Owned`).
            Some(stop) => crate::object::outcome(unsafe { stop(self.raw()) }),
            None => Ok(()),
        }
    }

    /// Ends the polling, and waits for what is running. Events that come later do nothing. May
    /// sleep.
    pub(super) fn stop(self) -> Stopped {
        let cq = Polled(&self);
        match Context::from_raw(self.poll_ctx()) {
            Some(Context::Direct) => {}
            Some(Context::Softirq) => {
                // INVARIANT: The part is an `irq_poll` in this context (invariant of `NewPolled`).
                irq_poll_disable(By::<Softirq>(cq, PhantomData).part());
                // That waits for `irq_poll_complete`, after which the softirq arms the queue.
                rdma::sync::rcu::synchronize();
            }
            Some(Context::Workqueue | Context::Unbound) => {
                // INVARIANT: The part is work in this context (invariant of `NewPolled`).
                let _was_queued: bool = By::<Work>(cq, PhantomData).part().disable();
            }
            None => {
                kernel::warn_on!(true);
            }
        }
        // INVARIANT: There is no turn, and no other begins.
        Stopped(self.0)
    }
}

/// A queue that is not polled any more.
///
/// # Invariants
///
/// There is no [`Turn`] of it, and no other begins. It is [`Untracked`].
pub(super) struct Stopped(OwnedPolled);

impl Stopped {
    /// Ends adaptive moderation, if there is any. May sleep.
    pub(super) fn end_measure(self) -> Unmeasured {
        if let Some(dim) = self.0.dim().take() {
            // Nobody queues the work any more, since only turns do (type invariant).
            let _was_queued: bool = dim.work().cancel();
            drop(dim.into_box());
        }
        // INVARIANT: There is none any more.
        Unmeasured(self.0)
    }
}

/// A queue that is neither polled nor moderated any more.
///
/// # Invariants
///
/// As for [`Stopped`], and it has no measure.
pub(super) struct Unmeasured(OwnedPolled);

impl Deref for Unmeasured {
    type Target = Cq;

    fn deref(&self) -> &Cq {
        &self.0
    }
}

impl Unmeasured {
    /// Has the driver destroy the queue, and frees it. May sleep.
    pub(super) fn destroy(self) {
        let ops = self.device().ops();
        let cq = self.raw();
        // SAFETY: Nobody uses the queue (`Owned`, and the type invariant); the methods are of its
        // own driver, and the device outlives it. `NewPolled` made the batch, `New` the memory.
        unsafe {
            match (ops.post_destroy_cq, ops.destroy_cq) {
                (Some(destroy), _) => destroy(cq),
                (None, Some(destroy)) => {
                    // Drivers may not refuse what the kernel frees.
                    kernel::warn_on!(destroy(cq, core::ptr::null_mut()) != 0);
                }
                (None, None) => {}
            }
            drop(KBox::<Batch>::from_raw((*cq).wc.cast()));
            bindings::kfree(cq.cast());
        }
    }
}

/// A measure of adaptive moderation that has chosen a profile.
///
/// # Invariants
///
/// `0` is of [`Made::begin_measure`]. The library has queued its work, and leaves the measure
/// alone until its state is `DIM_START_MEASURE` again. [`Stopped::end_measure`] waits for the work.
pub(super) struct Measured<'a>(NonNull<bindings::dim>, PhantomData<&'a Cq>);

// SAFETY: `from_c`'s contract: a workqueue runs the work of a measure.
unsafe impl FromC for Measured<'_> {
    type C = *mut bindings::work_struct;

    unsafe fn from_c(work: Self::C) -> Self {
        const WORK: usize = offset_of!(bindings::dim, work);
        // SAFETY: Not null. INVARIANT: `from_c`'s contract.
        let dim = unsafe { NonNull::new_unchecked(work.wrapping_byte_sub(WORK).cast()) };
        Self(dim, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Measured<'a> {}

impl<'a> Measured<'a> {
    /// Which profile was chosen, of which queue. The library goes on to measure.
    pub(super) fn take(self) -> (usize, &'a Cq) {
        let dim = self.0.as_ptr();
        // SAFETY: The measure is there, and ours until the state is written (type invariant). The
        // queue outlives it.
        unsafe {
            let (profile, cq) = ((*dim).profile_ix, (*dim).priv_.cast());
            // CAST: a small number.
            (*dim).state = private::dim_state_DIM_START_MEASURE as u8;
            (usize::from(profile), Cq::view(cq))
        }
    }
}
