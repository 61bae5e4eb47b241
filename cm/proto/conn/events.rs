// SPDX-License-Identifier: GPL-2.0

//! Steps of what happens: messages, sends that end, timers, removal, destruction.

use super::super::ids::Instant;
use super::super::ids::SendId;
use super::super::tables::Claim;
use super::super::tables::PeerKeys;
use super::super::wire::Message;
use super::Actions;
use super::Conn;
use super::Destroy;
use super::LapPaths;
use super::Route;
use super::SendEnd;
use super::Source;

impl<R: Route> Conn<R> {
    /// A message for this identifier was received ([`Lookup`](super::super::tables::Lookup)).
    /// `claim` claims the keys of the peer; it is called at most once, for a REP. On
    /// [`Claim::SameQpn`] the caller has more to do once it has unlocked. `lap`: the paths of a LAP,
    /// if they can be used.
    pub fn receive(
        &mut self,
        message: &Message<'_>,
        source: &Source,
        lap: Option<LapPaths<R>>,
        now: Instant,
        claim: impl FnOnce(&PeerKeys) -> Claim,
    ) -> Actions<R> {
        let _ = (message, source, lap, now, claim);
        todo!()
    }

    /// A REQ was received whose peer and id are those of this connection.
    pub fn duplicate_req(&mut self, message: &Message<'_>, source: &Source) -> Actions<R> {
        let _ = (message, source);
        todo!()
    }

    /// A tracked send ended.
    pub fn send_ended(&mut self, id: SendId, end: SendEnd, now: Instant) -> Actions<R> {
        let _ = (id, end, now);
        todo!()
    }

    /// The timer fired.
    pub fn timer(&mut self, now: Instant) -> Actions<R> {
        let _ = now;
        todo!()
    }

    /// The device is being removed: nothing is sent any more, and no event follows.
    pub fn device_gone(&mut self) -> Actions<R> {
        todo!()
    }

    /// The identifier is destroyed: tells the peer, and ends all. No event follows.
    pub fn destroy(&mut self, why: Destroy) -> Actions<R> {
        let _ = why;
        todo!()
    }
}
