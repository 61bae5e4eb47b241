// SPDX-License-Identifier: GPL-2.0

//! Character devices with nodes in a class.
//!
//! ```text
//!   Numbers, Class<C> ---- Node::add::<F>(data) ----> /dev/FOLDER/NAME, /sys/class/CLASS/NAME
//!                            |  open: F::open(&data) -> Arc<F::Open>, kept by the open file
//!                            +- drop: no more opens; files that are open keep the node's memory
//! ```
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

/// Bits of a device number that are the minor's.
const MINOR_BITS: u32 = 20;

/// A range of device numbers, given back on drop.
///
/// # Invariants
///
/// The numbers from `first` on, `count` of them, are ours.
pub struct Numbers {
    first: u32,
    count: u32,
}

impl Numbers {
    /// The numbers of `major` from the minor `first` on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if somebody has one of them; `EINVAL`, `ENOMEM`.
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

    /// Numbers of a free major.
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENOMEM`.
    pub fn dynamic(count: u32, name: &'static CStr) -> Result<Self> {
        let mut first = 0;
        // SAFETY: As in `fixed`; `first` is ours.
        to_result(unsafe {
            bindings::alloc_chrdev_region(&mut first, 0, count, name.as_char_ptr())
        })?;
        // INVARIANT: Just registered.
        Ok(Self { first, count })
    }

    /// Returns the index of the number that an open file of a character device has, if the number
    /// is in this range. May sleep.
    ///
    /// # Errors
    ///
    /// `EBADF`: no file is open with this descriptor, or it has another number.
    pub fn index_of_file(&self, fd: u32) -> Result<u32> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: The file is open as long as there is the reference. Its inode stays with it; type
        // and number of an inode do not change.
        let (mode, number) = unsafe {
            let inode = (*file.as_ptr()).f_inode;
            (u32::from((*inode).i_mode), (*inode).i_rdev)
        };
        number
            .checked_sub(self.first)
            .filter(|index| mode & bindings::S_IFMT == bindings::S_IFCHR && *index < self.count)
            .ok_or(EBADF)
    }

    /// One of them.
    fn get(&self, index: u32) -> Option<u32> {
        self.first.checked_add(index).filter(|_| index < self.count)
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: They are ours (type invariant).
        unsafe { bindings::unregister_chrdev_region(self.first, self.count) };
    }
}

/// What the nodes of a class have in common.
pub trait NodeClass: Sized + 'static {
    /// What each node is about.
    type Node: Send + Sync + 'static;
    /// The name in `/sys/class`.
    const NAME: &'static CStr;
    /// The folder in `/dev`.
    const FOLDER: &'static CStr;
    /// Permission bits of the nodes in `/dev`, if not the default (0600).
    const MODE: Option<u16> = None;
    /// The version in `/sys/class/NAME/abi_version`; `None` if there is no such file.
    const ABI_VERSION: Option<u32>;
    /// Files that each node has in sysfs.
    const GROUPS: &'static NodeGroups<Self>;
}

/// A file that each node of a class has in sysfs.
pub trait NodeFile: 'static {
    /// The class.
    type Class: NodeClass;
    /// The name.
    const NAME: &'static CStr;

    /// Reads it. May sleep, but not for the end of the node.
    ///
    /// # Errors
    ///
    /// What the reader gets.
    fn show(node: &<Self::Class as NodeClass>::Node, page: &mut Page<'_>) -> Result;
}

/// The description of a [`NodeFile`].
#[repr(transparent)]
pub struct NodeAttribute<C>(bindings::device_attribute, PhantomData<fn(&C)>);

// SAFETY: It is not changed.
unsafe impl<C> Send for NodeAttribute<C> {}
// SAFETY: As for `Send`.
unsafe impl<C> Sync for NodeAttribute<C> {}
// SAFETY: `struct device_attribute` begins with `struct attribute`.
unsafe impl<C> Attribute for NodeAttribute<C> {}

impl<C: NodeClass> NodeAttribute<C> {
    /// Of a file that can be read by all.
    pub const fn of<S: NodeFile<Class = C>>() -> Self {
        // SAFETY: Of a C structure of integers and pointers; zeros mean that nothing is set.
        let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
        raw.attr = crate::sysfs::constant(S::NAME, 0o444);
        raw.__bindgen_anon_1.show = Some(show::<S>);
        Self(raw, PhantomData)
    }
}

/// The groups of files of a class's nodes.
#[repr(transparent)]
pub struct NodeGroups<C>([*const bindings::attribute_group; 2], PhantomData<fn(&C)>);

// SAFETY: It points to constants only.
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

/// Reads a node's file.
///
/// # Safety
///
/// For C only, with the device of a [`Node`] whose class has the attribute, and a page.
unsafe extern "C" fn show<S: NodeFile>(
    dev: *mut bindings::device,
    _: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: This function's contract; `NodeAttribute`, `NodeGroups` and `NodeClass` have one type
    // of node. The file is removed before the node goes.
    let (inner, page) = unsafe {
        (
            &*container_of!(dev.cast::<Opaque<bindings::device>>(), Inner<S::Class>, dev),
            <Page<'_> as crate::edge::FromC>::from_c(page),
        )
    };
    page.show(|page| S::show(&inner.data, page))
}

/// A registered class, until it is dropped: after all nodes.
///
/// # Invariants
///
/// It is registered.
pub struct Class<C: NodeClass>(Pin<KBox<Opaque<bindings::class>>>, PhantomData<C>);

// SAFETY: The driver model has locks of its own.
unsafe impl<C: NodeClass> Send for Class<C> {}
// SAFETY: As for `Send`.
unsafe impl<C: NodeClass> Sync for Class<C> {}

impl<C: NodeClass> Class<C> {
    const ABI: bindings::class_attribute = {
        // SAFETY: Of a C structure of integers and pointers; zeros mean that nothing is set.
        let mut raw: bindings::class_attribute = unsafe { core::mem::zeroed() };
        raw.attr = crate::sysfs::constant(c"abi_version", 0o444);
        raw.show = Some(abi_version::<C>);
        raw
    };
    const LIST: [*const bindings::class_attribute; 2] = [&Self::ABI, ptr::null()];
    const GROUP: bindings::attribute_group = {
        // SAFETY: Of a C structure of integers and pointers; zeros mean that nothing is set.
        let mut raw: bindings::attribute_group = unsafe { core::mem::zeroed() };
        raw.__bindgen_anon_2.attrs = ptr::from_ref(&Self::LIST).cast_mut().cast();
        raw
    };
    const GROUPS: [*const bindings::attribute_group; 2] = [&Self::GROUP, ptr::null()];

    /// Registers it.
    ///
    /// # Errors
    ///
    /// Those of `class_register`.
    pub fn register() -> Result<Self> {
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
        // SAFETY: It stays where it is until it is unregistered.
        to_result(unsafe { bindings::class_register(class.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self(class, PhantomData))
    }
}

impl<C: NodeClass> Drop for Class<C> {
    fn drop(&mut self) {
        // SAFETY: It is registered (type invariant); nodes borrow it.
        unsafe { bindings::class_unregister(self.0.get()) };
    }
}

/// Reads the version of the ABI.
///
/// # Safety
///
/// For C only, with a page.
unsafe extern "C" fn abi_version<C: NodeClass>(
    _: *const bindings::class,
    _: *const bindings::class_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: This function's contract.
    let page = unsafe { <Page<'_> as crate::edge::FromC>::from_c(page) };
    page.show(|page| match C::ABI_VERSION {
        Some(version) => page.text(fmt!("{version}\n")),
        None => Err(EIO),
    })
}

/// The name of a node in `/dev`, which the caller frees.
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

/// What C has of a node: freed with the last reference to the device.
#[repr(C)]
struct Inner<C: NodeClass> {
    dev: Opaque<bindings::device>,
    cdev: Opaque<bindings::cdev>,
    data: C::Node,
    _class: Arc<Class<C>>,
    _numbers: Arc<Numbers>,
    _resident: Resident,
}

/// A node that can be opened. Dropping it removes it; that waits for readers of its files in sysfs,
/// not for files that are open.
///
/// # Invariants
///
/// `0` was added, and one reference to its device is ours.
pub struct Node<C: NodeClass>(NonNull<Inner<C>>);

// SAFETY: The driver model has locks of its own; the data is `Send` and `Sync`.
unsafe impl<C: NodeClass> Send for Node<C> {}
// SAFETY: As for `Send`.
unsafe impl<C: NodeClass> Sync for Node<C> {}

impl<C: NodeClass> Node<C> {
    /// Adds a node `NAMEindex` below the parent of a device. `F` implements its files; its number is
    /// the one at an index of `numbers`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there is no such number; `ENOMEM`, and those of `cdev_device_add`.
    pub fn add<F: Files<Class = C>>(
        class: &Arc<Class<C>>,
        number: (&Arc<Numbers>, u32),
        (name, index): (&'static CStr, u32),
        device: &DeviceRef,
        module: (&'static ThisModule, Resident),
        data: C::Node,
    ) -> Result<Self> {
        Self::add_named::<F>(class, number, module, data, |dev| {
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
        module: (&'static ThisModule, Resident),
        data: C::Node,
    ) -> Result<Self> {
        Self::add_named::<F>(class, number, module, data, |dev| {
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
        (module, resident): (&'static ThisModule, Resident),
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
                _resident: resident,
            },
            GFP_KERNEL,
        )?;
        let inner = NonNull::from(KBox::leak(inner));
        // SAFETY: The memory is ours and zeroed, and does not move. From `device_initialize` on
        // `release` frees it.
        let result = unsafe {
            let dev = (*inner.as_ptr()).dev.get();
            let cdev = (*inner.as_ptr()).cdev.get();
            bindings::device_initialize(dev);
            (*dev).class = class.0.get();
            (*dev).release = Some(release::<C>);
            (*dev).devt = number;
            bindings::cdev_init(cdev, F::operations());
            (*cdev).owner = module.as_ptr();
            name(dev)
                .and_then(|()| to_result(bindings::cdev_device_add(cdev, dev)))
                .inspect_err(|_| bindings::put_device(dev))
        };
        result?;
        // INVARIANT: Just added; `device_initialize` has made the reference.
        Ok(Self(inner))
    }

    /// Its device.
    pub fn device(&self) -> *mut bindings::device {
        // SAFETY: It is there (type invariant).
        unsafe { (*self.0.as_ptr()).dev.get() }
    }
}

impl<C: NodeClass> Drop for Node<C> {
    fn drop(&mut self) {
        // SAFETY: It was added, and the reference is ours (type invariant).
        unsafe {
            let dev = (*self.0.as_ptr()).dev.get();
            bindings::cdev_device_del((*self.0.as_ptr()).cdev.get(), dev);
            bindings::put_device(dev);
        }
    }
}

/// The last reference is gone: no file is open.
///
/// # Safety
///
/// For C only, with the device of a [`Node`].
unsafe extern "C" fn release<C: NodeClass>(dev: *mut bindings::device) {
    // SAFETY: `Node::add` made the box; nobody uses it any more.
    drop(unsafe {
        KBox::from_raw(container_of!(
            dev.cast::<Opaque<bindings::device>>(),
            Inner<C>,
            dev
        ))
    });
}

/// Numbers from 0 on, the lowest free one first.
#[pin_data(PinnedDrop)]
pub struct Indices {
    #[pin]
    ida: Opaque<bindings::ida>,
}

// SAFETY: It has a lock of its own.
unsafe impl Send for Indices {}
// SAFETY: As for `Send`.
unsafe impl Sync for Indices {}

impl Indices {
    /// With all free.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ida <- Opaque::ffi_init(|ida: *mut bindings::ida| {
                // SAFETY: The place is valid.
                unsafe {
                    bindings::xa_init_flags(
                        &raw mut (*ida).xa,
                        bindings::XA_FLAGS_ALLOC | bindings::xa_lock_type_XA_LOCK_IRQ,
                    );
                }
            }),
        })
    }

    /// Takes the lowest that is free, below `end`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENOMEM`.
    pub fn take(&self, end: u32) -> Result<u32> {
        let last = end.checked_sub(1).ok_or(ENOSPC)?;
        // SAFETY: It is initialised.
        let index =
            unsafe { bindings::ida_alloc_range(self.ida.get(), 0, last, bindings::GFP_KERNEL) };
        u32::try_from(index).map_err(|_| Error::from_errno(index))
    }

    /// Gives one back. One that is free gives a warning.
    pub fn give_back(&self, index: u32) {
        // SAFETY: It is initialised.
        unsafe { bindings::ida_free(self.ida.get(), index) };
    }
}

#[pinned_drop]
impl PinnedDrop for Indices {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It is initialised, and nobody uses it.
        unsafe { bindings::ida_destroy(self.ida.get()) };
    }
}
