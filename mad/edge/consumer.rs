// SPDX-License-Identifier: GPL-2.0

//! Conversion of sends from and to consumers: the arguments of functions of `include/rdma/ib_mad.h`
//! that take a `struct ib_mad_send_buf`.

use super::send::SendBuf;
use super::send::SendRequest;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;

/// The send of a consumer's structure.
///
/// # Safety
///
/// `buf` must be that of a send that [`SendRequest::make`] created and that is not freed.
unsafe fn of_buf(buf: *mut bindings::ib_mad_send_buf) -> *const SendRequest {
    // SAFETY: By the contract of this function, `buf` is embedded in a `SendRequest`; only the
    // address is computed.
    unsafe { container_of!(buf.cast::<SendBuf>(), SendRequest, buf) }
}

/// A send that is given to the consumer.
pub(crate) struct Created(pub(crate) Arc<SendRequest>);

impl AnswerOk for Created {
    type C = *mut bindings::ib_mad_send_buf;

    fn ok(self) -> Self::C {
        let buf = self.0.buf().raw();
        // The consumer's reference; `Freed` takes it back.
        let _: *const SendRequest = Arc::into_raw(self.0);
        buf
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// A send that the consumer gives back.
pub(crate) struct Freed(#[expect(dead_code, reason = "it is dropped")] Arc<SendRequest>);

// SAFETY: `from_c` is for a send that the consumer received as `Created` and does not use again
// (`ib_free_send_mad` in `include/rdma/ib_mad.h`).
unsafe impl FromC for Freed {
    type C = *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c` takes over the consumer's reference.
        Self(unsafe { Arc::from_raw(of_buf(c)) })
    }
}
// SAFETY: It owns a reference to the send.
unsafe impl Within<'_> for Freed {}

/// A send that the consumer lends for a call, or null.
pub(crate) struct Lent<'a>(Option<NonNull<SendRequest>>, PhantomData<&'a SendRequest>);

impl Lent<'_> {
    /// Takes a reference to the send.
    pub(crate) fn send(&self) -> Option<Arc<SendRequest>> {
        let send = self.0?;
        // SAFETY: The consumer holds a reference during the call, see `FromC`.
        Some(unsafe { ArcBorrow::from_raw(send.as_ptr()) }.into())
    }
}

// SAFETY: `from_c` is for null, or a send that the consumer received as `Created` and does not free
// during the call.
unsafe impl FromC for Lent<'_> {
    type C = *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        if c.is_null() {
            return Self(None, PhantomData);
        }
        // SAFETY: It is a send that the consumer received as `Created`, see `FromC`.
        Self(NonNull::new(unsafe { of_buf(c) }.cast_mut()), PhantomData)
    }
}
// SAFETY: The consumer holds a reference for the call.
unsafe impl<'a> Within<'a> for Lent<'a> {}

/// A list of sends to be posted, linked by `next`.
pub(crate) struct Posts<'a>(*mut bindings::ib_mad_send_buf, PhantomData<&'a SendRequest>);

impl Posts<'_> {
    /// Returns whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Takes the first send. The consumer may free it as soon as it is posted.
    pub(crate) fn pop(&mut self) -> Option<Arc<SendRequest>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: The consumer holds a reference to each send of the list that is not posted yet,
        // see `FromC`.
        let send: Arc<SendRequest> = unsafe { ArcBorrow::from_raw(of_buf(self.0)) }.into();
        self.0 = send.buf().next();
        Some(send)
    }
}

// SAFETY: `from_c` is for null, or a list of sends that the consumer received as `Created`, and
// does not access until each is posted (`ib_post_send_mad` in `include/rdma/ib_mad.h`).
unsafe impl FromC for Posts<'_> {
    type C = *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The consumer leaves the list to the callee for the call.
unsafe impl<'a> Within<'a> for Posts<'a> {}

/// Pointer to where the consumer wants the send that failed to be stored; may be null.
pub(crate) struct BadSend<'a>(
    Option<NonNull<*mut bindings::ib_mad_send_buf>>,
    PhantomData<&'a SendRequest>,
);

impl BadSend<'_> {
    /// Stores the send that failed.
    pub(crate) fn set(&self, send: &SendRequest) {
        if let Some(place) = self.0 {
            // SAFETY: The pointer is valid for the call, see `FromC`.
            unsafe { place.write(send.buf().raw()) };
        }
    }
}

// SAFETY: `from_c` is for null, or a pointer that only the callee uses during the call.
unsafe impl FromC for BadSend<'_> {
    type C = *mut *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(NonNull::new(c), PhantomData)
    }
}
// SAFETY: The consumer leaves the memory to the callee for the call.
unsafe impl<'a> Within<'a> for BadSend<'a> {}
