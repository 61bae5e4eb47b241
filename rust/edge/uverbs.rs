// SPDX-License-Identifier: GPL-2.0

//! C structures of user verbs: open file, context, objects and mappings. A user's call is in
//! [`super::verbs`].
//!
//! `ib_uverbs` creates them; the core and drivers (for instance `mlx5`) read them. Must match
//! `include/rdma/ib_verbs.h`, `include/rdma/uverbs_ioctl.h` and `include/rdma/uverbs_types.h`.
//!
//! Lifetimes: a context exists as long as its file refers to it. Objects and mapping entries do not
//! outlive their context. The file of a context exists as long as the context.

use crate::bindings;
use crate::edge::device::Device;
use crate::edge::FromC;
use crate::edge::In;
use crate::edge::IntoC;
use crate::edge::Passed;
use crate::edge::View;
use crate::edge::Within;
use crate::sync::CRefcount;
use crate::sync::CRwSem;
use crate::sync::IrqLock;
use crate::xarray::Locked;
use crate::xarray::RcuFreed;
use crate::xarray::XArray;
use core::ptr::null;
use core::ptr::null_mut;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Mutex;

/// A user address, not checked yet; `copy_from_user` and related functions check it.
#[derive(Clone, Copy)]
pub struct UserPtr(pub *const c_void);

// SAFETY: The address is not dereferenced.
unsafe impl FromC for UserPtr {
    type C = *const c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

/// Bitmap of the attributes of a call.
#[derive(Clone, Copy)]
pub struct Present([c_ulong; 1]);

impl Present {
    /// Creates the bitmap from a word of bits.
    #[inline(always)]
    pub fn of_bits(bits: u64) -> Self {
        // CAST: Calls with attributes exist on 64-bit kernels only.
        Self([bits as c_ulong])
    }

    /// Sets the bit of an attribute.
    #[inline(always)]
    pub fn with(self, bit: usize) -> Self {
        let [word] = self.0;
        let bit = u32::try_from(bit)
            .ok()
            .and_then(|bit| 1_usize.checked_shl(bit));
        Self([word | bit.unwrap_or(0)])
    }

    /// Returns whether the bit of an attribute is set.
    #[inline(always)]
    pub fn has(self, bit: usize) -> bool {
        let [word] = self.0;
        u32::try_from(bit)
            .ok()
            .and_then(|bit| word.checked_shr(bit))
            .is_some_and(|word| word & 1 != 0)
    }
}

// SAFETY: Every value is valid.
unsafe impl FromC for Present {
    type C = [c_ulong; 1];

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

impl IntoC<[c_ulong; 1]> for Present {
    #[inline(always)]
    fn into_c(self) -> [c_ulong; 1] {
        self.0
    }
}

crate::c_struct! {
    /// A user handle of an object (`struct ib_uobject`).
    pub struct Uobject: bindings::ib_uobject;
    fields {
        /// Value that the user passed for events.
        const user_handle: u64;
        /// Open file.
        const ufile: Option<&UFile>;
        /// Address of the user context. Null before the handle is given one, and when the object
        /// behind it is gone.
        racy context_at at context: *mut bindings::ib_ucontext;
        /// The object behind the handle, of the handle's type.
        racy object: *mut c_void;
        /// The number by which the user names it.
        racy id: i32;
        /// The description of the handle's type. Written when the handle is allocated; it stays
        /// while the open file exists.
        const api_object at uapi_object: In<'_, ApiObject>;
        /// References to the handle.
        embed refs at ref_.refcount: CRefcount;
        /// -1 if the handle is locked exclusively, else the number of shared users.
        racy usecnt at usecnt.counter: i32;
        /// The same, for atomic changes.
        embed users at usecnt: LockCount;
        /// What the cgroup was charged.
        embed cg_obj: CgroupObject;
    }
}

// SAFETY: The last reference to a handle is put after the handle was taken out of its array, and
// its memory is freed by `kfree_rcu` then (`uverbs_uobject_put`). A reader that finds it takes a
// reference only if there is one left.
unsafe impl RcuFreed for Uobject {}

crate::c_struct! {
    /// The lock of a handle (`usecnt`), which only the handle's functions change.
    pub struct LockCount: bindings::atomic_t;
    fields {}
}

crate::import! {
    in crate::bindings;

    fn fetch_add_unless(count: &LockCount, add: i32, unless: i32) -> i32 = atomic_fetch_add_unless;
    fn cmpxchg(count: &LockCount, old: i32, new: i32) -> i32 = atomic_cmpxchg;
    fn dec_release(count: &LockCount) -> i32 = atomic_dec_return_release;
    fn set_release(count: &LockCount, value: i32) = atomic_set_release;
}

/// Value of `usecnt` while somebody has the handle exclusively.
const EXCLUSIVE: i32 = -1;

impl Uobject {
    /// The description of the handle's type.
    #[inline]
    pub fn uapi_object(&self) -> &ApiObject {
        self.api_object().0
    }

    /// Locks the handle; never waits. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`.
    #[inline]
    pub fn try_lock(&self, access: Access) -> Result {
        let locked = match access {
            Access::Read => fetch_add_unless(self.users(), 1, EXCLUSIVE) != EXCLUSIVE,
            Access::Write => cmpxchg(self.users(), 0, EXCLUSIVE) == 0,
            Access::Destroy => true,
        };
        locked.then_some(()).ok_or(EBUSY)
    }

    /// Locks the handle exclusively, whoever has it. Any context.
    ///
    /// # Safety
    ///
    /// Nobody uses the handle by a lock, or gives one back.
    #[inline]
    pub unsafe fn seize(&self) {
        set_release(self.users(), EXCLUSIVE);
    }

    /// Reverses [`try_lock`](Self::try_lock). Any context.
    ///
    /// # Safety
    ///
    /// The caller has locked the handle for `access`, and gives the lock up.
    #[inline]
    pub unsafe fn unlock(&self, access: Access) {
        self.assert_locked(access);
        match access {
            Access::Read => {
                dec_release(self.users());
            }
            // SAFETY: The caller has the handle exclusively (contract of this function).
            Access::Write => unsafe { self.unlock_any() },
            Access::Destroy => {}
        }
    }

    /// Lets others use a handle that is locked exclusively, or new. Any context.
    ///
    /// # Safety
    ///
    /// The caller has the handle exclusively, and gives that up.
    #[inline]
    pub unsafe fn unlock_any(&self) {
        set_release(self.users(), 0);
    }

    /// Returns the user context.
    #[inline]
    pub fn context(&self) -> Option<&UContext> {
        // SAFETY: Null, or a context that the handle does not outlive (head of this file).
        unsafe { Option::from_c(self.context_at()) }
    }

    /// Clears the context, since the object behind the handle is gone.
    #[inline]
    pub fn clear_context(&self) {
        // SAFETY: An aligned word of a live handle, which is accessed as a whole.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).context) }.store(null_mut(), Relaxed);
    }

    /// Sets the object behind the handle.
    ///
    /// # Safety
    ///
    /// The object is of the handle's type, and the handle owns it from now on.
    #[inline]
    pub unsafe fn set_object(&self, object: *mut c_void) {
        // SAFETY: An aligned word of a live handle, which is accessed as a whole.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).object) }.store(object, Relaxed);
    }

    /// Forgets the object behind the handle.
    ///
    /// # Safety
    ///
    /// The handle is locked exclusively, and nobody uses the object through it.
    #[inline]
    pub unsafe fn clear_object(&self) {
        // SAFETY: There is no object from now on, and nobody uses it (contract of this function).
        unsafe { self.set_object(null_mut()) };
    }

    /// Sets the number by which the user names the handle.
    ///
    /// # Safety
    ///
    /// The number is reserved for the handle, or for another one that gets this handle's number.
    #[inline]
    pub unsafe fn set_id(&self, id: i32) {
        // SAFETY: An aligned word of a live handle, which is accessed as a whole.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).id) }.store(id, Relaxed);
    }

    /// Warns, in kernels with lockdep, unless the handle is locked.
    #[inline]
    pub fn assert_locked(&self, access: Access) {
        if cfg!(CONFIG_LOCKDEP) {
            kernel::warn_on!(match access {
                Access::Read => self.usecnt() <= 0,
                Access::Write => self.usecnt() != EXCLUSIVE,
                Access::Destroy => false,
            });
        }
    }
}

/// How a command uses a handle (`enum rdma_lookup_mode`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Together with others.
    Read,
    /// Exclusively.
    Write,
    /// To destroy the object; the handle is not locked yet.
    Destroy,
}

// SAFETY: All values are allowed; C passes enumerators only.
unsafe impl FromC for Access {
    type C = bindings::rdma_lookup_mode;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        match c {
            bindings::rdma_lookup_mode_UVERBS_LOOKUP_READ => Self::Read,
            bindings::rdma_lookup_mode_UVERBS_LOOKUP_WRITE => Self::Write,
            _ => Self::Destroy,
        }
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for Access {}

/// What a method does with a handle among its attributes (`enum uverbs_obj_access`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AttrAccess {
    /// Uses it.
    Of(Access),
    /// Creates it.
    New,
    /// No enumerator.
    Unknown,
}

// SAFETY: All values are allowed.
unsafe impl FromC for AttrAccess {
    type C = bindings::uverbs_obj_access;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        match c {
            bindings::uverbs_obj_access_UVERBS_ACCESS_READ => Self::Of(Access::Read),
            bindings::uverbs_obj_access_UVERBS_ACCESS_WRITE => Self::Of(Access::Write),
            bindings::uverbs_obj_access_UVERBS_ACCESS_DESTROY => Self::Of(Access::Destroy),
            bindings::uverbs_obj_access_UVERBS_ACCESS_NEW => Self::New,
            _ => Self::Unknown,
        }
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for AttrAccess {}

/// Why an object is destroyed (`enum rdma_remove_reason`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reason(bindings::rdma_remove_reason);

impl Reason {
    /// The user asked for it.
    pub const DESTROY: Self = Self(bindings::rdma_remove_reason_RDMA_REMOVE_DESTROY);
    /// The file is closed.
    pub const CLOSE: Self = Self(bindings::rdma_remove_reason_RDMA_REMOVE_CLOSE);
    /// The command that creates it fails.
    pub const ABORT: Self = Self(bindings::rdma_remove_reason_RDMA_REMOVE_ABORT);
    /// The device is removed.
    pub const DRIVER_REMOVE: Self = Self(bindings::rdma_remove_reason_RDMA_REMOVE_DRIVER_REMOVE);
    /// The driver could not destroy it, so it is forgotten.
    pub const DRIVER_FAILURE: Self = Self(bindings::rdma_remove_reason_RDMA_REMOVE_DRIVER_FAILURE);
}

// SAFETY: All values are allowed.
unsafe impl FromC for Reason {
    type C = bindings::rdma_remove_reason;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for Reason {}

impl IntoC<bindings::rdma_remove_reason> for Reason {
    #[inline(always)]
    fn into_c(self) -> bindings::rdma_remove_reason {
        self.0
    }
}

crate::c_struct! {
    /// The description of a type of objects (`struct uverbs_api_object`).
    pub struct ApiObject: bindings::uverbs_api_object;
    fields {
        /// The type: the beginning of a [`NumberedType`] or a [`FileType`]. Null when the device is
        /// gone, if the type has no `release_cleanup`.
        racy type_attrs: *const bindings::uverbs_obj_type;
        /// Which of the two it is: the address of `uverbs_idr_class` or `uverbs_fd_class`.
        const type_class: *const bindings::uverbs_obj_type_class;
    }
}

impl ApiObject {
    /// Forgets the type, since the device is gone.
    pub fn clear_type_attrs(&self) {
        // SAFETY: An aligned word of a live description, which is accessed as a whole.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).type_attrs) }.store(null(), Relaxed);
    }
}

crate::c_struct! {
    /// A type of objects that the user names by number (`struct uverbs_obj_idr_type`).
    pub struct NumberedType: bindings::uverbs_obj_idr_type;
    fields {}
}

crate::c_struct! {
    /// A type of objects that the user names by file descriptor (`struct uverbs_obj_fd_type`).
    pub struct FileType: bindings::uverbs_obj_fd_type;
    fields {
        /// The operations of its files, if it makes them itself.
        const fops: *const bindings::file_operations;
    }
}

crate::c_struct! {
    /// Charge of an object to the rdma cgroup of its creator.
    pub struct CgroupObject: bindings::ib_rdmacg_object;
    fields {}
}

crate::c_struct! {
    /// An open file of `ib_uverbs` (`struct ib_uverbs_file`).
    pub struct UFile: bindings::ib_uverbs_file;
    fields {
        /// References to the file.
        embed refs at ref_.refcount: CRefcount;
        /// Character device. Written when the file is opened.
        const device: Passed<bindings::ib_uverbs_device>;
        /// Protects the list of mapped VMAs, and serialises insertion of mapping entries.
        embed umap_lock: Mutex<()>;
        /// Held for reading while objects are created or destroyed; for writing while all of them
        /// are destroyed.
        embed hw_destroy_rwsem: CRwSem;
        /// Guards the list of handles, for holders of `hw_destroy_rwsem` for reading.
        embed uobjects_lock: IrqLock;
        /// Handles by number. Initialised with `XA_FLAGS_ALLOC` when the file is opened.
        embed idr: XArray<Uobject>;
    }
}

impl UFile {
    /// Returns the address of the context; null before the user creates one. It is published with
    /// release ordering, and read with acquire ordering.
    #[inline]
    pub fn ucontext_at(&self) -> *mut bindings::ib_ucontext {
        // SAFETY: The field is written as a whole, with release ordering, after the context is
        // initialised.
        unsafe {
            let place = &raw mut (*self.raw()).ucontext;
            bindings::atomic_ptr_read_acquire(place.cast())
        }
        .cast_mut()
        .cast()
    }

    /// Returns whether the user has created a context.
    #[inline]
    pub fn has_ucontext(&self) -> bool {
        !self.ucontext_at().is_null()
    }

    /// Returns the context, once the user has created one.
    ///
    /// # Safety
    ///
    /// The context must not be freed while the result is used: the caller holds `hw_destroy_rwsem`,
    /// or is in a section of the device's `disassociate_srcu` in which the device was not gone.
    #[inline]
    pub unsafe fn ucontext(&self) -> Option<&UContext> {
        // SAFETY: Null, or a context that is initialised, and stays (contract of this function).
        unsafe { Option::from_c(self.ucontext_at()) }
    }
}

crate::c_struct! {
    /// A user context on a device (`struct ib_ucontext`).
    pub struct UContext: bindings::ib_ucontext;
    fields {
        /// Device. Written before the context is tracked or published.
        const device: Passed<bindings::ib_device>;
        /// The same, as a reference; the device exists as long as its contexts.
        const dev at device: &Device;
        /// Open file. Written before the context is published.
        const ufile: Option<&UFile>;
        /// Charge of the rdma cgroup.
        embed cg_obj: CgroupObject;
        /// ID in the restrack table.
        racy res_id at res.id: u32;
        /// Mapping entries by page offset. Initialised with `XA_FLAGS_ALLOC` before the context is
        /// published.
        embed mmap_xa: XArray<MmapEntry>;
    }
}

crate::c_struct! {
    /// A region that a user can map (`struct rdma_user_mmap_entry`), the first field of a driver's
    /// structure.
    pub struct MmapEntry: bindings::rdma_user_mmap_entry;
    fields {
        /// References: of the driver, of each mapping, and of each lookup.
        embed refs at ref_.refcount: CRefcount;
        /// Context. Written when the entry is inserted, before lookups can find it.
        const ucontext: Option<&UContext>;
        /// First page offset. Written before lookups can find the entry; read under the lock.
        guarded start_pgoff: usize, set_start_pgoff => Locked<'_, MmapEntry>;
        /// Number of pages. Written when the entry is inserted, before lookups can find it.
        const npages: usize;
        /// Whether lookups skip the entry. Protected by the lock of the context's `mmap_xa`.
        guarded driver_removed: bool, set_driver_removed => Locked<'_, MmapEntry>;
        /// Protects the list of DMA-bufs that were created from the entry.
        embed dmabufs_lock: Mutex<()>;
    }
}

macro_rules! shared {
    ($($name:ident),*) => { $(
        // SAFETY: Fields that change while several tasks use the structure are atomic or protected
        // by a lock.
        unsafe impl Send for $name {}
        // SAFETY: As for `Send`: such fields are atomic or protected by a lock.
        unsafe impl Sync for $name {}
    )* };
}

shared!(
    UContext,
    UFile,
    Uobject,
    MmapEntry,
    ApiObject,
    NumberedType,
    FileType
);
