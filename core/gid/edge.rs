// SPDX-License-Identifier: GPL-2.0

//! GIDs and entries of their tables at the edge: arguments and answers of exported functions.
//!
//! To be held against `include/rdma/ib_cache.h` and `include/rdma/ib_verbs.h`. A GID of C may be
//! part of a packet: it is read and written unaligned.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::error::code::EINVAL;
use kernel::error::Error;
use kernel::error::Result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use rdma::bindings;
use rdma::edge::Answer;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::net::NetDevice;

use super::entry::Entry;
use super::entry::Held;
use crate::proto::gid::Gid;

/// # Safety
///
/// `gid` is a GID.
unsafe fn read(gid: *const bindings::ib_gid) -> Gid {
    // SAFETY: This function's contract.
    Gid(unsafe { gid.cast::<[u8; 16]>().read_unaligned() })
}

/// A GID that a driver has written.
pub(super) fn read_own(gid: &bindings::ib_gid) -> Gid {
    // SAFETY: A reference to a GID.
    unsafe { read(gid) }
}

// SAFETY: `from_c`'s contract: a GID.
unsafe impl FromC for Gid {
    type C = *const bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        unsafe { read(c) }
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for Gid {}

/// A GID that a prototype does not declare `const`.
pub(super) struct MutGid(pub(super) Gid);

// SAFETY: `from_c`'s contract: a GID.
unsafe impl FromC for MutGid {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { read(c) })
    }
}
// SAFETY: It holds no reference.
unsafe impl Within<'_> for MutGid {}

/// A place for a GID.
pub(super) struct OutGid<'a>(NonNull<bindings::ib_gid>, PhantomData<&'a mut Gid>);

impl OutGid<'_> {
    /// Writes the GID.
    pub(super) fn set(&mut self, gid: Gid) {
        // SAFETY: `from_c`'s contract: the place may be written during the call.
        unsafe { self.0.as_ptr().cast::<[u8; 16]>().write_unaligned(gid.0) };
    }
}

// SAFETY: `from_c`'s contract: a place for a GID.
unsafe impl FromC for OutGid<'_> {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { NonNull::new_unchecked(c) }, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for OutGid<'a> {}

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

// SAFETY: `from_c`'s contract: null, or a place for six bytes.
unsafe impl FromC for OutMac<'_> {
    type C = *mut u8;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(NonNull::new(c.cast()), PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for OutMac<'a> {}

rdma::c_struct! {
    /// What C knows of an entry. Only entries of tables exist ([`Entry::attr`]).
    pub(super) struct GidAttr: bindings::ib_gid_attr;
    fields {}
}

impl GidAttr {
    /// The entry.
    pub(super) fn entry(&self) -> &Entry {
        // SAFETY: C has no others than those that `Entry::attr` gave it.
        unsafe { Entry::from_attr(self.raw()) }
    }
}

// SAFETY: `from_c`'s contract: an entry that the caller holds, and gives up.
unsafe impl FromC for Held {
    type C = *const bindings::ib_gid_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        unsafe { Self::from_raw(c) }
    }
}
// SAFETY: It owns its hold, so it is not limited by a call.
unsafe impl Within<'_> for Held {}

impl AnswerOk for Held {
    type C = *const bindings::ib_gid_attr;

    fn ok(self) -> Self::C {
        self.into_raw()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// An entry, held for the C caller, or any error number, also such as [`Error`] does not have.
pub(super) struct Answered(*const bindings::ib_gid_attr);

impl Answered {
    /// An entry.
    pub(super) fn held(held: Held) -> Self {
        Self(held.into_raw())
    }

    /// An error.
    pub(super) fn error(error: Error) -> Self {
        Self(error.to_ptr())
    }

    /// An error by its negative number.
    pub(super) fn number(number: c_int) -> Self {
        // CAST: An error's pointer is its number.
        Self(core::ptr::without_provenance(number as isize as usize))
    }
}

impl Answer for Answered {
    type C = *const bindings::ib_gid_attr;

    fn answer(self) -> Self::C {
        self.0
    }
}

/// A GID that is searched, as C gave it.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a>(NonNull<bindings::ib_gid>, PhantomData<&'a Gid>);

impl Wanted<'_> {
    /// The GID.
    pub(super) fn gid(self) -> Gid {
        // SAFETY: `from_c`'s contract: a GID, during the call.
        unsafe { read(self.0.as_ptr()) }
    }
}

// SAFETY: `from_c`'s contract: a GID.
unsafe impl FromC for Wanted<'_> {
    type C = *const bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { NonNull::new_unchecked(c.cast_mut()) }, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Wanted<'a> {}

/// A caller's filter with its arguments.
pub(super) struct Filter<'a> {
    filter: FilterFn,
    wanted: Wanted<'a>,
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

// SAFETY: `from_c`'s contract: null, or a function that may be called with a GID, an entry, and
// the context that C gave along, with interrupts off.
unsafe impl FromC for FilterFn {
    type C = Option<
        unsafe extern "C" fn(
            *const bindings::ib_gid,
            *const bindings::ib_gid_attr,
            *mut c_void,
        ) -> bool,
    >;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: It is called during the call only: `Filter` borrows the GID.
unsafe impl Within<'_> for FilterFn {}

impl<'a> Filter<'a> {
    /// # Errors
    ///
    /// `EINVAL` without a function.
    pub(super) fn new(
        filter: FilterFn,
        wanted: Wanted<'a>,
        context: Passed<c_void>,
    ) -> Result<Self> {
        filter.0.ok_or(EINVAL)?;
        Ok(Self {
            filter,
            wanted,
            context,
        })
    }

    /// Asks it for an entry. No interrupts, and no lookup of GIDs within.
    pub(super) fn likes(&self, entry: &Entry) -> bool {
        self.filter.0.is_some_and(|filter| {
            // SAFETY: The contract of `FilterFn`; function and context come from one call.
            unsafe { filter(self.wanted.0.as_ptr(), entry.attr(), self.context.into_c()) }
        })
    }
}

/// A row of an answer to `uverbs`.
pub(super) type Row = bindings::ib_uverbs_gid_entry;

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

/// C's arguments of an array: where, and for how many.
impl Rows {
    /// # Safety
    ///
    /// There is room for `max` rows during the call.
    pub(super) unsafe fn new(place: Passed<Row>, max: usize) -> Self {
        // INVARIANT: This function's contract.
        Self {
            place: place.into_c(),
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
            (*row).gid_type = (*entry.attr()).gid_type;
            if !ndev.is_null() {
                (*row).netdev_ifindex = NetDevice::from_raw(ndev).ifindex();
            }
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }
}
