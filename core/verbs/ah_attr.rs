// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`), and the references to local GIDs in them.
//!
//! A vector names its local GID by an index. Before a driver sees the vector, the GID of that
//! index is looked up and held, so that it stays what it is meanwhile ([`Filled`]). What is
//! made with the vector holds it on ([`Filled::hold_for`]).

use super::port::Caps;
use crate::device::Device;
use crate::errno::enodata;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use rdma::bindings;

/// A reference to an entry of a GID table, which stays as it is while it is held, though it
/// may be deleted from the table.
///
/// # Invariants
///
/// `0` is an entry of which a reference is ours.
pub(crate) struct GidRef(NonNull<bindings::ib_gid_attr>);

impl GidRef {
    /// The GID at an index of a port's table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODATA` if there is none.
    pub(crate) fn get(device: &Device, port: u32, index: u8) -> Result<Self> {
        // SAFETY: The device lives.
        let entry = unsafe { bindings::rdma_get_gid_attr(device.as_raw(), port, index.into()) };
        // SAFETY: An error, or a reference that is ours.
        unsafe { Self::from_result(entry) }
    }

    /// Takes over what a function of the GID tables returned.
    ///
    /// # Safety
    ///
    /// `entry` is an error pointer, or an entry with a reference that is the caller's.
    pub(crate) unsafe fn from_result(entry: *const bindings::ib_gid_attr) -> Result<Self> {
        let entry = from_err_ptr(entry.cast_mut())?;
        // INVARIANT: By this function's duty.
        NonNull::new(entry).map(Self).ok_or_else(enodata)
    }

    /// Another reference to an entry that somebody holds.
    ///
    /// # Safety
    ///
    /// `entry` is null or an entry that is held.
    pub(crate) unsafe fn hold(entry: *const bindings::ib_gid_attr) -> Option<Self> {
        let entry = NonNull::new(entry.cast_mut())?;
        // SAFETY: By this function's duty.
        unsafe { bindings::rdma_hold_gid_attr(entry.as_ptr()) };
        // INVARIANT: Just taken.
        Some(Self(entry))
    }

    /// Takes over a reference that C holds.
    ///
    /// # Safety
    ///
    /// `entry` is null, or an entry with a reference that is given to us.
    pub(crate) unsafe fn take(entry: *const bindings::ib_gid_attr) -> Option<Self> {
        // INVARIANT: By this function's duty.
        NonNull::new(entry.cast_mut()).map(Self)
    }

    /// Gives the reference to C.
    pub(crate) fn into_raw(self) -> *const bindings::ib_gid_attr {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for GidRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}

/// A place in a C structure that holds a reference to a GID, or null.
pub(super) struct GidSlot<'a>(&'a Atomic<*const bindings::ib_gid_attr>);

impl GidSlot<'_> {
    /// # Safety
    ///
    /// `place` is such a place, lives for the lifetime, and is changed only through this type.
    pub(super) unsafe fn new(place: *mut *const bindings::ib_gid_attr) -> Self {
        // SAFETY: By this function's duty.
        Self(unsafe { Atomic::from_ptr(place) })
    }

    /// Puts another reference in and gives up the one that was there. Of two that do so at
    /// once, each gives up a different one.
    pub(super) fn replace(&self, new: Option<GidRef>) {
        let new = new.map_or(core::ptr::null(), GidRef::into_raw);
        let old = self.0.xchg(new, Full);
        // SAFETY: The place held that reference, and nobody else took it out.
        drop(unsafe { GidRef::take(old) });
    }
}

fn has_grh(attr: &bindings::rdma_ah_attr) -> bool {
    u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0
}

/// Whether a vector fits the device.
fn check(device: &Device, attr: &bindings::rdma_ah_attr) -> Result {
    if !device.has_port(attr.port_num) {
        return Err(EINVAL);
    }
    let is_roce = attr.type_ == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
    if (is_roce || Caps::of(device, attr.port_num).needs_grh()) && !has_grh(attr) {
        return Err(EINVAL);
    }
    if let Some(gid) = NonNull::new(attr.grh.sgid_attr.cast_mut()) {
        // SAFETY: Whoever put the reference in holds it.
        let gid = unsafe { gid.as_ref() };
        if gid.index != u16::from(attr.grh.sgid_index) || gid.port_num != attr.port_num {
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// A checked vector with its local GID, if it has a global route. Dropping it leaves the
/// vector as it was: what was filled in here is taken out.
///
/// Drivers get the vector by pointer while this exists, so it is reached by pointer only.
///
/// # Invariants
///
/// `attr` is valid for `'a` and nobody else changes its references. If `filled`, the one in it
/// is ours. If the vector has a global route, there is a GID in it that is held.
pub(crate) struct Filled<'a> {
    attr: NonNull<bindings::rdma_ah_attr>,
    filled: bool,
    lender: PhantomData<&'a mut bindings::rdma_ah_attr>,
}

impl<'a> Filled<'a> {
    /// Checks the vector and looks its local GID up. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a vector that does not fit, and those of [`GidRef::get`].
    pub(super) fn new(device: &Device, attr: &'a mut bindings::rdma_ah_attr) -> Result<Self> {
        check(device, attr)?;
        let fill = has_grh(attr) && attr.grh.sgid_attr.is_null();
        if fill {
            let gid = GidRef::get(device, attr.port_num, attr.grh.sgid_index)?;
            attr.grh.sgid_attr = gid.into_raw();
        }
        // INVARIANT: As just done; a reference that was there before is held by the caller.
        Ok(Self {
            attr: NonNull::from(attr),
            filled: fill,
            lender: PhantomData,
        })
    }

    fn get(&self) -> &bindings::rdma_ah_attr {
        // SAFETY: By the type invariant. No driver is asked while the reference exists.
        unsafe { self.attr.as_ref() }
    }

    fn get_mut(&mut self) -> &mut bindings::rdma_ah_attr {
        // SAFETY: As above.
        unsafe { self.attr.as_mut() }
    }

    /// The vector, to be given to the driver.
    pub(super) fn as_raw(&self) -> *mut bindings::rdma_ah_attr {
        self.attr.as_ptr()
    }

    /// Whether it is a vector for RoCE.
    pub(crate) fn is_roce(&self) -> bool {
        self.get().type_ == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
    }

    /// The kind of vector.
    pub(super) fn ah_type(&self) -> bindings::rdma_ah_attr_type {
        self.get().type_
    }

    /// The port that it is for.
    pub(super) fn port(&self) -> u32 {
        self.get().port_num
    }

    /// The GID that it leads to.
    pub(crate) fn destination(&self) -> [u8; 16] {
        // SAFETY: All members of the union are plain bytes.
        unsafe { *self.get().grh.dgid.raw }
    }

    /// The label that tells flows apart; zero for none.
    pub(crate) fn flow_label(&self) -> u32 {
        self.get().grh.flow_label
    }

    /// The address on the link of a vector for RoCE.
    pub(crate) fn mac(&self) -> [u8; 6] {
        // SAFETY: All members of the union are plain bytes.
        unsafe { self.get().__bindgen_anon_1.roce.dmac }
    }

    /// Sets the address on the link of a vector for RoCE.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        let roce = bindings::roce_ah_attr { dmac: mac };
        self.get_mut().__bindgen_anon_1.roce = ManuallyDrop::new(roce);
    }

    /// Sets how many hops packets may go.
    pub(crate) fn set_hop_limit(&mut self, limit: u8) {
        self.get_mut().grh.hop_limit = limit;
    }

    /// The local GID.
    pub(crate) fn gid(&self) -> Option<&bindings::ib_gid_attr> {
        if !has_grh(self.get()) {
            return None;
        }
        // SAFETY: By the type invariant it is held.
        unsafe { self.get().grh.sgid_attr.as_ref() }
    }

    /// A reference of its own for what is made with the vector, if it has a global route.
    pub(super) fn hold_for(&self) -> Option<GidRef> {
        // SAFETY: By the type invariant it is held.
        self.gid().and_then(|gid| unsafe { GidRef::hold(gid) })
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        if self.filled {
            let attr = self.get_mut();
            let gid = core::mem::replace(&mut attr.grh.sgid_attr, core::ptr::null());
            // SAFETY: By the type invariant the reference is ours.
            drop(unsafe { GidRef::take(gid) });
        }
    }
}

rdma::exported!(
    rdma_copy_ah_attr,
    rdma_replace_ah_attr,
    rdma_move_ah_attr,
    rdma_move_grh_sgid_attr,
    rdma_destroy_ah_attr,
);

/// Copies a vector over one that holds nothing; the copy holds the GID too. Any context.
///
/// # Safety
///
/// Both are valid, and what `src` refers to is held.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_copy_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By this function's duty.
    unsafe {
        core::ptr::copy(src, dest, 1);
        if let Some(gid) = GidRef::hold((*dest).grh.sgid_attr) {
            let _: *const bindings::ib_gid_attr = gid.into_raw();
        }
    }
}

/// Copies a vector over one that may hold a GID, which it gives up first. Any context.
///
/// # Safety
///
/// As for [`rdma_copy_ah_attr`]; `old` is valid or all zeros.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_replace_ah_attr(
    old: *mut bindings::rdma_ah_attr,
    new: *const bindings::rdma_ah_attr,
) {
    // SAFETY: By this function's duty. Held before the old is given up, should both be one.
    unsafe {
        let before = GidRef::take((*old).grh.sgid_attr);
        rdma_copy_ah_attr(old, new);
        drop(before);
    }
}

/// Moves a vector over one that may hold a GID; `src` holds nothing any more. Any context.
///
/// # Safety
///
/// As for [`rdma_replace_ah_attr`]; the two are not one.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_move_ah_attr(
    dest: *mut bindings::rdma_ah_attr,
    src: *mut bindings::rdma_ah_attr,
) {
    // SAFETY: By this function's duty.
    unsafe {
        rdma_destroy_ah_attr(dest);
        core::ptr::copy(src, dest, 1);
        (*src).grh.sgid_attr = core::ptr::null();
    }
}

/// Sets the global route of a vector, which takes over the reference to the GID. Any context.
///
/// # Safety
///
/// All are valid, though `dgid` may be null; a reference to `sgid_attr` is the caller's.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_move_grh_sgid_attr(
    attr: *mut bindings::rdma_ah_attr,
    dgid: *mut bindings::ib_gid,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    sgid_attr: *const bindings::ib_gid_attr,
) {
    // SAFETY: By this function's duty.
    let (attr, dgid, index) = unsafe { (&mut *attr, dgid.as_ref(), (*sgid_attr).index) };
    attr.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
    if let Some(dgid) = dgid {
        // SAFETY: All members of the union are plain bytes.
        attr.grh.dgid.raw = unsafe { dgid.raw };
    }
    attr.grh.flow_label = flow_label;
    // Vectors have no room for more; GID tables have at most 256 entries that a vector names.
    attr.grh.sgid_index = index as u8;
    attr.grh.hop_limit = hop_limit;
    attr.grh.traffic_class = traffic_class;
    attr.grh.sgid_attr = sgid_attr;
}

/// Gives up the GID that a vector holds, if any; again, if one likes. Any context.
///
/// # Safety
///
/// `attr` is valid or all zeros.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_attr(attr: *mut bindings::rdma_ah_attr) {
    // SAFETY: By this function's duty.
    unsafe {
        drop(GidRef::take((*attr).grh.sgid_attr));
        (*attr).grh.sgid_attr = core::ptr::null();
    }
}
