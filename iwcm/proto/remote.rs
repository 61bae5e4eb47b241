// SPDX-License-Identifier: GPL-2.0

//! Addresses of peers that the port mapper has announced.
//!
//! Before a peer connects to a mapped address, its port mapper tells ours both addresses of the
//! peer. The request of the peer, which has the mapped address, takes the entry. A peer that never
//! connects leaves its entry, so the table is bounded: entries age, and the oldest entry of a full
//! bucket is replaced.

use super::addr::Address;
use super::addr::Endpoint;
use core::ops::DerefMut;

/// Number of entries of a bucket.
pub const WAYS: usize = 16;
/// Number of buckets.
pub const BUCKETS: usize = 64;
/// Number of entries.
pub const ENTRIES: usize = WAYS * BUCKETS;

/// Seconds after which an entry is not used any more. A peer connects at once; its TCP connection
/// may take two minutes.
pub const MAX_AGE: u64 = 300;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    mapped_local: Endpoint,
    mapped_remote: Endpoint,
    remote: Address,
    since: u64,
}

/// Place of an entry.
pub type Slot = Option<Entry>;

/// The table, in storage of [`ENTRIES`] places.
pub struct Table<S> {
    slots: S,
    seed: u32,
}

impl<S: DerefMut<Target = [Slot]>> Table<S> {
    /// Creates a table. `seed` is a random number, so that nobody knows which entries share a
    /// bucket.
    pub fn new(slots: S, seed: u32) -> Self {
        Self { slots, seed }
    }

    /// Stores that the peer with the mapped address `mapped_remote` has the address `remote`.
    /// Replaces an entry for the same addresses, and otherwise, if there is no place, the oldest
    /// one. `now` is in seconds.
    ///
    /// Returns whether both mapped addresses are of IP.
    pub fn insert(
        &mut self,
        mapped_local: &Address,
        mapped_remote: &Address,
        remote: Address,
        now: u64,
    ) -> bool {
        let (Some(mapped_local), Some(mapped_remote)) =
            (mapped_local.endpoint(), mapped_remote.endpoint())
        else {
            return false;
        };
        let entry = Entry {
            mapped_local,
            mapped_remote,
            remote,
            since: now,
        };
        // The same addresses; else a free place; else the oldest.
        let worth = |slot: &Slot| match slot {
            Some(old) if old.is_for(&mapped_local, &mapped_remote) => (0, 0),
            None => (1, 0),
            Some(old) => (2, old.since),
        };
        let bucket = self.bucket(&mapped_local, &mapped_remote);
        if let Some(slot) = bucket.iter_mut().min_by_key(|slot| worth(slot)) {
            *slot = Some(entry);
        }
        true
    }

    /// Takes the address of the peer with the mapped address `mapped_remote`.
    pub fn take(
        &mut self,
        mapped_local: &Address,
        mapped_remote: &Address,
        now: u64,
    ) -> Option<Address> {
        let (mapped_local, mapped_remote) = (mapped_local.endpoint()?, mapped_remote.endpoint()?);
        let bucket = self.bucket(&mapped_local, &mapped_remote);
        let slot = bucket.iter_mut().find(|slot| {
            slot.as_ref()
                .is_some_and(|entry| entry.is_for(&mapped_local, &mapped_remote))
        })?;
        let entry = slot.take()?;
        (now.saturating_sub(entry.since) <= MAX_AGE).then_some(entry.remote)
    }

    fn bucket(&mut self, local: &Endpoint, remote: &Endpoint) -> &mut [Slot] {
        let hash = hash(hash(self.seed, local), remote);
        let index = usize::try_from(hash).unwrap_or(0) % BUCKETS;
        let start = index.saturating_mul(WAYS);
        self.slots
            .get_mut(start..start.saturating_add(WAYS))
            .unwrap_or(&mut [])
    }
}

impl Entry {
    fn is_for(&self, mapped_local: &Endpoint, mapped_remote: &Endpoint) -> bool {
        self.mapped_local == *mapped_local && self.mapped_remote == *mapped_remote
    }
}

/// FNV-1a with a seed, and a final mix.
fn hash(seed: u32, endpoint: &Endpoint) -> u32 {
    let (ip, port): (&[u8], &[u8]) = match endpoint {
        Endpoint::V4(ip, port) => (ip, port),
        Endpoint::V6(ip, port) => (ip, port),
    };
    let mixed = ip
        .iter()
        .chain(port)
        .fold(seed ^ 0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
    mixed ^ mixed >> 13
}
