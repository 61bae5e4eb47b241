// SPDX-License-Identifier: GPL-2.0

//! What devices, ports and open files tell of themselves.

use crate::edge::call::Call;
use crate::edge::unsupported;
use core::ptr;
use kernel::container_of;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_gid_entry;
use rdma::edge::device::Device;
use rdma::edge::device::DeviceAttr;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::verbs::UserCall;
use rdma::edge::View;
use rdma::net::NetDevice;
use rdma::sync::rcu;

/// Asks the driver for the attributes of a device. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn query(device: &Device, udata: &UserCall) -> Result<DeviceAttr> {
    let query = device.ops().query_device.ok_or_else(unsupported)?;
    let attr = DeviceAttr::default();
    // SAFETY: The driver's method, for a device of its own; it fills the attributes in, which nobody
    // else has.
    to_result(unsafe { query(device.raw(), attr.raw(), udata.raw()) })?;
    Ok(attr)
}

/// The attributes of a port. May sleep.
///
/// # Errors
///
/// `EINVAL`: there is no such port; those of the driver.
pub(crate) fn query_port(device: &Device, port: u32) -> Result<bindings::ib_port_attr> {
    let mut attr = bindings::ib_port_attr::default();
    // SAFETY: The device is registered; the function checks the port.
    to_result(unsafe { bindings::ib_query_port(device.raw(), port, &mut attr) })?;
    Ok(attr)
}

/// A port of a device.
///
/// # Invariants
///
/// The device has a port of this number.
#[derive(Clone, Copy)]
pub(crate) struct Port<'a> {
    device: &'a Device,
    number: u32,
}

impl<'a> Port<'a> {
    /// The port of this number. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is none.
    pub(crate) fn of(device: &'a Device, number: u32) -> Result<Self> {
        // SAFETY: The device is registered.
        let valid = unsafe { bindings::rdma_helper_is_port_valid(device.raw(), number) };
        // INVARIANT: Just checked.
        valid.then_some(Self { device, number }).ok_or(EINVAL)
    }

    /// Whether all packets need a global route.
    pub(crate) fn needs_grh(self) -> bool {
        // SAFETY: The device has such a port (type invariant).
        unsafe { bindings::rdma_helper_port_needs_grh(self.device.raw(), self.number) }
    }

    /// Whether it has the LIDs of Omni-Path.
    pub(crate) fn is_opa(self) -> bool {
        // SAFETY: The device has such a port (type invariant).
        unsafe { bindings::rdma_helper_port_opa_ah(self.device.raw(), self.number) }
    }

    /// A LID of the port as programs know it, which has 16 bits: multicast LIDs of Omni-Path are 0.
    pub(crate) fn lid(self, lid: u32) -> u16 {
        /// The first multicast LID.
        const MULTICAST: u32 = 0xc000;
        if self.is_opa() && lid >= MULTICAST {
            return 0;
        }
        // CAST: Other LIDs have 16 bits.
        lid as u16
    }

    /// The type of its address vectors (`enum rdma_ah_attr_type`).
    pub(crate) fn vector_type(self) -> u32 {
        // SAFETY: The device has such a port (type invariant).
        unsafe { bindings::rdma_helper_ah_find_type(self.device.raw(), self.number) }
    }

    /// The link layer (`enum rdma_link_layer`).
    pub(crate) fn link_layer(self) -> u32 {
        // SAFETY: The device has such a port (type invariant).
        unsafe { bindings::rdma_port_get_link_layer(self.device.raw(), self.number) }
    }

    /// An entry of the GID table. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the table is shorter; `ENODATA`: the entry is empty; those of
    /// `rdma_read_gid_attr_ndev_rcu`.
    pub(crate) fn gid(self, index: u32) -> Result<ib_uverbs_gid_entry> {
        // The tables of drivers are shorter.
        let index = c_int::try_from(index).map_err(|_| EINVAL)?;
        // SAFETY: The device is registered; the function checks the index. The entry does not
        // change while there is the reference.
        unsafe {
            let attr = from_err_ptr(
                bindings::rdma_get_gid_attr(self.device.raw(), self.number, index).cast_mut(),
            )?;
            let mut entry = ib_uverbs_gid_entry {
                gid_index: (*attr).index.into(),
                port_num: (*attr).port_num,
                gid_type: (*attr).gid_type,
                ..Default::default()
            };
            ptr::copy_nonoverlapping(
                (&raw const (*attr).gid).cast::<u8>(),
                (&raw mut entry.gid).cast(),
                size_of::<bindings::ib_gid>(),
            );
            let result = ifindex(attr);
            bindings::rdma_put_gid_attr(attr);
            entry.netdev_ifindex = result?;
            Ok(entry)
        }
    }
}

/// The index of the network device of a GID; 0 if it has none.
///
/// # Safety
///
/// The entry exists.
unsafe fn ifindex(attr: *const bindings::ib_gid_attr) -> Result<u32> {
    let _rcu = rcu::read_lock();
    // SAFETY: This function's contract. The device stays until the section ends.
    match from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(attr) }) {
        // SAFETY: The device exists until the section ends.
        Ok(netdev) => Ok(unsafe { NetDevice::from_raw(netdev) }.ifindex()),
        Err(error) if error == ENODEV => Ok(0),
        Err(error) => Err(error),
    }
}

/// A device, with its driver's method that tells the speed of a port.
#[derive(Clone, Copy)]
pub(crate) struct QuerySpeed<'a> {
    device: &'a Device,
    method: unsafe extern "C" fn(*mut bindings::ib_device, u32, *mut u64) -> c_int,
}

impl<'a> QuerySpeed<'a> {
    /// That of a device.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn of(device: &'a Device) -> Result<Self> {
        let method = device.ops().query_port_speed.ok_or_else(unsupported)?;
        Ok(Self { device, method })
    }

    /// The speed of the port of this number, in 100 Mb/s. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is none; those of the driver.
    pub(crate) fn call(self, port: u32) -> Result<u64> {
        let port = Port::of(self.device, port)?;
        let mut speed = 0;
        // SAFETY: The method of the device's driver (`of`), for a port of that device.
        to_result(unsafe { (self.method)(port.device.raw(), port.number, &mut speed) })?;
        Ok(speed)
    }
}

/// A context, with its driver's method that tells of it.
#[derive(Clone, Copy)]
pub(crate) struct QueryContext<'a> {
    context: &'a UContext,
    method: unsafe extern "C" fn(
        *mut bindings::ib_ucontext,
        *mut bindings::uverbs_attr_bundle,
    ) -> c_int,
}

impl<'a> QueryContext<'a> {
    /// That of a context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn of(context: &'a UContext) -> Result<Self> {
        let method = context.dev().ops().query_ucontext.ok_or_else(unsupported)?;
        Ok(Self { context, method })
    }

    /// Calls it. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn call(self, call: &Call) -> Result {
        // SAFETY: The method of the context's driver (`of`); the call is running.
        to_result(unsafe { (self.method)(self.context.raw(), call.raw()) })
    }
}

/// Fills `entries` with those of the GID tables of all ports, and returns how many there are. May
/// sleep.
///
/// # Errors
///
/// `EINVAL`: there are more.
pub(crate) fn gids(device: &Device, entries: &mut [ib_uverbs_gid_entry]) -> Result<usize> {
    // SAFETY: The device is registered; there is room for so many entries.
    let count = unsafe {
        bindings::rdma_query_gid_table(device.raw(), entries.as_mut_ptr(), entries.len())
    };
    usize::try_from(count).map_err(|_| EINVAL)
}

/// Calls `see` for each handle of a type, with a spinlock held, until it returns `true`. Any context.
fn look_through(file: &UFile, of: &ApiObject, mut see: impl FnMut(&Uobject) -> bool) {
    let _held = file.uobjects_lock().lock();
    // SAFETY: The list changes only under the lock, which is held, or when the file's objects are
    // all destroyed, which waits for this call. Handles in it exist.
    unsafe {
        let head = &raw mut (*file.raw()).uobjects;
        let mut at = (*head).next;
        while at != head {
            let handle = Uobject::view(container_of!(at, bindings::ib_uobject, list));
            at = (*at).next;
            if ptr::eq(handle.uapi_object(), of) && see(handle) {
                return;
            }
        }
    }
}

/// Fills `ids` with the numbers of the handles of a type, and returns how many it has filled in. Any
/// context.
pub(crate) fn handles(file: &UFile, of: &ApiObject, ids: &mut [u32]) -> usize {
    let mut room = ids.iter_mut();
    let mut count = 0_usize;
    look_through(file, of, |handle| {
        let Some(id) = room.next() else {
            return true;
        };
        // CAST: C keeps the number in an `int`.
        *id = handle.id() as u32;
        count = count.saturating_add(1);
        false
    });
    count
}
