// SPDX-License-Identifier: GPL-2.0

//! Chains of work requests (`struct ib_send_wr`, `struct ib_recv_wr`) for drivers.
//!
//! A chain is an array whose elements are linked when it is complete: it does not move from then
//! on. Scatter entries of all requests are one array, which has them in the order of the requests.

use crate::edge::handle::Shared;
use crate::edge::unsupported;
use crate::object::ah::Ah;
use crate::proto::post::RecvRequest;
use crate::proto::post::SendRequest;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::verbs;
use rdma::edge::View;

/// The bytes of a scatter entry (`struct ib_sge`), which programs have in the form of the kernel.
pub(crate) type Entry = [u64; 2];

const _: () = {
    use bindings::ib_sge as Kernel;
    use bindings::ib_uverbs_sge as Program;
    assert!(size_of::<Kernel>() == size_of::<Program>());
    assert!(size_of::<Kernel>() == size_of::<Entry>());
    assert!(align_of::<Kernel>() == align_of::<Entry>());
    assert!(size_of::<Kernel>() == crate::proto::post::SGE);
    assert!(core::mem::offset_of!(Kernel, addr) == core::mem::offset_of!(Program, addr));
    assert!(core::mem::offset_of!(Kernel, length) == core::mem::offset_of!(Program, length));
    assert!(core::mem::offset_of!(Kernel, lkey) == core::mem::offset_of!(Program, lkey));
    assert!(size_of::<bindings::ib_uverbs_send_wr>() == crate::proto::post::SEND);
    assert!(size_of::<bindings::ib_uverbs_recv_wr>() == crate::proto::post::RECV);
};

/// A driver has refused a work request, and those behind it.
pub(crate) struct Refused {
    /// Why.
    pub(crate) error: Error,
    /// How many work requests there are up to the refused one.
    pub(crate) at: u32,
}

/// What a work request to send has besides what all have.
pub(crate) enum Special<'c> {
    /// Nothing.
    Plain,
    /// A remote address.
    Rdma,
    /// A remote address and operands.
    Atomic,
    /// An address handle.
    Ud(Shared<'c, Ah>),
}

/// A work request to send, of any form. All of them begin with the common part.
#[repr(C)]
union AnySend {
    plain: ManuallyDrop<bindings::ib_send_wr>,
    rdma: ManuallyDrop<bindings::ib_rdma_wr>,
    atomic: ManuallyDrop<bindings::ib_atomic_wr>,
    ud: ManuallyDrop<bindings::ib_ud_wr>,
}

impl AnySend {
    fn new(request: &SendRequest, special: &Special<'_>) -> Self {
        let wr = bindings::ib_send_wr {
            next: ptr::null_mut(),
            __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 {
                wr_id: ManuallyDrop::new(request.id),
            },
            sg_list: ptr::null_mut(),
            // CAST: `proto::post` admits less than 2^31 entries.
            num_sge: request.entries as c_int,
            opcode: request.opcode,
            // CAST: C keeps the bits in an `int`.
            send_flags: request.flags as c_int,
            ex: bindings::ib_send_wr__bindgen_ty_2 {
                imm_data: ManuallyDrop::new(request.extra),
            },
        };
        // The rest of a driver's structure is zero.
        // SAFETY: All members of the union are numbers and pointers, for which zeros are valid.
        let mut any: Self = unsafe { core::mem::zeroed() };
        match special {
            Special::Plain => any.plain = ManuallyDrop::new(wr),
            Special::Rdma => {
                any.rdma = ManuallyDrop::new(bindings::ib_rdma_wr {
                    wr,
                    remote_addr: request.address,
                    rkey: request.key,
                });
            }
            Special::Atomic => {
                any.atomic = ManuallyDrop::new(bindings::ib_atomic_wr {
                    wr,
                    remote_addr: request.address,
                    compare_add: request.compare_add,
                    swap: request.swap,
                    rkey: request.atomic_key,
                    ..Default::default()
                });
            }
            Special::Ud(ah) => {
                let ah: &verbs::Ah = ah;
                any.ud = ManuallyDrop::new(bindings::ib_ud_wr {
                    wr,
                    ah: ah.raw(),
                    remote_qpn: request.qpn,
                    remote_qkey: request.qkey,
                    ..Default::default()
                });
            }
        }
        any
    }
}

/// Work requests for a send queue. Without any, it needs no memory.
pub(crate) struct Sends<'c> {
    list: KVVec<AnySend>,
    /// Locks of the address handles that the requests point to.
    ahs: KVVec<Shared<'c, Ah>>,
}

impl<'c> Sends<'c> {
    /// Room for `count` requests, of which each has an address handle if `with_ahs`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(count: usize, with_ahs: bool) -> Result<Self> {
        Ok(Self {
            list: accounted::with_capacity(count)?,
            ahs: accounted::with_capacity(if with_ahs { count } else { 0 })?,
        })
    }

    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is no room.
    pub(crate) fn push(&mut self, request: &SendRequest, special: Special<'c>) -> Result {
        let any = AnySend::new(request, &special);
        self.list.push_within_capacity(any).map_err(|_| ENOMEM)?;
        if let Special::Ud(ah) = special {
            self.ahs.push_within_capacity(ah).map_err(|_| ENOMEM)?;
        }
        Ok(())
    }

    /// Posts the requests, whose scatter entries are in `entries`. May sleep, if the driver does.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there are fewer entries; those of the driver.
    pub(crate) fn post(
        mut self,
        qp: &verbs::Qp,
        entries: &mut [Entry],
    ) -> core::result::Result<(), Refused> {
        let mut entries = entries;
        let mut next: *mut bindings::ib_send_wr = ptr::null_mut();
        // From the end, where the next one is known.
        for any in self.list.iter_mut().rev() {
            // Drivers get from the common part to the whole.
            let common = ptr::from_mut(any).cast::<bindings::ib_send_wr>();
            // SAFETY: The request is borrowed, and all members of the union begin with this.
            unsafe {
                let count = (*common).num_sge;
                let (rest, list) = last(entries, count).ok_or_else(Refused::invalid)?;
                (*common).sg_list = list;
                entries = rest;
                (*common).next = next;
            }
            next = common;
        }
        let post = qp.dev().ops().post_send.ok_or_else(Refused::unsupported)?;
        let mut bad: *const bindings::ib_send_wr = ptr::null();
        // SAFETY: The chain is linked, its array does not move, and its entries are borrowed; the
        // address handles are locked. The queue pair is borrowed.
        to_result(unsafe { post(qp.real().raw(), next, &mut bad) }).map_err(|error| {
            let at = place(&self.list, bad.cast());
            Refused { error, at }
        })
    }
}

/// Calls the driver without a request: a program has written requests to its send queue. May sleep,
/// if the driver does.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
#[inline]
pub(crate) fn ring(qp: &verbs::Qp) -> Result {
    let post = qp.dev().ops().post_send.ok_or_else(unsupported)?;
    let mut bad: *const bindings::ib_send_wr = ptr::null();
    // SAFETY: The queue pair is borrowed, and there is no request.
    match unsafe { post(qp.real().raw(), ptr::null(), &mut bad) } {
        0 => Ok(()),
        error => to_result(error),
    }
}

/// Work requests for a receive queue. An empty list allocates nothing.
pub(crate) struct Recvs {
    list: KVVec<bindings::ib_recv_wr>,
}

impl Recvs {
    /// Room for `count` requests. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self {
            list: accounted::with_capacity(count)?,
        })
    }

    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is no room.
    pub(crate) fn push(&mut self, request: &RecvRequest) -> Result {
        let wr = bindings::ib_recv_wr {
            next: ptr::null_mut(),
            __bindgen_anon_1: bindings::ib_recv_wr__bindgen_ty_1 {
                wr_id: ManuallyDrop::new(request.id),
            },
            sg_list: ptr::null_mut(),
            // CAST: `proto::post` admits less than 2^31 entries.
            num_sge: request.entries as c_int,
        };
        self.list.push_within_capacity(wr).map_err(|_| ENOMEM)
    }

    /// Links the requests, and gives the first.
    fn link(
        &mut self,
        entries: &mut [Entry],
    ) -> core::result::Result<*const bindings::ib_recv_wr, Refused> {
        let mut entries = entries;
        let mut next: *mut bindings::ib_recv_wr = ptr::null_mut();
        for wr in self.list.iter_mut().rev() {
            wr.next = next;
            let (rest, list) = last(entries, wr.num_sge).ok_or_else(Refused::invalid)?;
            wr.sg_list = list;
            entries = rest;
            next = wr;
        }
        Ok(next)
    }

    /// Posts the requests to a queue pair; as [`Sends::post`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post(
        mut self,
        qp: &verbs::Qp,
        entries: &mut [Entry],
    ) -> core::result::Result<(), Refused> {
        let first = self.link(entries)?;
        let post = qp.dev().ops().post_recv.ok_or_else(Refused::unsupported)?;
        let mut bad: *const bindings::ib_recv_wr = ptr::null();
        // SAFETY: The chain is linked, its array does not move, and its entries are borrowed, as
        // the queue pair is.
        to_result(unsafe { post(qp.real().raw(), first, &mut bad) }).map_err(|error| {
            let at = place(&self.list, bad.cast());
            Refused { error, at }
        })
    }

    /// Posts the requests to a shared receive queue; as [`Sends::post`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_shared(
        mut self,
        srq: &verbs::Srq,
        entries: &mut [Entry],
    ) -> core::result::Result<(), Refused> {
        let first = self.link(entries)?;
        let post = srq
            .dev()
            .ops()
            .post_srq_recv
            .ok_or_else(Refused::unsupported)?;
        let mut bad: *const bindings::ib_recv_wr = ptr::null();
        // SAFETY: As in `post`.
        to_result(unsafe { post(srq.raw(), first, &mut bad) }).map_err(|error| {
            let at = place(&self.list, bad.cast());
            Refused { error, at }
        })
    }
}

impl Refused {
    /// The parts of a chain do not fit.
    fn invalid() -> Self {
        Self {
            error: EINVAL,
            at: 0,
        }
    }

    /// The driver does not have the method.
    fn unsupported() -> Self {
        Self {
            error: unsupported(),
            at: 0,
        }
    }
}

/// Takes the last `count` entries, null for none. The others come first.
fn last(entries: &mut [Entry], count: c_int) -> Option<(&mut [Entry], *mut bindings::ib_sge)> {
    let count = usize::try_from(count).ok()?;
    if count == 0 {
        return Some((entries, ptr::null_mut()));
    }
    let (rest, taken) = entries.split_at_mut_checked(entries.len().checked_sub(count)?)?;
    Some((rest, taken.as_mut_ptr().cast()))
}

/// Number of requests up to and including the one at an address; all of them if none is there.
fn place<T>(list: &[T], at: *const T) -> u32 {
    let index = list.iter().position(|wr| ptr::eq(wr, at));
    let count = index.map_or(list.len(), |index| index.saturating_add(1));
    u32::try_from(count).unwrap_or(u32::MAX)
}
