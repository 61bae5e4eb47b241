// SPDX-License-Identifier: GPL-2.0

//! The parameters of the exported functions, field by field.
//!
//! The consumer owns a structure, and what it points to, during the call. Must match
//! `include/rdma/ib_cm.h`.

use core::marker::PhantomData;
use core::ops::Deref;
use core::slice;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs;
use rdma::edge::verbs::GidAttr;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::Within;
use rdma::mad::Path;
use rdma::mad::Route;

/// Data of a consumer, without its length.
pub(crate) struct Start<'a>(*const u8, PhantomData<&'a [u8]>);

// SAFETY: The contract of `from_c` is that `c` is null or points to as many bytes as another argument
// of the call says, which do not change during the call.
unsafe impl FromC for Start<'_> {
    type C = *const c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c.cast(), PhantomData)
    }
}
// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Start<'a> {}

/// Length of data of a consumer. Only a call of C makes one, so it belongs to the data of the call.
pub(crate) struct Length(u8);

// SAFETY: The contract of `from_c` is that `c` is the length of the data of the same call.
unsafe impl FromC for Length {
    type C = u8;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: It contains no references.
unsafe impl Within<'_> for Length {}

impl<'a> Start<'a> {
    /// Returns the data; none if the pointer is null. `length` is that of the same call.
    pub(crate) fn data(self, length: Length) -> &'a [u8] {
        // SAFETY: Both are arguments of one call, and belong together (contracts of `from_c`).
        unsafe { data(self.0, length.0) }
    }
}

/// # Safety
///
/// `start` is null or points to `length` bytes that do not change during `'a`.
unsafe fn data<'a>(start: *const u8, length: u8) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: Not null, so it points to these bytes (contract of this function).
    unsafe { slice::from_raw_parts(start, length.into()) }
}

/// Additional information of a rejection, which C does not declare constant.
pub(crate) struct Ari<'a>(Start<'a>);

// SAFETY: As for `Start`.
unsafe impl FromC for Ari<'_> {
    type C = *mut c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(Start(c.cast_const().cast(), PhantomData))
    }
}
// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Ari<'a> {}

/// Length of additional information, see [`Length`].
pub(crate) struct AriLength(Length);

// SAFETY: As for `Length`.
unsafe impl FromC for AriLength {
    type C = u8;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(Length(c))
    }
}
// SAFETY: It contains no references.
unsafe impl Within<'_> for AriLength {}

impl<'a> Ari<'a> {
    /// As [`Start::data`].
    pub(crate) fn data(self, length: AriLength) -> &'a [u8] {
        self.0.data(length.0)
    }
}

/// Copies a path record.
fn path(raw: Passed<bindings::sa_path_rec>) -> Option<Path> {
    // SAFETY: Null, or a record that exists during the call (see the module); a structure of
    // numbers.
    unsafe { raw.as_ptr().cast::<Path>().as_ref() }.cloned()
}

rdma::c_struct! {
    /// Parameters of `ib_send_cm_req`.
    pub(crate) struct ReqParam: bindings::ib_cm_req_param;
    fields {
        cell primary_path_raw at primary_path: Passed<bindings::sa_path_rec>;
        cell inbound_raw at primary_path_inbound: Passed<bindings::sa_path_rec>;
        cell outbound_raw at primary_path_outbound: Passed<bindings::sa_path_rec>;
        cell alternate_raw at alternate_path: Passed<bindings::sa_path_rec>;
        /// The local GID.
        cell gid at ppath_sgid_attr: Option<In<'_, GidAttr>>;
        /// In network byte order.
        cell service_id: u64;
        cell qp_num: u32;
        /// `enum ib_qp_type`.
        cell qp_type: u32;
        cell starting_psn: u32;
        cell private_start at private_data: Start<'_>;
        cell private_data_len: u8;
        cell responder_resources: u8;
        cell initiator_depth: u8;
        cell remote_cm_response_timeout: u8;
        cell flow_control: u8;
        cell local_cm_response_timeout: u8;
        cell retry_count: u8;
        cell rnr_retry_count: u8;
        cell max_cm_retries: u8;
        cell srq: u8;
        cell vendor_id at ece.vendor_id: u32;
        cell attr_mod at ece.attr_mod: u32;
    }
}
// SAFETY: The consumer passes it for the call, see the module; `Opaque` is not `Sync`.
unsafe impl OfCall for ReqParam {}

impl ReqParam {
    /// The primary path.
    pub(crate) fn primary(&self) -> Option<Path> {
        path(self.primary_path_raw())
    }

    /// The path of the peer's packets, if it leaves the subnet.
    pub(crate) fn inbound(&self) -> Option<Path> {
        path(self.inbound_raw())
    }

    /// The path of our packets, if it leaves the subnet.
    pub(crate) fn outbound(&self) -> Option<Path> {
        path(self.outbound_raw())
    }

    /// The alternate path.
    pub(crate) fn alternate(&self) -> Option<Path> {
        path(self.alternate_raw())
    }

    /// The private data.
    pub(crate) fn private(&self) -> &[u8] {
        self.private_start().data(Length(self.private_data_len()))
    }
}

rdma::c_struct! {
    /// Parameters of `ib_send_cm_rep`.
    pub(crate) struct RepParam: bindings::ib_cm_rep_param;
    fields {
        cell qp_num: u32;
        cell starting_psn: u32;
        cell private_start at private_data: Start<'_>;
        cell private_data_len: u8;
        cell responder_resources: u8;
        cell initiator_depth: u8;
        cell failover_accepted: u8;
        cell flow_control: u8;
        cell rnr_retry_count: u8;
        cell srq: u8;
        cell vendor_id at ece.vendor_id: u32;
        cell attr_mod at ece.attr_mod: u32;
    }
}
// SAFETY: The consumer passes it for the call, see the module; `Opaque` is not `Sync`.
unsafe impl OfCall for RepParam {}

impl RepParam {
    /// The private data.
    pub(crate) fn private(&self) -> &[u8] {
        self.private_start().data(Length(self.private_data_len()))
    }
}

rdma::c_struct! {
    /// Parameters of `ib_send_cm_sidr_req`.
    pub(crate) struct SidrReqParam: bindings::ib_cm_sidr_req_param;
    fields {
        cell path_raw at path: Passed<bindings::sa_path_rec>;
        /// The local GID.
        cell gid at sgid_attr: Option<In<'_, GidAttr>>;
        /// In network byte order.
        cell service_id: u64;
        cell timeout_ms: usize;
        cell private_start at private_data: Start<'_>;
        cell private_data_len: u8;
        cell max_cm_retries: u8;
    }
}
// SAFETY: The consumer passes it for the call, see the module; `Opaque` is not `Sync`.
unsafe impl OfCall for SidrReqParam {}

impl SidrReqParam {
    /// The path.
    pub(crate) fn path(&self) -> Option<Path> {
        path(self.path_raw())
    }

    /// The private data.
    pub(crate) fn private(&self) -> &[u8] {
        self.private_start().data(Length(self.private_data_len()))
    }
}

rdma::c_struct! {
    /// Parameters of `ib_send_cm_sidr_rep`.
    pub(crate) struct SidrRepParam: bindings::ib_cm_sidr_rep_param;
    fields {
        cell qp_num: u32;
        cell qkey: u32;
        /// `enum ib_cm_sidr_status`.
        cell status: u32;
        cell info_start at info: Start<'_>;
        cell info_length: u8;
        cell private_start at private_data: Start<'_>;
        cell private_data_len: u8;
        cell vendor_id at ece.vendor_id: u32;
        cell attr_mod at ece.attr_mod: u32;
    }
}
// SAFETY: The consumer passes it for the call, see the module; `Opaque` is not `Sync`.
unsafe impl OfCall for SidrRepParam {}

impl SidrRepParam {
    /// The additional information.
    pub(crate) fn info(&self) -> &[u8] {
        self.info_start().data(Length(self.info_length()))
    }

    /// The private data.
    pub(crate) fn private(&self) -> &[u8] {
        self.private_start().data(Length(self.private_data_len()))
    }
}

/// The mask of attributes of a queue pair, which `ib_cm_init_qp_attr` writes.
pub(crate) type Mask<'a> = rdma::edge::OutParam<'a, i32>;

/// The attributes of a queue pair, which the consumer owns during the call. It uses their address
/// vectors only while the ID exists, and does not drop their GID references.
pub(crate) struct QpAttr<'a>(&'a verbs::QpAttr);

// SAFETY: The contract of `from_c` is that of the reference, and what the type says.
unsafe impl FromC for QpAttr<'_> {
    type C = *mut bindings::ib_qp_attr;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Attributes that are valid during the call (contract of this function).
        Self(unsafe { FromC::from_c(c) })
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for QpAttr<'a> {}

impl Deref for QpAttr<'_> {
    type Target = verbs::QpAttr;

    fn deref(&self) -> &verbs::QpAttr {
        self.0
    }
}

impl QpAttr<'_> {
    /// Sets the address vector to that of a route of the ID.
    pub(crate) fn set_route(&self, route: &Route) {
        // SAFETY: The consumer uses the vector while the ID, and so the route, exists (contract of
        // `from_c`).
        unsafe { route.lend_to(self.ah_attr()) };
    }

    /// Sets the alternate address vector to that of a route of the ID.
    pub(crate) fn set_alternate_route(&self, route: &Route) {
        // SAFETY: As in `set_route`.
        unsafe { route.lend_to(self.alt_ah_attr()) };
    }
}

// The layout that consumers rely on.
const _: () = assert!(size_of::<bindings::ib_cm_id>() == 56);
