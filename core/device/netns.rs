// SPDX-License-Identifier: GPL-2.0

//! Devices and network namespaces; see section 7 of `core_locking.md`, and
//! [`crate::proto::netns`] for who sees what.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::In;
use rdma::net::pernet::BeforeDevices;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::sync::rcu;
use rdma::sync::StaticRwSem;

use super::errno;
use super::hooks::Core;
use super::hooks::Hooks;
use super::registry;
use super::sub;
use super::Device;
use super::Registered;
use crate::proto::names;
use crate::proto::netns;
pub(crate) use crate::proto::netns::Mode;
use crate::proto::netns::ModeChange;
use crate::proto::netns::Move;

mod copies;
mod edge;

pub(crate) use self::copies::add_copies;
use self::copies::add_copy;
pub(crate) use self::copies::remove_copies;
use self::copies::remove_copy;
pub(super) use self::copies::rename_copies;
pub(super) use self::copies::warn_of_copies;
pub(super) use self::copies::Copies;
use self::edge::shared;
use self::edge::Member;

/// The lock `Nets::list`: the namespaces other than the first, but for those that are
/// going. Also keeps the mode still.
static NETS: StaticRwSem<KVec<Member>> = StaticRwSem::new(KVec::new());

/// How devices are shared. It changes only while there is one namespace.
pub(crate) fn mode() -> Mode {
    if shared().load(Relaxed) == 0 {
        Mode::Exclusive
    } else {
        Mode::Shared
    }
}

/// Changes how devices are shared. May sleep.
///
/// # Errors
///
/// `EBUSY` if there is another namespace than the first.
pub(crate) fn set_mode(to: Mode) -> Result {
    let nets = NETS.write().ok_or(ENODEV)?;
    let change = mode().change(to, !nets.is_empty());
    match change.map_err(|refused| errno(refused.errno()))? {
        ModeChange::None => {}
        ModeChange::To(mode) => shared().store(i8::from(mode == Mode::Shared), Relaxed),
    }
    Ok(())
}

/// As the rules know a namespace: the first, or another by its address.
fn known(net: &Net) -> netns::Net {
    if *net == *Net::init() {
        netns::Net::INIT
    } else {
        netns::Net(net.as_raw() as u64)
    }
}

/// As the rules know the namespace that a device is in. Any context.
fn home_of(device: &Device) -> netns::Net {
    known(device.net(&rcu::read_lock()))
}

/// Whether somebody in `net` may use the device. Any context.
pub(crate) fn visible(device: &Device, net: &Net) -> bool {
    mode().sees(home_of(device), known(net))
}

/// Whether the device's owner gives the caller raw packets.
pub(crate) fn has_raw_cap(device: &Device) -> bool {
    let at = match mode().raw_cap(home_of(device)) {
        netns::Net::INIT => None,
        // If it goes, the device is going to be in the first one.
        netns::Net(_) => device.net(&rcu::read_lock()).try_hold(),
    };
    let judge = at.as_deref().unwrap_or(Net::init());
    judge.capable(bindings::CAP_NET_RAW)
}

/// The namespace that a new device is in, made by somebody in `asker`.
pub(super) fn home(asker: &Net) -> &Net {
    if mode().home(known(asker)) == netns::Net::INIT {
        Net::init()
    } else {
        asker
    }
}

/// Changes the namespace of a disabled device, in the driver model too. May sleep.
///
/// # Errors
///
/// Those of `device_rename`; the device then stays in `from`.
pub(crate) fn change(device: &Device, from: &Net, to: &CountedNet) -> Result {
    device.model().set_net(to);
    let _still = registry::hold();
    let name = device.name();
    // A rename to its own name: the driver model finds that the namespace has changed.
    names::Name::new(name.as_bytes())
        .map_err(|_| EINVAL)
        .and_then(|name| device.model().rename(&name))
        .inspect_err(|_| {
            // Not back to a namespace that goes, which looks for its devices once.
            if let Some(from) = from.try_hold() {
                device.model().set_net(&from);
            }
        })
}

/// Moves a device to the namespace of a file, for the sender of a netlink message. May
/// sleep.
///
/// # Errors
///
/// Those of a wrong file; `EPERM` if the sender does not administer that namespace;
/// `EOPNOTSUPP` if devices are shared, or its driver cannot take it from its users;
/// `EBUSY` if there are devices under it;
/// `ENODEV` if the device is not in the caller's namespace (any more).
pub(crate) fn move_to(
    device: Registered,
    file: u32,
    administers: impl FnOnce(&Net) -> bool,
) -> Result {
    // A number that is none is no file's either.
    let file = i32::try_from(file).unwrap_or(-1);
    let net = CountedNet::of_file(file)?;
    let admin = administers(&net);
    let asker = CountedNet::current();
    let ask = Move {
        device_in: home_of(&device),
        asker: known(&asker),
        admin_of_target: admin,
        can_disassociate: device.ops().disassociate_ucontext.is_some(),
        unregistering: false,
    };
    mode()
        .judge_move(&ask)
        .map_err(|refused| errno(refused.errno()))?;
    // They would go with the move.
    if sub::any(&device) {
        return Err(EBUSY);
    }
    let kept = device.hold();
    drop(device);
    Core::relocate(&kept, &asker, &net)
}

/// A namespace that devices know of.
pub(crate) struct NetState(Member);

rdma::impl_pernet_slot!(impl for NetState);

impl PernetData for NetState {
    type Dropped = BeforeDevices;

    fn new(net: &Net) -> impl PinInit<Self, Error> {
        let member = Member::of(net);
        join(member).map(|()| Self(member))
    }
}

impl Drop for NetState {
    fn drop(&mut self) {
        leave(self.0);
    }
}

/// A namespace comes. May sleep.
fn join(net: Member) -> Result {
    if *net.net() == *Net::init() {
        return Ok(());
    }
    NETS.write().ok_or(ENODEV)?.push(net, GFP_KERNEL)?;
    let added = registry::hold().ok_or(ENODEV).and_then(|devices| {
        let _mode = NETS.read();
        let mut all = devices.registered();
        all.try_for_each(|device| match add_copy(device, net) {
            // It is about to be unregistered, since its network device has gone; which is
            // no reason for there to be no namespace.
            Err(error) if error == ENODEV => Ok(()),
            done => done,
        })
    });
    if added.is_err() {
        leave(net);
    }
    added
}

/// A namespace goes. May sleep.
fn leave(net: Member) {
    if *net.net() == *Net::init() {
        return;
    }
    // So that nobody makes a copy in it any more.
    if let Some(mut nets) = NETS.write() {
        rdma::kvec::retain(&mut nets, |other| *other != net);
    }
    let mut index = 0;
    let mut moved = false;
    while let Some(device) = registry::next_named_from(index) {
        index = device.index().saturating_add(1);
        remove_copy(&device, net);
        moved |= device.is_in(net.net());
        // Whether it was in this one is looked at under the device's lock.
        let _: Result = Core::relocate(&device, net.net(), Net::init());
    }
    if moved {
        // Whoever has found the namespace by a device may use it until the end of its section.
        rcu::synchronize();
    }
}

/// What each namespace has, registered. Dropped in this order.
pub(super) struct Subsystem {
    _nets: Pernet<NetState>,
    _list: List,
}

/// The list of namespaces, which nobody uses any more when this is dropped.
struct List;

impl Subsystem {
    /// Once. May sleep.
    pub(super) fn new() -> Result<Self> {
        NETS.init(c"Nets::list", kernel::static_lock_class!());
        let nets = Pernet::register(rdma::resident!())?;
        Ok(Self {
            _nets: nets,
            _list: List,
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // A static is not dropped.
        if let Some(mut nets) = NETS.write() {
            *nets = KVec::new();
        }
    }
}

fn access(device: In<'_, Device>, net: In<'_, Net>) -> bool {
    visible(&device, &net)
}

fn raw_cap(device: In<'_, Device>) -> bool {
    has_raw_cap(&device)
}

rdma::export! { in rdma::bindings;
    /// Whether somebody in `net` may use the device. Any context.
    fn rdma_dev_access_netns(device: In<'_, Device>, net: In<'_, Net>) -> bool = access;
    /// Whether the running task may use raw packets on the device.
    fn rdma_dev_has_raw_cap(device: In<'_, Device>) -> bool = raw_cap;
}
