// SPDX-License-Identifier: GPL-2.0

//! `netns`: the judgements, and histories of namespaces and devices in which the
//! copies are kept up step by step.

use rdma_core_engines::proto::errno::Errno;
use rdma_core_engines::proto::netns::after_exit;
use rdma_core_engines::proto::netns::Complaint;
use rdma_core_engines::proto::netns::Mode;
use rdma_core_engines::proto::netns::ModeChange;
use rdma_core_engines::proto::netns::Move;
use rdma_core_engines::proto::netns::Net;
use rdma_core_engines::proto::netns::Refusal;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[test]
fn modes() {
    assert_eq!(Mode::from_raw(0), Ok(Mode::Exclusive));
    assert_eq!(Mode::from_raw(1), Ok(Mode::Shared));
    assert_eq!(Mode::from_raw(2), Err(Refusal::NoSuchMode));
    assert_eq!(
        Mode::Shared.change(Mode::Shared, true),
        Ok(ModeChange::None)
    );
    assert_eq!(
        Mode::Shared.change(Mode::Exclusive, true),
        Err(Refusal::OtherNamespaces)
    );
    assert_eq!(
        Mode::Shared.change(Mode::Exclusive, false),
        Ok(ModeChange::To(Mode::Exclusive))
    );
    assert_eq!(Mode::Exclusive.raw_cap(Net(3)), Net(3));
    assert_eq!(Mode::Shared.raw_cap(Net(3)), Net::INIT);
    // The mode has become shared while this one's namespace is being removed.
    assert!(!Mode::Shared.has_copy(Net(3), Net(4)));
    assert!(Mode::Shared.has_copy(Net::INIT, Net(4)));
}

#[test]
fn moves_and_their_numbers() {
    let fine = Move {
        device_in: Net(1),
        asker: Net(1),
        admin_of_target: true,
        is_there: false,
        can_disassociate: true,
        unregistering: false,
    };
    let number = |mode: Mode, ask: Move| mode.judge_move(&ask).map_err(Refusal::errno);
    assert_eq!(number(Mode::Exclusive, fine), Ok(true));
    assert_eq!(number(Mode::Shared, fine), Err(Errno::Eopnotsupp));
    let stranger = Move {
        admin_of_target: false,
        ..fine
    };
    assert_eq!(number(Mode::Shared, stranger), Err(Errno::Eperm));
    // In its own namespace a device stays as it is, whatever the mode.
    let there = Move {
        is_there: true,
        can_disassociate: false,
        ..fine
    };
    assert_eq!(number(Mode::Shared, there), Ok(false));
    assert_eq!(number(Mode::Exclusive, there), Ok(false));
    let strange_and_there = Move {
        admin_of_target: false,
        ..there
    };
    assert_eq!(
        number(Mode::Exclusive, strange_and_there),
        Err(Errno::Eperm)
    );
    let stuck = Move {
        can_disassociate: false,
        ..fine
    };
    assert_eq!(number(Mode::Exclusive, stuck), Err(Errno::Eopnotsupp));
    for gone in [
        Move {
            unregistering: true,
            ..fine
        },
        Move {
            device_in: Net(2),
            ..fine
        },
    ] {
        assert_eq!(number(Mode::Exclusive, gone), Err(Errno::Enodev));
    }
}

#[test]
fn moves_and_their_words() {
    let fine = Move {
        device_in: Net(1),
        asker: Net(1),
        admin_of_target: true,
        is_there: false,
        can_disassociate: true,
        unregistering: false,
    };
    let told = |mode: Mode, ask: Move| {
        let refusal = mode.judge_move(&ask).unwrap_err();
        refusal.complaint()
    };
    let stuck = Move {
        can_disassociate: false,
        ..fine
    };
    let stranger = Move {
        admin_of_target: false,
        ..stuck
    };
    let gone = Move {
        device_in: Net(2),
        ..fine
    };
    assert_eq!(told(Mode::Shared, stranger), Some(Complaint::NotAllowed));
    // Of two reasons with the same number, the mode is told.
    assert_eq!(told(Mode::Shared, stuck), Some(Complaint::SharedDevices));
    assert_eq!(
        told(Mode::Exclusive, stuck),
        Some(Complaint::CannotDisassociate)
    );
    assert_eq!(told(Mode::Exclusive, gone), None);
    for refusal in [Refusal::NoSuchMode, Refusal::OtherNamespaces] {
        assert_eq!(refusal.complaint(), None);
    }

    assert_eq!(Complaint::of(-17, false), Some(Complaint::NameInUse));
    assert_eq!(Complaint::of(-17, true), Some(Complaint::NameInUse));
    assert_eq!(Complaint::of(-22, true), Some(Complaint::BadName));
    assert_eq!(Complaint::of(-22, false), None);
    assert_eq!(Complaint::of(-19, true), None);

    // Those of `ib_device_set_netns_put`, each in full.
    let words = [
        (Complaint::BadFile, "Invalid target net namespace fd"),
        (
            Complaint::NotAllowed,
            "Missing CAP_NET_ADMIN in the target net namespace",
        ),
        (
            Complaint::SharedDevices,
            "Cannot change net namespace of RDMA device in shared netns mode",
        ),
        (
            Complaint::CannotDisassociate,
            "Device does not support namespace changes (no disassociate support)",
        ),
        (
            Complaint::NameInUse,
            "Device name already exists in the target net namespace",
        ),
        (
            Complaint::BadName,
            "Unable to use requested device name in the target net namespace",
        ),
    ];
    for (complaint, expected) in words {
        assert_eq!(complaint.words().to_str(), Ok(expected));
    }
}

/// A machine that keeps its copies up to date as it goes.
#[derive(Default)]
struct Machine {
    mode: Mode,
    nets: BTreeSet<Net>,
    devices: BTreeMap<u32, Net>,
    copies: BTreeSet<(u32, Net)>,
}

impl Machine {
    fn wanted(&self) -> BTreeSet<(u32, Net)> {
        let mut all = BTreeSet::new();
        for (device, at) in &self.devices {
            for net in &self.nets {
                if self.mode.has_copy(*at, *net) {
                    all.insert((*device, *net));
                }
            }
        }
        all
    }

    fn step(&mut self, rng: &mut Rng) {
        let nets: Vec<Net> = self.nets.iter().copied().collect();
        match rng.below(6) {
            0 => {
                let net = Net(1 + rng.below(6) as u64);
                self.nets.insert(net);
                let devices = self
                    .devices
                    .iter()
                    .filter(|(_, at)| self.mode.has_copy(**at, net));
                self.copies.extend(devices.map(|(d, _)| (*d, net)));
            }
            1 | 2 if nets.len() > 1 => {
                let net = rng.pick(&nets);
                if net != Net::INIT {
                    self.nets.remove(&net);
                    self.copies.retain(|(_, at)| *at != net);
                    for at in self.devices.values_mut() {
                        *at = after_exit(*at, net);
                    }
                }
            }
            3 => {
                let id = rng.below(8) as u32;
                let home = self.mode.home(rng.pick(&nets));
                if self.devices.remove(&id).is_some() {
                    self.copies.retain(|(d, _)| *d != id);
                } else {
                    self.devices.insert(id, home);
                    let nets = nets.iter().filter(|net| self.mode.has_copy(home, **net));
                    self.copies.extend(nets.map(|net| (id, *net)));
                }
            }
            4 => {
                let to = rng.pick(&[Mode::Shared, Mode::Exclusive]);
                match self.mode.change(to, self.nets.len() > 1) {
                    Ok(ModeChange::To(mode)) => self.mode = mode,
                    Ok(ModeChange::None) => assert_eq!(self.mode, to),
                    Err(why) => {
                        assert_eq!(why.errno(), Errno::Ebusy);
                        assert!(self.nets.len() > 1);
                    }
                }
            }
            _ => {
                let (asker, target) = (rng.pick(&nets), rng.pick(&nets));
                let mode = self.mode;
                for at in self.devices.values_mut() {
                    let ask = Move {
                        device_in: *at,
                        asker,
                        admin_of_target: true,
                        is_there: false,
                        can_disassociate: true,
                        unregistering: false,
                    };
                    if mode.judge_move(&ask) == Ok(true) {
                        assert!(mode.sees(*at, asker));
                        *at = target;
                    }
                }
            }
        }
    }
}

#[test]
fn copies_follow_every_history() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut machine = Machine::default();
        machine.nets.insert(Net::INIT);
        for step in 0..80 {
            machine.step(&mut rng);
            assert_eq!(machine.copies, machine.wanted(), "seed {seed}, step {step}");
            for at in machine.devices.values() {
                assert!(machine.nets.contains(at), "a device in no namespace");
                for net in &machine.nets {
                    // A library in a namespace finds what it may use, and only that:
                    // the device itself or its copy.
                    let found = at == net || machine.mode.has_copy(*at, *net);
                    let init_of_shared = machine.mode == Mode::Shared && *at == Net::INIT;
                    assert_eq!(found, machine.mode.sees(*at, *net));
                    assert!(machine.mode == Mode::Exclusive || init_of_shared);
                }
            }
        }
    }
}
