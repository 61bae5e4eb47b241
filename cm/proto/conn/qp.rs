// SPDX-License-Identifier: GPL-2.0

//! Attributes of the queue pair, by its next state (`ib_cm_init_qp_attr`).

use super::super::ids::Psn;
use super::super::ids::Qpn;
use super::super::wire::Transport;
use super::state::State;
use super::Conn;
use super::Lap;
use super::Path;
use super::Refused;
use super::Route;

/// Attributes for state INIT: access flags, P_Key index and port (both of the primary path). Remote
/// write is always permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitAttr<'a, R> {
    /// Primary path.
    pub path: &'a Path<R>,
    /// Whether remote read, atomic and flush operations are permitted.
    pub can_respond: bool,
}

/// An alternate path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternate<'a, R> {
    /// The path, and its timeout.
    pub path: &'a Path<R>,
}

/// Attributes for state RTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtrAttr<'a, R> {
    /// Primary path: address vector.
    pub path: &'a Path<R>,
    /// Path MTU.
    pub mtu: u8,
    /// Peer's queue pair.
    pub dest_qpn: Qpn,
    /// First PSN to be received.
    pub rq_psn: Psn,
    /// `max_dest_rd_atomic`, with a `min_rnr_timer` of 0: for RC and for targets of XRC.
    pub max_dest_rd_atomic: Option<u8>,
    /// Alternate path, if there is one with a LID.
    pub alternate: Option<Alternate<'a, R>>,
}

/// Attributes of a requester: RC, and initiators of XRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiatorAttr {
    /// Retries.
    pub retry_cnt: u8,
    /// Retries after "receiver not ready".
    pub rnr_retry: u8,
    /// `max_rd_atomic`.
    pub max_rd_atomic: u8,
}

/// Attributes for state RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtsAttr<'a, R> {
    /// The connection is new.
    First {
        /// First PSN to be sent.
        sq_psn: Psn,
        /// For requesters.
        initiator: Option<InitiatorAttr>,
        /// Acknowledgement timeout: for RC and XRC.
        timeout: Option<u8>,
        /// Whether there is an alternate path: `path_mig_state` is `IB_MIG_REARM`.
        rearm: bool,
    },
    /// Only the alternate path changes; `path_mig_state` is `IB_MIG_REARM`.
    Alternate(Option<Alternate<'a, R>>),
}

impl<R: Route> Conn<R> {
    /// Attributes for state INIT.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] unless there is a connection, or one is being made.
    pub fn init_attr(&self) -> Result<InitAttr<'_, R>, Refused> {
        let _ = self;
        todo!()
    }

    /// Attributes for state RTR.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] unless there is a connection, or the peer of a future one is known.
    pub fn rtr_attr(&self) -> Result<RtrAttr<'_, R>, Refused> {
        let _ = (Transport::Rc, Lap::Uninit, State::<R>::Idle);
        todo!()
    }

    /// Attributes for state RTS.
    ///
    /// # Errors
    ///
    /// As [`rtr_attr`](Self::rtr_attr).
    pub fn rts_attr(&self) -> Result<RtsAttr<'_, R>, Refused> {
        todo!()
    }
}
