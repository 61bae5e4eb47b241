// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): who sends and receives them on the ports of devices.
//!
//! | file | what |
//! |---|---|
//! | `port` | a port: what is opened for it, and who gets what comes |
//! | `queue` | queue pairs 0 and 1 |
//! | `agent` | agents, and the lists of their sends |
//! | `send` | a send: the consumer's buffer and the work request |
//! | `transact` | from posting a send to its end |
//! | `receive`, `incoming` | MADs that came, and where they go |
//! | `transfer` | transfers of many MADs (RMPP) |
//! | `local` | packets on a directed route that this node answers itself |
//! | `reply` | answers that the core sends |
//! | `buffer` | memory that devices and consumers share |
//! | `trace` | tracepoints |
//! | `abi` | exported functions |
//!
//! What is decided is in [`crate::proto::mad`].
//!
//! A port is opened when its device is registered: this is the first client, so it is told
//! first of devices that come, and last of those that go.

mod abi;
mod agent;
mod buffer;
mod incoming;
mod local;
mod port;
mod queue;
mod receive;
mod reply;
mod send;
mod trace;
mod transact;
mod transfer;

use crate::device::Device;
use core::ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::sync::rcu::Drain;

use self::port::Open;
use self::port::Port;
use self::port::Tids;

/// All ports that are open.
struct Ports {
    open: KVec<Open>,
    /// While the module is loaded.
    tids: Option<Arc<Tids>>,
}

kernel::sync::global_lock! {
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
        .find(|port| ptr::eq(port.device(), device.as_raw()) && port.number() == number)
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
        let open = Open::new(device, number, tids)?;
        open.open_repliers()?;
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
            let place = ports
                .open
                .iter()
                .position(|open| ptr::eq(open.port().device(), device.as_raw()));
            place.and_then(|place| ports.open.remove(place).ok())
        };
        // Outside of the lock: closing waits.
        match open {
            Some(open) => drop(open),
            None => return,
        }
    }
}

/// # Safety
///
/// For the list of clients only: a device that is registered.
unsafe extern "C" fn add(device: *mut bindings::ib_device) -> c_int {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    match open_all(device) {
        Ok(()) => 0,
        Err(error) => {
            close_all(device);
            error.to_errno()
        }
    }
}

/// # Safety
///
/// For the list of clients only: a device that goes.
unsafe extern "C" fn remove(device: *mut bindings::ib_device, _data: *mut c_void) {
    // SAFETY: By this function's duty.
    close_all(unsafe { Device::from_raw(device) });
}

/// A client, as C has it.
#[pin_data]
struct Client {
    #[pin]
    c: Opaque<bindings::ib_client>,
}

// SAFETY: The list of clients locks what it keeps in there.
unsafe impl Send for Client {}
// SAFETY: As above.
unsafe impl Sync for Client {}

/// What the module owns for MADs.
pub(crate) struct Subsystem {
    client: Pin<KBox<Client>>,
    // Agents are freed by RCU.
    _drain: Drain,
}

impl Subsystem {
    /// Registers the client. May sleep. Once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Before anything that uses it.
        unsafe { PORTS.init() };
        PORTS.lock().tids = Some(Tids::new()?);
        // SAFETY: Zeros are one, which is filled in before it is registered.
        let mut c: bindings::ib_client = unsafe { core::mem::zeroed() };
        c.name = c"mad".as_char_ptr();
        c.add = Some(add);
        c.remove = Some(remove);
        let client = KBox::pin_init(pin_init!(Client { c: Opaque::new(c) }), GFP_KERNEL)?;
        // SAFETY: It stays until it is unregistered, by drop.
        let code = unsafe { bindings::ib_register_client(client.c.get()) };
        if code != 0 {
            PORTS.lock().tids = None;
            pr_err!("no client of management datagrams: {code}\n");
            return Err(EINVAL);
        }
        Ok(Self {
            client,
            _drain: Drain::new(),
        })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // SAFETY: It was registered.
        unsafe { bindings::ib_unregister_client(self.client.c.get()) };
        let mut ports = PORTS.lock();
        ports.tids = None;
        ports.open = KVec::new();
    }
}
