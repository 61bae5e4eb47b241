// SPDX-License-Identifier: GPL-2.0

//! One program for all of the crate's tests: each file that cargo makes a program of is
//! compiled and linked with all that it uses.

mod anchor;
mod front;
mod gid_marks;
mod gid_peer;
mod gid_plan;
mod gid_table;
mod layout;
mod mad;
mod mad_rules;
mod mad_steps;
mod modify_qp;
mod names;
mod netns;
mod nla;
mod nldev;
mod numbers;
mod pack;
mod resolve;
mod restrack;
mod roce;
mod rw_plan;
mod sa;
mod sa_group;
mod sa_rules;
mod security;
mod sg_pages;
mod small_rules;
mod tables;
