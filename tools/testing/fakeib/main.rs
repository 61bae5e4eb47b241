// SPDX-License-Identifier: GPL-2.0

//! fakeib: a small InfiniBand fabric within the kernel.
//!
//! Adapters `fakeib0`, `fakeib1` and so on are cabled to a switch, which is hardware without a
//! driver. Their ports are of the InfiniBand link layer, and come up when a subnet manager
//! brings them up, as opensm does. They carry datagrams, of management and others, and reliable
//! connections, for the kernel and for processes. It is for tests of what only such ports have: management datagrams,
//! the subnet administration, partitions, IPoIB. Nothing leaves the machine.
//!
//! - `proto`: the hardware, pure and tested on the host;
//! - `world.rs`: packets on their way;
//! - `device.rs`: the verbs; `qp.rs`, `connected.rs`, `cq.rs`, `mem.rs`, `ring.rs`: what is
//!   below them.
//!
//! Parameters: `adapters`, how many, 2 unless said otherwise.
//!
//! Locks, outer to inner: `Adapter::groups`, then either `World::fabric` or `QpCore::inner`;
//! `World::fabric`, then `QpCore::inner`; `QpCore::inner`, then `Region::mapping` or
//! `CqCore::inner`. `World::queue` and `Adapter::device` are taken alone.

use crate::device::Fakeib;
use crate::proto::fabric::Fabric;
use crate::proto::fabric::Host;
use crate::proto::fabric::MAX_HOSTS;
use crate::proto::node::Identity;
use crate::proto::port::Port;
use crate::proto::port::Role;
use crate::proto::port_info;
use crate::proto::switch::Tables;
use crate::proto::switch::LINEAR_CAP;
use crate::proto::switch::MULTICAST_CAP;
use crate::world::Adapter;
use crate::world::World;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::features::param;
use rdma::provider::Registration;
use rdma::provider::Unregistered;

mod connected;
mod cq;
mod device;
mod mem;
mod proto;
mod qp;
mod ring;
mod world;

rdma::resident_module! { struct Main(FakeibModule); }

module! {
    type: Main,
    name: "fakeib",
    authors: ["The rust-rdma authors"],
    description: "A small InfiniBand fabric, for tests",
    license: "GPL",
    params: {
        adapters: u32 {
            default: 2,
            description: "how many adapters there are, up to 15",
        },
    },
}

/// The lists that the fabric is made of.
type List<T> = KVVec<T>;

/// GUIDs begin here; the second bit says that nobody assigned them.
const GUIDS: u64 = u64::from_be_bytes([2, b'f', b'a', b'k', b'e', b'i', 0, 0]);

/// The module owns the devices and what they share. Fields are dropped in this order.
struct FakeibModule {
    _devices: KVec<Registration<Fakeib>>,
    _world: Owned,
}

/// The fabric, which stands still when this is dropped.
struct Owned(Arc<World>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl kernel::Module for FakeibModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let count = usize::try_from(param::<u32>(module_parameters::adapters.value()))?;
        if count == 0 || count > MAX_HOSTS {
            return Err(EINVAL);
        }
        let mut adapters = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            adapters.push(Adapter::new()?, GFP_KERNEL)?;
        }
        let world = Owned(World::new(fabric(count)?, adapters)?);
        let mut devices = KVec::with_capacity(count, GFP_KERNEL)?;
        for host in 0..count {
            let data = Fakeib::new(&world.0, host, guid(host))?;
            let mut device = Unregistered::new(rdma::resident!(), module, Ok(data))?;
            device.set_node_guid(guid(host).to_be_bytes());
            device.set_local_dma_lkey(mem::DMA_KEY);
            devices.push(device.register(c"fakeib%d")?, GFP_KERNEL)?;
        }
        Ok(Self {
            _devices: devices,
            _world: world,
        })
    }
}

/// The GUID of a node: each has room for those of its ports.
fn guid(node: usize) -> u64 {
    // CAST: there are few nodes.
    GUIDS | (node as u64) << 8
}

/// A switch with adapters. May sleep.
fn fabric(count: usize) -> Result<Fabric> {
    let mut hosts = KVVec::with_capacity(count, GFP_KERNEL)?;
    let capabilities = port_info::CAP_TRAPS
        | port_info::CAP_SL_MAP
        | port_info::CAP_SYSTEM_GUID
        | port_info::CAP_EXT_SPEEDS
        | port_info::CAP_CM
        | port_info::CAP_REREGISTER;
    for host in 0..count {
        let description = description(b"fakeib adapter");
        hosts.push(Host::new(guid(host), description, capabilities), GFP_KERNEL)?;
    }
    let ports = count.checked_add(1).ok_or(EINVAL)?;
    let any = Port::new(0, Role::SwitchEnd, 0, 0);
    let switch = Identity {
        description: description(b"fakeib switch"),
        guid: guid(0xff),
        device_id: 0xfa02,
    };
    let tables = Tables::new(
        KVVec::from_elem(0, LINEAR_CAP, GFP_KERNEL)?,
        KVVec::from_elem(0, MULTICAST_CAP, GFP_KERNEL)?,
    );
    Ok(Fabric::new(
        hosts,
        switch,
        KVVec::from_elem(any, ports, GFP_KERNEL)?,
        tables,
    ))
}

fn description(text: &[u8]) -> [u8; 64] {
    let mut out = [0; 64];
    for (to, from) in out.iter_mut().zip(text) {
        *to = *from;
    }
    out
}
