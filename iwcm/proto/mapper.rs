// SPDX-License-Identifier: GPL-2.0

//! What is known of the port mapper, requests to it, and its answers.
//!
//! The mapper is a program. It is found by a message to a netlink group; it also announces itself
//! ([`Message::Hello`](super::message::Message::Hello),
//! [`MapInfo`](super::message::Message::MapInfo)). Each request has a sequence number, which an
//! answer repeats. An answer counts if its request waits, is of its kind, and has the same
//! addresses or names.

use super::addr::Address;
use super::message::Answer;
use super::message::Names;
use super::message::DEVICE_NAME;
use core::num::NonZeroU32;

/// Lowest version of the protocol that is supported.
pub const VERSION_MIN: u16 = 3;
/// Highest version of the protocol that is supported.
pub const VERSION: u16 = 4;

/// Error code of a mapper whose answer does not fit the request (`IWPM_USER_LIB_INFO_ERR`).
pub const BAD_ANSWER: u16 = 15;

/// The mapper's netlink port ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pid {
    /// Not known.
    #[default]
    Unknown,
    /// Nobody listened to the group; not asked again until the mapper announces itself.
    Absent,
    /// Known.
    At(NonZeroU32),
}

/// Whether the mapper knows the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Registration {
    /// It was not asked.
    #[default]
    None,
    /// It has answered the request for its name.
    Done,
    /// It has announced itself.
    Announced,
}

/// What is known of the port mapper.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapper {
    pid: Pid,
    registration: Registration,
    version: u16,
    seq: u32,
    echo: u32,
}

impl Mapper {
    /// Nothing is known.
    pub const NEW: Self = Self {
        pid: Pid::Unknown,
        registration: Registration::None,
        version: VERSION_MIN,
        seq: 0,
        echo: 0,
    };

    /// Returns whether the mapper must be asked who it is.
    pub fn must_register(&self) -> bool {
        self.registration != Registration::Done && self.pid != Pid::Absent
    }

    /// The mapper's netlink port ID, if known.
    pub fn pid(&self) -> Option<u32> {
        match self.pid {
            Pid::At(pid) => Some(pid.get()),
            Pid::Unknown | Pid::Absent => None,
        }
    }

    /// Returns whether it has answered the request for its name.
    pub fn is_registered(&self) -> bool {
        self.registration == Registration::Done
    }

    /// Flags that a request carries: `None` if the mapper's version has none.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] if flags are needed which the mapper does not know.
    pub fn flags(&self, flags: u32) -> Result<Option<u32>, Unsupported> {
        match (self.version > VERSION_MIN, flags) {
            (true, flags) => Ok(Some(flags)),
            (false, 0) => Ok(None),
            (false, _) => Err(Unsupported),
        }
    }

    /// Returns whether mappings are sent with flags.
    pub fn takes_flags(&self) -> bool {
        self.version > VERSION_MIN
    }

    /// Sequence number of a new request.
    pub fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }

    /// Sequence number of the mapper's last message.
    pub fn echo(&self) -> u32 {
        self.echo
    }

    /// A message of the mapper with this sequence number was accepted.
    pub fn heard(&mut self, seq: u32) {
        self.echo = seq;
    }

    /// Nobody listens to the group.
    pub fn absent(&mut self) {
        self.pid = Pid::Absent;
    }

    /// The mapper could not be reached.
    pub fn lost(&mut self) {
        self.pid = Pid::Unknown;
    }

    /// The mapper at `pid` has answered who it is.
    pub fn registered(&mut self, pid: u32, version: u16) {
        self.set_pid(pid);
        self.version = version;
        self.registration = Registration::Done;
    }

    /// The mapper at `pid` has asked for all mappings.
    pub fn asked(&mut self, pid: u32) {
        self.registration = Registration::Announced;
        self.set_pid(pid);
    }

    /// The mapper at `pid` has announced itself. Returns the version that is used from now on.
    pub fn greeted(&mut self, pid: u32, version: u16) -> u16 {
        self.asked(pid);
        self.version = version.min(VERSION);
        self.version
    }

    /// As in the C module, port IDs above 2^31 are those of no mapper.
    fn set_pid(&mut self, pid: u32) {
        self.pid = match NonZeroU32::new(pid) {
            Some(pid) if i32::try_from(pid.get()).is_ok() => Pid::At(pid),
            _ => Pid::Unknown,
        };
    }
}

/// The mapper does not know flags that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Who is the mapper?
    Register {
        /// Name of the device.
        device: [u8; DEVICE_NAME],
    },
    /// The mapping of an address.
    Add {
        /// The address.
        local: Address,
    },
    /// The mappings of two addresses.
    Query {
        /// Local address.
        local: Address,
        /// Remote address.
        remote: Address,
    },
}

impl Request {
    /// Asks who the mapper is.
    pub fn register(names: &Names) -> Self {
        Self::Register {
            device: names.device,
        }
    }
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mapper has said who it is, with the version of its protocol.
    Registered(u16),
    /// Mapping of the local address.
    Added(Address),
    /// Mappings of both addresses.
    Found {
        /// That of the local address.
        local: Address,
        /// That of the remote address.
        remote: Address,
    },
    /// The mapper has refused, or its answer does not fit.
    Refused(u16),
}

/// A request that waits for its answer. The caller finds it by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    request: Request,
    outcome: Option<Outcome>,
}

impl Pending {
    /// Creates a request.
    pub fn new(request: Request) -> Self {
        Self {
            request,
            outcome: None,
        }
    }

    /// The result, if it was answered.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// Returns whether this request still waits, and for an answer of the kind of `answer`.
    pub fn awaits(&self, answer: &Answer) -> bool {
        self.outcome.is_none()
            && matches!(
                (self.request, answer),
                (Request::Register { .. }, Answer::Registered { .. })
                    | (Request::Add { .. }, Answer::Added { .. })
                    | (Request::Query { .. }, Answer::Found { .. })
                    | (_, Answer::Failed(_))
            )
    }

    /// Answers the request, which [`awaits`](Self::awaits) it. Returns the result.
    pub fn answer(&mut self, answer: &Answer) -> Outcome {
        let outcome = self.request.checked(answer);
        self.outcome = Some(outcome);
        outcome
    }
}

impl Request {
    fn checked(&self, answer: &Answer) -> Outcome {
        match (*self, *answer) {
            (_, Answer::Failed(error)) => Outcome::Refused(error),
            (
                Self::Register { device: ours },
                Answer::Registered {
                    device,
                    named: true,
                    version: version @ VERSION_MIN..,
                    error: 0,
                },
            ) if device == ours => Outcome::Registered(version),
            (
                Self::Add { local: ours },
                Answer::Added {
                    local,
                    mapped,
                    error: 0,
                },
            ) if local.same(&ours) && mapped.family() == local.family() => Outcome::Added(mapped),
            (
                Self::Query {
                    local: ours,
                    remote: theirs,
                },
                Answer::Found { remote, error: 0 },
            ) if remote.local.same(&ours)
                && remote.remote.same(&theirs)
                && remote.families_agree() =>
            {
                Outcome::Found {
                    local: remote.mapped_local,
                    remote: remote.mapped_remote,
                }
            }
            (
                _,
                Answer::Registered { error, .. }
                | Answer::Added { error, .. }
                | Answer::Found { error, .. },
            ) => Outcome::Refused(if error == 0 { BAD_ANSWER } else { error }),
        }
    }
}
