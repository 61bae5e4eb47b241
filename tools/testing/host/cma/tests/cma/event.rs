// SPDX-License-Identifier: GPL-2.0

//! Events of transports and the events for consumers.

use rdma_cma_engines::proto::event;
use rdma_cma_engines::proto::event::Happened;
use rdma_cma_engines::proto::event::IbEvent;
use rdma_cma_engines::proto::event::IbPlan;
use rdma_cma_engines::proto::event::IwEvent;
use rdma_cma_engines::proto::event::Kind;

#[test]
fn numbers_and_texts() {
    for (raw, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(kind.raw() as usize, raw);
    }
    assert_eq!(event::text(0), c"address resolved");
    // The blank is there in C, too.
    assert_eq!(event::text(2), c"route resolved ");
    assert_eq!(event::text(15), c"timewait exit");
    for raw in (16..40).chain([u32::MAX]) {
        assert_eq!(event::text(raw), c"unrecognized event");
    }
}

/// Event, status, and what it means, of an `ib_cm` event.
fn told(raw: u32) -> Result<(u32, i32, Happened), IbPlan> {
    match event::of_ib(IbEvent::from_raw(raw)) {
        IbPlan::Tell(told) => Ok((told.kind.raw(), told.status.raw(), told.happened)),
        plan => Err(plan),
    }
}

#[test]
fn of_connections() {
    use Happened::{Disconnected, News, TimewaitExit};
    assert_eq!(told(0), Ok((7, -110, News)));
    assert_eq!(told(2), Ok((7, -110, News)));
    assert_eq!(told(3), Err(IbPlan::Reply));
    assert_eq!(told(4), Ok((9, 0, News)));
    assert_eq!(told(5), Ok((9, 0, News)));
    assert_eq!(told(6), Ok((10, -110, Disconnected)));
    assert_eq!(told(7), Ok((10, 0, Disconnected)));
    assert_eq!(told(8), Ok((10, 0, Disconnected)));
    assert_eq!(told(9), Ok((15, 0, TimewaitExit)));
    assert_eq!(told(10), Err(IbPlan::Ignore));
    assert_eq!(told(11), Err(IbPlan::Rejected));
    for raw in [1, 12, 13, 14, 15, 16, 17, 18, u32::MAX] {
        assert_eq!(told(raw), Err(IbPlan::Unexpected));
    }
    for raw in 0..20 {
        assert_eq!(IbEvent::from_raw(raw).is_late(), raw == 9);
    }
}

#[test]
fn of_replies() {
    let raw = |told: event::Told| (told.kind.raw(), told.status.raw());
    assert_eq!(raw(event::replied(None)), (5, 0));
    assert_eq!(raw(event::replied(Some(Ok(())))), (9, 0));
    assert_eq!(raw(event::replied(Some(Err(-22)))), (6, -22));
    assert_eq!(raw(event::rejected(28)), (8, 28));
    assert_eq!(raw(event::of_sidr(0, Ok(()))), (9, 0));
    assert_eq!(raw(event::of_sidr(0, Err(-22))), (1, -22));
    assert_eq!(raw(event::of_sidr(1, Ok(()))), (7, 1));
    assert_eq!(raw(event::of_sidr(2, Err(-22))), (7, 2));
    assert_eq!(raw(event::SIDR_TIMED_OUT), (7, -110));
}

#[test]
fn of_iwarp() {
    let raw = |raw, status| {
        event::of_iw(IwEvent::from_raw(raw), status).map(|told| {
            assert_eq!(told.happened, Happened::News);
            assert_eq!(told.status.raw(), status);
            told.kind.raw()
        })
    };
    assert_eq!(raw(1, 0), None);
    assert_eq!(raw(4, 0), None);
    assert_eq!(raw(5, -104), Some(10));
    assert_eq!(raw(3, 0), Some(9));
    for (status, kind) in [
        (0, 9),
        (-104, 8),
        (-111, 8),
        (-110, 7),
        (-12, 6),
        (i32::MIN, 6),
    ] {
        assert_eq!(raw(2, status), Some(kind));
    }
}
