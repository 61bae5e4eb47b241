// SPDX-License-Identifier: GPL-2.0

//! Flows: rules which packets a queue pair receives. See [`crate::proto::flow`].
//!
//! C header: `struct ib_uverbs_create_flow` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::api::errno;
use crate::edge::abi::CreateFlow;
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
use crate::edge::object::device::Port;
use crate::edge::object::flow;
use crate::edge::object::flow::Resources;
use crate::edge::object::flow::Rules;
use crate::object::qp::Qp;
use crate::proto::flow::Header;
use crate::proto::flow::Specs;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_create_flow_resp;
use rdma::bindings::ib_uverbs_destroy_flow;

/// Handles of flows.
pub(crate) struct Flow;

impl Kind for Flow {
    type Beside = Resources;

    fn beside() -> impl PinInit<Resources> {
        Resources::none()
    }
}

impl Object for Flow {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        flow::destroy(object)
    }
}

static TYPE: NumberedType<Flow> = NumberedType::new();

/// The table of flows.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Flow::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_flow_UVERBS_METHOD_FLOW_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_flow_destroy_ids_UVERBS_ATTR_DESTROY_FLOW_HANDLE,
                Flow::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(destroy_flow)),
    Def::Write(Write::extended::<
        bindings::ib_uverbs_create_flow,
        ib_uverbs_create_flow_resp,
    >(bindings::IB_USER_VERBS_EX_CMD_CREATE_FLOW, create)),
    Def::CommandNeeds(needs!(create_flow)),
    Def::Write(Write::extended::<ib_uverbs_destroy_flow, ()>(
        bindings::IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
        destroy,
    )),
    Def::CommandNeeds(needs!(destroy_flow)),
];

fn create(call: &Call) -> Result {
    let (request, mut rest) = call.request_start::<CreateFlow>()?;
    if request.comp_mask != 0 {
        return Err(EINVAL);
    }
    if !flow::is_permitted(call) {
        return Err(EPERM);
    }
    let header = Header::parse(request.header);
    header.check().map_err(errno)?;
    let mut specs = KVec::from_elem(0_u8, header.size.into(), GFP_KERNEL)?;
    let from = rest.take(specs.len())?;
    from.read_slice(&mut specs)?;
    rest.finish()?;

    let new = New::<Flow>::begin(call)?;
    Port::of(new.device()?, header.port.into())?;
    let qp = Shared::<Qp>::get(call, request.qp_handle)?;
    if !matches!(
        qp.qp_type(),
        bindings::ib_qp_type_IB_QPT_UD | bindings::ib_qp_type_IB_QPT_RAW_PACKET
    ) {
        return Err(EINVAL);
    }
    let mut rules = Rules::new(&header)?;
    let mut specs = Specs::new(&header, &specs);
    while let Some(spec) = specs.next().map_err(errno)? {
        rules.add(call, &spec)?;
    }
    let made = flow::create(&new, &qp, rules)?;
    let handle = new.made(made);
    call.respond(|answer: &mut ib_uverbs_create_flow_resp| answer.flow_handle = handle.number())
}

fn destroy(call: &Call) -> Result {
    let request: ib_uverbs_destroy_flow = call.request()?;
    if request.comp_mask != 0 {
        return Err(EINVAL);
    }
    handle::destroy::<Flow>(call, request.flow_handle)
}
