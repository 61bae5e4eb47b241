// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 set_dm

//! The device memory of a region, replaced by another: the use of the other one is not counted, so it
//! may be freed before the region.

use rdma::edge::object::Owned;
use rdma::edge::verbs::Dm;
use rdma::edge::verbs::Mr;

pub fn replace(mr: &mut Owned<Mr>, _dm: &Dm) {
    Mr::set_iova(mr, 0);
    #[cfg(wrong)]
    Mr::set_dm(mr, Some(_dm));
    #[cfg(wrong)]
    Mr::set_dmah(mr, None);
}
