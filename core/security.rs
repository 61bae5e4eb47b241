// SPDX-License-Identifier: GPL-2.0

//! What a security module (LSM) is asked: whether a queue pair or an agent may use a
//! partition, and whether an agent may manage a subnet.
//!
//! | file | what |
//! |---|---|
//! | `token` | a user, as the security module knows it |
//! | `qp` | queue pairs: asked when their places change, and again when the world does |
//! | `agent` | agents of management datagrams |
//! | `policy` | changes of the policy |
//! | `edge` | the hooks, and the field of a queue pair, as C has them |
//! | `off` | all of that on a kernel without the hooks: nothing |
//!
//! Only ports of InfiniBand have partitions to be asked about. Rules: [`crate::proto::security`].
//! Locks: `Qps::list` gives way to `Secured::inner`, and neither is held for the other;
//! `Secured::inner` is held around the driver's `modify_qp`.

#[cfg(CONFIG_SECURITY_INFINIBAND)]
mod agent;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
mod edge;
#[cfg(not(CONFIG_SECURITY_INFINIBAND))]
mod off;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
mod policy;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
mod qp;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
mod token;

#[cfg(CONFIG_SECURITY_INFINIBAND)]
pub(crate) use self::agent::AgentRights;
#[cfg(not(CONFIG_SECURITY_INFINIBAND))]
pub(crate) use self::off::*;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
pub(crate) use self::policy::Subsystem;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
pub(crate) use self::qp::*;
