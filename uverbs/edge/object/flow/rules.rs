// SPDX-License-Identifier: GPL-2.0

//! The rules of flows as drivers take them. See [`crate::proto::flow`] for those of programs.
//!
//! C header: `struct ib_flow_attr` and `union ib_flow_spec` in `include/rdma/ib_verbs.h`.

use super::Uses;
use crate::edge::call::Call;
use crate::edge::handle::Shared;
use crate::object::counters::Counters;
use crate::object::flow_action::FlowAction;
use crate::proto::flow::Header;
use crate::proto::flow::Layer;
use crate::proto::flow::Spec;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_flow_attr;
use rdma::bindings::ib_flow_spec;

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
///
/// # Invariants
///
/// If `left` is 0, `attr` is such a structure with all of its specifications. Each object that one of
/// them names is in `uses`.
pub(crate) struct Rules {
    attr: KVec<u8>,
    uses: Uses,
    /// How many specifications are still to come; `None` if one could not be added.
    left: Option<u8>,
}

impl Rules {
    /// Without specifications, with room for those of the header. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(header: &Header) -> Result<Self> {
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
        // INVARIANT: Those of the header are to come.
        let mut this = Self {
            attr,
            uses: Uses::new(header.specs.into())?,
            left: Some(header.specs),
        };
        this.set_size()?;
        Ok(this)
    }

    fn set_size(&mut self) -> Result {
        let size = u16::try_from(self.attr.len())?;
        put(
            &mut self.attr,
            offset_of!(ib_flow_attr, size),
            &size.to_ne_bytes(),
        )
    }

    /// Adds a specification of `size` bytes, with these parts at these places.
    fn append(&mut self, kind: u32, size: usize, parts: &[(usize, &[u8])]) -> Result {
        let start = self.attr.len();
        self.attr.reserve(size, GFP_KERNEL)?;
        for _ in 0..size {
            self.attr.push_within_capacity(0).map_err(|_| ENOMEM)?;
        }
        let spec = self.attr.get_mut(start..).ok_or(EINVAL)?;
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

    /// The C structure.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is not complete.
    pub(super) fn attr(&mut self) -> Result<*mut ib_flow_attr> {
        let attr: *mut ib_flow_attr = self.attr.as_mut_ptr().cast();
        let complete = self.left == Some(0) && attr.is_aligned();
        complete.then_some(attr).ok_or(EINVAL)
    }

    /// The objects that the rules name.
    pub(super) fn into_uses(self) -> Uses {
        self.uses
    }

    /// Adds a specification; an object that it names is used by the flow then. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOENT`: no such object, or too many specifications; `ENOMEM`.
    pub(crate) fn add(&mut self, call: &Call, spec: &Spec<'_>) -> Result {
        let left = self.left.take().and_then(|left| left.checked_sub(1));
        let left = left.ok_or(EINVAL)?;
        self.write(call, spec)?;
        // INVARIANT: One more was added, as a whole.
        self.left = Some(left);
        Ok(())
    }

    fn write(&mut self, call: &Call, spec: &Spec<'_>) -> Result {
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
                let address = self.uses.add_action(&action)?.to_ne_bytes();
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
                let address = self.uses.add_counters(&set)?.to_ne_bytes();
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
