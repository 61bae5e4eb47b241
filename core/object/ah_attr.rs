// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`), and the references to local GIDs in them.
//!
//! A vector names its local GID by an index. Before a driver sees the vector, the GID of that
//! index is looked up and held, so that it stays what it is meanwhile ([`Filled`]). What is
//! made with the vector holds it on ([`Filled::hold_for`]).

use super::edge::Out;
use super::tables::AhAttr;
use super::tables::GidAttr;
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

/// What the core does with a field that owns a reference to a GID.
pub(crate) trait Replace {
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
    /// `EINVAL` for a vector that does not fit, and those of [`gid::get_ref`].
    pub(crate) fn new(device: &Device, attr: &'a AhAttr) -> Result<Self> {
        check(device, attr)?;
        let fill = attr.has_grh() && attr.gid().is_none();
        if fill {
            let gid = gid::get_ref(device, attr.port_num(), attr.sgid_index().into())?;
            attr.sgid_attr().replace(Some(gid));
        }
        // INVARIANT: As just done; a reference that was there before is held by the caller.
        Ok(Self { attr, filled: fill })
    }

    /// The vector, to be given to the driver.
    pub(crate) fn attr(&self) -> &'a AhAttr {
        self.attr
    }

    /// Whether it is a vector for RoCE.
    pub(crate) fn is_roce(&self) -> bool {
        self.attr.is_roce()
    }

    /// The kind of vector.
    pub(crate) fn kind(&self) -> bindings::rdma_ah_attr_type {
        self.attr.kind()
    }

    /// The port that it is for.
    pub(crate) fn port(&self) -> u32 {
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

    /// A reference of its own for what is made with the vector, if it has a global route.
    pub(crate) fn hold_for(&self) -> Option<GidRef> {
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

/// Sets the global route of a vector that holds no GID; the vector takes the reference to one
/// over. Without `destination` that stays as it is.
pub(crate) fn set_route(
    attr: &AhAttr,
    destination: Option<Gid>,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    gid: GidRef,
) {
    // CAST: a flag of eight.
    attr.set_ah_flags(bindings::ib_ah_flags_IB_AH_GRH as u8);
    if let Some(destination) = destination {
        attr.set_destination(destination.0);
    }
    attr.set_flow_label(flow_label);
    // CAST: Vectors have no room for more; a vector names one of the first 256 entries of a table.
    attr.set_sgid_index(gid.attr().index() as u8);
    attr.set_hop_limit(hop_limit);
    attr.set_traffic_class(traffic_class);
    attr.sgid_attr().replace(Some(gid));
}

fn copy(dest: Out<'_, AhAttr>, src: In<'_, AhAttr>) {
    replace(&dest, src);
}

fn replace(old: &AhAttr, new: In<'_, AhAttr>) {
    // Held before the old one is given up, should both be one.
    let gid = new.gid().map(GidRef::hold);
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
    /// Copies a vector over one that holds nothing; the copy holds the GID too. Any context.
    fn rdma_copy_ah_attr(dest: Out<'_, AhAttr>, src: In<'_, AhAttr>) = copy;
    /// Copies a vector over one that may hold a GID, which it gives up. Any context.
    fn rdma_replace_ah_attr(old: &AhAttr, new: In<'_, AhAttr>) = replace;
    /// Moves a vector over one that may hold a GID; `src` holds nothing any more. Any context.
    fn rdma_move_ah_attr(dest: &AhAttr, src: &AhAttr) = take_over;
    /// Sets the global route of a vector that holds no GID; it takes over the reference to the
    /// GID. Any context.
    fn rdma_move_grh_sgid_attr(
        attr: Out<'_, AhAttr>, dgid: MaybeGid, flow_label: u32, hop_limit: u8,
        traffic_class: u8, sgid_attr: GidRef,
    ) = move_route;
    /// Gives up the GID that a vector holds, if any. Any context.
    fn rdma_destroy_ah_attr(attr: &AhAttr) = destroy;
}
