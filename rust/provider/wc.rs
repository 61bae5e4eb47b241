// SPDX-License-Identifier: GPL-2.0

//! Completions for kernel consumers (IBA 11.4.2.1).
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_wc`).

use crate::bindings;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

/// Names a queue pair in completions. It keeps nothing alive: completions of a destroyed queue
/// pair name it still, which consumers know, as they drain a queue pair before they destroy it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct QpToken(*mut bindings::ib_qp);

// SAFETY: It is only a number to us.
unsafe impl Send for QpToken {}
// SAFETY: It is only a number to us.
unsafe impl Sync for QpToken {}

impl QpToken {
    pub(crate) fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp)
    }

    /// The pointer that consumers see.
    pub fn as_raw(self) -> *mut bindings::ib_qp {
        self.0
    }
}

/// A completion.
#[repr(transparent)]
pub struct Wc(bindings::ib_wc);

// SAFETY: A completion is data; its pointer is only handed on.
unsafe impl Send for Wc {}
// SAFETY: See `Send`.
unsafe impl Sync for Wc {}

impl Clone for Wc {
    fn clone(&self) -> Self {
        // SAFETY: The C structure is plain data, valid to copy bit by bit.
        unsafe { core::ptr::read(self) }
    }
}

impl Wc {
    /// The completion of the request named `wr_id` on `qp`, with `IB_WC_*` status and opcode.
    #[inline]
    pub fn new(
        wr_id: u64,
        qp: QpToken,
        status: bindings::ib_wc_status,
        opcode: bindings::ib_wc_opcode,
    ) -> Self {
        let mut wc = bindings::ib_wc::default();
        wc.__bindgen_anon_1.wr_id = ManuallyDrop::new(wr_id);
        wc.qp = qp.0;
        wc.status = status;
        wc.opcode = opcode;
        Self(wc)
    }

    /// A successful completion.
    #[inline]
    pub fn success(wr_id: u64, qp: QpToken, opcode: bindings::ib_wc_opcode) -> Self {
        Self::new(wr_id, qp, bindings::ib_wc_status_IB_WC_SUCCESS, opcode)
    }

    /// A request that was flushed.
    #[inline]
    pub fn flushed(wr_id: u64, qp: QpToken) -> Self {
        Self::new(wr_id, qp, bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR, 0)
    }

    #[inline]
    fn flag(&mut self, flag: bindings::ib_wc_flags) {
        // CAST: flags of the low bits.
        self.0.wc_flags |= flag as i32;
    }

    /// How many bytes were received or read.
    #[inline]
    pub fn byte_len(mut self, len: u32) -> Self {
        self.0.byte_len = len;
        self
    }

    /// Immediate data, in network order.
    #[inline]
    pub fn imm(mut self, imm: [u8; 4]) -> Self {
        self.0.ex.imm_data = ManuallyDrop::new(u32::from_ne_bytes(imm));
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_IMM);
        self
    }

    /// The key the peer invalidated.
    #[inline]
    pub fn invalidated(mut self, rkey: u32) -> Self {
        self.0.ex.invalidate_rkey = ManuallyDrop::new(rkey);
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE);
        self
    }

    /// Who sent a datagram; the first 40 bytes of the buffer hold the global route.
    #[inline]
    pub fn from_datagram(mut self, src_qp: u32, pkey_index: u16, port: u32) -> Self {
        self.0.src_qp = src_qp;
        self.0.pkey_index = pkey_index;
        self.0.port_num = port;
        self.flag(bindings::ib_wc_flags_IB_WC_GRH);
        self
    }

    /// Who sent a datagram over InfiniBand, and how it came: the local identifier of the
    /// source, the service level, and the low bits of our own local identifier.
    #[inline]
    pub fn from_lid(mut self, src_qp: u32, slid: u16, sl: u8, path_bits: u8) -> Self {
        self.0.src_qp = src_qp;
        self.0.slid = slid.into();
        self.0.sl = sl;
        self.0.dlid_path_bits = path_bits;
        self
    }

    /// The partition key that a management datagram came with, by its index.
    #[inline]
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.0.pkey_index = index;
        self
    }

    /// The first 40 bytes of the buffer hold the global route.
    #[inline]
    pub fn global(mut self) -> Self {
        self.flag(bindings::ib_wc_flags_IB_WC_GRH);
        self
    }

    /// The port a message came in on.
    #[inline]
    pub fn port(mut self, port: u32) -> Self {
        self.0.port_num = port;
        self
    }

    /// The sort of network header of a datagram, `RDMA_NETWORK_*`.
    #[inline]
    pub fn network(mut self, kind: u8) -> Self {
        self.0.network_hdr_type = kind;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE);
        self
    }

    /// The VLAN a datagram came in on.
    #[inline]
    pub fn vlan(mut self, id: u16) -> Self {
        self.0.vlan_id = id;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_VLAN);
        self
    }

    /// The source MAC address of a datagram.
    #[inline]
    pub fn smac(mut self, mac: [u8; 6]) -> Self {
        self.0.smac = mac;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_SMAC);
        self
    }

    /// Status, `IB_WC_*`.
    #[inline]
    pub fn status(&self) -> bindings::ib_wc_status {
        self.0.status
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> &bindings::ib_wc {
        &self.0
    }
}

/// The array a consumer polls into.
///
/// # Invariants
///
/// `next` points to `left` slots that are valid for writes for `'a`.
pub struct WcSlots<'a> {
    next: *mut bindings::ib_wc,
    left: u32,
    written: u32,
    _p: PhantomData<&'a mut bindings::ib_wc>,
}

impl WcSlots<'_> {
    /// # Safety
    ///
    /// `wc` points to `n` slots that are valid for writes for the lifetime of the result.
    #[inline]
    pub(crate) unsafe fn from_raw(wc: *mut bindings::ib_wc, n: i32) -> Self {
        // INVARIANT: The contract of this function, which says the same.
        Self {
            next: wc,
            left: u32::try_from(n).unwrap_or(0),
            written: 0,
            _p: PhantomData,
        }
    }

    /// How many completions still fit.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Whether no completion fits any more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a completion; without room gives it back.
    #[inline]
    pub fn push(&mut self, wc: Wc) -> core::result::Result<(), Wc> {
        if self.left == 0 {
            return Err(wc);
        }
        // SAFETY: By the type invariant there is a slot, and the next one is at most one past
        // the end of the array.
        unsafe {
            self.next.write(wc.0);
            self.next = self.next.add(1);
        }
        // OVERFLOW: it was not zero.
        self.left -= 1;
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn written(&self) -> u32 {
        self.written
    }
}
