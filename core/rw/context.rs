// SPDX-License-Identifier: GPL-2.0

//! `struct rdma_rw_ctx`: a transfer, in memory of its consumer's.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ops::DerefMut;
use core::ptr::NonNull;
use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::flags::__GFP_ZERO;
use kernel::alloc::Allocator;
use kernel::alloc::NumaNode;
use kernel::prelude::*;
use rdma::bindings;

/// One request, with its one piece of memory.
pub(super) type Single = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_1;
/// Many requests and pieces.
pub(super) type Many = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_2;
/// One request, with memory that the device sees as one piece.
pub(super) type Joined = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_3;
/// One region with its requests.
pub(super) type Region = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

/// By what means a transfer is made, and what is behind its context. Numbers as in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// [`Single`].
    Single = 0,
    /// [`Many`].
    Many = 1,
    /// An array of [`Region`]s.
    Region = 2,
    /// One [`Region`], with protection information.
    Signature = 3,
    /// [`Joined`].
    Joined = 4,
}

/// A transfer.
///
/// # Invariants
///
/// `0` is valid, and only this uses it. It is of its [`kind`](Self::kind) once it is made.
pub(super) struct Context(NonNull<bindings::rdma_rw_ctx>);

impl Context {
    /// # Safety
    ///
    /// `ctx` is valid and the caller's alone as long as this exists; it is as it was made, or
    /// is to be made.
    pub(super) unsafe fn new(ctx: *mut bindings::rdma_rw_ctx) -> Result<Self> {
        // INVARIANT: By this function's duty.
        NonNull::new(ctx).map(Self).ok_or(EINVAL)
    }

    /// Its kind; none, if it was not made.
    pub(super) fn kind(&self) -> Option<Kind> {
        // SAFETY: By the type invariant.
        Some(match unsafe { (*self.0.as_ptr()).type_ } {
            0 => Kind::Single,
            1 => Kind::Many,
            2 => Kind::Region,
            3 => Kind::Signature,
            4 => Kind::Joined,
            _ => return None,
        })
    }

    /// How many requests move data.
    pub(super) fn ops(&self) -> usize {
        // SAFETY: By the type invariant.
        usize::try_from(unsafe { (*self.0.as_ptr()).nr_ops }).unwrap_or(0)
    }

    /// It is made: of this kind, with so many requests that move data.
    pub(super) fn made(&mut self, kind: Kind, ops: usize) {
        // SAFETY: By the type invariant.
        unsafe {
            (*self.0.as_ptr()).type_ = kind as u8;
            // Fewer than pieces, which have 32 bits.
            (*self.0.as_ptr()).nr_ops = ops as u32;
        }
    }

    /// It is not made: consumers that look whether there is something to destroy find nothing.
    pub(super) fn not_made(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).nr_ops = 0 };
    }

    /// The place of a single request.
    pub(super) fn single(&mut self) -> *mut Single {
        // SAFETY: By the type invariant; only a place is computed.
        unsafe { (&raw mut (*self.0.as_ptr()).__bindgen_anon_1).cast() }
    }

    /// The place of a joined request.
    pub(super) fn joined(&mut self) -> *mut Joined {
        // SAFETY: By the type invariant; only a place is computed.
        unsafe { (&raw mut (*self.0.as_ptr()).__bindgen_anon_1).cast() }
    }

    /// Many requests; for that kind only.
    pub(super) fn many(&self) -> Many {
        // SAFETY: By the type invariant; any bytes are two pointers.
        unsafe { *(*self.0.as_ptr()).__bindgen_anon_1.map }
    }

    pub(super) fn set_many(&mut self, many: Many) {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).__bindgen_anon_1.map = ManuallyDrop::new(many) };
    }

    /// The regions; for those kinds only.
    pub(super) fn regions(&self) -> *mut Region {
        // SAFETY: By the type invariant; any bytes are a pointer.
        unsafe { *(*self.0.as_ptr()).__bindgen_anon_1.reg }
    }

    pub(super) fn set_regions(&mut self, regions: *mut Region) {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).__bindgen_anon_1.reg = ManuallyDrop::new(regions) };
    }
}

/// Types of which zeros are values, and that drop does nothing to.
///
/// # Safety
///
/// As said.
pub(super) unsafe trait Plain {}

// SAFETY: All are C structures of numbers and pointers.
unsafe impl Plain for bindings::ib_sge {}
// SAFETY: As above.
unsafe impl Plain for bindings::ib_rdma_wr {}
// SAFETY: As above.
unsafe impl Plain for bindings::scatterlist {}
// SAFETY: As above.
unsafe impl Plain for Region {}

/// Zeroed memory of kmalloc's, for an array.
///
/// # Invariants
///
/// `ptr` is memory of kmalloc's that is ours, with `len` values.
pub(super) struct Array<T: Plain> {
    ptr: NonNull<T>,
    len: usize,
    _values: PhantomData<T>,
}

/// Zeroed memory. May sleep.
fn zeroed(layout: Layout) -> Result<NonNull<u8>> {
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    Ok(memory.cast())
}

impl<T: Plain> Array<T> {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: usize) -> Result<Self> {
        let layout = Layout::array::<T>(len).map_err(|_| ENOMEM)?;
        // INVARIANT: New memory of this size, of zeros, which are values.
        Ok(Self {
            ptr: zeroed(layout)?.cast(),
            len,
            _values: PhantomData,
        })
    }

    /// Gives the memory away, to be freed by kfree.
    pub(super) fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).ptr.as_ptr()
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: By the type invariant.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: By the type invariant.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::kfree(self.ptr.as_ptr().cast()) };
    }
}

/// Requests and their pieces, in one memory.
///
/// # Invariants
///
/// `raw.wrs` is memory of kmalloc's that is ours, with `requests` requests, and at
/// `raw.sges` in it `pieces` pieces.
pub(super) struct Requests {
    raw: Many,
    requests: usize,
    pieces: usize,
}

impl Requests {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(requests: usize, pieces: usize) -> Result<Self> {
        let of_requests = Layout::array::<bindings::ib_rdma_wr>(requests).map_err(|_| ENOMEM)?;
        let of_pieces = Layout::array::<bindings::ib_sge>(pieces).map_err(|_| ENOMEM)?;
        let (layout, at) = of_requests.extend(of_pieces).map_err(|_| ENOMEM)?;
        let memory = zeroed(layout)?.as_ptr();
        // INVARIANT: New memory of this size, of zeros, which are values of both.
        Ok(Self {
            raw: Many {
                wrs: memory.cast(),
                sges: memory.wrapping_add(at).cast(),
            },
            requests,
            pieces,
        })
    }

    /// Both.
    pub(super) fn parts(&mut self) -> (&mut [bindings::ib_rdma_wr], &mut [bindings::ib_sge]) {
        // SAFETY: By the type invariant; they do not overlap.
        unsafe {
            (
                core::slice::from_raw_parts_mut(self.raw.wrs, self.requests),
                core::slice::from_raw_parts_mut(self.raw.sges, self.pieces),
            )
        }
    }

    /// Gives the memory away, to be freed by kfree of the requests.
    pub(super) fn into_raw(self) -> Many {
        ManuallyDrop::new(self).raw
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::kfree(self.raw.wrs.cast()) };
    }
}
