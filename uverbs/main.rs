// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs`: verbs for programs.
//!
//! Drop-in for the C module of the same name: nodes, commands that are written, ioctls with
//! attributes, sysfs, netlink. It reaches `ib_core` and `ib_uverbs_support` by exported functions
//! only, so each may be the C one; structures that they look into are C's.
//!
//! ```text
//!   write -- write.rs --+                              +-- ib_uverbs_support: handles
//!                       +-- Call -- object/*.rs -------+-- ib_core: verbs
//!   ioctl -- ioctl.rs --+      (one handler each)      +-- the driver's methods
//! ```
//!
//! | file | what |
//! |---|---|
//! | `proto` | headers, attributes, definitions, work requests, flows: pure, tested on the host |
//! | `table` | the words that tables of objects are written in, and the list of the tables |
//! | `api` | the methods of a device: ours and its driver's |
//! | `write`, `ioctl` | the two ways into a handler |
//! | `quick` | the few calls that programs make all the time, before these |
//! | `object` | the objects, one file each: table, handlers, destruction |
//! | `xrcd` | XRC domains that programs share |
//! | `marshall` | structures that `rdma_ucm` passes to programs |
//! | `life` | the end of a file's objects |
//! | `edge` | the C structures |
//!
//! Locks: `lists_mutex` of a device, then `hw_destroy_rwsem` of a file, then those of the memory
//! map. Each call is in a section of the device's `disassociate_srcu`, a quick one in one of its
//! domain `quick`; removal waits for both.
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_types.h`,
//! `include/uapi/rdma/ib_user_verbs.h`, `include/uapi/rdma/ib_user_ioctl_cmds.h`.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod api;
mod edge;
mod ioctl;
mod life;
mod marshall;
mod object;
#[path = "../core/private.rs"]
mod private;
mod proto;
mod quick;
mod table;
mod write;
mod xrcd;

use crate::edge::device::Node;
use crate::edge::device::Verbs;
use crate::edge::file;
use crate::edge::file::End;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::chrdev::Class;
use rdma::chrdev::Indices;
use rdma::chrdev::NodeClass;
use rdma::chrdev::Numbers;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::client::Registered;

rdma::resident_module! { struct Main(Uverbs); }

module! {
    type: Main,
    name: "ib_uverbs",
    authors: ["The rust-rdma authors"],
    description: "InfiniBand userspace verbs access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-uverbs"],
}

/// The major of nodes that have fixed numbers.
const MAJOR: u32 = 231;
/// The first minor of them.
const FIRST: u32 = 192;
/// Nodes whose numbers are fixed.
const FIXED: u32 = 32;
/// Nodes in all.
const NODES: u32 = 8192;

/// What nodes are made with.
struct Nodes {
    class: Arc<Class<Verbs>>,
    fixed: Arc<Numbers>,
    dynamic: Arc<Numbers>,
    indices: Pin<KBox<Indices>>,
}

impl Nodes {
    fn new() -> Result<Self> {
        edge::nodes::init();
        let numbers = |numbers| Arc::new(numbers, GFP_KERNEL);
        Ok(Self {
            fixed: numbers(Numbers::fixed(MAJOR, FIRST, FIXED, Verbs::NAME)?)?,
            dynamic: numbers(Numbers::dynamic(NODES - FIXED, Verbs::NAME)?)?,
            class: Arc::new(Class::register(rdma::resident!())?, GFP_KERNEL)?,
            indices: KBox::pin_init(Indices::new(), GFP_KERNEL)?,
        })
    }
}

rdma::static_slot!(impl for Nodes: ClientSlot<Nodes>);

impl Client for Nodes {
    type Data = Node;
    const NAME: &'static CStr = c"uverbs";
    const WITHOUT_KVERBS: bool = true;

    fn add(&self, device: DeviceRef) -> Result<Node> {
        let smi = bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI;
        if device.view().ops().alloc_ucontext.is_none() || device.view().dev_type() == smi {
            return Err(edge::unsupported());
        }
        let index = self.indices.take(NODES).map_err(|_| ENOMEM)?;
        let number = match index.checked_sub(FIXED) {
            None => (&self.fixed, index),
            Some(index) => (&self.dynamic, index),
        };
        Node::add(&self.class, number, index, &device, rdma::resident!())
            .inspect_err(|_| self.indices.give_back(index))
    }

    fn remove(&self, node: Node) {
        let node = node.hide();
        self.indices.give_back(node.index());
        let parts = node.parts_with_files();
        if parts {
            node.disassociate();
            file::each_removed(&node, |file| life::end(file, End::Remove));
            node.api().disassociate();
        }
        // A driver that does not part with open files waits for them.
        node.end(!parts);
    }

    fn nl_info<'a>(&self, node: &'a Node, device: &DeviceRef, port: u32) -> Result<NlInfo<'a>> {
        if port != u32::MAX {
            return Err(EINVAL);
        }
        Ok(node.nl_info(device))
    }
}

/// The module.
struct Uverbs {
    _client: Registered<Nodes>,
}

impl kernel::Module for Uverbs {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let nodes = Arc::new(Nodes::new()?, GFP_KERNEL)?;
        Ok(Self {
            _client: Registered::register(nodes, rdma::resident!())?,
        })
    }
}
