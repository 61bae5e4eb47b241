// SPDX-License-Identifier: GPL-2.0

//! FFI of FRMR pools: the driver's functions, and the fields that drivers see.
//!
//! Must match `include/rdma/frmr_pools.h`, and `frmr` of `struct ib_mr` and `frmr_pools` of `struct
//! ib_device` in `include/rdma/ib_verbs.h`.

use super::Key;
use super::Member;
use super::Pool;
use super::Pools;
use crate::device::Device;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Writer;

rdma::import! {
    in rdma::bindings;

    /// Checks whether regions of the device may have these access flags (`IB_ACCESS_...`).
    fn check_mr_access(device: &Device, access: u32) -> Result = rdma_helper_ib_check_mr_access;
}

rdma::c_struct! {
    /// Kind of a region in C.
    struct CKey: bindings::ib_frmr_key;
    fields {
        /// Driver-defined key.
        const vendor_key: u64;
        /// Driver-defined key for regions of the kernel.
        const kernel_vendor_key: u64;
        /// Maximum number of DMA blocks.
        const num_dma_blocks: usize;
        /// Access flags.
        const access_flags: c_int;
        /// Whether the device uses address translation services (ATS).
        bit ats: bool;
    }
}

impl From<&CKey> for Key {
    fn from(key: &CKey) -> Self {
        Self {
            ats: key.ats(),
            access: key.access_flags(),
            vendor: key.vendor_key(),
            kernel_vendor: key.kernel_vendor_key(),
            blocks: key.num_dma_blocks(),
        }
    }
}

impl From<Key> for bindings::ib_frmr_key {
    fn from(of: Key) -> Self {
        let mut key = Self {
            vendor_key: of.vendor,
            kernel_vendor_key: of.kernel_vendor,
            num_dma_blocks: of.blocks,
            access_flags: of.access,
            ..Self::default()
        };
        key.set_ats(of.ats.into());
        key
    }
}

/// The device that the pools belong to.
///
/// # Invariants
///
/// `0` is a device that exists until its pools are cleaned up.
#[derive(Clone, Copy)]
pub(super) struct Host(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Host {}
// SAFETY: Same as for `Send`.
unsafe impl Sync for Host {}

rdma::argument! {
    /// Drivers clean up the pools before they free the device (`frmr_pools.h`).
    impl Host = |device: &'static Device| Host(NonNull::from(device));
}

impl Deref for Host {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: The device exists until its pools are cleaned up (type invariant).
        unsafe { self.0.as_ref() }
    }
}

type Create = unsafe extern "C" fn(
    *mut bindings::ib_device,
    *mut bindings::ib_frmr_key,
    *mut u32,
    u32,
) -> c_int;
type Destroy = unsafe extern "C" fn(*mut bindings::ib_device, *mut u32, u32);
type Build = unsafe extern "C" fn(
    *mut bindings::ib_device,
    *const bindings::ib_frmr_key,
    *mut bindings::ib_frmr_key,
) -> c_int;

/// A driver's functions (`struct ib_frmr_pool_ops`).
///
/// # Invariants
///
/// The functions may be called, with the device they were passed with, until its pools are cleaned
/// up.
pub(super) struct PoolOps {
    create: Option<Create>,
    destroy: Option<Destroy>,
    build: Option<Build>,
}

rdma::c_struct! {
    /// The driver's table of functions in C.
    pub(super) struct PoolMethods: bindings::ib_frmr_pool_ops;
    fields {
        /// Creates handles.
        const create at create_frmrs: Option<Create>;
        /// Destroys handles.
        const destroy at destroy_frmrs: Option<Destroy>;
        /// Rounds a key to one that the driver supports.
        const build at build_key: Option<Build>;
    }
}

rdma::argument! {
    /// A constant table, by the declaration of `ib_frmr_pools_init`; its functions satisfy the type
    /// invariant.
    impl PoolOps = |methods: In<'static, PoolMethods>| PoolOps {
        create: methods.create(),
        destroy: methods.destroy(),
        build: methods.build(),
    };
}

/// A device's driver functions, for its pools.
///
/// # Invariants
///
/// The functions are those of the device's driver and may be called while the value exists.
#[derive(Clone, Copy)]
pub(super) struct Driver {
    device: Host,
    create: Create,
    destroy: Destroy,
    build: Option<Build>,
}

impl Driver {
    /// # Errors
    ///
    /// `EINVAL` if the create or the destroy function is missing.
    pub(super) fn new(device: Host, ops: &PoolOps) -> Result<Self> {
        // INVARIANT: The functions were passed with the device (invariant of `PoolOps`).
        Ok(Self {
            device,
            create: ops.create.ok_or(EINVAL)?,
            destroy: ops.destroy.ok_or(EINVAL)?,
            build: ops.build,
        })
    }

    /// Creates as many handles as `handles` has room for. May sleep.
    pub(super) fn create(&self, key: Key, handles: &mut [u32]) -> Result {
        let mut key = key.into();
        let count = u32::try_from(handles.len())?;
        let to = handles.as_mut_ptr();
        // SAFETY: The driver's function (type invariant); `handles` has room for `count` handles.
        to_result(unsafe { (self.create)(self.device.as_raw(), &mut key, to, count) })
    }

    /// Destroys handles that are not in a pool any more, at most 2^32 - 1. May sleep.
    pub(super) fn destroy(&self, handles: &mut [u32]) {
        let count = u32::try_from(handles.len()).unwrap_or(u32::MAX);
        if count != 0 {
            // SAFETY: The driver's function (type invariant); `handles` has `count` handles.
            unsafe { (self.destroy)(self.device.as_raw(), handles.as_mut_ptr(), count) };
        }
    }

    /// Returns the kind that the driver uses for one given by an administrator.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(super) fn key_of(&self, key: Key) -> Result<Key> {
        let Some(build) = self.build else {
            return Ok(key);
        };
        let mut built = bindings::ib_frmr_key::default();
        // SAFETY: The driver's function (type invariant); both keys are locals. On success, `built`
        // is initialised.
        unsafe {
            to_result(build(self.device.as_raw(), &key.into(), &mut built))?;
            Ok(CKey::view(&mut built).into())
        }
    }

    /// Checks whether regions may have the access flags of a kind.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that are inconsistent or not supported by the device.
    pub(super) fn check_access(&self, key: Key) -> Result {
        // CAST: a bit mask.
        check_mr_access(&self.device, key.access as u32)
    }
}

rdma::c_struct! {
    /// Pointer of a device to its pools, for the functions that drivers call often.
    pub(super) struct Noted: bindings::ib_device;
    fields {
        /// The pools, owned by the device's slot; null before `init` and after `cleanup`.
        racy frmr_pools: *mut bindings::ib_frmr_pools, set_frmr_pools;
    }
}

impl Noted {
    fn of(device: &Device) -> &Self {
        // SAFETY: A view of the same structure.
        unsafe { Self::view(device.as_raw()) }
    }
}

/// Sets or clears the pointer to the pools of a device.
pub(super) fn note(device: &Device, pools: Option<&Arc<Pools>>) {
    let pools = pools.map_or(core::ptr::null(), Arc::as_ptr);
    Noted::of(device).set_frmr_pools(pools.cast_mut().cast());
}

/// A device whose pools are not being created or cleaned up.
pub(super) struct Serving<'a>(&'a Noted);

rdma::argument! {
    /// A device of the calling driver, which calls this neither before it has created the pools nor
    /// while it creates or cleans them up (`frmr_pools.h`).
    impl<'a> Serving<'a> = |device: &'a Noted| Serving(device);
}

impl Serving<'_> {
    /// Returns the pools, if there are any.
    pub(super) fn pools(&self) -> Option<&Pools> {
        // SAFETY: Null, or a pointer set by `note`. The device's slot owns the pools until the
        // cleanup, which does not run meanwhile (contract of the type).
        unsafe { self.0.frmr_pools().cast::<Pools>().as_ref() }
    }
}

rdma::c_struct! {
    /// FRMR fields of a region (`ib_mr.frmr`).
    pub(super) struct Region: bindings::ib_mr;
    fields {
        /// Requested kind. The driver writes it before it requests a handle.
        embed c_key at frmr.key: CKey;
        /// Handle of the region.
        const handle at frmr.handle: u32, set_handle;
        /// The pool of the handle.
        const pool at frmr.pool: Noting, set_pool;
    }
}

impl Region {
    /// Returns the requested kind.
    pub(super) fn key(&self) -> Key {
        self.c_key().into()
    }

    /// Assigns a handle of a pool to the region.
    pub(super) fn give(this: &mut impl Writer<Of = Self>, pool: &Member, handle: u32) {
        Self::set_handle(this, handle);
        Self::set_pool(this, Noting(Arc::as_ptr(pool)));
    }
}

/// A region's pointer to its pool, without a reference.
///
/// # Invariants
///
/// The pool was a [`Member`], so it exists until the pools of its device are cleaned up.
#[derive(Clone, Copy)]
pub(super) struct Noting(*const Pool);

rdma::argument! {
    /// The value that `Region::give` wrote.
    impl Noting = |pool: Passed<bindings::ib_frmr_pool>| Noting(pool.as_ptr().cast());
}

impl rdma::edge::IntoC<*mut bindings::ib_frmr_pool> for Noting {
    fn into_c(self) -> *mut bindings::ib_frmr_pool {
        self.0.cast_mut().cast()
    }
}

/// A region with a handle. Its device's pools are not cleaned up meanwhile.
pub(super) struct Served<'a>(&'a Region);

rdma::argument! {
    /// A region that [`Region::give`] assigned a handle to, of a device whose pools are not cleaned
    /// up meanwhile (`frmr_pools.h`).
    impl<'a> Served<'a> = |region: &'a Region| Served(region);
}

impl Served<'_> {
    /// The handle.
    pub(super) fn handle(&self) -> u32 {
        self.0.handle()
    }

    /// Pool of the handle.
    pub(super) fn pool(&self) -> ManuallyDrop<Arc<Pool>> {
        // SAFETY: The region has a handle, so its pool is a `Member` (`Noting`), which is in an
        // `Arc`, and no cleanup runs (contract of the type). The reference is the tree's and is not
        // dropped here.
        ManuallyDrop::new(unsafe { Arc::from_raw(self.0.pool().0) })
    }
}
