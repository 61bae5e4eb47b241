// SPDX-License-Identifier: GPL-2.0

//! Consumers of devices: told of those that come and go.
//!
//! ```text
//!   Registered<C> -- a device comes --> C::add(DeviceRef) -> C::Data
//!                 -- it goes --------> C::remove(Data), then waits for the DeviceRefs
//! ```
//!
//! A [`DeviceRef`] may be kept anywhere: the device, and the services that the core runs on it, stay
//! until the last one is dropped. One that is not dropped after `remove` holds up the end of the
//! device.
//!
//! C header: `struct ib_client` in `include/rdma/ib_verbs.h`.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::bindings;
use crate::chrdev::Node;
use crate::chrdev::NodeClass;
use crate::edge::device::Device;
use crate::edge::View;
use crate::net::CountedNet;
use crate::provider::unsupported;
use crate::sysfs::Page;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::sync::Completion;
use kernel::sync::Refcount;
use kernel::types::Opaque;

/// A device that a client was told of, and how many refer to it.
///
/// # Invariants
///
/// `raw` is a device that does not go before `gone` is completed, which the last reference does.
#[pin_data]
struct Told {
    raw: NonNull<bindings::ib_device>,
    refs: Refcount,
    #[pin]
    gone: Completion,
}

// SAFETY: A device is used from any thread.
unsafe impl Send for Told {}
// SAFETY: As for `Send`.
unsafe impl Sync for Told {}

/// A device, which stays until this is dropped.
///
/// # Invariants
///
/// It is counted in `refs`.
pub struct DeviceRef(Arc<Told>);

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.0.refs.inc();
        // INVARIANT: Just counted.
        Self(self.0.clone())
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        if self.0.refs.dec_and_test() {
            self.0.gone.complete_all();
        }
    }
}

impl DeviceRef {
    /// Drops it, and waits until no other is left. May sleep.
    fn end(self) {
        let told = self.0.clone();
        drop(self);
        told.gone.wait_for_completion();
    }

    /// The C structure.
    pub fn raw(&self) -> *mut bindings::ib_device {
        self.0.raw.as_ptr()
    }

    fn view(&self) -> &Device {
        // SAFETY: The device is there, and registered (type invariants).
        unsafe { Device::view(self.raw()) }
    }

    /// The device that it is a part of, or null.
    pub(crate) fn parent(&self) -> *mut bindings::device {
        // SAFETY: The device is there; its parent was set before it was registered.
        unsafe { (*self.raw()).__bindgen_anon_1.dev.parent }
    }

    /// Its index, which no other device has.
    pub fn index(&self) -> u32 {
        self.view().index()
    }

    /// The numbers of its ports.
    pub fn ports(&self) -> RangeInclusive<u32> {
        if self.view().is_switch() {
            0..=0
        } else {
            1..=self.view().phys_port_cnt()
        }
    }

    /// Whether a port is there and has management datagrams of InfiniBand.
    pub fn has_mads(&self, port: u32) -> bool {
        // SAFETY: The device is there (type invariant); the function checks the port.
        unsafe { bindings::rdma_helper_cap_ib_mad(self.raw(), port) }
    }

    /// Whether a port is there and has subnet management.
    pub fn has_smi(&self, port: u32) -> bool {
        // SAFETY: The device is there (type invariant); the function checks the port.
        unsafe { bindings::rdma_helper_cap_ib_smi(self.raw(), port) }
    }

    /// Whether the current task may use it from its network namespace.
    pub fn is_accessible(&self) -> bool {
        let net = CountedNet::current();
        // SAFETY: Both are there.
        unsafe { bindings::rdma_dev_access_netns(self.raw(), net.as_raw()) }
    }

    /// Sets or clears capabilities of a port. May sleep.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn modify_port_caps(&self, port: u32, set: u32, clear: u32) -> Result {
        let mut change = bindings::ib_port_modify {
            set_port_cap_mask: set,
            clr_port_cap_mask: clear,
            ..Default::default()
        };
        // SAFETY: The device is there (type invariant); the function checks the port.
        to_result(unsafe { bindings::ib_modify_port(self.raw(), port, 0, &mut change) })
    }

    /// Writes its name and a new line.
    pub fn show_name(&self, page: &mut Page<'_>) {
        // It may be renamed meanwhile, within this array, which ends with a zero. The name that
        // the driver model has would be freed.
        // SAFETY: The array is a part of the device; the bytes are read one by one.
        let name = unsafe { (&raw const (*self.raw()).name).cast::<u8>() };
        for at in 0..bindings::IB_DEVICE_NAME_MAX as usize {
            // SAFETY: Within the array.
            match unsafe { name.add(at).read_volatile() } {
                0 => break,
                byte => page.bytes(&[byte]),
            }
        }
        page.bytes(b"\n");
    }
}

/// What a client shows of a port by netlink.
pub struct NlInfo<'a> {
    abi: u64,
    cdev: *mut bindings::device,
    _node: PhantomData<&'a ()>,
}

impl<'a> NlInfo<'a> {
    /// A node, and the version of its ABI.
    pub fn new<C: NodeClass>(node: &'a Node<C>) -> Self {
        Self {
            abi: C::ABI_VERSION.map_or(0, u64::from),
            cdev: node.device(),
            _node: PhantomData,
        }
    }
}

/// A client.
pub trait Client: Sized + Send + Sync + 'static {
    /// What it keeps of a device.
    type Data: Send + Sync + 'static;
    /// Its name.
    const NAME: &'static CStr;

    /// Its place, a static.
    fn slot() -> &'static ClientSlot<Self>;

    /// A device comes. May sleep.
    ///
    /// # Errors
    ///
    /// If it has nothing to do with the device.
    fn add(&self, device: DeviceRef) -> Result<Self::Data>;

    /// A device goes: drops all that refers to it. May sleep.
    fn remove(&self, data: Self::Data);

    /// What it shows of a port, which may not exist, by netlink.
    ///
    /// # Errors
    ///
    /// What the program gets.
    fn nl_info<'a>(
        &self,
        data: &'a Self::Data,
        device: &DeviceRef,
        port: u32,
    ) -> Result<NlInfo<'a>>;
}

/// The place of a client that is registered: a static of its module, since the core calls it with
/// the device only.
///
/// # Invariants
///
/// Between `taken` being set and cleared `raw` and `client` are those of one registration, and
/// constant from before the core knows `raw` until after it has forgotten it.
pub struct ClientSlot<C: Client> {
    raw: Opaque<bindings::ib_client>,
    client: UnsafeCell<Option<Arc<C>>>,
    taken: Atomic<bool>,
}

// SAFETY: What is in it changes only as the type invariant says.
unsafe impl<C: Client> Sync for ClientSlot<C> {}

impl<C: Client> ClientSlot<C> {
    /// With no client.
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            client: UnsafeCell::new(None),
            taken: Atomic::new(false),
        }
    }

    /// The client, in a call by the core.
    ///
    /// # Safety
    ///
    /// The core calls a method of the client.
    unsafe fn client(&self) -> Option<&Arc<C>> {
        // SAFETY: It is constant while the core may call (type invariant).
        unsafe { (*self.client.get()).as_ref() }
    }
}

/// A registered client, until it is dropped.
///
/// # Invariants
///
/// The slot is taken by this, and its client is registered.
pub struct Registered<C: Client>(PhantomData<C>);

impl<C: Client> Registered<C> {
    /// Registers a client: it is told of all devices. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if one of this type is registered; `ENOMEM`.
    pub fn register(client: Arc<C>) -> Result<Self> {
        let slot = C::slot();
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        let raw = bindings::ib_client {
            name: C::NAME.as_char_ptr(),
            add: Some(add::<C>),
            remove: Some(remove::<C>),
            get_nl_info: Some(get_nl_info::<C>),
            ..Default::default()
        };
        // SAFETY: We have taken the slot, and the core does not know it yet.
        let result = unsafe {
            *slot.client.get() = Some(client);
            slot.raw.get().write(raw);
            to_result(bindings::ib_register_client(slot.raw.get()))
        };
        if let Err(e) = result {
            Self::give_up();
            return Err(e);
        }
        // INVARIANT: Just taken and registered.
        Ok(Self(PhantomData))
    }

    /// Empties the slot, which the core does not know.
    fn give_up() {
        let slot = C::slot();
        // SAFETY: We have taken the slot, and the core has forgotten it.
        drop(unsafe { (*slot.client.get()).take() });
        slot.taken.store(false, Release);
    }
}

impl<C: Client> Drop for Registered<C> {
    fn drop(&mut self) {
        // SAFETY: It is registered (type invariant). No lock is held.
        unsafe { bindings::ib_unregister_client(C::slot().raw.get()) };
        Self::give_up();
    }
}

/// What the core keeps for a client of a device.
struct Kept<C: Client> {
    device: DeviceRef,
    data: C::Data,
}

/// A device comes.
///
/// # Safety
///
/// For the core only, as a method of the client in `C::slot`.
unsafe extern "C" fn add<C: Client>(raw: *mut bindings::ib_device) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: This function's contract.
        let client = unsafe { C::slot().client() }.ok_or(ENODEV)?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        let told = Arc::pin_init(
            pin_init!(Told {
                raw,
                refs: Refcount::new(1),
                gone <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: `remove`, or the end of this function in error, waits for `gone`. `refs` begins
        // with this one.
        let device = DeviceRef(told);
        match client.add(device.clone()).and_then(|data| {
            let device = device.clone();
            Ok(KBox::new(Kept { device, data }, GFP_KERNEL)?)
        }) {
            Ok(kept) => {
                let kept: *mut Kept<C> = KBox::into_raw(kept);
                // SAFETY: The core waits for this method, and gives the box to `remove`.
                unsafe {
                    bindings::ib_set_client_data(raw.as_ptr(), C::slot().raw.get(), kept.cast());
                }
                Ok(0)
            }
            Err(e) => {
                device.end();
                Err(e)
            }
        }
    })
}

/// A device goes.
///
/// # Safety
///
/// As [`add`], with what that has set.
unsafe extern "C" fn remove<C: Client>(_: *mut bindings::ib_device, data: *mut c_void) {
    if data.is_null() {
        return;
    }
    // SAFETY: `add` has made the box; the core calls this once, after all other methods.
    let kept = unsafe { KBox::<Kept<C>>::from_raw(data.cast()) };
    let Kept { device, data } = KBox::into_inner(kept);
    // SAFETY: This function's contract.
    if let Some(client) = unsafe { C::slot().client() } {
        client.remove(data);
    }
    device.end();
}

/// What the client shows by netlink.
///
/// # Safety
///
/// As [`add`], with what that has set, or null, and a question.
unsafe extern "C" fn get_nl_info<C: Client>(
    _: *mut bindings::ib_device,
    data: *mut c_void,
    info: *mut bindings::ib_client_nl_info,
) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: This function's contract.
        let (client, kept) = unsafe { (C::slot().client(), data.cast::<Kept<C>>().as_ref()) };
        let (Some(client), Some(kept)) = (client, kept) else {
            return Err(unsupported());
        };
        // SAFETY: This function's contract.
        let port = unsafe { bindings::rdma_helper_nl_info_port(info) };
        let found = client.nl_info(&kept.data, &kept.device, port)?;
        // SAFETY: This function's contract. The core takes a reference to the node's device before
        // the client may go.
        unsafe { bindings::rdma_helper_nl_info_set(info, found.abi, found.cdev) };
        Ok(0)
    })
}
