// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): sending and receiving on the ports of devices.
//!
//! | file | what |
//! |---|---|
//! | `port` | a port: its objects, and which agent receives a MAD |
//! | `queue` | queue pairs 0 and 1 |
//! | `agent` | agents, and the lists of their sends |
//! | `send` | layout of a send |
//! | `memory` | how sends are allocated |
//! | `transact` | life of a send, from post to completion |
//! | `incoming` | received MADs, and their delivery |
//! | `transfer` | transfers of many MADs (RMPP) |
//! | `local` | directed-route packets that this node processes itself |
//! | `reply` | responses that the core sends |
//! | `abi` | exported functions |
//! | `client` | agents of other parts of the core |
//! | `edge` | C structures of consumers, objects of the port, DMA, tracepoints |
//!
//! Decisions are made in `proto/`, the module [`crate::proto::mad`].
//!
//! A port is opened when its device is registered. This is the first client of devices: devices are
//! added to it first, and removed from it last.

mod abi;
mod agent;
pub(crate) mod client;
mod edge;
mod incoming;
mod local;
mod memory;
mod port;
mod queue;
mod reply;
mod send;
mod transact;
mod transfer;

use crate::device::client::Own;
use crate::device::client::Part;
use crate::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::sync::init_once;

use self::edge::port::Open;
use self::port::Port;
use self::port::Tids;

/// All open ports.
struct Ports {
    open: KVec<Open>,
    /// Transaction ids; set while the module is loaded.
    tids: Option<Arc<Tids>>,
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before there is a client.
    unsafe(uninit) static PORTS: Mutex<Ports> = Ports {
        open: KVec::new(),
        tids: None,
    };
}

/// Returns the open port of a device. May sleep.
fn find(device: &Device, number: u32) -> Option<Arc<Port>> {
    let ports = PORTS.lock();
    ports
        .open
        .iter()
        .map(Open::port)
        .find(|port| port.is_of(device, number))
        .cloned()
}

/// Returns whether a port supports MADs.
fn has_mads(device: &Device, port: u32) -> bool {
    device
        .immutable(port)
        .is_some_and(|immutable| immutable.core_cap_flags & bindings::RDMA_CORE_CAP_IB_MAD != 0)
}

/// Opens the ports of a device that support MADs.
fn open_all(device: &Device) -> Result {
    let mut any = false;
    for number in device.ports().filter(|port| has_mads(device, *port)) {
        any = true;
        let tids = PORTS.lock().tids.clone().ok_or(ENODEV)?;
        let open = port::open(device, number, tids)?;
        port::open_repliers(open.port())?;
        PORTS.lock().open.push(open, GFP_KERNEL)?;
    }
    if any {
        Ok(())
    } else {
        Err(rdma::errno::eopnotsupp())
    }
}

/// Closes the ports of a device. May sleep.
fn close_all(device: &Device) {
    loop {
        let open = {
            let mut ports = PORTS.lock();
            let mut places = (0..ports.open.len()).zip(&ports.open);
            let found = places.find(|(_, open)| open.port().opened().is_of(device));
            found
                .map(|(place, _)| place)
                .and_then(|place| ports.open.remove(place).ok())
        };
        // Without the lock: closing waits.
        match open {
            Some(open) => drop(open),
            None => return,
        }
    }
}

/// Client of devices.
struct Client;

impl Part for Client {
    const NAME: &'static CStr = c"mad";

    fn add(device: &Device) -> Result {
        open_all(device).inspect_err(|_| close_all(device))
    }

    fn remove(device: &Device) {
        close_all(device);
    }
}

/// State of the module for MADs.
pub(crate) struct Subsystem {
    _end: End,
}

impl Subsystem {
    /// Registers the client. May sleep. Must be called once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub(crate) fn new() -> Result<Self> {
        init_once(&PORTS);
        PORTS.lock().tids = Some(Tids::new()?);
        let client = Own::register().inspect_err(|error| {
            PORTS.lock().tids = None;
            pr_err!("no client of management datagrams: {error:?}\n");
        })?;
        Ok(Self {
            _end: End(Some(client)),
        })
    }
}

/// Registration of the client; its drop clears the static state.
struct End(Option<Pin<KBox<Own<Client>>>>);

impl Drop for End {
    fn drop(&mut self) {
        self.0 = None;
        let mut ports = PORTS.lock();
        ports.tids = None;
        ports.open = KVec::new();
    }
}
