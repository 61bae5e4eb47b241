// SPDX-License-Identifier: GPL-2.0

//! What is common to the objects of a device.
//!
//! Most are allocated by the core, at the size that the driver asks for, and filled by a
//! method of the driver; all but a few are tracked. What C sees of them is in [`super::tables`].
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

use super::ah_attr::GidRef;
use super::ah_attr::GidSlot;
use super::driver::Driver;
use crate::device::Device;
use crate::errno::eopnotsupp;
use crate::restrack::Entry;
use crate::restrack::Kind;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::edge::Within;

pub(crate) use super::tables::Cq;
pub(crate) use super::tables::Mr;
pub(crate) use super::tables::Pd;
pub(crate) use super::tables::Qp;
pub(crate) use super::tables::Srq;
pub(crate) use super::tables::Wq;
pub(crate) use super::tables::Xrcd;

use super::tables::Ah;

/// The counts of what an object uses.
pub(crate) type Uses<'a> = [Option<&'a UseCount>; 5];

/// The GIDs that an object holds.
pub(crate) type Gids<'a> = [Option<&'a GidSlot>; 2];

/// An object of a device.
///
/// # Safety
///
/// `RES` is where the entry is, in objects that are tracked as `TRACKED`.
pub(crate) unsafe trait Object: View {
    /// The kind as it is tracked; none, if it is not.
    const TRACKED: Option<Kind>;

    /// Where in the C structure its entry is.
    const RES: usize = 0;

    /// Bytes that the driver wants for one, the C structure included, which comes first; none
    /// if the driver allocates them itself.
    fn size(_ops: &bindings::ib_device_ops) -> Option<usize> {
        None
    }

    /// The device that it belongs to.
    fn owner(&self) -> &Device;

    /// What tracks it.
    fn tracked(&self) -> Option<&Entry> {
        None
    }

    /// The counts of what it uses. The same from when it is made until it is destroyed.
    fn uses(&self) -> Uses<'_> {
        [None; 5]
    }

    /// The GIDs that it holds.
    fn gids(&self) -> Gids<'_> {
        [None; 2]
    }

    /// The object that an entry is a part of, if it is one of this kind.
    fn of_entry(entry: &Entry) -> Option<&Self> {
        if Self::TRACKED.is_none() || entry.kind() != Self::TRACKED {
            return None;
        }
        let c = entry.raw().wrapping_byte_sub(Self::RES).cast();
        // SAFETY: By the invariant of entries it is of the kind that it says, and whoever has the
        // entry has the object.
        Some(unsafe { Self::view(c) })
    }

    /// Its driver's methods.
    #[inline(always)]
    fn driver(&self) -> Driver<'_, Self> {
        Driver::of(self)
    }

    /// As [`View::view`], for callers with raw pointers.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    unsafe fn from_raw<'a>(ptr: *mut Self::C) -> &'a Self {
        // SAFETY: By this function's duty.
        unsafe { Self::view(ptr) }
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
        // SAFETY: The offset is taken from the structure.
        unsafe impl Object for $name {
            const TRACKED: Option<Kind> = objects!(@kind $($kind)?);
            $( const RES: usize = objects!(@res $kind $name); )?

            #[inline(always)]
            fn owner(&self) -> &Device {
                self.device()
            }
            $(
                #[inline(always)]
                fn size(ops: &bindings::ib_device_ops) -> Option<usize> {
                    Some(ops.$size)
                }
            )?
            $(
                #[inline(always)]
                fn tracked(&self) -> Option<&Entry> {
                    const _: Kind = Kind::$kind;
                    Some(self.res())
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
    (@res $kind:ident $name:ident) => {
        core::mem::offset_of!(<$name as View>::C, res)
    };
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
        qp.rwq_ind_tbl().map(super::tables::RwqTable::usecnt),
    ] holds [alt_path_sgid_attr, av_sgid_attr];
    Cq(size_ib_cq) tracked as Cq;
    Xrcd(size_ib_xrcd);
    Mr tracked as Mr uses |mr| [
        Some(mr.pd().usecnt()),
        mr.dm().map(super::tables::Dm::usecnt),
        mr.dmah().map(super::tables::Dmah::usecnt),
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
fn start_tracking<K: Object>(object: &K, owner: Owner<'_>) {
    let (Some(kind), Some(entry)) = (K::TRACKED, object.tracked()) else {
        return;
    };
    entry.init(kind);
    match owner {
        Owner::Caller(name) => entry.set_name(name),
        Owner::OfPd(pd) => entry.set_parent(pd.res()),
    }
}

/// An object in the making.
///
/// # Invariants
///
/// `ptr` is an object that is ours alone, with its `init` fields written, of which the memory is
/// kfree's. Its entry was initialised if `tracked`.
pub(crate) struct New<K: Object> {
    ptr: NonNull<K::C>,
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
        // SAFETY: The device lives.
        let ptr = unsafe { bindings::rdma_helper_zalloc_obj(device.as_raw(), size, flags, numa) };
        let ptr: NonNull<K::C> = NonNull::new(ptr.cast()).ok_or(ENOMEM)?;
        // SAFETY: New memory of zeros, which are an object; nobody knows of it.
        unsafe { init.fill(ptr.as_ptr()) };
        // INVARIANT: As just done.
        Ok(Self {
            ptr,
            tracked: false,
        })
    }

    /// Says who owns it. Before the driver is asked, once.
    pub(crate) fn track(&mut self, owner: Owner<'_>) {
        debug_assert!(!self.tracked);
        start_tracking::<K>(self, owner);
        // INVARIANT: Initialised just now.
        self.tracked = K::TRACKED.is_some();
    }

    /// The driver has made it: readers may find it from now on.
    pub(crate) fn finish(self) -> Owned<K> {
        let this = ManuallyDrop::new(self);
        if this.tracked {
            if let Some(entry) = this.tracked() {
                entry.add();
            }
        }
        // INVARIANT: It is ours alone, but for readers that its entry leads to.
        Owned(this.ptr)
    }
}

impl<K: Object> Deref for New<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        // SAFETY: By the type invariant.
        unsafe { K::view(self.ptr.as_ptr()) }
    }
}

// SAFETY: By the type invariant; references come from a borrow of this.
unsafe impl<K: Object> SoleOwner for New<K> {
    type Of = K;

    #[inline(always)]
    fn sole(&mut self) -> *mut K::C {
        self.ptr.as_ptr()
    }
}

impl<K: Object> Drop for New<K> {
    fn drop(&mut self) {
        if self.tracked {
            if let Some(entry) = self.tracked() {
                // Not added: nobody has it, and there is nobody to wait for.
                entry.del();
            }
        }
        // SAFETY: By the type invariant.
        unsafe { bindings::kfree(self.ptr.as_ptr().cast()) };
    }
}

/// An object that its holder may do away with: one made just now, which goes to C, or one that C
/// gives back because nobody uses it any more. Without [`destroy`](Self::destroy) it stays, C's.
///
/// # Invariants
///
/// `0` is an object, and nobody but its driver and those that track it uses it.
#[must_use = "an object that is not given to C is never freed"]
pub(crate) struct Owned<K: View>(NonNull<K::C>);

impl<K: View> Deref for Owned<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        // SAFETY: By the type invariant.
        unsafe { K::view(self.0.as_ptr()) }
    }
}

// SAFETY: By the type invariant; those that track it read what its entry says.
unsafe impl<K: View> SoleOwner for Owned<K> {
    type Of = K;

    #[inline(always)]
    fn sole(&mut self) -> *mut K::C {
        self.0.as_ptr()
    }
}

// SAFETY: By the duty of `from_c` the object is given to the callee.
unsafe impl<K: View> Within<'_> for Owned<K> {}
// SAFETY: As said.
unsafe impl<K: View> FromC for Owned<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: It is an object. INVARIANT: By this function's duty.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

/// An object that C gives back, if it does: callers may err.
pub(crate) struct Given<K: View>(Option<Owned<K>>);

// SAFETY: As above, or null.
unsafe impl<K: View> Within<'_> for Given<K> {}
// SAFETY: As said.
unsafe impl<K: View> FromC for Given<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: By this function's duty.
        Self(NonNull::new(c).map(Owned))
    }
}

impl<K: View> Given<K> {
    /// As C would give it.
    #[inline(always)]
    pub(crate) fn of(object: Owned<K>) -> Self {
        Self(Some(object))
    }

    /// # Errors
    ///
    /// `EINVAL` for null.
    #[inline(always)]
    pub(crate) fn owned(self) -> Result<Owned<K>> {
        self.0.ok_or(EINVAL)
    }
}

impl<K: View> AnswerOk for Owned<K> {
    type C = *mut K::C;

    #[inline(always)]
    fn ok(self) -> Self::C {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

impl<K: Object> Owned<K> {
    /// Destroys an object that the core allocated: hides it and waits for its readers, asks the
    /// driver by `ask`, gives back what it held, and frees it. May sleep, unless it is not
    /// tracked.
    ///
    /// # Errors
    ///
    /// The driver's; the object is then as before. `EINVAL` if the driver allocated it.
    pub(crate) fn destroy(self, ask: impl FnOnce(Doomed<'_, K>) -> Result) -> Result {
        if K::size(self.owner().ops()).is_none() {
            return Err(EINVAL);
        }
        // SAFETY: Made when the object was, and given up with it.
        let held = ManuallyDrop::new(unsafe { Held::of(&*self) });
        if let Some(entry) = self.tracked() {
            entry.begin_del();
        }
        // The driver must not find what it holds changed, so that is given up after.
        if let Err(error) = ask(Doomed(&self)) {
            if let Some(entry) = self.tracked() {
                entry.abort_del();
            }
            return Err(error);
        }
        drop(ManuallyDrop::into_inner(held));
        if let Some(entry) = self.tracked() {
            entry.commit_del();
        }
        // SAFETY: By the type invariant; the driver has given it up, too, and `New` made it.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
        Ok(())
    }

    /// As [`destroy`](Self::destroy), for an object that the driver frees. What `first` reads of
    /// it before is given back.
    ///
    /// # Errors
    ///
    /// The driver's; the object is then as before, but that it is not tracked any more.
    pub(crate) fn destroy_by_driver<T>(
        self,
        first: impl FnOnce(&K) -> T,
        ask: impl FnOnce(Self) -> Result,
    ) -> Result<T> {
        // SAFETY: Made when the object was, and given up with it.
        let held = ManuallyDrop::new(unsafe { Held::of(&*self) });
        let first = first(&self);
        if let Some(entry) = self.tracked() {
            entry.del();
        }
        ask(self)?;
        drop(ManuallyDrop::into_inner(held));
        Ok(first)
    }

    /// Tracks an object that the driver has allocated and made just now.
    pub(crate) fn track(&self, owner: Owner<'_>) {
        start_tracking::<K>(self, owner);
        if let Some(entry) = self.tracked() {
            entry.add();
        }
    }
}

/// An object that is being destroyed: nobody uses it but for that. Only [`Owned::destroy`] makes one.
pub(crate) struct Doomed<'a, K>(pub(super) &'a K);

impl<K> Deref for Doomed<'_, K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        self.0
    }
}

/// An object that a driver has allocated and made just now: the fields of the core are not filled
/// in yet.
///
/// # Invariants
///
/// `0` is such an object, and nobody but its driver uses it.
pub(crate) struct Bare<K: View>(NonNull<K::C>);

// SAFETY: By the duty of `from_c` the object is given to the callee.
unsafe impl<K: View> FromC for Bare<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: It is an object. INVARIANT: By this function's duty.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl<K: View> Bare<K> {
    /// Fills the core's fields in.
    #[inline(always)]
    pub(crate) fn fill(self, init: impl Init<K>) -> Owned<K> {
        // SAFETY: By the type invariant.
        unsafe { init.fill(self.0.as_ptr()) };
        // INVARIANT: Its fields are written.
        Owned(self.0)
    }
}

/// A place in a C structure with an object that the structure owns, or null.
#[repr(transparent)]
pub(crate) struct Slot<K: View>(Opaque<*mut K::C>, PhantomData<K>);

// SAFETY: Transparent over the pointer.
unsafe impl<K: View> View for Slot<K> {
    type C = *mut K::C;
}

impl<K: View> Slot<K> {
    fn place(&self) -> &Atomic<*mut K::C> {
        // SAFETY: A word that is changed as a whole.
        unsafe { Atomic::from_ptr(self.raw()) }
    }

    /// Takes the object out.
    pub(crate) fn take(&self) -> Option<Owned<K>> {
        // INVARIANT: The place owned it, and nobody else took it out.
        NonNull::new(self.place().xchg(core::ptr::null_mut(), Full)).map(Owned)
    }

    /// What is in it, of a structure that is about to go: whoever destroys that gets the object.
    pub(crate) fn left(&self) -> Left<K> {
        Left(self.place().load(Relaxed))
    }

    /// Puts an object in, and gives back what was there.
    pub(crate) fn put(&self, object: Option<Owned<K>>) -> Option<Owned<K>> {
        let object = object.map_or(core::ptr::null_mut(), AnswerOk::ok);
        // INVARIANT: As above.
        NonNull::new(self.place().xchg(object, Full)).map(Owned)
    }
}

/// What a structure that is being destroyed had in a [`Slot`].
pub(crate) struct Left<K: View>(*mut K::C);

impl<K: View> Left<K> {
    /// The structure is gone.
    ///
    /// # Safety
    ///
    /// It is, and nobody took the object out.
    pub(crate) unsafe fn take(self) -> Option<Owned<K>> {
        // INVARIANT: By this function's duty.
        NonNull::new(self.0).map(Owned)
    }
}

rdma::c_struct! {
    /// How many objects use one.
    pub(crate) struct UseCount: bindings::atomic_t;
    fields {}
}

impl UseCount {
    /// Whether somebody uses the object.
    pub(crate) fn is_used(&self) -> bool {
        // SAFETY: The object is there.
        unsafe { bindings::atomic_read(self.raw()) != 0 }
    }

    /// Counts; dropping the result gives it back.
    pub(crate) fn count(&self) -> Use {
        // SAFETY: The object is there.
        unsafe { bindings::atomic_inc(self.raw()) };
        // INVARIANT: Just counted.
        Use(NonNull::from(self).cast())
    }
}

/// One count on an object that says that another object uses it; given back on drop.
///
/// # Invariants
///
/// `0` is the count of an object that lives, since it is used, and one of the counts is ours.
pub(crate) struct Use(NonNull<bindings::atomic_t>);

impl Use {
    /// Takes over a count from an object that is being destroyed: dropping this gives it back.
    ///
    /// # Safety
    ///
    /// Somebody has kept a count that is not given back otherwise.
    pub(crate) unsafe fn kept(count: &UseCount) -> Self {
        // INVARIANT: By this function's duty.
        Self(NonNull::from(count).cast())
    }

    /// Keeps the count for good: the object that it was taken for exists.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::atomic_dec(self.0.as_ptr()) };
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

    /// What an object holds.
    ///
    /// # Safety
    ///
    /// It was counted, and is not given back otherwise.
    #[inline(always)]
    pub(crate) unsafe fn of<K: Object>(object: &K) -> Self {
        // SAFETY: By this function's duty.
        let kept = |count| unsafe { Use::kept(count) };
        // SAFETY: By this function's duty.
        let held = |slot: &GidSlot| unsafe { slot.held() };
        Self {
            uses: object.uses().map(|count| count.map(kept)),
            gids: object.gids().map(|slot| slot.and_then(held)),
        }
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

// SAFETY: As for a reference.
unsafe impl<'a, K: View> Within<'a> for Counted<'a, K> {}
// SAFETY: As above.
unsafe impl<K: View> FromC for Counted<'_, K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: By this function's duty.
        Self(unsafe { K::view(c) })
    }
}

impl<K: Object> Counted<'_, K> {
    /// Gives up the counts.
    pub(super) fn give_back(self) {
        let Held { uses, gids } =
            // SAFETY: By the type's promise. References to GIDs stay the object's.
            unsafe { Held::of(self.0) };
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

/// An optional method of a driver, or the error of a driver that has none.
pub(crate) fn method<F: Copy>(method: Option<F>) -> Result<F> {
    method.ok_or_else(eopnotsupp)
}

/// For C: a pointer or an error.
pub(crate) fn pointer<T>(made: Result<NonNull<T>>) -> *mut T {
    match made {
        Ok(ptr) => ptr.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

/// For C: zero or an error.
pub(crate) fn code(done: Result) -> c_int {
    match done {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
