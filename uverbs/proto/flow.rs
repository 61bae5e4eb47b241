// SPDX-License-Identifier: GPL-2.0

//! The rules of a flow: which packets it takes, and what is done with them.
//!
//! A flow has a header and then specifications, one behind the other: filters, each with a value and
//! a mask of half its length, and actions.
//!
//! Specification: `struct ib_uverbs_flow_attr` and `struct ib_uverbs_flow_spec_hdr` of
//! `include/uapi/rdma/ib_user_verbs.h`.

use super::Refusal;

/// Bytes of a flow's header.
pub const HEADER: usize = 16;
/// Bytes of a specification's header.
pub const SPEC_HEADER: usize = 8;
/// The most specifications (`IB_FLOW_SPEC_SUPPORT_LAYERS`).
const MOST: u8 = 10;
/// Bytes of the longest specification that a program can describe
/// (`sizeof(struct ib_uverbs_flow_spec)`).
const LONGEST: u16 = 88;
/// Packets go on to other flows (`IB_FLOW_ATTR_FLAGS_DONT_TRAP`).
const DONT_TRAP: u32 = 1 << 1;
/// The first flag that is not known.
const FLAGS: u32 = 1 << 3;
/// `IB_FLOW_ATTR_ALL_DEFAULT`.
const ALL_DEFAULT: u32 = 1;
/// `IB_FLOW_ATTR_MC_DEFAULT`.
const MC_DEFAULT: u32 = 2;
/// Of the types of actions, which are those from here on.
const ACTION: u32 = 0x1000;
/// Bit of filters behind a tunnel's header.
const INNER: u32 = 0x100;

/// The header of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `enum ib_flow_attr_type`.
    pub kind: u32,
    /// Bytes of the specifications.
    pub size: u16,
    /// Flows of a lower number come first.
    pub priority: u16,
    /// Number of specifications.
    pub specs: u8,
    reserved: [u8; 2],
    /// The port of the device.
    pub port: u8,
    /// `enum ib_flow_flags`.
    pub flags: u32,
}

impl Header {
    /// Reads it.
    pub const fn parse(bytes: [u8; HEADER]) -> Self {
        let [t0, t1, t2, t3, s0, s1, p0, p1, specs, r0, r1, port, f0, f1, f2, f3] = bytes;
        Self {
            kind: u32::from_ne_bytes([t0, t1, t2, t3]),
            size: u16::from_ne_bytes([s0, s1]),
            priority: u16::from_ne_bytes([p0, p1]),
            specs,
            reserved: [r0, r1],
            port,
            flags: u32::from_ne_bytes([f0, f1, f2, f3]),
        }
    }

    /// Checks what does not depend on the device.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`].
    pub const fn check(&self) -> Result<(), Refusal> {
        let is_default = self.kind == ALL_DEFAULT || self.kind == MC_DEFAULT;
        // In range: at most 10 times 88.
        let room = (self.specs as u16).wrapping_mul(LONGEST);
        if self.flags >= FLAGS
            || (self.flags & DONT_TRAP != 0 && is_default)
            || self.specs > MOST
            || self.size > room
            || self.reserved[0] != 0
            || self.reserved[1] != 0
        {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }
}

/// What a filter looks at (`enum ib_flow_spec_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet: MAC addresses, type, VLAN tag.
    Eth,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPsec ESP.
    Esp,
    /// TCP ports.
    Tcp,
    /// UDP ports.
    Udp,
    /// VXLAN.
    Vxlan,
    /// GRE.
    Gre,
    /// MPLS.
    Mpls,
}

impl Layer {
    const fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            0x20 => Self::Eth,
            0x30 => Self::Ipv4,
            0x31 => Self::Ipv6,
            0x34 => Self::Esp,
            0x40 => Self::Tcp,
            0x41 => Self::Udp,
            0x50 => Self::Vxlan,
            0x51 => Self::Gre,
            0x60 => Self::Mpls,
            _ => return None,
        })
    }

    /// Bytes of its filter in the kernel (`struct ib_flow_*_filter`).
    pub const fn size(self) -> usize {
        match self {
            Self::Eth => 16,
            Self::Ipv4 => 12,
            Self::Ipv6 => 39,
            Self::Esp | Self::Gre => 8,
            Self::Tcp | Self::Udp | Self::Vxlan | Self::Mpls => 4,
        }
    }

    /// A number in its filter of which only the low bits may be set: where it is, and how many bits.
    const fn narrow(self) -> Option<(usize, u32)> {
        match self {
            // The flow label.
            Self::Ipv6 => Some((32, 20)),
            // The network identifier.
            Self::Vxlan => Some((0, 24)),
            Self::Eth | Self::Ipv4 | Self::Esp | Self::Tcp | Self::Udp | Self::Gre | Self::Mpls => {
                None
            }
        }
    }
}

/// A specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec<'a> {
    /// Which packets: those with `value` where `mask` has bits. Both have the same length, at most
    /// that of the layer's filter; what is missing is 0.
    Filter {
        /// The type as the program gave it.
        kind: u32,
        /// The layer.
        layer: Layer,
        /// It is behind a tunnel's header.
        inner: bool,
        /// The value.
        value: &'a [u8],
        /// The mask.
        mask: &'a [u8],
    },
    /// Gives completions a tag.
    Tag(u32),
    /// Drops packets.
    Drop,
    /// Uses a flow action, by its handle.
    Action(u32),
    /// Counts in counters, by their handle.
    Count(u32),
}

/// The specifications of a flow that are left.
#[derive(Clone, Copy, Debug)]
pub struct Specs<'a> {
    rest: &'a [u8],
    left: u8,
}

impl<'a> Specs<'a> {
    /// Of these bytes.
    pub const fn new(header: &Header, rest: &'a [u8]) -> Self {
        Self {
            rest,
            left: header.specs,
        }
    }

    /// The next one; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]; [`Refusal::NotSupported`]: a flow action of an unknown length.
    #[allow(clippy::should_implement_trait, reason = "it may fail, and ends then")]
    pub fn next(&mut self) -> Result<Option<Spec<'a>>, Refusal> {
        let rest = self.rest;
        let Some((header, _)) = rest.split_first_chunk::<SPEC_HEADER>() else {
            return self.end();
        };
        let [t0, t1, t2, t3, s0, s1, r0, r1] = *header;
        let kind = u32::from_ne_bytes([t0, t1, t2, t3]);
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        let (Some(left), Some((spec, rest))) =
            (self.left.checked_sub(1), rest.split_at_checked(size))
        else {
            return self.end();
        };
        if r0 != 0 || r1 != 0 {
            return Err(Refusal::Invalid);
        }
        // It has a header, since no length below that passes.
        let body = spec.get(SPEC_HEADER..);
        let spec = if kind >= ACTION {
            action(kind, body)?
        } else {
            filter(kind, body.ok_or(Refusal::Invalid)?)?
        };
        *self = Self { rest, left };
        Ok(Some(spec))
    }

    /// Nothing may be left, neither bytes nor specifications.
    fn end(&self) -> Result<Option<Spec<'a>>, Refusal> {
        if self.left != 0 || !self.rest.is_empty() {
            return Err(Refusal::Invalid);
        }
        Ok(None)
    }
}

fn action(kind: u32, body: Option<&[u8]>) -> Result<Spec<'static>, Refusal> {
    // A number, and a reserved one that nobody looks at.
    let number = || match body {
        Some(&[a, b, c, d, _, _, _, _]) => Ok(u32::from_ne_bytes([a, b, c, d])),
        _ => Err(Refusal::Invalid),
    };
    match kind {
        0x1000 => Ok(Spec::Tag(number()?)),
        0x1001 if body.is_some_and(<[u8]>::is_empty) => Ok(Spec::Drop),
        0x1002 => Ok(Spec::Action(number().map_err(|_| Refusal::NotSupported)?)),
        0x1003 => Ok(Spec::Count(number()?)),
        _ => Err(Refusal::Invalid),
    }
}

fn filter(kind: u32, body: &[u8]) -> Result<Spec<'_>, Refusal> {
    // A length that is odd loses its last byte, as with the C module.
    let half = body.len() / 2;
    let value = body.get(..half).ok_or(Refusal::Invalid)?;
    let mask = body
        .get(half..half.saturating_mul(2))
        .ok_or(Refusal::Invalid)?;
    whole_filter(kind, value, mask)
}

/// A filter of value and mask, which have the same length.
///
/// # Errors
///
/// [`Refusal::Invalid`]: the length is 0 or no multiple of 4, the type is unknown, the mask has bits
/// that this kernel does not know, or a number is too large.
pub fn whole_filter<'a>(kind: u32, value: &'a [u8], mask: &'a [u8]) -> Result<Spec<'a>, Refusal> {
    let inner = kind & INNER != 0;
    let layer = Layer::of(kind & !INNER).ok_or(Refusal::Invalid)?;
    if value.len() != mask.len() || mask.len() % 4 != 0 || (inner && layer == Layer::Vxlan) {
        return Err(Refusal::Invalid);
    }
    let known = mask.len().min(layer.size());
    let (mask, beyond) = mask.split_at_checked(known).ok_or(Refusal::Invalid)?;
    let value = value.get(..known).ok_or(Refusal::Invalid)?;
    if known == 0 || beyond.iter().any(|byte| *byte != 0) {
        return Err(Refusal::Invalid);
    }
    if let Some((at, bits)) = layer.narrow() {
        for bytes in [value, mask] {
            let number = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            let number = number.map_or(0, |bytes| u32::from_be_bytes(*bytes));
            if number.checked_shr(bits).unwrap_or(0) != 0 {
                return Err(Refusal::Invalid);
            }
        }
    }
    Ok(Spec::Filter {
        kind,
        layer,
        inner,
        value,
        mask,
    })
}
