// SPDX-License-Identifier: GPL-2.0

//! Routes that somebody keeps while their namespace may end.
//!
//! A route refers to its namespace, which it does not keep: for IPv6, and for IPv4 with IPsec, even
//! its release writes to the namespace's counters. Who keeps a route may exist longer than the
//! namespace: when a namespace ends, its network devices move to the initial one, and the queue pairs
//! on them are destroyed later. Therefore the namespace has a list of these routes ([`KeptRoutes`])
//! and releases them at its end; from then on the keeper finds nothing.
//!
//! Lifetimes: a [`KeptRoute`] may be kept indefinitely. [`KeptRoutes::end`] must be called before the
//! namespace's IPv6 state is freed, so by the drop of [`PernetData`](super::PernetData).

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;

use kernel::prelude::*;
use kernel::revocable::Revocable;
use kernel::sync::rcu;
use kernel::sync::Arc;

use super::route::Route;
use crate::module::Resident;
use crate::table::Table;

/// The kept routes of a namespace.
#[pin_data]
pub struct KeptRoutes {
    /// The namespace ends; the routes are not used any more.
    gone: AtomicBool,
    #[pin]
    routes: Table<Revocable<Route>>,
}

impl KeptRoutes {
    /// Creates the empty list of a namespace. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(waits: Resident) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gone: AtomicBool::new(false),
                routes <- Table::new(
                    kernel::optional_name!("rdma::KeptRoutes::routes"),
                    kernel::static_lock_class!(),
                    waits,
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Keeps a route of the namespace. `_rcu` must have been taken before the route was looked up.
    /// Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the namespace ends; `ENOMEM`.
    pub fn keep(self: &Arc<Self>, route: Route, _rcu: &rcu::Guard) -> Result<KeptRoute> {
        // If this is not set yet, `end` waits for the caller's critical section before it looks for
        // routes. So it finds this one, and a route that is dropped here is released in time.
        if self.gone.load(Ordering::Acquire) {
            return Err(ENODEV);
        }
        let slot = self.routes.reserve(0..=u32::MAX, GFP_ATOMIC)?;
        let cell = Arc::pin_init(Revocable::new(route), GFP_ATOMIC)?;
        Ok(KeptRoute {
            id: slot.publish(cell.clone()),
            cell,
            owner: self.clone(),
        })
    }

    /// Releases all routes: none is used any more when this returns. May sleep.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Release);
        // From here on nobody uses a route or adds one.
        crate::sync::rcu::synchronize();
        let mut at = Some(0);
        while let Some((id, cell)) = at.and_then(|at| self.routes.next(at)) {
            // SAFETY: A route is used only in a critical section that has seen `gone` unset
            // (`KeptRoute::get`); these are over.
            let _: bool = unsafe { cell.revoke_nosync() };
            at = id.checked_add(1);
        }
        // Keepers release theirs in a critical section. What IPsec has made of several routes releases
        // them by callbacks.
        crate::sync::rcu::synchronize();
        crate::sync::rcu::barrier();
    }
}

/// A route that is kept until its namespace ends.
pub struct KeptRoute {
    owner: Arc<KeptRoutes>,
    cell: Arc<Revocable<Route>>,
    id: u32,
}

impl KeptRoute {
    /// Returns the route; `None` if its namespace ends.
    #[inline]
    pub fn get<'a>(&'a self, rcu: &'a rcu::Guard) -> Option<&'a Route> {
        if self.owner.gone.load(Ordering::Acquire) {
            return None;
        }
        self.cell.try_access_with_guard(rcu)
    }
}

impl Drop for KeptRoute {
    fn drop(&mut self) {
        // `KeptRoutes::end` waits for this.
        let _rcu = rcu::read_lock();
        let _: Option<Arc<Revocable<Route>>> = self.owner.routes.remove(self.id);
        // SAFETY: Only `get` uses the route, which borrows `self`.
        let _: bool = unsafe { self.cell.revoke_nosync() };
    }
}
