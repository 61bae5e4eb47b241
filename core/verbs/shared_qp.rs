// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that several users open: the targets of extended reliable connections.
//!
//! The queue pair proper belongs to the kernel, is in its domain by its number, and counts
//! those who have it open. Each of them has a handle, an `ib_qp` of its own that no driver
//! knows, in the list of the queue pair proper. That list is under the device's
//! `qp_open_list_lock`; who opens and closes excludes others by the domain's semaphore.
//!
//! ```text
//!   Xrcd -- tgt_qps --> real qp (usecnt = handles) <-- real_qp -- handle, handle, ...
//! ```

use super::object::code;
use super::object::is_used;
use super::object::pointer;
use super::object::Object;
use super::object::Use;
use super::object::Xrcd;
use super::qp::create as create_real;
use super::qp::destroy_qp;
use super::qp::For;
use super::xrcd::Targets;
use crate::device::Device;
use crate::security;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

type EventHandler = Option<unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void)>;

/// The lists of handles of a device's queue pairs, locked. Nothing sleeps meanwhile.
struct Handles {
    lock: *mut bindings::spinlock_t,
    flags: usize,
}

impl Handles {
    /// # Safety
    ///
    /// `qp` lives, with its device.
    unsafe fn lock(qp: *mut bindings::ib_qp) -> Self {
        // SAFETY: By this function's duty.
        unsafe {
            let lock = &raw mut (*(*qp).device).qp_open_list_lock;
            Self {
                lock,
                flags: bindings::rdma_helper_spin_lock_irqsave(lock),
            }
        }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // SAFETY: Locked in `lock`.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(self.lock, self.flags) };
    }
}

/// Tells everybody who has a queue pair open of an event.
///
/// # Safety
///
/// For drivers, as the event handler of a queue pair made by [`create`], which `context` is.
unsafe extern "C" fn on_event(event: *mut bindings::ib_event, context: *mut c_void) {
    let real: *mut bindings::ib_qp = context.cast();
    // SAFETY: By this function's duty the queue pair lives while its driver tells of it; the
    // list is locked, and its members are the places in handles that live.
    unsafe {
        let handles = Handles::lock(real);
        let named = *(*event).element.qp;
        let head = &raw mut (*real).open_list;
        let mut at = (*head).next;
        while at != head {
            let handle = kernel::container_of!(at, bindings::ib_qp, open_list);
            at = (*at).next;
            if let Some(handler) = (*handle).event_handler {
                (*event).element.qp = ManuallyDrop::new(handle);
                handler(event, (*handle).qp_context);
            }
        }
        (*event).element.qp = ManuallyDrop::new(named);
        drop(handles);
    }
}

/// Makes a handle.
///
/// # Safety
///
/// `real` is a queue pair made by [`create`] that is not destroyed meanwhile.
unsafe fn open(
    real: NonNull<bindings::ib_qp>,
    event_handler: EventHandler,
    context: *mut c_void,
) -> Result<NonNull<bindings::ib_qp>> {
    let mut handle = KBox::new(bindings::ib_qp::default(), GFP_KERNEL)?;
    let real = real.as_ptr();
    // SAFETY: By this function's duty; `close` closes it.
    unsafe { security::open(real, NonNull::from(&mut *handle)) }?;
    let handle = KBox::into_raw(handle);
    // SAFETY: The handle is ours; the queue pair lives by this function's duty, and its list
    // is locked.
    unsafe {
        (*handle).real_qp = real;
        (*handle).device = (*real).device;
        (*handle).event_handler = event_handler;
        (*handle).qp_context = context;
        (*handle).qp_num = (*real).qp_num;
        (*handle).qp_type = (*real).qp_type;
        bindings::atomic_inc(&raw mut (*real).usecnt);
        let handles = Handles::lock(real);
        bindings::rdma_helper_qp_list_add(&raw mut (*handle).open_list, &raw mut (*real).open_list);
        drop(handles);
    }
    NonNull::new(handle).ok_or(ENOMEM)
}

/// Frees a handle.
///
/// # Errors
///
/// `EINVAL` for a queue pair proper.
///
/// # Safety
///
/// `handle` lives, and nobody uses it any more.
unsafe fn close(handle: NonNull<bindings::ib_qp>) -> Result {
    let raw = handle.as_ptr();
    // SAFETY: By this function's duty; a handle's queue pair lives, its list is locked, and the
    // memory is that of `open`.
    unsafe {
        let real = (*raw).real_qp;
        if real == raw {
            return Err(EINVAL);
        }
        let handles = Handles::lock(real);
        bindings::rdma_helper_qp_list_del(&raw mut (*raw).open_list);
        drop(handles);
        security::close(real, handle);
        bindings::atomic_dec(&raw mut (*real).usecnt);
        drop(KBox::from_raw(raw));
    }
    Ok(())
}

/// Makes a queue pair and the first handle to it. May sleep.
///
/// # Safety
///
/// As for [`super::qp::create`]; `attr` names a domain that lives; `caller` is a string that
/// stays.
pub(super) unsafe fn create(
    device: &Device,
    pd: *mut bindings::ib_pd,
    attr: &mut bindings::ib_qp_init_attr,
    uobject: *mut bindings::ib_uqp_object,
    caller: *const c_char,
) -> Result<NonNull<bindings::ib_qp>> {
    if attr.xrcd.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: By this function's duty.
    let real = unsafe { create_real(device, pd, attr, For::Kernel(caller)) }?;
    // SAFETY: Just made, and not handed out.
    unsafe { share(real, attr, uobject) }.inspect_err(|_| {
        // SAFETY: As above; what `share` did it has undone.
        let _: Result = unsafe { destroy_qp(real, core::ptr::null_mut()) };
    })
}

/// Puts a new queue pair into its domain, and opens it for the one who made it.
///
/// # Safety
///
/// `real` is just made and not handed out; the rest as for [`create`].
unsafe fn share(
    real: NonNull<bindings::ib_qp>,
    attr: &bindings::ib_qp_init_attr,
    uobject: *mut bindings::ib_uqp_object,
) -> Result<NonNull<bindings::ib_qp>> {
    // SAFETY: By this function's duty. The count keeps the domain as long as the queue pair.
    let used = unsafe {
        let c = real.as_ptr();
        (*c).event_handler = Some(on_event);
        (*c).qp_context = c.cast();
        (*c).pd = core::ptr::null_mut();
        (*c).send_cq = core::ptr::null_mut();
        (*c).recv_cq = core::ptr::null_mut();
        (*c).srq = core::ptr::null_mut();
        (*c).xrcd = attr.xrcd;
        bindings::INIT_LIST_HEAD(&raw mut (*c).open_list);
        Use::of(&raw mut (*attr.xrcd).usecnt)
    };
    // SAFETY: By this function's duty.
    let handle = unsafe { open(real, attr.event_handler, attr.qp_context) }?;
    // SAFETY: By this function's duty the domain lives; nobody has the handle yet.
    let insert = unsafe {
        (*handle.as_ptr()).uobject = uobject;
        Xrcd::from_raw(attr.xrcd).insert((*real.as_ptr()).qp_num, real)
    };
    if let Err(error) = insert {
        // SAFETY: Nobody has the handle.
        let _: Result = unsafe { close(handle) };
        return Err(error);
    }
    // Given back when the last handle is closed.
    core::mem::forget(used);
    Ok(handle)
}

/// Closes a handle, and destroys the queue pair if it was the last. May sleep.
///
/// A driver that refuses leaves a queue pair that nobody can reach any more, which keeps its
/// domain busy.
///
/// # Safety
///
/// `handle` is a handle, and nobody uses it any more.
pub(super) unsafe fn close_and_destroy(handle: NonNull<bindings::ib_qp>) {
    // SAFETY: By this function's duty; the queue pair lives while it has handles, and its
    // domain as long as it.
    let (real, raw_xrcd) = unsafe {
        let real = (*handle.as_ptr()).real_qp;
        (real, (*real).xrcd)
    };
    // SAFETY: As above.
    let xrcd = unsafe { Xrcd::from_raw(raw_xrcd) };
    let mut targets = Targets::write(xrcd);
    // SAFETY: By this function's duty; nobody else opens or closes meanwhile.
    let last = unsafe {
        let _: Result = close(handle);
        let last = !is_used(&raw const (*real).usecnt);
        if last {
            targets.remove((*real).qp_num);
        }
        last
    };
    drop(targets);
    let Some(real) = NonNull::new(real).filter(|_| last) else {
        return;
    };
    // SAFETY: Nobody has it open, and nobody finds it any more. The count is that of `share`.
    unsafe {
        if destroy_qp(real, core::ptr::null_mut()).is_ok() {
            drop(Use::kept(&raw mut (*raw_xrcd).usecnt));
        }
    }
}

rdma::exported!(ib_open_qp, ib_close_qp);

/// Opens a queue pair of a domain by its number: `EINVAL` if there is none. May sleep.
///
/// # Safety
///
/// `xrcd` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_open_qp(
    xrcd: *mut bindings::ib_xrcd,
    attr: *mut bindings::ib_qp_open_attr,
) -> *mut bindings::ib_qp {
    let find = || {
        // SAFETY: By this function's duty.
        let (xrcd, attr) = unsafe { (Xrcd::from_raw(xrcd), &*attr) };
        if attr.qp_type != bindings::ib_qp_type_IB_QPT_XRC_TGT {
            return Err(EINVAL);
        }
        let targets = Targets::read(xrcd);
        let real = targets.find(attr.qp_num).ok_or(EINVAL)?;
        // SAFETY: It is in the domain, so it was made by `create`, and it is not taken out
        // while we read.
        unsafe { open(real, attr.event_handler, attr.qp_context) }
    };
    pointer(find())
}

/// Closes a handle, and nothing else. May sleep.
///
/// # Safety
///
/// `qp` lives, and nobody uses it any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_close_qp(qp: *mut bindings::ib_qp) -> c_int {
    let qp = NonNull::new(qp).ok_or(EINVAL);
    // SAFETY: By this function's duty.
    code(qp.and_then(|qp| unsafe { close(qp) }))
}
