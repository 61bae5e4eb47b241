// SPDX-License-Identifier: GPL-2.0

//! Network namespaces of devices; see section 7 of `core_locking.md`, and [`crate::proto::netns`]
//! for the visibility rules.

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::In;
use rdma::features::NAMES_PER_NETNS;
use rdma::net::pernet::BeforeDevices;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;
use rdma::sync::rcu;
use rdma::sync::StaticRwSem;

use super::errno;
use super::hooks::Core;
use super::hooks::Hooks;
use super::registry;
use super::sub;
use super::Device;
use super::Registered;
use crate::proto::names::Naming;
use crate::proto::netns;
use crate::proto::netns::Complaint;
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

/// List of namespaces except the initial one and those being removed. Its lock `Nets::list` also
/// guards the mode.
static NETS: StaticRwSem<KVec<Member>> = StaticRwSem::new(KVec::new());

/// Returns the sharing mode of devices. It changes only while there is no other namespace than the
/// initial one.
pub(crate) fn mode() -> Mode {
    if shared().load(Relaxed) == 0 {
        Mode::Exclusive
    } else {
        Mode::Shared
    }
}

/// Changes the sharing mode. May sleep.
///
/// # Errors
///
/// `EBUSY` if there is a namespace other than the initial one.
pub(crate) fn set_mode(to: Mode) -> Result {
    let nets = NETS.write().ok_or(ENODEV)?;
    let change = mode().change(to, !nets.is_empty());
    match change.map_err(|refused| errno(refused.errno()))? {
        ModeChange::None => {}
        ModeChange::To(mode) => shared().store(i8::from(mode == Mode::Shared), Relaxed),
    }
    Ok(())
}

/// Converts a namespace for the rules of `proto::netns`: the initial one, or one identified by its
/// address.
fn known(net: &Net) -> netns::Net {
    if *net == *Net::init() {
        netns::Net::INIT
    } else {
        netns::Net(net.as_raw() as u64)
    }
}

/// Converts the namespace of a device for the rules. Any context.
fn home_of(device: &Device) -> netns::Net {
    known(device.net(&rcu::read_lock()))
}

/// Returns whether tasks in `net` may use the device. Any context.
pub(crate) fn visible(device: &Device, net: &Net) -> bool {
    mode().sees(home_of(device), known(net))
}

/// Returns whether the caller has `CAP_NET_RAW` in the namespace that decides for this device.
pub(crate) fn has_raw_cap(device: &Device) -> bool {
    let at = match mode().raw_cap(home_of(device)) {
        netns::Net::INIT => None,
        // If the namespace is being removed, the device moves to the initial one.
        netns::Net(_) => device.net(&rcu::read_lock()).try_hold(),
    };
    let judge = at.as_deref().unwrap_or(Net::init());
    judge.capable(bindings::CAP_NET_RAW)
}

/// Returns the namespace for a new device that a task in `asker` creates.
pub(super) fn home(asker: &Net) -> &Net {
    if mode().home(known(asker)) == netns::Net::INIT {
        Net::init()
    } else {
        asker
    }
}

/// A namespace in which a device is to have a name.
#[derive(Clone, Copy)]
pub(super) struct Place(netns::Net);

impl Place {
    pub(super) fn of(net: &Net) -> Self {
        Self(known(net))
    }

    /// The namespace of a device. Any context.
    pub(super) fn home_of(device: &Device) -> Self {
        Self(home_of(device))
    }
}

/// Returns whether the name of `device` cannot be another device's in this namespace: because the
/// device is seen there, or because names are unique in the system. Any context.
pub(super) fn is_named_in(device: &Device, place: Place) -> bool {
    !NAMES_PER_NETNS || mode().sees(home_of(device), place.0)
}

/// Why a device is not moved, or not renamed where it is.
pub(crate) struct NotMoved {
    pub(crate) error: Error,
    pub(crate) complaint: Option<Complaint>,
}

impl NotMoved {
    fn of(error: Error, naming: Naming<'_>) -> Self {
        let named = matches!(naming, Naming::Given(_));
        Self {
            error,
            complaint: Complaint::of(error.to_errno(), named),
        }
    }
}

impl From<Error> for NotMoved {
    fn from(error: Error) -> Self {
        Self {
            error,
            complaint: None,
        }
    }
}

impl From<netns::Refusal> for NotMoved {
    fn from(refused: netns::Refusal) -> Self {
        Self {
            error: errno(refused.errno()),
            complaint: refused.complaint(),
        }
    }
}

/// Moves a device to the namespace of a file descriptor, for the sender of a netlink message. If it
/// is there already, on a kernel with [`NAMES_PER_NETNS`], it is renamed only. May sleep.
///
/// # Errors
///
/// Errors of an invalid file descriptor; `EPERM` if the sender does not administer that namespace;
/// `EOPNOTSUPP` if devices are shared, or the driver cannot disassociate user contexts; `EBUSY` if
/// the device has subdevices; `ENODEV` if the device is not or no longer in the caller's namespace;
/// `EINVAL` for an invalid name; `EEXIST` if the name is in use there.
pub(crate) fn move_to(
    device: Registered,
    file: u32,
    naming: Naming<'_>,
    administers: impl FnOnce(&Net) -> bool,
) -> Result<(), NotMoved> {
    // Numbers out of range are invalid file descriptors, too.
    let file = i32::try_from(file).unwrap_or(-1);
    let net = CountedNet::of_file(file).map_err(|error| NotMoved {
        error,
        complaint: Some(Complaint::BadFile),
    })?;
    let admin = administers(&net);
    let asker = CountedNet::current().ok_or(EINVAL)?;
    let ask = Move {
        device_in: home_of(&device),
        asker: known(&asker),
        admin_of_target: admin,
        is_there: NAMES_PER_NETNS && device.is_in(&net),
        can_disassociate: device.ops().disassociate_ucontext.is_some(),
        unregistering: false,
    };
    let done = if mode().judge_move(&ask)? {
        let kept = device.hold();
        drop(device);
        let closed = sub::close_empty(&kept).ok_or(EBUSY)?;
        Core::relocate(&kept, closed, &asker, &net, naming)
    } else if let Naming::Given(name) = naming {
        registry::rename(&device, name)
    } else {
        Ok(())
    };
    done.map_err(|error| NotMoved::of(error, naming))
}

/// Per-namespace data: the membership in the list.
pub(crate) struct NetState(Member);

rdma::static_slot!(impl for NetState: PernetSlot);

impl PernetData for NetState {
    type Dropped = BeforeDevices;

    fn new(net: &NewNet) -> impl PinInit<Self, Error> {
        join(net).map(Self)
    }
}

impl Drop for NetState {
    fn drop(&mut self) {
        leave(self.0.net());
    }
}

/// Adds a new namespace, and returns it. May sleep.
fn join(new: &NewNet) -> Result<Member> {
    let member = Member::of(new);
    let net = member.net();
    if *net == *Net::init() {
        return Ok(member);
    }
    let entry = Member::of(new);
    NETS.write().ok_or(ENODEV)?.push(entry, GFP_KERNEL)?;
    let added = registry::hold().ok_or(ENODEV).and_then(|devices| {
        let _mode = NETS.read();
        let mut all = devices.registered();
        all.try_for_each(|device| match add_copy(device, net) {
            // The device's network device is gone and so it is about to be unregistered. This must
            // not fail the creation of the namespace.
            Err(error) if error == ENODEV => Ok(()),
            // The driver model could not rename a device that came from a namespace that ended.
            Err(error) if error == EEXIST => {
                pr_warn!(
                    "{}: a new namespace has another device of that name\n",
                    device.name()
                );
                Ok(())
            }
            done => done,
        })
    });
    if added.is_err() {
        leave(net);
    }
    added.map(|()| member)
}

/// Removes a namespace. May sleep.
fn leave(net: &Net) {
    if *net == *Net::init() {
        return;
    }
    // From here on, no copy is created in it.
    if let Some(mut nets) = NETS.write() {
        rdma::kvec::retain(&mut nets, |other| *other.net() != *net);
    }
    let mut index = 0;
    let mut moved = false;
    while let Some(device) = registry::next_named_from(index) {
        index = device.index().saturating_add(1);
        remove_copy(&device, net);
        // Most devices are elsewhere. Do not wait for what is done to them.
        if device.is_in(net) {
            moved = true;
            let closed = sub::close(&device);
            // This checks under the device's lock whether it still is in this namespace.
            let _: Result = Core::relocate(&device, closed, net, Net::init(), Naming::Any);
        }
    }
    if moved {
        // RCU readers may have found the namespace through a device.
        rcu::synchronize();
    }
}

/// Registration of the per-namespace data. Dropped in order of the fields.
pub(super) struct Subsystem {
    _nets: Pernet<NetState>,
    _list: List,
}

/// Frees the list of namespaces, which has no users any more when this is dropped.
struct List;

impl Subsystem {
    /// Registers the per-namespace data. Must be called only once. May sleep.
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
        // Statics are not dropped, so free the memory here.
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
    /// Returns whether tasks in `net` may use the device. Any context.
    fn rdma_dev_access_netns(device: In<'_, Device>, net: In<'_, Net>) -> bool = access;
    /// Returns whether the current task may use raw packets on the device.
    fn rdma_dev_has_raw_cap(device: In<'_, Device>) -> bool = raw_cap;
}
