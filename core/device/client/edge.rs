// SPDX-License-Identifier: GPL-2.0

//! Clients in the core itself.

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

/// A part of the core that is notified of devices. It stores its data in the device's state.
pub(crate) trait Part: 'static {
    /// Name of the client.
    const NAME: &'static CStr;

    /// Called for each device. May sleep.
    ///
    /// # Errors
    ///
    /// An error means that the part does not handle the device; [`remove`](Self::remove) is not
    /// called then.
    fn add(device: &Device) -> Result;

    /// Called when a device is removed. May sleep.
    fn remove(device: &Device);

    /// Adapts [`remove`](Self::remove) to the callback, which also passes the client data.
    fn removed(device: &Device, _data: Passed<c_void>) {
        Self::remove(device);
    }
}

/// Registration of a part as a client. Dropping it unregisters the client.
#[pin_data(PinnedDrop)]
pub(crate) struct Own<P: Part> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    _part: PhantomData<P>,
}

// SAFETY: Only the registry accesses the client, under its locks, until it is unregistered on drop.
unsafe impl<P: Part> Send for Own<P> {}
// SAFETY: Same as for `Send`.
unsafe impl<P: Part> Sync for Own<P> {}

impl<P: Part> Own<P> {
    /// Registers the part and notifies it of all present and future devices. May sleep.
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
                    // SAFETY: `slot` is exclusively ours and nobody has the client yet; it is
                    // pinned until it is unregistered.
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
        // SAFETY: The client is registered, and not used after this.
        super::abi::unregister_client(unsafe { GivenClient::from_c(self.client.get()) });
    }
}

rdma::callback! {
    /// Client method that the registry calls.
    fn add<P: Part>(device: &Device) -> Result = P::add;
    /// Client method that the registry calls.
    fn remove<P: Part>(device: &Device, data: Passed<c_void>) = P::removed;
}
