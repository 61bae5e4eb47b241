// SPDX-License-Identifier: GPL-2.0

//! Flow actions, which flows use. Only methods of drivers make them.
//!
//! C header: `enum uverbs_methods_actions_flow_action_ops` in
//! `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use crate::edge::definitions::needs;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::flow_action;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;

/// Handles of flow actions.
pub(crate) struct FlowAction;

impl Kind for FlowAction {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for FlowAction {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        flow_action::destroy(object)
    }
}

static TYPE: NumberedType<FlowAction> = NumberedType::new();

/// The table of flow actions.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: FlowAction::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_actions_flow_action_ops_UVERBS_METHOD_FLOW_ACTION_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_destroy_flow_action_esp_UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE,
                FlowAction::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(destroy_flow_action)),
];
