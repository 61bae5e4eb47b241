// SPDX-License-Identifier: GPL-2.0

//! Devices and connections.
//!
//! A device is known by its protection domain, which connections use that expose nothing. When the
//! device is removed, its connections are closed first: a protection domain keeps its device.
//!
//! Locks: `devices`, then `peers`. Neither is held when a connection is closed.

use crate::peer::Peer;
use crate::NAME;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::cm::CmEvent;
use rdma::errno::eopnotsupp;
use rdma::kvec;
use rdma::ulp::Pd;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

/// Number of connections at a time: each has 2 to 4 MiB of memory, for which nobody is charged.
const MOST: usize = 64;

#[pin_data]
pub(crate) struct Service {
    #[pin]
    devices: Mutex<KVec<Arc<Pd>>>,
    #[pin]
    peers: Mutex<KVec<Arc<Peer>>>,
    /// Closes connections for those who cannot wait. It is gone when the module is unloaded.
    #[pin]
    closing: Mutex<Option<OwnedQueue>>,
}

impl Service {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let closing = QueueOptions::unbound().create(NAME, rdma::resident!())?;
        let service = pin_init!(Self {
            devices <- new_mutex!(KVec::new(), "Service::devices"),
            peers <- new_mutex!(KVec::new(), "Service::peers"),
            closing <- new_mutex!(Some(closing), "Service::closing"),
        });
        Arc::pin_init(service, GFP_KERNEL)
    }

    /// Adds a connection on the device of an event. Returns the protection domain.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is not there or is being removed; `ENOMEM`; `EBUSY` if there are too
    /// many.
    pub(crate) fn admit(&self, event: &CmEvent<'_>, peer: &Arc<Peer>) -> Result<Arc<Pd>> {
        // Under the lock until it is in the list, so that removal finds it.
        let devices = self.devices.lock();
        let mut all = devices.iter();
        let pd = all.find(|pd| pd.device().raw() == event.device());
        let pd = pd.ok_or(ENODEV)?.clone();
        let mut peers = self.peers.lock();
        if peers.len() >= MOST {
            return Err(EBUSY);
        }
        peer.set_pd(&pd);
        peers.push(peer.clone(), GFP_KERNEL)?;
        Ok(pd)
    }

    /// Removes a connection that has ended.
    pub(crate) fn forget(&self, peer: &Arc<Peer>) {
        let gone = kvec::take(&mut self.peers.lock(), |it| Arc::ptr_eq(it, peer));
        // Not under the lock.
        drop(gone);
    }

    /// Closes a connection by a work item. If there is no memory for that, it stays until its peer
    /// ends it.
    pub(crate) fn close_later(self: &Arc<Self>, peer: &Arc<Peer>) {
        let (service, peer) = (self.clone(), peer.clone());
        if let Some(closing) = &*self.closing.lock() {
            let _ = closing.try_spawn(GFP_KERNEL, move || {
                peer.close();
                service.forget(&peer);
            });
        }
    }

    /// Waits for what [`close_later`](Self::close_later) has begun. None is begun afterwards.
    pub(crate) fn end(&self) {
        let closing = self.closing.lock().take();
        drop(closing);
    }

    /// Closes connections. May sleep.
    pub(crate) fn close_all(&self, which: impl Fn(&Peer) -> bool) {
        loop {
            let next = kvec::take(&mut self.peers.lock(), |peer| which(peer));
            let Some(peer) = next else {
                return;
            };
            peer.close();
        }
    }
}

rdma::static_slot!(impl for Service: ClientSlot<Service>);

impl Client for Service {
    type Data = Arc<Pd>;
    const NAME: &'static CStr = NAME;

    fn add(&self, device: DeviceRef) -> Result<Arc<Pd>> {
        let pd = Pd::new(&device, NAME)?;
        self.devices.lock().push(pd.clone(), GFP_KERNEL)?;
        Ok(pd)
    }

    fn remove(&self, pd: Arc<Pd>) {
        let listed = kvec::take(&mut self.devices.lock(), |it| Arc::ptr_eq(it, &pd));
        drop(listed);
        self.close_all(|peer| peer.is_on(&pd));
    }

    fn nl_info<'a>(&self, _: &'a Arc<Pd>, _: &DeviceRef, _: u32) -> Result<NlInfo<'a>> {
        Err(eopnotsupp())
    }
}
