// SPDX-License-Identifier: GPL-2.0

//! Completion queues that several consumers share: which one serves a request, and how large
//! those are that are made for it.

/// How many completions a shared queue holds at least, if the device can: enough for many
/// consumers.
pub const SHARED_SIZE: u32 = 4096;

/// The vectors that pools use: one queue for each, and no more than there are CPUs.
///
/// At least one, so that a device that says it has none is served too.
pub fn vectors(of_device: u32, cpus: u32) -> u32 {
    of_device.min(cpus).max(1)
}

/// The vector that serves a request. A negative hint leaves the choice to the pool, which
/// goes round: `last` is the vector that it chose last, and the second of the results what
/// it is from now on.
pub fn choose(hint: i32, last: u32, vectors: u32) -> (u32, u32) {
    // OVERFLOW: no division by zero.
    let vectors = vectors.max(1);
    match u32::try_from(hint) {
        Ok(hint) => (hint % vectors, last),
        Err(_) => {
            // OVERFLOW: as above.
            let next = last.wrapping_add(1) % vectors;
            (next, next)
        }
    }
}

/// The size of new queues for a request, which may be for more than a shared queue has, but
/// never for more than the device can: then there is none.
pub fn size(wanted: u32, max: u32) -> Option<u32> {
    (wanted <= max).then(|| wanted.max(SHARED_SIZE).min(max))
}

/// What is in use of a queue of `size` completions, `used` of them in use, if it takes
/// `wanted` more.
pub fn claim(used: u32, wanted: u32, size: u32) -> Option<u32> {
    used.checked_add(wanted).filter(|sum| *sum <= size)
}
