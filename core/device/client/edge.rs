// SPDX-License-Identifier: GPL-2.0

//! Parts of the core itself that are told of devices as other modules are.

use core::marker::PhantomData;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Passed;

use crate::device::Device;
use crate::edge::client::GivenClient;
use crate::edge::client::NewClient;

/// A part that is told of devices. It keeps what it knows of one in the device's state.
pub(crate) trait Part: 'static {
    /// Its name as a client.
    const NAME: &'static CStr;

    /// A device is there. May sleep.
    ///
    /// # Errors
    ///
    /// Those for which the part has nothing to do with the device; [`remove`](Self::remove) is
    /// not called then.
    fn add(device: &Device) -> Result;

    /// A device goes. May sleep.
    fn remove(device: &Device);

    /// [`remove`](Self::remove), with what clients keep of a device.
    fn removed(device: &Device, _data: Passed<c_void>) {
        Self::remove(device);
    }
}

/// The registration of a part, for as long as this exists.
#[pin_data(PinnedDrop)]
pub(crate) struct Own<P: Part> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    _part: PhantomData<P>,
}

// SAFETY: It is the registration's alone until it is dropped.
unsafe impl<P: Part> Send for Own<P> {}
// SAFETY: As for `Send`.
unsafe impl<P: Part> Sync for Own<P> {}

impl<P: Part> Own<P> {
    /// Registers the part: it is told of each device that is there, and of those to come. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register() -> Result<Pin<KBox<Self>>> {
        let client = bindings::ib_client {
            name: P::NAME.as_char_ptr(),
            add: Some(add::<P>),
            remove: Some(remove::<P>),
            ..Default::default()
        };
        KBox::try_pin_init(
            try_pin_init!(Self {
                client <- Opaque::try_ffi_init(|slot: *mut bindings::ib_client| {
                    // SAFETY: The place is ours, nobody has the client yet, and it stays until it
                    // is unregistered.
                    super::abi::register(unsafe {
                        slot.write(client);
                        NewClient::from_c(slot)
                    })
                }),
                _part: PhantomData,
            }? Error),
            GFP_KERNEL,
        )
    }
}

#[pinned_drop]
impl<P: Part> PinnedDrop for Own<P> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It is registered, and given up here.
        super::abi::unregister_client(unsafe { GivenClient::from_c(self.client.get()) });
    }
}

rdma::callback! {
    /// For the registry, as a client's method.
    fn add<P: Part>(device: &Device) -> Result = P::add;
    /// For the registry, as a client's method.
    fn remove<P: Part>(device: &Device, data: Passed<c_void>) = P::removed;
}
