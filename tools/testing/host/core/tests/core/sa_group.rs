// SPDX-License-Identifier: GPL-2.0

//! `sa::group` in random histories: members that come and go, a port in trouble, an SA that
//! refuses, forgets, does not answer, or names other kinds than it was asked for.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::sa::group::Group;
use rdma_core_engines::proto::sa::group::Request;
use rdma_core_engines::proto::sa::group::Step;
use rdma_core_engines::proto::sa::group::Ticket;
use rdma_core_engines::proto::sa::group::Trouble;
use rdma_core_engines::proto::sa::member::component;
use rdma_core_engines::proto::sa::member::JoinState;
use rdma_core_engines::proto::sa::member::Member;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::collections::VecDeque;

const MGID: Gid = Gid([0xff; 16]);

/// What a member was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Joined,
    Refused,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Query {
    Join(Ticket, JoinState),
    Leave(JoinState),
}

struct Host {
    group: Group,
    next: u64,
    waiting: VecDeque<(Ticket, Member, u64)>,
    joined: BTreeMap<u64, JoinState>,
    told: BTreeMap<u64, Told>,
    running: bool,
    query: Option<Query>,
    /// What the SA has of this port.
    sa: JoinState,
    /// The SA may have more than the group knows of: an answer was lost, or it lied.
    muddled: bool,
    /// Something happened that the group has not looked at.
    disturbed: bool,
    partition: Option<u16>,
    joins: usize,
    leaves: usize,
}

impl Host {
    fn new() -> Self {
        Self {
            group: Group::new(MGID),
            next: 0,
            waiting: VecDeque::new(),
            joined: BTreeMap::new(),
            told: BTreeMap::new(),
            running: false,
            query: None,
            sa: JoinState::NONE,
            muddled: false,
            disturbed: false,
            partition: Some(0),
            joins: 0,
            leaves: 0,
        }
    }

    fn woken(&mut self, wake: bool) {
        assert!(
            !(wake && (self.running || self.query.is_some())),
            "two run it"
        );
        self.running |= wake;
        assert_eq!(self.group.is_idle(), !self.running && self.query.is_none());
    }

    fn come(&mut self, kinds: u8, qkey: Option<u32>) -> u64 {
        self.next += 1;
        let asked = Member {
            mgid: MGID,
            join_state: JoinState(kinds),
            qkey: qkey.unwrap_or(0),
            ..Member::default()
        };
        let mask = qkey.map_or(0, |_| component::QKEY);
        self.waiting.push_back((Ticket(self.next), asked, mask));
        self.told.insert(self.next, Told::Nothing);
        let wake = self.group.came();
        self.woken(wake);
        self.next
    }

    fn go(&mut self, member: u64) {
        self.told.remove(&member).unwrap();
        self.waiting.retain(|(ticket, ..)| ticket.0 != member);
        let joined = self.joined.remove(&member);
        let wake = self.group.gone(joined);
        self.woken(wake);
    }

    fn tell(&mut self, member: u64, told: Told) {
        let before = self.told.insert(member, told).unwrap();
        let may = match told {
            Told::Nothing => false,
            Told::Joined | Told::Refused => before == Told::Nothing,
            Told::Lost => before == Told::Joined,
        };
        assert!(may, "{member}: {before:?} then {told:?}");
    }

    fn disturb(&mut self, trouble: Trouble) {
        // An answer on its way, or what was joined in the old partition, may be news to a group
        // that begins anew.
        self.muddled |= self.query.is_some() || trouble == Trouble::Partitions;
        self.disturbed = true;
        let wake = self.group.disturbed(trouble);
        self.woken(wake);
    }

    fn run(&mut self, can_send: bool) {
        assert!(self.running && self.query.is_none());
        let first = self.waiting.front().map(|(ticket, asked, mask)| Request {
            ticket: *ticket,
            asked,
            mask: *mask,
        });
        let step = self.group.next(first, !self.joined.is_empty());
        self.disturbed &= matches!(step, Step::FindPartition(_) | Step::Lose);
        match step {
            Step::FindPartition(_) => self.group.partition_is(self.partition),
            Step::Lose => {
                let (member, kinds) = self.joined.pop_first().unwrap();
                self.group.lost(kinds);
                self.tell(member, Told::Lost);
            }
            Step::Admit(record) => {
                let (ticket, asked, mask) = self.waiting.pop_front().unwrap();
                assert_eq!(record.join_state, asked.join_state);
                assert!(record.satisfies(&asked, mask));
                self.joined.insert(ticket.0, record.join_state);
                self.tell(ticket.0, Told::Joined);
            }
            Step::Refuse => {
                let (ticket, ..) = self.waiting.pop_front().unwrap();
                self.tell(ticket.0, Told::Refused);
            }
            Step::Join => {
                let (ticket, asked, _) = *self.waiting.front().unwrap();
                if can_send {
                    self.joins += 1;
                    self.query = Some(Query::Join(ticket, asked.join_state));
                    self.running = false;
                } else {
                    self.group.not_sent();
                    self.waiting.pop_front();
                    self.tell(ticket.0, Told::Refused);
                }
            }
            Step::Leave(record) => {
                assert!(!record.join_state.is_none());
                for kinds in self.joined.values() {
                    assert!(
                        record.join_state.and(*kinds).is_none(),
                        "somebody is still there"
                    );
                }
                if can_send {
                    self.leaves += 1;
                    self.query = Some(Query::Leave(record.join_state));
                    self.running = false;
                } else {
                    self.muddled = true;
                    self.group.not_sent();
                }
            }
            Step::Rest => self.running = false,
        }
        self.check();
    }

    /// The SA answers, or the query's time is over.
    fn answer(&mut self, rng: &mut Rng, honest: bool) {
        let query = self.query.take().unwrap();
        let bad = !honest && rng.one_in(4);
        let takes_effect = !bad || rng.one_in(2);
        match query {
            Query::Join(ticket, kinds) => {
                if takes_effect {
                    self.sa = self.sa.or(kinds);
                }
                if bad {
                    self.muddled |= takes_effect;
                    assert_eq!(self.group.refused(), Some(ticket));
                    self.running = true;
                    if self
                        .waiting
                        .front()
                        .is_some_and(|(first, ..)| *first == ticket)
                    {
                        self.waiting.pop_front();
                        self.tell(ticket.0, Told::Refused);
                    }
                } else {
                    let mut named = self.sa;
                    if !honest && rng.one_in(4) {
                        named = JoinState(rng.below(16) as u8);
                        self.muddled = true;
                    }
                    let record = Member {
                        mgid: MGID,
                        qkey: 7,
                        join_state: named,
                        ..Member::default()
                    };
                    assert!(!self.group.joined(record, self.partition));
                    self.running = true;
                }
            }
            Query::Leave(kinds) => {
                if takes_effect {
                    self.sa = self.sa.without(kinds);
                }
                self.muddled |= bad && !takes_effect;
                match self.group.left(!bad) {
                    Some(again) => {
                        assert_eq!(again.join_state, kinds);
                        self.query = Some(Query::Leave(kinds));
                    }
                    None => self.running = true,
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        for kinds in self.joined.values() {
            if !self.muddled && !self.disturbed {
                assert!(self.group.record().join_state.contains(*kinds));
            }
        }
    }

    /// Lets it go on until it rests, with an SA that is honest now.
    fn settle(&mut self, rng: &mut Rng) {
        for _ in 0..10_000 {
            if self.query.is_some() {
                self.answer(rng, true);
            } else if self.running {
                self.run(true);
            } else {
                assert!(self.waiting.is_empty() && self.group.is_idle());
                return;
            }
        }
        panic!("it never rests");
    }
}

fn history(seed: u64, honest: bool) {
    let mut rng = Rng::new(seed);
    let mut host = Host::new();
    for _ in 0..rng.below(120) {
        match rng.below(10) {
            0..=2 => {
                let qkey = rng.one_in(5).then(|| rng.pick(&[7, 8]));
                let kinds = rng.below(16) as u8;
                host.come(kinds, qkey);
            }
            3 | 4 => {
                let all: Vec<u64> = host.told.keys().copied().collect();
                if !all.is_empty() {
                    host.go(rng.pick(&all));
                }
            }
            5 if rng.one_in(3) => {
                host.sa = JoinState::NONE;
                host.disturb(Trouble::Forgotten);
            }
            6 if rng.one_in(3) => {
                host.partition = rng.pick(&[None, Some(0), Some(1)]);
                host.disturb(Trouble::Partitions);
            }
            _ if host.query.is_some() => host.answer(&mut rng, honest),
            _ if host.running => host.run(honest || !rng.one_in(5)),
            _ => {}
        }
    }
    host.settle(&mut rng);
    for (member, told) in &host.told {
        assert_ne!(*told, Told::Nothing, "seed {seed}: {member} waits for ever");
        assert_eq!(host.joined.contains_key(member), *told == Told::Joined);
    }
    let all: Vec<u64> = host.told.keys().copied().collect();
    for member in all {
        host.go(member);
    }
    host.settle(&mut rng);
    assert!(host.group.record().join_state.is_none(), "seed {seed}");
    if honest && !host.muddled {
        assert!(host.sa.is_none(), "seed {seed}: {:?}", host.sa);
    }
}

#[test]
fn each_member_gets_one_answer_and_the_sa_is_informed() {
    for seed in 0..15_000 {
        history(seed, true);
        history(seed, false);
    }
}

#[test]
fn members_of_one_kind_cost_one_join_and_one_leave() {
    let mut rng = Rng::new(1);
    let mut host = Host::new();
    let members: Vec<u64> = (0..20).map(|_| host.come(1, None)).collect();
    host.settle(&mut rng);
    assert_eq!((host.joins, host.leaves), (1, 0));
    members.iter().for_each(|member| host.go(*member));
    host.settle(&mut rng);
    assert_eq!((host.joins, host.leaves), (1, 1));
}

#[test]
fn another_kind_is_joined_beside_and_left_alone() {
    let mut rng = Rng::new(1);
    let mut host = Host::new();
    let full = host.come(1, None);
    host.settle(&mut rng);
    let sender = host.come(4, None);
    host.settle(&mut rng);
    assert_eq!((host.joins, host.sa), (2, JoinState(5)));
    host.go(full);
    host.settle(&mut rng);
    assert_eq!((host.leaves, host.sa), (1, JoinState(4)));
    host.go(sender);
    host.settle(&mut rng);
    assert_eq!((host.leaves, host.sa), (2, JoinState::NONE));
}

#[test]
fn an_event_costs_a_member_who_joins_again() {
    let mut rng = Rng::new(1);
    let mut host = Host::new();
    let member = host.come(1, None);
    host.settle(&mut rng);
    // The partition is where it was: nothing happens.
    host.disturb(Trouble::Partitions);
    host.settle(&mut rng);
    assert_eq!(host.told[&member], Told::Joined);
    host.partition = Some(3);
    host.disturb(Trouble::Partitions);
    host.settle(&mut rng);
    assert_eq!(host.told[&member], Told::Lost);
    let again = host.come(1, None);
    host.settle(&mut rng);
    assert_eq!(host.told[&again], Told::Joined);
    // Where it is now is where it is looked for.
    host.disturb(Trouble::Partitions);
    host.settle(&mut rng);
    assert_eq!(host.told[&again], Told::Joined);
    assert_eq!(host.joins, 2);
}

#[test]
fn a_leave_without_answer_is_sent_four_times() {
    let mut group = Group::new(MGID);
    let asked = Member {
        join_state: JoinState(1),
        ..Member::default()
    };
    let first = Request {
        ticket: Ticket(1),
        asked: &asked,
        mask: 0,
    };
    assert!(group.is_idle() && !group.is_running());
    assert!(group.came());
    assert!(!group.is_idle() && group.is_running());
    assert_eq!(group.next(Some(first), false), Step::Join);
    assert!(!group.is_idle() && !group.is_running());
    assert!(!group.joined(
        Member {
            mgid: MGID,
            ..asked
        },
        Some(0)
    ));
    assert!(matches!(group.next(Some(first), false), Step::Admit(_)));
    assert_eq!(group.next(None, true), Step::Rest);
    assert!(group.gone(Some(JoinState(1))));
    let Step::Leave(record) = group.next(None, false) else {
        panic!("it stays")
    };
    for _ in 0..3 {
        assert_eq!(group.left(false), Some(record));
    }
    assert_eq!(group.left(false), None);
    assert_eq!(group.next(None, false), Step::Rest);
}

#[test]
fn an_sa_that_agrees_to_nothing_is_asked_once() {
    let mut rng = Rng::new(1);
    let mut host = Host::new();
    let member = host.come(1, None);
    host.run(true);
    assert!(host.query.take().is_some());
    let none = Member {
        mgid: MGID,
        ..Member::default()
    };
    host.group.joined(none, Some(0));
    host.running = true;
    host.settle(&mut rng);
    assert_eq!(host.told[&member], Told::Refused);
    assert_eq!(host.joins, 1);
}

#[test]
fn a_group_without_a_name_is_given_one() {
    let mut group = Group::new(Gid::default());
    let asked = Member {
        join_state: JoinState(1),
        ..Member::default()
    };
    let first = Request {
        ticket: Ticket(1),
        asked: &asked,
        mask: 0,
    };
    assert!(group.came());
    assert_eq!(group.next(Some(first), false), Step::Join);
    assert!(group.joined(
        Member {
            mgid: MGID,
            ..asked
        },
        None
    ));
    assert_eq!(group.record().mgid, MGID);
}
