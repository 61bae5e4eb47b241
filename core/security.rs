// SPDX-License-Identifier: GPL-2.0

//! Checks by security modules (LSM): whether a queue pair or a MAD agent may use a partition, and
//! whether an agent may manage a subnet.
//!
//! | file | what |
//! |---|---|
//! | `token` | security context of a user |
//! | `qp` | queue pairs: checked when their P_Key positions, the tables or the policy change |
//! | `agent` | MAD agents |
//! | `policy` | changes of the policy |
//! | `edge` | the LSM hooks, and the security field of a queue pair |
//! | `off` | stubs for a kernel without the hooks |
//!
//! Only partitions of InfiniBand ports are checked. Rules: [`crate::proto::security`]. Locks:
//! `Qps::list` and `Secured::inner` are never held together; `Secured::inner` is held across the
//! driver's `modify_qp`.

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
