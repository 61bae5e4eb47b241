// SPDX-License-Identifier: GPL-2.0

//! Clients: kernel users that are notified when RDMA devices are added and removed.
//!
//! ```text
//!   Registered<C> -- device added ----> C::add(DeviceRef) -> C::Data
//!                 -- device removed --> C::remove(Data), then waits for all DeviceRefs
//! ```
//!
//! A [`DeviceRef`] may be stored anywhere: the device, and the services that the core runs on it,
//! exist until the last one is dropped. A reference that is kept after `remove` blocks the removal
//! of the device.
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
use crate::module::Resident;
use crate::net::CountedNet;
use crate::print;
use crate::provider::unsupported;
use crate::slot::StaticSlot;
use crate::sync::TimedCompletion;
use crate::sysfs::Page;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::sync::Refcount;
use kernel::time::msecs_to_jiffies;
use kernel::types::Opaque;

/// Time after which the wait for the last reference to a device is reported, in milliseconds.
const PATIENCE_MS: u32 = 10_000;

/// A device that was announced to a client, with the number of references to it.
///
/// # Invariants
///
/// `raw` is a device that was added to the client. Its removal does not end, and so the device and
/// its driver stay, until `gone` is completed by the drop of the last reference.
#[pin_data]
struct Told {
    raw: NonNull<bindings::ib_device>,
    refs: Refcount,
    #[pin]
    gone: TimedCompletion,
}

// SAFETY: A device may be used from any thread.
unsafe impl Send for Told {}
// SAFETY: As for `Send`: a device may be used from any thread.
unsafe impl Sync for Told {}

/// A reference to a device, whose removal does not end until this is dropped.
///
/// # Invariants
///
/// It is counted in `refs`.
pub struct DeviceRef(Arc<Told>);

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.0.refs.inc();
        // INVARIANT: Counted above.
        Self(self.0.clone())
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        if self.0.refs.dec_and_test() {
            // Once: no reference is made of none, and there is one waiter.
            self.0.gone.complete();
        }
    }
}

impl DeviceRef {
    /// Drops this reference and waits until no other is left, for the client `name`. May sleep.
    fn end(self, name: &CStr) {
        let told = self.0.clone();
        drop(self);
        let limit = msecs_to_jiffies(PATIENCE_MS);
        if !told.gone.wait(limit) {
            // SAFETY: The device exists, as its removal is being waited for (invariant of `Told`).
            let device = Name::of(unsafe { Device::view(told.raw.as_ptr()) });
            print::error(fmt!(
                "{}: waiting for the client {}, which still uses the device\n",
                BStr::from_bytes(device.text()),
                name
            ));
            while !told.gone.wait(limit) {}
        }
    }

    /// Returns the C structure.
    pub fn raw(&self) -> *mut bindings::ib_device {
        self.0.raw.as_ptr()
    }

    /// Returns the device, field by field.
    pub fn view(&self) -> &Device {
        // SAFETY: The device exists, and was complete when it was added (invariants of `Told` and
        // `DeviceRef`).
        unsafe { Device::view(self.raw()) }
    }

    /// Returns the parent of the device's `struct device`, or null.
    pub fn parent(&self) -> *mut bindings::device {
        // SAFETY: The device exists (type invariant); its parent is set before registration.
        unsafe { (*self.raw()).__bindgen_anon_1.dev.parent }
    }

    /// Returns the device's index, which is unique.
    pub fn index(&self) -> u32 {
        self.view().index()
    }

    /// Returns the port numbers.
    pub fn ports(&self) -> RangeInclusive<u32> {
        self.view().ports()
    }

    /// Returns whether `port` exists and supports InfiniBand MADs.
    pub fn has_mads(&self, port: u32) -> bool {
        // SAFETY: The device exists (type invariant); the helper checks the port.
        unsafe { bindings::rdma_helper_cap_ib_mad(self.raw(), port) }
    }

    /// Returns whether `port` exists and supports the SMI.
    pub fn has_smi(&self, port: u32) -> bool {
        // SAFETY: The device exists (type invariant); the helper checks the port.
        unsafe { bindings::rdma_helper_cap_ib_smi(self.raw(), port) }
    }

    /// Returns whether `port` exists and supports the InfiniBand connection manager. For modules with
    /// `rdma-cm-objs`.
    pub fn has_ib_cm(&self, port: u32) -> bool {
        // SAFETY: The device exists (type invariant); the helper checks the port.
        unsafe { bindings::rdma_helper_cap_ib_cm(self.raw(), port) }
    }

    /// Returns whether the device is accessible from the network namespace of the current task.
    pub fn is_accessible(&self) -> bool {
        is_accessible(self.view())
    }

    /// Sets and clears bits of a port's capability mask. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port; those of the driver.
    pub fn modify_port_caps(&self, port: u32, set: u32, clear: u32) -> Result {
        let mut change = bindings::ib_port_modify {
            set_port_cap_mask: set,
            clr_port_cap_mask: clear,
            ..Default::default()
        };
        // SAFETY: The device exists (type invariant); the function checks the port.
        to_result(unsafe { bindings::ib_modify_port(self.raw(), port, 0, &mut change) })
    }

    /// Writes the device's name and a newline.
    pub fn show_name(&self, page: &mut Page<'_>) {
        show_name(self.view(), page);
    }
}

/// Returns whether a device is accessible from the network namespace of the current task.
pub fn is_accessible(device: &Device) -> bool {
    let Some(net) = CountedNet::current() else {
        return false;
    };
    // SAFETY: The device exists (guarantee of a reference), and `net` is a reference to the
    // namespace.
    unsafe { bindings::rdma_dev_access_netns(device.raw(), net.as_raw()) }
}

/// The name of a device, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Name([u8; bindings::IB_DEVICE_NAME_MAX as usize]);

impl Name {
    /// Returns the current name of a device.
    pub fn of(device: &Device) -> Self {
        // The name may change concurrently, but stays within this array and NUL-terminated. The name
        // in `struct device` may be freed by a rename, so it is not used.
        // SAFETY: The array is part of the device, which exists (guarantee of a reference).
        let text = unsafe {
            (&raw const (*device.raw()).name)
                .cast::<Self>()
                .read_volatile()
        };
        Self::new(text.text())
    }

    /// Creates a name from a text, of which the beginning is taken if it is too long.
    pub fn new(text: &[u8]) -> Self {
        let mut name = Self([0; bindings::IB_DEVICE_NAME_MAX as usize]);
        for (to, from) in name.0.iter_mut().zip(text) {
            *to = *from;
        }
        name
    }

    /// Returns the text, without the zeros.
    pub fn text(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Writes a device's name and a newline.
pub fn show_name(device: &Device, page: &mut Page<'_>) {
    page.bytes(Name::of(device).text());
    page.bytes(b"\n");
}

/// Netlink information of a client about a port.
pub struct NlInfo<'a> {
    abi: u64,
    cdev: *mut bindings::device,
    driver: Option<u32>,
    _node: PhantomData<&'a ()>,
}

impl<'a> NlInfo<'a> {
    /// Describes a node, with the version of its ABI.
    pub fn new<C: NodeClass>(node: &'a Node<C>) -> Self {
        Self {
            abi: C::ABI_VERSION.map_or(0, u64::from),
            cdev: node.device(),
            driver: None,
            _node: PhantomData,
        }
    }

    /// Describes another node, with the number of the driver, if programs may choose their library
    /// by that.
    ///
    /// # Safety
    ///
    /// `cdev` is a device that exists for `'a`.
    pub unsafe fn of_device(abi: u64, cdev: *mut bindings::device, driver: Option<u32>) -> Self {
        Self {
            abi,
            cdev,
            driver,
            _node: PhantomData,
        }
    }
}

/// A client (`struct ib_client`).
///
/// Its slot is of `static_slot!(impl for Self: ClientSlot<Self>)`.
pub trait Client: StaticSlot<ClientSlot<Self>> + Sized + Send + Sync + 'static {
    /// Data for one device.
    type Data: Send + Sync + 'static;
    /// Name of the client.
    const NAME: &'static CStr;
    /// Whether it is told of devices that have no verbs for the kernel, too.
    const WITHOUT_KVERBS: bool = false;

    /// A device was added. May sleep.
    ///
    /// # Errors
    ///
    /// If the client does not use the device. The core ignores them. All references to the device must
    /// be dropped then, those in work items, too: the core's call waits until they are, with a message
    /// after 10 seconds.
    fn add(&self, device: DeviceRef) -> Result<Self::Data>;

    /// A device is being removed. Drops all references to it, which the core's call waits for, with a
    /// message after 10 seconds. May sleep.
    fn remove(&self, data: Self::Data);

    /// Returns the netlink information about `port`, which may not exist.
    ///
    /// # Errors
    ///
    /// Returned to the program.
    fn nl_info<'a>(
        &self,
        data: &'a Self::Data,
        device: &DeviceRef,
        port: u32,
    ) -> Result<NlInfo<'a>>;
}

/// Registration state of a client: a static of its module, because the core's callbacks get no
/// other argument that identifies the client.
///
/// # Invariants
///
/// From when `taken` is set until it is cleared, `raw` and `client` belong to one registration.
/// They are constant while the core knows `raw`.
pub struct ClientSlot<C> {
    raw: Opaque<bindings::ib_client>,
    client: UnsafeCell<Option<Arc<C>>>,
    taken: Atomic<bool>,
}

// SAFETY: Its fields change only as the type invariant says; the client is `Send` and `Sync`.
unsafe impl<C: Send + Sync> Sync for ClientSlot<C> {}

impl<C> ClientSlot<C> {
    /// Creates a slot without a client.
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            client: UnsafeCell::new(None),
            taken: Atomic::new(false),
        }
    }

    /// Returns the client, in a callback of the core.
    ///
    /// # Safety
    ///
    /// For callbacks of the client that is registered in this slot only.
    unsafe fn client(&self) -> Option<&Arc<C>> {
        // SAFETY: The core calls only while it knows `raw`, when `client` is constant (type
        // invariant).
        unsafe { (*self.client.get()).as_ref() }
    }
}

/// A registered client. It is unregistered on drop, which may sleep.
///
/// # Invariants
///
/// The client of the slot is registered.
pub struct Registered<C: Client> {
    // Dropped in this order, after the client is unregistered.
    _slot: Taken<C>,
    _resident: Resident,
}

/// The slot of a client, taken until this is dropped.
///
/// # Invariants
///
/// This has set `taken`. If the core knows `raw`, a [`Registered`] has this.
struct Taken<C: Client>(PhantomData<C>);

impl<C: Client> Taken<C> {
    /// Takes the slot; `EBUSY` if it is taken.
    fn take() -> Result<Self> {
        if C::slot().taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        // INVARIANT: Just taken, so the core does not know `raw`.
        Ok(Self(PhantomData))
    }
}

impl<C: Client> Drop for Taken<C> {
    fn drop(&mut self) {
        let slot = C::slot();
        // SAFETY: The slot is taken by this (type invariant). The core does not know `raw`: a
        // `Registered` unregisters the client before its fields are dropped.
        drop(unsafe { (*slot.client.get()).take() });
        slot.taken.store(false, Release);
    }
}

impl<C: Client> Registered<C> {
    /// Registers a client, which is notified of all present and future devices. May sleep.
    /// `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EBUSY` if a client of this type is registered; `ENOMEM`.
    pub fn register(client: Arc<C>, resident: Resident) -> Result<Self> {
        let (taken, slot) = (Taken::<C>::take()?, C::slot());
        let mut raw = bindings::ib_client {
            name: C::NAME.as_char_ptr(),
            add: Some(add::<C>),
            remove: Some(remove::<C>),
            get_nl_info: Some(get_nl_info::<C>),
            ..Default::default()
        };
        raw.set_no_kverbs_req(C::WITHOUT_KVERBS.into());
        // SAFETY: `taken` has the slot, and the core does not know `raw` yet (type invariants of
        // `ClientSlot` and `Taken`).
        unsafe {
            *slot.client.get() = Some(client);
            slot.raw.get().write(raw);
            to_result(bindings::ib_register_client(slot.raw.get()))?;
        }
        // INVARIANT: Just registered.
        Ok(Self {
            _slot: taken,
            _resident: resident,
        })
    }
}

impl<C: Client> Drop for Registered<C> {
    fn drop(&mut self) {
        // SAFETY: The client is registered (type invariant).
        unsafe { bindings::ib_unregister_client(C::slot().raw.get()) };
    }
}

/// Client data that the core stores for a device.
struct Kept<C: Client> {
    device: DeviceRef,
    data: C::Data,
}

/// The `add` method of `struct ib_client`.
///
/// # Safety
///
/// For the core only, as a method of the client in `C::slot`.
unsafe extern "C" fn add<C: Client>(raw: *mut bindings::ib_device) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: The core calls a method of the client in `C::slot` (contract of this function).
        let client = unsafe { C::slot().client() }.ok_or(ENODEV)?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        let told = Arc::pin_init(
            pin_init!(Told {
                raw,
                refs: Refcount::new(1),
                gone <- TimedCompletion::new(),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: The core keeps the device registered until `remove` returns, or this function
        // if it fails. Both wait for `gone`. `refs` starts at 1 for this reference.
        let device = DeviceRef(told);
        // Allocated first: what the client does in `add` could not be undone.
        let place = KBox::<Kept<C>>::new_uninit(GFP_KERNEL);
        match place
            .map_err(Error::from)
            .and_then(|place| Ok((place, client.add(device.clone())?)))
        {
            Ok((place, data)) => {
                let kept: *mut Kept<C> = KBox::into_raw(KBox::write(place, Kept { device, data }));
                // SAFETY: The device is registered during this call, and the client too. The core
                // passes the box to `remove`.
                unsafe {
                    bindings::ib_set_client_data(raw.as_ptr(), C::slot().raw.get(), kept.cast());
                }
                Ok(0)
            }
            Err(e) => {
                device.end(C::NAME);
                Err(e)
            }
        }
    })
}

/// The `remove` method of `struct ib_client`.
///
/// # Safety
///
/// As for [`add`]; `data` is what `add` has set, or null.
unsafe extern "C" fn remove<C: Client>(_: *mut bindings::ib_device, data: *mut c_void) {
    if data.is_null() {
        return;
    }
    // SAFETY: `add` made the box. The core calls `remove` once, after all other methods.
    let kept = unsafe { KBox::<Kept<C>>::from_raw(data.cast()) };
    let Kept { device, data } = KBox::into_inner(kept);
    // SAFETY: The core calls a method of the client in `C::slot` (contract of this function).
    if let Some(client) = unsafe { C::slot().client() } {
        client.remove(data);
    }
    device.end(C::NAME);
}

/// The `get_nl_info` method of `struct ib_client`.
///
/// # Safety
///
/// As for [`add`]; `data` is what `add` has set, or null; `info` is a request of the core.
unsafe extern "C" fn get_nl_info<C: Client>(
    _: *mut bindings::ib_device,
    data: *mut c_void,
    info: *mut bindings::ib_client_nl_info,
) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: The core calls a method of the client in `C::slot`, with data of `add` that
        // `remove` has not taken yet (contract of this function).
        let (client, kept) = unsafe { (C::slot().client(), data.cast::<Kept<C>>().as_ref()) };
        let (Some(client), Some(kept)) = (client, kept) else {
            return Err(unsupported());
        };
        // SAFETY: `info` is valid (contract of this function).
        let port = unsafe { bindings::rdma_helper_nl_info_port(info) };
        let found = client.nl_info(&kept.data, &kept.device, port)?;
        // SAFETY: `info` is valid (contract of this function). The core takes a reference to the
        // node's device before the client can be removed.
        unsafe { bindings::rdma_helper_nl_info_set(info, found.abi, found.cdev) };
        if let Some(driver) = found.driver {
            // SAFETY: `info` is valid (contract of this function); the core has made its message.
            to_result(unsafe { bindings::rdma_helper_nl_info_driver(info, driver) })?;
        }
        Ok(0)
    })
}
