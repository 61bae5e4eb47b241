// SPDX-License-Identifier: GPL-2.0

//! The C interface of verbs objects: arguments of exported functions, and network devices that a
//! driver provides for its ports.
//!
//! C header: `include/rdma/ib_verbs.h`.

use crate::device::Device;
use crate::gid::edge::raw;
use crate::object::Object;
use crate::object::Qp;
use crate::object::Use;
use crate::proto::gid::Gid;
use crate::proto::roce::AREA;
use core::marker::PhantomData;
use kernel::ffi::c_uchar;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::made;
use rdma::edge::object::Owned;
use rdma::edge::wc::Wc;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::Lent;
use rdma::edge::Reply;
use rdma::edge::Tied;
use rdma::edge::Within;
use rdma::net::NetDevice;

/// The setup function of a new network device. Only C creates it.
#[derive(Clone, Copy)]
pub(super) struct Setup(Option<unsafe extern "C" fn(*mut bindings::net_device)>);

rdma::argument! {
    /// A setup function for `alloc_netdev_mqs`.
    impl Setup = |setup: Option<unsafe extern "C" fn(*mut bindings::net_device)>| Setup(setup);
}

/// A driver's parameters for a network device on a port.
pub(super) struct NetdevParams<'a> {
    device: &'a Device,
    port: u32,
    params: bindings::rdma_netdev_alloc_params,
}

impl<'a> NetdevParams<'a> {
    /// Queries the driver. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and those of the driver.
    pub(super) fn of(device: &'a Device, port: u32, kind: u32) -> Result<Self> {
        let mut params = bindings::rdma_netdev_alloc_params::default();
        let lent = Lent(&mut params);
        device.driver().rdma_netdev_get_params(port, kind, lent)?;
        Ok(Self {
            device,
            port,
            params,
        })
    }

    /// Allocates the network device. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn alloc(
        &self,
        name: &CStr,
        name_assign_type: c_uchar,
        setup: Setup,
    ) -> Result<Owned<NetDevice>> {
        // SAFETY: The name is null-terminated, `setup` is a function for this purpose (`Setup`),
        // and the sizes are the driver's. The returned device is new.
        unsafe {
            made(bindings::rdma_helper_alloc_netdev(
                self.params.sizeof_priv,
                name.as_char_ptr(),
                name_assign_type,
                setup.0,
                self.params.txqs,
                self.params.rxqs,
            ))
        }
    }

    /// Has the driver initialise the network device; `None` if it has no method for it. May sleep.
    pub(super) fn initialize(&self, netdev: &NetDevice) -> Option<Result> {
        let method = self.params.initialize_rdma_netdev?;
        let device = self.device.as_raw();
        // SAFETY: Method and parameter come from the device's driver (`of`). The network device was
        // allocated by `alloc` (`rdma_init_netdev`).
        Some(unsafe {
            Reply::reply(method(
                device,
                self.port,
                netdev.as_raw(),
                self.params.param,
            ))
        })
    }
}

/// Removes a queue pair from a multicast group. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn detach_mcast(qp: &Qp, gid: Gid, lid: u16) -> Result {
    qp.driver().detach_mcast(Lent(&mut raw(gid)), lid)?;
    // SAFETY: The driver has found and removed a membership, which `mcast::attach` counted.
    drop(unsafe { Use::kept(qp.usecnt()) });
    Ok(())
}

/// The headers of a packet, in the format of [`crate::proto::roce`].
pub(super) struct Headers(pub(super) [u8; AREA]);

// SAFETY: `from_c` is for a pointer to the headers of a packet.
unsafe impl FromC for Headers {
    type C = *const bindings::rdma_network_hdr;

    unsafe fn from_c(c: Self::C) -> Self {
        const { assert!(size_of::<bindings::rdma_network_hdr>() == AREA) };
        // SAFETY: The pointer is valid for reads (contract of `from_c`), and the union has `AREA`
        // bytes.
        Self(unsafe { c.cast::<[u8; AREA]>().read_unaligned() })
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for Headers {}

/// Tag of C arguments: the completion of a received packet, and the address of the packet's headers,
/// which are valid if the completion has the GRH flag.
pub(super) enum Packet {}
/// The completion of a packet.
pub(super) type WcArg<'a> = Tied<'a, Packet, In<'a, Wc>>;
/// Address of its headers.
pub(super) type GrhArg<'a> = Tied<'a, Packet, *const bindings::ib_grh>;

/// A received packet.
///
/// # Invariants
///
/// For `'a`, `grh` is the address of valid headers if the completion has the GRH flag.
pub(super) struct Received<'a> {
    wc: &'a Wc,
    grh: *const bindings::ib_grh,
    _area: PhantomData<&'a ()>,
}

impl<'a> Received<'a> {
    /// The packet of a call.
    pub(super) fn of_call(wc: WcArg<'a>, grh: GrhArg<'a>) -> Self {
        // INVARIANT: Both arguments have the same tag.
        Self {
            wc: wc.get().0,
            grh: grh.get(),
            _area: PhantomData,
        }
    }

    /// A packet whose buffer begins with `area`.
    pub(super) fn new(wc: &'a Wc, area: &'a [u8; AREA]) -> Self {
        // INVARIANT: The headers are valid in any case.
        Self {
            wc,
            grh: area.as_ptr().cast(),
            _area: PhantomData,
        }
    }

    /// The completion.
    pub(super) fn wc(&self) -> &Wc {
        self.wc
    }

    /// Returns the headers.
    pub(super) fn headers(&self) -> Option<[u8; AREA]> {
        const { assert!(size_of::<bindings::ib_grh>() == AREA) };
        if !self.wc.has(bindings::ib_wc_flags_IB_WC_GRH) {
            return None;
        }
        // SAFETY: The completion says that the headers are valid (type invariant); the structure
        // has `AREA` bytes.
        Some(unsafe { self.grh.cast::<[u8; AREA]>().read_unaligned() })
    }
}
