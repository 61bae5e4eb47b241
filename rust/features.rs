// SPDX-License-Identifier: GPL-2.0

//! Differences between the kernels that the modules are compiled for.
//!
//! `rust/features.Kbuild` looks for each feature in the kernel's source and sets a `cfg`. This file
//! is the only one in Rust, with its submodules, that asks for them; C helpers have a macro for each.
//! Callers see one type, constant or function for all kernels. Stateless; the functions state their
//! contexts. C headers: those that `rust/features.Kbuild` names.

#![allow(
    clippy::needless_return,
    reason = "of two statements one is compiled, and either may be the last"
)]

pub mod comp_cntr;
pub mod uapi;

use crate::bindings;
use core::borrow::Borrow;
use kernel::prelude::*;

/// Initialises a slot of memory.
///
/// # Errors
///
/// Those of `init`; the slot is uninitialised then.
///
/// # Safety
///
/// `slot` is valid for writes and uninitialised, and the object does not move until it is dropped.
#[inline(always)]
pub unsafe fn init_slot<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    #[cfg(rdma_has_raw_init)]
    // SAFETY: The contract of this function is that of `raw_try_init`.
    return unsafe { pin_init::raw_try_init(slot, init) };
    #[cfg(not(rdma_has_raw_init))]
    // SAFETY: The contract of this function is that of `__pinned_init`.
    return unsafe { init.__pinned_init(slot) };
}

/// Returns the [`ThisModule`](kernel::ThisModule) of the module that the caller is compiled into.
#[cfg(rdma_has_module_metadata)]
#[allow(clippy::crate_in_macro_def, reason = "the caller's crate is meant")]
#[macro_export]
macro_rules! this_module {
    () => {
        ::kernel::module::this_module::<crate::LocalModule>()
    };
}
/// Returns the [`ThisModule`](kernel::ThisModule) of the module that the caller is compiled into.
#[cfg(not(rdma_has_module_metadata))]
#[allow(clippy::crate_in_macro_def, reason = "the caller's crate is meant")]
#[macro_export]
macro_rules! this_module {
    () => {
        &crate::THIS_MODULE
    };
}

/// Declares a module as `module!` does, with the initcall level that it has if it is built in: of
/// `include/linux/init.h`, 6 being the level of `module!`. A kernel whose `module!` has no levels is
/// one of which the modules are not a part, and modules that are loaded have no level.
#[cfg(rdma_has_initcall_level)]
#[macro_export]
macro_rules! module_at {
    (level: $level:literal, $($field:tt)*) => {
        ::kernel::prelude::module! { $($field)* initcall: $level, }
    };
}
/// Declares a module as `module!` does, with the initcall level that it has if it is built in: of
/// `include/linux/init.h`, 6 being the level of `module!`. A kernel whose `module!` has no levels is
/// one of which the modules are not a part, and modules that are loaded have no level.
#[cfg(not(rdma_has_initcall_level))]
#[macro_export]
macro_rules! module_at {
    (level: $level:literal, $($field:tt)*) => {
        ::kernel::prelude::module! { $($field)* }
    };
}

/// Returns the value of a module parameter, which the kernel crate returns itself or borrowed.
pub fn param<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}

/// Full memory barrier between CPUs. Any context.
#[inline(always)]
pub fn smp_mb() {
    #[cfg(rdma_has_barrier_kinds)]
    kernel::sync::barrier::smp_mb(kernel::sync::atomic::ordering::Full);
    #[cfg(not(rdma_has_barrier_kinds))]
    kernel::sync::barrier::smp_mb();
}

#[cfg(rdma_has_typed_enums)]
mod enums {
    use crate::bindings::dma_data_direction;
    use crate::bindings::hrtimer_restart;

    pub(super) const NO_RESTART: hrtimer_restart = hrtimer_restart::HRTIMER_NORESTART;
    pub(super) const BOTH_WAYS: dma_data_direction = dma_data_direction::DMA_BIDIRECTIONAL;
    pub(super) const TO_DEVICE: dma_data_direction = dma_data_direction::DMA_TO_DEVICE;
    pub(super) const FROM_DEVICE: dma_data_direction = dma_data_direction::DMA_FROM_DEVICE;
}

#[cfg(not(rdma_has_typed_enums))]
mod enums {
    use crate::bindings;
    use crate::bindings::dma_data_direction;
    use crate::bindings::hrtimer_restart;

    pub(super) const NO_RESTART: hrtimer_restart = bindings::hrtimer_restart_HRTIMER_NORESTART;
    pub(super) const BOTH_WAYS: dma_data_direction = bindings::dma_data_direction_DMA_BIDIRECTIONAL;
    pub(super) const TO_DEVICE: dma_data_direction = bindings::dma_data_direction_DMA_TO_DEVICE;
    pub(super) const FROM_DEVICE: dma_data_direction = bindings::dma_data_direction_DMA_FROM_DEVICE;
}

#[cfg(rdma_has_typed_enums)]
mod direction {
    use super::bindings::dma_data_direction;
    use crate::edge::FromC;
    use crate::edge::Within;

    // SAFETY: Every value is valid: the type is a number.
    unsafe impl FromC for dma_data_direction {
        type C = Self;

        #[inline(always)]
        unsafe fn from_c(c: Self) -> Self {
            c
        }
    }

    // SAFETY: It contains no references.
    unsafe impl Within<'_> for dma_data_direction {}
}

/// Returns a direction of DMA as a number, which C helpers take.
#[inline(always)]
pub fn direction_number(direction: bindings::dma_data_direction) -> u32 {
    #[cfg(rdma_has_typed_enums)]
    {
        // CAST: Reinterprets the bits.
        direction.0 as u32
    }
    #[cfg(not(rdma_has_typed_enums))]
    {
        // CAST: Reinterprets the bits.
        direction as u32
    }
}

/// Returns how many bytes of its first entry an iterator has passed.
#[inline(always)]
pub fn bvec_done(iter: &bindings::bvec_iter) -> u32 {
    #[cfg(rdma_has_bvec_offset)]
    return iter.bi_offset;
    #[cfg(not(rdma_has_bvec_offset))]
    return iter.bi_bvec_done;
}

/// Sets how many bytes of its first entry an iterator has passed.
pub fn set_bvec_done(iter: &mut bindings::bvec_iter, done: u32) {
    #[cfg(rdma_has_bvec_offset)]
    {
        iter.bi_offset = done;
    }
    #[cfg(not(rdma_has_bvec_offset))]
    {
        iter.bi_bvec_done = done;
    }
}

/// `HRTIMER_NORESTART`.
pub const HRTIMER_NORESTART: bindings::hrtimer_restart = enums::NO_RESTART;
/// `DMA_BIDIRECTIONAL`.
pub const DMA_BIDIRECTIONAL: bindings::dma_data_direction = enums::BOTH_WAYS;
/// `DMA_TO_DEVICE`.
pub const DMA_TO_DEVICE: bindings::dma_data_direction = enums::TO_DEVICE;
/// `DMA_FROM_DEVICE`.
pub const DMA_FROM_DEVICE: bindings::dma_data_direction = enums::FROM_DEVICE;

/// Type of the limits in `struct ib_device_attr`, and of the number that `rdma_restrack_count`
/// returns.
#[cfg(rdma_has_unsigned_limits)]
pub type RawLimit = u32;
/// Type of the limits in `struct ib_device_attr`, and of the number that `rdma_restrack_count`
/// returns.
#[cfg(not(rdma_has_unsigned_limits))]
pub type RawLimit = kernel::ffi::c_int;

/// Returns `number` as a limit of a device. It saturates: programs read a limit as `int`.
pub const fn raw_limit(number: u32) -> RawLimit {
    const MOST: u32 = i32::MAX as u32;
    // CAST: At most `i32::MAX`.
    (if number < MOST { number } else { MOST }) as RawLimit
}

/// Returns a limit of a device as programs get it: the same bits.
pub const fn limit_bits(limit: RawLimit) -> u32 {
    // CAST: Reinterprets the bits, where the type is signed.
    limit as u32
}

/// Returns a limit that a driver has written to `struct ib_device_attr`. A negative one counts as 0.
#[inline(always)]
pub fn limit(raw: RawLimit) -> u32 {
    #[cfg(rdma_has_unsigned_limits)]
    return raw;
    #[cfg(not(rdma_has_unsigned_limits))]
    return u32::try_from(raw).unwrap_or(0);
}

/// Whether there are completion counters (`struct ib_comp_cntr`). `RDMA_NLDEV_CMD_RES_GET` tells
/// their number, and the limits of objects, since the same version.
pub const COMP_CNTR: bool = cfg!(rdma_has_comp_cntr);

/// Number of words of `struct ib_device_ops` from the attribute groups on, each a pointer, a method
/// or a size. If it is not the one here, check that the new fields are words, too.
pub const DEVICE_OPS_WORDS: usize = 141 + if COMP_CNTR { 7 } else { 0 };

/// Whether the name of a device is unique among the devices that its network namespace sees, and not
/// in the system. A request that moves a device may also give it a name then, and is told in words
/// why it is refused; a move to the namespace where the device is does not touch the device. The C
/// core of a kernel without this takes a request that moves and names for one that renames.
pub const NAMES_PER_NETNS: bool = cfg!(rdma_has_names_per_netns);

/// Whether `struct ib_uverbs_dmabuf_file` has a lock for its pointer to the buffer, which is null
/// once the buffer is released.
pub const DMABUF_RELEASE_LOCK: bool = cfg!(rdma_has_dmabuf_release_lock);

/// Whether the method that makes a shared receive queue takes a description of its buffer
/// (`UVERBS_ATTR_CREATE_SRQ_BUF_UMEM`).
pub const SRQ_BUF_UMEM: bool = cfg!(rdma_has_srq_buf_umem);

/// Whether regions of DMA-bufs cannot be registered anew.
pub const REREG_REFUSES_DMABUF: bool = cfg!(rdma_has_rereg_refuses_dmabuf);
