// SPDX-License-Identifier: GPL-2.0

//! The C interface of transfers: `struct rdma_rw_ctx`, its requests, and their DMA-mapped memory.
//!
//! | file | what |
//! |---|---|
//! | here | contexts as arguments: to be created, posted, destroyed |
//! | `direct` | requests that refer to memory directly |
//! | `regions` | regions of a transfer, and their requests |
//! | `mapping` | DMA mappings of scatter lists |
//! | `vector` | vectors of pages |
//!
//! The requests of a transfer point to each other and to their SGEs, so only this module writes
//! them. Contract: `include/rdma/rw.h`.

pub(super) mod direct;
pub(super) mod mapping;
pub(super) mod regions;
pub(super) mod vector;

use self::direct::Requests;
use self::regions::Pool;
use self::regions::Prepared;
use self::regions::Regions;
use self::vector::Joined;
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
use rdma::errno::eopnotsupp;

/// Returns the module parameter that forces registration. It may change at any time, atomically.
pub(super) fn force_regions() -> bool {
    // SAFETY: The variable of a module parameter, a byte that is zero or one.
    unsafe { (&raw const bindings::rdma_rw_force_mr).read_volatile() }
}

/// One request with a single SGE.
type CSingle = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_1;
/// Several requests and their SGEs.
type CMany = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_2;
/// One request, with memory that the IOMMU maps to one contiguous range.
type CJoined = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_3;
/// One region with its requests.
type CRegion = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

/// Operation and remote memory of a request.
#[derive(Clone, Copy)]
pub(super) struct Rdma {
    /// `enum ib_wr_opcode`.
    pub(super) opcode: u32,
    /// Remote address.
    pub(super) remote: u64,
    /// Remote key.
    pub(super) rkey: u32,
}

/// Kind of a transfer, which determines the content of its context. Numbers as in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// One request with a single SGE.
    Single = 0,
    /// Several requests.
    Many = 1,
    /// Regions.
    Region = 2,
    /// One region with protection information.
    Signature = 3,
    /// One request for memory that the IOMMU maps to one contiguous range.
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
    /// The memory of a context, which may be uninitialised.
    struct Ctx: bindings::rdma_rw_ctx;
    fields {
        /// Number of requests that transfer data, once created.
        cell nr_ops: u32, set_nr_ops;
        /// The [`Kind`], once created.
        cell number at type_: u8, set_number;
    }
}

// SAFETY: C callers own the memory for the call, and pass initialised memory for all types but
// `Place`, which reads nothing; `Opaque` is not `Sync`.
unsafe impl OfCall for Ctx {}

/// A context.
///
/// # Invariants
///
/// Nothing else uses the context during `'a`.
struct Context<'a>(&'a Ctx);

impl Context<'_> {
    /// The kind, once created; `None` for an unknown number.
    #[inline]
    fn kind(&self) -> Option<Kind> {
        Kind::from_raw(self.0.number())
    }

    /// Number of requests that transfer data, once created.
    #[inline]
    fn ops(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        self.0.nr_ops() as usize
    }

    /// Address of the union, whose member depends on the kind.
    #[inline]
    fn place<T>(&self) -> *mut T {
        const CONTENT: usize = core::mem::offset_of!(bindings::rdma_rw_ctx, __bindgen_anon_1);
        self.0.raw().wrapping_byte_add(CONTENT).cast()
    }
}

/// A context of a transfer to be created.
pub(crate) struct Place<'a>(Context<'a>);

impl Place<'_> {
    /// Records the kind of the created transfer, and its number of requests that transfer data.
    ///
    /// # Safety
    ///
    /// The union must hold the member of that kind, for that many requests.
    unsafe fn made(&mut self, kind: Kind, ops: usize) {
        self.0 .0.set_number(kind as u8);
        // CAST: At most the number of SGEs, a `u32`.
        self.0 .0.set_nr_ops(ops as u32);
    }

    /// Creates a transfer whose requests are outside of the context.
    #[inline]
    fn store(&mut self, what: Stored) {
        // SAFETY: The memory belongs to the context, and the member that is written is that of the
        // kind.
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

    /// Records that no transfer was created: consumers that check whether to destroy it find
    /// nothing.
    pub(super) fn not_made(&mut self) {
        self.0 .0.set_nr_ops(0);
    }

    /// Creates a transfer of a single DMA segment.
    pub(super) fn single(&mut self, piece: Piece, lkey: u32, rdma: &Rdma) {
        let place: *mut CSingle = self.0.place();
        // SAFETY: The memory belongs to the context, which stays in place until the transfer is
        // completed (`rdma_rw_ctx_init`). The member of this kind is written just before `made`.
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

    /// Creates a transfer of several requests.
    pub(super) fn many(&mut self, requests: Requests) {
        self.store(Stored::Many(requests.into_raw()));
    }

    /// Creates a transfer of regions, of the kind of their pool.
    pub(super) fn regions(&mut self, regions: Regions<'_>) {
        self.store(Stored::Regions(regions.pool(), regions.into_raw()));
    }
}

/// Content owned by a context, and its number of requests that transfer data.
enum Stored {
    /// From [`Requests::into_raw`].
    Many((CMany, usize)),
    /// From [`Regions::into_raw`].
    Regions(Pool, (*mut CRegion, usize)),
}

/// A C argument: a context, or null.
pub(crate) struct Arg<T>(pub(super) Option<T>);

/// A transfer that was created and is not in progress, so it may be posted.
pub(crate) struct Ready<'a>(Context<'a>);

/// Marks a transfer created of scatter lists.
pub(crate) enum Lists {}
/// Marks a transfer created of a vector.
pub(crate) enum Vectors {}

/// A completed transfer, created of what `Of` says.
///
/// The lists of the C call that destroys it are those that it was created of; so are the arguments
/// with the tag [`Same`].
pub(crate) struct Done<'a, Of>(Context<'a>, PhantomData<Of>);

/// Tag of arguments of the call that destroys a transfer: they are those of its creation.
pub(crate) enum Same {}
/// The queue pair of a transfer.
pub(crate) type QpArg<'a> = Tied<'a, Same, Option<&'a Qp>>;
/// The direction of a transfer.
pub(crate) type DmaArg<'a> = Tied<'a, Same, bindings::dma_data_direction>;

macro_rules! contexts {
    ($($name:ty: |$context:ident| $make:expr;)*) => { $(
        // SAFETY: By the contract of `from_c`: null, or a context in the state that the type says,
        // which only the callee uses.
        unsafe impl<'a> FromC for Arg<$name> {
            type C = *mut bindings::rdma_rw_ctx;

            #[inline]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: By the contract of `from_c`. INVARIANT: Only the callee uses the context.
                let context = unsafe { Option::<&'a Ctx>::from_c(c) }.map(Context);
                Self(context.map(|$context| $make))
            }
        }
        // SAFETY: Its lifetime is `'a`.
        unsafe impl<'a> Within<'a> for Arg<$name> {}
    )* };
}

contexts! {
    Place<'a>: |context| Place(context);
    Ready<'a>: |context| Ready(context);
    Done<'a, Lists>: |context| Done(context, PhantomData);
    Done<'a, Vectors>: |context| Done(context, PhantomData);
}

/// First and last request of a chain.
pub(super) struct Ends<'a> {
    first: NonNull<bindings::ib_send_wr>,
    last: NonNull<bindings::ib_send_wr>,
    _of: PhantomData<&'a mut CMany>,
}

impl Ends<'_> {
    /// Ends the chain: it continues with `next`, or if that is null, its last request completes to
    /// `cqe`. Returns the first request.
    pub(super) fn close(
        self,
        cqe: Passed<bindings::ib_cqe>,
        next: Passed<bindings::ib_send_wr>,
    ) -> Passed<bindings::ib_send_wr> {
        let last = self.last.as_ptr();
        // SAFETY: These are requests of a transfer that is not in progress (`Ready`). The pointers
        // from C are not dereferenced.
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

/// The requests of a transfer that is to be posted.
pub(super) enum Chain<'a> {
    /// Requests that can be posted unchanged.
    Direct(Ends<'a>),
    /// Requests of regions, which need a new key each time.
    Regions(Prepared<'a>),
}

impl<'a> Ready<'a> {
    /// The requests of the transfer; `None` if it was not created.
    pub(super) fn chain(self) -> Option<Chain<'a>> {
        let context = &self.0;
        let kind = context.kind()?;
        // SAFETY: The transfer was created (contract of `Ready`), and its kind determines its
        // content.
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

/// Posts a chain of requests.
pub(super) fn post(qp: &Qp, first: Passed<bindings::ib_send_wr>) -> c_int {
    let Some(post) = qp.device().ops().post_send else {
        return eopnotsupp().to_errno();
    };
    // SAFETY: The method belongs to the driver of the queue pair; `chain` and C created the
    // requests.
    unsafe { post(qp.raw(), first.into_c(), &mut core::ptr::null()) }
}

/// Content of a transfer. Drop releases it, but does not unmap it.
enum Content<'a> {
    /// A single DMA segment.
    Single(Piece),
    /// Several requests.
    Many(Requests),
    /// Regions.
    Regions(Regions<'a>),
    /// Memory that the IOMMU maps to one contiguous range.
    Joined(Joined<'a>),
}

impl<'a, Of> Done<'a, Of> {
    /// The kind of the transfer; `None` if it was not created.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.0.kind()
    }

    /// Takes the content of the transfer; `None` if there is nothing to destroy.
    pub(super) fn end(self, qp: QpArg<'a>, dma: DmaArg<'a>) -> Option<Ended<'a, Of>> {
        let (context, qp, dma) = (self.0, qp.get()?, dma.get());
        let (kind, ops) = (context.kind()?, context.ops());
        // SAFETY: The transfer was created and is completed (contract of `Done`), and its kind
        // determines its content, which nothing uses any more.
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
        // INVARIANT: By the tag `Same`, the arguments are those of the transfer's creation.
        let right = Unmap { qp, dma };
        Some(Ended {
            content,
            right,
            _of: PhantomData,
        })
    }
}

/// A completed transfer that is to be unmapped, and its content.
///
/// # Invariants
///
/// `content` and `right` belong to the same transfer.
#[must_use = "its memory stays mapped"]
pub(super) struct Ended<'a, Of> {
    content: Content<'a>,
    right: Unmap<'a>,
    _of: PhantomData<Of>,
}

/// The right to unmap the memory of a transfer.
///
/// # Invariants
///
/// The transfer was created on `qp`, in this direction, with the lists of the call that destroys
/// it, and is completed. There is one value per transfer.
struct Unmap<'a> {
    qp: &'a Qp,
    dma: bindings::dma_data_direction,
}

/// Types for which all-zero is a valid value, and that need no drop.
///
/// # Safety
///
/// All-zero must be a valid value, and the type must not implement `Drop`.
unsafe trait Plain {}

// SAFETY: A C structure of integers and pointers.
unsafe impl Plain for bindings::scatterlist {}
// SAFETY: Integers and pointers that may be null.
unsafe impl Plain for CRegion {}

/// A zeroed kmalloc allocation for an array.
///
/// # Invariants
///
/// `ptr` is owned kmalloc memory with `len` values.
struct Array<T: Plain> {
    ptr: NonNull<T>,
    len: usize,
    _values: PhantomData<T>,
}

/// Allocates zeroed memory with kmalloc. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for a size of zero, which is not allocated and could not be passed to kfree.
fn zeroed(layout: Layout) -> Result<NonNull<u8>> {
    if layout.size() == 0 {
        return Err(EINVAL);
    }
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    Ok(memory.cast())
}

impl<T: Plain> Array<T> {
    /// Allocates `len` zeroed values. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(len: usize) -> Result<Self> {
        let layout = Layout::array::<T>(len).map_err(|_| ENOMEM)?;
        // INVARIANT: New memory of this size, zeroed, which is a valid value (`Plain`).
        Ok(Self {
            ptr: zeroed(layout)?.cast(),
            len,
            _values: PhantomData,
        })
    }

    /// Gives up ownership of the memory, which must be freed with kfree.
    fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).ptr.as_ptr()
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: The memory is owned and has `len` values (type invariant).
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: The memory is owned and has `len` values (type invariant).
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: The memory is from kmalloc, and owned (type invariant).
        unsafe { bindings::kfree(self.ptr.as_ptr().cast()) };
    }
}
