// SPDX-License-Identifier: GPL-2.0

//! Completion queues polled by the loaded core, ours or the C one, and transfers of storage
//! targets, with a driver whose completions and regions the tests make up.

use crate::fake_port;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use rdma::bindings;
use rdma::features;

/// Completions that wait to be polled.
static WAITING: Atomic<i32> = Atomic::<i32>::new(0);
/// Completions that arrive just before the queue is armed the next time.
static LATE: Atomic<i32> = Atomic::<i32>::new(0);
/// Whether the next completion raises an event.
static ARMED: Atomic<i32> = Atomic::<i32>::new(0);
/// Number of times the queue was armed.
static ARMINGS: Atomic<i32> = Atomic::<i32>::new(0);
/// Maximum number of completions that was polled at once.
static LARGEST: Atomic<i32> = Atomic::<i32>::new(0);
/// Number of completions that the consumer has received.
static CONSUMED: Atomic<i32> = Atomic::<i32>::new(0);
/// Number of further completions caused by the consumer's next calls, one each.
static ECHO: Atomic<i32> = Atomic::<i32>::new(0);
/// Number of queues, queue pairs, domains and regions of the driver.
static LIVE: Atomic<i32> = Atomic::<i32>::new(0);
/// Maximum number of regions of the driver.
static MAX_MRS: Atomic<i32> = Atomic::<i32>::new(i32::MAX);
/// Number of pieces from which on a read uses regions.
static MAX_SGL_RD: Atomic<u32> = Atomic::<u32>::new(0);

/// The request of all completions.
struct Request(bindings::ib_cqe);

// SAFETY: It is not changed.
unsafe impl Sync for Request {}

static REQUEST: Request = Request(bindings::ib_cqe {
    done: Some(consume),
});

unsafe extern "C" fn consume(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    CONSUMED.add(1, Relaxed);
    // SAFETY: The queue lives; the core hands in a completion of ours.
    let own = unsafe {
        *(*wc).__bindgen_anon_1.wr_cqe == ptr::from_ref(&REQUEST.0).cast_mut()
            && (*wc).byte_len == 5
            && (*cq).cq_context == ptr::from_ref(&LIVE).cast_mut().cast()
    };
    if !own {
        CONSUMED.add(1_000_000, Relaxed);
    }
    if ECHO.load(Relaxed) > 0 {
        ECHO.add(-1, Relaxed);
        let _: i32 = WAITING.fetch_add(1, Full);
    }
}

unsafe extern "C" fn poll_cq(
    _cq: *mut bindings::ib_cq,
    wanted: c_int,
    wc: *mut bindings::ib_wc,
) -> c_int {
    if wanted > LARGEST.load(Relaxed) {
        LARGEST.store(wanted, Relaxed);
    }
    let given = wanted.min(WAITING.load(Acquire));
    for at in 0..given {
        let mut completion = bindings::ib_wc {
            byte_len: 5,
            ..Default::default()
        };
        completion.__bindgen_anon_1.wr_cqe =
            ManuallyDrop::new(ptr::from_ref(&REQUEST.0).cast_mut());
        // SAFETY: The array has room for the requested number.
        unsafe { wc.add(at as usize).write(completion) };
    }
    let _: i32 = WAITING.fetch_add(-given, Full);
    given
}

unsafe extern "C" fn req_notify_cq(
    _cq: *mut bindings::ib_cq,
    flags: bindings::ib_cq_notify_flags,
) -> c_int {
    ARMINGS.add(1, Relaxed);
    let late = LATE.load(Relaxed);
    LATE.store(0, Relaxed);
    let _: i32 = WAITING.fetch_add(late, Full);
    ARMED.store(1, Release);
    let report = bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
    c_int::from(flags & report != 0 && WAITING.load(Acquire) > 0)
}

fn made() -> c_int {
    LIVE.add(1, Relaxed);
    0
}

fn gone() -> c_int {
    LIVE.add(-1, Relaxed);
    0
}

type Udata = *mut bindings::ib_udata;

unsafe extern "C" fn create_cq(
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: The core's own.
    unsafe { (*cq).cqe = (*attr).cqe as c_int };
    made()
}

unsafe extern "C" fn destroy_cq(_cq: *mut bindings::ib_cq, _udata: Udata) -> c_int {
    gone()
}

unsafe extern "C" fn alloc_pd(_pd: *mut bindings::ib_pd, _udata: Udata) -> c_int {
    made()
}

unsafe extern "C" fn dealloc_pd(_pd: *mut bindings::ib_pd, _udata: Udata) -> c_int {
    gone()
}

unsafe extern "C" fn create_qp(
    _qp: *mut bindings::ib_qp,
    _attr: *mut bindings::ib_qp_init_attr,
    _udata: Udata,
) -> c_int {
    made()
}

unsafe extern "C" fn destroy_qp(_qp: *mut bindings::ib_qp, _udata: Udata) -> c_int {
    gone()
}

/// The driver's region, which counts pages.
#[repr(C)]
struct Mr {
    ib: bindings::ib_mr,
    pages: u32,
    max: u32,
}

unsafe extern "C" fn alloc_mr(
    _pd: *mut bindings::ib_pd,
    _kind: bindings::ib_mr_type,
    max: u32,
) -> *mut bindings::ib_mr {
    if MAX_MRS.load(Relaxed) <= 0 {
        return EBUSY.to_ptr();
    }
    MAX_MRS.add(-1, Relaxed);
    let ib = bindings::ib_mr {
        lkey: 0x1234_56fe,
        rkey: 0x1234_56fe,
        ..Default::default()
    };
    made();
    KBox::new(Mr { ib, pages: 0, max }, GFP_KERNEL)
        .map_or_else(|_| ENOMEM.to_ptr(), |mr| KBox::into_raw(mr).cast())
}

unsafe extern "C" fn get_dma_mr(_pd: *mut bindings::ib_pd, _access: c_int) -> *mut bindings::ib_mr {
    let ib = bindings::ib_mr {
        lkey: 42,
        ..Default::default()
    };
    made();
    let mr = Mr {
        ib,
        pages: 0,
        max: 0,
    };
    KBox::new(mr, GFP_KERNEL).map_or_else(|_| ENOMEM.to_ptr(), |mr| KBox::into_raw(mr).cast())
}

unsafe extern "C" fn dereg_mr(mr: *mut bindings::ib_mr, _udata: Udata) -> c_int {
    // SAFETY: Of the two above, and destroyed once.
    drop(unsafe { KBox::<Mr>::from_raw(mr.cast()) });
    gone()
}

unsafe extern "C" fn set_page(mr: *mut bindings::ib_mr, _page: u64) -> c_int {
    // SAFETY: All regions are of the driver's kind.
    let mr = unsafe { &mut *mr.cast::<Mr>() };
    if mr.pages == mr.max {
        return ENOMEM.to_errno();
    }
    mr.pages += 1;
    0
}

unsafe extern "C" fn map_mr_sg(
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: As above; the rest is the core's.
    unsafe {
        (*mr.cast::<Mr>()).pages = 0;
        bindings::ib_sg_to_pages(mr, sg, count, offset, Some(set_page))
    }
}

unsafe extern "C" fn query_device(
    _ib: *mut bindings::ib_device,
    attr: *mut bindings::ib_device_attr,
    _udata: Udata,
) -> c_int {
    // SAFETY: The core's own.
    unsafe {
        (*attr).max_cqe = 100;
        (*attr).max_qp_wr = 1000;
        (*attr).max_sge_rd = 3;
        (*attr).max_sgl_rd = MAX_SGL_RD.load(Relaxed);
        (*attr).max_fast_reg_page_list_len = 8;
    }
    0
}

/// A registered device, unregistered and freed when this is dropped.
struct Device(*mut bindings::ib_device);

impl Device {
    fn new() -> Result<Self> {
        let ops = bindings::ib_device_ops {
            alloc_pd: Some(alloc_pd),
            dealloc_pd: Some(dealloc_pd),
            get_dma_mr: Some(get_dma_mr),
            alloc_mr: Some(alloc_mr),
            map_mr_sg: Some(map_mr_sg),
            dereg_mr: Some(dereg_mr),
            create_cq: Some(create_cq),
            destroy_cq: Some(destroy_cq),
            poll_cq: Some(poll_cq),
            req_notify_cq: Some(req_notify_cq),
            create_qp: Some(create_qp),
            destroy_qp: Some(destroy_qp),
            query_device: Some(query_device),
            get_port_immutable: Some(fake_port::immutable),
            query_port: Some(fake_port::query_port),
            query_gid: Some(fake_port::query_gid),
            query_pkey: Some(fake_port::query_pkey),
            size_ib_pd: size_of::<bindings::ib_pd>(),
            size_ib_cq: size_of::<bindings::ib_cq>(),
            size_ib_qp: size_of::<bindings::ib_qp>(),
            ..Default::default()
        };
        // SAFETY: The device is ours, described before it is registered, and freed if it is not.
        unsafe {
            let ib = bindings::_ib_alloc_device(
                size_of::<bindings::ib_device>(),
                bindings::rdma_helper_init_net(),
            );
            if ib.is_null() {
                return Err(ENOMEM);
            }
            (*ib).phys_port_cnt = 1;
            (*ib).num_comp_vectors = 1;
            (*ib).node_type = bindings::RDMA_NODE_IB_CA as u8;
            bindings::ib_set_device_ops(ib, &ops);
            let name = c"kunitp%d".as_char_ptr();
            let code = bindings::ib_register_device(ib, name, ptr::null_mut());
            if let Err(error) = to_result(code) {
                bindings::ib_dealloc_device(ib);
                return Err(error);
            }
            Ok(Self(ib))
        }
    }

    fn cq(&self, context: bindings::ib_poll_context) -> Result<*mut bindings::ib_cq> {
        for count in [
            &WAITING, &LATE, &ARMED, &ARMINGS, &LARGEST, &CONSUMED, &ECHO,
        ] {
            count.store(0, Relaxed);
        }
        // SAFETY: The device is registered.
        from_err_ptr(unsafe {
            bindings::__ib_alloc_cq(
                self.0,
                ptr::from_ref(&LIVE).cast_mut().cast(),
                32,
                0,
                context,
                c"kunit".as_char_ptr(),
            )
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The device is ours, and freed once.
        unsafe {
            bindings::ib_unregister_device(self.0);
            bindings::ib_dealloc_device(self.0);
        }
    }
}

/// Delivers completions, with an event if one was requested.
fn deliver(cq: *mut bindings::ib_cq, count: i32) {
    let _: i32 = WAITING.fetch_add(count, Full);
    if ARMED.xchg(0, Full) == 1 {
        // SAFETY: The queue lives; this is what drivers do.
        unsafe {
            if let Some(handler) = (*cq).comp_handler {
                handler(cq, (*cq).cq_context);
            }
        }
    }
}

/// Waits until the consumer has received this many, for twenty seconds at most; then until the
/// queue is armed again.
fn consumed(count: i32) -> bool {
    for _ in 0..2_000 {
        if CONSUMED.load(Relaxed) >= count && ARMED.load(Acquire) == 1 {
            break;
        }
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(10));
    }
    CONSUMED.load(Relaxed) == count && WAITING.load(Acquire) == 0
}

/// Memory of single, non-adjacent pages, as a scatter list.
struct List {
    entries: KVec<bindings::scatterlist>,
    _pages: KVec<kernel::page::Page>,
}

impl List {
    /// Creates a list whose entries have `len` bytes.
    fn new(count: usize, len: u32) -> Result<Self> {
        let mut entries = KVec::new();
        let mut pages = KVec::new();
        for _ in 0..count {
            entries.push(bindings::scatterlist::default(), GFP_KERNEL)?;
        }
        // SAFETY: The list has as many entries, and each gets a page that is kept.
        unsafe {
            bindings::sg_init_table(entries.as_mut_ptr(), count as c_uint);
            for entry in entries.iter_mut() {
                // Mostly every other page of the allocator.
                let page = kernel::page::Page::alloc_page(GFP_KERNEL)?;
                // As in `sg_set_page`: the low bits mark the last entry.
                entry.page_link |= page.as_ptr() as kernel::ffi::c_ulong;
                entry.length = len;
                pages.push(page, GFP_KERNEL)?;
            }
        }
        Ok(Self {
            entries,
            _pages: pages,
        })
    }

    fn as_ptr(&mut self) -> *mut bindings::scatterlist {
        self.entries.as_mut_ptr()
    }
}

const TO: bindings::dma_data_direction = features::DMA_TO_DEVICE;
const FROM: bindings::dma_data_direction = features::DMA_FROM_DEVICE;

/// Summary of a chain of requests: the number of each kind, and the remote bytes from the first one
/// on.
#[derive(Default, PartialEq, Eq, Debug)]
struct Chain {
    invalidations: u32,
    registrations: u32,
    writes: u32,
    reads: u32,
    bytes: u64,
    /// Whether each request begins in the peer's memory at the end of the previous one, and only
    /// the last one completes.
    sound: bool,
}

/// Address of the peer's memory.
const REMOTE: u64 = 0x10_0000;

fn look(first: *mut bindings::ib_send_wr) -> Chain {
    let mut seen = Chain {
        sound: true,
        ..Default::default()
    };
    let mut at = first;
    // SAFETY: The core's own chain; transfers are requests of that kind.
    unsafe {
        while !at.is_null() {
            let wr = &*at;
            let last = wr.next.is_null();
            let signaled = wr.send_flags & bindings::ib_send_flags_IB_SEND_SIGNALED != 0;
            seen.sound &= signaled == last;
            match wr.opcode {
                bindings::ib_wr_opcode_IB_WR_LOCAL_INV => seen.invalidations += 1,
                bindings::ib_wr_opcode_IB_WR_REG_MR => seen.registrations += 1,
                opcode => {
                    if opcode == bindings::ib_wr_opcode_IB_WR_RDMA_WRITE {
                        seen.writes += 1;
                    } else {
                        seen.reads += 1;
                    }
                    let rdma = &*at.cast::<bindings::ib_rdma_wr>();
                    seen.sound &= rdma.remote_addr == REMOTE + seen.bytes && rdma.rkey == 99;
                    for piece in 0..wr.num_sge {
                        let sge = &*wr.sg_list.add(piece as usize);
                        seen.bytes += u64::from(sge.length);
                    }
                }
            }
            at = wr.next;
        }
    }
    seen
}

/// A queue pair for transfers, with its resources. Destroyed by [`Target::end`].
struct Target {
    device: Device,
    pd: *mut bindings::ib_pd,
    cq: *mut bindings::ib_cq,
    qp: *mut bindings::ib_qp,
    sends: u32,
}

impl Target {
    /// Creates a target for two transfers at once; reads of more pieces than `max_sgl_rd` use
    /// regions.
    fn new(max_sgl_rd: u32) -> Result<Self> {
        MAX_SGL_RD.store(max_sgl_rd, Relaxed);
        let device = Device::new()?;
        let cq = device.cq(bindings::ib_poll_context_IB_POLL_DIRECT)?;
        // SAFETY: All objects live.
        unsafe {
            let name = c"kunit".as_char_ptr();
            let pd = from_err_ptr(bindings::__ib_alloc_pd(device.0, 0, name))?;
            let mut attr = bindings::ib_qp_init_attr {
                send_cq: cq,
                recv_cq: cq,
                qp_type: bindings::ib_qp_type_IB_QPT_RC,
                port_num: 1,
                cap: bindings::ib_qp_cap {
                    max_send_wr: 10,
                    max_send_sge: 4,
                    max_rdma_ctxs: 2,
                    ..Default::default()
                },
                ..Default::default()
            };
            let qp = from_err_ptr(bindings::ib_create_qp_kernel(pd, &mut attr, name));
            match qp {
                Ok(qp) => Ok(Self {
                    device,
                    pd,
                    cq,
                    qp,
                    sends: attr.cap.max_send_wr,
                }),
                Err(error) => {
                    bindings::ib_dealloc_pd_user(pd, ptr::null_mut());
                    bindings::ib_free_cq(cq);
                    Err(error)
                }
            }
        }
    }

    /// Initialises a transfer of a list.
    fn init(
        &self,
        context: &mut bindings::rdma_rw_ctx,
        list: &mut List,
        count: u32,
        offset: u32,
        direction: bindings::dma_data_direction,
    ) -> c_int {
        // SAFETY: All live until the transfer is destroyed.
        unsafe {
            let sg = list.as_ptr();
            bindings::rdma_rw_ctx_init(
                context, self.qp, 1, sg, count, offset, REMOTE, 99, direction,
            )
        }
    }

    /// Returns its chain, as it would be posted.
    fn requests(&self, context: &mut bindings::rdma_rw_ctx) -> Chain {
        let cqe = ptr::from_ref(&REQUEST.0).cast_mut();
        // SAFETY: The transfer is initialised.
        look(unsafe { bindings::rdma_rw_ctx_wrs(context, self.qp, 1, cqe, ptr::null_mut()) })
    }

    fn destroy(
        &self,
        context: &mut bindings::rdma_rw_ctx,
        list: &mut List,
        count: u32,
        direction: bindings::dma_data_direction,
    ) {
        // SAFETY: The transfer is initialised, and was never posted.
        unsafe {
            bindings::rdma_rw_ctx_destroy(context, self.qp, 1, list.as_ptr(), count, direction);
        }
    }

    /// Destroys all. Returns whether nothing was in use, and nothing is left.
    fn end(self) -> bool {
        let none = ptr::null_mut();
        // SAFETY: The objects are not used any more.
        let clean = unsafe {
            let lent = (*self.qp).mrs_used;
            let qp = bindings::ib_destroy_qp_user(self.qp, none);
            let pd = bindings::ib_dealloc_pd_user(self.pd, none);
            bindings::ib_free_cq(self.cq);
            lent == 0 && qp == 0 && pd == 0
        };
        drop(self.device);
        clean && LIVE.load(Relaxed) == 0
    }
}

#[kunit_tests(core_polling)]
mod tests {
    use super::*;

    #[test]
    fn consumers_poll_themselves() -> Result {
        let device = Device::new()?;
        let cq = device.cq(bindings::ib_poll_context_IB_POLL_DIRECT)?;
        // SAFETY: The queue lives.
        unsafe {
            assert_eq!(ARMINGS.load(Relaxed), 0);
            WAITING.store(50, Release);
            assert_eq!(bindings::ib_process_cq_direct(cq, 5), 5);
            assert_eq!(bindings::ib_process_cq_direct(cq, 17), 17);
            assert_eq!((CONSUMED.load(Relaxed), WAITING.load(Acquire)), (22, 28));
            assert_eq!(bindings::ib_process_cq_direct(cq, -1), 28);
            assert_eq!(bindings::ib_process_cq_direct(cq, -1), 0);
            assert_eq!(bindings::ib_process_cq_direct(cq, 3), 0);
            assert_eq!(LARGEST.load(Relaxed), 8);
            assert_eq!(ARMINGS.load(Relaxed), 0);
            bindings::ib_free_cq(cq);
        }
        assert_eq!(LIVE.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn nothing_is_lost() -> Result {
        let device = Device::new()?;
        for context in [
            bindings::ib_poll_context_IB_POLL_SOFTIRQ,
            bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
        ] {
            let cq = device.cq(context)?;
            assert_eq!(ARMINGS.load(Relaxed), 1);
            deliver(cq, 1);
            assert!(consumed(1));
            // Whole batches, and more than the budget of a softirq.
            deliver(cq, 16);
            assert!(consumed(17));
            deliver(cq, 1000);
            assert!(consumed(1017));
            assert_eq!(LARGEST.load(Relaxed), 16);
            // Consumers whose requests complete at once.
            ECHO.store(700, Relaxed);
            deliver(cq, 1);
            assert!(consumed(1718));
            // Completions between the last poll and the arming, for which there is no event.
            LATE.store(40, Relaxed);
            deliver(cq, 3);
            assert!(consumed(1761));
            // SAFETY: The queue is not used any more.
            unsafe { bindings::ib_free_cq(cq) };
            assert_eq!(LIVE.load(Relaxed), 0);
        }
        Ok(())
    }

    #[test]
    fn queues_are_shared() -> Result {
        let device = Device::new()?;
        let context = bindings::ib_poll_context_IB_POLL_WORKQUEUE;
        // SAFETY: The device is registered; what is claimed is given back.
        unsafe {
            let get = |count| from_err_ptr(bindings::ib_cq_pool_get(device.0, count, -1, context));
            let (one, two) = (get(60)?, get(40)?);
            // The device's queues have a hundred entries.
            assert!(one == two && LIVE.load(Relaxed) == 1);
            let three = get(1)?;
            assert!(three != one && LIVE.load(Relaxed) == 2);
            // The shared queue has no single owner.
            let refused = EOPNOTSUPP_ERRNO;
            assert_eq!(bindings::rdma_set_cq_moderation(one, 1, 1), refused);
            bindings::ib_cq_pool_put(two, 40);
            // The newest one that has room.
            assert_eq!(get(90)?, three);
            assert_eq!(get(40)?, one);
            assert_eq!(get(9)?, three);
            for (cq, count) in [(one, 100), (three, 100)] {
                bindings::ib_cq_pool_put(cq, count);
            }
        }
        drop(device);
        assert_eq!(LIVE.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn transfers_piece_by_piece() -> Result {
        let target = Target::new(0)?;
        assert_eq!(target.sends, 12);
        let mut list = List::new(10, 4096)?;
        let mut context = bindings::rdma_rw_ctx::default();
        // Writes take four pieces each, reads three.
        assert_eq!(target.init(&mut context, &mut list, 10, 0, TO), 3);
        let want = Chain {
            writes: 3,
            bytes: 10 * 4096,
            sound: true,
            ..Default::default()
        };
        assert_eq!(target.requests(&mut context), want);
        target.destroy(&mut context, &mut list, 10, TO);

        assert_eq!(
            target.init(&mut context, &mut list, 10, 2 * 4096 + 96, FROM),
            3
        );
        let want = Chain {
            reads: 3,
            bytes: 8 * 4096 - 96,
            sound: true,
            ..Default::default()
        };
        assert_eq!(target.requests(&mut context), want);
        target.destroy(&mut context, &mut list, 10, FROM);

        assert_eq!(
            target.init(&mut context, &mut list, 10, 10 * 4096 - 1, TO),
            1
        );
        assert_eq!(target.requests(&mut context).bytes, 1);
        target.destroy(&mut context, &mut list, 10, TO);
        assert!(target.end());
        Ok(())
    }

    #[test]
    fn transfers_by_regions() -> Result {
        let target = Target::new(2)?;
        // Each with its registration and invalidation.
        assert_eq!(target.sends, 16);
        let mut list = List::new(10, 4096)?;
        let mut context = bindings::rdma_rw_ctx::default();
        for round in 0..3 {
            // A region has eight pages. The last returned region is lent first.
            let used = if round == 0 { 0 } else { 2 };
            let count = 4 + used as c_int;
            assert_eq!(target.init(&mut context, &mut list, 10, 96, FROM), count);
            let want = Chain {
                invalidations: used,
                registrations: 2,
                reads: 2,
                bytes: 10 * 4096 - 96,
                sound: true,
                ..Default::default()
            };
            assert_eq!(target.requests(&mut context), want);
            // All regions are in use, so the next transfer gets none.
            let mut other = bindings::rdma_rw_ctx::default();
            let mut more = List::new(10, 4096)?;
            assert_eq!(target.init(&mut other, &mut more, 10, 0, FROM), 4);
            assert_eq!(target.requests(&mut other).registrations, 0);
            target.destroy(&mut other, &mut more, 10, FROM);
            target.destroy(&mut context, &mut list, 10, FROM);
        }
        // Writes need no regions.
        assert_eq!(target.init(&mut context, &mut list, 10, 0, TO), 3);
        target.destroy(&mut context, &mut list, 10, TO);
        // Initialised and not posted: the regions are unchanged.
        assert_eq!(target.init(&mut context, &mut list, 3, 0, FROM), 3);
        target.destroy(&mut context, &mut list, 3, FROM);
        assert_eq!(target.init(&mut context, &mut list, 3, 0, FROM), 3);
        target.destroy(&mut context, &mut list, 3, FROM);
        // Half-page entries do not fit a region.
        let mut halves = List::new(4, 2048)?;
        let refused = EINVAL.to_errno();
        assert_eq!(target.init(&mut context, &mut halves, 4, 0, FROM), refused);
        assert!(target.end());
        Ok(())
    }

    #[test]
    fn transfers_of_vectors() -> Result {
        let target = Target::new(2)?;
        let mut list = List::new(10, 4096)?;
        let mut vector = KVec::new();
        for entry in &list.entries {
            let vec = bindings::bio_vec {
                bv_page: (entry.page_link & !3) as *mut bindings::page,
                bv_len: 4096,
                bv_offset: 0,
            };
            vector.push(vec, GFP_KERNEL)?;
        }
        let mut context = bindings::rdma_rw_ctx::default();
        for (count, bytes, done, requests) in
            [(10, 40_000, 0, 3), (10, 4_000, 0, 1), (1, 96, 4000, 1)]
        {
            let mut iter = bindings::bvec_iter::default();
            iter.bi_size = bytes;
            features::set_bvec_done(&mut iter, done);
            // SAFETY: All live until the transfer is destroyed.
            unsafe {
                let entries = vector.as_ptr();
                let made = bindings::rdma_rw_ctx_init_bvec(
                    &mut context,
                    target.qp,
                    1,
                    entries,
                    count,
                    iter,
                    REMOTE,
                    99,
                    TO,
                );
                assert!(made >= requests);
                let chain = target.requests(&mut context);
                assert!(chain.sound && chain.registrations == 0);
                assert_eq!((chain.bytes, chain.writes), (u64::from(bytes), made as u32));
                bindings::rdma_rw_ctx_destroy_bvec(&mut context, target.qp, 1, entries, count, TO);
            }
        }
        // SAFETY: As above.
        unsafe {
            let none = bindings::bvec_iter::default();
            let made = bindings::rdma_rw_ctx_init_bvec(
                &mut context,
                target.qp,
                1,
                vector.as_ptr(),
                10,
                none,
                REMOTE,
                99,
                TO,
            );
            assert_eq!(made, EINVAL.to_errno());
        }
        let _: *mut bindings::scatterlist = list.as_ptr();
        assert!(target.end());
        Ok(())
    }

    #[test]
    fn no_queue_pair_without_its_regions() -> Result {
        MAX_MRS.store(1, Relaxed);
        let refused = Target::new(2);
        MAX_MRS.store(i32::MAX, Relaxed);
        assert!(matches!(refused, Err(error) if error == EBUSY));
        assert_eq!(LIVE.load(Relaxed), 0);
        assert!(Target::new(2)?.end());
        Ok(())
    }
}

/// `-EOPNOTSUPP`.
const EOPNOTSUPP_ERRNO: c_int = -95;
