// SPDX-License-Identifier: GPL-2.0

//! `iw_cm`: connections of iWARP devices, which are TCP connections of their drivers.
//!
//! Replaces the C module of the same name: 9 exported functions, `struct iw_cm_id`, the netlink
//! client of the port mapper, a sysctl. It uses only exported functions of `ib_core`, so it works
//! with the C `ib_core`, too; `rdma_cm` uses it, and drivers through the functions in an ID.
//!
//! | file | what |
//! |---|---|
//! | `proto` | states, messages and tables: pure, tested on the host |
//! | `id` | IDs: calls, events, work, destruction |
//! | `event` | events, and the storage in which they wait |
//! | `mapper` | the port mapper: requests, its messages, mappings |
//! | `edge`, `exports.c` | C structures and functions; exports |
//!
//! Locks: the mutex of `mapper`, and `Id::inner`; neither is held while the other is taken, nor
//! while anything else waits.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod edge;
mod event;
mod id;
mod mapper;
mod proto;

use crate::edge::netlink::Client;
use kernel::prelude::*;
use rdma::sync::init_once;
use rdma::sysctl::Number;
use rdma::sysctl::Sysctl;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

rdma::resident_module! { struct Main(IwCm); }

module! {
    type: Main,
    name: "iw_cm",
    authors: ["The rust-rdma authors"],
    description: "iWARP CM",
    license: "Dual BSD/GPL",
    alias: ["rdma-netlink-subsys-2"],
}

/// Backlog of a listener that names none.
pub(crate) static DEFAULT_BACKLOG: Number = Number::new(256);

rdma::global_lock! {
    // SAFETY: `IwCm::init` initialises it, before IDs can be created.
    unsafe(uninit) static QUEUE: Mutex<Option<QueueLease>> = None;
}

/// Returns the queue of the work of IDs.
pub(crate) fn queue() -> Option<QueueLease> {
    QUEUE.lock().clone()
}

/// The queue's lease in `QUEUE`. Drop takes it out.
struct Published;

impl Drop for Published {
    fn drop(&mut self) {
        let lease = QUEUE.lock().take();
        drop(lease);
    }
}

/// State of the module. Fields are dropped in this order.
struct IwCm {
    _client: Client,
    _sysctl: Sysctl,
    _published: Published,
    _queue: OwnedQueue,
    _mapper: mapper::Owner,
}

impl kernel::Module for IwCm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mapper = mapper::Owner::new()?;
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"iw_cm_wq", rdma::resident!())?;
        init_once(&QUEUE);
        *QUEUE.lock() = Some(queue.lease());
        let published = Published;
        let sysctl = Sysctl::register(
            c"net/iw_cm",
            c"default_backlog",
            &DEFAULT_BACKLOG,
            rdma::resident!(),
        )?;
        Ok(Self {
            _client: Client::register(rdma::resident!()),
            _sysctl: sysctl,
            _published: published,
            _queue: queue,
            _mapper: mapper,
        })
    }
}
