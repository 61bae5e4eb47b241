// SPDX-License-Identifier: GPL-2.0

//! What agents of management datagrams may do.
//!
//! Agents of queue pair 0 are asked about once, and at each change of the policy: the answer
//! is remembered, since packets of subnet management come often. Agents of queue pair 1 are
//! asked about with each datagram, by its P_Key.

use super::token::Token;
use crate::cache;
use crate::device::port::Protocol;
use crate::device::Device;
use crate::proto::mad::wire::Special;
use crate::proto::security::Place;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::sync::StaticRwSem;

/// The agents of queue pair 0.
static MANAGERS: StaticRwSem<KVec<Arc<Rights>>> = StaticRwSem::new(KVec::new());

/// Before anything else here.
pub(super) fn init() {
    MANAGERS.init(c"security::MANAGERS", kernel::static_lock_class!());
}

/// The end of the module.
pub(super) fn fini() {
    // A static is not dropped.
    if let Some(mut managers) = MANAGERS.write() {
        let managers = core::mem::replace(&mut *managers, KVec::new());
        kernel::warn_on!(!managers.is_empty());
    }
}

/// The policy has changed. May sleep.
pub(super) fn policy_changed() {
    if let Some(managers) = MANAGERS.write() {
        for rights in managers.iter() {
            rights.allowed.store(rights.ask().is_ok(), Relaxed);
        }
    }
}

/// What is known of an agent on a port of InfiniBand.
struct Rights {
    token: Token,
    device: ARef<Device>,
    port: u8,
    which: Special,
    /// Whether it may manage the subnet. Written with the list locked.
    allowed: Atomic<bool>,
}

impl Rights {
    /// Asks whether it may manage its subnet.
    fn ask(&self) -> Result {
        self.token.may_manage(&self.device.name(), self.port)
    }
}

/// What an agent may do. Anything on a port that has no partitions.
pub(crate) struct AgentRights(Option<Arc<Rights>>);

impl AgentRights {
    /// For an agent that the present process registers. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device, port: u8, which: Special) -> Result<Self> {
        if !device.port_speaks(port.into(), Protocol::Ib) {
            return Ok(Self(None));
        }
        let rights = Rights {
            token: Token::new()?,
            device: device.into(),
            port,
            which,
            allowed: Atomic::new(false),
        };
        Ok(Self(Some(Arc::new(rights, GFP_KERNEL)?)))
    }

    /// Whether there may be such an agent. May sleep. [`withdraw`](Self::withdraw) undoes it.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module; `ENOMEM`.
    pub(crate) fn admit(&self) -> Result {
        let Some(rights) = self.manager() else {
            return Ok(());
        };
        let mut managers = MANAGERS.write().ok_or(ENODEV)?;
        // Asked under the lock, so that no change of the policy comes between.
        rights.ask()?;
        managers.push(rights.clone(), GFP_KERNEL)?;
        rights.allowed.store(true, Relaxed);
        Ok(())
    }

    /// The agent is unregistered: it is not asked about any more. May sleep.
    pub(crate) fn withdraw(&self) {
        let Some(rights) = self.manager() else {
            return;
        };
        if let Some(mut managers) = MANAGERS.write() {
            rdma::kvec::retain(&mut managers, |each| !Arc::ptr_eq(each, rights));
        }
    }

    fn manager(&self) -> Option<&Arc<Rights>> {
        self.0
            .as_ref()
            .filter(|rights| rights.which == Special::Smi)
    }

    /// Whether it may send or receive a datagram whose P_Key is there in the port's table.
    /// Any context.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module; `EINVAL` if there is no such place.
    pub(crate) fn check(&self, pkey_index: u16) -> Result {
        let Some(rights) = &self.0 else { return Ok(()) };
        match rights.which {
            Special::Smi if rights.allowed.load(Relaxed) => Ok(()),
            Special::Smi => Err(EACCES),
            Special::Gsi => {
                let place = Place {
                    port: rights.port.into(),
                    index: pkey_index,
                };
                let partition = cache::partition(&rights.device, place)?;
                rights.token.may_use(partition)
            }
        }
    }
}
