// SPDX-License-Identifier: GPL-2.0

//! The header and the attributes of an ioctl (`RDMA_VERBS_IOCTL`).
//!
//! ```text
//!   Header::check -> the method of its numbers -> for each attribute, in the program's order:
//!     Call::judge -> Step, which the caller carries out -> Call::note
//!   -> Call::complete -> the method's handler
//! ```
//!
//! Carrying out a step may fail (no such handle, no memory), so attributes are judged one at a time:
//! the first fault in the program's order is the one that it is told of.

use super::key::Bit;
use super::spec::Access;
use super::spec::Bytes;
use super::spec::Choices;
use super::spec::Kind;
use super::spec::Spec;
use super::Refusal;

/// Bytes of a [`Header`].
pub const HEADER: usize = 24;
/// Bytes of an [`Attribute`].
pub const ATTRIBUTE: usize = 16;
/// The call is refused if this kernel does not know the attribute (`UVERBS_ATTR_F_MANDATORY`).
const MANDATORY: u16 = 1;
/// The most bytes that are in the attribute itself.
const INLINE: u16 = 8;

/// `struct ib_uverbs_ioctl_hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of header and attributes.
    pub length: u16,
    /// Number of the object.
    pub object: u16,
    /// Number of the method.
    pub method: u16,
    /// Number of attributes.
    pub attributes: u16,
    /// Must be 0.
    pub reserved1: u64,
    /// The driver that the program was made for.
    pub driver: u32,
    /// Must be 0.
    pub reserved2: u32,
}

impl Header {
    /// Reads it.
    #[inline]
    pub const fn parse([a, b, c]: [u64; HEADER / 8]) -> Self {
        let ([l0, l1, o0, o1, m0, m1, n0, n1], [d0, d1, d2, d3, r0, r1, r2, r3]) =
            (a.to_ne_bytes(), c.to_ne_bytes());
        Self {
            length: u16::from_ne_bytes([l0, l1]),
            object: u16::from_ne_bytes([o0, o1]),
            method: u16::from_ne_bytes([m0, m1]),
            attributes: u16::from_ne_bytes([n0, n1]),
            reserved1: b,
            driver: u32::from_ne_bytes([d0, d1, d2, d3]),
            reserved2: u32::from_ne_bytes([r0, r1, r2, r3]),
        }
    }

    /// Checks what does not depend on the device. `page` is the size of a page.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the length does not fit; [`Refusal::NoProtocol`]: a reserved field is
    /// not 0.
    pub fn check(&self, page: usize) -> Result<(), Refusal> {
        let attributes = usize::from(self.attributes).saturating_mul(ATTRIBUTE);
        let length = usize::from(self.length);
        if length > page || length != attributes.saturating_add(HEADER) {
            return Err(Refusal::Invalid);
        }
        if self.reserved1 != 0 || self.reserved2 != 0 {
            return Err(Refusal::NoProtocol);
        }
        Ok(())
    }
}

/// `struct ib_uverbs_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The number.
    pub id: u16,
    /// Bytes of what it points to or contains.
    pub len: u16,
    /// [`MANDATORY`] and others, which are ignored.
    flags: u16,
    /// The choice of a [`Kind::Enum`]; must be 0 in all others.
    choice: u8,
    /// Must be 0.
    reserved: u8,
    /// A handle, a file descriptor, an address or the bytes themselves.
    pub data: [u8; 8],
}

impl Attribute {
    /// Reads it.
    pub const fn parse(bytes: [u8; ATTRIBUTE]) -> Self {
        let [i0, i1, l0, l1, f0, f1, choice, reserved, a, b, c, d, e, f, g, h] = bytes;
        Self {
            id: u16::from_ne_bytes([i0, i1]),
            len: u16::from_ne_bytes([l0, l1]),
            flags: u16::from_ne_bytes([f0, f1]),
            choice,
            reserved,
            data: [a, b, c, d, e, f, g, h],
        }
    }

    /// The handle or file descriptor.
    pub const fn handle(&self) -> i64 {
        i64::from_ne_bytes(self.data)
    }

    /// The address.
    pub const fn address(&self) -> u64 {
        u64::from_ne_bytes(self.data)
    }

    /// Whether its bytes are in `data`.
    pub const fn is_inline(&self) -> bool {
        self.len <= INLINE
    }

    /// Whether the fields that only some kinds use are 0.
    const fn is_plain(&self) -> bool {
        self.choice == 0 && self.reserved == 0
    }

    /// Checks the bytes beyond the `known` ones. `cleared` tells whether bytes of the program from
    /// an address on are all 0; it may not be able to read them, which is not.
    fn ends_in_zeros(&self, known: u16, cleared: impl FnOnce(u64, u16) -> bool) -> bool {
        let more = self.len.saturating_sub(known);
        if self.is_inline() {
            let (from, to) = (usize::from(known), usize::from(self.len));
            return self
                .data
                .get(from..to)
                .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        }
        cleared(self.address().wrapping_add(u64::from(known)), more)
    }
}

/// What to do about an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: this kernel does not know it, and the program does not insist.
    Ignore,
    /// Keep the bytes, which are inline or at an address.
    Bytes {
        /// The bit of the attribute.
        bit: Bit,
        /// The choice, if there are several.
        choice: Option<u8>,
        /// Copy them now.
        copy: bool,
    },
    /// Look up an object by handle or file descriptor, or make it, and tell its number to the
    /// program.
    Object {
        /// The bit of the attribute.
        bit: Bit,
        /// Number of the object.
        object: u16,
        /// What is done with it.
        access: Access,
        /// Handle or descriptor.
        handle: i64,
    },
    /// Keep the file descriptor.
    File {
        /// The bit of the attribute.
        bit: Bit,
        /// The descriptor.
        file: i32,
    },
    /// Look up objects by handles of 32 bits, which are inline or at an address.
    Objects {
        /// The bit of the attribute.
        bit: Bit,
        /// Number of the objects.
        object: u16,
        /// What is done with each.
        access: Access,
        /// How many.
        count: u16,
    },
}

/// A call whose attributes are being judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    present: u64,
}

impl Call {
    /// Without attributes.
    pub const fn new() -> Self {
        Self { present: 0 }
    }

    /// Judges the next attribute. `find` gives what the method accepts for a bit; `cleared` is asked
    /// whether bytes from an address on are all 0, where a program knows more than this kernel.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoProtocol`]: unknown, and the program insists; [`Refusal::NotSupported`]: an
    /// unknown choice, or non-zero bytes of an unknown meaning; [`Refusal::Invalid`]: all else.
    pub fn judge<'s, C: Choices + 's>(
        &self,
        attribute: &Attribute,
        find: impl FnOnce(Bit) -> Option<&'s Spec<C>>,
        cleared: impl FnOnce(u64, u16) -> bool,
    ) -> Result<Step, Refusal> {
        let bit = Bit::of_attribute(attribute.id);
        let Some((bit, spec)) = bit.and_then(|bit| Some((bit, find(bit)?))) else {
            if attribute.flags & MANDATORY != 0 {
                return Err(Refusal::NoProtocol);
            }
            return Ok(Step::Ignore);
        };
        if self.has(bit) {
            return Err(Refusal::Invalid);
        }
        match &spec.kind {
            Kind::In(bytes) => {
                check_tail(attribute, bytes, cleared)?;
                check_len(attribute, bytes)?;
                check_plain(attribute)?;
                Ok(Step::Bytes {
                    bit,
                    choice: None,
                    copy: bytes.alloc_and_copy && !attribute.is_inline(),
                })
            }
            Kind::Out(bytes) => {
                check_len(attribute, bytes)?;
                check_plain(attribute)?;
                Ok(Step::Bytes {
                    bit,
                    choice: None,
                    copy: bytes.alloc_and_copy && !attribute.is_inline(),
                })
            }
            Kind::Enum(choices) => {
                let bytes = match choices.known(attribute.choice) {
                    false => return Err(Refusal::NotSupported),
                    true if attribute.reserved != 0 => return Err(Refusal::Invalid),
                    true => choices.get(attribute.choice),
                };
                let bytes = bytes.ok_or(Refusal::NotSupported)?;
                check_tail(attribute, &bytes, cleared)?;
                check_len(attribute, &bytes)?;
                Ok(Step::Bytes {
                    bit,
                    choice: Some(attribute.choice),
                    copy: bytes.alloc_and_copy && !attribute.is_inline(),
                })
            }
            Kind::Handle { object, access } | Kind::File { object, access } => {
                check_plain(attribute)?;
                check(attribute.len == 0)?;
                Ok(Step::Object {
                    bit,
                    object: *object,
                    access: *access,
                    handle: attribute.handle(),
                })
            }
            Kind::RawFile => {
                check_plain(attribute)?;
                check(attribute.len == 0)?;
                let file = i32::try_from(attribute.handle()).map_err(|_| Refusal::Invalid)?;
                Ok(Step::File { bit, file })
            }
            Kind::Handles {
                object,
                access,
                min,
                max,
            } => {
                check_plain(attribute)?;
                check(attribute.len % 4 == 0)?;
                let count = attribute.len / 4;
                check((*min..=*max).contains(&count))?;
                Ok(Step::Objects {
                    bit,
                    object: *object,
                    access: *access,
                    count,
                })
            }
        }
    }

    /// An attribute's step has been carried out.
    pub fn note(&mut self, bit: Bit) {
        self.present |= bit.mask();
    }

    /// Whether an attribute was given.
    pub const fn has(&self, bit: Bit) -> bool {
        self.present & bit.mask() != 0
    }

    /// The attributes that were given.
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// All attributes were judged.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: one of `mandatory` is missing.
    pub const fn complete(&self, mandatory: u64) -> Result<(), Refusal> {
        if mandatory & !self.present != 0 {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }
}

fn check(is: bool) -> Result<(), Refusal> {
    is.then_some(()).ok_or(Refusal::Invalid)
}

fn check_plain(attribute: &Attribute) -> Result<(), Refusal> {
    check(attribute.is_plain())
}

fn check_len(attribute: &Attribute, bytes: &Bytes) -> Result<(), Refusal> {
    check(attribute.len >= bytes.min && (bytes.zero_trailing || attribute.len <= bytes.len))
}

/// Before the length is checked: a program that knows more is told so, whatever its length.
fn check_tail(
    attribute: &Attribute,
    bytes: &Bytes,
    cleared: impl FnOnce(u64, u16) -> bool,
) -> Result<(), Refusal> {
    if attribute.len > bytes.len
        && bytes.zero_trailing
        && !attribute.ends_in_zeros(bytes.len, cleared)
    {
        return Err(Refusal::NotSupported);
    }
    Ok(())
}
