// SPDX-License-Identifier: GPL-2.0

//! What an administrator sets for each port of a device, by configfs: the GID type and the type of
//! service of connections over RoCE. It is for IDs that are attached later, and ends with the device.

use crate::device;
use crate::device::CmaDevice;
use crate::edge::configfs::number;
use crate::edge::configfs::Place;
use crate::edge::configfs::Setting;
use crate::proto::route::GidType;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::Name;
use rdma::sysfs::Page;

fn find(name: &Name) -> Result<Arc<CmaDevice>> {
    let named = |device: &Arc<CmaDevice>| {
        (Name::of(device.device().view()) == *name).then(|| device.clone())
    };
    device::find_map(named).ok_or(ENODEV)
}

/// The number of ports of a device.
///
/// # Errors
///
/// `ENODEV`: there is no such device.
pub(crate) fn ports(name: &Name) -> Result<u32> {
    let device = find(name)?;
    u32::try_from(device.ports().count()).map_err(|_| EINVAL)
}

/// `default_roce_mode`: the GID type.
pub(crate) struct Mode;

impl Setting for Mode {
    const NAME: &'static CStr = c"default_roce_mode";

    fn show(place: &Place, page: &mut Page<'_>) -> Result {
        let device = find(&place.device)?;
        let settings = device.settings(place.port).ok_or(EINVAL)?;
        page.bytes(settings.gid_type().name());
        page.bytes(b"\n");
        Ok(())
    }

    fn store(place: &Place, text: &CStr) -> Result {
        let device = find(&place.device)?;
        let gid_type = GidType::parse(text.to_bytes()).ok_or(EINVAL)?;
        device.set_gid_type(place.port, gid_type)
    }
}

/// `default_roce_tos`: the type of service.
pub(crate) struct Tos;

impl Setting for Tos {
    const NAME: &'static CStr = c"default_roce_tos";

    fn show(place: &Place, page: &mut Page<'_>) -> Result {
        let device = find(&place.device)?;
        let settings = device.settings(place.port).ok_or(EINVAL)?;
        page.text(fmt!("{}\n", settings.tos()))
    }

    fn store(place: &Place, text: &CStr) -> Result {
        let tos = number(text)?;
        let device = find(&place.device)?;
        device.settings(place.port).ok_or(EINVAL)?.set_tos(tos);
        Ok(())
    }
}
