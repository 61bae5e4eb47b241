// SPDX-License-Identifier: GPL-2.0

//! Lifetime of a counter: it is created for its first queue pair and freed with its last.

use super::edge::Binding;
use super::edge::Counted;
use super::edge::Sole;
use super::Mode;
use super::Port;
use super::PortMode;
use crate::device::Device;
use crate::edge::counter::Counter;
use crate::edge::tracked::Tracked;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::restrack::Kind;
use crate::restrack::Entry;
use crate::restrack::OwnerRef;
use crate::stats;
use core::mem::ManuallyDrop;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;

impl Counter {
    /// How the counter was created, and which attributes its queue pairs share.
    pub(crate) fn mode(&self) -> PortMode {
        PortMode {
            mode: Mode::from_raw(self.raw_mode()),
            mask: self.mask(),
            bind_opcnt: self.bind_opcnt(),
        }
    }

    /// Type of the queue pairs, in auto mode by type (`enum ib_qp_type`).
    pub(crate) fn qp_type(&self) -> u32 {
        // CAST: C keeps the type in an `int`.
        self.raw_qp_type() as u32
    }

    /// Has the driver update the values. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the driver does not support it; errors of the driver.
    pub(crate) fn query_stats(&self) -> Result {
        let missing = |_| EINVAL;
        self.device()
            .needs(|ops| ops.counter_update_stats)
            .map_err(missing)?;
        let _guard = self.mutex().lock();
        self.driver().counter_update_stats()
    }

    /// Updates the values and returns one of them. May sleep.
    pub(super) fn read(&self, index: usize) -> Result<u64> {
        self.query_stats()?;
        self.stats()
            .and_then(|stats| stats.shared(index))
            .map(|value| value.load(Relaxed))
            .ok_or(EINVAL)
    }

    /// Calls `f` for each counter of a device. May sleep.
    pub(super) fn for_each(device: &Device, mut f: impl FnMut(&Counter)) {
        let table = device.slot::<crate::restrack::Tables>().of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            if let Some(counter) = Counter::of_entry(&held) {
                f(counter);
            }
            from = id.checked_add(1);
        }
    }

    /// Creates a counter and binds a queue pair of the device to it. Returns the counter's ID, or
    /// `None` if that fails in the driver or for lack of memory. May sleep.
    pub(super) fn make(port: Port<'_>, qp: &Qp, mode: Mode, bind_opcnt: bool) -> Option<u32> {
        let mut new = alloc(port)?;
        if start(&mut new, port, qp, mode, bind_opcnt).is_none() {
            abandon(new);
            return None;
        }
        // Once shared, the counter is freed with its last reference; `counted` holds one.
        if let Some(mut entry) = OwnerRef::of(&mut new) {
            entry.set_parent(Entry::of(qp.res()));
            entry.add();
        }
        let counted = new.share();
        Some(counted.id())
    }

    /// Has the driver bind a queue pair to this counter. On success, the caller must give the queue
    /// pair a reference to this counter.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair has a counter, `EOPNOTSUPP`, errors of the driver.
    fn attach(&self, qp: &Qp, port: u32) -> Result {
        let mut binding = Binding::of(self.device());
        if qp.bound(&binding).is_some() {
            return Err(EINVAL);
        }
        self.device().needs(|ops| ops.counter_bind_qp)?;
        let _guard = self.mutex().lock();
        self.driver().counter_bind_qp(qp, port).inspect_err(|_| {
            // The driver may have set the field and failed to clear it.
            qp.clear_bound(&mut binding);
        })
    }
}

/// Allocates a counter and its values.
fn alloc(port: Port<'_>) -> Option<Sole> {
    let ops = port.device.ops();
    ops.counter_dealloc?;
    ops.counter_alloc_stats?;
    ops.counter_init?;
    let mut new = Sole::alloc(port.device, port.port)?;
    new.driver().counter_init();
    if let Some(mut entry) = OwnerRef::of(&mut new) {
        entry.begin(Kind::Counter);
    }
    let Ok(stats) = new.driver().counter_alloc_stats() else {
        abandon(new);
        return None;
    };
    Counter::set_stats(&mut new, Some(&stats));
    // The counter owns the values now.
    let _: ManuallyDrop<stats::Owned> = ManuallyDrop::new(stats);
    new.set_counts();
    Some(new)
}

/// Binds a queue pair to a new counter. Returns `None` if the mode or the driver does not allow it.
fn start(new: &mut Sole, port: Port<'_>, qp: &Qp, mode: Mode, bind_opcnt: bool) -> Option<()> {
    let mut locked = port.lock();
    let mask = match mode {
        Mode::Manual => {
            // The mode may have changed to auto since the caller checked.
            if locked.mode().mode == Mode::Auto {
                return None;
            }
            locked.set(PortMode {
                mode,
                mask: 0,
                bind_opcnt,
            });
            0
        }
        Mode::Auto => locked.mode().mask,
        Mode::None => return None,
    };
    locked.count_one_more();
    drop(locked);
    Counter::set_raw_mode(new, mode.to_raw());
    Counter::set_mask(new, mask);
    Counter::set_bind_opcnt(new, bind_opcnt);
    if mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0 {
        // CAST: C keeps the type in an `int`.
        Counter::set_raw_qp_type(new, qp.qp_type() as i32);
    }
    if new.attach(qp, port.port).is_err() {
        port.lock().forget_counter();
        return None;
    }
    Some(())
}

/// Frees a counter that was never bound to a queue pair.
fn abandon(mut new: Sole) {
    // The entry was never visible, so there are no readers to wait for.
    if let Some(mut entry) = OwnerRef::of(&mut new) {
        entry.del();
    }
    // A driver that failed to bind has undone the binding. This frees what it allocated with the
    // values; a failure has no effect.
    if new.stats().is_some() {
        let _: Result = new.driver().counter_dealloc();
    }
}

/// Frees a counter without references. May sleep.
pub(super) fn end(mut counter: Sole) {
    let Some(port) = Port::of(counter.device(), counter.port()) else {
        core::mem::forget(counter);
        return;
    };
    // Add the values to the port's history. If the update fails, the values of the last one count.
    let _: Result = counter.query_stats();
    if let (Some(history), Some(stats)) = (port.history(), counter.stats()) {
        for index in 0..stats.count() {
            if let (Some(sum), Some(value)) = (history.shared(index), stats.shared(index)) {
                let _: u64 = sum.fetch_add(value.load(Relaxed), Relaxed);
            }
        }
    }
    if let Some(mut entry) = OwnerRef::of(&mut counter) {
        entry.del();
    }
    // The counter has no users any more. A failure of the driver has no effect.
    let _: Result = counter.driver().counter_dealloc();
    if let Some(port) = Port::of(counter.device(), counter.port()) {
        port.lock().forget_counter();
    }
}

impl Counted {
    /// Returns the counter with this ID.
    pub(super) fn find(device: &Device, id: u32) -> Option<Self> {
        Self::try_count(
            &device
                .slot::<crate::restrack::Tables>()
                .of(Kind::Counter)
                .get(id)?,
        )
    }

    /// Returns the counter of the port for queue pairs that share the attributes in `mask` with
    /// `qp`, a user queue pair.
    pub(super) fn for_kind(port: Port<'_>, qp: &Qp, mask: u32) -> Option<Self> {
        let task = Entry::of(qp.res()).pid();
        let by_type = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0;
        let by_pid = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID != 0;
        let table = port
            .device
            .slot::<crate::restrack::Tables>()
            .of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            if let Some(counter) = Counter::of_entry(&held) {
                if counter.port() == port.port
                    && (!by_type || counter.qp_type() == qp.qp_type())
                    && (!by_pid || held.pid() == task)
                {
                    return Self::try_count(&held);
                }
            }
            from = id.checked_add(1);
        }
        None
    }

    /// Binds a queue pair of the device, which takes over this reference.
    ///
    /// # Errors
    ///
    /// Those of [`Counter::attach`].
    pub(super) fn bind(self, qp: &Qp, port: u32) -> Result {
        self.attach(qp, port)?;
        self.give();
        Ok(())
    }

    /// Unbinds a queue pair from its counter; if `expected` is given, only from that counter. With
    /// `force`, its reference is dropped even if the driver fails, as the queue pair is destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound to the counter, `EOPNOTSUPP`, errors of the driver.
    pub(super) fn unbind(qp: &Qp, port: u32, expected: Option<u32>, force: bool) -> Result {
        let mut binding = Binding::of(qp.device());
        let counted = Self::take(qp, &mut binding, |counter| {
            if expected.is_some_and(|id| id != counter.id()) {
                return Err(EINVAL);
            }
            let guard = counter.mutex().lock();
            let unbound = qp.driver().counter_unbind_qp(port);
            drop(guard);
            // With `force`, drop the reference whatever the driver did to the field.
            unbound.or_else(|error| if force { Ok(()) } else { Err(error) })
        })?;
        drop(binding);
        drop(counted);
        Ok(())
    }
}
