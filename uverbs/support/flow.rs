// SPDX-License-Identifier: GPL-2.0

//! The objects that a flow uses: flow actions and counters. They are counted as used until the
//! resources of the flow are freed, so neither is destroyed before the flow.

use super::edge::flow::Filled;
use super::edge::flow::Freed;
use super::edge::flow::Given;
use super::edge::flow::Kind;
use super::edge::flow::Object;
use super::edge::flow::Resources;

/// Allocates the resources of a flow of at most `specs` specifications. May sleep.
fn alloc(specs: usize) -> Given {
    Given(Resources::new(specs).ok())
}

/// Counts one use of an object. Warns, and counts nothing, if there is no room or the kind is not
/// that of an object.
fn add(mut resources: Filled<'_>, kind: Kind<'_>, object: Object<'_>) {
    if kernel::warn_on!(!resources.has_room()) {
        return;
    }
    let used = object.counted(kind);
    kernel::warn_on!(used.is_none());
    resources.add(used);
}

/// Frees the resources of a flow, if any, and gives their uses back.
fn free(resources: Freed) {
    drop(resources);
}

rdma::export! {
    in rdma::bindings;

    /// See [`alloc`].
    fn flow_resources_alloc(specs: usize) -> Given = alloc;
    /// See [`add`].
    fn flow_resources_add(resources: Filled<'_>, kind: Kind<'_>, object: Object<'_>) = add;
    /// See [`free`].
    fn ib_uverbs_flow_resources_free(resources: Freed) = free;
}
