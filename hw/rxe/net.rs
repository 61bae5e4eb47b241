// SPDX-License-Identifier: GPL-2.0

//! Soft-RoCE's edge to the network: packets in and out, and the network devices
//! under our devices. It knows nothing of queue pairs.
//!
//! How a device uses it:
//!
//! 1. The module makes one [`NetEdge`] when it is loaded.
//! 2. A device makes an [`Endpoint`] on its network device, which its data path
//!    shares, and, when it can take packets, an [`Attachment`], which it owns.
//!    Dropping the attachment stops reception.
//! 3. A queue pair describes where it sends by a [`Path`], keeps the
//!    [`CachedRoute`] that the path resolves to while that is valid, and sends by an
//!    [`Outbox`].
//! 4. Packets arrive at the device's [`RxSink`] in an [`RxRun`], checked and parsed.
//!
//! | file | what |
//! |---|---|
//! | `path` | where to send: addresses, and the route they resolve to |
//! | `tx` | building packets and sending them |
//! | `rx` | received packets, and the checks that make one |
//! | `local` | packets that a device sends to itself |
//! | `dev` | namespaces, their sockets, network devices and what happens to them |
//! | `icrc` | the invariant CRC with the kernel's CRC-32 |
//!
//! Source: IBTA annex A17 (RoCEv2).

mod dev;
mod icrc;
mod local;
mod path;
mod rx;
mod tx;

pub(crate) use dev::Attachment;
pub(crate) use dev::Endpoint;
pub(crate) use dev::NetEdge;
pub(crate) use path::default_source_port;
pub(crate) use path::source_port;
pub(crate) use path::CachedRoute;
pub(crate) use path::Path;
pub(crate) use path::PathSpec;
pub(crate) use rx::DropReason;
pub(crate) use rx::KeptPacket;
pub(crate) use rx::RxBatch;
pub(crate) use rx::RxPacket;
pub(crate) use rx::RxQueue;
pub(crate) use rx::RxRun;
pub(crate) use rx::RxSink;
pub(crate) use rx::Stream;
pub(crate) use tx::Frame;
pub(crate) use tx::Outbox;
pub(crate) use tx::Sent;
pub(crate) use tx::TxError;
pub(crate) use tx::TRAIN_PACKETS;
