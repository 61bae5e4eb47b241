// SPDX-License-Identifier: GPL-2.0

//! Events of identifiers for connections, as an enum.

use super::CmEvent;
use super::Params;
use crate::bindings;
use crate::edge::cm::Conn;
use kernel::prelude::*;

/// What has happened to an identifier for connections. Names are those of
/// `enum rdma_cm_event_type`.
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum What<'a> {
    AddrResolved,
    RouteResolved,
    /// A step of an active side has failed: addresses, route, or the request.
    Failed(Error),
    /// Nobody answers.
    Unreachable,
    /// The peer has accepted; the identifier has no queue pair, so that the consumer establishes
    /// the connection.
    Response(&'a Conn, &'a [u8]),
    /// By the peer or its machine: the reason and the private data.
    Rejected(i32, &'a [u8]),
    /// With the peer's parameters and private data, on the active side.
    Established(&'a Conn, &'a [u8]),
    Disconnected,
    DeviceRemoval,
    AddrChange,
    TimewaitExit,
    /// Another one, for instance about multicast: `enum rdma_cm_event_type`.
    Other(u32),
}

impl CmEvent<'_> {
    /// Returns what has happened, for an identifier for connections.
    pub fn what(&self) -> What<'_> {
        let kind = self.kind();
        let Params::Conn(conn, private) = self.params() else {
            return What::Other(kind);
        };
        match kind {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => What::AddrResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => What::RouteResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR
            | bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR
            | bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => {
                What::Failed(match self.status() {
                    status if status < 0 => Error::from_errno(status),
                    _ => EIO,
                })
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => What::Unreachable,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE => {
                What::Response(conn, private)
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => {
                What::Rejected(self.status(), private)
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
                What::Established(conn, private)
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => What::Disconnected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => What::DeviceRemoval,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => What::AddrChange,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => What::TimewaitExit,
            kind => What::Other(kind),
        }
    }
}
