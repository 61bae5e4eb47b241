// SPDX-License-Identifier: GPL-2.0

//! The C structures and calls of `rdma` requests: attributes of a device, what drivers write of
//! their objects, kinds of links, character devices of clients.
//!
//! To be held against `include/rdma/ib_verbs.h` and `include/rdma/rdma_netlink.h`.

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

/// What becomes of an object's entry in a message.
pub(super) type Put = Result<(), Entry<Error>>;

/// An object that a driver can describe.
trait Described: View {
    /// The device whose driver describes it.
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

/// What a driver's method answered.
fn answered(ret: c_int) -> Put {
    match to_result(ret) {
        Ok(()) => Ok(()),
        Err(EMSGSIZE) => Err(Entry::Full(Full)),
        Err(EAGAIN) => Err(Entry::Skip),
        Err(error) => Err(Entry::Failed(error)),
    }
}

/// Methods of drivers that describe an object: of what, and the part of it that C gets. None if
/// the driver has no such method. May sleep.
macro_rules! fills {
    ($(fn $method:ident($object:ty $(, $part:ident)?);)*) => { $(
        pub(super) fn $method(w: &mut Answer<'_>, object: &$object) -> Option<Put> {
            let method = object.describer()?.ops().$method?;
            let c = object$(.$part())?.raw();
            // SAFETY: The method is of the object's driver (`ib_verbs.h`), and the object exists
            // while it is borrowed. The buffer is lent for whole attributes at its end, as `Tail`
            // allows.
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
    /// What links a device to others.
    pub(super) struct Links: bindings::ib_device;
    fields {
        /// The device that this one was made under, which is unregistered after it.
        const parent: Option<&Device>;
        /// The kind that the device was made by. Written by the driver before registration; the
        /// driver unregisters the kind after its devices.
        const link_ops: Option<In<'_, LinkOps>>;
    }
}

impl Links {
    pub(super) fn of(device: &Device) -> &Self {
        // SAFETY: Both are views of the same structure.
        unsafe { Self::view(device.as_raw()) }
    }
}

/// Bytes of the version of a device's firmware at most, its end included.
const FIRMWARE_LEN: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// The version of a device's firmware, with its end; empty if the driver does not say. May sleep.
pub(super) fn firmware(device: &Device) -> [u8; FIRMWARE_LEN] {
    let mut text = [0; FIRMWARE_LEN];
    device.driver().get_dev_fw_str(Lent(&mut text));
    text
}

/// The character device of a client of devices.
///
/// # Invariants
///
/// `dev` is a device of which this has a count.
pub(super) struct ClientChardev {
    dev: NonNull<bindings::device>,
    /// The version of the client's interface.
    pub(super) abi: u64,
}

impl ClientChardev {
    /// Asks a client by its name: of a device and port, or its global one. The client may add
    /// attributes to the answer. May sleep, and load the client's module.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if there is no such client, or it has nothing; those of the client.
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
        // INVARIANT: It was counted for us.
        Ok(Self {
            dev: NonNull::new(info.cdev).ok_or(EINVAL)?,
            abi: info.abi,
        })
    }

    /// The device number.
    pub(super) fn number(&self) -> bindings::dev_t {
        // SAFETY: The device is counted: type invariant. The number does not change.
        unsafe { (*self.dev.as_ptr()).devt }
    }

    /// The name.
    pub(super) fn name(&self) -> &CStr {
        // SAFETY: The device is counted: type invariant. A character device is not renamed.
        unsafe { CStr::from_char_ptr(bindings::dev_name(self.dev.as_ptr())) }
    }
}

impl Drop for ClientChardev {
    fn drop(&mut self) {
        // SAFETY: One count is ours: type invariant.
        unsafe { bindings::put_device(self.dev.as_ptr()) };
    }
}

rdma::c_struct! {
    /// A kind of devices that are made on network devices (`struct rdma_link_ops`).
    pub(super) struct LinkOps: bindings::rdma_link_ops;
    fields {
        /// Its name.
        const name at type_: &CStr;
    }
}

// SAFETY: Drivers do not change it while it is registered, and its functions may be called by any
// task.
unsafe impl Send for LinkOps {}
// SAFETY: See `Send`.
unsafe impl Sync for LinkOps {}

impl LinkOps {
    /// Makes a device on a network device; none if the driver cannot. May sleep.
    pub(super) fn newlink(&self, name: &CStr, netdev: &NetDevice) -> Option<Result> {
        // SAFETY: The table is written before the kind is registered. Name and network device are
        // there for the call.
        let done = unsafe { (*self.raw()).newlink?(name.as_char_ptr(), netdev.as_raw()) };
        Some(to_result(done))
    }

    /// Asks the driver before a device of it is unregistered; none if it need not be asked. May
    /// sleep.
    pub(super) fn dellink(&self, device: &Device) -> Option<Result> {
        // SAFETY: The table is written before the kind is registered. The device is there for the
        // call.
        let done = unsafe { (*self.raw()).dellink?(device.as_raw()) };
        Some(to_result(done))
    }
}

rdma::c_struct! {
    /// The field of a kind that is the core's to use: the next kind of the chain, or null. Private
    /// to this file.
    struct Chain: bindings::rdma_link_ops;
    fields {
        racy next at list.next: *mut bindings::list_head, set_next;
    }
}

impl LinkOps {
    fn link(&self) -> &Chain {
        // SAFETY: Both are views of the same structure.
        unsafe { Chain::view(self.raw()) }
    }
}

/// A kind that a driver registers, or takes back.
pub(super) struct Kind(In<'static, LinkOps>);

rdma::argument! {
    /// `rdma_netlink.h`: the structure stays as it is until `rdma_link_unregister` returns.
    impl Kind = |kind: &'static LinkOps| Kind(In(kind));
}

/// The kinds there are, as a chain of the drivers' structures: `list.next` of each, which is the
/// core's to use, points to the next one. Nothing has to be allocated for it.
///
/// # Invariants
///
/// Null, or a structure that stays until it is removed, and so on.
pub(super) struct Kinds(*mut bindings::rdma_link_ops);

// SAFETY: The structures are `Sync`; the chain is changed through `&mut` only.
unsafe impl Send for Kinds {}
// SAFETY: See `Send`.
unsafe impl Sync for Kinds {}

impl Kinds {
    /// None.
    pub(super) const fn new() -> Self {
        // INVARIANT: There are none.
        Self(ptr::null_mut())
    }

    /// A kind of the chain, by the place of another's `next` or by the first.
    fn at(&self, kind: *mut bindings::rdma_link_ops) -> Option<&LinkOps> {
        // SAFETY: Null or a structure that stays while `self` is borrowed: type invariant.
        unsafe { FromC::from_c(kind) }
    }

    /// All kinds.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LinkOps> {
        core::iter::successors(self.at(self.0), |ops| self.at(ops.link().next().cast()))
    }

    /// Adds a kind, unless there is one of its name. Returns whether it was added.
    pub(super) fn add(&mut self, kind: Kind) -> bool {
        let ops = kind.0 .0;
        if self.iter().any(|other| other.name() == ops.name()) {
            return false;
        }
        // INVARIANT: The kind stays until it is removed, and the chain goes on behind it.
        ops.link().set_next(self.0.cast());
        self.0 = ops.raw();
        true
    }

    /// Removes a kind, if it is there.
    pub(super) fn remove(&mut self, kind: &Kind) {
        let ops = kind.0 .0;
        if !self.iter().any(|other| core::ptr::eq(other, ops)) {
            return;
        }
        let after = ops.link().next();
        let is_before = |other: &&LinkOps| core::ptr::eq(other.link().next(), ops.raw().cast());
        // INVARIANT: The chain goes on behind what goes.
        let before = self.iter().find(is_before);
        if before.map(|ops| ops.link().set_next(after)).is_none() {
            self.0 = after.cast();
        }
    }
}

/// Loads the module of a kind, if there is one. May sleep.
pub(super) fn request_kind(name: &CStr) {
    // SAFETY: The format takes one text. The caller looks for the kind again.
    let _: c_int = unsafe {
        bindings::__request_module(true, c"rdma-link-%s".as_char_ptr(), name.as_char_ptr())
    };
}
