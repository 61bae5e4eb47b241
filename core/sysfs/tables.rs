// SPDX-License-Identifier: GPL-2.0

//! Tables of a port with a file for each entry: GIDs with their network devices and types, and
//! P_Keys.

use super::port::File;
use crate::device::Device;
use crate::proto::gid;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::sysfs::Attribute;
use rdma::sysfs::Extends;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Kind;
use rdma::sysfs::Page;

type ShowRow = fn(&Device, u32, u32, &mut Page<'_>) -> Result;

/// The file of an entry; its name is the index.
#[repr(C)]
pub(super) struct Row {
    raw: File,
    name: [u8; 8],
    index: u32,
    show: ShowRow,
}

// SAFETY: It begins with a `File`.
unsafe impl Attribute for Row {
    fn settle(&mut self) {
        // SAFETY: The name ends with a NUL, and stays as long as the row, which has settled.
        unsafe { self.raw.set_name(self.name.as_ptr().cast()) };
    }
}
// SAFETY: As above.
unsafe impl Extends<File> for Row {}

impl Row {
    fn new(index: u32, show: ShowRow) -> Result<Self> {
        let mut name = [0; 8];
        let mut rest = index;
        let mut start = 7usize;
        // From the last digit to the first; the NUL after them is there.
        loop {
            start = start.checked_sub(1).ok_or(EINVAL)?;
            let digit = u8::try_from(rest % 10).map_err(|_| EINVAL)?;
            *name.get_mut(start).ok_or(EINVAL)? = b'0'.saturating_add(digit);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        name.rotate_left(start);
        Ok(Self {
            raw: File::dynamic(0o444, show_row, None),
            name,
            index,
            show,
        })
    }

    fn group(name: &'static CStr, count: u32, show: ShowRow) -> Result<Group<Self>> {
        let mut rows = KVVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
        for index in 0..count {
            rows.push(Self::new(index, show)?, GFP_KERNEL)?;
        }
        Group::new(name, rows)
    }
}

/// # Safety
///
/// For C only, as a method of a [`Row`].
unsafe extern "C" fn show_row(
    device: *mut bindings::ib_device,
    port: u32,
    file: *mut bindings::ib_port_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is there while its file is read; the file is a `Row`; the page sysfs's.
    unsafe {
        let row = &*file.cast::<Row>();
        Page::fill(page, |page| {
            (row.show)(Device::from_raw(device), port, row.index, page)
        })
    }
}

/// The group `gids` of a port.
pub(super) fn gids(attr: &bindings::ib_port_attr) -> Result<Group<Row>> {
    Row::group(c"gids", gid_count(attr)?, show_gid)
}

/// The group `pkeys` of a port, if it has any.
pub(super) fn pkeys(attr: &bindings::ib_port_attr) -> Result<Option<Group<Row>>> {
    if attr.pkey_tbl_len == 0 {
        return Ok(None);
    }
    Row::group(c"pkeys", attr.pkey_tbl_len.into(), show_pkey).map(Some)
}

fn gid_count(attr: &bindings::ib_port_attr) -> Result<u32> {
    // The driver says it, in a signed number; a negative one is more than there is memory for.
    u32::try_from(attr.gid_tbl_len).map_err(|_| ENOMEM)
}

/// The directory `gid_attrs` of a port.
///
/// # Invariants
///
/// `device` outlives the files of the directory.
pub(super) struct GidAttrs {
    device: NonNull<Device>,
    port: u32,
    ndevs: Group<Row>,
    types: Group<Row>,
}

// SAFETY: A `Device` is `Send` and `Sync`, and so are groups.
unsafe impl Send for GidAttrs {}
// SAFETY: As above.
unsafe impl Sync for GidAttrs {}

impl GidAttrs {
    pub(super) fn new(device: &Device, port: u32, attr: &bindings::ib_port_attr) -> Result<Self> {
        let count = gid_count(attr)?;
        Ok(Self {
            device: NonNull::from(device),
            port,
            ndevs: Row::group(c"ndevs", count, show_ndev)?,
            types: Row::group(c"types", count, show_type)?,
        })
    }
}

impl Kind for GidAttrs {
    type Attribute = Row;

    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, Row>) -> Result) -> Result {
        add(self.ndevs.get())?;
        add(self.types.get())
    }

    unsafe fn show(&self, row: NonNull<Row>, page: *mut c_char) -> isize {
        // SAFETY: By this function's duty; the device is there by the type invariant.
        unsafe {
            let row = row.as_ref();
            let device = self.device.as_ref();
            Page::fill(page, |page| (row.show)(device, self.port, row.index, page))
        }
    }
}

/// An entry of a GID table that is held.
///
/// # Invariants
///
/// `0` is an entry of which this has a count.
struct Gid(NonNull<bindings::ib_gid_attr>);

impl Gid {
    /// # Errors
    ///
    /// `ENODATA`, `EINVAL`: there is none.
    fn get(device: &Device, port: u32, index: u32) -> Result<Self> {
        // SAFETY: The device is there.
        let gid = unsafe { bindings::rdma_get_gid_attr(device.as_raw(), port, index as i32) };
        // INVARIANT: It was counted for us.
        Ok(Self(
            NonNull::new(from_err_ptr(gid.cast_mut())?).ok_or(EINVAL)?,
        ))
    }

    fn attr(&self) -> &bindings::ib_gid_attr {
        // SAFETY: It is there by the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Gid {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}

fn show_gid(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    // Users read the whole table and stop at an error, so an empty entry is a GID of zeros.
    let raw = match Gid::get(device, port, index) {
        // SAFETY: Any bytes are a GID.
        Ok(gid) => unsafe { *gid.attr().gid.raw },
        Err(_) => [0; 16],
    };
    page.bytes(&gid::Gid(raw).text());
    page.bytes(b"\n");
    Ok(())
}

fn show_pkey(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let mut pkey = 0;
    let index = u16::try_from(index).map_err(|_| EINVAL)?;
    // SAFETY: The device is there.
    to_result(unsafe { bindings::ib_query_pkey(device.as_raw(), port, index, &mut pkey) })?;
    page.text(fmt!("{pkey:#06x}\n"))
}

/// The network device of a GID. `EINVAL` if there is no GID or no network device: users know
/// that error as "empty".
fn show_ndev(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let gid = Gid::get(device, port, index).map_err(|_| EINVAL)?;
    let _rcu = rcu::read_lock();
    // SAFETY: The entry is held; its network device changes under RCU, so it is read once.
    let ndev = unsafe { (&raw const gid.attr().ndev).read_volatile() };
    if ndev.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: It stays while we are in this section; its name is a string.
    page.bytes(unsafe { CStr::from_char_ptr(bindings::rdma_helper_netdev_name(ndev)) }.to_bytes());
    page.bytes(b"\n");
    Ok(())
}

fn show_type(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let gid = Gid::get(device, port, index).map_err(|_| EINVAL)?;
    page.bytes(match gid.attr().gid_type {
        bindings::ib_gid_type_IB_GID_TYPE_IB | bindings::ib_gid_type_IB_GID_TYPE_ROCE => {
            b"IB/RoCE v1\n"
        }
        bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => b"RoCE v2\n",
        _ => b"Invalid GID type\n",
    });
    Ok(())
}
