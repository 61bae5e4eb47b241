// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0521 borrowed data escapes
//! The queues of a completion do not outlive the handler: nobody posts to a queue pair that is gone.
use rdma::ulp::Ends;
use rdma::ulp::Queues;

pub fn keep<'a, E: Ends>(queues: &'a Queues<E>, kept: &mut Option<&'a Queues<E>>) {
    *kept = Some(queues);
}

pub fn handler<E: Ends>(queues: &Queues<E>, place: &mut Option<&'static Queues<E>>) {
    #[cfg(wrong)]
    keep(queues, place);
    #[cfg(not(wrong))]
    let _ = (queues, place);
}
