// SPDX-License-Identifier: GPL-2.0

//! What drivers define (`struct uapi_definition`), and which methods they have.
//!
//! A driver's definitions are arrays of C that stay as long as its device is registered. They are
//! read once, when the device is added; what refers to them afterwards is not used any more when
//! the device is gone ([`crate::api`]).

use super::call::Call;
use super::handle::Type;
use crate::proto::spec::Access;
use crate::proto::spec::Bytes;
use crate::proto::spec::Choices;
use crate::proto::spec::Kind;
use crate::proto::spec::Spec;
use crate::proto::write::Command;
use core::ffi::c_void;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::View;
use rdma::features::comp_cntr::DESTROY_AT;

/// A method that a driver must have: the place of a pointer in `struct ib_device_ops`; none of a method
/// that no driver has, since the kernel has no such method.
#[derive(Clone, Copy)]
pub(crate) struct Need(Option<usize>);

/// The [`Need`] of a method of `struct ib_device_ops`.
macro_rules! needs {
    (destroy_comp_cntr) => {
        $crate::edge::definitions::Need::DESTROY_COMP_CNTR
    };
    ($method:ident) => {{
        // Of the type of a function pointer.
        const fn check<T>(_: fn(&bindings::ib_device_ops) -> &Option<T>) {
            assert!(size_of::<Option<T>>() == size_of::<usize>());
        }
        const { check(|ops| &ops.$method) };
        $crate::edge::definitions::Need::at(core::mem::offset_of!(bindings::ib_device_ops, $method))
    }};
}
pub(crate) use needs;

impl Need {
    /// Of a method that not all kernels have.
    pub(crate) const DESTROY_COMP_CNTR: Self = match DESTROY_AT {
        Some(offset) => Self::at(offset),
        None => Self(None),
    };

    /// For [`needs!`] only.
    #[doc(hidden)]
    pub(crate) const fn at(offset: usize) -> Self {
        // OVERFLOW: Evaluated by the compiler (`needs!`), where it is an error.
        assert!(offset + size_of::<usize>() <= size_of::<bindings::ib_device_ops>());
        Self(Some(offset))
    }

    /// Whether the driver of a device has the method.
    pub(crate) fn is_there(self, device: &Device) -> bool {
        let Self(Some(offset)) = self else {
            return false;
        };
        let ops: *const bindings::ib_device_ops = device.ops();
        // SAFETY: The place is within the table (`at`), and has a pointer.
        !unsafe {
            ops.byte_add(offset)
                .cast::<*const c_void>()
                .read_unaligned()
        }
        .is_null()
    }
}

/// A driver's function for a method or command.
#[derive(Clone, Copy)]
pub(crate) struct DriverHandler(unsafe extern "C" fn(*mut bindings::uverbs_attr_bundle) -> c_int);

impl DriverHandler {
    /// Carries out the method. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn run(self, call: &Call) -> Result {
        // SAFETY: The driver's function for a call with the attributes that it has defined; the
        // device is there during the call (`Api`).
        to_result(unsafe { (self.0)(call.raw()) })
    }
}

/// The choices of an attribute: a driver's, or `count` choices without data if `ids` is null.
#[derive(Clone, Copy)]
pub(crate) struct DriverChoices {
    ids: *const bindings::uverbs_attr_spec,
    count: u8,
}

// SAFETY: It points to constants of the driver.
unsafe impl Send for DriverChoices {}
// SAFETY: As for `Send`.
unsafe impl Sync for DriverChoices {}

impl DriverChoices {
    /// So many choices, of which none has data.
    pub(crate) const fn without_data(count: u8) -> Self {
        Self {
            ids: core::ptr::null(),
            count,
        }
    }
}

impl Choices for DriverChoices {
    fn known(&self, choice: u8) -> bool {
        choice < self.count
    }

    fn get(&self, choice: u8) -> Option<Bytes> {
        if !self.known(choice) {
            return None;
        }
        if self.ids.is_null() {
            return Some(Bytes {
                min: 0,
                len: 0,
                zero_trailing: false,
                alloc_and_copy: false,
            });
        }
        // SAFETY: The array has `count` elements, and exists as long as the driver; a method with
        // such an attribute is not called later (`Api`).
        match kind_of(unsafe { &*self.ids.add(choice.into()) })? {
            Kind::In(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The kind of an attribute; `None` if it is none that there is.
fn kind_of(spec: &bindings::uverbs_attr_spec) -> Option<Kind<DriverChoices>> {
    // SAFETY: The type determines the members of both unions.
    unsafe {
        let object = || {
            let obj = &*(&raw const spec.u.obj)
                .cast::<bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_2>();
            Some((obj.obj_type, Access::of(obj.access)?))
        };
        let bytes = || {
            let ptr = &*(&raw const spec.u.ptr)
                .cast::<bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_1>();
            Bytes {
                min: ptr.min_len,
                len: ptr.len,
                zero_trailing: spec.zero_trailing() != 0,
                alloc_and_copy: spec.alloc_and_copy() != 0,
            }
        };
        Some(match u32::from(spec.type_) {
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN => Kind::In(bytes()),
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT => Kind::Out(bytes()),
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDR => {
                let (object, access) = object()?;
                Kind::Handle { object, access }
            }
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_FD => {
                let (object, access) = object()?;
                Kind::File { object, access }
            }
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_RAW_FD => Kind::RawFile,
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_ENUM_IN => Kind::Enum(DriverChoices {
                ids: (*(&raw const spec.u2.enum_def)
                    .cast::<bindings::uverbs_attr_spec__bindgen_ty_2__bindgen_ty_1>())
                .ids,
                count: (*(&raw const spec.u.enum_def)
                    .cast::<bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_3>())
                .num_elems,
            }),
            bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDRS_ARRAY => {
                let array = &*(&raw const spec.u2.objs_arr)
                    .cast::<bindings::uverbs_attr_spec__bindgen_ty_2__bindgen_ty_2>();
                Kind::Handles {
                    object: array.obj_type,
                    access: Access::of(array.access)?,
                    min: array.min_len,
                    max: array.max_len,
                }
            }
            _ => return None,
        })
    }
}

/// A definition of a driver.
pub(crate) enum Definition<'a> {
    /// A list within the list.
    Chain(Option<List<'a>>),
    /// An object with a tree of methods.
    Tree(ObjectTree<'a>),
    /// An object begins.
    Object(u16),
    /// A command of `write`.
    Write(u16, Option<DriverHandler>, Command),
    /// What was defined last is not supported, unless this is true.
    Needs(Scope, bool),
    /// No definition that there is.
    Unknown,
}

/// What a definition that is not supported is of.
pub(crate) enum Scope {
    /// The object that was begun last.
    Object,
    /// The command that was defined last.
    Method,
    /// Neither.
    Unknown,
}

/// The definitions of a driver that have not been read yet.
pub(crate) struct List<'a> {
    next: *const bindings::uapi_definition,
    device: &'a Device,
}

impl<'a> List<'a> {
    /// The definitions of a device's driver, if it has any.
    pub(crate) fn of(device: &'a Device) -> Option<Self> {
        // SAFETY: The driver writes the field before it registers the device.
        Self::at(unsafe { (*device.raw()).driver_def }, device)
    }

    fn at(next: *const bindings::uapi_definition, device: &'a Device) -> Option<Self> {
        (!next.is_null()).then_some(Self { next, device })
    }
}

impl<'a> Iterator for List<'a> {
    type Item = Definition<'a>;

    fn next(&mut self) -> Option<Definition<'a>> {
        // SAFETY: A list ends with an element of the kind `END`, which is not gone beyond. The kind
        // determines the members of both unions.
        unsafe {
            let def = &*self.next;
            let number = &raw const def.__bindgen_anon_1;
            let value = (&raw const def.__bindgen_anon_2)
                .cast::<*const c_void>()
                .read();
            let found = match u32::from(def.kind) {
                bindings::uapi_definition_kind_UAPI_DEF_END => return None,
                bindings::uapi_definition_kind_UAPI_DEF_OBJECT_START => {
                    Definition::Object(number.cast::<u16>().read())
                }
                bindings::uapi_definition_kind_UAPI_DEF_WRITE => {
                    let write =
                        &*number.cast::<bindings::uapi_definition__bindgen_ty_1__bindgen_ty_2>();
                    Definition::Write(
                        write.command_num,
                        handler(value),
                        Command {
                            is_extended: write.is_ex() != 0,
                            request: write.req_size,
                            response: write.resp_size,
                            has_response: write.has_resp() != 0,
                            has_udata: write.has_udata() != 0,
                        },
                    )
                }
                bindings::uapi_definition_kind_UAPI_DEF_CHAIN_OBJ_TREE => {
                    match NonNull::new(value.cast_mut()) {
                        Some(tree)
                            if (*tree.cast::<bindings::uverbs_object_def>().as_ptr()).id
                                == number.cast::<u16>().read() =>
                        {
                            Definition::Tree(ObjectTree(&*tree.as_ptr().cast()))
                        }
                        _ => Definition::Unknown,
                    }
                }
                bindings::uapi_definition_kind_UAPI_DEF_CHAIN => {
                    Definition::Chain(Self::at(value.cast(), self.device))
                }
                bindings::uapi_definition_kind_UAPI_DEF_IS_SUPPORTED_FUNC => {
                    let supported: Option<unsafe extern "C" fn(*mut bindings::ib_device) -> bool> =
                        core::mem::transmute(value);
                    let is = supported.is_some_and(|supported| supported(self.device.raw()));
                    Definition::Needs(scope(def.scope), is)
                }
                bindings::uapi_definition_kind_UAPI_DEF_IS_SUPPORTED_DEV_FN => {
                    let offset = value.addr();
                    let is = offset
                        <= const { size_of::<bindings::ib_device_ops>() - size_of::<usize>() }
                        && Need(Some(offset)).is_there(self.device);
                    Definition::Needs(scope(def.scope), is)
                }
                _ => Definition::Unknown,
            };
            self.next = self.next.add(1);
            Some(found)
        }
    }
}

fn scope(scope: u8) -> Scope {
    match u32::from(scope) {
        bindings::uapi_definition_scope_UAPI_SCOPE_OBJECT => Scope::Object,
        bindings::uapi_definition_scope_UAPI_SCOPE_METHOD => Scope::Method,
        _ => Scope::Unknown,
    }
}

/// # Safety
///
/// `handler` is null or a function for calls.
unsafe fn handler(handler: *const c_void) -> Option<DriverHandler> {
    // SAFETY: A null pointer is `None`; otherwise it is such a function (this function's contract).
    let handler: Option<unsafe extern "C" fn(*mut bindings::uverbs_attr_bundle) -> c_int> =
        unsafe { core::mem::transmute(handler) };
    handler.map(DriverHandler)
}

/// An object of a driver, with its methods.
pub(crate) struct ObjectTree<'a>(&'a bindings::uverbs_object_def);

impl<'a> ObjectTree<'a> {
    /// The number.
    pub(crate) fn id(&self) -> u16 {
        self.0.id
    }

    /// The type of its handles, and whether drivers may have its class.
    pub(crate) fn of(&self) -> Option<(Type, bool)> {
        let of = Type::of_driver(NonNull::new(self.0.type_attrs.cast_mut())?.as_ptr());
        // SAFETY: The driver's description, which is not null.
        Some((of, unsafe { of.is_for_drivers() }))
    }

    /// The methods.
    pub(crate) fn methods(&self) -> impl Iterator<Item = MethodTree<'a>> {
        // SAFETY: The array has so many elements, which are null or methods.
        unsafe { elements(self.0.methods.cast(), self.0.num_methods) }.map(MethodTree)
    }
}

/// The elements of an array of pointers that are not null.
///
/// # Safety
///
/// `array` is null or has `count` elements, which are null or point to a `T` that exists for `'a`.
unsafe fn elements<'a, T: 'a>(array: *const *const T, count: usize) -> impl Iterator<Item = &'a T> {
    let count = if array.is_null() { 0 } else { count };
    (0..count).filter_map(move |index| {
        // SAFETY: This function's contract.
        unsafe { (*array.add(index)).as_ref() }
    })
}

/// A method of a driver.
pub(crate) struct MethodTree<'a>(&'a bindings::uverbs_method_def);

impl<'a> MethodTree<'a> {
    /// The number.
    pub(crate) fn id(&self) -> u16 {
        self.0.id
    }

    /// The function; `None` if this only adds attributes to a method.
    pub(crate) fn handler(&self) -> Option<DriverHandler> {
        self.0.handler.map(DriverHandler)
    }

    /// Whether the function is the core's that does nothing.
    pub(crate) fn is_default(&self) -> bool {
        let nothing: unsafe extern "C" fn(*mut bindings::uverbs_attr_bundle) -> c_int =
            bindings::uverbs_destroy_def_handler;
        self.0
            .handler
            .is_some_and(|handler| core::ptr::fn_addr_eq(handler, nothing))
    }

    /// Whether it has a list of attributes.
    pub(crate) fn has_attributes(&self) -> bool {
        !self.0.attrs.is_null()
    }

    /// The attributes; `None` for one of no kind that there is.
    pub(crate) fn attributes(
        &self,
    ) -> impl Iterator<Item = (u16, Option<Spec<DriverChoices>>)> + 'a {
        // SAFETY: The array has so many elements, which are null or attributes.
        let all = unsafe {
            elements::<'a, bindings::uverbs_attr_def>(self.0.attrs.cast(), self.0.num_attrs)
        };
        all.map(|attribute| {
            let spec = &attribute.attr;
            let spec = kind_of(spec).map(|kind| Spec {
                kind,
                mandatory: spec.mandatory() != 0,
                is_udata: spec.is_udata() != 0,
            });
            (attribute.id, spec)
        })
    }
}
