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
use crate::edge::IntoC;
use crate::edge::Passed;
use crate::edge::View;
use crate::xarray::Locked;
use crate::xarray::XArray;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::sync::Mutex;
use kernel::sync::Refcount;

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
        /// User context. Written when the handle is allocated, cleared when its object is
        /// destroyed: constant for users of the object.
        const context: Option<&UContext>;
        /// Object of the handle, of the handle's type.
        racy object: *mut c_void;
        /// ID of the handle in user space.
        racy id: i32;
        /// References to the handle.
        embed refs at ref_.refcount: Refcount;
        /// -1 if the handle is locked exclusively, else the number of shared users.
        racy usecnt at usecnt.counter: i32;
        /// Charge of the rdma cgroup.
        embed cg_obj: CgroupObject;
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
        embed refs at ref_.refcount: Refcount;
        /// Character device. Written when the file is opened.
        const device: Passed<bindings::ib_uverbs_device>;
        /// Protects the list of mapped VMAs, and serialises insertion of mapping entries.
        embed umap_lock: Mutex<()>;
    }
}

impl UFile {
    /// Returns the context, once the user has created one. It is published with release ordering
    /// and exists until the file is closed or the device is removed.
    #[inline]
    pub fn ucontext(&self) -> Option<&UContext> {
        // SAFETY: The field is written as a whole, with release ordering, after the context is
        // initialised.
        unsafe {
            let place = &raw mut (*self.raw()).ucontext;
            let context = bindings::atomic_ptr_read_acquire(place.cast());
            Option::from_c(context.cast_mut().cast())
        }
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
        embed refs at ref_.refcount: Refcount;
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

shared!(UContext, UFile, Uobject, MmapEntry);
