// SPDX-License-Identifier: GPL-2.0

//! Options of an ID, which its consumer sets, and when it may do so.

use super::addr::Family;
use super::state::State;
use super::Refusal;

/// Type of a queue pair (`enum ib_qp_type`), as far as options depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable datagrams.
    Ud,
    /// Initiator of an extended reliable connection.
    XrcIni,
    /// Target of one.
    XrcTgt,
    /// Others.
    Other,
}

impl QpType {
    /// The type with this number.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            2 => Self::Rc,
            4 => Self::Ud,
            9 => Self::XrcIni,
            10 => Self::XrcTgt,
            _ => Self::Other,
        }
    }
}

/// Devices that an ID may be bound to (`enum rdma_node_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Node {
    /// All (`RDMA_NODE_UNSPECIFIED`).
    #[default]
    Any,
    /// InfiniBand and RoCE.
    IbCa,
    /// iWARP.
    Rnic,
}

impl Node {
    /// The devices with this type.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: IDs cannot be restricted to these.
    pub const fn from_raw(raw: u8) -> Result<Self, Refusal> {
        match raw {
            1 => Ok(Self::IbCa),
            4 => Ok(Self::Rnic),
            7 => Ok(Self::Any),
            _ => Err(Refusal::Invalid),
        }
    }

    /// Whether a device of this type is allowed.
    pub const fn allows(self, node_type: u8) -> bool {
        match self {
            Self::Any => true,
            Self::IbCa => node_type == 1,
            Self::Rnic => node_type == 4,
        }
    }
}

/// The options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Type of service.
    pub tos: Option<u8>,
    /// Timeout of acknowledgements: 4.096 us * 2^n; 0 for none.
    pub ack_timeout: Option<u8>,
    /// Shortest time after which a peer repeats what found no receive buffer; a code of 5 bits.
    pub min_rnr_timer: Option<u8>,
    /// Whether the port may be shared with others that allow it.
    pub reuse: bool,
    /// Whether a listener leaves the other address family alone, if the consumer said so.
    pub afonly: Option<bool>,
    /// Devices to which it may be bound.
    pub node: Node,
}

impl Options {
    /// Sets whether the port may be shared. It can be permitted until the ID listens, and forbidden
    /// only before it is bound.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: it is too late.
    pub fn set_reuse(&mut self, state: State, reuse: i32) -> Result<(), Refusal> {
        if state == State::Idle || (reuse != 0 && state != State::Listen) {
            self.reuse = low_byte(reuse);
            Ok(())
        } else {
            Err(Refusal::Invalid)
        }
    }

    /// Sets whether the other address family is left alone.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the ID is neither idle nor only bound.
    pub fn set_afonly(&mut self, state: State, afonly: i32) -> Result<(), Refusal> {
        if state == State::Idle || state == State::AddrBound {
            self.afonly = Some(low_byte(afonly));
            Ok(())
        } else {
            Err(Refusal::Invalid)
        }
    }

    /// Sets the timeout of acknowledgements.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: the queue pair sends nothing that is acknowledged.
    pub const fn set_ack_timeout(&mut self, qp: QpType, timeout: u8) -> Result<(), Refusal> {
        match qp {
            QpType::Rc | QpType::XrcIni => {
                self.ack_timeout = Some(timeout);
                Ok(())
            }
            QpType::Ud | QpType::XrcTgt | QpType::Other => Err(Refusal::Invalid),
        }
    }

    /// Sets the shortest time until a repetition.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: more than five bits; the queue pair receives nothing that is repeated.
    pub const fn set_min_rnr_timer(&mut self, qp: QpType, timer: u8) -> Result<(), Refusal> {
        match qp {
            QpType::Rc | QpType::XrcTgt if timer < 0x20 => {
                self.min_rnr_timer = Some(timer);
                Ok(())
            }
            QpType::Rc | QpType::XrcTgt | QpType::Ud | QpType::XrcIni | QpType::Other => {
                Err(Refusal::Invalid)
            }
        }
    }

    /// Restricts the devices.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: an unknown type; [`Refusal::Already`]: the ID is not idle.
    pub fn restrict(&mut self, state: State, node_type: u8) -> Result<(), Refusal> {
        let node = Node::from_raw(node_type)?;
        if state != State::Idle {
            return Err(Refusal::Already);
        }
        self.node = node;
        Ok(())
    }

    /// Whether an ID that is bound to an address of this family leaves the other family alone.
    /// `v6_only` is the namespace's default for IPv6.
    pub fn is_afonly(&self, family: Family, v6_only: bool) -> bool {
        self.afonly.unwrap_or(match family {
            Family::V4 => true,
            Family::V6 => v6_only,
            Family::Ib => false,
        })
    }
}

/// The C module keeps these options in a byte, so 256 is as 0.
const fn low_byte(value: i32) -> bool {
    value & 0xff != 0
}
