// SPDX-License-Identifier: GPL-2.0

//! Callbacks for memory regions and memory windows.
//!
//! Drivers allocate the memory of regions; here it is a box. The names in parentheses in SAFETY
//! comments are those of the parent's header.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::create;
use super::Adapter;
use crate::accounted;
use crate::bindings::*;
use crate::provider::attr::*;
use crate::provider::object::*;
use crate::provider::unsupported;
use crate::provider::Provider;
use crate::udata::Udata;
use core::mem::MaybeUninit;
use kernel::alloc::flags::__GFP_ZERO;
use kernel::alloc::KBox;
use kernel::error::code::EINVAL;
use kernel::error::from_result;
use kernel::error::Result;

/// Creates a region, in memory that is allocated here; see [`create`].
macro_rules! create_mr {
    ($new:ident in $pd:expr, $make:expr) => {{
        let made = (|| -> Result<*mut ib_mr> {
            let memory = Self::mr_memory($pd)?;
            let $new = memory.begin()?;
            let init = $make?;
            // SAFETY: This is the only call, and the object is finished below.
            unsafe { New::<Mr<P>>::init(memory.as_raw(), init) };
            $new.finish();
            Ok(memory.into_raw())
        })();
        made.unwrap_or_else(|e| e.to_ptr())
    }};
}

/// Memory of a region; freed when dropped.
///
/// # Invariants
///
/// The memory is zeroed except for the device and the protection domain in its C part.
struct MrMemory<P: Provider>(KBox<MaybeUninit<Mr<P>>>);

impl<P: Provider> MrMemory<P> {
    fn as_raw(&self) -> *mut ib_mr {
        // CAST: The C part is at offset 0.
        self.0.as_ptr().cast_mut().cast()
    }

    fn begin(&self) -> Result<New<'_, Mr<P>>> {
        // SAFETY: The C part is initialised (type invariant); the result borrows the memory, which
        // exists only within an operation of the device.
        unsafe { New::begin(self.as_raw()) }
    }

    fn into_raw(self) -> *mut ib_mr {
        KBox::into_raw(self.0).cast()
    }
}

#[expect(
    clippy::missing_safety_doc,
    reason = "the parent's header has the contract of callbacks"
)]
impl<P: Provider> Adapter<P> {
    /// Allocates memory for a region of the protection domain `pd`.
    fn mr_memory(pd: *mut ib_pd) -> Result<MrMemory<P>> {
        // INVARIANT: Zeroed here; the two fields are set below.
        let memory = MrMemory(KBox::<Mr<P>>::new_uninit(accounted::GFP | __GFP_ZERO)?);
        let c = memory.as_raw();
        // SAFETY: The memory is new and zeroed; (live) for the protection domain.
        unsafe {
            (*c).pd = pd;
            (*c).device = (*pd).device;
        }
        Ok(memory)
    }

    pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut ib_pd, access: i32) -> *mut ib_mr {
        // CAST: Flags, whose sign has no meaning.
        let access = Access::from_raw(access as u32);
        create_mr!(new in pd, P::get_dma_mr(&new, access))
    }

    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut ib_dmah,
        udata: *mut ib_udata,
    ) -> *mut ib_mr {
        if !dmah.is_null() {
            return unsupported().to_ptr();
        }
        let region = UserRegion {
            start,
            length,
            iova,
            // CAST: Flags, whose sign has no meaning.
            access: Access::from_raw(access as u32),
        };
        // SAFETY: (args)
        let mut udata = unsafe { Udata::from_raw(udata) };
        create_mr!(new in pd, P::reg_user_mr(&new, &region, &mut udata))
    }

    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut ib_pd,
        offset: u64,
        length: u64,
        iova: u64,
        fd: i32,
        access: i32,
        dmah: *mut ib_dmah,
        _attrs: *mut uverbs_attr_bundle,
    ) -> *mut ib_mr {
        if !dmah.is_null() {
            return unsupported().to_ptr();
        }
        let region = UserRegion {
            start: offset,
            length,
            iova,
            // CAST: Flags, whose sign has no meaning.
            access: Access::from_raw(access as u32),
        };
        create_mr!(new in pd, P::reg_user_mr_dmabuf(&new, &region, fd))
    }

    pub(super) unsafe extern "C" fn rereg_user_mr(
        c: *mut ib_mr,
        mask: i32,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        pd: *mut ib_pd,
        udata: *mut ib_udata,
    ) -> *mut ib_mr {
        let region = UserRegion {
            start,
            length,
            iova,
            // CAST: Flags, whose sign has no meaning.
            access: Access::from_raw(access as u32),
        };
        // CAST: Flags, whose sign has no meaning.
        let mask = RegionMask::from_raw(mask as u32);
        // SAFETY: (live), (args)
        let (mr, pd, mut udata) =
            unsafe { (Mr::from_raw(c), Pd::from_raw(pd), Udata::from_raw(udata)) };
        match P::rereg_user_mr(mr, mask, &region, pd, &mut udata) {
            // There is no new region: the old one was changed.
            Ok(()) => core::ptr::null_mut(),
            Err(e) => e.to_ptr(),
        }
    }

    pub(super) unsafe extern "C" fn advise_mr(
        pd: *mut ib_pd,
        advice: ib_uverbs_advise_mr_advice,
        flags: u32,
        list: *mut ib_sge,
        count: u32,
        _attrs: *mut uverbs_attr_bundle,
    ) -> i32 {
        from_result(|| {
            let advice = Advice::try_from(advice)?;
            let flush = flags & ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH != 0;
            let count = usize::try_from(count).map_err(|_| EINVAL)?;
            // SAFETY: (live), (args); the core has copied the list.
            let (pd, list) =
                unsafe { (Pd::from_raw(pd), core::slice::from_raw_parts(list, count)) };
            P::advise_mr(pd, advice, flush, list)?;
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut ib_pd,
        kind: ib_mr_type,
        max_sg: u32,
    ) -> *mut ib_mr {
        create_mr!(new in pd, {
            let kind = MrType::try_from(kind)?;
            P::alloc_mr(&new, kind, max_sg)
        })
    }

    pub(super) unsafe extern "C" fn map_mr_sg(
        c: *mut ib_mr,
        sg: *mut scatterlist,
        entries: i32,
        offset: *mut u32,
    ) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (mr, sg) = unsafe { (Mr::from_raw(c), SgList::from_raw(sg, entries, offset)) };
            i32::try_from(P::map_mr_sg(mr, sg)?).map_err(|_| EINVAL)
        })
    }

    pub(super) unsafe extern "C" fn dereg_mr(c: *mut ib_mr, udata: *mut ib_udata) -> i32 {
        from_result(|| {
            // SAFETY: (live), (args)
            let (mr, mut udata) = unsafe { (Mr::<P>::from_raw(c), Udata::from_raw(udata)) };
            P::dereg_mr(mr, &mut udata)?;
            // SAFETY: (live); the region was created from such a box, and has no parts any more.
            unsafe {
                end::<Mr<P>>(c);
                drop(KBox::<MaybeUninit<Mr<P>>>::from_raw(c.cast()));
            }
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn alloc_mw(c: *mut ib_mw, udata: *mut ib_udata) -> i32 {
        // SAFETY: (args)
        let mut udata = unsafe { Udata::from_raw(udata) };
        create!(new: Mw<P> = c, P::alloc_mw(&new, &mut udata))
    }

    pub(super) unsafe extern "C" fn dealloc_mw(c: *mut ib_mw) -> i32 {
        from_result(|| {
            // SAFETY: (live)
            P::dealloc_mw(unsafe { Mw::<P>::from_raw(c) })?;
            // SAFETY: (live)
            unsafe { end::<Mw<P>>(c) };
            Ok(0)
        })
    }
}
