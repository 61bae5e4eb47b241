// SPDX-License-Identifier: GPL-2.0

//! Identifiers whose handlers do not run.

use super::CmEvent;
use super::CmId;
use super::CmUser;
use super::ConnParam;
use super::Ece;
use super::Route;
use super::SocketAddress;
use crate::bindings;
use crate::edge::cm::Id;
use crate::edge::View;
use core::ptr;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

type Gid = [u8; 16];

/// Returns what an identifier knows of its ends. For the holder of its handler lock.
fn route_of(id: &Id) -> Route {
    let mut route = Route::default();
    // SAFETY: The identifier exists, as it is borrowed.
    unsafe { bindings::rdma_helper_cm_route(id.raw(), &mut route) };
    route
}

/// Returns the GIDs of the ends of an identifier, source first; zeros without a device, in which the C
/// module would look. For the holder of its handler lock.
fn gids_of(id: &Id) -> (Gid, Gid) {
    let (mut from, mut to) = (bindings::ib_gid::default(), bindings::ib_gid::default());
    if !id.device().is_null() {
        // SAFETY: The identifier exists, as it is borrowed.
        unsafe { bindings::rdma_read_gids(id.raw(), &mut from, &mut to) };
    }
    // SAFETY: GIDs consist of bytes, any of which are valid.
    unsafe { (*from.raw, *to.raw) }
}

/// What a handler, which cannot take the lock that it runs under, may ask of the identifier.
impl CmEvent<'_> {
    /// As [`Locked::route`]; for a connection request, of the new identifier.
    pub fn route(&self) -> Route {
        route_of(self.id)
    }

    /// As [`Locked::gids`].
    pub fn gids(&self) -> (Gid, Gid) {
        gids_of(self.id)
    }
}

/// An identifier while none of its handlers runs.
///
/// # Invariants
///
/// This thread holds the handler lock.
pub struct Locked<'a, U: CmUser> {
    pub(super) id: &'a CmId<U>,
    pub(super) _not_send: NotThreadSafe,
}

impl<U: CmUser> Locked<'_, U> {
    /// Accepts a connection request. Without parameters, those of the request are used. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_accept_ece`.
    pub fn accept(&self, param: Option<&ConnParam<'_>>, extra: Ece) -> Result {
        // SAFETY: The handler lock is held (type invariant).
        unsafe { self.id.accept(param, extra) }
    }

    /// Returns what the identifier knows of its ends.
    pub fn route(&self) -> Route {
        route_of(self.id.view())
    }

    /// Returns the family of its source address.
    pub fn source_family(&self) -> u16 {
        self.id.view().source_family()
    }

    /// Returns the GIDs of its ends, source first; zeros without a device.
    pub fn gids(&self) -> (Gid, Gid) {
        gids_of(self.id.view())
    }

    /// Returns the service ID of an address of the identifier, in network byte order.
    pub fn service_id(&self, mut address: SocketAddress) -> u64 {
        // SAFETY: The identifier exists (invariant of `CmId`); the address has the size of all
        // families.
        unsafe { bindings::rdma_get_service_id(self.id.raw(), address.raw()) }
    }

    /// Returns a path, in a form for C functions. It exists as long as the result of
    /// [`route`](Self::route) says so, and this is borrowed.
    pub fn path(&self, index: u32) -> Option<*mut bindings::sa_path_rec> {
        if index >= self.route().paths {
            return None;
        }
        let first = NonNull::new(self.id.view().paths())?;
        // SAFETY: There are so many paths (`rdma_helper_cm_route`); they are allocated and freed by
        // calls of the consumer, which `&mut CmId` excludes.
        Some(unsafe { first.as_ptr().add(usize::try_from(index).ok()?) })
    }

    /// Returns a path as the subnet administrator sends it.
    pub fn packed_path(&self, index: u32) -> Option<[u8; 64]> {
        let path = self.path(index)?;
        let mut bytes = [0; 64];
        // SAFETY: The path exists (`path`); the function writes so many bytes.
        unsafe { bindings::rdma_helper_cm_pack_path(path, bytes.as_mut_ptr()) };
        Some(bytes)
    }

    /// Returns how many records of services there are. They are complete once the event
    /// `ADDRINFO_RESOLVED` has told of them.
    pub fn service_count(&self) -> u32 {
        // SAFETY: The identifier exists (invariant of `CmId`).
        unsafe { bindings::rdma_helper_cm_services(self.id.raw(), ptr::null_mut(), 0) }
    }

    /// Copies as many records of services as there are, or as fit.
    pub fn copy_services(&self, to: &mut [u8]) {
        // SAFETY: The identifier exists (invariant of `CmId`); the function writes at most so many
        // bytes.
        unsafe { bindings::rdma_helper_cm_services(self.id.raw(), to.as_mut_ptr(), to.len()) };
    }
}

impl<U: CmUser> Drop for Locked<'_, U> {
    fn drop(&mut self) {
        // SAFETY: This thread holds the lock (type invariant).
        unsafe { bindings::rdma_unlock_handler(self.id.raw()) };
    }
}
