// SPDX-License-Identifier: GPL-2.0

//! Paths, service records and multicast groups of InfiniBand, from the subnet administrator.
//!
//! A query has a box with a reference to its ID, which its callback takes: the administrator's
//! client calls it once for each query that was begun, also if it is cancelled.
//!
//! A membership in a group has references to its ID and to what the ID knows of the group. They are
//! a cycle until the group is left, at the latest when the ID is destroyed.
//!
//! Must match `include/rdma/ib_sa.h`.

use super::id::Id;
use crate::mcast;
use crate::mcast::Membership;
use crate::proto::addr::Address;
use crate::proto::service;
use crate::proto::state::Ticket;
use crate::route;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::client::DeviceRef;

/// Fields of a path that a query gives (`ib_sa_comp_mask`, but in the byte order of the host).
const SERVICE_ID: u64 = 0b11;
const DGID: u64 = 1 << 2;
const SGID: u64 = 1 << 3;
const TRAFFIC_CLASS: u64 = 1 << 10;
const REVERSIBLE: u64 = 1 << 11;
const NUMB_PATH: u64 = 1 << 12;
const PKEY: u64 = 1 << 13;
const QOS_CLASS: u64 = 1 << 14;

/// How long a query for service records may take, in milliseconds.
const SERVICE_TIMEOUT: usize = 2000;

/// The client of the subnet administrator. A static, because queries refer to it.
struct Client(Opaque<bindings::ib_sa_client>);

// SAFETY: Only C accesses the structure, by atomic operations.
unsafe impl Sync for Client {}

static CLIENT: Client = Client(Opaque::zeroed());

/// The client is registered.
///
/// # Invariants
///
/// There is one, of the module.
pub(crate) struct Registered;

impl Registered {
    /// Registers the client. Only for the module's initialisation.
    pub(crate) fn new() -> Self {
        // SAFETY: The client is a static that is not in use.
        unsafe { bindings::ib_sa_register_client(CLIENT.0.get()) };
        Self
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`. Waits for all queries.
        unsafe { bindings::ib_sa_unregister_client(CLIENT.0.get()) };
    }
}

/// A query that may be cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    id: c_int,
    query: *mut bindings::ib_sa_query,
}

// SAFETY: The pointer is only compared, by `ib_sa_cancel_query`.
unsafe impl Send for Query {}

impl Query {
    /// Cancels the query, if it is not over. Its callback is called all the same.
    pub(crate) fn cancel(self) {
        // SAFETY: The function looks for a query with this number, and compares the pointer.
        unsafe { bindings::ib_sa_cancel_query(self.id, self.query) };
    }
}

/// What a query's callback gets.
struct Asked {
    id: Arc<Id>,
    ticket: Ticket,
}

fn gid(raw: [u8; 16]) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: ManuallyDrop::new(raw),
    }
}

/// Begins a query: `begin` gets the context for its callback, and where the query goes, and returns
/// the number of the query or a negative errno.
fn query(
    id: &Arc<Id>,
    ticket: Ticket,
    begin: impl FnOnce(*mut c_void, &mut *mut bindings::ib_sa_query) -> c_int,
) -> Result<Query> {
    let asked = KBox::new(
        Asked {
            id: id.clone(),
            ticket,
        },
        GFP_KERNEL,
    )?;
    let asked: *mut Asked = KBox::into_raw(asked);
    let mut query = ptr::null_mut();
    let number = begin(asked.cast(), &mut query);
    if number < 0 {
        // SAFETY: The query was not begun, so its callback does not take the box.
        drop(unsafe { KBox::from_raw(asked) });
        return Err(Error::from_errno(number));
    }
    Ok(Query { id: number, query })
}

/// What is between a successful status and the records of an answer.
///
/// # Safety
///
/// `records` is null or points to `count` records.
unsafe fn records<'a, T>(
    status: c_int,
    records: *const T,
    count: c_uint,
) -> core::result::Result<&'a [T], i32> {
    match (status, records.is_null()) {
        (0, true) => Ok(&[]),
        // CAST: Widens.
        // SAFETY: Contract of this function.
        (0, false) => Ok(unsafe { core::slice::from_raw_parts(records, count as usize) }),
        (status, _) => Err(status),
    }
}

/// A record of an answer.
///
/// # Safety
///
/// The type consists of numbers.
pub(crate) unsafe trait Record: Sized {
    /// Returns a copy.
    fn copy(&self) -> Self {
        // SAFETY: Numbers (contract of the trait).
        unsafe { ptr::from_ref(self).read() }
    }
}

// SAFETY: Numbers alone.
unsafe impl Record for bindings::sa_path_rec {}
// SAFETY: Numbers alone.
unsafe impl Record for bindings::sa_service_rec {}

/// Asks for the path of an ID. The answer comes to [`route::answered`].
///
/// # Errors
///
/// `ENOMEM`, `ENODEV`, `EAGAIN`; there is no answer then.
pub(crate) fn ask(
    id: &Arc<Id>,
    device: &DeviceRef,
    port: u32,
    ticket: Ticket,
    timeout_ms: usize,
) -> Result<Query> {
    let (source, destination) = id.addrs();
    let link = id.link();
    let opa = super::core::caps(device.view(), port).opa();
    let mut rec = bindings::sa_path_rec {
        sgid: gid(link.sgid()),
        dgid: gid(link.dgid()),
        pkey: link.pkey().to_be(),
        service_id: service::id(id.words().port_space(), &destination).to_be(),
        numb_path: 1,
        reversible: 1,
        rec_type: if opa {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA
        } else {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB
        },
        ..Default::default()
    };
    let mut mask = DGID | SGID | PKEY | NUMB_PATH | REVERSIBLE | SERVICE_ID;
    match source {
        Address::V4(_) => {
            let tos = id.with(|inner| inner.options.tos).unwrap_or(0);
            rec.qos_class = u16::from(tos).to_be();
            mask |= QOS_CLASS;
        }
        Address::V6(crate::proto::addr::V6 { flow, .. })
        | Address::Ib(crate::proto::addr::Ib { flow, .. }) => {
            // CAST: Eight bits are the traffic class.
            rec.traffic_class = (flow >> 20) as u8;
            mask |= TRAFFIC_CLASS;
        }
    }
    query(id, ticket, |context, query| {
        // SAFETY: The device exists, and the client is registered while there are IDs. The path is
        // copied; the callback takes the box.
        unsafe {
            bindings::ib_sa_path_rec_get(
                CLIENT.0.get(),
                device.raw(),
                port,
                &mut rec,
                mask.to_be(),
                timeout_ms,
                bindings::GFP_KERNEL,
                Some(path_answered),
                context,
                query,
            )
        }
    })
}

/// The callback of queries for paths.
///
/// # Safety
///
/// For the client of the subnet administrator only, once for each query.
unsafe extern "C" fn path_answered(
    status: c_int,
    paths: *mut bindings::sa_path_rec,
    count: c_uint,
    context: *mut c_void,
) {
    // SAFETY: The box of the query, which is taken once, and the answer's paths (contract of this
    // function).
    let (asked, paths) = unsafe {
        let asked = KBox::from_raw(context.cast::<Asked>());
        (asked, records(status, paths.cast_const(), count))
    };
    let Asked { id, ticket } = KBox::into_inner(asked);
    route::answered(&id, ticket, paths);
}

/// Asks for service records. The answer comes to [`route::service_answered`].
///
/// # Errors
///
/// As [`ask`].
pub(crate) fn ask_service(
    id: &Arc<Id>,
    device: &DeviceRef,
    port: u32,
    ticket: Ticket,
    wanted: &service::Wanted,
) -> Result<Query> {
    let mut rec = bindings::sa_service_rec {
        id: wanted.id.to_be(),
        name: wanted.name,
        ..Default::default()
    };
    query(id, ticket, |context, query| {
        // SAFETY: As in `ask`: device and client exist, the record is copied, and the callback
        // takes the box.
        unsafe {
            bindings::ib_sa_service_rec_get(
                CLIENT.0.get(),
                device.raw(),
                port,
                &mut rec,
                wanted.mask.to_be(),
                SERVICE_TIMEOUT,
                bindings::GFP_KERNEL,
                Some(service_answered),
                context,
                query,
            )
        }
    })
}

/// The callback of queries for service records.
///
/// # Safety
///
/// As for [`path_answered`].
unsafe extern "C" fn service_answered(
    status: c_int,
    recs: *mut bindings::sa_service_rec,
    count: c_uint,
    context: *mut c_void,
) {
    // SAFETY: As in `path_answered`: the box is taken once, and the records are the answer's.
    let (asked, recs) = unsafe {
        let asked = KBox::from_raw(context.cast::<Asked>());
        (asked, records(status, recs.cast_const(), count))
    };
    let Asked { id, ticket } = KBox::into_inner(asked);
    route::service_answered(&id, ticket, recs);
}

/// The record of the broadcast group of an ID's network device.
///
/// # Errors
///
/// `EADDRNOTAVAIL`: nobody on this port has joined it.
pub(crate) fn broadcast_group(id: &Id) -> Result<bindings::ib_sa_mcmember_rec> {
    let (device, port) = id.device().ok_or(EINVAL)?;
    let mut mgid = gid(id.link().mgid());
    let mut rec = bindings::ib_sa_mcmember_rec::default();
    // SAFETY: The device exists; the function copies the GID and fills in the record.
    to_result(unsafe {
        bindings::ib_sa_get_mcmember_rec(device.raw(), port, &mut mgid, &mut rec)
    })?;
    Ok(rec)
}

/// The Q_Key of the broadcast group of an ID's network device.
///
/// # Errors
///
/// As [`broadcast_group`].
pub(super) fn ipoib_qkey(id: &Id) -> Result<u32> {
    Ok(u32::from_be(broadcast_group(id)?.qkey))
}

/// What the callback of a membership gets.
struct Asking {
    id: Arc<Id>,
    member: Arc<Membership>,
}

/// A membership in a group, or a request for it.
///
/// # Invariants
///
/// The structure exists. Its context is `_asking`, and it has no callback when it is freed.
pub(crate) struct Joined {
    raw: NonNull<bindings::ib_sa_multicast>,
    _asking: Arc<Asking>,
}

// SAFETY: A membership may be freed from any thread.
unsafe impl Send for Joined {}
// SAFETY: A reference to it permits nothing.
unsafe impl Sync for Joined {}

impl Drop for Joined {
    fn drop(&mut self) {
        // SAFETY: The structure exists (type invariant), and is freed once. Waits for its callback,
        // which does not drop it.
        unsafe { bindings::ib_sa_free_multicast(self.raw.as_ptr()) };
    }
}

impl Joined {
    /// Asks to join a group. `rec` is the record of the broadcast group, and `fields` says what of
    /// it is demanded. The answer comes to [`mcast::joined`]. Not under the lock of callbacks.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`; there is no answer then.
    pub(crate) fn join(
        id: &Arc<Id>,
        member: &Arc<Membership>,
        mut rec: bindings::ib_sa_mcmember_rec,
        mgid: [u8; 16],
        join_state: u8,
        fields: u64,
    ) -> Result<Self> {
        let (device, port) = id.device().ok_or(EINVAL)?;
        let link = id.link();
        rec.mgid = gid(mgid);
        rec.qkey = id.with(|inner| inner.qkey).to_be();
        rec.port_gid = gid(link.sgid());
        rec.pkey = link.pkey().to_be();
        rec.join_state = join_state;
        let asking = Arc::new(
            Asking {
                id: id.clone(),
                member: member.clone(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The device exists, and the client is registered while there are IDs. The record
        // is copied. The context exists until the membership has been freed.
        let raw = from_err_ptr(unsafe {
            bindings::ib_sa_join_multicast(
                CLIENT.0.get(),
                device.raw(),
                port,
                &mut rec,
                fields.to_be(),
                bindings::GFP_KERNEL,
                Some(group_answered),
                Arc::as_ptr(&asking).cast_mut().cast(),
            )
        })?;
        // INVARIANT: The membership is new, with this context.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            _asking: asking,
        })
    }
}

/// The callback of memberships. Returns 0: the membership stays until it is freed.
///
/// # Safety
///
/// For the client of the subnet administrator only, with a membership of [`Joined::join`].
unsafe extern "C" fn group_answered(
    status: c_int,
    multicast: *mut bindings::ib_sa_multicast,
) -> c_int {
    // SAFETY: The membership exists during the call, and its context until it has been freed, which
    // waits for this call (invariant of `Joined`). The record consists of numbers.
    let (asking, rec) = unsafe {
        let asking: &Asking = &*(*multicast).context.cast();
        (asking, (&raw const (*multicast).rec).read())
    };
    mcast::joined(&asking.id, &asking.member, status, rec);
    0
}
