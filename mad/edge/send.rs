// SPDX-License-Identifier: GPL-2.0

//! A send: the structure that a consumer fills in (`struct ib_mad_send_buf`), and its work request.
//!
//! A send is reference counted. The consumer holds one reference from `ib_create_send_mad` to
//! `ib_free_send_mad`; the list of the agent that the send is in holds one, and so does the device.
//!
//! The consumer may access the structure and the bytes until it posts the send, and again once the
//! end of the send is reported; in between they belong to the core (`ib_post_send_mad` in
//! `include/rdma/ib_mad.h`). Within the core, the work request and the bytes belong to the holder
//! of the *claim*:
//!
//! ```text
//!           claim               map               post
//!   (free) ------> Claim ------------> Mapped ------------> device
//!      ^             | drop              | finish, drop        | completion: Done
//!      +-------------+<------------------+<--------------------+
//! ```

use super::agent::AgentPass;
use super::agent::Handle;
use super::dma::Aligned;
use super::dma::Mapping;
use super::dma::Way;
use super::port::Live;
use super::Wc;
use crate::mad::agent::Agent;
use crate::mad::memory::Memory;
use crate::mad::transact;
use crate::mad::transfer::Transfer;
use crate::object::tables::Ah;
use crate::object::Qp;
use crate::proto::mad::matching;
use crate::proto::mad::rmpp;
use crate::proto::mad::send as life;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Layout;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::error::to_result;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use rdma::bindings;
pub(crate) use rdma::edge::mad::SendBuf;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::list::Tag;
use rdma::sync::Key;
use rdma::sync::Keyed;

/// `IB_QP_SET_QKEY`: the Q_Key of the queue pair itself is sent.
const OWN_QKEY: u32 = 0x8000_0000;

/// Who is notified of the end of a send, and the owner of its address handle.
pub(crate) enum For {
    /// The agent's consumer is notified. It owns the address handle.
    Consumer,
    /// Nobody is notified. The send owns the address handle.
    Nobody(Handle),
    /// Nobody is notified. The address handle is that of a transfer, which is kept until then.
    Transfer(Arc<Transfer>),
}

impl For {
    fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Consumer => None,
            Self::Nobody(handle) => Some(handle),
            Self::Transfer(transfer) => Some(transfer.handle()),
        }
    }
}

/// Work request of a send.
struct Work {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_ud_wr,
    sge: [bindings::ib_sge; 2],
    mapped: [Option<Mapping>; 2],
    /// Number of the segment that is sent, from 1; for a transfer.
    segment: u32,
}

/// See the [module](self).
///
/// # Invariants
///
/// `work`, and the bytes of the MAD while the send is posted, are accessed only by the holder of the
/// claim: a [`Claim`] or [`Mapped`], or the device. `claimed` says whether there is a holder.
#[pin_data]
pub(crate) struct SendRequest {
    #[pin]
    links: ListLinks<0>,
    #[pin]
    listed: AtomicTracker<0>,
    tag: Tag,
    #[pin]
    waiting_links: ListLinks<1>,
    #[pin]
    waiting: AtomicTracker<1>,
    pub(super) buf: SendBuf,
    work: UnsafeCell<Work>,
    claimed: Atomic<bool>,
    /// Sequence number in the queue pair, under the lock of `SpecialQp::sends`.
    number: Atomic<u32>,
    /// Time of expiry, under the agent's lock.
    due: Atomic<u64>,
    pub(crate) life: Keyed<life::SendState>,
    pub(crate) sent: Keyed<matching::Sent>,
    /// The MAD, or the headers of a transfer; unused if there is `long`.
    short: UnsafeCell<Aligned<{ wire::MAD_SIZE }>>,
    /// The same for the longer MADs of Omni-Path.
    long: Option<KVec<u8>>,
    /// Number of bytes of the MAD, or of the headers.
    len: usize,
    /// Data of a transfer. Accessed by consumers and the device, not by the core.
    segments: Option<KVVec<KVec<u8>>>,
    layout: Layout,
    /// Number of bytes after the headers in a single MAD.
    payload: u32,
    whom: For,
    // Last: the agent may be freed as soon as this is dropped.
    agent: AgentPass,
}

// SAFETY: The pointers in the C structures refer to objects that are not bound to a thread.
unsafe impl core::marker::Send for SendRequest {}
// SAFETY: By the type invariant `work` and the bytes are accessed by one holder of the claim at a time;
// fields of `buf` are constant or atomic, by its table; the rest has locks.
unsafe impl Sync for SendRequest {}

impl_list_arc_safe! {
    impl ListArcSafe<0> for SendRequest { tracked_by listed: AtomicTracker<0>; }
    impl ListArcSafe<1> for SendRequest { tracked_by waiting: AtomicTracker<1>; }
}
impl_list_item! {
    impl ListItem<0> for SendRequest { using ListLinks { self.links }; }
    impl ListItem<1> for SendRequest { using ListLinks { self.waiting_links }; }
}
rdma::impl_tagged!(impl Tagged<0> for SendRequest { self.tag });

/// Parameters of a send.
pub(crate) struct Make {
    pub(crate) remote_qpn: u32,
    pub(crate) pkey_index: u16,
    /// RMPP header of the segments; for a transfer.
    pub(crate) rmpp: Option<rmpp::Header>,
    /// Size of a MAD in bytes.
    pub(crate) mad_size: usize,
    pub(crate) layout: Layout,
    /// Number of bytes after the headers in a single MAD.
    pub(crate) payload: u32,
    /// Total size of the data in bytes.
    pub(crate) data: usize,
    pub(crate) transfer: Option<rmpp::Sender>,
}

impl SendRequest {
    /// Allocates a send. The context depends on `memory`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if a length does not fit.
    pub(crate) fn make(
        agent: AgentPass,
        make: Make,
        whom: For,
        memory: Memory,
    ) -> Result<Arc<Self>> {
        let layout = make.layout;
        let is_transfer = make.rmpp.is_some();
        let len = if is_transfer {
            layout.header
        } else {
            make.mad_size
        };
        if layout.header > len
            || layout.segments == 0 && layout.header.saturating_add(make.payload as usize) > len
        {
            return Err(EINVAL);
        }
        let mut long = if len > wire::MAD_SIZE {
            Some(memory.zeros(len)?)
        } else {
            None
        };
        let mut segments = None;
        if layout.segments != 0 {
            let list = segments.insert(memory.list(layout.segments)?);
            for _ in 0..layout.segments {
                let segment = memory.zeros(layout.segment())?;
                list.push_within_capacity(segment).map_err(|_| ENOMEM)?;
            }
        }
        let elsewhere = long.as_mut().map(|long| long.as_mut_ptr().cast());
        let as_int = |len: usize| i32::try_from(len).map_err(|_| EINVAL);
        let (seg_size, seg_rmpp_size) = if is_transfer {
            (as_int(layout.segment())?, as_int(layout.rmpp_segment())?)
        } else {
            (0, 0)
        };
        let ah = whom.handle().map_or(ptr::null_mut(), |handle| handle.raw());
        let hdr_len = as_int(layout.header)?;
        let data_len = as_int(make.data)?;
        let seg_count = as_int(layout.segments)?;
        let (remote_qpn, pkey_index) = (make.remote_qpn, make.pkey_index);
        let payload = make.payload;
        let transfer = make.transfer;
        let key = agent.owner().key();
        // INVARIANT: There is no claim, and the send is not shared yet.
        let send: Arc<Self> = Arc::pin_init(
            // Large values are built in place.
            pin_init!(&this in Self {
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                tag: Tag::new(),
                waiting_links <- ListLinks::new(),
                waiting <- AtomicTracker::new(),
                // SAFETY: The send has the bytes, `short` or `long`; only the address is computed.
                buf: unsafe {
                    SendBuf::new(bindings::ib_mad_send_buf {
                        mad: elsewhere.unwrap_or((&raw mut (*this.as_ptr()).short).cast()),
                        mad_agent: agent.raw(),
                        ah,
                        hdr_len,
                        data_len,
                        seg_count,
                        seg_size,
                        seg_rmpp_size,
                        ..Default::default()
                    })
                },
                work: UnsafeCell::new(Work {
                    cqe: bindings::ib_cqe::default(),
                    wr: bindings::ib_ud_wr {
                        wr: bindings::ib_send_wr {
                            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
                            send_flags: bindings::ib_send_flags_IB_SEND_SIGNALED,
                            ..Default::default()
                        },
                        remote_qpn,
                        remote_qkey: OWN_QKEY,
                        pkey_index,
                        ..Default::default()
                    },
                    sge: core::array::from_fn(|_| bindings::ib_sge::default()),
                    mapped: [None, None],
                    segment: 1,
                }),
                claimed: Atomic::new(false),
                number: Atomic::new(0),
                due: Atomic::new(0),
                life: Keyed::new(key, life::SendState::new(transfer)),
                sent: Keyed::new(key, matching::Sent {
                    tid: 0,
                    class: 0,
                    is_response: false,
                    path: None,
                }),
                short: UnsafeCell::new(Aligned([0; wire::MAD_SIZE])),
                long,
                len,
                segments,
                layout,
                payload,
                whom,
                agent,
            }),
            memory.flags(),
        )?;
        if let Some(header) = make.rmpp {
            // Nobody else has it yet.
            header.write(Claim::new(&send).ok_or(EINVAL)?.mad_mut());
        }
        Ok(send)
    }

    /// The bytes of the MAD, or of the headers.
    fn bytes(&self) -> NonNull<[u8]> {
        let start = match &self.long {
            Some(long) => long.as_ptr().cast_mut(),
            None => self.short.get().cast(),
        };
        // SAFETY: Neither a vector nor a field is at 0.
        NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(start) }, self.len)
    }

    /// The consumer's structure.
    #[inline]
    pub(crate) fn buf(&self) -> &SendBuf {
        &self.buf
    }

    /// The agent that the send belongs to.
    #[inline]
    pub(crate) fn agent(&self) -> &Arc<Agent> {
        self.agent.owner()
    }

    /// The agent, which is registered.
    #[inline]
    pub(crate) fn pass(&self) -> &AgentPass {
        &self.agent
    }

    /// Who is notified of the end.
    pub(crate) const fn whom(&self) -> &For {
        &self.whom
    }

    /// Layout of the message.
    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The data of a segment, numbered from 1, for the consumer. For numbers out of range the C
    /// core returns the head of its list; here it is the nearest segment.
    pub(crate) fn segment(&self, number: u32) -> Option<NonNull<u8>> {
        let segments = self.segments.as_ref()?;
        let last = segments.len().checked_sub(1)?;
        let index = (number as usize).saturating_sub(1).min(last);
        NonNull::new(segments.get(index)?.as_ptr().cast_mut())
    }

    /// The address handle of the send, if it awaits a response. It does not end while the agent's lock is
    /// held, which `key` shows.
    pub(crate) fn awaiting_ah<'a>(&'a self, key: &'a Key) -> Option<&'a Ah> {
        if !self.life.access(key)?.awaits() {
            return None;
        }
        // SAFETY: As in `Claim::ah`: the send was posted, and it has not ended, as it awaits a response.
        // It ends by a change of its state, for which the lock is needed.
        unsafe { Option::from_c(self.buf.ah()) }
    }

    /// Time of expiry.
    pub(crate) fn due(&self) -> Ticks {
        self.due.load(Relaxed)
    }

    /// See [`due`](Self::due).
    pub(crate) fn set_due(&self, due: Ticks) {
        self.due.store(due, Relaxed);
    }

    /// Sequence number in the queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// See [`number`](Self::number).
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }
}

/// The right to access the work request and bytes of a send that is not posted to the device.
/// Dropping it releases the claim.
///
/// # Invariants
///
/// `SendRequest::claimed` is set for this, and nothing is mapped.
pub(crate) struct Claim(Arc<SendRequest>);

impl Deref for Claim {
    type Target = Arc<SendRequest>;

    #[inline]
    fn deref(&self) -> &Arc<SendRequest> {
        &self.0
    }
}

impl Claim {
    /// Claims a send whose state says that it is to be posted; `None` if it is already claimed. Any
    /// context.
    #[inline]
    pub(crate) fn new(send: &Arc<SendRequest>) -> Option<Self> {
        send.claimed.cmpxchg(false, true, Acquire).ok()?;
        // INVARIANT: Set just now. The previous holder of the claim has unmapped.
        Some(Self(send.clone()))
    }

    #[inline]
    fn work(&self) -> &Work {
        // SAFETY: `SendRequest` invariant: only the holder of the claim, which is `self`, accesses
        // `work`.
        unsafe { &*self.0.work.get() }
    }

    #[inline]
    fn work_mut(&mut self) -> &mut Work {
        // SAFETY: As in `work`, borrowed mutably.
        unsafe { &mut *self.0.work.get() }
    }

    /// The headers, or the whole MAD.
    pub(crate) fn mad(&self) -> &[u8] {
        // SAFETY: `SendRequest` invariant: only the holder of the claim, which is `self`, accesses
        // the bytes, which exist as long as the send.
        unsafe { self.0.bytes().as_ref() }
    }

    /// The headers, or the whole MAD.
    pub(crate) fn mad_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `mad`, borrowed mutably.
        unsafe { self.0.bytes().as_mut() }
    }

    /// The address handle of the send.
    pub(crate) fn ah(&self) -> Option<&Ah> {
        // SAFETY: The poster of a send keeps its address handle until the send has ended
        // (`ib_post_send_mad` in `include/rdma/ib_mad.h`; `For` for the core's own sends).
        unsafe { Option::from_c(self.0.buf.ah()) }
    }

    /// Copies the address handle from the consumer's structure to the work request.
    pub(crate) fn take_ah(&mut self) {
        let ah = self.0.buf.ah();
        self.work_mut().wr.ah = ah;
    }

    /// Sets the outgoing port, on a switch.
    pub(crate) fn set_port(&mut self, port: u32) {
        self.work_mut().wr.port_num = port;
    }

    /// Sets the P_Key index.
    pub(crate) fn set_pkey_index(&mut self, index: u16) {
        self.work_mut().wr.pkey_index = index;
    }

    /// Selects the segment to be sent, and writes its headers.
    pub(crate) fn set_segment(&mut self, segment: &rmpp::Segment) {
        self.work_mut().segment = segment.number;
        let mad = self.mad_mut();
        if let Some(header) = rmpp::Header::parse(mad) {
            rmpp::Header {
                flags: segment.flags,
                segment: segment.number,
                length_or_window: segment.length,
                ..header
            }
            .write(mad);
        }
    }

    /// P_Key index and port of the work request.
    pub(crate) fn pkey_and_port(&self) -> (u16, u32) {
        let wr = &self.work().wr;
        (wr.pkey_index, wr.port_num)
    }

    /// Creates the completion of a receive, as if the node had received the send from itself, on
    /// queue pair `qp`.
    pub(crate) fn looped(&self, qp: &Qp, lid: u16, len: u32) -> OwnWc {
        let (pkey_index, port_num) = self.pkey_and_port();
        let mut wc = bindings::ib_wc {
            status: bindings::ib_wc_status_IB_WC_SUCCESS,
            opcode: bindings::ib_wc_opcode_IB_WC_RECV,
            pkey_index,
            byte_len: len,
            qp: qp.raw(),
            slid: u32::from(lid),
            port_num,
            ..Default::default()
        };
        // SAFETY: Only the address is computed.
        let cqe = unsafe { &raw mut (*self.0.work.get()).cqe };
        wc.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
        OwnWc(Wc::new(wc))
    }

    /// Maps the send for the device, and fills in the work request.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if there is no such segment.
    pub(crate) fn map(mut self, live: Live<'_>) -> Result<Mapped> {
        let lkey = live.pd().map_or(0, |pd| pd.local_dma_lkey());
        let send = &*self.0;
        let mad = send.bytes().cast::<u8>();
        // A single MAD is in one piece.
        let (first_len, segment) = if send.layout.segments == 0 {
            let len = send.layout.header.saturating_add(send.payload as usize);
            (len, None)
        } else {
            let segment = send.segment(self.work().segment).ok_or(EINVAL)?;
            (send.layout.header, Some(segment))
        };
        let first_len = u32::try_from(first_len).map_err(|_| EINVAL)?;
        let segment = segment.filter(|_| send.payload != 0);
        let payload_len = send.payload;
        let work = self.work_mut();
        // SAFETY: The lengths are within the allocations (`SendRequest::make`), which exist as long
        // as the send; `Mapped` or the device keep the send until it is unmapped. Nothing writes to
        // the bytes while the send is posted.
        unsafe {
            let first = Mapping::new(live, mad, first_len, Way::ToDevice)?;
            let [to_first, to_second] = &mut work.sge;
            *to_first = first.sge(lkey);
            work.wr.wr.num_sge = 1;
            let mut second = None;
            if let Some(segment) = segment {
                match Mapping::new(live, segment, payload_len, Way::ToDevice) {
                    Ok(mapping) => {
                        *to_second = mapping.sge(lkey);
                        work.wr.wr.num_sge = 2;
                        second = Some(mapping);
                    }
                    Err(error) => {
                        first.unmap(live.device());
                        return Err(error);
                    }
                }
            }
            work.mapped = [Some(first), second];
        }
        work.cqe.done = Some(on_sent);
        work.wr.wr.next = ptr::null_mut();
        work.wr.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut work.cqe);
        work.wr.wr.sg_list = (&raw mut work.sge).cast();
        // INVARIANT: Mapped just now, for the device of its port.
        Ok(Mapped(self))
    }
}

impl Drop for Claim {
    #[inline]
    fn drop(&mut self) {
        self.0.claimed.store(false, Release);
    }
}

/// A completion that the core creates itself.
pub(crate) struct OwnWc(Wc);

impl Deref for OwnWc {
    type Target = Wc;

    fn deref(&self) -> &Wc {
        &self.0
    }
}

impl OwnWc {
    /// Sets P_Key index and port.
    pub(crate) fn set_pkey_and_port(&mut self, pkey_index: u16, port: u32) {
        let wc = self.0.raw();
        // SAFETY: `&mut self`: it is not shared.
        unsafe {
            (*wc).pkey_index = pkey_index;
            (*wc).port_num = port;
        }
    }
}

/// A send that is mapped for its device, but not posted. Dropping it unmaps it.
///
/// # Invariants
///
/// The claim is held, and the mappings are for the device of the agent's port.
pub(crate) struct Mapped(Claim);

impl Deref for Mapped {
    type Target = Arc<SendRequest>;

    #[inline]
    fn deref(&self) -> &Arc<SendRequest> {
        &self.0
    }
}

impl Mapped {
    /// Posts the send to the device, which completes it. Any context.
    ///
    /// # Errors
    ///
    /// Errors of the driver, together with the send.
    pub(crate) fn post(self, qp: &Qp) -> Result<(), (Self, Error)> {
        let send = self.into_arc();
        // SAFETY: The request, and what it points to, is valid until it is completed
        // (`Claim::map`). From here on claim and reference belong to the device: the send is not
        // used again unless the driver refuses.
        let posted = unsafe {
            let wr = &raw const (*send.work.get()).wr.wr;
            to_result(bindings::rdma_helper_ib_post_send(qp.raw(), wr))
        };
        match posted {
            Ok(()) => {
                // The device's reference; `Done` takes it back.
                let _: *const SendRequest = Arc::into_raw(send);
                Ok(())
            }
            // INVARIANT: The driver has refused it, so claim and mapping are as before.
            Err(error) => Err((Self(Claim(send)), error)),
        }
    }

    /// Unmaps the send and releases the claim.
    #[inline]
    pub(crate) fn finish(mut self) -> Arc<SendRequest> {
        self.unmap();
        let send = self.into_arc();
        send.claimed.store(false, Release);
        send
    }

    /// The send, with claim and mapping left in place.
    #[inline]
    fn into_arc(self) -> Arc<SendRequest> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is `ManuallyDrop` and not used again, so the `Arc` is moved out once.
        unsafe { ptr::read(&this.0 .0) }
    }

    #[inline]
    fn unmap(&mut self) {
        let mapped = core::mem::take(&mut self.0.work_mut().mapped);
        let device = self.agent.owner().live().device();
        for mapping in mapped.into_iter().flatten() {
            // SAFETY: By the type invariant the mapping is for this device; the send is not posted.
            unsafe { mapping.unmap(device) };
        }
    }

    /// For tracepoints: address handle, remote QP number and remote Q_Key of the work request.
    pub(super) fn traced(&self) -> (*mut bindings::ib_ah, u32, u32) {
        let wr = &self.0.work().wr;
        (wr.ah, wr.remote_qpn, wr.remote_qkey)
    }

    /// The headers, or the whole MAD.
    pub(super) fn mad(&self) -> &[u8] {
        self.0.mad()
    }
}

impl Drop for Mapped {
    #[inline]
    fn drop(&mut self) {
        self.unmap();
    }
}

/// List of mapped sends that wait.
pub(crate) struct MappedList(List<SendRequest, 1>);

impl MappedList {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self(List::new())
    }

    /// Returns whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a send.
    ///
    /// # Errors
    ///
    /// The send, if it is already in such a list.
    pub(crate) fn push(&mut self, send: Mapped) -> Result<(), Mapped> {
        match ListArc::try_from_arc(send.into_arc()) {
            Ok(item) => {
                self.0.push_back(item);
                Ok(())
            }
            // INVARIANT: Claim and mapping are unchanged.
            Err(send) => Err(Mapped(Claim(send))),
        }
    }

    /// Takes the first send.
    pub(crate) fn pop(&mut self) -> Option<Mapped> {
        let send = self.0.pop_front()?.into_arc();
        // INVARIANT: `push` left claim and mapping to the list.
        Some(Mapped(Claim(send)))
    }
}

/// The completion of a send, as its callback receives it.
pub(crate) struct Done<'a> {
    /// The completion.
    pub(crate) wc: &'a Wc,
    /// The send, which the device has completed.
    pub(crate) send: Mapped,
}

// SAFETY: `from_c` is for completions of requests whose callback is `on_sent`: those that
// `Mapped::post` posted to the device, once for each.
unsafe impl FromC for Done<'_> {
    type C = *mut bindings::ib_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The completion is lent for the call. Its `wr_cqe` is the field of the work of a
        // send, whose reference belonged to the device; an `UnsafeCell` has the layout of its
        // content.
        unsafe {
            let cqe = *(*c).__bindgen_anon_1.wr_cqe;
            let work = container_of!(cqe, Work, cqe).cast::<UnsafeCell<Work>>();
            let send = Arc::from_raw(container_of!(work, SendRequest, work));
            // INVARIANT: `post` gave claim and mapping to the device.
            Self {
                wc: Wc::view(c),
                send: Mapped(Claim(send)),
            }
        }
    }
}
// SAFETY: The poller lends the completion for the call.
unsafe impl<'a> Within<'a> for Done<'a> {}

rdma::callback! {
    /// Callback of the requests of [`Mapped::post`], called by the completion queues of ports.
    fn on_sent(cq: Passed<bindings::ib_cq>, done: Done<'_>) = transact::sent;
}
