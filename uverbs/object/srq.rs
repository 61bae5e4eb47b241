// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues. Programs post receives to them with commands of
//! [`post`](super::post).
//!
//! C headers: `struct ib_uverbs_create_srq` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::events::Asynchronous;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::srq;
use crate::edge::object::xrcd::DomainUse;
use crate::table::Def;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs;

/// Handles of shared receive queues.
pub(crate) struct Srq;

/// What a queue has beside its handle.
#[pin_data]
pub(crate) struct Beside {
    /// Its events.
    #[pin]
    pub(crate) events: Asynchronous,
    /// The XRC domain that it was made with, if any.
    domain: DomainUse,
}

impl Kind for Srq {
    const ID: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_SRQ;
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            events <- Asynchronous::new(),
            domain: DomainUse::new(),
        })
    }
}

impl Object for Srq {
    type Of = verbs::Srq;

    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        let dead = srq::destroy(object)?;
        let beside = dead.handle().beside();
        beside.domain.detach();
        beside.events.detach();
        Ok(dead)
    }
}

static TYPE: NumberedType<Srq> = NumberedType::new();

/// The table of shared receive queues.
pub(crate) const TABLE: &[Def] = &[Def::Tree(Tree {
    id: Srq::ID,
    of: Some(TYPE.get()),
    methods: &[],
})];
