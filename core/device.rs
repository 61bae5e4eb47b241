// SPDX-License-Identifier: GPL-2.0

//! Devices: who is there, and for how long.
//!
//! [`Device`] is any device whose memory is there; [`Registered`] one that stays
//! registered meanwhile, which is what most of the core asks for.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;

/// A device (`struct ib_device`), of this or any driver.
///
/// # Invariants
///
/// A reference is to memory that [`_ib_alloc_device`](abi) made and that is not freed
/// while the reference exists; `res` points to its [`State`].
#[repr(transparent)]
pub(crate) struct Device(Opaque<bindings::ib_device>);

// SAFETY: The fields are changed under the locks of `Documentation/core_locking.md` only.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

/// What the core keeps of a device beside the C structure. Made with the device, freed
/// with its memory.
#[pin_data]
pub(crate) struct State {
    /// Objects that exist on the device.
    #[pin]
    pub(crate) restrack: crate::restrack::Tables,
    /// The GIDs of its ports.
    #[pin]
    pub(crate) gids: crate::gid::Tables,
    /// What is remembered of its ports.
    #[pin]
    pub(crate) copies: crate::cache::Copies,
    /// Which queue pair has which counter.
    #[pin]
    pub(crate) counters: crate::counter::Bindings,
}

impl State {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            restrack <- crate::restrack::Tables::new(),
            gids <- crate::gid::Tables::new(),
            copies <- crate::cache::Copies::new(),
            counters <- crate::counter::Bindings::new(),
        })
    }
}

impl Device {
    /// # Safety
    ///
    /// For `'a`, `ptr` is a device that fulfils the type invariant.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: By this function's duty; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The C structure.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    /// What the core keeps of it.
    #[inline]
    pub(crate) fn state(&self) -> &State {
        // SAFETY: By the type invariant `res` points to the state, which lives as long.
        unsafe { &*(*self.as_raw()).res.cast::<State>() }
    }

    /// The driver's methods.
    #[inline]
    pub(crate) fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: The table is written before the device is registered and not changed after.
        unsafe { &(*self.as_raw()).ops }
    }

    /// The numbers of its ports: 1 to n, or 0 alone for a switch.
    pub(crate) fn ports(&self) -> core::ops::RangeInclusive<u32> {
        // SAFETY: Written before the device is registered and not changed after.
        unsafe {
            if (*self.as_raw()).is_switch() != 0 {
                0..=0
            } else {
                1..=(*self.as_raw()).phys_port_cnt
            }
        }
    }

    /// Whether there is a port of this number.
    pub(crate) fn has_port(&self, port: u32) -> bool {
        self.ports().contains(&port)
    }

    /// Keeps the device registered, unless it is not, or is being unregistered. Any context.
    pub(crate) fn live(&self) -> Option<Registered> {
        // SAFETY: The memory is there.
        if unsafe { bindings::rdma_helper_ib_device_try_get(self.as_raw()) } {
            // INVARIANT: Just counted.
            Some(Registered(NonNull::from(self)))
        } else {
            None
        }
    }
}

/// A device that stays registered as long as this exists; keep it shortly, since whoever
/// unregisters the device waits.
///
/// # Invariants
///
/// `0` is a device of which this holds one count of `refcount`.
pub(crate) struct Registered(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Registered {}
// SAFETY: As above.
unsafe impl Sync for Registered {}

impl Registered {
    /// Takes over a count that C counted.
    ///
    /// # Safety
    ///
    /// `ptr` is a device of which the caller has a count to give away.
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::ib_device>) -> Self {
        // INVARIANT: By this function's duty.
        Self(ptr.cast())
    }

    /// Gives the count to C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Deref for Registered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: By the type invariant the device is there.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: By the type invariant we hold a count.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}

/// What the module as a whole needs for devices: workqueues, the class, parts per namespace.
pub(crate) struct Subsystem;

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }
}
