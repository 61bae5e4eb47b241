// SPDX-License-Identifier: GPL-2.0

//! References to entries of a device's GID table.
//!
//! A deleted entry keeps its contents, except its network device, until the last reference is
//! dropped. The entry's device must outlive the reference, so hold one only briefly.
//!
//! C headers: `include/rdma/ib_cache.h`, `struct ib_gid_attr` in `include/rdma/ib_verbs.h`.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::rcu;

use super::addr::gid_to_ip;
use super::device::NetDevice;
use crate::bindings;
use crate::edge::verbs::GidAttr as Fields;
use crate::edge::View;
use crate::provider::device::Live;
use crate::provider::Provider;

/// Network type of a GID: the packet format (`enum rdma_network_type`).
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

// SAFETY: References are counted atomically, and an entry does not change while it is referenced,
// except its network device, which is read under RCU.
unsafe impl Send for GidAttr {}
// SAFETY: As for `Send`.
unsafe impl Sync for GidAttr {}

impl GidAttr {
    /// Returns the entry that a field of a C structure refers to; `None` if the field is null.
    ///
    /// # Safety
    ///
    /// The field must be null or hold a reference (see the type invariant), and must not change for
    /// `'a`.
    #[inline]
    pub(crate) unsafe fn of_field<'a>(field: &'a *const bindings::ib_gid_attr) -> Option<&'a Self> {
        if field.is_null() {
            return None;
        }
        // SAFETY: The type is transparent over a pointer that is not null, and the field fulfils
        // the type invariant (contract of this function). The result is borrowed, so the field
        // keeps its reference.
        Some(unsafe { &*core::ptr::from_ref(field).cast() })
    }

    /// Returns the fields of the C structure.
    #[inline(always)]
    fn c(&self) -> &Fields {
        // SAFETY: The entry exists while it is referenced (type invariant). The view makes no
        // reference to the C structure, whose network device changes.
        unsafe { Fields::view(self.0.as_ptr()) }
    }

    /// Returns the C structure, which exists as long as the reference.
    #[inline]
    pub fn as_raw(&self) -> *const bindings::ib_gid_attr {
        self.0.as_ptr()
    }

    /// Returns the GID.
    #[inline]
    pub fn gid(&self) -> [u8; 16] {
        self.c().gid()
    }

    /// Returns the index in the table.
    #[inline]
    pub fn index(&self) -> u16 {
        self.c().index()
    }

    /// Returns the format of packets with this GID.
    #[inline]
    pub fn network_type(&self) -> NetworkType {
        match self.c().gid_type() {
            bindings::ib_gid_type_IB_GID_TYPE_IB => NetworkType::Infiniband,
            bindings::ib_gid_type_IB_GID_TYPE_ROCE => NetworkType::RoceV1,
            _ if gid_to_ip(&self.gid()).is_ipv4() => NetworkType::Ipv4,
            _ => NetworkType::Ipv6,
        }
    }

    /// Returns the network device that has the address.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the entry has been deleted, `ENODEV` if it has no device.
    #[inline]
    pub fn ndev<'a>(&self, _rcu: &'a rcu::Guard) -> Result<&'a NetDevice> {
        // SAFETY: The entry exists while it is referenced (type invariant), and RCU is held.
        let ndev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(self.0.as_ptr()) })?;
        // SAFETY: RCU keeps the device while the guard exists.
        Ok(unsafe { NetDevice::from_raw(ndev) })
    }
}

/// A reference to an entry of a device that stays registered as long. Hold it only briefly, like a
/// [`Live`].
pub struct LiveGid<'a, P: Provider> {
    // Dropped in this order: the device must outlive the reference to the entry.
    entry: GidAttr,
    _live: Live<'a, P>,
}

impl<'a, P: Provider> LiveGid<'a, P> {
    /// Looks up the entry at `index` of the table of `port`. Any context.
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

    /// Looks up the RoCEv2 entry with `gid` on `port`. Any context.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    #[inline]
    pub fn find(live: Live<'a, P>, port: u32, gid: &[u8; 16]) -> Result<Self> {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(*gid),
        };
        // SAFETY: The device is registered while `live` exists; the GID outlives the call.
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
        // SAFETY: The reference is owned (type invariant), and passed to the function.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}
