// SPDX-License-Identifier: GPL-2.0

//! Indirection tables of work queues, over which a queue pair spreads what it receives (RSS).
//!
//! C headers: `struct ib_uverbs_ex_create_rwq_ind_table` and others in
//! `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::handle::Shared;
use crate::edge::object::rwq_table;
use crate::edge::unsupported;
use crate::object::wq::Wq;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_ex_create_rwq_ind_table;
use rdma::bindings::ib_uverbs_ex_create_rwq_ind_table_resp;
use rdma::bindings::ib_uverbs_ex_destroy_rwq_ind_table;
use rdma::edge::object::Use;

/// Handles of indirection tables.
pub(crate) struct RwqTable;

impl Kind for RwqTable {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for RwqTable {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        rwq_table::destroy(object)
    }
}

static TYPE: NumberedType<RwqTable> = NumberedType::new();

/// The table of indirection tables.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: RwqTable::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_rwq_ind_tbl_UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_rwq_ind_tbl_destroy_ids_UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
                RwqTable::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(destroy_rwq_ind_table)),
    Def::Write(Write::extended::<ib_uverbs_ex_create_rwq_ind_table, ib_uverbs_ex_create_rwq_ind_table_resp>(
        bindings::IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL,
        create,
    )),
    Def::CommandNeeds(needs!(create_rwq_ind_table)),
    Def::Write(Write::extended::<ib_uverbs_ex_destroy_rwq_ind_table, ()>(
        bindings::IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
        destroy,
    )),
    Def::CommandNeeds(needs!(destroy_rwq_ind_table)),
];

fn create(call: &Call) -> Result {
    let (request, mut rest) = call.request_start::<ib_uverbs_ex_create_rwq_ind_table>()?;
    if request.comp_mask != 0 {
        return Err(unsupported());
    }
    let log_size = request.log_ind_tbl_size;
    if log_size > bindings::IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE {
        return Err(EINVAL);
    }
    let count = 1_usize.checked_shl(log_size).ok_or(EINVAL)?;
    let mut numbers = KVec::<u32>::with_capacity(count, GFP_KERNEL)?;
    numbers.resize(count, 0, GFP_KERNEL)?;
    rest.take(size_of_val(numbers.as_slice()))?
        .read_slice(&mut numbers)?;
    rest.finish()?;

    // The queues, locked for the call, and the table's uses of them.
    let mut queues = KVVec::<(Shared<'_, Wq>, Use)>::with_capacity(count, GFP_KERNEL)?;
    for number in &numbers {
        let queue = Shared::<Wq>::get(call, *number)?;
        let used = queue.usecnt().count();
        queues.push((queue, used), GFP_KERNEL)?;
    }
    let new = New::<RwqTable>::begin(call)?;
    let made = rwq_table::create(&new, log_size, queues.iter().map(|(queue, _)| &**queue))?;
    for (_, used) in queues {
        used.keep();
    }
    let number = made.ind_tbl_num();
    let handle = new.made(made);
    call.respond(|answer: &mut ib_uverbs_ex_create_rwq_ind_table_resp| {
        answer.response_length = call.response_length::<ib_uverbs_ex_create_rwq_ind_table_resp>();
        answer.ind_tbl_handle = handle.number();
        answer.ind_tbl_num = number;
    })
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_ex_destroy_rwq_ind_table = call.request()?;
    if request.comp_mask != 0 {
        return Err(unsupported());
    }
    handle::destroy::<RwqTable>(call, request.ind_tbl_handle)
}
