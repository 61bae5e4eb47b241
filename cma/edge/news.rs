// SPDX-License-Identifier: GPL-2.0

//! The notifier of neighbours (`include/net/netevent.h`).

use crate::news;
use crate::news::Neighbour;
use crate::proto::addr::INET;
use crate::proto::addr::INET6;
use core::mem::MaybeUninit;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::module::Resident;

/// `NETEVENT_NEIGH_UPDATE`.
const NEIGH_UPDATE: c_ulong = 1;

/// A registered notifier.
///
/// # Invariants
///
/// The block is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct Neighbours {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    // The callback is the module's code.
    _resident: Resident,
}

// SAFETY: Only C accesses the block, under its locks.
unsafe impl Send for Neighbours {}
// SAFETY: As for `Send`.
unsafe impl Sync for Neighbours {}

impl Neighbours {
    /// Registers the notifier. May sleep.
    pub(crate) fn register(resident: Resident) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: The block is registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until `drop` unregisters it.
                unsafe {
                    block.write(bindings::notifier_block {
                        notifier_call: Some(callback),
                        ..Default::default()
                    });
                    to_result(bindings::rdma_helper_register_netevent(block))
                }
            }),
            _resident: resident,
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Neighbours {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block is registered (type invariant). C waits for running callbacks.
        unsafe { bindings::rdma_helper_unregister_netevent(self.block.get()) };
    }
}

/// # Safety
///
/// For C only, as a notifier of network events. Softirq or process context.
unsafe extern "C" fn callback(
    _block: *mut bindings::notifier_block,
    event: c_ulong,
    info: *mut c_void,
) -> c_int {
    if event != NEIGH_UPDATE {
        return 0;
    }
    // SAFETY: Zeros are valid for all fields. The event is of a neighbour, which exists during the
    // call; the helper writes the structure.
    let neigh = unsafe {
        let mut neigh: bindings::rdma_helper_cma_neigh = MaybeUninit::zeroed().assume_init();
        bindings::rdma_helper_cma_neigh(info, &mut neigh);
        neigh
    };
    let [a, b, c, d, ..] = neigh.addr;
    let gid = match u16::try_from(neigh.family) {
        Ok(INET) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d],
        Ok(INET6) => neigh.addr,
        _ => return 0,
    };
    news::neighbour(&Neighbour {
        net: neigh.net.addr(),
        ifindex: neigh.ifindex,
        gid,
        hardware: neigh.hardware,
        // CAST: Widens.
        len: neigh.len as usize,
    });
    0
}
