// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of kernel consumers.
//!
//! The state that completions need, [`Queues`], is shared by the owner of the queue pair, [`Qp`],
//! and the completions. Each request has a slot, which owns its buffer while it is outstanding; the
//! slots are as many as the queues are deep, so neither the queues nor the completion queue can
//! overflow.

use super::Buffer;
use super::Pd;
use crate::bindings;
use crate::edge::wc::Wc;
use crate::edge::View;
use crate::errno::enotconn;
use crate::gate::Gate;
use crate::module::Resident;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::offset_of;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::SpinLock;
use kernel::sync::UniqueArc;
use kernel::types::Opaque;

/// Handlers of completions. They run in work items of the completion queue, one at a time for a
/// queue pair, and may sleep. They must not drop the last reference to their [`Qp`], which waits
/// for them.
pub trait Ends: Sized + Send + Sync + 'static {
    /// Returns [`resident!()`](crate::resident): the handlers are the module's code.
    fn resident() -> Resident;

    /// A send has ended. The buffer is the one that was posted.
    fn sent(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        buffer: Buffer,
        result: Result<(), Status>,
    );

    /// A receive has ended: with the number of bytes of the message, at the start of the buffer
    /// that was posted.
    fn received(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        buffer: Buffer,
        result: Result<usize, Status>,
    );
}

/// Why a request has failed (`enum ib_wc_status`). All requests that are left when a queue pair
/// ends fail with [`Status::FLUSHED`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// The queue pair is in the error state, or ends.
    pub const FLUSHED: Self = Self(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR);
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Status").field(&self.0).finish()
    }
}

/// A request that was not posted, with its buffer.
pub struct Refused {
    /// The buffer that was to be posted.
    pub buffer: Buffer,
    /// `EBUSY`: as many requests as the queue is deep are outstanding. `EINVAL`: the buffer is too
    /// small, or of another protection domain. `ENOTCONN`: the queue pair ends. Others: those of the driver.
    pub error: Error,
}

/// Number of requests that may be outstanding.
#[derive(Clone, Copy)]
pub struct Depth {
    /// Sends.
    pub sends: u16,
    /// Receives.
    pub receives: u16,
}

/// A request that may be outstanding.
///
/// # Invariants
///
/// `buffer` belongs to who has taken the index of the slot from `Slots::free`; after the request
/// was posted, to its completion.
#[repr(C)]
struct Slot {
    cqe: Opaque<bindings::ib_cqe>,
    buffer: UnsafeCell<Option<Buffer>>,
}

// SAFETY: A buffer may be used from any thread; its owner is the type invariant's.
unsafe impl Send for Slot {}
// SAFETY: As for `Send`.
unsafe impl Sync for Slot {}

#[pin_data]
struct Slots {
    all: KVec<Slot>,
    /// Indices of the slots without a request. Its capacity is their number.
    #[pin]
    free: SpinLock<KVec<u16>>,
}

type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

impl Slots {
    fn new(count: u16, done: Done) -> Result<impl PinInit<Self, Error>> {
        let mut all = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        let mut free = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for index in 0..count {
            let cqe = bindings::ib_cqe { done: Some(done) };
            let slot = Slot {
                cqe: Opaque::new(cqe),
                buffer: UnsafeCell::new(None),
            };
            all.push(slot, GFP_KERNEL)?;
            free.push(index, GFP_KERNEL)?;
        }
        Ok(try_pin_init!(Self {
            all,
            free <- new_spinlock!(free, "Slots::free"),
        }))
    }

    /// Posts a request with a buffer by `post`, which gets the completion entry of a slot.
    fn post(
        &self,
        buffer: Buffer,
        post: impl FnOnce(*mut bindings::ib_cqe) -> Result,
    ) -> Result<(), Refused> {
        let index = self.free.lock().pop();
        let Some(index) = index else {
            return Err(Refused {
                buffer,
                error: EBUSY,
            });
        };
        let Some(slot) = self.all.get(usize::from(index)) else {
            // Indices are those of slots.
            return Err(Refused {
                buffer,
                error: EINVAL,
            });
        };
        buffer.give();
        // SAFETY: The index was taken above, so the buffer is ours (invariant of `Slot`).
        unsafe { *slot.buffer.get() = Some(buffer) };
        let Err(error) = post(slot.cqe.get()) else {
            return Ok(());
        };
        // SAFETY: The request was not posted, so the buffer is still ours.
        let buffer = unsafe { (*slot.buffer.get()).take() };
        self.put(index);
        match buffer {
            Some(buffer) => {
                buffer.take();
                Err(Refused { buffer, error })
            }
            // Stored above.
            None => Ok(()),
        }
    }

    /// Ends the request of a slot, whose index is not free. Returns the buffer.
    ///
    /// # Safety
    ///
    /// `cqe` is the completion entry of a slot of this, whose request was completed.
    unsafe fn complete(&self, cqe: *const bindings::ib_cqe) -> Option<Buffer> {
        let offset = cqe.addr().checked_sub(self.all.as_ptr().addr())?;
        let index = offset.checked_div(size_of::<Slot>())?;
        let slot = self.all.get(index)?;
        // SAFETY: The request was completed, so its buffer belongs to the completion (invariant of
        // `Slot`), which this is (contract of this function).
        let buffer = unsafe { (*slot.buffer.get()).take() };
        self.put(u16::try_from(index).ok()?);
        if let Some(buffer) = &buffer {
            buffer.take();
        }
        buffer
    }

    fn put(&self, index: u16) {
        // There is room for all indices, and each is here once.
        let _ = self.free.lock().push_within_capacity(index);
    }
}

const _: () = assert!(offset_of!(Slot, cqe) == 0);

/// The queues of a queue pair: posts requests.
///
/// # Invariants
///
/// `raw` is null only before the queue pair exists. It is a queue pair with this as its context, on
/// the completion queue `cq`, in the protection domain `pd`. It is destroyed, after all its
/// completions and after `open` was closed, before the owner drops its reference to this.
#[pin_data]
pub struct Queues<E: Ends> {
    raw: *mut bindings::ib_qp,
    cq: NonNull<bindings::ib_cq>,
    /// Held while a request is posted; closed before the queue pair ends.
    #[pin]
    open: Gate,
    #[pin]
    sends: Slots,
    #[pin]
    receives: Slots,
    ends: Arc<E>,
    pd: Arc<Pd>,
    /// The handlers are the module's code.
    _resident: Resident,
}

// SAFETY: Queue pairs may be used from any thread, and so may all other fields.
unsafe impl<E: Ends> Send for Queues<E> {}
// SAFETY: As for `Send`.
unsafe impl<E: Ends> Sync for Queues<E> {}

impl<E: Ends> Queues<E> {
    /// Returns the protection domain.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns who is told of completions.
    pub fn ends(&self) -> &Arc<E> {
        &self.ends
    }

    /// Posts a request for the first `len` bytes of a buffer by `post`, which gets the completion
    /// entry of a slot and the element.
    fn post(
        &self,
        slots: &Slots,
        buffer: Buffer,
        len: usize,
        post: impl FnOnce(*mut bindings::ib_cqe, *mut bindings::ib_sge) -> c_int,
    ) -> Result<(), Refused> {
        let element = if Arc::ptr_eq(buffer.pd(), &self.pd) {
            buffer.element(len)
        } else {
            Err(EINVAL)
        };
        match element {
            Ok(mut sge) => slots.post(buffer, |cqe| {
                let _open = self.open.try_enter().ok_or_else(enotconn)?;
                to_result(post(cqe, &mut sge))
            }),
            Err(error) => Err(Refused { buffer, error }),
        }
    }

    /// Sends the first `len` bytes of a buffer. Process context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn send(&self, buffer: Buffer, len: usize) -> Result<(), Refused> {
        self.post(&self.sends, buffer, len, |cqe, sg_list| {
            let mut wr = bindings::ib_send_wr {
                sg_list,
                num_sge: 1,
                opcode: bindings::ib_wr_opcode_IB_WR_SEND,
                // CAST: A flag.
                send_flags: bindings::ib_send_flags_IB_SEND_SIGNALED as c_int,
                ..Default::default()
            };
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            // SAFETY: The queue pair exists: `post` holds the gate open (type invariant). The driver
            // copies the request; the entry and the memory stay until it is completed or the queue
            // pair is gone.
            unsafe { bindings::rdma_helper_ib_post_send(self.raw, &wr) }
        })
    }

    /// Posts a buffer for a message. Process context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn receive(&self, buffer: Buffer) -> Result<(), Refused> {
        let len = buffer.bytes().len();
        self.post(&self.receives, buffer, len, |cqe, sg_list| {
            let mut wr = bindings::ib_recv_wr {
                sg_list,
                num_sge: 1,
                ..Default::default()
            };
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            // SAFETY: As in `send`.
            unsafe { bindings::rdma_helper_ib_post_recv(self.raw, &wr) }
        })
    }
}

/// A queue pair for connections. Drop ends all its requests, tells [`Ends`] of each, and waits for
/// that: not for use in a completion, or under a lock that these take. Drop may sleep.
///
/// # Invariants
///
/// The queue pair, if `raw` is not null, and the completion queue belong to this.
pub struct Qp<E: Ends>(Arc<Queues<E>>);

impl<E: Ends> Deref for Qp<E> {
    type Target = Queues<E>;

    fn deref(&self) -> &Queues<E> {
        &self.0
    }
}

impl<E: Ends> Qp<E> {
    /// Creates a queue pair by `create`, which gets the protection domain and the attributes, and
    /// returns the queue pair. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the device has no queues of this depth; those of `create`.
    ///
    /// # Safety
    ///
    /// `create` creates the queue pair with these arguments, and returns it. Nothing else destroys
    /// it.
    pub(crate) unsafe fn new(
        pd: &Arc<Pd>,
        depth: Depth,
        ends: Arc<E>,
        create: impl FnOnce(
            *mut bindings::ib_pd,
            &mut bindings::ib_qp_init_attr,
        ) -> Result<NonNull<bindings::ib_qp>>,
    ) -> Result<Arc<Self>> {
        // One more of each for the request that marks the end, which the core posts.
        let (sends, receives) = (
            u32::from(depth.sends).saturating_add(1),
            u32::from(depth.receives).saturating_add(1),
        );
        let entries = c_int::try_from(sends.saturating_add(receives)).map_err(|_| EINVAL)?;
        // Allocated first, so that the owner below can be made without an error.
        let owner = UniqueArc::<Self>::new_uninit(GFP_KERNEL)?;
        let (send, receive) = (
            Slots::new(depth.sends, on_sent::<E>)?,
            Slots::new(depth.receives, on_received::<E>)?,
        );
        // SAFETY: The device exists (`DeviceRef`); the name is constant.
        let cq = from_err_ptr(unsafe {
            bindings::__ib_alloc_cq_any(
                pd.device().raw(),
                ptr::null_mut(),
                entries,
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
                pd.name.as_char_ptr(),
            )
        })?;
        let cq = NonNull::new(cq).ok_or(ENOMEM)?;
        let queues = UniqueArc::pin_init(
            try_pin_init!(Queues {
                // INVARIANT: No queue pair yet.
                raw: ptr::null_mut(),
                cq,
                open <- Gate::new(),
                sends <- send,
                receives <- receive,
                ends,
                pd: pd.clone(),
                _resident: E::resident(),
            }? Error),
            GFP_KERNEL,
        );
        let mut queues = match queues {
            Ok(queues) => queues,
            Err(error) => {
                // SAFETY: Created above, and not used.
                unsafe { bindings::ib_free_cq(cq.as_ptr()) };
                return Err(error);
            }
        };
        let mut make = bindings::ib_qp_init_attr {
            send_cq: cq.as_ptr(),
            recv_cq: cq.as_ptr(),
            qp_context: ptr::from_ref(&*queues).cast_mut().cast(),
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..Default::default()
        };
        make.cap.max_send_wr = sends;
        make.cap.max_recv_wr = receives;
        make.cap.max_send_sge = 1;
        make.cap.max_recv_sge = 1;
        let made = create(pd.raw(), &mut make);
        if let Ok(qp) = &made {
            // INVARIANT: Created with these attributes (contract of this function). Nothing was
            // posted, so there are no completions that read this.
            *queues.as_mut().project().raw = qp.as_ptr();
        }
        // INVARIANT: Both were created above, for this.
        let owner = owner.write(Self(queues.into()));
        // If it was not created, the owner is dropped, and frees the completion queue.
        made?;
        Ok(owner.into())
    }
}

impl<E: Ends> Drop for Qp<E> {
    fn drop(&mut self) {
        // A completion that posts a request again is refused from here on.
        self.0.open.close_and_wait();
        // SAFETY: Both belong to this (type invariant). Nobody posts: the gate is closed. The core
        // waits for the completions before it returns from the first function; what the device has
        // not completed then, it does not complete after the second, and the last one waits until no
        // handler runs.
        unsafe {
            if !self.0.raw.is_null() {
                bindings::ib_drain_qp(self.0.raw);
                let left = bindings::ib_destroy_qp_user(self.0.raw, ptr::null_mut());
                // A queue pair of the kernel, which nobody else uses.
                kernel::warn_on!(left != 0);
            }
            bindings::ib_free_cq(self.0.cq.as_ptr());
        }
    }
}

/// Returns the queues, and the completion entry, of a completion.
///
/// # Safety
///
/// `wc` is a completion of a queue pair of `E`, during its handler.
unsafe fn completed<'a, E: Ends>(
    wc: *mut bindings::ib_wc,
) -> (&'a Queues<E>, &'a Wc, *mut bindings::ib_cqe) {
    // SAFETY: The completion names its queue pair, whose context is the queues, which exist until
    // the handler has returned (contract of this function, and invariant of `Queues`).
    unsafe {
        let queues = (*(*wc).qp).qp_context.cast::<Queues<E>>();
        (&*queues, Wc::view(wc), *(*wc).__bindgen_anon_1.wr_cqe)
    }
}

fn result(wc: &Wc) -> Result<(), Status> {
    match wc.status() {
        bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
        status => Err(Status(status)),
    }
}

/// The completion handler of sends.
///
/// # Safety
///
/// For the core only, with a completion of a send of a queue pair of `E`.
unsafe extern "C" fn on_sent<E: Ends>(_: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: The contract of this function; the entry is the one that `post` has passed.
    let (queues, wc, buffer) = unsafe {
        let (queues, wc, cqe) = completed::<E>(wc);
        (queues, wc, queues.sends.complete(cqe))
    };
    if let Some(buffer) = buffer {
        E::sent(queues.ends.as_arc_borrow(), queues, buffer, result(wc));
    }
}

/// The completion handler of receives.
///
/// # Safety
///
/// For the core only, with a completion of a receive of a queue pair of `E`.
unsafe extern "C" fn on_received<E: Ends>(_: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: As in `on_sent`.
    let (queues, wc, buffer) = unsafe {
        let (queues, wc, cqe) = completed::<E>(wc);
        (queues, wc, queues.receives.complete(cqe))
    };
    if let Some(buffer) = buffer {
        // No more than the buffer has: the device does not write behind it.
        let room = buffer.bytes().len();
        let len = usize::try_from(wc.byte_len()).unwrap_or(room).min(room);
        let result = result(wc).map(|()| len);
        E::received(queues.ends.as_arc_borrow(), queues, buffer, result);
    }
}
