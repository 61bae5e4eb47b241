// SPDX-License-Identifier: GPL-2.0

//! What is common to the objects of a device.
//!
//! Most are allocated by the core, at the size that the driver asks for, and filled by a
//! method of the driver; all but a few are tracked. [`New`] is an object up to the moment
//! that the driver has made it: whatever fails before, dropping it undoes what was done.
//! [`destroy`] is the way back. [`Use`] counts an object as used by another, which
//! keeps the first from being destroyed.
//!
//! A driver's method is called with no lock of the core held. C header:
//! `include/rdma/ib_verbs.h`.

use crate::device::Device;
use crate::errno::eopnotsupp;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;

/// A C structure that is an object of a device.
///
/// # Safety
///
/// - The type is transparent over `C`.
/// - `entry` points into the structure, or is null for a kind that is not tracked.
/// - All zeros are a `C`.
pub(crate) unsafe trait Object: Sized {
    /// The C structure.
    type C;

    /// The kind as it is tracked; none, if it is not.
    const TRACKED: Option<bindings::rdma_restrack_type>;

    /// Bytes that the driver wants for one, the C structure included, which comes first.
    fn size(ops: &bindings::ib_device_ops) -> usize;

    /// What tracks it.
    fn entry(this: *mut Self::C) -> *mut bindings::rdma_restrack_entry;

    /// # Safety
    ///
    /// For `'a`, `ptr` is an object that lives, with a device that does.
    #[inline]
    unsafe fn from_raw<'a>(ptr: *mut Self::C) -> &'a Self {
        // SAFETY: By this function's duty and the trait's.
        unsafe { &*ptr.cast() }
    }

    /// The C structure.
    #[inline]
    fn as_raw(&self) -> *mut Self::C {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Defines kinds of objects: the Rust name, the C structure, the field of the driver's
/// method table that has its size, and as what it is tracked.
macro_rules! objects {
    ($(
        $(#[$doc:meta])*
        $name:ident: $c:ident, $size:expr, $tracked:expr, $entry:expr;
    )*) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        pub(crate) struct $name(Opaque<bindings::$c>);

        // SAFETY: Transparent over the structure; entry as given below; C makes them of zeros.
        unsafe impl Object for $name {
            type C = bindings::$c;
            const TRACKED: Option<bindings::rdma_restrack_type> = $tracked;

            fn size(ops: &bindings::ib_device_ops) -> usize {
                let size: fn(&bindings::ib_device_ops) -> usize = $size;
                size(ops)
            }

            fn entry(this: *mut Self::C) -> *mut bindings::rdma_restrack_entry {
                let entry: fn(*mut Self::C) -> *mut bindings::rdma_restrack_entry = $entry;
                entry(this)
            }
        }

        impl $name {
            /// The device that it belongs to.
            #[inline]
            pub(crate) fn device(&self) -> &Device {
                // SAFETY: By the duty of `from_raw` object and device live; the field is
                // written before the object is anybody's.
                unsafe { Device::from_raw((*self.as_raw()).device) }
            }
        }
    )* };
}

/// Where the field `res` of a structure is. The pointer is only computed, not followed.
macro_rules! res {
    () => {
        |this| this.wrapping_byte_add(offset_of_res(this)).cast()
    };
}

/// The place of `res`, by type.
trait HasRes {
    const AT: usize;
}

macro_rules! has_res {
    ($($c:ident),*) => { $(
        impl HasRes for bindings::$c {
            const AT: usize = core::mem::offset_of!(bindings::$c, res);
        }
    )* };
}

has_res!(ib_pd, ib_cq, ib_srq, ib_qp, ib_mr);

fn offset_of_res<T: HasRes>(_: *mut T) -> usize {
    T::AT
}

objects! {
    /// A protection domain.
    Pd: ib_pd, |ops| ops.size_ib_pd,
        Some(bindings::rdma_restrack_type_RDMA_RESTRACK_PD), res!();
    /// An address handle. Not tracked.
    Ah: ib_ah, |ops| ops.size_ib_ah, None, |_| core::ptr::null_mut();
    /// A shared receive queue.
    Srq: ib_srq, |ops| ops.size_ib_srq,
        Some(bindings::rdma_restrack_type_RDMA_RESTRACK_SRQ), res!();
    /// A queue pair.
    Qp: ib_qp, |ops| ops.size_ib_qp,
        Some(bindings::rdma_restrack_type_RDMA_RESTRACK_QP), res!();
    /// A completion queue.
    Cq: ib_cq, |ops| ops.size_ib_cq,
        Some(bindings::rdma_restrack_type_RDMA_RESTRACK_CQ), res!();
    /// A domain of extended reliable connections. Not tracked.
    Xrcd: ib_xrcd, |ops| ops.size_ib_xrcd, None, |_| core::ptr::null_mut();
    /// A memory region. The driver allocates and frees it, of a size that it alone knows.
    Mr: ib_mr, |_| usize::MAX,
        Some(bindings::rdma_restrack_type_RDMA_RESTRACK_MR), res!();
    /// A work queue. The driver allocates and frees it. Not tracked.
    Wq: ib_wq, |_| usize::MAX, None, |_| core::ptr::null_mut();
}

/// Whether memory is taken from the node of the device, and whether the caller may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Any node; the caller may sleep.
    Anywhere,
    /// The device's node, if the driver names one; the caller may sleep.
    DeviceNode,
    /// Any node; the caller may not sleep.
    Atomic,
}

/// Who owns an object, as `rdma res` shows it.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A part of the kernel by its name; without a name, the present process.
    Caller(*const c_char),
    /// Whoever owns the protection domain.
    OfPd(&'a Pd),
}

/// Starts to track an object.
///
/// # Safety
///
/// `this` is an object that lives and is not tracked; a caller's name is a string that stays
/// as long as the object, or null.
unsafe fn start_tracking<K: Object>(this: *mut K::C, owner: Owner<'_>) {
    let Some(kind) = K::TRACKED else { return };
    let entry = K::entry(this);
    // SAFETY: By this function's duty.
    unsafe {
        crate::private::rdma_restrack_new(entry, kind);
        match owner {
            Owner::Caller(name) => crate::private::rdma_restrack_set_name(entry, name),
            Owner::OfPd(pd) => {
                crate::private::rdma_restrack_parent_name(entry, Pd::entry(pd.as_raw()))
            }
        }
    }
}

/// An object in the making.
///
/// # Invariants
///
/// `ptr` is an object of zeros, or what was made of them, that is ours alone and of which
/// the memory is kfree's. Its entry was initialised if `tracked`.
pub(crate) struct New<K: Object> {
    ptr: NonNull<K::C>,
    tracked: bool,
}

impl<K: Object> New<K> {
    /// Allocates one, all zeros, at the driver's size.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` if the driver has no such objects.
    pub(crate) fn alloc(device: &Device, from: From) -> Result<Self> {
        let size = K::size(device.ops());
        if size < size_of::<K::C>() {
            return Err(eopnotsupp());
        }
        let flags = match from {
            From::Anywhere | From::DeviceNode => bindings::GFP_KERNEL,
            From::Atomic => bindings::GFP_ATOMIC,
        };
        let numa = from == From::DeviceNode;
        // SAFETY: The device lives.
        let ptr = unsafe { bindings::rdma_helper_zalloc_obj(device.as_raw(), size, flags, numa) };
        // INVARIANT: New memory of zeros, which are an object; nobody knows of it.
        Ok(Self {
            ptr: NonNull::new(ptr.cast()).ok_or(ENOMEM)?,
            tracked: false,
        })
    }

    /// The C structure, to fill in.
    pub(crate) fn c(&mut self) -> &mut K::C {
        // SAFETY: By the type invariant it is valid and ours alone.
        unsafe { self.ptr.as_mut() }
    }

    /// As [`as_raw`](Self::as_raw).
    pub(crate) fn ptr(&self) -> NonNull<K::C> {
        self.ptr
    }

    /// The C structure, to be given to the driver.
    pub(crate) fn as_raw(&self) -> *mut K::C {
        self.ptr.as_ptr()
    }

    /// Says who owns it. Before the driver is asked, once.
    ///
    /// # Safety
    ///
    /// A caller's name is a string that stays as long as the object, or null.
    pub(crate) unsafe fn track(&mut self, owner: Owner<'_>) {
        debug_assert!(!self.tracked);
        // SAFETY: By the type invariant, this function's duty, and it is not tracked yet.
        unsafe { start_tracking::<K>(self.as_raw(), owner) };
        // INVARIANT: Initialised just now.
        self.tracked = K::TRACKED.is_some();
    }

    /// The driver has made it: readers may find it from now on.
    pub(crate) fn finish(self) -> NonNull<K::C> {
        let this = ManuallyDrop::new(self);
        if this.tracked {
            // SAFETY: By the type invariant the entry is initialised; it is not added yet.
            unsafe { crate::private::rdma_restrack_add(K::entry(this.as_raw())) };
        }
        this.ptr
    }
}

impl<K: Object> Drop for New<K> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the entry was not added, so nobody else has it.
        unsafe {
            if self.tracked {
                bindings::rdma_restrack_put(K::entry(self.as_raw()));
            }
            bindings::kfree(self.as_raw().cast());
        }
    }
}

/// Tracks an object that the driver has allocated and made.
///
/// # Safety
///
/// `this` is such an object, made just now; a caller's name stays as long as it.
pub(crate) unsafe fn track_made<K: Object>(this: NonNull<K::C>, owner: Owner<'_>) {
    // SAFETY: By this function's duty.
    unsafe {
        start_tracking::<K>(this.as_ptr(), owner);
        crate::private::rdma_restrack_add(K::entry(this.as_ptr()));
    }
}

/// Destroys an object that the core allocated: hides it and waits for its readers, asks the
/// driver by `method`, and frees it after `after`. May sleep, unless it is not tracked.
///
/// # Errors
///
/// The driver's; the object is then as before.
///
/// # Safety
///
/// `this` is an object made by [`New::finish`] that nobody uses any more, or could begin to
/// use, if the driver agrees.
pub(crate) unsafe fn destroy<K: Object>(
    this: NonNull<K::C>,
    method: impl FnOnce() -> Result,
    after: impl FnOnce(),
) -> Result {
    let entry = K::entry(this.as_ptr());
    let tracked = K::TRACKED.is_some();
    if tracked {
        // SAFETY: By this function's duty.
        unsafe { crate::private::rdma_restrack_begin_del(entry) };
    }
    if let Err(error) = method() {
        if tracked {
            // SAFETY: As above, and begun.
            unsafe { crate::private::rdma_restrack_abort_del(entry) };
        }
        return Err(error);
    }
    after();
    // SAFETY: As above, and begun; the driver has given the object up.
    unsafe {
        if tracked {
            crate::private::rdma_restrack_commit_del(entry);
        }
        bindings::kfree(this.as_ptr().cast());
    }
    Ok(())
}

/// What a driver's method says: zero, or an error.
pub(crate) fn outcome(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        // A driver that returns something else has not done what it was asked.
        1.. => Err(EINVAL),
        _ => Err(Error::from_errno(code)),
    }
}

/// An optional method of a driver, or the error of a driver that has none.
pub(crate) fn method<F: Copy>(method: Option<F>) -> Result<F> {
    method.ok_or_else(eopnotsupp)
}

/// For C: a pointer or an error.
pub(crate) fn pointer<T>(made: Result<NonNull<T>>) -> *mut T {
    match made {
        Ok(ptr) => ptr.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

/// For C: zero or an error.
pub(crate) fn code(done: Result) -> c_int {
    match done {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// One count on a C object that says that another object uses it; given back on drop.
///
/// # Invariants
///
/// `0` is the count of an object that lives, and one of the counts is ours.
pub(crate) struct Use(NonNull<bindings::atomic_t>);

impl Use {
    /// Counts, unless there is no object.
    ///
    /// # Safety
    ///
    /// `count` is null, or the use count of an object that is not destroyed while it is used.
    pub(crate) unsafe fn of(count: *mut bindings::atomic_t) -> Option<Self> {
        let count = NonNull::new(count)?;
        // SAFETY: By this function's duty.
        unsafe { bindings::atomic_inc(count.as_ptr()) };
        // INVARIANT: Just counted.
        Some(Self(count))
    }

    /// Takes over a count from an object that is being destroyed: dropping this gives it back.
    ///
    /// # Safety
    ///
    /// As for [`Self::of`], and somebody has kept a count that is not given back otherwise.
    pub(crate) unsafe fn kept(count: *mut bindings::atomic_t) -> Option<Self> {
        // INVARIANT: By this function's duty.
        NonNull::new(count).map(Self)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::atomic_dec(self.0.as_ptr()) };
    }
}

/// Keeps counts for good: the object that they were taken for exists.
pub(crate) fn keep<const N: usize>(uses: [Option<Use>; N]) {
    uses.map(core::mem::forget);
}

/// The use count of an optional object: null if there is none.
macro_rules! usecnt {
    ($object:expr) => {{
        let object = $object;
        if object.is_null() {
            core::ptr::null_mut()
        } else {
            &raw mut (*object).usecnt
        }
    }};
}
pub(crate) use usecnt;

/// Whether somebody uses the object that this is the count of.
///
/// # Safety
///
/// `count` is the use count of an object that lives.
pub(crate) unsafe fn is_used(count: *const bindings::atomic_t) -> bool {
    // SAFETY: By this function's duty.
    unsafe { bindings::atomic_read(count) != 0 }
}
