// SPDX-License-Identifier: GPL-2.0

//! Exported functions of address resolution.

use super::attempt::copy_source;
use super::attempt::device_at;
use super::attempt::Source;
use super::edge::size_of_family;
use super::edge::Asker;
use super::edge::Callback;
use super::edge::DevAddr;
use super::edge::FamilyAt;
use super::edge::ResultAt;
use super::edge::SocketAt;
use super::request;
use crate::netlink;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings::__kernel_sockaddr_storage;
use rdma::bindings::rdma_dev_addr;
use rdma::bindings::sockaddr;
use rdma::bindings::sockaddr_in6;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::net::NetDevice;

/// Returns the size of a socket address of this family in bytes; 0 if the family is unknown or the
/// address does not fit into `room` bytes.
fn size_in(family: u16, room: usize) -> c_int {
    size_of_family(family)
        .filter(|size| *size <= room)
        .and_then(|size| c_int::try_from(size).ok())
        .unwrap_or(0)
}

fn addr_size(family: FamilyAt<*const sockaddr>) -> c_int {
    size_in(family.0, usize::MAX)
}

fn addr_size_in6(family: FamilyAt<*mut sockaddr_in6>) -> c_int {
    size_in(family.0, size_of::<sockaddr_in6>())
}

fn addr_size_kss(family: FamilyAt<*mut __kernel_sockaddr_storage>) -> c_int {
    size_in(family.0, size_of::<__kernel_sockaddr_storage>())
}

fn copy_source_of(to: &DevAddr, dev: In<'_, NetDevice>) {
    copy_source(to, &dev);
}

fn translate(addr: SocketAt<*const sockaddr>, to: &DevAddr) -> Result {
    let ip = addr.0.and_then(|socket| socket.ip());
    let net = to.net().ok_or(EINVAL)?;
    let ifindex = u32::try_from(to.bound_dev_if()).map_err(|_| ENODEV)?;
    copy_source(to, &*device_at(net, ifindex, ip)?);
    Ok(())
}

fn resolve(
    source: SocketAt<*mut sockaddr>,
    to: SocketAt<*const sockaddr>,
    place: ResultAt,
    timeout_ms: usize,
    callback: Callback,
    by_gid: bool,
    context: Passed<c_void>,
) -> Result {
    let to = to.0.ok_or(EINVAL)?;
    let to_ip = to.ip().ok_or(EINVAL)?;
    let socket = source.0.unwrap_or(to.unspecified());
    if !socket.is_like(&to) {
        return Err(EINVAL);
    }
    let ip = socket.ip().ok_or(EINVAL)?;
    let asker = Asker::new(place, callback, context, by_gid)?;
    // CAST: `usize` has at most 64 bits.
    request::ask(Source { socket, ip }, to_ip, asker, timeout_ms as u64)
}

fn cancel(addr: Passed<rdma_dev_addr>) {
    request::cancel(addr.as_ptr().addr());
}

/// Handles a user program's response with the GID of a gateway (`RDMA_NL_LS_OP_IP_RESOLVE`).
/// Malformed responses, and responses that match no request, are ignored.
pub(crate) struct GatewayGid;

impl netlink::Doit for GatewayGid {
    fn doit(message: &netlink::Incoming<'_>) -> Result {
        request::user_answer(&netlink::Answer::of(*message)?);
        Ok(())
    }
}

rdma::export! { in rdma::bindings;
    /// Returns the size of a socket address in bytes; 0 for an unknown family. Any context.
    fn rdma_addr_size(addr: FamilyAt<*const sockaddr>) -> c_int = addr_size;
    /// Same as [`rdma_addr_size`], but also returns 0 if the address is larger than the structure.
    fn rdma_addr_size_in6(addr: FamilyAt<*mut sockaddr_in6>) -> c_int = addr_size_in6;
    /// Same as [`rdma_addr_size`], but also returns 0 if the address is larger than the structure.
    fn rdma_addr_size_kss(addr: FamilyAt<*mut __kernel_sockaddr_storage>) -> c_int = addr_size_kss;
    /// Copies the hardware addresses, hardware type and interface index of the network device that
    /// `dev_addr` is bound to; if it is bound to none, of the device that has the address `addr` in
    /// its namespace. Any context.
    fn rdma_translate_ip(addr: SocketAt<*const sockaddr>, dev_addr: &DevAddr) -> Result = translate;
    /// Resolves an IP address: finds the source device and address and the destination's link-layer
    /// address, then calls `callback` from a workqueue. May sleep.
    ///
    /// `addr` names the namespace and optionally the network device, or the source GID if `by_gid`.
    /// When the callback gets 0, `addr` has been filled in. Otherwise it gets `ETIMEDOUT` after
    /// `timeout_ms` milliseconds, or a routing error.
    fn rdma_resolve_ip(
        source: SocketAt<*mut sockaddr>, to: SocketAt<*const sockaddr>, addr: ResultAt,
        timeout_ms: usize, callback: Callback, by_gid: bool, context: Passed<c_void>,
    ) -> Result = resolve;
    /// Cancels a [`rdma_resolve_ip`] request for `addr`: once this returns, its callback is not
    /// called any more. Does not wait if called from that callback. May sleep.
    fn rdma_addr_cancel(addr: Passed<rdma_dev_addr>) = cancel;
}

rdma::export! { in crate::private;
    /// Copies the hardware addresses, hardware type and interface index of a network device. Any
    /// context.
    fn rdma_copy_src_l2_addr(addr: &DevAddr, dev: In<'_, NetDevice>) = copy_source_of;
}
