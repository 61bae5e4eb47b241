// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: the objects of a device, each with its owner.
//!
//! An [`Entry`] is a field of each object's C structure. The entry is in its device's [`Table`],
//! under an id, from [`add`](OwnerRef::add) until the object is destroyed. A reader of an object
//! holds a [`Held`]; the owner holds an [`OwnerRef`] and waits for all readers before it destroys
//! the object. Ids of queue pairs are defined in [`crate::proto::restrack`].
//!
//! The owner's calls are serialised and run in process context; readers run in any context but hard
//! interrupts.

use kernel::prelude::*;
use rdma::bindings;
use rdma::features;

pub(crate) use crate::proto::restrack::Kind;

mod abi;
mod edge;
mod entry;
mod table;

pub(crate) use self::edge::Entry;
pub(crate) use self::edge::Held;
pub(crate) use self::edge::MaybeTracked;
pub(crate) use self::edge::OwnerRef;
pub(crate) use self::table::Table;

/// Number of object kinds.
const KINDS: usize = Kind::ALL.len();

/// The kernel's number of object kinds.
const KNOWN: usize = bindings::rdma_restrack_type_RDMA_RESTRACK_MAX as usize;

const _: () = assert!(KINDS == KNOWN + if features::COMP_CNTR { 0 } else { 1 });

/// The kinds that the kernel has, in the order of their numbers.
pub(crate) fn kinds() -> &'static [Kind] {
    const ALL: [Kind; KINDS] = Kind::ALL;
    ALL.split_at_checked(KNOWN).map_or(&[], |(known, _)| known)
}

/// The tables of a device, one per kind of object.
#[pin_data]
pub(crate) struct Tables {
    #[pin]
    kinds: [Table; KINDS],
}

impl crate::device::PerDevice for Tables {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            kinds <- pin_init::pin_init_array_from_fn(|_| Table::new()),
        })
    }
}

impl Tables {
    /// The table of a kind.
    pub(crate) fn of(&self, kind: Kind) -> &Table {
        let [pd, cq, qp, cm_id, mr, ctx, counter, srq, dmah, comp_cntr] = &self.kinds;
        match kind {
            Kind::Pd => pd,
            Kind::Cq => cq,
            Kind::Qp => qp,
            Kind::CmId => cm_id,
            Kind::Mr => mr,
            Kind::Ctx => ctx,
            Kind::Counter => counter,
            Kind::Srq => srq,
            Kind::Dmah => dmah,
            Kind::CompCntr => comp_cntr,
        }
    }
}
