// SPDX-License-Identifier: GPL-2.0

//! Locks and synchronisation that the `kernel` crate lacks.
//!
//! - [`SpinLockIrq`] and [`SpinLockBh`]: spinlocks for data that is also reached
//!   from hard interrupts, or from softirqs.
//! - [`RwSem`], [`StaticRwSem`]: many readers or one writer, sleeping; [`CRwSem`]: one within a C
//!   structure.
//! - [`bh`]: a section in which this CPU runs no softirq.
//! - [`Completion`], [`IrqLock`], [`CRefcount`], [`init_mutex`]: completions, spinlocks, reference
//!   counts and mutexes that are fields of C structures.
//! - [`TimedCompletion`]: a completion whose waiter does not wait for ever.
//! - [`global_lock!`](crate::global_lock), [`init_once`]: locks in statics.
//! - [`Key`], [`Keyed`]: data of one object that the lock of another protects.
//! - [`WaitQueue`]: wait queues, for tasks and for `poll`.
//! - [`rcu`]: waiting for RCU; read-side critical sections are those of [`kernel::sync::rcu`].
//!
//! The mutex, the plain spinlock, `Arc`, atomics and completions are those of [`kernel::sync`].

pub mod bh;
mod c_rwsem;
mod completion;
mod global;
mod keyed;
mod mutex;
pub mod rcu;
mod refcount;
mod rwsem;
mod spin;
mod static_rwsem;
mod timed;
mod wait_queue;

pub use crate::new_rwsem;
pub use crate::new_spinlock_bh;
pub use crate::new_spinlock_irq;
pub use crate::new_wait_queue;
pub use c_rwsem::CReadGuard;
pub use c_rwsem::CRwSem;
pub use completion::Completion;
pub use global::init_once;
pub use global::InitOnce;
pub use keyed::Key;
pub use keyed::KeyId;
pub use keyed::Keyed;
pub use mutex::init_mutex;
pub use refcount::CRefcount;
pub use rwsem::ReadGuard;
pub use rwsem::RwSem;
pub use rwsem::WriteGuard;
pub use spin::IrqLock;
pub use spin::SpinLockBh;
pub use spin::SpinLockBhBackend;
pub use spin::SpinLockBhGuard;
pub use spin::SpinLockIrq;
pub use spin::SpinLockIrqBackend;
pub use spin::SpinLockIrqGuard;
pub use static_rwsem::StaticRwSem;
pub use timed::TimedCompletion;
pub use wait_queue::WaitQueue;
