// SPDX-License-Identifier: GPL-2.0

//! The memory of a device, and the class `infiniband`.
//!
//! A driver has its own structure begin with a `struct ib_device`, and the core allocates
//! the whole. It is freed with the last reference of the driver model, by RCU, since
//! `ib_device_get_by_netdev` looks at devices that may be going.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::Allocator;
use kernel::alloc::NumaNode;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;
use kernel::warn_on;
use kernel::workqueue::Work;
use rdma::bindings;

use super::hooks::Core;
use super::hooks::Hooks;
use super::netdev;
use super::netns;
use super::registry;
use super::Device;
use super::State;

/// Head of the array of a device's ports, which consumers index by port number.
#[repr(C)]
struct PortsHead {
    rcu: bindings::callback_head,
}

/// Bytes before the array.
const HEAD: usize = {
    let align = align_of::<bindings::ib_port_data>();
    size_of::<PortsHead>().next_multiple_of(align)
};

/// What user programs may ask of a device, unless its driver says otherwise.
const COMMANDS: [u32; 30] = [
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_GET_CONTEXT,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_DEVICE,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_PORT,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_PD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_PD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_AH,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_AH,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REREG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEREG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_MW,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_MW,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_RESIZE_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ATTACH_MCAST,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DETACH_MCAST,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_XRCD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CLOSE_XRCD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_XSRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_QP,
];

const fn command_mask() -> u64 {
    let mut mask = 0;
    let mut at = 0;
    while at < COMMANDS.len() {
        mask |= 1_u64 << COMMANDS[at];
        at += 1;
    }
    mask
}

/// The class, whose address every device has.
struct ClassCell(Opaque<bindings::class>);

// SAFETY: Written before it is registered; then C's, which locks.
unsafe impl Sync for ClassCell {}

static CLASS: ClassCell = ClassCell(Opaque::uninit());

/// The registered class `infiniband`.
///
/// # Invariants
///
/// `CLASS` is registered.
pub(super) struct Class(());

impl Class {
    /// Once. May sleep.
    pub(super) fn register() -> Result<Self> {
        // SAFETY: Nobody uses the place before it is registered.
        unsafe {
            CLASS.0.get().write(bindings::class {
                name: c"infiniband".as_char_ptr(),
                dev_release: Some(release),
                dev_uevent: Some(uevent),
                ns_type: bindings::rdma_helper_net_ns_type(),
                namespace: Some(namespace),
                ..Default::default()
            });
            to_result(bindings::class_register(CLASS.0.get()))?;
        }
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; modules that have devices keep this one.
        unsafe { bindings::class_unregister(CLASS.0.get()) };
    }
}

/// What the announcement of a device says of it.
///
/// # Safety
///
/// For C only, with a device of the class.
unsafe extern "C" fn uevent(
    dev: *const bindings::device,
    env: *mut bindings::kobj_uevent_env,
) -> c_int {
    // SAFETY: The device has a name; format and name are terminated.
    let ret =
        unsafe { bindings::add_uevent_var(env, c"NAME=%s".as_char_ptr(), bindings::dev_name(dev)) };
    if ret == 0 {
        0
    } else {
        ENOMEM.to_errno()
    }
}

/// The namespace in whose sysfs a device, or its copy, is.
///
/// # Safety
///
/// For C only, with a device of the class.
unsafe extern "C" fn namespace(dev: *const bindings::device) -> *const bindings::ns_common {
    let core = dev.cast::<bindings::ib_core_device>();
    // SAFETY: A device of the class is the first field of such a structure.
    unsafe {
        let net = bindings::rdma_helper_read_pnet(&raw const (*core).rdma_net);
        if net.is_null() {
            ptr::null()
        } else {
            bindings::rdma_helper_net_ns_common(net)
        }
    }
}

/// Makes a device of the driver model, for `core.owner` or a copy of it, in `net`.
///
/// # Safety
///
/// `core` is zeroed and has its place for good, `groups` too; `owner` is the device.
pub(super) unsafe fn init_core_device(
    core: *mut bindings::ib_core_device,
    owner: *mut bindings::ib_device,
    groups: *mut *const bindings::attribute_group,
    net: *mut bindings::net,
) {
    // SAFETY: By this function's duty.
    unsafe {
        (*core).dev.class = CLASS.0.get();
        (*core).dev.groups = groups;
        bindings::device_initialize(&raw mut (*core).dev);
        (*core).owner = owner;
        bindings::INIT_LIST_HEAD(&raw mut (*core).port_list);
        bindings::rdma_helper_write_pnet(&raw mut (*core).rdma_net, net);
    }
}

/// Allocates zeroed memory that `kfree` frees. May sleep.
pub(super) fn zalloc(size: usize, align: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(size, align).ok()?;
    Some(
        Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)
            .ok()?
            .cast(),
    )
}

/// Frees what [`zalloc`] gave.
///
/// # Safety
///
/// Nobody uses it any more.
pub(super) unsafe fn free<T>(memory: *mut T) {
    // SAFETY: By this function's duty.
    unsafe { bindings::kfree(memory.cast::<c_void>()) };
}

/// Allocates a device of `size` bytes, the driver's structure, in a namespace. Null if
/// there is no memory, or `size` is too small. May sleep.
///
/// # Safety
///
/// `net` is a namespace that stays until the device is registered.
#[no_mangle]
pub unsafe extern "C" fn _ib_alloc_device(
    size: usize,
    net: *mut bindings::net,
) -> *mut bindings::ib_device {
    if warn_on!(size < size_of::<bindings::ib_device>()) {
        return ptr::null_mut();
    }
    let Some(memory) = zalloc(size, align_of::<bindings::ib_device>()) else {
        return ptr::null_mut();
    };
    let device = memory.cast::<bindings::ib_device>().as_ptr();
    let Ok(state) = KBox::pin_init(State::new(), GFP_KERNEL) else {
        // SAFETY: Nobody has seen it.
        unsafe { free(device) };
        return ptr::null_mut();
    };
    // SAFETY: The memory is ours and zeroed, and does not move; the state is pinned in its
    // box, which `release` takes back.
    unsafe {
        (*device).res = KBox::into_raw(Pin::into_inner_unchecked(state)).cast();
        bindings::rdma_helper_ib_device_init(device);
        for pool in &mut (*device).cq_pools {
            bindings::INIT_LIST_HEAD(pool);
        }
        let work = Work::<Device>::new(c"ib_unregister", kernel::static_lock_class!());
        let slot = (&raw mut (*device).unregistration_work).cast::<Work<Device>>();
        let Ok(()) = work.__pinned_init(slot);
        (*device).uverbs_cmd_mask = command_mask();
        init_core_device(
            (&raw mut (*device).__bindgen_anon_1).cast(),
            device,
            (&raw mut (*device).groups).cast(),
            netns::home(net),
        );
    }
    device
}

/// Frees a device that is not registered: the reverse of [`_ib_alloc_device`], also of a
/// registration that failed. May sleep.
///
/// # Safety
///
/// The device is not registered, and this is called once. Nobody uses it but by
/// references of the driver model.
#[no_mangle]
pub unsafe extern "C" fn ib_dealloc_device(device: *mut bindings::ib_device) {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    // SAFETY: It is the driver's last method that is called, and it may be the one that
    // asked.
    unsafe {
        if let Some(method) = device.ops().dealloc_driver {
            method(device.as_raw());
        }
    }
    // Who unregisters all devices of a driver finds them here until no method of theirs
    // is called any more.
    registry::forget(device);
    netdev::detach_all(device);
    netns::warn_of_copies(device);
    warn_on!(!device.state().clients.read().is_empty());
    warn_on!(!device.uses().none());
    // SAFETY: The reference that the allocation made.
    unsafe { bindings::put_device(device.dev()) };
}

/// The last reference to a device has gone.
///
/// # Safety
///
/// For C only, with the device of a `struct ib_device`.
unsafe extern "C" fn release(dev: *mut bindings::device) {
    let core = dev.cast::<bindings::ib_core_device>();
    // SAFETY: The device is part of a `struct ib_device`, whose memory is there until the
    // end of this function, and the only one that has this release.
    let device = unsafe { Device::from_raw((*core).owner) };
    netdev::detach_all(device);
    warn_on!(!device.uses().none());
    Core::release(device);
    let raw = device.as_raw();
    // SAFETY: Nobody uses the device any more, but for readers under RCU of its ports,
    // counts and methods, which are freed after them.
    unsafe {
        if !(*raw).port_data.is_null() {
            let head = (*raw).port_data.cast::<u8>().sub(HEAD);
            bindings::rdma_helper_kfree_rcu(head.cast(), head.cast());
        }
        drop(KBox::from_raw((*raw).res.cast::<State>()));
        bindings::rdma_helper_ib_device_fini(raw);
        bindings::rdma_helper_kfree_rcu(&raw mut (*raw).callback_head, raw.cast());
    }
}

/// Makes the array of the device's ports, if there is none. Before registration; may
/// sleep.
///
/// # Errors
///
/// `EINVAL` if the driver has not said how many there are; `ENOMEM`.
pub(crate) fn set_up_ports(device: &Device) -> Result {
    let raw = device.as_raw();
    // SAFETY: The driver sets devices up in one thread.
    unsafe {
        if !(*raw).port_data.is_null() {
            return Ok(());
        }
        let ports = (*raw).phys_port_cnt;
        if warn_on!(ports == 0) || warn_on!(ports == u32::MAX) {
            return Err(EINVAL);
        }
    }
    // The place of port 0 is there in any case; it is a switch's.
    let places = usize::try_from(*device.ports().end())?.checked_add(1);
    let bytes = places
        .and_then(|places| places.checked_mul(size_of::<bindings::ib_port_data>()))
        .and_then(|bytes| bytes.checked_add(HEAD))
        .ok_or(ENOMEM)?;
    let memory = zalloc(bytes, align_of::<bindings::ib_port_data>()).ok_or(ENOMEM)?;
    // SAFETY: So many bytes were allocated; all ports are in the array.
    unsafe {
        let ports = memory.as_ptr().add(HEAD).cast::<bindings::ib_port_data>();
        for port in device.ports() {
            let data = ports.add(port as usize);
            (*data).ib_dev = raw;
            bindings::rdma_helper_ib_port_data_init(data);
        }
        (*raw).port_data = ports;
    }
    Ok(())
}

rdma::exported!(_ib_alloc_device, ib_dealloc_device);
