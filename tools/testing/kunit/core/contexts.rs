// SPDX-License-Identifier: GPL-2.0

//! What the loaded core, whichever it is, promises of contexts
//! (`Documentation/core_locking.md`, section 1). The kernels that check locks and sleeping
//! judge; on others it is at least called.

use crate::device::client;
use crate::device::is_ours;
use crate::device::Client;
use crate::device::Device;
use crate::device::Fail;
use crate::device::Registered;
use core::ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::workqueue::OwnedQueue;

/// How often [`CLIENT`] was told of a device of ours, and told that one goes.
static ADDED: Atomic<i32> = Atomic::<i32>::new(0);
static REMOVED: Atomic<i32> = Atomic::<i32>::new(0);
/// Whether [`come_and_go`] is done, and how often a registration failed.
static DONE: Atomic<i32> = Atomic::<i32>::new(0);
static REFUSED: Atomic<i32> = Atomic::<i32>::new(0);
/// Devices that the core gave back to their driver.
static GIVEN_BACK: Atomic<i32> = Atomic::<i32>::new(0);

unsafe extern "C" fn add(ib: *mut bindings::ib_device) -> c_int {
    if is_ours(ib) {
        let _: i32 = ADDED.fetch_add(1, Full);
    }
    0
}

unsafe extern "C" fn remove(ib: *mut bindings::ib_device, _data: *mut c_void) {
    if is_ours(ib) {
        let _: i32 = REMOVED.fetch_add(1, Full);
    }
}

static CLIENT: Client = client(c"contexts", add, remove);

/// A driver that no machine has any more: its devices are all ours.
const DRIVER: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_CXGB3;

unsafe extern "C" fn give_back(_ib: *mut bindings::ib_device) {
    let _: i32 = GIVEN_BACK.fetch_add(1, Full);
}

/// A function that a worker calls. (`Queue::try_spawn` of two modules at once is a report of
/// lockdep's: its lock class is the kernel's, and has another name from each of them.)
#[pin_data]
struct Job {
    #[pin]
    work: Work<Job>,
    call: unsafe fn(usize),
    argument: usize,
}

impl_has_work! {
    impl HasWork<Self> for Job { self.work }
}

impl WorkItem for Job {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Whoever started it promised so.
        unsafe { (this.call)(this.argument) };
    }
}

/// Has `call` called by one of the queue's workers.
///
/// # Safety
///
/// `call` may be called once with that argument, at any time from now on.
unsafe fn start(queue: &OwnedQueue, call: unsafe fn(usize), argument: usize) -> Result {
    let job = Arc::pin_init(
        pin_init!(Job {
            work <- new_work!("rdma_kunit_contexts::Job"),
            call,
            argument,
        }),
        GFP_KERNEL,
    )?;
    // It is new, so nobody has queued it.
    let _ = queue.enqueue(job);
    Ok(())
}

/// A client's life, a hundred times.
fn come_and_go(_: usize) {
    for _ in 0..100 {
        if Registered::new(&CLIENT).is_err() {
            let _: i32 = REFUSED.fetch_add(1, Full);
        }
    }
    DONE.store(1, Release);
}

/// Unregisters the device of that address.
///
/// # Safety
///
/// There is one, and the caller gives a reference to it away.
unsafe fn unregister(address: usize) {
    // SAFETY: By this function's duty.
    unsafe { bindings::ib_unregister_device_and_put(address as *mut _) }
}

/// A registered device that the core frees when it is unregistered.
fn registered() -> Result<*mut bindings::ib_device> {
    let mut device = Device::new(Fail::Nowhere)?;
    let ops = bindings::ib_device_ops {
        dealloc_driver: Some(give_back),
        driver_id: DRIVER,
        ..Default::default()
    };
    // SAFETY: The device is ours.
    unsafe { bindings::ib_set_device_ops(device.ib, &ops) };
    device.register(c"fake%d")?;
    let ib = device.ib;
    // From here on it is the core's.
    core::mem::forget(device);
    Ok(ib)
}

/// All calls that work in any context. The device is registered.
fn call_all(ib: *mut bindings::ib_device) -> bool {
    let mut good = true;
    let mut gid = bindings::ib_gid::default();
    let (mut pkey, mut index, mut lmc, mut state) = (0, 0, 0, 0);
    // SAFETY: The device is registered, and the port is one of its own; the rest is ours. What
    // is taken is given back.
    unsafe {
        good &= bindings::rdma_helper_ib_device_try_get(ib);
        bindings::ib_device_put(ib);
        good &= bindings::ib_get_cached_pkey(ib, 1, 0, &mut pkey) == 0 && pkey == 0xffff;
        good &= bindings::ib_find_cached_pkey(ib, 1, 0xffff, &mut index) == 0 && index == 0;
        good &= bindings::ib_get_cached_lmc(ib, 1, &mut lmc) == 0;
        good &= bindings::ib_get_cached_port_state(ib, 1, &mut state) == 0;
        good &= bindings::rdma_query_gid(ib, 1, 0, &mut gid) == 0;
        let entry = bindings::rdma_find_gid(
            ib,
            &gid,
            bindings::ib_gid_type_IB_GID_TYPE_IB,
            ptr::null_mut(),
        );
        if kernel::error::from_err_ptr(entry.cast_mut()).is_ok() {
            bindings::rdma_hold_gid_attr(entry);
            bindings::rdma_put_gid_attr(entry);
            bindings::rdma_put_gid_attr(entry);
        } else {
            good = false;
        }
        let event = bindings::ib_event {
            device: ib,
            event: bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER,
            ..Default::default()
        };
        bindings::ib_dispatch_event(&event);
    }
    good
}

#[kunit_tests(core_contexts)]
mod tests {
    use super::*;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;
    use rdma::sync::bh;
    use rdma::sync::new_spinlock_irq;
    use rdma::workqueue::QueueOptions;

    /// Waits, for ten seconds at most, until the count is there.
    fn reaches(count: &Atomic<i32>, goal: i32) -> bool {
        for _ in 0..10_000 {
            if count.load(Acquire) == goal {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    #[test]
    fn any_context_is_any_context() -> Result {
        let mut device = Device::new(Fail::Nowhere)?;
        device.register(c"fake%d")?;
        let lock = Arc::pin_init(new_spinlock_irq!((), "contexts::lock"), GFP_KERNEL)?;
        let with_interrupts_off = {
            let _off = lock.lock();
            call_all(device.ib)
        };
        let without_softirqs = {
            let _off = bh::disable();
            call_all(device.ib)
        };
        assert!(with_interrupts_off);
        assert!(without_softirqs);
        Ok(())
    }

    #[test]
    fn unregistered_where_nothing_may_sleep() -> Result {
        GIVEN_BACK.store(0, Release);
        let ib = registered()?;
        let lock = Arc::pin_init(new_spinlock_irq!((), "contexts::lock"), GFP_KERNEL)?;
        {
            let _off = lock.lock();
            // SAFETY: The device is registered, and its driver lets the core free it.
            unsafe { bindings::ib_unregister_device_queued(ib) };
        }
        assert!(reaches(&GIVEN_BACK, 1));
        Ok(())
    }

    /// Whoever comes second finds nothing to do, and the device is given back once.
    #[test]
    fn unregistered_by_several() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_contexts", rdma::resident!())?;
        for round in 1..=50 {
            if round == 1 {
                GIVEN_BACK.store(0, Release);
            }
            let ib = registered()?;
            // SAFETY: The device is registered.
            assert!(unsafe { bindings::rdma_helper_ib_device_try_get(ib) });
            // SAFETY: The reference is the one just taken.
            unsafe { start(&queue, unregister, ib as usize)? };
            // SAFETY: The reference is not put before the device is unregistered, and what is
            // queued holds one of its own; if that came too late, this one finds it gone.
            unsafe { bindings::ib_unregister_driver(DRIVER) };
            assert!(reaches(&GIVEN_BACK, round));
        }
        Ok(())
    }

    /// A client that comes and goes while devices do hears of each device as often that it
    /// goes as that it came.
    #[test]
    fn clients_race_with_devices() -> Result {
        let queue = QueueOptions::unbound().create(c"rdma_kunit_contexts", rdma::resident!())?;
        DONE.store(0, Release);
        // SAFETY: It is a safe function.
        unsafe { start(&queue, come_and_go, 0)? };
        let mut rounds = 0;
        while DONE.load(Acquire) == 0 && rounds < 10_000 {
            let mut device = Device::new(Fail::Nowhere)?;
            device.register(c"fake%d")?;
            rounds += 1;
        }
        assert!(reaches(&DONE, 1));
        assert_eq!(REFUSED.load(Acquire), 0);
        // One that stays, so that the client hears at least once.
        let last = Registered::new(&CLIENT)?;
        let mut device = Device::new(Fail::Nowhere)?;
        device.register(c"fake%d")?;
        drop(device);
        drop(last);
        assert!(ADDED.load(Acquire) > 0);
        assert_eq!(ADDED.load(Acquire), REMOVED.load(Acquire));
        Ok(())
    }
}
