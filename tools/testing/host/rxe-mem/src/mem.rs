// SPDX-License-Identifier: GPL-2.0

//! The pure files of `hw/rxe/mem`.

#[path = "../../../../../hw/rxe/mem/edge.rs"]
pub mod edge;

#[path = "../../../../../hw/rxe/mem/map.rs"]
pub mod map;

#[path = "../../../../../hw/rxe/mem/sge.rs"]
pub mod sge;
