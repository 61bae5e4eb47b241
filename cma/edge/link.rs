// SPDX-License-Identifier: GPL-2.0

//! The addresses of the link layer in an ID (`struct rdma_dev_addr`).
//!
//! The core writes them while it resolves an address, and others read them without locks. A value may be
//! torn, but any bytes are valid.
//!
//! Must match `include/rdma/ib_addr.h`.

use super::id::Id;
use crate::proto::link::Link;
use core::mem::offset_of;
use core::mem::transmute;
use rdma::bindings::rdma_dev_addr;
use rdma::net::neighbour::HardwareAddr;

/// A hardware address as words, by which it is read and written: volatile accesses to an array are
/// accesses to its elements.
type HardwareWords = [usize; size_of::<HardwareAddr>() / size_of::<usize>()];

const _: () = {
    assert!(align_of::<rdma_dev_addr>() >= align_of::<HardwareWords>());
    assert!(offset_of!(rdma_dev_addr, src_dev_addr) % align_of::<HardwareWords>() == 0);
    assert!(offset_of!(rdma_dev_addr, dst_dev_addr) % align_of::<HardwareWords>() == 0);
    assert!(offset_of!(rdma_dev_addr, broadcast) % align_of::<HardwareWords>() == 0);
};

/// Reads a hardware address, which may be torn.
///
/// # Safety
///
/// It is one of a `struct rdma_dev_addr` that exists.
unsafe fn read_hardware(at: *const HardwareAddr) -> HardwareAddr {
    // SAFETY: It exists (contract of this function), and is aligned to words (asserted above). Words
    // and bytes have no invalid values.
    unsafe { transmute::<HardwareWords, HardwareAddr>(at.cast::<HardwareWords>().read_volatile()) }
}

/// Writes a hardware address.
///
/// # Safety
///
/// As for [`read_hardware`].
unsafe fn write_hardware(at: *mut HardwareAddr, hardware: HardwareAddr) {
    // SAFETY: As in `read_hardware`.
    unsafe {
        at.cast::<HardwareWords>()
            .write_volatile(transmute::<HardwareAddr, HardwareWords>(hardware));
    }
}

impl Id {
    /// The type of the source's network device.
    pub(crate) fn dev_type(&self) -> u16 {
        // SAFETY: Part of the ID.
        unsafe { (&raw const (*self.dev_addr()).dev_type).read_volatile() }
    }

    /// The hardware addresses of both ends, and the broadcast address.
    pub(crate) fn hardware(&self) -> [HardwareAddr; 3] {
        // SAFETY: Parts of the ID. They may be torn (see the module).
        unsafe {
            let at = self.dev_addr();
            [
                read_hardware(&raw const (*at).src_dev_addr),
                read_hardware(&raw const (*at).dst_dev_addr),
                read_hardware(&raw const (*at).broadcast),
            ]
        }
    }

    /// The type of the source's network device, and the hardware addresses.
    pub(crate) fn link(&self) -> Link {
        let [source, destination, broadcast] = self.hardware();
        Link {
            dev_type: self.dev_type(),
            source,
            destination,
            broadcast,
        }
    }

    /// Sets the type of the source's network device, and the hardware addresses.
    pub(crate) fn set_link(&self, link: &Link) {
        // SAFETY: As in `hardware`: parts of the ID.
        unsafe {
            let at = self.dev_addr();
            (&raw mut (*at).dev_type).write_volatile(link.dev_type);
            write_hardware(&raw mut (*at).src_dev_addr, link.source);
            write_hardware(&raw mut (*at).dst_dev_addr, link.destination);
            write_hardware(&raw mut (*at).broadcast, link.broadcast);
        }
    }
}
