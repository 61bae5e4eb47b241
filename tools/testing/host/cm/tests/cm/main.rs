// SPDX-License-Identifier: GPL-2.0

//! Tests of `cm/proto`.

mod bed;
mod calls;
mod cells;
mod early;
mod model;
mod qp;
mod rules;
mod wake;
mod wire;
