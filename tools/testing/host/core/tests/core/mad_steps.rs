// SPDX-License-Identifier: GPL-2.0

//! `mad`, step by step: the room of a flow, sends that wait for it, and the RMPP header.

use rdma_core_engines::proto::mad::rmpp::flag;
use rdma_core_engines::proto::mad::rmpp::Arrival;
use rdma_core_engines::proto::mad::rmpp::Header;
use rdma_core_engines::proto::mad::rmpp::Kind;
use rdma_core_engines::proto::mad::rmpp::Receiver;
use rdma_core_engines::proto::mad::rmpp::Sender;
use rdma_core_engines::proto::mad::send::is_after;
use rdma_core_engines::proto::mad::send::AckResult;
use rdma_core_engines::proto::mad::send::AckTimeout;
use rdma_core_engines::proto::mad::send::Do;
use rdma_core_engines::proto::mad::send::End;
use rdma_core_engines::proto::mad::send::Flow;
use rdma_core_engines::proto::mad::send::Home;
use rdma_core_engines::proto::mad::send::Order;
use rdma_core_engines::proto::mad::send::SendState;
use rdma_core_engines::proto::mad::send::State;
use rdma_core_engines::proto::mad::wire;
use rdma_core_engines::proto::mad::wire::Layout;

const MOST: AckTimeout = AckTimeout(20);

const fn order(timeout: u64, retries: u32) -> Order {
    Order {
        timeout,
        retries,
        counted: true,
    }
}

/// Posts a send without a transfer.
fn post(send: &mut SendState, order: Order, queued: bool, flow: &mut Flow) -> Do {
    send.post(order, queued, 1, MOST, flow).expect("idle")
}

#[test]
fn a_flow_has_room_up_to_its_limit() {
    let mut flow = Flow::with_limit(2);
    let mut sends: Vec<SendState> = (0..4).map(|_| SendState::new(None)).collect();
    assert!(flow.has_room());
    assert_eq!(flow.out(), 0);
    assert_eq!(post(&mut sends[0], order(0, 0), false, &mut flow), Do::Post);
    assert!(flow.has_room());
    assert_eq!(post(&mut sends[1], order(0, 0), false, &mut flow), Do::Post);
    assert!(!flow.has_room());
    assert_eq!(flow.out(), 2);
    // The third one waits, and leaves the backlog when the first is done, not before.
    assert_eq!(
        post(&mut sends[2], order(0, 0), false, &mut flow),
        Do::Nothing
    );
    assert_eq!(sends[2].home(), Home::Backlog);
    assert_eq!(sends[2].dequeue(&mut flow), Do::Nothing);
    assert_eq!(
        sends[0].completed(true, 0, MOST, &mut flow),
        Do::Finish(End::AsCompleted)
    );
    assert!(flow.has_room());
    // One that comes later does not overtake the backlog.
    assert_eq!(
        post(&mut sends[3], order(0, 0), true, &mut flow),
        Do::Nothing
    );
    assert_eq!(sends[2].dequeue(&mut flow), Do::Post);
    assert_eq!((flow.out(), flow.has_room()), (2, false));
    flow.close();
    assert!(flow.is_closed());
    assert_eq!(
        sends[1].completed(true, 0, MOST, &mut flow),
        Do::Finish(End::Flushed)
    );
    assert_eq!((flow.out(), flow.has_room()), (1, false));
}

#[test]
fn a_flow_without_a_limit_always_has_room() {
    let mut flow = Flow::with_limit(0);
    for n in 0..100 {
        assert!(flow.has_room());
        let mut send = SendState::new(None);
        assert_eq!(post(&mut send, order(0, 0), true, &mut flow), Do::Post);
        assert_eq!(flow.out(), n + 1);
    }
    flow.close();
    assert!(!flow.has_room());
}

#[test]
fn a_send_waits_and_is_sent_again() {
    let mut flow = Flow::with_limit(0);
    let mut send = SendState::new(None);
    assert_eq!(post(&mut send, order(50, 2), false, &mut flow), Do::Post);
    assert_eq!((send.patience(), send.retries()), (50, (2, 2)));
    assert!(send.awaits());
    // The deadline counts from the completion.
    assert_eq!(send.completed(true, 1000, MOST, &mut flow), Do::Nothing);
    assert_eq!((send.state(), send.deadline()), (State::Waiting, 1050));
    for made in 1..=2 {
        assert_eq!(send.expired(false, MOST, &mut flow), Do::Post);
        assert_eq!(send.retries_made(), made);
        assert_eq!(send.retries(), (2 - made, 2));
        assert_eq!(send.completed(true, 2000, MOST, &mut flow), Do::Nothing);
        assert_eq!(send.deadline(), 2050);
    }
    assert_eq!(
        send.expired(false, MOST, &mut flow),
        Do::Finish(End::TimedOut)
    );
    assert_eq!((flow.out(), send.home()), (0, Home::None));
}

#[test]
fn a_retry_waits_behind_the_backlog_and_still_awaits_its_answer() {
    let mut flow = Flow::with_limit(1);
    let mut send = SendState::new(None);
    assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
    assert_eq!(send.completed(true, 0, MOST, &mut flow), Do::Nothing);
    assert_eq!(send.expired(true, MOST, &mut flow), Do::Nothing);
    assert_eq!((send.home(), flow.out()), (Home::Backlog, 0));
    assert!(send.awaits());
    assert_eq!(send.end(End::Success, &mut flow), Do::Finish(End::Success));
    // One that was never sent awaits nothing.
    let mut first = SendState::new(None);
    let mut second = SendState::new(None);
    assert_eq!(post(&mut first, order(50, 1), false, &mut flow), Do::Post);
    assert_eq!(
        post(&mut second, order(50, 1), false, &mut flow),
        Do::Nothing
    );
    assert!(!second.awaits());
    second.not_posted(&mut flow);
    assert_eq!(second.state(), State::Idle);
}

#[test]
fn a_cancelled_send_is_flushed() {
    let mut flow = Flow::with_limit(0);
    // With the queue pair: when it is completed.
    let mut send = SendState::new(None);
    assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
    assert!(send.modify(0, 7, &mut flow));
    assert_eq!(send.state(), State::Revoked);
    assert!(!send.awaits());
    assert!(!send.modify(9, 7, &mut flow));
    assert_eq!(
        send.completed(true, 8, MOST, &mut flow),
        Do::Finish(End::Flushed)
    );
    // Waiting: at once, by its deadline.
    assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
    assert_eq!(send.completed(true, 8, MOST, &mut flow), Do::Nothing);
    assert!(send.modify(0, 9, &mut flow));
    assert_eq!((send.state(), send.deadline()), (State::Cancelled, 9));
    assert_eq!(
        send.expired(false, MOST, &mut flow),
        Do::Finish(End::Flushed)
    );
    // A new time counts from now if it waits, and from the completion if it does not.
    assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
    assert!(send.modify(30, 100, &mut flow));
    assert_eq!(send.patience(), 30);
    assert_eq!(send.completed(true, 200, MOST, &mut flow), Do::Nothing);
    assert_eq!(send.deadline(), 230);
    assert!(send.modify(40, 210, &mut flow));
    assert_eq!(send.deadline(), 250);
    assert_eq!(send.abandon(&mut flow), Do::Finish(End::Flushed));
}

#[test]
fn an_answer_before_the_completion_ends_with_it() {
    let mut flow = Flow::with_limit(0);
    let mut send = SendState::new(None);
    for (end, told) in [
        (End::Success, End::AsCompleted),
        (End::TimedOut, End::TimedOut),
    ] {
        assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
        assert_eq!(send.end(end, &mut flow), Do::Nothing);
        assert_eq!(send.patience(), 0);
        assert!(!send.awaits());
        assert_eq!(send.completed(true, 0, MOST, &mut flow), Do::Finish(told));
    }
    // While the answer is handed over, the completion does not end it.
    assert_eq!(post(&mut send, order(50, 1), false, &mut flow), Do::Post);
    send.answered(&mut flow);
    assert_eq!(send.completed(true, 0, MOST, &mut flow), Do::Nothing);
    assert_eq!(send.handed(&mut flow), Do::Finish(End::AsCompleted));
    assert_eq!(send.handed(&mut flow), Do::Nothing);
}

#[test]
fn only_an_active_header_of_data_is_data() {
    let header = |flags, kind| Header {
        version: 1,
        kind,
        flags,
        status: 0,
        segment: 1,
        length_or_window: 0,
    };
    for flags in 0..=flag::ALL {
        let active = flags & 1 == 1;
        assert_eq!(header(flags, 1).is_active(), active);
        assert_eq!(header(flags, 1).is_data(), active);
        for kind in [0, 2, 3, 4, 5, 255] {
            assert_eq!(header(flags, kind).is_active(), active);
            assert!(!header(flags, kind).is_data());
        }
    }
    assert_eq!(
        [Kind::Data, Kind::Ack, Kind::Stop, Kind::Abort].map(|kind| kind as u8),
        [1, 2, 3, 4]
    );
}

#[test]
fn one_that_was_never_posted_waits_for_nothing() {
    let send = SendState::new(None);
    assert_eq!((send.patience(), send.deadline()), (0, 0));
    assert_eq!((send.retries(), send.retries_made()), ((0, 0), 0));
    assert!(!send.is_counted() && !send.awaits());
}

#[test]
fn the_first_segment_again_is_no_reason_to_repeat_what_was_never_said() {
    let mut receiver = Receiver::new(4, false);
    assert_eq!(receiver.arrived(1, false), Arrival::Drop);
    assert_eq!(receiver.acknowledge(), (1, 5));
    assert_eq!(receiver.arrived(1, false), Arrival::Repeat);
    assert_eq!(receiver.arrived(5, false), Arrival::Keep { ack: false });
    assert_eq!(receiver.arrived(6, false), Arrival::Drop);
}

#[test]
fn the_answer_to_a_transfer_is_due_from_its_last_acknowledgement_on() {
    let layout = Layout::new(256, 56, 500, true).expect("fits");
    let mut flow = Flow::with_limit(0);
    let mut send = SendState::new(Sender::new(&layout));
    let segments = u32::try_from(layout.segments).expect("few");
    let todo = send.post(order(50, 3), false, segments, MOST, &mut flow);
    assert!(matches!(todo, Ok(Do::PostSegment(s)) if s.number == 1));
    for number in 2..=segments {
        let todo = send.completed(true, 0, MOST, &mut flow);
        assert!(matches!(todo, Do::PostSegment(s) if s.number == number));
    }
    // Acknowledgements are waited for for so long at most.
    assert_eq!(send.completed(true, 100, MOST, &mut flow), Do::Nothing);
    assert_eq!((send.state(), send.deadline()), (State::Waiting, 120));
    let acked = send.acked(segments, segments, 110, MOST, &mut flow);
    assert_eq!(acked, AckResult::Again);
    assert_eq!((send.state(), send.deadline()), (State::Waiting, 160));
}

#[test]
fn only_a_question_is_refused() {
    let mut mad = [0; 256];
    for method in 0..=u8::MAX {
        mad[3] = method;
        let header = wire::Header::parse(&mad).expect("long enough");
        assert_eq!(header.wants_refusal(), matches!(method, 1 | 2), "{method}");
    }
}

#[test]
fn a_transfer_goes_on_when_it_waits_and_the_window_opens() {
    let layout = Layout::new(256, 56, 500, true).expect("fits");
    let fresh = Sender::new(&layout).expect("some segments");
    assert!(!fresh.is_done() && fresh.may_send());
    assert_eq!((fresh.current(), layout.segments), (1, 3));
    let single = Sender::new(&Layout::new(256, 56, 1, true).expect("fits"));
    assert!(single.is_some_and(|sender| !sender.is_done() && sender.may_send()));

    let mut flow = Flow::with_limit(0);
    let mut send = SendState::new(Some(fresh));
    let todo = send.post(order(50, 3), false, 1, MOST, &mut flow);
    assert!(matches!(todo, Ok(Do::PostSegment(s)) if s.number == 1));
    assert_eq!(send.completed(true, 0, MOST, &mut flow), Do::Nothing);
    assert_eq!(send.state(), State::Waiting);
    let acked = send.acked(1, 3, 1, MOST, &mut flow);
    assert!(matches!(acked, AckResult::Do(Do::PostSegment(s)) if s.number == 2));
    // While one is with the queue pair, no other is.
    assert_eq!(send.acked(1, 3, 2, MOST, &mut flow), AckResult::Nothing);
}

#[test]
fn a_send_without_timeout_awaits_no_response() {
    let mut flow = Flow::with_limit(0);
    for (timeout, awaits) in [(0, false), (1, true)] {
        let mut send = SendState::new(None);
        assert_eq!(
            post(&mut send, order(timeout, 0), false, &mut flow),
            Do::Post
        );
        assert_eq!(send.awaits(), awaits);
    }
    for (a, b, after) in [
        (1, 1, false),
        (2, 1, true),
        (1, 2, false),
        (0, u64::MAX, true),
    ] {
        assert_eq!(is_after(a, b), after, "{a} {b}");
    }
}

#[test]
fn a_new_time_holds_for_the_retries_too() {
    let mut flow = Flow::with_limit(0);
    let mut send = SendState::new(None);
    assert_eq!(post(&mut send, order(50, 2), false, &mut flow), Do::Post);
    assert_eq!(send.completed(true, 1000, MOST, &mut flow), Do::Nothing);
    assert!(send.modify(80, 1010, &mut flow));
    assert_eq!(send.deadline(), 1090);
    assert_eq!(send.expired(false, MOST, &mut flow), Do::Post);
    assert_eq!(send.completed(true, 2000, MOST, &mut flow), Do::Nothing);
    assert_eq!(send.deadline(), 2080);
}
