// SPDX-License-Identifier: GPL-2.0

//! Pure engines of `rdma_cm`. No kernel calls, no clock, no allocation.
//!
//! * [`addr`]: socket addresses of the three families, and their kinds;
//! * [`state`]: the life of an ID: calls, answers, removal, destruction;
//! * [`event`]: events of `ib_cm` and `iw_cm`, and the events that consumers get for them;
//! * [`option`]: which options an ID accepts, and when;
//! * [`port`]: port spaces and the sharing of ports;
//! * [`service`]: service IDs;
//! * [`header`]: the header before the private data of a request;
//! * [`listener`]: the listener that a request is for;
//! * [`route`]: paths of RoCE, which are made locally;
//! * [`group`]: GIDs of multicast groups.
//!
//! Each refuses what the C module refuses, and where a request has several faults, reports the one
//! that the C module finds first.
//!
//! Specification: `include/rdma/rdma_cm.h`; IBTA volume 1, annex A11 (IP addressing of the CM).

pub mod addr;
pub mod event;
pub mod group;
pub mod header;
pub mod listener;
pub mod option;
pub mod port;
pub mod route;
pub mod service;
pub mod state;

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `EINVAL`.
    Invalid,
    /// `EALREADY`: the ID is bound.
    Already,
    /// `EACCES`: a privileged port.
    Access,
    /// `EADDRINUSE`: another ID has the address and port.
    InUse,
    /// `EADDRNOTAVAIL`: another ID has the port, and one of them has no address; or all automatic
    /// ports are taken.
    NotAvailable,
    /// `EAFNOSUPPORT`: an unknown address family.
    Family,
    /// `EPROTONOSUPPORT`: an unknown port space.
    NoProtocol,
    /// `ENOMEM`.
    NoMemory,
    /// `ENOTSUPP`: a RoCE version 2 multicast group of IPv6.
    NotSupported,
}
