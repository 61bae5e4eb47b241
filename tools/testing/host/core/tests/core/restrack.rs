// SPDX-License-Identifier: GPL-2.0

//! `restrack`: the numbers and names of kinds, and the ids of queue pairs.

use rdma_core_engines::proto::restrack::qp_id;
use rdma_core_engines::proto::restrack::Kind;

#[test]
fn numbers_are_the_headers() {
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, i);
    }
    let names: Vec<_> = Kind::ALL
        .into_iter()
        .filter_map(Kind::summary_name)
        .collect();
    let known = ["pd", "cq", "qp", "cm_id", "mr", "ctx", "srq", "comp_cntr"];
    assert_eq!(names, known);
    assert_eq!(qp_id(0x11, 2, false), Some(0x11));
    assert_eq!(qp_id(1, 2, true), Some(0x0200_0001));
    assert_eq!(qp_id(0x100_0000, 1, false), None);
    assert_eq!(qp_id(1, 256, true), None);
}
