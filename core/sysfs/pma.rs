// SPDX-License-Identifier: GPL-2.0

//! `ports/N/counters`: counters of InfiniBand's performance management (IBTA 16.1), which the
//! driver answers to a MAD that is never sent.

use super::port::File;
use crate::device::Device;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sysfs::Attribute;
use rdma::sysfs::Extends;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// What is asked for: attributes of the class (IBTA 16.1.2).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Query {
    /// What the driver's agent can.
    ClassPortInfo = 0x0001,
    /// Counters of at most 32 bits.
    PortCounters = 0x0012,
    /// Counters of 64 bits.
    PortCountersExtended = 0x001d,
}

/// Where the answer begins in what follows the MAD's header.
const ANSWER: usize = 40;
/// Where the question names its port.
const PORT_SELECT: usize = 41;

/// In `ClassPortInfo`, the capability: extended counters, all of them.
const EXTENDED: u16 = 1 << 9;
/// Extended counters, but not those of unicast and multicast.
const EXTENDED_NO_IETF: u16 = 1 << 10;

/// How wide a counter is, in bits.
#[derive(Clone, Copy)]
enum Width {
    /// The upper half of a byte, or the lower.
    Nibble {
        high: bool,
    },
    B8,
    B16,
    B32,
    B64,
}

/// A counter's file.
#[repr(C)]
struct Counter {
    raw: File,
    query: Query,
    width: Width,
    /// In bytes from the beginning of the answer.
    offset: usize,
}

// SAFETY: It begins with a `File`.
unsafe impl Attribute for Counter {}
// SAFETY: As above.
unsafe impl Extends<File> for Counter {}

impl Counter {
    const fn new(name: &'static CStr, offset: usize, width: Width) -> Self {
        Self {
            raw: File::constant(name, show_counter),
            query: Query::PortCounters,
            width,
            offset,
        }
    }

    const fn extended(name: &'static CStr, offset: usize) -> Self {
        Self {
            raw: File::constant(name, show_counter),
            query: Query::PortCountersExtended,
            width: Width::B64,
            offset,
        }
    }

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

/// # Safety
///
/// For C only, as a method of a [`Counter`].
unsafe extern "C" fn show_counter(
    device: *mut bindings::ib_device,
    port: u32,
    file: *mut bindings::ib_port_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is there while its file is read; the file is a counter's; the page is
    // sysfs's.
    unsafe {
        let counter = &*file.cast::<Counter>();
        Page::fill(page, |page| {
            counter.show(Device::from_raw(device), port, page)
        })
    }
}

/// `ENOSYS`, which the kernel crate has no constant for.
fn no_agent() -> Error {
    // CAST: a small number.
    Error::from_errno(-(bindings::ENOSYS as i32))
}

/// Asks the driver, and returns the eight bytes at `offset` of the answer. May sleep.
///
/// # Errors
///
/// `ENOSYS` without an agent, `EINVAL` if it does not answer, `ENOMEM`.
fn ask(device: &Device, port: u32, query: Query, offset: usize) -> Result<[u8; 8]> {
    let process = device.ops().process_mad.ok_or_else(no_agent)?;
    let mut question = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    let mut answer = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    question.mad_hdr.base_version = 1;
    // CAST: constants of a byte.
    question.mad_hdr.mgmt_class = bindings::IB_MGMT_CLASS_PERF_MGMT as u8;
    question.mad_hdr.class_version = 1;
    question.mad_hdr.method = bindings::IB_MGMT_METHOD_GET as u8;
    // CAST: the numbers of the class.
    question.mad_hdr.attr_id = (query as u16).to_be();
    if query != Query::ClassPortInfo {
        // CAST: the field has eight bits, and so have ports that have such an agent.
        question.data[PORT_SELECT] = port as u8;
    }
    let mut size = core::mem::size_of::<bindings::ib_mad>();
    let mut pkey_index = 0;
    // CAST: small constants.
    let flags = bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY as i32;
    let done = (bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
        | bindings::ib_mad_result_IB_MAD_RESULT_REPLY) as i32;
    // SAFETY: The method is the device's, with buffers of the size that it is told; no completion
    // and no GRH mean that it was not received.
    let result = unsafe {
        process(
            device.as_raw(),
            flags,
            port,
            core::ptr::null(),
            core::ptr::null(),
            &*question,
            &mut *answer,
            &mut size,
            &mut pkey_index,
        )
    };
    if result & done != done {
        return Err(EINVAL);
    }
    let from = ANSWER.saturating_add(offset);
    answer
        .data
        .get(from..from.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(EINVAL)
}

/// The group of counters that fits what the driver's agent can, if there is an agent.
pub(super) fn group(device: &Device, port: u32) -> Option<GroupRef<'static, File>> {
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

static NARROW: StaticGroup<Counter> = StaticGroup::new(Some(c"counters"), &NARROW_LIST);
static WIDE: StaticGroup<Counter> = StaticGroup::new(Some(c"counters"), &WIDE_LIST);
static ALL: StaticGroup<Counter> = StaticGroup::new(Some(c"counters"), &ALL_LIST);

static NARROW_LIST: [Option<&Counter>; 18] = {
    let mut list = [None; 18];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &NARROW_ONLY, COMMON.len());
    list
};

static WIDE_LIST: [Option<&Counter>; 18] = {
    let mut list = [None; 18];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &WIDE_ONLY, COMMON.len());
    list
};

static ALL_LIST: [Option<&Counter>; 22] = {
    let mut list = [None; 22];
    copy(&mut list, &COMMON, 0);
    copy(&mut list, &WIDE_ONLY, COMMON.len());
    copy(&mut list, &IETF, COMMON.len() + WIDE_ONLY.len());
    list
};

const fn copy<const N: usize>(
    list: &mut [Option<&'static Counter>; N],
    from: &'static [Counter],
    at: usize,
) {
    let mut i = 0;
    while i < from.len() {
        list[at + i] = Some(&from[i]);
        i += 1;
    }
}

static COMMON: [Counter; 13] = [
    Counter::new(c"symbol_error", 4, Width::B16),
    Counter::new(c"link_error_recovery", 6, Width::B8),
    Counter::new(c"link_downed", 7, Width::B8),
    Counter::new(c"port_rcv_errors", 8, Width::B16),
    Counter::new(c"port_rcv_remote_physical_errors", 10, Width::B16),
    Counter::new(c"port_rcv_switch_relay_errors", 12, Width::B16),
    Counter::new(c"port_xmit_discards", 14, Width::B16),
    Counter::new(c"port_xmit_constraint_errors", 16, Width::B8),
    Counter::new(c"port_rcv_constraint_errors", 17, Width::B8),
    Counter::new(
        c"local_link_integrity_errors",
        19,
        Width::Nibble { high: true },
    ),
    Counter::new(
        c"excessive_buffer_overrun_errors",
        19,
        Width::Nibble { high: false },
    ),
    Counter::new(c"VL15_dropped", 22, Width::B16),
    Counter::new(c"port_xmit_wait", 40, Width::B32),
];

static NARROW_ONLY: [Counter; 4] = [
    Counter::new(c"port_xmit_data", 24, Width::B32),
    Counter::new(c"port_rcv_data", 28, Width::B32),
    Counter::new(c"port_xmit_packets", 32, Width::B32),
    Counter::new(c"port_rcv_packets", 36, Width::B32),
];

static WIDE_ONLY: [Counter; 4] = [
    Counter::extended(c"port_xmit_data", 8),
    Counter::extended(c"port_rcv_data", 16),
    Counter::extended(c"port_xmit_packets", 24),
    Counter::extended(c"port_rcv_packets", 32),
];

static IETF: [Counter; 4] = [
    Counter::extended(c"unicast_xmit_packets", 40),
    Counter::extended(c"unicast_rcv_packets", 48),
    Counter::extended(c"multicast_xmit_packets", 56),
    Counter::extended(c"multicast_rcv_packets", 64),
];
