// SPDX-License-Identifier: GPL-2.0

//! C structures and calls for nldev: device attributes, driver-specific attributes of objects, link
//! types, character devices of clients.
//!
//! Must match `include/rdma/ib_verbs.h` and `include/rdma/rdma_netlink.h`.

use super::request::Answer;
use crate::device;
use crate::device::Device;
use crate::edge::cm::CmId;
use crate::object::Cq;
use crate::object::Mr;
use crate::object::Object;
use crate::object::Qp;
use crate::object::Srq;
use crate::private;
use crate::proto::nla::Entry;
use crate::proto::nla::Full;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::Lent;
use rdma::edge::View;
use rdma::net::NetDevice;

/// Result of writing an object's entry to a message.
pub(super) type Put = Result<(), Entry<Error>>;

/// An object for which a driver can add attributes.
trait Described: View {
    /// The device whose driver adds attributes.
    fn describer(&self) -> Option<&Device>;
}

macro_rules! described {
    ($($name:ident),*) => { $(
        impl Described for $name {
            fn describer(&self) -> Option<&Device> {
                Some(self.device())
            }
        }
    )* };
}

described!(Qp, Cq, Mr, Srq);

impl Described for CmId {
    fn describer(&self) -> Option<&Device> {
        self.device()
    }
}

/// Converts the return value of a driver method.
fn answered(ret: c_int) -> Put {
    match to_result(ret) {
        Ok(()) => Ok(()),
        Err(EMSGSIZE) => Err(Entry::Full(Full)),
        Err(EAGAIN) => Err(Entry::Skip),
        Err(error) => Err(Entry::Failed(error)),
    }
}

/// Wrappers of driver methods that add attributes of an object. Each row has the type of the object
/// and, if C gets only a part of it, that part. `None` if the driver has no such method. May sleep.
macro_rules! fills {
    ($(fn $method:ident($object:ty $(, $part:ident)?);)*) => { $(
        pub(super) fn $method(w: &mut Answer<'_>, object: &$object) -> Option<Put> {
            let method = object.describer()?.ops().$method?;
            let c = object$(.$part())?.raw();
            // SAFETY: The method belongs to the object's driver (`ib_verbs.h`), and the object is
            // valid while borrowed. The driver only appends complete attributes to the buffer, as
            // `Tail::raw` permits.
            Some(answered(unsafe { method(w.sink().raw(), c) }))
        }
    )* };
}

fills! {
    fn fill_res_qp_entry(Qp);
    fn fill_res_cm_id_entry(CmId, id);
    fn fill_res_cq_entry(Cq);
    fn fill_res_mr_entry(Mr);
    fn fill_res_srq_entry(Srq);
    fn fill_stat_mr_entry(Mr);
    fn fill_res_qp_entry_raw(Qp);
    fn fill_res_cq_entry_raw(Cq);
    fn fill_res_mr_entry_raw(Mr);
    fn fill_res_srq_entry_raw(Srq);
}

rdma::c_struct! {
    /// Relation of a device to its link type.
    pub(super) struct Links: bindings::ib_device;
    fields {
        /// Link type that created the device. Written by the driver before registration. The driver
        /// unregisters the link type after its devices.
        const link_ops: Option<In<'_, LinkOps>>;
    }
}

impl Links {
    pub(super) fn of(device: &Device) -> &Self {
        // SAFETY: Both types are views of the same C structure.
        unsafe { Self::view(device.as_raw()) }
    }
}

/// Maximum size of a firmware version string in bytes, with its NUL.
const FIRMWARE_LEN: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// Returns the firmware version of a device as a NUL-terminated string; empty if the driver does
/// not report it. May sleep.
pub(super) fn firmware(device: &Device) -> [u8; FIRMWARE_LEN] {
    let mut text = [0; FIRMWARE_LEN];
    device.driver().get_dev_fw_str(Lent(&mut text));
    text
}

/// The character device of a client.
///
/// # Invariants
///
/// `self` owns a reference to `dev`.
pub(super) struct ClientChardev {
    dev: NonNull<bindings::device>,
    /// ABI version of the client's user interface.
    pub(super) abi: u64,
}

impl ClientChardev {
    /// Finds the character device of a client for a device and port, or without a device, its
    /// global one. The client may add attributes to the response. May sleep, and load the client's
    /// module.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if there is no such client or it has no character device; errors of the client.
    pub(super) fn find(
        w: &mut Answer<'_>,
        device: Option<&Device>,
        client: &CStr,
        port: u32,
    ) -> Result<Self> {
        let mut info = private::ib_client_nl_info {
            nl_msg: w.sink().raw(),
            port,
            ..Default::default()
        };
        device::client_nl_info(device, client, &mut info)?;
        // INVARIANT: `client_nl_info` passes a reference to the caller.
        Ok(Self {
            dev: NonNull::new(info.cdev).ok_or(EINVAL)?,
            abi: info.abi,
        })
    }

    /// The device number.
    pub(super) fn number(&self) -> bindings::dev_t {
        // SAFETY: The device is valid (type invariant). The number does not change.
        unsafe { (*self.dev.as_ptr()).devt }
    }

    /// Name of the character device.
    pub(super) fn name(&self) -> &CStr {
        // SAFETY: The device is valid (type invariant). A character device is not renamed.
        unsafe { CStr::from_char_ptr(bindings::dev_name(self.dev.as_ptr())) }
    }
}

impl Drop for ClientChardev {
    fn drop(&mut self) {
        // SAFETY: `self` owns a reference (type invariant).
        unsafe { bindings::put_device(self.dev.as_ptr()) };
    }
}

rdma::c_struct! {
    /// A link type: how a driver creates devices on top of network devices (`struct
    /// rdma_link_ops`).
    pub(super) struct LinkOps: bindings::rdma_link_ops;
    fields {
        /// Name of the link type.
        const name at type_: &CStr;
    }
}

// SAFETY: Drivers do not change the structure while it is registered, and its functions may be
// called from any task.
unsafe impl Send for LinkOps {}
// SAFETY: See `Send`.
unsafe impl Sync for LinkOps {}

impl LinkOps {
    /// Creates a device on a network device; `None` if the driver has no method for it. May sleep.
    pub(super) fn newlink(&self, name: &CStr, netdev: &NetDevice) -> Option<Result> {
        // SAFETY: The methods are written before the link type is registered. Name and network
        // device are borrowed for the call.
        let done = unsafe { (*self.raw()).newlink?(name.as_char_ptr(), netdev.as_raw()) };
        Some(to_result(done))
    }

    /// Calls the driver before a device of this link type is unregistered; `None` if the driver has
    /// no method for it. May sleep.
    pub(super) fn dellink(&self, device: &Device) -> Option<Result> {
        // SAFETY: The methods are written before the link type is registered. The device is
        // borrowed for the call.
        let done = unsafe { (*self.raw()).dellink?(device.as_raw()) };
        Some(to_result(done))
    }
}

rdma::c_struct! {
    /// The core-only field of a link type: the next one in the list, or null. Private to this file.
    struct Chain: bindings::rdma_link_ops;
    fields {
        racy next at list.next: *mut bindings::list_head, set_next;
    }
}

impl LinkOps {
    fn link(&self) -> &Chain {
        // SAFETY: Both types are views of the same C structure.
        unsafe { Chain::view(self.raw()) }
    }
}

/// A link type that a driver registers or unregisters.
pub(super) struct Kind(In<'static, LinkOps>);

rdma::argument! {
    /// The structure stays valid and unchanged until `rdma_link_unregister` returns
    /// (`rdma_netlink.h`).
    impl Kind = |kind: &'static LinkOps| Kind(In(kind));
}

/// The registered link types, as a singly linked list of the drivers' structures: `list.next`,
/// which only the core uses, points to the next structure. This needs no allocation.
///
/// # Invariants
///
/// `0` and each `list.next` are null, or point to a structure that stays valid until it is removed.
pub(super) struct Kinds(*mut bindings::rdma_link_ops);

// SAFETY: The structures are `Sync`; the list is only changed through `&mut`.
unsafe impl Send for Kinds {}
// SAFETY: See `Send`.
unsafe impl Sync for Kinds {}

impl Kinds {
    /// An empty list.
    pub(super) const fn new() -> Self {
        // INVARIANT: The list is empty.
        Self(ptr::null_mut())
    }

    /// Returns the link type at `0` or at another one's `next`; `None` at the end of the list.
    fn at(&self, kind: *mut bindings::rdma_link_ops) -> Option<&LinkOps> {
        // SAFETY: `kind` is null or a structure that is valid while `self` is borrowed (type
        // invariant).
        unsafe { FromC::from_c(kind) }
    }

    /// Iterates over all link types.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LinkOps> {
        core::iter::successors(self.at(self.0), |ops| self.at(ops.link().next().cast()))
    }

    /// Adds a link type, unless its name is taken. Returns whether it was added.
    pub(super) fn add(&mut self, kind: Kind) -> bool {
        let ops = kind.0 .0;
        if self.iter().any(|other| other.name() == ops.name()) {
            return false;
        }
        // INVARIANT: The link type stays valid until it is removed (contract of `Kind`), and links
        // to the rest of the list.
        ops.link().set_next(self.0.cast());
        self.0 = ops.raw();
        true
    }

    /// Removes a link type, if it is listed.
    pub(super) fn remove(&mut self, kind: &Kind) {
        let ops = kind.0 .0;
        if !self.iter().any(|other| core::ptr::eq(other, ops)) {
            return;
        }
        let after = ops.link().next();
        let is_before = |other: &&LinkOps| core::ptr::eq(other.link().next(), ops.raw().cast());
        // INVARIANT: The predecessor links to the successor of the removed link type.
        let before = self.iter().find(is_before);
        if before.map(|ops| ops.link().set_next(after)).is_none() {
            self.0 = after.cast();
        }
    }
}

/// Requests the module of a link type, which need not exist: the type is looked up again. May sleep.
pub(super) fn request_kind(name: &CStr) {
    // SAFETY: The format takes one string.
    let _: c_int = unsafe {
        bindings::__request_module(true, c"rdma-link-%s".as_char_ptr(), name.as_char_ptr())
    };
}
