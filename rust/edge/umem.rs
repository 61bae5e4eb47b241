// SPDX-License-Identifier: GPL-2.0

//! User memory that devices reach (`struct ib_umem`): the part that all its kinds have.
//!
//! The core makes it, drivers hold it by pointer and read it. Everything is written before a driver
//! gets the memory, except `iova`, and the table of DMA-buf memory, which changes under the
//! buffer's reservation lock. To be held against `include/rdma/ib_umem.h`.

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

/// The device that user memory is for.
///
/// # Invariants
///
/// `0` is a device that exists until all user memory that was made for it is released.
#[derive(Clone, Copy)]
pub struct HostDevice(NonNull<bindings::ib_device>);

// SAFETY: `from_c`'s contract is the type invariant, which drivers keep to (`ib_umem.h`): they
// release user memory before they free the device.
unsafe impl FromC for HostDevice {
    type C = *mut bindings::ib_device;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A device, not null: contract of this function. INVARIANT: By the same contract.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

// SAFETY: It is not limited to a call: type invariant.
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
        // SAFETY: The device exists as long as memory for it is made or used: type invariant.
        unsafe { Device::view(self.0.as_ptr()) }
    }
}

crate::c_struct! {
    /// User memory of any kind.
    pub struct Umem: bindings::ib_umem;
    fields {
        /// The device that it is for.
        const host at ibdev: HostDevice;
        /// Bytes.
        const length: usize;
        /// The address of the first byte in the process; of a DMA-buf, the offset in it.
        const address: usize;
        /// `DMA_ATTR_*` of its mapping.
        const dma_attrs: usize;
        /// Whether the device may write to it.
        bit writable: bool;
        /// Whether its pages come on demand: it is the head of a `struct ib_umem_odp`.
        bit is_odp: bool;
        /// Whether it is of a DMA-buf: it is the head of a `struct ib_umem_dmabuf`.
        bit is_dmabuf: bool;
        /// Where the device sees the first byte; the driver's word.
        racy iova: u64, set_iova;
        /// The pages of pinned memory; empty for other kinds.
        embed pages at sgt_append.sgt: sg_table::Pages;
    }
}

/// User memory that is mapped for its device, or comes on demand.
///
/// # Invariants
///
/// For `'a`, unless the memory comes on demand, it is mapped: pinned memory always is.
pub struct MappedUmem<'a>(&'a Umem);

// SAFETY: `from_c`'s contract is the type invariant.
unsafe impl FromC for MappedUmem<'_> {
    type C = *mut bindings::ib_umem;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: User memory: contract of this function. INVARIANT: By the same contract.
        Self(unsafe { Umem::view(c) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for MappedUmem<'a> {}

impl Deref for MappedUmem<'_> {
    type Target = Umem;

    #[inline(always)]
    fn deref(&self) -> &Umem {
        self.0
    }
}

impl MappedUmem<'_> {
    /// The segments; none of memory that comes on demand.
    #[inline]
    pub fn segments(&self) -> sg_table::Entries<'_> {
        // SAFETY: The table is mapped, or empty: type invariant.
        let table = unsafe { sg_table::Mapped::view(&raw mut (*self.0.raw()).sgt_append.sgt) };
        table.entries()
    }
}
