// SPDX-License-Identifier: GPL-2.0

//! Pools of regions as C has them: the driver's functions, and what drivers see of a pool.
//!
//! To be held against `include/rdma/frmr_pools.h`, and `frmr` of `struct ib_mr` and `frmr_pools` of
//! `struct ib_device` in `include/rdma/ib_verbs.h`.

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

    /// Whether regions of the device may have these rights (`IB_ACCESS_...`).
    fn check_mr_access(device: &Device, access: u32) -> Result = rdma_helper_ib_check_mr_access;
}

rdma::c_struct! {
    /// A kind of region, as drivers name it.
    struct CKey: bindings::ib_frmr_key;
    fields {
        /// The driver's own distinction.
        const vendor_key: u64;
        /// As that, for regions of the kernel's.
        const kernel_vendor_key: u64;
        /// The blocks of memory that it can have.
        const num_dma_blocks: usize;
        /// What may be done with it.
        const access_flags: c_int;
        /// Whether the device translates addresses itself.
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

/// The device of pools.
///
/// # Invariants
///
/// `0` is a device that exists until its pools are cleaned up.
#[derive(Clone, Copy)]
pub(super) struct Host(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Host {}
// SAFETY: See `Send`.
unsafe impl Sync for Host {}

rdma::argument! {
    /// Drivers clean the pools up before they free the device (`frmr_pools.h`).
    impl Host = |device: &'static Device| Host(NonNull::from(device));
}

impl Deref for Host {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: The device exists as long as its pools: type invariant.
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
/// They may be called, for the device that they were passed with, until its pools are cleaned up.
pub(super) struct PoolOps {
    create: Option<Create>,
    destroy: Option<Destroy>,
    build: Option<Build>,
}

rdma::c_struct! {
    /// The same, as the driver has it.
    pub(super) struct PoolMethods: bindings::ib_frmr_pool_ops;
    fields {
        /// Makes handles.
        const create at create_frmrs: Option<Create>;
        /// Ends handles.
        const destroy at destroy_frmrs: Option<Destroy>;
        /// Rounds a key.
        const build at build_key: Option<Build>;
    }
}

rdma::argument! {
    /// A constant table, as its declaration says, whose functions keep to the type invariant
    /// (`ib_frmr_pools_init`).
    impl PoolOps = |methods: In<'static, PoolMethods>| PoolOps {
        create: methods.create(),
        destroy: methods.destroy(),
        build: methods.build(),
    };
}

/// The driver's part of a device's pools.
///
/// # Invariants
///
/// The functions are those of the device's driver, and may be called as long as the value exists.
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
    /// `EINVAL` if the driver cannot create or destroy.
    pub(super) fn new(device: Host, ops: &PoolOps) -> Result<Self> {
        // INVARIANT: They were passed with the device: invariant of `PoolOps`.
        Ok(Self {
            device,
            create: ops.create.ok_or(EINVAL)?,
            destroy: ops.destroy.ok_or(EINVAL)?,
            build: ops.build,
        })
    }

    /// Fills `handles`. May sleep.
    pub(super) fn create(&self, key: Key, handles: &mut [u32]) -> Result {
        let mut key = key.into();
        let count = u32::try_from(handles.len())?;
        let to = handles.as_mut_ptr();
        // SAFETY: The driver's function (type invariant); there is room for as many handles.
        to_result(unsafe { (self.create)(self.device.as_raw(), &mut key, to, count) })
    }

    /// Destroys handles, which are in no pool any more, at most 2^32 at once. May sleep.
    pub(super) fn destroy(&self, handles: &mut [u32]) {
        let count = u32::try_from(handles.len()).unwrap_or(u32::MAX);
        if count != 0 {
            // SAFETY: The driver's function (type invariant); there are as many handles.
            unsafe { (self.destroy)(self.device.as_raw(), handles.as_mut_ptr(), count) };
        }
    }

    /// The kind that the driver makes of what an administrator names.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(super) fn key_of(&self, key: Key) -> Result<Key> {
        let Some(build) = self.build else {
            return Ok(key);
        };
        let mut built = bindings::ib_frmr_key::default();
        // SAFETY: The driver's function (type invariant); both are ours. What it has filled is a kind.
        unsafe {
            to_result(build(self.device.as_raw(), &key.into(), &mut built))?;
            Ok(CKey::view(&mut built).into())
        }
    }

    /// Whether regions may have the rights of a kind.
    ///
    /// # Errors
    ///
    /// `EINVAL` for rights that do not go together, or that the device does not know.
    pub(super) fn check_access(&self, key: Key) -> Result {
        // CAST: flags.
        check_mr_access(&self.device, key.access as u32)
    }
}

rdma::c_struct! {
    /// What a device keeps of its pools for the functions that drivers call often.
    pub(super) struct Noted: bindings::ib_device;
    fields {
        /// The pools, which the device's slot owns; null before the start and after the clean-up.
        racy frmr_pools: *mut bindings::ib_frmr_pools, set_frmr_pools;
    }
}

impl Noted {
    fn of(device: &Device) -> &Self {
        // SAFETY: Another view of the same structure.
        unsafe { Self::view(device.as_raw()) }
    }
}

/// Notes the pools of a device, or that there are none.
pub(super) fn note(device: &Device, pools: Option<&Arc<Pools>>) {
    let pools = pools.map_or(core::ptr::null(), Arc::as_ptr);
    Noted::of(device).set_frmr_pools(pools.cast_mut().cast());
}

/// A device whose pools are not being made or cleaned up.
pub(super) struct Serving<'a>(&'a Noted);

rdma::argument! {
    /// A device of the driver, which calls this neither before it has made the pools nor while it
    /// makes or cleans them up (`frmr_pools.h`).
    impl<'a> Serving<'a> = |device: &'a Noted| Serving(device);
}

impl Serving<'_> {
    /// The pools, if it has some.
    pub(super) fn pools(&self) -> Option<&Pools> {
        // SAFETY: Null, or what `note` noted; the device's slot owns it until the clean-up, which does
        // not run meanwhile: promise of the type.
        unsafe { self.0.frmr_pools().cast::<Pools>().as_ref() }
    }
}

rdma::c_struct! {
    /// What a region has of its pool (`ib_mr.frmr`).
    pub(super) struct Region: bindings::ib_mr;
    fields {
        /// The kind that it is to be of. The driver writes it before it asks for a handle.
        embed c_key at frmr.key: CKey;
        /// Its handle.
        const handle at frmr.handle: u32, set_handle;
        /// The pool of the handle.
        const pool at frmr.pool: Noting, set_pool;
    }
}

impl Region {
    /// The kind that it is to be of.
    pub(super) fn key(&self) -> Key {
        self.c_key().into()
    }

    /// Notes the handle that it has got of a pool.
    pub(super) fn give(this: &mut impl Writer<Of = Self>, pool: &Member, handle: u32) {
        Self::set_handle(this, handle);
        Self::set_pool(this, Noting(Arc::as_ptr(pool)));
    }
}

/// A pool as a region notes it: not counted.
///
/// # Invariants
///
/// It was a [`Member`], so that it is there until the pools of its device are cleaned up.
#[derive(Clone, Copy)]
pub(super) struct Noting(*const Pool);

rdma::argument! {
    /// What `Region::give` wrote.
    impl Noting = |pool: Passed<bindings::ib_frmr_pool>| Noting(pool.as_ptr().cast());
}

impl rdma::edge::IntoC<*mut bindings::ib_frmr_pool> for Noting {
    fn into_c(self) -> *mut bindings::ib_frmr_pool {
        self.0.cast_mut().cast()
    }
}

/// A region that has a handle, while its device's pools are not cleaned up.
pub(super) struct Served<'a>(&'a Region);

rdma::argument! {
    /// A region that got a handle here, of a device whose pools are not cleaned up meanwhile
    /// (`frmr_pools.h`).
    impl<'a> Served<'a> = |region: &'a Region| Served(region);
}

impl Served<'_> {
    /// The handle.
    pub(super) fn handle(&self) -> u32 {
        self.0.handle()
    }

    /// Its pool.
    pub(super) fn pool(&self) -> ManuallyDrop<Arc<Pool>> {
        // SAFETY: The region has a handle, so its pool is a `Member`'s (`Noting`), which lives in an
        // `Arc`, and the clean-up does not run: promise of the type. The reference is the tree's, and
        // not dropped here.
        ManuallyDrop::new(unsafe { Arc::from_raw(self.0.pool().0) })
    }
}
