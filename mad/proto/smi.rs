// SPDX-License-Identifier: GPL-2.0

//! Subnet management packets on a directed route: chapter 14.2.2 of the specification.
//!
//! Such a packet carries its way: up to 63 ports to leave by, and, filled in as it goes, the
//! ports to come back by. A pointer says which hop it is at. Every node on the way moves the
//! pointer and checks that it is meant.
//!
//! [`Smp`] is a packet of either [`Form`]; `C14-n` are the clauses.

/// Hops that a route can have, with hop 0, which is never used.
pub const HOPS: usize = 64;

/// The bit of the status that says that the packet is on its way back.
const RETURNING: u8 = 0x80;
const STATUS: usize = 4;
const POINTER: usize = 6;
const COUNT: usize = 7;

/// Where things are in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// InfiniBand.
    Ib,
    /// Omni-Path, whose LIDs are longer.
    Opa,
}

impl Form {
    const fn places(self) -> Places {
        match self {
            Self::Ib => Places {
                source: 32,
                destination: 34,
                lid: 2,
                out: 128,
                back: 192,
                headers: 256,
            },
            Self::Opa => Places {
                source: 32,
                destination: 36,
                lid: 4,
                out: 40,
                back: 104,
                headers: 176,
            },
        }
    }
}

struct Places {
    source: usize,
    destination: usize,
    /// Bytes of a LID.
    lid: usize,
    out: usize,
    back: usize,
    /// Bytes that a packet must have.
    headers: usize,
}

/// The node that a packet is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Whether it is a switch: only these pass packets on.
    pub is_switch: bool,
    /// How many ports it has.
    pub ports: u32,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that is discarded must not be used"]
pub enum Verdict {
    /// It goes on.
    Handle,
    /// It is wrong, or not for here.
    Discard,
}

impl Verdict {
    const fn handle_if(yes: bool) -> Self {
        if yes {
            Self::Handle
        } else {
            Self::Discard
        }
    }
}

/// Where a packet that came goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To an agent of this node.
    Local,
    /// Through the rules of sending first: it has come to the end of its route.
    Send,
    /// Out by another port, if this is a switch.
    Forward,
}

/// At which part of its route a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    /// At the node that it starts from.
    Start,
    /// In the middle.
    Middle,
    /// At the last node of the route.
    End,
    /// Past it: for this node.
    Past,
    /// Nowhere.
    Astray,
}

/// A packet on a directed route.
///
/// # Invariants
///
/// `bytes` has at least the headers of the form.
pub struct Smp<'a> {
    bytes: &'a mut [u8],
    form: Form,
}

impl<'a> Smp<'a> {
    /// A packet; none, if it is too short for one.
    pub fn new(bytes: &'a mut [u8], form: Form) -> Option<Self> {
        // INVARIANT: Just checked.
        (bytes.len() >= form.places().headers).then_some(Self { bytes, form })
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn set(&mut self, at: usize, to: u8) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = to;
        }
    }

    fn pointer(&self) -> u8 {
        self.byte(POINTER)
    }

    fn count(&self) -> u8 {
        self.byte(COUNT)
    }

    /// Whether it is on its way back.
    pub fn is_returning(&self) -> bool {
        self.byte(STATUS) & RETURNING != 0
    }

    fn is_permissive(&self, at: usize) -> bool {
        let bytes = self.form.places().lid;
        self.bytes
            .get(at..)
            .and_then(|rest| rest.get(..bytes))
            .is_some_and(|lid| lid.iter().all(|byte| *byte == 0xff))
    }

    /// Whether the route begins where the packet was sent: no LIDs come before it.
    fn begins_here(&self) -> bool {
        self.is_permissive(self.form.places().source)
    }

    /// Whether the route ends where the packet goes: no LIDs come after it.
    fn ends_here(&self) -> bool {
        self.is_permissive(self.form.places().destination)
    }

    /// Whether the part of the way by LID that comes before the route is empty, as the
    /// packet is going now.
    pub fn starts_on_route(&self) -> bool {
        if self.is_returning() {
            self.ends_here()
        } else {
            self.begins_here()
        }
    }

    /// The LID that a route starts from: 16 bits, or none, if one of Omni-Path has more.
    pub fn source_lid(&self) -> Option<u16> {
        let at = self.form.places().source;
        match self.form {
            Form::Ib => Some(u16::from_be_bytes(super::wire::bytes(self.bytes, at)?)),
            Form::Opa => {
                let lid = u32::from_be_bytes(super::wire::bytes(self.bytes, at)?);
                if lid == u32::MAX {
                    Some(u16::MAX)
                } else {
                    u16::try_from(lid).ok()
                }
            }
        }
    }

    /// The port to leave by at a hop.
    fn out(&self, hop: u8) -> u8 {
        // OVERFLOW: a place in a MAD, and eight bits.
        self.byte(self.form.places().out + usize::from(hop))
    }

    /// The port to come back by at a hop.
    fn back(&self, hop: u8) -> u8 {
        // OVERFLOW: as in `out`.
        self.byte(self.form.places().back + usize::from(hop))
    }

    fn leg(&self) -> Leg {
        let (pointer, count) = (u16::from(self.pointer()), u16::from(self.count()));
        // OVERFLOW: of eight bits.
        let behind = count + 1;
        if self.is_returning() {
            match pointer {
                0 => Leg::Past,
                _ if count != 0 && pointer == behind => Leg::Start,
                1 => Leg::End,
                _ if pointer <= count => Leg::Middle,
                _ => Leg::Astray,
            }
        } else {
            match pointer {
                0 if count != 0 => Leg::Start,
                _ if pointer == count => Leg::End,
                _ if pointer < count => Leg::Middle,
                _ if pointer == behind => Leg::Past,
                _ => Leg::Astray,
            }
        }
    }

    /// Whether the route is longer than one can be (C14-6).
    fn too_long(&self) -> bool {
        usize::from(self.count()) >= HOPS
    }

    fn advance(&mut self) -> u8 {
        let pointer = self.pointer().wrapping_add(1);
        self.set(POINTER, pointer);
        pointer
    }

    fn retreat(&mut self) -> u8 {
        let pointer = self.pointer().wrapping_sub(1);
        self.set(POINTER, pointer);
        pointer
    }

    /// Before it leaves by a port: moves the pointer.
    pub fn send(&mut self, node: Node, port: u32) -> Verdict {
        if self.too_long() {
            return Verdict::Discard;
        }
        let leg = self.leg();
        if leg == Leg::Middle && !node.is_switch {
            return Verdict::Discard;
        }
        if self.is_returning() {
            match leg {
                // C14-13:1, 2
                Leg::Start | Leg::Middle => {
                    let hop = self.retreat();
                    Verdict::handle_if(u32::from(self.back(hop)) == port)
                }
                // C14-13:3
                Leg::End => {
                    self.retreat();
                    Verdict::handle_if(node.is_switch || self.begins_here())
                }
                // C14-13:4, 5
                Leg::Past => Verdict::Handle,
                Leg::Astray => Verdict::Discard,
            }
        } else {
            match leg {
                // C14-9:1, 2
                Leg::Start | Leg::Middle => {
                    let hop = self.advance();
                    Verdict::handle_if(u32::from(self.out(hop)) == port)
                }
                // C14-9:3
                Leg::End => {
                    self.advance();
                    Verdict::handle_if(node.is_switch || self.ends_here())
                }
                // C14-9:4, 5
                Leg::Past => Verdict::Handle,
                Leg::Astray => Verdict::Discard,
            }
        }
    }

    /// When it has come in by a port: notes the port for the way back.
    pub fn receive(&mut self, node: Node, port: u32) -> Verdict {
        if self.too_long() {
            return Verdict::Discard;
        }
        let leg = self.leg();
        if leg == Leg::Middle && !node.is_switch {
            return Verdict::Discard;
        }
        let hop = self.pointer();
        if self.is_returning() {
            match leg {
                // C14-13:1
                Leg::Start => {
                    let hop = self.retreat();
                    Verdict::handle_if(u32::from(self.back(hop)) == port)
                }
                // C14-13:2; the pointer moves when it is sent on.
                Leg::Middle => {
                    Verdict::handle_if(u32::from(self.back(hop.wrapping_sub(1))) <= node.ports)
                }
                // C14-13:3
                Leg::End if self.begins_here() => {
                    self.retreat();
                    Verdict::Handle
                }
                Leg::End => Verdict::handle_if(node.is_switch),
                // C14-13:4, 5
                Leg::Past => Verdict::Handle,
                Leg::Astray => Verdict::Discard,
            }
        } else {
            match leg {
                // C14-9:1: who sent it should have moved the pointer.
                Leg::Start => Verdict::Discard,
                // C14-9:2
                Leg::Middle => {
                    self.note(hop, port);
                    Verdict::handle_if(u32::from(self.out(hop.wrapping_add(1))) <= node.ports)
                }
                // C14-9:3
                Leg::End => {
                    if hop != 0 {
                        self.note(hop, port);
                    }
                    Verdict::handle_if(node.is_switch || self.ends_here())
                }
                // C14-9:4, 5
                Leg::Past => Verdict::Handle,
                Leg::Astray => Verdict::Discard,
            }
        }
    }

    fn note(&mut self, hop: u8, port: u32) {
        // Routes have ports of eight bits; a packet that came by another finds no way back.
        let port = u8::try_from(port).unwrap_or(u8::MAX);
        // OVERFLOW: as in `out`.
        self.set(self.form.places().back + usize::from(hop), port);
    }

    /// Where it goes after [`receive`](Self::receive).
    pub fn next(&self) -> Next {
        match (self.is_returning(), self.leg()) {
            (_, Leg::Middle) => Next::Forward,
            (false, Leg::End) if self.ends_here() => Next::Send,
            (false, Leg::Past) => Next::Send,
            (true, Leg::End) if !self.begins_here() => Next::Send,
            _ => Next::Local,
        }
    }

    /// The port to send it on by, when it is to be forwarded.
    pub fn forward_port(&self) -> u8 {
        let hop = self.pointer();
        if self.is_returning() {
            self.back(hop.wrapping_sub(1))
        } else {
            self.out(hop.wrapping_add(1))
        }
    }

    /// Whether it is a request for the agent of this node.
    pub fn is_for_agent(&self) -> bool {
        !self.is_returning() && self.leg() == Leg::Past
    }

    /// Whether it has come back to the manager of this node.
    pub fn is_for_manager(&self) -> bool {
        self.is_returning() && self.pointer() == 0
    }
}

/// Bytes of a packet of Omni-Path before its data, on a directed route or not.
pub const fn opa_headers(directed: bool) -> usize {
    if directed {
        176
    } else {
        32
    }
}
