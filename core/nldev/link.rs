// SPDX-License-Identifier: GPL-2.0

//! Kinds of devices that are made on network devices: `rdma link add` and `delete`.
//!
//! Drivers register what makes them. The list is kept by a lock (2 of the plan), which is
//! held for reading while a driver makes a device.

use core::ffi::CStr;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::DeviceName;
use rdma::sync::RwSem;

use super::request::Request;
use super::request::Text;
use crate::device;
use crate::proto::nla::Strictness;
use crate::proto::nldev::Attr;

/// Bytes of a device's name at most, its end included.
pub(super) const NAME_LEN: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// The kinds there are, as a chain of the drivers' structures: `list.next` of each, which
/// is the core's to use, points to the next one. Nothing has to be allocated for it.
///
/// # Invariants
///
/// Null, or a structure that stays until it is unregistered, and so on.
struct Types(*mut bindings::rdma_link_ops);

// SAFETY: The structures are used under the lock only, by any thread.
unsafe impl Send for Types {}
// SAFETY: As above.
unsafe impl Sync for Types {}

kernel::sync::global_lock! {
    // SAFETY: `init` is called before anything else here.
    unsafe(uninit) static DELETING: Mutex<()> = ();
}

// SAFETY: `init` is called before anything else here.
static TYPES: RwSem<Types> = unsafe { RwSem::uninit(Types(ptr::null_mut())) };

/// Makes the list usable.
///
/// # Safety
///
/// It is called once, before anything else of this file.
pub(super) unsafe fn init() {
    // SAFETY: By this function's duty.
    unsafe {
        TYPES.init(c"LinkTypes::ops", kernel::static_lock_class!());
        DELETING.init();
    }
}

impl Types {
    /// All kinds.
    fn iter(&self) -> impl Iterator<Item = NonNull<bindings::rdma_link_ops>> + '_ {
        // SAFETY: By the type invariant; the lock is held as long as `self` is borrowed.
        core::iter::successors(NonNull::new(self.0), |ops| {
            NonNull::new(unsafe { (*ops.as_ptr()).list.next.cast() })
        })
    }

    /// The kind of a name.
    fn find(&self, name: &CStr) -> Option<NonNull<bindings::rdma_link_ops>> {
        // SAFETY: By the type invariant; a registered kind has a name.
        self.iter()
            .find(|ops| unsafe { CStr::from_ptr((*ops.as_ptr()).type_.cast()) } == name)
    }

    /// # Safety
    ///
    /// `ops` and its name stay until it is removed.
    unsafe fn add(&mut self, ops: NonNull<bindings::rdma_link_ops>) {
        // SAFETY: By this function's duty. INVARIANT: Likewise.
        unsafe { (*ops.as_ptr()).list.next = self.0.cast() };
        self.0 = ops.as_ptr();
    }

    fn remove(&mut self, ops: NonNull<bindings::rdma_link_ops>) {
        // SAFETY: By the type invariant.
        let after: *mut bindings::rdma_link_ops = unsafe { (*ops.as_ptr()).list.next.cast() };
        if self.0 == ops.as_ptr() {
            self.0 = after;
            return;
        }
        // SAFETY: As above.
        let before = self
            .iter()
            .find(|at| unsafe { (*at.as_ptr()).list.next } == ops.as_ptr().cast());
        if let Some(before) = before {
            // SAFETY: As above. INVARIANT: The chain goes on behind what goes.
            unsafe { (*before.as_ptr()).list.next = after.cast() };
        }
    }
}

/// `RDMA_NLDEV_CMD_NEWLINK`: a device of a kind on a network device of the asker's
/// namespace. The driver's module is loaded if need be.
pub(super) fn new(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = Text::<NAME_LEN>::of(&attrs, Attr::DevName).ok_or(EINVAL)?;
    let kind = Text::<{ DeviceName::LEN }>::of(&attrs, Attr::LinkType).ok_or(EINVAL)?;
    let netdev = Text::<{ DeviceName::LEN }>::of(&attrs, Attr::NdevName).ok_or(EINVAL)?;
    if device.as_bytes().is_empty() || device.as_bytes().contains(&b'%') {
        return Err(EINVAL);
    }
    let netdev = request.netdev(netdev.as_cstr()).ok_or(ENODEV)?;

    let mut types = TYPES.read();
    let mut found = types.find(kind.as_cstr());
    if found.is_none() {
        // The module registers the kind, and so takes the lock.
        drop(types);
        // SAFETY: The format takes one text. Whether there is such a kind then is looked up.
        let _: c_int = unsafe {
            bindings::__request_module(
                true,
                c"rdma-link-%s".as_ptr().cast(),
                kind.as_cstr().as_ptr().cast::<u8>(),
            )
        };
        types = TYPES.read();
        found = types.find(kind.as_cstr());
    }
    let ops = found.ok_or(EINVAL)?;
    // SAFETY: The lock is held, so the kind stays.
    let newlink = unsafe { (*ops.as_ptr()).newlink }.ok_or(EINVAL)?;
    // SAFETY: Name and network device are there until this returns.
    let made = to_result(unsafe { newlink(device.as_cstr().as_ptr().cast(), netdev.as_raw()) });
    drop(types);
    made
}

/// `RDMA_NLDEV_CMD_DELLINK`: the end of a device whose driver lets users end it.
pub(super) fn delete(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = request.device(&attrs)?;
    // SAFETY: Written before the device is registered and not changed after.
    let (allowed, ops) = unsafe {
        let raw = device.as_raw();
        let flags = (*raw).attrs.kernel_cap_flags;
        (
            flags & u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG) != 0,
            (*raw).link_ops,
        )
    };
    if !allowed {
        return Err(EINVAL);
    }
    // SAFETY: A device does not outlive the driver that made it, nor its driver its kind.
    let dellink = NonNull::new(ops.cast_mut()).and_then(|ops| unsafe { (*ops.as_ptr()).dellink });
    if let Some(dellink) = dellink {
        let _one = DELETING.lock();
        // SAFETY: The device stays registered meanwhile.
        to_result(unsafe { dellink(device.as_raw()) })?;
    }
    device::unregister(device);
    Ok(())
}

/// Adds a kind of devices. May sleep. Warns, and does nothing, if the name is taken.
///
/// # Safety
///
/// `ops` stays as it is until [`rdma_link_unregister`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_link_register(ops: *mut bindings::rdma_link_ops) {
    let Some(ops) = NonNull::new(ops) else { return };
    let mut types = TYPES.write();
    // SAFETY: By this function's duty.
    let name = unsafe { CStr::from_ptr((*ops.as_ptr()).type_.cast()) };
    if !kernel::warn_on!(types.find(name).is_some()) {
        // SAFETY: By this function's duty.
        unsafe { types.add(ops) };
    }
}

/// Takes a kind of devices away, when none is being made. May sleep.
///
/// # Safety
///
/// `ops` was registered.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_link_unregister(ops: *mut bindings::rdma_link_ops) {
    if let Some(ops) = NonNull::new(ops) {
        TYPES.write().remove(ops);
    }
}

rdma::exported!(rdma_link_register, rdma_link_unregister);
