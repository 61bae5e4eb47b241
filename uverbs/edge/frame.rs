// SPDX-License-Identifier: GPL-2.0

//! The memory of an ioctl call (`struct bundle_priv`): its attributes, what they refer to, and what
//! is to be given back at its end.
//!
//! ```text
//!   [Head | bundle_priv: ... bundle header | internal buffer: attributes, then free memory ]
//! ```
//!
//! `ib_core` (C's or ours) looks into C's part: it takes memory from the internal buffer, whose
//! length is in `internal_avail`, and marks complete objects. [`Head`] is ours alone: of which kind
//! each attribute is.

use super::call::Call;
use super::device::Associated;
use super::user::Address;
use crate::api::Method;
use crate::private;
use crate::proto::definitions::ANY_OBJECT;
use crate::proto::ioctl::Attribute;
use crate::proto::ioctl::ATTRIBUTE;
use crate::proto::key::Bit;
use crate::proto::spec::Access;
use crate::proto::spec::Spec;
use core::cell::Cell;
use core::mem::offset_of;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Present;
use rdma::edge::uverbs::UFile;
use rdma::edge::IntoC;
use rdma::edge::View;

/// Words of the internal buffer that are on the stack. C's has 32.
const WORDS: usize = 96;
/// Size of these words, in bytes.
const ROOM: usize = WORDS * size_of::<u64>();
/// Words of C's internal buffer.
const C_WORDS: usize = size_of::<Internal>() / size_of::<u64>();
type Internal = [u64; 32];

/// What is known of the attributes, beside C's part.
pub(crate) struct Head {
    /// Attributes of one handle.
    handles: Cell<u64>,
    /// Those of them that the call has alone.
    alone: Cell<u64>,
    /// Attributes of several handles.
    arrays: Cell<u64>,
    /// Attributes whose bytes were copied.
    copied: Cell<u64>,
    /// Attributes of a handle that the method makes, and has not taken yet.
    fresh: Cell<u64>,
    /// Number of elements of the program's array that were copied to `uattrs`.
    count: Cell<u16>,
}

/// The memory of a call.
#[repr(C)]
struct Memory {
    head: Head,
    c: private::bundle_priv,
    more: [u64; WORDS - C_WORDS],
}

impl Head {
    /// Returns the head of an ioctl call that is running.
    ///
    /// # Safety
    ///
    /// [`run`] has made the call, which exists for `'a`.
    pub(super) unsafe fn of<'a>(call: *mut bindings::uverbs_attr_bundle) -> &'a Self {
        const BACK: usize = offset_of!(Memory, c) + offset_of!(private::bundle_priv, bundle);
        // SAFETY: The call is part of a `Memory` (this function's contract), whose head is
        // initialised. Its fields are cells.
        unsafe { &(*call.byte_sub(BACK).cast::<Memory>()).head }
    }

    fn private(call: &Call) -> *mut private::bundle_priv {
        call.raw()
            .wrapping_byte_sub(offset_of!(private::bundle_priv, bundle))
            .cast()
    }

    /// Whether an attribute is of one handle.
    pub(super) fn is_handle(&self, bit: Bit) -> bool {
        self.handles.get() & bit.mask() != 0
    }

    /// Whether an attribute is of a handle that the call has alone ([`Access::Write`]).
    pub(super) fn is_alone(&self, bit: Bit) -> bool {
        self.alone.get() & bit.mask() != 0
    }

    /// Whether an attribute is of several handles.
    pub(super) fn is_array(&self, bit: Bit) -> bool {
        self.arrays.get() & bit.mask() != 0
    }

    /// Whether an attribute is of handles.
    pub(super) fn is_object(&self, bit: Bit) -> bool {
        self.is_handle(bit) || self.is_array(bit)
    }

    /// Whether the bytes of an attribute that are not inline were copied.
    pub(super) fn is_copied(&self, bit: Bit) -> bool {
        self.copied.get() & bit.mask() != 0
    }

    /// Takes the handle that the method makes; `false` if it was taken, or there is none.
    pub(super) fn take_new(&self, bit: Bit) -> bool {
        let fresh = self.fresh.get();
        self.fresh.set(fresh & !bit.mask());
        fresh & bit.mask() != 0
    }

    /// Address of the data of an attribute in the program's array.
    pub(super) fn data_at(&self, call: &Call, index: u16) -> Address {
        let c = Self::private(call);
        // SAFETY: The call is one of [`run`]; only an address is computed.
        unsafe {
            let attribute = (*c).user_attrs.wrapping_add(index.into());
            Address::of(&raw const (*attribute).__bindgen_anon_1)
        }
    }

    /// Tells the program that the attribute in its array at `index` was written.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL`: the array has no such element.
    pub(super) fn set_written(&self, call: &Call, index: u16) -> Result {
        if index >= self.count.get() {
            return Err(EINVAL);
        }
        let c = Self::private(call);
        // CAST: The flag has 16 bits.
        let mark = bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
        // SAFETY: The call is one of [`run`], and `uattrs` has `count` elements (`copy_attributes`);
        // the function checks the program's address.
        to_result(unsafe {
            let flags = (*(*c).uattrs.add(index.into())).flags | mark;
            let to = (*c).user_attrs.wrapping_add(index.into());
            bindings::rdma_helper_put_user_u16(flags, &raw mut (*to).flags)
        })
    }
}

/// An ioctl call whose attributes are being filled in.
///
/// # Invariants
///
/// `c` is the C part of a [`Memory`] that is initialised, of a call of `method`. The places of the
/// attributes in `kept` are initialised: those that the head calls handles or arrays with what was
/// looked up with the access of their specification, all others with bytes.
pub(crate) struct Frame<'a> {
    c: *mut private::bundle_priv,
    method: &'a Method,
    kept: u64,
    /// The handle that was destroyed, which the end only puts.
    destroyed: Option<Bit>,
}

/// Runs `fill` with the memory of a call of `method`, whose attributes a program has at `from`, and
/// ends the call: objects that it made are committed if `fill` succeeds. The call is in `section`.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL`: the section is of another device than the file; those of `fill`.
pub(crate) fn run(
    section: &Associated<'_>,
    method: &Method,
    file: &UFile,
    from: Address,
    fill: impl FnOnce(&mut Frame<'_>) -> Result,
) -> Result {
    if !section.is_of(file) {
        return Err(EINVAL);
    }
    let mut stack = MaybeUninit::<Memory>::uninit();
    let mut heap = KVec::<u64>::new();
    let attributes = usize::from(method.bits()).saturating_mul(size_of::<bindings::uverbs_attr>());
    let (place, words) = if attributes <= const { ROOM / 2 } {
        (stack.as_mut_ptr(), WORDS)
    } else {
        // OVERFLOW: The size of a word is not zero; the same below.
        let words = (attributes / size_of::<u64>()).saturating_add(C_WORDS);
        let all = (size_of::<Memory>() / size_of::<u64>()).saturating_add(words);
        heap.reserve(all, GFP_KERNEL)?;
        (heap.as_mut_ptr().cast(), words)
    };
    // SAFETY: The memory is ours alone, and has room for the structure and, in its internal buffer,
    // for so many words.
    let c = unsafe {
        (&raw mut (*place).head).write(Head {
            handles: Cell::new(0),
            alone: Cell::new(0),
            arrays: Cell::new(0),
            copied: Cell::new(0),
            fresh: Cell::new(0),
            count: Cell::new(0),
        });
        let c = &raw mut (*place).c;
        // All but the internal buffer, field by field: a call of `memset` takes longer.
        (&raw mut (*c).alloc_head).write(Default::default());
        (*c).allocated_mem = ptr::null_mut();
        (*c).internal_avail = words.saturating_mul(size_of::<u64>());
        (*c).internal_used = attributes;
        (*c).radix = ptr::null_mut();
        (*c).radix_slots = ptr::null_mut();
        (*c).radix_slots_len = 0;
        (*c).method_key = 0;
        (*c).user_attrs = from.raw();
        (*c).uattrs = ptr::null_mut();
        (*c).uobj_finalize = [0];
        (*c).spec_finalize = [0];
        (*c).uobj_hw_obj_valid = [0];
        let none = (Address::NULL, 0);
        (&raw mut (*c).bundle).write(
            bindings::uverbs_attr_bundle__bindgen_ty_1_uverbs_attr_bundle_hdr {
                driver_udata: udata(none, none),
                ucore: udata(none, none),
                ufile: file.raw(),
                context: ptr::null_mut(),
                uobject: ptr::null_mut(),
                method_elm: method.raw().cast(),
                attr_present: [0],
            },
        );
        c
    };
    // INVARIANT: The memory was initialised above, and nothing is kept yet.
    let mut frame = Frame {
        c,
        method,
        kept: 0,
        destroyed: None,
    };
    let result = fill(&mut frame);
    frame.end(result.is_ok());
    result
}

/// The part of a call that drivers know.
fn bundle_of(c: *mut private::bundle_priv) -> *mut bindings::uverbs_attr_bundle {
    c.wrapping_byte_add(offset_of!(private::bundle_priv, bundle))
        .cast()
}

impl Frame<'_> {
    /// The call.
    pub(crate) fn call(&self) -> &Call {
        // SAFETY: The call is initialised (type invariant), and this task's.
        unsafe { Call::view(bundle_of(self.c)) }
    }

    fn head(&self) -> &Head {
        // SAFETY: The call is part of a `Memory` that is initialised: type invariant.
        unsafe { Head::of(bundle_of(self.c)) }
    }

    fn mark(cell: &Cell<u64>, bit: Bit) {
        cell.set(cell.get() | bit.mask());
    }

    /// The place of an attribute, which is valid for the attributes of the method only.
    fn place(&self, bit: Bit) -> *mut bindings::uverbs_attr {
        // SAFETY: The call is part of a `Memory`: type invariant. Only an address is computed.
        unsafe { (&raw mut (*bundle_of(self.c)).attrs).cast::<bindings::uverbs_attr>() }
            .wrapping_add(bit.get().into())
    }

    /// The place of an attribute of the method that was not kept yet. The internal buffer begins
    /// with the places, and has room for all of them ([`run`]).
    ///
    /// # Errors
    ///
    /// `EINVAL`: it was kept, or is none of the method's.
    fn vacant(&self, bit: Bit) -> Result<*mut bindings::uverbs_attr> {
        let vacant = bit.get() < self.method.bits() && self.kept & bit.mask() == 0;
        vacant.then_some(self.place(bit)).ok_or(EINVAL)
    }

    /// Copies the attributes of the program.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT`.
    pub(crate) fn copy_attributes(&mut self, count: u16) -> Result {
        let len = usize::from(count).saturating_mul(ATTRIBUTE);
        const _: () = assert!(size_of::<bindings::ib_uverbs_attr>() == ATTRIBUTE);
        let to = self.alloc(len)?;
        // CAST: 2.
        let words =
            u32::from(count).saturating_mul(const { (ATTRIBUTE / size_of::<u64>()) as u32 });
        // SAFETY: `to` has `len` bytes, which are so many words; the function checks the program's
        // address.
        unsafe {
            let from = (*self.c).user_attrs;
            if !bindings::rdma_helper_get_words(to.cast(), from.cast(), words) {
                return Err(EFAULT);
            }
            (*self.c).uattrs = to.cast();
        }
        self.head().count.set(count);
        Ok(())
    }

    /// An attribute of the program.
    ///
    /// # Errors
    ///
    /// `EINVAL`: fewer were copied.
    pub(crate) fn attribute(&self, index: u16) -> Result<Attribute> {
        if index >= self.head().count.get() {
            return Err(EINVAL);
        }
        // SAFETY: `uattrs` has `count` elements (`copy_attributes`).
        Ok(Attribute::parse(unsafe {
            (*self.c)
                .uattrs
                .add(index.into())
                .cast::<[u8; ATTRIBUTE]>()
                .read()
        }))
    }

    /// Memory that is freed at the end of the call.
    fn alloc(&self, len: usize) -> Result<*mut c_void> {
        // SAFETY: The call is part of a `Memory` that is initialised: type invariant.
        unsafe {
            from_err_ptr(bindings::_uverbs_alloc(
                bundle_of(self.c),
                len,
                bindings::GFP_KERNEL,
            ))
        }
    }

    /// Sets which attributes were given: a word of their bits. Those that were not kept are not.
    pub(crate) fn set_present(&mut self, bits: u64) {
        let present = Present::of_bits(bits & self.kept);
        // SAFETY: The field is part of the call, which only this task uses; the places of these
        // attributes are initialised (type invariant).
        unsafe {
            (*bundle_of(self.c))
                .__bindgen_anon_1
                .__bindgen_anon_1
                .attr_present = present.into_c();
        }
    }

    /// Keeps the bytes of an attribute, and copies those that are not inline if `copy` says so.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT`; those of [`vacant`](Self::vacant).
    pub(crate) fn keep_bytes(
        &mut self,
        bit: Bit,
        index: u16,
        attribute: &Attribute,
        choice: u8,
        copy: bool,
    ) -> Result {
        let place = self.vacant(bit)?;
        let value = bindings::uverbs_ptr_attr {
            len: attribute.len,
            uattr_idx: index,
            enum_id: choice,
            ..Default::default()
        };
        let mut data = u64::from_ne_bytes(attribute.data);
        if copy {
            let len = usize::from(attribute.len);
            let to = self.alloc(len)?;
            let from = Address::new(attribute.address());
            // SAFETY: `to` has `len` bytes; the function checks the program's address.
            if unsafe { bindings::copy_from_user(to, from.raw::<c_void>(), len) } != 0 {
                return Err(EFAULT);
            }
            // CAST: An address.
            data = to.expose_provenance() as u64;
            Self::mark(&self.head().copied, bit);
        }
        // SAFETY: The place is within the internal buffer (`vacant`), which only this task uses.
        unsafe {
            let to =
                (&raw mut (*place).__bindgen_anon_1.ptr_attr).cast::<bindings::uverbs_ptr_attr>();
            to.write(value);
            (&raw mut (*to).__bindgen_anon_1.data)
                .cast::<u64>()
                .write(data);
        }
        // INVARIANT: Bytes were written.
        self.kept |= bit.mask();
        Ok(())
    }

    /// Keeps a number.
    ///
    /// # Errors
    ///
    /// Those of [`vacant`](Self::vacant).
    pub(crate) fn keep_number(&mut self, bit: Bit, index: u16, number: i64) -> Result {
        let place = self.vacant(bit)?;
        let value = bindings::uverbs_ptr_attr {
            uattr_idx: index,
            len: 0,
            ..Default::default()
        };
        // SAFETY: As in `keep_bytes`.
        unsafe {
            let to =
                (&raw mut (*place).__bindgen_anon_1.ptr_attr).cast::<bindings::uverbs_ptr_attr>();
            to.write(value);
            (&raw mut (*to).__bindgen_anon_1.data)
                .cast::<i64>()
                .write(number);
        }
        // INVARIANT: Bytes were written.
        self.kept |= bit.mask();
        Ok(())
    }

    fn access(access: Access) -> bindings::uverbs_obj_access {
        match access {
            Access::Read => bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
            Access::Write => bindings::uverbs_obj_access_UVERBS_ACCESS_WRITE,
            Access::New => bindings::uverbs_obj_access_UVERBS_ACCESS_NEW,
            Access::Destroy => bindings::uverbs_obj_access_UVERBS_ACCESS_DESTROY,
        }
    }

    fn look_up(
        &self,
        object: u16,
        access: Access,
        number: i64,
    ) -> Result<*mut bindings::ib_uobject> {
        let mode = match access {
            Access::Read => bindings::rdma_lookup_mode_UVERBS_LOOKUP_READ,
            Access::Write => bindings::rdma_lookup_mode_UVERBS_LOOKUP_WRITE,
            Access::Destroy => bindings::rdma_lookup_mode_UVERBS_LOOKUP_DESTROY,
            Access::New => return self.begin(object),
        };
        let (kind, call) = (self.kind(object), self.call());
        // SAFETY: The call is part of a `Memory` that is initialised: type invariant. The type is a
        // description that stays as long as the file, or an error; the function checks the number.
        unsafe {
            from_err_ptr(bindings::rdma_lookup_get_uobject(
                kind,
                call.file().raw(),
                number,
                mode,
                call.raw(),
            ))
        }
    }

    fn begin(&self, object: u16) -> Result<*mut bindings::ib_uobject> {
        let (kind, call) = (self.kind(object), self.call());
        // SAFETY: As in `look_up`.
        unsafe { from_err_ptr(bindings::rdma_alloc_begin_uobject(kind, call.raw())) }
    }

    /// The description of an object as `rdma_core.h` passes it: an error stands for any object, or
    /// one that the device does not have.
    fn kind(&self, object: u16) -> *const bindings::uverbs_api_object {
        if object == ANY_OBJECT {
            return rdma::errno::enomsg().to_ptr::<bindings::uverbs_api_object>();
        }
        match self.call().char_device().object(object.into()) {
            Some(kind) => kind.raw(),
            None => EINVAL.to_ptr::<bindings::uverbs_api_object>(),
        }
    }

    /// Looks up the handle of an attribute, or begins it and tells its number to the program.
    ///
    /// # Errors
    ///
    /// Those of the lookup and of [`vacant`](Self::vacant); `EFAULT`; `EINVAL`: the attribute has
    /// another access.
    pub(crate) fn keep_handle(
        &mut self,
        bit: Bit,
        index: u16,
        object: u16,
        access: Access,
        number: i64,
    ) -> Result {
        let place = self.vacant(bit)?;
        if self.method.spec(bit).and_then(Spec::access) != Some(access) {
            return Err(EINVAL);
        }
        let handle = self.look_up(object, access, number)?;
        // SAFETY: As in `keep_bytes`. The handle is the call's until its end.
        let id = unsafe {
            (&raw mut (*place).__bindgen_anon_1.obj_attr)
                .cast::<bindings::uverbs_obj_attr>()
                .write(bindings::uverbs_obj_attr {
                    uobject: handle,
                    attr_elm: ptr::null_mut(),
                });
            (*handle).id
        };
        // INVARIANT: A handle was written, and is marked as such here.
        self.kept |= bit.mask();
        Self::mark(&self.head().handles, bit);
        if access == Access::Write {
            Self::mark(&self.head().alone, bit);
        }
        if access == Access::New {
            if let Some(of) = self.call().char_device().api().type_of(object) {
                // SAFETY: The handle was just begun, with this type.
                unsafe { of.begun(handle) };
            }
            Self::mark(&self.head().fresh, bit);
            // CAST: With the sign, as C does.
            let id = i64::from(id) as u64;
            self.head().data_at(self.call(), index).put_u64(id)?;
        }
        Ok(())
    }

    /// Looks up the handles of an attribute.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT`; those of the lookups and of [`vacant`](Self::vacant); `EINVAL`: the
    /// attribute has another access.
    pub(crate) fn keep_handles(
        &mut self,
        bit: Bit,
        attribute: &Attribute,
        object: u16,
        access: Access,
        count: u16,
    ) -> Result {
        let place = self.vacant(bit)?;
        if self.method.spec(bit).and_then(Spec::array_access) != Some(access) {
            return Err(EINVAL);
        }
        let count = usize::from(count);
        let mut numbers = KVec::<u32>::with_capacity(count, GFP_KERNEL)?;
        numbers.resize(count, 0, GFP_KERNEL)?;
        if attribute.is_inline() {
            for (to, from) in numbers.iter_mut().zip(attribute.data.chunks_exact(4)) {
                *to = u32::from_ne_bytes(from.try_into().map_err(|_| EINVAL)?);
            }
        } else {
            Address::new(attribute.address()).read_slice(&mut numbers)?;
        }
        let handles = self
            .alloc(count.saturating_mul(size_of::<*mut bindings::ib_uobject>()))?
            .cast::<*mut bindings::ib_uobject>();
        let mut len = 0_u16;
        let mut result = Ok(());
        for number in &numbers {
            match self.look_up(object, access, i64::from(*number)) {
                Ok(handle) => {
                    // SAFETY: The allocation has room for `count` handles, one of each number.
                    unsafe { handles.add(len.into()).write(handle) };
                    len = len.wrapping_add(1);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // SAFETY: As in `keep_bytes`.
        unsafe {
            (&raw mut (*place).__bindgen_anon_1.objs_arr_attr)
                .cast::<bindings::uverbs_objs_arr_attr>()
                .write(bindings::uverbs_objs_arr_attr {
                    uobjects: handles,
                    len,
                });
        }
        // INVARIANT: An array was written, and is marked as such.
        self.kept |= bit.mask();
        Self::mark(&self.head().arrays, bit);
        result
    }

    /// Fills a driver's request and answer from two attributes.
    pub(crate) fn fill_udata(&mut self) {
        let call = self.call();
        let input = call.input_at(bindings::UVERBS_ATTR_UHW_IN);
        let output = call.output_at(bindings::UVERBS_ATTR_UHW_OUT);
        // SAFETY: The field is part of the call, which only this task uses.
        unsafe { call.udata().raw().write(udata(input, output)) };
    }

    /// Destroys the object of the handle in an attribute.
    ///
    /// # Errors
    ///
    /// Those of the type; `EINVAL`: it was not looked up to be destroyed.
    pub(crate) fn destroy(&mut self, bit: Bit) -> Result {
        let access = self.method.spec(bit).and_then(Spec::access);
        if !self.head().is_handle(bit) || access != Some(Access::Destroy) {
            return Err(EINVAL);
        }
        let handle = self.handle_at(bit);
        // SAFETY: The attribute is of a handle, which was looked up to be destroyed: type invariant.
        to_result(unsafe { private::uobj_destroy(handle, bundle_of(self.c)) })?;
        self.destroyed = Some(bit);
        Ok(())
    }

    /// The handle of an attribute that the head calls one.
    fn handle_at(&self, bit: Bit) -> *mut bindings::ib_uobject {
        let place = self.place(bit);
        // SAFETY: The attribute is of a handle (callers), and its place initialised: type invariant.
        unsafe {
            (*(&raw mut (*place).__bindgen_anon_1.obj_attr).cast::<bindings::uverbs_obj_attr>())
                .uobject
        }
    }

    /// Ends the call.
    fn end(self, commit: bool) {
        let call = bundle_of(self.c);
        let (handles, arrays) = (self.head().handles.get(), self.head().arrays.get());
        for bit in self.method.attributes() {
            if handles == 0 {
                break;
            }
            if handles & bit.mask() != 0 {
                let Some(spec) = self.method.spec(bit) else {
                    continue;
                };
                let handle = self.handle_at(bit);
                if self.destroyed == Some(bit) {
                    // SAFETY: Looked up to be destroyed, which it was.
                    unsafe {
                        bindings::rdma_lookup_put_uobject(
                            handle,
                            bindings::rdma_lookup_mode_UVERBS_LOOKUP_DESTROY,
                        );
                    }
                    continue;
                }
                let Some(access) = spec.access() else {
                    continue;
                };
                // SAFETY: The handle is in the state that `access` says.
                unsafe {
                    let made: Present = rdma::edge::FromC::from_c((*self.c).uobj_hw_obj_valid);
                    let made = made.has(bit.get().into());
                    // A method of ours that has dropped the handle has not made its object.
                    let commit =
                        commit && (made || access != Access::New || !self.method.is_ours());
                    private::uverbs_finalize_object(
                        handle,
                        Self::access(access),
                        made,
                        commit,
                        call,
                    );
                }
            }
        }
        for bit in self.method.attributes() {
            if arrays == 0 {
                break;
            }
            if arrays & bit.mask() == 0 {
                continue;
            }
            let Some(access) = self.method.spec(bit).and_then(|spec| spec.array_access()) else {
                continue;
            };
            let place = self.place(bit);
            // SAFETY: The attribute is an array of `len` handles, which were looked up so.
            unsafe {
                let array = (&raw mut (*place).__bindgen_anon_1.objs_arr_attr)
                    .cast::<bindings::uverbs_objs_arr_attr>();
                for index in 0..usize::from((*array).len) {
                    private::uverbs_finalize_object(
                        *(*array).uobjects.add(index),
                        Self::access(access),
                        false,
                        commit,
                        call,
                    );
                }
            }
        }
        // SAFETY: The list has the allocations of the call, which nobody uses any more.
        unsafe {
            let mut next = (*self.c).allocated_mem;
            while !next.is_null() {
                let block = next;
                next = (*block).__bindgen_anon_1.__bindgen_anon_1.next;
                bindings::kvfree(block.cast());
            }
        }
    }
}

/// Request and answer as C has them.
pub(super) fn udata(
    (input, inlen): (Address, usize),
    (output, outlen): (Address, usize),
) -> bindings::ib_udata {
    bindings::ib_udata {
        inbuf: input.raw::<c_void>(),
        outbuf: output.raw(),
        inlen,
        outlen,
    }
}

/// Runs a command that was written, in `section`: `core` and `driver` are its requests and answers.
///
/// # Errors
///
/// `EINVAL`: the section is of another device than the file; those of `run`.
pub(crate) fn run_command(
    section: &Associated<'_>,
    file: &UFile,
    core: ((Address, usize), (Address, usize)),
    driver: ((Address, usize), (Address, usize)),
    run: impl FnOnce(&Call) -> Result,
) -> Result {
    if !section.is_of(file) {
        return Err(EINVAL);
    }
    let mut bundle = bindings::uverbs_attr_bundle::default();
    bundle.__bindgen_anon_1.__bindgen_anon_1.ufile = file.raw();
    bundle.__bindgen_anon_1.__bindgen_anon_1.ucore = udata(core.0, core.1);
    bundle.__bindgen_anon_1.__bindgen_anon_1.driver_udata = udata(driver.0, driver.1);
    // SAFETY: The structure is initialised, and ours alone; the file is borrowed for longer.
    let call = unsafe { Call::view(&raw mut bundle) };
    call.command(run)
}
