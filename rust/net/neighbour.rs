// SPDX-License-Identifier: GPL-2.0

//! Next hops of routes: hardware addresses of neighbours, and waiting for them.
//!
//! A neighbour's address may be unknown. [`Neighbour::probe`] sends a request for it (ARP,
//! neighbour discovery); the response arrives later. [`Changes`] reports when the state of a
//! neighbour has changed.
//!
//! C headers: `include/net/neighbour.h`, `include/net/netevent.h`.

use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::pin::Pin;
use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::addr::AddrPair;
use super::device::Net;
use super::route::Route;
use crate::bindings;
use crate::module::Resident;

/// A hardware address of any type, padded with zeros (`MAX_ADDR_LEN`).
pub type HardwareAddr = [u8; 32];

impl Route {
    /// Looks up a route to an address, for any protocol, from a source and through a device. An
    /// unspecified source or a device index of zero leaves the choice to the routing tables. Also
    /// returns the selected source. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EHOSTUNREACH` and others of the routing tables; `EADDRNOTAVAIL` for IPv6 if
    /// the kernel does not support it.
    pub fn reach(net: &Net, ifindex: u32, addrs: AddrPair) -> Result<(Self, AddrPair)> {
        let ifindex = i32::try_from(ifindex).map_err(|_| ENODEV)?;
        match addrs {
            AddrPair::V4 { src, dst } => {
                let mut source = u32::from_ne_bytes(src.octets());
                // SAFETY: The namespace is valid (`Net`), and the source outlives the call.
                let route = unsafe {
                    Self::from_lookup(
                        bindings::rdma_helper_reach4(
                            net.as_raw(),
                            ifindex,
                            &mut source,
                            u32::from_ne_bytes(dst.octets()),
                        ),
                        false,
                    )
                }?;
                let src = Ipv4Addr::from(source.to_ne_bytes());
                Ok((route, AddrPair::V4 { src, dst }))
            }
            AddrPair::V6 { src, dst } => {
                let mut source = src.octets();
                // SAFETY: The namespace is valid (`Net`), and the addresses outlive the call.
                let route = unsafe {
                    Self::from_lookup(
                        bindings::rdma_helper_reach6(
                            net.as_raw(),
                            ifindex,
                            source.as_mut_ptr().cast(),
                            dst.octets().as_ptr().cast(),
                        ),
                        true,
                    )
                }?;
                let src = if src.is_unspecified() {
                    Ipv6Addr::from(source)
                } else {
                    src
                };
                Ok((route, AddrPair::V6 { src, dst }))
            }
        }
    }

    /// Returns the hop limit of packets.
    pub fn hop_limit(&self) -> u8 {
        // SAFETY: The route is valid (type invariant), and of this family.
        let limit = unsafe {
            if self.is_v6() {
                bindings::rdma_helper_hop_limit6(self.as_raw())
            } else {
                bindings::rdma_helper_hop_limit4(self.as_raw())
            }
        };
        u8::try_from(limit).unwrap_or(u8::MAX)
    }

    /// Returns whether the destination is this machine.
    pub fn is_local(&self) -> bool {
        // SAFETY: The route is valid (type invariant), and of this family.
        unsafe {
            if self.is_v6() {
                bindings::rdma_helper_is_local6(self.as_raw())
            } else {
                bindings::rdma_helper_is_local4(self.as_raw())
            }
        }
    }

    /// Returns whether packets go through a gateway.
    pub fn has_gateway(&self) -> bool {
        // SAFETY: The route is valid (type invariant), and of this family.
        unsafe {
            if self.is_v6() {
                bindings::rdma_helper_has_gateway6(self.as_raw())
            } else {
                bindings::rdma_helper_has_gateway4(self.as_raw())
            }
        }
    }

    /// Returns the neighbour to which packets to `to` are sent: `to` itself, or the gateway. `None`
    /// if the neighbour table is full. Softirq or process context.
    pub fn neighbour(&self, to: IpAddr) -> Option<Neighbour> {
        let lookup = |to: &[u8]| {
            // SAFETY: The route is valid (type invariant), and the address is of its family.
            unsafe { bindings::rdma_helper_neigh_lookup(self.as_raw(), to.as_ptr().cast()) }
        };
        let neighbour = match to {
            IpAddr::V4(to) if !self.is_v6() => lookup(&to.octets()),
            IpAddr::V6(to) if self.is_v6() => lookup(&to.octets()),
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        // INVARIANT: The lookup returned a reference.
        NonNull::new(neighbour).map(Neighbour)
    }
}

/// A neighbour on a link.
///
/// # Invariants
///
/// `0` is a neighbour, to which this owns a reference.
pub struct Neighbour(NonNull<c_void>);

/// Identifies a neighbour: namespace, network device and network address. A neighbour that is
/// removed and comes back is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourId {
    net: usize,
    ifindex: u32,
    family: u32,
    address: [u8; 16],
}

impl NeighbourId {
    /// # Safety
    ///
    /// `neighbour` must be valid.
    unsafe fn of(neighbour: *const c_void) -> Self {
        let mut id = Self {
            net: 0,
            ifindex: 0,
            family: 0,
            address: [0; 16],
        };
        // SAFETY: The neighbour is valid by this function's contract. The array has room for the
        // address of either family, and the others are one number each.
        unsafe {
            bindings::rdma_helper_neigh_id(
                neighbour,
                &mut id.net,
                &mut id.ifindex,
                &mut id.family,
                &mut id.address,
            );
        }
        id
    }

    /// Returns a number that is the same for equal neighbours, for hash tables.
    pub fn hash(&self) -> u64 {
        let address = u128::from_ne_bytes(self.address);
        // CAST: the halves; a `usize` has at most 64 bits.
        let halves = (address as u64) ^ ((address >> 64) as u64).rotate_left(17);
        halves ^ (self.net as u64).rotate_left(32) ^ u64::from(self.ifindex)
    }
}

impl Neighbour {
    /// Returns which neighbour this is.
    pub fn id(&self) -> NeighbourId {
        // SAFETY: The neighbour is valid (type invariant).
        unsafe { NeighbourId::of(self.0.as_ptr()) }
    }

    /// Returns the hardware address, if it is known.
    pub fn address(&self) -> Option<HardwareAddr> {
        let mut address: HardwareAddr = [0; 32];
        // SAFETY: The neighbour is valid (type invariant); the array has room for the longest
        // address.
        unsafe {
            if !bindings::rdma_helper_neigh_is_valid(self.0.as_ptr()) {
                return None;
            }
            bindings::rdma_helper_neigh_addr(address.as_mut_ptr().cast(), self.0.as_ptr());
        }
        Some(address)
    }

    /// Sends a request for the address.
    pub fn probe(&self) {
        // SAFETY: The neighbour is valid (type invariant).
        unsafe { bindings::rdma_helper_neigh_probe(self.0.as_ptr()) };
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // SAFETY: The reference is owned (type invariant), and passed to the function.
        unsafe { bindings::rdma_helper_neigh_release(self.0.as_ptr()) };
    }
}

/// Counts changes of neighbours, for code that waits for one. A static of the module.
pub struct Changes(Opaque<bindings::atomic_t>);

// SAFETY: The count is changed atomically.
unsafe impl Sync for Changes {}

/// Number of changes at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen(c_int);

impl Changes {
    /// Creates a count of zero.
    pub const fn new() -> Self {
        Self(Opaque::new(bindings::atomic_t { counter: 0 }))
    }

    /// Returns the current count. Must be called before reading state that may change.
    pub fn seen(&self) -> Seen {
        // SAFETY: The count is valid.
        Seen(unsafe { bindings::atomic_read(self.0.get()) })
    }

    /// Waits until the count has changed since `seen`, at most `jiffies`. Returns whether it has.
    /// Sleeps uninterruptibly.
    pub fn wait(&self, seen: Seen, jiffies: isize) -> bool {
        // SAFETY: The count is valid and static.
        unsafe { bindings::rdma_helper_wait_for_change(self.0.get(), seen.0, jiffies) }
    }

    fn note(&self) {
        // SAFETY: The count is valid and static.
        unsafe { bindings::rdma_helper_change(self.0.get()) };
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts changes of neighbours in all namespaces, as long as it exists, and calls a function when
/// a neighbour's address has become known.
///
/// # Invariants
///
/// The notifier block is registered.
#[pin_data(PinnedDrop)]
pub struct ChangeNotifier {
    changes: &'static Changes,
    known: fn(NeighbourId),
    #[pin]
    block: Opaque<bindings::notifier_block>,
    // The callback is the module's code.
    _resident: Resident,
}

// SAFETY: Only C accesses the block, under its locks.
unsafe impl Send for ChangeNotifier {}
// SAFETY: As for `Send`.
unsafe impl Sync for ChangeNotifier {}

impl ChangeNotifier {
    /// Registers the notifier. May sleep. `known` is called in softirq or process context, and must
    /// not sleep. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// Those of `register_netevent_notifier`.
    pub fn register(
        resident: Resident,
        changes: &'static Changes,
        known: fn(NeighbourId),
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Before the block: the callback may run while the block is being registered.
            changes,
            known,
            _resident: resident,
            // INVARIANT: The block is registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until it is unregistered in
                // `drop`.
                unsafe {
                    block.write(bindings::notifier_block {
                        notifier_call: Some(Self::callback),
                        ..Default::default()
                    });
                    to_result(bindings::rdma_helper_register_netevent(block))
                }
            }),
        })
    }

    /// # Safety
    ///
    /// Only for C, with the block of a `Self`. Softirq.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        /// `NETEVENT_NEIGH_UPDATE`.
        const NEIGH_UPDATE: c_ulong = 1;
        if event == NEIGH_UPDATE {
            // SAFETY: The block is inside a `Self`, which is pinned and whose other fields were
            // initialised before the block was registered.
            let (changes, known) = unsafe {
                let this = kernel::container_of!(Opaque::cast_from(block), Self, block);
                ((*this).changes, (*this).known)
            };
            changes.note();
            // SAFETY: The event is of a neighbour, which is valid for the call.
            let came = unsafe {
                bindings::rdma_helper_neigh_is_valid(info).then(|| NeighbourId::of(info))
            };
            if let Some(neighbour) = came {
                known(neighbour);
            }
        }
        0
    }
}

#[pinned_drop]
impl PinnedDrop for ChangeNotifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block is registered (type invariant). C waits for running callbacks.
        unsafe { bindings::rdma_helper_unregister_netevent(self.block.get()) };
    }
}
