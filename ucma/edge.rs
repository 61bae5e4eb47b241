// SPDX-License-Identifier: GPL-2.0

//! Copies of structures: those of programs, and by functions of `ib_uverbs` those that programs know.

use crate::context::Context;
use crate::proto::answer::PATH;
use crate::proto::command::QP_ATTR;
use crate::proto::command::SERVICE;
use crate::proto::event::VECTOR;
use core::mem;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::prelude::*;
use kernel::uaccess::UserSlice;
use rdma::bindings;
use rdma::cm::CmEvent;
use rdma::cm::CmId;
use rdma::cm::Locked;
use rdma::edge::cm::Ud;
use rdma::edge::View;

/// Calls `f` with what a program has at an address. `N` is the room for it, on a stack, and is not
/// cleared first. May sleep.
///
/// # Errors
///
/// `EFAULT`; `EINVAL` if there is no room; those of `f`.
pub(crate) fn copied<const N: usize>(from: UserSlice, f: impl FnOnce(&[u8]) -> Result) -> Result {
    let mut from = from.reader();
    let mut room = [MaybeUninit::uninit(); N];
    let room = room.get_mut(..from.len()).ok_or(EINVAL)?;
    from.read_raw(room)?;
    // SAFETY: `read_raw` has initialised all of it (its guarantee). The layouts are the same.
    f(unsafe { &*(ptr::from_ref(room) as *const [u8]) })
}

/// Returns the address vector of an event.
pub(crate) fn vector(event: &CmEvent<'_>, ud: &Ud) -> [u8; VECTOR] {
    let device = event.device();
    // Without a device there is no address yet.
    if device.is_null() {
        return [0; VECTOR];
    }
    let mut vector = bindings::ib_uverbs_ah_attr::default();
    // SAFETY: The device exists during the handler (`CmEvent::device`). The address vector is part
    // of the event (`Ud`). The function writes the structure.
    unsafe {
        bindings::ib_copy_ah_attr_to_user(device, &mut vector, ud.vector().raw());
        // The structure consists of integers without padding, of the same size (checked by the
        // compiler).
        mem::transmute::<bindings::ib_uverbs_ah_attr, [u8; VECTOR]>(vector)
    }
}

/// Attributes of a queue pair, as programs know them.
#[derive(Default)]
pub(crate) struct QpAttr(bindings::ib_uverbs_qp_attr);

impl QpAttr {
    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8; QP_ATTR] {
        const { assert!(size_of::<bindings::ib_uverbs_qp_attr>() == QP_ATTR) };
        // SAFETY: The structure consists of integers without padding, of this size (asserted above).
        unsafe { &*ptr::from_ref(&self.0).cast() }
    }

    /// Becomes the attributes of the queue pair of a connection, for a state.
    ///
    /// # Errors
    ///
    /// Those of [`CmId::qp_attr`].
    pub(crate) fn fill(&mut self, cm: &mut CmId<Context>, state: u32) -> Result {
        let mut attr = bindings::ib_qp_attr::default();
        self.0.qp_attr_mask = cm.qp_attr(state, &mut attr)?;
        // SAFETY: The device exists (`CmId::device`; `qp_attr` has found it), and `attr` was written
        // for it. The function writes the structure.
        unsafe { bindings::ib_copy_qp_attr_to_user(cm.device(), &mut self.0, &mut attr) };
        Ok(())
    }
}

/// Returns the service that a program has named.
pub(crate) fn service(bytes: &[u8; SERVICE]) -> bindings::rdma_ucm_ib_service {
    // SAFETY: The structure consists of integers without padding, of the same size (checked by the
    // compiler).
    unsafe { mem::transmute::<[u8; SERVICE], bindings::rdma_ucm_ib_service>(*bytes) }
}

/// Returns a path of a context, if there is one with that index.
pub(crate) fn path(cm: &Locked<'_, Context>, index: u32) -> Option<[u8; PATH]> {
    let path = cm.path(index)?;
    let mut out = bindings::ib_user_path_rec::default();
    // SAFETY: The path exists (`Locked::path`). The function writes the structure.
    unsafe {
        bindings::ib_copy_path_rec_to_user(&mut out, path);
        // As in `vector`.
        Some(mem::transmute::<bindings::ib_user_path_rec, [u8; PATH]>(
            out,
        ))
    }
}
