// SPDX-License-Identifier: GPL-2.0

//! The C structures of user verbs: open file, context, objects and mappings. A user's call is in
//! [`super::verbs`].
//!
//! `ib_uverbs` makes them; the core and drivers (`mlx5` among them) read them. To be held against
//! `include/rdma/ib_verbs.h`, `include/rdma/uverbs_ioctl.h` and `include/rdma/uverbs_types.h`.
//!
//! Lifetimes: a context lives as long as its file has it; objects and mapping entries live no
//! longer than their context. The file of a context stays while the context exists.

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

/// An address that a user gave; `copy_from_user` and its kin check it.
#[derive(Clone, Copy)]
pub struct UserPtr(pub *const c_void);

// SAFETY: The address is not followed.
unsafe impl FromC for UserPtr {
    type C = *const c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

/// A bit for each attribute of a call.
#[derive(Clone, Copy)]
pub struct Present([c_ulong; 1]);

impl Present {
    /// With the attribute of a bit.
    #[inline(always)]
    pub fn with(self, bit: usize) -> Self {
        let [word] = self.0;
        let bit = u32::try_from(bit)
            .ok()
            .and_then(|bit| 1_usize.checked_shl(bit));
        Self([word | bit.unwrap_or(0)])
    }

    /// Whether the attribute of a bit is present.
    #[inline(always)]
    pub fn has(self, bit: usize) -> bool {
        let [word] = self.0;
        u32::try_from(bit)
            .ok()
            .and_then(|bit| word.checked_shr(bit))
            .is_some_and(|word| word & 1 != 0)
    }
}

// SAFETY: All values are.
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
    /// A user's handle to an object (`struct ib_uobject`).
    pub struct Uobject: bindings::ib_uobject;
    fields {
        /// The value that the user gave for events.
        const user_handle: u64;
        /// The open file.
        const ufile: Option<&UFile>;
        /// The user's context. Written when the handle is allocated, cleared when the object behind
        /// it is gone: constant for whoever has the object.
        const context: Option<&UContext>;
        /// The object behind the handle, of the handle's type.
        racy object: *mut c_void;
        /// The number by which the user names it.
        racy id: i32;
        /// References to the handle.
        embed refs at ref_.refcount: Refcount;
        /// -1 if somebody has the handle exclusively, else how many share it.
        racy usecnt at usecnt.counter: i32;
        /// What the cgroup was charged.
        embed cg_obj: CgroupObject;
    }
}

crate::c_struct! {
    /// What an object's creator was charged in its rdma cgroup.
    pub struct CgroupObject: bindings::ib_rdmacg_object;
    fields {}
}

crate::c_struct! {
    /// An open file of `ib_uverbs` (`struct ib_uverbs_file`).
    pub struct UFile: bindings::ib_uverbs_file;
    fields {
        /// References to the file.
        embed refs at ref_.refcount: Refcount;
        /// The character device. Written when the file is opened.
        const device: Passed<bindings::ib_uverbs_device>;
        /// Guards the list of mappings of registers, and makes one insertion of a mapping entry at
        /// a time.
        embed umap_lock: Mutex<()>;
    }
}

impl UFile {
    /// The context, once the user has made one. It is published with a release and stays until the
    /// file is closed or the device goes.
    #[inline]
    pub fn ucontext(&self) -> Option<&UContext> {
        // SAFETY: The field is written whole, with a release, after the context is initialised.
        unsafe {
            let place = &raw mut (*self.raw()).ucontext;
            let context = bindings::atomic_ptr_read_acquire(place.cast());
            Option::from_c(context.cast_mut().cast())
        }
    }
}

crate::c_struct! {
    /// A user's context on a device (`struct ib_ucontext`).
    pub struct UContext: bindings::ib_ucontext;
    fields {
        /// The device. Written before the context is tracked or published.
        const device: Passed<bindings::ib_device>;
        /// The same, which stays while there are contexts.
        const dev at device: &Device;
        /// The open file. Written before the context is published.
        const ufile: Option<&UFile>;
        /// What the cgroup was charged.
        embed cg_obj: CgroupObject;
        /// The id by which the context is tracked.
        racy res_id at res.id: u32;
        /// Mapping entries by page offset. Initialised with `XA_FLAGS_ALLOC` before the context is
        /// published.
        embed mmap_xa: XArray<MmapEntry>;
    }
}

crate::c_struct! {
    /// What a user can map (`struct rdma_user_mmap_entry`), the beginning of a driver's structure.
    pub struct MmapEntry: bindings::rdma_user_mmap_entry;
    fields {
        /// The driver's reference, one for each mapping, and one for each lookup.
        embed refs at ref_.refcount: Refcount;
        /// The context. Written when the entry is inserted, before it can be found.
        const ucontext: Option<&UContext>;
        /// The first page offset. Written before the entry can be found; read under the lock.
        guarded start_pgoff: usize, set_start_pgoff => Locked<'_, MmapEntry>;
        /// Pages. Written when the entry is inserted, before it can be found.
        const npages: usize;
        /// Whether nobody may find the entry. Guarded by the lock of the context's `mmap_xa`.
        guarded driver_removed: bool, set_driver_removed => Locked<'_, MmapEntry>;
        /// Guards the list of DMA-bufs that were made of the entry.
        embed dmabufs_lock: Mutex<()>;
    }
}

macro_rules! shared {
    ($($name:ident),*) => { $(
        // SAFETY: What changes while several tasks have the structure is atomic or guarded.
        unsafe impl Send for $name {}
        // SAFETY: See `Send`.
        unsafe impl Sync for $name {}
    )* };
}

shared!(UContext, UFile, Uobject, MmapEntry);
