// SPDX-License-Identifier: GPL-2.0

//! Memory windows: rights to a part of a region, with their own key.
//!
//! Type 1 belongs to its protection domain and may be rebound at any time; type 2B belongs to the
//! queue pair that bound it and must be invalidated before it is rebound (IBTA 10.6.7.2). Its
//! region counts a bound window, and therefore cannot be deregistered. Each access through a window
//! is checked against the window's range and rights, then against the region's range.
//!
//! Locking: `MwCore::inner` is taken in any context; `MrCore::fast` nests inside it.

use super::region::MrCore;
use super::{access, fresh_key, Claim, MemError, Memory, PdId, QpTag, MW_INDICES};
use crate::proto::Key;
use crate::queue::wqe::BindMw;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::accounted;
use rdma::gate::Entered;
use rdma::new_spinlock_irq;
use rdma::sync::SpinLockIrq;
use rdma::umem::odp::Touch;

/// Type of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwKind {
    /// Type 1.
    One,
    /// Type 2B.
    Two,
}

/// A memory window as the data path sees it.
#[pin_data]
pub(crate) struct MwCore {
    kind: MwKind,
    pd: PdId,
    #[pin]
    inner: SpinLockIrq<MwInner>,
}

struct MwInner {
    /// [`DEAD`] once the window is destroyed, when others may still hold a reference.
    key: u32,
    bound: Option<Bound>,
}

/// Key of a destroyed window. It has index 0, which no window has, so a lookup never finds it.
const DEAD: u32 = 0;

const _: () = assert!(super::index(Key(DEAD)) < *MW_INDICES.start());

/// The binding of a window.
struct Bound {
    region: Key,
    start: u64,
    len: u64,
    access: u32,
    /// Owner of a type 2B window.
    owner: Option<QpTag>,
}

/// A range of a window, translated to its region.
pub(super) struct Inside {
    pub(super) region: Key,
    pub(super) va: u64,
}

impl MwCore {
    /// Calls `f` with a range of the window, translated to the region.
    ///
    /// The window stays bound while `f` runs: once an invalidation has completed, nobody accesses
    /// memory through the window. `f` runs under a spinlock with interrupts off.
    ///
    /// # Errors
    ///
    /// The reason why the claim is refused. `f` was not called then.
    pub(super) fn with<R>(
        &self,
        claim: &Claim,
        va: u64,
        len: usize,
        qp: QpTag,
        f: impl FnOnce(Inside) -> R,
    ) -> Result<R, MemError> {
        if self.pd != claim.pd {
            return Err(MemError::Domain);
        }
        let inner = self.inner.lock();
        let bound = match &inner.bound {
            Some(bound) if inner.key == claim.key => bound,
            Some(_) | None => return Err(MemError::Key),
        };
        if bound.owner.is_some_and(|owner| owner != qp) {
            return Err(MemError::Key);
        }
        if bound.access & claim.access != claim.access {
            return Err(MemError::Access);
        }
        let offset = if bound.access & access::ZERO_BASED != 0 {
            va
        } else {
            va.checked_sub(bound.start).ok_or(MemError::Range)?
        };
        let len = u64::try_from(len).map_err(|_| MemError::Range)?;
        if len > bound.len.checked_sub(offset).ok_or(MemError::Range)? {
            return Err(MemError::Range);
        }
        Ok(f(Inside {
            region: bound.region,
            va: bound.start.checked_add(offset).ok_or(MemError::Range)?,
        }))
    }

    /// Returns the current first address and length in bytes. Accesses are still checked
    /// individually.
    ///
    /// # Errors
    ///
    /// `Key` if the window is not bound.
    pub(super) fn extent(&self) -> Result<(u64, u64), MemError> {
        let inner = self.inner.lock();
        let bound = inner.bound.as_ref().ok_or(MemError::Key)?;
        if bound.access & access::ZERO_BASED != 0 {
            return Ok((0, bound.len));
        }
        Ok((bound.start, bound.len))
    }

    /// Binds the window to a part of `region`; without a region, unbinds a type 1 window.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be bound (IBTA C10-72 to C10-75, o10-36.2.2, o10-37.2.30,
    /// o10-37.2.40).
    pub(super) fn bind(
        &self,
        bind: &BindMw,
        pd: PdId,
        qp: QpTag,
        region: Option<&Entered<MrCore>>,
        memory: &Memory,
    ) -> Result<(), MemError> {
        if bind.access & !access::WINDOW != 0 {
            return Err(MemError::Access);
        }
        if self.pd != pd {
            return Err(MemError::Domain);
        }
        let mut inner = self.inner.lock();
        if inner.key != bind.window.0 {
            return Err(MemError::Key);
        }
        let owner = match self.kind {
            MwKind::One if bind.access & access::ZERO_BASED != 0 => return Err(MemError::Access),
            MwKind::One => None,
            MwKind::Two if inner.bound.is_some() || region.is_none() => {
                return Err(MemError::Bound)
            }
            MwKind::Two => Some(qp),
        };
        let bound = match region {
            None => None,
            Some(region) => {
                let claim = Claim {
                    key: bind.region.0,
                    pd,
                    access: rights_of_region(bind.access),
                    from_peer: false,
                    touch: Touch::Nothing,
                };
                MrCore::bind_window(region, &claim, bind.addr, bind.length)?;
                Some(Bound {
                    region: bind.region,
                    start: bind.addr,
                    len: bind.length,
                    // Only the region knows whether its memory is persistent.
                    access: bind.access & (region.access() | !access::FLUSH_PERSISTENT),
                    owner,
                })
            }
        };
        inner.key = (inner.key & !0xff) | (bind.new_key.0 & 0xff);
        if let Some(old) = core::mem::replace(&mut inner.bound, bound) {
            memory.unbind(old.region);
        }
        Ok(())
    }

    /// Invalidates a type 2B window (IBTA o10-37.2.26).
    ///
    /// # Errors
    ///
    /// `Key` if it is of type 1, has another key, or is bound by another queue pair.
    pub(super) fn invalidate(
        &self,
        Key(key): Key,
        pd: PdId,
        qp: QpTag,
        memory: &Memory,
    ) -> Result<(), MemError> {
        if self.pd != pd {
            return Err(MemError::Domain);
        }
        let mut inner = self.inner.lock();
        let is_ours = self.kind == MwKind::Two
            && inner.key == key
            && inner
                .bound
                .as_ref()
                .is_none_or(|bound| bound.owner == Some(qp));
        if !is_ours {
            return Err(MemError::Key);
        }
        if let Some(old) = inner.bound.take() {
            memory.unbind(old.region);
        }
        Ok(())
    }
}

/// Returns the rights that a region must grant to bind a window with rights `window`.
fn rights_of_region(window: u32) -> u32 {
    let writes = access::REMOTE_WRITE | access::REMOTE_ATOMIC;
    if window & writes != 0 {
        access::MW_BIND | access::LOCAL_WRITE
    } else {
        access::MW_BIND
    }
}

/// A memory window as its verbs object owns it.
pub(crate) struct Mw {
    memory: Arc<Memory>,
    core: Arc<MwCore>,
    index: u32,
    key: u32,
}

impl Mw {
    /// Creates an unbound window.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EBUSY` if there are too many windows.
    pub(crate) fn new(memory: &Arc<Memory>, pd: PdId, kind: MwKind) -> Result<Self> {
        let slot = memory.windows.reserve(MW_INDICES, accounted::GFP)?;
        let index = slot.id();
        let key = fresh_key(index);
        let core = Arc::pin_init(
            pin_init!(MwCore {
                kind,
                pd,
                inner <- new_spinlock_irq!(MwInner { key, bound: None }, "MwCore::inner"),
            }),
            accounted::GFP,
        )?;
        slot.publish(core.clone());
        Ok(Self {
            memory: memory.clone(),
            core,
            index,
            key,
        })
    }

    /// Returns the key at creation.
    pub(crate) fn key(&self) -> Key {
        Key(self.key)
    }

    /// Unbinds the window permanently. A concurrent bind that has already found the window fails,
    /// since nobody would undo it.
    pub(crate) fn retire(&self) {
        let old = {
            let mut inner = self.core.inner.lock();
            inner.key = DEAD;
            inner.bound.take()
        };
        if let Some(old) = old {
            self.memory.unbind(old.region);
        }
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        drop(self.memory.windows.remove(self.index));
        self.retire();
    }
}
