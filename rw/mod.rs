// SPDX-License-Identifier: GPL-2.0

//! Transfers between memory of this machine and its peer's, as targets of storage make them:
//! whoever has a list of memory and the peer's address gets a chain of requests, whatever the
//! device needs for it.
//!
//! | file | what |
//! |---|---|
//! | here | queue pairs that make transfers; the chain of one; its end |
//! | `direct` | requests that name the memory piece by piece |
//! | `region` | memory registered as regions first |
//! | `list`, `vector` | transfers of scatter lists, of vectors of pages |
//! | `signature` | of data with protection information |
//! | `edge` | `struct rdma_rw_ctx`, which is the consumer's; requests and memory behind it |
//! | `abi` | what other modules call |
//!
//! Which of these serves a transfer is planned by `proto/`, the module [`crate::proto::rw_plan`]. A
//! context is used by one thread at a time, and is not moved between its making and its end. C
//! header: `include/rdma/rw.h`.

mod abi;
mod direct;
mod edge;
mod list;
mod region;
mod signature;
mod vector;

use self::edge::regions::Pool;
use self::edge::Chain;
use self::edge::Rdma;
use self::edge::Ready;
use crate::device::port::Protocol;
use crate::device::Device;
use crate::mr_pool;
use crate::object::tables::Pd;
use crate::object::tables::QpMake;
use crate::object::Doomed;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::rw_plan;
use crate::proto::rw_plan::Direction;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Passed;

/// What matters of a device and one of its ports.
fn port(device: &Device, number: u32) -> rw_plan::Port {
    rw_plan::Port {
        iwarp: device.port_speaks(number, Protocol::Iwarp),
        force: edge::force_regions(),
        max_sgl_rd: device.max_sgl_rd(),
        max_sge_rd: u32::try_from(device.max_sge_rd()).unwrap_or(0),
        max_pages: device.max_reg_pages(),
        max_pi_pages: device.max_pi_reg_pages(),
        max_wr: u32::try_from(device.max_qp_wr()).unwrap_or(0),
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

    /// The request for what is `into` bytes into the transfer.
    fn request(&self, into: u64) -> Rdma {
        Rdma {
            opcode: match self.direction {
                Direction::Write => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
                Direction::Read => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
            },
            remote: self.remote.wrapping_add(into),
            rkey: self.rkey,
        }
    }
}

/// The key of all of this machine's memory that is mapped.
fn lkey(qp: &Qp) -> u32 {
    qp.pd().map_or(0, Pd::local_dma_lkey)
}

/// How many pieces one request of a queue pair takes.
fn pieces(qp: &Qp, direction: Direction) -> u32 {
    match direction {
        Direction::Write => qp.max_write_sge(),
        Direction::Read => qp.max_read_sge(),
    }
}

/// Whether a queue pair takes data with protection information.
fn integrity(qp: &Qp) -> bool {
    qp.integrity_en()
}

/// Whether a queue pair is made for data with protection information.
fn wants_integrity(create_flags: u32) -> bool {
    // CAST: A set of bits.
    let integrity = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
    create_flags & integrity != 0
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
pub(crate) fn make_regions(qp: &Qp, attr: &QpMake) -> Result {
    let integrity = wants_integrity(attr.create_flags());
    let wanted = port(qp.device(), attr.port_num()).regions(attr.max_rdma_ctxs(), integrity);
    let plain = mr_pool::Kind::Plain(bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, wanted.pages);
    let signed = mr_pool::Kind::Integrity(wanted.pages, wanted.pages);
    let made = Pool::Plain.fill(qp, wanted.plain, plain).and_then(|()| {
        Pool::Signed
            .fill(qp, wanted.signed, signed)
            .inspect_err(|_| Pool::Plain.empty(qp))
    });
    made.inspect_err(|_| {
        pr_err!(
            "no {} regions, {} with protection information\n",
            wanted.plain,
            wanted.signed
        );
    })
}

/// Destroys the regions of a queue pair, which makes no transfers any more. May sleep.
pub(crate) fn drop_regions(qp: &Doomed<'_, Qp>) {
    Pool::Signed.empty(qp);
    Pool::Plain.empty(qp);
}

/// The chain of a transfer's requests, ready to be posted once. At its end comes `next`, or
/// else the last of them completes to `cqe`. Never sleeps.
///
/// Regions have a new key each time, so this is called once for each posting.
fn chain(
    ready: Ready<'_>,
    cqe: Passed<bindings::ib_cqe>,
    next: Passed<bindings::ib_send_wr>,
) -> Passed<bindings::ib_send_wr> {
    let ends = ready.chain().and_then(|chain| match chain {
        Chain::Direct(ends) => Some(ends),
        Chain::Regions(mut regions) => {
            regions.for_each(region::renew);
            regions.ends()
        }
    });
    let Some(ends) = ends else {
        kernel::warn_on!(true);
        return next;
    };
    ends.close(cqe, next)
}
