// SPDX-License-Identifier: GPL-2.0

//! Transfers between local memory and a peer's memory, as storage targets perform them. The
//! consumer passes a memory list and the remote address, and gets a chain of work requests suitable
//! for the device.
//!
//! | file | what |
//! |---|---|
//! | here | queue pairs for transfers; the request chain of a transfer |
//! | `direct` | requests that refer to memory directly |
//! | `region` | requests that register memory regions first |
//! | `list`, `vector` | transfers of scatter lists, of vectors of pages |
//! | `signature` | transfers of data with protection information |
//! | `edge` | `struct rdma_rw_ctx`, owned by the consumer; its requests and memory |
//! | `abi` | exported functions |
//!
//! `proto/`, the module [`crate::proto::rw_plan`], decides which of these a transfer uses. A
//! context is used by one thread at a time, and is not moved between creation and destruction. C
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
use rdma::features::limit;
use rdma::features::DMA_TO_DEVICE;

/// The properties of a device and port that transfers depend on.
fn port(device: &Device, number: u32) -> rw_plan::Port {
    rw_plan::Port {
        iwarp: device.port_speaks(number, Protocol::Iwarp),
        force: edge::force_regions(),
        max_sgl_rd: device.attrs().max_sgl_rd(),
        max_sge_rd: limit(device.attrs().max_sge_rd()),
        max_pages: device.attrs().max_fast_reg_page_list_len(),
        max_pi_pages: device.attrs().max_pi_fast_reg_page_list_len(),
        max_wr: limit(device.attrs().max_qp_wr()),
    }
}

/// Remote memory and direction of a transfer.
#[derive(Clone, Copy)]
struct Target {
    /// Remote address.
    remote: u64,
    /// Remote key.
    rkey: u32,
    /// Direction.
    direction: Direction,
    /// Direction, for the DMA API.
    dma: bindings::dma_data_direction,
}

impl Target {
    fn new(remote: u64, rkey: u32, dma: bindings::dma_data_direction) -> Self {
        let direction = match dma {
            DMA_TO_DEVICE => Direction::Write,
            _ => Direction::Read,
        };
        Self {
            remote,
            rkey,
            direction,
            dma,
        }
    }

    /// The request for the part at offset `into` of the transfer.
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

/// Local key for all DMA-mapped memory.
fn lkey(qp: &Qp) -> u32 {
    qp.pd().map_or(0, Pd::local_dma_lkey)
}

/// Maximum number of SGEs of a request on a queue pair.
fn pieces(qp: &Qp, direction: Direction) -> u32 {
    match direction {
        Direction::Write => qp.max_write_sge(),
        Direction::Read => qp.max_read_sge(),
    }
}

/// Returns whether a queue pair supports data with protection information.
fn integrity(qp: &Qp) -> bool {
    qp.integrity_en()
}

/// Returns whether a queue pair is created for data with protection information.
fn wants_integrity(create_flags: u32) -> bool {
    // CAST: A bit mask.
    let integrity = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
    create_flags & integrity != 0
}

/// Adds the requests of transfers to the send queue size of a queue pair to be created.
pub(crate) fn size_queue(device: &Device, attr: &QpMake) {
    kernel::warn_on!(attr.port_num() == 0);
    let integrity = wants_integrity(attr.create_flags());
    attr.set_max_send_wr(port(device, attr.port_num()).queue_size(
        attr.max_send_wr(),
        attr.max_rdma_ctxs(),
        integrity,
    ));
}

/// Allocates the regions that the transfers of a new queue pair need. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of the driver. No regions are left then.
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

/// Destroys the regions of a queue pair, which performs no transfers any more. May sleep.
pub(crate) fn drop_regions(qp: &Doomed<'_, Qp>) {
    Pool::Signed.empty(qp);
    Pool::Plain.empty(qp);
}

/// Returns the request chain of a transfer, ready to be posted once. The chain continues with
/// `next`; if that is null, its last request completes to `cqe`. Never sleeps.
///
/// Regions get a new key each time, so this is called once per post.
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
