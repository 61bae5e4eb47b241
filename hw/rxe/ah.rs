// SPDX-License-Identifier: GPL-2.0

//! Address handles: destinations of datagrams, which user space names by number.
//!
//! A user may destroy a handle soon after it has posted the requests that name it. Requests that a
//! queue pair holds back ([`crate::qp`]) are therefore sent first: [`Holders`] tells which queue
//! pair that is. Requests that wait for another reason are not.

use crate::device::Dev;
use crate::device::Rxe;
use crate::limits;
use crate::mem::PdId;
use crate::net::default_source_port;
use crate::net::Path;
use crate::net::PathSpec;
use crate::qp::Qp;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
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

/// The part of an address handle that the data path uses. It may outlive the handle.
#[pin_data]
pub(crate) struct Ah {
    pub(crate) pd: PdId,
    /// Changes with `spec`; [`GONE`] once the handle has been destroyed. Written under `spec`.
    edition: Atomic<u32>,
    #[pin]
    spec: SpinLockIrq<PathSpec>,
}

/// The edition of a destroyed handle.
const GONE: u32 = u32::MAX;

/// A state of an address handle. What was made from it is valid as long as [`Ah::is`] says so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edition(u32);

impl Ah {
    /// Returns whether the handle exists and has not changed since it was in this state. Any
    /// context.
    #[inline]
    pub(crate) fn is(&self, edition: Edition) -> bool {
        self.edition.load(Acquire) == edition.0
    }

    /// Returns the path for datagrams of queue pair `qpn`, `None` if the address is not usable, and
    /// the state of the handle that it is made from. Returns `None` if the handle has been
    /// destroyed. Any context.
    pub(crate) fn path(&self, qpn: u32) -> Option<(Option<Path>, Edition)> {
        let spec = self.spec.lock();
        let edition = self.edition.load(Relaxed);
        let path = Path::new(*spec, default_source_port(qpn)).ok();
        (edition != GONE).then_some((path, Edition(edition)))
    }

    /// Changes the destination.
    fn set(&self, new: PathSpec) {
        let mut spec = self.spec.lock();
        *spec = new;
        let next = match self.edition.load(Relaxed).wrapping_add(1) {
            GONE => 0,
            next => next,
        };
        self.edition.store(next, Release);
    }

    /// Records that the handle has been destroyed.
    fn end(&self) {
        let _spec = self.spec.lock();
        self.edition.store(GONE, Release);
    }
}

/// Number of places for queue pairs that hold datagrams back; a power of two.
const PLACES: usize = 64;

/// The datagram queue pairs of a device that hold requests back: at most one for each protection
/// domain, to which the handles that the requests name belong. Domains share places.
pub(crate) struct Holders([Atomic<u32>; PLACES]);

impl Holders {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self([const { Atomic::new(0) }; PLACES])
    }

    fn place(&self, pd: PdId) -> &Atomic<u32> {
        let Self(places) = self;
        let [first, ..] = places;
        // CAST: the low bits count.
        let index = pd.0 as usize % PLACES;
        places.get(index).unwrap_or(first)
    }

    /// Records that queue pair `number` of domain `pd` holds requests back. Returns `false` if
    /// another queue pair is recorded in its place. Any context.
    pub(crate) fn hold(&self, pd: PdId, number: u32) -> bool {
        match self.place(pd).cmpxchg(0, number, Full) {
            Ok(_) => true,
            Err(present) => present == number,
        }
    }

    /// Records that queue pair `number` of domain `pd` no longer holds requests back: those that it
    /// held have been served. Any context.
    pub(crate) fn let_go(&self, pd: PdId, number: u32) {
        // Release: who finds no record comes after the use of the handles. A record of another queue
        // pair stays.
        let _: Result<u32, u32> = self.place(pd).cmpxchg(number, 0, Release);
    }

    /// Returns the queue pair that may hold requests back that name handles of domain `pd`. Any
    /// context.
    fn of(&self, pd: PdId) -> Option<u32> {
        match self.place(pd).load(Acquire) {
            0 => None,
            number => Some(number),
        }
    }
}

/// The driver's data of an address handle.
pub(crate) struct Handle {
    dev: Arc<Dev>,
    number: u32,
    core: Arc<Ah>,
    user: bool,
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
                edition: Atomic::new(0),
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
        Ok(Self {
            dev,
            number,
            core,
            user: udata.is_user(),
        })
    }

    /// Changes the destination. Requests that were posted before go to the old one.
    pub(crate) fn modify(&self, attr: &AhAttr) -> Result {
        let spec = spec_of(attr)?;
        self.serve_held();
        self.core.set(spec);
        Ok(())
    }

    /// Reports the destination.
    pub(crate) fn query(&self, attr: &mut AhAttr) {
        describe(attr, &self.core.spec.lock());
    }
}

impl Handle {
    /// Serves the requests that are held back and may name the handle. Only those of users are held
    /// back; a user's handle is changed and destroyed in process context.
    fn serve_held(&self) {
        if !self.user {
            return;
        }
        let number = self.dev.holders.of(self.core.pd);
        if let Some(qp) = number.and_then(|number| self.dev.qps.get(number)) {
            Qp::uncork_entirely(qp.as_arc_borrow());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.serve_held();
        self.core.end();
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
