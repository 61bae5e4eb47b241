// SPDX-License-Identifier: GPL-2.0

//! Registration requests: `struct ib_user_mad_reg_req`, in the layouts of 64-bit and 32-bit
//! programs, and `struct ib_user_mad_reg_req2`.

use super::wire::bytes;
use super::wire::Special;

/// Size of the first request in bytes. Its longs are aligned to four bytes, as is the structure.
pub const SIZE: usize = 28;
/// Size of the second request in bytes.
pub const SIZE2: usize = 40;
/// Offset of the agent's number in both.
pub const ID_AT: usize = 0;
/// Offset of the flags in the second request.
pub const FLAGS_AT: usize = 12;
/// The program does RMPP itself (`IB_USER_MAD_USER_RMPP`).
pub const USER_RMPP: u32 = 1;

/// Layout of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The first request, of a program with the kernel's word size.
    First,
    /// The first request, of a 32-bit program on a 64-bit kernel.
    FirstCompat,
    /// The second request.
    Second,
}

impl Form {
    /// Returns the size of the request in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::First | Self::FirstCompat => SIZE,
            Self::Second => SIZE2,
        }
    }
}

/// Unsolicited MADs that an agent receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsolicited {
    /// Class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// OUI of a vendor class.
    pub oui: [u8; 3],
    /// Bitmap of methods.
    pub methods: u128,
}

/// A valid request. Whether the port supports it is checked by the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The queue pair.
    pub special: Special,
    /// Version of RMPP, or 0.
    pub rmpp_version: u8,
    /// [`USER_RMPP`] or 0.
    pub flags: u32,
    /// Unsolicited MADs that the agent receives, if any.
    pub unsolicited: Option<Unsolicited>,
}

/// Reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There are too few bytes.
    Short,
    /// Only queue pairs 0 and 1 have agents.
    Qpn(u32),
    /// Unknown flags. The known flags are returned to the program.
    Flags(u32),
    /// An OUI has 24 bits. Refused after a place for the agent was found.
    Oui(u32),
}

/// Reads a 128-bit bitmap that is an array of words, the lowest bits in word 0.
fn bitmap(from: &[u8], at: usize, word: usize) -> Option<u128> {
    let mut all = 0_u128;
    let mut done = 0_usize;
    for raw in from.get(at..)?.get(..16)?.chunks_exact(word) {
        let value = match word {
            4 => u128::from(u32::from_ne_bytes(bytes(raw, 0)?)),
            _ => u128::from(u64::from_ne_bytes(bytes(raw, 0)?)),
        };
        all |= value.checked_shl(u32::try_from(done).ok()?)?;
        done = done.checked_add(word.checked_mul(8)?)?;
    }
    Some(all)
}

fn special(qpn: u32) -> Result<Special, Wrong> {
    match qpn {
        0 => Ok(Special::Smi),
        1 => Ok(Special::Gsi),
        _ => Err(Wrong::Qpn(qpn)),
    }
}

impl Request {
    /// Parses a request. `word` is the size of the kernel's `long` in bytes.
    ///
    /// # Errors
    ///
    /// The first one found, in the order of [`Wrong`].
    pub fn parse(from: &[u8], form: Form, word: usize) -> Result<Self, Wrong> {
        match form {
            Form::First => Self::first(from, word),
            Form::FirstCompat => Self::first(from, 4),
            Form::Second => Self::second(from),
        }
    }

    fn first(from: &[u8], word: usize) -> Result<Self, Wrong> {
        let [qpn, class, version, a, b, c, rmpp_version, _] =
            bytes(from, 20).ok_or(Wrong::Short)?;
        let methods = bitmap(from, 4, word).ok_or(Wrong::Short)?;
        Ok(Self {
            special: special(qpn.into())?,
            rmpp_version,
            flags: 0,
            unsolicited: (class != 0).then_some(Unsolicited {
                class,
                version,
                oui: [a, b, c],
                methods,
            }),
        })
    }

    fn second(from: &[u8]) -> Result<Self, Wrong> {
        let number = |at| bytes(from, at).map(u32::from_ne_bytes).ok_or(Wrong::Short);
        let [class, version] = bytes(from, 8).ok_or(Wrong::Short)?;
        let [rmpp_version, _, _, _] = bytes(from, 36).ok_or(Wrong::Short)?;
        let methods = bitmap(from, 16, 8).ok_or(Wrong::Short)?;
        let (flags, oui) = (number(FLAGS_AT)?, number(32)?);
        let special = special(number(4)?)?;
        if flags & !USER_RMPP != 0 {
            return Err(Wrong::Flags(flags));
        }
        let [top, a, b, c] = oui.to_be_bytes();
        if class != 0 && top != 0 {
            return Err(Wrong::Oui(oui));
        }
        Ok(Self {
            special,
            rmpp_version,
            flags,
            unsolicited: (class != 0).then_some(Unsolicited {
                class,
                version,
                oui: [a, b, c],
                methods,
            }),
        })
    }
}
