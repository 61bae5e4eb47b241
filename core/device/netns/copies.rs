// SPDX-License-Identifier: GPL-2.0

//! Copies of devices in the sysfs of namespaces, while devices are shared.

use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;

use super::known;
use super::mode;
use super::Member;
use super::NETS;
use crate::device::alloc;
use crate::device::registry;
use crate::device::Core;
use crate::device::Device;
use crate::device::Hooks;
use crate::proto::names;

/// The copy of a device in the sysfs of a namespace.
#[repr(C)]
struct Copy {
    /// First: the driver model gives it back in [`release`].
    core: bindings::ib_core_device,
    /// The device's groups, without hardware counters, which the first namespace only sees.
    groups: [*const bindings::attribute_group; 4],
}

/// A device's copies; in `State::namesakes`.
pub(in crate::device) struct Copies(KVec<Placed>);

/// A copy in a namespace, added and with its ports.
struct Placed {
    net: Member,
    copy: NonNull<Copy>,
}

// SAFETY: Devices of the driver model are used from any thread.
unsafe impl Send for Placed {}

impl Copies {
    pub(in crate::device) const fn new() -> Self {
        Self(KVec::new())
    }
}

/// The last reference to a copy has gone.
///
/// # Safety
///
/// For C only, with the device of a [`struct@Copy`].
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: The device is the first field, and nobody uses it any more.
    unsafe { alloc::free(dev.cast::<Copy>()) };
}

/// Makes the device's copy in a namespace, if there is to be one and is none. The list of
/// namespaces is held. May sleep.
pub(super) fn add_copy(device: &Device, net: Member) -> Result {
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
                Core::show_ports(core).inspect_err(|_| {
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
pub(crate) fn add_copies(device: &Device) -> Result {
    let nets = NETS.read();
    nets.iter().try_for_each(|net| add_copy(device, *net))
}

/// Removes a copy that is in no list any more. May sleep: waits for readers of its files.
fn remove(placed: Placed) {
    // SAFETY: It was added, with its ports, and this is its end.
    unsafe {
        let core = &raw mut (*placed.copy.as_ptr()).core;
        Core::hide_ports(core);
        bindings::device_del(&raw mut (*core).dev);
        bindings::put_device(&raw mut (*core).dev);
    }
}

/// Removes the device's copies. Nobody makes any now. May sleep.
pub(crate) fn remove_copies(device: &Device) {
    loop {
        let last = device.state().namesakes.lock().0.pop();
        match last {
            Some(placed) => remove(placed),
            None => break,
        }
    }
}

/// Removes the device's copy in a namespace that is going. May sleep.
pub(super) fn remove_copy(device: &Device, net: Member) {
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
pub(in crate::device) fn rename_copies(device: &Device, name: &names::Name) {
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
pub(in crate::device) fn warn_of_copies(device: &Device) {
    warn_on!(!device.state().namesakes.lock().0.is_empty());
}
