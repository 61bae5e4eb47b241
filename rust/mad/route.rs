// SPDX-License-Identifier: GPL-2.0

//! Routes to a peer: address vectors that own their reference to the local GID.
//!
//! A [`Route`] is made of a received MAD, or of a path record ([`Path`]). It does not change; its
//! drop gives the GID reference back. The device is not removed before.
//!
//! C headers: `struct rdma_ah_attr` in `include/rdma/ib_verbs.h`, `struct sa_path_rec` in
//! `include/rdma/ib_sa.h`, `include/rdma/ib_cache.h`.

use super::Received;
use crate::bindings;
use crate::client::DeviceRef;
use crate::edge::verbs::AhAttr;
use crate::edge::verbs::GidAttr;
use crate::edge::View;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

/// What tells an address vector from others of the same device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key([u64; 6]);

impl Key {
    /// Mixes the words.
    pub(super) fn hash(&self) -> usize {
        /// 2^64 by the golden ratio, odd.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.0.iter().fold(0, |sum: u64, word| {
            let sum = (sum ^ word).wrapping_mul(FACTOR);
            sum ^ (sum >> 32)
        });
        // CAST: 64-bit kernels only.
        (mixed >> 8) as usize
    }
}

/// An address vector with its GID reference.
///
/// # Invariants
///
/// `attr` is initialised, was filled for `device` by a function that took a reference to its GID, if
/// it has one, and does not change. The C core frees a GID in a work item, which its table of the device
/// must outlive, and waits for these work items at the end of the device's removal: so the removal waits
/// for routes.
pub struct Route {
    attr: Opaque<bindings::rdma_ah_attr>,
    device: DeviceRef,
    port: u32,
    pkey_index: u16,
}

// SAFETY: It does not change (type invariant), and GID references may be put on any thread.
unsafe impl Send for Route {}
// SAFETY: As for `Send`: it does not change.
unsafe impl Sync for Route {}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: Initialised, and the reference to the GID is owned by this (type invariant).
        unsafe { bindings::rdma_destroy_ah_attr(self.attr.get()) };
    }
}

impl Route {
    /// Takes over an address vector that was filled for a device, and its reference to a GID.
    ///
    /// # Safety
    ///
    /// A function that takes a reference to the GID has filled the vector for this device.
    unsafe fn of(
        attr: MaybeUninit<bindings::rdma_ah_attr>,
        device: &DeviceRef,
        port: u32,
        pkey_index: u16,
    ) -> Self {
        // SAFETY: The vector is filled (contract of this function).
        let attr = unsafe { attr.assume_init() };
        // INVARIANT: Filled by such a function, for this device.
        Self {
            attr: Opaque::new(attr),
            device: device.clone(),
            port,
            pkey_index,
        }
    }

    /// Returns the route back to the sender of a MAD, which `device` has received. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is another device; `EINVAL`, `ENODEV` and others if there is no route.
    pub fn back(mad: &Received<'_>, device: &DeviceRef) -> Result<Self> {
        let mut attr = MaybeUninit::uninit();
        let agent = mad.agent.raw();
        // SAFETY: The agent exists during the call of the handler (invariant of `Received`).
        let (of, port) = unsafe { ((*agent).device, u32::from((*agent).port_num)) };
        if !ptr::eq(of, device.raw()) {
            return Err(EINVAL);
        }
        // SAFETY: Message and completion exist during the call of the handler (invariant of
        // `Received`), and the device does (`DeviceRef`). `attr` is a local.
        to_result(unsafe {
            bindings::ib_init_ah_attr_from_wc(
                device.raw(),
                port,
                mad.wc().raw(),
                (*mad.mad.0.as_ptr()).recv_buf.grh,
                attr.as_mut_ptr(),
            )
        })?;
        // SAFETY: The function succeeded, so it has filled the vector, with a reference.
        Ok(unsafe { Self::of(attr, device, port, mad.wc().pkey_index()) })
    }

    /// Returns the route along `path` from `port` of `device`. `gid` is the local GID, for RoCE. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no such port, or `gid` is one of another device; `ENOENT` if the port
    /// has no such P_Key, `ENODEV` and others if there is no such route.
    pub fn along(
        device: &DeviceRef,
        port: u32,
        path: &mut Path,
        gid: Option<&GidAttr>,
    ) -> Result<Self> {
        // The address vector refers to the GID as to one of the device's: drivers take its index, and
        // may look for their own data of it.
        if !device.ports().contains(&port) || gid.is_some_and(|gid| !gid.belongs_to(device.view()))
        {
            return Err(EINVAL);
        }
        let mut pkey_index = 0;
        let mut attr = MaybeUninit::uninit();
        // SAFETY: The device exists (`DeviceRef`), and has the port (checked above).
        to_result(unsafe {
            bindings::ib_find_cached_pkey(
                device.raw(),
                port,
                u16::from_be(path.0.pkey),
                &mut pkey_index,
            )
        })?;
        // SAFETY: As above; `path` is borrowed exclusively, `gid` is null or an entry that exists
        // during the call, `attr` is a local.
        to_result(unsafe {
            bindings::ib_init_ah_attr_from_path(
                device.raw(),
                port,
                &mut path.0,
                attr.as_mut_ptr(),
                gid.map_or(ptr::null(), |gid| gid.raw().cast_const()),
            )
        })?;
        // SAFETY: The function succeeded, so it has filled the vector, with a reference.
        Ok(unsafe { Self::of(attr, device, port, pkey_index) })
    }

    /// Returns whether it is a route of this device.
    pub(super) fn belongs_to(&self, device: *const bindings::ib_device) -> bool {
        ptr::eq(self.device.raw(), device)
    }

    /// Returns the address vector. Nobody may change it, nor use it longer than the route.
    pub(crate) fn raw(&self) -> *mut bindings::rdma_ah_attr {
        self.attr.get()
    }

    /// Calls `f` with the vector for MADs: that of a RoCE route has no flow label. The label spreads
    /// connections over the paths of a network, so that each would need an address handle of its own.
    pub(super) fn for_mads<T>(&self, f: impl FnOnce(*mut bindings::rdma_ah_attr) -> T) -> T {
        if !self.is_roce() {
            return f(self.raw());
        }
        // SAFETY: Initialised, and not changed (type invariant). The copy has no reference to the GID
        // of its own, and is not used longer than the route.
        let mut attr = unsafe { ptr::read(self.raw()) };
        attr.grh.flow_label = 0;
        f(&mut attr)
    }

    /// Returns what tells the vector [for MADs](Self::for_mads) from others of the device.
    pub(super) fn key(&self) -> Key {
        // SAFETY: Initialised, and not changed (type invariant); the kind says which member of the
        // unions is valid.
        unsafe {
            let attr = &*self.raw();
            let link = &attr.__bindgen_anon_1;
            let link = match attr.type_ {
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE => {
                    let [a, b, c, d, e, f] = link.roce.dmac;
                    u64::from_ne_bytes([a, b, c, d, e, f, 0, 0])
                }
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
                    let opa = &*link.opa;
                    u64::from(opa.dlid)
                        | u64::from(opa.src_path_bits) << 32
                        | u64::from(opa.make_grd) << 40
                }
                _ => u64::from(link.ib.dlid) | u64::from(link.ib.src_path_bits) << 32,
            };
            let grh = &attr.grh;
            let gid = u128::from_ne_bytes(*grh.dgid.raw);
            let label = if self.is_roce() { 0 } else { grh.flow_label };
            let [a, b, c, d] = label.to_ne_bytes();
            let route = [a, b, c, d, grh.sgid_index, grh.hop_limit, grh.traffic_class];
            let [a, b, c, d, e, f, g] = route;
            let rest = [attr.sl, attr.static_rate, attr.ah_flags];
            let [h, i, j] = rest;
            Key([
                // CAST: The lower half.
                gid as u64,
                // CAST: The upper half.
                (gid >> 64) as u64,
                // CAST: An address, for comparisons.
                grh.sgid_attr.addr() as u64,
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                u64::from(attr.port_num) << 32
                    | u64::from(attr.type_) << 16
                    | u64::from(i) << 8
                    | u64::from(j),
                link,
            ])
        }
    }

    /// Returns the local port.
    pub const fn port(&self) -> u32 {
        self.port
    }

    /// Returns the index of the P_Key in the port's table.
    pub const fn pkey_index(&self) -> u16 {
        self.pkey_index
    }

    /// Returns the kind of the vector (`enum rdma_ah_attr_type`).
    pub fn kind(&self) -> u32 {
        // SAFETY: Initialised, and not changed (type invariant).
        unsafe { (*self.raw()).type_ }
    }

    /// Returns whether it is a RoCE route.
    pub fn is_roce(&self) -> bool {
        self.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
    }

    /// Returns the destination LID; 0 for RoCE.
    pub fn dlid(&self) -> u32 {
        // SAFETY: Initialised, and not changed (type invariant); the kind says which member of the
        // union is valid, and all bytes of both are.
        unsafe {
            let link = &raw const (*self.raw()).__bindgen_anon_1;
            match self.kind() {
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
                    (*link.cast::<bindings::ib_ah_attr>()).dlid.into()
                }
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
                    (*link.cast::<bindings::opa_ah_attr>()).dlid
                }
                _ => 0,
            }
        }
    }

    /// Returns the destination MAC address of a RoCE route.
    pub fn dmac(&self) -> Option<[u8; 6]> {
        self.is_roce().then(|| {
            // SAFETY: Initialised, and not changed (type invariant); the kind says which member of
            // the union is valid.
            unsafe { (*self.raw()).__bindgen_anon_1.roce.dmac }
        })
    }

    /// Returns the hop limit; 0 without a GRH.
    pub fn hop_limit(&self) -> u8 {
        // SAFETY: Initialised, and not changed (type invariant).
        unsafe { (*self.raw()).grh.hop_limit }
    }

    /// Returns the destination GID; zero without a GRH.
    pub fn dgid(&self) -> [u8; 16] {
        // SAFETY: Initialised, and not changed (type invariant); all members of the union are bytes.
        unsafe { *(*self.raw()).grh.dgid.raw }
    }

    /// Returns the local GID, if any.
    pub fn gid(&self) -> Option<&GidAttr> {
        // SAFETY: Null, or an entry to which this has a reference (type invariant).
        unsafe { (*self.raw()).grh.sgid_attr.cast::<GidAttr>().as_ref() }
    }

    /// Copies the vector, without a reference to the GID of its own. A reference that was in `to`
    /// is overwritten.
    ///
    /// # Safety
    ///
    /// The copy is used only while the route exists, and its reference to the GID is not dropped.
    pub unsafe fn lend_to(&self, to: &AhAttr) {
        // SAFETY: Both are address vectors; this one does not change (type invariant), and the
        // other is used by the caller alone (`OfCall`).
        unsafe { ptr::copy(self.raw(), to.raw(), 1) };
    }
}

/// A path record (`struct sa_path_rec`), owned.
#[derive(Default)]
#[repr(transparent)]
pub struct Path(pub bindings::sa_path_rec);

impl Clone for Path {
    fn clone(&self) -> Self {
        // SAFETY: A structure of numbers.
        Self(unsafe { ptr::read(&self.0) })
    }
}

impl Path {
    /// Returns the type of the local GID (`enum ib_gid_type`).
    pub const fn gid_type(&self) -> u32 {
        match self.0.rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1 => {
                bindings::ib_gid_type_IB_GID_TYPE_ROCE
            }
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2 => {
                bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP
            }
            _ => bindings::ib_gid_type_IB_GID_TYPE_IB,
        }
    }

    /// Returns the packet life time (IBTA's exponent).
    pub const fn life_time(&self) -> u8 {
        self.0.packet_life_time
    }

    /// Sets the hop limit.
    pub const fn set_hop_limit(&mut self, limit: u8) {
        self.0.hop_limit = limit;
    }

    /// Returns the port of `device` that has the path's local GID. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    pub fn port_of(&self, device: &DeviceRef) -> Result<u32> {
        let kind = self.gid_type();
        let found = kernel::error::from_err_ptr(
            // SAFETY: The device exists (`DeviceRef`); the GID is copied.
            unsafe { bindings::rdma_find_gid(device.raw(), &self.0.sgid, kind, ptr::null_mut()) }
                .cast_mut(),
        )?;
        // SAFETY: An entry with a reference that belongs to this function, which puts it.
        unsafe {
            let port = (*found).port_num;
            bindings::rdma_put_gid_attr(found);
            Ok(port)
        }
    }
}
