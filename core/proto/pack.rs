// SPDX-License-Identifier: GPL-2.0

//! Conversion between a structure in memory and its packed form on the wire.
//!
//! A table of [`Field`]s maps bits of the packed form to bytes of the structure; management packets
//! and headers are described this way (`struct ib_field` of `include/rdma/ib_pack.h`). Both sides
//! have the most significant byte first; bits are counted from the most significant bit of a 32-bit
//! word.
//!
//! One known difference: the C core's `ib_unpack` reads a field of 33 to 64 bits at twice its
//! offset in the packed form, so it is correct only for fields in the first word. No table in the
//! kernel unpacks such a field elsewhere; here it is read where [`pack`] wrote it.
//!
//! Exported functions of the C side take pointers without lengths. The host computes the [`Extent`]
//! that a table accesses on either side, and creates its slices from that.

use super::errno::Errno;

/// Position of a field on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Offset in the structure, in bytes.
    pub struct_offset: usize,
    /// Size in the structure, in bytes: 1, 2, 4 or 8, or, for fields of more than 64 bits, at least
    /// the size of the field. 0 for reserved bits, which are packed as zeros and not unpacked.
    pub struct_size: usize,
    /// Index of the 32-bit word in which the field begins.
    pub word: usize,
    /// Bit of that word in which the field begins.
    pub bit: usize,
    /// Size in bits. Up to 32 bits lie in one word, up to 64 in that and the next; larger fields
    /// are whole bytes.
    pub bits: usize,
}

/// A table has a field whose position violates the rules of [`Field`], or that is outside the
/// slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadField;

impl BadField {
    /// The errno for it.
    pub const fn errno(self) -> Errno {
        Errno::Einval
    }
}

/// Number of bytes that a table accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the structure.
    pub structure: usize,
    /// Bytes of the packed form.
    pub packed: usize,
}

/// Position of a field in the packed form.
enum Place {
    /// In `bytes` bytes of whole words, `shift` bits from their end.
    Words { bytes: usize, shift: u32 },
    /// In `len` whole bytes, `skip` bytes after the start of the word.
    Bytes { skip: usize, len: usize },
}

impl Field {
    fn place(&self) -> Result<Place, BadField> {
        let bytes = match self.bits {
            0 => return Err(BadField),
            1..=32 => 4,
            33..=64 => 8,
            more => {
                if self.bit % 8 != 0 || more % 8 != 0 || self.bit >= 32 {
                    return Err(BadField);
                }
                let len = more / 8;
                if self.struct_size != 0 && self.struct_size < len {
                    return Err(BadField);
                }
                let skip = self.bit / 8;
                return Ok(Place::Bytes { skip, len });
            }
        };
        if !matches!(self.struct_size, 0 | 1 | 2 | 4 | 8) {
            return Err(BadField);
        }
        let end = self.bit.checked_add(self.bits).ok_or(BadField)?;
        // OVERFLOW: `bytes` is 4 or 8.
        let shift = (bytes * 8_usize).checked_sub(end).ok_or(BadField)?;
        let shift = u32::try_from(shift).map_err(|_| BadField)?;
        Ok(Place::Words { bytes, shift })
    }

    fn first_byte(&self) -> Result<usize, BadField> {
        self.word.checked_mul(4).ok_or(BadField)
    }

    fn mask(&self) -> u64 {
        // CAST: at most 64 after `min`.
        let bits = self.bits.min(64) as u32;
        u64::MAX
            .checked_shr(64_u32.saturating_sub(bits))
            .unwrap_or(0)
    }
}

fn load(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn store(bytes: &mut [u8], value: u64) {
    for (byte, from) in bytes.iter_mut().rev().zip(value.to_le_bytes()) {
        *byte = from;
    }
}

fn part(bytes: &[u8], start: usize, len: usize) -> Result<&[u8], BadField> {
    let end = start.checked_add(len).ok_or(BadField)?;
    bytes.get(start..end).ok_or(BadField)
}

fn part_mut(bytes: &mut [u8], start: usize, len: usize) -> Result<&mut [u8], BadField> {
    let end = start.checked_add(len).ok_or(BadField)?;
    bytes.get_mut(start..end).ok_or(BadField)
}

/// Returns the bytes that a table accesses. A packed field of up to 64 bits accesses its whole
/// words.
pub fn extent(fields: impl Iterator<Item = Field>) -> Result<Extent, BadField> {
    let mut extent = Extent::default();
    for field in fields {
        let first = field.first_byte()?;
        let (packed, structure) = match field.place()? {
            Place::Words { bytes, .. } => (first.checked_add(bytes), field.struct_size),
            Place::Bytes { skip, len } => {
                let end = first.checked_add(skip).and_then(|at| at.checked_add(len));
                (end, if field.struct_size == 0 { 0 } else { len })
            }
        };
        extent.packed = extent.packed.max(packed.ok_or(BadField)?);
        if structure != 0 {
            let end = field.struct_offset.checked_add(structure);
            extent.structure = extent.structure.max(end.ok_or(BadField)?);
        }
    }
    Ok(extent)
}

/// Packs a structure. Bits that no field covers are unchanged. A value wider than its field is
/// truncated to the lower bits.
pub fn pack(
    fields: impl Iterator<Item = Field>,
    structure: &[u8],
    packed: &mut [u8],
) -> Result<(), BadField> {
    for field in fields {
        let first = field.first_byte()?;
        match field.place()? {
            Place::Words { bytes, shift } => {
                let value = match field.struct_size {
                    0 => 0,
                    size => load(part(structure, field.struct_offset, size)?),
                };
                let words = part_mut(packed, first, bytes)?;
                let shifted = |value: u64| (value & field.mask()).checked_shl(shift);
                let kept = load(words) & !shifted(u64::MAX).ok_or(BadField)?;
                store(words, kept | shifted(value).ok_or(BadField)?);
            }
            Place::Bytes { skip, len } => {
                let start = first.checked_add(skip).ok_or(BadField)?;
                let to = part_mut(packed, start, len)?;
                match field.struct_size {
                    0 => to.fill(0),
                    _ => to.copy_from_slice(part(structure, field.struct_offset, len)?),
                }
            }
        }
    }
    Ok(())
}

/// Unpacks into a structure. A value wider than its structure member is truncated to the lower
/// bits.
pub fn unpack(
    fields: impl Iterator<Item = Field>,
    packed: &[u8],
    structure: &mut [u8],
) -> Result<(), BadField> {
    for field in fields.filter(|field| field.struct_size != 0) {
        let first = field.first_byte()?;
        match field.place()? {
            Place::Words { bytes, shift } => {
                let words = load(part(packed, first, bytes)?);
                let value = words.checked_shr(shift).ok_or(BadField)? & field.mask();
                let to = part_mut(structure, field.struct_offset, field.struct_size)?;
                store(to, value);
            }
            Place::Bytes { skip, len } => {
                let start = first.checked_add(skip).ok_or(BadField)?;
                let from = part(packed, start, len)?;
                part_mut(structure, field.struct_offset, len)?.copy_from_slice(from);
            }
        }
    }
    Ok(())
}
