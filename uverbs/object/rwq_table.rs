// SPDX-License-Identifier: GPL-2.0

//! Indirection tables of work queues, over which a queue pair spreads what it receives (RSS).
//!
//! C headers: `struct ib_uverbs_ex_create_rwq_ind_table` and others in
//! `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::rwq_table;
use crate::table::Def;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs;

/// Handles of indirection tables.
pub(crate) struct RwqTable;

impl Kind for RwqTable {
    const ID: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_RWQ_IND_TBL;
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for RwqTable {
    type Of = verbs::RwqTable;

    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        if object.object().usecnt().is_used() {
            return Err(EBUSY);
        }
        rwq_table::destroy(object)
    }
}

static TYPE: NumberedType<RwqTable> = NumberedType::new();

/// The table of indirection tables.
pub(crate) const TABLE: &[Def] = &[Def::Tree(Tree {
    id: RwqTable::ID,
    of: Some(TYPE.get()),
    methods: &[],
})];
