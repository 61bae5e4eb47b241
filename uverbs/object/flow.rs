// SPDX-License-Identifier: GPL-2.0

//! Flows: rules which packets a queue pair receives. See [`crate::proto::flow`].
//!
//! C headers: `struct ib_uverbs_create_flow` and others in `include/uapi/rdma/ib_user_verbs.h`;
//! `struct ib_flow_attr` and `union ib_flow_spec` in `include/rdma/ib_verbs.h`.

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
use crate::edge::object::flow::Uses;
use crate::object::counters::Counters;
use crate::object::flow_action::FlowAction;
use crate::object::qp::Qp;
use crate::proto::flow::Header;
use crate::proto::flow::Layer;
use crate::proto::flow::Spec;
use crate::proto::flow::Specs;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_flow_attr;
use rdma::bindings::ib_flow_spec;
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
    let mut uses = Uses::new(header.specs.into())?;
    let mut specs = Specs::new(&header, &specs);
    while let Some(spec) = specs.next().map_err(errno)? {
        rules.add(call, &spec, &mut uses)?;
    }
    let made = flow::create(&new, &qp, &mut rules.0, uses)?;
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

/// Where things are in a specification for drivers.
struct Layout {
    size: usize,
    value: usize,
    mask: usize,
}

impl Layout {
    /// That of a filter.
    const fn of(layer: Layer) -> Self {
        macro_rules! layout {
            ($spec:ident) => {
                Layout {
                    size: size_of::<bindings::$spec>(),
                    value: offset_of!(bindings::$spec, val),
                    mask: offset_of!(bindings::$spec, mask),
                }
            };
        }
        match layer {
            Layer::Eth => layout!(ib_flow_spec_eth),
            Layer::Ipv4 => layout!(ib_flow_spec_ipv4),
            Layer::Ipv6 => layout!(ib_flow_spec_ipv6),
            Layer::Esp => layout!(ib_flow_spec_esp),
            Layer::Tcp | Layer::Udp => layout!(ib_flow_spec_tcp_udp),
            Layer::Vxlan => layout!(ib_flow_spec_tunnel),
            Layer::Gre => layout!(ib_flow_spec_gre),
            Layer::Mpls => layout!(ib_flow_spec_mpls),
        }
    }
}

/// Writes bytes at a place.
fn put(to: &mut [u8], at: usize, bytes: &[u8]) -> Result {
    let end = at.checked_add(bytes.len()).ok_or(EINVAL)?;
    let place = to.get_mut(at..end).ok_or(EINVAL)?;
    place.copy_from_slice(bytes);
    Ok(())
}

/// The rules of a flow for drivers (`struct ib_flow_attr`): bytes, since the specifications follow
/// one another without regard to their alignment.
struct Rules(KVec<u8>);

impl Rules {
    /// Without specifications, with room for those of the header.
    fn new(header: &Header) -> Result<Self> {
        let most = usize::from(header.specs).saturating_mul(size_of::<ib_flow_spec>());
        let most = most.saturating_add(size_of::<ib_flow_attr>());
        let mut attr = KVec::with_capacity(most, GFP_KERNEL)?;
        attr.resize(size_of::<ib_flow_attr>(), 0, GFP_KERNEL)?;
        let (kind, flags, port) = (header.kind, header.flags, u32::from(header.port));
        put(
            &mut attr,
            offset_of!(ib_flow_attr, type_),
            &kind.to_ne_bytes(),
        )?;
        put(
            &mut attr,
            offset_of!(ib_flow_attr, priority),
            &header.priority.to_ne_bytes(),
        )?;
        put(
            &mut attr,
            offset_of!(ib_flow_attr, flags),
            &flags.to_ne_bytes(),
        )?;
        put(
            &mut attr,
            offset_of!(ib_flow_attr, num_of_specs),
            &[header.specs],
        )?;
        put(
            &mut attr,
            offset_of!(ib_flow_attr, port),
            &port.to_ne_bytes(),
        )?;
        let mut this = Self(attr);
        this.set_size()?;
        Ok(this)
    }

    fn set_size(&mut self) -> Result {
        let size = u16::try_from(self.0.len())?;
        put(
            &mut self.0,
            offset_of!(ib_flow_attr, size),
            &size.to_ne_bytes(),
        )
    }

    /// Adds a specification of `size` bytes, with these parts at these places.
    fn append(&mut self, kind: u32, size: usize, parts: &[(usize, &[u8])]) -> Result {
        let start = self.0.len();
        self.0.reserve(size, GFP_KERNEL)?;
        for _ in 0..size {
            self.0.push_within_capacity(0).map_err(|_| ENOMEM)?;
        }
        let spec = self.0.get_mut(start..).ok_or(EINVAL)?;
        // All specifications begin with these two.
        put(spec, offset_of!(Tag, type_), &kind.to_ne_bytes())?;
        put(
            spec,
            offset_of!(Tag, size),
            &u16::try_from(size)?.to_ne_bytes(),
        )?;
        for (at, bytes) in parts {
            put(spec, *at, bytes)?;
        }
        self.set_size()
    }

    /// Adds a specification; an object that it names is used by the flow then. May sleep.
    fn add(&mut self, call: &Call, spec: &Spec<'_>, uses: &mut Uses) -> Result {
        match *spec {
            Spec::Filter {
                kind,
                layer,
                inner: _,
                value,
                mask,
            } => {
                let layout = Layout::of(layer);
                let parts = [(layout.value, value), (layout.mask, mask)];
                self.append(kind, layout.size, &parts)
            }
            Spec::Tag(tag) => {
                let tag = tag.to_ne_bytes();
                let parts = [(offset_of!(Tag, tag_id), tag.as_slice())];
                let kind = bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_TAG;
                self.append(kind, size_of::<Tag>(), &parts)
            }
            Spec::Drop => self.append(
                bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_DROP,
                size_of::<bindings::ib_flow_spec_action_drop>(),
                &[],
            ),
            Spec::Action(handle) => {
                type C = bindings::ib_flow_spec_action_handle;
                let action = Shared::<FlowAction>::get(call, handle)?;
                let address = uses.add_action(&action)?.to_ne_bytes();
                let kind = bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_HANDLE;
                self.append(
                    kind,
                    size_of::<C>(),
                    &[(offset_of!(C, act), address.as_slice())],
                )
            }
            Spec::Count(handle) => {
                type C = bindings::ib_flow_spec_action_count;
                let set = Shared::<Counters>::get(call, handle)?;
                let address = uses.add_counters(&set)?.to_ne_bytes();
                let kind = bindings::ib_flow_spec_type_IB_FLOW_SPEC_ACTION_COUNT;
                self.append(
                    kind,
                    size_of::<C>(),
                    &[(offset_of!(C, counters), address.as_slice())],
                )
            }
        }
    }
}

type Tag = bindings::ib_flow_spec_action_tag;
