// SPDX-License-Identifier: GPL-2.0

//! Memory of a dma-buf, whose exporter is here too: of which part of the exporter's list of
//! segments the memory is made, whether the list goes back as it was, and how a buffer is
//! taken away. And CPU access to a buffer, by `rdma::umem::dmabuf`.

use core::cell::Cell;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::faux;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::umem::dmabuf::DmaBuf;

const PAGE: u32 = 4096;

/// The exporter's segments: addresses of the device and lengths, eight pages in all.
const SEGMENTS: [(u64, u32); 4] = [
    (0x1_0000, 2 * PAGE),
    (0x2_0000, PAGE),
    (0x8_0000, 4 * PAGE),
    (0x4_0000, PAGE),
];
const SIZE: usize = 8 * PAGE as usize;

/// An exporter of one buffer, freed with it.
struct Exporter {
    table: bindings::sg_table,
    maps: Cell<i32>,
    pins: Cell<i32>,
    fail_map: Cell<bool>,
    changed: Cell<bool>,
    fail_begin: Cell<bool>,
    cpu: Cell<CpuCalls>,
}

/// Calls of the operations for CPU access.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct CpuCalls {
    vmaps: u32,
    begins: u32,
    ends: u32,
    vunmaps: u32,
}

impl Exporter {
    fn new() -> Result<KBox<Self>> {
        let mut new = KBox::new(
            Self {
                table: bindings::sg_table::default(),
                maps: Cell::new(0),
                pins: Cell::new(0),
                fail_map: Cell::new(false),
                changed: Cell::new(false),
                fail_begin: Cell::new(false),
                cpu: Cell::new(CpuCalls::default()),
            },
            GFP_KERNEL,
        )?;
        let count = SEGMENTS.len() as u32;
        // SAFETY: The table is ours, and has as many entries afterwards.
        unsafe {
            to_result(bindings::sg_alloc_table(
                &mut new.table,
                count,
                bindings::GFP_KERNEL,
            ))?;
            let mut sg = new.table.sgl;
            for (addr, len) in SEGMENTS {
                bindings::rdma_helper_sg_set_dma_address(sg, addr);
                bindings::rdma_helper_sg_set_dma_len(sg, len);
                sg = bindings::sg_next(sg);
            }
        }
        Ok(new)
    }

    fn count(&self, change: impl FnOnce(&mut CpuCalls)) {
        let mut calls = self.cpu.get();
        change(&mut calls);
        self.cpu.set(calls);
    }

    /// Whether the list is as it was.
    fn is_whole(&self) -> bool {
        let mut sg = self.table.sgl;
        SEGMENTS.into_iter().all(|(addr, len)| {
            // SAFETY: The table has as many entries.
            unsafe {
                let now = (bindings::sg_dma_address(sg), bindings::sg_dma_len(sg));
                sg = bindings::sg_next(sg);
                now == (addr, len)
            }
        })
    }
}

/// The exporter of an attachment's buffer.
///
/// # Safety
///
/// The attachment is to a buffer of [`with_buffer_of`].
unsafe fn exporter<'a>(attach: *mut bindings::dma_buf_attachment) -> &'a Exporter {
    // SAFETY: By this function's duty.
    unsafe { &*(*(*attach).dmabuf).priv_.cast() }
}

unsafe extern "C" fn map(
    attach: *mut bindings::dma_buf_attachment,
    _: bindings::dma_data_direction,
) -> *mut bindings::sg_table {
    // SAFETY: The operations are those of our buffers only.
    let this = unsafe { exporter(attach) };
    if this.fail_map.get() {
        return ENOMEM.to_ptr();
    }
    this.maps.set(this.maps.get() + 1);
    (&raw const this.table).cast_mut()
}

unsafe extern "C" fn unmap(
    attach: *mut bindings::dma_buf_attachment,
    _: *mut bindings::sg_table,
    _: bindings::dma_data_direction,
) {
    // SAFETY: As above.
    let this = unsafe { exporter(attach) };
    this.maps.set(this.maps.get() - 1);
    if !this.is_whole() {
        this.changed.set(true);
    }
}

unsafe extern "C" fn pin(attach: *mut bindings::dma_buf_attachment) -> c_int {
    // SAFETY: As above.
    let this = unsafe { exporter(attach) };
    this.pins.set(this.pins.get() + 1);
    0
}

unsafe extern "C" fn unpin(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: As above.
    let this = unsafe { exporter(attach) };
    this.pins.set(this.pins.get() - 1);
}

/// The exporter of a buffer.
///
/// # Safety
///
/// The buffer is one of [`with_buffer_of`].
unsafe fn exporter_of<'a>(buffer: *mut bindings::dma_buf) -> &'a Exporter {
    // SAFETY: `priv_` is the box of `with_buffer_of` (contract of this function).
    unsafe { &*(*buffer).priv_.cast() }
}

unsafe extern "C" fn vmap(buffer: *mut bindings::dma_buf, map: *mut bindings::iosys_map) -> c_int {
    // SAFETY: The operations are those of our buffers only, and the map is the core's to be filled
    // in. The address is that of the exporter itself: nobody accesses the memory.
    unsafe {
        let this = exporter_of(buffer);
        this.count(|calls| calls.vmaps += 1);
        (*map).__bindgen_anon_1.vaddr = (*buffer).priv_;
        (*map).is_iomem = false;
    }
    0
}

unsafe extern "C" fn vunmap(buffer: *mut bindings::dma_buf, _: *mut bindings::iosys_map) {
    // SAFETY: The operations are those of our buffers only.
    unsafe { exporter_of(buffer) }.count(|calls| calls.vunmaps += 1);
}

unsafe extern "C" fn begin(
    buffer: *mut bindings::dma_buf,
    _: bindings::dma_data_direction,
) -> c_int {
    // SAFETY: The operations are those of our buffers only.
    let this = unsafe { exporter_of(buffer) };
    this.count(|calls| calls.begins += 1);
    if this.fail_begin.get() {
        return EIO.to_errno();
    }
    0
}

unsafe extern "C" fn end(buffer: *mut bindings::dma_buf, _: bindings::dma_data_direction) -> c_int {
    // SAFETY: The operations are those of our buffers only.
    unsafe { exporter_of(buffer) }.count(|calls| calls.ends += 1);
    0
}

unsafe extern "C" fn release(buffer: *mut bindings::dma_buf) {
    // SAFETY: It is the box of `with_buffer_of`, which nobody uses any more.
    unsafe {
        let mut this = KBox::<Exporter>::from_raw((*buffer).priv_.cast());
        bindings::sg_free_table(&mut this.table);
    }
}

/// The operations of an exporter that may move its buffer.
static MOVES: bindings::dma_buf_ops = bindings::dma_buf_ops {
    pin: Some(pin),
    unpin: Some(unpin),
    ..OPS
};

/// The operations of an exporter that does not.
static STAYS: bindings::dma_buf_ops = OPS;

const OPS: bindings::dma_buf_ops = bindings::dma_buf_ops {
    map_dma_buf: Some(map),
    unmap_dma_buf: Some(unmap),
    vmap: Some(vmap),
    vunmap: Some(vunmap),
    begin_cpu_access: Some(begin),
    end_cpu_access: Some(end),
    release: Some(release),
    // SAFETY: Zero is none of the other operations.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
};

/// A buffer, its file, and a device that can reach it.
struct Ground<'a> {
    exporter: &'a Exporter,
    buffer: *mut bindings::dma_buf,
    fd: c_int,
    device: *mut bindings::ib_device,
}

fn with_buffer(test: impl FnOnce(&Ground<'_>) -> Result) -> Result {
    with_buffer_of(&MOVES, test)
}

fn with_buffer_of(
    ops: &'static bindings::dma_buf_ops,
    test: impl FnOnce(&Ground<'_>) -> Result,
) -> Result {
    let dma_device = faux::Registration::new(c"rdma_kunit_umem", None)?;
    let mut device = crate::device()?;
    let dma: &kernel::device::Device = dma_device.as_ref();
    // CAST: it is the C structure.
    device.dma_device = core::ptr::from_ref(dma).cast_mut().cast();
    let raw = KBox::into_raw(Exporter::new()?);
    let info = bindings::dma_buf_export_info {
        exp_name: c"rdma_kunit_umem".as_char_ptr(),
        owner: rdma::this_module!().as_ptr(),
        ops,
        size: SIZE,
        flags: bindings::O_RDWR as c_int,
        resv: core::ptr::null_mut(),
        priv_: raw.cast(),
    };
    // SAFETY: The exporter lives as long as the buffer; that lives until its file is closed.
    unsafe {
        let buffer = from_err_ptr(bindings::dma_buf_export(&info))?;
        let fd = bindings::dma_buf_fd(buffer, 0);
        if fd < 0 {
            bindings::dma_buf_put(buffer);
            return to_result(fd);
        }
        let result = test(&Ground {
            exporter: &*raw,
            buffer,
            fd,
            device: &mut *device,
        });
        let balance = ((*raw).maps.get(), (*raw).pins.get(), (*raw).changed.get());
        bindings::close_fd(fd as u32);
        result?;
        assert_eq!(balance, (0, 0, false));
    }
    Ok(())
}

/// Pinned memory of the buffer.
fn pinned(on: &Ground<'_>, offset: usize, len: usize) -> Result<*mut bindings::ib_umem_dmabuf> {
    let access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE as c_int;
    // SAFETY: The device lives as long as the ground.
    from_err_ptr(unsafe {
        bindings::ib_umem_dmabuf_get_pinned(on.device, offset, len, on.fd, access)
    })
}

/// What the device sees of memory.
fn segments(umem: *mut bindings::ib_umem_dmabuf) -> Result<KVec<(u64, u32)>> {
    let mut seen = KVec::new();
    // SAFETY: The memory is mapped.
    unsafe {
        let table = &(*umem).umem.sgt_append.sgt;
        let mut sg = table.sgl;
        for _ in 0..table.nents {
            let segment = (bindings::sg_dma_address(sg), bindings::sg_dma_len(sg));
            seen.push(segment, GFP_KERNEL)?;
            sg = bindings::sg_next(sg);
        }
    }
    Ok(seen)
}

/// Calls of [`revoked`].
unsafe extern "C" fn revoked(count: *mut c_void) {
    // SAFETY: It is the number that the test gave.
    unsafe { *count.cast::<u32>() += 1 };
}

#[kunit_tests(umem_dmabuf)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_part_of_the_list() -> Result {
        with_buffer(|on| {
            // Every first and every last page.
            for first in 0..8u32 {
                for last in first..8 {
                    let offset = (first * PAGE + 100) as usize;
                    let len = ((last - first) * PAGE + 200) as usize;
                    let umem = pinned(on, offset, len)?;
                    let seen = segments(umem)?;
                    // The pages one by one, here and in the exporter's list.
                    let page = |list: &[(u64, u32)], n: u32| {
                        let mut n = n;
                        for &(addr, len) in list {
                            if n < len / PAGE {
                                return addr + u64::from(n * PAGE);
                            }
                            n -= len / PAGE;
                        }
                        0
                    };
                    for n in first..=last {
                        assert_eq!(page(&seen, n - first), page(&SEGMENTS, n));
                    }
                    let bytes: u32 = seen.iter().map(|segment| segment.1).sum();
                    assert_eq!(bytes, (last - first + 1) * PAGE);
                    assert!(on.exporter.pins.get() > 0);
                    // SAFETY: It is ours.
                    unsafe { bindings::ib_umem_release(&mut (*umem).umem) };
                    assert!(on.exporter.is_whole());
                }
            }
            Ok(())
        })
    }

    #[test]
    fn what_is_not_there_is_refused() -> Result {
        with_buffer(|on| {
            assert_eq!(pinned(on, SIZE, 1).err(), Some(EINVAL));
            assert_eq!(pinned(on, SIZE - 1, 2).err(), Some(EINVAL));
            assert_eq!(pinned(on, 0, 0).err(), Some(EINVAL));
            assert_eq!(pinned(on, usize::MAX, 2).err(), Some(EINVAL));
            let nothing = Ground { fd: -1, ..*on };
            assert_eq!(pinned(&nothing, 0, 1).err(), Some(EBADF));
            on.exporter.fail_map.set(true);
            assert_eq!(pinned(on, 0, SIZE).err(), Some(ENOMEM));
            Ok(())
        })
    }

    #[test]
    fn page_sizes_and_blocks() -> Result {
        with_buffer(|on| {
            // Three pages: the last of the first segment, the second, and half of the third.
            let umem = pinned(on, PAGE as usize, 4 * PAGE as usize)?;
            // SAFETY: The memory is ours and mapped; the iterator is ours too.
            unsafe {
                let head = &raw mut (*umem).umem;
                let sizes = 0xf000;
                assert_eq!(
                    bindings::ib_umem_find_best_pgsz(head, sizes, 0x7000_1000),
                    4096
                );
                assert_eq!(
                    bindings::ib_umem_find_best_pgsz(head, 0xe000, 0x7000_1000),
                    0
                );
                assert_eq!((*head).iova, 0x7000_1000);
                let mut iter = bindings::ib_block_iter::default();
                let table = &(*head).sgt_append.sgt;
                bindings::__rdma_block_iter_start(&mut iter, table.sgl, table.nents, 4096);
                for block in [0x1_1000, 0x2_0000, 0x8_0000, 0x8_1000] {
                    assert!(bindings::__rdma_block_iter_next(&mut iter));
                    assert_eq!(iter.__dma_addr & !0xfff, block);
                }
                assert!(!bindings::__rdma_block_iter_next(&mut iter));
                bindings::ib_umem_release(head);
            }
            // Pages of the device that span entries.
            let umem = pinned(on, 3 * PAGE as usize, 4 * PAGE as usize)?;
            // SAFETY: As above.
            unsafe {
                let head = &raw mut (*umem).umem;
                assert_eq!(
                    bindings::ib_umem_find_best_pgsz(head, 0xf000, 0x7000_0000),
                    0x4000
                );
                bindings::ib_umem_release(head);
            }
            Ok(())
        })
    }

    #[test]
    fn the_exporter_takes_it_away() -> Result {
        with_buffer(|on| {
            let mut count = 0u32;
            // SAFETY: The memory is ours until it is released; the count outlives it.
            unsafe {
                let umem = from_err_ptr(bindings::ib_umem_dmabuf_get_pinned_revocable_and_lock(
                    on.device, 0, SIZE, on.fd, 0,
                ))?;
                let to: *mut c_void = (&raw mut count).cast();
                bindings::ib_umem_dmabuf_set_revoke_locked(umem, Some(revoked), to);
                bindings::ib_umem_dmabuf_revoke_unlock(umem);
                assert_eq!(on.exporter.maps.get(), 1);

                let resv = (*on.buffer).resv;
                bindings::dma_resv_lock(resv, core::ptr::null_mut());
                bindings::dma_buf_invalidate_mappings(on.buffer);
                bindings::dma_resv_unlock(resv);
                assert_eq!(
                    (count, on.exporter.maps.get(), on.exporter.pins.get()),
                    (1, 0, 0)
                );

                bindings::ib_umem_dmabuf_revoke(umem);
                bindings::ib_umem_dmabuf_revoke_lock(umem);
                assert_eq!(bindings::ib_umem_dmabuf_map_pages(umem), EINVAL.to_errno());
                bindings::ib_umem_dmabuf_revoke_unlock(umem);
                bindings::ib_umem_release(&mut (*umem).umem);
            }
            assert_eq!(count, 1);
            Ok(())
        })
    }

    #[test]
    fn release_revokes() -> Result {
        with_buffer(|on| {
            let mut count = 0u32;
            // SAFETY: As above.
            unsafe {
                let umem = from_err_ptr(bindings::ib_umem_dmabuf_get_pinned_revocable_and_lock(
                    on.device, 0, SIZE, on.fd, 0,
                ))?;
                let to: *mut c_void = (&raw mut count).cast();
                bindings::ib_umem_dmabuf_set_revoke_locked(umem, Some(revoked), to);
                bindings::ib_umem_dmabuf_revoke_unlock(umem);
                bindings::ib_umem_release(&mut (*umem).umem);
            }
            assert_eq!(count, 1);
            Ok(())
        })
    }

    #[test]
    fn an_access_ends_only_if_it_began() -> Result {
        with_buffer_of(&STAYS, |on| {
            on.exporter.fail_begin.set(true);
            assert_eq!(DmaBuf::get(on.fd, 0, 8).err(), Some(EIO));
            let mut calls = CpuCalls {
                vmaps: 1,
                begins: 1,
                ends: 0,
                vunmaps: 1,
            };
            assert_eq!(on.exporter.cpu.get(), calls);

            on.exporter.fail_begin.set(false);
            let buffer = DmaBuf::get(on.fd, 16, 8)?;
            assert_eq!(buffer.len(), 8);
            (calls.vmaps, calls.begins) = (2, 2);
            assert_eq!(on.exporter.cpu.get(), calls);
            drop(buffer);
            (calls.ends, calls.vunmaps) = (1, 2);
            assert_eq!(on.exporter.cpu.get(), calls);
            Ok(())
        })
    }
}
