// SPDX-License-Identifier: GPL-2.0

//! IDs of `ib_cm`: InfiniBand and RoCE.
//!
//! `ib_cm` calls one handler at a time for each of its IDs, and destroys an ID whose handler does
//! not return 0. The context of a connection's ID is our [`Id`], to which its owner has a reference. Listeners of one service ID on a device share an ID, whose handler looks for the listener.
//!
//! Must match `include/rdma/ib_cm.h`.

use super::args::Data;
use super::core::ndev_of;
use super::event::Event;
use super::event::Values;
use super::id::Id;
use super::trace;
use super::trace::Step;
use super::transport::Ends;
use super::transport::Owned;
use super::transport::Use;
use super::transport::Vacant;
use crate::proto::addr::Address;
use crate::proto::addr::Family;
use crate::proto::addr::Ib;
use crate::proto::event::IbEvent;
use crate::proto::header::REQ_DATA;
use crate::proto::header::SIDR_DATA;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::net::NetDevice;

/// Time that a peer's CM may take: 4.096 us * 2^20, or 2^12 ms.
const RESPONSE_TIMEOUT: u8 = 20;
const RESPONSE_MS: usize = 1 << (RESPONSE_TIMEOUT - 8);
const RETRIES: u8 = 15;

/// Sizes of private data in answers.
const REP_DATA: u8 = 196;
const REJ_DATA: u8 = 148;
const SIDR_REP_DATA: u8 = 136;

/// The use of an ID of `ib_cm`.
pub(crate) type IbId = Use<bindings::ib_cm_id>;

/// The owner of an ID of `ib_cm`.
pub(crate) type OwnedIb = Owned<bindings::ib_cm_id>;

// SAFETY: IDs of `ib_cm` have their own locks.
unsafe impl Ends for bindings::ib_cm_id {
    unsafe fn destroy(raw: NonNull<Self>) {
        // SAFETY: The ID exists and is ours (contract of this function).
        unsafe { bindings::ib_destroy_cm_id(raw.as_ptr()) };
    }
}

/// What a request asks for.
pub(crate) struct Connect<'a> {
    pub(crate) service_id: u64,
    pub(crate) data: &'a [u8],
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
}

/// The pointer and length of private data; null for none.
fn data_of(data: &[u8]) -> (*const kernel::ffi::c_void, u8) {
    let at = if data.is_empty() {
        ptr::null()
    } else {
        data.as_ptr().cast()
    };
    // Callers pass at most 255 bytes.
    (at, u8::try_from(data.len()).unwrap_or(u8::MAX))
}

impl IbId {
    /// Creates an ID for a connection, or for datagrams.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create(device: &DeviceRef, id: &Arc<Id>, datagrams: bool) -> Result<OwnedIb> {
        let handler = if datagrams { on_sidr } else { on_event };
        let vacant = Vacant::new(Some(id.clone()))?;
        // SAFETY: The device exists. The new ID is ours, and its owner has a reference to the context.
        unsafe {
            let raw =
                bindings::ib_create_cm_id(device.raw(), Some(handler), super::id::context(id));
            let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
            Ok(vacant.own(raw))
        }
    }

    /// Listens for requests.
    ///
    /// # Errors
    ///
    /// `EBUSY`: another user of `ib_cm` listens; `ENOMEM`.
    pub(crate) fn listen(device: &DeviceRef, service_id: u64) -> Result<OwnedIb> {
        let vacant = Vacant::new(None)?;
        // SAFETY: The device exists. The share of the listener's ID that is returned is ours.
        unsafe {
            let raw =
                bindings::ib_cm_insert_listen(device.raw(), Some(on_request), service_id.to_be());
            let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
            Ok(vacant.own(raw))
        }
    }

    /// The attributes of a queue pair.
    pub(super) fn init_qp_attr(&self, attr: &mut bindings::ib_qp_attr, mask: &mut c_int) -> Result {
        // SAFETY: The ID exists (guarantee of a use).
        to_result(unsafe { bindings::ib_cm_init_qp_attr(self.raw(), attr, mask) })
    }

    /// Sends a request for a connection. Under the lock of callbacks.
    pub(crate) fn send_req(&self, id: &Id, connect: &Connect<'_>) -> Result {
        let (private_data, private_data_len) = data_of(connect.data);
        let paths = id.path_rec();
        let [inbound, outbound] = id.one_way_paths();
        let (srq, ece) = id.look(|inner| (inner.srq, inner.ece));
        let sgid = id.sgid();
        let mut req = bindings::ib_cm_req_param {
            primary_path: paths,
            primary_path_inbound: inbound,
            primary_path_outbound: outbound,
            alternate_path: if id.words().num_paths() == 2 {
                paths.wrapping_add(1)
            } else {
                ptr::null_mut()
            },
            ppath_sgid_attr: sgid.as_ref().map_or(ptr::null(), |sgid| sgid.as_raw()),
            service_id: connect.service_id.to_be(),
            qp_num: id.words().qp_num(),
            qp_type: id.words().qp_type(),
            starting_psn: id.seq_num,
            private_data,
            private_data_len,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            flow_control: connect.flow_control,
            retry_count: connect.retry_count,
            rnr_retry_count: connect.rnr_retry_count,
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            max_cm_retries: RETRIES,
            srq: srq.into(),
            ece: ece_of(ece),
        };
        trace::step(id, Step::SendReq);
        // SAFETY: The ID exists (guarantee of a use). The paths do, as the lock of callbacks is held,
        // and all else outlives the call.
        to_result(unsafe { bindings::ib_send_cm_req(self.raw(), &mut req) })
    }

    /// Accepts a request.
    pub(crate) fn send_rep(&self, id: &Id, conn: &super::args::Conn<'_>) -> Result {
        let (srq, ece) = id.look(|inner| (inner.srq, inner.ece));
        let data = conn.data();
        let mut rep = bindings::ib_cm_rep_param {
            qp_num: id.words().qp_num(),
            starting_psn: id.seq_num,
            private_data: data.as_ptr(),
            private_data_len: data.len(),
            responder_resources: conn.responder_resources(),
            initiator_depth: conn.initiator_depth(),
            failover_accepted: 0,
            flow_control: conn.flow_control(),
            rnr_retry_count: conn.rnr_retry_count(),
            srq: srq.into(),
            ece: ece_of(ece),
        };
        trace::step(id, Step::SendRep);
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe { bindings::ib_send_cm_rep(self.raw(), &mut rep) })
    }

    /// Tells the peer that this end is ready.
    pub(crate) fn send_rtu(&self, id: &Id) -> Result {
        trace::step(id, Step::SendRtu);
        // SAFETY: The ID exists (guarantee of a use).
        to_result(unsafe { bindings::ib_send_cm_rtu(self.raw(), ptr::null(), 0) })
    }

    /// Refuses a request or a reply.
    pub(crate) fn send_rej(&self, id: &Id, reason: u8, data: Data<'_>) -> Result {
        trace::step(id, Step::SendRej);
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe {
            bindings::ib_send_cm_rej(
                self.raw(),
                reason.into(),
                ptr::null_mut(),
                0,
                data.as_ptr(),
                data.len(),
            )
        })
    }

    /// Disconnects, or agrees to that.
    pub(crate) fn disconnect(&self, id: &Id) {
        trace::step(id, Step::Disconnect);
        // SAFETY: The ID exists (guarantee of a use).
        if unsafe { bindings::ib_send_cm_dreq(self.raw(), ptr::null(), 0) } == 0 {
            return trace::step(id, Step::SentDreq);
        }
        // The peer was first, or there is no connection.
        // SAFETY: The ID exists (guarantee of a use).
        if unsafe { bindings::ib_send_cm_drep(self.raw(), ptr::null(), 0) } == 0 {
            trace::step(id, Step::SentDrep);
        }
    }

    /// Tells the peer, if it repeats itself, that the answer takes time.
    pub(crate) fn prepare_mra(&self, id: &Id) {
        trace::step(id, Step::PrepareMra);
        // SAFETY: The ID exists (guarantee of a use).
        unsafe { bindings::ib_prepare_cm_mra(self.raw()) };
    }

    /// Reports an event of the queue pair.
    pub(crate) fn notify(&self, event: u32) -> Result {
        // SAFETY: The ID exists (guarantee of a use); the function checks the event.
        to_result(unsafe { bindings::ib_cm_notify(self.raw(), event) })
    }

    /// Asks for the queue pair of a service of datagrams. Under the lock of callbacks.
    pub(crate) fn send_sidr_req(&self, id: &Id, service_id: u64, data: &[u8]) -> Result {
        let (private_data, private_data_len) = data_of(data);
        let sgid = id.sgid();
        let mut req = bindings::ib_cm_sidr_req_param {
            path: id.path_rec(),
            sgid_attr: sgid.as_ref().map_or(ptr::null(), |sgid| sgid.as_raw()),
            service_id: service_id.to_be(),
            timeout_ms: RESPONSE_MS,
            private_data,
            private_data_len,
            max_cm_retries: RETRIES,
        };
        trace::step(id, Step::SendSidrReq);
        // SAFETY: As in `send_req`: ID, path and data exist during the call.
        to_result(unsafe { bindings::ib_send_cm_sidr_req(self.raw(), &mut req) })
    }

    /// Answers a request for datagrams: with the queue pair, or with a refusal.
    pub(crate) fn send_sidr_rep(&self, id: &Id, accept: bool, data: Data<'_>) -> Result {
        let mut rep = bindings::ib_cm_sidr_rep_param {
            status: if accept {
                bindings::ib_cm_sidr_status_IB_SIDR_SUCCESS
            } else {
                bindings::ib_cm_sidr_status_IB_SIDR_REJECT
            },
            private_data: data.as_ptr(),
            private_data_len: data.len(),
            ..Default::default()
        };
        if accept {
            let (qkey, ece) = id.look(|inner| (inner.qkey, inner.ece));
            rep.qp_num = id.words().qp_num();
            rep.qkey = qkey;
            rep.ece = ece_of(ece);
        }
        trace::step(id, Step::SendSidrRep);
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe { bindings::ib_send_cm_sidr_rep(self.raw(), &mut rep) })
    }
}

const fn ece_of((vendor_id, attr_mod): (u32, u32)) -> bindings::rdma_ucm_ece {
    bindings::rdma_ucm_ece {
        vendor_id,
        attr_mod,
    }
}

/// An event of `ib_cm`, in its handler.
pub(crate) struct Incoming<'a> {
    raw: &'a bindings::ib_cm_event,
}

impl Incoming<'_> {
    /// What happened.
    pub(crate) fn event(&self) -> IbEvent {
        IbEvent::from_raw(self.raw.event)
    }

    fn data(&self, len: u8) -> Data<'_> {
        // SAFETY: `ib_cm` passes private data of the size that the event has.
        unsafe { Data::new(self.raw.private_data, len) }
    }

    /// The event for the consumer after a reply.
    pub(crate) fn reply(&self) -> Event {
        // SAFETY: The event is a reply, as the caller has seen in `event`; all members are numbers.
        let rep = unsafe { &*self.raw.param.rep_rcvd };
        let values = Values {
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            // CAST: Bit fields of at most 8 bits.
            flow_control: rep.flow_control() as u8,
            retry_count: 0,
            rnr_retry_count: rep.rnr_retry_count() as u8,
            srq: rep.srq() as u8,
            qp_num: rep.remote_qpn,
            ece: (rep.ece.vendor_id, rep.ece.attr_mod),
        };
        Event::of_connection(self.data(REP_DATA), &values)
    }

    /// The event for the consumer after a refusal, and the reason.
    pub(crate) fn refusal(&self) -> (Event, i32) {
        // SAFETY: The event is a refusal, as the caller has seen in `event`.
        let reason = unsafe { (*self.raw.param.rej_rcvd).reason };
        let event = Event::of_connection(self.data(REJ_DATA), &Values::default());
        // CAST: A small number.
        (event, reason as i32)
    }
}

/// The handler of connections.
///
/// # Safety
///
/// For `ib_cm` only, with an ID whose context is an [`Id`].
unsafe extern "C" fn on_event(
    raw: *mut bindings::ib_cm_id,
    event: *const bindings::ib_cm_event,
) -> c_int {
    // SAFETY: The ID and the event exist during the call. The context exists until it has destroyed
    // this ID, which waits for the handler.
    let (id, raw) = unsafe { (super::id::of_context((*raw).context), &*event) };
    id.map_or(0, |id| crate::connect::ib_event(&id, &Incoming { raw }))
}

/// An answer to a request for datagrams.
pub(crate) struct Sidr<'a> {
    raw: &'a bindings::ib_cm_event,
}

impl Sidr<'_> {
    /// Status, Q_Key and number of the queue pair; `None` if there was no answer.
    pub(crate) fn answer(&self) -> Option<(i32, u32, u32)> {
        if self.raw.event != bindings::ib_cm_event_type_IB_CM_SIDR_REP_RECEIVED {
            return None;
        }
        // SAFETY: The event says which member of the union is valid.
        let rep = unsafe { &*self.raw.param.sidr_rep_rcvd };
        // CAST: A small number.
        Some((rep.status as i32, rep.qkey, rep.qpn))
    }

    /// Whether the event is one of datagrams at all.
    pub(crate) fn is_known(&self) -> bool {
        matches!(
            self.raw.event,
            bindings::ib_cm_event_type_IB_CM_SIDR_REP_RECEIVED
                | bindings::ib_cm_event_type_IB_CM_SIDR_REQ_ERROR
        )
    }

    /// The event for the consumer. With `attrs` it has the address of the peer.
    pub(crate) fn event(&self, id: &Id, attrs: bool) -> DatagramEvent {
        let Some((_, qkey, qpn)) = self.answer() else {
            return DatagramEvent(Event::new());
        };
        // SAFETY: `ib_cm` passes private data of this size.
        let data = unsafe { Data::new(self.raw.private_data, SIDR_REP_DATA) };
        if !attrs {
            return DatagramEvent(Event::of_datagrams(data, 0, 0));
        }
        let mut event = Event::of_datagrams(data, qpn, qkey);
        if let Some((device, port)) = id.device() {
            // SAFETY: Device and path exist, as the lock of callbacks is held; the attributes are
            // zeros, and `ib_cm` has a reference to the GID entry during the call.
            unsafe {
                let sgid = (*self.raw.param.sidr_rep_rcvd).sgid_attr;
                bindings::ib_init_ah_attr_from_path(
                    device.raw(),
                    port,
                    id.path_rec(),
                    event.ah_attr(),
                    sgid,
                );
            }
        }
        DatagramEvent(event)
    }
}

/// An event whose address attributes have a reference.
pub(crate) struct DatagramEvent(pub(super) Event);

impl DatagramEvent {
    /// The event.
    pub(crate) fn event(&mut self) -> &mut Event {
        &mut self.0
    }
}

impl From<Event> for DatagramEvent {
    fn from(event: Event) -> Self {
        Self(event)
    }
}

impl Drop for DatagramEvent {
    fn drop(&mut self) {
        // SAFETY: The attributes are zeros, or those that the core has filled in.
        unsafe { bindings::rdma_destroy_ah_attr(self.0.ah_attr()) };
    }
}

/// The handler of requests for datagrams that we have sent.
///
/// # Safety
///
/// As for [`on_event`].
unsafe extern "C" fn on_sidr(
    raw: *mut bindings::ib_cm_id,
    event: *const bindings::ib_cm_event,
) -> c_int {
    // SAFETY: As in `on_event`: ID, event and context exist during the call.
    let (id, raw) = unsafe { (super::id::of_context((*raw).context), &*event) };
    id.map_or(0, |id| crate::connect::sidr_event(&id, &Sidr { raw }))
}

/// The GIDs of this end and of the peer, and the P_Key.
type PathEnds = ([u8; 16], [u8; 16], u16);

/// A peer's request, in the handler of a listener.
pub(crate) struct Request<'a> {
    raw: *mut bindings::ib_cm_id,
    event: &'a bindings::ib_cm_event,
    datagrams: bool,
}

impl<'a> Request<'a> {
    /// Traces the request for its listener.
    pub(crate) fn trace(&self, listener: &Id) {
        trace::request(listener, self.event.event);
    }

    fn req(&self) -> &bindings::ib_cm_req_event_param {
        // SAFETY: Only called for requests for connections.
        unsafe { &self.event.param.req_rcvd }
    }

    fn sidr(&self) -> &bindings::ib_cm_sidr_req_event_param {
        // SAFETY: Only called for requests for datagrams.
        unsafe { &self.event.param.sidr_req_rcvd }
    }

    /// The device that received the request, by its address.
    pub(crate) fn device(&self) -> usize {
        // SAFETY: The ID of the request exists during the call.
        unsafe { (*self.raw).device }.addr()
    }

    /// The port that received it.
    pub(crate) fn port(&self) -> u32 {
        if self.datagrams {
            self.sidr().port.into()
        } else {
            self.req().port.into()
        }
    }

    /// The service ID.
    pub(crate) fn service_id(&self) -> u64 {
        u64::from_be(if self.datagrams {
            self.sidr().service_id
        } else {
            // SAFETY: A request has a primary path.
            unsafe { (*self.req().primary_path).service_id }
        })
    }

    /// `enum ib_qp_type` of the peer's queue pair.
    pub(crate) fn qp_type(&self) -> u32 {
        if self.datagrams {
            bindings::ib_qp_type_IB_QPT_UD
        } else {
            self.req().qp_type
        }
    }

    /// The private data.
    pub(crate) fn data(&self) -> &'a [u8] {
        let len = if self.datagrams { SIDR_DATA } else { REQ_DATA };
        // SAFETY: `ib_cm` passes private data of this size, which exists during the call.
        unsafe { core::slice::from_raw_parts(self.event.private_data.cast_const().cast(), len) }
    }

    /// The network device of InfiniBand that has the request's P_Key, GID and address.
    pub(crate) fn ib_net_device(&self, local: &Address) -> Option<ARef<NetDevice>> {
        let bytes = super::core::Bytes::new(local);
        // SAFETY: The ID of the request, its device and the paths exist during the call. The
        // function returns null or a reference.
        unsafe {
            let (pkey, gid) = if self.datagrams {
                (self.sidr().pkey, ptr::null())
            } else {
                let path = self.req().primary_path;
                (u16::from_be((*path).pkey), &raw const (*path).sgid)
            };
            let dev = bindings::ib_get_net_dev_by_params(
                (*self.raw).device,
                self.port(),
                pkey,
                gid,
                bytes.as_ptr(),
            );
            NonNull::new(dev).map(|dev| ARef::from_raw(dev.cast()))
        }
    }

    /// Whether the port is one of RoCE.
    pub(crate) fn is_roce(&self) -> bool {
        // SAFETY: The ID of the request and its device exist during the call.
        let device = unsafe { rdma::edge::View::view((*self.raw).device) };
        super::core::caps(device, self.port()).roce()
    }

    /// The network device that received the request, on RoCE.
    pub(crate) fn net_device(&self) -> Option<ARef<NetDevice>> {
        let attr = if self.datagrams {
            self.sidr().sgid_attr
        } else {
            self.req().ppath_sgid_attr
        };
        // SAFETY: `ib_cm` has a reference to the entry during the call.
        unsafe { ndev_of(attr) }
    }

    /// Copies of the paths; of the first one the GIDs of this end and of the peer, and the P_Key.
    /// None for datagrams.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn paths(&self) -> Result<(KVec<bindings::sa_path_rec>, Option<PathEnds>)> {
        let mut paths = KVec::new();
        let mut ends = None;
        if !self.datagrams {
            let req = self.req();
            // SAFETY: A request has a primary path; the alternate one is null or valid. Paths
            // consist of numbers.
            unsafe {
                let first = req.primary_path;
                let pkey = u16::from_be((*first).pkey);
                ends = Some((*(*first).sgid.raw, *(*first).dgid.raw, pkey));
                paths.push(req.primary_path.read(), GFP_KERNEL)?;
                if !req.alternate_path.is_null() {
                    paths.push(req.alternate_path.read(), GFP_KERNEL)?;
                }
            }
        }
        Ok((paths, ends))
    }

    /// The addresses of both ends for a listener at `listening`, if that is one of `AF_IB`.
    pub(crate) fn ib_addrs(&self, listening: &Address) -> Option<(Address, Address)> {
        let Address::Ib(listening) = listening else {
            return None;
        };
        let Address::Ib(nobody) = Family::Ib.unspecified() else {
            return None;
        };
        if self.datagrams {
            let mask = u64::MAX;
            let own = Ib { mask, ..*listening };
            return Some((Address::Ib(own), Address::Ib(nobody)));
        }
        let path = self.req().primary_path;
        // SAFETY: A request has a primary path, which consists of numbers.
        let (pkey, flow, sid, own, peer) = unsafe {
            (
                u16::from_be((*path).pkey),
                u32::from_be((*path).flow_label),
                u64::from_be((*path).service_id),
                *(*path).sgid.raw,
                *(*path).dgid.raw,
            )
        };
        let addr = |addr| Ib {
            addr,
            pkey,
            flow,
            ..nobody
        };
        let own = Ib {
            sid,
            mask: u64::MAX,
            ..addr(own)
        };
        Some((Address::Ib(own), Address::Ib(addr(peer))))
    }

    /// The event for the consumer. `offset`: bytes of the header before its data.
    pub(crate) fn event(&self, offset: usize) -> Event {
        let rest = self.data().get(offset..).unwrap_or_default();
        // SAFETY: Bytes that exist during the call. Fewer than 256.
        let data = unsafe { Data::new(rest.as_ptr().cast(), data_of(rest).1) };
        if self.datagrams {
            return Event::of_datagrams(data, 0, 0);
        }
        let req = self.req();
        let values = Values {
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            // CAST: Bit fields of at most 8 bits.
            flow_control: req.flow_control() as u8,
            retry_count: req.retry_count() as u8,
            rnr_retry_count: req.rnr_retry_count() as u8,
            srq: req.srq() as u8,
            qp_num: req.remote_qpn,
            ece: (req.ece.vendor_id, req.ece.attr_mod),
        };
        Event::of_connection(data, &values)
    }

    /// Makes the request's ID that of `id`. If `id` does not keep it, it gives it up.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&self, id: &Arc<Id>) -> Result<OwnedIb> {
        let raw = NonNull::new(self.raw).ok_or(EINVAL)?;
        let vacant = Vacant::new(Some(id.clone()))?;
        // SAFETY: The ID exists, and calls its handler only after this one has returned. `ib_cm`
        // leaves it to us if that returns 0; else it is given up. The owner has a reference to the
        // context.
        unsafe {
            (*self.raw).context = super::id::context(id);
            (*self.raw).cm_handler = Some(on_event);
            Ok(vacant.own(raw))
        }
    }
}

/// The handler of listeners.
///
/// # Safety
///
/// For `ib_cm` only, with the ID of a request.
unsafe extern "C" fn on_request(
    raw: *mut bindings::ib_cm_id,
    event: *const bindings::ib_cm_event,
) -> c_int {
    // SAFETY: The event exists during the call.
    let event = unsafe { &*event };
    let datagrams = match event.event {
        bindings::ib_cm_event_type_IB_CM_REQ_RECEIVED => false,
        bindings::ib_cm_event_type_IB_CM_SIDR_REQ_RECEIVED => true,
        _ => return EINVAL.to_errno(),
    };
    crate::request::ib(&Request {
        raw,
        event,
        datagrams,
    })
}
