// SPDX-License-Identifier: GPL-2.0

//! Memory regions (`struct ib_mr`). A driver allocates and frees its regions.

use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Exclusive;
use crate::edge::handle::Handle;
use crate::edge::handle::Made;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::mr::Mr;
use crate::private;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::object::Bare;
use rdma::edge::object::Owned;
use rdma::edge::object::Use;
use rdma::edge::verbs;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;

/// The memory of a region.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// Memory of the program.
    User {
        /// Address of the first byte.
        start: u64,
    },
    /// A part of a DMA-buf.
    DmaBuf {
        /// File descriptor of the buffer.
        fd: i32,
        /// Offset of the first byte.
        offset: u64,
    },
}

/// What a program asks for when it registers a region, or registers it again.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    /// The memory.
    pub(crate) memory: Memory,
    /// Number of bytes.
    pub(crate) length: u64,
    /// The address by which requests name the first byte.
    pub(crate) iova: u64,
    /// `enum ib_access_flags`.
    pub(crate) access: u32,
}

/// Access flags as drivers take them.
fn flags(flags: u32) -> c_int {
    // CAST: Reinterprets the bits.
    flags as c_int
}

/// Registers memory. Its address and length are those of `place`, or what the driver sets. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver does not have such regions; those of the driver.
pub(crate) fn register<'c>(
    new: New<'c, Mr>,
    pd: &verbs::Pd,
    asked: &Registration,
    dmah: Option<&verbs::Dmah>,
    place: Option<(u64, u64)>,
) -> Result<Made<'c, Mr>> {
    let ops = pd.dev().ops();
    let handle = dmah.map_or(core::ptr::null_mut(), View::raw);
    let (length, iova, access) = (asked.length, asked.iova, flags(asked.access));
    // SAFETY: The domain and the DMA handle exist during the call; the driver checks the numbers.
    // It returns a new region or an error.
    let mr = unsafe {
        from_err_ptr(match asked.memory {
            Memory::User { start } => {
                let register = ops.reg_user_mr.ok_or_else(unsupported)?;
                let udata = new.call().udata().raw();
                register(pd.raw(), start, length, iova, access, handle, udata)
            }
            Memory::DmaBuf { fd, offset } => {
                let register = ops.reg_user_mr_dmabuf.ok_or_else(unsupported)?;
                let call = new.call().raw();
                register(pd.raw(), offset, length, iova, fd, access, handle, call)
            }
        })?
    };
    let kind = bindings::ib_mr_type_IB_MR_TYPE_USER;
    // SAFETY: The driver has just made the region.
    let mr = unsafe { complete(mr, new.handle(), pd, kind, None, dmah, place) };
    Ok(new.made_with(mr))
}

/// Registers `length` bytes of device memory at `offset`. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver does not have such regions; those of the driver.
pub(crate) fn register_dm<'c>(
    new: New<'c, Mr>,
    pd: &verbs::Pd,
    dm: &verbs::Dm,
    (offset, length): (u64, u64),
    access_flags: u32,
) -> Result<Made<'c, Mr>> {
    let register = pd.dev().ops().reg_dm_mr.ok_or_else(unsupported)?;
    let mut asked = bindings::ib_dm_mr_attr {
        length,
        offset,
        access_flags,
    };
    let kind = bindings::ib_mr_type_IB_MR_TYPE_DM;
    // SAFETY: The domain and the device memory exist during the call. The driver returns a new
    // region or an error.
    let mr = unsafe {
        let mr = from_err_ptr(register(pd.raw(), dm.raw(), &mut asked, new.call().raw()))?;
        complete(mr, new.handle(), pd, kind, Some(dm), None, None)
    };
    Ok(new.made_with(mr))
}

/// Fills in the fields of a new region that belong to `ib_uverbs`, and shows the region to
/// `rdma resource`; `place` is address and length, unless they are the driver's. `ib_dereg_mr_user`
/// undoes it.
///
/// # Safety
///
/// `mr` is a region that the driver has made for the domain, and that nobody else uses.
unsafe fn complete(
    mr: *mut bindings::ib_mr,
    handle: &Handle<Mr>,
    pd: &verbs::Pd,
    kind: u32,
    dm: Option<&verbs::Dm>,
    dmah: Option<&verbs::Dmah>,
    place: Option<(u64, u64)>,
) -> Owned<verbs::Mr> {
    // SAFETY: This function's contract.
    let mut mr = unsafe { Bare::<verbs::Mr>::from_c(mr) }.fill(verbs::MrInit {
        dev: pd.dev(),
        pd,
        kind,
        dm,
        dmah,
    });
    // SAFETY: The handle exists as long as its region, which only keeps the address.
    verbs::Mr::set_uobject(&mut mr, unsafe { Passed::from_c(handle.raw()) });
    if let Some((iova, length)) = place {
        verbs::Mr::set_iova(&mut mr, iova);
        mr.set_length(length);
    }
    // A new region has none, whatever the driver has left in the field.
    let _ = mr.sig_attrs().put(None);
    pd.usecnt().count().keep();
    if let Some(dm) = dm {
        dm.usecnt().count().keep();
    }
    if let Some(dmah) = dmah {
        dmah.usecnt().count().keep();
    }
    // SAFETY: The entry is that of a new region, whose other fields are complete.
    unsafe {
        let entry = mr.res().raw();
        private::rdma_restrack_new(entry, bindings::rdma_restrack_type_RDMA_RESTRACK_MR);
        private::rdma_restrack_set_name(entry, core::ptr::null());
        private::rdma_restrack_add(entry);
    }
    mr
}

/// Asks the driver to change a region as `what` (`enum ib_mr_rereg_flags`) says, to `to`, and to the
/// domain `pd` if there is one. The driver may make a new region, for which there is a handle,
/// instead of changing the old one. Returns the keys of the region. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver does not have the method; `EINVAL`: not memory of the program; those of the
/// driver.
pub(crate) fn register_again<'c>(
    old: Exclusive<'c, Mr>,
    new: New<'c, Mr>,
    moved: Option<&verbs::Pd>,
    what: u32,
    to: &Registration,
) -> Result<(u32, u32)> {
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_PD as PD;
    use bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS as MEMORY;

    let (pd, what) = match moved {
        Some(pd) => (pd, what | PD),
        None => (old.pd(), what & !PD),
    };
    let register = pd.dev().ops().rereg_user_mr.ok_or_else(unsupported)?;
    let Memory::User { start } = to.memory else {
        return Err(EINVAL);
    };
    // SAFETY: The region and the domain exist during the call, and nobody else uses the region. The
    // driver returns null, a new region or an error.
    let made = unsafe {
        let mr = from_err_ptr(register(
            old.raw(),
            flags(what),
            start,
            to.length,
            to.iova,
            flags(to.access),
            pd.raw(),
            new.call().udata().raw(),
        ))?;
        if mr.is_null() {
            if let Some(pd) = moved {
                moved_to(&old, pd);
            }
            if what & MEMORY != 0 {
                remapped(&old, to.iova, to.length);
            }
            return Ok((old.lkey(), old.rkey()));
        }
        let kind = bindings::ib_mr_type_IB_MR_TYPE_USER;
        complete(mr, new.handle(), pd, kind, None, None, None)
    };
    let keys = (made.lkey(), made.rkey());
    old.replace(new, made);
    Ok(keys)
}

/// The driver has moved a region to another domain. May sleep.
fn moved_to(mr: &Exclusive<'_, Mr>, pd: &verbs::Pd) {
    let before = mr.pd();
    pd.usecnt().count().keep();
    // SAFETY: The field is an aligned word. Nobody else changes it, since the region is locked;
    // `rdma resource` reads it, for which the second function waits. Then nobody uses the old
    // domain through the region, which has counted a use of it (`complete`).
    unsafe {
        Atomic::from_ptr(&raw mut (*mr.raw()).pd).store(pd.raw(), Relaxed);
        private::rdma_restrack_sync(mr.res().raw());
        drop(Use::kept(before.usecnt()));
    }
}

/// The driver has changed the memory of a region.
fn remapped(mr: &Exclusive<'_, Mr>, iova: u64, length: u64) {
    // SAFETY: The field is an aligned word, which nobody else changes: the region is locked.
    unsafe { Atomic::from_ptr(&raw mut (*mr.raw()).iova).store(iova, Relaxed) };
    mr.set_length(length);
}

/// Gives advice (`enum ib_uverbs_advise_mr_advice`) on ranges of regions of a domain. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver takes none; those of the driver.
pub(crate) fn advise(
    call: &Call,
    pd: &verbs::Pd,
    advice: u32,
    flags: u32,
    ranges: &[bindings::ib_sge],
) -> Result {
    let advise = pd.dev().ops().advise_mr.ok_or_else(unsupported)?;
    let count = u32::try_from(ranges.len())?;
    // SAFETY: The domain exists during the call. The driver reads `count` elements.
    to_result(unsafe {
        advise(
            pd.raw(),
            advice,
            flags,
            ranges.as_ptr().cast_mut(),
            count,
            call.raw(),
        )
    })
}

/// Destroys a region. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn deregister(mr: Dying<'_, Mr>) -> Result<Dead<'_, Mr>> {
    // SAFETY: Nobody else uses the region (`Dying`).
    unsafe {
        to_result(bindings::ib_dereg_mr_user(
            mr.raw(),
            mr.call().udata().raw(),
        ))?;
        Ok(mr.gone())
    }
}
