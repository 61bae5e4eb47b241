// SPDX-License-Identifier: GPL-2.0

//! `ib_cm`: the connection manager of InfiniBand and RoCE.
//!
//! Replaces the C module of the same name: functions, `struct ib_cm_id`, events, counters,
//! tracepoints. It uses only exported functions of `ib_core`, so it works with the C `ib_core` too.
//!
//! | file | what |
//! |---|---|
//! | `proto` | the protocol: messages, states, keys; pure, tested on the host |
//! | `conn` | an ID: state, delivery of events, end |
//! | `api` | the functions that consumers call |
//! | `receive` | received messages |
//! | `send` | what a send carries |
//! | `way` | ways to a peer |
//! | `index` | tables by keys of the protocol |
//! | `port` | devices, ports, agents, removal |
//! | `counters` | counters |
//! | `edge`, `trace.c`, `exports.c` | C structures, tracepoints, exports |
//!
//! A message is parsed, its connection found and stepped in the handler of the agent that receives
//! it; only calls of consumers' handlers go to work items, one per ID, on an unbound queue. There is
//! no global lock.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod api;
mod conn;
mod counters;
mod edge;
mod index;
mod port;
#[allow(dead_code, unused_imports, reason = "the host tests use all of it")]
mod proto;
mod receive;
mod send;
mod way;

use crate::conn::Conn;
use crate::index::Index;
use crate::index::Service;
use crate::port::Ports;
use crate::proto::ids::Instant;
use crate::proto::tables::IdKey;
use crate::proto::tables::QpnKey;
use crate::proto::tables::SidrKey;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::new_condvar;
use kernel::sync::Arc;
use kernel::sync::CondVar;
use kernel::time::Monotonic;
use rdma::client::Registered;
use rdma::features::param;
use rdma::sync::StaticRwSem;
use rdma::table::new_table;
use rdma::table::Slot;
use rdma::table::Table;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

rdma::resident_module! { struct Main(CmModule); }

module! {
    type: Main,
    name: "ib_cm",
    authors: ["The rust-rdma authors"],
    description: "InfiniBand CM",
    license: "Dual BSD/GPL",
    params: {
        early_repeats: u8 {
            default: 1,
            description: "Messages that are not answered are sent once more after a second, besides the usual repetitions; 0: they are not",
        },
    },
}

/// The first service ID that is assigned.
const FIRST_SERVICE: u64 = proto::ids::ServiceId::ASSIGN.0;

/// IDs that messages find without a walk of the table.
const FRONT: usize = 256;

/// State of the module that connections refer to.
#[pin_data]
pub(crate) struct Cm {
    /// IDs that receive messages, by their number.
    #[pin]
    pub(crate) conns: Table<Conn, FRONT>,
    #[pin]
    pub(crate) ids: Index<IdKey>,
    #[pin]
    pub(crate) qpns: Index<QpnKey>,
    #[pin]
    pub(crate) sidr: Index<SidrKey>,
    /// Listeners.
    #[pin]
    pub(crate) services: Index<Service>,
    /// Numbers on the wire are those of the table, combined with this by exclusive or.
    pub(crate) scramble: u32,
    /// Messages are [repeated early](proto::repeat).
    pub(crate) early_repeats: bool,
    /// The queue of events.
    pub(crate) lease: QueueLease,
    /// The next service ID that is assigned.
    next_service: Atomic<u64>,
    /// Those who wait for handlers.
    #[pin]
    pub(crate) idle: CondVar,
    start: kernel::time::Instant<Monotonic>,
}

impl Cm {
    fn new(lease: QueueLease) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                conns <- new_table!("Cm::conns"),
                ids <- Index::new(),
                qpns <- Index::new(),
                sidr <- Index::new(),
                services <- Index::new(),
                // CAST: Half of the random number.
                scramble: edge::random() as u32,
                early_repeats: param::<u8>(module_parameters::early_repeats.value()) != 0,
                lease,
                next_service: Atomic::new(FIRST_SERVICE),
                idle <- new_condvar!("Cm::idle"),
                start: kernel::time::Instant::now(),
            }),
            GFP_KERNEL,
        )
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(0))
    }

    /// Reserves a number. On the wire it is not 0, which stands for none. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if all are in use; `ENOMEM`.
    pub(crate) fn number(&self) -> Result<Slot<'_, Conn, FRONT>> {
        let slot = self.conns.reserve(0..=u32::MAX, GFP_KERNEL)?;
        if slot.id() == self.scramble {
            // Reserved meanwhile, so the next one differs.
            return self.conns.reserve(0..=u32::MAX, GFP_KERNEL);
        }
        Ok(slot)
    }

    /// Makes all connections of a device release it. No new ones can begin. May sleep.
    pub(crate) fn device_gone(&self, device: usize) {
        let mut from = 0;
        while let Some((number, conn)) = self.conns.next(from) {
            if conn.device() == device {
                conn.device_gone();
            }
            let Some(next) = number.checked_add(1) else {
                return;
            };
            from = next;
        }
    }

    /// Assigns a service ID.
    pub(crate) fn assign_service(&self) -> u64 {
        self.next_service.fetch_add(1u64, Relaxed)
    }
}

/// The module's state, for exported functions.
static CM: StaticRwSem<Option<Arc<Cm>>> = StaticRwSem::new(None);

/// Returns the module's state.
pub(crate) fn cm() -> Result<Arc<Cm>> {
    let cm = CM.read().ok_or(ENODEV)?;
    cm.clone().ok_or(ENODEV)
}

/// Clears [`CM`] when dropped.
struct Shown;

impl Drop for Shown {
    fn drop(&mut self) {
        let cm = CM.write().and_then(|mut cm| cm.take());
        drop(cm);
    }
}

/// State of the module. Fields are dropped in this order.
struct CmModule {
    _ports: Registered<Ports>,
    _shown: Shown,
    _queue: OwnedQueue,
}

impl kernel::Module for CmModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        CM.init(c"ib_cm::CM", kernel::static_lock_class!());
        port::init();
        let queue = QueueOptions::unbound().create(c"ib_cm", rdma::resident!())?;
        let cm = Cm::new(queue.lease())?;
        if let Some(mut place) = CM.write() {
            *place = Some(cm.clone());
        }
        let shown = Shown;
        let ports = Registered::register(Arc::new(Ports(cm), GFP_KERNEL)?, rdma::resident!())?;
        Ok(Self {
            _ports: ports,
            _shown: shown,
            _queue: queue,
        })
    }
}
