// SPDX-License-Identifier: GPL-2.0

//! State machine of a multicast group on a port.
//!
//! However many members a group has on a port, the SA sees a single one, whose join state is the
//! union of theirs. So joins are processed one by one: a join for a state that the port
//! already has is granted at once; others are sent to the SA. When no member has a join state any
//! more, the port leaves it at the SA (IBTA 15.2.5.17, o15-0.2.x).
//!
//! ```text
//!            wake                       Join, Leave
//!     Idle ---------> Running (next) ----------------> Joining, Leaving
//!      ^                 |   ^                               |
//!      +----- Rest ------+   +-- joined, refused, left ------+
//! ```
//!
//! The caller that wakes the group runs it: it calls [`Group::next`] and performs the returned
//! [`Step`], until that is to rest or to send to the SA, whose response continues the run. So only
//! one task runs a group. The host keeps the members: those who wait, in order, and those who have
//! joined.

use super::super::gid::Gid;
use super::member::JoinState;
use super::member::Member;
use super::member::KINDS;

/// Number of retransmissions of an unanswered leave.
const LEAVE_RETRIES: u8 = 3;

/// Number of a join request, unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The first join request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Number of the request.
    pub ticket: Ticket,
    /// The requested membership.
    pub asked: &'a Member,
    /// Component mask: which fields of `asked` are significant.
    pub mask: u64,
}

/// An event on the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The P_Key table may have changed.
    Partitions,
    /// The SA has lost all memberships.
    Forgotten,
}

/// Next action for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look up the index of this P_Key, and report it to [`Group::partition_is`].
    FindPartition(u16),
    /// Remove one of the joined members, call [`Group::lost`], and notify the member.
    Lose,
    /// Grant the first waiting request, with this record.
    Admit(Member),
    /// Refuse the first waiting request: it does not match the group.
    Refuse,
    /// Send the join of the first waiting request to the SA.
    Join,
    /// Send a leave with this record to the SA.
    Leave(Member),
    /// Nothing. A group without members may be freed.
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
    /// Record of the group as the SA has it; its join state is what the SA knows of.
    record: Member,
    phase: Phase,
    trouble: Option<Trouble>,
    /// Number of joined members per bit of the join state.
    kinds: [u32; KINDS],
    /// P_Key index at the time of the join.
    partition: Option<u16>,
    /// Request for which the SA was just asked: asking once is enough.
    served: Option<Ticket>,
}

impl Group {
    /// A group without members.
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

    /// Record of the group.
    pub fn record(&self) -> &Member {
        &self.record
    }

    /// Returns whether no task runs the group and no response is pending.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns whether a task runs the group, or must run it.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Returns whether the caller must run the group.
    fn wake(&mut self) -> bool {
        let idle = self.is_idle();
        if idle {
            self.phase = Phase::Running;
        }
        idle
    }

    /// Records that a request waits. Returns whether the caller must have the group run.
    #[must_use]
    pub fn came(&mut self) -> bool {
        self.wake()
    }

    /// Records that a member with this join state, or a waiting request (`None`), is gone. Returns
    /// whether the caller must have the group run.
    #[must_use]
    pub fn gone(&mut self, joined: Option<JoinState>) -> bool {
        if let Some(kinds) = joined {
            self.lost(kinds);
        }
        self.wake()
    }

    /// Records an event on the port. Returns whether the caller must have the group run.
    #[must_use]
    pub fn disturbed(&mut self, trouble: Trouble) -> bool {
        self.trouble = self.trouble.max(Some(trouble));
        self.wake()
    }

    /// Records that a member with this join state is no longer joined.
    pub fn lost(&mut self, kinds: JoinState) {
        self.count(kinds, |n| n.saturating_sub(1));
    }

    fn count(&mut self, kinds: JoinState, change: impl Fn(u32) -> u32) {
        let each = self.kinds.iter_mut().enumerate();
        each.filter(|(kind, _)| kinds.has(*kind))
            .for_each(|(_, n)| *n = change(*n));
    }

    /// Union of the join states of all joined members.
    fn joined_kinds(&self) -> JoinState {
        let each = self.kinds.iter().enumerate().filter(|(_, n)| **n != 0);
        each.fold(JoinState::NONE, |all, (kind, _)| {
            all.or(JoinState(1 << kind))
        })
    }

    /// Returns the next action. `first` is the first waiting request, `joined` whether any member
    /// has joined.
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
                // The SA accepted, but with another join state: asking again would never end.
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

    /// Records the current P_Key index, after [`Step::FindPartition`]. If it has changed, the group
    /// must be joined again.
    pub fn partition_is(&mut self, at: Option<u16>) {
        if at.is_none() || at != self.partition {
            self.trouble = Some(Trouble::Forgotten);
        }
    }

    /// Records that the datagram could not be sent; the caller continues to run the group and
    /// notifies the requester.
    pub fn not_sent(&mut self) {
        self.phase = Phase::Running;
    }

    /// Records that the SA accepted a join, with this record and P_Key index. The caller continues
    /// to run the group. Returns whether the GID of the group has changed.
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

    /// Records that the SA refused or did not respond. The caller continues to run the group.
    /// Returns the request to be notified, if it still is the first that waits.
    pub fn refused(&mut self) -> Option<Ticket> {
        let for_whom = match self.phase {
            Phase::Joining(ticket) => Some(ticket),
            Phase::Idle | Phase::Running | Phase::Leaving { .. } => None,
        };
        self.phase = Phase::Running;
        for_whom
    }

    /// Records that a leave was answered or timed out. Returns the record to be sent again; if
    /// there is none, the caller continues to run the group.
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
