// SPDX-License-Identifier: GPL-2.0

//! The character device of an RDMA device (`struct ib_uverbs_device`): its numbers, class, and open.
//!
//! ```text
//!   Node (the client's)    -- one use, one reference to the memory
//!   open file              -- one use, one reference to the memory, until `ib_uverbs_release_file`
//!   Associated, Call       -- a section of `disassociate_srcu`, in which the device does not go
//!   Quick                  -- the same of the domain `quick`, which costs no locked operation
//! ```
//!
//! `ib_core` and `ib_uverbs_support` (C's or ours) know `disassociate_srcu` only, so what calls them
//! with an open file is in a section of that; `quick` is for calls that do all by themselves. Its
//! sections may sleep, since drivers may: `siw` sends what is posted in the same call.
//!
//! C's structure is the first part of ours, since `ib_uverbs_support` and the core look into it. Uses
//! are counted by its `refcount`; when the last is gone, `comp` is completed.

mod quick;

pub(crate) use self::quick::Quick;

use super::file::Opened;
use super::handle::Type;
use super::nodes;
use crate::api::Api;
use crate::private;
use crate::proto::key::Key;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::chrdev::Class;
use rdma::chrdev::NodeClass;
use rdma::chrdev::NodeGroups;
use rdma::chrdev::Numbers;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::edge::device::Device;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::UFile;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::View;
use rdma::module::Resident;
use rdma::sync::CRefcount;
use rdma::sync::Completion;
use rdma::sysfs::Page;

/// The class of all nodes.
pub(crate) struct Verbs;

impl NodeClass for Verbs {
    type Node = ();
    const NAME: &'static CStr = c"infiniband_verbs";
    const FOLDER: &'static CStr = c"infiniband";
    const MODE: Option<u16> = Some(0o666);
    const ABI_VERSION: Option<u32> = Some(bindings::IB_USER_VERBS_ABI_VERSION);
    const GROUPS: &'static NodeGroups<Self> = &NO_GROUPS;
}

static NO_GROUPS: NodeGroups<Verbs> = NodeGroups::none();

/// A character device.
#[repr(C)]
pub(crate) struct CharDevice {
    c: Opaque<private::ib_uverbs_device>,
    /// C's description of the methods, whose tree has the objects.
    c_api: Opaque<private::uverbs_api>,
    cdev: Opaque<bindings::cdev>,
    /// The domain of [`Quick`]. Initialised with the device.
    quick: Opaque<bindings::srcu_struct>,
    groups: [*const bindings::attribute_group; 2],
    /// There from before the device can be opened until its memory is freed.
    api: Option<Api>,
    pub(crate) xrcds: Pin<KBox<Mutex<crate::xrcd::Table>>>,
    class: Arc<Class<Verbs>>,
    numbers: Arc<Numbers>,
    _resident: Resident,
}

// SAFETY: It is `repr(C)`, and `struct ib_uverbs_device` is its first field.
unsafe impl View for CharDevice {
    type C = private::ib_uverbs_device;
}

// SAFETY: Fields that change have a lock, or are atomic.
unsafe impl Send for CharDevice {}
// SAFETY: As for `Send`.
unsafe impl Sync for CharDevice {}

impl CharDevice {
    /// The device of an open file.
    pub(crate) fn of(file: &UFile) -> &Self {
        // SAFETY: A file of this module has such a device, which exists as long as the file. Both
        // bindings declare the same structure.
        unsafe { Self::view(file.device().into_c().cast()) }
    }

    fn refs(&self) -> &CRefcount {
        // SAFETY: The field is initialised with the device.
        unsafe { CRefcount::view(&raw mut (*self.raw()).refcount) }
    }

    fn completion(&self) -> &Completion {
        // SAFETY: The field is initialised with the device.
        unsafe { Completion::view(&raw mut (*self.raw()).comp) }
    }

    fn device_at(&self) -> *mut bindings::device {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.raw()).dev }
    }

    fn srcu(&self) -> *mut bindings::srcu_struct {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.raw()).disassociate_srcu }
    }

    /// The methods of the device.
    pub(crate) fn api(&self) -> &Api {
        // SAFETY: Written before the device can be opened; only open files and `Node` ask.
        unsafe { self.api.as_ref().unwrap_unchecked() }
    }

    /// The description of an object.
    pub(crate) fn object(&self, id: u32) -> Option<&ApiObject> {
        self.api().object(id)
    }

    /// The number of completion vectors.
    pub(crate) fn completion_vectors(&self) -> u32 {
        // SAFETY: Written before the device can be opened.
        unsafe { (*self.raw()).num_comp_vectors }
    }

    /// The RDMA device, unless it is gone.
    ///
    /// # Safety
    ///
    /// The result is used in a section of this device's `disassociate_srcu` only, in which the caller
    /// is.
    pub(super) unsafe fn device(&self) -> Option<&Device> {
        // SAFETY: This function's contract: the device may go at the end of the section.
        unsafe {
            let device = bindings::rdma_helper_uverbs_ibdev(self.raw().cast());
            device.cast::<Device>().as_ref()
        }
    }

    /// Enters a section in which the RDMA device does not go. May sleep.
    pub(crate) fn enter(&self) -> Associated<'_> {
        // SAFETY: The domain is initialised with the device.
        let key = unsafe { bindings::rdma_helper_srcu_read_lock(self.srcu()) };
        // INVARIANT: Just entered.
        Associated { device: self, key }
    }

    /// A reference to the memory.
    pub(super) fn reference(&self) -> Reference {
        // SAFETY: The device exists, as it is borrowed.
        unsafe { bindings::get_device(self.device_at()) };
        // INVARIANT: Just taken.
        Reference(NonNull::from(self))
    }

    /// Ends a use.
    ///
    /// # Safety
    ///
    /// The caller has the use, and gives it up.
    unsafe fn put_use(&self) {
        // SAFETY: This function's contract.
        if unsafe { self.refs().put() } {
            self.completion().complete();
        }
    }

    /// The open files. May sleep.
    pub(super) fn files(&self) -> FilesGuard<'_> {
        // SAFETY: The mutex is initialised with the device.
        unsafe { bindings::mutex_lock(&raw mut (*self.raw()).lists_mutex) };
        // INVARIANT: Just taken.
        FilesGuard(self)
    }
}

/// A reference to the memory of a device, dropped with this.
///
/// # Invariants
///
/// The reference is this value's.
pub(super) struct Reference(NonNull<CharDevice>);

// SAFETY: `CharDevice` is `Sync`, and its count of references is atomic.
unsafe impl Send for Reference {}
// SAFETY: As for `Send`.
unsafe impl Sync for Reference {}

impl Deref for Reference {
    type Target = CharDevice;

    fn deref(&self) -> &CharDevice {
        // SAFETY: The memory exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::put_device(self.device_at()) };
    }
}

/// A section in which the RDMA device does not go.
///
/// # Invariants
///
/// The device's domain is held, with this key.
pub(crate) struct Associated<'a> {
    device: &'a CharDevice,
    key: c_int,
}

impl Associated<'_> {
    /// The RDMA device, unless it is gone. It stays until the end of the section.
    pub(crate) fn rdma_device(&self) -> Option<&Device> {
        // SAFETY: The section, which `self` is, is of this device: type invariant.
        unsafe { self.device.device() }
    }

    /// Whether the section is of the device of an open file.
    pub(super) fn is_of(&self, file: &UFile) -> bool {
        ptr::eq(self.device, CharDevice::of(file))
    }
}

impl Drop for Associated<'_> {
    fn drop(&mut self) {
        // SAFETY: Held with this key: type invariant.
        unsafe { bindings::rdma_helper_srcu_read_unlock(self.device.srcu(), self.key) };
    }
}

/// The list of open files of a device, locked.
///
/// # Invariants
///
/// The `lists_mutex` is held.
pub(super) struct FilesGuard<'a>(&'a CharDevice);

impl Drop for FilesGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: Held: type invariant.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.raw()).lists_mutex) };
    }
}

impl FilesGuard<'_> {
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.0.raw()).uverbs_file_list }
    }

    /// Adds a file that was just made.
    fn add(&mut self, file: *mut bindings::ib_uverbs_file) {
        // SAFETY: The lock is held; the file is in no list.
        unsafe { bindings::rdma_helper_list_add_tail(&raw mut (*file).list, self.head()) };
    }

    /// Takes a file out of the list, if it is in it.
    pub(super) fn remove(&mut self, file: &UFile) {
        // SAFETY: The lock is held; the file's list head is initialised.
        unsafe { bindings::rdma_helper_list_del_init(&raw mut (*file.raw()).list) };
    }

    /// The first file.
    pub(super) fn first(&self) -> Option<&UFile> {
        self.at(self.head())
    }

    /// The file behind another.
    pub(super) fn after(&self, file: &UFile) -> Option<&UFile> {
        // SAFETY: The address of a field.
        self.at(unsafe { &raw mut (*file.raw()).list })
    }

    fn at(&self, place: *mut bindings::list_head) -> Option<&UFile> {
        // SAFETY: The lock is held, so the files in the list exist.
        unsafe {
            let next = (*place).next;
            (next != self.head())
                .then(|| UFile::view(container_of!(next, bindings::ib_uverbs_file, list)))
        }
    }
}

/// The node of a device: what the client owns. [`Node::hide`] and [`Hidden::end`] remove it.
///
/// # Invariants
///
/// The device was added; one use is this value's.
pub(crate) struct Node {
    device: Reference,
    index: u32,
    parts: bool,
}

impl Deref for Node {
    type Target = CharDevice;

    fn deref(&self) -> &CharDevice {
        &self.device
    }
}

impl Node {
    /// Makes the node `uverbsINDEX` of a device. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; those of [`Api::new`] and of the driver model.
    pub(crate) fn add(
        class: &Arc<Class<Verbs>>,
        (numbers, place): (&Arc<Numbers>, u32),
        index: u32,
        device: &DeviceRef,
        resident: Resident,
    ) -> Result<Self> {
        let number = numbers.get(place).ok_or(ENOSPC)?;
        let inner = KBox::new(
            CharDevice {
                c: Opaque::zeroed(),
                c_api: Opaque::zeroed(),
                cdev: Opaque::zeroed(),
                quick: Opaque::zeroed(),
                groups: [&raw const GROUP.0, ptr::null()],
                api: None,
                xrcds: KBox::pin_init(crate::xrcd::Table::new(), GFP_KERNEL)?,
                class: class.clone(),
                numbers: numbers.clone(),
                _resident: resident,
            },
            GFP_KERNEL,
        )?;
        let ibdev = device.raw();
        let place = KBox::into_raw(inner);
        // SAFETY: The memory is new, and its C structures are zeroed.
        let result = to_result(unsafe {
            bindings::rdma_helper_uverbs_device_init(
                place.cast(),
                ibdev,
                (&raw mut (*place).c_api).cast(),
                (&raw mut (*place).quick).cast(),
            )
        });
        if let Err(error) = result {
            // SAFETY: `KBox::into_raw` has given the pointer, and nobody else has it yet.
            drop(unsafe { KBox::from_raw(place) });
            return Err(error);
        }
        // From here on `release` frees the memory, with the last reference.
        // SAFETY: The memory is ours; the class outlives the device, which has a reference to it.
        unsafe {
            let dev = &raw mut (*place.cast::<private::ib_uverbs_device>()).dev;
            bindings::device_initialize(dev);
            (*dev).class = (*place).class.as_raw();
            (*dev).parent = device.parent();
            (*dev).release = Some(release);
            (*dev).groups = (&raw mut (*place).groups).cast();
            (*dev).devt = number;
        }
        // SAFETY: `place` comes from a `KBox`, so it is not null.
        let node = unsafe { NonNull::new_unchecked(place) };
        let result = Self::complete(node, index, device);
        // INVARIANT: The reference of the initialisation.
        let node = Reference(node);
        if let Err(error) = result {
            // A program may have opened a node that it made before, and nobody will tell it that the
            // RDMA device is removed.
            // SAFETY: The use is that of the initialisation, since no `Node` is made.
            unsafe { node.put_use() };
            node.completion().wait();
            return Err(error);
        }
        // INVARIANT: Just added; the use is that of the initialisation.
        Ok(Self {
            device: node,
            index,
            parts: device.view().ops().disassociate_ucontext.is_some(),
        })
    }

    fn complete(node: NonNull<CharDevice>, index: u32, device: &DeviceRef) -> Result {
        let place = node.as_ptr();
        // SAFETY: The tree is initialised, and exists as long as the memory.
        let objects = unsafe { ApiObjects::of((&raw mut (*place).c_api).cast())? };
        let api = Api::new(device.view(), objects).inspect_err(|error| {
            if *error != ENOMEM {
                pr_err!("the driver of the device of uverbs{index} has wrong definitions of its methods: {error:?}\n");
            }
        })?;
        // SAFETY: Only this function writes to the device, and only until `cdev_device_add`; until then
        // the list of nodes is the only other place that has it, and reads none of these fields.
        unsafe {
            (*(&raw mut (*place).c_api).cast::<private::uverbs_api>()).driver_id = api.driver();
            (*place).api = Some(api);
            let dev = (*place).device_at();
            let cdev = (&raw mut (*place).cdev).cast::<bindings::cdev>();
            to_result(bindings::dev_set_name(
                dev,
                c"uverbs%u".as_char_ptr(),
                index,
            ))?;
            let has_mmap = device.view().ops().mmap.is_some();
            bindings::cdev_init(cdev, super::file::operations(has_mmap));
            (*cdev).owner = rdma::this_module!().as_ptr();
            // The client removes the node, or this function if it fails.
            nodes::add(device.view(), node)?;
            to_result(bindings::cdev_device_add(cdev, dev)).inspect_err(|_| nodes::remove(node))
        }
    }

    /// Netlink information about the node.
    pub(crate) fn nl_info(&self, device: &DeviceRef) -> NlInfo<'_> {
        let ops = device.view().ops();
        let driver = (ops.uverbs_no_driver_id_binding() == 0).then_some(ops.driver_id);
        // SAFETY: The device exists as long as the node.
        unsafe { NlInfo::of_device(ops.uverbs_abi_ver.into(), self.device_at(), driver) }
    }

    /// Removes the node: it cannot be opened any more. May sleep; waits for readers of its files
    /// in sysfs.
    pub(crate) fn hide(self) -> Hidden {
        nodes::remove(self.device.0);
        // SAFETY: The node was added (type invariant), and is hidden once: `self` is consumed.
        unsafe {
            bindings::cdev_device_del((&raw const self.cdev).cast_mut().cast(), self.device_at());
        }
        Hidden(self)
    }
}

/// A node that was removed, whose open files are to be.
pub(crate) struct Hidden(Node);

impl Deref for Hidden {
    type Target = CharDevice;

    fn deref(&self) -> &CharDevice {
        &self.0
    }
}

impl Hidden {
    /// The index of the node.
    pub(crate) fn index(&self) -> u32 {
        self.0.index
    }

    /// Whether the driver supports the removal of its device while files are open
    /// (`disassociate_ucontext`).
    pub(crate) fn parts_with_files(&self) -> bool {
        self.0.parts
    }

    /// From now on calls find no RDMA device; waits for those that are running. May sleep.
    pub(crate) fn disassociate(&self) {
        // SAFETY: Both domains are initialised; the caller is in no section.
        unsafe { bindings::rdma_helper_uverbs_disassociate(self.raw().cast(), self.quick.get()) };
    }

    /// Ends the client's use; waits for all files to be closed if `wait` says so. May sleep.
    pub(crate) fn end(self, wait: bool) {
        // SAFETY: The use is the node's (invariant of `Node`), which is dropped here.
        unsafe { self.put_use() };
        if wait {
            self.completion().wait();
        }
        drop(self);
    }
}

/// The `release` method of a device.
///
/// # Safety
///
/// For the driver model only, with the device of a [`CharDevice`] that nobody uses any more.
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: This function's contract; `Node::add` has made the box.
    unsafe {
        let c = container_of!(dev, private::ib_uverbs_device, dev);
        let inner = KBox::from_raw(c.cast::<CharDevice>());
        bindings::rdma_helper_uverbs_device_destroy(c.cast(), inner.quick.get());
        drop(inner);
    }
}

/// A file of each node in sysfs.
struct Group(bindings::attribute_group);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Group {}
struct Attributes([*const bindings::device_attribute; 3]);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Attributes {}
struct Attribute(bindings::device_attribute);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Attribute {}

static GROUP: Group = {
    // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
    let mut raw: bindings::attribute_group = unsafe { core::mem::zeroed() };
    raw.__bindgen_anon_2.attrs = ptr::from_ref(&ATTRIBUTES.0).cast_mut().cast();
    Group(raw)
};
static ATTRIBUTES: Attributes = Attributes([&raw const ABI.0, &raw const IBDEV.0, ptr::null()]);
static ABI: Attribute = attribute(c"abi_version", show::<Abi>);
static IBDEV: Attribute = attribute(c"ibdev", show::<Name>);

type Show = unsafe extern "C" fn(
    *mut bindings::device,
    *mut bindings::device_attribute,
    *mut c_char,
) -> isize;

const fn attribute(name: &'static CStr, show: Show) -> Attribute {
    // SAFETY: As for `GROUP`.
    let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
    raw.attr = rdma::sysfs::constant(name, 0o444);
    raw.__bindgen_anon_1.show = Some(show);
    Attribute(raw)
}

/// Writes a file of a node.
trait Shows {
    fn show(device: &Device, page: &mut Page<'_>) -> Result;
}

struct Abi;
impl Shows for Abi {
    fn show(device: &Device, page: &mut Page<'_>) -> Result {
        page.text(fmt!("{}\n", device.ops().uverbs_abi_ver))
    }
}

struct Name;
impl Shows for Name {
    fn show(device: &Device, page: &mut Page<'_>) -> Result {
        rdma::client::show_name(device, page);
        Ok(())
    }
}

/// The `show` method of a file of a node.
///
/// # Safety
///
/// For sysfs only, with the device of a [`CharDevice`], and a page.
unsafe extern "C" fn show<S: Shows>(
    dev: *mut bindings::device,
    _: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: This function's contract. Sysfs removes the file before the device goes.
    let (node, page) = unsafe {
        (
            CharDevice::view(container_of!(dev, private::ib_uverbs_device, dev)),
            <Page<'_> as FromC>::from_c(page),
        )
    };
    page.show(|page| {
        let section = node.enter();
        S::show(section.rdma_device().ok_or(ENODEV)?, page)
    })
}

/// Opens a node.
///
/// # Errors
///
/// `ENXIO`: it is removed; `EIO`: the RDMA device is gone; `EPERM`: it is in another network
/// namespace; `ENODEV`: its driver is being unloaded; `ENOMEM`.
///
/// # Safety
///
/// `inode` is that of a node of this module.
pub(super) unsafe fn open(inode: *mut bindings::inode) -> Result<Opened> {
    // SAFETY: This function's contract. The VFS has a reference to the cdev, whose parent, the
    // device, stays with it.
    let node = unsafe {
        let cdev = bindings::rdma_helper_inode_cdev(inode).cast::<Opaque<bindings::cdev>>();
        &*container_of!(cdev, CharDevice, cdev)
    };
    if !node.refs().inc_not_zero() {
        return Err(ENXIO);
    }
    let used = Used(node);
    let section = node.enter();
    let mut files = node.files();
    let device = section.rdma_device().ok_or(EIO)?;
    if !rdma::client::is_accessible(device) {
        return Err(EPERM);
    }
    // A driver without `disassociate_ucontext` must not be unloaded while a file is open.
    let owner = (device.ops().disassociate_ucontext.is_none()).then_some(device.ops().owner);
    if let Some(owner) = owner {
        // SAFETY: The driver's module, or null if it is built in.
        if !unsafe { bindings::rdma_helper_try_module_get(owner) } {
            return Err(ENODEV);
        }
    }
    // SAFETY: The device exists; the file gets a use and a reference below.
    let file = unsafe { bindings::rdma_helper_ufile_new(node.raw().cast()) };
    let Some(file) = NonNull::new(file) else {
        if let Some(owner) = owner {
            // SAFETY: The reference was taken above.
            unsafe { bindings::rdma_helper_module_put(owner) };
        }
        return Err(ENOMEM);
    };
    // SAFETY: The file is new, and nobody else has it.
    unsafe { private::setup_ufile_idr_uobject(file.as_ptr()) };
    // SAFETY: The device exists; the reference is the file's.
    unsafe { bindings::get_device(node.device_at()) };
    // The use is the file's now.
    core::mem::forget(used);
    files.add(file.as_ptr());
    drop(files);
    // SAFETY: The file was just made, with all that belongs to it.
    Ok(unsafe { Opened::new(file) })
}

/// A use of a device, ended on drop.
struct Used<'a>(&'a CharDevice);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        // SAFETY: The use is this value's, taken by `open`.
        unsafe { self.0.put_use() };
    }
}

/// C's description of a method, of which others only print the function.
pub(crate) struct CMethod(Opaque<private::uverbs_api_ioctl_method>);

// SAFETY: Nothing writes to it after `new`.
unsafe impl Send for CMethod {}
// SAFETY: As for `Send`.
unsafe impl Sync for CMethod {}

impl CMethod {
    /// Creates a zeroed description.
    pub(crate) fn new() -> Self {
        Self(Opaque::zeroed())
    }

    /// The C structure.
    pub(crate) fn raw(&self) -> *const private::uverbs_api_ioctl_method {
        self.0.get()
    }
}

/// Number of keys of objects.
const OBJECTS: usize = 32;

/// The objects of a device, in C's tree.
///
/// # Invariants
///
/// The elements of `all` are in the tree of `c`, which exists longer than this, and are freed by
/// this.
pub(crate) struct ApiObjects {
    c: *mut private::uverbs_api,
    all: KVec<Option<(NonNull<bindings::uverbs_api_object>, Option<Type>)>>,
}

impl ApiObjects {
    /// No objects, and no tree.
    pub(crate) fn none() -> Self {
        Self {
            c: ptr::null_mut(),
            all: KVec::new(),
        }
    }

    /// No objects yet.
    ///
    /// # Safety
    ///
    /// The tree of `c` is initialised and empty, and exists longer than this.
    unsafe fn of(c: *mut private::uverbs_api) -> Result<Self> {
        let mut all = KVec::with_capacity(OBJECTS, GFP_KERNEL)?;
        all.resize(OBJECTS, None, GFP_KERNEL)?;
        Ok(Self { c, all })
    }

    fn place(key: Key) -> usize {
        usize::from(key.raw() >> 11)
    }

    /// Adds an object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&mut self, key: Key, of: Option<Type>) -> Result {
        if self.c.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The tree exists: type invariant.
        let object = unsafe {
            from_err_ptr(bindings::rdma_helper_uverbs_api_add(
                self.c.cast(),
                key.raw().into(),
            ))?
        };
        let place = self.all.get_mut(Self::place(key)).ok_or(EINVAL)?;
        // SAFETY: Nobody else uses the description yet.
        unsafe {
            (*object).id = key.object_id().into();
            if let Some(of) = of {
                of.describe(object);
            }
        }
        // INVARIANT: Just added.
        *place = NonNull::new(object).map(|object| (object, of));
        Ok(())
    }

    /// An object's description.
    pub(crate) fn get(&self, key: Key) -> Option<&ApiObject> {
        let (object, _) = (*self.all.get(Self::place(key))?)?;
        // SAFETY: The description exists as long as this.
        Some(unsafe { ApiObject::view(object.as_ptr()) })
    }

    /// An object's type.
    pub(crate) fn type_of(&self, key: Key) -> Option<Type> {
        self.all.get(Self::place(key))?.as_ref()?.1
    }

    /// The types may go with the driver, but those that the release of files needs.
    pub(crate) fn disassociate(&self) {
        for (object, of) in self.all.iter().flatten() {
            // SAFETY: The driver, which has the types, is removed after this.
            let lasting = of.is_some_and(|of| unsafe { of.is_lasting() });
            if !lasting {
                // SAFETY: The description exists as long as this.
                let object = unsafe { ApiObject::view(object.as_ptr()) };
                object.clear_type_attrs();
            }
        }
    }
}

impl Drop for ApiObjects {
    fn drop(&mut self) {
        for (place, object) in self.all.iter_mut().enumerate() {
            if object.take().is_some() {
                // CAST: Less than 32.
                let key = (place as u32) << 11;
                // SAFETY: The tree exists, and has the object: type invariant.
                unsafe { bindings::rdma_helper_uverbs_api_remove(self.c.cast(), key) };
            }
        }
    }
}

// SAFETY: The objects change as `ApiObject` says; the tree only in `add` and `drop`.
unsafe impl Send for ApiObjects {}
// SAFETY: As for `Send`.
unsafe impl Sync for ApiObjects {}
