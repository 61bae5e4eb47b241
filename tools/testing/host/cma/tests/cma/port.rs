// SPDX-License-Identifier: GPL-2.0

//! Who may share a port with whom.

use crate::ib;
use crate::scoped;
use crate::v4;
use crate::v6;
use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::port;
use rdma_cma_engines::proto::port::Owner;
use rdma_cma_engines::proto::port::Range;
use rdma_cma_engines::proto::Refusal;
use rdma_cma_engines::rng::Rng;

#[derive(Clone, Copy, Debug)]
struct Id {
    source: Address,
    destination: Address,
    reuse: bool,
    afonly: bool,
}

impl Id {
    fn at(source: Address) -> Self {
        Self {
            source,
            destination: source.family().unspecified(),
            reuse: false,
            afonly: matches!(source, Address::V4(_)),
        }
    }

    fn to(self, destination: Address) -> Self {
        Self {
            destination,
            ..self
        }
    }

    fn reuse(self) -> Self {
        Self {
            reuse: true,
            ..self
        }
    }

    fn only(self) -> Self {
        Self {
            afonly: true,
            ..self
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            source: self.source,
            destination: self.destination,
            reuse: self.reuse,
            afonly: self.afonly,
        }
    }
}

fn share(old: Id, new: Id) -> Result<(), Refusal> {
    port::share([old.owner()], &new.owner(), new.reuse)
}

#[test]
fn pairs() {
    let one = Id::at(v4(10, 0, 0, 1, 5));
    let two = Id::at(v4(10, 0, 0, 2, 5));
    let any = Id::at(v4(0, 0, 0, 0, 5));
    let looped = Id::at(v4(127, 0, 0, 1, 5));
    let six = Id::at(v6("fd00::1", 5));
    let any6 = Id::at(v6("::", 5));
    let link = |scope| Id::at(scoped("fe80::1", 5, scope));
    for (old, new, wanted) in [
        (one, two, Ok(())),
        (one, one, Err(Refusal::InUse)),
        (one, any, Err(Refusal::NotAvailable)),
        (any, one, Err(Refusal::NotAvailable)),
        (looped, one, Err(Refusal::NotAvailable)),
        (any, any, Err(Refusal::NotAvailable)),
        (one.reuse(), one.reuse(), Ok(())),
        (one, one.reuse(), Err(Refusal::InUse)),
        (one.reuse(), one, Err(Refusal::InUse)),
        (any.reuse(), one.reuse(), Ok(())),
        // Different families: only if both keep to their own.
        (any, any6, Err(Refusal::NotAvailable)),
        (any, any6.only(), Ok(())),
        (any6.only(), any, Ok(())),
        (one, six, Ok(())),
        (one, any6, Err(Refusal::NotAvailable)),
        (link(1), link(2), Ok(())),
        (link(1), link(1), Err(Refusal::InUse)),
        (Id::at(ib(2, 5, 5)), Id::at(ib(3, 5, 5)), Ok(())),
        (
            Id::at(ib(2, 5, 5)),
            Id::at(ib(2, 5, 5)),
            Err(Refusal::InUse),
        ),
    ] {
        assert_eq!(share(old, new), wanted, "{old:?} {new:?}");
    }
}

#[test]
fn the_first_conflict_counts() {
    let one = Id::at(v4(10, 0, 0, 1, 5));
    let any = Id::at(v4(0, 0, 0, 0, 5));
    let both = |a: Id, b: Id| port::share([a.owner(), b.owner()], &one.owner(), false);
    assert_eq!(both(one, any), Err(Refusal::InUse));
    assert_eq!(both(any, one), Err(Refusal::NotAvailable));
}

#[test]
fn a_listener_shares_no_more() {
    let one = Id::at(v4(10, 0, 0, 1, 5)).reuse();
    let others = [one.owner()];
    assert_eq!(port::share(others, &one.owner(), true), Ok(()));
    assert_eq!(
        port::share(others, &one.owner(), false),
        Err(Refusal::InUse)
    );
}

#[test]
fn privileged_ports() {
    let one = Id::at(v4(10, 0, 0, 1, 5));
    for (number, privileged, wanted) in [
        (1023, false, Err(Refusal::Access)),
        (1023, true, Ok(())),
        (1024, false, Ok(())),
        (65535, false, Ok(())),
    ] {
        let taken = port::take(number, || privileged, [], &one.owner());
        assert_eq!(taken, wanted);
    }
    // The privilege is checked first.
    let taken = port::take(1, || false, [one.owner()], &one.owner());
    assert_eq!(taken, Err(Refusal::Access));
    let taken = port::take(1, || true, [one.owner()], &one.owner());
    assert_eq!(taken, Err(Refusal::InUse));
}

#[test]
fn automatic_pairs() {
    let any = Id::at(v4(0, 0, 0, 0, 0));
    let one = Id::at(v4(10, 0, 0, 1, 0));
    let two = Id::at(v4(10, 0, 0, 2, 0));
    let to = |last, port| v4(10, 0, 1, last, port);
    for (old, new, wanted) in [
        (any.to(to(1, 7)), any.to(to(1, 8)), true),
        (any.to(to(1, 7)), any.to(to(1, 7)), false),
        (any.to(to(1, 7)), any.to(to(2, 7)), true),
        (any.to(to(1, 7)), any.to(to(2, 0)), true),
        (any.to(to(1, 7)), any.to(to(1, 0)), false),
        (any.to(to(1, 7)), any, false),
        (any, any, false),
        (one.to(to(1, 7)), two.to(to(1, 7)), true),
        (one.to(to(1, 7)), any.to(to(1, 7)), false),
    ] {
        let taken = port::share_automatic([old.owner()], &new.owner());
        assert_eq!(taken.is_ok(), wanted, "{old:?} {new:?}");
    }
}

#[test]
fn automatic_ports() {
    let range = Range {
        low: 100,
        high: 109,
    };
    for start in 90..120 {
        for last in (99..111).map(Some).chain([None]) {
            let mut tried = Vec::new();
            let none = port::automatic(range, start, last, |port| {
                tried.push(port);
                Err(Refusal::NotAvailable)
            });
            assert_eq!(none, Err(Refusal::NotAvailable));
            let first = start.clamp(100, 109);
            let all: Vec<u16> = (first..110).chain(100..first).collect();
            let wanted: Vec<u16> = all.into_iter().filter(|p| Some(*p) != last).collect();
            assert_eq!(tried, wanted);
        }
    }
    let mut tries = 0;
    let got = port::automatic(range, 105, None, |port| {
        tries += 1;
        if port == 103 {
            Ok(())
        } else {
            Err(Refusal::NotAvailable)
        }
    });
    assert_eq!((got, tries), (Ok(103), 9));
    let got = port::automatic(range, 105, None, |_| Err(Refusal::NoMemory));
    assert_eq!(got, Err(Refusal::NoMemory));
    // The whole space, and the last port of it.
    let all = Range {
        low: 0,
        high: u16::MAX,
    };
    assert_eq!(port::automatic(all, u16::MAX, None, |_| Ok(())), Ok(65535));
    assert_eq!(
        port::automatic(all, u16::MAX, Some(u16::MAX), |_| Ok(())),
        Ok(0)
    );
}

/// Any ID on a port with few addresses.
fn any_id(rng: &mut Rng) -> Id {
    let source = rng.pick(&[
        v4(0, 0, 0, 0, 5),
        v4(10, 0, 0, 1, 5),
        v4(10, 0, 0, 2, 5),
        v6("::", 5),
        v6("fd00::1", 5),
        scoped("fe80::1", 5, 1),
        scoped("fe80::1", 5, 2),
        v6("::1", 5),
    ]);
    Id {
        source,
        destination: rng.pick(&[v4(0, 0, 0, 0, 0), v4(10, 0, 0, 9, 1), v4(10, 0, 0, 8, 1)]),
        reuse: rng.one_in(2),
        afonly: rng.one_in(2) || matches!(source, Address::V4(_)),
    }
}

/// IDs take a port, listen and leave. Listeners are never in doubt: of two, one is of another
/// address, or both keep to different families.
#[test]
fn listeners_are_never_in_doubt() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut owners: Vec<(Id, bool)> = Vec::new();
        for _ in 0..30 {
            match rng.below(4) {
                0 | 1 => {
                    let id = any_id(&mut rng);
                    let others = owners.iter().rev().map(|(id, _)| id.owner());
                    if port::take(5, || true, others, &id.owner()).is_ok() {
                        owners.push((id, false));
                    }
                }
                2 if !owners.is_empty() => {
                    let at = rng.below(owners.len());
                    let id = owners[at].0;
                    let others = owners.iter().enumerate().rev();
                    let others = others
                        .filter(|(i, _)| *i != at)
                        .map(|(_, (id, _))| id.owner());
                    if port::share(others, &id.owner(), false).is_ok() {
                        owners[at].0.reuse = false;
                        owners[at].1 = true;
                    }
                }
                3 if !owners.is_empty() => {
                    let at = rng.below(owners.len());
                    let _: (Id, bool) = owners.swap_remove(at);
                }
                _ => {}
            }
            for (i, (a, listens)) in owners.iter().enumerate() {
                for (b, others) in &owners[i + 1..] {
                    if !*listens || !*others {
                        continue;
                    }
                    let families = a.source.family() != b.source.family();
                    let apart = a.afonly && b.afonly && families;
                    let hosts = !a.source.is_any()
                        && !b.source.is_any()
                        && !a.source.is_same_host(&b.source);
                    assert!(apart || hosts, "seed {seed}: {a:?} {b:?}");
                }
            }
        }
    }
}
