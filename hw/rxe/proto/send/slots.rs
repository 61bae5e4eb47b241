// SPDX-License-Identifier: GPL-2.0

//! Where posted requests are kept: storage that the host brings.

use core::ops::DerefMut;

use super::Slot;

/// Room for a fixed number of slots. They are first used in order, so those that were
/// never used need not exist.
pub trait Slots: DerefMut<Target = [Slot]> {
    /// How many slots there is room for.
    fn room(&self) -> u32;

    /// Fills a slot, which exists or is the next one. Nothing happens beyond the room.
    fn put(&mut self, index: u32, slot: Slot);
}
