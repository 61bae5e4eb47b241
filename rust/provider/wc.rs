// SPDX-License-Identifier: GPL-2.0

//! Completions for kernel consumers (IBTA 11.4.2.1).
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_wc`).

use crate::bindings;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

/// Identifies a queue pair in completions. It is not a reference: completions of a destroyed queue
/// pair still name it, which consumers prevent by draining a queue pair before they destroy it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct QpToken(*mut bindings::ib_qp);

// SAFETY: The pointer is not dereferenced.
unsafe impl Send for QpToken {}
// SAFETY: The pointer is not dereferenced.
unsafe impl Sync for QpToken {}

impl QpToken {
    pub(crate) fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp)
    }

    /// Returns the pointer that consumers get.
    pub fn as_raw(self) -> *mut bindings::ib_qp {
        self.0
    }
}

/// A completion.
#[repr(transparent)]
pub struct Wc(bindings::ib_wc);

// SAFETY: A completion is data; its pointer is not dereferenced.
unsafe impl Send for Wc {}
// SAFETY: As for `Send`.
unsafe impl Sync for Wc {}

impl Clone for Wc {
    fn clone(&self) -> Self {
        // SAFETY: The C structure is plain data, which may be copied.
        unsafe { core::ptr::read(self) }
    }
}

impl Wc {
    /// Creates the completion of the request with the ID `wr_id` on `qp`, with `IB_WC_*` status and
    /// opcode.
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

    /// Creates a successful completion.
    #[inline]
    pub fn success(wr_id: u64, qp: QpToken, opcode: bindings::ib_wc_opcode) -> Self {
        Self::new(wr_id, qp, bindings::ib_wc_status_IB_WC_SUCCESS, opcode)
    }

    /// Creates the completion of a flushed request.
    #[inline]
    pub fn flushed(wr_id: u64, qp: QpToken) -> Self {
        Self::new(wr_id, qp, bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR, 0)
    }

    #[inline]
    fn flag(&mut self, flag: bindings::ib_wc_flags) {
        // CAST: Flags in the low bits.
        self.0.wc_flags |= flag as i32;
    }

    /// Sets the number of bytes received or read.
    #[inline]
    pub fn byte_len(mut self, len: u32) -> Self {
        self.0.byte_len = len;
        self
    }

    /// Sets immediate data, in network order.
    #[inline]
    pub fn imm(mut self, imm: [u8; 4]) -> Self {
        self.0.ex.imm_data = ManuallyDrop::new(u32::from_ne_bytes(imm));
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_IMM);
        self
    }

    /// Sets the key that the peer invalidated.
    #[inline]
    pub fn invalidated(mut self, rkey: u32) -> Self {
        self.0.ex.invalidate_rkey = ManuallyDrop::new(rkey);
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE);
        self
    }

    /// Sets the sender of a datagram; the first 40 bytes of the buffer contain the GRH.
    #[inline]
    pub fn from_datagram(mut self, src_qp: u32, pkey_index: u16, port: u32) -> Self {
        self.0.src_qp = src_qp;
        self.0.pkey_index = pkey_index;
        self.0.port_num = port;
        self.flag(bindings::ib_wc_flags_IB_WC_GRH);
        self
    }

    /// Sets the sender of an InfiniBand datagram: the source LID, the service level, and the path
    /// bits of the destination LID.
    #[inline]
    pub fn from_lid(mut self, src_qp: u32, slid: u16, sl: u8, path_bits: u8) -> Self {
        self.0.src_qp = src_qp;
        self.0.slid = slid.into();
        self.0.sl = sl;
        self.0.dlid_path_bits = path_bits;
        self
    }

    /// Sets the index of the P_Key of a management datagram.
    #[inline]
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.0.pkey_index = index;
        self
    }

    /// Sets the flag that the first 40 bytes of the buffer contain the GRH.
    #[inline]
    pub fn global(mut self) -> Self {
        self.flag(bindings::ib_wc_flags_IB_WC_GRH);
        self
    }

    /// Sets the port that received the message.
    #[inline]
    pub fn port(mut self, port: u32) -> Self {
        self.0.port_num = port;
        self
    }

    /// Sets the type of network header of a datagram, `RDMA_NETWORK_*`.
    #[inline]
    pub fn network(mut self, kind: u8) -> Self {
        self.0.network_hdr_type = kind;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE);
        self
    }

    /// Sets the VLAN of a datagram.
    #[inline]
    pub fn vlan(mut self, id: u16) -> Self {
        self.0.vlan_id = id;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_VLAN);
        self
    }

    /// Sets the source MAC address of a datagram.
    #[inline]
    pub fn smac(mut self, mac: [u8; 6]) -> Self {
        self.0.smac = mac;
        self.flag(bindings::ib_wc_flags_IB_WC_WITH_SMAC);
        self
    }

    /// Returns the status, `IB_WC_*`.
    #[inline]
    pub fn status(&self) -> bindings::ib_wc_status {
        self.0.status
    }

    /// Returns the C structure.
    #[inline]
    pub fn as_raw(&self) -> &bindings::ib_wc {
        &self.0
    }
}

/// The array into which a consumer polls.
///
/// # Invariants
///
/// `next` points to `left` entries that are valid for writes for `'a`.
pub struct WcSlots<'a> {
    next: *mut bindings::ib_wc,
    left: u32,
    written: u32,
    _p: PhantomData<&'a mut bindings::ib_wc>,
}

impl WcSlots<'_> {
    /// # Safety
    ///
    /// `wc` must point to `n` entries that are valid for writes for the lifetime of the result.
    #[inline]
    pub(crate) unsafe fn from_raw(wc: *mut bindings::ib_wc, n: i32) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self {
            next: wc,
            left: u32::try_from(n).unwrap_or(0),
            written: 0,
            _p: PhantomData,
        }
    }

    /// Returns the number of free entries.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Returns whether there is no free entry.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a completion; returns it if there is no free entry.
    #[inline]
    pub fn push(&mut self, wc: Wc) -> core::result::Result<(), Wc> {
        if self.left == 0 {
            return Err(wc);
        }
        // SAFETY: There is a free entry, as checked (type invariant), and the next one is at most
        // one past the end of the array.
        unsafe {
            self.next.write(wc.0);
            self.next = self.next.add(1);
        }
        // OVERFLOW: It was not zero, as checked.
        self.left -= 1;
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn written(&self) -> u32 {
        self.written
    }
}
