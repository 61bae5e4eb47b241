// SPDX-License-Identifier: GPL-2.0

//! Objects of devices at the edge: arguments of exported functions, and network devices that a
//! driver makes for its ports.
//!
//! To be held against `include/rdma/ib_verbs.h`.

pub(in crate::verbs) mod driver;
pub(crate) mod object;
pub(crate) mod tables;

use self::object::Mr;
use self::object::Object;
use self::object::Pd;
use self::object::Qp;
use self::object::Use;
use self::tables::AhAttr;
use self::tables::QpAttr;
use crate::object::ah_attr::Filled;

use crate::device::Device;
use crate::gid::edge::raw;
use crate::proto::gid::Gid;
use crate::proto::roce::AREA;
use core::marker::PhantomData;
use core::ops::Deref;
use kernel::ffi::c_uchar;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::made;
use rdma::edge::object::Owned;
use rdma::edge::wc::Wc;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Lent;
use rdma::edge::Reply;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::net::NetDevice;

/// The function that sets a new network device up. Only C makes one.
#[derive(Clone, Copy)]
pub(super) struct Setup(Option<unsafe extern "C" fn(*mut bindings::net_device)>);

// SAFETY: `from_c`'s contract: a function for `alloc_netdev_mqs`.
unsafe impl FromC for Setup {
    type C = Option<unsafe extern "C" fn(*mut bindings::net_device)>;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for Setup {}

/// What a driver wants for a network device of its own on a port.
pub(super) struct NetdevParams<'a> {
    device: &'a Device,
    port: u32,
    params: bindings::rdma_netdev_alloc_params,
}

impl<'a> NetdevParams<'a> {
    /// Asks the driver. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and the driver's.
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
        // SAFETY: The name is a string, `setup` is for this function (`Setup`), and the sizes are
        // the driver's. What it returns is new.
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

    /// Has the driver set the network device up; none if it has no method for it. May sleep.
    pub(super) fn initialize(&self, netdev: &NetDevice) -> Option<Result> {
        let method = self.params.initialize_rdma_netdev?;
        let device = self.device.as_raw();
        // SAFETY: Method and parameter are of the device's driver (`of`), which gets a network
        // device that `alloc` made (`rdma_init_netdev`).
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

/// A structure that C has filled, as far as it has, and that is to be filled by us: what it says
/// of references means nothing.
pub(crate) struct Out<'a, V>(&'a V);

impl<V> Deref for Out<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: It is of `'a`.
unsafe impl<'a, V> Within<'a> for Out<'a, V> where Self: FromC {}
// SAFETY: References are taken out before anybody sees the vector.
unsafe impl FromC for Out<'_, AhAttr> {
    type C = *mut bindings::rdma_ah_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: the memory is a vector's, of this call alone.
        unsafe {
            (*c).grh.sgid_attr = core::ptr::null();
            Self(AhAttr::view(c))
        }
    }
}

// SAFETY: References are taken out before anybody sees the vectors.
unsafe impl FromC for Out<'_, QpAttr> {
    type C = *mut bindings::ib_qp_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: the memory is two vectors' and more, of this call alone.
        unsafe {
            (*c).ah_attr.grh.sgid_attr = core::ptr::null();
            (*c).alt_ah_attr.grh.sgid_attr = core::ptr::null();
            Self(QpAttr::view(c))
        }
    }
}

impl Filled<'_> {
    /// The local GID, for users that read the C structure.
    pub(crate) fn gid_entry(&self) -> Option<&bindings::ib_gid_attr> {
        // SAFETY: The entry is held (type invariant), and does not change while it is.
        self.gid().map(|gid| unsafe { &*gid.raw() })
    }
}

/// Ends a queue pair's membership of a group. May sleep.
///
/// # Errors
///
/// The driver's.
pub(super) fn detach_mcast(qp: &Qp, gid: Gid, lid: u16) -> Result {
    qp.driver().detach_mcast(Lent(&mut raw(gid)), lid)?;
    // SAFETY: The driver has found a membership, which `mcast::attach` counted, and ended it.
    drop(unsafe { Use::kept(qp.usecnt()) });
    Ok(())
}

/// The headers of a packet, as [`crate::proto::roce`] knows them.
pub(super) struct Headers(pub(super) [u8; AREA]);

// SAFETY: `from_c`'s contract: headers.
unsafe impl FromC for Headers {
    type C = *const bindings::rdma_network_hdr;

    unsafe fn from_c(c: Self::C) -> Self {
        const { assert!(size_of::<bindings::rdma_network_hdr>() == AREA) };
        // SAFETY: `from_c`'s contract; the union has as many bytes.
        Self(unsafe { c.cast::<[u8; AREA]>().read_unaligned() })
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for Headers {}

/// The headers of a packet, if its completion says that it had a global route. Only C makes one,
/// for the call that it gives the completion to.
pub(super) struct Grh<'a>(*const bindings::ib_grh, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract: valid, if the completion of the same call says so.
unsafe impl FromC for Grh<'_> {
    type C = *const bindings::ib_grh;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Grh<'a> {}

impl Grh<'_> {
    /// The headers. `wc` is the packet's completion.
    pub(super) fn headers(&self, wc: &Wc) -> Option<[u8; AREA]> {
        const { assert!(size_of::<bindings::ib_grh>() == AREA) };
        // SAFETY: The completion says that they are there (`from_c`'s contract); the structure has
        // as many bytes.
        wc.has(bindings::ib_wc_flags_IB_WC_GRH)
            .then(|| unsafe { self.0.cast::<[u8; AREA]>().read_unaligned() })
    }
}

/// A region that was asked for, in an event.
pub(super) struct MadeMr<'a>(pub(super) &'a Result<Owned<Mr>>);

impl IntoC<*mut bindings::ib_mr> for MadeMr<'_> {
    fn into_c(self) -> *mut bindings::ib_mr {
        match self.0 {
            Ok(mr) => mr.raw(),
            Err(error) => error.to_ptr(),
        }
    }
}

/// Events of `include/trace/events/rdma_core.h`.
macro_rules! events {
    ($( $(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $helper:ident; )*) => { $(
        $(#[$meta])*
        #[inline]
        pub(super) fn $name($($arg: $ty),*) {
            // SAFETY: The objects live; the event takes error pointers for a region too.
            unsafe { bindings::$helper($(IntoC::into_c($arg)),*) };
        }
    )* };
}

events! {
    /// A region is destroyed.
    fn trace_mr_dereg(mr: &Mr) = rdma_helper_trace_mr_dereg;
    /// A region was asked for.
    fn trace_mr_alloc(pd: &Pd, mr_type: u32, max_sg: u32, mr: MadeMr<'_>)
        = rdma_helper_trace_mr_alloc;
    /// A region with protection information was asked for.
    fn trace_mr_integ_alloc(pd: &Pd, data: u32, meta: u32, mr: MadeMr<'_>)
        = rdma_helper_trace_mr_integ_alloc;
}
