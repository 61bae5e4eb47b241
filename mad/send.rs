// SPDX-License-Identifier: GPL-2.0

//! A send: the buffer that a consumer fills in (`struct ib_mad_send_buf`), and the work
//! request that goes with it.
//!
//! The consumer has it until it posts it and from when it is told that it has ended; it
//! has one count, which `ib_free_send_mad` gives back. In between the agent has it in one of
//! its lists, and the device may have it: each has a count of its own.
//!
//! The work request is touched by nobody but who is posting it or was told that it was
//! completed, of which there is one at a time: the state says which.

use super::agent::Agent;
use super::agent::Inner;
use super::agent::OwnedPass;
use super::buffer::Buffer;
use super::buffer::Mapping;
use super::buffer::Way;
use super::receive::GRH;
use super::transfer::Transfer;
use crate::proto::mad::matching;
use crate::proto::mad::rmpp;
use crate::proto::mad::send as life;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Layout;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::container_of;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::LockedBy;
use kernel::types::Opaque;
use rdma::bindings;

/// `IB_QP_SET_QKEY`: the queue pair's own key is sent.
const OWN_QKEY: u32 = 0x8000_0000;

/// Whom to tell when it has ended.
pub(super) enum For {
    /// The agent's consumer.
    Consumer,
    /// Nobody. The address handle goes with it.
    Nobody(NonNull<bindings::ib_ah>),
    /// Nobody. The address handle is a transfer's.
    Transfer {
        /// Whose it is: kept until then.
        _of: Arc<Transfer>,
    },
}

// SAFETY: Address handles belong to no thread.
unsafe impl core::marker::Send for For {}
// SAFETY: It is only read until it is taken.
unsafe impl Sync for For {}

/// What the device is given.
struct Work {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_ud_wr,
    sge: [bindings::ib_sge; 2],
    mapped: [Option<Mapping>; 2],
    /// Which segment is sent, from 1; of a transfer.
    segment: u32,
}

/// See the [module](self).
#[pin_data]
pub(super) struct Send {
    #[pin]
    links: ListLinks<0>,
    #[pin]
    listed: AtomicTracker<0>,
    #[pin]
    waiting_links: ListLinks<1>,
    #[pin]
    waiting: AtomicTracker<1>,
    buf: Opaque<bindings::ib_mad_send_buf>,
    work: UnsafeCell<Work>,
    /// Its number with the queue pair; under that one's lock.
    number: Atomic<u32>,
    /// When it expires; under the agent's lock.
    due: Atomic<u64>,
    pub(super) life: LockedBy<life::Send, Inner>,
    pub(super) sent: LockedBy<matching::Sent, Inner>,
    /// The MAD, or the headers of a transfer.
    mad: Buffer,
    /// The data of a transfer.
    segments: KVVec<Buffer>,
    layout: Layout,
    /// Bytes after the headers in the one MAD.
    payload: u32,
    whom: For,
    // Last: the agent may go as soon as it is dropped.
    agent: OwnedPass,
}

// SAFETY: See the module's documentation of who may touch the work request; the consumer's
// structure belongs to no thread.
unsafe impl core::marker::Send for Send {}
// SAFETY: As above; the rest has locks.
unsafe impl Sync for Send {}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Send { tracked_by listed: AtomicTracker<0>; }
    impl ListArcSafe<1> for Send { tracked_by waiting: AtomicTracker<1>; }
}
impl_list_item! {
    impl ListItem<0> for Send { using ListLinks { self.links }; }
    impl ListItem<1> for Send { using ListLinks { self.waiting_links }; }
}

/// What a send is to be like.
pub(super) struct Plan {
    /// Of whom; the queue pair's number and P_Key's place.
    pub(super) remote_qpn: u32,
    pub(super) pkey_index: u16,
    pub(super) rmpp: bool,
    pub(super) header: usize,
    pub(super) data: usize,
    pub(super) base_version: u8,
}

impl Send {
    /// Allocates one. The context is that of `flags`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the message does not fit, or the agent does not do such; `ENOMEM`;
    /// `ENODEV` if the agent is going.
    pub(super) fn new(
        agent: &Arc<Agent>,
        plan: &Plan,
        whom: For,
        flags: Flags,
    ) -> Result<Arc<Self>> {
        let opa = agent.port().is_opa() && plan.base_version == wire::OPA_VERSION;
        let mad_size = if opa {
            wire::OPA_MAD_SIZE
        } else {
            wire::MAD_SIZE
        };
        if plan.rmpp && !agent.does_rmpp() {
            return Err(EINVAL);
        }
        let layout = Layout::new(mad_size, plan.header, plan.data, plan.rmpp).ok_or(EINVAL)?;
        let pass = OwnedPass::try_enter(agent.clone(), |agent| agent.gate()).ok_or(ENODEV)?;

        let mad = Buffer::new(if plan.rmpp { layout.header } else { mad_size }, flags)?;
        let mut segments = KVVec::with_capacity(layout.segments, flags)?;
        for _ in 0..layout.segments {
            segments.push(Buffer::new(layout.segment(), flags)?, flags)?;
        }
        let transfer = match whom {
            For::Consumer if plan.rmpp => Some(rmpp::Sender::new(&layout).ok_or(EINVAL)?),
            // What belongs to another transfer is not one.
            _ => None,
        };
        if plan.rmpp {
            let header = rmpp::Header {
                version: agent.rmpp_version(),
                kind: rmpp::Kind::Data as u8,
                flags: rmpp::flag::ACTIVE,
                status: rmpp::status::SUCCESS,
                segment: 0,
                length_or_window: 0,
            };
            // SAFETY: Nobody else has it yet.
            header.write(unsafe { mad.bytes_mut() });
        }
        // MADs of Omni-Path need not be full.
        let room = layout.segment();
        let payload = if opa { room.min(plan.data) } else { room };
        let as_int = |len: usize| i32::try_from(len).map_err(|_| EINVAL);
        let buf = bindings::ib_mad_send_buf {
            next: ptr::null_mut(),
            mad: mad.as_ptr().cast(),
            mad_agent: agent.as_raw(),
            ah: ptr::null_mut(),
            context: [ptr::null_mut(); 2],
            hdr_len: as_int(layout.header)?,
            data_len: as_int(layout.data)?,
            seg_count: as_int(layout.segments)?,
            seg_size: if plan.rmpp { as_int(room)? } else { 0 },
            seg_rmpp_size: if plan.rmpp {
                as_int(layout.rmpp_segment())?
            } else {
                0
            },
            timeout_ms: 0,
            retries: 0,
        };
        let mut wr = bindings::ib_ud_wr {
            remote_qpn: plan.remote_qpn,
            remote_qkey: OWN_QKEY,
            pkey_index: plan.pkey_index,
            // SAFETY: Zeros are one.
            ..unsafe { core::mem::zeroed() }
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        let work = Work {
            cqe: bindings::ib_cqe::default(),
            wr,
            // SAFETY: Zeros are such.
            sge: unsafe { core::mem::zeroed() },
            mapped: [None; 2],
            segment: 1,
        };
        let payload = u32::try_from(payload).map_err(|_| EINVAL)?;
        let sent = matching::Sent {
            tid: 0,
            class: 0,
            is_response: false,
            path: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                waiting_links <- ListLinks::new(),
                waiting <- AtomicTracker::new(),
                buf: Opaque::new(buf),
                work: UnsafeCell::new(work),
                number: Atomic::new(0),
                due: Atomic::new(0),
                life: LockedBy::new(agent.inner(), life::Send::new(transfer)),
                sent: LockedBy::new(agent.inner(), sent),
                mad,
                segments,
                layout,
                payload,
                whom,
                agent: pass,
            }),
            flags,
        )
    }

    /// The consumer's structure.
    pub(super) fn buf(&self) -> *mut bindings::ib_mad_send_buf {
        self.buf.get()
    }

    /// The send of a consumer's structure.
    ///
    /// # Safety
    ///
    /// It is one that was made here and not freed yet.
    pub(super) unsafe fn of_buf(buf: *mut bindings::ib_mad_send_buf) -> Arc<Self> {
        // SAFETY: By this function's duty.
        let this = unsafe { container_of!(Opaque::cast_from(buf), Self, buf) };
        // SAFETY: It is in an `Arc`, one count of which the consumer has.
        unsafe { kernel::sync::ArcBorrow::from_raw(this) }.into()
    }

    /// The send of a work request that was completed, with the device's count.
    ///
    /// # Safety
    ///
    /// It is one that was posted, and this is called once for that.
    pub(super) unsafe fn of_cqe(cqe: *mut bindings::ib_cqe) -> Arc<Self> {
        // SAFETY: By this function's duty; the cell has no header.
        unsafe {
            let work = container_of!(cqe, Work, cqe);
            let this = container_of!(work.cast::<UnsafeCell<Work>>(), Self, work);
            Arc::from_raw(this)
        }
    }

    /// The agent it belongs to.
    pub(super) fn agent(&self) -> &Arc<Agent> {
        self.agent.owner()
    }

    /// Whom to tell.
    pub(super) const fn whom(&self) -> &For {
        &self.whom
    }

    /// How it is laid out.
    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The headers, or the whole MAD.
    ///
    /// # Safety
    ///
    /// Nobody writes to it meanwhile: the consumer does not while it is posted.
    pub(super) unsafe fn mad(&self) -> &[u8] {
        // SAFETY: By this function's duty.
        unsafe { self.mad.bytes() }
    }

    /// The headers, or the whole MAD.
    ///
    /// # Safety
    ///
    /// It is with neither consumer nor device, and nobody else uses it.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that it is alone")]
    pub(super) unsafe fn mad_mut(&self) -> &mut [u8] {
        // SAFETY: By this function's duty.
        unsafe { self.mad.bytes_mut() }
    }

    /// The data of a segment, from 1. What C gave for other numbers than there are was the
    /// list's own head; here it is the nearest.
    pub(super) fn segment(&self, number: u32) -> Option<*mut u8> {
        let last = self.segments.len().checked_sub(1)?;
        let index = (number as usize).saturating_sub(1).min(last);
        self.segments.get(index).map(Buffer::as_ptr)
    }

    /// For tracepoints: how long a response is waited for, and how often it may be sent
    /// again, still and at most.
    pub(super) fn times(&self) -> (Ticks, (u32, u32)) {
        let inner = self.agent().inner().lock();
        let life = self.life.access(&inner);
        (life.patience(), life.retries())
    }

    /// When it expires.
    pub(super) fn due(&self) -> Ticks {
        self.due.load(Relaxed)
    }

    pub(super) fn set_due(&self, due: Ticks) {
        self.due.store(due, Relaxed);
    }

    pub(super) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    pub(super) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }

    /// Changes what is posted next: where to, and, on a switch, by which port.
    ///
    /// # Safety
    ///
    /// It is about to be posted by the caller, and not with the device.
    pub(super) unsafe fn set_ah(&self, ah: *mut bindings::ib_ah) {
        // SAFETY: By this function's duty.
        unsafe { (*self.work.get()).wr.ah = ah };
    }

    /// See [`set_ah`](Self::set_ah).
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn set_port(&self, port: u32) {
        // SAFETY: By this function's duty.
        unsafe { (*self.work.get()).wr.port_num = port };
    }

    /// See [`set_ah`](Self::set_ah).
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn set_pkey_index(&self, index: u16) {
        // SAFETY: By this function's duty.
        unsafe { (*self.work.get()).wr.pkey_index = index };
    }

    /// See [`set_ah`](Self::set_ah). Writes the headers of a segment, too.
    ///
    /// # Safety
    ///
    /// As there.
    pub(super) unsafe fn set_segment(&self, segment: &rmpp::Segment) {
        // SAFETY: By this function's duty.
        unsafe {
            (*self.work.get()).segment = segment.number;
            let mad = self.mad.bytes_mut();
            let Some(header) = rmpp::Header::parse(mad) else {
                return;
            };
            rmpp::Header {
                flags: segment.flags,
                segment: segment.number,
                length_or_window: segment.length,
                ..header
            }
            .write(mad);
        }
    }

    /// P_Key and port of the work request.
    ///
    /// # Safety
    ///
    /// As for [`set_ah`](Self::set_ah).
    pub(super) unsafe fn pkey_and_port(&self) -> (u16, u32) {
        // SAFETY: By this function's duty.
        unsafe {
            let work = &*self.work.get();
            (work.wr.pkey_index, work.wr.port_num)
        }
    }

    /// Where the completion is announced.
    pub(super) fn cqe(&self) -> *mut bindings::ib_cqe {
        // SAFETY: Only computed.
        unsafe { &raw mut (*self.work.get()).cqe }
    }

    /// The work request.
    pub(super) fn wr(&self) -> *const bindings::ib_send_wr {
        // SAFETY: Only computed.
        unsafe { &raw const (*self.work.get()).wr.wr }
    }

    /// Lets the device read it, and fills in the work request.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// As for [`set_ah`](Self::set_ah); the device is alive.
    pub(super) unsafe fn map(&self, device: *mut bindings::ib_device, lkey: u32) -> Result {
        // SAFETY: By this function's duty.
        let work = unsafe { &mut *self.work.get() };
        let header = u32::try_from(self.layout.header).map_err(|_| EINVAL)?;
        let payload = if self.layout.segments == 0 {
            self.mad.as_ptr().wrapping_add(self.layout.header)
        } else {
            self.segment(work.segment).ok_or(EINVAL)?
        };
        // SAFETY: By this function's duty; the buffers stay until it is completed.
        unsafe {
            let first = Mapping::new(device, self.mad.as_ptr(), header, Way::ToDevice)?;
            work.sge[0] = first.sge(lkey);
            let second = if self.payload == 0 {
                None
            } else {
                let second = Mapping::new(device, payload, self.payload, Way::ToDevice)
                    .inspect_err(|_| first.unmap(device))?;
                work.sge[1] = second.sge(lkey);
                Some(second)
            };
            work.mapped = [Some(first), second];
        }
        work.cqe.done = Some(super::transact::send_done);
        work.wr.wr.next = ptr::null_mut();
        work.wr.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut work.cqe);
        work.wr.wr.sg_list = work.sge.as_mut_ptr();
        work.wr.wr.num_sge = if self.payload == 0 { 1 } else { 2 };
        Ok(())
    }

    /// Ends what [`map`](Self::map) began.
    ///
    /// # Safety
    ///
    /// It was mapped for this device, and is not with it.
    pub(super) unsafe fn unmap(&self, device: *mut bindings::ib_device) {
        // SAFETY: By this function's duty it is the caller's.
        let work = unsafe { &mut *self.work.get() };
        for mapping in work.mapped.iter_mut().filter_map(Option::take) {
            // SAFETY: As above; taken, so once.
            unsafe { mapping.unmap(device) };
        }
    }

    /// How many bytes a completion of it counts, with the header room.
    pub(super) const fn byte_len(&self) -> usize {
        self.layout.header + self.layout.data + GRH
    }
}
