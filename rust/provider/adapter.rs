// SPDX-License-Identifier: GPL-2.0

//! The table of a driver's operations, as C sees it.
//!
//! Each callback casts, borrows, calls the method of [`Provider`], and converts the answer. What
//! the SAFETY comments rely on is the contract between core and drivers, which is written in
//! `include/rdma/ib_verbs.h` and held by `drivers/infiniband/core`:
//!
//! - (device) every pointer to a device, or to an object's device, is to a device that was made by
//!   `Unregistered::new` with this table, with its data, until `dealloc_driver`;
//! - (new) a create operation gets zeroed memory of the size the table says, in which the core has
//!   filled in its fields, and which nobody else knows of;
//! - (live) all other operations get objects whose create operation has succeeded, and whose
//!   destroy operation is called when no other operation runs on them, nor will, unless it fails;
//! - (args) other pointers are valid for the call, and those that results go to are not shared.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::attr::*;
use super::device::Device;
use super::mad::Mad;
use super::mad::MadResult;
use super::mad::MAD_LEN;
use super::mmap;
use super::object::*;
use super::stats;
use super::sysfs::Parent;
use super::Provider;
use crate::bindings::*;
use crate::udata::Udata;
use core::marker::PhantomData;
use core::mem::size_of;
use core::mem::MaybeUninit;
use kernel::error::code::EINVAL;
use kernel::error::from_result;

mod memory;
mod queues;

/// The callbacks of the driver `P`.
pub(super) struct Adapter<P: Provider>(PhantomData<P>);

/// Makes an object in place: `$new` is the object for the driver, `$make` what the driver does.
macro_rules! create {
    ($new:ident: $object:ty = $c:expr, $make:expr) => {
        from_result(|| {
            #[allow(unused_mut, reason = "only some operations change it")]
            // SAFETY: (new); the core frees the memory only after an error, when `$new` has been
            // dropped, or after the destroy operation, which calls `end`. The device outlives the
            // call of its operation.
            let mut $new = unsafe { New::<$object>::begin($c) }?;
            let init = $make?;
            // SAFETY: This is the only call, and the object is finished below.
            unsafe { New::<$object>::init($c, init) };
            $new.finish();
            Ok(0)
        })
    };
}

use create;

#[expect(
    clippy::missing_safety_doc,
    reason = "the header has the contract of all callbacks"
)]
impl<P: Provider> Adapter<P> {
    /// # Safety
    ///
    /// (device)
    unsafe fn dev<'a>(dev: *mut ib_device) -> &'a Device<P> {
        // SAFETY: A device of `P`, for which the method is called (contract: "device").
        unsafe { Device::from_raw(dev) }
    }

    unsafe extern "C" fn dealloc_driver(dev: *mut ib_device) {
        // SAFETY: (device); this is the last operation, and the data is not used after it. The
        // cast pointer is to a whole `Device`, whose data is dropped and whose C part is left.
        unsafe { Device::<P>::drop_data(dev) };
    }

    unsafe extern "C" fn enable_driver(dev: *mut ib_device) -> i32 {
        // SAFETY: (device)
        from_result(|| P::enable_driver(unsafe { Self::dev(dev) }).map(|()| 0))
    }

    unsafe extern "C" fn query_device(
        dev: *mut ib_device,
        attr: *mut ib_device_attr,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (device), (args)
        let (dev, attr, mut udata) =
            unsafe { (Self::dev(dev), &mut *attr, Udata::from_raw(udata)) };
        from_result(|| P::query_device(dev, attr, &mut udata).map(|()| 0))
    }

    unsafe extern "C" fn modify_device(
        dev: *mut ib_device,
        mask: i32,
        attr: *mut ib_device_modify,
    ) -> i32 {
        // SAFETY: (device), (args)
        let (dev, attr) = unsafe { (Self::dev(dev), &*attr) };
        // CAST: flags, the sign has no meaning.
        let mask = DeviceModifyMask::from_raw(mask as u32);
        from_result(|| P::modify_device(dev, mask, attr).map(|()| 0))
    }

    unsafe extern "C" fn query_port(
        dev: *mut ib_device,
        port: u32,
        attr: *mut ib_port_attr,
    ) -> i32 {
        // SAFETY: (device), (args)
        let (dev, attr) = unsafe { (Self::dev(dev), &mut *attr) };
        from_result(|| P::query_port(dev, port, attr).map(|()| 0))
    }

    unsafe extern "C" fn modify_port(
        dev: *mut ib_device,
        port: u32,
        mask: i32,
        attr: *mut ib_port_modify,
    ) -> i32 {
        // SAFETY: (device), (args)
        let (dev, attr) = unsafe { (Self::dev(dev), &*attr) };
        // CAST: flags, the sign has no meaning.
        let mask = PortModifyMask::from_raw(mask as u32);
        from_result(|| P::modify_port(dev, port, mask, attr).map(|()| 0))
    }

    unsafe extern "C" fn get_port_immutable(
        dev: *mut ib_device,
        port: u32,
        out: *mut ib_port_immutable,
    ) -> i32 {
        from_result(|| {
            // SAFETY: (device)
            let immutable = P::port_immutable(unsafe { Self::dev(dev) }, port)?;
            // SAFETY: (args)
            unsafe { out.write(immutable) };
            Ok(0)
        })
    }

    unsafe extern "C" fn get_link_layer(dev: *mut ib_device, port: u32) -> rdma_link_layer {
        // SAFETY: (device)
        P::link_layer(unsafe { Self::dev(dev) }, port).raw()
    }

    unsafe extern "C" fn query_pkey(
        dev: *mut ib_device,
        port: u32,
        index: u16,
        out: *mut u16,
    ) -> i32 {
        from_result(|| {
            // SAFETY: (device)
            let pkey = P::query_pkey(unsafe { Self::dev(dev) }, port, index)?;
            // SAFETY: (args)
            unsafe { out.write(pkey) };
            Ok(0)
        })
    }

    unsafe extern "C" fn query_gid(
        dev: *mut ib_device,
        port: u32,
        index: i32,
        out: *mut ib_gid,
    ) -> i32 {
        from_result(|| {
            let index = u32::try_from(index).map_err(|_| EINVAL)?;
            // SAFETY: (device)
            let gid = P::query_gid(unsafe { Self::dev(dev) }, port, index)?;
            // SAFETY: (args); the union is 16 bytes.
            unsafe { out.cast::<Gid>().write(gid) };
            Ok(0)
        })
    }

    unsafe extern "C" fn process_mad(
        dev: *mut ib_device,
        flags: i32,
        port: u32,
        wc: *const ib_wc,
        grh: *const ib_grh,
        request: *const ib_mad,
        reply: *mut ib_mad,
        reply_size: *mut usize,
        _pkey_index: *mut u16,
    ) -> i32 {
        const _: () = assert!(size_of::<ib_mad>() == MAD_LEN);
        // SAFETY: (args)
        if unsafe { *reply_size } < MAD_LEN {
            return MadResult::Failure.as_c();
        }
        // SAFETY: (device), (args); a datagram is 256 bytes, of any value, and the GID of a
        // global route 16.
        let (dev, mut mad) = unsafe {
            (
                Self::dev(dev),
                Mad {
                    wc: wc.as_ref(),
                    source: grh
                        .as_ref()
                        .filter(|_| {
                            wc.as_ref()
                                // CAST: flags, the sign has no meaning.
                                .is_some_and(|wc| wc.wc_flags as u32 & ib_wc_flags_IB_WC_GRH != 0)
                        })
                        .map(|grh| *grh.sgid.raw),
                    request: &*request.cast(),
                    reply: &mut *reply.cast(),
                    // CAST: flags, the sign has no meaning.
                    flags: flags as u32,
                },
            )
        };
        P::process_mad(dev, port, &mut mad).as_c()
    }

    unsafe extern "C" fn alloc_hw_port_stats(_: *mut ib_device, _port: u32) -> *mut rdma_hw_stats {
        stats::alloc(P::PORT_STATS)
    }

    unsafe extern "C" fn get_hw_stats(
        dev: *mut ib_device,
        values: *mut rdma_hw_stats,
        port: u32,
        _index: i32,
    ) -> i32 {
        from_result(|| {
            // The core asks for port 0 for counters of the whole device, which we do not have.
            if port == 0 || values.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: (device), (args)
            let (dev, mut values) = unsafe { (Self::dev(dev), stats::HwStats::from_raw(values)) };
            P::get_hw_stats(dev, port, &mut values)?;
            i32::try_from(values.len()).map_err(|_| EINVAL)
        })
    }

    unsafe extern "C" fn alloc_ucontext(c: *mut ib_ucontext, udata: *mut ib_udata) -> i32 {
        // SAFETY: (args)
        let mut udata = unsafe { Udata::from_raw(udata) };
        create!(new: UContext<P> = c, P::alloc_ucontext(&new, &mut udata))
    }

    unsafe extern "C" fn dealloc_ucontext(c: *mut ib_ucontext) {
        // SAFETY: (live)
        unsafe { end::<UContext<P>>(c) };
    }

    unsafe extern "C" fn disassociate_ucontext(c: *mut ib_ucontext) {
        // SAFETY: (live)
        P::disassociate_ucontext(unsafe { UContext::from_raw(c) });
    }

    unsafe extern "C" fn alloc_pd(c: *mut ib_pd, udata: *mut ib_udata) -> i32 {
        // SAFETY: (args)
        let mut udata = unsafe { Udata::from_raw(udata) };
        create!(new: Pd<P> = c, P::alloc_pd(&new, &mut udata))
    }

    unsafe extern "C" fn dealloc_pd(c: *mut ib_pd, _: *mut ib_udata) -> i32 {
        // SAFETY: (live)
        unsafe { end::<Pd<P>>(c) };
        0
    }

    unsafe extern "C" fn create_ah(
        c: *mut ib_ah,
        init: *mut rdma_ah_init_attr,
        udata: *mut ib_udata,
    ) -> i32 {
        // SAFETY: (args)
        let (init, mut udata) = unsafe { (AhInit::from_raw(init), Udata::from_raw(udata)) };
        create!(new: Ah<P> = c, P::create_ah(&new, &init, &mut udata))
    }

    unsafe extern "C" fn modify_ah(c: *mut ib_ah, attr: *mut rdma_ah_attr) -> i32 {
        // SAFETY: (live), (args); the core has resolved the GID attribute.
        let (ah, attr) = unsafe { (Ah::from_raw(c), AhAttr::from_raw(attr)) };
        from_result(|| P::modify_ah(ah, attr).map(|()| 0))
    }

    unsafe extern "C" fn query_ah(c: *mut ib_ah, attr: *mut rdma_ah_attr) -> i32 {
        // SAFETY: (live), (args); all zero is a valid attribute.
        let (ah, attr) = unsafe {
            attr.write(rdma_ah_attr::default());
            (*attr).type_ = (*c).type_;
            (Ah::from_raw(c), &mut *attr.cast::<AhAttr>())
        };
        from_result(|| P::query_ah(ah, attr).map(|()| 0))
    }

    unsafe extern "C" fn destroy_ah(c: *mut ib_ah, _flags: u32) -> i32 {
        // SAFETY: (live)
        unsafe { end::<Ah<P>>(c) };
        0
    }

    /// The table of the driver.
    pub(super) const OPS: &'static ib_device_ops = &Self::TABLE;

    const TABLE: ib_device_ops = {
        // SAFETY: All zero is a valid table: no operation is there.
        let mut ops: ib_device_ops = unsafe { MaybeUninit::zeroed().assume_init() };
        ops.driver_id = P::DRIVER_ID;
        ops.uverbs_abi_ver = P::UVERBS_ABI_VERSION;

        ops.dealloc_driver = Some(Self::dealloc_driver);
        ops.query_device = Some(Self::query_device);
        ops.query_port = Some(Self::query_port);
        ops.get_port_immutable = Some(Self::get_port_immutable);
        ops.alloc_pd = Some(Self::alloc_pd);
        ops.dealloc_pd = Some(Self::dealloc_pd);
        ops.size_ib_pd = size_of::<Pd<P>>();
        ops.create_cq = Some(Self::create_cq);
        ops.destroy_cq = Some(Self::destroy_cq);
        ops.poll_cq = Some(Self::poll_cq);
        ops.req_notify_cq = Some(Self::req_notify_cq);
        ops.size_ib_cq = size_of::<Cq<P>>();
        ops.create_qp = Some(Self::create_qp);
        ops.modify_qp = Some(Self::modify_qp);
        ops.destroy_qp = Some(Self::destroy_qp);
        ops.post_send = Some(Self::post_send);
        ops.post_recv = Some(Self::post_recv);
        ops.size_ib_qp = size_of::<Qp<P>>();
        ops.get_dma_mr = Some(Self::get_dma_mr);
        ops.reg_user_mr = Some(Self::reg_user_mr);
        ops.dereg_mr = Some(Self::dereg_mr);

        if P::HAS_MODIFY_DEVICE {
            ops.modify_device = Some(Self::modify_device);
        }
        if P::HAS_MODIFY_PORT {
            ops.modify_port = Some(Self::modify_port);
        }
        if P::HAS_LINK_LAYER {
            ops.get_link_layer = Some(Self::get_link_layer);
        }
        if P::HAS_QUERY_PKEY {
            ops.query_pkey = Some(Self::query_pkey);
        }
        if P::HAS_QUERY_GID {
            ops.query_gid = Some(Self::query_gid);
        }
        if P::HAS_PARENT {
            ops.device_group = Parent::<P>::GROUP;
        }
        if P::HAS_ENABLE_DRIVER {
            ops.enable_driver = Some(Self::enable_driver);
        }
        if P::HAS_ADD_SUB_DEVICE {
            ops.add_sub_dev = Some(Self::add_sub_dev);
            ops.del_sub_dev = Some(Self::del_sub_dev);
        }
        if P::HAS_PROCESS_MAD {
            ops.process_mad = Some(Self::process_mad);
        }
        if P::HAS_GET_HW_STATS && !P::PORT_STATS.is_empty() {
            ops.alloc_hw_port_stats = Some(Self::alloc_hw_port_stats);
            ops.get_hw_stats = Some(Self::get_hw_stats);
        }
        if P::HAS_ALLOC_UCONTEXT {
            ops.alloc_ucontext = Some(Self::alloc_ucontext);
            ops.dealloc_ucontext = Some(Self::dealloc_ucontext);
            ops.mmap = Some(mmap::mmap);
            ops.mmap_free = Some(mmap::mmap_free);
            ops.size_ib_ucontext = size_of::<UContext<P>>();
        }
        if P::HAS_DISASSOCIATE_UCONTEXT {
            ops.disassociate_ucontext = Some(Self::disassociate_ucontext);
        }
        if P::HAS_CREATE_AH {
            ops.create_ah = Some(Self::create_ah);
            ops.create_user_ah = Some(Self::create_ah);
            ops.destroy_ah = Some(Self::destroy_ah);
            ops.size_ib_ah = size_of::<Ah<P>>();
        }
        if P::HAS_MODIFY_AH {
            ops.modify_ah = Some(Self::modify_ah);
        }
        if P::HAS_QUERY_AH {
            ops.query_ah = Some(Self::query_ah);
        }
        if P::HAS_RESIZE_CQ {
            ops.resize_user_cq = Some(Self::resize_user_cq);
        }
        if P::HAS_PEEK_CQ {
            ops.peek_cq = Some(Self::peek_cq);
        }
        if P::HAS_QUERY_QP {
            ops.query_qp = Some(Self::query_qp);
        }
        if P::HAS_CREATE_SRQ {
            ops.create_srq = Some(Self::create_srq);
            ops.destroy_srq = Some(Self::destroy_srq);
            ops.size_ib_srq = size_of::<Srq<P>>();
        }
        if P::HAS_MODIFY_SRQ {
            ops.modify_srq = Some(Self::modify_srq);
        }
        if P::HAS_QUERY_SRQ {
            ops.query_srq = Some(Self::query_srq);
        }
        if P::HAS_POST_SRQ_RECV {
            ops.post_srq_recv = Some(Self::post_srq_recv);
        }
        if P::HAS_REG_USER_MR_DMABUF {
            ops.reg_user_mr_dmabuf = Some(Self::reg_user_mr_dmabuf);
        }
        if P::HAS_REREG_USER_MR {
            ops.rereg_user_mr = Some(Self::rereg_user_mr);
        }
        if P::HAS_ADVISE_MR {
            ops.advise_mr = Some(Self::advise_mr);
        }
        if P::HAS_ALLOC_MR {
            ops.alloc_mr = Some(Self::alloc_mr);
        }
        if P::HAS_MAP_MR_SG {
            ops.map_mr_sg = Some(Self::map_mr_sg);
        }
        if P::HAS_ALLOC_MW {
            ops.alloc_mw = Some(Self::alloc_mw);
            ops.dealloc_mw = Some(Self::dealloc_mw);
            ops.size_ib_mw = size_of::<Mw<P>>();
        }
        if P::HAS_ALLOC_XRCD {
            ops.alloc_xrcd = Some(Self::alloc_xrcd);
            ops.dealloc_xrcd = Some(Self::dealloc_xrcd);
            ops.size_ib_xrcd = size_of::<Xrcd<P>>();
        }
        if P::HAS_ATTACH_MCAST {
            ops.attach_mcast = Some(Self::attach_mcast);
        }
        if P::HAS_DETACH_MCAST {
            ops.detach_mcast = Some(Self::detach_mcast);
        }
        ops
    };
}
