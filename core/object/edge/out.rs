// SPDX-License-Identifier: GPL-2.0

//! Structures with address vectors that C hands over to be filled.

use super::tables::AhAttr;
use super::tables::QpAttr;
use core::ops::Deref;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;

/// A structure that C has filled, as far as it has, and that is to be filled by us: what it says
/// of references means nothing.
pub(crate) struct Out<'a, V>(&'a V);

impl<V> Deref for Out<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: It is of `'a`.
unsafe impl<'a, V> Within<'a> for Out<'a, V> where Self: FromC {}
// SAFETY: References are taken out before anybody sees the vector.
unsafe impl FromC for Out<'_, AhAttr> {
    type C = *mut bindings::rdma_ah_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: the memory is a vector's, of this call alone.
        unsafe {
            (*c).grh.sgid_attr = core::ptr::null();
            Self(AhAttr::view(c))
        }
    }
}

// SAFETY: References are taken out before anybody sees the vectors.
unsafe impl FromC for Out<'_, QpAttr> {
    type C = *mut bindings::ib_qp_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract: the memory is two vectors' and more, of this call alone.
        unsafe {
            (*c).ah_attr.grh.sgid_attr = core::ptr::null();
            (*c).alt_ah_attr.grh.sgid_attr = core::ptr::null();
            Self(QpAttr::view(c))
        }
    }
}
