// SPDX-License-Identifier: GPL-2.0

//! What is common to the objects of a device.
//!
//! Most are allocated by the core, at the size that the driver asks for, and filled by a
//! method of the driver; all but a few are tracked. What C sees of them is in [`tables`].
//!
//! ```text
//!   alloc      track         driver's create   finish         C has it         destroy
//!   ------> New --> New (tracked) ----------------> Owned --> ... &K ... --> Owned ----> freed
//!            |        | whatever fails: dropped, all is undone          ^      | driver refuses
//!            v        v                                                 +------+
//! ```
//!
//! [`Held`] counts an object as used by another, which keeps the first from being destroyed.
//!
//! A driver's method is called with no lock of the core held. C header:
//! `include/rdma/ib_verbs.h`.

pub(crate) mod driver;
mod out;
pub(crate) mod tables;

pub(crate) use self::out::Out;

use self::driver::Driver;
use crate::device::Device;
use crate::edge::tracked::Tracked;
use crate::errno::eopnotsupp;
use crate::gid::GidRef;
use crate::restrack::Entry;
use crate::restrack::Kind;
use crate::restrack::MaybeTracked;
use crate::restrack::OwnerRef;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::made;
use rdma::edge::object::GidSlot;
use rdma::edge::object::Slot;
pub(crate) use rdma::edge::object::Use;
pub(crate) use rdma::edge::object::UseCount;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;

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

/// The counts of what an object uses.
pub(crate) type Uses<'a> = [Option<&'a UseCount>; 5];

/// The GIDs that an object holds.
pub(crate) type Gids<'a> = [Option<&'a GidSlot>; 2];

/// An object of a device.
///
/// # Safety
///
/// What `uses` and `gids` return is the same from when the object is made until it is destroyed.
pub(crate) unsafe trait Object: MaybeTracked {
    /// Bytes that the driver wants for one, the C structure included, which comes first; none
    /// if the driver allocates them itself.
    fn size(_ops: &bindings::ib_device_ops) -> Option<usize> {
        None
    }

    /// The device that it belongs to.
    fn device(&self) -> &Device;

    /// The counts of what it uses.
    fn uses(&self) -> Uses<'_> {
        [None; 5]
    }

    /// The GIDs that it holds.
    fn gids(&self) -> Gids<'_> {
        [None; 2]
    }

    /// Its driver's methods.
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

/// Kinds of objects: the field of the driver's method table that has the size, if the core
/// allocates them; as what they are tracked; what they use; the GIDs that they hold.
macro_rules! objects {
    ($(
        $name:ident $(($size:ident))? $(tracked as $kind:ident)?
            $(uses |$this:ident| [$($use:expr),* $(,)?])? $(holds [$($gid:ident),*])?;
    )*) => { $(
        // SAFETY: Its own `res`, whose kind is the structure's (`edge::tracked`).
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

        // SAFETY: The fields named are constant, or replaced with their counts.
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

/// Whether memory is taken from the node of the device, and whether the caller may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Any node; the caller may sleep.
    Anywhere,
    /// The device's node, if the driver names one; the caller may sleep.
    DeviceNode,
    /// Any node; the caller may not sleep.
    Atomic,
}

/// Who owns an object, as `rdma res` shows it.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A part of the kernel by its name; without a name, the present process.
    Caller(Option<&'static CStr>),
    /// Whoever owns the protection domain.
    OfPd(&'a Pd),
}

/// Starts to track an object that is not tracked.
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

/// An object in the making.
///
/// # Invariants
///
/// `object` is ours alone, with its `init` fields written, of which the memory is kfree's. Its
/// entry was initialised if `tracked`.
pub(crate) struct New<K: Object> {
    object: Owned<K>,
    tracked: bool,
}

impl<K: Object> New<K> {
    /// Allocates one, all zeros but for `init`, at the driver's size.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` if the driver has no such objects.
    pub(crate) fn alloc(device: &Device, from: From, init: impl Init<K>) -> Result<Self> {
        let size = K::size(device.ops()).unwrap_or_default();
        if size < size_of::<K::C>() {
            return Err(eopnotsupp());
        }
        let flags = match from {
            From::Anywhere | From::DeviceNode => bindings::GFP_KERNEL,
            From::Atomic => bindings::GFP_ATOMIC,
        };
        let numa = from == From::DeviceNode;
        let raw = device.as_raw();
        // SAFETY: New memory of zeros, which are an object; nobody knows of it.
        let new: Bare<K> = unsafe {
            made(bindings::rdma_helper_zalloc_obj(raw, size, flags, numa).cast::<K::C>())
        }?;
        // INVARIANT: As just made.
        Ok(Self {
            object: new.fill(init),
            tracked: false,
        })
    }

    /// Says who owns it. Before the driver is asked, once.
    pub(crate) fn track(&mut self, owner: Owner<'_>) {
        debug_assert!(!self.tracked);
        start_tracking(self, owner);
        // INVARIANT: Initialised just now.
        self.tracked = K::TRACKED.is_some();
    }

    /// The driver has made it: readers may find it from now on.
    pub(crate) fn finish(self) -> Owned<K> {
        let mut this = ManuallyDrop::new(self);
        if this.tracked {
            if let Some(mut entry) = OwnerRef::of(&mut *this) {
                entry.add();
            }
        }
        // SAFETY: It is ours alone, but for readers that find it through its entry, and `this` is
        // not dropped.
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

// SAFETY: Nobody else has the object (type invariant); references come from a borrow of this.
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
                // Not added: nobody has it, and there is nobody to wait for.
                entry.del();
            }
        }
        // SAFETY: Nobody else has the object, whose memory is kfree's (type invariant).
        unsafe { bindings::kfree(self.object.raw().cast()) };
    }
}

/// What the core does with an object that it owns.
pub(crate) trait Owning<K: Object>: Sized {
    /// Destroys an object that the core allocated: hides it and waits for its readers, asks the
    /// driver by `ask`, gives back what it held, and frees it. May sleep, unless it is not
    /// tracked.
    ///
    /// # Errors
    ///
    /// The driver's; the object is then as before. `EINVAL` if the driver allocated it.
    fn destroy(self, ask: impl FnOnce(Doomed<'_, K>) -> Result) -> Result;

    /// As [`destroy`](Self::destroy), for an object that the driver frees. Returns what the object
    /// owned in `slot`.
    ///
    /// # Errors
    ///
    /// The driver's; the object is then as before, except that it is not tracked any more.
    fn destroy_by_driver<T: View>(
        self,
        slot: impl FnOnce(&K) -> Option<&Slot<T>>,
        ask: impl FnOnce(Self) -> Result,
    ) -> Result<Option<Owned<T>>>;

    /// Tracks an object that the driver has allocated and made just now.
    fn track(&mut self, owner: Owner<'_>);
}

impl<K: Object> Owning<K> for Owned<K> {
    fn destroy(mut self, ask: impl FnOnce(Doomed<'_, K>) -> Result) -> Result {
        if K::size(self.device().ops()).is_none() {
            return Err(EINVAL);
        }
        // On failure they are left as they are.
        let held = Held::of(&*self);
        if let Some(mut entry) = OwnerRef::of(&mut self) {
            entry.begin_del();
        }
        // The driver must not find what it holds changed, so that is given up after.
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
        // SAFETY: `New` allocated it; `Owned` says that nobody but the driver uses it, and the
        // driver has given it up.
        unsafe { bindings::kfree(self.into_raw().as_ptr().cast()) };
        Ok(())
    }

    fn destroy_by_driver<T: View>(
        mut self,
        slot: impl FnOnce(&K) -> Option<&Slot<T>>,
        ask: impl FnOnce(Self) -> Result,
    ) -> Result<Option<Owned<T>>> {
        let held = Held::of(&*self);
        let left = slot(&self).map(Slot::left);
        if let Some(mut entry) = OwnerRef::of(&mut self) {
            entry.del();
        }
        ask(self)?;
        drop(ManuallyDrop::into_inner(held));
        // SAFETY: The driver has freed the object, which nobody used any more (`Owned`).
        Ok(left.and_then(|left| unsafe { left.take() }))
    }

    fn track(&mut self, owner: Owner<'_>) {
        start_tracking(self, owner);
        if let Some(mut entry) = OwnerRef::of(self) {
            entry.add();
        }
    }
}

/// An object that is being destroyed: nobody uses it but for that. Only [`Owning::destroy`] makes one.
pub(crate) struct Doomed<'a, K>(pub(in crate::object) &'a K);

impl<K> Deref for Doomed<'_, K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        self.0
    }
}

/// What an object holds of others while it exists: counts, references to GIDs. Given back on drop.
pub(crate) struct Held {
    uses: [Option<Use>; 5],
    gids: [Option<GidRef>; 2],
}

impl Held {
    /// Counts what an object uses.
    #[inline(always)]
    pub(crate) fn count<K: Object>(object: &K) -> Self {
        Self {
            uses: object.uses().map(|count| count.map(UseCount::count)),
            gids: [None, None],
        }
    }

    /// What an object holds, which counted it when it was made. For this file: an object is asked
    /// once, by who ends it, and the result is dropped when that has succeeded.
    #[inline(always)]
    fn of<K: Object>(object: &K) -> ManuallyDrop<Self> {
        // SAFETY: The object counted these uses when it was made, and is ended (see above).
        let kept = |count| unsafe { Use::kept(count) };
        // SAFETY: The object's fields own these references, and the object is ended (see above).
        let held = |slot: &GidSlot| unsafe { slot.held() }.map(GidRef::of);
        ManuallyDrop::new(Self {
            uses: object.uses().map(|count| count.map(kept)),
            gids: object.gids().map(|slot| slot.and_then(held)),
        })
    }

    /// Keeps it for good: the object exists.
    #[inline(always)]
    pub(crate) fn keep(self) {
        self.uses.map(core::mem::forget);
        self.gids.map(core::mem::forget);
    }
}

/// An object whose uses are counted, and given up by the one who gets this.
pub(crate) struct Counted<'a, K>(&'a K);

rdma::argument! {
    /// An object whose uses are counted, which its caller gives up.
    impl<'a, K: View> Counted<'a, K> = |object: &'a K| Counted(object);
}

impl<K: Object> Counted<'_, K> {
    /// Gives up the counts.
    pub(crate) fn give_back(self) {
        let Held { uses, gids } = ManuallyDrop::into_inner(Held::of(self.0));
        // References to GIDs stay the object's.
        gids.map(core::mem::forget);
        drop(uses);
    }
}

/// What a driver's method says: zero, or an error.
pub(crate) fn outcome(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        // A driver that returns something else has not done what it was asked.
        1.. => Err(EINVAL),
        _ => Err(Error::from_errno(code)),
    }
}
