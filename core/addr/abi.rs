// SPDX-License-Identifier: GPL-2.0

//! What other modules call of addresses.

use super::attempt;
use super::attempt::Question;
use super::attempt::Socket;
use super::attempt::Source;
use super::device_of;
use super::request;
use super::request::Asker;
use crate::errno::eaddrnotavail;
use crate::netlink;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::NetDevice;

/// `AF_INET`, `AF_INET6`, `AF_IB`.
const INET: u16 = 2;
const INET6: u16 = 10;
const IB: u16 = 27;

/// Bytes of a socket address of this family; none, if nobody here knows it.
const fn size_of_family(family: u16) -> Option<usize> {
    Some(match family {
        INET => size_of::<bindings::sockaddr_in>(),
        INET6 => size_of::<bindings::sockaddr_in6>(),
        IB => size_of::<bindings::sockaddr_ib>(),
        _ => return None,
    })
}

/// Bytes of an address of this family, or 0 if it does not fit.
fn size_in(family: u16, room: usize) -> c_int {
    size_of_family(family)
        .filter(|size| *size <= room)
        .and_then(|size| c_int::try_from(size).ok())
        .unwrap_or(0)
}

/// The family of a socket address.
///
/// # Safety
///
/// `addr` is valid for as many bytes as a family has.
unsafe fn family<T>(addr: *const T) -> u16 {
    // SAFETY: By this function's duty; every socket address begins so.
    unsafe { addr.cast::<u16>().read_unaligned() }
}

/// The IP address in a socket address; none for other families.
///
/// # Safety
///
/// `addr` is valid for as many bytes as its family has.
unsafe fn ip_of(addr: *const bindings::sockaddr) -> Option<IpAddr> {
    // SAFETY: By this function's duty; addresses stand after family and port, and after the
    // flow label too in IPv6.
    unsafe {
        match family(addr) {
            INET => {
                let at: *const [u8; 4] = addr.cast::<u8>().add(4).cast();
                Some(IpAddr::V4(Ipv4Addr::from(*at)))
            }
            INET6 => {
                let at: *const [u8; 16] = addr.cast::<u8>().add(8).cast();
                Some(IpAddr::V6(Ipv6Addr::from(*at)))
            }
            _ => None,
        }
    }
}

/// Copies addresses, kind and number of a network device.
pub(super) fn copy_source(to: &mut bindings::rdma_dev_addr, dev: &NetDevice) {
    to.dev_type = dev.hardware_type();
    // SAFETY: The device is alive; both arrays have `MAX_ADDR_LEN` bytes, as ours have. They
    // may change meanwhile, which bytes tolerate.
    unsafe {
        to.src_dev_addr = bindings::rdma_helper_netdev_addr(dev.as_raw())
            .cast::<[u8; 32]>()
            .read_volatile();
        to.broadcast = bindings::rdma_helper_netdev_broadcast(dev.as_raw())
            .cast::<[u8; 32]>()
            .read_volatile();
    }
    // Numbers are from 1 to `c_int::MAX`.
    to.bound_dev_if = dev.ifindex() as c_int;
}

/// The network device of this number, or, without one, the one that has the address.
pub(super) fn source(net: &Net, ifindex: u32, ip: Option<IpAddr>) -> Result<ARef<NetDevice>> {
    if ifindex == 0 {
        return device_of(net, ip.ok_or_else(eaddrnotavail)?);
    }
    let ifindex = c_int::try_from(ifindex).map_err(|_| ENODEV)?;
    // SAFETY: The namespace is alive.
    let dev = unsafe { bindings::rdma_helper_dev_get_by_index(net.as_raw(), ifindex) };
    let dev = NonNull::new(dev).ok_or(ENODEV)?;
    // SAFETY: The reference that came with it is ours.
    Ok(unsafe { ARef::from_raw(dev.cast()) })
}

/// As [`source`], for what an address is bound to.
fn bound_source(addr: &bindings::rdma_dev_addr, ip: Option<IpAddr>) -> Result<ARef<NetDevice>> {
    if addr.net.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: The caller's namespace is alive for the call.
    let net = unsafe { Net::from_raw(addr.net) };
    source(
        net,
        u32::try_from(addr.bound_dev_if).map_err(|_| ENODEV)?,
        ip,
    )
}

rdma::exported!(
    rdma_addr_size,
    rdma_addr_size_in6,
    rdma_addr_size_kss,
    rdma_translate_ip,
    rdma_resolve_ip,
    rdma_addr_cancel,
);
crate::private::exported_private!(rdma_copy_src_l2_addr);

/// Bytes of a socket address; 0 for a family that nobody here knows. Any context.
///
/// # Safety
///
/// `addr` has a family.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_addr_size(addr: *const bindings::sockaddr) -> c_int {
    // SAFETY: By this function's duty.
    size_in(unsafe { family(addr) }, usize::MAX)
}

/// As [`rdma_addr_size`]; 0 also for what is longer than the place.
///
/// # Safety
///
/// `addr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_addr_size_in6(addr: *mut bindings::sockaddr_in6) -> c_int {
    // SAFETY: By this function's duty.
    size_in(unsafe { family(addr) }, size_of::<bindings::sockaddr_in6>())
}

/// As [`rdma_addr_size`]; 0 also for what is longer than the place.
///
/// # Safety
///
/// `addr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_addr_size_kss(
    addr: *mut bindings::__kernel_sockaddr_storage,
) -> c_int {
    let room = size_of::<bindings::__kernel_sockaddr_storage>();
    // SAFETY: By this function's duty.
    size_in(unsafe { family(addr) }, room)
}

/// Copies addresses, kind and number of a network device. Any context.
///
/// # Safety
///
/// Both are valid, and the device stays meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_copy_src_l2_addr(
    addr: *mut bindings::rdma_dev_addr,
    dev: *const bindings::net_device,
) {
    // SAFETY: By this function's duty.
    unsafe { copy_source(&mut *addr, NetDevice::from_raw(dev.cast_mut())) };
}

/// Copies addresses, kind and number of the network device that `dev_addr` is bound to, or
/// else of the one that has this address in its namespace. Any context.
///
/// # Safety
///
/// Both are valid; the namespace stays meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_translate_ip(
    addr: *const bindings::sockaddr,
    dev_addr: *mut bindings::rdma_dev_addr,
) -> c_int {
    // SAFETY: By this function's duty.
    let (ip, to) = unsafe { (ip_of(addr), &mut *dev_addr) };
    match bound_source(to, ip) {
        Ok(dev) => {
            copy_source(to, &dev);
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// Finds from where an IP address is reached, and where it is, and tells the asker by
/// `callback`, from a work queue. May sleep.
///
/// `addr` says in which namespace, and by which network device if any, or by which GID if
/// `by_gid`; it is filled in when the asker is told 0. The asker may be told `ETIMEDOUT`
/// after so many milliseconds, or an error of routing.
///
/// # Safety
///
/// `source` is null or a socket address, as is `to`. `addr` is valid and left alone until the
/// asker is told or [`rdma_addr_cancel`] returns.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_resolve_ip(
    source: *mut bindings::sockaddr,
    to: *const bindings::sockaddr,
    addr: *mut bindings::rdma_dev_addr,
    timeout_ms: c_ulong,
    callback: Option<
        unsafe extern "C" fn(
            c_int,
            *mut bindings::sockaddr,
            *mut bindings::rdma_dev_addr,
            *mut c_void,
        ),
    >,
    by_gid: bool,
    context: *mut c_void,
) -> c_int {
    let ask = || -> Result {
        // SAFETY: By this function's duty.
        let to_ip = unsafe { ip_of(to) }.ok_or(EINVAL)?;
        let mut socket: Socket = [0; 16];
        let bytes: *mut u8 = socket.as_mut_ptr().cast();
        // SAFETY: By this function's duty; there is room for every address of a known family.
        let ip = unsafe {
            if source.is_null() {
                bytes.cast::<u16>().write(family(to));
                attempt::unspecified_like(to_ip)
            } else {
                if family(source) != family(to) {
                    return Err(EINVAL);
                }
                let size = size_of_family(family(source)).ok_or(EINVAL)?;
                core::ptr::copy_nonoverlapping(source.cast::<u8>(), bytes, size);
                ip_of(source).ok_or(EINVAL)?
            }
        };
        let asker = Asker {
            callback: callback.ok_or(EINVAL)?,
            context,
            addr,
        };
        let question = Question { to: to_ip, by_gid };
        // SAFETY: By this function's duty.
        unsafe { request::ask(Source { socket, ip }, question, asker, timeout_ms as u64) }
    };
    match ask() {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Ends what [`rdma_resolve_ip`] began for `addr`: when this returns, its asker is not called
/// any more. From the asker's own callback it does not wait. May sleep.
///
/// # Safety
///
/// None; `addr` is only compared.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_addr_cancel(addr: *mut bindings::rdma_dev_addr) {
    request::cancel(addr as usize);
}

/// A user program's answer with the GID of a gateway (`RDMA_NL_LS_OP_IP_RESOLVE`). An answer that
/// cannot be read, or that no request waits for, is ignored.
pub(crate) struct GatewayGid;

impl netlink::Doit for GatewayGid {
    fn doit(message: &netlink::Incoming<'_>) -> Result {
        let answer = netlink::Answer::of(*message)?;
        if let Some(gid) = attempt::gid_in(&answer) {
            if !request::answer(answer.seq(), gid) {
                pr_info!("nobody waits for this GID of a gateway\n");
            }
        }
        Ok(())
    }
}
