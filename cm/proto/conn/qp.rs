// SPDX-License-Identifier: GPL-2.0

//! Attributes of the queue pair, by its next state (`ib_cm_init_qp_attr`).

use super::super::ids::Psn;
use super::super::ids::Qpn;
use super::super::wire::Transport;
use super::state::Local;
use super::state::Peer;
use super::state::State;
use super::state::Step;
use super::state::Terms;
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
    /// Whether there is an alternate path that can be used.
    pub fn has_alternate(&self) -> bool {
        self.known()
            .is_ok_and(|(terms, ..)| terms.alternate().is_some())
    }

    /// Attributes for state INIT.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] unless there is a connection, or one is being made.
    pub fn init_attr(&self) -> Result<InitAttr<'_, R>, Refused> {
        let terms = match &self.state {
            State::ReqSent { terms, .. } | State::ReqRcvd { terms, .. } => terms,
            State::Linked {
                link,
                step: Step::RepSent { .. } | Step::RepRcvd { .. } | Step::Established { .. },
            } => &link.terms,
            State::Linked {
                step: Step::DreqSent { .. } | Step::DreqRcvd,
                ..
            }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return Err(Refused::Invalid),
        };
        Ok(InitAttr {
            path: &terms.primary,
            can_respond: terms.responder_resources != 0,
        })
    }

    /// Attributes for state RTR.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] unless there is a connection, or the peer of a future one is known.
    pub fn rtr_attr(&self) -> Result<RtrAttr<'_, R>, Refused> {
        let (terms, peer, local) = self.known()?;
        let is_responder = match terms.transport {
            Transport::Rc => true,
            Transport::Xrc => !terms.is_active,
            Transport::Uc | Transport::Other(..) => false,
        };
        Ok(RtrAttr {
            path: &terms.primary,
            mtu: terms.mtu,
            dest_qpn: peer.qpn,
            rq_psn: local.map(|local| local.psn).unwrap_or_default(),
            max_dest_rd_atomic: is_responder.then_some(terms.responder_resources),
            alternate: terms.alternate(),
        })
    }

    /// Attributes for state RTS.
    ///
    /// # Errors
    ///
    /// As [`rtr_attr`](Self::rtr_attr).
    pub fn rts_attr(&self) -> Result<RtsAttr<'_, R>, Refused> {
        let (terms, peer, _) = self.known()?;
        let alternate = terms.alternate();
        if self.lap() != Lap::Uninit {
            return Ok(RtsAttr::Alternate(alternate));
        }
        let is_initiator = match terms.transport {
            Transport::Rc => true,
            Transport::Xrc => terms.is_active,
            Transport::Uc | Transport::Other(..) => false,
        };
        let has_timeout = matches!(terms.transport, Transport::Rc | Transport::Xrc);
        Ok(RtsAttr::First {
            sq_psn: peer.psn,
            initiator: is_initiator.then_some(InitiatorAttr {
                retry_cnt: terms.retry_count,
                rnr_retry: terms.rnr_retry_count,
                max_rd_atomic: terms.initiator_depth,
            }),
            timeout: has_timeout.then_some(terms.primary.timeout),
            rearm: alternate.is_some(),
        })
    }

    /// A connection, or a future one whose peer is known.
    fn known(&self) -> Result<(&Terms<R>, &Peer, Option<&Local>), Refused> {
        match &self.state {
            State::ReqRcvd { terms, peer, .. } => Ok((terms, peer, None)),
            State::Linked {
                link,
                step: Step::RepSent { .. } | Step::RepRcvd { .. } | Step::Established { .. },
            } => Ok((&link.terms, &link.peer, Some(&link.local))),
            State::Linked {
                step: Step::DreqSent { .. } | Step::DreqRcvd,
                ..
            }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Err(Refused::Invalid),
        }
    }
}

impl<R> Terms<R> {
    /// The alternate path, if it can be used.
    fn alternate(&self) -> Option<Alternate<'_, R>> {
        let path = self.alternate.as_ref().filter(|path| path.has_lid)?;
        Some(Alternate { path })
    }
}
