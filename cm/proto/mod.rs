// SPDX-License-Identifier: GPL-2.0

//! Pure engine of `ib_cm`. No kernel calls, no allocation, no clock.
//!
//! * [`ids`]: numbers of the protocol;
//! * [`wire`]: messages, parsed from and written to MADs;
//! * [`conn`]: one communication identifier: its states, calls, messages, timers;
//! * [`tables`]: keys of the tables, and how the identifier of a message is found;
//! * [`answer`]: messages that the CM sends by itself, also without an identifier;
//! * [`path`]: paths in requests, and what a receiver makes of them;
//! * [`times`]: timeout fields;
//! * [`repeat`]: early repeats;
//! * [`wake`]: when the work item of an identifier runs;
//! * [`counters`]: counters of a port;
//! * [`reject`]: texts of rejection reasons.
//!
//! How the parts are used, for a received MAD:
//!
//! 1. [`Message::parse`](wire::Message::parse); count it as received by its kind.
//! 2. [`Lookup::of`](tables::Lookup::of) tells how to find the identifier.
//! 3. If there is one: [`Conn::receive`](conn::Conn::receive) under its lock. It ignores what is
//!    not for it or not from its peer.
//! 4. If there is none: [`Answer::to_stranger`](answer::Answer::to_stranger).
//! 5. For a REQ: [`tables::claim`] its keys for a new identifier. `SameId`:
//!    [`Conn::duplicate_req`](conn::Conn::duplicate_req) of the other. `SameQpn`:
//!    [`Answer::reject`](answer::Answer::reject), and a DREQ of the other if
//!    [`Conn::is_from_peer`](conn::Conn::is_from_peer). Granted: find the listener, make the paths
//!    ([`path::from_req`]), [`Conn::from_req`](conn::Conn::from_req), deliver
//!    `Received(Kind::Req)`.
//! 6. For a SIDR_REQ: insert its [`SidrKey`](tables::SidrKey), find the listener,
//!    [`Conn::from_sidr_req`](conn::Conn::from_sidr_req).
//!
//! Specification: InfiniBand Architecture, volume 1, chapter 12; `include/rdma/ib_cm.h`.
//!
//! # Deliberate differences from the C module
//!
//! Faults of the C module that this engine does not have:
//!
//! * Messages with the source GID of another node than the peer's are ignored, so that a third node
//!   cannot reject, disconnect or establish a connection. LIDs and MACs are not compared, as they
//!   change with multipathing and bonding. A REQ with the queue pair of an existing connection is
//!   rejected as stale, but ends that connection only if it comes from the same peer.
//! * The key of a SIDR_REQ includes the source GID: the source LID is 0 for all RoCE nodes.
//! * A REQ that is not answered is followed by a REJ with reason 4. Otherwise a passive side that
//!   has sent its REP waits for the RTU until all its retries are over.
//! * `ib_send_cm_rej` in `REQ_SENT` or `REP_SENT` cancels the REQ or REP, which is otherwise
//!   repeated until all retries are over.
//! * A LAP changes the paths only if the state accepts it.
//! * `ib_cm_notify(IB_EVENT_PATH_MIG)` without an alternate path is refused (`EINVAL`) instead of
//!   replacing the primary path by an empty one. The route is cloned, with its references.
//! * `ib_cm_notify(IB_EVENT_COMM_EST)` cancels the REP at once, not when its event is delivered: a
//!   DREQ in between leaves no REP that is repeated.
//! * A request that could not be posted leaves an idle identifier as it was. `ib_send_cm_sidr_req`
//!   does not replace the path of a busy identifier.
//! * An identifier can be used for another request. In the C module the id of the old peer remains,
//!   and no REP is accepted. Further requests have TIDs of their own, which their answers must have:
//!   a late answer to an earlier request is ignored.
//! * Additional information ends with its field, whatever length the peer claims (up to 127 bytes in
//!   a REJ and 255 in an APR and a SIDR_REP, of which the field has 72).
//! * A SIDR_REP tells the length of its additional information.
//! * A REJ of a REQ for which there is no state has the local id 0, not the vendor id of the REQ.
//! * A repeated DREP has the TID of the DREQ that it answers, and the private data of the first DREP
//!   or none; in the C module it may have that of the RTU.
//! * `ib_prepare_cm_mra` for a LAP does not drop the private data of the RTU.
//! * If the caller asks for it, a message is sent once more after a second ([`repeat`]).
//! * Timeout fields above 31 count as 31; the C module shifts by them.
//! * Private data that is too long is refused before anything is allocated.
//! * When the device is removed, timewait ends and all paths and keys are released.
//!
//! Differences without an effect on the peer or the consumer's rights:
//!
//! * A message for an identifier that is idle again is not counted as a duplicate.
//! * An MRA whose send ends at the same time is delivered, before the failure.
//! * A destroyed identifier has no timewait. In the C module it cannot be found any more, either.
//!
//! Not here, as Linux 7.2 does not have it: sending MRA unasked, LAP and APR; masks of service ids;
//! peer-to-peer connections; redirection.

pub mod answer;
pub mod conn;
pub mod counters;
pub mod ids;
pub mod path;
pub mod reject;
pub mod repeat;
pub mod tables;
pub mod times;
pub mod wake;
pub mod wire;
