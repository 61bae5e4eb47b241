// SPDX-License-Identifier: GPL-2.0

//! Performance management: reports the port's counters to management datagrams.
//!
//! The core uses the same call to fill `ports/1/counters` in sysfs, and ignores results other than
//! [`MadResult::Reply`]. The core itself rejects what is not handled here.
//!
//! IBTA 13.4 (datagram format) and 16.1 (attributes); C header: `include/rdma/ib_pma.h`.

use crate::counters::Counter;
use crate::counters::Counters;
use rdma::provider::mad::MAD_LEN;
use rdma::provider::Mad;
use rdma::provider::MadResult;

/// `IB_MGMT_CLASS_PERF_MGMT`.
const CLASS_PERF: u8 = 4;
/// `IB_MGMT_METHOD_GET`.
const METHOD_GET: u8 = 1;
/// `IB_MGMT_METHOD_GET_RESP`.
const METHOD_GET_RESP: u8 = 0x81;
/// `IB_PMA_CLASS_PORT_INFO`.
const CLASS_PORT_INFO: u16 = 1;
/// `IB_PMA_PORT_COUNTERS`.
const PORT_COUNTERS: u16 = 0x12;
/// `IB_PMA_PORT_COUNTERS_EXT`.
const PORT_COUNTERS_EXT: u16 = 0x1d;
/// `IB_PMA_CLASS_CAP_EXT_WIDTH`: 64-bit counters are supported.
const EXT_WIDTH: u16 = 1 << 9;

/// Bytes of the common header.
const HEADER: usize = 24;
/// Offset of the attribute.
const DATA: usize = 64;

/// Handles a request for counters. Process context.
pub(crate) fn answer(counters: &Counters, mad: &mut Mad<'_>) -> MadResult {
    let &[_, class, _, method, ..] = mad.request;
    let &[.., hi, lo, _, _, _, _, _, _] =
        mad.request.first_chunk::<HEADER>().unwrap_or(&[0; HEADER]);
    if class != CLASS_PERF || method != METHOD_GET {
        return MadResult::Success;
    }
    let mut data = Attribute([0; MAD_LEN - DATA]);
    match u16::from_be_bytes([hi, lo]) {
        CLASS_PORT_INFO => {
            // Base and class version, both 1.
            data.set(0, [1, 1]);
            data.set(2, EXT_WIDTH.to_be_bytes());
        }
        PORT_COUNTERS => {
            data.echo_selection(mad.request);
            // Counters saturate at all ones (IBTA 16.1.3.5).
            let downed = counters.sum(Counter::LinkDowned);
            data.set(7, [u8::try_from(downed).unwrap_or(u8::MAX)]);
        }
        PORT_COUNTERS_EXT => {
            data.echo_selection(mad.request);
            // Data is counted in words of four bytes.
            let words = |what| counters.sum(what) / 4;
            data.set(8, words(Counter::SentBytes).to_be_bytes());
            data.set(16, words(Counter::ReceivedBytes).to_be_bytes());
            data.set(24, counters.sum(Counter::SentPackets).to_be_bytes());
            data.set(32, counters.sum(Counter::ReceivedPackets).to_be_bytes());
        }
        _ => return MadResult::Success,
    }
    let (head, rest) = mad.reply.split_at_mut(DATA);
    head.fill(0);
    for (to, from) in head.iter_mut().zip(mad.request.iter().take(HEADER)) {
        *to = *from;
    }
    if let [_, _, _, method, status @ ..] = head {
        *method = METHOD_GET_RESP;
        status.iter_mut().take(2).for_each(|byte| *byte = 0);
    }
    rest.copy_from_slice(&data.0);
    MadResult::Reply
}

/// Attribute of a reply.
struct Attribute([u8; MAD_LEN - DATA]);

impl Attribute {
    /// Writes `bytes` at a constant offset.
    fn set<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(room) = self.0.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *room = bytes;
        }
    }

    /// Copies the port and the counter selection of the request into the reply.
    fn echo_selection(&mut self, request: &[u8; MAD_LEN]) {
        if let Some(selection) = request.get(DATA..).and_then(|rest| rest.first_chunk::<4>()) {
            self.set(0, *selection);
        }
    }
}
