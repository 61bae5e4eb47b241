// SPDX-License-Identifier: GPL-2.0

//! The pure files of `hw/rxe/queue`.

#[path = "../../../../../hw/rxe/queue/cq.rs"]
pub mod cq;

#[path = "../../../../../hw/rxe/queue/cqe.rs"]
pub mod cqe;

#[path = "../../../../../hw/rxe/queue/encode.rs"]
pub mod encode;

#[path = "../../../../../hw/rxe/queue/layout.rs"]
pub mod layout;

#[path = "../../../../../hw/rxe/queue/ring.rs"]
pub mod ring;

#[path = "../../../../../hw/rxe/queue/shelf.rs"]
pub mod shelf;

#[path = "../../../../../hw/rxe/queue/wqe.rs"]
pub mod wqe;
