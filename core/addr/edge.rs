// SPDX-License-Identifier: GPL-2.0

//! C structures of address resolution: socket addresses, `struct rdma_dev_addr` of connection
//! managers, and sample packets for bonds.
//!
//! Must match `include/rdma/ib_addr.h`.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::net::IpAddr;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::edge::verbs::GidAttr;
use rdma::edge::Answer;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::net::neighbour::HardwareAddr;
use rdma::net::Net;
use rdma::net::NetDevice;

/// `AF_INET`, `AF_INET6`, `AF_IB`.
const INET: u16 = 2;
const INET6: u16 = 10;
const IB: u16 = 27;

/// Size of a socket address of this family in bytes; `None` for an unknown family.
pub(super) const fn size_of_family(family: u16) -> Option<usize> {
    Some(match family {
        INET => size_of::<bindings::sockaddr_in>(),
        INET6 => size_of::<bindings::sockaddr_in6>(),
        IB => size_of::<bindings::sockaddr_ib>(),
        _ => return None,
    })
}

/// A pointer to a socket address.
pub(super) trait Pointer: Copy {
    /// Pointer to the first field of the address, its family.
    fn start(self) -> *const u16;
}

impl<T> Pointer for *const T {
    fn start(self) -> *const u16 {
        self.cast()
    }
}

impl<T> Pointer for *mut T {
    fn start(self) -> *const u16 {
        self.cast_const().cast()
    }
}

/// Address family of the socket address that a `P` points to.
pub(super) struct FamilyAt<P>(pub(super) u16, PhantomData<P>);

// SAFETY: `from_c`'s contract: points to a socket address, of which only the family must be
// readable.
unsafe impl<P: Pointer> FromC for FamilyAt<P> {
    type C = P;

    unsafe fn from_c(c: P) -> Self {
        // SAFETY: `from_c`'s contract; all socket addresses begin with their family.
        Self(unsafe { c.start().read_unaligned() }, PhantomData)
    }
}
// SAFETY: The type contains no reference.
unsafe impl<P: Pointer> Within<'_> for FamilyAt<P> {}

/// A socket address, of any family, in the size and alignment of `struct sockaddr_storage`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Socket {
    family: [u8; 2],
    _port: [u8; 2],
    /// IPv4 address, or IPv6 flow label.
    v4: [u8; 4],
    v6: [u8; 16],
    _rest: [u8; 104],
}

const _: () = {
    assert!(size_of::<Socket>() == size_of::<bindings::__kernel_sockaddr_storage>());
    assert!(offset_of!(Socket, v4) == offset_of!(bindings::sockaddr_in, sin_addr));
    assert!(offset_of!(Socket, v6) == offset_of!(bindings::sockaddr_in6, sin6_addr));
    assert!(size_of::<bindings::sockaddr_in>() <= size_of::<Socket>());
    assert!(size_of::<bindings::sockaddr_in6>() <= size_of::<Socket>());
    assert!(size_of::<bindings::sockaddr_ib>() <= size_of::<Socket>());
};

impl Socket {
    /// The unspecified address of a family.
    const fn of(family: [u8; 2]) -> Self {
        Self {
            family,
            _port: [0; 2],
            v4: [0; 4],
            v6: [0; 16],
            _rest: [0; 104],
        }
    }

    /// The unspecified address of the same family.
    pub(super) fn unspecified(&self) -> Self {
        Self::of(self.family)
    }

    /// Returns whether both have the same address family.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.family == other.family
    }

    /// Returns the IP address; `None` for other families.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match u16::from_ne_bytes(self.family) {
            INET => Some(IpAddr::V4(self.v4.into())),
            INET6 => Some(IpAddr::V6(self.v6.into())),
            _ => None,
        }
    }

    /// Returns a copy with another IP address. `ip` must be of the same family.
    pub(super) fn with_ip(mut self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.v4 = ip.octets(),
            IpAddr::V6(ip) => self.v6 = ip.octets(),
        }
        self
    }
}

/// Copy of the socket address that a `P` points to; `None` if it is null. Only the family is copied
/// if it is unknown.
pub(super) struct SocketAt<P>(pub(super) Option<Socket>, PhantomData<P>);

// SAFETY: `from_c`'s contract: null, or points to a socket address of the size of its family.
unsafe impl<P: Pointer> FromC for SocketAt<P> {
    type C = P;

    unsafe fn from_c(c: P) -> Self {
        let start = c.start();
        if start.is_null() {
            return Self(None, PhantomData);
        }
        let mut socket = Socket::of([0; 2]);
        // SAFETY: `from_c`'s contract for the source. `Socket` has room for every size that
        // `size_of_family` returns, as asserted above.
        unsafe {
            let size = size_of_family(start.read_unaligned()).unwrap_or(size_of::<u16>());
            let to: *mut u8 = (&raw mut socket).cast();
            ptr::copy_nonoverlapping(start.cast::<u8>(), to, size);
        }
        Self(Some(socket), PhantomData)
    }
}
// SAFETY: The type contains no reference.
unsafe impl<P: Pointer> Within<'_> for SocketAt<P> {}

rdma::c_struct! {
    /// Addresses of a device and of its peer, lent by a connection manager.
    pub(super) struct DevAddr: bindings::rdma_dev_addr;
    fields {
        /// Namespace of the lookup. The lender keeps it alive.
        cell net: Option<&Net>;
        /// Sets the namespace to one that is never freed.
        put set_net at net: &'static Net;
        /// Interface index of the network device; 0 for any.
        cell bound_dev_if: c_int, set_bound_dev_if;
        /// Hardware type (`ARPHRD_*`).
        cell dev_type: u16, set_dev_type;
        /// Hardware address of the network device.
        cell source at src_dev_addr: HardwareAddr, set_source;
        /// Hardware address of the peer.
        cell destination at dst_dev_addr: HardwareAddr, set_destination;
        /// Broadcast address of the network device.
        put set_broadcast at broadcast: HardwareAddr;
        /// Network type (`enum rdma_network_type`).
        put set_network at network: u32;
        /// Hop limit of packets to the peer.
        put set_hop_limit at hoplimit: c_int;
    }
}

// SAFETY: References are made from arguments of exported functions, and by `Asker`, which is not
// `Sync` and has exclusive use of its structure. `Opaque` is not `Sync`.
unsafe impl OfCall for DevAddr {}

/// Structure for the result of a request. Only C makes one.
pub(super) struct ResultAt(*mut bindings::rdma_dev_addr);

rdma::argument! {
    /// Null, or a structure that is lent to the request: its owner does not use it until
    /// `rdma_resolve_ip` fails, the callback is called, or `rdma_addr_cancel` returns. Its
    /// namespace, and the GID of a request by GID, stay valid as long.
    impl ResultAt = |result: Passed<bindings::rdma_dev_addr>| ResultAt(result.into_c());
}

/// Callback of a request.
type CallbackFn =
    unsafe extern "C" fn(c_int, *mut bindings::sockaddr, *mut bindings::rdma_dev_addr, *mut c_void);

/// Optional callback of a request. Only C makes one.
#[derive(Clone, Copy)]
pub(super) struct Callback(Option<CallbackFn>);

rdma::argument! {
    /// Null, or a function that may be called once, from any task, with the context and the
    /// structure of the same call of `rdma_resolve_ip`.
    impl Callback = |callback: Option<CallbackFn>| Callback(callback);
}

/// The requester of an address, with the structure it lent for the result. Dropping this returns
/// the structure: after the callback, or when the request is cancelled or fails (`request`).
///
/// # Invariants
///
/// `place` is lent, as the contract of [`ResultAt`] says; `callback` and `context` are from the
/// same call, and `callback` was not called yet.
pub(super) struct Asker {
    place: NonNull<bindings::rdma_dev_addr>,
    callback: CallbackFn,
    context: Passed<c_void>,
    by_gid: bool,
}

// SAFETY: The lent structure may be used, and the function called, from any task (contracts of
// `ResultAt` and `Callback`).
unsafe impl Send for Asker {}

impl Asker {
    /// Takes the arguments of one call; `by_gid` says whether the GID selects namespace and device.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the structure or the function is null.
    pub(super) fn new(
        place: ResultAt,
        callback: Callback,
        context: Passed<c_void>,
        by_gid: bool,
    ) -> Result<Self> {
        // INVARIANT: By the contracts of `ResultAt` and `Callback`.
        Ok(Self {
            place: NonNull::new(place.0).ok_or(EINVAL)?,
            callback: callback.0.ok_or(EINVAL)?,
            context,
            by_gid,
        })
    }

    /// Key that `rdma_addr_cancel` finds the request by: the address of the lent structure.
    pub(super) fn key(&self) -> usize {
        self.place.as_ptr().addr()
    }

    /// The lent structure.
    pub(super) fn addr(&self) -> &DevAddr {
        // SAFETY: The structure is lent while `self` exists (type invariant).
        unsafe { DevAddr::view(self.place.as_ptr()) }
    }

    /// Returns whether the GID selects namespace and device.
    pub(super) fn is_by_gid(&self) -> bool {
        self.by_gid
    }

    /// The GID that selects namespace and device; `None` unless the request is by GID.
    pub(super) fn gid(&self) -> Option<&GidAttr> {
        if !self.by_gid {
            return None;
        }
        // SAFETY: The structure is lent (type invariant). In a request by GID, the GID is null or
        // stays valid as long (contract of `ResultAt`).
        let gid: Option<In<'_, GidAttr>> =
            unsafe { Option::from_c((*self.place.as_ptr()).sgid_attr) };
        gid.map(|gid| gid.0)
    }

    /// Calls the callback with the result and the source address.
    pub(super) fn tell(self, result: Result, mut source: Socket) {
        let (place, context) = (self.place.as_ptr(), self.context.into_c());
        // SAFETY: Function, structure and context are from one call. The function was not called
        // before and, since this takes `self`, is not called again (type invariant).
        unsafe { (self.callback)(result.answer(), (&raw mut source).cast(), place, context) };
    }
}

/// A sample packet without payload that a bond selects a port for. Freed on drop.
///
/// # Invariants
///
/// `skb` is a socket buffer that this owns, of the device `master`.
pub(super) struct Sample<'a> {
    skb: NonNull<bindings::sk_buff>,
    master: &'a NetDevice,
}

impl<'a> Sample<'a> {
    /// Makes a packet of `headers`. `protocol` is the network layer's (`ETH_P_*`); `network` and
    /// `transport` are the offsets of those headers. May sleep only if `may_sleep`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if an offset is beyond the headers.
    pub(super) fn new(
        master: &'a NetDevice,
        headers: &[u8],
        protocol: u16,
        network: usize,
        transport: usize,
        may_sleep: bool,
    ) -> Result<Self> {
        let flags = if may_sleep {
            bindings::GFP_KERNEL
        } else {
            bindings::GFP_ATOMIC
        };
        if network.max(transport) > headers.len() {
            return Err(EINVAL);
        }
        let size = u32::try_from(headers.len()).map_err(|_| EINVAL)?;
        let (network, transport) = (c_int::try_from(network)?, c_int::try_from(transport)?);
        // SAFETY: The buffer is new and has room for `size` bytes; both header offsets are within
        // these bytes, as checked above. INVARIANT: The buffer is owned from here on.
        unsafe {
            let skb = bindings::__alloc_skb(size, flags, 0, bindings::NUMA_NO_NODE);
            let skb = NonNull::new(skb).ok_or(ENOMEM)?;
            let data: *mut u8 = bindings::skb_put(skb.as_ptr(), size).cast();
            ptr::copy_nonoverlapping(headers.as_ptr(), data, headers.len());
            bindings::rdma_helper_skb_reset_mac_header(skb.as_ptr());
            let protocol = protocol.to_be();
            bindings::rdma_helper_skb_set_headers(skb.as_ptr(), protocol, network, transport);
            bindings::rdma_helper_skb_set_dev(skb.as_ptr(), master.as_raw());
            Ok(Self { skb, master })
        }
    }

    /// Returns the bond port that transmits the packet. With `all`, ports that are down are
    /// candidates too.
    pub(super) fn port<'r>(&self, all: bool, _rcu: &'r rcu::Guard) -> Option<&'r NetDevice> {
        // SAFETY: Device and buffer are valid (type invariant); RCU protects the port.
        unsafe {
            Option::from_c(bindings::rdma_helper_xmit_slave(
                self.master.as_raw(),
                self.skb.as_ptr(),
                all,
            ))
        }
    }
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        // SAFETY: `self` owns the buffer (type invariant).
        unsafe { bindings::rdma_helper_kfree_skb(self.skb.as_ptr()) };
    }
}
