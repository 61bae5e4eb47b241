// SPDX-License-Identifier: GPL-2.0

//! Structures of the RDMA connection manager (`rdma_cm`), field by field.
//!
//! The keywords of the tables are explained in [`crate::edge`]. Must match
//! `include/rdma/rdma_cm.h`. Consumers use [`crate::cm`].

use super::OfCall;
use crate::bindings;
use core::slice;
use kernel::ffi::c_void;

crate::c_struct! {
    /// An identifier. The connection manager owns it from its creation until `rdma_destroy_id`
    /// returns.
    pub struct Id: bindings::rdma_cm_id;
    fields {
        /// The device, or null. It stays as long as the identifier is bound to it.
        racy device: *mut bindings::ib_device;
        /// The consumer's context, changed only while no handler of the identifier runs, or by the
        /// handler of its connection request.
        racy context: *mut c_void, set_context;
        /// `enum ib_qp_type`.
        const qp_type: u32;
        /// Family of the source address. Written by calls of the consumer, and under the handler
        /// lock, which readers hold ([`Locked`](crate::cm::Locked)).
        const source_family at route.addr.src_addr.__bindgen_anon_1.__bindgen_anon_1.ss_family: u16;
        /// The paths, or null. Changed by calls of the consumer.
        racy paths at route.path_rec: *mut bindings::sa_path_rec;
    }
}

impl Id {
    /// Returns whether it is for datagrams.
    pub fn is_datagram(&self) -> bool {
        self.qp_type() == bindings::ib_qp_type_IB_QPT_UD
    }
}

crate::c_struct! {
    /// An event, during the handler.
    pub struct Event: bindings::rdma_cm_event;
    fields {
        /// `enum rdma_cm_event_type`.
        cell kind at event: u32;
        /// 0, a negative errno, or the reason of a rejection.
        cell status: i32;
        /// Vendor of the enhanced connection establishment.
        cell vendor_id at ece.vendor_id: u32;
        /// Attributes of the enhanced connection establishment.
        cell attr_mod at ece.attr_mod: u32;
        /// Parameters, if the identifier is for connections.
        embed conn in param.conn: Conn;
        /// Parameters, if the identifier is for datagrams.
        embed ud in param.ud: Ud;
    }
}

// SAFETY: Its maker passes it to the handler for the call; `Opaque` is not `Sync`.
unsafe impl OfCall for Event {}

crate::c_struct! {
    /// Parameters of a connection. All bytes are valid, also if they are those of a datagram.
    pub struct Conn: bindings::rdma_conn_param;
    fields {
        /// Number of the peer's queue pair.
        cell qp_num: u32;
        /// Whether the peer has a shared receive queue.
        cell srq: u8;
        /// Number of RDMA READs that the peer may have outstanding here.
        cell responder_resources: u8;
        /// Number of RDMA READs that we may have outstanding there.
        cell initiator_depth: u8;
        /// Whether the peer does end-to-end flow control.
        cell flow_control: u8;
        /// Number of retries.
        cell retry_count: u8;
        /// Number of retries without a receive.
        cell rnr_retry_count: u8;
        /// Private data.
        cell private_data: *const c_void;
        /// Bytes of private data.
        cell private_data_len: u8;
    }
}

// SAFETY: It is part of an event, which is one of a call.
unsafe impl OfCall for Conn {}

crate::c_struct! {
    /// Parameters of a datagram queue pair. All bytes are valid, also if they are those of a
    /// connection.
    pub struct Ud: bindings::rdma_ud_param;
    fields {
        /// Number of the peer's queue pair.
        cell qp_num: u32;
        /// Q_Key.
        cell qkey: u32;
        /// Private data. In an event about a multicast group, the context of the join instead.
        cell private_data: *const c_void;
        /// Bytes of private data.
        cell private_data_len: u8;
        /// The address of the peer or of the group.
        embed vector at ah_attr: Vector;
    }
}

// SAFETY: It is part of an event, which is one of a call.
unsafe impl OfCall for Ud {}

crate::c_struct! {
    /// The address vector of an event, which the connection manager owns, with its reference to the local
    /// GID. Consumers read it only: unlike an [`AhAttr`](super::verbs::AhAttr), it has no setters.
    pub struct Vector: bindings::rdma_ah_attr;
    fields {
        /// `enum rdma_ah_attr_type`.
        cell kind at type_: u32;
        /// Service level.
        cell sl: u8;
        /// Port number.
        cell port_num: u32;
    }
}

// SAFETY: It is part of an event, which is one of a call.
unsafe impl OfCall for Vector {}

/// Returns the private data of an event.
///
/// # Safety
///
/// `data` is null, or has `len` bytes that do not change for `'a`.
unsafe fn private<'a>(data: *const c_void, len: u8) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: There are so many bytes (contract of this function).
    unsafe { slice::from_raw_parts(data.cast(), len.into()) }
}

impl Event {
    /// Returns the private data of an event of an identifier for connections.
    ///
    /// # Safety
    ///
    /// It is such an event.
    pub unsafe fn conn_private(&self) -> &[u8] {
        let conn = self.conn();
        // SAFETY: The member is the one of the event (contract of this function), and the
        // connection manager keeps the data of the peer's message during the handler.
        unsafe { private(conn.private_data(), conn.private_data_len()) }
    }

    /// Returns the private data of an event of an identifier for datagrams.
    ///
    /// # Safety
    ///
    /// It is such an event.
    pub unsafe fn ud_private(&self) -> &[u8] {
        let ud = self.ud();
        // SAFETY: The member is the one of the event (contract of this function), and the
        // connection manager keeps the data of the peer's message during the handler. An event
        // about a multicast group has a length of 0.
        unsafe { private(ud.private_data(), ud.private_data_len()) }
    }

    /// Returns the context of the join, for an event about a multicast group.
    pub fn join(&self) -> usize {
        self.ud().private_data().addr()
    }
}
