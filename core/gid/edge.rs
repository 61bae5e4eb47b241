// SPDX-License-Identifier: GPL-2.0

//! GIDs and entries of their tables at the edge: arguments and answers of exported functions.
//!
//! To be held against `include/rdma/ib_cache.h` and `include/rdma/ib_verbs.h`. A GID of C may be
//! part of a packet: it is read and written unaligned.

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
use rdma::net::NetDevice;

use self::entry::Entry;
use crate::proto::gid::Gid;

/// A GID as C has it.
pub(crate) fn raw(gid: Gid) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: ManuallyDrop::new(gid.0),
    }
}

/// A GID that C has written.
pub(crate) fn read(gid: bindings::ib_gid) -> Gid {
    // SAFETY: All members of the union are sixteen plain bytes.
    Gid(unsafe { ManuallyDrop::into_inner(gid.raw) })
}

// SAFETY: `from_c`'s contract: a GID.
unsafe impl FromC for Gid {
    type C = *const bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Gid(unsafe { c.cast::<[u8; 16]>().read_unaligned() })
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for Gid {}

/// A GID that a prototype does not declare `const`.
pub(crate) struct MutGid(pub(crate) Gid);

// SAFETY: `from_c`'s contract: a GID.
unsafe impl FromC for MutGid {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { Gid::from_c(c) })
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for MutGid {}

/// The same, or null.
pub(crate) struct MaybeGid(pub(crate) Option<Gid>);

// SAFETY: `from_c`'s contract: null, or a GID.
unsafe impl FromC for MaybeGid {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self((!c.is_null()).then(|| unsafe { Gid::from_c(c) }))
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for MaybeGid {}

/// A place for an Ethernet address, or null.
pub(super) struct OutMac<'a>(Option<NonNull<[u8; 6]>>, PhantomData<&'a mut [u8; 6]>);

impl OutMac<'_> {
    /// Writes the address, unless it is not asked for.
    pub(super) fn set(&mut self, mac: [u8; 6]) {
        if let Some(place) = self.0 {
            // SAFETY: `from_c`'s contract: the place may be written during the call.
            unsafe { place.as_ptr().write_unaligned(mac) };
        }
    }
}

rdma::argument! {
    /// Null, or a place for six bytes.
    impl<'a> OutMac<'a> = |mac: Option<NonNull<u8>>| OutMac(mac.map(NonNull::cast), PhantomData);
}

/// A caller's filter with its arguments.
pub(super) struct Filter {
    filter: FilterFn,
    wanted: bindings::ib_gid,
    context: Passed<c_void>,
}

/// The function of a filter. Only C makes one.
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
    /// Null, or a function that may be called with a GID, an entry, and the context that C gave along,
    /// with interrupts off.
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
    /// `EINVAL` without a function.
    pub(super) fn new(filter: FilterFn, wanted: Gid, context: Passed<c_void>) -> Result<Self> {
        filter.0.ok_or(EINVAL)?;
        Ok(Self {
            filter,
            wanted: raw(wanted),
            context,
        })
    }

    /// Asks it for an entry. No interrupts, and no lookup of GIDs within.
    pub(super) fn likes(&self, entry: &Entry) -> bool {
        self.filter.0.is_some_and(|filter| {
            // SAFETY: The contract of `FilterFn`; function and context come from one call.
            unsafe { filter(&self.wanted, entry.attr().raw(), self.context.into_c()) }
        })
    }
}

/// A row of an answer to `uverbs`.
type Row = bindings::ib_uverbs_gid_entry;

/// Where the rows of an answer go. Only C makes one.
pub(super) struct RowsAt(*mut Row);

rdma::argument! {
    /// Room for as many rows as the number says that is passed along (`rdma_query_gid_table`), until
    /// the call ends, which drops the [`Rows`].
    impl RowsAt = |rows: Passed<Row>| RowsAt(rows.into_c());
}

/// A caller's array of rows.
///
/// # Invariants
///
/// There is room for `max` rows at `place`, of which `len` are written.
pub(super) struct Rows {
    place: *mut Row,
    max: usize,
    len: usize,
}

impl Rows {
    /// `max` is the number that C passed along with `at`.
    pub(super) fn new(at: RowsAt, max: usize) -> Self {
        // INVARIANT: The contract of `RowsAt`.
        Self {
            place: at.0,
            max,
            len: 0,
        }
    }

    /// Rows written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry, which is valid: its network device, if any, is there until the lock of the
    /// slots is dropped, which the caller holds.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room.
    pub(super) fn push(&mut self, entry: &Entry) -> Result {
        if self.len >= self.max {
            return Err(EINVAL);
        }
        let ndev = entry.ndev();
        // SAFETY: There is room (type invariant). The network device exists, as said above.
        unsafe {
            let row = self.place.add(self.len);
            (&raw mut (*row).gid)
                .cast::<[u8; 16]>()
                .write_unaligned(entry.engine().gid.0);
            (*row).gid_index = u32::from(entry.index());
            (*row).port_num = entry.port();
            (*row).gid_type = entry.gid_type();
            if !ndev.is_null() {
                (*row).netdev_ifindex = NetDevice::from_raw(ndev).ifindex();
            }
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }
}
