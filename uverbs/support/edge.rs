// SPDX-License-Identifier: GPL-2.0

//! The C structures of open files and handles, as far as only this module needs them.
//!
//! | file | what |
//! |---|---|
//! | here | calls of users; the SRCU domain of a device |
//! | `handle` | references to handles, and the states that C passes them in |
//! | `file` | open files: their table and list of handles, their end |
//! | `classes` | types of objects: numbered ones and files |
//! | `charge` | rdma cgroup |
//! | `descriptors` | file descriptors and files |
//! | `flow`, `ucaps` | resources of flows; arguments for user capabilities |
//!
//! Structures that other modules use as well are in [`rdma::edge::uverbs`].

pub(crate) mod charge;
pub(crate) mod classes;
pub(crate) mod descriptors;
pub(crate) mod file;
pub(crate) mod flow;
pub(crate) mod handle;
pub(crate) mod ucaps;

use rdma::bindings;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;

rdma::c_struct! {
    /// A call of a user (`struct uverbs_attr_bundle`). `ib_uverbs` writes the file before it passes
    /// the call to others.
    pub(crate) struct Call: bindings::uverbs_attr_bundle;
    fields {
        /// The open file. It exists as long as the call.
        const file at __bindgen_anon_1.__bindgen_anon_1.ufile: &UFile;
    }
}

// SAFETY: `ib_uverbs` makes one for each call, which one task runs; `Opaque` is not `Sync`.
unsafe impl OfCall for Call {}

impl Call {
    /// Whether the context of the call is known.
    pub(crate) fn has_context(&self) -> bool {
        // SAFETY: Nobody else has the structure during the call (`OfCall`).
        unsafe {
            !(*self.raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .context
                .is_null()
        }
    }

    /// The context of the call, as an address.
    pub(crate) fn context_at(&self) -> *mut bindings::ib_ucontext {
        // SAFETY: As in `has_context`.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.context }
    }

    /// Sets the context to one that a context of C has, or null.
    fn put_context(&self, context: *mut bindings::ib_ucontext) {
        // SAFETY: As in `has_context`.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.context = context };
    }

    /// Sets the context.
    pub(crate) fn set_context(&self, context: Passed<bindings::ib_ucontext>) {
        self.put_context(rdma::edge::IntoC::into_c(context));
    }

    /// Sets the context to that of a handle, or to none if the handle has none any more.
    pub(crate) fn set_context_of(&self, handle: &Uobject) {
        self.put_context(handle.context_at());
    }
}

/// Runs `f` with a call that no user made: that of an open file which ends.
pub(crate) fn with_call<R>(file: &UFile, f: impl FnOnce(&Call) -> R) -> R {
    let mut bundle = bindings::uverbs_attr_bundle::default();
    bundle.__bindgen_anon_1.__bindgen_anon_1.ufile = file.raw();
    // SAFETY: The structure is initialised, and ours alone; the file is borrowed for longer.
    f(unsafe { Call::view(&raw mut bundle) })
}
