// SPDX-License-Identifier: GPL-2.0

//! Devices, the IDs that are attached to them, and listeners without address.
//!
//! An attached ID has a reference to its device, so that the device's removal waits for it: each
//! consumer is told, and destroys its IDs.
//!
//! Locks: `DEVICES` is held to change, copy or search its lists, `CmaDevice::ids` to change or walk
//! that list. Nothing that sleeps is called under them.

use crate::deliver;
use crate::edge::core::caps;
use crate::edge::core::gid_types;
use crate::edge::core::transport;
use crate::edge::core::Caps;
use crate::edge::core::Gid;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::trace;
use crate::listen;
use crate::proto::route::GidType;
use kernel::list::ListArc;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::client::DeviceRef;
use rdma::edge::device::Device;
use rdma::kvec;
use rdma::list::TaggedList;

/// A device, from when it is added.
#[pin_data]
pub(crate) struct CmaDevice {
    device: DeviceRef,
    /// What connections get by default, for each port.
    settings: KVec<Settings>,
    #[pin]
    ids: Mutex<Ids>,
}

/// What connections of a port get by default.
pub(crate) struct Settings {
    /// Number of the GID type.
    gid_type: Atomic<u32>,
    /// The type of service, of eight bits.
    tos: Atomic<u32>,
}

impl Settings {
    /// The GID type.
    pub(crate) fn gid_type(&self) -> GidType {
        GidType::from_raw(self.gid_type.load(Relaxed)).unwrap_or(GidType::Ib)
    }

    /// The type of service.
    pub(crate) fn tos(&self) -> u8 {
        // CAST: Eight bits.
        self.tos.load(Relaxed) as u8
    }

    /// Sets the type of service.
    #[cfg(CONFIG_CONFIGFS_FS)]
    pub(crate) fn set_tos(&self, tos: u8) {
        self.tos.store(tos.into(), Relaxed);
    }
}

/// Attached IDs.
struct Ids {
    ids: TaggedList<Id>,
    /// The device is being removed: no further ones.
    closed: bool,
}

/// What an ID has of its device.
#[derive(Clone)]
pub(crate) struct Attached {
    pub(crate) device: Arc<CmaDevice>,
    /// The port; 0 for a listener on all ports.
    pub(crate) port: u32,
    /// What the port can do, which does not change.
    pub(crate) caps: Caps,
    /// The GID type of connections.
    pub(crate) gid_type: GidType,
}

/// All devices, and all listeners without address.
struct Lists {
    devices: KVec<Arc<CmaDevice>>,
    anywhere: KVec<Arc<Id>>,
}

rdma::global_lock! {
    // SAFETY: `init` initialises it in the module's initialisation.
    unsafe(uninit) static DEVICES: Mutex<Lists> = Lists {
        devices: KVec::new(),
        anywhere: KVec::new(),
    };
}

/// Makes the lists ready. Only for the module's initialisation.
pub(crate) fn init() {
    rdma::sync::init_once(&DEVICES);
}

fn copy<T>(list: &KVec<Arc<T>>) -> Result<KVec<Arc<T>>> {
    let mut all = KVec::with_capacity(list.len(), GFP_KERNEL)?;
    for one in list {
        all.push(one.clone(), GFP_KERNEL)?;
    }
    Ok(all)
}

/// All devices at present.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn all() -> Result<KVec<Arc<CmaDevice>>> {
    copy(&DEVICES.lock().devices)
}

/// What `each` finds, in the first device in which it finds something. It is called under the lock of
/// the lists.
pub(crate) fn find_map<T>(each: impl FnMut(&Arc<CmaDevice>) -> Option<T>) -> Option<T> {
    DEVICES.lock().devices.iter().find_map(each)
}

/// Announces a listener without address to devices that come later; returns the present ones.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_anywhere(id: &Arc<Id>) -> Result<KVec<Arc<CmaDevice>>> {
    let mut lists = DEVICES.lock();
    let devices = copy(&lists.devices)?;
    lists.anywhere.push(id.clone(), GFP_KERNEL)?;
    Ok(devices)
}

/// Ends [`add_anywhere`].
pub(crate) fn remove_anywhere(id: &Id) {
    let removed = {
        let mut lists = DEVICES.lock();
        kvec::take(&mut lists.anywhere, |one| core::ptr::eq(&**one, id))
    };
    drop(removed);
}

impl CmaDevice {
    /// The device.
    pub(crate) fn view(&self) -> &Device {
        self.device.view()
    }

    /// The device, counted.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// The ports.
    pub(crate) fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.device.ports()
    }

    /// Calls `each` with all attached IDs. It must not take the locks of IDs.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Arc<Id>)) {
        for id in self.ids.lock().ids.iter() {
            each(&id.into());
        }
    }

    /// What connections of a port get by default. `None`: there is no such port.
    pub(crate) fn settings(&self, port: u32) -> Option<&Settings> {
        let at = port.checked_sub(*self.ports().start())?;
        // CAST: Widens.
        self.settings.get(at as usize)
    }

    /// The GID type of connections of a port.
    pub(crate) fn gid_type(&self, port: u32) -> GidType {
        self.settings(port).map_or(GidType::Ib, Settings::gid_type)
    }

    /// The type of service of connections of a port.
    pub(crate) fn tos(&self, port: u32) -> u8 {
        self.settings(port).map_or(0, Settings::tos)
    }

    /// Sets the GID type of connections of a port.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no such port, or it does not support the type.
    #[cfg(CONFIG_CONFIGFS_FS)]
    pub(crate) fn set_gid_type(&self, port: u32, gid_type: GidType) -> Result {
        let settings = self.settings(port).ok_or(EINVAL)?;
        let gid_type = gid_type
            .of_port(gid_types(self.view(), port))
            .ok_or(EINVAL)?;
        settings.gid_type.store(gid_type.raw(), Relaxed);
        Ok(())
    }

    /// A device that was added.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: no port has connections; `ENOMEM`.
    pub(crate) fn add(device: DeviceRef) -> Result<Arc<Self>> {
        let view = device.view();
        let can = |port| {
            let caps = caps(view, port);
            caps.ib_cm() || caps.iw_cm()
        };
        if !device.ports().any(can) {
            return Err(rdma::provider::unsupported());
        }
        let mut settings = KVec::new();
        for port in device.ports() {
            let gid_type = GidType::preferred(gid_types(view, port)).unwrap_or(GidType::Ib);
            let one = Settings {
                gid_type: Atomic::new(gid_type.raw()),
                tos: Atomic::new(0),
            };
            settings.push(one, GFP_KERNEL)?;
        }
        let this = Arc::pin_init(
            pin_init!(Self {
                device,
                settings,
                ids <- kernel::new_mutex!(
                    Ids { ids: TaggedList::new(), closed: false },
                    "CmaDevice::ids"
                ),
            }),
            GFP_KERNEL,
        )?;
        let listeners = {
            let mut lists = DEVICES.lock();
            let listeners = copy(&lists.anywhere)?;
            lists.devices.push(this.clone(), GFP_KERNEL)?;
            listeners
        };
        for listener in &listeners {
            // One listener that fails does not keep the device from others.
            if let Err(error) = listen::on_device(listener, &this) {
                pr_warn!(
                    "cannot listen on a new device, error {}\n",
                    error.to_errno()
                );
            }
        }
        trace::device(this.view(), true);
        Ok(this)
    }

    /// The device is being removed: tells all consumers. Returns when each ID was told; the caller's
    /// reference count waits until they are gone.
    pub(crate) fn remove(this: Arc<Self>) {
        trace::device(this.view(), false);
        let removed = {
            let mut lists = DEVICES.lock();
            kvec::take(&mut lists.devices, |one| Arc::ptr_eq(one, &this))
        };
        drop(removed);
        this.ids.lock().closed = true;
        loop {
            let next = {
                let mut ids = this.ids.lock();
                // Under the lock: who finds the ID in no list may list it.
                ids.ids.pop_front().map(ListArc::into_arc)
            };
            let Some(id) = next else { break };
            match &id.kind {
                Kind::Internal(listener) => listen::remove_child(listener, &id),
                Kind::Plain | Kind::Program | Kind::Request => deliver::removal(&id),
            }
        }
    }
}

/// Attaches an ID to a device.
///
/// # Errors
///
/// `ENODEV`: the device is being removed; `EBUSY`: the ID is attached already.
pub(crate) fn attach(id: &Arc<Id>, device: &Arc<CmaDevice>, port: u32, gid: Option<Gid>) -> Result {
    // Complete before it is listed, as a removal tells all that are.
    let view = device.view();
    id.words().set_transport(transport(view));
    id.words().set_port_num(port);
    id.set_sgid(gid.as_ref());
    id.with(|inner| {
        inner.device = Some(Attached {
            device: device.clone(),
            port,
            caps: caps(view, port),
            gid_type: if port == 0 {
                GidType::Ib
            } else {
                device.gid_type(port)
            },
        });
        inner.gid = gid;
    });
    id.set_device(Some(device.device()));
    let listed = list(id, device);
    match listed {
        Ok(()) => trace::attach(id, view),
        Err(_) => detach(id),
    }
    listed
}

/// Lists an ID, to be told of a removal of the device.
fn list(id: &Arc<Id>, device: &CmaDevice) -> Result {
    let mut ids = device.ids.lock();
    if ids.closed {
        return Err(ENODEV);
    }
    let listed = ListArc::try_from_arc(id.clone()).map_err(|_| EBUSY)?;
    ids.ids.push_back(listed);
    Ok(())
}

/// Detaches an ID from its device, if it has one.
pub(crate) fn detach(id: &Id) {
    id.set_device(None);
    id.set_sgid(None);
    let (attached, gid) = id.with(|inner| (inner.device.take(), inner.gid.take()));
    drop(gid);
    let Some(attached) = attached else { return };
    let removed = {
        let mut ids = attached.device.ids.lock();
        ids.ids.remove(id).map(ListArc::into_arc)
    };
    drop(removed);
}

impl Id {
    /// What its port can do, and the number, if it is attached.
    pub(crate) fn port(&self) -> Option<(Caps, u32)> {
        self.look(|inner| {
            let attached = inner.device.as_ref()?;
            Some((attached.caps, attached.port))
        })
    }

    /// Whether it is attached to a device.
    pub(crate) fn has_device(&self) -> bool {
        self.look(|inner| inner.device.is_some())
    }

    /// The device and port, if it is attached.
    pub(crate) fn device(&self) -> Option<(DeviceRef, u32)> {
        self.look(|inner| {
            let attached = inner.device.as_ref()?;
            Some((attached.device.device().clone(), attached.port))
        })
    }

    /// What it has of its device, if it is attached.
    pub(crate) fn attached(&self) -> Option<Attached> {
        self.look(|inner| inner.device.clone())
    }

    /// The GID of the local address.
    pub(crate) fn sgid(&self) -> Option<Gid> {
        self.look(|inner| inner.gid.clone())
    }
}
