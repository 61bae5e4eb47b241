// SPDX-License-Identifier: GPL-2.0

//! Between a structure in memory and its packed form on the wire.
//!
//! A table of [`Field`]s says which bits of the packed form are which bytes of the
//! structure: management packets and headers are described so (`struct ib_field`
//! of `include/rdma/ib_pack.h`). Both sides are most significant byte first; bits
//! are counted from the most significant one of a 32-bit word.
//!
//! One known difference: the C core's `ib_unpack` looks for a field of 33 to 64
//! bits at twice the distance from the packed form's beginning, so that it is right
//! only for fields of the first word. No table of the kernel has such a field
//! elsewhere to unpack; here it is found where [`pack`] put it.
//!
//! Exported functions of the C side get pointers and no lengths: what a table
//! touches on either side is its [`Extent`], and the host makes its slices by that.

use super::errno::Errno;

/// Where a field is on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// First byte in the structure.
    pub struct_offset: usize,
    /// Its bytes in the structure: 1, 2, 4 or 8, or for fields of more than 64
    /// bits as many as those are. 0 for reserved bits, which are packed as zeros
    /// and not unpacked.
    pub struct_size: usize,
    /// The word in which it begins.
    pub word: usize,
    /// The bit of that word in which it begins.
    pub bit: usize,
    /// How many bits it has. Up to 32 they are in the one word, up to 64 in that
    /// and the next; more are whole bytes.
    pub bits: usize,
}

/// A table has a field that is not where [`Field`] says it may be, or that is
/// outside the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadField;

impl BadField {
    /// The number for it.
    pub const fn errno(self) -> Errno {
        Errno::Einval
    }
}

/// How many bytes a table touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Of the structure.
    pub structure: usize,
    /// Of the packed form.
    pub packed: usize,
}

/// A field's place in the packed form.
enum Place {
    /// In this many whole words, so many bits from their end.
    Words { bytes: usize, shift: u32 },
    /// From this byte on.
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
        // OVERFLOW: one of the sizes above.
        let shift = (bytes * 8_usize).checked_sub(end).ok_or(BadField)?;
        let shift = u32::try_from(shift).map_err(|_| BadField)?;
        Ok(Place::Words { bytes, shift })
    }

    fn first_byte(&self) -> Result<usize, BadField> {
        self.word.checked_mul(4).ok_or(BadField)
    }

    fn mask(&self) -> u64 {
        // CAST: at most 64.
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

/// What a table touches. A packed field of up to 64 bits touches its whole words.
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

/// Packs a structure. Bits that no field names stay as they are. A value that has
/// more bits than its field loses the upper ones.
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

/// Unpacks into a structure. A value that has more bits than its place there loses
/// the upper ones.
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
