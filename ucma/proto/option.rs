// SPDX-License-Identifier: GPL-2.0

//! Values of options that programs set.

use super::bytes;
use super::u32_at;
use super::Wrong;

/// Levels of options.
const ID: u32 = 0;
const IB: u32 = 1;

/// Bytes of a path record with its flags (`struct ib_path_rec_data`).
pub const PATH: usize = 72;
/// Bytes of a path record.
pub const RECORD: usize = 64;
/// Flags of the path that is used: for management datagrams, primary, in both directions.
pub const PRIMARY: u32 = 1 | 2 | 8 | 32;

/// An option that a program sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Type of service.
    Tos(u8),
    /// Whether others may have the same address.
    ReuseAddr(bool),
    /// Whether an IPv6 address is not for IPv4, too.
    AfOnly(bool),
    /// Acknowledgement timeout, as an exponent.
    AckTimeout(u8),
    /// A resolved path, as the subnet administrator sends it.
    Path([u8; RECORD]),
}

fn byte(value: &[u8]) -> Result<u8, Wrong> {
    match value {
        [byte] => Ok(*byte),
        _ => Err(Wrong::Invalid),
    }
}

fn flag(value: &[u8]) -> Result<bool, Wrong> {
    match value {
        [a, b, c, d] => Ok([*a, *b, *c, *d] != [0; 4]),
        _ => Err(Wrong::Invalid),
    }
}

/// Finds the primary path.
fn path(value: &[u8]) -> Result<[u8; RECORD], Wrong> {
    let paths = value.chunks_exact(PATH);
    if !paths.remainder().is_empty() {
        return Err(Wrong::Invalid);
    }
    for path in paths {
        if u32_at(path, 0)? == PRIMARY {
            return bytes(path, 8);
        }
    }
    Err(Wrong::Invalid)
}

impl Setting {
    /// Parses the value of an option.
    ///
    /// # Errors
    ///
    /// [`Wrong::Unknown`] if there is no such option; [`Wrong::Invalid`] for its value.
    pub fn parse(level: u32, name: u32, value: &[u8]) -> Result<Self, Wrong> {
        match (level, name) {
            (ID, 0) => byte(value).map(Self::Tos),
            (ID, 1) => flag(value).map(Self::ReuseAddr),
            (ID, 2) => flag(value).map(Self::AfOnly),
            (ID, 3) => byte(value).map(Self::AckTimeout),
            (IB, 1) => path(value).map(Self::Path),
            _ => Err(Wrong::Unknown),
        }
    }
}
