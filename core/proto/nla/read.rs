// SPDX-License-Identifier: GPL-2.0

//! Reading what others sent: attributes, and a policy for them.
//!
//! What a user sends is judged by [`parse`], by a policy for each type, before any
//! of it is looked at. Its two strictnesses are those of the kernel
//! (`lib/nlattr.c`): requests that change something are read
//! [`Strictness::Strict`], others as in the old days.

use core::ffi::CStr;

use super::align;
use super::HEADER;
use super::NESTED;
use super::TYPE_MASK;

/// An attribute as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Its type, without flags.
    pub attr: u16,
    /// Whether it is marked as a nest.
    pub nested: bool,
    /// Its bytes.
    pub payload: &'a [u8],
}

impl<'a> Attr<'a> {
    /// Its first byte.
    pub fn u8(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// Its first 32 bits.
    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.payload.first_chunk()?))
    }

    /// Its first 64 bits.
    pub fn u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.payload.first_chunk()?))
    }

    /// Its bytes up to a NUL, or the first `max` of them: as `nla_strscpy` copies
    /// into an array of `max + 1` bytes.
    pub fn text(&self, max: usize) -> &'a [u8] {
        let text = self.payload.split(|b| *b == 0).next().unwrap_or_default();
        text.get(..max).unwrap_or(text)
    }

    /// The attributes in it.
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(self.payload)
    }
}

/// Goes through the attributes of a payload, as far as their headers are sound.
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// From the beginning of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is left when there is no attribute any more: nothing, if the payload
    /// is sound.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let (&[a, b, c, d], _) = self.rest.split_first_chunk::<HEADER>()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let raw_type = u16::from_ne_bytes([c, d]);
        let payload = self.rest.get(HEADER..len)?;
        // The last one may lack the zeros after it.
        self.rest = self.rest.get(align(len)..).unwrap_or_default();
        Some(Attr {
            attr: raw_type & TYPE_MASK,
            nested: raw_type & NESTED != 0,
            payload,
        })
    }
}

/// What the payload of a type has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No policy names the type: nobody reads it. Strictly, nobody may send it.
    Unnamed,
    /// One byte.
    U8,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// Text with a NUL, of so many bytes at most without it; 0 is no limit.
    Text(u16),
    /// Attributes.
    Nested,
    /// Anything.
    Binary,
    /// At least so many bytes. (Strictly, it may not be sent either.)
    AtLeast(u16),
}

/// How a message is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown types and bytes at the end are passed over, and numbers may be
    /// longer than they should (`NL_VALIDATE_LIBERAL`).
    Liberal,
    /// They are refused, and nests must be marked (`NL_VALIDATE_STRICT`).
    Strict,
}

/// Where a message is refused: the place of the attribute's header, from where the message's
/// attributes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub why: Why,
    /// The place; that of the rest for [`Why::Trailing`].
    pub at: usize,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such type.
    UnknownType,
    /// The type is not one that is sent.
    Unsupported,
    /// The payload does not have the length that it has to have.
    Length,
    /// The payload is too short, or the text too long.
    Range,
    /// The text has no end.
    NoEnd,
    /// The mark of a nest is missing.
    NoMark,
    /// The mark of a nest is where it should not be.
    Mark,
    /// Bytes follow after the last attribute.
    Trailing,
}

impl Why {
    /// Whether it is a value out of range (`ERANGE`) for those requests that tell the two
    /// apart, and not a message that is not sound (`EINVAL`).
    pub const fn is_range(self) -> bool {
        matches!(self, Self::Range)
    }

    /// In words, as programs show them.
    pub const fn words(self) -> &'static CStr {
        match self {
            Self::UnknownType => c"Unknown attribute type",
            Self::Unsupported => c"Unsupported attribute",
            Self::Length => c"invalid attribute length",
            Self::Range | Self::NoEnd => c"Attribute failed policy validation",
            Self::NoMark => c"NLA_F_NESTED is missing",
            Self::Mark => c"NLA_F_NESTED not expected",
            Self::Trailing => c"bytes leftover after parsing attributes",
        }
    }
}

impl Kind {
    /// Whether a payload is of this kind.
    pub fn check(self, attr: &Attr<'_>, strictness: Strictness) -> Result<(), Why> {
        let strict = strictness == Strictness::Strict;
        let len = attr.payload.len();
        let number = match self {
            Kind::U8 => Some(1),
            Kind::U32 => Some(4),
            Kind::U64 => Some(8),
            _ => None,
        };
        if strict && number.is_some_and(|number| len != number) {
            return Err(Why::Length);
        }
        let may_be_marked = matches!(self, Kind::Nested | Kind::Unnamed | Kind::AtLeast(_));
        match (self, attr.nested) {
            (Kind::Nested, false) if strict => return Err(Why::NoMark),
            (_, true) if strict && !may_be_marked => return Err(Why::Mark),
            _ => {}
        }
        if number.is_some_and(|number| len < number) {
            return Err(Why::Range);
        }
        match self {
            Kind::Unnamed | Kind::AtLeast(_) if strict => Err(Why::Unsupported),
            Kind::Unnamed | Kind::Binary | Kind::U8 | Kind::U32 | Kind::U64 => Ok(()),
            Kind::AtLeast(min) if len < usize::from(min) => Err(Why::Range),
            Kind::AtLeast(_) => Ok(()),
            Kind::Nested if (1..HEADER).contains(&len) => Err(Why::Range),
            Kind::Nested => Ok(()),
            Kind::Text(max) => {
                let max = match max {
                    0 => usize::MAX,
                    max => usize::from(max),
                };
                let looked_at = attr.payload.iter().take(max.saturating_add(1));
                if !looked_at.into_iter().any(|b| *b == 0) {
                    return Err(Why::NoEnd);
                }
                // One NUL at the very end is not counted.
                let text = attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload);
                if text.len() > max {
                    return Err(Why::Range);
                }
                Ok(())
            }
        }
    }
}

/// Judges all attributes of a message, and shows `found` each with the place of its
/// header. Of several of a type, the last counts. There are so many `types`; greater ones
/// are not known.
pub fn judge<'a>(
    bytes: &'a [u8],
    strictness: Strictness,
    policy: impl Fn(u16) -> Kind,
    types: usize,
    mut found: impl FnMut(usize, Attr<'a>),
) -> Result<(), Refusal> {
    let mut attrs = Attrs::new(bytes);
    loop {
        let at = bytes.len().saturating_sub(attrs.rest().len());
        let Some(attr) = attrs.next() else { break };
        if attr.attr == 0 || usize::from(attr.attr) >= types {
            if strictness == Strictness::Strict {
                let why = Why::UnknownType;
                return Err(Refusal { why, at });
            }
            continue;
        }
        let kind = policy(attr.attr);
        kind.check(&attr, strictness)
            .map_err(|why| Refusal { why, at })?;
        found(at, attr);
    }
    if strictness == Strictness::Strict && !attrs.rest().is_empty() {
        return Err(Refusal {
            why: Why::Trailing,
            at: bytes.len().saturating_sub(attrs.rest().len()),
        });
    }
    Ok(())
}

/// Whether bytes follow after the last attribute.
pub fn has_rest(bytes: &[u8]) -> bool {
    let mut attrs = Attrs::new(bytes);
    attrs.by_ref().for_each(drop);
    !attrs.rest().is_empty()
}

/// As [`judge`], and puts each attribute where its type says.
pub fn parse<'a>(
    bytes: &'a [u8],
    strictness: Strictness,
    policy: impl Fn(u16) -> Kind,
    table: &mut [Option<Attr<'a>>],
) -> Result<(), Refusal> {
    table.fill(None);
    judge(bytes, strictness, policy, table.len(), |_, attr| {
        if let Some(place) = table.get_mut(usize::from(attr.attr)) {
            *place = Some(attr);
        }
    })
}
