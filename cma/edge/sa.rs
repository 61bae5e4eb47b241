// SPDX-License-Identifier: GPL-2.0

//! Paths of InfiniBand, from the subnet administrator.
//!
//! A query has a box with a reference to its ID, which its callback takes: the administrator's
//! client calls it once for each query that was begun, also if it is cancelled.
//!
//! Must match `include/rdma/ib_sa.h`.

use super::id::Id;
use crate::proto::addr::Address;
use crate::proto::service;
use crate::proto::state::Ticket;
use crate::route;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::client::DeviceRef;

/// Fields of a path that a query gives (`ib_sa_comp_mask`).
const SERVICE_ID: u64 = 0b11;
const DGID: u64 = 1 << 2;
const SGID: u64 = 1 << 3;
const TRAFFIC_CLASS: u64 = 1 << 10;
const REVERSIBLE: u64 = 1 << 11;
const NUMB_PATH: u64 = 1 << 12;
const PKEY: u64 = 1 << 13;
const QOS_CLASS: u64 = 1 << 14;

/// Flags of a path in an answer.
const GMP: u32 = 1;

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
    let [own, peer, broadcast] = id.hardware();
    let dev_type = id.dev_type();
    let gid = |raw: [u8; 16]| bindings::ib_gid {
        raw: ManuallyDrop::new(raw),
    };
    let opa = super::core::caps(device.view(), port).opa();
    let mut rec = bindings::sa_path_rec {
        sgid: gid(crate::bind::gid_in(&own, dev_type)),
        dgid: gid(crate::bind::gid_in(&peer, dev_type)),
        // Both in network byte order.
        pkey: u16::from_ne_bytes([broadcast[8], broadcast[9]]),
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
    let asked = KBox::new(
        Asked {
            id: id.clone(),
            ticket,
        },
        GFP_KERNEL,
    )?;
    let asked: *mut Asked = KBox::into_raw(asked);
    let mut query = ptr::null_mut();
    // SAFETY: The device exists, and the client is registered while there are IDs. The path is
    // copied; the callback takes the box.
    let number = unsafe {
        bindings::ib_sa_path_rec_get(
            CLIENT.0.get(),
            device.raw(),
            port,
            &mut rec,
            mask,
            timeout_ms,
            bindings::GFP_KERNEL,
            Some(answered),
            asked.cast(),
            &mut query,
        )
    };
    if number < 0 {
        // SAFETY: The query was not begun, so its callback does not take the box.
        drop(unsafe { KBox::from_raw(asked) });
        return Err(Error::from_errno(number));
    }
    Ok(Query { id: number, query })
}

/// The callback of queries.
///
/// # Safety
///
/// For the client of the subnet administrator only, once for each query.
unsafe extern "C" fn answered(
    status: c_int,
    paths: *mut bindings::sa_path_rec,
    count: c_uint,
    context: *mut c_void,
) {
    // SAFETY: The box of the query, which is taken once (contract of this function).
    let asked = unsafe { KBox::from_raw(context.cast::<Asked>()) };
    let Asked { id, ticket } = KBox::into_inner(asked);
    let mut found = Err(if status == 0 {
        EINVAL.to_errno()
    } else {
        status
    });
    if let (0, Some(first)) = (status, NonNull::new(paths)) {
        // CAST: Widens.
        for at in 0..count as usize {
            // SAFETY: The answer has `count` paths, which consist of numbers.
            let path = unsafe { first.add(at).read() };
            // Paths for one direction, of data, are not supported yet.
            if path.flags == 0 || path.flags & GMP != 0 {
                found = Ok(path);
            }
        }
    }
    route::answered(&id, ticket, found);
}

/// The Q_Key of the broadcast group of an ID's network device.
///
/// # Errors
///
/// `EADDRNOTAVAIL`: nobody on this port has joined it.
pub(super) fn ipoib_qkey(id: &Id) -> Result<u32> {
    let (device, port) = id.device().ok_or(EINVAL)?;
    let [_, _, broadcast] = id.hardware();
    let mut mgid = bindings::ib_gid {
        raw: ManuallyDrop::new(crate::bind::gid_in(&broadcast, crate::bind::INFINIBAND)),
    };
    let mut rec = bindings::ib_sa_mcmember_rec::default();
    // SAFETY: The device exists; the function copies the GID and fills in the record.
    kernel::error::to_result(unsafe {
        bindings::ib_sa_get_mcmember_rec(device.raw(), port, &mut mgid, &mut rec)
    })?;
    Ok(u32::from_be(rec.qkey))
}
