// SPDX-License-Identifier: GPL-2.0

//! Devices, clients and events of the loaded core, whichever that is, with a driver that
//! fails where it is told to and clients that write down what they hear.

use crate::fake_port;
use core::ptr;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use rdma::bindings;

/// Where the driver fails, with `EIO`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fail {
    Nowhere,
    QueryDevice,
    Immutable,
    QueryPort,
    Enable,
}

/// The driver's structure of a device.
#[repr(C)]
struct Fake {
    ib: bindings::ib_device,
    fail: Fail,
}

fn fails(ib: *mut bindings::ib_device, at: Fail) -> c_int {
    // SAFETY: All devices with these methods are `Fake`s.
    if unsafe { (*ib.cast::<Fake>()).fail } == at {
        EIO.to_errno()
    } else {
        0
    }
}

unsafe extern "C" fn query_device(
    ib: *mut bindings::ib_device,
    _attr: *mut bindings::ib_device_attr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    fails(ib, Fail::QueryDevice)
}

unsafe extern "C" fn immutable(
    ib: *mut bindings::ib_device,
    port: u32,
    to: *mut bindings::ib_port_immutable,
) -> c_int {
    // SAFETY: The core calls with a port and its own structure.
    unsafe { fake_port::immutable(ib, port, to) };
    fails(ib, Fail::Immutable)
}

unsafe extern "C" fn query_port(
    ib: *mut bindings::ib_device,
    port: u32,
    to: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: The core calls with a port and its own structure.
    unsafe { fake_port::query_port(ib, port, to) };
    fails(ib, Fail::QueryPort)
}

unsafe extern "C" fn link_layer(
    _ib: *mut bindings::ib_device,
    _port: u32,
) -> bindings::rdma_link_layer {
    bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
}

unsafe extern "C" fn enable(ib: *mut bindings::ib_device) -> c_int {
    fails(ib, Fail::Enable)
}

/// A device, freed when this is dropped.
pub(crate) struct Device {
    pub(crate) ib: *mut bindings::ib_device,
    registered: bool,
}

impl Device {
    pub(crate) fn new(fail: Fail) -> Result<Self> {
        let ops = bindings::ib_device_ops {
            query_device: Some(query_device),
            get_port_immutable: Some(immutable),
            query_port: Some(query_port),
            query_gid: Some(fake_port::query_gid),
            query_pkey: Some(fake_port::query_pkey),
            get_link_layer: Some(link_layer),
            enable_driver: Some(enable),
            ..Default::default()
        };
        // SAFETY: The structure begins with the device.
        let ib = unsafe {
            bindings::_ib_alloc_device(size_of::<Fake>(), bindings::rdma_helper_init_net())
        };
        if ib.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: The device is ours.
        unsafe {
            (*ib.cast::<Fake>()).fail = fail;
            (*ib).phys_port_cnt = 1;
            (*ib).node_type = bindings::RDMA_NODE_IB_CA as u8;
            bindings::ib_set_device_ops(ib, &ops);
        }
        Ok(Self {
            ib,
            registered: false,
        })
    }

    pub(crate) fn register(&mut self, name: &CStr) -> Result {
        // SAFETY: The device is described, and not registered.
        to_result(unsafe {
            bindings::ib_register_device(self.ib, name.as_char_ptr(), ptr::null_mut())
        })?;
        self.registered = true;
        Ok(())
    }

    fn name(&self) -> &[u8] {
        // SAFETY: The name is terminated, and nobody renames it.
        unsafe { CStr::from_char_ptr((&raw const (*self.ib).name).cast::<c_char>()) }.to_bytes()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The device is ours, and freed once.
        unsafe {
            if self.registered {
                bindings::ib_unregister_device(self.ib);
            }
            bindings::ib_dealloc_device(self.ib);
        }
    }
}

/// What clients heard, a digit for each call: the last four of it.
static HEARD: Atomic<u32> = Atomic::<u32>::new(0);
/// Whether the second client refuses devices.
static REFUSES: Atomic<u32> = Atomic::<u32>::new(0);

fn hear(what: u32) {
    // Calls come one after the other.
    let before = HEARD.load(Relaxed);
    HEARD.store(before.wrapping_mul(10).wrapping_add(what) % 10_000, Release);
}

fn heard() -> u32 {
    HEARD.xchg(0, Full)
}

/// Whether a device is one of ours: clients hear of those of others, too.
pub(crate) fn is_ours(ib: *mut bindings::ib_device) -> bool {
    // SAFETY: Clients are called with a device.
    let method = unsafe { (*ib).ops.query_device };
    method.map(|f| f as usize) == Some(query_device as usize)
}

unsafe extern "C" fn add_first(ib: *mut bindings::ib_device) -> c_int {
    if is_ours(ib) {
        hear(1);
    }
    0
}

unsafe extern "C" fn remove_first(ib: *mut bindings::ib_device, data: *mut c_void) {
    if is_ours(ib) {
        hear(if data.is_null() { 3 } else { 9 });
    }
}

unsafe extern "C" fn add_second(ib: *mut bindings::ib_device) -> c_int {
    if is_ours(ib) {
        hear(2);
        // Any pointer but those that are errors.
        let data = ptr::from_ref(&HEARD).cast_mut().cast();
        // SAFETY: We are in the client's `add`.
        unsafe { bindings::ib_set_client_data(ib, SECOND.0.get(), data) };
        if REFUSES.load(Relaxed) != 0 {
            return ENODEV.to_errno();
        }
    }
    0
}

unsafe extern "C" fn remove_second(ib: *mut bindings::ib_device, data: *mut c_void) {
    if is_ours(ib) {
        hear(if data.is_null() { 9 } else { 4 });
    }
}

pub(crate) struct Client(core::cell::UnsafeCell<bindings::ib_client>);

// SAFETY: The core's, which locks, from registration on.
unsafe impl Sync for Client {}

pub(crate) const fn client(
    name: &'static CStr,
    add: unsafe extern "C" fn(*mut bindings::ib_device) -> c_int,
    remove: unsafe extern "C" fn(*mut bindings::ib_device, *mut c_void),
) -> Client {
    // SAFETY: Zeros are valid for all of it.
    let mut client: bindings::ib_client = unsafe { core::mem::zeroed() };
    client.name = name.as_ptr().cast();
    client.add = Some(add);
    client.remove = Some(remove);
    Client(core::cell::UnsafeCell::new(client))
}

static FIRST: Client = client(c"first", add_first, remove_first);
static SECOND: Client = client(c"second", add_second, remove_second);

/// A registered client.
pub(crate) struct Registered(&'static Client);

impl Registered {
    pub(crate) fn new(client: &'static Client) -> Result<Self> {
        // SAFETY: The client is static, and not registered.
        unsafe {
            // Our devices have no methods for kernel consumers.
            (*client.0.get()).set_no_kverbs_req(1);
            to_result(bindings::ib_register_client(client.0.get()))?;
        }
        Ok(Self(client))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: It is registered.
        unsafe { bindings::ib_unregister_client(self.0 .0.get()) };
    }
}

unsafe extern "C" fn on_event(
    _handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: The core's own event.
    hear(unsafe { (*event).event } % 10);
}

#[kunit_tests(core_device)]
mod tests {
    use super::*;

    #[test]
    fn clients_hear_in_order_and_in_the_opposite_one() {
        let first = Registered::new(&FIRST).unwrap();
        let second = Registered::new(&SECOND).unwrap();
        let mut device = Device::new(Fail::Nowhere).unwrap();
        device.register(c"fake%d").unwrap();
        assert_eq!(heard(), 12);
        drop(device);
        assert_eq!(heard(), 43);
        drop(second);
        drop(first);
        assert_eq!(heard(), 0);
    }

    #[test]
    fn clients_that_come_later_hear_of_all() {
        let mut one = Device::new(Fail::Nowhere).unwrap();
        one.register(c"fake%d").unwrap();
        let mut other = Device::new(Fail::Nowhere).unwrap();
        other.register(c"fake%d").unwrap();
        let first = Registered::new(&FIRST).unwrap();
        assert_eq!(heard(), 11);
        drop(first);
        assert_eq!(heard(), 33);
        drop(one);
        drop(other);
        assert_eq!(heard(), 0);
    }

    #[test]
    fn a_client_that_refuses_hears_no_more() {
        let second = Registered::new(&SECOND).unwrap();
        REFUSES.store(1, Relaxed);
        let mut device = Device::new(Fail::Nowhere).unwrap();
        device.register(c"fake%d").unwrap();
        REFUSES.store(0, Relaxed);
        assert_eq!(heard(), 2);
        drop(device);
        drop(second);
        assert_eq!(heard(), 0);
    }

    #[test]
    fn names() {
        let mut one = Device::new(Fail::Nowhere).unwrap();
        one.register(c"fake%d").unwrap();
        assert_eq!(one.name(), b"fake0");
        let mut two = Device::new(Fail::Nowhere).unwrap();
        two.register(c"fake%d").unwrap();
        assert_eq!(two.name(), b"fake1");
        drop(one);
        let mut three = Device::new(Fail::Nowhere).unwrap();
        assert_eq!(three.register(c"fake1"), Err(ENFILE));
        let mut four = Device::new(Fail::Nowhere).unwrap();
        four.register(c"fake%d").unwrap();
        assert_eq!(four.name(), b"fake0");
    }

    #[test]
    fn a_failing_registration_leaves_nothing() {
        let first = Registered::new(&FIRST).unwrap();
        for fail in [
            Fail::QueryDevice,
            Fail::Immutable,
            Fail::QueryPort,
            Fail::Enable,
        ] {
            let mut device = Device::new(fail).unwrap();
            assert_eq!(device.register(c"fake%d"), Err(EIO));
            assert_eq!(heard(), 0);
        }
        // Nothing has the name, nor its place in sysfs.
        let mut device = Device::new(Fail::Nowhere).unwrap();
        device.register(c"fake0").unwrap();
        assert_eq!(heard(), 1);
        drop(device);
        assert_eq!(heard(), 3);
        drop(first);
    }

    #[test]
    fn events() {
        let mut device = Device::new(Fail::Nowhere).unwrap();
        device.register(c"fake%d").unwrap();
        let mut handler = bindings::ib_event_handler {
            device: device.ib,
            handler: Some(on_event),
            ..Default::default()
        };
        let event = bindings::ib_event {
            device: device.ib,
            event: bindings::ib_event_type_IB_EVENT_DEVICE_FATAL,
            ..Default::default()
        };
        // SAFETY: The handler is taken out before it goes.
        unsafe {
            bindings::ib_register_event_handler(&mut handler);
            bindings::ib_dispatch_event(&event);
            bindings::ib_dispatch_event(&event);
            bindings::__flush_workqueue(bindings::ib_wq);
            bindings::ib_unregister_event_handler(&mut handler);
            assert_eq!(heard(), 88);
            bindings::ib_dispatch_event(&event);
            bindings::__flush_workqueue(bindings::ib_wq);
        }
        assert_eq!(heard(), 0);
    }

    #[test]
    fn ports_that_are_not_there() {
        let mut device = Device::new(Fail::Nowhere).unwrap();
        device.register(c"fake%d").unwrap();
        let mut attr = bindings::ib_port_attr::default();
        let (mut pkey, mut index) = (0, 0);
        // SAFETY: The device is registered, the rest ours.
        unsafe {
            for port in [0, 2, u32::MAX] {
                assert_eq!(
                    bindings::ib_query_port(device.ib, port, &mut attr),
                    EINVAL.to_errno()
                );
                assert_eq!(
                    bindings::ib_query_pkey(device.ib, port, 0, &mut pkey),
                    EINVAL.to_errno()
                );
                assert!(bindings::ib_device_get_netdev(device.ib, port).is_null());
                assert_eq!(
                    bindings::ib_device_set_netdev(device.ib, ptr::null_mut(), port),
                    EINVAL.to_errno()
                );
            }
            assert_eq!(bindings::ib_query_port(device.ib, 1, &mut attr), 0);
            assert_eq!(attr.state, bindings::ib_port_state_IB_PORT_ACTIVE);
            assert_eq!(bindings::ib_find_pkey(device.ib, 1, 0x7fff, &mut index), 0);
            assert_eq!(index, 0);
            assert_eq!(
                bindings::ib_find_pkey(device.ib, 1, 0x7ffe, &mut index),
                ENOENT.to_errno()
            );
        }
    }

    #[test]
    fn methods_are_merged() {
        let device = Device::new(Fail::Nowhere).unwrap();
        let more = bindings::ib_device_ops {
            query_device: None,
            query_pkey: None,
            size_ib_pd: 99,
            uverbs_abi_ver: 7,
            ..Default::default()
        };
        let last = bindings::ib_device_ops {
            size_ib_pd: 100,
            ..Default::default()
        };
        // SAFETY: The device is ours.
        unsafe {
            bindings::ib_set_device_ops(device.ib, &more);
            bindings::ib_set_device_ops(device.ib, &last);
            assert!((*device.ib).ops.query_device.is_some());
            assert!((*device.ib).ops.query_pkey.is_some());
            assert_eq!((*device.ib).ops.size_ib_pd, 99);
            assert_eq!((*device.ib).ops.uverbs_abi_ver, 7);
        }
    }
}
