// SPDX-License-Identifier: GPL-2.0

//! Address handles.
//!
//! C headers: `struct ib_uverbs_create_ah` and others in `include/uapi/rdma/ib_user_verbs.h`.

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
use crate::edge::object::ah;
use crate::edge::object::device::Port;
use crate::object::pd::Pd;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_ah_attr;
use rdma::bindings::ib_uverbs_create_ah;
use rdma::bindings::ib_uverbs_create_ah_resp;
use rdma::bindings::ib_uverbs_destroy_ah;
use rdma::edge::verbs::AhAttr;

/// Handles of address handles.
pub(crate) struct Ah;

impl Kind for Ah {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Ah {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        ah::destroy(object)
    }
}

static TYPE: NumberedType<Ah> = NumberedType::new();

/// The table of address handles.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Ah::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_ah_UVERBS_METHOD_AH_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_ah_destroy_ids_UVERBS_ATTR_DESTROY_AH_HANDLE,
                Ah::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(destroy_ah)),
    Def::Write(
        Write::both::<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_AH,
            create,
        )
        .udata(),
    ),
    Def::Write(Write::input::<ib_uverbs_destroy_ah>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_AH,
        destroy,
    )),
    Def::ObjectNeeds(needs!(create_user_ah)),
];

/// The address vector that a program describes, of its port.
pub(crate) fn vector(port: Port<'_>, asked: &ib_uverbs_ah_attr) -> AhAttr {
    let attr = AhAttr::default();
    let kind = port.vector_type();
    attr.set_kind(kind);
    match kind {
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
            attr.set_ib(asked.dlid, asked.src_path_bits);
        }
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
            attr.set_opa(asked.dlid.into(), asked.src_path_bits, false);
        }
        _ => {}
    }
    attr.set_sl(asked.sl);
    attr.set_static_rate(asked.static_rate);
    attr.set_port_num(asked.port_num.into());
    if asked.is_global != 0 {
        // CAST: Flags of eight bits.
        attr.set_ah_flags(bindings::ib_ah_flags_IB_AH_GRH as u8);
        attr.set_flow_label(asked.grh.flow_label);
        attr.set_sgid_index(asked.grh.sgid_index);
        attr.set_hop_limit(asked.grh.hop_limit);
        attr.set_traffic_class(asked.grh.traffic_class);
        attr.set_destination(asked.grh.dgid);
    }
    attr
}

fn create(call: &Call) -> Result {
    let request: ib_uverbs_create_ah = call.request()?;
    let mut new = New::<Ah>::begin(call)?;
    let port = Port::of(new.device()?, request.attr.port_num.into())?;
    let pd = Shared::<Pd>::get(call, request.pd_handle)?;
    let made = ah::create(&new, &pd, &vector(port, &request.attr))?;
    drop(pd);
    new.set_user_handle(request.user_handle);
    let handle = new.made(made);
    call.respond(|answer: &mut ib_uverbs_create_ah_resp| answer.ah_handle = handle.number())
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_destroy_ah = call.request()?;
    handle::destroy::<Ah>(call, request.ah_handle)
}
