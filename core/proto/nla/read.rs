// SPDX-License-Identifier: GPL-2.0

//! Reading what others sent: attributes, and a policy for them.
//!
//! What a user sends is judged by [`parse`], by a policy for each type, before any
//! of it is looked at. Its two strictnesses are those of the kernel
//! (`lib/nlattr.c`): requests that change something are read
//! [`Strictness::Strict`], others as in the old days.

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

/// Why a message is refused. Each request of this subsystem answers `EINVAL` for
/// every one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The type is not known, or not for requests.
    UnknownType(u16),
    /// The payload of this type is too short or too long.
    Length(u16),
    /// The text of this type has no end.
    NoEnd(u16),
    /// The mark of a nest is missing, or is where it should not be.
    Mark(u16),
    /// Bytes follow after the last attribute.
    Trailing,
}

impl Kind {
    /// Whether a payload is of this kind.
    pub fn check(self, attr: &Attr<'_>, strictness: Strictness) -> Result<(), Refusal> {
        let strict = strictness == Strictness::Strict;
        let len = attr.payload.len();
        let exact = |want: usize| {
            if len < want || (strict && len != want) {
                return Err(Refusal::Length(attr.attr));
            }
            Ok(())
        };
        let must_be_marked = self == Kind::Nested;
        let may_be_marked = matches!(self, Kind::Nested | Kind::Unnamed | Kind::AtLeast(_));
        if strict && ((must_be_marked && !attr.nested) || (attr.nested && !may_be_marked)) {
            return Err(Refusal::Mark(attr.attr));
        }
        match self {
            Kind::Unnamed | Kind::AtLeast(_) if strict => Err(Refusal::UnknownType(attr.attr)),
            Kind::Unnamed | Kind::Binary => Ok(()),
            Kind::U8 => exact(1),
            Kind::U32 => exact(4),
            Kind::U64 => exact(8),
            Kind::AtLeast(min) if len < usize::from(min) => Err(Refusal::Length(attr.attr)),
            Kind::AtLeast(_) => Ok(()),
            Kind::Nested if (1..HEADER).contains(&len) => Err(Refusal::Length(attr.attr)),
            Kind::Nested => Ok(()),
            Kind::Text(max) => {
                let max = match max {
                    0 => usize::MAX,
                    max => usize::from(max),
                };
                let looked_at = attr.payload.iter().take(max.saturating_add(1));
                if !looked_at.into_iter().any(|b| *b == 0) {
                    return Err(Refusal::NoEnd(attr.attr));
                }
                // One NUL at the very end is not counted.
                let text = attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload);
                if text.len() > max {
                    return Err(Refusal::Length(attr.attr));
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
                return Err(Refusal::UnknownType(attr.attr));
            }
            continue;
        }
        policy(attr.attr).check(&attr, strictness)?;
        found(at, attr);
    }
    if strictness == Strictness::Strict && !attrs.rest().is_empty() {
        return Err(Refusal::Trailing);
    }
    Ok(())
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
