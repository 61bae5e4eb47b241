// SPDX-License-Identifier: GPL-2.0

//! Objects of the loaded core, whichever that is, with a driver that counts what there is and
//! fails where it is told to.

use crate::fake_port;
use core::ptr;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;

/// How many objects the driver has.
static LIVE: Atomic<i32> = Atomic::<i32>::new(0);
/// Which method fails next, with `EIO`, by the number that it gives to [`made`] or [`gone`].
static FAILS: Atomic<u32> = Atomic::<u32>::new(0);
/// How many events consumers heard.
static EVENTS: Atomic<i32> = Atomic::<i32>::new(0);

const PD: u32 = 1;
const DMA_MR: u32 = 2;
const CQ: u32 = 3;
const SRQ: u32 = 4;
const QP: u32 = 5;
const AH: u32 = 6;
const MR: u32 = 7;
const XRCD: u32 = 8;
const MODIFY: u32 = 9;
/// Added for the method that destroys.
const GONE: u32 = 100;

fn fails(what: u32) -> bool {
    if FAILS.load(Relaxed) != what {
        return false;
    }
    FAILS.store(0, Relaxed);
    true
}

fn made(what: u32) -> c_int {
    if fails(what) {
        return EIO.to_errno();
    }
    LIVE.add(1, Relaxed);
    0
}

fn gone(what: u32) -> c_int {
    if fails(what + GONE) {
        return EIO.to_errno();
    }
    LIVE.add(-1, Relaxed);
    0
}

fn live() -> i32 {
    LIVE.load(Relaxed)
}

/// Methods that make or destroy an object, which is their first argument, and nothing else.
macro_rules! methods {
    ($($name:ident($($arg:ty),*) = $does:expr;)*) => { $(
        unsafe extern "C" fn $name($(_: $arg),*) -> c_int {
            $does
        }
    )* };
}

type Udata = *mut bindings::ib_udata;

methods! {
    alloc_pd(*mut bindings::ib_pd, Udata) = made(PD);
    dealloc_pd(*mut bindings::ib_pd, Udata) = gone(PD);
    create_cq(*mut bindings::ib_cq, *const bindings::ib_cq_init_attr, *mut bindings::uverbs_attr_bundle) = made(CQ);
    destroy_cq(*mut bindings::ib_cq, Udata) = gone(CQ);
    create_srq(*mut bindings::ib_srq, *mut bindings::ib_srq_init_attr, Udata) = made(SRQ);
    destroy_srq(*mut bindings::ib_srq, Udata) = gone(SRQ);
    modify_qp(*mut bindings::ib_qp, *mut bindings::ib_qp_attr, c_int, Udata) =
        if fails(MODIFY) { EIO.to_errno() } else { 0 };
    destroy_qp(*mut bindings::ib_qp, Udata) = gone(QP);
    create_ah(*mut bindings::ib_ah, *mut bindings::rdma_ah_init_attr, Udata) = made(AH);
    destroy_ah(*mut bindings::ib_ah, u32) = gone(AH);
    alloc_xrcd(*mut bindings::ib_xrcd, Udata) = made(XRCD);
    dealloc_xrcd(*mut bindings::ib_xrcd, Udata) = gone(XRCD);
    query_device(*mut bindings::ib_device, *mut bindings::ib_device_attr, Udata) = 0;
}

unsafe extern "C" fn create_qp(
    qp: *mut bindings::ib_qp,
    _attr: *mut bindings::ib_qp_init_attr,
    _udata: Udata,
) -> c_int {
    // SAFETY: The core's new object.
    unsafe { (*qp).qp_num = 77 };
    made(QP)
}

fn new_mr(what: u32) -> *mut bindings::ib_mr {
    let code = made(what);
    if code != 0 {
        return Error::from_errno(code).to_ptr();
    }
    let mr = bindings::ib_mr {
        lkey: 42,
        rkey: 43,
        ..Default::default()
    };
    KBox::new(mr, GFP_KERNEL).map_or_else(|_| ENOMEM.to_ptr(), KBox::into_raw)
}

unsafe extern "C" fn get_dma_mr(_pd: *mut bindings::ib_pd, _access: c_int) -> *mut bindings::ib_mr {
    new_mr(DMA_MR)
}

unsafe extern "C" fn alloc_mr(
    _pd: *mut bindings::ib_pd,
    _kind: bindings::ib_mr_type,
    _max_sg: u32,
) -> *mut bindings::ib_mr {
    new_mr(MR)
}

unsafe extern "C" fn dereg_mr(mr: *mut bindings::ib_mr, _udata: Udata) -> c_int {
    let code = gone(MR);
    if code == 0 {
        // SAFETY: Of `new_mr`, and destroyed once.
        drop(unsafe { KBox::from_raw(mr) });
    }
    code
}

unsafe extern "C" fn on_event(event: *mut bindings::ib_event, context: *mut c_void) {
    // Each consumer is told of its own queue pair.
    // SAFETY: A consumer is called with an event of a queue pair that lives.
    let own = unsafe { (**(*event).element.qp).qp_context == context };
    EVENTS.add(if own { 1 } else { 100 }, Relaxed);
}

#[allow(improper_ctypes, reason = "structures of C, by pointer")]
extern "C" {
    /// As `drivers/infiniband/core/core_priv.h` declares it.
    fn ib_create_qp_user(
        device: *mut bindings::ib_device,
        pd: *mut bindings::ib_pd,
        attr: *mut bindings::ib_qp_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
        uobject: *mut c_void,
        caller: *const c_char,
    ) -> *mut bindings::ib_qp;
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
            dereg_mr: Some(dereg_mr),
            create_cq: Some(create_cq),
            destroy_cq: Some(destroy_cq),
            create_srq: Some(create_srq),
            destroy_srq: Some(destroy_srq),
            create_qp: Some(create_qp),
            modify_qp: Some(modify_qp),
            destroy_qp: Some(destroy_qp),
            create_ah: Some(create_ah),
            destroy_ah: Some(destroy_ah),
            alloc_xrcd: Some(alloc_xrcd),
            dealloc_xrcd: Some(dealloc_xrcd),
            query_device: Some(query_device),
            get_port_immutable: Some(fake_port::immutable),
            query_port: Some(fake_port::query_port),
            query_gid: Some(fake_port::query_gid),
            query_pkey: Some(fake_port::query_pkey),
            size_ib_pd: size_of::<bindings::ib_pd>(),
            size_ib_cq: size_of::<bindings::ib_cq>(),
            size_ib_srq: size_of::<bindings::ib_srq>(),
            size_ib_qp: size_of::<bindings::ib_qp>(),
            size_ib_ah: size_of::<bindings::ib_ah>(),
            size_ib_xrcd: size_of::<bindings::ib_xrcd>(),
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
            (*ib).node_type = bindings::RDMA_NODE_IB_CA as u8;
            bindings::ib_set_device_ops(ib, &ops);
            let name = c"kunitv%d".as_char_ptr();
            let code = bindings::ib_register_device(ib, name, ptr::null_mut());
            if let Err(error) = to_result(code) {
                bindings::ib_dealloc_device(ib);
                return Err(error);
            }
            Ok(Self(ib))
        }
    }

    fn pd(&self) -> Result<*mut bindings::ib_pd> {
        // SAFETY: The device is registered.
        from_err_ptr(unsafe { bindings::__ib_alloc_pd(self.0, 0, c"kunit".as_char_ptr()) })
    }

    fn cq(&self) -> Result<*mut bindings::ib_cq> {
        let attr = bindings::ib_cq_init_attr {
            cqe: 4,
            ..Default::default()
        };
        // SAFETY: As above.
        from_err_ptr(unsafe {
            bindings::__ib_create_cq(
                self.0,
                None,
                None,
                ptr::null_mut(),
                &attr,
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

/// Makes `make` fail at the driver's method `what`: with `EIO`, and nothing is left.
fn refused<T>(what: u32, make: impl FnOnce() -> Result<*mut T>) -> bool {
    let before = live();
    FAILS.store(what, Relaxed);
    let refused = make() == Err(EIO);
    refused && live() == before && FAILS.load(Relaxed) == 0
}

/// How many objects use the one that this is the count of.
fn uses(count: *const bindings::atomic_t) -> i32 {
    // SAFETY: Of an object that lives.
    unsafe { bindings::atomic_read(count) }
}

fn qp_attr(cq: *mut bindings::ib_cq) -> bindings::ib_qp_init_attr {
    bindings::ib_qp_init_attr {
        send_cq: cq,
        recv_cq: cq,
        qp_type: bindings::ib_qp_type_IB_QPT_RC,
        cap: bindings::ib_qp_cap {
            max_send_sge: 3,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn kernel_qp(
    pd: *mut bindings::ib_pd,
    attr: &mut bindings::ib_qp_init_attr,
) -> Result<*mut bindings::ib_qp> {
    // SAFETY: All that the attributes name lives.
    from_err_ptr(unsafe { bindings::ib_create_qp_kernel(pd, attr, c"kunit".as_char_ptr()) })
}

fn shared_qp(
    device: &Device,
    xrcd: *mut bindings::ib_xrcd,
    context: *mut c_void,
) -> Result<*mut bindings::ib_qp> {
    let mut attr = bindings::ib_qp_init_attr {
        xrcd,
        qp_type: bindings::ib_qp_type_IB_QPT_XRC_TGT,
        event_handler: Some(on_event),
        qp_context: context,
        ..Default::default()
    };
    // SAFETY: Device and domain live.
    from_err_ptr(unsafe {
        ib_create_qp_user(
            device.0,
            ptr::null_mut(),
            &mut attr,
            ptr::null_mut(),
            ptr::null_mut(),
            c"kunit".as_char_ptr(),
        )
    })
}

/// An address vector to somewhere, from the GID of this index.
fn vector(index: u8) -> bindings::rdma_ah_attr {
    let mut attr = bindings::rdma_ah_attr {
        port_num: 1,
        ah_flags: bindings::ib_ah_flags_IB_AH_GRH as u8,
        type_: bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB,
        ..Default::default()
    };
    attr.grh.sgid_index = index;
    attr
}

#[kunit_tests(core_verbs)]
mod tests {
    use super::*;

    #[test]
    fn domains() -> Result {
        let device = Device::new()?;
        assert!(refused(PD, || device.pd()));
        assert!(refused(DMA_MR, || device.pd()));
        let pd = device.pd()?;
        // The driver has no key for all local memory, so a region gives one.
        // SAFETY: The domain lives.
        unsafe {
            assert_eq!((*pd).local_dma_lkey, 42);
            assert_eq!(live(), 2);
            // A driver that refuses keeps it.
            FAILS.store(PD + GONE, Relaxed);
            assert_eq!(
                bindings::ib_dealloc_pd_user(pd, ptr::null_mut()),
                EIO.to_errno()
            );
            assert_eq!(bindings::ib_dealloc_pd_user(pd, ptr::null_mut()), 0);
        }
        assert_eq!(live(), 0);
        Ok(())
    }

    #[test]
    fn objects_in_use_are_not_destroyed() -> Result {
        let device = Device::new()?;
        let none = ptr::null_mut();
        assert!(refused(CQ, || device.cq()));
        let (pd, cq) = (device.pd()?, device.cq()?);
        // SAFETY: All objects live until they are destroyed, in the right order.
        unsafe {
            let (pd_uses, cq_uses) = (&raw const (*pd).usecnt, &raw const (*cq).usecnt);
            let mut init = bindings::ib_srq_init_attr::default();
            let mut srq = || {
                from_err_ptr(bindings::ib_create_srq_user(
                    pd,
                    &mut init,
                    ptr::null_mut(),
                    none,
                ))
            };
            assert!(refused(SRQ, &mut srq));
            assert_eq!(uses(pd_uses), 0);
            let srq = srq()?;
            let mut attr = qp_attr(cq);
            attr.srq = srq;
            assert!(refused(QP, || kernel_qp(pd, &mut attr)));
            assert_eq!((uses(pd_uses), uses(cq_uses)), (1, 0));
            let qp = kernel_qp(pd, &mut attr)?;
            assert_eq!((uses(pd_uses), uses(cq_uses)), (2, 2));
            assert_eq!((*qp).max_write_sge, 3);
            assert_eq!(bindings::ib_destroy_cq_user(cq, none), EBUSY.to_errno());
            assert_eq!(bindings::ib_destroy_srq_user(srq, none), EBUSY.to_errno());
            FAILS.store(QP + GONE, Relaxed);
            assert_eq!(bindings::ib_destroy_qp_user(qp, none), EIO.to_errno());
            assert_eq!((uses(pd_uses), uses(cq_uses)), (2, 2));
            assert_eq!(bindings::ib_destroy_qp_user(qp, none), 0);
            assert_eq!(bindings::ib_destroy_srq_user(srq, none), 0);
            assert_eq!(bindings::ib_destroy_cq_user(cq, none), 0);

            let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
            let mr = || from_err_ptr(bindings::ib_alloc_mr(pd, kind, 4));
            assert!(refused(MR, mr));
            let mr = mr()?;
            assert_eq!(uses(pd_uses), 1);
            assert_eq!(bindings::ib_dereg_mr_user(mr, none), 0);
            assert_eq!(uses(pd_uses), 0);
            assert_eq!(bindings::ib_dealloc_pd_user(pd, none), 0);
        }
        assert_eq!(live(), 0);
        Ok(())
    }

    #[test]
    fn paths_hold_their_gid() -> Result {
        let device = Device::new()?;
        let none = ptr::null_mut();
        let (pd, cq) = (device.pd()?, device.cq()?);
        // SAFETY: As above.
        unsafe {
            let ah = |index| {
                let mut attr = vector(index);
                let ah = from_err_ptr(bindings::rdma_create_ah(pd, &mut attr, 1));
                // What was filled in for the driver is taken out again.
                assert!(attr.grh.sgid_attr.is_null());
                ah
            };
            assert!(refused(AH, || ah(0)));
            assert!(ah(1).is_err());
            let ah = ah(0)?;
            assert!(!(*ah).sgid_attr.is_null());
            assert_eq!(uses(&raw const (*pd).usecnt), 1);
            FAILS.store(AH + GONE, Relaxed);
            assert_eq!(bindings::rdma_destroy_ah_user(ah, 1, none), EIO.to_errno());
            assert!(!(*ah).sgid_attr.is_null());
            assert_eq!(bindings::rdma_destroy_ah_user(ah, 1, none), 0);

            let qp = kernel_qp(pd, &mut qp_attr(cq))?;
            let mask = bindings::ib_qp_attr_mask_IB_QP_AV as c_int;
            let modify = |index| {
                let mut attr = bindings::ib_qp_attr {
                    ah_attr: vector(index),
                    ..Default::default()
                };
                bindings::ib_modify_qp(qp, &mut attr, mask)
            };
            FAILS.store(MODIFY, Relaxed);
            assert_eq!(modify(0), EIO.to_errno());
            assert!((*qp).av_sgid_attr.is_null());
            assert_eq!(modify(0), 0);
            assert!(!(*qp).av_sgid_attr.is_null());
            assert_eq!(modify(0), 0);
            assert_ne!(modify(1), 0);
            assert!(!(*qp).av_sgid_attr.is_null());
            assert_eq!(bindings::ib_destroy_qp_user(qp, none), 0);
            assert_eq!(bindings::ib_destroy_cq_user(cq, none), 0);
            assert_eq!(bindings::ib_dealloc_pd_user(pd, none), 0);
        }
        assert_eq!(live(), 0);
        // A GID that is still held would be complained of when the device goes.
        Ok(())
    }

    #[test]
    fn several_open_one_queue_pair() -> Result {
        let device = Device::new()?;
        let none = ptr::null_mut();
        // SAFETY: As above.
        unsafe {
            let xrcd = || {
                from_err_ptr(bindings::ib_alloc_xrcd_user(
                    device.0,
                    ptr::null_mut(),
                    none,
                ))
            };
            assert!(refused(XRCD, xrcd));
            let xrcd = xrcd()?;
            let count = &raw const (*xrcd).usecnt;
            let first = ptr::from_ref(&LIVE).cast_mut().cast();
            let second = ptr::from_ref(&FAILS).cast_mut().cast();
            assert!(refused(QP, || shared_qp(&device, xrcd, first)));
            assert_eq!(uses(count), 0);
            let one = shared_qp(&device, xrcd, first)?;
            assert_eq!(uses(count), 1);
            let mut attr = bindings::ib_qp_open_attr {
                event_handler: Some(on_event),
                qp_context: second,
                qp_num: 78,
                qp_type: bindings::ib_qp_type_IB_QPT_XRC_TGT,
            };
            let missing = from_err_ptr(bindings::ib_open_qp(xrcd, &mut attr));
            assert_eq!(missing, Err(EINVAL));
            attr.qp_num = 77;
            let two = from_err_ptr(bindings::ib_open_qp(xrcd, &mut attr))?;
            let real = (*one).real_qp;
            assert!(real != one && real == (*two).real_qp);

            let mut event = bindings::ib_event {
                event: bindings::ib_event_type_IB_EVENT_COMM_EST,
                ..Default::default()
            };
            event.element.qp = core::mem::ManuallyDrop::new(real);
            EVENTS.store(0, Relaxed);
            if let Some(handler) = (*real).event_handler {
                handler(&mut event, (*real).qp_context);
            }
            assert_eq!(EVENTS.load(Relaxed), 2);

            assert_eq!(bindings::ib_dealloc_xrcd_user(xrcd, none), EBUSY.to_errno());
            assert_eq!(bindings::ib_destroy_qp_user(real, none), EBUSY.to_errno());
            assert_eq!(bindings::ib_destroy_qp_user(one, none), 0);
            assert_eq!(live(), 2);
            assert_eq!(bindings::ib_destroy_qp_user(two, none), 0);
            assert_eq!((live(), uses(count)), (1, 0));
            assert_eq!(bindings::ib_dealloc_xrcd_user(xrcd, none), 0);
        }
        assert_eq!(live(), 0);
        Ok(())
    }
}
