// SPDX-License-Identifier: GPL-2.0

//! Addresses as C has them: socket addresses, the addresses of a device that connection managers
//! ask for (`struct rdma_dev_addr`), and packets that a bond is asked about.
//!
//! To be held against `include/rdma/ib_addr.h`.

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

/// Bytes of a socket address of this family; none if the family is not known.
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
    /// Where the address begins, with its family.
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

/// The family of the socket address at a `P`.
pub(super) struct FamilyAt<P>(pub(super) u16, PhantomData<P>);

// SAFETY: `from_c`'s contract: a socket address, of which only the family need be there.
unsafe impl<P: Pointer> FromC for FamilyAt<P> {
    type C = P;

    unsafe fn from_c(c: P) -> Self {
        // SAFETY: `from_c`'s contract; all socket addresses begin with their family.
        Self(unsafe { c.start().read_unaligned() }, PhantomData)
    }
}
// SAFETY: There is no reference in it.
unsafe impl<P: Pointer> Within<'_> for FamilyAt<P> {}

/// A socket address, of any family, in the size and alignment of `struct sockaddr_storage`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Socket {
    family: [u8; 2],
    _port: [u8; 2],
    /// The address of IPv4; the flow label of IPv6.
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

    /// Whether both are of one family.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.family == other.family
    }

    /// The IP address; none for other families.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match u16::from_ne_bytes(self.family) {
            INET => Some(IpAddr::V4(self.v4.into())),
            INET6 => Some(IpAddr::V6(self.v6.into())),
            _ => None,
        }
    }

    /// The same with another IP address of its family.
    pub(super) fn with_ip(mut self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.v4 = ip.octets(),
            IpAddr::V6(ip) => self.v6 = ip.octets(),
        }
        self
    }
}

/// The socket address at a `P`; none if that is null. Of a family that is not known there is only
/// the family.
pub(super) struct SocketAt<P>(pub(super) Option<Socket>, PhantomData<P>);

// SAFETY: `from_c`'s contract: null, or a socket address, as many bytes as its family has.
unsafe impl<P: Pointer> FromC for SocketAt<P> {
    type C = P;

    unsafe fn from_c(c: P) -> Self {
        let start = c.start();
        if start.is_null() {
            return Self(None, PhantomData);
        }
        let mut socket = Socket::of([0; 2]);
        // SAFETY: `from_c`'s contract. There is room for the addresses of all families that
        // `size_of_family` knows, as asserted above.
        unsafe {
            let size = size_of_family(start.read_unaligned()).unwrap_or(size_of::<u16>());
            let to: *mut u8 = (&raw mut socket).cast();
            ptr::copy_nonoverlapping(start.cast::<u8>(), to, size);
        }
        Self(Some(socket), PhantomData)
    }
}
// SAFETY: There is no reference in it.
unsafe impl<P: Pointer> Within<'_> for SocketAt<P> {}

rdma::c_struct! {
    /// The addresses of a device and of its peer, as a connection manager lends them for a call.
    pub(super) struct DevAddr: bindings::rdma_dev_addr;
    fields {
        /// The namespace that it is looked for in; kept by who lends it.
        cell net: Option<&Net>;
        /// The same, for one that stays.
        put set_net at net: &'static Net;
        /// The number of the network device; 0 for any.
        cell bound_dev_if: c_int, set_bound_dev_if;
        /// The kind of hardware address (`ARPHRD_*`).
        cell dev_type: u16, set_dev_type;
        /// The hardware address of the network device.
        cell source at src_dev_addr: HardwareAddr, set_source;
        /// The hardware address of the peer.
        cell destination at dst_dev_addr: HardwareAddr, set_destination;
        /// The broadcast address of the network device.
        put set_broadcast at broadcast: HardwareAddr;
        /// What the network is (`enum rdma_network_type`).
        put set_network at network: u32;
        /// How many hops packets may go.
        put set_hop_limit at hoplimit: c_int;
    }
}

// SAFETY: References are made of arguments of exported functions, and by `Asker`, which is not
// `Sync` and whose structure is nobody else's. `Opaque` is not `Sync`.
unsafe impl OfCall for DevAddr {}

/// Where the result of a request goes. Only C makes one.
pub(super) struct ResultAt(*mut bindings::rdma_dev_addr);

rdma::argument! {
    /// Null, or a structure that is lent to the request: its owner does not use it until
    /// `rdma_resolve_ip` fails, the owner is told, or `rdma_addr_cancel` returns. Its namespace, and
    /// the GID of a request by GID, are there as long.
    impl ResultAt = |result: Passed<bindings::rdma_dev_addr>| ResultAt(result.into_c());
}

/// The function that an asker is told by.
type CallbackFn =
    unsafe extern "C" fn(c_int, *mut bindings::sockaddr, *mut bindings::rdma_dev_addr, *mut c_void);

/// The same, or none. Only C makes one.
#[derive(Clone, Copy)]
pub(super) struct Callback(Option<CallbackFn>);

rdma::argument! {
    /// Null, or a function that may be called once, from any task, with the context and the structure
    /// of the same call of `rdma_resolve_ip`.
    impl Callback = |callback: Option<CallbackFn>| Callback(callback);
}

/// Who asked, and what was lent for the result. It is given back by dropping this: when the asker
/// is told, or the request is cancelled or fails (`request`).
///
/// # Invariants
///
/// `place` is lent, as the contract of [`ResultAt`] says; `callback` and `context` are of the same
/// call, and the function was not called yet.
pub(super) struct Asker {
    place: NonNull<bindings::rdma_dev_addr>,
    callback: CallbackFn,
    context: Passed<c_void>,
    by_gid: bool,
}

// SAFETY: What is lent may be used, and the function called, from any task (contracts of `ResultAt`
// and `Callback`).
unsafe impl Send for Asker {}

impl Asker {
    /// Of the arguments of one call; `by_gid` says whether the GID names namespace and device.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a structure or a function.
    pub(super) fn new(
        place: ResultAt,
        callback: Callback,
        context: Passed<c_void>,
        by_gid: bool,
    ) -> Result<Self> {
        // INVARIANT: The contracts of `ResultAt` and `Callback`.
        Ok(Self {
            place: NonNull::new(place.0).ok_or(EINVAL)?,
            callback: callback.0.ok_or(EINVAL)?,
            context,
            by_gid,
        })
    }

    /// By what `rdma_addr_cancel` knows the request.
    pub(super) fn key(&self) -> usize {
        self.place.as_ptr().addr()
    }

    /// What was lent.
    pub(super) fn addr(&self) -> &DevAddr {
        // SAFETY: It is lent as long as this exists (type invariant).
        unsafe { DevAddr::view(self.place.as_ptr()) }
    }

    /// Whether the GID names namespace and device.
    pub(super) fn is_by_gid(&self) -> bool {
        self.by_gid
    }

    /// The GID that names namespace and device.
    pub(super) fn gid(&self) -> Option<&GidAttr> {
        if !self.by_gid {
            return None;
        }
        // SAFETY: It is lent (type invariant); if the request is by GID, there is none or one that
        // is held as long (contract of `ResultAt`).
        let gid: Option<In<'_, GidAttr>> =
            unsafe { Option::from_c((*self.place.as_ptr()).sgid_attr) };
        gid.map(|gid| gid.0)
    }

    /// Tells the asker, from where the address is reached too, if the result is that.
    pub(super) fn tell(self, result: Result, mut source: Socket) {
        let (place, context) = (self.place.as_ptr(), self.context.into_c());
        // SAFETY: Function, place and context are of one call, and this is the one call of the
        // function, which takes `self` (type invariant).
        unsafe { (self.callback)(result.answer(), (&raw mut source).cast(), place, context) };
    }
}

/// A packet without contents, for a bond to be asked about. Freed on drop.
///
/// # Invariants
///
/// `skb` is a buffer of ours, of the device `master`.
pub(super) struct Sample<'a> {
    skb: NonNull<bindings::sk_buff>,
    master: &'a NetDevice,
}

impl<'a> Sample<'a> {
    /// A packet of `headers`; `protocol` is that of the network layer (`ETH_P_*`), and the others
    /// are where the headers of the network and of the transport begin. Sleeps only if it may.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if that is behind the headers.
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
        // SAFETY: The buffer is new and has room for the bytes that are put into it; all headers
        // begin within them. INVARIANT: It is ours from here on.
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

    /// The port of the bond that the packet would leave by; with `all`, by its headers whatever
    /// ports are up.
    pub(super) fn port<'r>(&self, all: bool, _rcu: &'r rcu::Guard) -> Option<&'r NetDevice> {
        // SAFETY: Device and buffer are there (type invariant); RCU protects what is found.
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
        // SAFETY: The buffer is ours (type invariant).
        unsafe { bindings::rdma_helper_kfree_skb(self.skb.as_ptr()) };
    }
}
