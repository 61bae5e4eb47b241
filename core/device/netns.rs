// SPDX-License-Identifier: GPL-2.0

//! Devices and network namespaces; see section 7 of `core_locking.md`, and
//! [`crate::proto::netns`] for who sees what.

use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::warn_on;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;
use rdma::sync::RwSem;

use super::alloc;
use super::errno;
use super::register;
use super::registry;
use super::sub;
use super::Device;
use super::Registered;
use crate::proto::names;
use crate::proto::netns;
pub(crate) use crate::proto::netns::Mode;
use crate::proto::netns::ModeChange;
use crate::proto::netns::Move;
use crate::sysfs;

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

/// Whether somebody in `net` may use the device. Any context.
pub(crate) fn visible(device: &Device, net: &Net) -> bool {
    mode().sees(known(device.net()), known(net))
}

/// Whether the device's owner gives the caller raw packets.
fn has_raw_cap(device: &Device) -> bool {
    let at = device.net();
    let judge = if mode().raw_cap(known(at)) == netns::Net::INIT {
        Net::init()
    } else {
        at
    };
    // CAST: A small number.
    let cap = bindings::CAP_NET_RAW as kernel::ffi::c_int;
    // SAFETY: The namespace is there: the device is in it.
    unsafe { bindings::rdma_helper_net_capable(judge.as_raw(), cap) }
}

/// The namespace that a new device is in, made by somebody in `asker`.
///
/// # Safety
///
/// `asker` is a namespace.
pub(super) unsafe fn home(asker: *mut bindings::net) -> *mut bindings::net {
    // SAFETY: By this function's duty.
    let asker = unsafe { Net::from_raw(asker) };
    if mode().home(known(asker)) == netns::Net::INIT {
        Net::init().as_raw()
    } else {
        asker.as_raw()
    }
}

/// The copy of a device in the sysfs of a namespace.
#[repr(C)]
struct Copy {
    /// First: the driver model gives it back in [`release`].
    core: bindings::ib_core_device,
    /// The device's groups, without hardware counters, which the first namespace only sees.
    groups: [*const bindings::attribute_group; 4],
}

/// A device's copies; in `State::namesakes`.
pub(super) struct Copies(KVec<Placed>);

/// A copy in a namespace, added and with its ports.
struct Placed {
    net: Member,
    copy: NonNull<Copy>,
}

// SAFETY: Devices of the driver model are used from any thread.
unsafe impl Send for Placed {}

impl Copies {
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }
}

/// The last reference to a copy has gone.
///
/// # Safety
///
/// For C only, with the device of a [`Copy`].
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: The device is the first field, and nobody uses it any more.
    unsafe { alloc::free(dev.cast::<Copy>()) };
}

/// Makes the device's copy in a namespace, if there is to be one and is none. The list of
/// namespaces is held. May sleep.
fn add_copy(device: &Device, net: Member) -> Result {
    if !mode().has_copy(known(device.net()), known(net.net())) {
        return Ok(());
    }
    let mut copies = device.state().namesakes.lock();
    // Device or namespace, one of them was first.
    if copies.0.iter().any(|placed| placed.net == net) {
        return Ok(());
    }
    copies.0.reserve(1, GFP_KERNEL)?;
    let memory = alloc::zalloc(size_of::<Copy>(), align_of::<Copy>()).ok_or(ENOMEM)?;
    let copy = memory.cast::<Copy>().as_ptr();
    let name = names::Name::new(device.name().as_bytes()).map_err(|_| EINVAL)?;
    // SAFETY: The memory is ours and zeroed; from `init_core_device` on it is counted by
    // the driver model, and freed by `release`.
    unsafe {
        (*copy).groups = (*device.as_raw()).groups;
        let counters = usize::from((*device.as_raw()).hw_stats_attr_index);
        if counters != 0 {
            if let Some(group) = (*copy).groups.get_mut(counters) {
                *group = core::ptr::null();
            }
        }
        let core = &raw mut (*copy).core;
        (*core).dev.parent = (*device.dev()).parent;
        alloc::init_core_device(
            core,
            device.as_raw(),
            (&raw mut (*copy).groups).cast(),
            net.0.as_ptr(),
        );
        (*core).dev.release = Some(release);
        let dev = &raw mut (*core).dev;
        let placed = registry::set_dev_name(dev, &name)
            .and_then(|()| to_result(bindings::device_add(dev)))
            .and_then(|()| {
                sysfs::set_up_ports(core).inspect_err(|_| {
                    bindings::device_del(dev);
                })
            });
        if let Err(error) = placed {
            bindings::put_device(dev);
            return Err(error);
        }
    }
    let copy = memory.cast();
    copies
        .0
        .push_within_capacity(Placed { net, copy })
        .map_err(|_| ENOMEM)
}

/// Makes the device's copies in all namespaces. The list of devices is held. May sleep.
pub(super) fn add_copies(device: &Device) -> Result {
    let nets = NETS.read();
    nets.iter().try_for_each(|net| add_copy(device, *net))
}

/// Removes a copy that is in no list any more. May sleep: waits for readers of its files.
fn remove(placed: Placed) {
    // SAFETY: It was added, with its ports, and this is its end.
    unsafe {
        let core = &raw mut (*placed.copy.as_ptr()).core;
        sysfs::free_ports(core);
        bindings::device_del(&raw mut (*core).dev);
        bindings::put_device(&raw mut (*core).dev);
    }
}

/// Removes the device's copies. Nobody makes any now. May sleep.
pub(super) fn remove_copies(device: &Device) {
    loop {
        let last = device.state().namesakes.lock().0.pop();
        match last {
            Some(placed) => remove(placed),
            None => break,
        }
    }
}

/// Removes the device's copy in a namespace that is going. May sleep.
fn remove_copy(device: &Device, net: Member) {
    let found = {
        let mut copies = device.state().namesakes.lock();
        match copies.0.iter().position(|placed| placed.net == net) {
            Some(at) => copies.0.remove(at).ok(),
            None => None,
        }
    };
    if let Some(placed) = found {
        remove(placed);
    }
}

/// Gives the device's copies its new name. The list of devices is held for writing. May
/// sleep.
pub(super) fn rename_copies(device: &Device, name: &names::Name) {
    let copies = device.state().namesakes.lock();
    for placed in &copies.0 {
        // SAFETY: The copy is added, and stays while the list is held.
        let ret = unsafe {
            bindings::device_rename(
                &raw mut (*placed.copy.as_ptr()).core.dev,
                name.as_c_array().as_ptr().cast(),
            )
        };
        if ret != 0 {
            pr_warn!("{}: a copy keeps the old name\n", device.name());
        }
    }
}

/// The device is about to be freed: it has no copies.
pub(super) fn warn_of_copies(device: &Device) {
    warn_on!(!device.state().namesakes.lock().0.is_empty());
}

/// Moves a device that is in `from` to another namespace: to its clients it goes and comes
/// again. The caller has a reference of the driver model, and no count. May sleep.
///
/// # Errors
///
/// `ENODEV` if the device is not registered, or not in `from`; those of `device_rename`
/// and of registration, after which it stays in `from`, or is not whole.
fn shift(device: &Device, from: &Net, to: &Net) -> Result {
    // Those under it hold it.
    if *device.net() == *from {
        sub::close(device);
    }
    let _one = device.state().unregistration.lock();
    if device.uses().none() || *device.net() != *from {
        return Err(ENODEV);
    }
    let announce = |action| {
        // SAFETY: The device is added.
        unsafe { bindings::kobject_uevent(&raw mut (*device.dev()).kobj, action) };
    };
    announce(bindings::kobject_action_KOBJ_REMOVE);
    register::disable(device);
    // Nobody uses the device now.
    let set = |net: &Net| {
        // SAFETY: The field is there; see `Device::net` for who reads it.
        unsafe {
            bindings::rdma_helper_write_pnet(
                &raw mut (*device.core_device()).rdma_net,
                net.as_raw(),
            )
        };
    };
    set(to);
    let moved = {
        let _still = registry::hold();
        let name = device.name();
        // To its own name: the driver model finds out that the namespace is another.
        names::Name::new(name.as_bytes())
            .map_err(|_| EINVAL)
            .and_then(|name| {
                // SAFETY: The device is added, and named under the lock only.
                to_result(unsafe {
                    bindings::device_rename(device.dev(), name.as_c_array().as_ptr().cast())
                })
            })
    };
    if moved.is_err() {
        pr_warn!("{}: cannot be moved\n", device.name());
        set(from);
    }
    let (held, shown) = register::enable(device);
    if shown.is_err() {
        // It stays as it is; the user may try again.
        pr_warn!("{}: not whole after it was moved\n", device.name());
    }
    announce(bindings::kobject_action_KOBJ_ADD);
    drop(held);
    moved.and(shown)
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
///
/// # Safety
///
/// `message` is one that is being handled.
pub(crate) unsafe fn move_to(
    device: Registered,
    message: *const bindings::sk_buff,
    file: u32,
) -> Result {
    // A number that is none is no file's either.
    let file = i32::try_from(file).unwrap_or(-1);
    // SAFETY: It takes any number.
    let net = from_err_ptr(unsafe { bindings::rdma_helper_net_by_fd(file) })?;
    let net = NonNull::new(net).ok_or(EINVAL)?;
    // SAFETY: The namespace was counted for us.
    let net: ARef<Net> = unsafe { ARef::from_raw(net.cast()) };
    // SAFETY: The message is the caller's; the namespace is ours. The namespace of the
    // running task is there as long as it.
    let (admin, asker) = unsafe {
        (
            bindings::rdma_helper_skb_net_capable(
                message,
                net.as_raw(),
                // CAST: A small number.
                bindings::CAP_NET_ADMIN as kernel::ffi::c_int,
            ),
            Net::from_raw(bindings::rdma_helper_current_net()),
        )
    };
    let ask = Move {
        device_in: known(device.net()),
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
    shift(&kept, asker, &net)
}

/// A namespace that devices know of.
pub(crate) struct NetState(Member);

static SLOT: PernetSlot = PernetSlot::new();

impl PernetData for NetState {
    const DEVICES: bool = true;

    fn slot() -> &'static PernetSlot {
        &SLOT
    }

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
        all.try_for_each(|device| add_copy(device, net))
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
    while let Some(device) = registry::next_named_from(index) {
        index = device.index().saturating_add(1);
        remove_copy(&device, net);
        // Whether it was in this one is looked at under the device's lock.
        let _: Result = shift(&device, net.net(), Net::init());
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
        // SAFETY: As above.
        let nets = unsafe { Pernet::register() }?;
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

/// Whether somebody in `net` may use the device. Any context.
///
/// # Safety
///
/// Both are valid.
#[no_mangle]
pub unsafe extern "C" fn rdma_dev_access_netns(
    device: *const bindings::ib_device,
    net: *const bindings::net,
) -> bool {
    // SAFETY: By this function's duty.
    unsafe {
        visible(
            Device::from_raw(device.cast_mut()),
            Net::from_raw(net.cast_mut()),
        )
    }
}

/// Whether the running task may use raw packets on the device.
///
/// # Safety
///
/// The device is registered.
#[no_mangle]
pub unsafe extern "C" fn rdma_dev_has_raw_cap(device: *const bindings::ib_device) -> bool {
    // SAFETY: By this function's duty.
    has_raw_cap(unsafe { Device::from_raw(device.cast_mut()) })
}

rdma::exported!(rdma_dev_access_netns, rdma_dev_has_raw_cap);
