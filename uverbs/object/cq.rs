// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! C headers: `struct ib_uverbs_create_cq` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::events::Asynchronous;
use crate::edge::events::Completions;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::cq;
use crate::table::Def;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs;

/// Handles of completion queues.
pub(crate) struct Cq;

/// The events of a queue, beside its handle.
#[pin_data]
pub(crate) struct Beside {
    /// Completions.
    #[pin]
    pub(crate) completions: Completions,
    /// Asynchronous events.
    #[pin]
    pub(crate) events: Asynchronous,
}

impl Beside {
    /// There are no more events.
    fn detach(&self) {
        self.completions.detach();
        self.events.detach();
    }
}

impl Kind for Cq {
    const ID: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_CQ;
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        pin_init!(Beside {
            completions <- Completions::new(),
            events <- Asynchronous::new(),
        })
    }
}

impl Object for Cq {
    type Of = verbs::Cq;

    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        let dead = cq::destroy(object)?;
        dead.handle().beside().detach();
        Ok(dead)
    }
}

static TYPE: NumberedType<Cq> = NumberedType::new();

/// The table of completion queues.
pub(crate) const TABLE: &[Def] = &[Def::Tree(Tree {
    id: Cq::ID,
    of: Some(TYPE.get()),
    methods: &[],
})];
