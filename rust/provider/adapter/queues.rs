// SPDX-License-Identifier: GPL-2.0

//! Callbacks for completion queues, queue pairs and shared receive queues.
//!
//! The names in parentheses in SAFETY comments are those of the parent's header.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::create;
use super::Adapter;
use crate::bindings::*;
use crate::provider::attr::*;
use crate::provider::object::*;
use crate::provider::wc::WcSlots;
use crate::provider::wr::RecvWrs;
use crate::provider::wr::SendWrs;
use crate::provider::Provider;
use crate::udata::Udata;
use kernel::error::code::EINVAL;
use kernel::error::from_result;

#[expect(
    clippy::missing_safety_doc,
    reason = "the parent's header has the contract of callbacks"
)]
impl<P: Provider> Adapter<P> {
    pub(super) unsafe extern "C" fn create_cq(
        c: *mut ib_cq,
        attr: *const ib_cq_init_attr,
        attrs: *mut uverbs_attr_bundle,
    ) -> i32 {
        // SAFETY: (args); the driver's data is the first field of the bundle, if there is one.
        let (attr, mut udata) = unsafe { (&*attr.cast::<CqAttr>(), Udata::from_raw(attrs.cast())) };
        create!(new: Cq<P> = c, P::create_cq(&new, attr, &mut udata))
    }

    pub(super) unsafe extern "C" fn resize_user_cq(
        c: *mut ib_cq,
        entries: u32,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (live), (args)
        let (cq, mut udata) = unsafe { (Cq::from_raw(c), Udata::from_raw(udata)) };
        from_result(|| P::resize_cq(cq, entries, &mut udata).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn destroy_cq(c: *mut ib_cq, udata: *mut ib_udata) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (cq, mut udata) = unsafe { (Cq::<P>::from_raw(c), Udata::from_raw(udata)) };
            P::destroy_cq(cq, &mut udata)?;
            // SAFETY: (live)
            unsafe { end::<Cq<P>>(c) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn poll_cq(c: *mut ib_cq, n: i32, wc: *mut ib_wc) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (cq, mut slots) = unsafe { (Cq::from_raw(c), WcSlots::from_raw(wc, n)) };
            P::poll_cq(cq, &mut slots)?;
            i32::try_from(slots.written()).map_err(|_| EINVAL)
        })
    }

    pub(super) unsafe extern "C" fn peek_cq(c: *mut ib_cq, max: i32) -> i32 {
        from_result(|| {
            let max = u32::try_from(max).map_err(|_| EINVAL)?;
            // SAFETY: (live)
            let n = P::peek_cq(unsafe { Cq::from_raw(c) }, max)?;
            i32::try_from(n).map_err(|_| EINVAL)
        })
    }

    pub(super) unsafe extern "C" fn req_notify_cq(c: *mut ib_cq, flags: ib_cq_notify_flags) -> i32 {
        // SAFETY: (live)
        let cq = unsafe { Cq::from_raw(c) };
        let flags = NotifyFlags::from_raw(flags);
        from_result(|| {
            let missed = P::req_notify_cq(cq, flags)?;
            // Report missed events only if requested.
            Ok((missed && flags.intersects(NotifyFlags::REPORT_MISSED_EVENTS)).into())
        })
    }

    pub(super) unsafe extern "C" fn alloc_xrcd(c: *mut ib_xrcd, udata: *mut ib_udata) -> i32 {
        // SAFETY: (args)
        let mut udata = unsafe { Udata::from_raw(udata) };
        create!(new: Xrcd<P> = c, P::alloc_xrcd(&new, &mut udata))
    }

    pub(super) unsafe extern "C" fn dealloc_xrcd(c: *mut ib_xrcd, udata: *mut ib_udata) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (xrcd, mut udata) = unsafe { (Xrcd::<P>::from_raw(c), Udata::from_raw(udata)) };
            P::dealloc_xrcd(xrcd, &mut udata)?;
            // SAFETY: (live)
            unsafe { end::<Xrcd<P>>(c) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn create_qp(
        c: *mut ib_qp,
        attr: *mut ib_qp_init_attr,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (args), (live) for the queues in the attributes.
        let (attr, mut udata) =
            unsafe { (&mut *attr.cast::<QpInitAttr<P>>(), Udata::from_raw(udata)) };
        create!(new: Qp<P> = c, P::create_qp(&mut new, attr, &mut udata))
    }

    pub(super) unsafe extern "C" fn modify_qp(
        c: *mut ib_qp,
        attr: *mut ib_qp_attr,
        mask: i32,
        udata: *mut ib_udata,
    ) -> i32 {
        // CAST: Flags, whose sign has no meaning.
        let mask = QpAttrMask::from_raw(mask as u32);
        // SAFETY: (live), (args); the core has resolved the paths that the mask names.
        let (qp, attr, mut udata) = unsafe {
            (
                Qp::from_raw(c),
                QpChange::new(&*attr.cast::<QpAttr>(), mask),
                Udata::from_raw(udata),
            )
        };
        from_result(|| P::modify_qp(qp, attr, mask, &mut udata).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn query_qp(
        c: *mut ib_qp,
        attr: *mut ib_qp_attr,
        mask: i32,
        init: *mut ib_qp_init_attr,
    ) -> i32 {
        // SAFETY: (live), (args); null pointers are valid in attributes. Callers do not initialise
        // these records, so all fields are set here.
        let (qp, attr, init) = unsafe {
            attr.write(ib_qp_attr::default());
            init.write(ib_qp_init_attr::default());
            (
                Qp::from_raw(c),
                &mut *attr.cast::<QpAttr>(),
                &mut *init.cast::<QpInitAttr<P>>(),
            )
        };
        init.fill_from(qp);
        // CAST: Flags, whose sign has no meaning.
        let mask = QpAttrMask::from_raw(mask as u32);
        from_result(|| P::query_qp(qp, attr, mask, init).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn destroy_qp(c: *mut ib_qp, udata: *mut ib_udata) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (qp, mut udata) = unsafe { (Qp::<P>::from_raw(c), Udata::from_raw(udata)) };
            P::destroy_qp(qp, &mut udata)?;
            // SAFETY: (live)
            unsafe { end::<Qp<P>>(c) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn post_send(
        c: *mut ib_qp,
        wrs: *const ib_send_wr,
        bad: *mut *const ib_send_wr,
    ) -> i32 {
        // SAFETY: (live), (args)
        let qp = unsafe { Qp::<P>::from_raw(c) };
        // SAFETY: (args); the chain was posted to this queue pair.
        let mut wrs = unsafe { SendWrs::from_raw(qp, wrs) };
        match P::post_send(qp, &mut wrs) {
            Ok(()) => 0,
            Err(e) => {
                // SAFETY: (args)
                unsafe { bad.write(wrs.stopped_at()) };
                e.to_errno()
            }
        }
    }

    pub(super) unsafe extern "C" fn post_recv(
        c: *mut ib_qp,
        wrs: *const ib_recv_wr,
        bad: *mut *const ib_recv_wr,
    ) -> i32 {
        // SAFETY: (live), (args)
        let (qp, mut wrs) = unsafe { (Qp::<P>::from_raw(c), RecvWrs::from_raw(wrs)) };
        match P::post_recv(qp, &mut wrs) {
            Ok(()) => 0,
            Err(e) => {
                // SAFETY: (args)
                unsafe { bad.write(wrs.stopped_at()) };
                e.to_errno()
            }
        }
    }

    pub(super) unsafe extern "C" fn create_srq(
        c: *mut ib_srq,
        attr: *mut ib_srq_init_attr,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (args)
        let (attr, mut udata) =
            unsafe { (&mut *attr.cast::<SrqInitAttr>(), Udata::from_raw(udata)) };
        create!(new: Srq<P> = c, P::create_srq(&new, attr, &mut udata))
    }

    pub(super) unsafe extern "C" fn modify_srq(
        c: *mut ib_srq,
        attr: *mut ib_srq_attr,
        mask: ib_srq_attr_mask,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (live), (args)
        let (srq, attr, mut udata) = unsafe { (Srq::from_raw(c), &*attr, Udata::from_raw(udata)) };
        let mask = SrqAttrMask::from_raw(mask);
        from_result(|| P::modify_srq(srq, attr, mask, &mut udata).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn query_srq(c: *mut ib_srq, out: *mut ib_srq_attr) -> i32 {
        from_result(|| {
            // SAFETY: (live)
            let attr = P::query_srq(unsafe { Srq::from_raw(c) })?;
            // SAFETY: (args)
            unsafe { out.write(attr) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn destroy_srq(c: *mut ib_srq, udata: *mut ib_udata) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (srq, mut udata) = unsafe { (Srq::<P>::from_raw(c), Udata::from_raw(udata)) };
            P::destroy_srq(srq, &mut udata)?;
            // SAFETY: (live)
            unsafe { end::<Srq<P>>(c) };
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn post_srq_recv(
        c: *mut ib_srq,
        wrs: *const ib_recv_wr,
        bad: *mut *const ib_recv_wr,
    ) -> i32 {
        // SAFETY: (live), (args)
        let (srq, mut wrs) = unsafe { (Srq::<P>::from_raw(c), RecvWrs::from_raw(wrs)) };
        match P::post_srq_recv(srq, &mut wrs) {
            Ok(()) => 0,
            Err(e) => {
                // SAFETY: (args)
                unsafe { bad.write(wrs.stopped_at()) };
                e.to_errno()
            }
        }
    }

    pub(super) unsafe extern "C" fn attach_mcast(c: *mut ib_qp, gid: *mut ib_gid, lid: u16) -> i32 {
        // SAFETY: (live), (args); the union has 16 bytes.
        let (qp, gid) = unsafe { (Qp::from_raw(c), &*gid.cast::<Gid>()) };
        from_result(|| P::attach_mcast(qp, gid, lid).map(|()| 0))
    }

    pub(super) unsafe extern "C" fn detach_mcast(c: *mut ib_qp, gid: *mut ib_gid, lid: u16) -> i32 {
        // SAFETY: (live), (args); the union has 16 bytes.
        let (qp, gid) = unsafe { (Qp::from_raw(c), &*gid.cast::<Gid>()) };
        from_result(|| P::detach_mcast(qp, gid, lid).map(|()| 0))
    }
}
