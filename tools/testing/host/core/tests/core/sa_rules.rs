// SPDX-License-Identifier: GPL-2.0

//! `sa`: rules that are tables of numbers. Components of groups one by one, attributes of the
//! local service, numbers of queries.

use crate::sa::attr;
use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::sa::local;
use rdma_core_engines::proto::sa::local::Answer;
use rdma_core_engines::proto::sa::local::Patience;
use rdma_core_engines::proto::sa::member::Member;
use rdma_core_engines::proto::sa::query;
use rdma_core_engines::proto::sa::query::Tickets;

#[test]
fn each_field_of_a_group_is_compared_if_its_component_is_asked_for() {
    let base = Member::default();
    // The bits of IB_SA_MCMEMBER_REC_*, by number, and a record in which that field differs.
    let fields: [(u32, Member); 9] = [
        (
            1,
            Member {
                port_gid: Gid([1; 16]),
                ..base
            },
        ),
        (2, Member { qkey: 1, ..base }),
        (3, Member { mlid: 1, ..base }),
        (
            6,
            Member {
                traffic_class: 1,
                ..base
            },
        ),
        (7, Member { pkey: 1, ..base }),
        (12, Member { sl: 1, ..base }),
        (
            13,
            Member {
                flow_label: 1,
                ..base
            },
        ),
        (
            14,
            Member {
                hop_limit: 1,
                ..base
            },
        ),
        (15, Member { scope: 1, ..base }),
    ];
    for (bit, other) in fields {
        assert!(base.satisfies(&base, 1 << bit), "{bit}");
        assert!(other.satisfies(&other, 1 << bit), "{bit}");
        assert!(!base.satisfies(&other, 1 << bit), "{bit}");
        assert!(!other.satisfies(&base, 1 << bit), "{bit}");
        for another in (0..17).filter(|another| *another != bit) {
            assert!(base.satisfies(&other, 1 << another), "{bit} {another}");
        }
    }
    // MTU, rate and life time come with a selector; both components are needed.
    let have = Member {
        mtu: 4,
        rate: 4,
        life_time: 4,
        ..base
    };
    for (selector, value, fits) in [(0, 3, true), (0, 4, false), (1, 5, true), (2, 5, false)] {
        let mtu = Member {
            mtu_selector: selector,
            mtu: value,
            ..have
        };
        let rate = Member {
            rate_selector: selector,
            rate: value,
            ..have
        };
        let life_time = Member {
            life_time_selector: selector,
            life_time: value,
            ..have
        };
        for (bit, asked) in [(4, mtu), (8, rate), (10, life_time)] {
            assert_eq!(have.satisfies(&asked, 3 << bit), fits, "{bit} {selector}");
            assert!(have.satisfies(&asked, 1 << bit));
            assert!(have.satisfies(&asked, 2 << bit));
        }
    }
}

#[test]
fn one_malformed_attribute_spoils_a_message() {
    let timeout = attr(2, &500_u32.to_ne_bytes());
    // LS_NLA_TYPE_* by number, and the lengths that are too short or too long just so.
    for (number, bad, good) in [
        (1, vec![0, 71, 73], vec![72]),
        (2, vec![0, 3], vec![4, 5]),
        (3, vec![0, 7], vec![8, 9]),
        (4, vec![17], vec![0, 15, 16]),
        (5, vec![17], vec![0, 15, 16]),
        (6, vec![0], vec![1, 2]),
        (7, vec![0, 1], vec![2, 3]),
        (8, vec![0, 1], vec![2, 3]),
        (9, vec![], vec![0, 1, 100]),
    ] {
        for len in bad {
            let other = attr(number, &vec![0; len]);
            // Before the timeout and after it.
            for message in [[other.clone(), timeout.clone()], [timeout.clone(), other]] {
                let message = message.concat();
                assert_eq!(local::timeout(&message), None, "{number} {len}");
                assert!(Answer::read(0, &message).is_none(), "{number} {len}");
            }
        }
        for len in good {
            let message = [attr(number, &vec![0; len]), timeout.clone()].concat();
            assert_eq!(
                local::timeout(&message),
                Some(Patience(500)),
                "{number} {len}"
            );
            assert!(Answer::read(0, &message).is_some(), "{number} {len}");
        }
    }
    // RDMA_NL_LS_F_ERR: the service does not know.
    assert_eq!(local::FAILED, 0x100);
    // The last one counts.
    let second = attr(2, &700_u32.to_ne_bytes());
    assert_eq!(
        local::timeout(&[timeout, second].concat()),
        Some(Patience(700))
    );
    assert_eq!(Patience::DEFAULT, Patience(2000));
    assert_eq!(Patience::of(99), Patience(100));
    assert_eq!(Patience::of(200_000), Patience(200_000));
    assert_eq!(Patience::of(200_001), Patience(200_000));
}

#[test]
fn numbers_of_queries_are_positive_for_users() {
    // A user has an `int`, in which a negative one is an error.
    assert_eq!(query::ID_BITS, 31);
    assert_eq!(query::SEQ_BITS, 32);
    let most = (1_u64 << query::ID_BITS) - 1;
    assert_eq!(i32::try_from(most), Ok(i32::MAX));
    let mut tickets = Tickets::default();
    assert_eq!(tickets.issue(), 1);
    assert_eq!(tickets.by_low(1, query::ID_BITS), Some(1));
    assert_eq!(tickets.by_low(1, query::SEQ_BITS), Some(1));
    assert_eq!(tickets.by_low(2, query::ID_BITS), None);
    assert_eq!(tickets.by_low(0, query::ID_BITS), None);
    assert_eq!(tickets.by_low(1, 64), None);
}
