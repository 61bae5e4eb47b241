// SPDX-License-Identifier: GPL-2.0

//! Trace events of memory regions.

use crate::object::Mr;
use crate::object::Owned;
use crate::object::Pd;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::View;

/// Result of a region allocation, as an argument of a trace event.
pub(super) struct MadeMr<'a>(pub(super) &'a Result<Owned<Mr>>);

impl IntoC<*mut bindings::ib_mr> for MadeMr<'_> {
    fn into_c(self) -> *mut bindings::ib_mr {
        match self.0 {
            Ok(mr) => mr.raw(),
            Err(error) => error.to_ptr(),
        }
    }
}

/// Trace events of `include/trace/events/rdma_core.h`.
macro_rules! events {
    ($( $(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $helper:ident; )*) => { $(
        $(#[$meta])*
        #[inline]
        pub(super) fn $name($($arg: $ty),*) {
            // SAFETY: The arguments are borrowed, so the objects are valid. The events also accept
            // an error pointer as region.
            unsafe { bindings::$helper($(IntoC::into_c($arg)),*) };
        }
    )* };
}

events! {
    /// Before a region is destroyed.
    fn trace_mr_dereg(mr: &Mr) = rdma_helper_trace_mr_dereg;
    /// After the allocation of a region, successful or not.
    fn trace_mr_alloc(pd: &Pd, mr_type: u32, max_sg: u32, mr: MadeMr<'_>)
        = rdma_helper_trace_mr_alloc;
    /// After the allocation of a region with protection information, successful or not.
    fn trace_mr_integ_alloc(pd: &Pd, data: u32, meta: u32, mr: MadeMr<'_>)
        = rdma_helper_trace_mr_integ_alloc;
}
