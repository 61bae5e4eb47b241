// SPDX-License-Identifier: GPL-2.0

//! Soft-RoCE's network layer: sending and receiving packets, and the network devices below the rxe
//! devices. It does not know about queue pairs.
//!
//! How a device uses it:
//!
//! 1. The module makes one [`NetEdge`] when it is loaded.
//! 2. A device creates an [`Endpoint`] on its network device, which its data path shares, and, once
//!    it can receive packets, an [`Attachment`], which it owns. Dropping the attachment stops
//!    reception.
//! 3. A queue pair describes its destination by a [`Path`], caches the [`CachedRoute`] that the
//!    path resolves to while it is valid, and sends through an [`Outbox`].
//! 4. Packets arrive at the device's [`RxSink`] in an [`RxRun`], checked and parsed.
//!
//! | file | what |
//! |---|---|
//! | `path` | destinations: addresses, and the route they resolve to |
//! | `tx` | building packets and sending them |
//! | `rx` | received packets and their validation |
//! | `local` | packets that a device sends to itself |
//! | `dev` | network devices and their events |
//! | `edge` | network namespaces and their sockets |
//! | `icrc` | the invariant CRC, computed with the kernel's CRC-32 |
//!
//! Source: IBTA annex A17 (RoCEv2).

mod dev;
mod edge;
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
pub(crate) use tx::grh;
pub(crate) use tx::Frame;
pub(crate) use tx::Outbox;
pub(crate) use tx::Sent;
pub(crate) use tx::TxError;
pub(crate) use tx::TRAIN_PACKETS;
