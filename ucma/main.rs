// SPDX-License-Identifier: GPL-2.0

//! `rdma_ucm`: connections for programs, over `/dev/infiniband/rdma_cm` (librdmacm).
//!
//! Replaces the C module of the same name: commands, events, sysfs, sysctl. It uses only exported
//! functions of `rdma_cm`, `ib_core` and `ib_uverbs`, any of which may be the C module.
//!
//! | file | what |
//! |---|---|
//! | `proto` | commands, refusals, layouts, states: pure, tested on the host |
//! | `file` | an open file: its contexts, and the queue of events |
//! | `context` | an identifier that a program has: its events, its end |
//! | `handler` | what the connection manager tells: events, connection requests |
//! | `command` | what programs write |
//! | `query` | answers to queries |
//! | `joins` | joins of multicast groups |
//! | `edge` | functions of `ib_uverbs` |
//!
//! A context has a reference in [`Shared::contexts`], where programs find it, and one in its file's
//! [`Inner::contexts`](crate::file::Inner). Its `CmId` refers to it, too. So contexts end by
//! [`Context::end`](crate::context::Context::end) only, which takes the `CmId` out; the last close of
//! the file does so for all of its contexts.
//!
//! Locks, outer first:
//!
//! | lock | protects | notes |
//! |---|---|---|
//! | `Context::cm` | the `CmId`: calls of the connection manager, one at a time | the identifier is destroyed under it, so calls and the end of a context exclude each other |
//! | handler lock of `rdma_cm` | `Context::uid`, and changes of the context's file | held by `rdma_cm` in handlers, but not that of a listener on a wildcard address |
//! | `File::inner` | contexts and queue of a file | never those of two files |
//! | `Context::queue` | events and joins of a context | |
//! | `Context::place` | the file, and the state of its life | a spinlock; nothing is locked under it |
//!
//! A handler takes `Context::cm` of the new context of a connection request only, where nobody else
//! can hold it, by `try_lock`. User memory is not accessed under any of them.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod command;
mod context;
mod edge;
mod file;
mod handler;
mod joins;
mod proto;
mod query;

use crate::context::Context;
use crate::file::UcmFiles;
use crate::joins::Member;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::misc::Announced;
use rdma::misc::Misc;
use rdma::sysctl::Number;
use rdma::sysctl::Sysctl;
use rdma::table::new_table;
use rdma::table::Slot;
use rdma::table::Table;

rdma::resident_module! { struct Main(Ucm); }

module! {
    type: Main,
    name: "rdma_ucm",
    authors: ["The rust-rdma authors"],
    description: "RDMA Userspace Connection Manager Access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-rdma_cm"],
}

/// Contexts that commands find without a walk of the table.
pub(crate) const FRONT: usize = 256;

/// What all files share.
#[pin_data]
pub(crate) struct Shared {
    /// Contexts by number. Complete ones only: a number is reserved first, and published last.
    #[pin]
    pub(crate) contexts: Table<Context, FRONT>,
    /// Joins of multicast groups by number.
    #[pin]
    pub(crate) joins: Table<Member>,
}

/// The largest backlog, which an administrator sets.
static MAX_BACKLOG: Number = Number::new(1024);

/// Returns the largest backlog.
pub(crate) fn max_backlog() -> u32 {
    u32::try_from(MAX_BACKLOG.get()).unwrap_or(0)
}

/// Numbers that librdmacm can look up. It takes them for signed.
const FIRST: core::ops::RangeInclusive<u32> = 0..=0xffff;
const ALL: core::ops::RangeInclusive<u32> = 0..=0x7fff_ffff;

/// Reserves a number, as small as there is one that programs prefer. May sleep.
///
/// # Errors
///
/// `EBUSY`, `ENOMEM`.
pub(crate) fn number<T, const FRONT: usize>(
    table: &Table<T, FRONT>,
    flags: Flags,
) -> Result<Slot<'_, T, FRONT>> {
    match table.reserve(FIRST, flags) {
        Err(e) if e == EBUSY => table.reserve(ALL, flags),
        slot => slot,
    }
}

/// State of the module. Fields are dropped in this order.
struct Ucm {
    _device: Announced<UcmFiles>,
    _backlog: Sysctl,
}

impl kernel::Module for Ucm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let backlog = Sysctl::register(
            c"net/rdma_ucm",
            c"max_backlog",
            &MAX_BACKLOG,
            rdma::resident!(),
        )?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                contexts <- new_table!("Shared::contexts"),
                joins <- new_table!("Shared::joins"),
            }),
            GFP_KERNEL,
        )?;
        let device = Announced::register(Misc::register(shared, rdma::resident!())?)?;
        Ok(Self {
            _device: device,
            _backlog: backlog,
        })
    }
}
