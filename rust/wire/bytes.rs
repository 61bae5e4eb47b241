// SPDX-License-Identifier: GPL-2.0

//! Byte layouts of the transport headers, and the way between bytes and values.
//!
//! Private to the wire module: other code sees the values of `headers.rs`.
//! Multi-byte fields are big-endian and nothing needs alignment.
//!
//! Source: IBTA volume 1, 8.3 (GRH) and 9.2 to 9.3; annexes A14 and A19.

use super::headers::{
    Aeth, AethSyndrome, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Grh, Ieth, ImmDt, Reth, XrcEth,
    QPN_MASK,
};
use super::opcode::Opcode;
use super::psn::{Msn, Psn};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

macro_rules! layouts {
    ($($(#[$doc:meta])* $len:literal $value:ident $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(
                zerocopy_derive::FromBytes,
                zerocopy_derive::IntoBytes,
                zerocopy_derive::Immutable,
                zerocopy_derive::Unaligned,
            )]
            #[repr(C)]
            pub(super) struct $name {
                $(pub(super) $field: $ty,)*
            }

            const _: () = assert!(size_of::<$name>() == $len && $value::LEN == $len);
        )*
    };
}

layouts! {
    /// `flags`: SE 0x80, M 0x40, pad 0x30, version 0x0f. `qpn`: FECN bit 31,
    /// BECN bit 30. `psn`: AckReq bit 31.
    12 Bth RawBth { opcode: u8, flags: u8, pkey: U16, qpn: U32, psn: U32, }
    16 Reth RawReth { va: U64, rkey: U32, length: U32, }
    28 AtomicEth RawAtomicEth { va: U64, rkey: U32, swap_or_add: U64, compare: U64, }
    8 AtomicAckEth RawAtomicAckEth { original: U64, }
    /// Syndrome in the top byte, MSN below.
    4 Aeth RawAeth { syndrome_msn: U32, }
    8 Deth RawDeth { qkey: U32, src_qpn: U32, }
    4 ImmDt RawImmDt { data: [u8; 4], }
    4 Ieth RawIeth { rkey: U32, }
    /// Placement in bits 3 to 0, selectivity in bits 5 and 4.
    4 Feth RawFeth { bits: U32, }
    4 XrcEth RawXrcEth { srqn: U32, }
    /// Version (4 bits), traffic class (8), flow label (20) come first.
    40 Grh RawGrh {
        version_class_flow: U32, payload_len: U16, next_header: u8, hop_limit: u8,
        sgid: [u8; 16], dgid: [u8; 16],
    }
}

/// Why bytes are no header. [`DropReason`](super::packet::DropReason) is its
/// counterpart for whole packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Malformed {
    Short,
    Version(u8),
    Opcode(u8),
    Syndrome(u8),
}

/// A value with a layout on the wire.
pub(super) trait Wire: Sized {
    type Raw: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable;

    fn decode(raw: Self::Raw) -> Result<Self, Malformed>;
    fn encode(&self) -> Self::Raw;
}

/// Takes headers off the front of a byte string.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(super) fn take<T: Wire>(&mut self) -> Result<T, Malformed> {
        use zerocopy::FromBytes as _;

        let (raw, rest) = T::Raw::read_from_prefix(self.0).map_err(|_| Malformed::Short)?;
        self.0 = rest;
        T::decode(raw)
    }

    /// The header at the front as it lies there.
    #[inline]
    pub(super) fn raw<T: Wire>(&self) -> Result<T::Raw, Malformed> {
        use zerocopy::FromBytes as _;

        let (raw, _) = T::Raw::read_from_prefix(self.0).map_err(|_| Malformed::Short)?;
        Ok(raw)
    }

    /// Passes over bytes that mean nothing, which must be there all the same.
    #[inline]
    pub(super) fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(len..).ok_or(Malformed::Short)?;
        Ok(())
    }
}

/// Puts headers one behind the other into a buffer.
pub(super) struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    #[inline]
    pub(super) fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, at: 0 }
    }

    /// `None` when the buffer has no room; nothing is written then.
    #[inline]
    pub(super) fn put<T: Wire>(&mut self, value: &T) -> Option<()> {
        use zerocopy::IntoBytes as _;

        let rest = self.buf.get_mut(self.at..)?;
        value.encode().write_to_prefix(rest).ok()?;
        self.at = self.at.checked_add(size_of::<T::Raw>())?;
        Some(())
    }

    /// Zero bytes, likewise.
    #[inline]
    pub(super) fn put_zeros(&mut self, len: usize) -> Option<()> {
        let end = self.at.checked_add(len)?;
        self.buf.get_mut(self.at..end)?.fill(0);
        self.at = end;
        Some(())
    }

    #[inline]
    pub(super) fn written(&self) -> usize {
        self.at
    }
}

/// The opcode of a base transport header of the version that we know.
#[inline]
pub(super) fn check_bth(raw: &RawBth) -> Result<Opcode, Malformed> {
    let version = raw.flags & 0x0f;
    if version != 0 {
        return Err(Malformed::Version(version));
    }
    Opcode::try_from(raw.opcode).map_err(|e| Malformed::Opcode(e.0))
}

/// The flag SE.
#[inline]
pub(super) const fn is_solicited(flags: u8) -> bool {
    flags & 0x80 != 0
}

/// How many bytes of pad there are.
#[inline]
pub(super) const fn pad_of(flags: u8) -> u8 {
    (flags >> 4) & 0x3
}

/// AckReq, in the word of the PSN.
#[inline]
pub(super) const fn wants_ack(psn: u32) -> bool {
    psn & (1 << 31) != 0
}

impl Wire for Bth {
    type Raw = RawBth;

    #[inline]
    fn decode(raw: RawBth) -> Result<Self, Malformed> {
        let opcode = check_bth(&raw)?;
        let qpn = raw.qpn.get();
        let psn = raw.psn.get();
        Ok(Self {
            opcode,
            solicited: is_solicited(raw.flags),
            migrated: raw.flags & 0x40 != 0,
            pad: pad_of(raw.flags),
            pkey: raw.pkey.get(),
            fecn: qpn & (1 << 31) != 0,
            becn: qpn & (1 << 30) != 0,
            dest_qpn: qpn & QPN_MASK,
            ack_req: wants_ack(psn),
            psn: Psn::new(psn),
        })
    }

    #[inline]
    fn encode(&self) -> RawBth {
        let &Self {
            opcode,
            solicited,
            migrated,
            pad,
            pkey,
            fecn,
            becn,
            dest_qpn,
            ack_req,
            psn,
        } = self;
        RawBth {
            opcode: opcode.into(),
            flags: u8::from(solicited) << 7 | u8::from(migrated) << 6 | (pad & 0x3) << 4,
            pkey: pkey.into(),
            qpn: (u32::from(fecn) << 31 | u32::from(becn) << 30 | dest_qpn & QPN_MASK).into(),
            psn: (u32::from(ack_req) << 31 | psn.get()).into(),
        }
    }
}

impl Wire for Reth {
    type Raw = RawReth;

    #[inline]
    fn decode(raw: RawReth) -> Result<Self, Malformed> {
        Ok(Self {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            length: raw.length.get(),
        })
    }

    #[inline]
    fn encode(&self) -> RawReth {
        let &Self { va, rkey, length } = self;
        RawReth {
            va: va.into(),
            rkey: rkey.into(),
            length: length.into(),
        }
    }
}

impl Wire for AtomicEth {
    type Raw = RawAtomicEth;

    #[inline]
    fn decode(raw: RawAtomicEth) -> Result<Self, Malformed> {
        Ok(Self {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            swap_or_add: raw.swap_or_add.get(),
            compare: raw.compare.get(),
        })
    }

    #[inline]
    fn encode(&self) -> RawAtomicEth {
        let &Self {
            va,
            rkey,
            swap_or_add,
            compare,
        } = self;
        RawAtomicEth {
            va: va.into(),
            rkey: rkey.into(),
            swap_or_add: swap_or_add.into(),
            compare: compare.into(),
        }
    }
}

impl Wire for AtomicAckEth {
    type Raw = RawAtomicAckEth;

    #[inline]
    fn decode(raw: RawAtomicAckEth) -> Result<Self, Malformed> {
        Ok(Self {
            original: raw.original.get(),
        })
    }

    #[inline]
    fn encode(&self) -> RawAtomicAckEth {
        RawAtomicAckEth {
            original: self.original.into(),
        }
    }
}

impl Wire for Aeth {
    type Raw = RawAeth;

    #[inline]
    fn decode(raw: RawAeth) -> Result<Self, Malformed> {
        let word = raw.syndrome_msn.get();
        let [syndrome, ..] = word.to_be_bytes();
        Ok(Self {
            syndrome: AethSyndrome::from_byte(syndrome).ok_or(Malformed::Syndrome(syndrome))?,
            msn: Msn::new(word),
        })
    }

    #[inline]
    fn encode(&self) -> RawAeth {
        let &Self { syndrome, msn } = self;
        RawAeth {
            syndrome_msn: (u32::from(syndrome.to_byte()) << 24 | msn.get()).into(),
        }
    }
}

impl Wire for Deth {
    type Raw = RawDeth;

    #[inline]
    fn decode(raw: RawDeth) -> Result<Self, Malformed> {
        Ok(Self {
            qkey: raw.qkey.get(),
            src_qpn: raw.src_qpn.get() & QPN_MASK,
        })
    }

    #[inline]
    fn encode(&self) -> RawDeth {
        let &Self { qkey, src_qpn } = self;
        RawDeth {
            qkey: qkey.into(),
            src_qpn: (src_qpn & QPN_MASK).into(),
        }
    }
}

impl Wire for ImmDt {
    type Raw = RawImmDt;

    #[inline]
    fn decode(raw: RawImmDt) -> Result<Self, Malformed> {
        Ok(Self(raw.data))
    }

    #[inline]
    fn encode(&self) -> RawImmDt {
        RawImmDt { data: self.0 }
    }
}

impl Wire for Ieth {
    type Raw = RawIeth;

    #[inline]
    fn decode(raw: RawIeth) -> Result<Self, Malformed> {
        Ok(Self {
            rkey: raw.rkey.get(),
        })
    }

    #[inline]
    fn encode(&self) -> RawIeth {
        RawIeth {
            rkey: self.rkey.into(),
        }
    }
}

impl Wire for Feth {
    type Raw = RawFeth;

    #[inline]
    fn decode(raw: RawFeth) -> Result<Self, Malformed> {
        let [.., bits] = raw.bits.get().to_be_bytes();
        Ok(Self {
            placement: bits & 0xf,
            selectivity: (bits >> 4) & 0x3,
        })
    }

    #[inline]
    fn encode(&self) -> RawFeth {
        let &Self {
            placement,
            selectivity,
        } = self;
        RawFeth {
            bits: u32::from((selectivity & 0x3) << 4 | placement & 0xf).into(),
        }
    }
}

impl Wire for XrcEth {
    type Raw = RawXrcEth;

    #[inline]
    fn decode(raw: RawXrcEth) -> Result<Self, Malformed> {
        Ok(Self {
            srqn: raw.srqn.get() & QPN_MASK,
        })
    }

    #[inline]
    fn encode(&self) -> RawXrcEth {
        RawXrcEth {
            srqn: (self.srqn & QPN_MASK).into(),
        }
    }
}

impl Wire for Grh {
    type Raw = RawGrh;

    fn decode(raw: RawGrh) -> Result<Self, Malformed> {
        let word = raw.version_class_flow.get();
        let [first, second, ..] = word.to_be_bytes();
        if first >> 4 != 6 {
            return Err(Malformed::Version(first >> 4));
        }
        Ok(Self {
            traffic_class: first << 4 | second >> 4,
            flow_label: word & 0x000f_ffff,
            payload_len: raw.payload_len.get(),
            next_header: raw.next_header,
            hop_limit: raw.hop_limit,
            sgid: raw.sgid,
            dgid: raw.dgid,
        })
    }

    fn encode(&self) -> RawGrh {
        let &Self {
            traffic_class,
            flow_label,
            payload_len,
            next_header,
            hop_limit,
            sgid,
            dgid,
        } = self;
        RawGrh {
            version_class_flow: (6 << 28
                | u32::from(traffic_class) << 20
                | flow_label & 0x000f_ffff)
                .into(),
            payload_len: payload_len.into(),
            next_header,
            hop_limit,
            sgid,
            dgid,
        }
    }
}
