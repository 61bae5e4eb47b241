// SPDX-License-Identifier: GPL-2.0

//! Completion queues and queue pairs of softpair, independent of the verbs.
//!
//! Both are reference-counted and may outlive their verbs objects: a sender may have looked up a
//! queue pair that is being destroyed. The locks are spinlocks that disable interrupts, because
//! data path verbs are called in any context. They do not nest. Consumers are called from a work
//! item in softirq, never from within a verb.
//!
//! A receive that a sender has taken is neither in the queue nor completed while the message is copied.
//! Such deliveries are counted, and the verbs after which a consumer may reuse its memory wait for
//! them: [`QpCore::settle`].

use crate::edge::copy;
use crate::module_parameters;
use crate::Softpair;
use crate::KEY;
use kernel::impl_has_work;
use kernel::new_condvar;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::CondVar;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::features::param;
use rdma::new_spinlock_irq;
use rdma::provider::wc::QpToken;
use rdma::provider::*;
use rdma::sync::SpinLockIrq;
use rdma::sync::SpinLockIrqGuard;
use rdma::table::Table;

/// Maximum message length in bytes.
pub(crate) const MAX_MESSAGE: u32 = 1 << 20;

/// A ring buffer of fixed capacity, allocated at creation.
struct Ring<T> {
    slots: KVec<Option<T>>,
    first: usize,
    used: usize,
}

impl<T> Ring<T> {
    fn new(limit: u32) -> Result<Self> {
        let limit = usize::try_from(limit).map_err(|_| EINVAL)?;
        let mut slots = KVec::with_capacity(limit, GFP_KERNEL)?;
        for _ in 0..limit {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            used: 0,
        })
    }

    /// Wraps an index that is at most one round beyond the end.
    fn wrap(&self, i: usize) -> usize {
        i.checked_sub(self.slots.len()).unwrap_or(i)
    }

    /// Adds an entry; `ENOMEM` if there is no room.
    fn push(&mut self, item: T) -> Result {
        if self.used == self.slots.len() {
            return Err(ENOMEM);
        }
        // Both are at most the number of slots, which are allocated memory: no sum saturates.
        let i = self.wrap(self.first.saturating_add(self.used));
        *self.slots.get_mut(i).ok_or(ENOMEM)? = Some(item);
        self.used = self.used.saturating_add(1);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.first)?.take()?;
        // `first` is less than the number of slots; `used` is not zero, as there was an
        // item.
        self.first = self.wrap(self.first.saturating_add(1));
        self.used = self.used.saturating_sub(1);
        Some(item)
    }
}

struct CqInner {
    done: Ring<Wc>,
    /// The kind of completion that notifies the consumer.
    armed: NotifyFlags,
    overrun: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct CqCore {
    upcall: CqUpcall,
    #[pin]
    inner: SpinLockIrq<CqInner>,
    #[pin]
    work: Work<CqCore>,
}

impl_has_work! {
    impl HasWork<Self> for CqCore { self.work }
}

impl WorkItem for CqCore {
    type Pointer = Arc<CqCore>;

    fn run(this: Arc<CqCore>) {
        if this.inner.lock().overrun {
            this.upcall.error();
        } else {
            this.upcall.completed();
        }
    }
}

impl CqCore {
    pub(crate) fn new(entries: u32, upcall: CqUpcall) -> Result<Arc<Self>> {
        let inner = CqInner {
            done: Ring::new(entries)?,
            armed: NotifyFlags::from_raw(0),
            overrun: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                upcall,
                inner <- new_spinlock_irq!(inner, "CqCore::inner"),
                work <- new_work!("CqCore::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a completion. `solicited` completions also notify consumers that wait only for those.
    fn complete(self: &Arc<Self>, wc: Wc, solicited: bool) {
        let mut inner = self.inner.lock();
        let wanted = if solicited {
            NotifyFlags::NEXT_COMP | NotifyFlags::SOLICITED
        } else {
            NotifyFlags::NEXT_COMP
        };
        let notify = if inner.done.push(wc).is_err() {
            !core::mem::replace(&mut inner.overrun, true)
        } else if inner.armed.intersects(wanted) {
            inner.armed = NotifyFlags::from_raw(0);
            true
        } else {
            false
        };
        drop(inner);
        if notify {
            // An error means that the work item is queued already, or that the queue is stopped.
            let _ = workqueue::system_bh().enqueue(self.clone());
        }
    }

    pub(crate) fn poll(&self, out: &mut WcSlots<'_>) {
        let mut inner = self.inner.lock();
        while !out.is_full() {
            let Some(wc) = inner.done.pop() else { break };
            // The loop condition guarantees room.
            let _ = out.push(wc);
        }
    }

    /// Arms the queue and returns whether completions are waiting already.
    pub(crate) fn arm(&self, flags: NotifyFlags) -> bool {
        let mut inner = self.inner.lock();
        inner.armed = inner.armed | flags.without(NotifyFlags::REPORT_MISSED_EVENTS);
        inner.done.used > 0
    }

    /// Stops the queue: afterwards its work item does not run any more.
    pub(crate) fn stop(self: &Arc<Self>) {
        drop(rdma::workqueue::disable::<CqCore, 0>(self));
    }
}

/// A posted receive.
struct Recv {
    wr_id: u64,
    addr: u64,
    length: u32,
}

pub(crate) struct QpInner {
    pub(crate) state: QpState,
    /// Number of the queue pair that sends go to.
    pub(crate) peer: u32,
    recvs: Ring<Recv>,
    /// Number of senders that have taken a receive, or are flushing, and have not finished.
    deliveries: u32,
}

impl QpInner {
    /// Returns the maximum number of posted receives.
    pub(crate) fn recv_limit(&self) -> u32 {
        u32::try_from(self.recvs.slots.len()).unwrap_or(u32::MAX)
    }
}

/// A queue pair.
#[pin_data]
pub(crate) struct QpCore {
    token: QpToken,
    send_cq: Arc<CqCore>,
    recv_cq: Arc<CqCore>,
    signals_all: bool,
    #[pin]
    inner: SpinLockIrq<QpInner>,
    /// Notified when the last delivery has finished.
    #[pin]
    settled: CondVar,
}

impl QpCore {
    pub(crate) fn new(
        token: QpToken,
        send_cq: Arc<CqCore>,
        recv_cq: Arc<CqCore>,
        recvs: u32,
        signals_all: bool,
    ) -> Result<Arc<Self>> {
        let inner = QpInner {
            state: QpState::Reset,
            peer: 0,
            recvs: Ring::new(recvs)?,
            deliveries: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                token,
                send_cq,
                recv_cq,
                signals_all,
                inner <- new_spinlock_irq!(inner, "QpCore::inner"),
                settled <- new_condvar!("QpCore::settled"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn lock(&self) -> SpinLockIrqGuard<'_, QpInner> {
        self.inner.lock()
    }

    /// Sends one message synchronously.
    pub(crate) fn send(&self, qps: &Table<QpCore>, wr: &SendWr<'_, Softpair>) -> Result {
        let (addr, length) = one_piece(wr.sges())?;
        let imm = match wr.op()? {
            SendOp::Send => None,
            SendOp::SendImm(imm) => Some(imm),
            _ => return Err(EINVAL),
        };
        let inner = self.lock();
        let (state, peer) = (inner.state, inner.peer);
        drop(inner);
        match state {
            QpState::Rts => (),
            QpState::Err => {
                self.send_cq
                    .complete(Wc::flushed(wr.wr_id(), self.token), true);
                return Ok(());
            }
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqd | QpState::Sqe => {
                return Err(EINVAL)
            }
        }
        // On an unreliable connection, the sender does not learn that there is no receiver.
        if let Some(peer) = qps.get(peer) {
            peer.receive(addr, length, imm, wr.solicited());
        }
        if self.signals_all || wr.signaled() {
            let wc = Wc::success(wr.wr_id(), self.token, bindings::ib_wc_opcode_IB_WC_SEND);
            self.send_cq.complete(wc, false);
        }
        Ok(())
    }

    /// Receives a message into the oldest posted receive; without one the message is lost.
    fn receive(&self, addr: u64, length: u32, imm: Option<[u8; 4]>, solicited: bool) {
        let mut inner = self.lock();
        let (QpState::Rtr | QpState::Rts) = inner.state else {
            return;
        };
        let Some(recv) = inner.recvs.pop() else {
            return;
        };
        let fits = length <= recv.length;
        if !fits {
            inner.state = QpState::Err;
        }
        // No more than there are CPUs and tasks that post: it does not wrap.
        inner.deliveries = inner.deliveries.wrapping_add(1);
        drop(inner);
        hold();
        let opcode = bindings::ib_wc_opcode_IB_WC_RECV;
        if fits {
            copy(addr, recv.addr, length);
            let wc = Wc::success(recv.wr_id, self.token, opcode).byte_len(length);
            let wc = match imm {
                Some(imm) => wc.imm(imm),
                None => wc,
            };
            self.recv_cq.complete(wc, solicited);
        } else {
            let status = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR;
            let wc = Wc::new(recv.wr_id, self.token, status, opcode);
            self.recv_cq.complete(wc, true);
            self.flush();
        }
        let mut inner = self.lock();
        // It was counted above, so it is not zero.
        inner.deliveries = inner.deliveries.wrapping_sub(1);
        let last = inner.deliveries == 0;
        drop(inner);
        if last {
            self.settled.notify_all();
        }
    }

    /// Waits until all that senders have taken is completed. In a state in which this receives nothing,
    /// no sender writes into memory of the consumer afterwards, and what the consumer posts completes
    /// last. May sleep.
    pub(crate) fn settle(&self) {
        let mut inner = self.lock();
        while inner.deliveries > 0 {
            self.settled.wait(&mut inner);
        }
    }

    /// Ends all use of the consumer's memory and queues. May sleep.
    pub(crate) fn end(&self) {
        self.lock().state = QpState::Reset;
        self.settle();
    }

    pub(crate) fn post_recv(&self, wr: &RecvWr<'_>) -> Result {
        let (addr, length) = one_piece(wr.sges())?;
        let wr_id = wr.wr_id();
        let mut inner = self.lock();
        match inner.state {
            QpState::Reset => Err(EINVAL),
            QpState::Err => {
                drop(inner);
                self.recv_cq.complete(Wc::flushed(wr_id, self.token), true);
                Ok(())
            }
            QpState::Init | QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => {
                inner.recvs.push(Recv {
                    wr_id,
                    addr,
                    length,
                })
            }
        }
    }

    /// Completes all remaining receives as flushed.
    pub(crate) fn flush(&self) {
        loop {
            // The guard is dropped before the completion queue is locked.
            let Some(recv) = self.lock().recvs.pop() else {
                return;
            };
            self.recv_cq
                .complete(Wc::flushed(recv.wr_id, self.token), true);
        }
    }

    /// Discards all receives.
    pub(crate) fn reset(&self) {
        let mut inner = self.lock();
        while inner.recvs.pop().is_some() {}
    }
}

/// Waits as long as the module was told: for a test, which only posts where it may sleep.
fn hold() {
    let ms = param::<u32>(module_parameters::hold_ms.value());
    if ms != 0 {
        fsleep(Delta::from_millis(ms.into()));
    }
}

/// Returns the memory of a request, which has at most one scatter-gather entry.
fn one_piece(mut sges: Sges<'_>) -> Result<(u64, u32)> {
    match (sges.next(), sges.next()) {
        (None, _) => Ok((0, 0)),
        (Some(sge), None) if sge.lkey == KEY && sge.length <= MAX_MESSAGE => {
            Ok((sge.addr, sge.length))
        }
        _ => Err(EINVAL),
    }
}
