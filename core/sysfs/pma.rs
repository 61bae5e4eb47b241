// SPDX-License-Identifier: GPL-2.0

//! `ports/N/counters`: InfiniBand performance management counters (IBTA 16.1). The core reads them
//! by passing MADs to the driver's `process_mad`; nothing is sent.

use super::edge;
use super::edge::PortFile;
use super::edge::ShowPort;
use super::edge::Shown;
use crate::device::Device;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// Attributes of the performance management class (IBTA 16.1.2).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Query {
    /// Capabilities of the agent.
    ClassPortInfo = 0x0001,
    /// Counters of up to 32 bits.
    PortCounters = 0x0012,
    /// Counters of 64 bits.
    PortCountersExtended = 0x001d,
}

/// Offset of the attribute in the MAD's data.
const ANSWER: usize = 40;
/// Offset of the `PortSelect` field in the MAD's data.
const PORT_SELECT: usize = 41;

/// Capability bit of `ClassPortInfo`: all extended counters are supported.
const EXTENDED: u16 = 1 << 9;
/// Capability bit of `ClassPortInfo`: extended counters except unicast and multicast ones.
const EXTENDED_NO_IETF: u16 = 1 << 10;

/// Width of a counter in bits.
#[derive(Clone, Copy)]
enum Width {
    /// The upper or lower half of a byte.
    Nibble {
        high: bool,
    },
    B8,
    B16,
    B32,
    B64,
}

/// Location of the counter that a file shows.
struct Counter {
    query: Query,
    width: Width,
    /// Offset in the attribute, in bytes.
    offset: usize,
}

/// File of a counter.
type File = Shown<Counter>;

const fn counter(name: &'static CStr, offset: usize, width: Width) -> File {
    let query = Query::PortCounters;
    Shown::constant(
        name,
        Counter {
            query,
            width,
            offset,
        },
    )
}

const fn extended(name: &'static CStr, offset: usize) -> File {
    let (query, width) = (Query::PortCountersExtended, Width::B64);
    Shown::constant(
        name,
        Counter {
            query,
            width,
            offset,
        },
    )
}

impl ShowPort for Counter {
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result {
        let [a, b, c, d, e, f, g, h] = ask(device, port, self.query, self.offset)?;
        let value = match self.width {
            Width::Nibble { high: true } => u64::from(a >> 4),
            Width::Nibble { high: false } => u64::from(a & 0xf),
            Width::B8 => u64::from(a),
            Width::B16 => u64::from(u16::from_be_bytes([a, b])),
            Width::B32 => u64::from(u32::from_be_bytes([a, b, c, d])),
            Width::B64 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        };
        page.text(fmt!("{value}\n"))
    }
}

/// Queries an attribute, and returns the eight bytes at `offset`. May sleep.
///
/// # Errors
///
/// `ENOSYS` without `process_mad`, `EINVAL` if the driver does not reply, `ENOMEM`.
fn ask(device: &Device, port: u32, query: Query, offset: usize) -> Result<[u8; 8]> {
    let answer = edge::ask_driver(device, port, |question| {
        let question = question.0;
        question.mad_hdr.base_version = 1;
        // CAST: The constants fit in a byte.
        question.mad_hdr.mgmt_class = bindings::IB_MGMT_CLASS_PERF_MGMT as u8;
        question.mad_hdr.class_version = 1;
        question.mad_hdr.method = bindings::IB_MGMT_METHOD_GET as u8;
        // CAST: Attribute numbers are the discriminants, of 16 bits.
        question.mad_hdr.attr_id = (query as u16).to_be();
        if query != Query::ClassPortInfo {
            // CAST: The field has eight bits, as have port numbers of InfiniBand.
            question.data[PORT_SELECT] = port as u8;
        }
    })?;
    let from = ANSWER.saturating_add(offset);
    answer
        .data()
        .get(from..from.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(EINVAL)
}

/// Returns the group of counters that the driver's agent supports, if there is an agent.
pub(super) fn group(device: &Device, port: u32) -> Option<GroupRef<'static, PortFile>> {
    device.ops().process_mad?;
    let capabilities = match ask(device, port, Query::ClassPortInfo, 0) {
        Ok([_, _, high, low, ..]) => u16::from_be_bytes([high, low]),
        Err(_) => 0,
    };
    Some(if capabilities & EXTENDED != 0 {
        ALL.get()
    } else if capabilities & EXTENDED_NO_IETF != 0 {
        WIDE.get()
    } else {
        NARROW.get()
    })
}

static NARROW: StaticGroup<File> = StaticGroup::new(Some(c"counters"), &NARROW_LIST);
static WIDE: StaticGroup<File> = StaticGroup::new(Some(c"counters"), &WIDE_LIST);
static ALL: StaticGroup<File> = StaticGroup::new(Some(c"counters"), &ALL_LIST);

static NARROW_LIST: [Option<&File>; 18] = {
    let mut list = [None; 18];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &NARROW_ONLY, COMMON.len());
    list
};

static WIDE_LIST: [Option<&File>; 18] = {
    let mut list = [None; 18];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &WIDE_ONLY, COMMON.len());
    list
};

static ALL_LIST: [Option<&File>; 22] = {
    let mut list = [None; 22];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &WIDE_ONLY, COMMON.len());
    copy(&mut list, &IETF, COMMON.len() + WIDE_ONLY.len());
    list
};

const fn copy<const N: usize>(
    list: &mut [Option<&'static File>; N],
    from: &'static [File],
    at: usize,
) {
    let mut i = 0;
    while i < from.len() {
        // OVERFLOW, INDEX: Evaluated at compile time, which fails if the index is out of range.
        list[at + i] = Some(&from[i]);
        i += 1;
    }
}

static COMMON: [File; 13] = [
    counter(c"symbol_error", 4, Width::B16),
    counter(c"link_error_recovery", 6, Width::B8),
    counter(c"link_downed", 7, Width::B8),
    counter(c"port_rcv_errors", 8, Width::B16),
    counter(c"port_rcv_remote_physical_errors", 10, Width::B16),
    counter(c"port_rcv_switch_relay_errors", 12, Width::B16),
    counter(c"port_xmit_discards", 14, Width::B16),
    counter(c"port_xmit_constraint_errors", 16, Width::B8),
    counter(c"port_rcv_constraint_errors", 17, Width::B8),
    counter(
        c"local_link_integrity_errors",
        19,
        Width::Nibble { high: true },
    ),
    counter(
        c"excessive_buffer_overrun_errors",
        19,
        Width::Nibble { high: false },
    ),
    counter(c"VL15_dropped", 22, Width::B16),
    counter(c"port_xmit_wait", 40, Width::B32),
];

static NARROW_ONLY: [File; 4] = [
    counter(c"port_xmit_data", 24, Width::B32),
    counter(c"port_rcv_data", 28, Width::B32),
    counter(c"port_xmit_packets", 32, Width::B32),
    counter(c"port_rcv_packets", 36, Width::B32),
];

static WIDE_ONLY: [File; 4] = [
    extended(c"port_xmit_data", 8),
    extended(c"port_rcv_data", 16),
    extended(c"port_xmit_packets", 24),
    extended(c"port_rcv_packets", 32),
];

static IETF: [File; 4] = [
    extended(c"unicast_xmit_packets", 40),
    extended(c"unicast_rcv_packets", 48),
    extended(c"multicast_xmit_packets", 56),
    extended(c"multicast_rcv_packets", 64),
];
