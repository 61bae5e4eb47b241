// SPDX-License-Identifier: GPL-2.0

//! The edge between `iw_cm` and C.
//!
//! | file | what |
//! |---|---|
//! | `id` | IDs, events and their handlers; exported functions |
//! | `device` | methods of the provider, queue pairs |
//! | `netlink` | messages from and to the port mapper |

pub(crate) mod device;
pub(crate) mod id;
pub(crate) mod netlink;

pub(crate) use self::device::Device;
pub(crate) use self::device::Qp;
pub(crate) use self::id::CmEvent;
pub(crate) use self::id::CmId;
pub(crate) use self::id::ConnParam;
pub(crate) use self::id::ConsumerRef;
pub(crate) use self::id::Handler;
pub(crate) use self::id::Held;
pub(crate) use self::id::PrivateData;
pub(crate) use self::id::ProviderData;
