// SPDX-License-Identifier: GPL-2.0

//! Devices and network namespaces; see section 7 of `core_locking.md`, and
//! [`crate::proto::netns`] for who sees what.

use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::In;
use rdma::net::pernet::BeforeDevices;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::sync::rcu;
use rdma::sync::RwSem;

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

pub(crate) use self::copies::add_copies;
use self::copies::add_copy;
pub(crate) use self::copies::remove_copies;
use self::copies::remove_copy;
pub(super) use self::copies::rename_copies;
pub(super) use self::copies::warn_of_copies;
pub(super) use self::copies::Copies;

/// The lock `Nets::list`: the namespaces other than the first, but for those that are
/// going. Also keeps the mode still.
// SAFETY: `Subsystem::new` makes it usable before there is a namespace.
static NETS: RwSem<KVec<Member>> = unsafe { RwSem::uninit(KVec::new()) };

/// A namespace in the list. It takes itself out before it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member(NonNull<bindings::net>);

// SAFETY: Namespaces are used from any thread.
unsafe impl Send for Member {}
// SAFETY: As above.
unsafe impl Sync for Member {}

impl Member {
    fn of(net: &Net) -> Self {
        // SAFETY: A reference is not null.
        Self(unsafe { NonNull::new_unchecked(net.as_raw()) })
    }

    fn net(&self) -> &Net {
        // SAFETY: Members are in the list, whose lock is held, or their namespace is going
        // and waits for who uses it.
        unsafe { Net::from_raw(self.0.as_ptr()) }
    }
}

/// The mode, as the module's parameter `netns_mode` shows it.
fn shared() -> &'static Atomic<i8> {
    // SAFETY: A variable of `exports.c` of one byte, 0 or 1, changed by `set_mode` only.
    unsafe { Atomic::from_ptr((&raw mut bindings::rdma_netns_shared).cast()) }
}

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
    let nets = NETS.write();
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
    // CAST: A small number.
    let cap = bindings::CAP_NET_RAW as kernel::ffi::c_int;
    // SAFETY: The namespace is counted.
    unsafe { bindings::rdma_helper_net_capable(judge.as_raw(), cap) }
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
    // SAFETY: It takes any number.
    let net = from_err_ptr(unsafe { bindings::rdma_helper_net_by_fd(file) })?;
    let net = NonNull::new(net).ok_or(EINVAL)?;
    // SAFETY: The namespace was counted for us.
    let net: ARef<CountedNet> = unsafe { ARef::from_raw(net.cast()) };
    let admin = administers(&net);
    // SAFETY: The namespace of the current task stays while the task has it.
    let asker = unsafe { CountedNet::from_raw(bindings::rdma_helper_current_net()) };
    let ask = Move {
        device_in: home_of(&device),
        asker: known(asker),
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
    Core::relocate(&kept, asker, &net)
}

/// A namespace that devices know of.
pub(crate) struct NetState(Member);

rdma::impl_pernet_slot!(impl for NetState);

impl PernetData for NetState {
    type Dropped = BeforeDevices;

    fn new(net: &Net) -> impl PinInit<Self, Error> {
        let member = Member::of(net);
        let joined = join(member);
        // SAFETY: The slot is written only if the namespace is in the list.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                joined?;
                slot.write(Self(member));
                Ok(())
            })
        }
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
    NETS.write().push(net, GFP_KERNEL)?;
    let added = {
        let devices = registry::hold();
        let _mode = NETS.read();
        let mut all = devices.registered();
        all.try_for_each(|device| match add_copy(device, net) {
            // It is about to be unregistered, since its network device has gone; which is
            // no reason for there to be no namespace.
            Err(error) if error == ENODEV => Ok(()),
            done => done,
        })
    };
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
    NETS.write().retain(|other| *other != net);
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
        // SAFETY: The module does this once, before there is a device or a namespace.
        unsafe { NETS.init(c"Nets::list", kernel::static_lock_class!()) };
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
        *NETS.write() = KVec::new();
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
