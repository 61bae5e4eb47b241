// SPDX-License-Identifier: GPL-2.0

//! `names`: boundaries by hand, and the search for an index against a set.

use rdma_core_engines::proto::errno::Errno;
use rdma_core_engines::proto::names::assign;
use rdma_core_engines::proto::names::moved;
use rdma_core_engines::proto::names::rename;
use rdma_core_engines::proto::names::Name;
use rdma_core_engines::proto::names::Naming;
use rdma_core_engines::proto::names::Occasion;
use rdma_core_engines::proto::names::Refusal;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeSet;

fn used(names: &[String]) -> impl Iterator<Item = &[u8]> + Clone {
    names.iter().map(|name| name.as_bytes())
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn assigned(wanted: &str, names: &[&str]) -> Result<String, Refusal> {
    assign(wanted.as_bytes(), used(&strings(names)))
        .map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap())
}

#[test]
fn legal_and_illegal() {
    for ok in ["rxe0", "a", "...", "mlx5_0", "x y", "\u{fc}"] {
        assert_eq!(assigned(ok, &[]).as_deref(), Ok(ok));
    }
    assert_eq!(assigned("", &[]), Err(Refusal::Empty));
    for bad in [".", "..", "a/b", "/", "a\0b"] {
        assert_eq!(assigned(bad, &[]), Err(Refusal::Illegal), "{bad:?}");
    }
    assert!(assigned(&"n".repeat(63), &[]).is_ok());
    assert_eq!(assigned(&"n".repeat(64), &[]), Err(Refusal::TooLong));
    // The pattern fits without its index, and not with it.
    assert!(assigned(&format!("{}%d", "n".repeat(62)), &[]).is_ok());
    assert_eq!(
        assigned(&format!("{}%d", "n".repeat(63)), &[]),
        Err(Refusal::TooLong)
    );
    let name = Name::new(b"rxe0").unwrap();
    assert_eq!(&name.as_c_array()[..5], b"rxe0\0");
    assert_eq!(format!("{name:?}"), "rxe0");
}

#[test]
fn patterns() {
    assert_eq!(assigned("rxe%d", &[]).as_deref(), Ok("rxe0"));
    assert_eq!(assigned("rxe%d", &["rxe0", "rxe2"]).as_deref(), Ok("rxe1"));
    assert_eq!(assigned("%d", &["0"]).as_deref(), Ok("1"));
    assert_eq!(assigned("a%db", &["a0b", "a0", "0b"]).as_deref(), Ok("a1b"));
    // Names that look alike and are not the print of an index.
    let alike = ["r00", "r+0", "r 0", "r-0", "r0x", "r", "rr0", "r4294967296"];
    assert_eq!(assigned("r%d", &alike).as_deref(), Ok("r0"));
    for bad in ["%", "a%", "%%", "%x", "%dd%d", "%5d", "%d%", "%s"] {
        assert_eq!(assigned(bad, &[]), Err(Refusal::BadPattern), "{bad}");
    }
    // An index as great as an int's greatest is not taken for one.
    assert_eq!(assigned("r%d", &["r2147483647"]).as_deref(), Ok("r0"));
}

#[test]
fn collisions_and_their_numbers() {
    assert_eq!(assigned("rxe0", &["rxe0"]), Err(Refusal::InUse));
    assert_eq!(Refusal::InUse.errno(Occasion::Register), Errno::Enfile);
    assert_eq!(Refusal::InUse.errno(Occasion::Set), Errno::Eexist);
    assert_eq!(Errno::Enfile.to_ret(), -23);
    assert_eq!(Refusal::Empty.errno(Occasion::Set), Errno::Einval);
    assert_eq!(Refusal::NoIndex.errno(Occasion::Register), Errno::Enospc);

    let names = strings(&["rxe0", "rxe1"]);
    let mine = Name::new(b"rxe0").unwrap();
    assert_eq!(rename(&mine, b"rxe0", used(&names)), Ok(None));
    assert_eq!(rename(&mine, b"rxe1", used(&names)), Err(Refusal::InUse));
    // A percent sign is a byte like any other in a new name.
    assert_eq!(
        rename(&mine, b"rxe%d", used(&names)),
        Ok(Some(Name::new(b"rxe%d").unwrap()))
    );
}

fn name_there(
    mine: &str,
    index: u32,
    naming: Naming<'_>,
    there: &[&str],
) -> Result<String, Refusal> {
    let mine = Name::new(mine.as_bytes()).unwrap();
    moved(&mine, index, naming, used(&strings(there)))
        .map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap())
}

#[test]
fn names_in_another_namespace() {
    let there = ["rxe0", "ibdev3", "ibdev0"];
    let kept = |mine| name_there(mine, 3, Naming::Kept, &there);
    assert_eq!(kept("rxe1").as_deref(), Ok("rxe1"));
    assert_eq!(kept("rxe0"), Err(Refusal::InUse));

    let given = |mine, name: &str| name_there(mine, 3, Naming::Given(name.as_bytes()), &there);
    assert_eq!(given("rxe0", "new").as_deref(), Ok("new"));
    // It is not a pattern, and may be the device's own name.
    assert_eq!(given("rxe0", "rxe%d").as_deref(), Ok("rxe%d"));
    assert_eq!(given("rxe1", "rxe1").as_deref(), Ok("rxe1"));
    assert_eq!(given("rxe1", "rxe0"), Err(Refusal::InUse));
    assert_eq!(given("rxe1", "ibdev3"), Err(Refusal::InUse));
    for (bad, refusal) in [
        ("", Refusal::Empty),
        ("a/b", Refusal::Illegal),
        ("..", Refusal::Illegal),
    ] {
        assert_eq!(given("rxe1", bad), Err(refusal), "{bad:?}");
    }
    let long = "n".repeat(64);
    assert_eq!(given("rxe1", &long), Err(Refusal::TooLong));
    assert_eq!(Refusal::InUse.errno(Occasion::Set), Errno::Eexist);
}

#[test]
fn a_namespace_ends() {
    let any = |mine, index, there: &[&str]| name_there(mine, index, Naming::Any, there);
    assert_eq!(any("rxe1", 3, &["rxe0"]).as_deref(), Ok("rxe1"));
    assert_eq!(any("rxe0", 3, &["rxe0"]).as_deref(), Ok("ibdev3"));
    assert_eq!(any("rxe0", 3, &["rxe0", "ibdev3"]).as_deref(), Ok("ibdev0"));
    let taken = ["rxe0", "ibdev3", "ibdev0", "ibdev1", "ibdev02"];
    assert_eq!(any("rxe0", 3, &taken).as_deref(), Ok("ibdev2"));
    // A device that is called so already, and whose name another one has there.
    assert_eq!(any("ibdev3", 3, &["ibdev3"]).as_deref(), Ok("ibdev0"));
    assert_eq!(any("ibdev0", 3, &["ibdev0"]).as_deref(), Ok("ibdev3"));
    let most = i32::MAX as u32;
    assert_eq!(
        any("rxe0", most, &["rxe0"]).as_deref(),
        Ok("ibdev2147483647")
    );
    assert_eq!(
        any("rxe0", most, &["rxe0", "ibdev2147483647"]).as_deref(),
        Ok("ibdev0")
    );
}

#[test]
fn the_smallest_index_against_a_set() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let most = rng.pick(&[3, 40, 130, 300]);
        let taken: BTreeSet<usize> = (0..rng.below(2 * most)).map(|_| rng.below(most)).collect();
        let mut names: Vec<String> = taken.iter().map(|i| format!("d{i}x")).collect();
        for i in 0..rng.below(4) {
            names.push(format!("d0{i}x"));
        }
        let free = (0..).find(|i| !taken.contains(i)).unwrap();
        let name = assign(b"d%dx", used(&names)).unwrap();
        assert_eq!(
            name.as_bytes(),
            format!("d{free}x").as_bytes(),
            "seed {seed}"
        );
    }
    let full: Vec<String> = (0..1000).map(|i| format!("d{i}")).collect();
    assert_eq!(assign(b"d%d", used(&full)).unwrap().as_bytes(), b"d1000");
}
