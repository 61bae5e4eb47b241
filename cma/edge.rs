// SPDX-License-Identifier: GPL-2.0

//! The C structures of `rdma_cm` and the C functions that it calls.
//!
//! | file | what |
//! |---|---|
//! | `id` | an ID (`struct rdma_id_private`), its references and its mirror for C |
//! | `configfs` | settings of administrators |
//! | `args` | arguments of exported functions |
//! | `event` | events for consumers |
//! | `core` | functions of `ib_core`: addresses, GIDs, restrack, network devices |
//! | `link` | addresses of the link layer in an ID |
//! | `qp` | queue pairs |
//! | `trace`, `trace.c` | tracepoints |
//! | `sa` | paths from the subnet administrator |
//! | `news` | the notifier of neighbours |
//! | `transport` | owners and users of the transports' IDs |
//! | `ib`, `iw` | IDs of `ib_cm` and `iw_cm`, and their callbacks |

pub(crate) mod args;
#[cfg(CONFIG_CONFIGFS_FS)]
pub(crate) mod configfs;
pub(crate) mod core;
pub(crate) mod event;
pub(crate) mod ib;
pub(crate) mod id;
pub(crate) mod iw;
pub(crate) mod link;
pub(crate) mod news;
pub(crate) mod qp;
pub(crate) mod sa;
pub(crate) mod trace;
pub(crate) mod transport;

use crate::proto::Refusal;
use kernel::error::Error;
use kernel::prelude::*;
use rdma::errno;

/// The errno of a refusal.
pub(crate) fn errno(refusal: Refusal) -> Error {
    /// `ENOTSUPP`, which programs do not know.
    const NOT_SUPPORTED: i32 = 524;
    match refusal {
        Refusal::Invalid => EINVAL,
        Refusal::Access => EACCES,
        Refusal::NoMemory => ENOMEM,
        Refusal::Already => errno::ealready(),
        Refusal::InUse => errno::eaddrinuse(),
        Refusal::NotAvailable => errno::eaddrnotavail(),
        Refusal::Family => errno::eafnosupport(),
        Refusal::NoProtocol => errno::eprotonosupport(),
        Refusal::NotSupported => Error::from_errno(-NOT_SUPPORTED),
    }
}
