// SPDX-License-Identifier: GPL-2.0

//! What only a switch has: where packets go (IBA 14.2.5.4, 18.2.4).

use super::fields::Fields;
use super::mad::Status;
use super::mad::SMP_DATA;
use super::port_info::FIRST_MULTICAST;
use crate::List;

/// LIDs that the linear table can have, a multiple of its block.
pub const LINEAR_CAP: usize = 1024;
/// LIDs of a block of the linear table.
pub const LINEAR_BLOCK: usize = 64;
/// Groups that the multicast table can have, a multiple of its block.
pub const MULTICAST_CAP: usize = 256;
/// Groups of a block of the multicast table.
pub const MULTICAST_BLOCK: usize = 32;
/// A port that there is not: packets to it are dropped.
const NOWHERE: u8 = 0xff;

/// The tables of a switch.
pub struct Tables {
    /// Port by LID.
    linear: List<u8>,
    /// Ports by group, a mask.
    multicast: List<u16>,
    /// The last LID of the linear table that is good.
    top: u16,
    /// The last group of the multicast table that is good; 0 for all.
    multicast_top: u16,
    /// Where packets of groups go that are not in the table.
    defaults: [u8; 3],
    /// Code of how long packets may wait, and how lanes are mapped.
    life: u8,
    /// A link changed since the manager last said that it knows.
    pub changed: bool,
}

impl Tables {
    /// Makes empty tables of lists that have [`LINEAR_CAP`] and [`MULTICAST_CAP`] entries.
    pub fn new(mut linear: List<u8>, multicast: List<u16>) -> Self {
        linear.fill(NOWHERE);
        Self {
            linear,
            multicast,
            top: 0,
            multicast_top: 0,
            defaults: [NOWHERE; 3],
            life: 0,
            changed: false,
        }
    }

    /// The port that leads to a LID.
    pub fn unicast(&self, lid: u16) -> Option<u8> {
        let port = *self.linear.get(usize::from(lid))?;
        (lid != 0 && lid <= self.top && port != NOWHERE).then_some(port)
    }

    /// The ports that lead to a group, a mask.
    pub fn group(&self, lid: u16) -> u16 {
        let Some(index) = lid.checked_sub(FIRST_MULTICAST) else {
            return 0;
        };
        if self.multicast_top != 0 && lid > self.multicast_top {
            return 0;
        }
        self.multicast.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// `SwitchInfo`.
    pub fn info(&self) -> [u8; SMP_DATA] {
        let mut out = [0; SMP_DATA];
        // CAST: small constants.
        out.put_u16(0, LINEAR_CAP as u16);
        out.put_u16(4, MULTICAST_CAP as u16);
        out.put_u16(6, self.top);
        out.put(8, &self.defaults);
        out.put_u8(11, self.life & 0xfb | u8::from(self.changed) << 2);
        // Partitions are not enforced here, and port 0 is not an enhanced one.
        out.put_u16(18, self.multicast_top);
        out
    }

    /// Sets `SwitchInfo`.
    ///
    /// # Errors
    ///
    /// `BadField` for a LID beyond the table.
    pub fn set_info(&mut self, new: &[u8; SMP_DATA]) -> Result<(), Status> {
        let top = new.u16(6);
        if usize::from(top) >= LINEAR_CAP {
            return Err(Status::BadField);
        }
        self.top = top;
        self.defaults = new.bytes(8);
        self.life = new.u8(11);
        self.multicast_top = new.u16(18);
        // Writing the bit clears it (IBA table 139).
        if new.u8(11) & 4 != 0 {
            self.changed = false;
        }
        Ok(())
    }

    /// Block `block` of the linear table.
    ///
    /// # Errors
    ///
    /// `BadField` if there is none.
    pub fn linear_block(&mut self, block: u32) -> Result<&mut [u8], Status> {
        block_of(&mut self.linear, block, LINEAR_BLOCK)
    }

    /// The block of the multicast table that an attribute's modifier names: its number, and in
    /// the top 4 bits which ports.
    ///
    /// # Errors
    ///
    /// `BadField` if there is none.
    pub fn multicast_block(&mut self, modifier: u32) -> Result<&mut [u16], Status> {
        if modifier >> 28 != 0 {
            return Err(Status::BadField);
        }
        block_of(&mut self.multicast, modifier & 0x1ff, MULTICAST_BLOCK)
    }
}

fn block_of<T>(table: &mut [T], block: u32, len: usize) -> Result<&mut [T], Status> {
    let at = usize::try_from(block).ok().and_then(|b| b.checked_mul(len));
    let rest = at.and_then(|at| table.get_mut(at..));
    rest.and_then(|r| r.get_mut(..len)).ok_or(Status::BadField)
}
