// SPDX-License-Identifier: GPL-2.0

//! Whole packets: parsed once into a value that is valid, and written back.
//!
//! A RoCEv2 datagram is BTH, extension headers, payload, pad, ICRC. [`Packet`]
//! is for a datagram that lies in one piece; [`Header`] for one of which only
//! the beginning does. Both are made by `parse` alone in product code, and then
//! hold: the extension headers are those of the opcode, and the lengths agree.
//! The ICRC is not checked here (see [`icrc`](super::icrc)), nor is anything
//! that needs the path MTU or the queue pair.
//!
//! Source: IBTA volume 1, 9.2 and 9.6 ("Packet transport header validation").

use super::bytes::{check_bth, is_solicited, pad_of, wants_ack};
use super::bytes::{Malformed, Reader, Wire, Writer};
use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Ieth, ImmDt, Reth, XrcEth, CNP_RESERVED_LEN,
    QPN_MASK,
};
use super::icrc::ICRC_LEN;
use super::opcode::{Layout, Opcode};
use super::psn::Psn;

/// Length in bytes of the longest BTH with extension headers: make so many bytes
/// linear (or all there are) before [`Header::parse`].
pub const MAX_HEADER_LEN: usize = Bth::LEN + XrcEth::LEN + AtomicEth::LEN;

/// The extension headers of a packet: a variant for each [`Layout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ext {
    /// None.
    None,
    /// Send or write with immediate data, at its last packet.
    Imm(ImmDt),
    /// Send with invalidate, at its last packet.
    Ieth(Ieth),
    /// Write, read request or atomic write.
    Reth(Reth),
    /// Write of a single packet with immediate data.
    RethImm(Reth, ImmDt),
    /// Flush.
    FethReth(Feth, Reth),
    /// Compare and swap, fetch and add.
    AtomicEth(AtomicEth),
    /// Acknowledge, or read response except a middle one.
    Aeth(Aeth),
    /// Acknowledge of an atomic.
    AethAtomicAck(Aeth, AtomicAckEth),
    /// Datagram.
    Deth(Deth),
    /// Datagram with immediate data.
    DethImm(Deth, ImmDt),
    /// The reserved bytes of a congestion notification: ignored, written as zero.
    Cnp,
    /// XRC send or write.
    Xrc(XrcEth),
    /// XRC send or write with immediate data, at its last packet.
    XrcImm(XrcEth, ImmDt),
    /// XRC send with invalidate, at its last packet.
    XrcIeth(XrcEth, Ieth),
    /// XRC write or read request.
    XrcReth(XrcEth, Reth),
    /// XRC write of a single packet with immediate data.
    XrcRethImm(XrcEth, Reth, ImmDt),
    /// XRC compare and swap, fetch and add.
    XrcAtomicEth(XrcEth, AtomicEth),
}

impl Ext {
    /// The layout that these headers have.
    #[inline]
    pub const fn layout(&self) -> Layout {
        match self {
            Self::None => Layout::None,
            Self::Imm(_) => Layout::Imm,
            Self::Ieth(_) => Layout::Ieth,
            Self::Reth(_) => Layout::Reth,
            Self::RethImm(..) => Layout::RethImm,
            Self::FethReth(..) => Layout::FethReth,
            Self::AtomicEth(_) => Layout::AtomicEth,
            Self::Aeth(_) => Layout::Aeth,
            Self::AethAtomicAck(..) => Layout::AethAtomicAck,
            Self::Deth(_) => Layout::Deth,
            Self::DethImm(..) => Layout::DethImm,
            Self::Cnp => Layout::Cnp,
            Self::Xrc(_) => Layout::Xrc,
            Self::XrcImm(..) => Layout::XrcImm,
            Self::XrcIeth(..) => Layout::XrcIeth,
            Self::XrcReth(..) => Layout::XrcReth,
            Self::XrcRethImm(..) => Layout::XrcRethImm,
            Self::XrcAtomicEth(..) => Layout::XrcAtomicEth,
        }
    }

    /// The immediate data, if there are any.
    #[inline]
    pub const fn imm(&self) -> Option<ImmDt> {
        match *self {
            Self::Imm(imm)
            | Self::RethImm(_, imm)
            | Self::DethImm(_, imm)
            | Self::XrcImm(_, imm)
            | Self::XrcRethImm(_, _, imm) => Some(imm),
            Self::None
            | Self::Ieth(_)
            | Self::Reth(_)
            | Self::FethReth(..)
            | Self::AtomicEth(_)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Deth(_)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcIeth(..)
            | Self::XrcReth(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    /// The key to be invalidated, if there is one.
    #[inline]
    pub const fn ieth(&self) -> Option<Ieth> {
        match *self {
            Self::Ieth(ieth) | Self::XrcIeth(_, ieth) => Some(ieth),
            Self::None
            | Self::Imm(_)
            | Self::Reth(_)
            | Self::RethImm(..)
            | Self::FethReth(..)
            | Self::AtomicEth(_)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Deth(_)
            | Self::DethImm(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcReth(..)
            | Self::XrcRethImm(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    /// The range of remote memory, if there is one.
    #[inline]
    pub const fn reth(&self) -> Option<Reth> {
        match *self {
            Self::Reth(reth)
            | Self::RethImm(reth, _)
            | Self::FethReth(_, reth)
            | Self::XrcReth(_, reth)
            | Self::XrcRethImm(_, reth, _) => Some(reth),
            Self::None
            | Self::Imm(_)
            | Self::Ieth(_)
            | Self::AtomicEth(_)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Deth(_)
            | Self::DethImm(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcIeth(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    /// The operands of an atomic request, if it is one.
    #[inline]
    pub const fn atomic_eth(&self) -> Option<AtomicEth> {
        match *self {
            Self::AtomicEth(atomic_eth) | Self::XrcAtomicEth(_, atomic_eth) => Some(atomic_eth),
            Self::None
            | Self::Imm(_)
            | Self::Ieth(_)
            | Self::Reth(_)
            | Self::RethImm(..)
            | Self::FethReth(..)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Deth(_)
            | Self::DethImm(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcIeth(..)
            | Self::XrcReth(..)
            | Self::XrcRethImm(..) => None,
        }
    }

    /// The acknowledge header, if there is one.
    #[inline]
    pub const fn aeth(&self) -> Option<Aeth> {
        match *self {
            Self::Aeth(aeth) | Self::AethAtomicAck(aeth, _) => Some(aeth),
            Self::None
            | Self::Imm(_)
            | Self::Ieth(_)
            | Self::Reth(_)
            | Self::RethImm(..)
            | Self::FethReth(..)
            | Self::AtomicEth(_)
            | Self::Deth(_)
            | Self::DethImm(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcIeth(..)
            | Self::XrcReth(..)
            | Self::XrcRethImm(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    /// The datagram header, if there is one.
    #[inline]
    pub const fn deth(&self) -> Option<Deth> {
        match *self {
            Self::Deth(deth) | Self::DethImm(deth, _) => Some(deth),
            Self::None
            | Self::Imm(_)
            | Self::Ieth(_)
            | Self::Reth(_)
            | Self::RethImm(..)
            | Self::FethReth(..)
            | Self::AtomicEth(_)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcIeth(..)
            | Self::XrcReth(..)
            | Self::XrcRethImm(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    /// What a flush is to reach, if it is one.
    #[inline]
    pub const fn feth(&self) -> Option<Feth> {
        match *self {
            Self::FethReth(feth, _) => Some(feth),
            Self::None
            | Self::Imm(_)
            | Self::Ieth(_)
            | Self::Reth(_)
            | Self::RethImm(..)
            | Self::AtomicEth(_)
            | Self::Aeth(_)
            | Self::AethAtomicAck(..)
            | Self::Deth(_)
            | Self::DethImm(..)
            | Self::Cnp
            | Self::Xrc(_)
            | Self::XrcImm(..)
            | Self::XrcIeth(..)
            | Self::XrcReth(..)
            | Self::XrcRethImm(..)
            | Self::XrcAtomicEth(..) => None,
        }
    }

    #[inline(never)]
    fn read(layout: Layout, bytes: &[u8]) -> Result<Self, DropReason> {
        let r = &mut Reader::new(bytes);
        Ok(match layout {
            Layout::None => Self::None,
            Layout::Imm => Self::Imm(r.take()?),
            Layout::Ieth => Self::Ieth(r.take()?),
            Layout::Reth => Self::Reth(r.take()?),
            Layout::RethImm => Self::RethImm(r.take()?, r.take()?),
            Layout::FethReth => Self::FethReth(r.take()?, r.take()?),
            Layout::AtomicEth => Self::AtomicEth(r.take()?),
            Layout::Aeth => Self::Aeth(r.take()?),
            Layout::AethAtomicAck => Self::AethAtomicAck(r.take()?, r.take()?),
            Layout::Deth => Self::Deth(r.take()?),
            Layout::DethImm => Self::DethImm(r.take()?, r.take()?),
            Layout::Cnp => {
                r.skip(CNP_RESERVED_LEN)?;
                Self::Cnp
            }
            Layout::Xrc => Self::Xrc(r.take()?),
            Layout::XrcImm => Self::XrcImm(r.take()?, r.take()?),
            Layout::XrcIeth => Self::XrcIeth(r.take()?, r.take()?),
            Layout::XrcReth => Self::XrcReth(r.take()?, r.take()?),
            Layout::XrcRethImm => Self::XrcRethImm(r.take()?, r.take()?, r.take()?),
            Layout::XrcAtomicEth => Self::XrcAtomicEth(r.take()?, r.take()?),
        })
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>) -> Option<()> {
        match self {
            Self::None => Some(()),
            Self::Imm(a) => w.put(a),
            Self::Ieth(a) => w.put(a),
            Self::Reth(a) => w.put(a),
            Self::RethImm(a, b) => put_two(w, a, b),
            Self::FethReth(a, b) => put_two(w, a, b),
            Self::AtomicEth(a) => w.put(a),
            Self::Aeth(a) => w.put(a),
            Self::AethAtomicAck(a, b) => put_two(w, a, b),
            Self::Deth(a) => w.put(a),
            Self::DethImm(a, b) => put_two(w, a, b),
            Self::Cnp => w.put_zeros(CNP_RESERVED_LEN),
            Self::Xrc(a) => w.put(a),
            Self::XrcImm(a, b) => put_two(w, a, b),
            Self::XrcIeth(a, b) => put_two(w, a, b),
            Self::XrcReth(a, b) => put_two(w, a, b),
            Self::XrcRethImm(a, b, c) => {
                put_two(w, a, b)?;
                w.put(c)
            }
            Self::XrcAtomicEth(a, b) => put_two(w, a, b),
        }
    }
}

#[inline]
fn put_two<A: Wire, B: Wire>(w: &mut Writer<'_>, a: &A, b: &B) -> Option<()> {
    w.put(a)?;
    w.put(b)
}

/// Why a datagram is no packet. Each is to be dropped in silence (IBTA 9.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// It ends before its headers and ICRC do.
    TooShort,
    /// The transport header version is not 0.
    BadVersion(u8),
    /// No opcode that we know.
    UnknownOpcode(u8),
    /// The pad does not fill the payload to a multiple of four, or there is more
    /// pad than packet.
    BadPad,
    /// The opcode permits no payload of this length on any path.
    BadLength,
    /// An acknowledge with a reserved code.
    BadSyndrome(u8),
}

impl From<Malformed> for DropReason {
    #[inline]
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Short => Self::TooShort,
            Malformed::Version(version) => Self::BadVersion(version),
            Malformed::Opcode(byte) => Self::UnknownOpcode(byte),
            Malformed::Syndrome(byte) => Self::BadSyndrome(byte),
        }
    }
}

/// What of the base transport header of a packet tells whose it is and where its payload
/// lies. It is handed from function to function, so it is small, with fields as they are on
/// the wire. Its extension headers are read when they are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    opcode: Opcode,
    flags: u8,
    pkey: u16,
    qpn: u32,
    psn: u32,
    payload_len: u32,
}

impl Start {
    /// Parses the beginning of a datagram of `total_len` bytes, as [`Header::parse`] does,
    /// but for what is in the extension headers.
    ///
    /// # Errors
    ///
    /// The reason why the packet must be dropped.
    #[inline]
    pub fn parse(linear: &[u8], total_len: usize) -> Result<Self, DropReason> {
        let raw = Reader::new(linear).raw::<Bth>()?;
        let opcode = check_bth(&raw)?;
        let padded = total_len
            .checked_sub(opcode.header_len().wrapping_add(ICRC_LEN))
            .ok_or(DropReason::TooShort)?;
        if padded % 4 != 0 {
            return Err(DropReason::BadPad);
        }
        let payload_len = padded
            .checked_sub(usize::from(pad_of(raw.flags)))
            .ok_or(DropReason::BadPad)?;
        if !opcode.payload_rule().permits_on_any_path(payload_len) {
            return Err(DropReason::BadLength);
        }
        Ok(Self {
            opcode,
            flags: raw.flags,
            pkey: raw.pkey.get(),
            qpn: raw.qpn.get(),
            psn: raw.psn.get(),
            payload_len: u32::try_from(payload_len).map_err(|_| DropReason::BadLength)?,
        })
    }

    /// What the packet is.
    #[inline(always)]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Solicited event.
    #[inline(always)]
    pub const fn solicited(&self) -> bool {
        is_solicited(self.flags)
    }

    /// Partition key.
    #[inline(always)]
    pub const fn pkey(&self) -> u16 {
        self.pkey
    }

    /// Destination queue pair, 24 bits.
    #[inline(always)]
    pub const fn dest_qpn(&self) -> u32 {
        self.qpn & QPN_MASK
    }

    /// The sender wants an acknowledge for this packet.
    #[inline(always)]
    pub const fn ack_req(&self) -> bool {
        wants_ack(self.psn)
    }

    /// Packet sequence number.
    #[inline(always)]
    pub const fn psn(&self) -> Psn {
        Psn::new(self.psn)
    }

    /// Bytes of payload, pad not counted. The payload begins at [`Start::payload_offset`].
    #[inline(always)]
    pub const fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Offset of the payload from the start of the BTH, in bytes.
    #[inline]
    pub const fn payload_offset(&self) -> usize {
        self.opcode.header_len()
    }

    /// Reads the extension headers of the datagram that this is the start of.
    ///
    /// # Errors
    ///
    /// The reason why the packet must be dropped.
    // Most packets have none, or say what has come: these are read where it is asked.
    #[inline]
    pub fn ext(&self, linear: &[u8]) -> Result<Ext, DropReason> {
        let rest = linear.get(Bth::LEN..).ok_or(DropReason::TooShort)?;
        match self.opcode.layout() {
            Layout::None => Ok(Ext::None),
            Layout::Aeth => Ok(Ext::Aeth(Reader::new(rest).take()?)),
            layout => Ext::read(layout, rest),
        }
    }
}

/// The headers of a packet and where its payload lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers, those of `bth.opcode`.
    pub ext: Ext,
    /// Bytes of payload, pad not counted. The payload begins at
    /// [`Header::payload_offset`].
    pub payload_len: usize,
}

impl Header {
    /// Parses the headers of a datagram of `total_len` bytes (UDP payload, ICRC
    /// included), of which `linear` is the beginning. `linear` must reach to the
    /// end of the headers: see [`MAX_HEADER_LEN`].
    ///
    /// # Errors
    ///
    /// The reason why the packet must be dropped.
    #[inline]
    pub fn parse(linear: &[u8], total_len: usize) -> Result<Self, DropReason> {
        let start = Start::parse(linear, total_len)?;
        Ok(Self {
            bth: Reader::new(linear).take()?,
            ext: start.ext(linear)?,
            // CAST: u32 to usize, lossless on the machines we support.
            payload_len: start.payload_len as usize,
        })
    }

    /// Offset of the payload from the start of the BTH, in bytes.
    #[inline]
    pub const fn payload_offset(&self) -> usize {
        self.bth.opcode.header_len()
    }
}

/// A packet that lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers, those of `bth.opcode`.
    pub ext: Ext,
    /// Payload without pad.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a datagram: a UDP payload with the ICRC at its end.
    ///
    /// # Errors
    ///
    /// The reason why the packet must be dropped.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, DropReason> {
        let header = Header::parse(datagram, datagram.len())?;
        let payload = datagram
            .get(header.payload_offset()..)
            .and_then(|rest| rest.get(..header.payload_len))
            .ok_or(DropReason::TooShort)?;
        Ok(Self {
            bth: header.bth,
            ext: header.ext,
            payload,
        })
    }

    /// The packet without its payload.
    #[inline]
    pub const fn header(&self) -> Header {
        Header {
            bth: self.bth,
            ext: self.ext,
            payload_len: self.payload.len(),
        }
    }
}

/// Pad bytes (0 to 3) that fill a payload of `payload_len` bytes to a multiple of
/// four: the value for [`Bth::pad`].
#[inline]
pub const fn pad_len(payload_len: usize) -> u8 {
    match payload_len % 4 {
        1 => 3,
        2 => 2,
        3 => 1,
        _ => 0,
    }
}

/// Writes BTH and extension headers to the front of `buf` and returns their
/// length in bytes; payload, `bth.pad` bytes of zero and the ICRC follow them.
///
/// `None`, with `buf` in an undefined state, when `buf` is too short, or when
/// `ext` is not what `bth.opcode` carries.
#[inline]
#[must_use = "headers that do not fit are not written"]
pub fn write_headers(buf: &mut [u8], bth: &Bth, ext: &Ext) -> Option<usize> {
    if ext.layout() != bth.opcode.layout() {
        return None;
    }
    let mut writer = Writer::new(buf);
    writer.put(bth)?;
    ext.write(&mut writer)?;
    Some(writer.written())
}
