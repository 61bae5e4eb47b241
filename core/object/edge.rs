// SPDX-License-Identifier: GPL-2.0

//! Allocation, tracking and destruction of the objects of a device.
//!
//! The core allocates most objects, with the size that the driver requests, and a driver method
//! initialises them. Most are tracked by restrack. The C structures are in [`tables`].
//!
//! ```text
//!   alloc      track         driver's create   finish         C has it         destroy
//!   ------> New --> New (tracked) ----------------> Owned --> ... &K ... --> Owned ----> freed
//!            |        | on failure: dropped, steps are undone           ^      | driver fails
//!            v        v                                                 +------+
//! ```
//!
//! [`Held`] owns the use counts that an object has on others, which prevent their destruction.
//!
//! Driver methods are called without locks of the core. C header: `include/rdma/ib_verbs.h`.

pub(crate) mod driver;
mod out;
pub(crate) mod tables;

pub(crate) use self::out::Out;

use self::driver::Driver;
use crate::device::Device;
use crate::edge::tracked::Tracked;
use crate::gid::GidRef;
use crate::restrack::Entry;
use crate::restrack::Kind;
use crate::restrack::MaybeTracked;
use crate::restrack::OwnerRef;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::made;
use rdma::edge::object::GidSlot;
use rdma::edge::object::Slot;
pub(crate) use rdma::edge::object::Use;
pub(crate) use rdma::edge::object::UseCount;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::errno::eopnotsupp;

pub(crate) use rdma::edge::object::Bare;
pub(crate) use rdma::edge::object::Given;
pub(crate) use rdma::edge::object::Owned;

pub(crate) use self::tables::Cq;
pub(crate) use self::tables::Mr;
pub(crate) use self::tables::Pd;
pub(crate) use self::tables::Qp;
pub(crate) use self::tables::Srq;
pub(crate) use self::tables::Wq;
pub(crate) use self::tables::Xrcd;

use self::tables::Ah;

/// Use counts of the objects that an object uses.
pub(crate) type Uses<'a> = [Option<&'a UseCount>; 5];

/// Fields of an object that own references to GIDs.
pub(crate) type Gids<'a> = [Option<&'a GidSlot>; 2];

/// An object of a device.
///
/// # Safety
///
/// `uses` and `gids` return the same from the creation of the object until its destruction.
pub(crate) unsafe trait Object: MaybeTracked {
    /// Size of the driver's structure in bytes, which begins with the C structure; `None` if the
    /// driver allocates objects of this kind itself.
    fn size(_ops: &bindings::ib_device_ops) -> Option<usize> {
        None
    }

    /// Device of the object.
    fn device(&self) -> &Device;

    /// Use counts of the objects that this object uses.
    fn uses(&self) -> Uses<'_> {
        [None; 5]
    }

    /// Fields that own references to GIDs.
    fn gids(&self) -> Gids<'_> {
        [None; 2]
    }

    /// Methods of the object's driver.
    #[inline(always)]
    fn driver(&self) -> Driver<'_, Self> {
        Driver::of(self)
    }

    /// As [`View::raw`].
    #[inline(always)]
    fn as_raw(&self) -> *mut Self::C {
        self.raw()
    }
}

/// Table of object kinds. Each row has the field of the driver's method table with the size, if the
/// core allocates the objects; the restrack kind; the objects used; the fields with GID references.
macro_rules! objects {
    ($(
        $name:ident $(($size:ident))? $(tracked as $kind:ident)?
            $(uses |$this:ident| [$($use:expr),* $(,)?])? $(holds [$($gid:ident),*])?;
    )*) => { $(
        // SAFETY: Returns the `res` field of the object, which has the kind of the structure
        // (`edge::tracked`).
        unsafe impl MaybeTracked for $name {
            const TRACKED: Option<Kind> = objects!(@kind $($kind)?);
            $(
                #[inline(always)]
                fn tracked(&self) -> Option<&Entry> {
                    const { assert!(Kind::$kind as u32 == <$name as Tracked>::KIND as u32) };
                    Some(Entry::of(self.res()))
                }
            )?
        }

        // SAFETY: The fields in the table are constant, or are replaced together with their use
        // counts.
        unsafe impl Object for $name {
            #[inline(always)]
            fn device(&self) -> &Device {
                Device::of(self.dev())
            }
            $(
                #[inline(always)]
                fn size(ops: &bindings::ib_device_ops) -> Option<usize> {
                    Some(ops.$size)
                }
            )?
            $(
                #[inline(always)]
                fn uses(&self) -> Uses<'_> {
                    let $this = self;
                    let mut all = [None; 5];
                    let mut at = all.iter_mut();
                    $( if let Some(at) = at.next() { *at = $use; } )*
                    all
                }
            )?
            $(
                #[inline(always)]
                fn gids(&self) -> Gids<'_> {
                    let mut all = [None; 2];
                    let mut at = all.iter_mut();
                    $( if let Some(at) = at.next() { *at = Some(self.$gid()); } )*
                    all
                }
            )?
        }
    )* };
    (@kind) => { None };
    (@kind $kind:ident) => { Some(Kind::$kind) };
}

objects! {
    Pd(size_ib_pd) tracked as Pd;
    Ah(size_ib_ah) uses |ah| [Some(ah.pd().usecnt())] holds [sgid_attr];
    Srq(size_ib_srq) tracked as Srq uses |srq| [
        Some(srq.pd().usecnt()),
        srq.cq().flatten().map(Cq::usecnt),
        srq.xrcd().map(Xrcd::usecnt),
    ];
    Qp(size_ib_qp) tracked as Qp uses |qp| [
        qp.pd().map(Pd::usecnt),
        qp.send_cq().map(Cq::usecnt),
        qp.recv_cq().map(Cq::usecnt),
        qp.srq().map(Srq::usecnt),
        qp.rwq_ind_tbl().map(tables::RwqTable::usecnt),
    ] holds [alt_path_sgid_attr, av_sgid_attr];
    Cq(size_ib_cq) tracked as Cq;
    Xrcd(size_ib_xrcd);
    Mr tracked as Mr uses |mr| [
        Some(mr.pd().usecnt()),
        mr.dm().map(tables::Dm::usecnt),
        mr.dmah().map(tables::Dmah::usecnt),
    ];
    Wq uses |wq| [Some(wq.pd().usecnt()), wq.cq().map(Cq::usecnt)];
}

/// NUMA node of an allocation, and whether the caller may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocFrom {
    /// Any node; the caller may sleep.
    Anywhere,
    /// The node of the device, if the driver requests it; the caller may sleep.
    DeviceNode,
    /// Any node; the caller may not sleep.
    Atomic,
}

/// Owner of an object, as shown by `rdma resource`.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A kernel consumer, by name; without a name, the current process.
    Caller(Option<&'static CStr>),
    /// The owner of the protection domain.
    OfPd(&'a Pd),
}

/// Initialises the restrack entry of an object that is not tracked yet.
fn start_tracking<K: Object>(object: &mut impl SoleOwner<Of = K>, owner: Owner<'_>) {
    let (Some(kind), Some(mut entry)) = (K::TRACKED, OwnerRef::of(object)) else {
        return;
    };
    entry.begin(kind);
    match owner {
        Owner::Caller(name) => entry.set_name(name),
        Owner::OfPd(pd) => entry.set_parent(Entry::of(pd.res())),
    }
}

/// An object under construction.
///
/// # Invariants
///
/// Nobody else uses `object`. Its `init` fields are written, and its memory was allocated by
/// `kmalloc`. If `tracked`, its restrack entry is initialised.
pub(crate) struct New<K: Object> {
    object: Owned<K>,
    tracked: bool,
}

impl<K: Object> New<K> {
    /// Allocates an object of the driver's size, zeroed except for the fields of `init`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` if the driver does not support this kind of object.
    pub(crate) fn alloc(device: &Device, from: AllocFrom, init: impl Init<K>) -> Result<Self> {
        let size = K::size(device.ops()).unwrap_or_default();
        if size < size_of::<K::C>() {
            return Err(eopnotsupp());
        }
        let flags = match from {
            AllocFrom::Anywhere | AllocFrom::DeviceNode => accounted::FLAGS,
            AllocFrom::Atomic => bindings::GFP_ATOMIC,
        };
        let numa = from == AllocFrom::DeviceNode;
        let raw = device.as_raw();
        // SAFETY: The memory is new, large enough and zeroed, which is valid for the C structure.
        // Nobody else uses it.
        let new: Bare<K> = unsafe {
            made(bindings::rdma_helper_zalloc_obj(raw, size, flags, numa).cast::<K::C>())
        }?;
        // INVARIANT: The object is new, and `fill` writes its `init` fields.
        Ok(Self {
            object: new.fill(init),
            tracked: false,
        })
    }

    /// Initialises the restrack entry with the owner. Called once, before the driver's create
    /// method.
    pub(crate) fn track(&mut self, owner: Owner<'_>) {
        debug_assert!(!self.tracked);
        start_tracking(self, owner);
        // INVARIANT: The entry was just initialised.
        self.tracked = K::TRACKED.is_some();
    }

    /// Adds the object to restrack after the driver has created it. Readers may find it from now
    /// on.
    pub(crate) fn finish(self) -> Owned<K> {
        let mut this = ManuallyDrop::new(self);
        if this.tracked {
            if let Some(mut entry) = OwnerRef::of(&mut *this) {
                entry.add();
            }
        }
        // SAFETY: Nobody else uses the object, except readers that find it by its entry (type
        // invariant), and `this` is not dropped.
        unsafe { core::ptr::read(&this.object) }
    }
}

impl<K: Object> Deref for New<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        &self.object
    }
}

// SAFETY: Nobody else uses the object (type invariant); references come from a borrow of `self`.
unsafe impl<K: Object> SoleOwner for New<K> {
    type Of = K;

    #[inline(always)]
    fn sole(&mut self) -> *mut K::C {
        self.object.sole()
    }
}

impl<K: Object> Drop for New<K> {
    fn drop(&mut self) {
        if self.tracked {
            if let Some(mut entry) = OwnerRef::of(self) {
                // The entry was not added, so there are no readers to wait for.
                entry.del();
            }
        }
        // SAFETY: Nobody else uses the object, and `kmalloc` allocated it (type invariant).
        unsafe { bindings::kfree(self.object.raw().cast()) };
    }
}

/// Operations on an object that the core owns.
pub(crate) trait Owning<K: Object>: Sized {
    /// Destroys an object that the core allocated: hides it from restrack and waits for readers,
    /// calls the driver by `ask`, drops the use counts and references that it owns, and frees it.
    /// May sleep, unless the object is not tracked.
    ///
    /// # Errors
    ///
    /// Errors of the driver; the object is then unchanged. `EINVAL` if the driver allocated the
    /// object.
    fn destroy(self, ask: impl FnOnce(Doomed<'_, K>) -> Result) -> Result;

    /// As [`destroy`](Self::destroy), for an object that the driver frees. Returns the object that
    /// it owned in `slot`.
    ///
    /// # Errors
    ///
    /// Errors of the driver; the object is then unchanged, except that it is not tracked any more.
    fn destroy_by_driver<T: View>(
        self,
        slot: impl FnOnce(&K) -> Option<&Slot<T>>,
        ask: impl FnOnce(Self) -> Result,
    ) -> Result<Option<Owned<T>>>;

    /// Adds an object to restrack that the driver has just allocated and created.
    fn track(&mut self, owner: Owner<'_>);
}

impl<K: Object> Owning<K> for Owned<K> {
    fn destroy(mut self, ask: impl FnOnce(Doomed<'_, K>) -> Result) -> Result {
        if K::size(self.device().ops()).is_none() {
            return Err(EINVAL);
        }
        // SAFETY: This destroys the object. The result is dropped below, after the driver has
        // destroyed its part; if the driver fails it is not dropped, and the object remains.
        let held = unsafe { Held::of(&*self) };
        if let Some(mut entry) = OwnerRef::of(&mut self) {
            entry.begin_del();
        }
        // Drop the use counts and references only after the driver's method, which may still use
        // them.
        if let Err(error) = ask(Doomed(&self)) {
            if let Some(mut entry) = OwnerRef::of(&mut self) {
                entry.abort_del();
            }
            return Err(error);
        }
        drop(ManuallyDrop::into_inner(held));
        if let Some(mut entry) = OwnerRef::of(&mut self) {
            entry.commit_del();
        }
        // SAFETY: `New` allocated the object by `kmalloc`. Nobody except the driver used it
        // (`Owned`), and the driver has destroyed its part.
        unsafe { bindings::kfree(self.into_raw().as_ptr().cast()) };
        Ok(())
    }

    fn destroy_by_driver<T: View>(
        mut self,
        slot: impl FnOnce(&K) -> Option<&Slot<T>>,
        ask: impl FnOnce(Self) -> Result,
    ) -> Result<Option<Owned<T>>> {
        // SAFETY: This destroys the object. The result is dropped below, after the driver has
        // freed the object; if the driver fails it is not dropped.
        let held = unsafe { Held::of(&*self) };
        let left = slot(&self).map(Slot::left);
        if let Some(mut entry) = OwnerRef::of(&mut self) {
            entry.del();
        }
        ask(self)?;
        drop(ManuallyDrop::into_inner(held));
        // SAFETY: The driver has freed the object, and nobody else used it (`Owned`).
        Ok(left.and_then(|left| unsafe { left.take() }))
    }

    fn track(&mut self, owner: Owner<'_>) {
        start_tracking(self, owner);
        if let Some(mut entry) = OwnerRef::of(self) {
            entry.add();
        }
    }
}

/// An object that is being destroyed and has no other users. Only [`Owning::destroy`] creates one.
pub(crate) struct Doomed<'a, K>(pub(in crate::object) &'a K);

impl<K> Deref for Doomed<'_, K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        self.0
    }
}

impl Doomed<'_, Qp> {
    /// Gives the completion counters back, after the driver has destroyed its part.
    pub(crate) fn detach_comp_cntrs(&self) {
        // SAFETY: `Qp::set_up` has initialised the table of counters, and nobody else uses the
        // queue pair (guarantee of `Doomed`).
        unsafe { bindings::rdma_helper_qp_detach_comp_cntrs(self.raw()) };
    }
}

/// Use counts and GID references that an object owns while it exists. Dropped with this value.
pub(crate) struct Held {
    uses: [Option<Use>; 5],
    gids: [Option<GidRef>; 2],
}

impl Held {
    /// Increments the use counts of the objects that an object uses.
    #[inline(always)]
    pub(crate) fn count<K: Object>(object: &K) -> Self {
        Self {
            uses: object.uses().map(|count| count.map(UseCount::count)),
            gids: [None, None],
        }
    }

    /// Takes over the use counts and references that an object took at its creation.
    ///
    /// # Safety
    ///
    /// The caller destroys the object, and drops the result at most once, only if the destruction has
    /// succeeded; or the object has passed to the caller what of the result is dropped.
    #[inline(always)]
    unsafe fn of<K: Object>(object: &K) -> ManuallyDrop<Self> {
        // SAFETY: The object took these use counts at its creation, and is being destroyed (contract
        // of this function).
        let kept = |count| unsafe { Use::kept(count) };
        // SAFETY: The fields of the object own these references, and the object is being destroyed
        // (contract of this function).
        let held = |slot: &GidSlot| unsafe { slot.held() }.map(GidRef::of);
        ManuallyDrop::new(Self {
            uses: object.uses().map(|count| count.map(kept)),
            gids: object.gids().map(|slot| slot.and_then(held)),
        })
    }

    /// Passes the use counts and references to the object, which was created successfully.
    #[inline(always)]
    pub(crate) fn keep(self) {
        self.uses.map(core::mem::forget);
        self.gids.map(core::mem::forget);
    }
}

/// An object whose use counts the callee drops.
pub(crate) struct Counted<'a, K>(&'a K);

rdma::argument! {
    /// An object that has taken its use counts. The caller passes these to the callee.
    impl<'a, K: View> Counted<'a, K> = |object: &'a K| Counted(object);
}

impl<K: Object> Counted<'_, K> {
    /// Drops the use counts.
    pub(crate) fn give_back(self) {
        // SAFETY: The object passes its use counts to this function (`Counted`), which drops them
        // once. Its references to GIDs are forgotten below: the object keeps them.
        let held = unsafe { Held::of(self.0) };
        let Held { uses, gids } = ManuallyDrop::into_inner(held);
        gids.map(core::mem::forget);
        drop(uses);
    }
}

/// Converts the return value of a driver method: zero, or an error.
pub(crate) fn outcome(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        // A positive value is not valid; treat it as a failure.
        1.. => Err(EINVAL),
        _ => Err(Error::from_errno(code)),
    }
}
