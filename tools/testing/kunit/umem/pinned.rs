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

    #[test]
    fn all_pages_are_there_in_their_order() -> Result {
        const MOST: usize = 514;
        let access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE as c_int;
        let mut device = crate::device()?;
        let mapping = Mapping::new(MOST)?;
        for page in 0..MOST {
            mapping.write(page, &page.to_ne_bytes())?;
        }
        // Few pages are pinned by way of the stack, others in batches of 512.
        for pages in [1, 2, 15, 16, 17, 511, 512, 513, MOST] {
            // SAFETY: The device outlives the memory, which is ours until it is released; a
            // number has room for its bytes.
            unsafe {
                let umem = from_err_ptr(bindings::rdma_helper_ib_umem_get_va(
                    &mut *device,
                    mapping.at(0),
                    pages * PAGE,
                    access,
                ))?;
                for page in [0, 1, 14, 15, 16, 17, 510, 511, 512, pages - 1] {
                    let mut found = usize::MAX;
                    let to = (&raw mut found).cast();
                    if page < pages {
                        let code = bindings::ib_umem_copy_from(to, umem, page * PAGE, 8);
                        assert_eq!((code, found), (0, page));
                    }
                }
                bindings::ib_umem_release(umem);
            }
        }
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
