// SPDX-License-Identifier: GPL-2.0

//! Transfers at the edge: `struct rdma_rw_ctx`, the requests behind it, and the memory that is
//! mapped for them.
//!
//! | file | what |
//! |---|---|
//! | here | contexts as arguments: to be made, to be posted, to be ended |
//! | `direct` | requests that name memory piece by piece |
//! | `regions` | regions of a transfer, and their requests |
//! | `mapping` | scatter lists that are mapped for DMA |
//! | `vector` | vectors of pages |
//!
//! A transfer's requests point to each other and to their pieces, so only this module writes them.
//! To be held against `include/rdma/rw.h`.

pub(super) mod direct;
pub(super) mod mapping;
pub(super) mod regions;
pub(super) mod vector;

use self::direct::Requests;
use self::regions::Pool;
use self::regions::Prepared;
use self::regions::Regions;
use self::vector::Joined;
use crate::errno::eopnotsupp;
use crate::object::Object;
use crate::object::Qp;
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
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::Tied;
use rdma::edge::View;
use rdma::edge::Within;

/// Whether whoever loaded the module wants regions always. It may change at any time, as a whole.
pub(super) fn force_regions() -> bool {
    // SAFETY: The variable of a module parameter, a byte that is zero or one.
    unsafe { (&raw const bindings::rdma_rw_force_mr).read_volatile() }
}

/// One request, with its one piece of memory.
type CSingle = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_1;
/// Many requests and pieces.
type CMany = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_2;
/// One request, with memory that the device sees as one piece.
type CJoined = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_3;
/// One region with its requests.
type CRegion = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

/// What a request does.
#[derive(Clone, Copy)]
pub(super) struct Rdma {
    /// `enum ib_wr_opcode`.
    pub(super) opcode: u32,
    /// Where, in the peer's memory.
    pub(super) remote: u64,
    /// The key for that.
    pub(super) rkey: u32,
}

/// By what means a transfer is made, and what is behind its context. Numbers as in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// One request.
    Single = 0,
    /// Many requests.
    Many = 1,
    /// Regions.
    Region = 2,
    /// One region, with protection information.
    Signature = 3,
    /// One request of memory that an IOMMU has joined.
    Joined = 4,
}

impl Kind {
    #[inline]
    fn from_raw(kind: u8) -> Option<Self> {
        Some(match kind {
            0 => Self::Single,
            1 => Self::Many,
            2 => Self::Region,
            3 => Self::Signature,
            4 => Self::Joined,
            _ => return None,
        })
    }
}

rdma::c_struct! {
    /// The memory of a context, which may not be initialised.
    struct Ctx: bindings::rdma_rw_ctx;
    fields {
        /// How many requests move data, once it is made.
        cell nr_ops: u32, set_nr_ops;
        /// Its [`Kind`], once it is made.
        cell number at type_: u8, set_number;
    }
}

// SAFETY: C's callers own the memory for the call, and give initialised memory for all types but
// `Place`, of which nothing is read; `Opaque` is not `Sync`.
unsafe impl OfCall for Ctx {}

/// A context.
///
/// # Invariants
///
/// Only this uses it during `'a`.
struct Context<'a>(&'a Ctx);

impl Context<'_> {
    /// Its kind, once it is made; none for a number that is no kind.
    #[inline]
    fn kind(&self) -> Option<Kind> {
        Kind::from_raw(self.0.number())
    }

    /// How many requests move data, once it is made.
    #[inline]
    fn ops(&self) -> usize {
        // CAST: Not less than 32 bits.
        self.0.nr_ops() as usize
    }

    /// The place of a member of the union that depends on the kind.
    #[inline]
    fn place<T>(&self) -> *mut T {
        const CONTENT: usize = core::mem::offset_of!(bindings::rdma_rw_ctx, __bindgen_anon_1);
        self.0.raw().wrapping_byte_add(CONTENT).cast()
    }
}

/// A context that is to be made.
pub(crate) struct Place<'a>(Context<'a>);

impl Place<'_> {
    /// It is made: of this kind, with so many requests that move data.
    ///
    /// # Safety
    ///
    /// The union has what the kind says, for so many requests.
    unsafe fn made(&mut self, kind: Kind, ops: usize) {
        self.0 .0.set_number(kind as u8);
        // CAST: Fewer than pieces, which have 32 bits.
        self.0 .0.set_nr_ops(ops as u32);
    }

    /// Makes a transfer of what is not in the context itself.
    #[inline]
    fn store(&mut self, what: Stored) {
        // SAFETY: The place is the context's own. What is written is of the kind.
        unsafe {
            let (kind, ops) = match what {
                Stored::Many((many, ops)) => {
                    self.0.place::<CMany>().write(many);
                    (Kind::Many, ops)
                }
                Stored::Regions(pool, (regions, ops)) => {
                    self.0.place::<*mut CRegion>().write(regions);
                    match pool {
                        Pool::Plain => (Kind::Region, ops),
                        Pool::Signed => (Kind::Signature, ops),
                    }
                }
            };
            self.made(kind, ops);
        }
    }

    /// It is not made: consumers that look whether there is something to destroy find nothing.
    pub(super) fn not_made(&mut self) {
        self.0 .0.set_nr_ops(0);
    }

    /// Makes a transfer of one piece.
    pub(super) fn single(&mut self, piece: Piece, lkey: u32, rdma: &Rdma) {
        let place: *mut CSingle = self.0.place();
        // SAFETY: The place is the context's own; it stays where it is until the transfer is done
        // (`rdma_rw_ctx_init`). Just written for this kind.
        unsafe {
            direct::write_one(
                &raw mut (*place).sge,
                &raw mut (*place).wr,
                piece,
                lkey,
                rdma,
            );
            self.made(Kind::Single, 1);
        }
    }

    /// Makes a transfer of many pieces.
    pub(super) fn many(&mut self, requests: Requests) {
        self.store(Stored::Many(requests.into_raw()));
    }

    /// Makes a transfer of regions, of this kind.
    pub(super) fn regions(&mut self, regions: Regions<'_>) {
        self.store(Stored::Regions(regions.pool(), regions.into_raw()));
    }
}

/// What a context leads to, and how many requests move data; the context owns it.
enum Stored {
    /// Of [`Requests::into_raw`].
    Many((CMany, usize)),
    /// Of [`Regions::into_raw`].
    Regions(Pool, (*mut CRegion, usize)),
}

/// An argument of C: a context, or null.
pub(crate) struct Arg<T>(pub(super) Option<T>);

/// A transfer that was made, and may be posted: it is not under way.
pub(crate) struct Ready<'a>(Context<'a>);

/// Says of a transfer that it was made of lists.
pub(crate) enum Lists {}
/// Says of a transfer that it was made of a vector.
pub(crate) enum Vectors {}

/// A transfer that was made, of what `Of` says, and is done.
///
/// Lists of the call with which C ends it are those that it was made of; so are the arguments with
/// the tag [`Same`].
pub(crate) struct Done<'a, Of>(Context<'a>, PhantomData<Of>);

/// Ties arguments of the call that ends a transfer: it was made with them.
pub(crate) enum Same {}
/// The queue pair of a transfer.
pub(crate) type QpArg<'a> = Tied<'a, Same, Option<&'a Qp>>;
/// The direction of a transfer.
pub(crate) type DmaArg<'a> = Tied<'a, Same, bindings::dma_data_direction>;

macro_rules! contexts {
    ($($name:ty: |$context:ident| $make:expr;)*) => { $(
        // SAFETY: `from_c`'s contract: null, or a context as the type says, the callee's.
        unsafe impl<'a> FromC for Arg<$name> {
            type C = *mut bindings::rdma_rw_ctx;

            #[inline]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: `from_c`'s contract. INVARIANT: The same.
                let context = unsafe { Option::<&'a Ctx>::from_c(c) }.map(Context);
                Self(context.map(|$context| $make))
            }
        }
        // SAFETY: It is limited to `'a`.
        unsafe impl<'a> Within<'a> for Arg<$name> {}
    )* };
}

contexts! {
    Place<'a>: |context| Place(context);
    Ready<'a>: |context| Ready(context);
    Done<'a, Lists>: |context| Done(context, PhantomData);
    Done<'a, Vectors>: |context| Done(context, PhantomData);
}

/// A chain of requests: the first and the last.
pub(super) struct Ends<'a> {
    first: NonNull<bindings::ib_send_wr>,
    last: NonNull<bindings::ib_send_wr>,
    _of: PhantomData<&'a mut CMany>,
}

impl Ends<'_> {
    /// Ends the chain: with `next`, or else its last request completes to `cqe`. Returns the
    /// first.
    pub(super) fn close(
        self,
        cqe: Passed<bindings::ib_cqe>,
        next: Passed<bindings::ib_send_wr>,
    ) -> Passed<bindings::ib_send_wr> {
        let last = self.last.as_ptr();
        // SAFETY: Requests of a transfer that is not under way (`Ready`). What C passes is not
        // followed.
        unsafe {
            if next.as_ptr().is_null() {
                (*last).__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe.into_c());
                (*last).send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
            } else {
                (*last).next = next.into_c();
            }
            Passed::from_c(self.first.as_ptr())
        }
    }
}

/// What is to be posted of a transfer.
pub(super) enum Chain<'a> {
    /// Requests that can be posted as they are.
    Direct(Ends<'a>),
    /// Those of regions, which need new keys each time.
    Regions(Prepared<'a>),
}

impl<'a> Ready<'a> {
    /// Its requests; none if it was not made.
    pub(super) fn chain(self) -> Option<Chain<'a>> {
        let context = &self.0;
        let kind = context.kind()?;
        // SAFETY: The transfer was made (the type's contract), and its kind says of what.
        let (first, last) = unsafe {
            match kind {
                Kind::Single => {
                    let wr = &raw mut (*context.place::<CSingle>()).wr.wr;
                    (wr, wr)
                }
                Kind::Joined => {
                    let wr = &raw mut (*context.place::<CJoined>()).wr.wr;
                    (wr, wr)
                }
                Kind::Many => {
                    let wrs = (*context.place::<CMany>()).wrs;
                    let last = wrs.add(context.ops().checked_sub(1)?);
                    (&raw mut (*wrs).wr, &raw mut (*last).wr)
                }
                Kind::Region | Kind::Signature => {
                    let regions = context.place::<*mut CRegion>().read();
                    return Some(Chain::Regions(Prepared::new(regions, context.ops())?));
                }
            }
        };
        Some(Chain::Direct(Ends {
            first: NonNull::new(first)?,
            last: NonNull::new(last)?,
            _of: PhantomData,
        }))
    }
}

/// Posts requests.
pub(super) fn post(qp: &Qp, first: Passed<bindings::ib_send_wr>) -> c_int {
    let Some(post) = qp.device().ops().post_send else {
        return eopnotsupp().to_errno();
    };
    // SAFETY: The method is of the queue pair's own driver; `chain` and C made the requests.
    unsafe { post(qp.raw(), first.into_c(), &mut core::ptr::null()) }
}

/// What a transfer had. Drop gives it back, but does not unmap it.
enum Content<'a> {
    /// One piece.
    Single(Piece),
    /// Many requests.
    Many(Requests),
    /// Regions.
    Regions(Regions<'a>),
    /// What an IOMMU has joined.
    Joined(Joined<'a>),
}

impl<'a, Of> Done<'a, Of> {
    /// Its kind; none if it was not made.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.0.kind()
    }

    /// Ends it; none if there is nothing to end.
    pub(super) fn end(self, qp: QpArg<'a>, dma: DmaArg<'a>) -> Option<Ended<'a, Of>> {
        let (context, qp, dma) = (self.0, qp.get()?, dma.get());
        let (kind, ops) = (context.kind()?, context.ops());
        // SAFETY: The transfer was made (the type's contract), and its kind says of what. Nobody
        // uses that any more.
        let content = unsafe {
            match kind {
                Kind::Single => Content::Single(direct::piece(&(*context.place::<CSingle>()).sge)),
                Kind::Many => {
                    Content::Many(Requests::from_raw(context.place::<CMany>().read(), ops))
                }
                Kind::Region | Kind::Signature => {
                    let pool = if kind == Kind::Region {
                        Pool::Plain
                    } else {
                        Pool::Signed
                    };
                    let regions = context.place::<*mut CRegion>().read();
                    Content::Regions(Regions::from_raw(regions, ops, qp, pool)?)
                }
                Kind::Joined => {
                    Content::Joined(Joined::from_raw(context.place(), qp.device(), dma)?)
                }
            }
        };
        // INVARIANT: The tag: the arguments are those that the transfer was made with.
        let right = Unmap { qp, dma };
        Some(Ended {
            content,
            right,
            _of: PhantomData,
        })
    }
}

/// A transfer that is to be unmapped, and what it had.
///
/// # Invariants
///
/// `content` is of the transfer that `right` is of.
#[must_use = "its memory stays mapped"]
pub(super) struct Ended<'a, Of> {
    content: Content<'a>,
    right: Unmap<'a>,
    _of: PhantomData<Of>,
}

/// The right to unmap what a transfer has mapped.
///
/// # Invariants
///
/// The transfer was made on `qp`, in this direction, with the lists of the call that ends it, and
/// is done. There is one of each transfer.
struct Unmap<'a> {
    qp: &'a Qp,
    dma: bindings::dma_data_direction,
}

/// Types of which zeros are values, and that drop does nothing to.
///
/// # Safety
///
/// A value of zeros is valid, and the type does not implement `Drop`.
unsafe trait Plain {}

// SAFETY: A C structure of numbers and pointers.
unsafe impl Plain for bindings::scatterlist {}
// SAFETY: Numbers and pointers, of which null is one.
unsafe impl Plain for CRegion {}

/// Zeroed memory of kmalloc's, for an array.
///
/// # Invariants
///
/// `ptr` is memory of kmalloc's that is ours, with `len` values.
struct Array<T: Plain> {
    ptr: NonNull<T>,
    len: usize,
    _values: PhantomData<T>,
}

/// Zeroed memory of kmalloc's. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for no bytes, which are not allocated, and could not be freed by kfree.
fn zeroed(layout: Layout) -> Result<NonNull<u8>> {
    if layout.size() == 0 {
        return Err(EINVAL);
    }
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    Ok(memory.cast())
}

impl<T: Plain> Array<T> {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(len: usize) -> Result<Self> {
        let layout = Layout::array::<T>(len).map_err(|_| ENOMEM)?;
        // INVARIANT: New memory of this size, of zeros, which are values.
        Ok(Self {
            ptr: zeroed(layout)?.cast(),
            len,
            _values: PhantomData,
        })
    }

    /// Gives the memory away, to be freed by kfree.
    fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).ptr.as_ptr()
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: The memory is ours, with so many values (type invariant).
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: The memory is ours, with so many values (type invariant).
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: The memory is kmalloc's, and ours (type invariant).
        unsafe { bindings::kfree(self.ptr.as_ptr().cast()) };
    }
}
