// SPDX-License-Identifier: GPL-2.0

//! Identifiers of kernel consumers: in a network namespace, with a queue pair.
//!
//! The functions are those of `include/rdma/rdma_cm.h` and `rust/helpers/post.c`. For modules with
//! `rdma-ulp-objs`.

use super::context::Context;
use super::handler;
use super::Answered;
use super::CmEvent;
use super::CmId;
use super::CmUser;
use super::ConnParam;
use super::NotAccepted;
use super::Request;
use crate::bindings;
use crate::edge::View;
use crate::net::CountedNet;
use crate::ulp::Depth;
use crate::ulp::Ends;
use crate::ulp::Pd;
use crate::ulp::Qp;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

impl<U: CmUser> CmId<U> {
    /// Creates an identifier for connections by TCP port numbers, in a network namespace, which it
    /// keeps. `name` is that of the module, for `rdma resource`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create(user: Arc<U>, net: &CountedNet, name: &'static CStr) -> Result<Self> {
        let context = Context::new(user)?;
        // SAFETY: The context stays as long as the identifier (`CmId`); `handler` expects it. The
        // namespace exists, and the identifier takes a reference; the name is constant.
        unsafe {
            let raw = bindings::__rdma_create_kernel_id(
                net.as_raw(),
                Some(handler::<U>),
                context.place(),
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                name.as_char_ptr(),
            );
            Self::made(raw, context)
        }
    }

    /// Creates its queue pair, which takes receives from now on. The connection manager brings it
    /// into the states that follow. It exists at least as long as the identifier. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has one; `EINVAL` without a device, or if the protection domain is of another
    /// one, or for queues deeper than the device has; `ENOMEM`; those of the driver.
    pub fn create_qp<E: Ends>(
        &mut self,
        pd: &Arc<Pd>,
        depth: Depth,
        ends: Arc<E>,
    ) -> Result<Arc<Qp<E>>> {
        if self.qp.is_some() {
            return Err(EBUSY);
        }
        let raw = self.with_device()?;
        // SAFETY: `rdma_create_qp` creates the queue pair and stores it in the identifier, which
        // exists (type invariant). Only `rdma_destroy_qp`, which nobody calls, would destroy it.
        let qp = unsafe {
            Qp::new(pd, depth, ends, |pd, make| {
                to_result(bindings::rdma_create_qp(raw, pd, make))?;
                NonNull::new((*raw).qp).ok_or(EINVAL)
            })
        }?;
        // INVARIANT: The queue pair of the identifier is this one.
        self.qp = Some(qp.clone());
        Ok(qp)
    }
}

impl<U: CmUser> CmId<U> {
    /// Connects, in the handler of its event that the route is resolved, which holds the handler
    /// lock; [`connect`](CmId::connect) fails there. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the event is another identifier's, or without a device; those of
    /// `rdma_connect_locked`.
    pub fn connect_in_handler(&mut self, event: &CmEvent<'_>, param: &ConnParam<'_>) -> Result {
        if event.id.raw() != self.raw() {
            return Err(EINVAL);
        }
        let (raw, mut param) = (self.with_device()?, param.to_c()?);
        // SAFETY: The identifier exists (type invariant), and its handler lock is held, since this is
        // its handler. The private data are borrowed.
        to_result(unsafe { bindings::rdma_connect_locked(raw, &mut param) })
    }

    /// Accepts a connection request, in the handler of the request or of another event of this
    /// identifier, which holds the handler lock; [`lock`](CmId::lock) fails there. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the event is another identifier's, or without a device; those of
    /// `rdma_accept_ece`.
    pub fn accept_in_handler(&mut self, event: &CmEvent<'_>, param: &ConnParam<'_>) -> Result {
        if event.id.raw() != self.raw() {
            return Err(EINVAL);
        }
        // SAFETY: The handler lock is held, since this is the identifier's handler.
        unsafe { self.accept(Some(param), (0, 0)) }
    }
}

impl<'a, U: CmUser> Request<'a, U> {
    /// Takes the identifier, calls `prepare`, which makes the queue pair, and accepts the connection.
    /// Events of the identifier go to `user`. If either fails, the connection is rejected, and the
    /// peer told. May sleep.
    ///
    /// # Errors
    ///
    /// The answer that rejects, if anything has failed, with the queue pair.
    pub fn accept(
        self,
        user: Arc<U>,
        param: &ConnParam<'_>,
        prepare: impl FnOnce(&mut CmId<U>) -> Result,
    ) -> Result<(CmId<U>, Answered<'a>), NotAccepted<'a>> {
        let place = self.id;
        let not = |answered| NotAccepted { answered, qp: None };
        let (mut id, answered) = self.take(user).map_err(not)?;
        let done = prepare(&mut id).and_then(|()| {
            // SAFETY: The connection manager holds the handler lock of the request's identifier
            // while it calls the handler, whose request this was. If `prepare` has put another one
            // here, nothing is accepted.
            unsafe {
                if id.raw != place {
                    return Err(EINVAL);
                }
                id.accept(Some(param), (0, 0))
            }
        });
        match done {
            Ok(()) => Ok((id, answered)),
            // The request's identifier is kept by who has exchanged it.
            Err(_) if id.raw != place => Err(not(answered)),
            Err(_) => Err(NotAccepted {
                // Not the error: for `ENOMEM` the peer would be told nothing.
                answered: Answered(EINVAL.to_errno(), PhantomData),
                qp: id.give_up(),
            }),
        }
    }
}
