// SPDX-License-Identifier: GPL-2.0

//! Output parameters of C callers that contain address vectors.

use super::tables::AhAttr;
use super::tables::QpAttr;
use core::ops::Deref;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;

/// A structure of a C caller that the callee fills in. Its GID references are uninitialised.
pub(crate) struct Out<'a, V>(&'a V);

impl<V> Deref for Out<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a, V> Within<'a> for Out<'a, V> where Self: FromC {}
// SAFETY: The uninitialised GID reference is cleared before the vector is used.
unsafe impl FromC for Out<'_, AhAttr> {
    type C = *mut bindings::rdma_ah_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: points to an address vector that only this call uses.
        unsafe {
            (*c).grh.sgid_attr = core::ptr::null();
            Self(AhAttr::view(c))
        }
    }
}

// SAFETY: The uninitialised GID references are cleared before the vectors are used.
unsafe impl FromC for Out<'_, QpAttr> {
    type C = *mut bindings::ib_qp_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: points to a structure with two address vectors that only
        // this call uses.
        unsafe {
            (*c).ah_attr.grh.sgid_attr = core::ptr::null();
            (*c).alt_ah_attr.grh.sgid_attr = core::ptr::null();
            Self(QpAttr::view(c))
        }
    }
}
