// SPDX-License-Identifier: GPL-2.0

//! Tables of a port with one file per entry: GIDs with their network devices and types, and P_Keys.

use super::edge::OfPort;
use super::edge::PortFile;
use super::edge::ShowPort;
use super::edge::Shown;
use crate::device::Device;
use crate::gid;
use crate::gid::GidRef;
use crate::proto::gid::Gid;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Page;

type ShowRow = fn(&Device, u32, u32, &mut Page<'_>) -> Result;

/// The file of a table entry, named after its index.
pub(super) struct Row {
    name: [u8; 8],
    index: u32,
    show: ShowRow,
}

/// A file with a [`Row`].
pub(super) type File = Shown<Row>;

impl ShowPort for Row {
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result {
        (self.show)(device, port, self.index, page)
    }

    fn name(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.name).ok()
    }
}

impl Row {
    fn new(index: u32, show: ShowRow) -> Result<Self> {
        let mut name = [0; 8];
        let mut rest = index;
        let mut start = 7usize;
        // Written from the last digit to the first; the final byte stays NUL.
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
        Ok(Self { name, index, show })
    }

    fn group(name: &'static CStr, count: u32, show: ShowRow) -> Result<Group<File>> {
        let mut rows = KVVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
        for index in 0..count {
            rows.push(Shown::dynamic(Self::new(index, show)?), GFP_KERNEL)?;
        }
        Group::new(name, rows)
    }
}

/// Sizes of a port's tables, as reported by its driver.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Number of entries in the GID table.
    pub(super) gids: i32,
    /// Number of entries in the P_Key table.
    pub(super) pkeys: u16,
}

/// The group `gids` of a port.
pub(super) fn gids(sizes: Sizes) -> Result<Group<File>> {
    Row::group(c"gids", gid_count(sizes)?, show_gid)
}

/// The group `pkeys` of a port, if it has any.
pub(super) fn pkeys(sizes: Sizes) -> Result<Option<Group<File>>> {
    if sizes.pkeys == 0 {
        return Ok(None);
    }
    Row::group(c"pkeys", sizes.pkeys.into(), show_pkey).map(Some)
}

fn gid_count(sizes: Sizes) -> Result<u32> {
    // The driver reports a signed number. A negative one counts as a failed allocation.
    u32::try_from(sizes.gids).map_err(|_| ENOMEM)
}

/// The directory `gid_attrs` of a port.
pub(super) struct GidAttrs {
    device: ARef<Device>,
    port: u32,
    ndevs: Group<File>,
    types: Group<File>,
}

impl GidAttrs {
    pub(super) fn new(device: &Device, port: u32, sizes: Sizes) -> Result<Self> {
        let count = gid_count(sizes)?;
        Ok(Self {
            device: device.hold(),
            port,
            ndevs: Row::group(c"ndevs", count, show_ndev)?,
            types: Row::group(c"types", count, show_type)?,
        })
    }
}

impl OfPort for GidAttrs {
    fn device(&self) -> &Device {
        &self.device
    }

    fn number(&self) -> u32 {
        self.port
    }

    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result {
        add(self.ndevs.get())?;
        add(self.types.get())
    }
}

/// Looks up the entry of a GID.
///
/// # Errors
///
/// `EINVAL` or `ENODATA` if there is none.
fn entry(device: &Device, port: u32, index: u32) -> Result<GidRef> {
    gid::get_ref(device, port, usize::try_from(index).map_err(|_| EINVAL)?)
}

fn show_gid(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    // User space reads the whole table and stops at an error, so an empty entry reads as zeros.
    let gid = entry(device, port, index).map_or(Gid::ZERO, |entry| entry.gid());
    page.bytes(&gid.text());
    page.bytes(b"\n");
    Ok(())
}

fn show_pkey(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let index = u16::try_from(index).map_err(|_| EINVAL)?;
    let pkey = device.query_pkey(port, index)?;
    page.text(fmt!("{pkey:#06x}\n"))
}

/// Shows the network device of a GID. Returns `EINVAL` if there is no GID or no network device,
/// which user space takes for an empty entry.
fn show_ndev(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let entry = entry(device, port, index).map_err(|_| EINVAL)?;
    let rcu = rcu::read_lock();
    let ndev = entry.ndev_rcu(&rcu).ok_or(EINVAL)?;
    page.bytes(ndev.name().as_bytes());
    page.bytes(b"\n");
    Ok(())
}

fn show_type(device: &Device, port: u32, index: u32, page: &mut Page<'_>) -> Result {
    let entry = entry(device, port, index).map_err(|_| EINVAL)?;
    page.bytes(match entry.gid_type() {
        bindings::ib_gid_type_IB_GID_TYPE_IB | bindings::ib_gid_type_IB_GID_TYPE_ROCE => {
            b"IB/RoCE v1\n"
        }
        bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => b"RoCE v2\n",
        _ => b"Invalid GID type\n",
    });
    Ok(())
}
