// SPDX-License-Identifier: GPL-2.0

//! Numbers of objects, methods, attributes and write commands, and the keys by which they are
//! stored: five bits of object, five of method, six of attribute.
//!
//! Bit 12 of a number tells drivers' numbers from the core's. Attributes of both interleave, so
//! that a method's attributes have small keys.
//!
//! | key | element |
//! |---|---|
//! | object, 0, 0 | an object |
//! | object, 1 to 29, 0 | a method for ioctl |
//! | object, 1 to 29, 1 to 63 | one of its attributes |
//! | object, 30, command | a write command |
//! | object, 31, command | an extended write command |

use core::ops::RangeInclusive;

/// Bit of drivers' numbers.
const DRIVER: u16 = 1 << 12;
/// Bits of an attribute or command.
const ATTRIBUTE_BITS: u32 = 6;
/// Bits of attribute and method.
const METHOD_BITS: u32 = ATTRIBUTE_BITS + 5;
/// Values of an attribute or command.
const ATTRIBUTES: u16 = 1 << ATTRIBUTE_BITS;
/// Objects of the core; those of drivers follow.
const CORE_OBJECTS: u16 = 20;
/// Objects in all.
const OBJECTS: u16 = 32;
/// The first method of drivers. The core's begin at 1.
const DRIVER_METHODS: u16 = 22;
/// The method that stands for write commands.
const WRITE: u16 = 30;
/// The method that stands for extended write commands.
const WRITE_EX: u16 = 31;

/// Attributes that a method may have; each has a [`Bit`] below this.
pub const BITS: u32 = 63;

/// The key of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u16);

/// Which element a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An object.
    Object,
    /// A method for ioctl.
    Method,
    /// An attribute of such a method.
    Attribute(Bit),
    /// A write command.
    Write(u8),
    /// An extended write command.
    WriteEx(u8),
}

/// The bit of an attribute in the bitmaps of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bit(u8);

impl Bit {
    /// The position of the bit, less than [`BITS`].
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The bit in a word.
    pub const fn mask(self) -> u64 {
        // In range: the type's values are less than `BITS`.
        1_u64.wrapping_shl(self.0 as u32)
    }

    /// The bit of an attribute; `None` if there is no key for its number.
    pub const fn of_attribute(id: u16) -> Option<Self> {
        let key = if id & DRIVER != 0 {
            let id = id & !DRIVER;
            if id >= ATTRIBUTES / 2 - 1 {
                return None;
            }
            // OVERFLOW: Just compared.
            (id + 1) << 1
        } else {
            if id >= ATTRIBUTES / 2 {
                return None;
            }
            id << 1 | 1
        };
        // CAST, OVERFLOW: From 1 to 63.
        Some(Self(key as u8 - 1))
    }
}

impl Key {
    /// The key of an object; `None` if there is none for its number.
    pub const fn of_object(id: u16) -> Option<Self> {
        let index = if id & DRIVER != 0 {
            let id = id & !DRIVER;
            if id >= OBJECTS - CORE_OBJECTS {
                return None;
            }
            // OVERFLOW: Less than OBJECTS.
            id + CORE_OBJECTS
        } else {
            if id >= CORE_OBJECTS {
                return None;
            }
            id
        };
        Some(Self(index << METHOD_BITS))
    }

    /// The key of a method of this object; `None` if there is none for its number.
    pub const fn method(self, id: u16) -> Option<Self> {
        let index = if id & DRIVER != 0 {
            let id = id & !DRIVER;
            if id >= WRITE - DRIVER_METHODS {
                return None;
            }
            // OVERFLOW: Less than WRITE.
            id + DRIVER_METHODS
        } else {
            if id >= DRIVER_METHODS - 1 {
                return None;
            }
            // OVERFLOW: At most DRIVER_METHODS.
            id + 1
        };
        Some(self.with_method(index))
    }

    /// The key of an attribute of this method.
    pub const fn attribute(self, bit: Bit) -> Self {
        // CAST, OVERFLOW: From 1 to 63.
        Self(self.of_method().0 | (bit.0 as u16 + 1))
    }

    /// The key of a write command of this object; `None` if there is none for its number.
    pub const fn write(self, command: u16) -> Option<Self> {
        self.command(WRITE, command)
    }

    /// The key of an extended write command of this object; `None` if there is none for its
    /// number.
    pub const fn write_ex(self, command: u16) -> Option<Self> {
        self.command(WRITE_EX, command)
    }

    const fn command(self, method: u16, command: u16) -> Option<Self> {
        if command >= ATTRIBUTES {
            return None;
        }
        Some(Self(self.with_method(method).0 | command))
    }

    const fn with_method(self, index: u16) -> Self {
        Self(self.object().0 | index << ATTRIBUTE_BITS)
    }

    /// The key of the object of this element.
    pub const fn object(self) -> Self {
        Self(self.0 & !((1 << METHOD_BITS) - 1))
    }

    /// The number of the object.
    pub const fn object_id(self) -> u16 {
        let index = self.0 >> METHOD_BITS;
        if index >= CORE_OBJECTS {
            // OVERFLOW: Just compared.
            return (index - CORE_OBJECTS) | DRIVER;
        }
        index
    }

    /// The key of the method of this attribute.
    pub const fn of_method(self) -> Self {
        Self(self.0 & !(ATTRIBUTES - 1))
    }

    /// Which element the key is of.
    pub const fn place(self) -> Place {
        let method = self.0 >> ATTRIBUTE_BITS & 31;
        // CAST: Less than 64.
        let low = (self.0 & (ATTRIBUTES - 1)) as u8;
        match (method, low) {
            (0, _) => Place::Object,
            (WRITE, _) => Place::Write(low),
            (WRITE_EX, _) => Place::WriteEx(low),
            (_, 0) => Place::Method,
            // OVERFLOW: Not 0: the arm above.
            (_, _) => Place::Attribute(Bit(low - 1)),
        }
    }

    /// The keys of an object and all that belongs to it, or of a method and its attributes.
    pub const fn family(self) -> RangeInclusive<u16> {
        match self.place() {
            Place::Object => self.0..=self.0 | ((1 << METHOD_BITS) - 1),
            Place::Method => self.0..=self.0 | (ATTRIBUTES - 1),
            Place::Attribute(_) | Place::Write(_) | Place::WriteEx(_) => self.0..=self.0,
        }
    }

    /// The number by which the element is stored.
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// The element that is stored by a number.
    pub const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }
}
