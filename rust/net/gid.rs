// SPDX-License-Identifier: GPL-2.0

//! References to entries of a device's GID table.
//!
//! An entry that is deleted keeps its contents, but not its network device, until
//! the last reference is gone. The entry's device must outlive the reference,
//! which is why one is best held for a short time only.
//!
//! C headers: `include/rdma/ib_cache.h`, `struct ib_gid_attr` in
//! `include/rdma/ib_verbs.h`.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::rcu;

use super::addr::gid_to_ip;
use super::device::NetDevice;
use crate::bindings;
use crate::provider::device::Live;
use crate::provider::Provider;

/// How packets with a GID look on the wire (`enum rdma_network_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkType {
    /// InfiniBand.
    Infiniband,
    /// RoCE version 1: a GRH in an Ethernet frame.
    RoceV1,
    /// RoCEv2 over IPv4.
    Ipv4,
    /// RoCEv2 over IPv6.
    Ipv6,
}

/// A reference to an entry of a GID table.
///
/// # Invariants
///
/// The pointer is valid and owns one reference to its entry, whose device outlives it.
#[repr(transparent)]
pub struct GidAttr(NonNull<bindings::ib_gid_attr>);

// SAFETY: Entries are counted atomically and do not change while referenced, save the
// network device, which is read under RCU.
unsafe impl Send for GidAttr {}
// SAFETY: See `Send`.
unsafe impl Sync for GidAttr {}

impl GidAttr {
    /// The entry that a field of a C structure refers to; `None` if the field is null.
    ///
    /// # Safety
    ///
    /// The field is null or holds a reference as the type invariant says, and does not change for
    /// `'a`.
    #[inline]
    pub(crate) unsafe fn of_field<'a>(field: &'a *const bindings::ib_gid_attr) -> Option<&'a Self> {
        if field.is_null() {
            return None;
        }
        // SAFETY: The type is transparent over a pointer that is not null, and the field fulfils
        // its invariant (contract). The result is borrowed, so that the reference stays the field's.
        Some(unsafe { &*core::ptr::from_ref(field).cast() })
    }

    #[inline]
    fn get_ref(&self) -> &bindings::ib_gid_attr {
        // SAFETY: By the type invariant. No field but `ndev`, which is only read through
        // C, changes while the entry is referenced.
        unsafe { self.0.as_ref() }
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *const bindings::ib_gid_attr {
        self.0.as_ptr()
    }

    /// The GID.
    #[inline]
    pub fn gid(&self) -> [u8; 16] {
        // SAFETY: All variants of the union are 16 plain bytes.
        unsafe { *self.get_ref().gid.raw }
    }

    /// Index in the table.
    #[inline]
    pub fn index(&self) -> u16 {
        self.get_ref().index
    }

    /// How packets with this GID look.
    #[inline]
    pub fn network_type(&self) -> NetworkType {
        match self.get_ref().gid_type {
            bindings::ib_gid_type_IB_GID_TYPE_IB => NetworkType::Infiniband,
            bindings::ib_gid_type_IB_GID_TYPE_ROCE => NetworkType::RoceV1,
            _ if gid_to_ip(&self.gid()).is_ipv4() => NetworkType::Ipv4,
            _ => NetworkType::Ipv6,
        }
    }

    /// The network device whose address the GID is.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the entry has been deleted, `ENODEV` if it has no device.
    #[inline]
    pub fn ndev<'a>(&self, _rcu: &'a rcu::Guard) -> Result<&'a NetDevice> {
        // SAFETY: By the type invariant; we are in a read-side section.
        let ndev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(self.0.as_ptr()) })?;
        // SAFETY: RCU protects the device while the guard lives.
        Ok(unsafe { NetDevice::from_raw(ndev) })
    }
}

/// A reference to an entry of a device that stays registered meanwhile. It is to be held briefly, as
/// a [`Live`] is.
pub struct LiveGid<'a, P: Provider> {
    // Dropped in this order: the device outlives the reference to the entry.
    entry: GidAttr,
    _live: Live<'a, P>,
}

impl<'a, P: Provider> LiveGid<'a, P> {
    /// The entry at `index` of `port`'s table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port or entry, or the entry is empty.
    #[inline]
    pub fn get(live: Live<'a, P>, port: u32, index: u8) -> Result<Self> {
        // SAFETY: The device is registered while `live` exists.
        let attr = unsafe { bindings::rdma_get_gid_attr(live.as_raw(), port, index.into()) };
        let attr = from_err_ptr(attr.cast_mut())?;
        // INVARIANT: `rdma_get_gid_attr` took a reference, and the device outlives it by `live`.
        let entry = NonNull::new(attr).map(GidAttr).ok_or(EINVAL)?;
        Ok(Self { entry, _live: live })
    }

    /// The entry for `gid` on `port`, of RoCEv2 type. Any context.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    #[inline]
    pub fn find(live: Live<'a, P>, port: u32, gid: &[u8; 16]) -> Result<Self> {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(*gid),
        };
        // SAFETY: The device is registered while `live` exists; the GID lives for the call.
        let attr = unsafe {
            bindings::rdma_find_gid_by_port(
                live.as_raw(),
                &gid,
                bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
                port,
                core::ptr::null_mut(),
            )
        };
        let attr = from_err_ptr(attr.cast_mut())?;
        // INVARIANT: `rdma_find_gid_by_port` took a reference, and the device outlives it by `live`.
        let entry = NonNull::new(attr).map(GidAttr).ok_or(ENOENT)?;
        Ok(Self { entry, _live: live })
    }
}

impl<P: Provider> Deref for LiveGid<'_, P> {
    type Target = GidAttr;

    #[inline]
    fn deref(&self) -> &GidAttr {
        &self.entry
    }
}

impl Drop for GidAttr {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the reference is ours to give up.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}
