// SPDX-License-Identifier: GPL-2.0

//! Character devices with nodes in a class.
//!
//! ```text
//!   Numbers, Class<C> ---- Node::add::<F>(data) ----> /dev/FOLDER/NAME, /sys/class/CLASS/NAME
//!                            |  open: F::open(&data) -> Arc<F::Open>, owned by the open file
//!                            +- drop: open fails from now on; open files keep the node's memory
//! ```
//!
//! Context: all functions may sleep unless they say otherwise.
//!
//! C headers: `include/linux/cdev.h`, `include/linux/device/class.h`, `include/linux/fs.h`.

mod file;

pub use self::file::Files;
pub use self::file::Opening;
pub use self::file::PollTable;

use core::marker::PhantomData;
use core::ptr;
use core::ptr::NonNull;

use crate::bindings;
use crate::client::DeviceRef;
use crate::module::Resident;
use crate::sysfs::Attribute;
use crate::sysfs::Page;
use crate::sysfs::StaticGroup;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::fs::LocalFile;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// Bits of the minor in a device number.
const MINOR_BITS: u32 = 20;

/// A range of device numbers, released on drop.
///
/// # Invariants
///
/// The `count` numbers from `first` on are registered and owned by this.
pub struct Numbers {
    first: u32,
    count: u32,
}

impl Numbers {
    /// Registers `count` numbers of `major`, from the minor `first` on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if one of them is in use; `EINVAL` if a number is out of range; `ENOMEM`.
    pub fn fixed(major: u32, first: u32, count: u32, name: &'static CStr) -> Result<Self> {
        if major >= 1 << 12
            || first
                .checked_add(count)
                .is_none_or(|end| end > 1 << MINOR_BITS)
        {
            return Err(EINVAL);
        }
        let first = major << MINOR_BITS | first;
        // SAFETY: The name is static.
        to_result(unsafe { bindings::register_chrdev_region(first, count, name.as_char_ptr()) })?;
        // INVARIANT: Just registered.
        Ok(Self { first, count })
    }

    /// Registers `count` numbers of a free major.
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENOMEM`.
    pub fn dynamic(count: u32, name: &'static CStr) -> Result<Self> {
        let mut first = 0;
        // SAFETY: The name is static; `first` is a local.
        to_result(unsafe {
            bindings::alloc_chrdev_region(&mut first, 0, count, name.as_char_ptr())
        })?;
        // INVARIANT: Just registered.
        Ok(Self { first, count })
    }

    /// Returns the index of the number that an open file of a node with files `F` has, if the number
    /// is in this range. Files of a driver that had the numbers before do not count. May sleep.
    ///
    /// # Errors
    ///
    /// `EBADF`: no such file is open with this descriptor, or it has another number.
    pub fn index_of_file<F: Files>(&self, fd: u32) -> Result<u32> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: The file is open as long as there is the reference. Its inode stays with it;
        // operations of a file, type and number of an inode do not change.
        let (operations, mode, number) = unsafe {
            let inode = (*file.as_ptr()).f_inode;
            let operations = (*file.as_ptr()).f_op;
            (operations, u32::from((*inode).i_mode), (*inode).i_rdev)
        };
        let is_node = mode & bindings::S_IFMT == bindings::S_IFCHR
            && core::ptr::eq(operations, F::operations());
        number
            .checked_sub(self.first)
            .filter(|index| is_node && *index < self.count)
            .ok_or(EBADF)
    }

    /// Returns one of them.
    pub fn get(&self, index: u32) -> Option<u32> {
        self.first.checked_add(index).filter(|_| index < self.count)
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: The numbers are owned by this (type invariant).
        unsafe { bindings::unregister_chrdev_region(self.first, self.count) };
    }
}

/// A class of nodes.
pub trait NodeClass: Sized + 'static {
    /// Data of a node.
    type Node: Send + Sync + 'static;
    /// Name in `/sys/class`.
    const NAME: &'static CStr;
    /// Name of the directory in `/dev`.
    const FOLDER: &'static CStr;
    /// Permission bits of the nodes in `/dev`, if not the default (0600).
    const MODE: Option<u16> = None;
    /// The version in `/sys/class/NAME/abi_version`; `None` if there is no such file.
    const ABI_VERSION: Option<u32>;
    /// Files that each node has in sysfs.
    const GROUPS: &'static NodeGroups<Self>;
}

/// A sysfs file of each node of a class.
pub trait NodeFile: 'static {
    /// Class of the node.
    type Class: NodeClass;
    /// Name of the file.
    const NAME: &'static CStr;

    /// Writes the content. May sleep, but must not wait for the node's removal, which waits for
    /// this.
    ///
    /// # Errors
    ///
    /// Returned to the reader.
    fn show(node: &<Self::Class as NodeClass>::Node, page: &mut Page<'_>) -> Result;
}

/// The C structure of a [`NodeFile`].
#[repr(transparent)]
pub struct NodeAttribute<C>(bindings::device_attribute, PhantomData<fn(&C)>);

// SAFETY: It is not changed after construction.
unsafe impl<C> Send for NodeAttribute<C> {}
// SAFETY: As for `Send`: it is not changed after construction.
unsafe impl<C> Sync for NodeAttribute<C> {}
// SAFETY: `struct device_attribute` begins with `struct attribute`.
unsafe impl<C> Attribute for NodeAttribute<C> {}

impl<C: NodeClass> NodeAttribute<C> {
    /// Describes a file that is readable by all.
    pub const fn of<S: NodeFile<Class = C>>() -> Self {
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
        raw.attr = crate::sysfs::constant(S::NAME, 0o444);
        raw.__bindgen_anon_1.show = Some(show::<S>);
        Self(raw, PhantomData)
    }
}

/// Attribute groups of a class's nodes.
#[repr(transparent)]
pub struct NodeGroups<C>([*const bindings::attribute_group; 2], PhantomData<fn(&C)>);

// SAFETY: It points only to constants.
unsafe impl<C> Sync for NodeGroups<C> {}

impl<C: NodeClass> NodeGroups<C> {
    /// No groups.
    pub const fn none() -> Self {
        Self([ptr::null(); 2], PhantomData)
    }

    /// One group.
    pub const fn new(group: &'static StaticGroup<NodeAttribute<C>>) -> Self {
        Self([group.as_raw(), ptr::null()], PhantomData)
    }
}

/// The `show` method of a [`NodeFile`].
///
/// # Safety
///
/// For C only, with the device of a [`Node`] whose class has the attribute, and a page of sysfs.
unsafe extern "C" fn show<S: NodeFile>(
    dev: *mut bindings::device,
    _: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is embedded in an `Inner<S::Class>` (contract of this function;
    // `NodeAttribute`, `NodeGroups` and `NodeClass` agree on the class). Sysfs removes the file,
    // waiting for this call, before the node is freed.
    let (inner, page) = unsafe {
        (
            &*container_of!(dev.cast::<Opaque<bindings::device>>(), Inner<S::Class>, dev),
            <Page<'_> as crate::edge::FromC>::from_c(page),
        )
    };
    page.show(|page| S::show(&inner.data, page))
}

/// A registered class. It is unregistered on drop, after all of its nodes.
///
/// # Invariants
///
/// The class is registered.
pub struct Class<C: NodeClass> {
    raw: Pin<KBox<Opaque<bindings::class>>>,
    _nodes: PhantomData<C>,
    _resident: Resident,
}

// SAFETY: The driver model locks classes itself.
unsafe impl<C: NodeClass> Send for Class<C> {}
// SAFETY: As for `Send`: the driver model locks classes itself.
unsafe impl<C: NodeClass> Sync for Class<C> {}

impl<C: NodeClass> Class<C> {
    const ABI: bindings::class_attribute = {
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut raw: bindings::class_attribute = unsafe { core::mem::zeroed() };
        raw.attr = crate::sysfs::constant(c"abi_version", 0o444);
        raw.show = Some(abi_version::<C>);
        raw
    };
    const LIST: [*const bindings::class_attribute; 2] = [&Self::ABI, ptr::null()];
    const GROUP: bindings::attribute_group = {
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut raw: bindings::attribute_group = unsafe { core::mem::zeroed() };
        raw.__bindgen_anon_2.attrs = ptr::from_ref(&Self::LIST).cast_mut().cast();
        raw
    };
    const GROUPS: [*const bindings::attribute_group; 2] = [&Self::GROUP, ptr::null()];

    /// Registers the class. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// Those of `class_register`; `ENOMEM`.
    pub fn register(resident: Resident) -> Result<Self> {
        let class = bindings::class {
            name: C::NAME.as_char_ptr(),
            class_groups: match C::ABI_VERSION {
                Some(_) => ptr::from_ref(&Self::GROUPS).cast(),
                None => ptr::null_mut(),
            },
            dev_groups: ptr::from_ref(C::GROUPS).cast(),
            devnode: Some(devnode::<C>),
            ..Default::default()
        };
        let class = KBox::pin(Opaque::new(class), GFP_KERNEL)?;
        // SAFETY: The class is pinned, and is unregistered before it is freed.
        to_result(unsafe { bindings::class_register(class.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            raw: class,
            _nodes: PhantomData,
            _resident: resident,
        })
    }

    /// Returns the C structure.
    pub fn as_raw(&self) -> *const bindings::class {
        self.raw.get()
    }
}

impl<C: NodeClass> Drop for Class<C> {
    fn drop(&mut self) {
        // SAFETY: The class is registered (type invariant). Nodes hold references to this `Class`,
        // so none is left.
        unsafe { bindings::class_unregister(self.raw.get()) };
    }
}

/// The `show` method of `abi_version`.
///
/// # Safety
///
/// For C only, with a page of sysfs.
unsafe extern "C" fn abi_version<C: NodeClass>(
    _: *const bindings::class,
    _: *const bindings::class_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: `page` is a page of sysfs (contract of this function).
    let page = unsafe { <Page<'_> as crate::edge::FromC>::from_c(page) };
    page.show(|page| match C::ABI_VERSION {
        Some(version) => page.text(fmt!("{version}\n")),
        None => Err(EIO),
    })
}

/// Returns the name of a node in `/dev`, which the caller frees.
///
/// # Safety
///
/// For C only, with a device of the class, and the place of a mode or null.
unsafe extern "C" fn devnode<C: NodeClass>(
    dev: *const bindings::device,
    mode: *mut bindings::umode_t,
) -> *mut c_char {
    // SAFETY: This function's contract; format and strings are terminated. The mode is writable or
    // null.
    unsafe {
        if let (Some(bits), Some(mode)) = (C::MODE, mode.as_mut()) {
            *mode = bits;
        }
        bindings::kasprintf(
            bindings::GFP_KERNEL,
            c"%s/%s".as_char_ptr(),
            C::FOLDER.as_char_ptr(),
            bindings::dev_name(dev),
        )
    }
}

/// The part of a node that C refers to: freed with the last reference to the device.
#[repr(C)]
struct Inner<C: NodeClass> {
    dev: Opaque<bindings::device>,
    cdev: Opaque<bindings::cdev>,
    data: C::Node,
    _class: Arc<Class<C>>,
    _numbers: Arc<Numbers>,
    /// `None` only in `release`.
    resident: Option<Resident>,
}

/// A node that can be opened. Drop removes it, and waits for readers of its sysfs files, but not
/// for open files.
///
/// # Invariants
///
/// `0` was added, and this owns one reference to its device.
pub struct Node<C: NodeClass>(NonNull<Inner<C>>);

// SAFETY: The driver model locks devices itself; the data is `Send` and `Sync`.
unsafe impl<C: NodeClass> Send for Node<C> {}
// SAFETY: As for `Send`: the driver model locks devices itself; the data is `Send` and `Sync`.
unsafe impl<C: NodeClass> Sync for Node<C> {}

impl<C: NodeClass> Node<C> {
    /// Adds a node `NAMEindex` below the parent of a device. `F` implements its files; its number is
    /// the one at an index of `numbers`. May sleep. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `ENOSPC` if `numbers` has no such place; `ENOMEM`; those of `cdev_device_add`.
    pub fn add<F: Files<Class = C>>(
        class: &Arc<Class<C>>,
        number: (&Arc<Numbers>, u32),
        (name, index): (&'static CStr, u32),
        device: &DeviceRef,
        resident: Resident,
        data: C::Node,
    ) -> Result<Self> {
        Self::add_named::<F>(class, number, resident, data, |dev| {
            // `device_add` takes a reference to the parent.
            // SAFETY: The device is initialised and not added yet: ours alone. Format and name are
            // terminated.
            unsafe {
                (*dev).parent = device.parent();
                to_result(bindings::dev_set_name(
                    dev,
                    c"%s%u".as_char_ptr(),
                    name.as_char_ptr(),
                    index,
                ))
            }
        })
    }

    /// Adds a node `NAME` without a parent; otherwise as [`add`](Self::add). May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add).
    pub fn add_alone<F: Files<Class = C>>(
        class: &Arc<Class<C>>,
        number: (&Arc<Numbers>, u32),
        name: &'static CStr,
        resident: Resident,
        data: C::Node,
    ) -> Result<Self> {
        Self::add_named::<F>(class, number, resident, data, |dev| {
            // SAFETY: As in `add`.
            to_result(unsafe {
                bindings::dev_set_name(dev, c"%s".as_char_ptr(), name.as_char_ptr())
            })
        })
    }

    /// Adds a node. `name` gives the initialised device its name and, if any, its parent.
    fn add_named<F: Files<Class = C>>(
        class: &Arc<Class<C>>,
        (numbers, place): (&Arc<Numbers>, u32),
        resident: Resident,
        data: C::Node,
        name: impl FnOnce(*mut bindings::device) -> Result,
    ) -> Result<Self> {
        let number = numbers.get(place).ok_or(ENOSPC)?;
        let inner = KBox::new(
            Inner {
                dev: Opaque::new(bindings::device::default()),
                cdev: Opaque::new(bindings::cdev::default()),
                data,
                _class: class.clone(),
                _numbers: numbers.clone(),
                resident: Some(resident),
            },
            GFP_KERNEL,
        )?;
        let inner = NonNull::from(KBox::leak(inner));
        // SAFETY: `inner` is a new allocation that does not move, with zeroed C structures. From
        // `device_initialize` on, `release` frees it with the last reference. The class and the
        // numbers are referenced by `inner`.
        let result = unsafe {
            let dev = (*inner.as_ptr()).dev.get();
            let cdev = (*inner.as_ptr()).cdev.get();
            bindings::device_initialize(dev);
            (*dev).class = class.raw.get();
            (*dev).release = Some(release::<C>);
            (*dev).devt = number;
            bindings::cdev_init(cdev, F::operations());
            (*cdev).owner = F::OWNER.as_ptr();
            name(dev)
                .and_then(|()| to_result(bindings::cdev_device_add(cdev, dev)))
                .inspect_err(|_| bindings::put_device(dev))
        };
        result?;
        // INVARIANT: Just added; `device_initialize` created the reference.
        Ok(Self(inner))
    }

    /// Returns the node's device.
    pub fn device(&self) -> *mut bindings::device {
        // SAFETY: The device exists, because this owns a reference (type invariant).
        unsafe { (*self.0.as_ptr()).dev.get() }
    }
}

impl<C: NodeClass> Drop for Node<C> {
    fn drop(&mut self) {
        // SAFETY: The node was added, and this owns the reference that is dropped (type invariant).
        unsafe {
            let dev = (*self.0.as_ptr()).dev.get();
            bindings::cdev_device_del((*self.0.as_ptr()).cdev.get(), dev);
            bindings::put_device(dev);
        }
    }
}

/// Frees a node after the last reference to its device was dropped: no file is open.
///
/// # Safety
///
/// For C only, with the device of a [`Node`].
unsafe extern "C" fn release<C: NodeClass>(dev: *mut bindings::device) {
    // SAFETY: `Node::add` leaked the box, and no reference to the device is left (contract of
    // `device.release`).
    let mut inner = unsafe {
        KBox::from_raw(container_of!(
            dev.cast::<Opaque<bindings::device>>(),
            Inner<C>,
            dev
        ))
    };
    let resident = inner.resident.take();
    drop(inner);
    // Everything else is dropped before the module may be unloaded.
    if let Some(resident) = resident {
        resident.end_at_return();
    }
}

/// Allocator of indices from 0 on, lowest free index first (`struct ida`).
#[pin_data(PinnedDrop)]
pub struct Indices {
    #[pin]
    ida: Opaque<bindings::ida>,
}

// SAFETY: An IDA has its own lock.
unsafe impl Send for Indices {}
// SAFETY: As for `Send`: an IDA has its own lock.
unsafe impl Sync for Indices {}

impl Indices {
    /// Creates an allocator with all indices free.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ida <- Opaque::ffi_init(|ida: *mut bindings::ida| {
                // SAFETY: `ida` is valid for writes.
                unsafe {
                    bindings::xa_init_flags(
                        &raw mut (*ida).xa,
                        bindings::XA_FLAGS_ALLOC | bindings::xa_lock_type_XA_LOCK_IRQ,
                    );
                }
            }),
        })
    }

    /// Allocates the lowest free index below `end`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if none is free; `ENOMEM`.
    pub fn take(&self, end: u32) -> Result<u32> {
        let last = end.checked_sub(1).ok_or(ENOSPC)?;
        // SAFETY: The IDA is initialised.
        let index =
            unsafe { bindings::ida_alloc_range(self.ida.get(), 0, last, bindings::GFP_KERNEL) };
        u32::try_from(index).map_err(|_| Error::from_errno(index))
    }

    /// Frees an index. The kernel warns if it is not allocated.
    pub fn give_back(&self, index: u32) {
        // SAFETY: The IDA is initialised.
        unsafe { bindings::ida_free(self.ida.get(), index) };
    }
}

#[pinned_drop]
impl PinnedDrop for Indices {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The IDA is initialised, and no longer in use.
        unsafe { bindings::ida_destroy(self.ida.get()) };
    }
}
