// SPDX-License-Identifier: GPL-2.0

//! Clients (`struct ib_sa_client`) and their callbacks.
//!
//! A client counts its queries and memberships. Its owner waits in `ib_sa_unregister_client` until
//! all of them have ended. C header: `include/rdma/ib_sa.h`.
//!
//! Context: any, except for [`LeavingClient::unregister`].

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::Tied;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sync::Completion;

rdma::c_struct! {
    /// A registered client. Its memory stays valid until the owner has waited for the end of all
    /// uses.
    pub(in crate::sa) struct Client: bindings::ib_sa_client;
    fields {
        /// Completed by the end of the last use. Initialised when the client is registered.
        embed comp: Completion;
    }
}

impl Client {
    /// Number of uses: one for the owner, one for each query and membership.
    fn users(&self) -> &Atomic<i32> {
        // SAFETY: The reference keeps the client. The field is an aligned word that is accessed
        // atomically from registration on.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).users.counter) }
    }
}

/// A client that is not registered yet.
pub(in crate::sa) struct NewClient<'a>(*mut bindings::ib_sa_client, PhantomData<&'a Client>);

impl NewClient<'_> {
    /// Registers the client, with the use of the owner.
    pub(in crate::sa) fn register(self) {
        // SAFETY: The memory is valid, and nobody else uses it yet (contract of `from_c`).
        unsafe {
            (&raw mut (*self.0).users.counter).write(1);
            bindings::init_completion(&raw mut (*self.0).comp);
        }
    }
}

// SAFETY: `from_c` is for memory of a client that nobody else uses yet (`ib_sa_register_client`).
unsafe impl FromC for NewClient<'_> {
    type C = *mut bindings::ib_sa_client;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a> Within<'a> for NewClient<'a> {}

/// A client that its owner unregisters.
///
/// # Invariants
///
/// The client is registered, and this has the owner's use. The owner starts no more queries.
pub(in crate::sa) struct LeavingClient<'a>(&'a Client);

impl LeavingClient<'_> {
    /// Waits until all queries and memberships have ended. May sleep.
    pub(in crate::sa) fn unregister(self) {
        // INVARIANT: The owner's use (type invariant), which is given up here only.
        drop(User(NonNull::from(self.0)));
        self.0.comp().wait();
    }
}

// SAFETY: `from_c` is for a registered client that its owner unregisters, for which it starts no
// more queries (`ib_sa_unregister_client`).
unsafe impl FromC for LeavingClient<'_> {
    type C = *mut bindings::ib_sa_client;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: The contract of `from_c`.
        // SAFETY: The client is registered, and stays for the call (contract of `from_c`).
        Self(unsafe { Client::view(c) })
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a> Within<'a> for LeavingClient<'a> {}

/// A use of a client.
///
/// # Invariants
///
/// It is counted, so the owner of the client waits for its end before the memory is freed.
pub(in crate::sa) struct User(NonNull<Client>);

// SAFETY: The count is changed atomically, the completion locks itself.
unsafe impl Send for User {}
// SAFETY: See `Send`.
unsafe impl Sync for User {}

impl User {
    /// Counts one more use.
    pub(in crate::sa) fn enter(client: &Client) -> Self {
        client.users().add(1, Relaxed);
        // INVARIANT: The use was just counted. The owner has not begun to wait, as it lends the
        // client.
        Self(NonNull::from(client))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: The use is counted (type invariant): the memory is valid until the last use has
        // completed the completion, which is not touched afterwards.
        let client = unsafe { self.0.as_ref() };
        if client.users().fetch_sub(1, Full) == 1 {
            client.comp().complete();
        }
    }
}

/// A slot for a [`User`] that may be released before the slot is dropped.
///
/// # Invariants
///
/// Null, or the client of a [`User`] that belongs to this slot.
pub(in crate::sa) struct UserSlot(Atomic<*mut Client>);

impl UserSlot {
    /// Creates a slot with this use, if any.
    pub(in crate::sa) fn new(user: Option<User>) -> Self {
        let client = user.map_or(ptr::null_mut(), |user| ManuallyDrop::new(user).0.as_ptr());
        // INVARIANT: The slot takes over the use, which is not dropped here.
        Self(Atomic::<*mut Client>::new(client))
    }

    /// Ends the use, if it has not ended.
    pub(in crate::sa) fn release(&self) {
        let client = self.0.xchg(ptr::null_mut(), Full);
        // INVARIANT: The use belonged to this slot, and the exchange gives it to one caller only.
        drop(NonNull::new(client).map(User));
    }
}

impl Drop for UserSlot {
    fn drop(&mut self) {
        self.release();
    }
}

/// A callback of a client. Only C makes one.
pub(in crate::sa) struct Done<F>(pub(super) F);

// SAFETY: `from_c` is for null, or a function that may be called from any thread with the context
// of the same call, as `ib_sa.h` declares it.
unsafe impl<F> FromC for Done<F> {
    type C = F;

    #[inline(always)]
    unsafe fn from_c(c: F) -> Self {
        Self(c)
    }
}
// SAFETY: It holds no reference.
unsafe impl<F> Within<'_> for Done<F> {}

/// Called with an array of records, which is empty if the status is not zero.
pub(in crate::sa) type RecordsDone<T> =
    Option<unsafe extern "C" fn(status: c_int, rec: *mut T, count: c_uint, context: *mut c_void)>;
/// Called with one record, or with null if the status is not zero.
pub(in crate::sa) type RecordDone<T> =
    Option<unsafe extern "C" fn(status: c_int, rec: *mut T, context: *mut c_void)>;

/// Callback of `ib_sa_path_rec_get`.
pub(in crate::sa) type PathDone = RecordsDone<bindings::sa_path_rec>;
/// Callback of `ib_sa_service_rec_get`.
pub(in crate::sa) type ServiceDone = RecordsDone<bindings::sa_service_rec>;
/// Callback of `ib_sa_guid_info_rec_query`.
pub(in crate::sa) type GuidInfoDone = RecordDone<bindings::ib_sa_guidinfo_rec>;

/// Tag of the arguments of a client's request: the context belongs to the callback.
pub(in crate::sa) enum OfClient {}
/// The callback.
pub(in crate::sa) type DoneArg<'a, F> = Tied<'a, OfClient, Done<F>>;
/// The context.
pub(in crate::sa) type ContextArg<'a> = Tied<'a, OfClient, Passed<c_void>>;

/// A callback of a client with its context.
///
/// # Invariants
///
/// Both fields are arguments of the same call (tag [`OfClient`]).
pub(in crate::sa) struct Callback<F> {
    done: Done<F>,
    context: Passed<c_void>,
}

// SAFETY: The callback may be called from any thread (`Done`).
unsafe impl<F> Send for Callback<F> {}
// SAFETY: See `Send`.
unsafe impl<F> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// Creates a callback from the arguments of a call.
    pub(in crate::sa) fn new<'a>(done: DoneArg<'a, F>, context: ContextArg<'a>) -> Self {
        // INVARIANT: Both are arguments of the same call, by their tag.
        Self {
            done: done.get(),
            context: context.get(),
        }
    }

    /// Returns the fields as C stores them.
    pub(super) fn into_parts(self) -> (F, *mut c_void) {
        (self.done.0, self.context.into_c())
    }
}

impl<T> Callback<RecordsDone<T>> {
    /// Calls the callback. The client may read and write the records until this returns.
    pub(in crate::sa) fn tell(&self, status: c_int, records: &mut [T]) {
        let count = c_uint::try_from(records.len()).unwrap_or(0);
        let first = records.first_mut().map_or(ptr::null_mut(), ptr::from_mut);
        if let Some(done) = self.done.0 {
            // SAFETY: The callback gets its context (type invariant), and an array of `count`
            // records.
            unsafe { done(status, first, count, self.context.into_c()) };
        }
    }
}

impl<T> Callback<RecordDone<T>> {
    /// Calls the callback. The client may read and write the record until this returns.
    pub(in crate::sa) fn tell(&self, status: c_int, record: Option<&mut T>) {
        let record = record.map_or(ptr::null_mut(), ptr::from_mut);
        if let Some(done) = self.done.0 {
            // SAFETY: The callback gets its context (type invariant), and a record or null.
            unsafe { done(status, record, self.context.into_c()) };
        }
    }
}
