// SPDX-License-Identifier: GPL-2.0

//! `ib_umad`: management datagrams (MADs) for programs, such as opensm and infiniband-diags.
//!
//! Replaces the C module of the same name: nodes, ioctls, both header layouts, sysfs, tracepoints.
//! It uses only exported functions of `ib_core`, so it works with the C `ib_core` too.
//!
//! | file | what |
//! |---|---|
//! | `proto` | lengths, layouts, duplicates: pure, tested on the host |
//! | `port` | a port, its files and nodes; its removal |
//! | `file` | an open file of `umadN`: agents, waiting MADs |
//! | `issm` | an open file of `issmN`: marks the port as that of a subnet manager |
//! | `edge`, `trace.c` | tracepoints |
//!
//! Locks: `Port::state`, then `File::inner`. Handlers of agents take `File::inner`, and
//! unregistering an agent waits for its handlers, so it is not done under that lock. User memory is
//! not accessed under either. `Port::shown` is taken alone, and held briefly.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod edge;
mod file;
mod issm;
mod port;
mod proto;

use crate::port::Nodes;
use crate::port::Port;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::chrdev::Class;
use rdma::chrdev::Indices;
use rdma::chrdev::NodeAttribute;
use rdma::chrdev::NodeClass;
use rdma::chrdev::NodeFile;
use rdma::chrdev::NodeGroups;
use rdma::chrdev::Numbers;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::client::Registered;
use rdma::provider::unsupported;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

rdma::resident_module! { struct Main(UmadModule); }

module! {
    type: Main,
    name: "ib_umad",
    authors: ["The rust-rdma authors"],
    description: "InfiniBand userspace MAD packet access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-umad", "rdma-client-issm"],
}

/// Major number of nodes with fixed numbers.
const MAJOR: u32 = 231;
/// Number of ports with fixed numbers: `umad` nodes first, then `issm` nodes.
const FIXED: u32 = 64;
/// Maximum number of ports.
const PORTS: u32 = 8192;
/// Maximum number of ports without fixed numbers.
const DYNAMIC: u32 = PORTS - FIXED;

/// The class of all nodes.
pub(crate) struct Mads;

impl NodeClass for Mads {
    type Node = Arc<Port>;
    const NAME: &'static CStr = c"infiniband_mad";
    const FOLDER: &'static CStr = c"infiniband";
    const ABI_VERSION: Option<u32> = Some(5);
    const GROUPS: &'static NodeGroups<Self> = &GROUPS;
}

static GROUPS: NodeGroups<Mads> = NodeGroups::new(&GROUP);
static GROUP: StaticGroup<NodeAttribute<Mads>> =
    StaticGroup::new(None, &[Some(&IBDEV), Some(&PORT), None]);
static IBDEV: NodeAttribute<Mads> = NodeAttribute::of::<OfDevice>();
static PORT: NodeAttribute<Mads> = NodeAttribute::of::<OfPort>();

/// The attribute `ibdev`.
struct OfDevice;

impl NodeFile for OfDevice {
    type Class = Mads;
    const NAME: &'static CStr = c"ibdev";

    fn show(port: &Arc<Port>, page: &mut Page<'_>) -> Result {
        port.device()?.show_name(page);
        Ok(())
    }
}

/// The attribute `port`.
struct OfPort;

impl NodeFile for OfPort {
    type Class = Mads;
    const NAME: &'static CStr = c"port";

    fn show(port: &Arc<Port>, page: &mut Page<'_>) -> Result {
        page.text(fmt!("{}\n", port.number))
    }
}

/// What nodes are created with.
pub(crate) struct Umad {
    class: Arc<Class<Mads>>,
    fixed: Arc<Numbers>,
    dynamic: Arc<Numbers>,
    indices: Arc<Indices>,
}

impl Umad {
    fn new() -> Result<Self> {
        let numbers = |numbers| Arc::new(numbers, GFP_KERNEL);
        Ok(Self {
            fixed: numbers(Numbers::fixed(MAJOR, 0, FIXED * 2, Mads::NAME)?)?,
            dynamic: numbers(Numbers::dynamic(DYNAMIC * 2, Mads::NAME)?)?,
            class: Arc::new(Class::register(rdma::resident!())?, GFP_KERNEL)?,
            indices: Arc::pin_init(Indices::new(), GFP_KERNEL)?,
        })
    }
}

rdma::static_slot!(impl for Umad: ClientSlot<Umad>);

impl Client for Umad {
    type Data = KVec<Nodes>;
    const NAME: &'static CStr = c"umad";

    fn add(&self, device: DeviceRef) -> Result<KVec<Nodes>> {
        let mut all = KVec::new();
        for port in device.ports().filter(|port| device.has_mads(*port)) {
            all.push(Nodes::new(self, &device, port)?, GFP_KERNEL)?;
        }
        if all.is_empty() {
            return Err(unsupported());
        }
        Ok(all)
    }

    fn remove(&self, data: KVec<Nodes>) {
        drop(data);
    }

    fn nl_info<'a>(
        &self,
        data: &'a KVec<Nodes>,
        device: &DeviceRef,
        port: u32,
    ) -> Result<NlInfo<'a>> {
        if !device.ports().contains(&port) {
            return Err(EINVAL);
        }
        let nodes = data.iter().find(|nodes| nodes.port() == port);
        Ok(nodes.ok_or(unsupported())?.nl_info())
    }
}

/// The second client, by whose name `rdma` requests `issm` nodes. As in the C module, it has no
/// devices.
struct Issm;

rdma::static_slot!(impl for Issm: ClientSlot<Issm>);

impl Client for Issm {
    type Data = ();
    const NAME: &'static CStr = c"issm";

    fn add(&self, _device: DeviceRef) -> Result<()> {
        Ok(())
    }

    fn remove(&self, (): ()) {}

    fn nl_info<'a>(&self, (): &'a (), _device: &DeviceRef, _port: u32) -> Result<NlInfo<'a>> {
        Err(unsupported())
    }
}

/// State of the module. Fields are dropped in this order.
struct UmadModule {
    _issm: Registered<Issm>,
    _umad: Registered<Umad>,
}

impl kernel::Module for UmadModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let umad = Registered::register(Arc::new(Umad::new()?, GFP_KERNEL)?, rdma::resident!())?;
        let issm = Registered::register(Arc::new(Issm, GFP_KERNEL)?, rdma::resident!())?;
        Ok(Self {
            _issm: issm,
            _umad: umad,
        })
    }
}
