// SPDX-License-Identifier: GPL-2.0

//! User memory for devices (`struct ib_umem`): the part that is common to all types.
//!
//! The core creates it; drivers hold a pointer to it and read it. All fields are written before a
//! driver gets the memory, except `iova`, and the table of DMA-buf memory, which changes under the
//! buffer's reservation lock. Must match `include/rdma/ib_umem.h`.

use super::device::Device;
use super::sg_table;
use super::FromC;
use super::IntoC;
use super::View;
use super::Within;
use crate::bindings;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::mm::Mm;

// SAFETY: `Mm` is transparent over `Opaque<mm_struct>`; see its definition in `rust/kernel/mm.rs`.
unsafe impl View for Mm {
    type C = bindings::mm_struct;
}

/// The device of user memory.
///
/// # Invariants
///
/// `0` is a device that exists until all user memory that was created for it is released.
#[derive(Clone, Copy)]
pub struct HostDevice(NonNull<bindings::ib_device>);

// SAFETY: The contract of `from_c` is the type invariant. Drivers guarantee it (`ib_umem.h`): they
// release user memory before they free the device.
unsafe impl FromC for HostDevice {
    type C = *mut bindings::ib_device;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is a device, not null (contract of this function).
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

// SAFETY: It is not limited to a call (type invariant).
unsafe impl Within<'_> for HostDevice {}

impl IntoC<*mut bindings::ib_device> for HostDevice {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }
}

impl Deref for HostDevice {
    type Target = Device;

    #[inline(always)]
    fn deref(&self) -> &Device {
        // SAFETY: The device exists as long as memory for it is created or used (type invariant).
        unsafe { Device::view(self.0.as_ptr()) }
    }
}

crate::c_struct! {
    /// User memory of any type.
    pub struct Umem: bindings::ib_umem;
    fields {
        /// Device of the memory.
        const host at ibdev: HostDevice;
        /// Length in bytes.
        const length: usize;
        /// Address of the first byte in the process; offset in a DMA-buf.
        const address: usize;
        /// `DMA_ATTR_*` of the mapping.
        const dma_attrs: usize;
        /// Whether the device may write to it.
        bit writable: bool;
        /// Whether it is paged on demand: it is the first field of a `struct ib_umem_odp`.
        bit is_odp: bool;
        /// Whether it is a DMA-buf: it is the first field of a `struct ib_umem_dmabuf`.
        bit is_dmabuf: bool;
        /// DMA address of the first byte; belongs to the driver.
        racy iova: u64, set_iova;
        /// Pages of pinned memory; empty for other types.
        embed pages at sgt_append.sgt: sg_table::Pages;
    }
}

/// User memory that is mapped for its device, or paged on demand.
///
/// # Invariants
///
/// During `'a` the memory is mapped, unless it is paged on demand. Pinned memory is always mapped.
pub struct MappedUmem<'a>(&'a Umem);

// SAFETY: The contract of `from_c` is the type invariant.
unsafe impl FromC for MappedUmem<'_> {
    type C = *mut bindings::ib_umem;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is user memory that is valid for the lifetime (contract of this function).
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self(unsafe { Umem::view(c) })
    }
}

// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for MappedUmem<'a> {}

impl Deref for MappedUmem<'_> {
    type Target = Umem;

    #[inline(always)]
    fn deref(&self) -> &Umem {
        self.0
    }
}

impl MappedUmem<'_> {
    /// Iterates over the DMA segments; none for memory that is paged on demand.
    #[inline]
    pub fn segments(&self) -> sg_table::Entries<'_> {
        // SAFETY: The table is mapped, or empty (type invariant).
        let table = unsafe { sg_table::Mapped::view(&raw mut (*self.0.raw()).sgt_append.sgt) };
        table.entries()
    }
}
