// SPDX-License-Identifier: GPL-2.0

//! What is to be done next for a multicast group on a port.
//!
//! However many members a group has on a port, the SA knows one, whose kinds are those of all
//! of them. So joins are taken one by one: whoever asks for what the port is already is
//! admitted, for others the SA is asked. When a kind has no member any more, the SA is told
//! (IBTA 15.2.5.17, o15-0.2.x).
//!
//! ```text
//!            wake                       Join, Leave
//!     Idle ---------> Running (next) ----------------> Joining, Leaving
//!      ^                 |   ^                               |
//!      +----- Rest ------+   +-- joined, refused, left ------+
//! ```
//!
//! Whoever is told to wake the group runs it: calls [`Group::next`] and does what that says,
//! until it says to rest, or to ask the SA, whose answer goes on. So only one runs a group.
//! Members are the host's: those who wait in order, and those who have joined.

use super::super::gid::Gid;
use super::member::JoinState;
use super::member::Member;
use super::member::KINDS;

/// How often a leave that was not answered is sent again.
const LEAVE_RETRIES: u8 = 3;

/// A member who asks, by a number that no other has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The first of those who wait.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who.
    pub ticket: Ticket,
    /// What for.
    pub asked: &'a Member,
    /// Which fields of it count.
    pub mask: u64,
}

/// What happened to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Its partitions may have moved.
    Partitions,
    /// The SA has forgotten all members.
    Forgotten,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look for this partition, and tell [`Group::partition_is`].
    FindPartition(u16),
    /// Take one out of those who have joined, tell [`Group::lost`], and tell him.
    Lose,
    /// The first who waits has joined, with this record.
    Admit(Member),
    /// The first who waits asks for what the group is not.
    Refuse,
    /// Ask the SA for the first who waits.
    Join,
    /// Tell the SA that the port is no such member any more.
    Leave(Member),
    /// Nothing. A group without members may go.
    Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    Joining(Ticket),
    Leaving { record: Member, retries: u8 },
}

/// A group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// As the SA has it; its join state are the kinds that the SA knows of.
    record: Member,
    phase: Phase,
    trouble: Option<Trouble>,
    /// How many have joined as each kind.
    kinds: [u32; KINDS],
    /// Where the partition was when the SA was asked.
    partition: Option<u16>,
    /// For whom the SA has just been asked: once is enough.
    served: Option<Ticket>,
}

impl Group {
    /// One that nobody has asked for.
    pub fn new(mgid: Gid) -> Self {
        Self {
            record: Member {
                mgid,
                ..Member::default()
            },
            phase: Phase::Idle,
            trouble: None,
            kinds: [0; KINDS],
            partition: None,
            served: None,
        }
    }

    /// What is known of it.
    pub fn record(&self) -> &Member {
        &self.record
    }

    /// Whether nobody runs it, and no answer is awaited.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether somebody runs it, or is to.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether the caller is now who runs it.
    fn wake(&mut self) -> bool {
        let idle = self.is_idle();
        if idle {
            self.phase = Phase::Running;
        }
        idle
    }

    /// Somebody waits now. Whether the caller has to see to it that the group is run.
    #[must_use]
    pub fn came(&mut self) -> bool {
        self.wake()
    }

    /// Somebody has gone who had joined as these kinds, or had not. Whether to run.
    #[must_use]
    pub fn gone(&mut self, joined: Option<JoinState>) -> bool {
        if let Some(kinds) = joined {
            self.lost(kinds);
        }
        self.wake()
    }

    /// Something happened to the port. Whether to run.
    #[must_use]
    pub fn disturbed(&mut self, trouble: Trouble) -> bool {
        self.trouble = self.trouble.max(Some(trouble));
        self.wake()
    }

    /// Somebody who had joined as these kinds has not any more.
    pub fn lost(&mut self, kinds: JoinState) {
        self.count(kinds, |n| n.saturating_sub(1));
    }

    fn count(&mut self, kinds: JoinState, change: impl Fn(u32) -> u32) {
        let each = self.kinds.iter_mut().enumerate();
        each.filter(|(kind, _)| kinds.has(*kind))
            .for_each(|(_, n)| *n = change(*n));
    }

    /// The kinds that somebody has joined as.
    fn joined_kinds(&self) -> JoinState {
        let each = self.kinds.iter().enumerate().filter(|(_, n)| **n != 0);
        each.fold(JoinState::NONE, |all, (kind, _)| {
            all.or(JoinState(1 << kind))
        })
    }

    /// What whoever runs the group does next; `first` is the first who waits, `joined` whether
    /// anybody has joined.
    pub fn next(&mut self, first: Option<Request<'_>>, joined: bool) -> Step {
        debug_assert_eq!(self.phase, Phase::Running);
        match self.trouble {
            None => {}
            Some(Trouble::Partitions) => {
                self.trouble = None;
                return Step::FindPartition(self.record.pkey);
            }
            Some(Trouble::Forgotten) if joined => return Step::Lose,
            Some(Trouble::Forgotten) => {
                self.trouble = None;
                self.record.join_state = JoinState::NONE;
                self.partition = None;
                self.served = None;
            }
        }
        if let Some(first) = first {
            let kinds = first.asked.join_state;
            if self.record.join_state.contains(kinds) {
                self.served = None;
                if !self.record.satisfies(first.asked, first.mask) {
                    return Step::Refuse;
                }
                self.count(kinds, |n| n.saturating_add(1));
                return Step::Admit(Member {
                    join_state: kinds,
                    ..self.record
                });
            }
            if self.served.take() == Some(first.ticket) {
                // The SA agreed, and then named other kinds: it would be asked for ever.
                return Step::Refuse;
            }
            self.phase = Phase::Joining(first.ticket);
            return Step::Join;
        }
        let idle = self.record.join_state.without(self.joined_kinds());
        if idle.is_none() {
            self.phase = Phase::Idle;
            return Step::Rest;
        }
        self.record.join_state = self.record.join_state.without(idle);
        let record = Member {
            join_state: idle,
            ..self.record
        };
        self.phase = Phase::Leaving {
            record,
            retries: LEAVE_RETRIES,
        };
        Step::Leave(record)
    }

    /// Where the partition is, after [`Step::FindPartition`]. If it has moved, the SA has to
    /// be asked anew.
    pub fn partition_is(&mut self, at: Option<u16>) {
        if at.is_none() || at != self.partition {
            self.trouble = Some(Trouble::Forgotten);
        }
    }

    /// The SA could not be asked, or not told: the caller runs on. Who was asked for is
    /// answered by the caller.
    pub fn not_sent(&mut self) {
        self.phase = Phase::Running;
    }

    /// The SA agreed to a join: this is the group now, and its partition is there. The caller
    /// runs on. Whether the group has another GID now.
    pub fn joined(&mut self, record: Member, partition: Option<u16>) -> bool {
        if let Phase::Joining(ticket) = self.phase {
            self.served = Some(ticket);
        }
        self.phase = Phase::Running;
        if self.trouble.is_none() && self.partition.is_none() {
            self.partition = partition;
        }
        let moved = self.record.mgid != record.mgid;
        self.record = record;
        moved
    }

    /// The SA did not agree, or did not answer: the caller runs on. Who is to be told so, if he
    /// is still the first who waits.
    pub fn refused(&mut self) -> Option<Ticket> {
        let for_whom = match self.phase {
            Phase::Joining(ticket) => Some(ticket),
            Phase::Idle | Phase::Running | Phase::Leaving { .. } => None,
        };
        self.phase = Phase::Running;
        for_whom
    }

    /// The SA was told of a leave, or did not answer. What is to be told again; if nothing is,
    /// the caller runs on.
    pub fn left(&mut self, answered: bool) -> Option<Member> {
        if let Phase::Leaving { record, retries } = self.phase {
            if let (false, Some(retries)) = (answered, retries.checked_sub(1)) {
                self.phase = Phase::Leaving { record, retries };
                return Some(record);
            }
        }
        self.phase = Phase::Running;
        None
    }
}
