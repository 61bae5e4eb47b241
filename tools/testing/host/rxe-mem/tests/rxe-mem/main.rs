// SPDX-License-Identifier: GPL-2.0

//! One program for all of the crate's tests: each file that cargo makes a program of is
//! compiled and linked with all that it uses.

mod common;
mod cq;
mod map;
mod ring;
mod shelf;
mod wqe;
