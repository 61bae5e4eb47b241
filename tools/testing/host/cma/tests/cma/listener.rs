// SPDX-License-Identifier: GPL-2.0

//! Which listener gets a request.

use crate::ib;
use crate::scoped;
use crate::v4;
use crate::v6;
use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::header::Header;
use rdma_cma_engines::proto::listener;
use rdma_cma_engines::proto::listener::Owner;
use rdma_cma_engines::proto::listener::Place;
use rdma_cma_engines::proto::listener::Request;
use rdma_cma_engines::proto::listener::Via;
use rdma_cma_engines::rng::Rng;

type Where = Place<u32, u32>;

#[derive(Clone, Debug)]
struct Listener {
    source: Address,
    afonly: bool,
    places: Vec<(Where, u32)>,
}

impl Owner<u32, u32> for &Listener {
    type Id = u32;

    fn source(&self) -> &Address {
        &self.source
    }

    fn afonly(&self) -> bool {
        self.afonly
    }

    fn places(&self) -> impl Iterator<Item = (Where, u32)> {
        self.places.iter().copied()
    }
}

const fn place(device: u32, port: u32, ifindex: u32) -> Where {
    Place {
        device,
        port,
        net: 1,
        ifindex,
    }
}

fn listener(source: Address, afonly: bool, places: &[(Where, u32)]) -> Listener {
    Listener {
        source,
        afonly,
        places: places.to_vec(),
    }
}

fn to(destination: Address, ifindex: u32) -> Via<u32> {
    let source = match destination {
        Address::V4(_) => v4(10, 9, 9, 9, 1),
        Address::V6(_) | Address::Ib(_) => v6("fd00::99", 1),
    };
    Via::Ip {
        header: Header::of(&source, &destination).unwrap(),
        net: 1,
        ifindex,
    }
}

#[test]
fn addressed() {
    let (one, two) = (v4(10, 0, 0, 1, 5), v4(10, 0, 0, 2, 5));
    let six = v6("fd00::1", 5);
    let any = v4(0, 0, 0, 0, 5);
    let any6 = v6("::", 5);
    let ib_id = ib(2, 5, 5);
    for (source, afonly, via, wanted) in [
        (one, true, to(one, 1), true),
        (one, true, to(two, 1), false),
        (one, true, to(six, 1), false),
        (one, true, Via::Ib, false),
        (six, false, to(six, 1), true),
        (six, false, to(one, 1), false),
        (any, true, to(one, 1), true),
        (any, true, to(six, 1), false),
        (any, true, Via::Ib, false),
        (any, false, to(six, 1), true),
        (any6, false, to(one, 1), true),
        (any6, true, to(one, 1), false),
        (any6, true, to(six, 1), true),
        (v4(127, 0, 0, 1, 5), true, to(one, 1), true),
        (ib_id, true, to(one, 1), true),
        (ib_id, true, Via::Ib, true),
    ] {
        assert_eq!(
            listener::is_addressed(&source, afonly, &via),
            wanted,
            "{source:?} {afonly} {via:?}"
        );
    }
}

#[test]
fn reached() {
    let request = |via| Request {
        device: 1,
        port: 2,
        via,
    };
    let ib_id = ib(2, 5, 5);
    let plain = v6("fd00::1", 5);
    let link = scoped("fe80::1", 5, 0);
    for (at, source, via, wanted) in [
        (place(1, 2, 0), plain, to(plain, 7), true),
        (place(2, 2, 0), plain, to(plain, 7), false),
        // Port and interface do not matter for other than link-local addresses.
        (place(1, 1, 8), plain, to(plain, 7), true),
        (place(1, 2, 0), link, to(link, 7), true),
        (place(1, 2, 7), link, to(link, 7), true),
        (place(1, 2, 8), link, to(link, 7), false),
        (place(1, 0, 0), ib_id, Via::Ib, true),
        (place(1, 2, 0), ib_id, Via::Ib, true),
        (place(1, 1, 0), ib_id, Via::Ib, false),
        (place(1, 2, 0), plain, Via::Ib, false),
        (place(3, 2, 0), ib_id, Via::Ib, false),
    ] {
        assert_eq!(
            listener::is_reached(&at, &source, &request(via)),
            wanted,
            "{at:?} {source:?} {via:?}"
        );
    }
    let foreign = Place {
        net: 2,
        ..place(1, 2, 0)
    };
    assert!(!listener::is_reached(
        &foreign,
        &link,
        &request(to(link, 7))
    ));
    assert!(listener::is_reached(
        &foreign,
        &plain,
        &request(to(plain, 7))
    ));
}

#[test]
fn internal_ids() {
    let any = listener(
        v4(0, 0, 0, 0, 5),
        true,
        &[(place(1, 0, 0), 11), (place(2, 0, 0), 12)],
    );
    let bound = listener(v4(10, 0, 0, 1, 5), true, &[(place(2, 1, 0), 20)]);
    let ask = |device, last| {
        let request = Request {
            device,
            port: 1,
            via: to(v4(10, 0, 0, last, 5), 1),
        };
        listener::choose([&bound, &any], &request)
    };
    assert_eq!(ask(1, 1), Some(11));
    assert_eq!(ask(2, 1), Some(20));
    assert_eq!(ask(2, 2), Some(12));
    assert_eq!(ask(3, 1), None);
}

/// The choice is the first owner that fits, and none only if none fits.
#[test]
fn any_owners() {
    let addrs = [
        v4(0, 0, 0, 0, 5),
        v4(10, 0, 0, 1, 5),
        v4(10, 0, 0, 2, 5),
        v6("::", 5),
        v6("fd00::1", 5),
        v6("fe80::1", 5),
        ib(2, 5, 5),
    ];
    let (mut found, mut none) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let owners: Vec<Listener> = (0..rng.below(5))
            .map(|owner| {
                let places: Vec<(Where, u32)> = (0..rng.below(4))
                    .map(|at| {
                        let at = at as u32;
                        let ifindex = rng.below(3) as u32;
                        (
                            place(at, rng.below(3) as u32, ifindex),
                            owner as u32 * 10 + at,
                        )
                    })
                    .collect();
                listener(rng.pick(&addrs), rng.one_in(2), &places)
            })
            .collect();
        let via = match rng.below(5) {
            0 => Via::Ib,
            _ => to(rng.pick(&addrs[..6]), rng.below(3) as u32),
        };
        let request = Request {
            device: rng.below(4) as u32,
            port: rng.below(2) as u32 + 1,
            via,
        };
        let mut all = Vec::new();
        for owner in &owners {
            for (place, id) in &owner.places {
                if listener::is_addressed(&owner.source, owner.afonly, &request.via)
                    && listener::is_reached(place, &owner.source, &request)
                {
                    all.push(*id);
                }
            }
        }
        let chosen = listener::choose(&owners, &request);
        assert_eq!(chosen, all.first().copied(), "seed {seed}");
        if chosen.is_some() {
            found += 1;
        } else {
            none += 1;
        }
    }
    assert!(found > 1000 && none > 1000);
}
