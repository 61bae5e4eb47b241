// SPDX-License-Identifier: GPL-2.0

//! A port: its nodes, and the open files.
//!
//! The port's lock protects the reference to the device, which is dropped when the device is
//! removed. Code that uses the device holds this lock or has an agent of the device.

use crate::file::File;
use crate::file::UmadFiles;
use crate::issm::IssmFiles;
use crate::Mads;
use crate::Umad;
use crate::DYNAMIC;
use crate::FIXED;
use crate::PORTS;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::chrdev::Indices;
use rdma::chrdev::Node;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::sync::new_wait_queue;
use rdma::sync::WaitQueue;

/// A port.
#[pin_data]
pub(crate) struct Port {
    /// Number of the port on the device.
    pub(crate) number: u32,
    /// Index of the device; valid also after its removal.
    pub(crate) device_index: u32,
    #[pin]
    pub(crate) state: Mutex<State>,
    /// The device, for readers of sysfs, because `state` is locked while agents are unregistered,
    /// and while the driver changes the port. `None` once it is removed.
    #[pin]
    shown: Mutex<Option<DeviceRef>>,
    /// Waiters for `issm_open` to be cleared, or the device to be removed.
    #[pin]
    pub(crate) issm_free: WaitQueue,
}

/// State protected by the port's lock.
pub(crate) struct State {
    /// `None` once it is removed.
    pub(crate) device: Option<DeviceRef>,
    /// The open files.
    pub(crate) files: KVec<Arc<File>>,
    /// Whether an `issm` file is open: the host has a subnet manager.
    pub(crate) issm_open: bool,
}

impl Port {
    fn new(device: &DeviceRef, number: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                device_index: device.index(),
                state <- new_mutex!(
                    State {
                        device: Some(device.clone()),
                        files: KVec::new(),
                        issm_open: false,
                    },
                    "Port::state"
                ),
                shown <- new_mutex!(Some(device.clone()), "Port::shown"),
                issm_free <- new_wait_queue!("Port::issm_free"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the device, for readers of sysfs.
    ///
    /// # Errors
    ///
    /// `ENODEV` once it is removed.
    pub(crate) fn device(&self) -> Result<DeviceRef> {
        self.shown.lock().clone().ok_or(ENODEV)
    }

    /// Handles removal of the device: open files cannot be used any more. May sleep.
    fn end(&self) {
        let shown = self.shown.lock().take();
        drop(shown);
        let mut state = self.state.lock();
        let device = state.device.take();
        for file in state.files.iter() {
            drop(file.die());
        }
        drop(state);
        self.issm_free.wake();
        drop(device);
    }
}

/// The index of a port among all ports; released on drop.
struct Index(Arc<Indices>, u32);

impl Drop for Index {
    fn drop(&mut self) {
        self.0.give_back(self.1);
    }
}

/// Ends the port when dropped.
struct End(Arc<Port>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A port with its nodes. Dropped in this order: first the nodes, so that they cannot be opened any
/// more, then the port.
pub(crate) struct Nodes {
    _issm: Option<Node<Mads>>,
    umad: Node<Mads>,
    end: End,
    _index: Index,
}

impl Nodes {
    /// Creates the nodes of a port that supports MADs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many ports; `ENOMEM`.
    pub(crate) fn new(umad: &Umad, device: &DeviceRef, port: u32) -> Result<Self> {
        let index = umad.indices.take(PORTS)?;
        let held = Index(umad.indices.clone(), index);
        let end = End(Port::new(device, port)?);
        let (numbers, of_umad, of_issm) = match index.checked_sub(FIXED) {
            None => (&umad.fixed, index, index.saturating_add(FIXED)),
            Some(place) => (&umad.dynamic, place, place.saturating_add(DYNAMIC)),
        };
        let node = Node::add::<UmadFiles>(
            &umad.class,
            (numbers, of_umad),
            (c"umad", index),
            device,
            rdma::resident!(),
            end.0.clone(),
        )?;
        let issm = if device.has_smi(port) {
            Some(Node::add::<IssmFiles>(
                &umad.class,
                (numbers, of_issm),
                (c"issm", index),
                device,
                rdma::resident!(),
                end.0.clone(),
            )?)
        } else {
            None
        };
        Ok(Self {
            _issm: issm,
            umad: node,
            end,
            _index: held,
        })
    }

    /// Returns the number of the port.
    pub(crate) fn port(&self) -> u32 {
        self.end.0.number
    }

    /// Returns the information for netlink.
    pub(crate) fn nl_info(&self) -> NlInfo<'_> {
        NlInfo::new(&self.umad)
    }
}
