// SPDX-License-Identifier: GPL-2.0

//! A port: its nodes, and the files that are open.
//!
//! The device is under the port's lock, and gone from there when it is removed. Whatever needs it
//! holds that lock, or has an agent of it.

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
    /// Its number on the device.
    pub(crate) number: u32,
    /// The device's, also when that is gone.
    pub(crate) device_index: u32,
    #[pin]
    pub(crate) state: Mutex<State>,
    /// The device, for readers of sysfs: `state` is held while agents are unregistered, and while
    /// the driver changes the port. None, once it is removed.
    #[pin]
    shown: Mutex<Option<DeviceRef>>,
    /// Who waits for `issm_open` to be cleared, or the device to go.
    #[pin]
    pub(crate) issm_free: WaitQueue,
}

/// What the port's lock protects.
pub(crate) struct State {
    /// None, once it is removed.
    pub(crate) device: Option<DeviceRef>,
    /// Those that are open.
    pub(crate) files: KVec<Arc<File>>,
    /// Whether somebody is the subnet manager.
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

    /// The device, for readers of sysfs.
    ///
    /// # Errors
    ///
    /// `ENODEV` once it is removed.
    pub(crate) fn device(&self) -> Result<DeviceRef> {
        self.shown.lock().clone().ok_or(ENODEV)
    }

    /// The device goes: files that are open are of no more use. May sleep.
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

/// The number of a port among all; given back on drop.
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

/// A port with its nodes. Dropped in this order: nobody can open them any more, then the port ends.
pub(crate) struct Nodes {
    _issm: Option<Node<Mads>>,
    umad: Node<Mads>,
    end: End,
    _index: Index,
}

impl Nodes {
    /// Of a port that has MADs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many ports, `ENOMEM`.
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

    /// The port's number.
    pub(crate) fn port(&self) -> u32 {
        self.end.0.number
    }

    /// What netlink tells of it.
    pub(crate) fn nl_info(&self) -> NlInfo<'_> {
        NlInfo::new(&self.umad)
    }
}
