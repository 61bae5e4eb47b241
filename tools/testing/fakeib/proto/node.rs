// SPDX-License-Identifier: GPL-2.0

//! The agent of a node: what it answers to subnet management (IBA 14.2.5, 14.3).

use super::fields::Fields;
use super::mad;
use super::mad::at;
use super::mad::Answer;
use super::mad::Mad;
use super::mad::Status;
use super::mad::SMP_DATA;
use super::port::Events;
use super::port::Phys;
use super::port::Port;
use super::port::GUIDS;
use super::port::MAX_PORTS;
use super::port::PKEYS;
use super::port_info;
use super::port_info::Link;
use super::switch::Tables;
use super::switch::LINEAR_BLOCK;

/// Attributes.
pub mod attribute {
    /// A name for people.
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// What the node is.
    pub const NODE_INFO: u16 = 0x11;
    /// What the switch can and does.
    pub const SWITCH_INFO: u16 = 0x12;
    /// GUIDs of a port.
    pub const GUID_INFO: u16 = 0x14;
    /// A port.
    pub const PORT_INFO: u16 = 0x15;
    /// Partition keys.
    pub const PKEY_TABLE: u16 = 0x16;
    /// Lanes by service levels.
    pub const SL_TO_VL: u16 = 0x17;
    /// Arbitration between lanes.
    pub const VL_ARBITRATION: u16 = 0x18;
    /// Ports by LIDs.
    pub const LINEAR_TABLE: u16 = 0x19;
    /// Ports by groups.
    pub const MULTICAST_TABLE: u16 = 0x1b;
    /// The subnet manager that runs here.
    pub const SM_INFO: u16 = 0x20;
}

/// What a node is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A name for people.
    pub description: [u8; 64],
    /// GUID of the node, and of the system it is in. Its ports have GUIDs of their own.
    pub guid: u64,
    /// Number of the product.
    pub device_id: u16,
}

/// Vendor that ids are of: none has this number.
pub const VENDOR: [u8; 3] = [0xfa, 0x4e, 0x1b];

/// What an answer did besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What becomes of the datagram.
    pub answer: Answer,
    /// What happened to the port that the datagram was about, and its number.
    pub events: Events,
    /// See `events`.
    pub port: u8,
    /// The link of that port goes down, this end to that state.
    pub drop: Option<Phys>,
}

impl Done {
    fn only(answer: Answer) -> Self {
        Self {
            answer,
            events: Events::NONE,
            port: 0,
            drop: None,
        }
    }
}

/// A node, as its agent sees it.
pub struct Node<'a> {
    /// What it is.
    pub id: &'a mut Identity,
    /// Its ports, of a switch also port 0.
    pub ports: &'a mut [Port],
    /// Tables of a switch.
    pub tables: Option<&'a mut Tables>,
}

impl Node<'_> {
    /// Answers a datagram that came in by port `via`. `trusted` if its M_Key shall not be looked
    /// at, as it was made on this node.
    pub fn answer(&mut self, via: u8, trusted: bool, mad: &mut Mad) -> Done {
        let method = mad.u8(at::METHOD);
        match method {
            mad::GET | mad::SET => (),
            // Of these an agent makes none that it would have to hear of.
            mad::TRAP_REPRESS => return Done::only(Answer::Taken),
            mad::TRAP => return Done::only(Answer::Others),
            m if m & 0x80 != 0 => return Done::only(Answer::Others),
            _ => {
                mad::into_answer(mad, Status::BadMethod);
                return Done::only(Answer::Reply);
            }
        }
        if mad.u8(0) != 1 || mad.u8(at::CLASS_VERSION) != 1 {
            mad::into_answer(mad, Status::BadVersion);
            return Done::only(Answer::Reply);
        }
        let owner = if self.tables.is_some() { 0 } else { via };
        let Some(own) = self.port(owner) else {
            return Done::only(Answer::Taken);
        };
        let manages = own.capabilities & port_info::CAP_IS_SM != 0;
        let show_mkey = match check_mkey(own, method, trusted, mad.u64(at::MKEY)) {
            Ok(show) => show,
            // No answer is the answer (IBA 14.2.4.1).
            Err(WrongKey) => return Done::only(Answer::Taken),
        };
        let attribute = mad.u16(at::ATTRIBUTE);
        if attribute == attribute::SM_INFO && manages {
            return Done::only(Answer::Others);
        }
        let mut done = Done::only(Answer::Reply);
        let result = match method {
            mad::SET => self.set(attribute, via, mad, &mut done),
            _ => Ok(()),
        };
        let status = match result.and_then(|()| self.get(attribute, via, show_mkey, mad)) {
            Ok(data) => {
                mad.put(at::DATA, &data);
                Status::Good
            }
            Err(status) => status,
        };
        mad::into_answer(mad, status);
        done
    }

    fn port(&mut self, number: u8) -> Option<&mut Port> {
        self.ports.iter_mut().find(|p| p.number == number)
    }

    /// The port that a number in a modifier means; on an adapter 0 is the one that was asked.
    fn named(&mut self, number: u32, via: u8) -> Result<&mut Port, Status> {
        let number = u8::try_from(number).map_err(|_| Status::BadField)?;
        let own = self.tables.is_none() && number == 0;
        let found = self.port(if own { via } else { number });
        found.ok_or(Status::BadField)
    }

    /// The port of a table of partition keys: a switch has the number in the upper half of the
    /// modifier, an adapter has none.
    fn pkey_port(&mut self, modifier: u32, via: u8) -> Result<&mut Port, Status> {
        if modifier & 0xffff != 0 {
            return Err(Status::BadField);
        }
        self.named(modifier >> 16, via)
    }

    /// The lanes of packets that come in by one port and leave by another.
    fn lanes(&mut self, modifier: u32, via: u8) -> Result<&mut [u8; 8], Status> {
        let (from, to) = if self.tables.is_some() {
            (modifier >> 8 & 0xff, modifier & 0xff)
        } else {
            (0, 0)
        };
        let from = usize::try_from(from).unwrap_or(MAX_PORTS);
        let port = self.named(to, via)?;
        port.lanes_of.get_mut(from).ok_or(Status::BadField)
    }

    /// The table of arbitration that a modifier means: 1 low priority, 3 high, as each is
    /// shorter than a block.
    fn arbitration(&mut self, modifier: u32, via: u8) -> Result<&mut [u8; 64], Status> {
        let which = match modifier >> 16 {
            1 => 0,
            3 => 1,
            _ => return Err(Status::BadField),
        };
        let port = self.named(modifier & 0xffff, via)?;
        port.arbitration.get_mut(which).ok_or(Status::BadField)
    }

    fn guids(&mut self, modifier: u32, via: u8) -> Result<&mut Port, Status> {
        let port = self.named(0, via)?;
        if modifier != 0 || !port.role.is_end() {
            return Err(Status::BadField);
        }
        Ok(port)
    }

    fn tables(&mut self) -> Result<&mut Tables, Status> {
        self.tables.as_deref_mut().ok_or(Status::BadAttribute)
    }

    fn get(
        &mut self,
        attribute: u16,
        via: u8,
        show_mkey: bool,
        request: &Mad,
    ) -> Result<[u8; SMP_DATA], Status> {
        let modifier = request.u32(at::MODIFIER);
        let mut out = [0; SMP_DATA];
        match attribute {
            attribute::NODE_DESCRIPTION => out = self.id.description,
            attribute::NODE_INFO => self.info(via, &mut out)?,
            attribute::PORT_INFO => {
                out = port_info::get(self.named(modifier & 0xff, via)?, via, show_mkey);
                if request.u8(at::METHOD) == mad::SET {
                    // The request to register again comes back.
                    let byte = out.u8(51) | request.u8(at::DATA + 51) & 0x80;
                    out.put_u8(51, byte);
                }
            }
            attribute::GUID_INFO => {
                for (i, guid) in self.guids(modifier, via)?.guids.iter().enumerate() {
                    out.put_u64(8 * i, *guid);
                }
            }
            attribute::PKEY_TABLE => {
                for (i, key) in self.pkey_port(modifier, via)?.pkeys.iter().enumerate() {
                    out.put_u16(2 * i, *key);
                }
            }
            attribute::SL_TO_VL => out.put(0, &*self.lanes(modifier, via)?),
            attribute::VL_ARBITRATION => out = *self.arbitration(modifier, via)?,
            attribute::SWITCH_INFO => out = self.tables()?.info(),
            attribute::LINEAR_TABLE => out.put(0, self.tables()?.linear_block(modifier)?),
            attribute::MULTICAST_TABLE => {
                let block = self.tables()?.multicast_block(modifier)?;
                for (i, mask) in block.iter().enumerate() {
                    out.put_u16(2 * i, *mask);
                }
            }
            _ => return Err(Status::BadAttribute),
        }
        Ok(out)
    }

    fn set(
        &mut self,
        attribute: u16,
        via: u8,
        request: &Mad,
        done: &mut Done,
    ) -> Result<(), Status> {
        let modifier = request.u32(at::MODIFIER);
        let data = mad::data(request);
        match attribute {
            attribute::PORT_INFO => {
                let port = self.named(modifier & 0xff, via)?;
                let change = port_info::set(port, &data)?;
                done.port = port.number;
                done.events = change.events;
                done.drop = match change.link {
                    Link::Leave => None,
                    Link::Drop(phys) => Some(phys),
                };
            }
            attribute::GUID_INFO => {
                let port = self.guids(modifier, via)?;
                let mut new = [0; GUIDS];
                for (i, guid) in new.iter_mut().enumerate() {
                    *guid = data.u64(8 * i);
                }
                // The first is the port's own, for ever.
                let [own, ..] = port.guids;
                new[0] = own;
                done.port = port.number;
                done.events.add_if(new != port.guids, Events::GIDS);
                port.guids = new;
            }
            attribute::PKEY_TABLE => {
                let port = self.pkey_port(modifier, via)?;
                let mut new = [0; PKEYS];
                for (i, key) in new.iter_mut().enumerate() {
                    *key = data.u16(2 * i);
                }
                done.port = port.number;
                done.events.add_if(new != port.pkeys, Events::PKEYS);
                port.pkeys = new;
            }
            attribute::SL_TO_VL => *self.lanes(modifier, via)? = data.bytes(0),
            attribute::VL_ARBITRATION => *self.arbitration(modifier, via)? = data,
            attribute::SWITCH_INFO => self.tables()?.set_info(&data)?,
            attribute::LINEAR_TABLE => {
                let block = self.tables()?.linear_block(modifier)?;
                block.copy_from_slice(&data.bytes::<LINEAR_BLOCK>(0));
            }
            attribute::MULTICAST_TABLE => {
                let block = self.tables()?.multicast_block(modifier)?;
                for (i, mask) in block.iter_mut().enumerate() {
                    *mask = data.u16(2 * i);
                }
            }
            _ => return Err(Status::BadAttribute),
        }
        Ok(())
    }

    /// `NodeInfo`, to who asked by port `via`.
    fn info(&mut self, via: u8, out: &mut [u8; SMP_DATA]) -> Result<(), Status> {
        let switch = self.tables.is_some();
        let outer = self.ports.iter().filter(|p| p.number != 0).count();
        // A switch has one end, and so one GUID of a port.
        let end = self.port(if switch { 0 } else { via });
        let guid = end.map_or(0, |p| p.guids.first().copied().unwrap_or(0));
        // Versions of the agent and of its class.
        out.put(0, &[1, 1, if switch { 2 } else { 1 }]);
        out.put_u8(3, u8::try_from(outer).map_err(|_| Status::BadField)?);
        out.put_u64(4, self.id.guid);
        out.put_u64(12, self.id.guid);
        out.put_u64(20, guid);
        // CAST: a small constant.
        out.put_u16(28, PKEYS as u16);
        out.put_u16(30, self.id.device_id);
        out.put_u32(32, 1);
        out.put_u8(36, via);
        out.put(37, &VENDOR);
        Ok(())
    }
}

/// The M_Key of a datagram is not that of the port, and so it may not do what it asks for.
struct WrongKey;

/// Whether a datagram may see the M_Key, or an error if it may do nothing (IBA 14.2.4.1).
fn check_mkey(port: &mut Port, method: u8, trusted: bool, key: u64) -> Result<bool, WrongKey> {
    if trusted || port.mkey == 0 || key == port.mkey {
        return Ok(true);
    }
    let may_read = port.mkey_protect <= 1;
    if method == mad::GET && may_read {
        return Ok(port.mkey_protect == 0);
    }
    let [mkeys, ..] = &mut port.violations;
    *mkeys = mkeys.saturating_add(1);
    Err(WrongKey)
}
