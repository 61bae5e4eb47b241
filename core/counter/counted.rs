// SPDX-License-Identifier: GPL-2.0

//! A counter and its life: it is made for its first queue pair, and goes with its last.

use super::edge::Binding;
use super::edge::Counted;
use super::edge::Counter;
use super::edge::Sole;
use super::Mode;
use super::Port;
use super::PortMode;
use crate::device::Device;
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
    /// How it came to be, and what its queue pairs have in common.
    pub(crate) fn mode(&self) -> PortMode {
        PortMode {
            mode: Mode::from_raw(self.raw_mode()),
            mask: self.mask(),
            bind_opcnt: self.bind_opcnt(),
        }
    }

    /// In auto mode by type, the type of its queue pairs (`enum ib_qp_type`).
    pub(crate) fn qp_type(&self) -> u32 {
        // CAST: C keeps the type in an `int`.
        self.raw_qp_type() as u32
    }

    /// Has the driver bring the values up to date. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the driver cannot, else its own.
    pub(crate) fn query_stats(&self) -> Result {
        let missing = |_| EINVAL;
        self.device()
            .needs(|ops| ops.counter_update_stats)
            .map_err(missing)?;
        let _guard = self.mutex().lock();
        self.driver().counter_update_stats()
    }

    /// One value, up to date. May sleep.
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

    /// Makes a counter and binds a queue pair of the device to it. Returns its number, or none if
    /// the driver or the memory do not allow it. May sleep.
    pub(super) fn make(port: Port<'_>, qp: &Qp, mode: Mode, bind_opcnt: bool) -> Option<u32> {
        let mut new = alloc(port)?;
        if start(&mut new, port, qp, mode, bind_opcnt).is_none() {
            abandon(new);
            return None;
        }
        // The last count, of which `counted` is one, ends it.
        if let Some(mut entry) = OwnerRef::of(&mut new) {
            entry.set_parent(Entry::of(qp.res()));
            entry.add();
        }
        let counted = new.share();
        Some(counted.id())
    }

    /// Has the driver count a queue pair with this. If it succeeds, the caller gives the queue pair
    /// a count of this.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has a counter, `EOPNOTSUPP`, that of the driver.
    fn attach(&self, qp: &Qp, port: u32) -> Result {
        let mut binding = Binding::of(self.device());
        if qp.bound(&binding).is_some() {
            return Err(EINVAL);
        }
        self.device().needs(|ops| ops.counter_bind_qp)?;
        let _guard = self.mutex().lock();
        self.driver().counter_bind_qp(qp, port).inspect_err(|_| {
            // It may have failed to take back what it set.
            qp.set_bound(&mut binding, None);
        })
    }
}

/// Has memory and values for a counter allocated.
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
    // They are the counter's now.
    let _: ManuallyDrop<stats::Owned> = ManuallyDrop::new(stats);
    new.set_counts();
    Some(new)
}

/// Has a new counter count a queue pair. None if the mode or the driver do not allow it.
fn start(new: &mut Sole, port: Port<'_>, qp: &Qp, mode: Mode, bind_opcnt: bool) -> Option<()> {
    let mut locked = port.lock();
    let mask = match mode {
        Mode::Manual => {
            // Somebody may have set auto mode since the caller looked.
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

/// Frees a counter that no queue pair has had.
fn abandon(mut new: Sole) {
    // Nobody could see the entry, so there is nobody to wait for.
    if let Some(mut entry) = OwnerRef::of(&mut new) {
        entry.del();
    }
    // A driver that refused to bind has given back what it took for that; what it took with the
    // values it gives back now. Its failure changes nothing.
    if new.stats().is_some() {
        let _: Result = new.driver().counter_dealloc();
    }
}

/// Ends a counter whose last count has gone. May sleep.
pub(super) fn end(mut counter: Sole) {
    let Some(port) = Port::of(counter.device(), counter.port()) else {
        core::mem::forget(counter);
        return;
    };
    // What it counted stays the port's; what it had when it was last read, if the driver does
    // not say more.
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
    // Nobody has the counter any more. Its failure changes nothing.
    let _: Result = counter.driver().counter_dealloc();
    if let Some(port) = Port::of(counter.device(), counter.port()) {
        port.lock().forget_counter();
    }
}

impl Counted {
    /// The counter with this number.
    pub(super) fn find(device: &Device, id: u32) -> Option<Self> {
        Self::try_count(
            &device
                .slot::<crate::restrack::Tables>()
                .of(Kind::Counter)
                .get(id)?,
        )
    }

    /// The counter of the port for queue pairs that have in common with `qp`, a user's, what `mask`
    /// says.
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

    /// Binds a queue pair of the device, which takes this count over.
    ///
    /// # Errors
    ///
    /// As [`Counter::attach`].
    pub(super) fn bind(self, qp: &Qp, port: u32) -> Result {
        self.attach(qp, port)?;
        self.give();
        Ok(())
    }

    /// Takes a queue pair from its counter; if `expected` is given, only from that. With `force`
    /// its count goes even if the driver refuses: the queue pair goes, too.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not have the counter, `EOPNOTSUPP`, that of the driver.
    pub(super) fn unbind(qp: &Qp, port: u32, expected: Option<u32>, force: bool) -> Result {
        let mut binding = Binding::of(qp.device());
        let counted = Self::take(qp, &mut binding, |counter| {
            if expected.is_some_and(|id| id != counter.id()) {
                return Err(EINVAL);
            }
            let guard = counter.mutex().lock();
            let unbound = qp.driver().counter_unbind_qp(port);
            drop(guard);
            // With force the count is nobody's now, whatever the driver made of the field.
            unbound.or_else(|error| if force { Ok(()) } else { Err(error) })
        })?;
        drop(binding);
        drop(counted);
        Ok(())
    }
}
