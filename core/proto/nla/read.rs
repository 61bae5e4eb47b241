// SPDX-License-Identifier: GPL-2.0

//! Parsing of received attributes, with a policy.
//!
//! [`parse`] validates a user's message against a policy per attribute type before any of it is
//! used. The two levels of strictness are those of the kernel (`lib/nlattr.c`): requests that
//! change something are parsed as [`Strictness::Strict`], others as [`Strictness::Liberal`].

use core::ffi::CStr;

use super::align;
use super::HEADER;
use super::NESTED;
use super::TYPE_MASK;

/// A received attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Type of the attribute, without flags.
    pub attr: u16,
    /// Whether the `NLA_F_NESTED` flag is set.
    pub nested: bool,
    /// Payload of the attribute.
    pub payload: &'a [u8],
}

impl<'a> Attr<'a> {
    /// First byte of the payload.
    pub fn u8(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// First 32 bits of the payload.
    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.payload.first_chunk()?))
    }

    /// First 64 bits of the payload.
    pub fn u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.payload.first_chunk()?))
    }

    /// The payload up to a NUL, or its first `max` bytes: as `nla_strscpy` copies into an array of
    /// `max + 1` bytes.
    pub fn text(&self, max: usize) -> &'a [u8] {
        let text = self.payload.split(|b| *b == 0).next().unwrap_or_default();
        text.get(..max).unwrap_or(text)
    }

    /// The attributes nested in this one.
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(self.payload)
    }
}

/// Iterator over the attributes of a payload, up to the first invalid header.
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// Starts at the beginning of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes after the last valid attribute: empty, if the payload is valid.
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
        // The last attribute may lack its padding.
        self.rest = self.rest.get(align(len)..).unwrap_or_default();
        Some(Attr {
            attr: raw_type & TYPE_MASK,
            nested: raw_type & NESTED != 0,
            payload,
        })
    }
}

/// What the policy requires of the payload of an attribute type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not in the policy: ignored if liberal, refused if strict.
    Unnamed,
    /// One byte.
    U8,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// NUL-terminated text of at most this many bytes without the NUL; 0 is no limit.
    Text(u16),
    /// Nested attributes.
    Nested,
    /// Any payload.
    Binary,
    /// At least this many bytes. (Refused if strict.)
    AtLeast(u16),
}

/// How strictly a message is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown types and trailing bytes are ignored, and integers may be longer than required
    /// (`NL_VALIDATE_LIBERAL`).
    Liberal,
    /// All of that is refused, and nests must have their flag (`NL_VALIDATE_STRICT`).
    Strict,
}

/// Why and where a message is refused: the offset of the attribute's header from the start of the
/// message's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub why: Why,
    /// The offset; for [`Why::Trailing`], that of the trailing bytes.
    pub at: usize,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The policy has no such type.
    UnknownType,
    /// The type is not accepted in requests.
    Unsupported,
    /// The payload does not have the required length.
    Length,
    /// The payload is too short, or the text too long.
    Range,
    /// The text is not NUL-terminated.
    NoEnd,
    /// The `NLA_F_NESTED` flag is missing.
    NoMark,
    /// The `NLA_F_NESTED` flag is set on an attribute that is not a nest.
    Mark,
    /// Bytes follow the last attribute.
    Trailing,
}

impl Why {
    /// Returns whether the reason is a value out of range (`ERANGE`) rather than a malformed
    /// message (`EINVAL`), for requests that distinguish the two.
    pub const fn is_range(self) -> bool {
        matches!(self, Self::Range)
    }

    /// Text of the extended ack, which programs display.
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
    /// Checks the payload of an attribute.
    pub fn check(self, attr: &Attr<'_>, strictness: Strictness) -> Result<(), Why> {
        let strict = strictness == Strictness::Strict;
        let len = attr.payload.len();
        let number = match self {
            Kind::U8 => Some(1),
            Kind::U32 => Some(4),
            Kind::U64 => Some(8),
            Kind::Unnamed | Kind::Text(_) | Kind::Nested | Kind::Binary | Kind::AtLeast(_) => None,
        };
        if strict && number.is_some_and(|number| len != number) {
            return Err(Why::Length);
        }
        let may_be_marked = matches!(self, Kind::Nested | Kind::Unnamed | Kind::AtLeast(_));
        match (self, attr.nested) {
            (Kind::Nested, false) if strict => return Err(Why::NoMark),
            (_, true) if strict && !may_be_marked => return Err(Why::Mark),
            (_, true | false) => {}
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
                // One trailing NUL is not counted.
                let text = attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload);
                if text.len() > max {
                    return Err(Why::Range);
                }
                Ok(())
            }
        }
    }
}

/// Validates all attributes of a message, and calls `found` for each with the offset of its header.
/// If a type occurs more than once, the last one counts. Types from `types` on are unknown.
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

/// Returns whether bytes follow the last attribute.
pub fn has_rest(bytes: &[u8]) -> bool {
    let mut attrs = Attrs::new(bytes);
    attrs.by_ref().for_each(drop);
    !attrs.rest().is_empty()
}

/// Validates like [`judge`], and stores each attribute in `table` at the index of its type.
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
