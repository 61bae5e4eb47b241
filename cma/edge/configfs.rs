// SPDX-License-Identifier: GPL-2.0

//! The folder `rdma_cm` of configfs. In it an administrator makes the folder of a device, which then
//! has `ports/N/`, with a file for each [`Setting`].
//!
//! configfs counts the users of folders and files. All of them have this module as their owner, so it
//! is not unloaded while there are any. A device need not exist as long as its folder does.
//!
//! C header: `include/linux/configfs.h`.

use crate::configfs;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::client::Name;
use rdma::edge::FromC;
use rdma::module::Resident;
use rdma::sysfs::Page;

/// What the folder of a port is about.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The device.
    pub(crate) device: Name,
    /// The port.
    pub(crate) port: u32,
}

/// A file in the folder of a port.
pub(crate) trait Setting: 'static {
    /// Its name.
    const NAME: &'static CStr;

    /// Writes the value. May sleep.
    ///
    /// # Errors
    ///
    /// Returned to the reader.
    fn show(place: &Place, page: &mut Page<'_>) -> Result;

    /// Sets the value. May sleep.
    ///
    /// # Errors
    ///
    /// Returned to the writer.
    fn store(place: &Place, text: &CStr) -> Result;
}

/// The number that a text is, as a setting of eight bits.
///
/// # Errors
///
/// `EINVAL`: it is none; `ERANGE`: it is too large.
pub(crate) fn number(text: &CStr) -> Result<u8> {
    let mut number = 0;
    // SAFETY: A text that ends with a zero.
    to_result(unsafe { bindings::kstrtou8(text.as_char_ptr(), 0, &mut number) })?;
    Ok(number)
}

/// A folder.
///
/// # Invariants
///
/// The group is initialised and has one of the types below. The folder is in a [`KBox`] that belongs to
/// the group's reference count: [`release`] frees it.
#[repr(C)]
struct Folder {
    group: Opaque<bindings::config_group>,
    place: Place,
}

/// One reference to a folder.
///
/// # Invariants
///
/// It is counted.
struct Owned(NonNull<Folder>);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: The reference is counted (type invariant).
        unsafe { bindings::config_item_put(self.0.as_ptr().cast()) };
    }
}

impl Owned {
    fn new(name: &CStr, is: &'static ItemType, place: Place) -> Result<Self> {
        let folder = Folder {
            group: Opaque::new(bindings::config_group::default()),
            place,
        };
        let folder = NonNull::from(KBox::leak(KBox::new(folder, GFP_KERNEL)?));
        // SAFETY: The group is new and zeroed, and is not moved: it is in a box until `release`. The
        // name is copied.
        unsafe {
            let group = folder.cast::<bindings::config_group>();
            bindings::config_group_init_type_name(group.as_ptr(), name.as_char_ptr(), &is.0);
        }
        // INVARIANT: A new group has one reference.
        Ok(Self(folder))
    }

    fn into_group(self) -> *mut bindings::config_group {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// Makes this folder one of those that `parent` has from its beginning.
    fn below(self, parent: &Self) {
        // SAFETY: Both are initialised, and are not in configfs yet. The reference belongs to the
        // parent, which drops it in `release`.
        unsafe {
            bindings::rdma_helper_cma_default_group(
                self.into_group().cast(),
                parent.0.as_ptr().cast(),
            )
        };
    }
}

/// The folder of a device, with those of its ports.
fn device_folder(name: &CStr) -> Result<Owned> {
    let device = Name::new(name.to_bytes());
    let count = configfs::ports(&device)?;
    let folder = Owned::new(name, &DEVICE, Place { device, port: 0 })?;
    let ports = Owned::new(c"ports", &PORTS, Place { device, port: 0 })?;
    for port in 1..=count {
        let name = CString::try_from_fmt(fmt!("{port}"))?;
        Owned::new(&name, &PORT, Place { device, port })?.below(&ports);
    }
    ports.below(&folder);
    Ok(folder)
}

/// # Safety
///
/// For configfs only, with the name of a folder that is to be made in `rdma_cm`.
unsafe extern "C" fn make_device(
    _: *mut bindings::config_group,
    name: *const c_char,
) -> *mut bindings::config_group {
    // SAFETY: A name ends with a zero (contract of this function).
    match device_folder(unsafe { CStr::from_char_ptr(name) }) {
        Ok(folder) => folder.into_group(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// For configfs only, with a [`Folder`] whose last reference is gone.
unsafe extern "C" fn release(item: *mut bindings::config_item) {
    let folder = item.cast::<Folder>();
    // SAFETY: The item is the first field of a folder, which nobody uses any more (contract of this
    // function) and which is in a box (type invariant). Its own folders are not in configfs any more.
    unsafe {
        bindings::configfs_remove_default_groups(folder.cast());
        drop(KBox::from_raw(folder));
    }
}

/// # Safety
///
/// For configfs only, with the folder of a port and a page.
unsafe extern "C" fn show<S: Setting>(
    item: *mut bindings::config_item,
    page: *mut c_char,
) -> isize {
    // SAFETY: The item is the first field of a folder, which is not removed before this returns. A
    // page of configfs is like one of sysfs.
    let (folder, page) = unsafe { (&*item.cast::<Folder>(), Page::from_c(page)) };
    page.show(|page| S::show(&folder.place, page))
}

/// # Safety
///
/// For configfs only, with the folder of a port and a text of `len` bytes with a zero behind it.
unsafe extern "C" fn store<S: Setting>(
    item: *mut bindings::config_item,
    text: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: As in `show`; the text ends with a zero (contract of this function).
    let (folder, text) = unsafe { (&*item.cast::<Folder>(), CStr::from_char_ptr(text)) };
    match S::store(&folder.place, text) {
        // CAST: Below a page.
        Ok(()) => text.count_bytes().min(len) as isize,
        // CAST: Widens.
        Err(error) => error.to_errno() as isize,
    }
}

/// The C structure of a [`Setting`].
struct Attribute(Opaque<bindings::configfs_attribute>);

// SAFETY: Nobody changes it.
unsafe impl Sync for Attribute {}

impl Attribute {
    const fn of<S: Setting>() -> Self {
        Self(Opaque::new(bindings::configfs_attribute {
            ca_name: rdma::sysfs::constant(S::NAME, 0).name,
            ca_owner: rdma::this_module!().as_ptr(),
            ca_mode: 0o644,
            show: Some(show::<S>),
            store: Some(store::<S>),
        }))
    }
}

/// The files of a port.
struct Attributes([*mut bindings::configfs_attribute; 3]);

// SAFETY: It points to constants.
unsafe impl Sync for Attributes {}

/// What a folder is.
struct ItemType(bindings::config_item_type);

// SAFETY: Nobody changes it; it points to constants and to the module.
unsafe impl Sync for ItemType {}

impl ItemType {
    const fn new() -> Self {
        Self(bindings::config_item_type {
            ct_owner: rdma::this_module!().as_ptr(),
            ct_item_ops: &raw const ITEM_OPS,
            ct_group_ops: ptr::null(),
            ct_attrs: ptr::null_mut(),
            ct_bin_attrs: ptr::null_mut(),
        })
    }
}

static ITEM_OPS: bindings::configfs_item_operations = bindings::configfs_item_operations {
    release: Some(release),
    allow_link: None,
    drop_link: None,
};

static MODE: Attribute = Attribute::of::<configfs::Mode>();
static TOS: Attribute = Attribute::of::<configfs::Tos>();
static FILES: Attributes = Attributes([MODE.0.get(), TOS.0.get(), ptr::null_mut()]);

static DEVICE: ItemType = ItemType::new();
static PORTS: ItemType = ItemType::new();
static PORT: ItemType = {
    let mut is = ItemType::new();
    is.0.ct_attrs = (&raw const FILES.0).cast_mut().cast();
    is
};

static GROUP_OPS: bindings::configfs_group_operations = {
    // SAFETY: A C structure of pointers to functions, for which zero is valid.
    let mut ops: bindings::configfs_group_operations = unsafe { core::mem::zeroed() };
    ops.make_group = Some(make_device);
    ops
};
static ROOT: ItemType = {
    let mut is = ItemType::new();
    is.0.ct_item_ops = ptr::null();
    is.0.ct_group_ops = &raw const GROUP_OPS;
    is
};

/// The folder `rdma_cm`. Drop removes it.
///
/// # Invariants
///
/// It is registered, and so not moved.
pub(crate) struct Root {
    raw: Pin<KBox<Opaque<bindings::configfs_subsystem>>>,
    _resident: Resident,
}

// SAFETY: A subsystem may be removed from any task.
unsafe impl Send for Root {}
// SAFETY: Nothing is done through a shared reference.
unsafe impl Sync for Root {}

impl Root {
    /// Makes the folder. May sleep. `resident` is [`resident!()`](rdma::resident).
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EEXIST`: there is one.
    pub(crate) fn register(resident: Resident) -> Result<Self> {
        let raw = KBox::pin_init(
            Opaque::ffi_init(|raw: *mut bindings::configfs_subsystem| {
                // SAFETY: The memory is new, and has the size of the structure, for all fields of
                // which zero is valid.
                unsafe {
                    raw.write_bytes(0, 1);
                    bindings::config_group_init_type_name(
                        &raw mut (*raw).su_group,
                        c"rdma_cm".as_char_ptr(),
                        &ROOT.0,
                    );
                    bindings::__mutex_init(
                        &raw mut (*raw).su_mutex,
                        c"rdma_cm configfs".as_char_ptr(),
                        kernel::static_lock_class!().as_ptr(),
                    );
                }
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: Just initialised, and pinned.
        let result = to_result(unsafe { bindings::configfs_register_subsystem(raw.get()) });
        if let Err(error) = result {
            // SAFETY: Just initialised; nobody uses it.
            unsafe { bindings::mutex_destroy(&raw mut (*raw.get()).su_mutex) };
            return Err(error);
        }
        // INVARIANT: Just registered.
        Ok(Self {
            raw,
            _resident: resident,
        })
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: Registered (type invariant). It has no folders, which would keep the module, so
        // nobody uses the mutex afterwards.
        unsafe {
            bindings::configfs_unregister_subsystem(self.raw.get());
            bindings::mutex_destroy(&raw mut (*self.raw.get()).su_mutex);
        }
    }
}
