// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`), and their references to local GIDs.
//!
//! An address vector has the index of its local GID. Before the vector is passed to a driver, the
//! core looks up the GID of that index and stores a reference in the vector, so that the entry does
//! not change during the call ([`Filled`]). An object that is created with the vector takes its own
//! reference ([`Filled::gid`]).

use super::edge::Out;
use super::tables::AhAttr;
use crate::device::Caps;
use crate::device::Device;
use crate::gid;
use crate::gid::edge::MaybeGid;
use crate::gid::GidRef;
use crate::proto::gid::Gid;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::GidSlot;
use rdma::edge::In;

/// Operation on a field that owns a reference to a GID.
pub(crate) trait Replace {
    /// Stores another reference, and drops the old one.
    fn replace(&self, new: Option<GidRef>);
}

impl Replace for GidSlot {
    fn replace(&self, new: Option<GidRef>) {
        drop(self.put(new.map(GidRef::into_owned)).map(GidRef::of));
    }
}

/// Accessors of address vectors.
pub(crate) trait Vector {
    /// Returns whether the vector has a global route (GRH).
    fn has_grh(&self) -> bool;
    /// Returns whether this is a RoCE address vector.
    fn is_roce(&self) -> bool;
}

impl Vector for AhAttr {
    fn has_grh(&self) -> bool {
        u32::from(self.ah_flags()) & bindings::ib_ah_flags_IB_AH_GRH != 0
    }

    fn is_roce(&self) -> bool {
        self.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
    }
}

/// Checks whether a vector is valid for the device.
fn check(device: &Device, attr: &AhAttr) -> Result {
    let port = attr.port_num();
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    if (attr.is_roce() || Caps::of(device, port).needs_grh()) && !attr.has_grh() {
        return Err(EINVAL);
    }
    if let Some(gid) = GidRef::of_vector(attr) {
        let gid = gid.attr();
        if gid.index() != u16::from(attr.sgid_index()) || gid.port_num() != port {
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// A checked vector. If it has a global route, it contains a reference to its local GID. Dropping
/// this removes a reference that [`new`](Self::new) stored.
///
/// # Invariants
///
/// Nobody else changes the reference in the vector. If `filled`, it is owned by `self`. If the
/// vector has a global route, it contains a valid reference to a GID.
pub(crate) struct Filled<'a> {
    attr: &'a AhAttr,
    filled: bool,
}

impl<'a> Filled<'a> {
    /// Checks the vector, and looks up its local GID. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the vector is not valid for the device; errors of [`gid::get_ref`].
    pub(crate) fn new(device: &Device, attr: &'a AhAttr) -> Result<Self> {
        check(device, attr)?;
        let fill = attr.has_grh() && attr.sgid_attr().is_empty();
        if fill {
            let gid = gid::get_ref(device, attr.port_num(), attr.sgid_index().into())?;
            attr.sgid_attr().replace(Some(gid));
        }
        // INVARIANT: A missing reference was just stored; the caller keeps one that was there
        // before.
        Ok(Self { attr, filled: fill })
    }

    /// The vector, for the driver.
    pub(crate) fn attr(&self) -> &'a AhAttr {
        self.attr
    }

    /// Returns whether this is a RoCE address vector.
    pub(crate) fn is_roce(&self) -> bool {
        self.attr.is_roce()
    }

    /// Type of the vector.
    pub(crate) fn kind(&self) -> bindings::rdma_ah_attr_type {
        self.attr.kind()
    }

    /// Port number.
    pub(crate) fn port(&self) -> u32 {
        self.attr.port_num()
    }

    /// Destination GID.
    pub(crate) fn destination(&self) -> [u8; 16] {
        self.attr.destination()
    }

    /// Flow label; 0 for none.
    pub(crate) fn flow_label(&self) -> u32 {
        self.attr.flow_label()
    }

    /// Destination MAC address of a RoCE vector.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.attr.mac()
    }

    /// Sets the destination MAC address of a RoCE vector.
    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        self.attr.set_mac(mac);
    }

    /// Sets the hop limit.
    pub(crate) fn set_hop_limit(&mut self, limit: u8) {
        self.attr.set_hop_limit(limit);
    }

    /// Takes a reference to the local GID; `None` if the vector has no global route.
    pub(crate) fn gid(&self) -> Option<GidRef> {
        GidRef::of_vector(self.attr).filter(|_| self.attr.has_grh())
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        if self.filled {
            self.attr.sgid_attr().replace(None);
        }
    }
}

/// Sets the global route of a vector without a GID reference, and passes the reference `gid` to it.
/// `None` as `destination` keeps the destination GID.
pub(crate) fn set_route(
    attr: &AhAttr,
    destination: Option<Gid>,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    gid: GidRef,
) {
    // CAST: The flag has 8 bits.
    attr.set_ah_flags(bindings::ib_ah_flags_IB_AH_GRH as u8);
    if let Some(destination) = destination {
        attr.set_destination(destination.0);
    }
    attr.set_flow_label(flow_label);
    // CAST: The field has 8 bits, so vectors only support the first 256 entries of a table.
    attr.set_sgid_index(gid.attr().index() as u8);
    attr.set_hop_limit(hop_limit);
    attr.set_traffic_class(traffic_class);
    attr.sgid_attr().replace(Some(gid));
}

fn copy(dest: Out<'_, AhAttr>, src: In<'_, AhAttr>) {
    replace(&dest, src);
}

fn replace(old: &AhAttr, new: In<'_, AhAttr>) {
    // Take the new reference before dropping the old one: both may be to the same GID.
    let gid = GidRef::of_vector(&new);
    old.assign(&new);
    old.sgid_attr().replace(gid);
}

fn take_over(dest: &AhAttr, src: &AhAttr) {
    let gid = src.sgid_attr().put(None).map(GidRef::of);
    dest.assign(src);
    dest.sgid_attr().replace(gid);
}

fn move_route(
    attr: Out<'_, AhAttr>,
    MaybeGid(destination): MaybeGid,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    gid: GidRef,
) {
    set_route(
        &attr,
        destination,
        flow_label,
        hop_limit,
        traffic_class,
        gid,
    );
}

fn destroy(attr: &AhAttr) {
    attr.sgid_attr().replace(None);
}

rdma::export! { in rdma::bindings;
    /// Copies a vector to an uninitialised one. The copy has its own reference to the GID. Any
    /// context.
    fn rdma_copy_ah_attr(dest: Out<'_, AhAttr>, src: In<'_, AhAttr>) = copy;
    /// Copies a vector to an initialised one, whose GID reference is dropped. Any context.
    fn rdma_replace_ah_attr(old: &AhAttr, new: In<'_, AhAttr>) = replace;
    /// Moves a vector to an initialised one, whose GID reference is dropped. `src` has no GID
    /// reference afterwards. Any context.
    fn rdma_move_ah_attr(dest: &AhAttr, src: &AhAttr) = take_over;
    /// Sets the global route of a vector without a GID reference, and passes the reference
    /// `sgid_attr` to it. Any context.
    fn rdma_move_grh_sgid_attr(
        attr: Out<'_, AhAttr>, dgid: MaybeGid, flow_label: u32, hop_limit: u8,
        traffic_class: u8, sgid_attr: GidRef,
    ) = move_route;
    /// Drops the GID reference of a vector, if it has one. Any context.
    fn rdma_destroy_ah_attr(attr: &AhAttr) = destroy;
}
