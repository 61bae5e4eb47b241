// SPDX-License-Identifier: GPL-2.0

//! Keys of the tables, and the rules of looking up.
//!
//! The module has these tables; the kernel shards them by hash, tests use ordered maps:
//!
//! | table | key | value |
//! |---|---|---|
//! | local ids | [`CommId`] | every identifier that can receive messages |
//! | peers | [`IdKey`] | connections that have a peer, from REQ or REP to timewait |
//! | queue pairs | [`QpnKey`] | the same |
//! | requests | [`SidrKey`] | identifiers in state `SidrReqRcvd` |
//! | services | device and [`ServiceId`] | listeners |
//!
//! Lock order: the lock of an identifier, then that of a shard. A shard's lock is a leaf.

use super::ids::CommId;
use super::ids::Gid;
use super::ids::Guid;
use super::ids::Qpn;
use super::ids::ServiceId;
use super::wire::About;
use super::wire::Body;
use super::wire::Message;
use super::wire::Reason;

/// A peer's adapter and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdKey {
    /// Adapter.
    pub guid: Guid,
    /// Id.
    pub id: CommId,
}

/// A peer's adapter and queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpnKey {
    /// Adapter.
    pub guid: Guid,
    /// Queue pair.
    pub qpn: Qpn,
}

/// Both keys of a connection. No two connections that are not in timewait share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKeys {
    /// Adapter.
    pub guid: Guid,
    /// Id.
    pub id: CommId,
    /// Queue pair.
    pub qpn: Qpn,
}

impl PeerKeys {
    /// The key in the table of peers.
    pub const fn id_key(&self) -> IdKey {
        IdKey {
            guid: self.guid,
            id: self.id,
        }
    }

    /// The key in the table of queue pairs.
    pub const fn qpn_key(&self) -> QpnKey {
        QpnKey {
            guid: self.guid,
            qpn: self.qpn,
        }
    }
}

/// A request for service id resolution, and the port that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SidrKey {
    /// Source GID, if there was one.
    pub gid: Option<Gid>,
    /// Source LID.
    pub slid: u32,
    /// Id of the request.
    pub id: CommId,
}

impl IdKey {
    /// The key as words, for a keyed hash.
    pub const fn words(&self) -> [u64; 2] {
        // CAST: Widening.
        [self.guid.0, self.id.0 as u64]
    }
}

impl QpnKey {
    /// The key as words, for a keyed hash.
    pub const fn words(&self) -> [u64; 2] {
        // CAST: Widening.
        [self.guid.0, self.qpn.get() as u64]
    }
}

impl SidrKey {
    /// The key as words, for a keyed hash.
    pub fn words(&self) -> [u64; 3] {
        let gid = u128::from_be_bytes(self.gid.unwrap_or_default().0);
        // CAST: The two halves.
        let (high, low) = ((gid >> 64) as u64, gid as u64);
        let rest = u64::from(self.slid) << 32 | u64::from(self.id.0);
        [high, low, rest]
    }
}

/// Result of claiming [`PeerKeys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Both keys are now in the tables.
    Granted,
    /// Another connection has the same peer and id; neither key was inserted. A REQ is then a
    /// duplicate ([`Conn::duplicate_req`](super::conn::Conn::duplicate_req) of the other), a REP is
    /// dropped.
    SameId,
    /// Another connection has the same peer and queue pair; neither key was inserted. One of both
    /// is stale: the message is rejected ([`Reason::STALE_CONN`]; a REQ by the caller, a REP by the
    /// step itself), and then the other connection is disconnected by the caller if [`Conn::is_from_peer`](super::conn::Conn::is_from_peer) holds for it.
    SameQpn,
}

/// One table. Methods take `&self`: the kernel's tables lock a shard.
pub trait Table<K, V> {
    /// Inserts a value, or returns the one that has the key.
    ///
    /// # Errors
    ///
    /// The value that has the key.
    fn insert(&self, key: K, value: V) -> Result<(), V>;

    /// Removes the key, if it has this value.
    fn remove(&self, key: &K, value: &V);
}

/// Claims both keys, or neither. The second result is the value that has the key.
pub fn claim<V: Clone>(
    ids: &impl Table<IdKey, V>,
    qpns: &impl Table<QpnKey, V>,
    keys: &PeerKeys,
    value: &V,
) -> (Claim, Option<V>) {
    if let Err(other) = ids.insert(keys.id_key(), value.clone()) {
        return (Claim::SameId, Some(other));
    }
    if let Err(other) = qpns.insert(keys.qpn_key(), value.clone()) {
        ids.remove(&keys.id_key(), value);
        return (Claim::SameQpn, Some(other));
    }
    (Claim::Granted, None)
}

/// How the identifier that a message is for is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is a request for a listener; the keys that the new connection claims.
    Request(PeerKeys),
    /// It is a request for a listener, without a connection.
    SidrRequest,
    /// By local id.
    Local(CommId),
    /// By the peer's id, as the peer does not know ours.
    Peer(IdKey),
    /// It is for nobody.
    Nobody,
}

/// Removes both keys, as [`Actions::release`](super::conn::Actions::release) tells.
pub fn release<V>(
    ids: &impl Table<IdKey, V>,
    qpns: &impl Table<QpnKey, V>,
    keys: &PeerKeys,
    value: &V,
) {
    qpns.remove(&keys.qpn_key(), value);
    ids.remove(&keys.id_key(), value);
}

impl Lookup {
    /// How the identifier that the message is for is found. If there is none, see
    /// [`Answer::to_stranger`](super::answer::Answer::to_stranger).
    pub fn of(message: &Message<'_>) -> Self {
        match &message.body {
            Body::Req(m) => Self::Request(PeerKeys {
                guid: m.ca_guid,
                id: m.local_id,
                qpn: m.qpn,
            }),
            Body::SidrReq(_) => Self::SidrRequest,
            // Who gives up may not know the other's id, but names its own adapter.
            Body::Rej(m) if m.reason == Reason::TIMEOUT => Self::Peer(IdKey {
                guid: m.ari_guid,
                id: m.local_id,
            }),
            Body::Rej(m) => Self::Local(m.remote_id),
            Body::Mra(m) if m.about == About::Reserved => Self::Nobody,
            Body::Mra(m) => Self::Local(m.remote_id),
            Body::Rep(m) => Self::Local(m.remote_id),
            Body::Rtu(m) => Self::Local(m.remote_id),
            Body::Dreq(m) => Self::Local(m.remote_id),
            Body::Drep(m) => Self::Local(m.remote_id),
            Body::SidrRep(m) => Self::Local(m.request_id),
            Body::Lap(m) => Self::Local(m.remote_id),
            // Answers LAPs, which Linux does not send.
            Body::Apr(_) => Self::Nobody,
        }
    }
}

/// Result of [`share`]. Listeners are found by the exact service id: Linux has no masks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The service is free: insert the listener.
    Insert,
    /// Use the listener that is there, and count one more user of it.
    Share,
    /// It is taken. `ib_cm_listen` answers `EBUSY`, `ib_cm_insert_listen` `EINVAL`.
    Taken,
}

/// Decides about a listener for a service: `has` is the handler and the context of the listener
/// that is there. `handler` is that of the new one if it may be shared. Contexts are compared with
/// their default: null.
pub fn share<H: PartialEq, C: PartialEq + Default>(
    has: Option<(&H, &C)>,
    handler: Option<&H>,
) -> Listen {
    match (has, handler) {
        (None, _) => Listen::Insert,
        (Some((has, context)), Some(handler)) if has == handler && *context == C::default() => {
            Listen::Share
        }
        (Some(_), _) => Listen::Taken,
    }
}

/// The service id to listen on. `assign` returns the next one to be assigned.
///
/// # Errors
///
/// `None` (`EINVAL`) if the id is one that the CM assigns.
pub fn service_to_listen(
    asked: ServiceId,
    assign: impl FnOnce() -> ServiceId,
) -> Option<ServiceId> {
    if asked == ServiceId::ASSIGN {
        return Some(assign());
    }
    (!asked.is_assigned()).then_some(asked)
}
