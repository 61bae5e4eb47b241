// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of IDs, which `rdma_cm` moves through their states.
//!
//! The consumer makes one with `rdma_create_qp`, or moves its own and asks for the attributes.
//! Pointers to them are used under `Id::qp`.

use super::core::find_pkey;
use super::core::Caps;
use super::id::Id;
use super::trace;
use super::trace::Step;
use super::transport::Used;
use crate::proto::option::QpType;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::Pd;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::errno::enosys;

/// The Q_Key of datagrams by IP address.
const UDP_QKEY: u32 = 0x0123_4567;

/// Attributes of a queue pair and their mask.
pub(crate) struct Attrs {
    attr: bindings::ib_qp_attr,
    mask: c_int,
}

/// Bits of masks, as C passes them.
const fn bit(mask: u32) -> c_int {
    // CAST: Masks have fewer than 31 bits.
    mask as c_int
}

impl Attrs {
    fn new(state: u32) -> Self {
        // SAFETY: Zeros are valid for all fields: numbers, null pointers, and unions of them.
        let mut attr: bindings::ib_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attr.qp_state = state;
        Self { attr, mask: 0 }
    }
}

/// Arguments of `rdma_init_qp_attr`.
pub(crate) struct AttrAt<'a>(*mut bindings::ib_qp_attr, PhantomData<&'a ()>);
/// The mask argument after an [`AttrAt`].
pub(crate) struct MaskAt<'a>(*mut c_int, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract: attributes that only the callee uses, whose state is set.
unsafe impl FromC for AttrAt<'_> {
    type C = *mut bindings::ib_qp_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: Used during the call only.
unsafe impl<'a> Within<'a> for AttrAt<'a> {}

// SAFETY: `from_c`'s contract: a mask that only the callee uses.
unsafe impl FromC for MaskAt<'_> {
    type C = *mut c_int;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: Used during the call only.
unsafe impl<'a> Within<'a> for MaskAt<'a> {}

/// Returns the attributes that a queue pair needs for the state in `attr`.
///
/// # Errors
///
/// `EINVAL`: there is no device; `ENOSYS`; those of the transport.
pub(crate) fn init_attr(id: &Id, attr: AttrAt<'_>, mask: MaskAt<'_>) -> Result {
    // SAFETY: Attributes and mask belong to this call (contract of the arguments). Callers set the
    // state alone; no other attribute is read.
    let (attr, mask) = unsafe {
        mask.0.write(0);
        (&mut *attr.0, &mut *mask.0)
    };
    fill(id, attr, mask)
}

fn fill(id: &Id, attr: &mut bindings::ib_qp_attr, mask: &mut c_int) -> Result {
    let (caps, port) = id.port().ok_or(EINVAL)?;
    let transport = id.transport();
    let options = id.look(|inner| inner.options);
    let mut result = Ok(());
    if caps.ib_cm() {
        result = match transport {
            Some(Used::Ib(ib)) if id.qp_type() != QpType::Ud => ib.init_qp_attr(attr, mask),
            _ => fill_own(id, attr, mask),
        };
        if attr.qp_state == bindings::ib_qp_state_IB_QPS_RTR {
            attr.rq_psn = id.seq_num;
        }
    } else if caps.iw_cm() {
        if let Some(Used::Iw(iw)) = transport {
            result = iw.init_qp_attr(attr, mask);
        } else {
            attr.qp_access_flags = 0;
            *mask = bit(bindings::ib_qp_attr_mask_IB_QP_STATE
                | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS);
        }
        attr.port_num = port;
        *mask |= bit(bindings::ib_qp_attr_mask_IB_QP_PORT);
    } else {
        result = Err(enosys());
    }
    if *mask & bit(bindings::ib_qp_attr_mask_IB_QP_TIMEOUT) != 0 {
        if let Some(timeout) = options.ack_timeout {
            attr.timeout = timeout;
        }
    }
    if *mask & bit(bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER) != 0 {
        if let Some(timer) = options.min_rnr_timer {
            attr.min_rnr_timer = timer;
        }
    }
    result
}

/// Attributes before there is a connection, and of datagrams.
fn fill_own(id: &Id, attr: &mut bindings::ib_qp_attr, mask: &mut c_int) -> Result {
    let (device, port) = id.device().ok_or(EINVAL)?;
    let caps = id.port().map(|(caps, _)| caps);
    let pkey = if caps.is_some_and(Caps::eth_ah) {
        0xffff
    } else {
        id.link().pkey()
    };
    attr.pkey_index = find_pkey(device.view(), port, pkey)?;
    attr.port_num = port;
    *mask = bit(bindings::ib_qp_attr_mask_IB_QP_STATE
        | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
        | bindings::ib_qp_attr_mask_IB_QP_PORT);
    if id.qp_type() == QpType::Ud {
        attr.qkey = default_qkey(id)?;
        *mask |= bit(bindings::ib_qp_attr_mask_IB_QP_QKEY);
    } else {
        attr.qp_access_flags = 0;
        *mask |= bit(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS);
    }
    Ok(())
}

/// Sets and returns the Q_Key of the ID's port space.
///
/// # Errors
///
/// Those of the subnet administrator's client: the broadcast group of IPoIB is not joined.
pub(crate) fn default_qkey(id: &Id) -> Result<u32> {
    use crate::proto::service::Space;
    match Space::from_raw(id.words().port_space()) {
        Some(Space::Udp | Space::Ib) => id.with(|inner| {
            inner.qkey = UDP_QKEY;
            Ok(UDP_QKEY)
        }),
        Some(Space::Ipoib) => {
            let qkey = super::sa::ipoib_qkey(id)?;
            id.with(|inner| inner.qkey = qkey);
            Ok(qkey)
        }
        Some(Space::Tcp) | None => Ok(id.with(|inner| inner.qkey)),
    }
}

/// Takes the Q_Key that a consumer or peer gives.
///
/// # Errors
///
/// `EINVAL`: it is 0, or another one is set.
pub(crate) fn set_qkey(id: &Id, qkey: u32) -> Result {
    id.with(|inner| {
        if qkey == 0 || (inner.qkey != 0 && inner.qkey != qkey) {
            return Err(EINVAL);
        }
        inner.qkey = qkey;
        Ok(())
    })
}

/// The `struct ib_qp_init_attr` argument of `rdma_create_qp`.
pub(crate) struct MakeAt<'a>(*mut bindings::ib_qp_init_attr, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract: attributes that only the callee uses.
unsafe impl FromC for MakeAt<'_> {
    type C = *mut bindings::ib_qp_init_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: Used during the call only.
unsafe impl<'a> Within<'a> for MakeAt<'a> {}

/// Moves a queue pair.
fn modify(qp: *mut bindings::ib_qp, attrs: &mut Attrs) -> Result {
    // SAFETY: The queue pair exists: it is new, or that of an ID, whose lock is held.
    to_result(unsafe { bindings::ib_modify_qp(qp, &mut attrs.attr, attrs.mask) })
}

/// Moves a queue pair to a state, with the attributes that it needs there. `tune` may change them.
// Not inlined: the attributes are large, so there is one frame of them at a time.
#[inline(never)]
fn move_to(
    id: &Id,
    qp: *mut bindings::ib_qp,
    state: u32,
    tune: impl FnOnce(&mut bindings::ib_qp_attr),
) -> Result {
    let mut attrs = Attrs::new(state);
    fill(id, &mut attrs.attr, &mut attrs.mask)?;
    tune(&mut attrs.attr);
    modify(qp, &mut attrs)
}

/// Moves a queue pair to a state that needs nothing but these attributes, which are zero.
#[inline(never)]
fn move_plainly(qp: *mut bindings::ib_qp, state: u32, mask: u32) -> Result {
    let mut attrs = Attrs::new(state);
    attrs.mask = bit(bindings::ib_qp_attr_mask_IB_QP_STATE | mask);
    modify(qp, &mut attrs)
}

/// Moves a new queue pair to its first state: `INIT`; of datagrams, to `RTS`.
fn begin(id: &Id, qp: *mut bindings::ib_qp) -> Result {
    move_to(id, qp, bindings::ib_qp_state_IB_QPS_INIT, |_| ())?;
    if id.qp_type() != QpType::Ud {
        return Ok(());
    }
    move_plainly(qp, bindings::ib_qp_state_IB_QPS_RTR, 0)?;
    move_plainly(
        qp,
        bindings::ib_qp_state_IB_QPS_RTS,
        bindings::ib_qp_attr_mask_IB_QP_SQ_PSN,
    )
}

/// Creates the queue pair of an ID.
///
/// # Errors
///
/// `EINVAL`: the protection domain is of another device; those of the driver.
pub(crate) fn create(id: &Id, pd: &Pd, make: MakeAt<'_>) -> Result {
    let attr = make.0;
    let result = try_create(id, pd, make);
    let answer = result.map_or_else(|error| error.to_errno(), |()| 0);
    trace::qp(id, pd, attr, answer);
    result
}

fn try_create(id: &Id, pd: &Pd, make: MakeAt<'_>) -> Result {
    let (device, port) = id.device().ok_or(EINVAL)?;
    if !ptr::eq(device.raw(), pd.dev().raw()) {
        return Err(EINVAL);
    }
    // SAFETY: The attributes belong to this call (contract of the argument), and the domain exists.
    let qp = unsafe {
        (&raw mut (*make.0).port_num).write(port);
        from_err_ptr(bindings::ib_create_qp_kernel(
            pd.raw(),
            make.0,
            c"rdma_cm".as_char_ptr(),
        ))?
    };
    if let Err(error) = begin(id, qp) {
        // SAFETY: The queue pair is new, and nobody else knows it.
        unsafe { bindings::ib_destroy_qp_user(qp, ptr::null_mut()) };
        return Err(error);
    }
    let _guard = id.qp.lock();
    // SAFETY: The queue pair exists; both fields are set when it is created.
    let (number, srq) = unsafe {
        (
            (&raw const (*qp).qp_num).read(),
            !(&raw const (*qp).srq).read().is_null(),
        )
    };
    id.set_qp_ptr(qp);
    id.words().set_qp_num(number);
    id.with(|inner| inner.srq = srq);
    Ok(())
}

/// Destroys the queue pair of an ID.
pub(crate) fn destroy(id: &Id) {
    trace::step(id, Step::QpDestroy);
    let _guard = id.qp.lock();
    let qp = id.qp_ptr();
    if !qp.is_null() {
        // SAFETY: The consumer's queue pair, which it asks to be destroyed (`rdma_cm.h`).
        unsafe { bindings::ib_destroy_qp_user(qp, ptr::null_mut()) };
        id.set_qp_ptr(ptr::null_mut());
    }
}

/// Calls `f` with the queue pair, if there is one, under its lock.
fn with_qp(id: &Id, f: impl FnOnce(*mut bindings::ib_qp) -> Result) -> Result {
    // Programs move theirs themselves: there is nothing to lock.
    if !id.has_qp() {
        return Ok(());
    }
    let _guard = id.qp.lock();
    let qp = id.qp_ptr();
    if qp.is_null() {
        return Ok(());
    }
    f(qp)
}

/// Moves the queue pair, if there is one, to ready-to-receive. `depth`: how many reads of the peer
/// it serves at once.
pub(crate) fn to_rtr(id: &Id, depth: Option<u8>) -> Result {
    with_qp(id, |qp| {
        // The attributes of a new queue pair were preliminary.
        move_to(id, qp, bindings::ib_qp_state_IB_QPS_INIT, |_| ())?;
        move_to(id, qp, bindings::ib_qp_state_IB_QPS_RTR, |attr| {
            if let Some(depth) = depth {
                attr.max_dest_rd_atomic = depth;
            }
        })
    })
}

/// Moves the queue pair, if there is one, to ready-to-send. `depth`: how many reads it sends at
/// once.
pub(crate) fn to_rts(id: &Id, depth: Option<u8>) -> Result {
    with_qp(id, |qp| {
        move_to(id, qp, bindings::ib_qp_state_IB_QPS_RTS, |attr| {
            if let Some(depth) = depth {
                attr.max_rd_atomic = depth;
            }
        })
    })
}

/// Moves the queue pair, if there is one, to the error state.
pub(crate) fn to_error(id: &Id) -> Result {
    with_qp(id, |qp| {
        move_plainly(qp, bindings::ib_qp_state_IB_QPS_ERR, 0)
    })
}
