// SPDX-License-Identifier: GPL-2.0

//! Subnet management packets (SMPs) on a directed route: IBTA volume 1, chapter 14.2.2.
//!
//! Such a packet carries its route: up to 63 outgoing ports and, filled in on the way, the ports of
//! the return path. The hop pointer says at which hop it is. Every node on the route moves the
//! pointer and checks that the packet is for it.
//!
//! [`Smp`] is a packet of either [`Form`]; `C14-n` are compliance statements of that chapter.

/// Maximum number of hops of a route, including hop 0, which is not used.
pub const HOPS: usize = 64;

/// The direction bit of the status: set if the packet is on its return path.
const RETURNING: u8 = 0x80;
const STATUS: usize = 4;
const POINTER: usize = 6;
const COUNT: usize = 7;

/// Packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// InfiniBand.
    Ib,
    /// Omni-Path, with longer LIDs.
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
    /// Size of a LID in bytes.
    lid: usize,
    out: usize,
    back: usize,
    /// Minimum size of a packet in bytes.
    headers: usize,
}

/// The node that processes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Whether it is a switch: only switches forward packets.
    pub is_switch: bool,
    /// Number of ports.
    pub ports: u32,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that is discarded must not be used"]
pub enum Verdict {
    /// Continue to process it.
    Handle,
    /// Discard it: it is invalid, or not for this node.
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

/// Next step for a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Deliver it to an agent of this node.
    Local,
    /// Apply the rules for sending first: it is at the end of its route.
    Send,
    /// Forward it through another port, if this is a switch.
    Forward,
}

/// The part of its route that a packet is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    /// At the first node of the route.
    Start,
    /// At an intermediate node.
    Middle,
    /// At the last node of the route.
    End,
    /// Past the last node: for this node.
    Past,
    /// The hop pointer is invalid.
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
    /// A packet; `None` if it is too short.
    pub fn new(bytes: &'a mut [u8], form: Form) -> Option<Self> {
        // INVARIANT: Length checked here.
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

    /// Returns whether it is on its return path.
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

    /// Returns whether the directed route begins at the sender: no LID-routed part precedes it.
    fn begins_here(&self) -> bool {
        self.is_permissive(self.form.places().source)
    }

    /// Returns whether the directed route ends at the destination: no LID-routed part follows it.
    fn ends_here(&self) -> bool {
        self.is_permissive(self.form.places().destination)
    }

    /// Returns whether no LID-routed part precedes the directed route, in the current direction.
    pub fn starts_on_route(&self) -> bool {
        if self.is_returning() {
            self.ends_here()
        } else {
            self.begins_here()
        }
    }

    /// The source LID of the route: 16 bits; `None` if an Omni-Path LID has more.
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

    /// Outgoing port of a hop on the initial path.
    fn out(&self, hop: u8) -> u8 {
        // OVERFLOW: an offset in a MAD plus eight bits.
        self.byte(self.form.places().out + usize::from(hop))
    }

    /// Outgoing port of a hop on the return path.
    fn back(&self, hop: u8) -> u8 {
        // OVERFLOW: an offset in a MAD plus eight bits.
        self.byte(self.form.places().back + usize::from(hop))
    }

    fn leg(&self) -> Leg {
        let (pointer, count) = (u16::from(self.pointer()), u16::from(self.count()));
        // OVERFLOW: `count` has eight bits.
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

    /// Returns whether the route exceeds the maximum length (C14-6).
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

    /// Processes a packet that is to be sent through a port: moves the pointer.
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

    /// Processes a packet that was received on a port: records the port for the return path.
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
                // C14-13:2; the pointer moves when the packet is sent on.
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
                // C14-9:1: the sender should have moved the pointer.
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
        // Ports of a route have eight bits; a packet from a higher port has no return path.
        let port = u8::try_from(port).unwrap_or(u8::MAX);
        // OVERFLOW: an offset in a MAD plus eight bits.
        self.set(self.form.places().back + usize::from(hop), port);
    }

    /// Next step after [`receive`](Self::receive).
    pub fn next(&self) -> Next {
        match (self.is_returning(), self.leg()) {
            (_, Leg::Middle) => Next::Forward,
            (false, Leg::End) if self.ends_here() => Next::Send,
            (false, Leg::Past) => Next::Send,
            (true, Leg::End) if !self.begins_here() => Next::Send,
            (true, Leg::Past) | (_, Leg::Start | Leg::End | Leg::Astray) => Next::Local,
        }
    }

    /// Outgoing port of a packet that is to be forwarded.
    pub fn forward_port(&self) -> u8 {
        let hop = self.pointer();
        if self.is_returning() {
            self.back(hop.wrapping_sub(1))
        } else {
            self.out(hop.wrapping_add(1))
        }
    }

    /// Returns whether it is a request for the agent of this node.
    pub fn is_for_agent(&self) -> bool {
        !self.is_returning() && self.leg() == Leg::Past
    }

    /// Returns whether it has returned to the subnet manager of this node.
    pub fn is_for_manager(&self) -> bool {
        self.is_returning() && self.pointer() == 0
    }
}

/// Size of the headers of an Omni-Path packet in bytes, on a directed route or not.
pub const fn opa_headers(directed: bool) -> usize {
    if directed {
        176
    } else {
        32
    }
}
