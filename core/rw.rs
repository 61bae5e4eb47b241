// SPDX-License-Identifier: GPL-2.0

//! Transfers between memory of this machine and its peer's, as targets of storage make them:
//! whoever has a list of memory and the peer's address gets a chain of requests, whatever the
//! device needs for it.
//!
//! | file | what |
//! |---|---|
//! | here | queue pairs that make transfers; the chain of one; its end |
//! | `context` | `struct rdma_rw_ctx`, which is the consumer's; memory behind it |
//! | `direct` | requests that name the memory piece by piece |
//! | `region` | memory registered as regions first |
//! | `list`, `vector` | transfers of scatter lists, of vectors of pages |
//! | `signature` | of data with protection information |
//! | `abi` | what other modules call |
//!
//! Which of these serves a transfer is planned by [`crate::proto::rw_plan`]. A context is used
//! by one thread at a time, and is not moved between its making and its end.
//! C header: `include/rdma/rw.h`.

mod abi;
mod context;
mod direct;
mod list;
mod region;
mod signature;
mod vector;

use self::context::Context;
use self::context::Kind;
use crate::device::Device;
use crate::mr_pool;
use crate::proto::rw_plan;
use crate::proto::rw_plan::Direction;
use crate::verbs::object::Doomed;
use crate::verbs::tables;
use crate::verbs::tables::QpMake;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

/// What matters of a device and one of its ports.
fn port(device: &Device, number: u32) -> rw_plan::Port {
    // SAFETY: Attributes and ports are written before the device is registered; the parameter
    // may change at any time, as a whole.
    unsafe {
        let attrs = &(*device.as_raw()).attrs;
        rw_plan::Port {
            iwarp: device.has_port(number)
                && bindings::rdma_helper_protocol_iwarp(device.as_raw(), number),
            force: (&raw const bindings::rdma_rw_force_mr).read_volatile(),
            max_sgl_rd: attrs.max_sgl_rd,
            max_sge_rd: u32::try_from(attrs.max_sge_rd).unwrap_or(0),
            max_pages: attrs.max_fast_reg_page_list_len,
            max_pi_pages: attrs.max_pi_fast_reg_page_list_len,
            max_wr: u32::try_from(attrs.max_qp_wr).unwrap_or(0),
        }
    }
}

/// The peer's side of a transfer, and which way it goes.
#[derive(Clone, Copy)]
struct Target {
    /// Where, in the peer's memory.
    remote: u64,
    /// The key for that.
    rkey: u32,
    /// Which way.
    direction: Direction,
    /// The same as DMA has it.
    dma: bindings::dma_data_direction,
}

impl Target {
    fn new(remote: u64, rkey: u32, dma: bindings::dma_data_direction) -> Self {
        let direction = match dma {
            bindings::dma_data_direction_DMA_TO_DEVICE => Direction::Write,
            _ => Direction::Read,
        };
        Self {
            remote,
            rkey,
            direction,
            dma,
        }
    }

    fn opcode(&self) -> bindings::ib_wr_opcode {
        match self.direction {
            Direction::Write => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
            Direction::Read => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
        }
    }
}

/// A queue pair that makes transfers.
///
/// # Invariants
///
/// `0` lives, with its domain and device.
#[derive(Clone, Copy)]
struct Qp(NonNull<bindings::ib_qp>);

impl Qp {
    /// # Safety
    ///
    /// `qp` lives as long as this is used, with its domain and device.
    unsafe fn new(qp: *mut bindings::ib_qp) -> Result<Self> {
        // INVARIANT: By this function's duty.
        NonNull::new(qp).map(Self).ok_or(EINVAL)
    }

    fn device(&self) -> &Device {
        // SAFETY: By the type invariant.
        unsafe { Device::from_raw((*self.0.as_ptr()).device) }
    }

    /// The key of all of this machine's memory that is mapped.
    fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*(*self.0.as_ptr()).pd).local_dma_lkey }
    }

    /// How many pieces one request takes.
    fn pieces(&self, direction: Direction) -> u32 {
        // SAFETY: By the type invariant; written when it was made.
        unsafe {
            match direction {
                Direction::Write => (*self.0.as_ptr()).max_write_sge,
                Direction::Read => (*self.0.as_ptr()).max_read_sge,
            }
        }
    }

    fn integrity(&self) -> bool {
        // SAFETY: By the type invariant; written when it was made.
        unsafe { (*self.0.as_ptr()).integrity_en }
    }

    /// Its regions.
    fn regions(&self) -> NonNull<bindings::list_head> {
        // SAFETY: By the type invariant; only a place is computed.
        NonNull::from(unsafe { &mut (*self.0.as_ptr()).rdma_mrs })
    }

    /// Its regions with protection information.
    fn signed_regions(&self) -> NonNull<bindings::list_head> {
        // SAFETY: By the type invariant; only a place is computed.
        NonNull::from(unsafe { &mut (*self.0.as_ptr()).sig_mrs })
    }
}

/// Whether a queue pair is made for data with protection information.
fn wants_integrity(create_flags: u32) -> bool {
    create_flags & bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32 != 0
}

/// Makes room for the requests of transfers in a queue pair that is to be made.
pub(crate) fn size_queue(device: &Device, attr: &QpMake) {
    kernel::warn_on!(attr.port_num() == 0);
    let integrity = wants_integrity(attr.create_flags());
    attr.set_max_send_wr(port(device, attr.port_num()).queue_size(
        attr.max_send_wr(),
        attr.max_rdma_ctxs(),
        integrity,
    ));
}

/// Gives a new queue pair the regions that its transfers need. May sleep.
///
/// # Errors
///
/// `ENOMEM`; the driver's. It has none then.
pub(crate) fn make_regions(qp: &tables::Qp, attr: &QpMake) -> Result {
    // INVARIANT: It lives.
    let this = Qp(NonNull::from(qp).cast());
    let integrity = wants_integrity(attr.create_flags());
    let wanted = port(this.device(), attr.port_num()).regions(attr.max_rdma_ctxs(), integrity);
    let plain = mr_pool::Kind::Plain(bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, wanted.pages);
    let signed = mr_pool::Kind::Integrity(wanted.pages, wanted.pages);
    // SAFETY: It lives; the lists are its own.
    let made = unsafe {
        mr_pool::fill(qp.raw(), this.regions(), wanted.plain, plain).and_then(|()| {
            mr_pool::fill(qp.raw(), this.signed_regions(), wanted.signed, signed)
                .inspect_err(|_| mr_pool::empty(qp.raw(), this.regions()))
        })
    };
    made.inspect_err(|_| {
        pr_err!(
            "no {} regions, {} with protection information\n",
            wanted.plain,
            wanted.signed
        );
    })
}

/// Destroys the regions of a queue pair, which makes no transfers any more. May sleep.
pub(crate) fn drop_regions(qp: &Doomed<'_, tables::Qp>) {
    // INVARIANT: It lives.
    let this = Qp(NonNull::from(&**qp).cast());
    // SAFETY: It lives; the lists are its own, and nobody else takes out what is in them.
    unsafe {
        mr_pool::empty(qp.raw(), this.signed_regions());
        mr_pool::empty(qp.raw(), this.regions());
    }
}

/// The chain of a transfer's requests, ready to be posted once. At its end comes `next`, or
/// else the last of them completes to `cqe`. Never sleeps.
///
/// Regions have a new key each time, so this is called once for each posting.
///
/// # Safety
///
/// The transfer was made, and is not under way; `cqe` and `next` are valid until it is done.
unsafe fn chain(
    context: &mut Context,
    cqe: *mut bindings::ib_cqe,
    next: *mut bindings::ib_send_wr,
) -> *mut bindings::ib_send_wr {
    // SAFETY: By this function's duty.
    unsafe {
        let ends = match context.kind() {
            Some(Kind::Region | Kind::Signature) => region::ends(context),
            Some(Kind::Single | Kind::Many | Kind::Joined) => direct::ends(context),
            None => None,
        };
        let Some((first, last)) = ends else {
            kernel::warn_on!(true);
            return next;
        };
        if next.is_null() {
            (*last).__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            (*last).send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
        } else {
            (*last).next = next;
        }
        first
    }
}
