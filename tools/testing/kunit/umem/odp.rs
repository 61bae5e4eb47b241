// SPDX-License-Identifier: GPL-2.0

//! On-demand memory, by its parts: the whole address space of a process, and children of it that a
//! driver creates.

use super::process::Mapping;
use super::process::PAGE;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use rdma::bindings;

/// Number of calls of the notifier.
static GONE: AtomicU32 = AtomicU32::new(0);

static OPS: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    // SAFETY: In a zeroed structure, the other operations are absent.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
};

/// # Safety
///
/// As for a notifier's operation; the notifier is that of a [`Memory`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    GONE.fetch_add(1, Relaxed);
    // SAFETY: The memory of the notifier exists (contract of this function).
    unsafe {
        let umem = bindings::rdma_helper_odp_of(notifier);
        bindings::rdma_helper_odp_lock(umem);
        bindings::rdma_helper_interval_set_seq(notifier, seq);
        bindings::rdma_helper_odp_unmap(
            umem,
            bindings::rdma_helper_range_start(range),
            bindings::rdma_helper_range_end(range),
        );
        bindings::rdma_helper_odp_unlock(umem);
    }
    true
}

/// On-demand memory, released on drop.
struct Memory(NonNull<bindings::ib_umem_odp>);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: The memory is owned.
        unsafe { bindings::ib_umem_odp_release(self.0.as_ptr()) };
    }
}

impl Memory {
    // Not by the helpers, which take a reference to the device: this one is no object of the driver
    // model.
    fn whole(device: &mut bindings::ib_device, access: u32) -> Result<Self> {
        // CAST: Flags, whose sign has no meaning.
        // SAFETY: The tests keep the device longer.
        let made = unsafe { bindings::ib_umem_odp_alloc_implicit(device, access as c_int) };
        Ok(Self(NonNull::new(from_err_ptr(made)?).ok_or(ENOMEM)?))
    }

    fn child(&self, at: usize, len: usize) -> Result<Self> {
        // SAFETY: The tests keep the parent longer, and run in the process.
        let made = unsafe { bindings::ib_umem_odp_alloc_child(self.0.as_ptr(), at, len, &OPS) };
        Ok(Self(NonNull::new(from_err_ptr(made)?).ok_or(ENOMEM)?))
    }

    fn c(&self) -> &bindings::ib_umem_odp {
        // SAFETY: The memory is owned.
        unsafe { self.0.as_ref() }
    }

    /// Faults pages in; returns how many are present.
    fn bring(&self, at: usize, len: usize, write: bool, fault: bool) -> Result<usize> {
        let umem = self.0.as_ptr();
        // SAFETY: The memory is owned, and not implicit.
        unsafe {
            let pages =
                bindings::rdma_helper_odp_map_and_lock(umem, at as u64, len as u64, write, fault);
            to_result(pages)?;
            bindings::rdma_helper_odp_unlock(umem);
            Ok(pages as usize)
        }
    }

    /// Returns the first byte of a page, if it is present.
    fn first_byte(&self, page: usize) -> Option<u8> {
        // SAFETY: The list has an entry for each page. A present page stays, because the tests run
        // in the process that could unmap it.
        unsafe {
            let pfn = *self.c().map.pfn_list.add(page);
            bindings::rdma_helper_hmm_pfn_valid(pfn)
                .then(|| *bindings::rdma_helper_hmm_pfn_address(pfn).cast::<u8>())
        }
    }
}

const WRITABLE: u32 =
    bindings::ib_access_flags_IB_ACCESS_ON_DEMAND | bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;

#[kunit_tests(umem_odp)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_address_space_has_no_pages_of_its_own() -> Result {
        let mut device = crate::device()?;
        let _mapping = Mapping::new(1)?;
        for (access, writable) in [
            (WRITABLE, 1),
            (bindings::ib_access_flags_IB_ACCESS_ON_DEMAND, 0),
        ] {
            let whole = Memory::whole(&mut device, access)?;
            let c = whole.c();
            assert!(c.is_implicit_odp);
            assert_eq!((c.umem.is_odp(), c.umem.writable()), (1, writable));
            assert_eq!((c.umem.length, c.npages), (0, 0));
            assert!(c.map.pfn_list.is_null());
        }
        let huge = WRITABLE | bindings::ib_access_flags_IB_ACCESS_HUGETLB;
        assert_eq!(Memory::whole(&mut device, huge).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn a_child_has_the_pages_of_its_range() -> Result {
        let mut device = crate::device()?;
        let mapping = Mapping::new(6)?;
        mapping.write(2, b"c")?;
        mapping.write(3, b"d")?;
        let whole = Memory::whole(&mut device, WRITABLE)?;
        let at = mapping.at(1);
        // It ends inside its last page.
        let child = whole.child(at, 4 * PAGE - 5)?;
        assert!(!child.c().is_implicit_odp);
        assert_eq!(child.c().umem.writable(), 1);
        assert_eq!((0..4).filter_map(|n| child.first_byte(n)).count(), 0);

        // Without `fault`, only pages in memory are made present.
        child.bring(at, 4 * PAGE, false, false)?;
        let seen = [0, 1, 2, 3].map(|n| child.first_byte(n));
        assert_eq!(seen, [None, Some(b'c'), Some(b'd'), None]);
        assert_eq!(child.bring(at + PAGE + 7, 3 * PAGE - 7, true, true), Ok(3));
        let seen = [0, 1, 2, 3].map(|n| child.first_byte(n));
        assert_eq!(seen, [None, Some(b'c'), Some(b'd'), Some(0)]);
        assert_eq!(child.bring(at - PAGE, PAGE, true, true), Err(EFAULT));
        assert_eq!(child.bring(at + 4 * PAGE, 1, true, true), Err(EFAULT));
        Ok(())
    }

    #[test]
    fn children_follow_their_own_ranges() -> Result {
        let mut device = crate::device()?;
        let mut mapping = Mapping::new(4)?;
        let whole = Memory::whole(&mut device, WRITABLE)?;
        let one = whole.child(mapping.at(0), 2 * PAGE)?;
        let two = whole.child(mapping.at(2), 2 * PAGE)?;
        mapping.write(0, b"a")?;
        mapping.write(2, b"c")?;
        assert_eq!(one.bring(mapping.at(0), 2 * PAGE, true, true), Ok(2));
        assert_eq!(two.bring(mapping.at(2), 2 * PAGE, true, true), Ok(2));

        let before = GONE.load(Relaxed);
        mapping.unmap(2, 2)?;
        assert!(GONE.load(Relaxed) > before);
        assert_eq!([0, 1].map(|n| one.first_byte(n)), [Some(b'a'), Some(0)]);
        assert_eq!([0, 1].map(|n| two.first_byte(n)), [None, None]);
        assert_eq!(two.bring(mapping.at(2), PAGE, false, true), Err(EFAULT));

        // Pages that are mapped there later are found there.
        mapping.map(2, 2)?;
        mapping.write(3, b"new")?;
        assert_eq!(two.bring(mapping.at(2), 2 * PAGE, true, true), Ok(2));
        assert_eq!([0, 1].map(|n| two.first_byte(n)), [Some(0), Some(b'n')]);

        // A released child is not notified any more.
        drop(two);
        let before = GONE.load(Relaxed);
        mapping.unmap(2, 2)?;
        assert_eq!(GONE.load(Relaxed), before);
        Ok(())
    }

    #[test]
    fn a_child_of_nothing_may_be_made() -> Result {
        let mut device = crate::device()?;
        let mut mapping = Mapping::new(2)?;
        let at = mapping.at(0);
        let whole = Memory::whole(&mut device, WRITABLE)?;
        mapping.unmap(0, 2)?;
        let child = whole.child(at, 2 * PAGE)?;
        assert_eq!(child.bring(at, PAGE, true, true), Err(EFAULT));
        // Without `fault`, a hole is not an error.
        child.bring(at, 2 * PAGE, false, false)?;
        assert_eq!([0, 1].map(|n| child.first_byte(n)), [None, None]);
        assert_eq!(whole.child(at, 0).err(), Some(EINVAL));
        assert_eq!(
            whole.child(usize::MAX - PAGE, 2 * PAGE).err(),
            Some(EOVERFLOW)
        );
        Ok(())
    }
}
