// SPDX-License-Identifier: GPL-2.0

//! Work requests of kernel consumers, as typed values.
//!
//! A consumer posts a chain of C structures whose opcode, and for datagrams the type of the queue
//! pair, tell which larger structure each is part of. [`SendWrs`] and [`RecvWrs`] walk the chain
//! and remember how far they came, so that the adapter can tell the consumer which request was
//! refused. Nothing is copied.
//!
//! C header: `include/rdma/ib_verbs.h`; IBA 10.7 and 11.4.1.

use super::attr::Access;
use super::object::Ah;
use super::object::Mr;
use super::object::Qp;
use super::Provider;
use crate::bindings;
use core::marker::PhantomData;
use kernel::container_of;
use kernel::prelude::*;

/// A piece of memory: address, length in bytes, local key.
pub type Sge = bindings::ib_sge;

/// The pieces of memory of a request, one by one.
///
/// They are copied out, since a consumer may keep the list in a packed structure, where it is
/// not aligned (iSER does, with its receive descriptors).
///
/// # Invariants
///
/// From `next` on there are `left` entries that live for `'a`, aligned or not.
#[derive(Clone)]
pub struct Sges<'a> {
    next: *const Sge,
    left: usize,
    _p: PhantomData<&'a Sge>,
}

impl Sges<'_> {
    /// # Safety
    ///
    /// `list` is null or points to `num` entries, aligned or not, that live as long as this.
    #[inline]
    unsafe fn from_raw(list: *const Sge, num: i32) -> Self {
        let left = match usize::try_from(num) {
            Ok(num) if !list.is_null() => num,
            _ => 0,
        };
        // INVARIANT: The contract of this function, which says the same.
        Self {
            next: list,
            left,
            _p: PhantomData,
        }
    }
}

impl Iterator for Sges<'_> {
    type Item = Sge;

    #[inline]
    fn next(&mut self) -> Option<Sge> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: By the type invariant there was one more.
        let sge = unsafe { self.next.read_unaligned() };
        self.next = self.next.wrapping_add(1);
        Some(sge)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Sges<'_> {
    // The default compares both ends of `size_hint` and panics if they differ.
    #[inline]
    fn len(&self) -> usize {
        self.left
    }
}

/// A chain of send requests, an iterator.
///
/// # Invariants
///
/// `next` is null or a request of the chain, all of which live for `'a`. `stopped` is null or one
/// of them too.
pub struct SendWrs<'a, P: Provider> {
    next: *const bindings::ib_send_wr,
    stopped: *const bindings::ib_send_wr,
    datagram: bool,
    user: bool,
    _p: PhantomData<&'a Qp<P>>,
}

impl<'a, P: Provider> SendWrs<'a, P> {
    /// # Safety
    ///
    /// `head` is a chain that was posted to `qp`, and lives for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(qp: &Qp<P>, head: *const bindings::ib_send_wr) -> Self {
        // INVARIANT: The contract of this function, which says the same.
        Self {
            next: head,
            stopped: head,
            datagram: matches!(
                qp.raw_type(),
                bindings::ib_qp_type_IB_QPT_UD
                    | bindings::ib_qp_type_IB_QPT_GSI
                    | bindings::ib_qp_type_IB_QPT_SMI
            ),
            user: qp.is_user(),
            _p: PhantomData,
        }
    }

    /// Whether there is no further request. At the start of `post_send` this means a doorbell.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_null()
    }

    /// The request taken last, or the first if none was taken.
    #[inline]
    pub(crate) fn stopped_at(&self) -> *const bindings::ib_send_wr {
        self.stopped
    }
}

impl<'a, P: Provider> Iterator for SendWrs<'a, P> {
    type Item = SendWr<'a, P>;

    #[inline]
    fn next(&mut self) -> Option<SendWr<'a, P>> {
        // SAFETY: By the type invariant.
        let wr = unsafe { self.next.as_ref() }?;
        self.stopped = wr;
        self.next = wr.next;
        Some(SendWr {
            wr,
            datagram: self.datagram,
            user: self.user,
            _p: PhantomData,
        })
    }
}

/// A send request.
///
/// # Invariants
///
/// `wr` is part of the larger structure that its opcode, or `datagram`, calls for. `user` is
/// whether it was posted by a process, whose addresses are not ours.
pub struct SendWr<'a, P: Provider> {
    wr: &'a bindings::ib_send_wr,
    datagram: bool,
    user: bool,
    _p: PhantomData<&'a Qp<P>>,
}

/// What a send request asks for. Keys are without meaning until checked.
pub enum SendOp<'a, P: Provider> {
    /// A message.
    Send,
    /// A message with immediate data, in network order.
    SendImm([u8; 4]),
    /// A message, after which the peer invalidates this key.
    SendInv(u32),
    /// A write to the peer's memory.
    Write {
        /// Where to.
        addr: u64,
        /// Under which key.
        rkey: u32,
    },
    /// A write to the peer's memory which also ends a receive there.
    WriteImm {
        /// Where to.
        addr: u64,
        /// Under which key.
        rkey: u32,
        /// Immediate data, in network order.
        imm: [u8; 4],
    },
    /// A read from the peer's memory.
    Read {
        /// Where from.
        addr: u64,
        /// Under which key.
        rkey: u32,
    },
    /// A read from the peer's memory, after which this local key is invalidated.
    ReadInv {
        /// Where from.
        addr: u64,
        /// Under which key.
        rkey: u32,
        /// The local key.
        invalidate: u32,
    },
    /// An atomic compare and swap of 8 bytes of the peer's memory.
    CompareSwap {
        /// Where.
        addr: u64,
        /// Under which key.
        rkey: u32,
        /// What it must be.
        compare: u64,
        /// What it then becomes.
        swap: u64,
    },
    /// An atomic addition to 8 bytes of the peer's memory.
    FetchAdd {
        /// Where.
        addr: u64,
        /// Under which key.
        rkey: u32,
        /// How much.
        add: u64,
    },
    /// Make a local key invalid.
    LocalInv(u32),
    /// Make a memory region valid.
    RegMr {
        /// The region.
        mr: &'a Mr<P>,
        /// Its new key.
        key: u32,
        /// What it permits.
        access: Access,
    },
}

/// Where a datagram goes.
pub struct Datagram<'a, P: Provider> {
    /// The way.
    pub ah: &'a Ah<P>,
    /// Number of the queue pair there.
    pub qpn: u32,
    /// Its key; with the top bit set, the key of our own queue pair is meant (IBA 10.2.5).
    pub qkey: u32,
    /// Index of the partition key, for management datagrams.
    pub pkey_index: u16,
}

/// Reads a field of the structure of type `$t` around a request.
macro_rules! around {
    ($wr:expr, $t:ident) => {
        // SAFETY: By the invariant of `SendWr`, for the opcode matched on by the caller.
        unsafe { &*container_of!(core::ptr::from_ref($wr), bindings::$t, wr) }
    };
}

impl<'a, P: Provider> SendWr<'a, P> {
    /// The consumer's name for the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants of the union are 8 bytes (a pointer on 64-bit machines), and any
        // bits are a valid `u64`; the consumer set one of them.
        unsafe { *self.wr.__bindgen_anon_1.wr_id }
    }

    /// The C opcode, `IB_WR_*`.
    #[inline]
    pub fn raw_opcode(&self) -> u32 {
        self.wr.opcode
    }

    #[inline]
    fn has(&self, flag: bindings::ib_send_flags) -> bool {
        self.wr.send_flags & flag != 0
    }

    /// Whether the request shall have a completion though it succeeds.
    #[inline]
    pub fn signaled(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// Whether the peer's completion shall count as solicited.
    #[inline]
    pub fn solicited(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// Whether it waits for all reads and atomics before it.
    #[inline]
    pub fn fence(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_FENCE)
    }

    /// Whether the data must be copied while posting; [`Self::sges`] then hold kernel addresses.
    #[inline]
    pub fn inline(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_INLINE)
    }

    /// The local memory.
    #[inline]
    pub fn sges(&self) -> Sges<'a> {
        // SAFETY: The consumer keeps the list as long as the request.
        unsafe { Sges::from_raw(self.wr.sg_list, self.wr.num_sge) }
    }

    /// The bytes of a request that is [`inline`](Self::inline), piece by piece, in the front of
    /// `room`. `None` if there is not enough room, a piece
    /// that is nowhere, or if a process posted it.
    pub fn inline_data<'r>(&self, room: &'r mut [&'a [u8]]) -> Option<&'r [&'a [u8]]> {
        if self.user {
            return None;
        }
        let sges = self.sges();
        let pieces = room.get_mut(..sges.len())?;
        for (piece, sge) in pieces.iter_mut().zip(sges) {
            let len = usize::try_from(sge.length).ok()?;
            let addr = usize::try_from(sge.addr).ok()?;
            *piece = match core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut(addr)) {
                // SAFETY: Devices without DMA of their own are given kernel addresses by the
                // kernel, and the consumer keeps the bytes unchanged as long as the request.
                Some(start) => unsafe { core::slice::from_raw_parts(start.as_ptr(), len) },
                None if len == 0 => &[],
                None => return None,
            };
        }
        Some(pieces)
    }

    #[inline]
    fn imm(&self) -> [u8; 4] {
        // SAFETY: Both variants of the union are 4 bytes of any value.
        unsafe { *self.wr.ex.imm_data }.to_ne_bytes()
    }

    #[inline]
    fn invalidate(&self) -> u32 {
        // SAFETY: Both variants of the union are 4 bytes of any value.
        unsafe { *self.wr.ex.invalidate_rkey }
    }

    /// What to do. `EINVAL` for an opcode that kernel consumers do not have.
    #[inline]
    pub fn op(&self) -> Result<SendOp<'a, P>> {
        Ok(match self.wr.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm(self.imm()),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::SendInv(self.invalidate()),
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInv(self.invalidate()),
            // What follows lies in a larger structure, which a datagram's request is not.
            _ if self.datagram => return Err(EINVAL),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => {
                let r = around!(self.wr, ib_rdma_wr);
                SendOp::Write {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
                let r = around!(self.wr, ib_rdma_wr);
                SendOp::WriteImm {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                    imm: self.imm(),
                }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => {
                let r = around!(self.wr, ib_rdma_wr);
                SendOp::Read {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                let r = around!(self.wr, ib_rdma_wr);
                SendOp::ReadInv {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                    invalidate: self.invalidate(),
                }
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                let r = around!(self.wr, ib_atomic_wr);
                SendOp::CompareSwap {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                    compare: r.compare_add,
                    swap: r.swap,
                }
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                let r = around!(self.wr, ib_atomic_wr);
                SendOp::FetchAdd {
                    addr: r.remote_addr,
                    rkey: r.rkey,
                    add: r.compare_add,
                }
            }
            bindings::ib_wr_opcode_IB_WR_REG_MR => {
                let r = around!(self.wr, ib_reg_wr);
                if r.mr.is_null() {
                    return Err(EINVAL);
                }
                SendOp::RegMr {
                    // SAFETY: The consumer owns the region, which is one of the queue pair's
                    // device, and keeps it until the request has completed.
                    mr: unsafe { Mr::from_raw(r.mr) },
                    key: r.key,
                    // CAST: flags, the sign has no meaning.
                    access: Access::from_raw(r.access as u32),
                }
            }
            _ => return Err(EINVAL),
        })
    }

    /// Where a datagram goes; `None` on a connected queue pair or without an address handle.
    #[inline]
    pub fn datagram(&self) -> Option<Datagram<'a, P>> {
        if !self.datagram {
            return None;
        }
        let r = around!(self.wr, ib_ud_wr);
        Some(Datagram {
            // SAFETY: The consumer keeps the handle, which is one of the queue pair's device,
            // until the request has completed.
            ah: unsafe { Ah::from_raw_opt(r.ah) }?,
            qpn: r.remote_qpn,
            qkey: r.remote_qkey,
            pkey_index: r.pkey_index,
        })
    }
}

/// A chain of receive requests, an iterator.
///
/// # Invariants
///
/// `next` is null or a request of the chain, all of which live for `'a`. `stopped` is null or one
/// of them too.
pub struct RecvWrs<'a> {
    next: *const bindings::ib_recv_wr,
    stopped: *const bindings::ib_recv_wr,
    _p: PhantomData<&'a bindings::ib_recv_wr>,
}

impl RecvWrs<'_> {
    /// # Safety
    ///
    /// `head` is a chain that was posted, and lives for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(head: *const bindings::ib_recv_wr) -> Self {
        // INVARIANT: The contract of this function, which says the same.
        Self {
            next: head,
            stopped: head,
            _p: PhantomData,
        }
    }

    /// The request taken last, or the first if none was taken.
    #[inline]
    pub(crate) fn stopped_at(&self) -> *const bindings::ib_recv_wr {
        self.stopped
    }
}

impl<'a> Iterator for RecvWrs<'a> {
    type Item = RecvWr<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecvWr<'a>> {
        // SAFETY: By the type invariant.
        let wr = unsafe { self.next.as_ref() }?;
        self.stopped = wr;
        self.next = wr.next;
        Some(RecvWr { wr })
    }
}

/// A receive request.
pub struct RecvWr<'a> {
    wr: &'a bindings::ib_recv_wr,
}

impl<'a> RecvWr<'a> {
    /// The consumer's name for the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants of the union are 8 bytes (a pointer on 64-bit machines), and any
        // bits are a valid `u64`; the consumer set one of them.
        unsafe { *self.wr.__bindgen_anon_1.wr_id }
    }

    /// The local memory.
    #[inline]
    pub fn sges(&self) -> Sges<'a> {
        // SAFETY: The consumer keeps the list as long as the request.
        unsafe { Sges::from_raw(self.wr.sg_list, self.wr.num_sge) }
    }
}
