// SPDX-License-Identifier: GPL-2.0

//! Registration state in statics of a module.
//!
//! Some C callbacks get no argument that identifies the registration. They find its state in a
//! static that belongs to a type, the slot of the type ([`StaticSlot`]).

/// A type with a slot of type `S`. Implemented by [`static_slot!`](crate::static_slot).
///
/// # Safety
///
/// `slot` must return the same slot at each call.
pub unsafe trait StaticSlot<S: 'static> {
    /// Returns the slot.
    fn slot() -> &'static S;
}

/// Implements [`StaticSlot`](crate::slot::StaticSlot). A generic type has one slot for all its
/// instances, of which one at a time can be registered.
///
/// # Examples
///
/// ```ignore
/// static_slot!(impl for Socket: PernetSlot);
/// static_slot!(impl{S: RxSink} for PernetState<S>: PernetSlot);
/// ```
#[macro_export]
macro_rules! static_slot {
    (impl$({$($generics:tt)*})? for $self:ty: $slot:ty) => {
        // SAFETY: The slot is a static.
        unsafe impl$(<$($generics)*>)? $crate::slot::StaticSlot<$slot> for $self {
            fn slot() -> &'static $slot {
                static SLOT: $slot = <$slot>::new();
                &SLOT
            }
        }
    };
}
