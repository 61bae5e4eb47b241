// SPDX-License-Identifier: GPL-2.0

//! Flows (`struct ib_flow`), which drivers allocate and free.
//!
//! Drivers make flows by methods of their own, too, and fill in the handle (`ib_set_flow`): its
//! layout is that of `struct ib_uflow_object`.

mod rules;

pub(crate) use self::rules::Rules;

use super::counters::Set;
use super::flow_action::Action;
use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Ended;
use crate::edge::handle::Ends;
use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::flow as object;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::object::Use;
use rdma::edge::verbs::Qp;
use rdma::edge::View;

rdma::c_struct! {
    /// A flow.
    pub(crate) struct Flow: bindings::ib_flow;
    fields {
        /// The device. Written when the flow is made.
        const device: &Device;
        /// The queue pair, which counts a use; drivers make flows without one.
        const qp: Option<&Qp>;
    }
}

/// The objects that a flow uses, beside its handle; drivers write it, too.
#[repr(transparent)]
pub(crate) struct Resources(Atomic<*mut bindings::ib_uflow_resources>);

// SAFETY: The structure is changed only by those who make or destroy the flow, alone.
unsafe impl Send for Resources {}
// SAFETY: As for `Send`.
unsafe impl Sync for Resources {}

const _: () = assert!(
    size_of::<Handle<object::Flow>>() == size_of::<bindings::ib_uflow_object>()
        && size_of::<Handle<object::Flow>>()
            == core::mem::offset_of!(bindings::ib_uflow_object, resources) + size_of::<Resources>()
);

impl Ends for Resources {
    /// Only a flow that was made has objects, which [`destroy`] gives back.
    fn end(_: Ended<'_, Self>) {}
}

impl Resources {
    /// No objects.
    pub(crate) fn none() -> impl PinInit<Self> {
        Self(Atomic::new(ptr::null_mut()))
    }
}

/// The objects that a flow uses which is being made. Dropping it gives the uses back.
///
/// # Invariants
///
/// `c` was allocated by `ib_uverbs_support`, and is this value's; there is room for `room` more.
struct Uses {
    c: NonNull<bindings::ib_uflow_resources>,
    room: usize,
}

impl Uses {
    /// None, with room for so many.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(room: usize) -> Result<Self> {
        // SAFETY: The function takes any number.
        let c = NonNull::new(unsafe { bindings::flow_resources_alloc(room) }).ok_or(ENOMEM)?;
        // INVARIANT: Just allocated.
        Ok(Self { c, room })
    }

    /// # Safety
    ///
    /// `object` is of this type, and exists.
    unsafe fn add<T>(
        &mut self,
        kind: bindings::ib_flow_spec_type,
        object: *mut T,
    ) -> Result<usize> {
        // INVARIANT: One room less.
        self.room = self.room.checked_sub(1).ok_or(EINVAL)?;
        // SAFETY: This function's contract; there is room: type invariant.
        unsafe { bindings::flow_resources_add(self.c.as_ptr(), kind, object.cast()) };
        Ok(object.expose_provenance())
    }

    /// Uses an action, and returns its address.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no room.
    fn add_action(&mut self, action: &Action) -> Result<usize> {
        let kind = bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_HANDLE;
        // SAFETY: The action is borrowed, and of this type.
        unsafe { self.add(kind, action.raw()) }
    }

    /// Uses counters, and returns their address.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no room.
    fn add_counters(&mut self, set: &Set) -> Result<usize> {
        let kind = bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_COUNT;
        // SAFETY: The counters are borrowed, and of this type.
        unsafe { self.add(kind, set.raw()) }
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        // SAFETY: The structure is this value's: type invariant.
        unsafe { bindings::ib_uverbs_flow_resources_free(self.c.as_ptr()) };
    }
}

/// Whether the program may receive packets by rules of its own. Any context.
pub(crate) fn is_permitted(call: &Call) -> bool {
    // SAFETY: The call is borrowed, so it is running, with an open file.
    unsafe { bindings::rdma_uattrs_has_raw_cap(call.raw()) }
}

/// Makes a flow of rules. May sleep.
///
/// # Errors
///
/// `EINVAL`: the rules are not complete; those of the driver.
pub(crate) fn create(
    new: &New<'_, object::Flow>,
    qp: &Qp,
    mut rules: Rules,
) -> Result<Owned<Flow>> {
    let device = qp.dev();
    let create = device.ops().create_flow.ok_or_else(unsupported)?;
    let attr = rules.attr()?;
    // SAFETY: The queue pair is locked by the caller; the rules are complete (invariant of `Rules`).
    // The flow is new, and its fields are written before anybody else can find it.
    unsafe {
        let flow = from_err_ptr(create(qp.raw(), attr, new.call().udata().raw()))?;
        let flow = NonNull::new(flow).ok_or(EINVAL)?;
        let c = flow.as_ptr();
        (*c).uobject = new.handle().raw();
        (*c).device = device.raw();
        (*c).qp = qp.raw();
        qp.usecnt().count().keep();
        let resources = ManuallyDrop::new(rules.into_uses()).c.as_ptr();
        new.handle().beside().0.store(resources, Relaxed);
        Ok(Owned::new(flow))
    }
}

/// Destroys a flow. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn destroy(flow: Dying<'_, object::Flow>) -> Result<Dead<'_, object::Flow>> {
    let (device, qp) = (flow.object().device(), flow.object().qp());
    let destroy = device.ops().destroy_flow.ok_or_else(unsupported)?;
    let qp = qp.map(|qp| NonNull::from(qp.usecnt()));
    // SAFETY: Nobody else uses the flow (`Dying`). Its queue pair has counted a use, so it exists;
    // the objects that it uses are its own.
    unsafe {
        to_result(destroy(flow.raw()))?;
        drop(qp.map(|count| Use::kept(count.as_ref())));
        let resources = flow.handle().beside();
        let resources = resources
            .0
            .xchg(ptr::null_mut(), kernel::sync::atomic::Full);
        bindings::ib_uverbs_flow_resources_free(resources);
        Ok(flow.gone())
    }
}
