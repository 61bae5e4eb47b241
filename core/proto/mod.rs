// SPDX-License-Identifier: GPL-2.0

//! The pure engines of `ib_core`: rules and tables without kernel dependencies.
//!
//! These modules make the decisions of the core: which attributes a state change of a queue pair
//! takes, which name a device gets, which GIDs a port has, what a netlink message looks like. Each
//! engine is a plain value or a function. It imports `core` and its siblings only; it never
//! allocates, locks, sleeps or reads a clock. The caller provides storage and holds the locks.
//! Everything that comes from a user, a driver or a packet is checked here, and no value of it can
//! make an engine panic.
//!
//! The same files are built by cargo for the tests in `tools/testing/host/core`,
//! and by Kbuild for the suites in `tools/testing/kunit/core`, where the C core of
//! the running kernel is the judge. There is no `ib_core` module of ours yet.
//!
//! * [`qp`], [`modify_qp`]: attributes of each state change of a queue pair;
//! * [`names`]: names of devices;
//! * [`mad`]: management datagrams;
//! * [`gid_table`], [`gid_plan`], [`gid_marks`]: the GIDs of a RoCE port and how they follow the
//!   network devices; [`gid`]: the GID itself;
//! * [`pkey`], [`port_cache`]: partitions, and cached attributes of a port;
//! * [`netns`]: which network namespace sees which device;
//! * [`restrack`]: ids, owners and lifetimes of tracked objects;
//! * [`nla`], [`nldev`]: netlink attributes, and the messages of `rdma`;
//! * [`pack`], [`ud_header`]: packed structures, and headers of datagrams to be sent;
//! * [`roce`]: headers of received datagrams, and Ethernet addresses of GIDs;
//! * [`sa`]: records and queries of the subnet administrator, multicast groups;
//! * [`security`]: whether queue pairs may use their partitions;
//! * [`resolve`]: address resolution requests and their completion;
//! * [`rates`], [`page_size`], [`sg_pages`]: link speeds; device pages of registered memory and of
//!   scatter lists;
//! * [`cq_pool`]: completion queues that consumers share;
//! * [`rw_plan`]: RDMA READ and WRITE transfers of storage targets;
//! * [`errno`]: the errno that callers see when an engine refuses a request.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each of its builds uses a part"
)]

pub mod cq_pool;
pub mod errno;
pub mod gid;
pub mod gid_marks;
pub mod gid_plan;
pub mod gid_table;
#[path = "../../mad/proto/mod.rs"]
pub mod mad;
pub mod modify_qp;
pub mod names;
pub mod netns;
pub mod nla;
pub mod nldev;
pub mod pack;
pub mod page_size;
pub mod pkey;
pub mod port_cache;
pub mod qp;
pub mod rates;
pub mod resolve;
pub mod restrack;
pub mod roce;
#[path = "../../rw/proto/plan.rs"]
pub mod rw_plan;
pub mod sa;
pub mod security;
pub mod sg_pages;
pub mod ud_header;
