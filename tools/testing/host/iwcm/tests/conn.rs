// SPDX-License-Identifier: GPL-2.0

//! The states of an ID: a table of all calls and events in all states, and random runs.

use rdma_iwcm_engines::proto::conn::Conn;
use rdma_iwcm_engines::proto::conn::End;
use rdma_iwcm_engines::proto::conn::Event;
use rdma_iwcm_engines::proto::conn::Refused;
use rdma_iwcm_engines::proto::conn::Step;
use rdma_iwcm_engines::proto::conn::Unable;
use std::cell::Cell;
use std::rc::Rc;

/// All states, with a queue pair of the name `qp` where there is one.
fn states<Q>(mut qp: impl FnMut() -> Q) -> Vec<Conn<Q>> {
    vec![
        Conn::Idle,
        Conn::Starting,
        Conn::Listening,
        Conn::Requested,
        Conn::Accepting(qp()),
        Conn::Connecting(qp()),
        Conn::Leaving,
        Conn::Established(qp()),
        Conn::Closing(qp()),
        Conn::Destroyed,
    ]
}

fn state_names() -> Vec<&'static str> {
    vec![
        "idle",
        "starting",
        "listening",
        "requested",
        "accepting",
        "connecting",
        "leaving",
        "established",
        "closing",
        "destroyed",
    ]
}

fn name<Q>(conn: &Conn<Q>) -> &'static str {
    match conn {
        Conn::Idle => "idle",
        Conn::Starting => "starting",
        Conn::Listening => "listening",
        Conn::Requested => "requested",
        Conn::Accepting(_) => "accepting",
        Conn::Connecting(_) => "connecting",
        Conn::Leaving => "leaving",
        Conn::Established(_) => "established",
        Conn::Closing(_) => "closing",
        Conn::Destroyed => "destroyed",
    }
}

/// Runs `call` in each state: the state afterwards, and what it answered.
fn each<R>(mut call: impl FnMut(&mut Conn<u32>) -> R) -> Vec<(&'static str, R)> {
    states(|| 7)
        .into_iter()
        .map(|mut conn| {
            let result = call(&mut conn);
            (name(&conn), result)
        })
        .collect()
}

/// What `call` does, where it does anything: state before, state after, answer.
fn changes<R: PartialEq + std::fmt::Debug>(
    call: impl FnMut(&mut Conn<u32>) -> R,
    otherwise: &R,
) -> Vec<(&'static str, &'static str, R)> {
    state_names()
        .into_iter()
        .zip(each(call))
        .filter(|(before, (after, result))| before != after || result != otherwise)
        .map(|(before, (after, result))| (before, after, result))
        .collect()
}

#[test]
fn events_that_a_state_does_not_expect_change_nothing() {
    let ignore = Step {
        deliver: false,
        unused: None,
    };
    let deliver = || Step {
        deliver: true,
        unused: None,
    };
    let last = || Step {
        deliver: true,
        unused: Some(7),
    };
    assert_eq!(
        changes(|c| c.event(Event::Reply { accepted: true }), &ignore),
        [("connecting", "established", deliver())]
    );
    assert_eq!(
        changes(|c| c.event(Event::Reply { accepted: false }), &ignore),
        [("connecting", "idle", last())]
    );
    assert_eq!(
        changes(|c| c.event(Event::Established), &ignore),
        [("accepting", "established", deliver())]
    );
    assert_eq!(
        changes(|c| c.event(Event::Disconnect), &ignore),
        [(
            "established",
            "closing",
            Step {
                deliver: false,
                unused: None
            }
        )]
    );
    assert_eq!(
        changes(|c| c.event(Event::Close), &ignore),
        [
            ("accepting", "idle", last()),
            ("connecting", "idle", last()),
            ("established", "idle", last()),
            ("closing", "idle", last())
        ]
    );
}

#[test]
fn calls_are_refused_outside_their_states() {
    assert_eq!(
        changes(Conn::listen, &Err(Refused(()))),
        [("idle", "starting", Ok(()))]
    );
    assert_eq!(
        changes(|c| c.connect(8), &Err(Refused(8))),
        [("idle", "connecting", Ok(()))]
    );
    assert_eq!(
        changes(|c| c.accept(8), &Err(Refused(8))),
        [("requested", "accepting", Ok(()))]
    );
    assert_eq!(
        changes(Conn::reject, &Err(Refused(()))),
        [("requested", "leaving", Ok(()))]
    );
    assert_eq!(
        changes(|c| c.disconnect().map(|qp| qp.copied()), &Ok(None)),
        [
            ("starting", "starting", Err(Refused(()))),
            ("listening", "listening", Err(Refused(()))),
            ("established", "closing", Ok(Some(7))),
            ("destroyed", "destroyed", Err(Refused(())))
        ]
    );
}

#[test]
fn ends_of_calls_undo_only_what_their_call_began() {
    assert_eq!(
        changes(|c| c.listened(true), &()),
        [("starting", "listening", ())]
    );
    assert_eq!(
        changes(|c| c.listened(false), &()),
        [("starting", "idle", ())]
    );
    assert_eq!(changes(Conn::left, &()), [("leaving", "idle", ())]);
    assert_eq!(
        changes(Conn::failed, &None),
        [
            ("accepting", "leaving", Some(7)),
            ("connecting", "leaving", Some(7)),
            ("established", "leaving", Some(7)),
            ("closing", "leaving", Some(7))
        ]
    );
}

#[test]
fn destruction_tells_the_provider_what_the_state_requires() {
    assert_eq!(
        changes(Conn::destroy, &Err(Unable::Busy)),
        [
            ("idle", "destroyed", Ok(End::Quiet(None))),
            ("listening", "destroyed", Ok(End::Unlisten)),
            ("requested", "destroyed", Ok(End::Reject)),
            ("established", "destroyed", Ok(End::Abort(7))),
            ("closing", "destroyed", Ok(End::Quiet(Some(7)))),
            ("destroyed", "destroyed", Err(Unable::Begun))
        ]
    );
    assert_eq!(
        changes(Conn::abandon, &Err(Unable::Busy)),
        [
            ("idle", "destroyed", Ok(End::Quiet(None))),
            ("listening", "destroyed", Ok(End::Unlisten)),
            ("requested", "destroyed", Ok(End::Reject)),
            ("accepting", "destroyed", Ok(End::Abort(7))),
            ("connecting", "destroyed", Ok(End::Abort(7))),
            ("established", "destroyed", Ok(End::Abort(7))),
            ("closing", "destroyed", Ok(End::Quiet(Some(7)))),
            ("destroyed", "destroyed", Err(Unable::Begun))
        ]
    );
    let busy: Vec<_> = each(|c| c.is_busy());
    let delayed: Vec<_> = each(|c| c.delays_disconnect());
    let with = |answers: Vec<(&'static str, bool)>| -> Vec<&'static str> {
        answers.iter().filter(|a| a.1).map(|a| a.0).collect()
    };
    assert_eq!(
        with(busy),
        ["starting", "accepting", "connecting", "leaving"]
    );
    assert_eq!(with(delayed), ["accepting", "connecting", "leaving"]);
    assert_eq!(with(each(|c| c.is_listening())), ["starting", "listening"]);
    assert_eq!(with(each(|c| c.is_destroyed())), ["destroyed"]);
    assert_eq!(with(each(|c| c.is_idle())), ["idle"]);
    assert_eq!(with(each(|c| c.is_requested())), ["requested"]);
    assert_eq!(
        with(each(|c| c.gives_attributes())),
        [
            "idle",
            "requested",
            "accepting",
            "connecting",
            "leaving",
            "established"
        ]
    );
    assert_eq!(Conn::<u32>::requested(), Conn::Requested);
    assert_eq!(Conn::<u32>::default(), Conn::Idle);
}

/// A queue pair that counts its references.
struct Qp(Rc<Cell<u32>>);

impl Qp {
    fn new(live: &Rc<Cell<u32>>) -> Self {
        live.set(live.get() + 1);
        Self(live.clone())
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn holds(conn: &Conn<Qp>) -> u32 {
    match conn {
        Conn::Accepting(_) | Conn::Connecting(_) | Conn::Established(_) | Conn::Closing(_) => 1,
        Conn::Idle
        | Conn::Starting
        | Conn::Listening
        | Conn::Requested
        | Conn::Leaving
        | Conn::Destroyed => 0,
    }
}

/// Random calls and events, in any order: a state has exactly its queue pair; a delivered event is
/// the last one of its kind; nothing is delivered after the destruction.
#[test]
fn random_runs_keep_the_queue_pairs() {
    let mut seed: u64 = 18;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut delivered = 0_u64;
    for _ in 0..100_000 {
        let live = Rc::new(Cell::new(0));
        let mut conn = match random(2) {
            0 => Conn::Idle,
            _ => Conn::requested(),
        };
        for _ in 0..random(24) {
            let before = name(&conn);
            match random(15) {
                0 => drop(conn.listen()),
                1 => conn.listened(random(2) == 0),
                2 => drop(conn.connect(Qp::new(&live))),
                3 => drop(conn.accept(Qp::new(&live))),
                4 => drop(conn.reject()),
                5 => drop(conn.failed()),
                6 => conn.left(),
                7 => drop(conn.disconnect().map(|qp| qp.is_some())),
                8 => match conn.destroy() {
                    Ok(end) => {
                        assert_ne!(before, "destroyed");
                        drop(end);
                        assert!(conn.is_destroyed());
                    }
                    Err(Unable::Busy) => assert!(conn.is_busy()),
                    Err(Unable::Begun) => assert_eq!(before, "destroyed"),
                },
                13 => drop(conn.abandon()),
                number => {
                    let event = match number {
                        9 => Event::Reply { accepted: true },
                        10 => Event::Reply { accepted: false },
                        11 => Event::Established,
                        12 => Event::Disconnect,
                        _ => Event::Close,
                    };
                    let step = conn.event(event);
                    if step.deliver {
                        delivered += 1;
                        assert_ne!(before, name(&conn));
                        assert!(!conn.is_busy() && !conn.is_destroyed());
                    }
                }
            }
            assert_eq!(live.get(), holds(&conn), "{before} -> {}", name(&conn));
        }
        drop(conn);
        assert_eq!(live.get(), 0);
    }
    assert!(delivered > 10_000);
}
