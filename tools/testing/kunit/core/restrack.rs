// SPDX-License-Identifier: GPL-2.0

//! Resource tracking of the loaded core, ours or the C one: IDs, visibility, and removal.

use core::ptr;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;

// Declared in a header that the core's modules share, and exported.
#[allow(improper_ctypes, reason = "the kernel's own structures")]
extern "C" {
    fn rdma_restrack_new(res: *mut bindings::rdma_restrack_entry, kind: c_uint);
    fn rdma_restrack_add(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_del(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_begin_del(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_abort_del(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_commit_del(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_sync(res: *mut bindings::rdma_restrack_entry);
    fn rdma_restrack_set_name(
        res: *mut bindings::rdma_restrack_entry,
        caller: *const kernel::ffi::c_char,
    );
}

const PD: c_uint = bindings::rdma_restrack_type_RDMA_RESTRACK_PD;
const QP: c_uint = bindings::rdma_restrack_type_RDMA_RESTRACK_QP;

/// A device that is never registered; it has resource tables all the same.
struct Device(*mut bindings::ib_device);

impl Device {
    fn new() -> Result<Self> {
        // SAFETY: The size is that of a device without driver data.
        let device = unsafe {
            bindings::_ib_alloc_device(
                size_of::<bindings::ib_device>(),
                bindings::rdma_helper_init_net(),
            )
        };
        (!device.is_null()).then(|| Self(device)).ok_or(ENOMEM)
    }

    fn count(&self, kind: c_uint, details: bool) -> i32 {
        // SAFETY: The device is there.
        unsafe { bindings::rdma_restrack_count(self.0, kind, details) }
    }

    /// Returns whether an ID belongs to this entry.
    fn finds(&self, kind: c_uint, id: u32, res: *mut bindings::rdma_restrack_entry) -> bool {
        // SAFETY: The device is there; what is found is let go.
        unsafe {
            let found = bindings::rdma_restrack_get_byid(self.0, kind, id);
            if found == ENOENT.to_ptr() {
                return false;
            }
            bindings::rdma_restrack_put(found);
            found == res
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The device is ours, and its tables are empty.
        unsafe { bindings::ib_dealloc_device(self.0) };
    }
}

fn pd(device: &Device) -> Result<KBox<bindings::ib_pd>> {
    let mut pd = KBox::new(bindings::ib_pd::default(), GFP_KERNEL)?;
    pd.device = device.0;
    // SAFETY: The entry is a part of such an object, which does not move.
    unsafe { rdma_restrack_new(&mut pd.res, PD) };
    Ok(pd)
}

fn qp(device: &Device, number: u32, kind: c_uint) -> Result<KBox<bindings::ib_qp>> {
    let mut qp = KBox::new(bindings::ib_qp::default(), GFP_KERNEL)?;
    qp.device = device.0;
    qp.qp_num = number;
    qp.qp_type = kind;
    // SAFETY: As above.
    unsafe { rdma_restrack_new(&mut qp.res, QP) };
    Ok(qp)
}

#[kunit_tests(rdma_core_restrack)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_on_in_turn() {
        let device = Device::new().unwrap();
        let mut all = [(); 3].map(|()| pd(&device).unwrap());
        // SAFETY: The objects are valid, and removed before they are freed.
        unsafe {
            for (id, pd) in (0..).zip(&mut all) {
                rdma_restrack_add(&mut pd.res);
                assert_eq!(pd.res.id, id);
                assert!(device.finds(PD, id, &mut pd.res));
            }
            assert_eq!(device.count(PD, false), 3);
            rdma_restrack_del(&mut all[1].res);
            assert!(!device.finds(PD, 1, &mut all[1].res));
            // The free ID is not the next one.
            let mut next = pd(&device).unwrap();
            rdma_restrack_add(&mut next.res);
            assert_eq!(next.res.id, 3);
            let [first, _, third] = &mut all;
            for res in [&mut first.res, &mut third.res, &mut next.res] {
                rdma_restrack_del(res);
            }
        }
        assert_eq!(device.count(PD, true), 0);
    }

    #[test]
    fn a_number_is_there_again_when_its_object_has_gone() {
        let device = Device::new().unwrap();
        let kind = bindings::ib_qp_type_IB_QPT_RC;
        // SAFETY: The objects are valid, and removed before they are freed.
        unsafe {
            for number in [17, 17, 18, 17, 5000, 17, 5000] {
                let mut rc = qp(&device, number, kind).unwrap();
                let res: *mut _ = &mut rc.res;
                rdma_restrack_add(res);
                assert!((*res).valid);
                assert!(device.finds(QP, number, res));
                assert_eq!(device.count(QP, true), 1);
                if number == 17 {
                    rdma_restrack_begin_del(res);
                    rdma_restrack_commit_del(res);
                } else {
                    rdma_restrack_del(res);
                }
                assert!(!device.finds(QP, number, res));
                assert_eq!(device.count(QP, true), 0);
                assert_eq!(device.count(QP, false), 0);
            }
        }
    }

    #[test]
    fn a_destruction_that_fails_had_not_been() {
        let device = Device::new().unwrap();
        let mut pd = pd(&device).unwrap();
        let res: *mut _ = &mut pd.res;
        // SAFETY: The object is valid, and removed before it is freed.
        unsafe {
            rdma_restrack_add(res);
            rdma_restrack_begin_del(res);
            assert!(!device.finds(PD, 0, res));
            assert_eq!(device.count(PD, true), 0);
            assert_eq!(bindings::rdma_restrack_get(res), 0);
            rdma_restrack_abort_del(res);
            assert!(device.finds(PD, 0, res));
            rdma_restrack_sync(res);
            assert!(device.finds(PD, 0, res));
            rdma_restrack_begin_del(res);
            rdma_restrack_commit_del(res);
            assert!(!(*res).valid);
            // A removed object is not removed again.
            rdma_restrack_del(res);
        }
        assert_eq!(device.count(PD, true), 0);
    }

    #[test]
    fn queue_pairs_have_their_numbers() {
        let device = Device::new().unwrap();
        let mut rc = qp(&device, 17, bindings::ib_qp_type_IB_QPT_RC).unwrap();
        let mut again = qp(&device, 17, bindings::ib_qp_type_IB_QPT_UD).unwrap();
        let mut gsi = qp(&device, 1, bindings::ib_qp_type_IB_QPT_GSI).unwrap();
        gsi.port = 2;
        // SAFETY: The objects are valid, and removed before they are freed.
        unsafe {
            rdma_restrack_add(&mut rc.res);
            rdma_restrack_add(&mut gsi.res);
            assert_eq!((rc.res.id, gsi.res.id), (17, 1 | 2 << 24));
            // An object whose number is in use is not tracked, even while the owner of the number
            // is being removed.
            rdma_restrack_add(&mut again.res);
            assert!(!again.res.valid);
            rdma_restrack_begin_del(&mut rc.res);
            rdma_restrack_add(&mut again.res);
            assert!(!again.res.valid);
            rdma_restrack_commit_del(&mut rc.res);
            rdma_restrack_add(&mut again.res);
            assert!(again.res.valid && device.finds(QP, 17, &mut again.res));
            rdma_restrack_del(&mut again.res);
            rdma_restrack_del(&mut gsi.res);
        }
    }

    #[test]
    fn hidden_objects_are_not_counted() {
        let device = Device::new().unwrap();
        let mut own = qp(&device, 20, bindings::ib_qp_type_IB_QPT_DRIVER).unwrap();
        let mut hidden = pd(&device).unwrap();
        hidden.res.set_no_track(1);
        // SAFETY: The objects are valid, and removed before they are freed.
        unsafe {
            rdma_restrack_add(&mut own.res);
            assert_eq!((device.count(QP, false), device.count(QP, true)), (0, 1));
            rdma_restrack_del(&mut own.res);
            rdma_restrack_add(&mut hidden.res);
            assert!(hidden.res.valid);
            assert_eq!(device.count(PD, true), 0);
            rdma_restrack_begin_del(&mut hidden.res);
            rdma_restrack_abort_del(&mut hidden.res);
            rdma_restrack_del(&mut hidden.res);
            assert!(!hidden.res.valid);
        }
    }

    #[test]
    fn owners_are_kept_and_let_go() {
        let device = Device::new().unwrap();
        // SAFETY: The current task is valid, and its count is an aligned word.
        let counts = || unsafe { (*bindings::get_current()).usage.refs.counter };
        let before = counts();
        let mut pd = pd(&device).unwrap();
        let res: *mut _ = &mut pd.res;
        // SAFETY: The object is valid, and removed before it is freed.
        unsafe {
            rdma_restrack_set_name(res, c"kunit".as_ptr().cast());
            assert!(!(*res).user && !(*res).kern_name.is_null());
            rdma_restrack_set_name(res, ptr::null());
            assert!((*res).user && (*res).task == bindings::get_current());
            rdma_restrack_add(res);
            // Belongs to another task, while it is visible.
            rdma_restrack_set_name(res, ptr::null());
            rdma_restrack_del(res);
            assert!((*res).task.is_null());
        }
        // An object that was never added releases its task with its last reference.
        let mut unborn = super::pd(&device).unwrap();
        let res: *mut _ = &mut unborn.res;
        // SAFETY: As above.
        unsafe {
            rdma_restrack_set_name(res, ptr::null());
            assert_eq!(counts(), before + 1);
            assert_eq!(bindings::rdma_restrack_put(res), 1);
            assert!((*res).task.is_null());
        }
        assert_eq!(counts(), before);
    }
}
