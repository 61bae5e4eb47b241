// SPDX-License-Identifier: GPL-2.0

//! FFI types for GIDs and table entries: arguments and results of exported functions.
//!
//! Must match `include/rdma/ib_cache.h` and `include/rdma/ib_verbs.h`. A GID passed by C may be
//! part of a packet, so accesses are unaligned.

pub(crate) mod entry;

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::error::code::EINVAL;
use kernel::error::Result;
use kernel::ffi::c_void;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sync::rcu;

use self::entry::Entry;
use crate::proto::gid::Gid;

/// Converts a GID to its C type.
pub(crate) fn raw(gid: Gid) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: ManuallyDrop::new(gid.0),
    }
}

/// Converts a GID from its C type.
pub(crate) fn read(gid: bindings::ib_gid) -> Gid {
    // SAFETY: Every member of the union is 16 bytes of plain data.
    Gid(unsafe { ManuallyDrop::into_inner(gid.raw) })
}

// SAFETY: `from_c`'s contract: points to a GID, which need not be aligned.
unsafe impl FromC for Gid {
    type C = *const bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Gid(unsafe { c.cast::<[u8; 16]>().read_unaligned() })
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for Gid {}

/// A GID whose pointer is not `const` in the C prototype.
pub(crate) struct MutGid(pub(crate) Gid);

// SAFETY: `from_c`'s contract: points to a GID, which need not be aligned.
unsafe impl FromC for MutGid {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { Gid::from_c(c) })
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for MutGid {}

/// As [`MutGid`]; `None` for a null pointer.
pub(crate) struct MaybeGid(pub(crate) Option<Gid>);

// SAFETY: `from_c`'s contract: null, or points to a GID.
unsafe impl FromC for MaybeGid {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self((!c.is_null()).then(|| unsafe { Gid::from_c(c) }))
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for MaybeGid {}

/// Output buffer for a MAC address, or null.
pub(super) struct OutMac<'a>(Option<NonNull<[u8; 6]>>, PhantomData<&'a mut [u8; 6]>);

impl OutMac<'_> {
    /// Writes the address, unless the pointer is null.
    pub(super) fn set(&mut self, mac: [u8; 6]) {
        if let Some(place) = self.0 {
            // SAFETY: `from_c`'s contract: the six bytes are writable during the call.
            unsafe { place.as_ptr().write_unaligned(mac) };
        }
    }
}

rdma::argument! {
    /// Null, or a pointer to six bytes that are writable during the call.
    impl<'a> OutMac<'a> = |mac: Option<NonNull<u8>>| OutMac(mac.map(NonNull::cast), PhantomData);
}

/// A filter function of a C caller, with its arguments.
pub(super) struct Filter {
    filter: FilterFn,
    wanted: bindings::ib_gid,
    context: Passed<c_void>,
}

/// Pointer to a filter function. Only C makes one.
#[derive(Clone, Copy)]
pub(super) struct FilterFn(
    Option<
        unsafe extern "C" fn(
            *const bindings::ib_gid,
            *const bindings::ib_gid_attr,
            *mut c_void,
        ) -> bool,
    >,
);

rdma::argument! {
    /// Null, or a function that may be called with a GID, an entry, and the context from the same
    /// call, with interrupts disabled.
    impl FilterFn = |filter: Option<
        unsafe extern "C" fn(
            *const bindings::ib_gid,
            *const bindings::ib_gid_attr,
            *mut c_void,
        ) -> bool,
    >| FilterFn(filter);
}

impl Filter {
    /// # Errors
    ///
    /// `EINVAL` if the function is null.
    pub(super) fn new(filter: FilterFn, wanted: Gid, context: Passed<c_void>) -> Result<Self> {
        filter.0.ok_or(EINVAL)?;
        Ok(Self {
            filter,
            wanted: raw(wanted),
            context,
        })
    }

    /// Returns whether the filter accepts an entry. Called with interrupts disabled; the filter
    /// must not look up GIDs.
    pub(super) fn likes(&self, entry: &Entry) -> bool {
        self.filter.0.is_some_and(|filter| {
            // SAFETY: Contract of `FilterFn`; function and context come from one call.
            unsafe { filter(&self.wanted, entry.attr().raw(), self.context.into_c()) }
        })
    }
}

/// One entry as returned to `uverbs`.
type Row = bindings::ib_uverbs_gid_entry;

/// Pointer to an array of [`Row`]. Only C makes one.
pub(super) struct RowsAt<'a>(*mut Row, PhantomData<&'a mut Row>);

/// Number of rows in the [`RowsAt`] of the same call. Only C makes one.
pub(super) struct RowsMax<'a>(usize, PhantomData<&'a ()>);

rdma::argument! {
    /// Points to room for as many rows as the [`RowsMax`] that is passed to the same call
    /// (`rdma_query_gid_table`), until the call ends.
    impl<'a> RowsAt<'a> = |rows: Passed<Row>| RowsAt(rows.into_c(), PhantomData);
    /// The number of rows.
    impl<'a> RowsMax<'a> = |max: usize| RowsMax(max, PhantomData);
}

/// Writer of a C caller's array of rows.
///
/// # Invariants
///
/// `place` has room for `max` rows, of which `len` are written.
pub(super) struct Rows<'a> {
    place: *mut Row,
    max: usize,
    len: usize,
    _call: PhantomData<&'a mut Row>,
}

impl<'a> Rows<'a> {
    /// Creates the writer from two arguments of a call.
    pub(super) fn new(at: RowsAt<'a>, max: RowsMax<'a>) -> Self {
        // INVARIANT: By the contract of `RowsAt`.
        Self {
            place: at.0,
            max: max.0,
            len: 0,
            _call: PhantomData,
        }
    }

    /// Number of rows written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the array is full.
    pub(super) fn push(&mut self, entry: &Entry) -> Result {
        if self.len >= self.max {
            return Err(EINVAL);
        }
        let rcu = rcu::read_lock();
        let ndev = entry.ndev_rcu(&rcu);
        // SAFETY: There is room for another row (type invariant).
        unsafe {
            let row = self.place.add(self.len);
            (&raw mut (*row).gid)
                .cast::<[u8; 16]>()
                .write_unaligned(entry.engine().gid.0);
            (*row).gid_index = u32::from(entry.index());
            (*row).port_num = entry.port();
            (*row).gid_type = entry.gid_type();
            if let Some(ndev) = ndev {
                (*row).netdev_ifindex = ndev.ifindex();
            }
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }
}
