// SPDX-License-Identifier: GPL-2.0

//! Files of the counters, in the directory of a port: `cm_tx_msgs/req` and so on.
//!
//! The attributes are constants. A file is found by device and port, so it needs no other argument.
//!
//! C header: `include/rdma/ib_sysfs.h`; the core's functions are those of `core_priv.h`.

use crate::port;
use crate::proto::counters::Group;
use crate::proto::wire::Kind;
use core::ptr;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::device::Device;
use rdma::edge::View;
use rdma::sysfs::constant;
use rdma::sysfs::Attribute;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// A file with one counter.
#[repr(C)]
struct File {
    raw: bindings::ib_port_attribute,
    group: Group,
    kind: Kind,
}

// SAFETY: A constant.
unsafe impl Send for File {}
// SAFETY: A constant.
unsafe impl Sync for File {}

// SAFETY: It is `repr(C)` and begins with a `struct ib_port_attribute`, which begins with an
// attribute.
unsafe impl Attribute for File {}

// SAFETY: `repr(C)`, and begins with the structure.
unsafe impl View for File {
    type C = bindings::ib_port_attribute;
}

/// Type of the method `show`.
type Show = unsafe extern "C" fn(
    *mut bindings::ib_device,
    u32,
    *mut bindings::ib_port_attribute,
    *mut c_char,
) -> isize;

rdma::callback! {
    /// Show method of a [`File`]. The core passes the device and the port that the file was
    /// registered for.
    fn show_file(device: &Device, port: u32, file: &File, page: Page<'_>) -> isize = show;
}

fn show(device: &Device, port: u32, file: &File, page: Page<'_>) -> isize {
    page.show(|page| {
        let port = port::find(device, port).ok_or(EINVAL)?;
        page.text(fmt!("{}\n", port.counters.get(file.group, file.kind)))
    })
}

impl File {
    const fn new(name: &'static CStr, group: Group, kind: Kind) -> Self {
        Self {
            raw: bindings::ib_port_attribute {
                attr: constant(name, 0o444),
                show: Some(show_file as Show),
                store: None,
            },
            group,
            kind,
        }
    }
}

/// Declares the files of a group.
macro_rules! files {
    ($($files:ident $list:ident $attrs:ident: $group:ident = $name:literal;)*) => { $(
        static $files: [File; 11] = [
            File::new(c"req", Group::$group, Kind::Req),
            File::new(c"mra", Group::$group, Kind::Mra),
            File::new(c"rej", Group::$group, Kind::Rej),
            File::new(c"rep", Group::$group, Kind::Rep),
            File::new(c"rtu", Group::$group, Kind::Rtu),
            File::new(c"dreq", Group::$group, Kind::Dreq),
            File::new(c"drep", Group::$group, Kind::Drep),
            File::new(c"sidr_req", Group::$group, Kind::SidrReq),
            File::new(c"sidr_rep", Group::$group, Kind::SidrRep),
            File::new(c"lap", Group::$group, Kind::Lap),
            File::new(c"apr", Group::$group, Kind::Apr),
        ];
        static $list: [Option<&File>; 12] = {
            let [a, b, c, d, e, f, g, h, i, j, k] = &$files;
            [
                Some(a), Some(b), Some(c), Some(d), Some(e), Some(f), Some(g), Some(h), Some(i),
                Some(j), Some(k), None,
            ]
        };
        static $attrs: StaticGroup<File> = StaticGroup::new(Some($name), &$list);
    )* };
}

files! {
    SENT_FILES SENT_LIST SENT: Sent = c"cm_tx_msgs";
    RETRIED_FILES RETRIED_LIST RETRIED: Retries = c"cm_tx_retries";
    RECEIVED_FILES RECEIVED_LIST RECEIVED: Received = c"cm_rx_msgs";
    DUPLICATE_FILES DUPLICATE_LIST DUPLICATE: Duplicates = c"cm_rx_duplicates";
}

/// All groups, ending with null.
#[repr(transparent)]
struct Groups([*const bindings::attribute_group; 5]);

// SAFETY: It points only to constants.
unsafe impl Sync for Groups {}

static GROUPS: Groups = Groups([
    SENT.as_raw(),
    RETRIED.as_raw(),
    RECEIVED.as_raw(),
    DUPLICATE.as_raw(),
    ptr::null(),
]);

/// The list, as C wants it. It is not written through the pointer.
fn groups() -> *mut *const bindings::attribute_group {
    GROUPS.0.as_ptr().cast_mut()
}

/// The files of a port. Drop removes them, and waits for readers.
///
/// # Invariants
///
/// They are registered.
pub(crate) struct Files {
    device: DeviceRef,
    port: u32,
}

impl Files {
    /// Creates the files of a port. May sleep.
    ///
    /// # Errors
    ///
    /// Those of sysfs.
    pub(crate) fn add(device: &DeviceRef, port: u32) -> Result<Self> {
        if !device.has_ib_cm(port) {
            return Err(EINVAL);
        }
        // SAFETY: The device exists and has the port (checked above). The groups are constants, and
        // the module waits for the removal, see `Drop`.
        to_result(unsafe { bindings::rdma_helper_port_groups_add(device.raw(), port, groups()) })?;
        // INVARIANT: Registered above.
        Ok(Self {
            device: device.clone(),
            port,
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // SAFETY: They are registered (type invariant).
        unsafe {
            bindings::rdma_helper_port_groups_remove(self.device.raw(), self.port, groups());
        }
    }
}
