// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `trace/events/ib_mad.h`.

use super::agent::Agent;
use super::port::Port;
use super::receive::RecvMad;
use super::send::Send;
use crate::proto::mad::smi::Form;
use rdma::bindings;

pub(super) fn send_done(_send: &Send, _wc: *const bindings::ib_wc) {}
pub(super) fn received(_port: &Port, _wc: &bindings::ib_wc, _mad: &mut RecvMad) {}
pub(super) fn agent_receives(_agent: &Agent) {}
pub(super) fn outgoing(_mad: &[u8], _form: Form) {}
pub(super) fn incoming(_mad: &[u8], _form: Form) {}
