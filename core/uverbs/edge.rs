// SPDX-License-Identifier: GPL-2.0

//! A user's call, its memory, and mappings, as C has them.
//!
//! Tables of structures that other modules use as well are in [`rdma::edge::uverbs`]; here are those
//! that only the core's modules know (`drivers/infiniband/core/uverbs.h`, `rdma_core.h`), and what
//! goes between the kernel's memory and the user's.

use crate::private;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Refcount;
use rdma::bindings;
use rdma::edge::uverbs::MmapEntry;
use rdma::edge::uverbs::Present;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::verbs::Bundle;
use rdma::edge::Answer;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sync::Completion;
use rdma::xarray::Lasting;

/// Bytes of the kernel's that go to a user.
///
/// # Invariants
///
/// For `'a`, there are `len` bytes at `from`. They may be padding.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    from: *const c_void,
    len: usize,
    _bytes: PhantomData<&'a ()>,
}

impl Source<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies the first bytes, as many as `room`, to a user's address. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn copy_to(&self, to: UserAddr, room: usize) -> Result {
        // SAFETY: There are as many bytes: type invariant. The user's address is checked.
        let failed = unsafe { bindings::copy_to_user(to.0, self.from, self.len.min(room)) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }
}

/// An address that a user gave. The functions that use it check it.
#[derive(Clone, Copy)]
pub(super) struct UserAddr(*mut c_void);

impl UserAddr {
    /// The address in a field of a call.
    pub(super) fn of(field: Passed<c_void>) -> Self {
        Self(field.into_c())
    }

    /// Writes zeros behind the first `skip` bytes of `room`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn clear_rest(self, skip: usize, room: usize) -> Result {
        let rest = room.saturating_sub(skip);
        if rest == 0 {
            return Ok(());
        }
        let to = self.0.wrapping_byte_add(skip);
        // SAFETY: The user's address is checked.
        let failed = unsafe { bindings::rdma_helper_clear_user(to, rest) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }
}

/// Memory of the kernel's for what a user sent.
///
/// # Invariants
///
/// For `'a`, `len` bytes at `to` may be written.
pub(super) struct Room<'a> {
    to: *mut c_void,
    len: usize,
    _bytes: PhantomData<&'a mut ()>,
}

impl Room<'_> {
    /// Copies a structure of `len` bytes from a user. What the user's structure lacks becomes
    /// zero. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `E2BIG` if the user's structure has more bytes that are not all zero.
    pub(super) fn copy_struct_from(self, from: rdma::edge::uverbs::UserPtr, len: usize) -> Result {
        // SAFETY: So many bytes may be written: type invariant. The user's address is checked.
        to_result(unsafe {
            bindings::rdma_helper_copy_struct_from_user(self.to, self.len, from.0, len)
        })
    }
}

/// An attribute of a call that is present: a number, or bytes of the user's.
///
/// # Invariants
///
/// It is an attribute of `of`, which therefore is a field of a `struct bundle_priv`.
pub(super) struct PtrAttr<'a> {
    /// The number, or the user's address.
    pub(super) data: u64,
    /// Bytes of it.
    pub(super) len: u16,
    /// Which of the user's attributes it is.
    index: u16,
    of: &'a Bundle,
}

impl<'a> PtrAttr<'a> {
    /// The attribute of a bit ([`super::attrs::place`]), if the user sent it.
    pub(super) fn of(bundle: &'a Bundle, bit: usize) -> Option<Self> {
        if !bundle.attr_present().has(bit) {
            return None;
        }
        // SAFETY: `ib_uverbs` has filled the attributes that are marked as present, and the array
        // has as many elements as marks may be set. It does not change while the method runs.
        unsafe {
            let attr = &raw const (*(*bundle.raw()).attrs.as_ptr().add(bit)).__bindgen_anon_1;
            let attr = &raw const (*attr).ptr_attr;
            // INVARIANT: It is present.
            Some(Self {
                data: ptr::read((&raw const (*attr).__bindgen_anon_1.data).cast()),
                len: ptr::read(&raw const (*attr).len),
                index: ptr::read(&raw const (*attr).uattr_idx),
                of: bundle,
            })
        }
    }

    /// The number as a user's address.
    pub(super) fn addr(&self) -> UserAddr {
        // CAST: A user's address, which is checked where it is used.
        UserAddr(ptr::without_provenance_mut(self.data as usize))
    }

    /// Marks the attribute as answered, in the user's memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn set_answered(&self) -> Result {
        let private = private_of(self.of);
        let index = usize::from(self.index);
        // CAST: a small flag.
        let mark = bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
        // SAFETY: The call has a private part (type invariant) with as many attributes as the
        // index counts. The user's address is checked.
        to_result(unsafe {
            let flags = (*(*private).uattrs.add(index)).flags | mark;
            let to = (*private).user_attrs.wrapping_add(index);
            bindings::rdma_helper_put_user_u16(flags, &raw mut (*to).flags)
        })
    }
}

/// Where the private part of a call is, if it has one.
fn private_of(bundle: &Bundle) -> *mut private::bundle_priv {
    bundle
        .raw()
        .wrapping_byte_sub(offset_of!(private::bundle_priv, bundle))
        .cast()
}

rdma::c_struct! {
    /// What `ib_uverbs` keeps of a call by `ioctl`. To be held against `struct bundle_priv` in
    /// `rdma_core.h`.
    pub(super) struct PrivateCall: private::bundle_priv;
    fields {
        /// Bytes of the internal buffer, all of them.
        cell internal_avail: usize;
        /// Bytes of it that are given away.
        cell internal_used: usize, set_internal_used;
        /// Memory to be freed when the call ends, a chain.
        cell allocated_mem: Passed<private::bundle_alloc_head>, set_allocated_mem;
        /// Objects that are made, by attribute: an abort has them destroyed by their type.
        cell made at uobj_hw_obj_valid: Present, set_made;
    }
}

// SAFETY: One thread handles a call; `Opaque` is not `Sync`.
unsafe impl OfCall for PrivateCall {}

/// A call by `ioctl` that runs.
pub(super) struct IoctlCall<'a>(pub(super) &'a PrivateCall);

// SAFETY: `uverbs_ioctl.h`: such functions get the call that runs, which came by `ioctl` and
// therefore is a field of a `struct bundle_priv`.
unsafe impl FromC for IoctlCall<'_> {
    type C = *mut bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A call by `ioctl`: contract of this function.
        Self(unsafe { View::view(private_of(View::view(c))) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for IoctlCall<'a> {}

/// As [`IoctlCall`], declared `const`.
pub(super) struct ConstIoctlCall<'a>(pub(super) IoctlCall<'a>);

// SAFETY: See `IoctlCall`; C declares the part that is shared with drivers `const`, not the rest.
unsafe impl FromC for ConstIoctlCall<'_> {
    type C = *const bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: See `IoctlCall`.
        Self(unsafe { IoctlCall::from_c(c.cast_mut()) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for ConstIoctlCall<'a> {}

/// Memory that is freed when its call ends.
pub(super) struct CallMemory(*mut c_void);

impl AnswerOk for CallMemory {
    type C = *mut c_void;

    fn ok(self) -> Self::C {
        self.0
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

impl PrivateCall {
    /// Takes the bytes from `used` on of the internal buffer, and lets others begin at `next`;
    /// none if it has not so many left.
    pub(super) fn take(
        &self,
        size: usize,
        flags: bindings::gfp_t,
        next: usize,
    ) -> Option<CallMemory> {
        let used = self.internal_used();
        let end = used.checked_add(size)?;
        if end > self.internal_avail() || next < end {
            return None;
        }
        self.set_internal_used(next);
        // SAFETY: The buffer has `internal_avail` bytes, and those from `used` to `end` are not
        // given away yet.
        let at = unsafe { (&raw mut (*self.raw()).internal_buffer).byte_add(used) };
        // SAFETY: The bytes are the call's own; the helper has no requirements.
        unsafe {
            if bindings::rdma_helper_want_init_on_alloc(flags) {
                at.cast::<u8>().write_bytes(0, size);
            }
        }
        Some(CallMemory(at.cast()))
    }

    /// Allocates memory, which `ib_uverbs` frees at the end of the call. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(&self, size: usize, flags: bindings::gfp_t) -> Result<CallMemory> {
        let header = size_of::<private::bundle_alloc_head>();
        let whole = size.checked_add(header).ok_or(ENOMEM)?;
        // SAFETY: No preconditions.
        let made = unsafe { bindings::rdma_helper_kvmalloc(whole, flags) };
        let head: NonNull<private::bundle_alloc_head> = NonNull::new(made.cast()).ok_or(ENOMEM)?;
        let before = self.allocated_mem().into_c();
        // SAFETY: The memory begins with a head, and is nobody else's.
        unsafe { (*head.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next = before };
        // SAFETY: The pointer is not followed here.
        self.set_allocated_mem(unsafe { Passed::from_c(head.as_ptr()) });
        Ok(CallMemory(made.wrapping_byte_add(header)))
    }
}

/// A number that is taken if the user sent none; null in C, if the attribute is required.
pub(super) struct Fallback<T>(pub(super) Option<T>);

// SAFETY: It is read at once.
unsafe impl<T: Copy> FromC for Fallback<T> {
    type C = *mut T;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null or a number of the caller's: contract of this function.
        Self(NonNull::new(c).map(|c| unsafe { c.read() }))
    }
}

// SAFETY: The value is a copy.
unsafe impl<T: Copy> Within<'_> for Fallback<T> {}

/// Reads the descriptor of memory in an attribute to where C wants it. May sleep.
///
/// # Safety
///
/// The call runs; `desc` may be written.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_get_buffer_desc(
    attrs_bundle: *const bindings::uverbs_attr_bundle,
    attr_id: u16,
    desc: *mut bindings::ib_uverbs_buffer_desc,
) -> c_int {
    let size = size_of::<bindings::ib_uverbs_buffer_desc>();
    // SAFETY: The call runs, and `desc` has that size: contract of this function.
    let got = unsafe {
        bindings::rdma_helper_uverbs_copy_from(desc.cast(), attrs_bundle, attr_id.into(), size)
    };
    if got != 0 {
        return got;
    }
    // SAFETY: `desc` may be written, and was: contract of this function.
    unsafe {
        // No flags of either kind are known (`IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK`).
        if (*desc).flags != 0 {
            return EINVAL.to_errno();
        }
        (*desc).optional_flags = 0;
    }
    0
}

/// See [`super::attrs::copy_to`].
///
/// # Safety
///
/// The call runs; `from` has `size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to(
    bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Contract of this function. INVARIANT (of `Source`): likewise.
    let (bundle, source) = unsafe { (Bundle::view(bundle.cast_mut()), source(from, size)) };
    super::attrs::copy_to(bundle, idx, source).answer()
}

/// See [`super::attrs::copy_to_or_zero`].
///
/// # Safety
///
/// The call runs; `from` has `size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to_struct_or_zero(
    bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Contract of this function. INVARIANT (of `Source`): likewise.
    let (bundle, source) = unsafe { (Bundle::view(bundle.cast_mut()), source(from, size)) };
    super::attrs::copy_to_or_zero(bundle, idx, source).answer()
}

/// See [`super::udata::copy_in`].
///
/// # Safety
///
/// `udata` is the driver's part of a call that runs; `req` has room for `kernel_size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_in(
    udata: *mut bindings::ib_udata,
    req: *mut c_void,
    kernel_size: usize,
    minimum_size: usize,
) -> c_int {
    // INVARIANT: Contract of this function.
    let room = Room {
        to: req,
        len: kernel_size,
        _bytes: PhantomData,
    };
    // SAFETY: The call runs: contract of this function.
    super::udata::copy_in(unsafe { View::view(udata) }, room, minimum_size).answer()
}

/// See [`super::udata::respond`].
///
/// # Safety
///
/// `udata` is the driver's part of a call that runs; `src` has `len` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_respond_udata(
    udata: *mut bindings::ib_udata,
    src: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: The call runs: contract of this function. INVARIANT (of `Source`): likewise.
    let (udata, source) = unsafe { (View::view(udata), source(src, len)) };
    super::udata::respond(udata, source).answer()
}

/// # Safety
///
/// For `'a`, there are `len` bytes at `from`.
unsafe fn source<'a>(from: *const c_void, len: usize) -> Source<'a> {
    // INVARIANT: Contract of this function.
    Source {
        from,
        len,
        _bytes: PhantomData,
    }
}

rdma::exported!(
    _ib_copy_validate_udata_in,
    _ib_respond_udata,
    uverbs_copy_to,
    uverbs_copy_to_struct_or_zero,
    uverbs_get_buffer_desc,
);

/// Empties the driver's part of a call, for what the driver is asked to undo.
pub(super) fn clear_udata(call: ClearedCall<'_>) -> *mut bindings::ib_udata {
    let udata = call.0.driver_udata().raw();
    // SAFETY: Nobody else uses the call's attributes: `ClearedCall`.
    unsafe { udata.write(bindings::ib_udata::default()) };
    udata
}

/// A call whose attributes nobody else uses.
pub(super) struct ClearedCall<'a>(&'a Bundle);

// SAFETY: `rdma_core.h`: `uverbs_get_cleared_udata` is called by the thread that handles the call.
unsafe impl FromC for ClearedCall<'_> {
    type C = *mut bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A call that runs: contract of this function.
        Self(unsafe { View::view(c) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for ClearedCall<'a> {}

/// The character device of an open file.
fn device_of(file: &UFile) -> *mut private::ib_uverbs_device {
    // One structure, declared in two sets of bindings.
    file.device().into_c().cast()
}

/// Whether the device of an open file is still there. The caller holds `disassociate_srcu`.
pub(super) fn has_device(file: &UFile) -> bool {
    let device = device_of(file);
    // SAFETY: A file has its character device as long as it is open (`uverbs.h`).
    let ib_dev = unsafe {
        bindings::rdma_helper_srcu_dereference(
            (&raw mut (*device).ib_dev).cast(),
            &raw mut (*device).disassociate_srcu,
        )
    };
    !ib_dev.is_null()
}

/// Lets lockdep check that the device of an open file cannot go.
pub(super) fn assert_device_held(file: &UFile) {
    let device = device_of(file);
    // SAFETY: A file has its character device as long as it is open (`uverbs.h`).
    unsafe { bindings::rdma_helper_srcu_assert_held(&raw mut (*device).disassociate_srcu) };
}

/// A count of an entry. The last one ends the entry, for which it may sleep.
///
/// # Invariants
///
/// `0` is an entry of which one count is ours, and whose context exists.
pub(super) struct EntryRef(NonNull<MmapEntry>);

impl EntryRef {
    /// Counts an entry that is found in a context, unless its last count is gone.
    pub(super) fn of_found(entry: &MmapEntry) -> Option<Self> {
        use rdma::sync::IncNotZero;
        // INVARIANT: Just counted.
        entry
            .refs()
            .inc_not_zero()
            .then(|| Self(NonNull::from(entry)))
    }

    /// Counts an entry that the caller holds a count of.
    pub(super) fn another(entry: &MmapEntry) -> Self {
        entry.refs().inc();
        // INVARIANT: Just counted.
        Self(NonNull::from(entry))
    }

    /// The count is C's from now on.
    fn into_raw(self) -> *mut bindings::rdma_user_mmap_entry {
        core::mem::ManuallyDrop::new(self).raw()
    }
}

impl core::ops::Deref for EntryRef {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: The entry exists while it is counted: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        if self.refs().dec_and_test() {
            super::mmap::end(DeadEntry(self.0));
        }
    }
}

// SAFETY: `ib_verbs.h`: the caller gives up a count.
unsafe impl FromC for EntryRef {
    type C = *mut bindings::rdma_user_mmap_entry;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An entry: contract of this function. INVARIANT: A count of it is given to us.
        Self(NonNull::from(unsafe { MmapEntry::view(c) }))
    }
}

// SAFETY: The type has no lifetime: the count keeps the entry.
unsafe impl Within<'_> for EntryRef {}

/// A count of an entry, or null.
pub(super) struct MaybeEntry(pub(super) Option<EntryRef>);

// SAFETY: See `EntryRef`.
unsafe impl FromC for MaybeEntry {
    type C = *mut bindings::rdma_user_mmap_entry;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null or what `EntryRef` says: contract of this function.
        Self((!c.is_null()).then(|| unsafe { EntryRef::from_c(c) }))
    }
}

// SAFETY: See `EntryRef`.
unsafe impl Within<'_> for MaybeEntry {}

impl Answer for MaybeEntry {
    type C = *mut bindings::rdma_user_mmap_entry;

    fn answer(self) -> Self::C {
        self.0.map_or(ptr::null_mut(), EntryRef::into_raw)
    }
}

/// An entry whose last count is gone.
///
/// # Invariants
///
/// Nobody has the entry any more but those who find it in its context, and cannot count it.
pub(super) struct DeadEntry(NonNull<MmapEntry>);

impl core::ops::Deref for DeadEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: Only `free` ends it, which takes this by value.
        unsafe { self.0.as_ref() }
    }
}

impl DeadEntry {
    /// Gives the entry, which cannot be found any more, to its driver. May sleep.
    pub(super) fn free(self) {
        let device = self.ucontext().and_then(crate::edge::uverbs::device);
        if let Some(free) = device.and_then(|device| device.ops().mmap_free) {
            // SAFETY: The method is of the entry's driver; nobody has the entry: type invariant.
            unsafe { free(self.0.cast().as_ptr()) };
        }
    }
}

/// An entry that a driver wants to insert.
///
/// # Invariants
///
/// The driver made it, nobody else has it, and it stays until its last count is gone: `end` takes it
/// out before.
pub(super) struct NewEntry(NonNull<MmapEntry>);

// SAFETY: `ib_verbs.h`: drivers insert an entry of their own once.
unsafe impl FromC for NewEntry {
    type C = *mut bindings::rdma_user_mmap_entry;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An entry: contract of this function.
        Self(NonNull::from(unsafe { MmapEntry::view(c) }))
    }
}

// SAFETY: The type has no lifetime: see its invariant.
unsafe impl Within<'_> for NewEntry {}

/// An entry that a driver wants to insert, or null.
pub(super) struct MaybeNewEntry(pub(super) Option<NewEntry>);

// SAFETY: See `NewEntry`.
unsafe impl FromC for MaybeNewEntry {
    type C = *mut bindings::rdma_user_mmap_entry;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null or what `NewEntry` says: contract of this function.
        Self((!c.is_null()).then(|| unsafe { NewEntry::from_c(c) }))
    }
}

// SAFETY: See `NewEntry`.
unsafe impl Within<'_> for MaybeNewEntry {}

impl NewEntry {
    /// Initialises the entry: one count, the driver's.
    pub(super) fn set_up(&mut self, context: &UContext, pages: u32) {
        let entry: *mut bindings::rdma_user_mmap_entry = self.0.cast().as_ptr();
        // SAFETY: Nobody else has the entry: type invariant. CAST: From 32 bits.
        unsafe {
            bindings::INIT_LIST_HEAD(&raw mut (*entry).dmabufs);
            bindings::rdma_helper_mmap_entry_init_mutex(entry);
            (*entry).ucontext = context.raw();
            (*entry).npages = pages as usize;
        }
        self.refs().set(1);
    }
}

impl core::ops::Deref for NewEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: The driver's entry is there: type invariant.
        unsafe { self.0.as_ref() }
    }
}

// SAFETY: It stays until its last count is gone, and is taken out then: type invariant.
unsafe impl Lasting<MmapEntry> for NewEntry {
    fn object(&self) -> &MmapEntry {
        self
    }
}

rdma::c_struct! {
    /// A DMA-buf that was made of an entry (`struct ib_uverbs_dmabuf_file`).
    pub(super) struct Dmabuf: private::ib_uverbs_dmabuf_file;
    fields {
        /// The buffer's own count, and one of each mapping.
        embed refs at kref.refcount: Refcount;
        /// Completed by the last count.
        embed comp: Completion;
    }
}

/// The first of the buffers that were made of an entry, whose `dmabufs_lock` is held.
pub(super) fn first_dmabuf<'a>(
    entry: &MmapEntry,
    _held: &'a Guard<'_, (), MutexBackend>,
) -> Option<&'a Dmabuf> {
    const PLACE: usize = offset_of!(private::ib_uverbs_dmabuf_file, dmabufs_elm);
    // SAFETY: The list is changed under the lock only, which is held (`rdma_user_mmap_entry`). A
    // buffer stays in it until it is revoked or freed, both under the lock.
    unsafe {
        let list = &raw mut (*entry.raw()).dmabufs;
        let first = (*list).next;
        (first != list).then(|| Dmabuf::view(first.wrapping_byte_sub(PLACE).cast()))
    }
}

impl Dmabuf {
    /// Revokes a buffer of the list: no mapping of it is left. May sleep.
    pub(super) fn revoke(&self, _held: &Guard<'_, (), MutexBackend>) {
        let file = self.raw();
        // SAFETY: A buffer in the list has a `struct dma_buf` with a reservation lock, which guards
        // `revoked`; the list is guarded by the lock that is held.
        unsafe {
            let buffer = (*file).dmabuf;
            let resv = (*buffer).resv;
            bindings::dma_resv_lock(resv, ptr::null_mut());
            bindings::rdma_helper_list_del(&raw mut (*file).dmabufs_elm);
            (*file).set_revoked(1);
            bindings::dma_buf_invalidate_mappings(buffer);
            bindings::dma_resv_wait_timeout(
                resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
                false,
                c_long::MAX as c_ulong,
            );
            bindings::dma_resv_unlock(resv);
        }
        // Each mapping holds a count; the last to go completes it.
        if self.refs().dec_and_test() {
            self.comp().complete();
        }
        self.comp().wait();
    }
}

rdma::c_struct! {
    /// A mapping that is being made (`struct vm_area_struct`), under the `mmap_lock`.
    pub(super) struct VmArea: bindings::vm_area_struct;
    fields {
        /// The first address.
        cell start at __bindgen_anon_1.__bindgen_anon_1.vm_start: usize;
        /// The address after the last one.
        cell end at __bindgen_anon_1.__bindgen_anon_1.vm_end: usize;
        /// `VM_*`.
        cell flags at __bindgen_anon_2.vm_flags: usize;
        /// The offset in the file, in pages.
        cell pgoff at vm_pgoff: usize;
    }
}

// SAFETY: The `mmap_lock` is held for writing while a mapping is made; `Opaque` is not `Sync`.
unsafe impl OfCall for VmArea {}

/// Protection of pages.
#[derive(Clone, Copy)]
pub(super) struct Prot(bindings::pgprot_t);

// SAFETY: All values are.
unsafe impl FromC for Prot {
    type C = bindings::pgprot_t;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

// SAFETY: There are no references.
unsafe impl Within<'_> for Prot {}

impl VmArea {
    /// Bytes of the mapping.
    pub(super) fn len(&self) -> usize {
        self.end().wrapping_sub(self.start())
    }

    /// Whether others see what is written to it.
    pub(super) fn is_shared(&self) -> bool {
        self.flags() & bindings::VM_SHARED != 0
    }

    /// Whether it is one of an open file of `ib_uverbs`.
    pub(super) fn is_of(&self, file: &UFile) -> bool {
        // SAFETY: A mapping holds its file, if it has one; `private_data` is set when that is
        // opened, and only compared.
        unsafe {
            let of = (*self.raw()).vm_file;
            !of.is_null() && (*of).private_data == file.raw().cast()
        }
    }

    /// Maps `size` bytes of a device's from a page number on. May sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if that fails.
    pub(super) fn map(&self, pfn: usize, size: usize, prot: Prot) -> Result {
        // SAFETY: The `mmap_lock` is held (`OfCall`). What a driver may map is its own business:
        // `rdma_user_mmap_io` is its means for that.
        let failed = unsafe {
            (*self.raw()).vm_page_prot = prot.0;
            bindings::rdma_helper_io_remap_pfn_range(self.raw(), self.start(), pfn, size, prot.0)
        };
        (failed == 0).then_some(()).ok_or(EAGAIN)
    }
}

/// What is noted of a mapping in its file: memory that lives as long as the mapping.
///
/// # Invariants
///
/// `0` is zeroed memory that is the mapping's from [`attach`](Self::attach) on.
pub(super) struct Note(NonNull<private::rdma_umap_priv>);

// SAFETY: `rdma_umap_priv_init` gets zeroed memory that lives as long as the mapping (`core_priv.h`).
unsafe impl FromC for Note {
    type C = *mut private::rdma_umap_priv;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Memory, so not null: contract of this function.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

// SAFETY: The type has no lifetime: the memory is given to the mapping.
unsafe impl Within<'_> for Note {}

impl Note {
    /// Attaches the note to a mapping, with a count of its entry, and lists it in the file, whose
    /// `umap_lock` is held. `ib_uverbs` detaches and frees it with the mapping.
    fn attach(
        self,
        vma: &VmArea,
        entry: Option<EntryRef>,
        file: &UFile,
        _held: &Guard<'_, (), MutexBackend>,
    ) {
        let note = self.0.as_ptr();
        // SAFETY: The memory is ours until here, and lives as long as the mapping: type invariant.
        // The list is changed under the lock only, which is held.
        unsafe {
            (*note).vma = vma.raw();
            (*note).entry = MaybeEntry(entry).answer();
            (*vma.raw()).vm_private_data = note.cast();
            bindings::list_add_tail(&raw mut (*note).list, &raw mut (*file.raw()).umaps);
        }
    }

    /// As [`attach`](Self::attach); takes the lock. May sleep.
    pub(super) fn list(self, vma: &VmArea, entry: Option<EntryRef>, file: &UFile) {
        let held = file.umap_lock().lock();
        self.attach(vma, entry, file, &held);
    }
}

/// Memory for a [`Note`] that is not attached yet.
pub(super) struct FreshNote(KBox<private::rdma_umap_priv>);

impl FreshNote {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(KBox::new(
            private::rdma_umap_priv::default(),
            GFP_KERNEL,
        )?))
    }

    /// To be attached: `ib_uverbs` frees it.
    pub(super) fn note(self) -> Note {
        // INVARIANT: Zeroed memory of kmalloc.
        Note(NonNull::from(KBox::leak(self.0)))
    }
}

/// A mapping that C makes, of an open file of `ib_uverbs`.
pub(super) struct MappingOf<'a> {
    /// The mapping.
    pub(super) vma: &'a VmArea,
    /// The file.
    pub(super) file: &'a UFile,
}

// SAFETY: `core_priv.h`: `rdma_umap_priv_init` gets mappings of files of `ib_uverbs`.
unsafe impl FromC for MappingOf<'_> {
    type C = *mut bindings::vm_area_struct;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Such a mapping, whose file's private data is the open file: contract of this
        // function.
        unsafe {
            Self {
                vma: View::view(c),
                file: View::view((*(*c).vm_file).private_data.cast()),
            }
        }
    }
}

// SAFETY: The references are of `'a`.
unsafe impl<'a> Within<'a> for MappingOf<'a> {}
