// SPDX-License-Identifier: GPL-2.0

//! The C interface of security modules: security contexts of users, notifications of policy
//! changes, and the security field of a queue pair.
//!
//! C headers: `include/linux/security.h`, and `struct ib_qp` in `include/rdma/ib_verbs.h`.

use super::policy;
use super::policy::Judge;
use super::qp::Secured;
use crate::object::tables::Qp;
use crate::object::Doomed;
use crate::private;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::Lent;
use rdma::edge::View;
use rdma::edge::Writer;
use rdma::module::Resident;

/// Security context of the process that created it.
///
/// # Invariants
///
/// `0` was allocated by `security_ib_alloc_security` and is not freed yet.
pub(super) struct Token(*mut c_void);

// SAFETY: Security modules may be called from any thread; the context does not change after its
// creation.
unsafe impl Send for Token {}
// SAFETY: See `Send`.
unsafe impl Sync for Token {}

impl Token {
    /// Allocates a context for the current process. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the security module.
    pub(super) fn new() -> Result<Self> {
        let mut token = ptr::null_mut();
        alloc_token(Lent(&mut token))?;
        // INVARIANT: The context was just allocated.
        Ok(Self(token))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // INVARIANT (of `Unused`): The token is not used after this.
        free_token(Unused(self.0));
    }
}

impl IntoC<*mut c_void> for &Token {
    fn into_c(self) -> *mut c_void {
        self.0
    }
}

/// A token that is no longer used.
///
/// # Invariants
///
/// `0` is as in [`Token`], and nobody else uses it.
struct Unused(*mut c_void);

impl IntoC<*mut c_void> for Unused {
    fn into_c(self) -> *mut c_void {
        self.0
    }
}

rdma::import! { in crate::private;
    /// Allocates a security context for the current process. May sleep.
    fn alloc_token(token: Lent<'_, *mut c_void>) -> Result = security_ib_alloc_security;
    /// Frees a security context.
    fn free_token(token: Unused) = security_ib_free_security;
    /// Checks whether a user may use a partition. Any context.
    pub(super) fn pkey_access(token: &Token, subnet_prefix: u64, pkey: u16) -> Result
        = security_ib_pkey_access;
    /// Checks whether a user may send and receive subnet management packets on a port. Any context.
    pub(super) fn endport_manage_subnet(token: &Token, device: &CStr, port: u8) -> Result
        = security_ib_endport_manage_subnet;
}

/// Registration of [`policy::changed`] for changes of the policy, as long as it exists.
///
/// # Invariants
///
/// The notifier block is registered.
#[pin_data(PinnedDrop)]
pub(super) struct PolicyNotifier {
    judge: Arc<Judge>,
    #[pin]
    block: Opaque<bindings::notifier_block>,
    /// The callback is the module's code.
    _resident: Resident,
}

// SAFETY: Only C accesses the block, under its locks.
unsafe impl Send for PolicyNotifier {}
// SAFETY: See `Send`.
unsafe impl Sync for PolicyNotifier {}

impl PolicyNotifier {
    /// Registers the notifier. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `register_blocking_lsm_notifier`.
    pub(super) fn register(judge: Arc<Judge>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Before the block: the notifier may be called while the block is being registered.
            judge,
            _resident: rdma::resident!(),
            // INVARIANT: The block is registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until it is unregistered in
                // `drop`.
                unsafe {
                    block.write(bindings::notifier_block {
                        notifier_call: Some(Self::changed),
                        ..Default::default()
                    });
                    to_result(private::register_blocking_lsm_notifier(block))
                }
            }),
        })
    }

    /// # Safety
    ///
    /// Only for C, with the block of a `Self`.
    unsafe extern "C" fn changed(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        _data: *mut c_void,
    ) -> c_int {
        if event != private::lsm_event_LSM_POLICY_CHANGE as c_ulong {
            // CAST: The constant is 0.
            return bindings::NOTIFY_DONE as c_int;
        }
        // SAFETY: The block is inside a `Self`, which is pinned until the block is unregistered.
        // Its other field was initialised before the block.
        let judge = unsafe { &(*container_of!(Opaque::cast_from(block), Self, block)).judge };
        policy::changed(judge);
        // CAST: The constant is 1.
        bindings::NOTIFY_OK as c_int
    }
}

#[pinned_drop]
impl PinnedDrop for PolicyNotifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block is registered (type invariant). C waits for running calls.
        unsafe { private::unregister_blocking_lsm_notifier(self.block.get()) };
    }
}

/// A queue pair that can be moved to the error state. [`Secured`] holds it under its lock;
/// `destroy` removes it before the driver destroys the queue pair.
///
/// # Invariants
///
/// The queue pair exists as long as this value does.
pub(super) struct Living(NonNull<bindings::ib_qp>);

// SAFETY: Queue pairs may be used from any thread.
unsafe impl Send for Living {}

impl Deref for Living {
    type Target = Qp;

    fn deref(&self) -> &Qp {
        // SAFETY: The queue pair exists (type invariant).
        unsafe { Qp::view(self.0.as_ptr()) }
    }
}

/// Stores the security state of a queue pair in its field, until [`take`]. Called before the queue
/// pair is shared.
pub(super) fn put(qp: &mut impl Writer<Of = Qp>, secured: Arc<Secured>) -> Option<Living> {
    let qp = qp.place();
    // SAFETY: The field belongs to the core, and nobody else reads or writes it (contract of
    // `Writer`).
    unsafe { (*qp).qp_sec = Arc::into_raw(secured).cast_mut().cast() };
    // INVARIANT: Queue pairs are destroyed by `super::destroy` (`verbs::qp::destroy`) only, which
    // removes this from the `Secured` that it finds in the field.
    NonNull::new(qp).map(Living)
}

/// Returns the security state of a queue pair, if it has one.
pub(super) fn of(qp: &Qp) -> Option<Arc<Secured>> {
    // SAFETY: The field is null, or was written by `put` before the queue pair was shared. `take`
    // clears it when nobody uses the queue pair any more.
    unsafe {
        let secured = (*qp.raw()).qp_sec.cast::<Secured>();
        (!secured.is_null()).then(|| ArcBorrow::from_raw(secured).into())
    }
}

/// Removes the security state from a queue pair that nobody uses any more.
pub(super) fn take(qp: &Doomed<'_, Qp>) -> Option<Arc<Secured>> {
    // SAFETY: As in `of`. Nobody else uses the field (`Doomed`), and `replace` hands out the
    // reference once.
    unsafe {
        let field = &raw mut (*qp.raw()).qp_sec;
        let secured = field.replace(ptr::null_mut()).cast::<Secured>();
        (!secured.is_null()).then(|| Arc::from_raw(secured))
    }
}
