// SPDX-License-Identifier: GPL-2.0

//! A call of a program (`struct uverbs_attr_bundle`): a command that it wrote, or an ioctl with
//! attributes.
//!
//! A command has a request and room for an answer ([`Call::request`], [`Call::respond`]); an ioctl
//! has attributes, by number ([`Call::input`] and others). Commands come as ioctls, too, with both
//! in attributes; the functions for commands work the same then.
//!
//! A call exists while one task handles it, in a section of the device's `disassociate_srcu`: the
//! device, if it was there once, stays. Unless they say otherwise, functions may sleep.

use super::device::CharDevice;
use super::frame::Head;
use super::handle::Handle;
use super::handle::Kind;
use super::handle::New;
use super::handle::Object;
use super::user::Address;
use super::user::Plain;
use crate::proto::key::Bit;
use core::ops::Deref;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::Present;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::verbs::UserCall;
use rdma::edge::FromC;
use rdma::edge::OfCall;
use rdma::edge::View;

rdma::c_struct! {
    /// A call. A command has no attributes: none is present.
    pub(crate) struct Call: bindings::uverbs_attr_bundle;
    fields {
        /// The open file. It exists as long as the call.
        const file at __bindgen_anon_1.__bindgen_anon_1.ufile: &UFile;
        /// Request and answer for the driver.
        embed udata at __bindgen_anon_1.__bindgen_anon_1.driver_udata: UserCall;
        /// Request and answer of the command.
        embed core at __bindgen_anon_1.__bindgen_anon_1.ucore: UserCall;
        /// Attributes that were given.
        cell present at __bindgen_anon_1.__bindgen_anon_1.attr_present: Present;
    }
}

// SAFETY: One task handles a call; `Opaque` is not `Sync`.
unsafe impl OfCall for Call {}

/// The bytes of an attribute: inline, at a program's address, or copied.
#[derive(Clone, Copy)]
struct Bytes {
    data: u64,
    len: usize,
    index: u16,
    choice: u8,
}

/// An object that a call uses alone until it ends.
///
/// # Invariants
///
/// The call has locked the handle of the object exclusively.
pub(crate) struct Alone<'a, T>(&'a T);

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

/// Bytes that are in the attribute itself.
const INLINE: usize = 8;

impl Bytes {
    fn is_inline(&self) -> bool {
        self.len <= INLINE
    }
}

/// Reads the parts of a request that has a variable length.
pub(crate) struct Rest {
    at: Address,
    left: usize,
}

impl Rest {
    /// Copies the next structure.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the request ends before; `EFAULT`.
    pub(crate) fn next<T: Plain>(&mut self) -> Result<T> {
        self.take(size_of::<T>())?.read()
    }

    /// Skips `len` bytes, and returns their address.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the request ends before.
    pub(crate) fn take(&mut self, len: usize) -> Result<Address> {
        self.left = self.left.checked_sub(len).ok_or(ENOSPC)?;
        let at = self.at;
        self.at = at.after(len);
        Ok(at)
    }

    /// Address and number of the bytes that are left.
    pub(crate) fn parts(self) -> (Address, usize) {
        (self.at, self.left)
    }

    /// The end of the request must have been reached, but for zeros.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn finish(self) -> Result {
        if self.left != 0 && !self.at.is_cleared(self.left) {
            return Err(super::unsupported());
        }
        Ok(())
    }
}

impl Call {
    /// The character device.
    pub(crate) fn char_device(&self) -> &CharDevice {
        CharDevice::of(self.file())
    }

    /// The RDMA device. Any context.
    ///
    /// # Errors
    ///
    /// `EIO`: it is gone.
    pub(crate) fn device(&self) -> Result<&Device> {
        // SAFETY: A call is in a section of its file's device (module).
        unsafe { self.char_device().device() }.ok_or(EIO)
    }

    /// The context of the open file. Any context.
    ///
    /// # Errors
    ///
    /// `EIO`: the device is gone; `EINVAL`: there is no context yet.
    pub(crate) fn ucontext(&self) -> Result<&UContext> {
        self.device()?;
        // SAFETY: A call is in a section (module), in which the device was there just now.
        unsafe { self.file().ucontext() }.ok_or(EINVAL)
    }

    /// The context of the object that the call makes or uses, if any. It is known from the first
    /// lookup on.
    pub(crate) fn context(&self) -> Option<&UContext> {
        // SAFETY: One task has the structure (`OfCall`). A context stays during a call.
        unsafe { Option::from_c((*self.raw()).__bindgen_anon_1.__bindgen_anon_1.context) }
    }

    /// Whether the context of the call is not that of the open file, but being made.
    pub(super) fn has_other_context(&self) -> bool {
        let context = self.context().map_or(ptr::null_mut(), UContext::raw);
        !context.is_null() && context != self.file().ucontext_at()
    }

    /// Sets the context of the call, or none, before there is an object.
    pub(super) fn set_context(&self, context: *mut bindings::ib_ucontext) {
        // SAFETY: As in `context`: one task has the structure.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.context = context };
    }

    /// The object that a command has made; it is committed if the command succeeds, and destroyed
    /// otherwise. Of several, the last one.
    pub(super) fn set_made(&self, object: *mut bindings::ib_uobject) {
        // SAFETY: As in `context`.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.uobject = object };
    }

    /// Takes the object that a command has made.
    fn take_made(&self) -> *mut bindings::ib_uobject {
        // SAFETY: As in `context`.
        unsafe {
            core::mem::replace(
                &mut (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.uobject,
                ptr::null_mut(),
            )
        }
    }

    /// Runs a command: what it makes is committed if it succeeds.
    ///
    /// # Errors
    ///
    /// Those of the command.
    pub(crate) fn command(&self, run: impl FnOnce(&Self) -> Result) -> Result {
        self.set_made(ptr::null_mut());
        let result = run(self);
        let made = self.take_made();
        if !made.is_null() {
            // SAFETY: `New::ready` has set it: a handle that was begun in this call, and is
            // complete.
            unsafe {
                crate::private::uverbs_finalize_object(
                    made,
                    bindings::uverbs_obj_access_UVERBS_ACCESS_NEW,
                    true,
                    result.is_ok(),
                    self.raw(),
                );
            }
        }
        result
    }

    /// Copies the request of a command. Bytes that are missing are zero.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: it is longer than this kernel knows, and not zero there; `EFAULT`.
    pub(crate) fn request<T: Plain>(&self) -> Result<T> {
        let core = self.core();
        Address::of(core.inbuf().0).read_struct(core.inlen())
    }

    /// Copies the begin of a request, which more parts follow.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: it is shorter; `EFAULT`.
    pub(crate) fn request_start<T: Plain>(&self) -> Result<(T, Rest)> {
        let core = self.core();
        let mut rest = Rest {
            at: Address::of(core.inbuf().0),
            left: core.inlen(),
        };
        let start = rest.next()?;
        Ok((start, rest))
    }

    /// Address of the answer of a command, and its room.
    pub(crate) fn answer(&self) -> (Address, usize) {
        (self.core().outbuf().into(), self.core().outlen())
    }

    /// Answers a command: `fill` gets zeros, and sets what it answers. The answer is cut at the
    /// room that the program has; more room is zeroed.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn respond<T: Plain>(&self, fill: impl FnOnce(&mut T)) -> Result {
        let mut answer = T::zeroed();
        fill(&mut answer);
        self.respond_with(&answer)
    }

    /// Answers a command, as [`respond`](Self::respond) does.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn respond_with<T: Plain>(&self, answer: &T) -> Result {
        if self.has(bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_OUT) {
            return self.output_struct(
                bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_OUT,
                answer,
            );
        }
        let (at, room) = self.answer();
        at.write(answer, room)?;
        at.after(size_of::<T>())
            .clear(room.saturating_sub(size_of::<T>()))
    }

    /// How many bytes of an answer [`respond`](Self::respond) writes.
    pub(crate) fn response_length<T>(&self) -> u32 {
        // CAST: A structure of the ABI has less than 4 GiB.
        self.core().outlen().min(size_of::<T>()) as u32
    }

    /// What the frame of an ioctl knows of the attributes; `None` for a written command.
    pub(super) fn head(&self) -> Option<&Head> {
        // SAFETY: As in `context`. A call with a method was made by `frame::run`.
        unsafe {
            let method = (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.method_elm;
            (!method.is_null()).then(|| Head::of(self.raw()))
        }
    }

    /// The bit of an attribute that was given.
    fn bit(&self, id: u32) -> Option<Bit> {
        let bit = Bit::of_attribute(u16::try_from(id).ok()?)?;
        self.present().has(bit.get().into()).then_some(bit)
    }

    /// Whether an attribute was given. Any context.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.bit(id).is_some()
    }

    /// Place of an attribute that was given.
    fn place(&self, bit: Bit) -> *mut bindings::uverbs_attr {
        // SAFETY: The call has room for all attributes that may be given (`frame::run`).
        unsafe {
            (&raw mut (*self.raw()).attrs)
                .cast::<bindings::uverbs_attr>()
                .add(bit.get().into())
        }
    }

    /// The bytes of an attribute.
    fn bytes(&self, id: u32) -> Result<(Bytes, Bit)> {
        let bit = self.bit(id).ok_or(ENOENT)?;
        let head = self.head().ok_or(ENOENT)?;
        if head.is_object(bit) {
            return Err(EINVAL);
        }
        // SAFETY: The attribute is present and not of an object, so it has bytes (`frame`).
        unsafe {
            let attr = (&raw mut (*self.place(bit)).__bindgen_anon_1.ptr_attr)
                .cast::<bindings::uverbs_ptr_attr>();
            Ok((
                Bytes {
                    data: (&raw const (*attr).__bindgen_anon_1.data)
                        .cast::<u64>()
                        .read(),
                    len: (*attr).len.into(),
                    index: (*attr).uattr_idx,
                    choice: (*attr).enum_id,
                },
                bit,
            ))
        }
    }

    /// The length of an attribute.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given.
    pub(crate) fn len(&self, id: u32) -> Result<usize> {
        Ok(self.bytes(id)?.0.len)
    }

    /// The address of an attribute's bytes at the program, for one that is not inline.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(crate) fn address(&self, id: u32) -> Result<Address> {
        Ok(Address::new(self.bytes(id)?.0.data))
    }

    /// Which of several kinds of bytes the program has chosen.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(crate) fn choice(&self, id: u32) -> Result<u8> {
        Ok(self.bytes(id)?.0.choice)
    }

    /// Copies at most `most` bytes of an attribute into a structure of zeros.
    fn copy<T: Plain>(&self, bytes: Bytes, most: usize) -> Result<T> {
        let len = bytes.len.min(most);
        let mut value = T::zeroed();
        let inline = bytes.data.to_ne_bytes();
        if bytes.is_inline() {
            // SAFETY: `value` has at least `len` bytes, of which any are valid (`Plain`); `inline`
            // has eight, at least as many.
            unsafe {
                ptr::copy_nonoverlapping(inline.as_ptr(), ptr::from_mut(&mut value).cast(), len);
            }
            return Ok(value);
        }
        Address::new(bytes.data).read_struct(len)
    }

    /// Copies the bytes of an attribute. Bytes that are missing are zero.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EINVAL`: it is longer; `EFAULT`.
    pub(crate) fn input<T: Plain>(&self, id: u32) -> Result<T> {
        let (bytes, _) = self.bytes(id)?;
        if size_of::<T>() < bytes.len {
            return Err(EINVAL);
        }
        self.copy(bytes, size_of::<T>())
    }

    /// As [`input`](Self::input), of an attribute that may be longer; only what `T` has is copied.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EFAULT`.
    pub(crate) fn input_or_zero<T: Plain>(&self, id: u32) -> Result<T> {
        let (bytes, _) = self.bytes(id)?;
        self.copy(bytes, size_of::<T>())
    }

    /// The bytes of an attribute that is copied before the method runs (`alloc_and_copy`).
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL`: it is not of this kind.
    pub(crate) fn copied(&self, id: u32) -> Result<&[u8]> {
        let (bytes, bit) = self.bytes(id)?;
        let head = self.head().ok_or(ENOENT)?;
        // SAFETY: The bytes are in the attribute, or in memory of the call that was filled
        // (`Head::is_copied`); neither changes before the call ends.
        unsafe {
            let attr = (&raw mut (*self.place(bit)).__bindgen_anon_1.ptr_attr)
                .cast::<bindings::uverbs_ptr_attr>();
            let from: *const u8 = if bytes.is_inline() {
                (&raw const (*attr).__bindgen_anon_1.data).cast()
            } else if head.is_copied(bit) {
                (&raw const (*attr).__bindgen_anon_1.ptr)
                    .cast::<*const u8>()
                    .read()
            } else {
                return Err(EINVAL);
            };
            Ok(core::slice::from_raw_parts(from, bytes.len))
        }
    }

    /// As [`copied`](Self::copied), an array.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL`: the length is not that of an array.
    pub(crate) fn copied_array<T: Plain>(&self, id: u32) -> Result<&[T]> {
        let bytes = self.copied(id)?;
        let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
        if count.saturating_mul(size_of::<T>()) != bytes.len()
            || !bytes.as_ptr().cast::<T>().is_aligned()
        {
            return Err(EINVAL);
        }
        // SAFETY: The bytes are initialised, aligned (checked above) and any are valid (`Plain`).
        Ok(unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
    }

    /// The number in an attribute (`UVERBS_ATTR_CONST_IN`).
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL`: it is not in the range of `T`.
    pub(crate) fn constant<T: TryFrom<u64>>(&self, id: u32) -> Result<T> {
        T::try_from(self.bytes(id)?.0.data).map_err(|_| EINVAL)
    }

    /// The file descriptor in an attribute (`UVERBS_ATTR_RAW_FD`).
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL`.
    pub(crate) fn raw_file(&self, id: u32) -> Result<i32> {
        // CAST: Reinterprets the bits.
        i32::try_from(self.bytes(id)?.0.data as i64).map_err(|_| EINVAL)
    }

    /// The flags in an attribute, of four or eight bytes; 0 if it was not given.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there are other flags than `allowed`, or another length.
    pub(crate) fn flags(&self, id: u32, allowed: u64) -> Result<u64> {
        let Ok((bytes, _)) = self.bytes(id) else {
            return Ok(0);
        };
        let flags = match bytes.len {
            8 => bytes.data,
            4 => {
                let [a, b, c, d, ..] = bytes.data.to_ne_bytes();
                u32::from_ne_bytes([a, b, c, d]).into()
            }
            _ => return Err(EINVAL),
        };
        if flags & !allowed != 0 {
            return Err(EINVAL);
        }
        Ok(flags)
    }

    /// As [`flags`](Self::flags), of 32 bits.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(crate) fn flags32(&self, id: u32, allowed: u64) -> Result<u32> {
        u32::try_from(self.flags(id, allowed)?).map_err(|_| EINVAL)
    }

    /// Writes an attribute, cut at the room that the program has.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EFAULT`.
    pub(crate) fn output<T: Plain>(&self, id: u32, value: &T) -> Result {
        self.output_slice(id, core::slice::from_ref(value))
    }

    /// As [`output`](Self::output), if the attribute was given.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn output_if<T: Plain>(&self, id: u32, value: &T) -> Result {
        match self.has(id) {
            true => self.output(id, value),
            false => Ok(()),
        }
    }

    /// Writes several values to an attribute, cut at the room that the program has.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EFAULT`.
    pub(crate) fn output_slice<T: Plain>(&self, id: u32, values: &[T]) -> Result {
        self.bytes(id)?;
        let len = size_of_val(values);
        // SAFETY: The slice is readable. The attribute is one of bytes; the function checks its
        // address.
        to_result(unsafe {
            bindings::uverbs_copy_to(self.raw(), id as usize, values.as_ptr().cast(), len)
        })
    }

    /// Writes an attribute; more room that the program has is zeroed.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EFAULT`.
    pub(crate) fn output_struct<T: Plain>(&self, id: u32, value: &T) -> Result {
        self.bytes(id)?;
        // SAFETY: As in `output_slice`.
        to_result(unsafe {
            bindings::uverbs_copy_to_struct_or_zero(
                self.raw(),
                id as usize,
                ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        })
    }

    /// Tells the program that a method has written an attribute by its address.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EFAULT`.
    pub(crate) fn set_written(&self, id: u32) -> Result {
        let (bytes, _) = self.bytes(id)?;
        self.head().ok_or(ENOENT)?.set_written(self, bytes.index)
    }

    /// Address and length of an attribute's bytes, of which inline ones are read in the program's
    /// array of attributes; none if it was not given.
    pub(super) fn input_at(&self, id: u32) -> (Address, usize) {
        let (Ok((bytes, _)), Some(head)) = (self.bytes(id), self.head()) else {
            return (Address::NULL, 0);
        };
        let at = match bytes.is_inline() {
            true => head.data_at(self, bytes.index),
            false => Address::new(bytes.data),
        };
        (at, bytes.len)
    }

    /// Address and length of the room of an attribute; none if it was not given.
    pub(super) fn output_at(&self, id: u32) -> (Address, usize) {
        match self.bytes(id) {
            Ok((bytes, _)) => (Address::new(bytes.data), bytes.len),
            Err(_) => (Address::NULL, 0),
        }
    }

    /// Fills request and answer of a command from two attributes.
    pub(crate) fn fill_core(&self, input: u32, output: u32) {
        let core = super::frame::udata(self.input_at(input), self.output_at(output));
        // SAFETY: One task has the structure (`OfCall`).
        unsafe { self.core().raw().write(core) };
    }

    /// The handle in an attribute.
    fn uobject(&self, id: u32) -> Result<(&Uobject, Bit)> {
        let bit = self.bit(id).ok_or(ENOENT)?;
        if !self.head().is_some_and(|head| head.is_handle(bit)) {
            return Err(EINVAL);
        }
        // SAFETY: The attribute is present and of a handle, to which the call has a reference.
        unsafe {
            let attr = (&raw mut (*self.place(bit)).__bindgen_anon_1.obj_attr)
                .cast::<bindings::uverbs_obj_attr>();
            Ok((Uobject::view((*attr).uobject), bit))
        }
    }

    /// The handle in an attribute: looked up as the method's table says, or destroyed before the
    /// method runs.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EINVAL`: it is of another type.
    pub(crate) fn handle<K: Kind>(&self, id: u32) -> Result<&Handle<K>> {
        Handle::of(self.uobject(id)?.0).ok_or(EINVAL)
    }

    /// The object in an attribute, which the call uses as the method's table says.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EINVAL`: it is of another type, or there is no object.
    pub(crate) fn object<K: Object>(&self, id: u32) -> Result<&K::Of> {
        let (uobject, _) = self.uobject(id)?;
        let handle = Handle::<K>::of(uobject).ok_or(EINVAL)?;
        // SAFETY: The call has looked it up, and holds the lock until it ends.
        unsafe { handle.object() }.ok_or(EINVAL)
    }

    /// As [`object`](Self::object), if the method's table says that the call has the object alone.
    ///
    /// # Errors
    ///
    /// Those of [`object`](Self::object); `EINVAL`: others may use it meanwhile.
    pub(crate) fn alone<K: Object>(&self, id: u32) -> Result<Alone<'_, K::Of>> {
        let (_, bit) = self.uobject(id)?;
        if !self.head().is_some_and(|head| head.is_alone(bit)) {
            return Err(EINVAL);
        }
        // INVARIANT: Looked up so (`Head::is_alone`).
        Ok(Alone(self.object::<K>(id)?))
    }

    /// The handle in an attribute that the method makes. Once.
    ///
    /// # Errors
    ///
    /// `ENOENT`: it was not given; `EINVAL`: it is of another type, or was taken.
    pub(crate) fn take_new<K: Kind>(&self, id: u32) -> Result<New<'_, K>> {
        let (uobject, bit) = self.uobject(id)?;
        if !self.head().is_some_and(|head| head.take_new(bit)) {
            return Err(EINVAL);
        }
        let handle = Handle::of(uobject).ok_or(EINVAL)?;
        // SAFETY: The handle is new, and this is the only one who takes it.
        unsafe { New::of_attribute(handle, self, id) }
    }
}
