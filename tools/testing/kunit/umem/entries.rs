// SPDX-License-Identifier: GPL-2.0

//! What a file can be mapped to: which offsets entries get, who finds them, and when they
//! are free again.

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::bindings::rdma_user_mmap_entry;

/// A user's context, its file and its device.
struct Ground {
    context: KBox<bindings::ib_ucontext>,
    _file: KBox<bindings::ib_uverbs_file>,
    _device: KBox<bindings::ib_device>,
}

/// How many entries were given back to the driver.
static FREED: Atomic<i32> = Atomic::new(0);

unsafe extern "C" fn freed(_: *mut rdma_user_mmap_entry) {
    FREED.fetch_add(1, Relaxed);
}

impl Ground {
    fn new() -> Result<Self> {
        let mut device = crate::device()?;
        device.ops.mmap_free = Some(freed);
        // SAFETY: Zero is no file, list and context; what is used of them is initialized here.
        unsafe {
            let mut file: KBox<bindings::ib_uverbs_file> = crate::zeroed()?;
            let mut context: KBox<bindings::ib_ucontext> = crate::zeroed()?;
            let class = kernel::static_lock_class!();
            bindings::__mutex_init(
                &mut file.umap_lock,
                c"umap_lock".as_char_ptr(),
                class.as_ptr(),
            );
            bindings::xa_init_flags(&mut context.mmap_xa, bindings::XA_FLAGS_ALLOC);
            context.ufile = &mut *file;
            context.device = &mut *device;
            Ok(Self {
                context,
                _file: file,
                _device: device,
            })
        }
    }

    /// A new entry, and the page offset at which it begins.
    fn insert(&mut self, pages: usize, min: u32, max: u32) -> Result<KBox<rdma_user_mmap_entry>> {
        // SAFETY: Zero is what drivers' entries begin with; the context exists.
        unsafe {
            let mut entry: KBox<rdma_user_mmap_entry> = crate::zeroed()?;
            to_result(bindings::rdma_user_mmap_entry_insert_range(
                &mut *self.context,
                &mut *entry,
                pages * 4096,
                min,
                max,
            ))?;
            Ok(entry)
        }
    }

    fn find(&mut self, at: usize) -> *mut rdma_user_mmap_entry {
        // SAFETY: The context exists.
        unsafe { bindings::rdma_user_mmap_entry_get_pgoff(&mut *self.context, at) }
    }
}

/// Takes an entry away.
fn remove(mut entry: KBox<rdma_user_mmap_entry>) {
    // SAFETY: It was inserted, and this is its only removal.
    unsafe { bindings::rdma_user_mmap_entry_remove(&mut *entry) };
}

#[kunit_tests(umem_mmap_entries)]
mod tests {
    use super::*;

    #[test]
    fn the_first_room_is_taken() -> Result {
        let mut on = Ground::new()?;
        let a = on.insert(3, 0, u32::MAX)?;
        let b = on.insert(1, 0, u32::MAX)?;
        let c = on.insert(2, 0, u32::MAX)?;
        assert_eq!((a.start_pgoff, b.start_pgoff, c.start_pgoff), (0, 3, 4));
        remove(a);
        let d = on.insert(4, 0, u32::MAX)?;
        let e = on.insert(3, 0, u32::MAX)?;
        assert_eq!((d.start_pgoff, e.start_pgoff), (6, 0));
        let f = on.insert(1, 100, 100)?;
        assert_eq!(f.start_pgoff, 100);
        assert_eq!(on.insert(1, 100, 100).err(), Some(ENOMEM));
        assert_eq!(on.insert(2, 99, 99).err(), Some(ENOMEM));
        assert_eq!(on.insert(2, u32::MAX, u32::MAX).err(), Some(ENOMEM));
        [b, c, d, e, f].into_iter().for_each(remove);
        Ok(())
    }

    #[test]
    fn a_held_entry_keeps_its_offset() -> Result {
        let mut on = Ground::new()?;
        let mut a = on.insert(2, 5, 5)?;
        let before = FREED.load(Relaxed);
        assert!(on.find(4).is_null() && on.find(6).is_null() && on.find(1 << 32).is_null());
        let held = on.find(5);
        assert!(core::ptr::eq(held, &*a));
        // SAFETY: As in `remove`; the memory stays for the holder.
        unsafe { bindings::rdma_user_mmap_entry_remove(&mut *a) };
        assert!(on.find(5).is_null());
        assert_eq!(on.insert(1, 6, 6).err(), Some(ENOMEM));
        assert_eq!(FREED.load(Relaxed), before);
        // SAFETY: The count of `find`.
        unsafe { bindings::rdma_user_mmap_entry_put(held) };
        assert_eq!(FREED.load(Relaxed), before + 1);
        let b = on.insert(1, 6, 6)?;
        remove(b);
        Ok(())
    }

    #[test]
    fn random_entries() -> Result {
        const ROOM: usize = 192;
        let mut on = Ground::new()?;
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut any = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 33) as usize % below
        };
        let mut used = [false; ROOM];
        let mut there = KVec::new();
        for _ in 0..3_000 {
            if any(5) < 2 && !there.is_empty() {
                let at = any(there.len());
                let entry: KBox<rdma_user_mmap_entry> = there.remove(at).map_err(|_| EINVAL)?;
                let end = entry.start_pgoff + entry.npages;
                used[entry.start_pgoff..end].fill(false);
                remove(entry);
                continue;
            }
            let pages = 1 + any(9);
            let (min, max) = (any(64), 64 + any(64));
            // The range begins within the bounds, and may end beyond.
            let free = |first: &usize| !used[*first..*first + pages].contains(&true);
            let expected = (min..=max).find(free);
            match on.insert(pages, min as u32, max as u32) {
                Ok(entry) => {
                    assert_eq!(Some(entry.start_pgoff), expected);
                    used[entry.start_pgoff..][..pages].fill(true);
                    there.push(entry, GFP_KERNEL)?;
                }
                Err(e) => {
                    assert_eq!(e, ENOMEM);
                    assert_eq!(None, expected);
                }
            }
        }
        there.into_iter().for_each(remove);
        Ok(())
    }
}
