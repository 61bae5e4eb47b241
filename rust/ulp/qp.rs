// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of kernel consumers.
//!
//! The state that completions need, [`Queues`], is shared by the owner of the queue pair, [`Qp`],
//! and the completions. Each request has a slot, which owns its buffer while it is outstanding; the
//! slots are as many as the queues are deep, and all requests are completed, so neither the queues
//! nor the completion queue can overflow.

use super::region::Access;
use super::region::Exposed;
use super::region::Region;
use super::region::Regions;
use super::region::Remote;
use super::slots::Load;
use super::slots::Slots;
use super::Buffer;
use super::Pd;
use crate::bindings;
use crate::edge::wc::Wc;
use crate::edge::View;
use crate::errno::enotconn;
use crate::errno::eopnotsupp;
use crate::gate::Gate;
use crate::module::Resident;
use core::fmt;
use core::mem;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::UniqueArc;

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

    /// A receive has ended, with a message at the start of the buffer that was posted, or without.
    fn received(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        buffer: Buffer,
        result: Result<Received<'_>, NoMessage>,
    );

    /// Another request has ended. Who posts SEND and RECEIVE only needs no handler.
    fn done(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        done: Done,
        result: Result<(), Status>,
    ) {
        let _ = (this, queues, done, result);
    }
}

/// What has ended, for [`Ends::done`].
pub enum Done {
    /// [`Queues::read`]. If it has failed, the contents of the buffer are undefined.
    Read(Buffer),
    /// [`Queues::write`].
    Written(Buffer),
    /// The registration of [`Queues::expose`].
    Exposed,
    /// [`Queues::invalidate`], successfully: the peer has no access any more.
    Invalidated(Region, Buffer),
    /// [`Queues::invalidate`] has failed: the memory is freed with the queue pair.
    NotInvalidated,
}

/// A message, while its receive is handled.
///
/// # Invariants
///
/// If `invalidated` is the key of a region of `regions`, the peer has no access by it, until the region
/// is registered under it again. The device has invalidated the key before it completed the message, and
/// before a later registration of the region was carried out, as it refuses a key that is not the last one
/// (`compares_keys`). The region has not been registered under this key since: that takes a registration
/// under each of the other 255 keys (`Exposed::refused` takes none), each of which must have ended by a
/// later completion on this completion queue. Completions are handled in order, and this one sets
/// `invalidated` once (`on_received`). No other region of the device has had the key: this one is as old
/// as the queue pair.
pub struct Received<'a> {
    len: usize,
    /// The key that the device has invalidated, by request of the message.
    invalidated: Option<u32>,
    regions: &'a Arc<Regions>,
}

impl Received<'_> {
    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes memory back to which this message has ended the peer's access (SEND with invalidate).
    ///
    /// # Errors
    ///
    /// The memory, if the message has not named it, or was asked before; and on iWARP, where
    /// [`Queues::invalidate`] ends the access again: Linux's siw takes any key of a region, and
    /// reports the peer's.
    pub fn invalidates(&mut self, exposed: Exposed) -> Result<(Region, Buffer), Exposed> {
        if !exposed.is_of(self.regions) || self.invalidated != Some(exposed.remote().key) {
            return Err(exposed);
        }
        self.invalidated = None;
        // SAFETY: The peer has no access by this key, and the region has it still (type invariant).
        Ok(unsafe { exposed.end() })
    }
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

/// Why a receive has ended without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// It has failed.
    Failed(Status),
    /// The peer has used it up by RDMA WRITE with immediate data. What it has written, if anything, is
    /// in memory that was exposed to it; the buffer holds what it held before. A protocol without such
    /// requests ends the connection.
    Written,
}

/// A request that was not posted, with what it would have owned.
pub struct Refused<T = Buffer> {
    /// What was to be posted.
    pub given: T,
    /// `EBUSY`: as many requests as the queue is deep are outstanding. `EINVAL`: the buffer is too
    /// small, or too large for the region, or one of them is of another protection domain or queue
    /// pair. `ENOTCONN`: the queue pair ends. `EOPNOTSUPP`: the device cannot do it. Others: those of
    /// the driver.
    pub error: Error,
}

impl<T> Refused<T> {
    pub(super) fn new(given: T, error: Error) -> Self {
        Self { given, error }
    }
}

impl<T> From<Refused<T>> for Error {
    /// Drops what was to be posted.
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

/// What a queue pair has.
#[derive(Clone, Copy, Default)]
pub struct Depth {
    /// Number of requests other than receives that may be outstanding.
    pub sends: u16,
    /// Number of receives that may be outstanding.
    pub receives: u16,
    /// Number of memory regions, that is, of buffers that may be exposed to the peer at a time.
    pub regions: u16,
    /// Bytes of the largest of these buffers.
    pub region_size: usize,
}

/// What belongs to a request of the send queue.
enum Posted {
    Send(Buffer),
    Read(Buffer),
    Write(Buffer),
    Expose,
    Invalidate(Exposed),
}

/// A request of the send queue.
enum Request {
    /// SEND, which may invalidate a key of the peer.
    Send {
        invalidate: Option<u32>,
    },
    Read(Remote),
    Write(Remote),
    Register {
        mr: *mut bindings::ib_mr,
        key: u32,
        access: Access,
    },
    Invalidate {
        key: u32,
    },
}

impl Request {
    fn opcode(&self) -> u32 {
        match self {
            Self::Send { invalidate: None } => bindings::ib_wr_opcode_IB_WR_SEND,
            Self::Send { .. } => bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV,
            Self::Read(_) => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
            Self::Write(_) => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
            Self::Register { .. } => bindings::ib_wr_opcode_IB_WR_REG_MR,
            Self::Invalidate { .. } => bindings::ib_wr_opcode_IB_WR_LOCAL_INV,
        }
    }
}

impl Posted {
    fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Send(buffer) | Self::Read(buffer) | Self::Write(buffer) => Some(buffer),
            Self::Expose | Self::Invalidate(_) => None,
        }
    }
}

impl Load for Posted {
    fn give(&self) {
        if let Some(buffer) = self.buffer() {
            buffer.sync_for_device();
        }
    }

    fn take(&self) {
        if let Some(buffer) = self.buffer() {
            buffer.sync_for_cpu();
        }
    }
}

/// The queues of a queue pair: posts requests.
///
/// # Invariants
///
/// `raw` is null only before the queue pair exists. It is a queue pair on the completion queue `cq`, in
/// the protection domain `pd`. It is destroyed, after `open` was closed, before the owner drops its
/// reference to this. `cq` is of this queue pair alone, and has this as its context; no handler of its
/// completions runs after the owner has dropped that reference.
#[pin_data]
pub struct Queues<E: Ends> {
    raw: *mut bindings::ib_qp,
    cq: NonNull<bindings::ib_cq>,
    /// Held while a request is posted; closed before the queue pair ends.
    #[pin]
    open: Gate,
    #[pin]
    sends: Slots<Posted>,
    #[pin]
    receives: Slots<Buffer>,
    regions: Arc<Regions>,
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

    /// Returns the element of a request for the first `len` bytes of a buffer.
    fn element(&self, buffer: &Buffer, len: usize) -> Result<bindings::ib_sge> {
        if !Arc::ptr_eq(buffer.pd(), &self.pd) {
            return Err(EINVAL);
        }
        buffer.element(len)
    }

    /// Posts a request by `post`, which gets the completion entry of a slot, while the queue pair
    /// exists.
    fn post<T: Load>(
        &self,
        slots: &Slots<T>,
        load: T,
        post: impl FnOnce(*mut bindings::ib_cqe) -> c_int,
    ) -> Result<(), Refused<T>> {
        slots.post(load, |cqe| {
            let _open = self.open.try_enter().ok_or_else(enotconn)?;
            to_result(post(cqe))
        })
    }

    /// Posts a request to the send queue, with an element of the memory of `load`, if it has any.
    fn post_send(
        &self,
        load: Posted,
        sge: Option<bindings::ib_sge>,
        request: &Request,
    ) -> Result<(), Refused<Posted>> {
        self.post(&self.sends, load, |cqe| {
            // A request of no bytes has no element: some devices take one of length 0 for 2 GiB.
            let mut sge = sge.filter(|sge| sge.length != 0);
            let mut wr = bindings::ib_send_wr {
                num_sge: sge.is_some().into(),
                sg_list: sge.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
                opcode: request.opcode(),
                // CAST: A flag.
                send_flags: bindings::ib_send_flags_IB_SEND_SIGNALED as c_int,
                ..Default::default()
            };
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            // SAFETY: The queue pair exists: `post` holds the gate open (type invariant). The
            // structure is that of the opcode. The driver copies it; the entry, the memory and the
            // region stay until the request is completed or the queue pair is gone.
            let post = |wr| unsafe { bindings::rdma_helper_ib_post_send(self.raw, wr) };
            match *request {
                Request::Send { invalidate: None } => post(&wr),
                Request::Send {
                    invalidate: Some(key),
                }
                | Request::Invalidate { key } => {
                    wr.ex.invalidate_rkey = ManuallyDrop::new(key);
                    post(&wr)
                }
                Request::Read(Remote { addr, key }) | Request::Write(Remote { addr, key }) => {
                    let wr = bindings::ib_rdma_wr {
                        wr,
                        remote_addr: addr,
                        rkey: key,
                    };
                    post(ptr::from_ref(&wr).cast())
                }
                Request::Register { mr, key, access } => {
                    let wr = bindings::ib_reg_wr {
                        wr,
                        mr,
                        key,
                        // CAST: Flags.
                        access: access.flags() as c_int,
                    };
                    post(ptr::from_ref(&wr).cast())
                }
            }
        })
    }

    /// Posts a request for the first `len` bytes of a buffer to the send queue.
    fn post_buffer(
        &self,
        buffer: Buffer,
        len: usize,
        load: fn(Buffer) -> Posted,
        request: &Request,
    ) -> Result<(), Refused> {
        match self.element(&buffer, len) {
            Ok(sge) => {
                let refused = match self.post_send(load(buffer), Some(sge), request) {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                };
                match refused.given {
                    Posted::Send(given) | Posted::Read(given) | Posted::Write(given) => {
                        Err(Refused::new(given, refused.error))
                    }
                    // Not from a buffer.
                    Posted::Expose | Posted::Invalidate(_) => Ok(()),
                }
            }
            Err(error) => Err(Refused::new(buffer, error)),
        }
    }

    /// Sends the first `len` bytes of a buffer. Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn send(&self, buffer: Buffer, len: usize) -> Result<(), Refused> {
        let request = Request::Send { invalidate: None };
        self.post_buffer(buffer, len, Posted::Send, &request)
    }

    /// Whether the device refuses to invalidate a key that is not the last one of its region.
    fn compares_keys(&self) -> bool {
        !self.is_iwarp()
    }

    fn is_iwarp(&self) -> bool {
        u32::from(self.pd.device().view().node_type()) == bindings::RDMA_NODE_RNIC
    }

    /// As [`send`](Self::send); the peer's device also ends the access by `key`, which is one of the
    /// peer's.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn send_and_invalidate(&self, buffer: Buffer, len: usize, key: u32) -> Result<(), Refused> {
        let request = Request::Send {
            invalidate: Some(key),
        };
        self.post_buffer(buffer, len, Posted::Send, &request)
    }

    /// Reads `len` bytes of the peer's memory into the start of a buffer; [`Done::Read`] ends it. Not
    /// on iWARP, where the peer would have to be given access to the buffer. Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn read(&self, buffer: Buffer, len: usize, from: Remote) -> Result<(), Refused> {
        if self.is_iwarp() {
            return Err(Refused::new(buffer, eopnotsupp()));
        }
        self.post_buffer(buffer, len, Posted::Read, &Request::Read(from))
    }

    /// Writes the first `len` bytes of a buffer to the peer's memory; [`Done::Written`] ends it.
    /// Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn write(&self, buffer: Buffer, len: usize, to: Remote) -> Result<(), Refused> {
        self.post_buffer(buffer, len, Posted::Write, &Request::Write(to))
    }

    /// Takes a region that is not in use, if there is one (see [`Depth::regions`]).
    pub fn region(&self) -> Option<Region> {
        Regions::take(&self.regions)
    }

    /// Gives the peer access to a whole buffer. What it needs is [`Exposed::remote`], which requests
    /// that are posted after this may tell it. [`Done::Exposed`] ends the request, which is one of
    /// [`Depth::sends`]. Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn expose(
        &self,
        region: Region,
        buffer: Buffer,
        access: Access,
    ) -> Result<Exposed, Refused<(Region, Buffer)>> {
        if !region.is_of(&self.regions) {
            return Err(Refused::new((region, buffer), EINVAL));
        }
        let exposed = match region.map(buffer) {
            Ok(exposed) => exposed,
            Err((region, buffer, error)) => return Err(Refused::new((region, buffer), error)),
        };
        let request = Request::Register {
            mr: exposed.mr(),
            key: exposed.remote().key,
            access,
        };
        match self.post_send(Posted::Expose, None, &request) {
            Ok(()) => Ok(exposed),
            // SAFETY: Nothing was posted.
            Err(refused) => Err(Refused::new(unsafe { exposed.refused() }, refused.error)),
        }
    }

    /// Ends the peer's access to a buffer; [`Done::Invalidated`] gives it back. Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn invalidate(&self, exposed: Exposed) -> Result<(), Refused<Exposed>> {
        if !exposed.is_of(&self.regions) {
            return Err(Refused::new(exposed, EINVAL));
        }
        let request = Request::Invalidate {
            key: exposed.remote().key,
        };
        let Err(refused) = self.post_send(Posted::Invalidate(exposed), None, &request) else {
            return Ok(());
        };
        match refused.given {
            Posted::Invalidate(exposed) => Err(Refused::new(exposed, refused.error)),
            // Not what was given.
            Posted::Send(_) | Posted::Read(_) | Posted::Write(_) | Posted::Expose => Ok(()),
        }
    }

    /// Posts a buffer for a message. Any context.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn receive(&self, buffer: Buffer) -> Result<(), Refused> {
        let mut sge = match self.element(&buffer, buffer.bytes().len()) {
            Ok(sge) => sge,
            Err(error) => return Err(Refused::new(buffer, error)),
        };
        self.post(&self.receives, buffer, |cqe| {
            let mut wr = bindings::ib_recv_wr {
                sg_list: &mut sge,
                num_sge: 1,
                ..Default::default()
            };
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            // SAFETY: As in `post_send`.
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
        let regions = Regions::new(pd, depth.regions, depth.region_size)?;
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
                regions,
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
            // INVARIANT: Created with these attributes (contract of this function).
            *queues.as_mut().project().raw = qp.as_ptr();
        }
        let queues = Arc::<Queues<E>>::from(queues);
        // SAFETY: The completion queue was created above. Nothing was posted, so there are no
        // completions, whose handlers alone read this.
        // INVARIANT: The queues do not move any more.
        unsafe { (*cq.as_ptr()).cq_context = Arc::as_ptr(&queues).cast_mut().cast() };
        // INVARIANT: Both were created above, for this.
        let owner = owner.write(Self(queues));
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
                if bindings::ib_destroy_qp_user(self.0.raw, ptr::null_mut()) != 0 {
                    // A queue pair of the kernel, which nobody else uses: a fault of the driver.
                    // What it may use still stays for ever, and so does the module: `_resident`.
                    kernel::warn_on!(true);
                    mem::forget(self.0.clone());
                    return;
                }
            }
            bindings::ib_free_cq(self.0.cq.as_ptr());
        }
    }
}

/// Returns the queues, and the completion entry, of a completion. Not by the queue pair that it names:
/// a completion that the drain has not waited for, since it has failed, comes when that is freed.
///
/// # Safety
///
/// `wc` is a completion on `cq`, the completion queue of a queue pair of `E`, during its handler.
unsafe fn completed<'a, E: Ends>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) -> (&'a Queues<E>, &'a Wc, *mut bindings::ib_cqe) {
    // SAFETY: Both exist during the handler. The context of the completion queue is the queues, which
    // exist until the handler has returned (contract of this function, and invariant of `Queues`).
    unsafe {
        let queues = (*cq).cq_context.cast::<Queues<E>>();
        (&*queues, Wc::view(wc), *(*wc).__bindgen_anon_1.wr_cqe)
    }
}

fn result(wc: &Wc) -> Result<(), Status> {
    match wc.status() {
        bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
        status => Err(Status(status)),
    }
}

/// The completion handler of the send queue.
///
/// # Safety
///
/// For the core only, with a completion of a send of a queue pair of `E`.
unsafe extern "C" fn on_sent<E: Ends>(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: The contract of this function; the entry is the one that `post` has passed.
    let (queues, wc, posted) = unsafe {
        let (queues, wc, cqe) = completed::<E>(cq, wc);
        (queues, wc, queues.sends.complete(cqe))
    };
    let (ends, result) = (queues.ends.as_arc_borrow(), result(wc));
    let done = match posted {
        Some(Posted::Send(buffer)) => return E::sent(ends, queues, buffer, result),
        Some(Posted::Read(buffer)) => Done::Read(buffer),
        Some(Posted::Write(buffer)) => Done::Written(buffer),
        Some(Posted::Expose) => Done::Exposed,
        Some(Posted::Invalidate(exposed)) if result.is_ok() => {
            // SAFETY: The device has invalidated its key.
            let (region, buffer) = unsafe { exposed.end() };
            Done::Invalidated(region, buffer)
        }
        Some(Posted::Invalidate(_)) => Done::NotInvalidated,
        None => return,
    };
    E::done(ends, queues, done, result);
}

/// The completion handler of receives.
///
/// # Safety
///
/// For the core only, with a completion of a receive of a queue pair of `E`.
unsafe extern "C" fn on_received<E: Ends>(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: As in `on_sent`.
    let (queues, wc, buffer, key) = unsafe {
        let (queues, wc, cqe) = completed::<E>(cq, wc);
        let key = wc.invalidated();
        (queues, wc, queues.receives.complete(cqe), key)
    };
    if let Some(buffer) = buffer {
        // No more than the buffer has: the device does not write behind it.
        let room = buffer.bytes().len();
        let len = usize::try_from(wc.byte_len()).unwrap_or(room).min(room);
        let result = match result(wc) {
            Err(status) => Err(NoMessage::Failed(status)),
            Ok(()) if wc.opcode() != bindings::ib_wc_opcode_IB_WC_RECV => Err(NoMessage::Written),
            // INVARIANT: The device has invalidated `key`, and refuses keys that are not the last one.
            Ok(()) => Ok(Received {
                len,
                invalidated: key.filter(|_| queues.compares_keys()),
                regions: &queues.regions,
            }),
        };
        E::received(queues.ends.as_arc_borrow(), queues, buffer, result);
    }
}
