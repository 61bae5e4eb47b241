// SPDX-License-Identifier: GPL-2.0

//! `core/proto/modify_qp` against the loaded core, over every type and every pair
//! of states.

use kernel::prelude::kunit_tests;

#[kunit_tests(core_modify_qp)]
mod tests {
    use crate::peer;
    use crate::proto::modify_qp::check;
    use crate::proto::modify_qp::takes;
    use crate::proto::modify_qp::Attrs;
    use crate::proto::modify_qp::QpState;
    use crate::proto::modify_qp::QpType;
    use kernel::prelude::*;

    /// Calls `ask` for every type and pair of states, and answers how many of the
    /// sets of attributes it was asked for were judged differently.
    fn differences(mut ask: impl FnMut(QpState, QpState, QpType, &mut dyn FnMut(u32))) -> u32 {
        let mut bad = 0;
        for qp_type in QpType::ALL {
            for from in QpState::ALL {
                for to in QpState::ALL {
                    ask(from, to, qp_type, &mut |attrs| {
                        let attrs = Attrs(attrs);
                        let ours = check(from, to, qp_type, attrs);
                        if ours != peer::modify_qp_is_ok(from, to, qp_type, attrs) {
                            bad += 1;
                            if bad < 10 {
                                pr_err!("{qp_type:?} {from:?} to {to:?}, {attrs:?}: ours {ours}\n");
                            }
                        }
                    });
                }
            }
        }
        bad
    }

    #[test]
    fn every_single_attribute() {
        let bad = differences(|_, _, _, ask| {
            ask(0);
            for bit in 0..32 {
                ask(1 << bit);
                ask(1 | 1 << bit);
            }
        });
        assert_eq!(bad, 0);
    }

    #[test]
    fn required_and_one_less_or_more() {
        let bad = differences(|from, to, qp_type, ask| {
            let takes = takes(from, to, qp_type);
            let all = takes.required.0 | takes.optional.0;
            for set in [takes.required.0, all] {
                ask(set);
                for bit in 0..32 {
                    ask(set ^ 1 << bit);
                    ask(1 | (set ^ 1 << bit));
                }
            }
        });
        assert_eq!(bad, 0);
    }

    #[test]
    fn random_sets() {
        let mut rng = peer::Rng::new(0x6d6f_6469_6679);
        let bad = differences(|from, to, qp_type, ask| {
            let takes = takes(from, to, qp_type);
            let all = takes.required.0 | takes.optional.0;
            for _ in 0..512 {
                let any = rng.any();
                ask(any);
                // So that a good part of what is asked is allowed.
                ask(takes.required.0 | (any & all));
                ask(takes.required.0 | (any & all) | 1 << (rng.any() % 32));
            }
        });
        assert_eq!(bad, 0);
    }
}
