// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of a process: what of it a device may see as larger pages.

use super::process::Mapping;
use super::process::PAGE;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

const HUGE: usize = 2 << 20;

/// The best page size for `len` bytes at `at`, which the device sees at `iova`.
fn best(
    device: &mut bindings::ib_device,
    at: usize,
    len: usize,
    sizes: usize,
    iova: usize,
) -> Result<usize> {
    let access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE as c_int;
    // SAFETY: The device outlives the memory, which is ours until it is released.
    unsafe {
        let umem = from_err_ptr(bindings::rdma_helper_ib_umem_get_va(
            device, at, len, access,
        ))?;
        let best = bindings::ib_umem_find_best_pgsz(umem, sizes, iova as u64);
        bindings::ib_umem_release(umem);
        Ok(best)
    }
}

#[kunit_tests(umem_pinned)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_are_small() -> Result {
        let mut device = crate::device()?;
        let mapping = Mapping::new(1)?;
        let at = mapping.at(0);
        assert_eq!(best(&mut device, at, PAGE, HUGE | PAGE, at), Ok(PAGE));
        assert_eq!(best(&mut device, at + 9, 70, HUGE | PAGE, at + 9), Ok(PAGE));
        Ok(())
    }

    /// Of a kernel that gives processes huge pages unasked.
    #[cfg(CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS)]
    #[test]
    fn huge_pages_are_seen_as_such() -> Result {
        let mut device = crate::device()?;
        let mapping = Mapping::new(3 * HUGE / PAGE)?;
        let at = mapping.at(0).next_multiple_of(HUGE);
        let sizes = HUGE | PAGE;
        assert_eq!(best(&mut device, at, 2 * HUGE, sizes, at), Ok(HUGE));
        // A part of each, as far as the device sees them at the like place of a page.
        let (part, len) = (at + HUGE - 5 * PAGE, 9 * PAGE);
        assert_eq!(best(&mut device, part, len, sizes, part), Ok(HUGE));
        assert_eq!(best(&mut device, part, len, sizes, part + HUGE), Ok(HUGE));
        assert_eq!(best(&mut device, part, len, sizes, part + PAGE), Ok(PAGE));
        // Sizes between: the device's largest that fits.
        let between = 0x10000;
        assert_eq!(best(&mut device, at, HUGE, between | PAGE, at), Ok(between));
        Ok(())
    }
}
