// SPDX-License-Identifier: GPL-2.0

//! Objects of drivers: how they are allocated, made and destroyed, one file each.

pub(crate) mod ah;
pub(crate) mod comp_cntr;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod dm;
pub(crate) mod dmabuf;
pub(crate) mod dmah;
pub(crate) mod flow;
pub(crate) mod flow_action;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod rwq_table;
pub(crate) mod srq;
pub(crate) mod wq;
pub(crate) mod xrcd;

use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::View;

/// An object that `rdma resource` shows: its entry, and the kind of the entry.
pub(super) type Entry<C> = (
    fn(*mut C) -> *mut bindings::rdma_restrack_entry,
    bindings::rdma_restrack_type,
);

/// Makes an object of a driver, in zeroed memory of `size` bytes: `fill` writes the fields that
/// drivers read, `make` calls the driver. Objects with an entry are shown by `rdma resource` then.
/// May sleep.
///
/// # Errors
///
/// `ENOMEM`; those of `make`.
///
/// # Safety
///
/// `size` is that of the driver's objects, which begin with the C structure. `fill` makes it what
/// the driver expects, `make` calls the driver's method.
pub(super) unsafe fn make<V: View>(
    device: &Device,
    size: usize,
    entry: Option<Entry<V::C>>,
    fill: impl FnOnce(*mut V::C),
    make: impl FnOnce(*mut V::C) -> c_int,
) -> Result<Owned<V>> {
    // SAFETY: The device exists; any size is valid.
    let memory = unsafe { bindings::rdma_helper_drv_zalloc(device.raw(), size) };
    let memory: NonNull<V::C> = NonNull::new(memory).ok_or(ENOMEM)?.cast();
    let c = memory.as_ptr();
    fill(c);
    // SAFETY: The memory is ours, and zeroed but for what `fill` has written. An entry that was
    // not added is put, which ends it, before the memory is freed.
    unsafe {
        if let Some((entry, kind)) = entry {
            crate::private::rdma_restrack_new(entry(c), kind);
            crate::private::rdma_restrack_set_name(entry(c), core::ptr::null());
        }
        if let Err(error) = to_result(make(c)) {
            if let Some((entry, _)) = entry {
                bindings::rdma_restrack_put(entry(c));
            }
            bindings::kfree(c.cast());
            return Err(error);
        }
        if let Some((entry, _)) = entry {
            crate::private::rdma_restrack_add(entry(c));
        }
        // Made, and nobody else uses it.
        Ok(Owned::new(memory))
    }
}

/// The [`Entry`] of a C structure that has one in `res`.
macro_rules! entry {
    ($c:ty, $kind:ident) => {
        $crate::edge::object::entry!($c, as bindings::$kind)
    };
    ($c:ty, as $kind:expr) => {
        Some((
            |c: *mut $c| {
                c.wrapping_byte_add(core::mem::offset_of!($c, res))
                    .cast::<bindings::rdma_restrack_entry>()
            },
            $kind,
        ))
    };
}
pub(super) use entry;
