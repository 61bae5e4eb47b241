// SPDX-License-Identifier: GPL-2.0

//! Permissions of MAD agents.
//!
//! Agents on QP0 are checked at registration and at each change of the policy. The result is
//! cached, since subnet management packets are frequent. Agents on QP1 are checked for each MAD, by
//! its P_Key.

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

/// The admitted agents on QP0.
static MANAGERS: StaticRwSem<KVec<Arc<Rights>>> = StaticRwSem::new(KVec::new());

/// Initialises the list. Must be called before all other functions of this file.
pub(super) fn init() {
    MANAGERS.init(c"security::MANAGERS", kernel::static_lock_class!());
}

/// Called when the module is unloaded.
pub(super) fn fini() {
    // Statics are not dropped.
    if let Some(mut managers) = MANAGERS.write() {
        let managers = core::mem::replace(&mut *managers, KVec::new());
        kernel::warn_on!(!managers.is_empty());
    }
}

/// Checks all agents on QP0 against the new policy. May sleep.
pub(super) fn policy_changed() {
    if let Some(managers) = MANAGERS.write() {
        for rights in managers.iter() {
            rights.allowed.store(rights.ask().is_ok(), Relaxed);
        }
    }
}

/// Security state of an agent on an InfiniBand port.
struct Rights {
    token: Token,
    device: ARef<Device>,
    port: u8,
    which: Special,
    /// Whether the agent may manage the subnet. Written with the list locked.
    allowed: Atomic<bool>,
}

impl Rights {
    /// Checks whether the agent may manage its subnet.
    fn ask(&self) -> Result {
        self.token.may_manage(&self.device.name(), self.port)
    }
}

/// Permissions of an agent; unrestricted on a port without partitions.
pub(crate) struct AgentRights(Option<Arc<Rights>>);

impl AgentRights {
    /// Creates the state for an agent that the current process registers. May sleep.
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

    /// Checks whether the agent may be registered. Undone by [`withdraw`](Self::withdraw). May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module; `ENOMEM`.
    pub(crate) fn admit(&self) -> Result {
        let Some(rights) = self.manager() else {
            return Ok(());
        };
        let mut managers = MANAGERS.write().ok_or(ENODEV)?;
        // Checked under the lock, so that no change of the policy is missed.
        rights.ask()?;
        managers.push(rights.clone(), GFP_KERNEL)?;
        rights.allowed.store(true, Relaxed);
        Ok(())
    }

    /// Forgets an agent that is unregistered. May sleep.
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

    /// Checks whether the agent may send or receive a MAD with the P_Key at this index of the
    /// port's table. Any context.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module; `EINVAL` if there is no such index.
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
