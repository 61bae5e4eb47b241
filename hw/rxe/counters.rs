// SPDX-License-Identifier: GPL-2.0

//! The device's counters, as `rdma statistic` and sysfs `hw_counters` show them.
//!
//! Each CPU has its own cache lines, so that counting does not write shared lines. Readers sum over
//! the CPUs and may miss concurrent increments. Names and order are those of the C driver;
//! additional counters come last.

use crate::proto;
use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use rdma::provider::StatDesc;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Index of a counter.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        /// Names in user space, in the order of [`Counter`].
        const NAMES: [&CStr; [$(Counter::$variant),*].len()] = [$($name),*];

        /// The same names, as the core takes them.
        pub(crate) static DESCRIPTIONS: [StatDesc; NAMES.len()] = [$(StatDesc::new($name)),*];
    };
}

counters! {
    /// Packets handed to the network.
    SentPackets => c"sent_pkts",
    /// Packets received with a good ICRC.
    ReceivedPackets => c"rcvd_pkts",
    /// Duplicate requests received.
    DuplicateRequest => c"duplicate_request",
    /// Requests received ahead of the expected PSN.
    OutOfSequenceRequest => c"out_of_seq_request",
    /// RNR NAKs received.
    ReceivedRnr => c"rcvd_rnr_err",
    /// RNR NAKs sent.
    SentRnr => c"send_rnr_err",
    /// PSN sequence NAKs received.
    ReceivedSequenceError => c"rcvd_seq_err",
    /// Turns that ended early and left work to the pump.
    Deferred => c"ack_deferred",
    /// Requests given up after `retry_cnt` tries.
    RetryExceeded => c"retry_exceeded_err",
    /// Requests given up after `rnr_retry` tries.
    RnrRetryExceeded => c"retry_rnr_exceeded_err",
    /// Times a requester went back to an earlier PSN to retransmit.
    Retry => c"completer_retry_err",
    /// Packets the network refused.
    SendError => c"send_err",
    /// Times the link went down.
    LinkDowned => c"link_downed",
    /// SEND messages started.
    Sends => c"rdma_sends",
    /// Receive work requests completed.
    Receives => c"rdma_recvs",
    /// Bytes handed to the network, including all headers from IP up.
    SentBytes => c"sent_bytes",
    /// Bytes received, counted in the same way.
    ReceivedBytes => c"rcvd_bytes",
    /// Packets of RC queue pairs marked with congestion (ECN). The C driver lacks this and the next
    /// two counters; the names are those of mlx5.
    Marked => c"np_ecn_marked_roce_packets",
    /// Congestion notifications sent.
    NoticesSent => c"np_cnp_sent",
    /// Congestion notifications received.
    NoticesReceived => c"rp_cnp_handled",
}

impl From<proto::Counter> for Counter {
    fn from(of: proto::Counter) -> Self {
        match of {
            proto::Counter::DuplicateRequest => Counter::DuplicateRequest,
            proto::Counter::OutOfSequenceRequest => Counter::OutOfSequenceRequest,
            proto::Counter::RnrSent => Counter::SentRnr,
            proto::Counter::RnrReceived => Counter::ReceivedRnr,
            proto::Counter::SequenceNakReceived => Counter::ReceivedSequenceError,
            proto::Counter::Retry => Counter::Retry,
            proto::Counter::RetryExceeded => Counter::RetryExceeded,
            proto::Counter::RnrRetryExceeded => Counter::RnrRetryExceeded,
            proto::Counter::Send => Counter::Sends,
            proto::Counter::Recv => Counter::Receives,
            proto::Counter::Marked => Counter::Marked,
            proto::Counter::NoticeSent => Counter::NoticesSent,
            proto::Counter::NoticeReceived => Counter::NoticesReceived,
        }
    }
}

/// Counters of one CPU, on their own cache lines.
#[repr(align(128))]
struct PerCpu([Atomic<i64>; NAMES.len()]);

/// All counters of a device.
pub(crate) struct Counters(KVVec<PerCpu>);

impl Counters {
    /// Creates counters at zero, one set for each possible CPU.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let cpus = usize::try_from(nr_cpu_ids())?;
        let mut sets = KVVec::with_capacity(cpus, GFP_KERNEL)?;
        for _ in 0..cpus {
            sets.push(PerCpu(core::array::from_fn(|_| Atomic::new(0))), GFP_KERNEL)?;
        }
        Ok(Self(sets))
    }

    /// Counts one event. Any context.
    #[inline]
    pub(crate) fn inc(&self, what: Counter) {
        self.add(what, 1);
    }

    /// Counts `n` events or bytes. Any context.
    ///
    /// The caller may migrate to another CPU in between. The addition is atomic, so no count is
    /// lost.
    #[inline]
    pub(crate) fn add(&self, what: Counter, n: i64) {
        let cpu = CpuId::current().as_u32();
        if let Some(set) = usize::try_from(cpu).ok().and_then(|i| self.0.get(i)) {
            if let Some(counter) = set.0.get(what as usize) {
                let _: i64 = counter.fetch_add(n, Relaxed);
            }
        }
    }

    /// Returns one counter, summed over all CPUs.
    pub(crate) fn sum(&self, what: Counter) -> u64 {
        self.sum_at(what as usize)
    }

    /// Returns the counter at `index` of [`NAMES`], summed over all CPUs; 0 for an unknown index.
    pub(crate) fn sum_at(&self, index: usize) -> u64 {
        self.0
            .iter()
            .filter_map(|set| set.0.get(index))
            .fold(0u64, |sum, c| sum.wrapping_add_signed(c.load(Relaxed)))
    }
}
