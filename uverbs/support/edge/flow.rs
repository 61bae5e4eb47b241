// SPDX-License-Identifier: GPL-2.0

//! The resources of a flow as C passes them: `struct ib_uflow_resources`, which only this module
//! looks into.

use core::marker::PhantomData;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::object::Use;
use rdma::edge::object::UseCount;
use rdma::edge::Answer;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

/// The objects that a flow uses.
pub(crate) struct Resources {
    /// The room for this many is there.
    room: usize,
    uses: KVec<Use>,
}

impl Resources {
    /// Without objects, with room for `room`.
    pub(crate) fn new(room: usize) -> Result<KBox<Self>> {
        let uses = KVec::with_capacity(room, accounted::GFP)?;
        Ok(KBox::new(Self { room, uses }, accounted::GFP)?)
    }

    /// Whether another object fits.
    pub(crate) fn has_room(&self) -> bool {
        self.room != 0
    }

    /// Takes the room of one object, and keeps its use.
    pub(crate) fn add(&mut self, used: Option<Use>) {
        self.room = self.room.saturating_sub(1);
        if let Some(used) = used {
            // A use that does not fit is given back: there is no allocation here.
            let _ = self.uses.push_within_capacity(used);
        }
    }
}

/// An allocated structure is C's until [`Freed`] takes it back; null if there is none.
pub(crate) struct Given(pub(crate) Option<KBox<Resources>>);

impl Answer for Given {
    type C = *mut bindings::ib_uflow_resources;

    fn answer(self) -> Self::C {
        self.0.map_or(core::ptr::null_mut(), |resources| {
            KBox::into_raw(resources).cast()
        })
    }
}

/// The resources of a flow that C creates, which no one else uses during the call.
pub(crate) struct Filled<'a>(&'a mut Resources);

// SAFETY: `from_c`'s contract: C passes what `Given` gave it, once at a time.
unsafe impl FromC for Filled<'_> {
    type C = *mut bindings::ib_uflow_resources;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The address of resources from `Given`, which nobody else uses during the call:
        // `from_c`'s contract.
        Self(unsafe { &mut *c.cast::<Resources>() })
    }
}

// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for Filled<'a> {}

impl core::ops::Deref for Filled<'_> {
    type Target = Resources;

    fn deref(&self) -> &Resources {
        self.0
    }
}

impl core::ops::DerefMut for Filled<'_> {
    fn deref_mut(&mut self) -> &mut Resources {
        self.0
    }
}

/// Resources that C gives back; dropping them gives the uses back.
pub(crate) struct Freed(#[allow(dead_code, reason = "for its drop")] Option<KBox<Resources>>);

// SAFETY: `from_c`'s contract: C passes null, or what `Given` gave it, and does not use it again.
unsafe impl FromC for Freed {
    type C = *mut bindings::ib_uflow_resources;

    unsafe fn from_c(c: Self::C) -> Self {
        if c.is_null() {
            return Self(None);
        }
        // SAFETY: The address of a box from `Given`, which C gives up: `from_c`'s contract.
        Self(Some(unsafe { KBox::from_raw(c.cast()) }))
    }
}

// SAFETY: It borrows nothing.
unsafe impl Within<'_> for Freed {}

/// What the [`Object`] of the same call is (`enum ib_flow_spec_type`). Only C creates it, for the
/// duration of a call.
pub(crate) struct Kind<'a>(bindings::ib_flow_spec_type, PhantomData<&'a ()>);

/// An object, of the type that the [`Kind`] of the same call says. Only C creates it, for the
/// duration of a call.
pub(crate) struct Object<'a>(*mut c_void, PhantomData<&'a ()>);

rdma::argument! {
    /// See [`Object`].
    impl<'a> Kind<'a> = |kind: u32| Kind(kind, PhantomData);
    /// A flow action or counters, if [`Kind`] says so, that exists during the call.
    impl<'a> Object<'a> = |object: Passed<c_void>| Object(object.into_c(), PhantomData);
}

impl Object<'_> {
    /// Counts a use of the object; `None` if its kind is not one that flows use.
    pub(crate) fn counted(self, kind: Kind<'_>) -> Option<Use> {
        // SAFETY: `argument!`'s rows of `Kind` and `Object`: there is an object of this type.
        let count = unsafe {
            match kind.0 {
                bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_HANDLE => {
                    &raw mut (*self.0.cast::<bindings::ib_flow_action>()).usecnt
                }
                bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_COUNT => {
                    &raw mut (*self.0.cast::<bindings::ib_counters>()).usecnt
                }
                _ => return None,
            }
        };
        // SAFETY: The count is a field of the object, which C keeps during the call (`Object`).
        Some(unsafe { UseCount::view(count) }.count())
    }
}
