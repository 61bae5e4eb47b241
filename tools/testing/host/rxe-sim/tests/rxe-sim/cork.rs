// SPDX-License-Identifier: GPL-2.0

//! When doorbells wait for company, and that they never do for somebody who waits.

use rxe_sim::proto::cork::{Cork, Doorbell, Queued, Ring};
use rxe_sim::proto::Nanos;

fn doorbell(now: u64, gap: u64) -> Doorbell {
    Doorbell {
        now: Nanos(now),
        gap: Nanos(gap),
        answered: false,
    }
}

/// One small request waits.
fn one() -> Queued {
    Queued {
        waiting: 1,
        bytes: 64,
    }
}

/// A cork that has seen the part of a burst that is served at once.
fn warm() -> Cork {
    let mut cork = Cork::new();
    assert_eq!(cork.ring(doorbell(0, u64::MAX), one), Ring::Serve);
    for _ in 1..Cork::FREE {
        assert_eq!(cork.ring(doorbell(0, 1_000), one), Ring::Serve);
        cork.served();
    }
    cork
}

#[test]
fn a_stream_waits_until_enough_wait() {
    let mut cork = warm();
    assert_eq!(
        cork.ring(doorbell(0, 1_000), one),
        Ring::Hold(Some(Nanos(20_000))),
        "sixteen at this pace, and a quarter"
    );
    for waiting in 2..Cork::COUNT {
        assert_eq!(
            cork.ring(doorbell(0, 1_000), || Queued { waiting, ..one() }),
            Ring::Hold(None)
        );
    }
    let full = Queued {
        waiting: Cork::COUNT,
        ..one()
    };
    assert_eq!(cork.ring(doorbell(0, 1_000), || full), Ring::Serve);
    cork.served();
    assert!(!cork.holds());
    assert!(
        matches!(cork.ring(doorbell(0, 1_000), one), Ring::Hold(Some(_))),
        "it is still a stream"
    );
}

#[test]
fn large_messages_do_not_wait() {
    let mut cork = warm();
    let large = Queued {
        bytes: Cork::BYTES,
        ..one()
    };
    assert_eq!(cork.ring(doorbell(0, 1_000), || large), Ring::Serve);
    assert_eq!(Cork::BYTES, 65_536);
}

#[test]
fn requests_served_at_once_do_not_count_as_waiting() {
    let large = Queued {
        bytes: Cork::BYTES,
        ..one()
    };
    let mut cork = warm();
    for _ in 0..2 {
        // As the host does it: who held nothing back does not say that it is served.
        assert_eq!(cork.ring(doorbell(0, 1_000), || large), Ring::Serve);
        assert!(matches!(cork.ring(doorbell(0, 1_000), one), Ring::Hold(_)));
        cork.served();
        for _ in 0..Cork::BYTES {
            assert_eq!(cork.ring(doorbell(0, u64::MAX), one), Ring::Serve);
        }
        for _ in 1..Cork::FREE {
            assert_eq!(cork.ring(doorbell(0, 1_000), one), Ring::Serve);
        }
    }
    assert!(matches!(cork.ring(doorbell(0, 1_000), one), Ring::Hold(_)));
}

#[test]
fn the_queue_is_not_read_if_the_doorbell_is_served_anyway() {
    let mut cork = Cork::new();
    let nobody = || unreachable!("the queue is read for nothing");
    assert_eq!(cork.ring(doorbell(0, u64::MAX), nobody), Ring::Serve);
}

#[test]
fn a_program_that_waits_is_served() {
    // Each of these in turn, for ever: a pause, an answer, a collected completion.
    let mut cork = Cork::new();
    for i in 0..1_000 {
        let slow = doorbell(0, Cork::CLOSE.0 + 1);
        assert_eq!(cork.ring(slow, one), Ring::Serve, "doorbell {i}");
        cork.served();
    }
    for i in 0..1_000 {
        let answered = Doorbell {
            answered: true,
            ..doorbell(0, 100)
        };
        assert_eq!(cork.ring(answered, one), Ring::Serve, "doorbell {i}");
        cork.served();
    }
    // Bursts of four, with an answer to each.
    for i in 0..1_000 {
        let next = Doorbell {
            answered: i % Cork::FREE == 0,
            ..doorbell(0, 100)
        };
        assert_eq!(cork.ring(next, one), Ring::Serve, "doorbell {i}");
        cork.served();
    }
}

#[test]
fn the_pause_follows_the_pace_within_bounds() {
    let hold = |gap| {
        let mut cork = warm();
        match cork.ring(doorbell(7, gap), one) {
            Ring::Hold(Some(span)) => span,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(hold(1), Cork::LEAST);
    assert_eq!(hold(500), Nanos(10_000));
    assert_eq!(hold(Cork::CLOSE.0), Cork::HOLD);
    // A preempted user has no pace of its own: the last one known counts.
    assert_eq!(hold(0), Nanos(20_000));
}

#[test]
fn the_pause_ends() {
    let mut cork = warm();
    assert_eq!(cork.look(Nanos(0)), Ring::Serve, "nothing waits");
    assert!(matches!(
        cork.ring(doorbell(50, 1_000), one),
        Ring::Hold(Some(_))
    ));
    assert_eq!(cork.look(Nanos(1_050)), Ring::Hold(Some(Nanos(19_000))));
    assert_eq!(cork.look(Nanos(20_050)), Ring::Serve);
    assert_eq!(cork.look(Nanos(u64::MAX)), Ring::Serve);
}

#[test]
fn bytes_count_from_the_first_that_waits() {
    // A fresh cork, of which nobody says that it is served: nothing was ever held.
    for (bytes, held) in [(Cork::BYTES - 1, true), (Cork::BYTES, false)] {
        let mut cork = Cork::new();
        for _ in 0..Cork::FREE {
            assert_eq!(cork.ring(doorbell(0, 1_000), one), Ring::Serve);
        }
        let ring = cork.ring(doorbell(0, 1_000), || Queued { waiting: 1, bytes });
        assert_eq!(matches!(ring, Ring::Hold(_)), held, "{bytes}");
        assert_eq!(cork.holds(), held);
    }
    // Those that wait add up.
    let mut cork = warm();
    let half = Queued {
        waiting: 1,
        bytes: Cork::BYTES / 2,
    };
    assert!(matches!(
        cork.ring(doorbell(0, 1_000), || half),
        Ring::Hold(_)
    ));
    assert_eq!(cork.ring(doorbell(0, 1_000), || half), Ring::Serve);
    assert_eq!(Cork::default(), Cork::new());
    // And none are left when they were served.
    cork.served();
    let most = Queued {
        waiting: 1,
        bytes: Cork::BYTES - 1,
    };
    assert!(matches!(
        cork.ring(doorbell(0, 1_000), || most),
        Ring::Hold(_)
    ));
}

#[test]
fn a_train_is_not_exceeded_by_one_request() {
    // Requests that fill one packet of 4096 bytes: sixteen of them, with headers, exceed a train.
    let mut cork = warm();
    let bytes = 4096;
    for waiting in 1..15 {
        let ring = cork.ring(doorbell(0, 1_000), || Queued { waiting, bytes });
        assert!(matches!(ring, Ring::Hold(_)), "{waiting}");
    }
    let last = Queued { waiting: 15, bytes };
    assert_eq!(cork.ring(doorbell(0, 1_000), || last), Ring::Serve);
    // A few large ones are not split up: the fourth does not wait, the third does.
    let mut cork = warm();
    let bytes = Cork::BYTES / 4;
    for waiting in 1..Cork::FEW {
        let ring = cork.ring(doorbell(0, 1_000), || Queued { waiting, bytes });
        assert!(matches!(ring, Ring::Hold(_)), "{waiting}");
    }
    let last = Queued {
        waiting: Cork::FEW,
        bytes,
    };
    assert_eq!(cork.ring(doorbell(0, 1_000), || last), Ring::Serve);
}

#[test]
fn a_burst_is_doorbells_close_together() {
    let close = Cork::CLOSE.0;
    for (gap, held) in [(0, true), (close, true), (close + 1, false)] {
        let mut cork = warm();
        let ring = cork.ring(doorbell(0, gap), one);
        assert_eq!(matches!(ring, Ring::Hold(_)), held, "{gap}");
    }
    // The pause is sixteen doorbells at the pace of the last gap, and a quarter.
    for (gap, pause) in [
        (1, Cork::LEAST.0),
        (250, 5_000),
        (251, 5_020),
        (1_999, 39_980),
        (2_000, 40_000),
        (2_001, Cork::HOLD.0),
        (close, Cork::HOLD.0),
    ] {
        let ring = warm().ring(doorbell(0, gap), one);
        assert_eq!(ring, Ring::Hold(Some(Nanos(pause))), "{gap}");
    }
    // A doorbell after no time at all does not change the pace.
    assert_eq!(
        warm().ring(doorbell(0, 0), one),
        Ring::Hold(Some(Nanos(20_000)))
    );
    // What is left of the pause.
    let mut cork = warm();
    assert_eq!(
        cork.ring(doorbell(100, 1_000), one),
        Ring::Hold(Some(Nanos(20_000)))
    );
    assert_eq!(cork.look(Nanos(100)), Ring::Hold(Some(Nanos(20_000))));
    assert_eq!(cork.look(Nanos(20_099)), Ring::Hold(Some(Nanos(1))));
    assert_eq!(cork.look(Nanos(20_100)), Ring::Serve);
}
