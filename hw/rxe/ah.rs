// SPDX-License-Identifier: GPL-2.0

//! Address handles: destinations of datagrams, which user space names by number.

use crate::device::Dev;
use crate::device::Rxe;
use crate::limits;
use crate::mem::PdId;
use crate::net::default_source_port;
use crate::net::Path;
use crate::net::PathSpec;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::net::NetworkType;
use rdma::new_spinlock_irq;
use rdma::provider;
use rdma::provider::AhAttr;
use rdma::provider::AhInit;
use rdma::provider::New;
use rdma::sync::SpinLockIrq;
use rdma::udata::Udata;

/// The part of an address handle that the data path uses. It may outlive the handle; then
/// [`is_gone`](Self::is_gone) returns true.
#[pin_data]
pub(crate) struct Ah {
    pub(crate) pd: PdId,
    gone: Atomic<bool>,
    #[pin]
    spec: SpinLockIrq<PathSpec>,
}

impl Ah {
    /// Returns whether the handle has been destroyed. Any context.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// Returns the path for datagrams of queue pair `qpn`; `None` if the address is not usable. Any
    /// context.
    pub(crate) fn path(&self, qpn: u32) -> Option<Path> {
        Path::new(*self.spec.lock(), default_source_port(qpn)).ok()
    }
}

/// The driver's data of an address handle.
pub(crate) struct Handle {
    dev: Arc<Dev>,
    number: u32,
    core: Arc<Ah>,
}

impl Handle {
    /// Returns the number by which work requests name the handle.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Creates a handle. Any context if the flags of `init` say so.
    pub(crate) fn create(
        new: &New<'_, provider::Ah<Rxe>>,
        init: &AhInit<'_>,
        udata: &mut Udata<'_>,
    ) -> Result<Self> {
        let spec = spec_of(init.attr())?;
        let dev = new.device().dev.clone();
        let flags = init.flags();
        let core = Arc::pin_init(
            pin_init!(Ah {
                pd: new.pd().id,
                gone: Atomic::new(false),
                spec <- new_spinlock_irq!(spec, "rxe::Ah::spec"),
            }),
            flags,
        )?;
        // Without a free number, the C driver returns this error.
        let full = |error| if error == EBUSY { EINVAL } else { error };
        let slot = dev.ahs.reserve(limits::AHN, flags).map_err(full)?;
        let number = slot.id();
        if udata.is_user() {
            // Old libraries leave no room for the number; they copy the address into each request.
            let answer = bindings::rxe_create_ah_resp {
                ah_num: number,
                reserved: 0,
            };
            if udata.out_len() >= size_of_val(&answer) {
                udata.respond(&[answer.ah_num, answer.reserved])?;
            }
        }
        slot.publish(core.clone());
        Ok(Self { dev, number, core })
    }

    /// Changes the destination.
    pub(crate) fn modify(&self, attr: &AhAttr) -> Result {
        let spec = spec_of(attr)?;
        *self.core.spec.lock() = spec;
        Ok(())
    }

    /// Reports the destination.
    pub(crate) fn query(&self, attr: &mut AhAttr) {
        describe(attr, &self.core.spec.lock());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.gone.store(true, Release);
        drop(self.dev.ahs.remove(self.number));
    }
}

/// Converts an address attribute that the core has resolved.
///
/// # Errors
///
/// `EINVAL` if it is not a RoCEv2 address with a global route.
pub(crate) fn spec_of(attr: &AhAttr) -> Result<PathSpec> {
    let sgid = attr.sgid().ok_or(EINVAL)?;
    match sgid.network_type() {
        NetworkType::Ipv4 | NetworkType::Ipv6 => {}
        NetworkType::Infiniband | NetworkType::RoceV1 => return Err(EINVAL),
    }
    PathSpec::from_ah_attr(attr, sgid)
}

/// Writes a path into an address attribute.
pub(crate) fn describe(attr: &mut AhAttr, spec: &PathSpec) {
    attr.set_dmac(spec.dmac);
    attr.set_grh(
        spec.dgid,
        spec.flow_label,
        spec.sgid_index,
        spec.hop_limit,
        spec.traffic_class,
    );
    attr.set_port_num(1);
}
