// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): who sends and receives them on the ports of devices.
//!
//! | file | what |
//! |---|---|
//! | `port` | a port: what is opened for it, and which agent gets a MAD |
//! | `queue` | queue pairs 0 and 1 |
//! | `agent` | agents, and the lists of their sends |
//! | `send` | how a send is laid out |
//! | `transact` | from posting a send to its end |
//! | `incoming` | MADs that came, and where they go |
//! | `transfer` | transfers of many MADs (RMPP) |
//! | `local` | packets on a directed route that this node answers itself |
//! | `reply` | answers that the core sends |
//! | `abi` | exported functions |
//! | `client` | agents of other parts of the core |
//! | `edge` | consumers' structures, objects of the port, DMA, tracepoints |
//!
//! What is decided is in `proto/`, the module [`crate::proto::mad`].
//!
//! A port is opened when its device is registered. This is the first client of devices: it is
//! told first of devices that come, and last of those that go.

mod abi;
mod agent;
pub(crate) mod client;
mod edge;
mod incoming;
mod local;
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

/// All ports that are open.
struct Ports {
    open: KVec<Open>,
    /// While the module is loaded.
    tids: Option<Arc<Tids>>,
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before there is a client.
    unsafe(uninit) static PORTS: Mutex<Ports> = Ports {
        open: KVec::new(),
        tids: None,
    };
}

/// The port of a device that is open. May sleep.
fn find(device: &Device, number: u32) -> Option<Arc<Port>> {
    let ports = PORTS.lock();
    ports
        .open
        .iter()
        .map(Open::port)
        .find(|port| port.is_of(device, number))
        .cloned()
}

/// Whether a port has MADs.
fn has_mads(device: &Device, port: u32) -> bool {
    device
        .immutable(port)
        .is_some_and(|immutable| immutable.core_cap_flags & bindings::RDMA_CORE_CAP_IB_MAD != 0)
}

/// Opens the ports of a device that have MADs.
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
        Err(crate::errno::eopnotsupp())
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
        // Outside of the lock: closing waits.
        match open {
            Some(open) => drop(open),
            None => return,
        }
    }
}

/// As a client of devices.
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

/// What the module owns for MADs.
pub(crate) struct Subsystem {
    _end: End,
}

impl Subsystem {
    /// Registers the client. May sleep. Once.
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

/// The registration; its end empties what a static holds.
struct End(Option<Pin<KBox<Own<Client>>>>);

impl Drop for End {
    fn drop(&mut self) {
        self.0 = None;
        let mut ports = PORTS.lock();
        ports.tids = None;
        ports.open = KVec::new();
    }
}
