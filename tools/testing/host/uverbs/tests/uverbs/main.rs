// SPDX-License-Identifier: GPL-2.0

//! Tests of the engines of `ib_uverbs`, a file for each.

mod definitions;
mod flow;
mod ioctl;
mod key;
mod post;
mod quick;
mod write;
