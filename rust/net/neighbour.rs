// SPDX-License-Identifier: GPL-2.0

//! Where a route leads on the link: hardware addresses of neighbours, and waiting for them.
//!
//! A neighbour's address may be unknown; asking for it ([`Neighbour::probe`]) sends a
//! question (ARP, neighbour discovery) whose answer comes later. [`Changes`] tells when
//! some neighbour's state changed.
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

/// A hardware address of any kind, zeros after its end (`MAX_ADDR_LEN`).
pub type HardwareAddr = [u8; 32];

impl Route {
    /// Looks up how an address is reached, by whatever protocol, from a source and by a device.
    /// An unspecified source, or a device number of zero, leaves the choice to the tables.
    /// Returns the source that was chosen, too. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EHOSTUNREACH` and others of the routing tables; `EADDRNOTAVAIL` for
    /// IPv6 without IPv6.
    pub fn reach(net: &Net, ifindex: u32, addrs: AddrPair) -> Result<(Self, AddrPair)> {
        let ifindex = i32::try_from(ifindex).map_err(|_| ENODEV)?;
        match addrs {
            AddrPair::V4 { src, dst } => {
                let mut source = u32::from_ne_bytes(src.octets());
                // SAFETY: The namespace is alive, the source valid for the call.
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
                // SAFETY: The namespace is alive, the addresses valid for the call.
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

    /// How many hops packets may go.
    pub fn hop_limit(&self) -> u8 {
        // SAFETY: The route is alive, and of the family that is asked.
        let limit = unsafe {
            if self.is_v6() {
                bindings::rdma_helper_hop_limit6(self.as_raw())
            } else {
                bindings::rdma_helper_hop_limit4(self.as_raw())
            }
        };
        u8::try_from(limit).unwrap_or(u8::MAX)
    }

    /// Whether the destination is this machine.
    pub fn is_local(&self) -> bool {
        // SAFETY: The route is alive, and of the family that is asked.
        unsafe {
            if self.is_v6() {
                bindings::rdma_helper_is_local6(self.as_raw())
            } else {
                bindings::rdma_helper_is_local4(self.as_raw())
            }
        }
    }

    /// Whether packets go by a gateway.
    pub fn has_gateway(&self) -> bool {
        // SAFETY: The route is alive, and of the family that is asked.
        unsafe {
            if self.is_v6() {
                bindings::rdma_helper_has_gateway6(self.as_raw())
            } else {
                bindings::rdma_helper_has_gateway4(self.as_raw())
            }
        }
    }

    /// The neighbour that packets to `to` go to: `to` itself, or the gateway. None if there
    /// is no room for it. Softirq or process context.
    pub fn neighbour(&self, to: IpAddr) -> Option<Neighbour> {
        let lookup = |to: &[u8]| {
            // SAFETY: The route is alive, and the address is one of its family.
            unsafe { bindings::rdma_helper_neigh_lookup(self.as_raw(), to.as_ptr().cast()) }
        };
        let neighbour = match to {
            IpAddr::V4(to) if !self.is_v6() => lookup(&to.octets()),
            IpAddr::V6(to) if self.is_v6() => lookup(&to.octets()),
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        // INVARIANT: The lookup gave a reference.
        NonNull::new(neighbour).map(Neighbour)
    }
}

/// A neighbour on a link.
///
/// # Invariants
///
/// `0` is a neighbour with a reference that is ours.
pub struct Neighbour(NonNull<c_void>);

impl Neighbour {
    /// Its hardware address, if it is known.
    pub fn address(&self) -> Option<HardwareAddr> {
        let mut address: HardwareAddr = [0; 32];
        // SAFETY: By the type invariant; there is room for the longest address.
        unsafe {
            if !bindings::rdma_helper_neigh_is_valid(self.0.as_ptr()) {
                return None;
            }
            bindings::rdma_helper_neigh_addr(address.as_mut_ptr().cast(), self.0.as_ptr());
        }
        Some(address)
    }

    /// Asks the link for the address.
    pub fn probe(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_neigh_probe(self.0.as_ptr()) };
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_neigh_release(self.0.as_ptr()) };
    }
}

/// Counts the changes of neighbours, for those who wait for one. A static of the module.
pub struct Changes(Opaque<bindings::atomic_t>);

// SAFETY: The count is changed atomically.
unsafe impl Sync for Changes {}

/// How many changes there had been at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen(c_int);

impl Changes {
    /// None yet.
    pub const fn new() -> Self {
        Self(Opaque::new(bindings::atomic_t { counter: 0 }))
    }

    /// How many there have been: to be asked before one looks at what may change.
    pub fn seen(&self) -> Seen {
        // SAFETY: The count is valid.
        Seen(unsafe { bindings::atomic_read(self.0.get()) })
    }

    /// Waits until there are more than were seen, so many jiffies at most; whether there
    /// are. Sleeps, and is not interrupted.
    pub fn wait(&self, seen: Seen, jiffies: isize) -> bool {
        // SAFETY: The count is valid, and stays.
        unsafe { bindings::rdma_helper_wait_for_change(self.0.get(), seen.0, jiffies) }
    }

    fn note(&self) {
        // SAFETY: The count is valid, and stays.
        unsafe { bindings::rdma_helper_change(self.0.get()) };
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

/// While it exists, changes of neighbours of all namespaces are counted, and a function is
/// called when one has become known.
///
/// # Invariants
///
/// The notifier block is registered.
#[pin_data(PinnedDrop)]
pub struct ChangeNotifier {
    changes: &'static Changes,
    known: fn(),
    #[pin]
    block: Opaque<bindings::notifier_block>,
}

// SAFETY: The block is only touched by C, under its locks.
unsafe impl Send for ChangeNotifier {}
// SAFETY: See `Send`.
unsafe impl Sync for ChangeNotifier {}

impl ChangeNotifier {
    /// Registers it. May sleep; `known` is called in softirq or process context, and may not.
    ///
    /// # Errors
    ///
    /// Those of `register_netevent_notifier`.
    pub fn register(changes: &'static Changes, known: fn()) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Before the block: it may be called while that is being registered.
            changes,
            known,
            // INVARIANT: Registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until it is unregistered
                // in `drop`.
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
    /// For C only, with the block of a `Self`. Softirq.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        /// `NETEVENT_NEIGH_UPDATE`.
        const NEIGH_UPDATE: c_ulong = 1;
        if event == NEIGH_UPDATE {
            // SAFETY: C calls with the block that is inside a `Self`, which is pinned and
            // whose other field was initialised before the block was registered.
            let (changes, known) = unsafe {
                let this = kernel::container_of!(Opaque::cast_from(block), Self, block);
                ((*this).changes, (*this).known)
            };
            changes.note();
            // SAFETY: The event is of a neighbour, which stays for the call.
            if unsafe { bindings::rdma_helper_neigh_is_valid(info) } {
                known();
            }
        }
        0
    }
}

#[pinned_drop]
impl PinnedDrop for ChangeNotifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. C waits for callbacks.
        unsafe { bindings::rdma_helper_unregister_netevent(self.block.get()) };
    }
}
