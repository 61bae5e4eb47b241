// SPDX-License-Identifier: GPL-2.0

//! Transport opcodes and the shape of the packets they stand for.
//!
//! One table names each opcode with its operation, its place in a message and
//! its extension headers; all questions are answered from it. Reliable datagram
//! and manufacturer opcodes are not in it, and neither are the flush and atomic
//! write opcodes of XRC: to us such bytes are unknown.
//!
//! Source: IBTA volume 1, table "OpCode field" (9.2.1); annexes A14 (XRC), A17
//! (congestion notification), A19 (flush, atomic write).

use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Ieth, ImmDt, Reth, XrcEth, CNP_RESERVED_LEN,
};

/// The service that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Congestion notification packet, of no service.
    Cnp,
}

/// What a packet asks for or answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// SEND, with or without immediate data or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response, also the answer to a flush or an atomic write.
    ReadResponse,
    /// Acknowledge: ACK, RNR NAK or NAK.
    Acknowledge,
    /// Acknowledge of an atomic with the value found.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// FLUSH of earlier writes.
    Flush,
    /// Atomic write of eight bytes.
    AtomicWrite,
    /// Congestion notification.
    CongestionNotification,
}

/// Place of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// True for the packet that begins a message.
    #[inline]
    pub const fn is_start(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// True for the packet that ends a message.
    #[inline]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// Which extension headers follow the BTH, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// None.
    None,
    /// Immediate data.
    Imm,
    /// Key to invalidate.
    Ieth,
    /// Remote range.
    Reth,
    /// Remote range, immediate data.
    RethImm,
    /// Flush kind, remote range.
    FethReth,
    /// Remote address and atomic operands.
    AtomicEth,
    /// Acknowledge.
    Aeth,
    /// Acknowledge, value found.
    AethAtomicAck,
    /// Datagram.
    Deth,
    /// Datagram, immediate data.
    DethImm,
    /// The reserved bytes of a congestion notification.
    Cnp,
    /// XRC target.
    Xrc,
    /// XRC target, immediate data.
    XrcImm,
    /// XRC target, key to invalidate.
    XrcIeth,
    /// XRC target, remote range.
    XrcReth,
    /// XRC target, remote range, immediate data.
    XrcRethImm,
    /// XRC target, remote address and atomic operands.
    XrcAtomicEth,
}

impl Layout {
    /// Length in bytes of the extension headers.
    #[inline]
    pub const fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Imm => ImmDt::LEN,
            Self::Ieth => Ieth::LEN,
            Self::Reth => Reth::LEN,
            Self::RethImm => Reth::LEN + ImmDt::LEN,
            Self::FethReth => Feth::LEN + Reth::LEN,
            Self::AtomicEth => AtomicEth::LEN,
            Self::Aeth => Aeth::LEN,
            Self::AethAtomicAck => Aeth::LEN + AtomicAckEth::LEN,
            Self::Deth => Deth::LEN,
            Self::DethImm => Deth::LEN + ImmDt::LEN,
            Self::Cnp => CNP_RESERVED_LEN,
            Self::Xrc => XrcEth::LEN,
            Self::XrcImm => XrcEth::LEN + ImmDt::LEN,
            Self::XrcIeth => XrcEth::LEN + Ieth::LEN,
            Self::XrcReth => XrcEth::LEN + Reth::LEN,
            Self::XrcRethImm => XrcEth::LEN + Reth::LEN + ImmDt::LEN,
            Self::XrcAtomicEth => XrcEth::LEN + AtomicEth::LEN,
        }
    }

    /// True when no extension header follows the BTH.
    #[inline]
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::None)
    }

    /// True when immediate data is among the headers.
    #[inline]
    pub const fn has_imm(self) -> bool {
        matches!(
            self,
            Self::Imm | Self::RethImm | Self::DethImm | Self::XrcImm | Self::XrcRethImm
        )
    }
}

/// How many payload bytes a packet may carry, pad not counted (IBTA 9.7.4,
/// length validation by the responder; 9.7.5 for responses).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadRule {
    /// No payload at all.
    None,
    /// Exactly this many bytes.
    Fixed(u8),
    /// Exactly the path MTU.
    Mtu,
    /// One byte to the path MTU.
    OneToMtu,
    /// Zero bytes to the path MTU.
    ZeroToMtu,
}

impl PayloadRule {
    /// True when a payload of `len` bytes is legal on a path of MTU `mtu` bytes.
    #[inline]
    pub const fn permits(self, len: usize, mtu: usize) -> bool {
        match self {
            Self::None => len == 0,
            // CAST: u8 to usize, lossless.
            Self::Fixed(n) => len == n as usize,
            Self::Mtu => len == mtu,
            Self::OneToMtu => len >= 1 && len <= mtu,
            Self::ZeroToMtu => len <= mtu,
        }
    }

    /// The part of the rule that holds on every path, whatever its MTU.
    #[inline]
    pub const fn permits_on_any_path(self, len: usize) -> bool {
        match self {
            Self::None => len == 0,
            // CAST: u8 to usize, lossless.
            Self::Fixed(n) => len == n as usize,
            Self::Mtu | Self::OneToMtu | Self::ZeroToMtu => true,
        }
    }
}

/// A byte that is no opcode we know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOpcode(pub u8);

/// All that an opcode says. Each packet asks some ten times, so the answers are in one
/// table, where one load gets them.
#[derive(Clone, Copy)]
struct Shape {
    transport: Transport,
    operation: Operation,
    position: Position,
    layout: Layout,
    payload: PayloadRule,
    header_len: u8,
    class: u8,
}

impl Shape {
    const fn new(
        transport: Transport,
        operation: Operation,
        position: Position,
        layout: Layout,
    ) -> Self {
        // Evaluated by the compiler alone.
        let len = Bth::LEN.wrapping_add(layout.len());
        assert!(len <= u8::MAX as usize);
        let [header_len, ..] = len.to_le_bytes();
        Self {
            transport,
            operation,
            position,
            layout,
            payload: payload_rule(operation, position),
            header_len,
            // CAST: there are few of them.
            class: (transport as u8) << 1 | is_request(operation) as u8,
        }
    }
}

/// Whether packets of this kind go from requester to responder.
const fn is_request(operation: Operation) -> bool {
    match operation {
        Operation::Send
        | Operation::Write
        | Operation::ReadRequest
        | Operation::CompareSwap
        | Operation::FetchAdd
        | Operation::Flush
        | Operation::AtomicWrite => true,
        Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CongestionNotification => false,
    }
}

/// The payload that packets of this kind may carry.
const fn payload_rule(operation: Operation, position: Position) -> PayloadRule {
    match operation {
        Operation::Send | Operation::Write | Operation::ReadResponse => match position {
            Position::First | Position::Middle => PayloadRule::Mtu,
            Position::Last => PayloadRule::OneToMtu,
            Position::Only => PayloadRule::ZeroToMtu,
        },
        Operation::AtomicWrite => PayloadRule::Fixed(8),
        Operation::ReadRequest
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CompareSwap
        | Operation::FetchAdd
        | Operation::Flush
        | Operation::CongestionNotification => PayloadRule::None,
    }
}

macro_rules! opcodes {
    ($($value:literal $name:ident $transport:ident $operation:ident $position:ident $layout:ident;)*) => {
        /// A transport opcode: the first byte of the BTH.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Opcode {
            $(
                #[doc = concat!("Opcode ", stringify!($value), ".")]
                $name = $value,
            )*
        }

        impl Opcode {
            /// Every opcode, in rising order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }

        /// What each byte stands for; what is no opcode has the entry of some other.
        const SHAPES: &[Shape; 256] = &{
            let nothing = Shape::new(Transport::Cnp, Operation::CongestionNotification, Position::Only, Layout::None);
            let mut shapes = [nothing; 256];
            $(
                shapes[$value] = Shape::new(
                    Transport::$transport,
                    Operation::$operation,
                    Position::$position,
                    Layout::$layout,
                );
            )*
            shapes
        };

        /// The opcode that a byte is, if any.
        const KNOWN: &[Option<Opcode>; 256] = &{
            let mut known = [None; 256];
            $(known[$value] = Some(Opcode::$name);)*
            known
        };

        impl TryFrom<u8> for Opcode {
            type Error = UnknownOpcode;

            #[inline]
            fn try_from(byte: u8) -> Result<Self, UnknownOpcode> {
                let known = KNOWN.get(usize::from(byte)).copied().flatten();
                known.ok_or(UnknownOpcode(byte))
            }
        }
    };
}

opcodes! {
    0x00 RcSendFirst        Rc Send              First  None;
    0x01 RcSendMiddle       Rc Send              Middle None;
    0x02 RcSendLast         Rc Send              Last   None;
    0x03 RcSendLastImm      Rc Send              Last   Imm;
    0x04 RcSendOnly         Rc Send              Only   None;
    0x05 RcSendOnlyImm      Rc Send              Only   Imm;
    0x06 RcWriteFirst       Rc Write             First  Reth;
    0x07 RcWriteMiddle      Rc Write             Middle None;
    0x08 RcWriteLast        Rc Write             Last   None;
    0x09 RcWriteLastImm     Rc Write             Last   Imm;
    0x0a RcWriteOnly        Rc Write             Only   Reth;
    0x0b RcWriteOnlyImm     Rc Write             Only   RethImm;
    0x0c RcReadRequest      Rc ReadRequest       Only   Reth;
    0x0d RcReadRespFirst    Rc ReadResponse      First  Aeth;
    0x0e RcReadRespMiddle   Rc ReadResponse      Middle None;
    0x0f RcReadRespLast     Rc ReadResponse      Last   Aeth;
    0x10 RcReadRespOnly     Rc ReadResponse      Only   Aeth;
    0x11 RcAck              Rc Acknowledge       Only   Aeth;
    0x12 RcAtomicAck        Rc AtomicAcknowledge Only   AethAtomicAck;
    0x13 RcCompareSwap      Rc CompareSwap       Only   AtomicEth;
    0x14 RcFetchAdd         Rc FetchAdd          Only   AtomicEth;
    0x16 RcSendLastInv      Rc Send              Last   Ieth;
    0x17 RcSendOnlyInv      Rc Send              Only   Ieth;
    0x1c RcFlush            Rc Flush             Only   FethReth;
    0x1d RcAtomicWrite      Rc AtomicWrite       Only   Reth;

    0x20 UcSendFirst        Uc Send              First  None;
    0x21 UcSendMiddle       Uc Send              Middle None;
    0x22 UcSendLast         Uc Send              Last   None;
    0x23 UcSendLastImm      Uc Send              Last   Imm;
    0x24 UcSendOnly         Uc Send              Only   None;
    0x25 UcSendOnlyImm      Uc Send              Only   Imm;
    0x26 UcWriteFirst       Uc Write             First  Reth;
    0x27 UcWriteMiddle      Uc Write             Middle None;
    0x28 UcWriteLast        Uc Write             Last   None;
    0x29 UcWriteLastImm     Uc Write             Last   Imm;
    0x2a UcWriteOnly        Uc Write             Only   Reth;
    0x2b UcWriteOnlyImm     Uc Write             Only   RethImm;

    0x64 UdSendOnly         Ud Send              Only   Deth;
    0x65 UdSendOnlyImm      Ud Send              Only   DethImm;

    0x81 Cnp                Cnp CongestionNotification Only Cnp;

    0xa0 XrcSendFirst       Xrc Send              First  Xrc;
    0xa1 XrcSendMiddle      Xrc Send              Middle Xrc;
    0xa2 XrcSendLast        Xrc Send              Last   Xrc;
    0xa3 XrcSendLastImm     Xrc Send              Last   XrcImm;
    0xa4 XrcSendOnly        Xrc Send              Only   Xrc;
    0xa5 XrcSendOnlyImm     Xrc Send              Only   XrcImm;
    0xa6 XrcWriteFirst      Xrc Write             First  XrcReth;
    0xa7 XrcWriteMiddle     Xrc Write             Middle Xrc;
    0xa8 XrcWriteLast       Xrc Write             Last   Xrc;
    0xa9 XrcWriteLastImm    Xrc Write             Last   XrcImm;
    0xaa XrcWriteOnly       Xrc Write             Only   XrcReth;
    0xab XrcWriteOnlyImm    Xrc Write             Only   XrcRethImm;
    0xac XrcReadRequest     Xrc ReadRequest       Only   XrcReth;
    0xad XrcReadRespFirst   Xrc ReadResponse      First  Aeth;
    0xae XrcReadRespMiddle  Xrc ReadResponse      Middle None;
    0xaf XrcReadRespLast    Xrc ReadResponse      Last   Aeth;
    0xb0 XrcReadRespOnly    Xrc ReadResponse      Only   Aeth;
    0xb1 XrcAck             Xrc Acknowledge       Only   Aeth;
    0xb2 XrcAtomicAck       Xrc AtomicAcknowledge Only   AethAtomicAck;
    0xb3 XrcCompareSwap     Xrc CompareSwap       Only   XrcAtomicEth;
    0xb4 XrcFetchAdd        Xrc FetchAdd          Only   XrcAtomicEth;
    0xb6 XrcSendLastInv     Xrc Send              Last   XrcIeth;
    0xb7 XrcSendOnlyInv     Xrc Send              Only   XrcIeth;
}

impl Opcode {
    #[inline(always)]
    #[allow(
        clippy::indexing_slicing,
        reason = "256 entries, and the index is a `u8`; `get` is not const"
    )]
    const fn shape(self) -> &'static Shape {
        // CAST: the enum is `repr(u8)`.
        &SHAPES[self as usize]
    }

    /// The service it belongs to.
    #[inline(always)]
    pub const fn transport(self) -> Transport {
        self.shape().transport
    }

    /// What it asks for or answers.
    #[inline(always)]
    pub const fn operation(self) -> Operation {
        self.shape().operation
    }

    /// Its place in the message.
    #[inline(always)]
    pub const fn position(self) -> Position {
        self.shape().position
    }

    /// The extension headers it carries.
    #[inline(always)]
    pub const fn layout(self) -> Layout {
        self.shape().layout
    }

    /// Service and direction as one number; the lowest bit says that it is a request.
    #[inline(always)]
    pub const fn class(self) -> u8 {
        self.shape().class
    }

    /// True for packets that go from requester to responder. A congestion
    /// notification is neither a request nor a response.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.shape().class & 1 != 0
    }

    /// True for packets that go from responder to requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self.operation(),
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// The payload that a packet of this opcode may carry.
    #[inline(always)]
    pub const fn payload_rule(self) -> PayloadRule {
        self.shape().payload
    }

    /// True when the packet can carry payload.
    #[inline]
    pub const fn has_payload(self) -> bool {
        !matches!(self.payload_rule(), PayloadRule::None)
    }

    /// Length in bytes of BTH and extension headers.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        // CAST: u8 to usize, lossless.
        self.shape().header_len as usize
    }
}

impl From<Opcode> for u8 {
    #[inline]
    fn from(opcode: Opcode) -> u8 {
        // CAST: the enum is `repr(u8)`.
        opcode as u8
    }
}
