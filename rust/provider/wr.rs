// SPDX-License-Identifier: GPL-2.0

//! Work requests of kernel consumers, as typed values.
//!
//! A consumer posts a chain of C structures. The opcode, and for datagrams the type of the queue
//! pair, determine which larger structure contains each of them. [`SendWrs`] and [`RecvWrs`]
//! iterate over the chain and remember their position, so that the adapter can return the request
//! that was refused. Nothing is copied.
//!
//! C header: `include/rdma/ib_verbs.h`; IBTA 10.7 and 11.4.1.

use super::attr::Access;
use super::object::Ah;
use super::object::Mr;
use super::object::Qp;
use super::Provider;
use crate::bindings;
use core::marker::PhantomData;
use kernel::container_of;
use kernel::prelude::*;

/// Scatter-gather entry: address, length in bytes, local key.
pub type Sge = bindings::ib_sge;

/// Iterator over the scatter-gather entries of a request.
///
/// Entries are returned by value, because a consumer may keep the list in a packed structure, where
/// it is not aligned (iSER does, with its receive descriptors).
///
/// # Invariants
///
/// `next` points to `left` entries that are valid for `'a`, aligned or not.
#[derive(Clone)]
pub struct Sges<'a> {
    next: *const Sge,
    left: usize,
    _p: PhantomData<&'a Sge>,
}

impl Sges<'_> {
    /// # Safety
    ///
    /// `list` must be null or point to `num` entries, aligned or not, that are valid for the
    /// lifetime of the result.
    #[inline]
    unsafe fn from_raw(list: *const Sge, num: i32) -> Self {
        let left = match usize::try_from(num) {
            Ok(num) if !list.is_null() => num,
            _ => 0,
        };
        // INVARIANT: Guaranteed by the caller (contract of this function).
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
        // SAFETY: `left` was not zero, so there is an entry (type invariant).
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
    // The default compares both values of `size_hint` and panics if they differ.
    #[inline]
    fn len(&self) -> usize {
        self.left
    }
}

/// Iterator over a chain of send requests.
///
/// # Invariants
///
/// `next` is null or a request of the chain, all of which are valid for `'a`. `stopped` is null or
/// one of them.
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
    /// `head` must be a chain that was posted to `qp` and is valid for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(qp: &Qp<P>, head: *const bindings::ib_send_wr) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
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

    /// Returns whether there is no further request. At the start of `post_send` this means a
    /// doorbell.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_null()
    }

    /// Returns the last request returned, or the first if none was.
    #[inline]
    pub(crate) fn stopped_at(&self) -> *const bindings::ib_send_wr {
        self.stopped
    }
}

impl<'a, P: Provider> Iterator for SendWrs<'a, P> {
    type Item = SendWr<'a, P>;

    #[inline]
    fn next(&mut self) -> Option<SendWr<'a, P>> {
        // SAFETY: Null or a valid request (type invariant).
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
/// `wr` is part of the larger structure that its opcode, or `datagram`, implies. `user` is set if
/// it was posted by a process, so its addresses are not kernel addresses.
pub struct SendWr<'a, P: Provider> {
    wr: &'a bindings::ib_send_wr,
    datagram: bool,
    user: bool,
    _p: PhantomData<&'a Qp<P>>,
}

/// Operation of a send request. Keys are not validated.
pub enum SendOp<'a, P: Provider> {
    /// A message.
    Send,
    /// A message with immediate data, in network order.
    SendImm([u8; 4]),
    /// A message, and invalidation of this key of the peer.
    SendInv(u32),
    /// An RDMA write.
    Write {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// An RDMA write with immediate data, which completes a receive of the peer.
    WriteImm {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Immediate data, in network order.
        imm: [u8; 4],
    },
    /// An RDMA read.
    Read {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// An RDMA read, followed by invalidation of a local key.
    ReadInv {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Local key to be invalidated.
        invalidate: u32,
    },
    /// An atomic compare and swap of 8 bytes of the peer's memory.
    CompareSwap {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Value to compare with.
        compare: u64,
        /// New value, if they are equal.
        swap: u64,
    },
    /// An atomic addition to 8 bytes of the peer's memory.
    FetchAdd {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Value to add.
        add: u64,
    },
    /// Invalidation of a local key.
    LocalInv(u32),
    /// Registration of a memory region.
    RegMr {
        /// The region.
        mr: &'a Mr<P>,
        /// Its new key.
        key: u32,
        /// Rights that the region grants.
        access: Access,
    },
}

/// Destination of a datagram.
pub struct Datagram<'a, P: Provider> {
    /// Address handle.
    pub ah: &'a Ah<P>,
    /// Number of the destination's queue pair.
    pub qpn: u32,
    /// Q_Key; if the top bit is set, that of the sending queue pair is used (IBTA 10.2.5).
    pub qkey: u32,
    /// Index of the P_Key, for management datagrams.
    pub pkey_index: u16,
}

/// Reads a field of the structure of type `$t` that contains a request.
macro_rules! around {
    ($wr:expr, $t:ident) => {
        // SAFETY: The opcode, on which the caller has matched, implies this structure (invariant of
        // `SendWr`).
        unsafe { &*container_of!(core::ptr::from_ref($wr), bindings::$t, wr) }
    };
}

impl<'a, P: Provider> SendWr<'a, P> {
    /// Returns the consumer's ID of the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants of the union have 8 bytes (a pointer on 64-bit machines), and any
        // bits are a valid `u64`; the consumer has set one of them.
        unsafe { *self.wr.__bindgen_anon_1.wr_id }
    }

    /// Returns the C opcode, `IB_WR_*`.
    #[inline]
    pub fn raw_opcode(&self) -> u32 {
        self.wr.opcode
    }

    #[inline]
    fn has(&self, flag: bindings::ib_send_flags) -> bool {
        self.wr.send_flags & flag != 0
    }

    /// Returns whether the request has a completion if it succeeds.
    #[inline]
    pub fn signaled(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// Returns whether the peer's completion counts as solicited.
    #[inline]
    pub fn solicited(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// Returns whether the request waits for all preceding reads and atomics.
    #[inline]
    pub fn fence(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_FENCE)
    }

    /// Returns whether the data is copied while posting; [`Self::sges`] then have kernel addresses.
    #[inline]
    pub fn inline(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_INLINE)
    }

    /// Returns the local memory.
    #[inline]
    pub fn sges(&self) -> Sges<'a> {
        // SAFETY: The consumer keeps the list as long as the request.
        unsafe { Sges::from_raw(self.wr.sg_list, self.wr.num_sge) }
    }

    /// Returns the data of an [`inline`](Self::inline) request as pieces, stored in `room`. `None`
    /// if there is not enough room, a piece has no address, or a process posted the request.
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
                // SAFETY: Kernel consumers pass kernel addresses to devices without DMA, and keep
                // the data unchanged as long as the request.
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

    /// Returns the operation. `EINVAL` for an opcode that kernel consumers cannot use.
    #[inline]
    pub fn op(&self) -> Result<SendOp<'a, P>> {
        Ok(match self.wr.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm(self.imm()),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::SendInv(self.invalidate()),
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInv(self.invalidate()),
            // The opcodes below have a larger structure, which a datagram's request is not part of.
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
                    // SAFETY: The consumer owns the region, of the queue pair's device, and keeps
                    // it until the request completes.
                    mr: unsafe { Mr::from_raw(r.mr) },
                    key: r.key,
                    // CAST: Flags, whose sign has no meaning.
                    access: Access::from_raw(r.access as u32),
                }
            }
            _ => return Err(EINVAL),
        })
    }

    /// Returns the destination of a datagram; `None` on a connected queue pair or without an
    /// address handle.
    #[inline]
    pub fn datagram(&self) -> Option<Datagram<'a, P>> {
        if !self.datagram {
            return None;
        }
        let r = around!(self.wr, ib_ud_wr);
        Some(Datagram {
            // SAFETY: The consumer keeps the handle, of the queue pair's device, until the request
            // completes.
            ah: unsafe { Ah::from_raw_opt(r.ah) }?,
            qpn: r.remote_qpn,
            qkey: r.remote_qkey,
            pkey_index: r.pkey_index,
        })
    }
}

/// Iterator over a chain of receive requests.
///
/// # Invariants
///
/// `next` is null or a request of the chain, all of which are valid for `'a`. `stopped` is null or
/// one of them.
pub struct RecvWrs<'a> {
    next: *const bindings::ib_recv_wr,
    stopped: *const bindings::ib_recv_wr,
    _p: PhantomData<&'a bindings::ib_recv_wr>,
}

impl RecvWrs<'_> {
    /// # Safety
    ///
    /// `head` must be a chain that was posted and is valid for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(head: *const bindings::ib_recv_wr) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self {
            next: head,
            stopped: head,
            _p: PhantomData,
        }
    }

    /// Returns the last request returned, or the first if none was.
    #[inline]
    pub(crate) fn stopped_at(&self) -> *const bindings::ib_recv_wr {
        self.stopped
    }
}

impl<'a> Iterator for RecvWrs<'a> {
    type Item = RecvWr<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecvWr<'a>> {
        // SAFETY: Null or a valid request (type invariant).
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
    /// Returns the consumer's ID of the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants of the union have 8 bytes (a pointer on 64-bit machines), and any
        // bits are a valid `u64`; the consumer has set one of them.
        unsafe { *self.wr.__bindgen_anon_1.wr_id }
    }

    /// Returns the local memory.
    #[inline]
    pub fn sges(&self) -> Sges<'a> {
        // SAFETY: The consumer keeps the list as long as the request.
        unsafe { Sges::from_raw(self.wr.sg_list, self.wr.num_sge) }
    }
}
