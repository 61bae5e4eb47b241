// SPDX-License-Identifier: GPL-2.0

//! Kinds of devices that are made on network devices: `rdma link add` and `delete`.
//!
//! Drivers register what makes them. The list is guarded by a lock (2 of the plan of locks), which
//! is held for reading while a driver makes a device.

use super::edge;
use super::edge::Kind;
use super::edge::Kinds;
use super::edge::LinkOps;
use super::edge::Links;
use super::request::Request;
use super::request::Text;
use crate::device;
use crate::proto::nla::Strictness;
use crate::proto::nldev::Attr;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::DeviceName;
use rdma::sync::StaticRwSem;

/// Bytes of a device's name at most, its end included.
pub(super) const NAME_LEN: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// Taken for writing while a driver is asked to delete a device: one at a time.
static DELETING: StaticRwSem<()> = StaticRwSem::new(());

static KINDS: StaticRwSem<Kinds> = StaticRwSem::new(Kinds::new());

/// Makes the list usable. Called when the module is loaded.
pub(super) fn init() {
    KINDS.init(c"LinkTypes::ops", kernel::static_lock_class!());
    DELETING.init(c"DELETING", kernel::static_lock_class!());
}

/// The kind of a name.
fn find<'a>(kinds: &'a Kinds, name: &CStr) -> Option<&'a LinkOps> {
    kinds.iter().find(|ops| ops.name() == name)
}

/// `RDMA_NLDEV_CMD_NEWLINK`: a device of a kind on a network device of the sender's namespace. The
/// driver's module is loaded if need be.
pub(super) fn new(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = Text::<NAME_LEN>::of(&attrs, Attr::DevName).ok_or(EINVAL)?;
    let kind = Text::<{ DeviceName::LEN }>::of(&attrs, Attr::LinkType).ok_or(EINVAL)?;
    let netdev = Text::<{ DeviceName::LEN }>::of(&attrs, Attr::NdevName).ok_or(EINVAL)?;
    if device.as_bytes().is_empty() || device.as_bytes().contains(&b'%') {
        return Err(EINVAL);
    }
    let message = request.message();
    let netdev = message.netdev(netdev.as_cstr()).ok_or(ENODEV)?;

    let mut kinds = KINDS.read().ok_or(EINVAL)?;
    if find(&kinds, kind.as_cstr()).is_none() {
        // The module registers the kind, and takes the lock for that.
        drop(kinds);
        edge::request_kind(kind.as_cstr());
        kinds = KINDS.read().ok_or(EINVAL)?;
    }
    let ops = find(&kinds, kind.as_cstr()).ok_or(EINVAL)?;
    let made = ops.newlink(device.as_cstr(), &netdev);
    made.unwrap_or(Err(EINVAL))
}

/// `RDMA_NLDEV_CMD_DELLINK`: unregisters a device whose driver lets users do so.
pub(super) fn delete(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = request.device(&attrs)?;
    let allowed = u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
    if device.kernel_caps() & allowed == 0 {
        return Err(EINVAL);
    }
    if let Some(ops) = Links::of(&device).link_ops() {
        let _one = DELETING.write();
        if let Some(asked) = ops.dellink(&device) {
            asked?;
        }
    }
    device::unregister(device);
    Ok(())
}

/// Adds a kind of devices. May sleep. Warns, and does nothing, if the name is taken.
fn register(kind: Kind) {
    let added = KINDS.write().map(|mut kinds| kinds.add(kind));
    kernel::warn_on!(added == Some(false));
}

/// Removes a kind of devices, when none is being made. May sleep.
fn unregister(kind: Kind) {
    if let Some(mut kinds) = KINDS.write() {
        kinds.remove(&kind);
    }
}

rdma::export! {
    in rdma::bindings;

    /// See [`register`].
    fn rdma_link_register(kind: Kind) = register;
    /// See [`unregister`].
    fn rdma_link_unregister(kind: Kind) = unregister;
}
