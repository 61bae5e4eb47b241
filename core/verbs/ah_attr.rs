// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`), and the references to local GIDs in them.
//!
//! A vector names its local GID by an index. Before a driver sees the vector, the GID of that
//! index is looked up and held, so that it stays what it is meanwhile ([`Filled`]). What is
//! made with the vector holds it on ([`Filled::hold_for`]).

use super::object::Owned;
use super::port::Caps;
use super::tables::AhAttr;
use super::tables::GidAttr;
use super::tables::QpAttr;
use crate::device::Device;
use crate::errno::enodata;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::GidSlot;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;

/// A reference to an entry of a GID table. The entry does not change while it is held, though it
/// may be deleted from the table.
pub(crate) struct GidRef(ManuallyDrop<Owned<GidAttr>>);

impl GidRef {
    /// The GID at an index of a port's table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODATA` if there is none.
    pub(crate) fn get(device: &Device, port: u32, index: u8) -> Result<Self> {
        // SAFETY: The device lives.
        let entry = unsafe { bindings::rdma_get_gid_attr(device.as_raw(), port, index.into()) };
        // SAFETY: `rdma_get_gid_attr` returns an error, or a reference that is the caller's.
        unsafe { Self::from_result(entry) }
    }

    /// Takes over what a function of the GID tables returned.
    ///
    /// # Safety
    ///
    /// `entry` is an error pointer, or an entry with a reference that is the caller's.
    pub(crate) unsafe fn from_result(entry: *const bindings::ib_gid_attr) -> Result<Self> {
        let entry = from_err_ptr(entry.cast_mut())?;
        let entry = NonNull::new(entry).ok_or_else(enodata)?;
        // SAFETY: The caller owns the reference.
        Ok(Self::of(unsafe { Owned::new(entry) }))
    }

    /// The reference that a field or C owned.
    pub(crate) fn of(owned: Owned<GidAttr>) -> Self {
        Self(ManuallyDrop::new(owned))
    }

    /// Another reference to an entry that somebody holds.
    pub(crate) fn hold(entry: &GidAttr) -> Self {
        // SAFETY: The view promises that the entry is there, which its holder's reference does.
        unsafe { bindings::rdma_hold_gid_attr(entry.raw()) };
        // SAFETY: The reference taken just now is ours.
        Self::of(unsafe { Owned::new(NonNull::from(entry).cast()) })
    }

    /// Takes over a reference that C holds.
    ///
    /// # Safety
    ///
    /// `entry` is null, or an entry with a reference that is given to us.
    pub(crate) unsafe fn take(entry: *const bindings::ib_gid_attr) -> Option<Self> {
        // SAFETY: The caller gives the reference.
        NonNull::new(entry.cast_mut()).map(|entry| Self::of(unsafe { Owned::new(entry) }))
    }

    /// Gives the reference to a field or C.
    pub(crate) fn into_owned(self) -> Owned<GidAttr> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped after.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Drop for GidRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, since we own it.
        unsafe { bindings::rdma_put_gid_attr(self.0.raw()) };
    }
}

/// What the core does with a field that owns a reference to a GID.
pub(super) trait Replace {
    /// Puts another reference in and gives up the one that was there.
    fn replace(&self, new: Option<GidRef>);
}

impl Replace for GidSlot {
    fn replace(&self, new: Option<GidRef>) {
        drop(self.put(new.map(GidRef::into_owned)).map(GidRef::of));
    }
}

/// What the core reads of an address vector and writes to it.
pub(crate) trait Vector {
    /// Whether it has a global route.
    fn has_grh(&self) -> bool;
    /// The local GID, if it is filled in. Whoever put the reference in holds it.
    fn gid(&self) -> Option<&GidAttr>;
    /// Whether it is a vector for RoCE.
    fn is_roce(&self) -> bool;
}

impl Vector for AhAttr {
    fn has_grh(&self) -> bool {
        u32::from(self.ah_flags()) & bindings::ib_ah_flags_IB_AH_GRH != 0
    }

    fn gid(&self) -> Option<&GidAttr> {
        self.sgid_attr().get()
    }

    fn is_roce(&self) -> bool {
        self.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
    }
}

/// A structure that C has filled, as far as it has, and that is to be filled by us: what it says
/// of references means nothing.
pub(crate) struct Out<'a, V>(&'a V);

impl<V> Deref for Out<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: It is of `'a`.
unsafe impl<'a, V> Within<'a> for Out<'a, V> where Self: FromC {}
// SAFETY: References are taken out before anybody sees the vector.
unsafe impl FromC for Out<'_, AhAttr> {
    type C = *mut bindings::rdma_ah_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: By this function's duty the memory is a vector's, of this call alone.
        unsafe {
            (*c).grh.sgid_attr = core::ptr::null();
            Self(AhAttr::view(c))
        }
    }
}

// SAFETY: As above.
unsafe impl FromC for Out<'_, QpAttr> {
    type C = *mut bindings::ib_qp_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: As above, both vectors.
        unsafe {
            (*c).ah_attr.grh.sgid_attr = core::ptr::null();
            (*c).alt_ah_attr.grh.sgid_attr = core::ptr::null();
            Self(QpAttr::view(c))
        }
    }
}

/// Whether a vector fits the device.
fn check(device: &Device, attr: &AhAttr) -> Result {
    let port = attr.port_num();
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    if (attr.is_roce() || Caps::of(device, port).needs_grh()) && !attr.has_grh() {
        return Err(EINVAL);
    }
    if let Some(gid) = attr.gid() {
        if gid.index() != u16::from(attr.sgid_index()) || gid.port_num() != port {
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// A checked vector with its local GID, if it has a global route. Dropping it leaves the
/// vector as it was: what was filled in here is taken out.
///
/// # Invariants
///
/// Nobody else changes the vector's reference. If `filled`, the one in it is ours. If the vector
/// has a global route, there is a GID in it that is held.
pub(crate) struct Filled<'a> {
    attr: &'a AhAttr,
    filled: bool,
}

impl<'a> Filled<'a> {
    /// Checks the vector and looks its local GID up. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a vector that does not fit, and those of [`GidRef::get`].
    pub(super) fn new(device: &Device, attr: &'a AhAttr) -> Result<Self> {
        check(device, attr)?;
        let fill = attr.has_grh() && attr.gid().is_none();
        if fill {
            let gid = GidRef::get(device, attr.port_num(), attr.sgid_index())?;
            attr.sgid_attr().replace(Some(gid));
        }
        // INVARIANT: As just done; a reference that was there before is held by the caller.
        Ok(Self { attr, filled: fill })
    }

    /// The vector, to be given to the driver.
    pub(super) fn attr(&self) -> &'a AhAttr {
        self.attr
    }

    /// Whether it is a vector for RoCE.
    pub(crate) fn is_roce(&self) -> bool {
        self.attr.is_roce()
    }

    /// The kind of vector.
    pub(super) fn kind(&self) -> bindings::rdma_ah_attr_type {
        self.attr.kind()
    }

    /// The port that it is for.
    pub(super) fn port(&self) -> u32 {
        self.attr.port_num()
    }

    /// The GID that it leads to.
    pub(crate) fn destination(&self) -> [u8; 16] {
        self.attr.destination()
    }

    /// The label that tells flows apart; zero for none.
    pub(crate) fn flow_label(&self) -> u32 {
        self.attr.flow_label()
    }

    /// The address on the link of a vector for RoCE.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.attr.mac()
    }

    /// Sets the address on the link of a vector for RoCE.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        self.attr.set_mac(mac);
    }

    /// Sets how many hops packets may go.
    pub(crate) fn set_hop_limit(&mut self, limit: u8) {
        self.attr.set_hop_limit(limit);
    }

    /// The local GID.
    pub(crate) fn gid(&self) -> Option<&GidAttr> {
        self.attr.gid().filter(|_| self.attr.has_grh())
    }

    /// The local GID, for users that read the C structure.
    pub(crate) fn gid_entry(&self) -> Option<&bindings::ib_gid_attr> {
        // SAFETY: The entry is held (type invariant), and does not change while it is.
        self.gid().map(|gid| unsafe { &*gid.raw() })
    }

    /// A reference of its own for what is made with the vector, if it has a global route.
    pub(super) fn hold_for(&self) -> Option<GidRef> {
        self.gid().map(GidRef::hold)
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        if self.filled {
            self.attr.sgid_attr().replace(None);
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
        if let Some(gid) = Option::<&GidAttr>::from_c((*dest).grh.sgid_attr.cast_mut()) {
            // The copy owns it.
            let _: Owned<GidAttr> = GidRef::hold(gid).into_owned();
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
