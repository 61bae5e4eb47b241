// SPDX-License-Identifier: GPL-2.0

//! Storage for posted requests, provided by the host.

use core::ops::DerefMut;

use super::Slot;

/// Storage for a fixed number of slots. They are first used in order, so those not used yet need
/// not be initialised.
pub trait Slots: DerefMut<Target = [Slot]> {
    /// Returns the maximum number of slots.
    fn room(&self) -> u32;

    /// Writes a slot, which exists or is the next one. No effect beyond the room.
    fn put(&mut self, index: u32, slot: Slot);
}
