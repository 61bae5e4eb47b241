// SPDX-License-Identifier: GPL-2.0

//! All nodes, the cables between them, and the way of a packet.
//!
//! Adapter `n` is cabled to port `n + 1` of the switch. A call takes a packet all the way, so
//! nothing is ever on a cable. What happened to ports on the way is kept until
//! [`Fabric::take_events`] is called.

use super::directed;
use super::directed::Step;
use super::fields::Fields;
use super::mad;
use super::mad::at;
use super::mad::Answer;
use super::mad::Mad;
use super::node::Identity;
use super::node::Node;
use super::perf;
use super::port::Events;
use super::port::Phys;
use super::port::Port;
use super::port::Role;
use super::port::State;
use super::port::MAX_PORTS;
use super::port_info;
use super::port_info::FIRST_MULTICAST;
use super::switch::Tables;
use crate::List;

/// Number of an adapter's only port.
pub const HOST_PORT: u8 = 1;
/// Adapters at most.
pub const MAX_HOSTS: usize = MAX_PORTS - 1;
/// Notice: a link of this switch changed (IBA 14.2.5.1).
const TRAP_LINK_STATE: u16 = 128;

/// An adapter.
pub struct Host {
    /// What it is.
    pub id: Identity,
    /// Its port.
    pub port: Port,
    /// What happened to the port and was not told yet.
    events: Events,
}

impl Host {
    /// An adapter with a GUID, whose port has the next one.
    pub fn new(guid: u64, description: [u8; 64], capabilities: u32) -> Self {
        Self {
            id: Identity {
                description,
                guid,
                device_id: 0xfa01,
            },
            port: Port::new(HOST_PORT, Role::Adapter, guid.wrapping_add(1), capabilities),
            events: Events::NONE,
        }
    }
}

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// LID of the source.
    pub slid: u16,
    /// LID of the destination.
    pub dlid: u16,
    /// Bytes of it, without this.
    pub len: usize,
}

impl Head {
    /// Whether it goes to a group.
    pub fn is_multicast(&self) -> bool {
        self.dlid >= FIRST_MULTICAST && self.dlid != mad::PERMISSIVE
    }
}

/// Where a packet of data ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// At the adapters that were named, if any.
    Hosts,
    /// At the switch itself.
    Switch,
}

/// The fabric.
pub struct Fabric {
    hosts: List<Host>,
    switch_id: Identity,
    ports: List<Port>,
    tables: Tables,
    /// The manager is to be told that a link changed.
    trap: bool,
    /// Number of the next trap.
    next_trap: u64,
}

impl Fabric {
    /// Connects adapters to a switch with a GUID. `ports` has room for one port more than there
    /// are `hosts`, and its elements may be anything.
    pub fn new(
        hosts: List<Host>,
        switch_id: Identity,
        mut ports: List<Port>,
        tables: Tables,
    ) -> Self {
        let guid = switch_id.guid;
        for (number, port) in (0..=u8::MAX).zip(ports.iter_mut()) {
            let (role, capabilities) = match number {
                0 => (
                    Role::SwitchEnd,
                    port_info::CAP_TRAPS
                        | port_info::CAP_SYSTEM_GUID
                        | port_info::CAP_EXT_SPEEDS
                        | port_info::CAP_REREGISTER
                        | port_info::CAP_SL_MAP,
                ),
                _ => (Role::SwitchOuter, 0),
            };
            *port = Port::new(number, role, guid, capabilities);
        }
        let mut fabric = Self {
            hosts,
            switch_id,
            ports,
            tables,
            trap: false,
            next_trap: 1,
        };
        for host in 0..fabric.hosts.len() {
            fabric.settle(host);
        }
        fabric
    }

    /// How many adapters there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// An adapter.
    pub fn host(&self, host: usize) -> Option<&Host> {
        self.hosts.get(host)
    }

    /// An adapter, to be changed by its owner.
    pub fn host_mut(&mut self, host: usize) -> Option<&mut Host> {
        self.hosts.get_mut(host)
    }

    /// Changes what the port of an adapter can do: first `clear`, then `set`.
    pub fn set_capabilities(&mut self, host: usize, clear: u32, set: u32) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.port.capabilities = host.port.capabilities & !clear | set;
        }
    }

    /// What happened to the port of an adapter since the last call.
    pub fn take_events(&mut self, host: usize) -> Events {
        let host = self.hosts.get_mut(host);
        host.map_or(Events::NONE, |h| core::mem::take(&mut h.events))
    }

    /// A datagram for the agents of an adapter, which came in or was made there (then it is
    /// `trusted`).
    pub fn host_mad(&mut self, host: usize, trusted: bool, mad: &mut Mad) -> Answer {
        let Some(own) = self.hosts.get_mut(host) else {
            return Answer::Others;
        };
        match mad.u8(at::CLASS) {
            mad::CLASS_LID | mad::CLASS_DIRECTED => {
                let mut node = Node {
                    id: &mut own.id,
                    ports: core::slice::from_mut(&mut own.port),
                    tables: None,
                };
                let done = node.answer(HOST_PORT, trusted, mad);
                own.events.add(done.events);
                if let Some(phys) = done.drop {
                    self.drop_link(host, phys, Phys::Polling);
                }
                done.answer
            }
            mad::CLASS_PERF => perf::answer(core::slice::from_mut(&mut own.port), mad),
            _ => Answer::Others,
        }
    }

    /// A datagram for the switch that is not of subnet management. Whether it is now the answer.
    pub fn switch_mad(&mut self, mad: &mut Mad) -> bool {
        mad.u8(at::CLASS) == mad::CLASS_PERF && perf::answer(&mut self.ports, mad) == Answer::Reply
    }

    /// A datagram of subnet management leaves an adapter; answers at which one it arrives. The
    /// switch may have answered it, and then it is the answer that comes back.
    pub fn send_smp(&mut self, host: usize, head: &mut Head, mad: &mut Mad) -> Option<usize> {
        let own = &mut self.hosts.get_mut(host)?.port;
        let directed = mad.u8(at::CLASS) == mad::CLASS_DIRECTED;
        if !directed && own.has_lid(head.dlid) {
            return Some(host);
        }
        if own.phys != Phys::LinkUp {
            own.discard();
            return None;
        }
        own.sent(head.len, false);
        let via = host.checked_add(1)?;
        let port = self.ports.get_mut(via)?;
        port.rcvd(head.len, false);
        let via = port.number;
        let switch_lid = self.ports.first()?.lid;
        let to_switch = switch_lid != 0 && head.dlid == switch_lid;
        let step = if directed && (head.dlid == mad::PERMISSIVE || to_switch) {
            directed::arrive(mad, via)
        } else if to_switch {
            Step::Here
        } else {
            Step::Lid(head.dlid)
        };
        let step = match step {
            Step::Here => self.switch_answers(via, head, mad),
            other => other,
        };
        match step {
            Step::Out(port) => {
                (head.slid, head.dlid) = (mad::PERMISSIVE, mad::PERMISSIVE);
                self.leave(port, head, false, State::Init)
            }
            Step::Lid(lid) => {
                head.dlid = lid;
                let port = self.tables.unicast(lid)?;
                self.leave(port, head, false, State::Init)
            }
            Step::Here | Step::Drop => None,
        }
    }

    /// The agent of the switch takes a datagram; answers what becomes of it then.
    fn switch_answers(&mut self, via: u8, head: &mut Head, mad: &mut Mad) -> Step {
        let mut node = Node {
            id: &mut self.switch_id,
            ports: &mut self.ports,
            tables: Some(&mut self.tables),
        };
        let done = node.answer(via, false, mad);
        if let (Some(phys), Some(host)) = (done.drop, done.port.checked_sub(1)) {
            self.drop_link(usize::from(host), Phys::Polling, phys);
        }
        if done.answer != Answer::Reply {
            return Step::Drop;
        }
        if mad.u8(at::CLASS) == mad::CLASS_DIRECTED {
            return directed::back(mad);
        }
        (head.slid, head.dlid) = (head.dlid, head.slid);
        Step::Lid(head.dlid)
    }

    /// A packet of data leaves an adapter. `to` is called for each that it arrives at.
    pub fn send(&mut self, host: usize, head: &Head, mut to: impl FnMut(usize)) -> Arrived {
        let multicast = head.is_multicast();
        let Some(own) = self.hosts.get_mut(host).map(|h| &mut h.port) else {
            return Arrived::Hosts;
        };
        if own.state != State::Active || head.len > mtu(own) {
            own.discard();
            return Arrived::Hosts;
        }
        if !multicast && own.has_lid(head.dlid) {
            to(host);
            return Arrived::Hosts;
        }
        own.sent(head.len, multicast);
        let via = host.saturating_add(1);
        match self.ports.get_mut(via) {
            Some(port) if port.state >= State::Armed => port.rcvd(head.len, multicast),
            _ => return Arrived::Hosts,
        }
        if multicast {
            let mask = self.tables.group(head.dlid);
            for out in (1..self.ports.len()).filter(|out| *out != via && mask >> *out & 1 != 0) {
                // CAST: there are no more than 16 ports.
                if let Some(host) = self.leave(out as u8, head, true, State::Active) {
                    to(host);
                }
            }
        } else if self.ports.first().is_some_and(|end| end.has_lid(head.dlid)) {
            return Arrived::Switch;
        } else if let Some(host) = self.leave_by_lid(head) {
            to(host);
        }
        Arrived::Hosts
    }

    /// A packet of data that the switch itself sends; answers at which adapter it arrives.
    pub fn leave_by_lid(&mut self, head: &Head) -> Option<usize> {
        let out = self.tables.unicast(head.dlid)?;
        let host = self.leave(out, head, false, State::Active)?;
        let own = &self.hosts.get(host)?.port;
        own.has_lid(head.dlid).then_some(host)
    }

    /// A packet leaves the switch by a port, whose link is at least in state `least`.
    fn leave(&mut self, out: u8, head: &Head, multicast: bool, least: State) -> Option<usize> {
        let host = usize::from(out.checked_sub(1)?);
        let port = self.ports.get_mut(usize::from(out))?;
        if port.state < least || head.len > mtu(port) {
            port.discard();
            return None;
        }
        port.sent(head.len, multicast);
        let own = &mut self.hosts.get_mut(host)?.port;
        // The other end takes data as soon as it is armed.
        if least == State::Active && own.state < State::Armed {
            return None;
        }
        own.rcvd(head.len, multicast);
        Some(host)
    }

    /// A packet was of a partition that the port of an adapter is not in.
    pub fn bad_pkey(&mut self, host: usize) {
        let Some(port) = self.hosts.get_mut(host).map(|h| &mut h.port) else {
            return;
        };
        port.counters.rcv_constraint = port.counters.rcv_constraint.saturating_add(1);
        let [_, pkeys, _] = &mut port.violations;
        *pkeys = pkeys.saturating_add(1);
    }

    /// A packet had a queue key that is not that of the queue pair of an adapter.
    pub fn bad_qkey(&mut self, host: usize) {
        let Some(port) = self.hosts.get_mut(host).map(|h| &mut h.port) else {
            return;
        };
        let [_, _, qkeys] = &mut port.violations;
        *qkeys = qkeys.saturating_add(1);
    }

    /// The datagram that the switch wants to send to the subnet manager, if any, and the adapter
    /// that it arrives at.
    pub fn trap(&mut self) -> Option<(usize, Head, Mad)> {
        let end = self.ports.first()?;
        let (lid, sm_lid) = (end.lid, end.sm_lid);
        if !self.trap || lid == 0 || sm_lid == 0 {
            return None;
        }
        self.trap = false;
        let mut mad = [0; mad::LEN];
        mad.put(0, &[1, mad::CLASS_LID, 1, mad::TRAP]);
        mad.put_u64(at::TRANSACTION, self.next_trap);
        mad.put_u16(at::ATTRIBUTE, 2);
        // Generic, urgent, by a switch.
        mad.put(at::DATA, &[0x80 | 1, 0, 0, 2]);
        mad.put_u16(at::DATA + 4, TRAP_LINK_STATE);
        mad.put_u16(at::DATA + 6, lid);
        mad.put_u16(at::DATA + 10, lid);
        self.next_trap = self.next_trap.wrapping_add(1);
        let head = Head {
            slid: lid,
            dlid: sm_lid,
            len: mad::LEN,
        };
        let out = self.tables.unicast(sm_lid)?;
        let host = self.leave(out, &head, false, State::Init)?;
        Some((host, head, mad))
    }

    /// The link of an adapter goes down; its ends go to these states, from which it may come up.
    fn drop_link(&mut self, host: usize, own: Phys, other: Phys) {
        let Some(h) = self.hosts.get_mut(host) else {
            return;
        };
        h.events.add_if(h.port.state == State::Active, Events::DOWN);
        let mut changed = h.port.link_down(own);
        if let Some(port) = self.ports.get_mut(host.saturating_add(1)) {
            changed |= port.link_down(other);
        }
        self.tables.changed |= changed;
        self.trap |= changed;
        self.settle(host);
    }

    /// Brings a link up if both its ends want it.
    fn settle(&mut self, host: usize) {
        let (Some(h), Some(port)) = (
            self.hosts.get_mut(host),
            self.ports.get_mut(host.saturating_add(1)),
        ) else {
            return;
        };
        if h.port.phys == Phys::LinkUp && port.phys == Phys::LinkUp {
            return;
        }
        if h.port.wants_link() && port.wants_link() {
            h.port.link_up();
            port.link_up();
            self.tables.changed = true;
            self.trap = true;
        }
    }

    /// Takes an adapter's cable out, or puts it back.
    pub fn plug(&mut self, host: usize, plugged: bool) {
        let Some(phys) = self.hosts.get(host).map(|h| h.port.phys) else {
            return;
        };
        match (plugged, phys) {
            // A cable that is out is one whose other end is turned off.
            (false, _) => self.drop_link(host, Phys::Polling, Phys::Disabled),
            (true, Phys::LinkUp) => (),
            (true, _) => self.drop_link(host, phys, Phys::Polling),
        }
    }
}

/// Bytes of the largest packet of a port.
fn mtu(port: &Port) -> usize {
    128 << port.mtu.clamp(1, 5)
}
