// SPDX-License-Identifier: GPL-2.0

//! What a program registers: `struct ib_user_mad_reg_req`, as 64-bit and 32-bit programs lay it
//! out, and `struct ib_user_mad_reg_req2`.

use super::wire::bytes;
use super::wire::Special;

/// Bytes of the first request. Its longs are aligned to four bytes, and the whole to four.
pub const SIZE: usize = 28;
/// Bytes of the second request.
pub const SIZE2: usize = 40;
/// Where the number of the agent is put in both.
pub const ID_AT: usize = 0;
/// Where the flags are in the second request.
pub const FLAGS_AT: usize = 12;
/// The program does RMPP itself (`IB_USER_MAD_USER_RMPP`).
pub const USER_RMPP: u32 = 1;

/// The layout of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The first, of a program with the kernel's word size.
    First,
    /// The first, of a 32-bit program on a 64-bit kernel.
    FirstCompat,
    /// The second.
    Second,
}

impl Form {
    /// Bytes of the request.
    pub const fn size(self) -> usize {
        match self {
            Self::First | Self::FirstCompat => SIZE,
            Self::Second => SIZE2,
        }
    }
}

/// The MADs that an agent gets without having asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsolicited {
    /// Class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// OUI of a vendor's class.
    pub oui: [u8; 3],
    /// Methods, by bit. Bit `n` is that of method `n`.
    pub methods: u128,
}

/// A request whose own fields are right. What it means on the port is for the core to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The queue pair.
    pub special: Special,
    /// Version of RMPP, or 0.
    pub rmpp_version: u8,
    /// [`USER_RMPP`] or 0.
    pub flags: u32,
    /// What it gets, if not answers only.
    pub unsolicited: Option<Unsolicited>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There are not as many bytes.
    Short,
    /// Only queue pairs 0 and 1 have agents.
    Qpn(u32),
    /// Flags that are unknown. The program is told those that are known.
    Flags(u32),
    /// An OUI has 24 bits. Refused after the agent's number was looked for.
    Oui(u32),
}

/// Reads 128 bits that are an array of words: a bitmap, of which word 0 has the lowest bits.
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
    /// Reads a request. `word` is the number of bytes of the kernel's `long`.
    ///
    /// # Errors
    ///
    /// The first that is found, in the order of [`Wrong`].
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
