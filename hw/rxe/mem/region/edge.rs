// SPDX-License-Identifier: GPL-2.0

//! From a permitted access to the memory behind it.

use super::super::edge::{Part, Reach};
use super::super::map::Piece;
use super::super::{Claim, MemError, PdId};
use super::{Backing, MrCore};
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::gate::Entered;

impl MrCore {
    /// Calls `f` with `len` bytes at `va`, if `claim` permits the access.
    ///
    /// `f` may write if `claim` is for writing. It may run under a spinlock with interrupts off, so it must
    /// not sleep.
    ///
    /// # Errors
    ///
    /// See [`MemError`]; `Absent` only if the claim touches the bytes. `f` was not called then. If
    /// the claim does not touch the bytes, `f` may get no parts.
    pub(in crate::mem) fn with<R>(
        this: &Entered<Self>,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Reach<'_>) -> R,
    ) -> Result<R, MemError> {
        if PdId(this.pd.load(Relaxed)) != claim.pd {
            return Err(MemError::Domain);
        }
        let writes = claim.writes();
        Self::with_pieces(this, claim, va, len, |pieces| {
            // SAFETY: The pieces are of the region's backing memory, which stays mapped while `this`
            // exists (type invariant) and, if it comes and goes, its lock is held during this call. If
            // it is to be written, `rights` has found a right with which it is writable.
            f(unsafe { Reach::new(pieces, writes) })
        })
    }

    /// Returns the `len` bytes at `va` if `claim` permits the access and they are contiguous in a
    /// user's pinned pages, or a kernel user's own. On `None` the caller falls back to
    /// [`Self::with`].
    #[inline(always)]
    pub(in crate::mem) fn part<'a>(
        this: &'a Entered<Self>,
        claim: &Claim,
        va: u64,
        len: usize,
    ) -> Option<Part<'a>> {
        let address = match &this.backing {
            Backing::User { iova, shape, pages } => {
                let (block, inside) = shape.in_one_block(va.checked_sub(*iova)?, len)?;
                pages.all().get(block)?.wrapping_add(inside)
            }
            Backing::Dma if !claim.from_peer => {
                let start = usize::try_from(va).ok()?;
                start.checked_add(len).and(Some(start))?
            }
            Backing::Dma | Backing::OnDemand { .. } | Backing::Chunked { .. } | Backing::Fast => {
                return None;
            }
        };
        if PdId(this.pd.load(Relaxed)) != claim.pd {
            return None;
        }
        this.permits(claim).ok()?;
        let at = NonNull::new(core::ptr::with_exposed_provenance_mut(address))?;
        // SAFETY: The piece lies in memory of `backing`, which is mapped while `this` exists (type
        // invariant): a user's pinned pages, or memory that a kernel user named itself. If it is to be
        // written, `rights` has found a right with which it is writable.
        Some(unsafe { Part::new(Piece { at, len }, claim.writes()) })
    }

    /// Returns the `len` bytes at `va`, which need not be contiguous, if `claim` permits the access
    /// and the region has a user's pinned pages. On `None` the caller falls back to
    /// [`Self::with`].
    #[inline]
    pub(in crate::mem) fn reach<'a>(
        this: &'a Entered<Self>,
        claim: &Claim,
        va: u64,
        len: usize,
    ) -> Option<Reach<'a>> {
        let Backing::User { iova, shape, pages } = &this.backing else {
            return None;
        };
        let pieces = shape.walk(pages.all(), va.checked_sub(*iova)?, len)?;
        if PdId(this.pd.load(Relaxed)) != claim.pd {
            return None;
        }
        this.permits(claim).ok()?;
        // SAFETY: The pieces lie in a user's pinned pages, which are mapped while `this` exists (type
        // invariant). If they are to be written, `rights` has found a right with which they are
        // writable.
        Some(unsafe { Reach::new(pieces, claim.writes()) })
    }
}
