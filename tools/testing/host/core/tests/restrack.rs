// SPDX-License-Identifier: GPL-2.0

//! `restrack`: ids in turn against a set, owners, and lives of objects.

use rdma_core_engines::proto::restrack::is_listed;
use rdma_core_engines::proto::restrack::qp_id;
use rdma_core_engines::proto::restrack::Cyclic;
use rdma_core_engines::proto::restrack::Effect;
use rdma_core_engines::proto::restrack::Kind;
use rdma_core_engines::proto::restrack::Life;
use rdma_core_engines::proto::restrack::Owner;
use rdma_core_engines::proto::restrack::Shown;
use rdma_core_engines::proto::restrack::Step;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[test]
fn numbers_are_the_headers() {
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, i);
    }
    let names: Vec<_> = Kind::ALL
        .into_iter()
        .filter_map(Kind::summary_name)
        .collect();
    assert_eq!(names, ["pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"]);
    assert_eq!(qp_id(0x11, 2, false), Some(0x11));
    assert_eq!(qp_id(1, 2, true), Some(0x0200_0001));
    assert_eq!(qp_id(0x100_0000, 1, false), None);
    assert_eq!(qp_id(1, 256, true), None);
    assert!(is_listed(false, false) && is_listed(true, true) && !is_listed(true, false));
}

#[test]
fn ids_in_turn() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let (first, last) = rng.pick(&[(0, 7), (1, 5), (u32::MAX - 4, u32::MAX), (3, 3)]);
        let mut ids = Cyclic::starting_at(rng.pick(&[0, first, last]));
        let mut used: BTreeSet<u32> = BTreeSet::new();
        // The same by going round, one by one.
        let mut at = match ids {
            ids if ids == Cyclic::starting_at(last) => last,
            _ => first,
        };
        for step in 0..60 {
            if rng.one_in(2) {
                let free = |from, to| (from..=to).find(|id| !used.contains(id));
                let got = ids.take(first..=last, free);
                let span = u64::from(last - first) + 1;
                let want = (0..span)
                    .map(|i| first + ((u64::from(at - first) + i) % span) as u32)
                    .find(|id| !used.contains(id));
                assert_eq!(got, want, "seed {seed}, step {step}");
                if let Some(id) = got {
                    used.insert(id);
                    at = if id == last { first } else { id + 1 };
                }
            } else if let Some(id) = used.iter().nth(rng.below(used.len().max(1))).copied() {
                used.remove(&id);
            }
        }
    }
}

#[test]
fn owners() {
    type O = Owner<&'static str, u32>;
    let kernel: O = O::UNKNOWN.named(Some("ib_core"), 7);
    assert_eq!(kernel, Owner::Kernel(Some("ib_core")));
    assert_eq!(kernel.shown(|_| 1), Shown::KernelName("ib_core"));
    let user = O::UNKNOWN.named(None, 7);
    assert_eq!(user, Owner::User(7));
    assert!(!user.is_kernel());
    assert_eq!(user.shown(|task| task * 100), Shown::Pid(700));
    assert_eq!(
        user.shown(|_| 0),
        Shown::Nothing,
        "not in the reader's namespace"
    );
    assert_eq!(user.named(Some("ib_core"), 8), user, "a user's it stays");
    assert_eq!(user.named(None, 8), Owner::User(8));
    assert_eq!(O::UNKNOWN.of_parent(&user), user);
    assert_eq!(O::UNKNOWN.of_parent(&kernel), kernel);
    assert_eq!(user.of_parent(&kernel), user);
    assert_eq!(O::UNKNOWN.shown(|_| 1), Shown::Nothing);
}

#[test]
fn lives_keep_the_table() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let mut lives = [Life::New; 4];
        // The table as the effects leave it: visible or kept.
        let mut table: BTreeMap<u32, bool> = BTreeMap::new();
        for _ in 0..60 {
            let which = rng.below(lives.len());
            let id = which as u32;
            let steps = [
                Step::Add(id),
                Step::AddUnseen,
                Step::BeginDel,
                Step::AbortDel,
                Step::CommitDel,
                Step::Del,
            ];
            let (life, effect) = lives[which].step(rng.pick(&steps));
            lives[which] = life;
            match effect {
                Effect::Nothing | Effect::Wait => {}
                Effect::Publish(id) => assert_ne!(table.insert(id, true), Some(true)),
                Effect::HideAndWait(id) => assert_eq!(table.insert(id, false), Some(true)),
                Effect::Release(id) => assert_eq!(table.remove(&id), Some(false)),
                Effect::ReleaseAndWait(id) => assert_eq!(table.remove(&id), Some(true)),
            }
            let expected: BTreeMap<u32, bool> = lives
                .iter()
                .filter_map(|life| match life {
                    Life::Seen(id) => Some((*id, true)),
                    Life::Leaving(id) => Some((*id, false)),
                    _ => None,
                })
                .collect();
            assert_eq!(table, expected, "seed {seed}");
            if lives[which] == Life::Gone {
                lives[which] = Life::New;
            }
        }
    }
}
