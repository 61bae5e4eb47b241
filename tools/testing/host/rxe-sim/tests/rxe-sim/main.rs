// SPDX-License-Identifier: GPL-2.0

//! One program for all of the crate's tests: each file that cargo makes a program of is
//! compiled and linked with all that it uses.

mod anew;
mod answers;
mod common;
mod congestion;
mod cork;
mod corners;
mod datagrams;
mod delayed_ack;
mod early;
mod hostile;
mod messages;
mod pace;
mod recv_limits;
mod recv_rules;
mod reliable;
mod retransmit;
mod send_limits;
mod send_rules;
mod single;
mod states;
mod unreliable;
