// SPDX-License-Identifier: GPL-2.0

//! Packets and requests that are well formed and else anything.

use rdma_wire::*;
use rxe_sim::host::PostedSend;
use rxe_sim::proto::*;

use crate::bytes::Bytes;

/// Keys: none, one with all rights, one to read, one that nobody has, and any.
pub fn key(from: &mut Bytes<'_>) -> Key {
    match from.u8() {
        n @ 0..=239 => Key([1, 1, 1, 2, 3, 0][usize::from(n) % 6]),
        _ => Key(from.u32()),
    }
}

fn aeth(from: &mut Bytes<'_>) -> Aeth {
    Aeth {
        syndrome: AethSyndrome::from_byte(from.u8()).unwrap_or(AethSyndrome::ACK),
        msn: Msn::new(from.number32()),
    }
}

fn reth(from: &mut Bytes<'_>) -> Reth {
    Reth {
        va: from.number(),
        rkey: key(from).0,
        length: from.number32(),
    }
}

/// Extension headers of a layout; `None` for those that this engine never sees.
fn ext(from: &mut Bytes<'_>, layout: Layout) -> Option<Ext> {
    let imm = ImmDt([1, 2, 3, 4]);
    let deth = |from: &mut Bytes<'_>| Deth {
        qkey: from.below(2),
        src_qpn: from.number32() & 0xff_ffff,
    };
    Some(match layout {
        Layout::None => Ext::None,
        Layout::Imm => Ext::Imm(imm),
        Layout::Ieth => Ext::Ieth(Ieth { rkey: key(from).0 }),
        Layout::Reth => Ext::Reth(reth(from)),
        Layout::RethImm => Ext::RethImm(reth(from), imm),
        Layout::FethReth => {
            let what = from.u8();
            let feth = Feth {
                placement: what & 15,
                selectivity: what >> 4 & 3,
            };
            Ext::FethReth(feth, reth(from))
        }
        Layout::AtomicEth => Ext::AtomicEth(AtomicEth {
            va: from.number(),
            rkey: key(from).0,
            swap_or_add: 5,
            compare: from.number(),
        }),
        Layout::Aeth => Ext::Aeth(aeth(from)),
        Layout::AethAtomicAck => Ext::AethAtomicAck(aeth(from), AtomicAckEth { original: 7 }),
        Layout::Deth => Ext::Deth(deth(from)),
        Layout::DethImm => Ext::DethImm(deth(from), imm),
        Layout::Cnp => Ext::Cnp,
        _ => return None,
    })
}

/// A datagram whose PSN is near one that counts: `near` a request or a response.
pub fn datagram(from: &mut Bytes<'_>, near: [Psn; 2], mtu: u32) -> Option<Vec<u8>> {
    let opcode = from.pick(Opcode::ALL);
    let flags = from.u8();
    let base = near[usize::from(opcode.is_response())];
    let psn = match from.u8() {
        n @ 0..=199 => base + u32::from(n % 8),
        n @ 200..=239 => base - u32::from(n - 199),
        n @ 240..=247 => base + (1 << (n - 225)),
        _ => Psn::new(from.u32()),
    };
    let ext = ext(from, opcode.layout())?;
    let len = match opcode.payload_rule() {
        PayloadRule::None => 0,
        PayloadRule::Fixed(len) => len.into(),
        PayloadRule::Mtu | PayloadRule::OneToMtu | PayloadRule::ZeroToMtu => match from.u8() {
            0..=99 => mtu as usize,
            100..=119 => mtu as usize + 1,
            n => usize::from(n - 120),
        },
    };
    let mut bth = Bth::new(opcode, 7, psn);
    bth.pad = pad_len(len);
    bth.ack_req = flags & 1 != 0;
    bth.solicited = flags & 2 != 0;
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let headers = write_headers(&mut bytes, &bth, &ext)?;
    bytes.truncate(headers);
    bytes.resize(headers + len + usize::from(bth.pad) + ICRC_LEN, flags);
    Some(bytes)
}

/// A send request, checked as far as the glue checks it, with what backs its buffers.
pub fn request(from: &mut Bytes<'_>, datagram: bool) -> PostedSend {
    let what = from.u8();
    let imm = (what & 16 != 0).then_some([9; 4]);
    let mut length = from.number32().min(1 << 31);
    let op = match what & 15 {
        0..=2 => SendOp::Send { imm },
        3 => SendOp::SendInv { key: key(from) },
        4 | 5 => SendOp::Write {
            va: from.number(),
            key: key(from),
            imm,
        },
        6..=8 => SendOp::Read {
            va: from.number(),
            key: key(from),
        },
        9 => {
            length = 8;
            SendOp::CompareSwap {
                va: from.number(),
                key: key(from),
                compare: from.number(),
                swap: 2,
            }
        }
        10 => {
            length = 8;
            SendOp::FetchAdd {
                va: from.number(),
                key: key(from),
                add: 1,
            }
        }
        11 => {
            length = 8;
            SendOp::AtomicWrite {
                va: from.number(),
                key: key(from),
                value: [1; 8],
            }
        }
        12 => {
            let (va, key, range) = (from.number(), key(from), from.number32());
            length = 0;
            SendOp::Flush {
                va,
                key,
                length: range,
                kind: from.u8(),
                level: from.u8(),
            }
        }
        13 => SendOp::LocalInv { key: key(from) },
        14 => SendOp::RegMr,
        _ => SendOp::BindMw,
    };
    let wqe = SendWqe {
        wr_id: u64::from(what),
        op,
        flags: SendFlags {
            signaled: what & 32 != 0,
            solicited: what & 64 != 0,
            fence: what & 128 != 0,
        },
        length,
        ud: datagram.then(|| UdDest {
            qpn: Qpn(from.u32() & 0xff_ffff),
            qkey: from.below(2),
        }),
    };
    // A length that the buffers do not back is a local protection error.
    let backed = match from.u8() {
        n @ 0..=31 => u32::from(n),
        _ => length.min(5_000),
    };
    PostedSend {
        wqe: if from.u8() == 255 {
            Err((wqe.wr_id, WcStatus::LocQpOp))
        } else {
            Ok(wqe)
        },
        buf: vec![what; backed as usize],
    }
}
