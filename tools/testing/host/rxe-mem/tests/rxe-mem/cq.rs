// SPDX-License-Identifier: GPL-2.0

//! Completion queues: bytes, wake-ups, overflow, resize.

use crate::common::Shared;
use rxe_mem::proto::{Key, Qpn, RecvCompletion, SendCompletion, WcOpcode, WcStatus};
use rxe_mem::queue::cq::{Arm, Cq, Posted};
use rxe_mem::queue::cqe::{Cqe, Network, Origin, USER_CQE};
use rxe_mem::queue::layout::Layout;
use rxe_mem::queue::ring::Producer;

type TestCq = Cq<Shared, Vec<Option<Cqe<()>>>>;

const ORIGIN: Origin<()> = Origin {
    qpn: 0x11,
    port: 1,
    qp: (),
};

fn send(wr_id: u64, status: WcStatus) -> Cqe<()> {
    let done = SendCompletion {
        wr_id,
        status,
        opcode: WcOpcode::RdmaWrite,
        byte_len: 4096,
        with_imm: true,
    };
    Cqe::of_send(&done, ORIGIN)
}

fn recv(solicited: bool) -> RecvCompletion {
    RecvCompletion {
        wr_id: 7,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        byte_len: 12,
        imm: None,
        invalidated: None,
        src_qpn: None,
        solicited,
    }
}

fn user(entries: u32) -> (TestCq, Shared, Layout) {
    let layout = Layout::new(entries, USER_CQE).unwrap();
    let mem = Shared::new(&layout);
    (Cq::user(Producer::new(mem.clone(), layout)), mem, layout)
}

#[test]
fn user_bytes_are_ibv_wc() {
    let mut bytes = [0u8; 48];
    bytes[0..8].copy_from_slice(&5u64.to_ne_bytes());
    bytes[12..16].copy_from_slice(&1u32.to_ne_bytes());
    bytes[20..24].copy_from_slice(&4096u32.to_ne_bytes());
    bytes[28..32].copy_from_slice(&0x11u32.to_ne_bytes());
    bytes[36..40].copy_from_slice(&2u32.to_ne_bytes());
    bytes[46] = 1;
    assert_eq!(send(5, WcStatus::Success).user_bytes(), bytes);

    let done = RecvCompletion {
        imm: Some([1, 2, 3, 4]),
        src_qpn: Some(Qpn(0x22)),
        ..recv(false)
    };
    let bytes = Cqe::of_recv(&done, ORIGIN, Network::default()).user_bytes();
    assert_eq!(
        bytes[24..28],
        [1, 2, 3, 4],
        "immediate data stays in wire order"
    );
    assert_eq!(bytes[32..36], 0x22u32.to_ne_bytes());
    assert_eq!(bytes[36..40], 3u32.to_ne_bytes(), "GRH and immediate");
    assert_eq!(bytes[12..16], 128u32.to_ne_bytes());

    let done = RecvCompletion {
        invalidated: Some(Key(0x1234_5678)),
        ..recv(false)
    };
    let bytes = Cqe::of_recv(&done, ORIGIN, Network::default()).user_bytes();
    assert_eq!(bytes[24..28], 0x1234_5678u32.to_ne_bytes());
    assert_eq!(bytes[36..40], 9u32.to_ne_bytes(), "GRH and invalidate");
}

#[test]
fn an_error_completion_has_only_id_and_status() {
    let bytes = send(5, WcStatus::WrFlush).user_bytes();
    assert_eq!(bytes[8..12], 5u32.to_ne_bytes());
    assert_eq!(bytes[16..28], [0; 12]);
    assert_eq!(bytes[36..40], [0; 4]);
}

#[test]
fn waking_follows_what_was_armed() {
    use Posted::{Notify, Quiet};
    let ok = send(1, WcStatus::Success);
    let bad = send(1, WcStatus::RetryExc);
    let plain = Cqe::of_recv(&recv(false), ORIGIN, Network::default());
    let solicited = Cqe::of_recv(&recv(true), ORIGIN, Network::default());
    for (armed, cqe, posted) in [
        (None, &solicited, Quiet),
        (Some(Arm::Next), &ok, Notify),
        (Some(Arm::Next), &plain, Notify),
        (Some(Arm::Solicited), &ok, Quiet),
        (Some(Arm::Solicited), &plain, Quiet),
        (Some(Arm::Solicited), &solicited, Notify),
        (Some(Arm::Solicited), &bad, Notify),
    ] {
        let (mut cq, _, _) = user(8);
        if let Some(arm) = armed {
            assert!(!cq.arm(arm));
        }
        assert_eq!(cq.post(cqe), posted, "{armed:?} {cqe:?}");
        // One wake-up per arming.
        if posted == Notify {
            assert_eq!(cq.post(&bad), Quiet);
        }
        assert!(cq.arm(Arm::Next), "completions wait");
        // Arming for less does not take the more away.
        cq.arm(Arm::Solicited);
        assert_eq!(cq.post(&ok), Notify);
    }
}

#[test]
fn overflow_is_told_once_and_for_good() {
    let (mut cq, mem, layout) = user(3);
    for n in 0..3 {
        assert_eq!(cq.post(&send(n, WcStatus::Success)), Posted::Quiet);
    }
    assert_eq!(cq.post(&send(3, WcStatus::Success)), Posted::Overflow);
    assert_eq!(cq.post(&send(4, WcStatus::Success)), Posted::Dead);
    // What was there can still be polled; nothing new comes.
    for n in 0..3u64 {
        assert_eq!(mem.consume(&layout), Some(n.to_ne_bytes()));
    }
    assert_eq!(cq.post(&send(5, WcStatus::Success)), Posted::Dead);
}

#[test]
fn a_kernel_queue_is_polled_in_order() {
    let mut cq: TestCq = Cq::kernel(vec![None; 3]);
    assert_eq!((cq.capacity(), cq.poll()), (3, None));
    let mut next = 0;
    let mut polled = 0;
    for round in 0..20u64 {
        for _ in 0..=round % 3 {
            assert_eq!(cq.post(&send(next, WcStatus::Success)), Posted::Quiet);
            next += 1;
        }
        while let Some(cqe) = cq.poll() {
            assert_eq!(cqe.wr_id, polled);
            polled += 1;
        }
        assert_eq!((polled, cq.used()), (next, 0));
    }
    let layout = Layout::new(3, USER_CQE).unwrap();
    assert!(cq.resize(Shared::new(&layout), layout).is_err());
    let mut none: TestCq = Cq::kernel(Vec::new());
    assert_eq!(none.post(&send(0, WcStatus::Success)), Posted::Overflow);
}

#[test]
fn resize_loses_nothing_and_keeps_the_arming() {
    let (mut cq, old, layout) = user(3);
    for n in 0..3 {
        assert_eq!(cq.post(&send(n, WcStatus::Success)), Posted::Quiet);
    }
    assert_eq!(old.consume(&layout), Some(0u64.to_ne_bytes()));
    cq.arm(Arm::Next);
    let new = Layout::new(100, USER_CQE).unwrap();
    let mem = Shared::new(&new);
    assert!(cq.resize(mem.clone(), new).is_ok());
    assert_eq!((cq.capacity(), cq.used()), (127, 2));
    assert_eq!(cq.post(&send(3, WcStatus::Success)), Posted::Notify);
    for n in 1..4u64 {
        assert_eq!(mem.consume(&new), Some(n.to_ne_bytes()));
    }
    assert_eq!(mem.consume::<8>(&new), None);
}
