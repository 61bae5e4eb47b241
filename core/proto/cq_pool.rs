// SPDX-License-Identifier: GPL-2.0

//! Shared completion queues: which queue serves a request, and the size of queues created for the
//! pool.

/// Minimum number of completions of a shared queue, if the device supports it: enough for many
/// consumers.
pub const SHARED_SIZE: u32 = 4096;

/// Number of completion vectors that a pool uses: one queue per vector, at most one per CPU.
///
/// At least one, so that a device that reports no vectors is served too.
pub fn vectors(of_device: u32, cpus: u32) -> u32 {
    of_device.min(cpus).max(1)
}

/// Returns the vector that serves a request, and the new value of `last`. A negative hint leaves
/// the choice to the pool, which goes round robin from `last`, the vector it chose last.
pub fn choose(hint: i32, last: u32, vectors: u32) -> (u32, u32) {
    // OVERFLOW: no division by zero: at least one.
    let vectors = vectors.max(1);
    match u32::try_from(hint) {
        Ok(hint) => (hint % vectors, last),
        Err(_) => {
            // OVERFLOW: no division by zero: `vectors` is at least one.
            let next = last.wrapping_add(1) % vectors;
            (next, next)
        }
    }
}

/// Returns the size of new queues for a request of `wanted` completions, which may exceed
/// [`SHARED_SIZE`]; `None` if it exceeds `max`, the limit of the device.
pub fn size(wanted: u32, max: u32) -> Option<u32> {
    (wanted <= max).then(|| wanted.max(SHARED_SIZE).min(max))
}

/// Returns the number of completions in use after `wanted` more are claimed of a queue of `size`
/// completions with `used` of them in use; `None` if they do not fit.
pub fn claim(used: u32, wanted: u32, size: u32) -> Option<u32> {
    used.checked_add(wanted).filter(|sum| *sum <= size)
}
