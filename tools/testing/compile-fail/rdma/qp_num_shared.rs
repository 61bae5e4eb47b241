// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0596

//! The number of a queue pair is set through a shared reference, by a plain write, while another
//! reference may be used to read it.

use rdma::provider::New;
use rdma::provider::Provider;
use rdma::provider::Qp;

/// Sets it.
pub fn number<P: Provider>(
    #[cfg(not(wrong))] qp: &mut New<'_, Qp<P>>,
    #[cfg(wrong)] qp: &New<'_, Qp<P>>,
) {
    qp.set_qp_num(2);
}
