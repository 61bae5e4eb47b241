// SPDX-License-Identifier: GPL-2.0

//! Packets that a device sends to itself.
//!
//! They bypass the IP stack, and their ICRC is not checked: a packet is queued in a lane, and a
//! softirq delivers it to the device. A sender thus never runs a receiver in its own context. A
//! lane preserves order; queue pairs are distributed over several lanes.

use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

use rdma::net::Skb;
use rdma::net::SkbQueue;

use super::edge::Namespace;
use super::rx::RxPacket;
use super::rx::RxRun;
use super::rx::RxSink;

/// Number of lanes of a device, a power of two. Lanes run on different CPUs if their senders do.
pub(super) const LANES: usize = 4;

/// Maximum number of packets in a lane. Only datagrams, which may be lost, can exceed the total of
/// a few windows of 128 packets.
const LANE_LIMIT: u32 = 4096;

/// Metadata of a queued packet.
#[derive(
    Clone, Copy, zerocopy_derive::FromBytes, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable,
)]
#[repr(C)]
struct Note {
    vlan_plus_one: u16,
    v6: u16,
}

/// A queue of packets, and the softirq work that delivers them.
#[pin_data]
pub(super) struct Lane<S: RxSink> {
    queue: SkbQueue,
    /// Number of packets that are queued or being delivered.
    present: Atomic<u32>,
    namespace: Arc<Namespace<S>>,
    ifindex: u32,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl{S: RxSink} HasWork<Self> for Lane<S> { self.work }
}

impl<S: RxSink> Lane<S> {
    pub(super) fn new(namespace: Arc<Namespace<S>>, ifindex: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queue: SkbQueue::new(),
                present: Atomic::new(0),
                namespace,
                ifindex,
                work <- new_work!("rxe::Lane::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Appends a packet that starts with its IP header. Returns it if the lane is full. Softirq or
    /// process context.
    #[inline]
    pub(super) fn push(
        self: &Arc<Self>,
        mut skb: Skb,
        v6: bool,
        vlan: Option<u16>,
    ) -> Result<(), Skb> {
        if self.queue.len() >= LANE_LIMIT {
            return Err(skb);
        }
        skb.set_cb(Note {
            vlan_plus_one: vlan.map_or(0, |id| id.wrapping_add(1)),
            v6: v6.into(),
        });
        let _: u32 = self.present.fetch_add(1u32, Relaxed);
        if self.queue.push(skb) {
            // Fails if the work item is queued already or disabled permanently.
            let _: Result<(), Arc<Self>> = workqueue::system_bh().enqueue(self.clone());
        }
        Ok(())
    }

    /// Returns whether all packets of the lane have been delivered: to their receiver, or to its
    /// queue. Any context.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.present.load(Acquire) == 0
    }

    /// Stops delivery permanently and drops queued packets. May sleep.
    pub(super) fn close(self: &Arc<Self>) {
        drop(rdma::workqueue::disable::<Self, 0>(self));
        drop(self.queue.take_all());
    }
}

impl<S: RxSink> WorkItem for Lane<S> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let rcu = rcu::read_lock();
        let batch = this.queue.take_all();
        let sink = this.namespace.sink(this.ifindex, &rcu);
        for skb in batch {
            let delivery = Delivery(&this.present);
            let Some(sink) = &sink else {
                skb.discard();
                continue;
            };
            let note: Note = skb.cb();
            match RxPacket::from_local(skb, note.v6 != 0, note.vlan_plus_one.checked_sub(1)) {
                Ok(packet) => sink.receive(&mut RxRun::one(packet)),
                Err((skb, reason)) => {
                    sink.dropped(reason);
                    skb.discard();
                }
            }
            drop(delivery);
        }
    }
}

/// The delivery of one packet of a lane; counted when dropped.
struct Delivery<'a>(&'a Atomic<u32>);

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        // Release: who finds the lane empty comes after the delivery.
        let _: u32 = self.0.fetch_sub(1u32, Release);
    }
}
