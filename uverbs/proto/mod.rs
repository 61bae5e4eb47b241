// SPDX-License-Identifier: GPL-2.0

//! What `ib_uverbs` decides about the bytes of programs and the definitions of drivers. Pure: no
//! kernel calls, no allocation.
//!
//! * [`key`]: the numbers of objects, methods, attributes and commands, and their compact form;
//! * [`spec`]: what a method accepts for one attribute;
//! * [`definitions`]: the methods of a device, merged from the core's and the driver's definitions;
//! * [`ioctl`]: the header and the attributes of an ioctl;
//! * [`mod@write`]: the header of a command that a program writes;
//! * [`post`]: work requests that a program posts by such a command;
//! * [`quick`]: the few calls that programs make all the time;
//! * [`flow`]: the rules of a flow.
//!
//! Each refuses what the C module refuses, and where a request has several faults, reports the one
//! that the C module finds first.
//!
//! Specification: `include/uapi/rdma/rdma_user_ioctl_cmds.h`,
//! `include/uapi/rdma/ib_user_verbs.h`, `include/rdma/uverbs_ioctl.h`.

pub mod definitions;
pub mod flow;
pub mod ioctl;
pub mod key;
pub mod post;
pub mod quick;
pub mod spec;
pub mod write;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `EINVAL`.
    Invalid,
    /// `EOPNOTSUPP`: a value that this kernel does not know.
    NotSupported,
    /// `EPROTONOSUPPORT`: a method or attribute that this kernel does not know.
    NoProtocol,
    /// `ENOSPC`: a command or its answer is too short.
    NoSpace,
    /// `EFAULT`.
    Fault,
    /// `EEXIST`.
    Exists,
    /// `ENOMEM`.
    NoMemory,
    /// `EOVERFLOW`: the number of an object, method or attribute has no key.
    Overflow,
}
