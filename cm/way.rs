// SPDX-License-Identifier: GPL-2.0

//! Ways to a peer: a port, and a route from it. The engine's routes are `Arc<Way>`.

use crate::edge::path;
use crate::port::Port;
use crate::proto::conn;
use crate::proto::counters::Count;
use crate::proto::ids::Gid;
use crate::proto::ids::Guid;
use crate::proto::ids::Instant;
use crate::proto::wire::Kind;
use crate::proto::wire::Message;
use crate::send::Ending;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::DeviceRef;
use rdma::edge::verbs::GidAttr;
use rdma::mad::request::Destination;
use rdma::mad::request::Patience;
use rdma::mad::request::Sent;
use rdma::mad::Path;
use rdma::mad::Received;
use rdma::mad::Route;

/// Queue pair that messages are sent to.
const GSI: u32 = 1;

/// A port and a route. It does not change.
pub(crate) struct Way {
    pub(crate) port: Arc<Port>,
    pub(crate) route: Route,
    /// LID of packets of the queue pair, if it is not that of the route; else 0.
    pub(crate) data_lid: u16,
}

/// The engine's route.
pub(crate) type Ref = Arc<Way>;

impl conn::Route for Ref {
    fn hi_tid(&self) -> u32 {
        self.port.hi_tid()
    }

    fn node_guid(&self) -> Guid {
        Guid(self.port.guid)
    }

    fn ack_delay(&self) -> u8 {
        self.port.ack_delay
    }
}

impl Way {
    /// Finds the way from a port along a path, for the engine. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; those of [`Route::along`].
    pub(crate) fn along(
        port: Arc<Port>,
        device: &DeviceRef,
        path: &mut Path,
        gid: Option<&GidAttr>,
        data_lid: u16,
    ) -> Result<conn::Path<Ref>> {
        let timeout = path.life_time().saturating_add(1);
        let route = Route::along(device, port.number, path, gid)?;
        let way = Arc::new(
            Self {
                port,
                route,
                data_lid,
            },
            GFP_KERNEL,
        )?;
        Ok(way.path(timeout, path::dgid(path)))
    }

    /// A path along this, for the engine. `peer` is the peer's GID.
    pub(crate) fn path(self: Arc<Self>, timeout: u8, peer: Gid) -> conn::Path<Ref> {
        conn::Path {
            peer,
            has_lid: self.route.dlid() != 0,
            timeout,
            route: self,
        }
    }

    /// Sends a message along this, to the queue pair `qpn`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device is gone; those of the core.
    pub(crate) fn send(
        &self,
        agent: conn::Agent,
        qpn: u32,
        message: &Message<'_>,
        patience: Patience,
        ending: Ending,
    ) -> Result<Arc<Sent<Ending>>> {
        let live = self.port.live();
        let live = live.as_ref().ok_or(EINVAL)?;
        let agent = match agent {
            conn::Agent::Main => &live.agent,
            conn::Agent::Reply => &live.replies,
        };
        self.port.sweep_later();
        let waits = ending.is_tracked().then_some(ending.kind);
        // Before it can end.
        if let Some(kind) = waits {
            self.port.wait_begins(kind);
        }
        let sent = agent.send(
            &Destination::Route(&self.route),
            qpn,
            |mad| message.write_over_zeros(mad).map_err(|_| EINVAL),
            patience,
            ending,
        );
        if let (Some(kind), Err(_)) = (waits, &sent) {
            self.port.wait_ends(kind);
        }
        sent
    }

    /// Sends the message of a send once more, if it still waits for its answer, and the port's budget has
    /// room. May sleep.
    pub(crate) fn repeat(&self, sent: &Sent<Ending>, now: Instant) {
        let kind = sent.data().kind;
        let live = self.port.live();
        let Some(live) = &*live else {
            return;
        };
        // A REP was sent by the other agent (`conn::Agent`).
        let agent = match kind {
            Kind::Rep => &live.replies,
            _ => &live.agent,
        };
        if self.port.may_repeat(kind, now) {
            // The regular repetition follows.
            let _ = agent.repeat(sent, Ending::untracked(kind, Count::Early));
        }
    }
}

/// Sends a message to the sender of another. It is dropped if it cannot be sent. May sleep.
pub(crate) fn answer(port: &Port, to: &Received<'_>, message: &Message<'_>, count: Count) {
    let kind: Kind = message.body.kind();
    let live = port.live();
    if let Some(live) = &*live {
        let ending = Ending::untracked(kind, count);
        // The peer repeats itself.
        let _ = live.agent.send(
            &Destination::Reply(to),
            GSI,
            |mad| message.write_over_zeros(mad).map_err(|_| EINVAL),
            Patience::default(),
            ending,
        );
    }
}
