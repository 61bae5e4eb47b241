// SPDX-License-Identifier: GPL-2.0

//! A completion and its binary format in a user's completion queue: the 48 bytes of
//! `struct ib_uverbs_wc`, `include/uapi/rdma/ib_user_verbs.h`.
//!
//! Pure: no kernel imports; tested on the host.

use crate::proto::{Key, RecvCompletion, SendCompletion, WcOpcode, WcStatus};

/// Bytes of an entry in a user's completion queue. Slots are 64 bytes; librxe reads the slot size
/// from the queue's header.
pub const USER_CQE: usize = 48;

/// `enum ibv_wc_flags` of libibverbs, as user space interprets them.
pub mod flags {
    /// `IBV_WC_GRH`: a network header precedes the data of a datagram.
    pub const GRH: u32 = 1;
    /// `IBV_WC_WITH_IMM`.
    pub const WITH_IMM: u32 = 2;
    /// `IBV_WC_WITH_INV`. It differs from the kernel's own value, which users would read as a valid
    /// IP checksum.
    pub const WITH_INVALIDATE: u32 = 8;
}

/// Immediate data or an invalidated key; both use the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Neither.
    None,
    /// Immediate data in wire order.
    Imm([u8; 4]),
    /// The invalidated key.
    Invalidated(Key),
}

/// The queue pair of a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin<Q> {
    /// Number of the queue pair.
    pub qpn: u32,
    /// Port of the queue pair.
    pub port: u8,
    /// The kernel user's handle of the queue pair; only passed through.
    pub qp: Q,
}

/// Network properties of a received packet, for kernel users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Whether the packet arrived over IPv6 rather than IPv4.
    pub is_v6: bool,
    /// VLAN ID, if the packet was tagged.
    pub vlan: Option<u16>,
}

/// One completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe<Q> {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Status of the request.
    pub status: WcStatus,
    /// Operation of the request.
    pub opcode: WcOpcode,
    /// Number of bytes transferred.
    pub byte_len: u32,
    /// Immediate data or the invalidated key.
    pub extra: Extra,
    /// The queue pair.
    pub origin: Origin<Q>,
    /// QPN of the sender, on datagram queue pairs; otherwise zero.
    pub src_qpn: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Network properties. Set in receive completions only.
    pub network: Option<Network>,
    /// Whether it notifies consumers that wait for solicited completions only.
    pub solicited: bool,
}

impl<Q: Copy> Cqe<Q> {
    /// Creates the completion of a send request. Errors count as solicited: consumers that wait for
    /// messages must learn that none will arrive (IBTA 11.4.2.2).
    pub fn of_send(done: &SendCompletion, origin: Origin<Q>) -> Self {
        let ok = done.status == WcStatus::Success;
        Self {
            wr_id: done.wr_id,
            status: done.status,
            opcode: done.opcode,
            byte_len: if ok { done.byte_len } else { 0 },
            extra: Extra::None,
            origin,
            src_qpn: 0,
            flags: if ok && done.with_imm {
                flags::WITH_IMM
            } else {
                0
            },
            network: None,
            solicited: !ok,
        }
    }

    /// Creates the completion of a receive request.
    pub fn of_recv(done: &RecvCompletion, origin: Origin<Q>, network: Network) -> Self {
        let mut cqe = Self {
            wr_id: done.wr_id,
            status: done.status,
            opcode: done.opcode,
            byte_len: 0,
            extra: Extra::None,
            origin,
            src_qpn: 0,
            flags: 0,
            network: None,
            solicited: true,
        };
        if done.status != WcStatus::Success {
            return cqe;
        }
        cqe.byte_len = done.byte_len;
        cqe.src_qpn = done.src_qpn.map_or(0, |qpn| qpn.0);
        cqe.network = Some(network);
        cqe.solicited = done.solicited;
        cqe.flags = flags::GRH;
        (cqe.extra, cqe.flags) = match (done.imm, done.invalidated) {
            (Some(imm), _) => (Extra::Imm(imm), cqe.flags | flags::WITH_IMM),
            (None, Some(key)) => (Extra::Invalidated(key), cqe.flags | flags::WITH_INVALIDATE),
            (None, None) => (Extra::None, cqe.flags),
        };
        cqe
    }

    /// Returns the word `ex`: immediate data in wire order, or a key in host order.
    pub fn extra_word(&self) -> u32 {
        match self.extra {
            Extra::None => 0,
            Extra::Imm(bytes) => u32::from_ne_bytes(bytes),
            Extra::Invalidated(key) => key.0,
        }
    }

    /// Returns the bytes for user space. Fields specific to InfiniBand (LIDs, service level, P_Key
    /// index) are zero.
    pub fn user_bytes(&self) -> [u8; USER_CQE] {
        let status = u32::from(self.status.code());
        let opcode = u32::from(self.opcode.code());
        let words: [[u8; 8]; USER_CQE / 8] = [
            self.wr_id.to_ne_bytes(),
            pair(status, opcode),
            pair(0, self.byte_len),
            pair(self.extra_word(), self.origin.qpn),
            pair(self.src_qpn, self.flags),
            [0, 0, 0, 0, 0, 0, self.origin.port, 0],
        ];
        let mut bytes = [0u8; USER_CQE];
        for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&from);
        }
        bytes
    }
}

/// Combines two words as they lie in memory; cheaper than copying single bytes.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let (low, high) = if cfg!(target_endian = "big") {
        (second, first)
    } else {
        (first, second)
    };
    (u64::from(high) << 32 | u64::from(low)).to_ne_bytes()
}
