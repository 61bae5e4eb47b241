// SPDX-License-Identifier: GPL-2.0

//! Link types, which create devices on network devices: `rdma link add` and `delete`.
//!
//! Drivers register link types. The list has a lock (number 2 in `core_locking.md`), which is held
//! for reading while a driver creates a device.

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

/// Maximum size of a device name in bytes, with its NUL.
pub(super) const NAME_LEN: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// Held for writing while a driver deletes a device: serialises deletions.
static DELETING: StaticRwSem<()> = StaticRwSem::new(());

static KINDS: StaticRwSem<Kinds> = StaticRwSem::new(Kinds::new());

/// Initialises the locks. Called at module load.
pub(super) fn init() {
    KINDS.init(c"LinkTypes::ops", kernel::static_lock_class!());
    DELETING.init(c"DELETING", kernel::static_lock_class!());
}

/// Finds a link type by name.
fn find<'a>(kinds: &'a Kinds, name: &CStr) -> Option<&'a LinkOps> {
    kinds.iter().find(|ops| ops.name() == name)
}

/// `RDMA_NLDEV_CMD_NEWLINK`: creates a device of a link type on a network device of the sender's
/// namespace. Requests the driver's module if necessary.
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
        // The module takes the lock to register the link type.
        drop(kinds);
        edge::request_kind(kind.as_cstr());
        kinds = KINDS.read().ok_or(EINVAL)?;
    }
    let ops = find(&kinds, kind.as_cstr()).ok_or(EINVAL)?;
    let made = ops.newlink(device.as_cstr(), &netdev);
    made.unwrap_or(Err(EINVAL))
}

/// `RDMA_NLDEV_CMD_DELLINK`: unregisters a device, if its driver permits that to users.
pub(super) fn delete(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = request.device(&attrs)?;
    let allowed = u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
    if device.attrs().kernel_cap_flags() & allowed == 0 {
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

/// Registers a link type. May sleep. Warns, and does nothing, if the name is taken.
fn register(kind: Kind) {
    let added = KINDS.write().map(|mut kinds| kinds.add(kind));
    kernel::warn_on!(added == Some(false));
}

/// Unregisters a link type. Waits for running creations of devices. May sleep.
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
