// SPDX-License-Identifier: GPL-2.0

//! Files of `issmN`: while one is open, the port announces that its host has a subnet manager
//! (`IB_PORT_SM`). Only one is open at a time; others wait.

use crate::port::Port;
use crate::Mads;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::chrdev::Files;
use rdma::chrdev::Opening;

/// The capability bit of the port.
const SM: u32 = bindings::ib_port_capability_mask_bits_IB_PORT_SM;

/// The operations of the files.
pub(crate) struct IssmFiles;

/// The open file.
pub(crate) struct Issm(Arc<Port>);

#[vtable]
impl Files for IssmFiles {
    type Class = Mads;
    type Open = Issm;
    const OWNER: &'static ThisModule = rdma::this_module!();

    fn open(port: &Arc<Port>, how: Opening) -> Result<Arc<Issm>> {
        let open = Arc::new(Issm(port.clone()), GFP_KERNEL)?;
        let mut state = port.state.lock();
        while state.issm_open && state.device.is_some() {
            if how.nonblock {
                return Err(EAGAIN);
            }
            state = port.issm_free.wait(state)?;
        }
        let device = state.device.as_ref().ok_or(ENXIO)?;
        if !device.is_accessible() {
            return Err(EPERM);
        }
        device.modify_port_caps(port.number, SM, 0)?;
        state.issm_open = true;
        Ok(open)
    }

    fn release(open: Arc<Issm>) {
        let port = &open.0;
        let mut state = port.state.lock();
        if let Some(device) = &state.device {
            // An error cannot be reported: the file is closed in any case.
            let _: Result = device.modify_port_caps(port.number, 0, SM);
        }
        state.issm_open = false;
        drop(state);
        port.issm_free.wake();
    }
}
