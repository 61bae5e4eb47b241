// SPDX-License-Identifier: GPL-2.0

//! The life of an ID as a table: each call and each cause in each state.

use rdma_cma_engines::proto::event::Happened;
use rdma_cma_engines::proto::event::Kind;
use rdma_cma_engines::proto::state::After;
use rdma_cma_engines::proto::state::Answer;
use rdma_cma_engines::proto::state::Cause;
use rdma_cma_engines::proto::state::Life;
use rdma_cma_engines::proto::state::Pending;
use rdma_cma_engines::proto::state::State;
use rdma_cma_engines::proto::state::Ticket;
use rdma_cma_engines::proto::state::Tracked;
use rdma_cma_engines::proto::state::Turn;
use rdma_cma_engines::proto::Refusal;

/// Delivers an event, which the consumer answers with 0.
fn deliver(life: &mut Life, cause: Cause) -> Option<Kind> {
    match life.begin(cause) {
        Turn::Deliver(delivery) => {
            let kind = delivery.kind;
            assert_eq!(life.over(delivery, Answer::Keep), After::Keep);
            Some(kind)
        }
        Turn::Drop => None,
        Turn::Busy => panic!("no callback is running"),
    }
}

/// An ID in the state with this number, and the ticket of its query.
fn at(number: u32) -> (Life, Option<Ticket>) {
    let mut life = Life::new();
    let mut ticket = None;
    let bound = |life: &mut Life| life.bind().unwrap();
    let addr = |life: &mut Life| {
        bound(life);
        let ticket = life.resolve_addr().unwrap();
        deliver(life, Cause::Addr(ticket, true)).unwrap();
    };
    let route = |life: &mut Life| {
        addr(life);
        let ticket = life.resolve_route().unwrap();
        deliver(life, Cause::Route(ticket, true)).unwrap();
    };
    match number {
        0 => {}
        1 => {
            bound(&mut life);
            ticket = Some(life.resolve_addr().unwrap());
        }
        2 => addr(&mut life),
        3 => {
            addr(&mut life);
            ticket = Some(life.resolve_route().unwrap());
        }
        4 => route(&mut life),
        5 => {
            route(&mut life);
            life.connect().unwrap();
        }
        6 => {
            life = Life::passive();
            let over = Cause::Connection(Happened::Disconnected, Kind::Disconnected);
            deliver(&mut life, over).unwrap();
        }
        7 => bound(&mut life),
        8 => {
            bound(&mut life);
            life.listen().unwrap();
        }
        9 => {
            let Turn::Deliver(delivery) = life.remove() else {
                panic!()
            };
            assert_eq!(
                life.over(delivery, Answer::Keep),
                After::Removed(Pending::Nothing)
            );
        }
        10 => assert_eq!(life.destroy(), Some(Pending::Nothing)),
        11 => {
            bound(&mut life);
            ticket = Some(life.resolve_service(true).unwrap());
        }
        12 => {
            bound(&mut life);
            let ticket = life.resolve_service(true).unwrap();
            deliver(&mut life, Cause::Service(ticket, true)).unwrap();
        }
        _ => panic!(),
    }
    assert_eq!(life.state().raw(), number);
    (life, ticket)
}

/// An example of each state.
pub(crate) fn every_state() -> Vec<State> {
    (0..13).map(|number| at(number).0.state()).collect()
}

/// The number of the state after `call`, or `None` if it is refused, in which case the state must
/// not change.
fn after<T, E>(number: u32, call: impl Fn(&mut Life) -> Result<T, E>) -> Option<u32> {
    let (mut life, _) = at(number);
    let before = life.state();
    match call(&mut life) {
        Ok(_) => Some(life.state().raw()),
        Err(_) => {
            assert_eq!(life.state(), before);
            None
        }
    }
}

#[test]
fn calls() {
    for number in 0..13 {
        let only = |from: u32, to: u32| (number == from).then_some(to);
        assert_eq!(after(number, Life::bind), only(0, 7));
        assert_eq!(after(number, Life::resolve_addr), only(7, 1));
        assert_eq!(
            after(number, Life::resolve_route),
            only(2, 3).or(only(12, 3))
        );
        assert_eq!(after(number, Life::set_path), only(2, 4));
        assert_eq!(
            after(number, |life| life.resolve_service(true)),
            only(7, 11)
        );
        assert_eq!(after(number, |life| life.resolve_service(false)), None);
        assert_eq!(after(number, Life::listen), only(7, 8));
        assert_eq!(after(number, Life::connect), only(4, 5));
        assert_eq!(after(number, |life| life.accept()), only(5, 5));
        let (life, _) = at(number);
        assert_eq!(life.is_listening(), number == 8);
        assert_eq!(life.may_join(), [2, 7].contains(&number));
        assert_eq!(life.state().is_over(), [9, 10].contains(&number));
    }
}

#[test]
fn calls_that_fail_later() {
    let failed = |number: u32, back: fn(&mut Life)| {
        let (mut life, _) = at(number);
        back(&mut life);
        life.state().raw()
    };
    for number in 0..13 {
        let or = |from: u32, to: u32| if number == from { to } else { number };
        assert_eq!(failed(number, Life::bind_failed), or(7, 0));
        assert_eq!(failed(number, Life::set_path_failed), or(4, 2));
        assert_eq!(failed(number, Life::listen_failed), or(8, 7));
        assert_eq!(failed(number, Life::connect_failed), or(5, 4));
    }
    let (mut life, ticket) = at(1);
    life.resolve_addr_failed(ticket.unwrap());
    assert_eq!(life.state(), State::AddrBound);
    let (mut life, ticket) = at(11);
    life.resolve_service_failed(ticket.unwrap());
    assert_eq!(life.state(), State::AddrBound);
    // The route goes back to where it came from.
    for from in [2, 12] {
        let (mut life, _) = at(from);
        let ticket = life.resolve_route().unwrap();
        life.resolve_route_failed(ticket);
        assert_eq!(life.state().raw(), from);
        life.resolve_route_failed(ticket);
        assert_eq!(life.state().raw(), from);
    }
}

#[test]
fn answers() {
    for number in 0..13 {
        for good in [false, true] {
            // A ticket of another query fits in no state.
            let (mut other, _) = at(1);
            let Some(stale) = other.destroy().and_then(|_| {
                let (mut life, _) = at(7);
                for _ in 0..7 {
                    let ticket = life.resolve_addr().unwrap();
                    life.resolve_addr_failed(ticket);
                }
                life.resolve_addr().ok()
            }) else {
                panic!()
            };
            for cause in [
                Cause::Addr(stale, good),
                Cause::Route(stale, good),
                Cause::Service(stale, good),
            ] {
                let (mut life, _) = at(number);
                let before = life.state();
                assert_eq!(deliver(&mut life, cause), None);
                assert_eq!(life.state(), before);
            }
            let (_, ticket) = at(number);
            let Some(ticket) = ticket else { continue };
            let table: [(Cause, u32, u32, Kind); 3] = [
                if good {
                    (Cause::Addr(ticket, true), 1, 2, Kind::AddrResolved)
                } else {
                    (Cause::Addr(ticket, false), 1, 7, Kind::AddrError)
                },
                if good {
                    (Cause::Route(ticket, true), 3, 4, Kind::RouteResolved)
                } else {
                    (Cause::Route(ticket, false), 3, 2, Kind::RouteError)
                },
                if good {
                    (Cause::Service(ticket, true), 11, 12, Kind::AddrinfoResolved)
                } else {
                    (Cause::Service(ticket, false), 11, 7, Kind::AddrinfoError)
                },
            ];
            for (cause, from, to, kind) in table {
                let (mut life, _) = at(number);
                let delivered = deliver(&mut life, cause);
                assert_eq!(delivered, (number == from).then_some(kind));
                let wanted = if number == from { to } else { number };
                assert_eq!(life.state().raw(), wanted);
                // The second answer is too late.
                assert_eq!(deliver(&mut life, cause), None);
            }
        }
    }
}

#[test]
fn connections() {
    for number in 0..13 {
        let end = |cause| {
            let (mut life, _) = at(number);
            let told = deliver(&mut life, cause).is_some();
            (told, life.state().raw())
        };
        let connection = |happened| Cause::Connection(happened, Kind::Established);
        let connected = number == 5;
        assert_eq!(end(Cause::Request), (connected, number));
        assert_eq!(end(connection(Happened::News)), (connected, number));
        assert_eq!(
            end(connection(Happened::Disconnected)),
            (connected, if connected { 6 } else { number })
        );
        assert_eq!(
            end(connection(Happened::TimewaitExit)),
            (number == 6, number)
        );
        assert_eq!(
            end(Cause::Around(Kind::AddrChange)),
            (![9, 10].contains(&number), number)
        );
    }
}

#[test]
fn ends() {
    let pending = |number| match number {
        1 => Pending::Addr,
        3 => Pending::Route,
        8 => Pending::Listen,
        11 => Pending::Service,
        _ => Pending::Nothing,
    };
    for number in 0..13 {
        let (mut life, _) = at(number);
        assert_eq!(life.destroy(), (number != 10).then(|| pending(number)));
        assert_eq!(life.destroy(), None);
        assert_eq!(life.remove(), Turn::Drop);

        for answer in [Answer::Keep, Answer::Destroy] {
            let (mut life, _) = at(number);
            let Turn::Deliver(delivery) = life.remove() else {
                assert!([9, 10].contains(&number));
                continue;
            };
            assert_eq!(delivery.kind, Kind::DeviceRemoval);
            assert_eq!(life.state(), State::DeviceRemoval);
            let wanted = match answer {
                Answer::Keep => After::Removed(pending(number)),
                Answer::Destroy => After::Destroy(pending(number)),
            };
            assert_eq!(life.over(delivery, answer), wanted);
            // What was in progress is cancelled once.
            let left = matches!(answer, Answer::Keep).then_some(Pending::Nothing);
            assert_eq!(life.destroy(), left);
        }

        // A consumer destroys by its answer, also after calls from the callback.
        let (mut life, _) = at(number);
        let Turn::Deliver(delivery) = life.begin(Cause::Around(Kind::AddrChange)) else {
            assert!([9, 10].contains(&number));
            continue;
        };
        assert_eq!(life.begin(Cause::Request), Turn::Busy);
        assert_eq!(life.remove(), Turn::Busy);
        let listens = life.bind().is_ok() && life.listen().is_ok();
        let wanted = if listens {
            Pending::Listen
        } else {
            pending(number)
        };
        assert_eq!(life.over(delivery, Answer::Destroy), After::Destroy(wanted));
        assert_eq!(life.state(), State::Destroying);
        assert_eq!(life.destroy(), None);
    }
}

/// Binding and listening go on while another thread destroys the ID. What they add after that, nobody
/// would remove.
#[test]
fn nothing_is_added_after_the_end() {
    for number in 0..=12 {
        let (mut life, _) = at(number);
        assert_eq!(
            life.takes_transport(),
            life.state() != State::Destroying,
            "{number}"
        );
        let _: Option<Pending> = life.destroy();
        assert!(!life.takes_transport(), "{number}");
    }
    let mut tracked = Tracked::default();
    assert_eq!(tracked.begin(), Ok(true));
    // Not twice.
    assert_eq!(tracked.begin(), Ok(false));
    tracked.end();
    assert_eq!(tracked.begin(), Err(Refusal::Invalid));
    let mut tracked = Tracked::default();
    tracked.end();
    tracked.end();
    assert_eq!(tracked.begin(), Err(Refusal::Invalid));
}
