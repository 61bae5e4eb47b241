// SPDX-License-Identifier: GPL-2.0

//! Memory regions, and copying between them and packets.
//!
//! The device has no DMA: the kernel's consumers give kernel addresses under [`DMA_KEY`], and
//! processes register memory, which is pinned. A region's lock is held while its memory is
//! touched, so that deregistering ends all use of it.

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::new_spinlock_irq;
use rdma::provider::*;
use rdma::sync::SpinLockIrq;
use rdma::table::Table;
use rdma::umem::Umem;

/// The key of all memory of the kernel, for the kernel's consumers alone.
pub(crate) const DMA_KEY: u32 = 1;
/// Numbers of regions; a key is the number with 8 bits below.
pub(crate) const NUMBERS: core::ops::RangeInclusive<u32> = 1..=0xffff;

/// Whose memory a request may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Number of the protection domain.
    pub(crate) pd: u32,
    /// Whether it is a process; else it is the kernel.
    pub(crate) user: bool,
}

/// Memory of a process.
struct Mapping {
    /// Kernel addresses of the pages.
    pages: KVVec<usize>,
    /// Where in the first page it begins.
    first: usize,
    iova: u64,
    len: u64,
    access: Access,
    /// Owns the pages, and goes last.
    _umem: Umem,
}

/// A memory region.
#[pin_data]
pub(crate) struct Region {
    pd: u32,
    #[pin]
    mapping: SpinLockIrq<Option<Mapping>>,
}

impl Region {
    /// Registers memory of the calling process. May sleep.
    pub(crate) fn of_user<P: Provider>(
        dev: &Device<P>,
        pd: u32,
        region: &UserRegion,
    ) -> Result<Arc<Self>> {
        let umem = Umem::get(dev, region.start, region.length, region.access)?;
        let mut pages = KVVec::with_capacity(umem.page_count(), GFP_KERNEL)?;
        for page in umem.pages() {
            // SAFETY: The page is pinned.
            let at = unsafe { bindings::rdma_helper_page_address(page.as_ptr()) };
            pages.push(at as usize, GFP_KERNEL)?;
        }
        let mapping = Mapping {
            pages,
            first: umem.offset(),
            iova: region.iova,
            len: region.length,
            access: region.access,
            _umem: umem,
        };
        Arc::pin_init(
            pin_init!(Self {
                pd,
                mapping <- new_spinlock_irq!(Some(mapping), "fakeib::Region::mapping"),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends all use of the memory. May sleep.
    pub(crate) fn end(&self) {
        let mapping = self.mapping.lock().take();
        drop(mapping);
    }
}

impl Mapping {
    /// Calls `f` with each piece of `len` bytes at `addr`: kernel address and length.
    fn pieces(&self, addr: u64, len: usize, f: &mut dyn FnMut(usize, usize)) -> Result {
        let offset = addr.checked_sub(self.iova).ok_or(EFAULT)?;
        // CAST: 64-bit kernels only.
        if offset > self.len || len as u64 > self.len.wrapping_sub(offset) {
            return Err(EFAULT);
        }
        let mut at = self
            .first
            .checked_add(usize::try_from(offset)?)
            .ok_or(EFAULT)?;
        let mut left = len;
        while left > 0 {
            let inside = at % PAGE_SIZE;
            let page = self.pages.get(at / PAGE_SIZE).ok_or(EFAULT)?;
            let n = left.min(PAGE_SIZE - inside);
            f(page.checked_add(inside).ok_or(EFAULT)?, n);
            at = at.checked_add(n).ok_or(EFAULT)?;
            left -= n;
        }
        Ok(())
    }
}

/// All regions of a device, by number.
pub(crate) type Regions = Table<Region>;

/// Calls `f` with each piece of a request's memory. Any context.
fn pieces(
    regions: &Regions,
    owner: Owner,
    sge: &Sge,
    write: bool,
    f: &mut dyn FnMut(usize, usize),
) -> Result {
    let len = usize::try_from(sge.length)?;
    if len == 0 {
        return Ok(());
    }
    if !owner.user && sge.lkey == DMA_KEY {
        f(usize::try_from(sge.addr)?, len);
        return Ok(());
    }
    let region = regions.get(sge.lkey >> 8).ok_or(EFAULT)?;
    let mapping = region.mapping.lock();
    let mapping = mapping.as_ref().ok_or(EFAULT)?;
    let allowed = !write || mapping.access.contains(Access::LOCAL_WRITE);
    if region.pd != owner.pd || sge.lkey & 0xff != 0 || !allowed {
        return Err(EFAULT);
    }
    mapping.pieces(sge.addr, len, f)
}

/// How many bytes a request's memory has.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Copies a request's memory to a new packet. Any context.
///
/// # Errors
///
/// `EFAULT` for memory that it may not name, `EMSGSIZE` for more than `most` bytes, `ENOMEM`.
pub(crate) fn gather(
    regions: &Regions,
    owner: Owner,
    sges: &[Sge],
    most: usize,
) -> Result<KVec<u8>> {
    let len = usize::try_from(total(sges))?;
    if len > most {
        return Err(EMSGSIZE);
    }
    let mut out = KVec::from_elem(0, len, GFP_ATOMIC)?;
    gather_at(regions, owner, sges, 0, &mut out)?;
    Ok(out)
}

/// Copies a request's memory, behind its first `skip` bytes, to `out`. Any context.
///
/// # Errors
///
/// `EFAULT` for memory that it may not name, `EMSGSIZE` if there is not as much.
pub(crate) fn gather_at(
    regions: &Regions,
    owner: Owner,
    sges: &[Sge],
    skip: usize,
    out: &mut [u8],
) -> Result {
    let mut skip = skip;
    let mut left = out;
    for sge in sges {
        pieces(regions, owner, sge, false, &mut |at, n| {
            let skipped = skip.min(n);
            skip -= skipped;
            let now = left.len().min(n - skipped);
            let Some((now, later)) = core::mem::take(&mut left).split_at_mut_checked(now) else {
                return;
            };
            left = later;
            // OVERFLOW: it is within a piece of memory.
            let at = at.wrapping_add(skipped);
            // SAFETY: The kernel's consumers promise that the memory of their requests is
            // there until these have completed; that of processes is pinned, and its region's
            // lock held. It may change meanwhile, so it is never borrowed.
            unsafe { core::ptr::copy(at as *const u8, now.as_mut_ptr(), now.len()) };
        })?;
        if left.is_empty() {
            return Ok(());
        }
    }
    if left.is_empty() {
        Ok(())
    } else {
        Err(EMSGSIZE)
    }
}

/// Calls `f` with each piece of memory that a peer named by a remote key.
fn remote_pieces(
    regions: &Regions,
    owner: Owner,
    rkey: u32,
    addr: u64,
    len: usize,
    need: Access,
    f: &mut dyn FnMut(usize, usize),
) -> Result {
    if !owner.user && rkey == DMA_KEY {
        f(usize::try_from(addr)?, len);
        return Ok(());
    }
    let region = regions.get(rkey >> 8).ok_or(EFAULT)?;
    let mapping = region.mapping.lock();
    let mapping = mapping.as_ref().ok_or(EFAULT)?;
    if region.pd != owner.pd || rkey & 0xff != 0 || !mapping.access.contains(need) {
        return Err(EFAULT);
    }
    mapping.pieces(addr, len, f)
}

/// Copies memory that a peer named, of queue pairs of `owner`, to `out`. Any context.
///
/// # Errors
///
/// `EFAULT` for memory that it may not name.
pub(crate) fn read_remote(
    regions: &Regions,
    owner: Owner,
    rkey: u32,
    addr: u64,
    out: &mut [u8],
) -> Result {
    let mut left = &mut *out;
    let len = left.len();
    remote_pieces(
        regions,
        owner,
        rkey,
        addr,
        len,
        Access::REMOTE_READ,
        &mut |at, n| {
            let Some((now, later)) = core::mem::take(&mut left).split_at_mut_checked(n) else {
                return;
            };
            left = later;
            // SAFETY: As in `gather_at`; who gave out the key promises the same of the kernel's.
            unsafe { core::ptr::copy(at as *const u8, now.as_mut_ptr(), now.len()) };
        },
    )
}

/// Copies `data` to memory that a peer named, of queue pairs of `owner`. Any context.
///
/// # Errors
///
/// `EFAULT` for memory that it may not name.
pub(crate) fn write_remote(
    regions: &Regions,
    owner: Owner,
    rkey: u32,
    addr: u64,
    data: &[u8],
) -> Result {
    let mut left = data;
    remote_pieces(
        regions,
        owner,
        rkey,
        addr,
        data.len(),
        Access::REMOTE_WRITE,
        &mut |at, n| {
            let Some((now, later)) = left.split_at_checked(n) else {
                return;
            };
            left = later;
            // SAFETY: As in `scatter`; who gave out the key promises the same of the kernel's.
            unsafe { core::ptr::copy(now.as_ptr(), at as *mut u8, now.len()) };
        },
    )
}

/// Copies `data` into a request's memory, behind its first `skip` bytes. Any context.
///
/// # Errors
///
/// `EFAULT` for memory that it may not name, `EMSGSIZE` if there is not as much.
pub(crate) fn scatter(
    regions: &Regions,
    owner: Owner,
    sges: &[Sge],
    skip: usize,
    data: &[u8],
) -> Result {
    let mut skip = skip;
    let mut left = data;
    for sge in sges {
        pieces(regions, owner, sge, true, &mut |at, n| {
            let skipped = skip.min(n);
            skip -= skipped;
            let Some((now, later)) = left.split_at_checked(left.len().min(n - skipped)) else {
                return;
            };
            left = later;
            // OVERFLOW: it is within a piece of memory.
            let at = at.wrapping_add(skipped);
            // SAFETY: As in `gather_at`, and the memory is for us to write: the kernel's by
            // promise, that of processes was checked.
            unsafe { core::ptr::copy(now.as_ptr(), at as *mut u8, now.len()) };
        })?;
        if left.is_empty() {
            return Ok(());
        }
    }
    if left.is_empty() {
        Ok(())
    } else {
        Err(EMSGSIZE)
    }
}
