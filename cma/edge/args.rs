// SPDX-License-Identifier: GPL-2.0

//! Arguments of exported functions.

use crate::proto::addr::Address;
use crate::proto::addr::Family;
use crate::proto::addr::STORAGE;
use crate::proto::service::Wanted;
use core::marker::PhantomData;
use kernel::ffi::c_void;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Within;
use rdma::net::CountedNet;

/// A socket address that a caller passed.
#[derive(Clone, Copy)]
pub(crate) struct Sock {
    /// The address; `None` if its family is unknown.
    pub(crate) addr: Option<Address>,
    /// The number of the family.
    pub(crate) family: u16,
}

impl Sock {
    /// Reads a socket address.
    ///
    /// # Safety
    ///
    /// `at` points to a family, and, if that is known, to an address of it.
    pub(crate) unsafe fn read(at: *const u8) -> Self {
        // SAFETY: Contract of this function.
        let family = unsafe { at.cast::<u16>().read_unaligned() };
        let mut bytes = [0; STORAGE];
        let size = Family::from_raw(family).map_or(0, Family::size);
        // SAFETY: The address has `size` bytes (contract of this function), at most as many as the
        // local variable.
        unsafe { core::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), size) };
        Self {
            addr: Address::parse(&bytes),
            family,
        }
    }
}

/// A `struct sockaddr *` argument; `None` for null.
pub(crate) struct SockAt(pub(crate) Option<Sock>);

// SAFETY: `from_c`'s contract: null, or what `Sock::read` demands.
unsafe impl FromC for SockAt {
    type C = *mut bindings::sockaddr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null, so a socket address (contract of this function).
        Self((!c.is_null()).then(|| unsafe { Sock::read(c.cast_const().cast()) }))
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for SockAt {}

/// A `const struct sockaddr *` argument; `None` for null.
pub(crate) struct SockIn(pub(crate) Option<Sock>);

// SAFETY: As for `SockAt`.
unsafe impl FromC for SockIn {
    type C = *const bindings::sockaddr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null, so a socket address (contract of this function).
        Self((!c.is_null()).then(|| unsafe { Sock::read(c.cast()) }))
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for SockIn {}

/// Private data of a consumer.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    at: *const c_void,
    len: u8,
    _call: PhantomData<&'a [u8]>,
}

impl<'a> Data<'a> {
    /// None.
    pub(crate) const NONE: Self = Self {
        at: core::ptr::null(),
        len: 0,
        _call: PhantomData,
    };

    /// # Safety
    ///
    /// `at` is null, or points to `len` bytes that exist for `'a`.
    pub(crate) unsafe fn new(at: *const c_void, len: u8) -> Self {
        Self {
            at,
            len,
            _call: PhantomData,
        }
    }

    /// The length that the consumer gave.
    pub(crate) fn len(&self) -> u8 {
        self.len
    }

    /// The pointer that the consumer gave; see [`new`](Self::new).
    pub(crate) fn as_ptr(&self) -> *const c_void {
        self.at
    }

    /// The bytes; none if the consumer gave no pointer.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: `len` bytes that exist for `'a` (contract of `new`).
        unsafe { core::slice::from_raw_parts(self.at.cast(), self.len.into()) }
    }
}

/// The pointer argument of private data. Its length is another argument, so that it becomes
/// [`Data`] by [`with`](Self::with).
pub(crate) struct DataAt<'a>(*const c_void, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract: null, or points to as many bytes as the next argument says.
unsafe impl FromC for DataAt<'_> {
    type C = *const c_void;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The bytes exist for the call.
unsafe impl<'a> Within<'a> for DataAt<'a> {}

/// The length argument after a [`DataAt`].
pub(crate) struct DataLen(u8);

// SAFETY: Every value is valid; the contract of `DataAt` is about it.
unsafe impl FromC for DataLen {
    type C = u8;

    unsafe fn from_c(c: u8) -> Self {
        Self(c)
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for DataLen {}

impl<'a> DataAt<'a> {
    /// The data.
    pub(crate) fn with(self, len: DataLen) -> Data<'a> {
        // SAFETY: Both come from one call, whose caller guarantees the bytes (contracts of both).
        unsafe { Data::new(self.0, len.0) }
    }
}

/// Parameters of a connection (`struct rdma_conn_param`).
pub(crate) struct Conn<'a>(bindings::rdma_conn_param, PhantomData<&'a ()>);

impl<'a> Conn<'a> {
    pub(crate) fn data(&self) -> Data<'a> {
        // SAFETY: The structure's pointer and length are of bytes that exist for the call (contract
        // of `ConnAt`).
        unsafe { Data::new(self.0.private_data, self.0.private_data_len) }
    }

    pub(crate) fn qp_num(&self) -> u32 {
        self.0.qp_num
    }

    pub(crate) fn srq(&self) -> u8 {
        self.0.srq
    }

    pub(crate) fn qkey(&self) -> u32 {
        self.0.qkey
    }

    pub(crate) fn responder_resources(&self) -> u8 {
        self.0.responder_resources
    }

    pub(crate) fn initiator_depth(&self) -> u8 {
        self.0.initiator_depth
    }

    pub(crate) fn flow_control(&self) -> u8 {
        self.0.flow_control
    }

    pub(crate) fn retry_count(&self) -> u8 {
        self.0.retry_count.min(7)
    }

    pub(crate) fn rnr_retry_count(&self) -> u8 {
        self.0.rnr_retry_count.min(7)
    }
}

/// A `struct rdma_conn_param *` argument; `None` for null.
pub(crate) struct ConnAt<'a>(pub(crate) Option<Conn<'a>>);

// SAFETY: `from_c`'s contract: null, or a structure whose private data is null, or has as many
// bytes as its length says.
unsafe impl FromC for ConnAt<'_> {
    type C = *mut bindings::rdma_conn_param;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null, so a structure (contract of this function).
        Self((!c.is_null()).then(|| Conn(unsafe { c.read() }, PhantomData)))
    }
}
// SAFETY: The private data exists for the call.
unsafe impl<'a> Within<'a> for ConnAt<'a> {}

/// A `struct rdma_ucm_ece *` argument: vendor and options.
pub(crate) struct EceAt(pub(crate) (u32, u32));

// SAFETY: `from_c`'s contract: points to a structure.
unsafe impl FromC for EceAt {
    type C = *mut bindings::rdma_ucm_ece;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A structure (contract of this function).
        let ece = unsafe { c.read() };
        Self((ece.vendor_id, ece.attr_mod))
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for EceAt {}

/// A `struct rdma_ucm_ib_service *` argument: the service that a consumer looks for.
pub(crate) struct ServiceAt(pub(crate) Wanted);

// SAFETY: `from_c`'s contract: points to a structure.
unsafe impl FromC for ServiceAt {
    type C = *mut bindings::rdma_ucm_ib_service;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A structure (contract of this function), which consists of numbers.
        let service = unsafe { c.read() };
        Self(Wanted::new(
            service.flags,
            service.service_id,
            &service.service_name,
        ))
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for ServiceAt {}

/// A namespace argument, of which the consumer has a reference.
pub(crate) struct NetAt(pub(crate) ARef<CountedNet>);

// SAFETY: `from_c`'s contract: a namespace that is counted during the call.
unsafe impl FromC for NetAt {
    type C = *mut bindings::net;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Counted during the call (contract of this function).
        Self(unsafe { CountedNet::from_raw(c) }.into())
    }
}
// SAFETY: The type has its own reference.
unsafe impl Within<'_> for NetAt {}
