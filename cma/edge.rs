// SPDX-License-Identifier: GPL-2.0

//! The C structures of `rdma_cm` and the C functions that it calls.
//!
//! | file | what |
//! |---|---|
//! | `id` | an ID (`struct rdma_id_private`), its references and its mirror for C |
//! | `args` | arguments of exported functions |
//! | `event` | events for consumers |
//! | `core` | functions of `ib_core`: addresses, GIDs, restrack, network devices |
//! | `qp` | queue pairs |
//! | `trace`, `trace.c` | tracepoints |
//! | `sa` | paths from the subnet administrator |
//! | `news` | the notifier of neighbours |
//! | `ib`, `iw` | IDs of `ib_cm` and `iw_cm`, and their callbacks |

pub(crate) mod args;
pub(crate) mod core;
pub(crate) mod event;
pub(crate) mod ib;
pub(crate) mod id;
pub(crate) mod iw;
pub(crate) mod news;
pub(crate) mod qp;
pub(crate) mod sa;
pub(crate) mod trace;

use crate::proto::Refusal;
use kernel::error::Error;
use kernel::prelude::*;
use rdma::bindings;

/// The errno of a refusal.
pub(crate) fn errno(refusal: Refusal) -> Error {
    let number = match refusal {
        Refusal::Invalid => return EINVAL,
        Refusal::Access => return EACCES,
        Refusal::NoMemory => return ENOMEM,
        Refusal::Already => bindings::EALREADY,
        Refusal::InUse => bindings::EADDRINUSE,
        Refusal::NotAvailable => bindings::EADDRNOTAVAIL,
        Refusal::Family => bindings::EAFNOSUPPORT,
        Refusal::NoProtocol => bindings::EPROTONOSUPPORT,
        Refusal::NotSupported => 524,
    };
    number_of(number)
}

/// The error with this positive number.
fn number_of(number: u32) -> Error {
    // CAST: Error numbers are below 4096.
    Error::from_errno((number as i32).wrapping_neg())
}

/// `ENOSYS`, which the kernel crate does not have.
pub(crate) fn no_method() -> Error {
    number_of(bindings::ENOSYS)
}

/// `ECONNABORTED`, which the kernel crate does not have.
pub(crate) fn aborted() -> Error {
    number_of(bindings::ECONNABORTED)
}

/// `EHOSTUNREACH`, which the kernel crate does not have.
pub(crate) fn unreachable() -> Error {
    number_of(bindings::EHOSTUNREACH)
}
