// SPDX-License-Identifier: GPL-2.0

//! C structures of netlink messages, handlers and sockets, with safe types.
//!
//! | type | what |
//! |---|---|
//! | [`Batch`], [`Incoming`] | a received buffer, and one message in it |
//! | [`Handler`], [`Handlers`] | a client's handler of an operation, and its handler table |
//! | [`DumpCall`] | one call of a dump handler |
//! | [`Message`], [`Tail`] | a message under construction, and its end |
//!
//! Must match `include/rdma/rdma_netlink.h` and `include/linux/netlink.h`.

pub(super) mod message;
pub(super) mod socket;

pub(crate) use self::message::Lent;
pub(crate) use self::message::Message;
pub(crate) use self::message::Tail;

use crate::proto::nla::MESSAGE_HEADER;
use core::marker::PhantomData;
use core::ptr;
use core::ptr::NonNull;
use core::slice;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::Answer as _;
use rdma::edge::FromC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NetDevice;

rdma::c_struct! {
    /// Error report to the sender of a message (`struct netlink_ext_ack`).
    pub(crate) struct ExtAck: bindings::netlink_ext_ack;
    fields {
        /// Sets the error text.
        put set_text at _msg: &'static CStr;
    }
}

// SAFETY: One message is handled at a time; `Opaque` is not `Sync`.
unsafe impl OfCall for ExtAck {}

impl ExtAck {
    fn new() -> Self {
        Self(Opaque::new(bindings::netlink_ext_ack::default()))
    }
}

/// Requests the module of a client, which need not exist: the client is looked up again. May sleep.
pub(super) fn request_client(client: u32) {
    // SAFETY: The format takes one unsigned argument.
    let _: c_int = unsafe {
        bindings::__request_module(true, c"rdma-netlink-subsys-%u".as_char_ptr(), client)
    };
}

/// A buffer received by a socket, with any number of messages.
///
/// # Invariants
///
/// For `'a`, `skb` is a linear buffer that a netlink socket received, and that nobody else uses.
pub(super) struct Batch<'a> {
    skb: NonNull<bindings::sk_buff>,
    extack: ExtAck,
    _skb: PhantomData<&'a mut bindings::sk_buff>,
}

rdma::argument! {
    /// Argument of `input` of a netlink socket: a linear buffer that nobody else uses.
    impl<'a> Batch<'a> = |skb: NonNull<bindings::sk_buff>| Batch {
        skb,
        extack: ExtAck::new(),
        _skb: PhantomData,
    };
}

impl Batch<'_> {
    /// The first message; `None` if the buffer has no complete message.
    pub(super) fn first(&self) -> Option<Incoming<'_>> {
        let skb = self.skb.as_ptr();
        // SAFETY: The buffer is valid, and only `self` uses it (type invariant).
        let (data, len) = unsafe { ((*skb).data, (*skb).len) };
        let len = usize::try_from(len).ok()?;
        if len < MESSAGE_HEADER {
            return None;
        }
        let header = NonNull::new(data)?.cast::<bindings::nlmsghdr>();
        // SAFETY: The buffer has at least as many bytes as a header. Its start is aligned, and each
        // message starts at a multiple of four bytes.
        let whole = usize::try_from(unsafe { header.read() }.nlmsg_len).ok()?;
        // INVARIANT: The whole message is in the buffer, which is borrowed.
        (whole >= MESSAGE_HEADER && whole <= len).then_some(Incoming {
            skb: self.skb,
            header,
            extack: Some(&self.extack),
            _message: PhantomData,
        })
    }

    /// Sends the sender of `message` an acknowledgment with the result.
    pub(super) fn acknowledge(&self, message: &Incoming<'_>, done: Result) {
        let code = done.answer();
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        // SAFETY: Buffer and header are those received (type invariant of `Incoming`); `extack` is
        // initialised.
        unsafe { bindings::netlink_ack(skb, header, code, self.extack.raw()) };
    }

    /// Removes `bytes` bytes from the start, or all bytes if there are fewer.
    pub(super) fn skip(&mut self, bytes: u32) {
        let skb = self.skb.as_ptr();
        // SAFETY: The buffer is valid, only `self` uses it (type invariant), and it has at least
        // that many bytes.
        unsafe { bindings::skb_pull(skb, bytes.min((*skb).len)) };
    }
}

rdma::c_struct! {
    /// Control block of a received buffer (`NETLINK_CB`). Private to this file.
    struct Parms: bindings::netlink_skb_parms;
    fields {
        /// Port ID of the sending socket. Written before delivery.
        const portid: u32;
        /// The sending socket; null for a message of the kernel. Written before delivery.
        const sk: Passed<bindings::sock>;
    }
}

/// A received message, as passed to its handler.
///
/// # Invariants
///
/// For `'a`, `skb` is a buffer that a netlink socket received, and `header` is the header of a
/// message that lies completely in that buffer. Nobody changes the message.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    skb: NonNull<bindings::sk_buff>,
    header: NonNull<bindings::nlmsghdr>,
    extack: Option<&'a ExtAck>,
    _message: PhantomData<&'a [u8]>,
}

impl<'a> Incoming<'a> {
    /// # Safety
    ///
    /// `skb` and `header` are null or as in the type invariant. `extack` is null, or writable for
    /// `'a`.
    unsafe fn new(
        skb: *mut bindings::sk_buff,
        header: *const bindings::nlmsghdr,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Option<Self> {
        // INVARIANT: By the contract of this function.
        Some(Self {
            skb: NonNull::new(skb)?,
            header: NonNull::new(header.cast_mut())?,
            // SAFETY: By the contract of this function.
            extack: unsafe { Option::from_c(extack) },
            _message: PhantomData,
        })
    }

    /// The header.
    pub(crate) fn head(&self) -> bindings::nlmsghdr {
        // SAFETY: The message is valid, and nobody changes it (type invariant).
        unsafe { self.header.read() }
    }

    /// The bytes after the header.
    pub(crate) fn payload(&self) -> &'a [u8] {
        let len = usize::try_from(self.head().nlmsg_len).unwrap_or(0);
        // SAFETY: The whole message is in the buffer for `'a`, and nobody changes it (type
        // invariant).
        unsafe {
            let start = self.header.as_ptr().cast::<u8>().add(MESSAGE_HEADER);
            slice::from_raw_parts(start, len.saturating_sub(MESSAGE_HEADER))
        }
    }

    /// The control block of the buffer.
    fn parms(&self) -> &Parms {
        // SAFETY: A buffer received by a netlink socket (type invariant) has this structure in its
        // `cb`, and nobody changes it while the message is handled.
        unsafe { Parms::view((&raw mut (*self.skb.as_ptr()).cb).cast()) }
    }

    /// Port ID of the sending socket.
    pub(crate) fn port(&self) -> u32 {
        self.parms().portid()
    }

    /// Returns whether a user socket sent the message.
    pub(crate) fn is_from_user(&self) -> bool {
        !self.parms().sk().as_ptr().is_null()
    }

    fn sock(&self) -> *mut bindings::sock {
        // SAFETY: The buffer is valid (type invariant).
        unsafe { (*self.skb.as_ptr()).sk }
    }

    /// Network namespace of the receiving socket.
    pub(crate) fn net(&self) -> &'a CountedNet {
        // SAFETY: The socket has a network namespace, which is valid while the socket has messages.
        unsafe { CountedNet::from_raw(bindings::rdma_helper_sock_net(self.sock())) }
    }

    /// Returns whether the sender has a capability in the initial user namespace.
    pub(crate) fn is_capable(&self, capability: u32) -> bool {
        c_int::try_from(capability).is_ok_and(|capability| {
            // SAFETY: A netlink socket received the buffer (type invariant).
            unsafe { bindings::netlink_capable(self.skb.as_ptr(), capability) }
        })
    }

    /// Returns whether the sender has a capability in the user namespace that owns `net`.
    pub(crate) fn is_capable_in(&self, net: &Net, capability: u32) -> bool {
        c_int::try_from(capability).is_ok_and(|capability| {
            let skb = self.skb.as_ptr();
            // SAFETY: A netlink socket received the buffer (type invariant).
            unsafe { bindings::rdma_helper_skb_net_capable(skb, net.as_raw(), capability) }
        })
    }

    /// Returns the message without extended error reporting.
    fn silent(self) -> Self {
        Self {
            extack: None,
            ..self
        }
    }

    /// Reports to the sender why the message is rejected.
    pub(crate) fn explain(&self, why: &'static CStr) {
        if let Some(extack) = self.extack {
            extack.set_text(why);
        }
    }

    /// Reports the rejected attribute to the sender. `attr` must be part of the message.
    pub(crate) fn set_bad_attr(&self, attr: &'a [u8]) {
        if let Some(extack) = self.extack {
            // SAFETY: Only one message is handled at a time (`OfCall`). The attribute is only read
            // while the message is valid, and is borrowed as long.
            unsafe { (*extack.raw()).bad_attr = attr.as_ptr().cast() };
        }
    }

    /// Returns a reference to the network device with this name in the socket's namespace.
    pub(crate) fn netdev(&self, name: &CStr) -> Option<ARef<NetDevice>> {
        // SAFETY: Namespace and name are borrowed, so both are valid.
        let found = unsafe {
            bindings::rdma_helper_dev_get_by_name(self.net().as_raw(), name.as_char_ptr())
        };
        // SAFETY: The function returns a reference that the caller owns.
        NonNull::new(found).map(|found| unsafe { ARef::from_raw(found.cast()) })
    }
}

/// Returns whether the rate limit allows a log message that network traffic may cause.
pub(crate) fn may_warn() -> bool {
    // SAFETY: The function has no requirements.
    unsafe { bindings::net_ratelimit() != 0 }
}

/// Handler of a message.
pub(crate) trait Doit {
    /// Handles one message. May sleep.
    fn doit(message: &Incoming<'_>) -> Result;
}

/// Handler of a dump request.
pub(crate) trait Dump {
    /// Writes the next messages of the dump. Writing none ends the dump. May sleep.
    fn dump(call: DumpCall<'_>) -> Result;
}

/// State of a dump between calls, initially all zeros.
pub(crate) type DumpState = [u32; 3];

/// One call of a dump handler.
pub(crate) struct DumpCall<'a> {
    /// The dump request, without extended error reporting, which dumps never had.
    pub(crate) request: Incoming<'a>,
    /// Buffer for the messages.
    pub(crate) reply: Tail<'a>,
    /// State of the dump.
    pub(crate) state: &'a mut DumpState,
}

/// See [`Doit`].
///
/// # Safety
///
/// Called by netlink only, as `doit`: with a buffer that a socket received, a complete message in
/// it, and an extended ack or null.
unsafe extern "C" fn doit<T: Doit>(
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: By the contract of this function.
    match unsafe { Incoming::new(skb, header, extack) } {
        Some(message) => T::doit(&message).answer(),
        None => EINVAL.to_errno(),
    }
}

/// See [`Dump`].
///
/// # Safety
///
/// Called by netlink only, as `dump`: with an empty linear buffer, and the callback of the dump.
unsafe extern "C" fn dump<T: Dump>(
    skb: *mut bindings::sk_buff,
    callback: *mut bindings::netlink_callback,
) -> c_int {
    const {
        type Scratch = bindings::netlink_callback__bindgen_ty_1;
        assert!(size_of::<DumpState>() <= size_of::<Scratch>());
        assert!(align_of::<DumpState>() <= align_of::<Scratch>());
    }
    from_result(|| {
        let reply = NonNull::new(skb).ok_or(EINVAL)?;
        // SAFETY: By the contract of this function. Only the handler uses the scratch space of the
        // callback, which is initially all zeros.
        let call = unsafe {
            DumpCall {
                request: Incoming::new((*callback).skb, (*callback).nlh, ptr::null_mut())
                    .ok_or(EINVAL)?
                    .silent(),
                reply: Tail::new(reply),
                state: &mut *(&raw mut (*callback).__bindgen_anon_1).cast(),
            }
        };
        T::dump(call)?;
        // SAFETY: The buffer is valid (contract of this function).
        Ok(c_int::try_from(unsafe { (*skb).len })?)
    })
}

/// A client's handler functions for one operation (`struct rdma_nl_cbs`).
///
/// # Invariants
///
/// The functions meet the contracts of `doit` and `dump` in `rdma_netlink.h`.
#[repr(transparent)]
pub(crate) struct Handler(bindings::rdma_nl_cbs);

impl Handler {
    /// No handler.
    pub(crate) const NONE: Self = Self(bindings::rdma_nl_cbs {
        doit: None,
        dump: None,
        flags: 0,
    });

    /// Adds a function that handles a message.
    pub(crate) const fn with_doit<T: Doit>(mut self) -> Self {
        self.0.doit = Some(doit::<T>);
        self
    }

    /// Adds a function that handles a dump request.
    pub(crate) const fn with_dump<T: Dump>(mut self) -> Self {
        self.0.dump = Some(dump::<T>);
        self
    }

    /// Requires `CAP_NET_ADMIN` of the sender.
    pub(crate) const fn for_admin(mut self) -> Self {
        self.0.flags |= Self::ADMIN;
        self
    }

    // CAST: The flag has 8 bits.
    const ADMIN: u8 = bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8;

    /// Returns whether the sender needs `CAP_NET_ADMIN`.
    pub(super) fn needs_admin(&self) -> bool {
        self.0.flags & Self::ADMIN != 0
    }

    /// Calls the `doit` function; `None` if there is none.
    pub(super) fn call_doit(&self, message: &Incoming<'_>) -> Option<Result> {
        let extack = message.extack.map_or(ptr::null_mut(), View::raw);
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        let doit = self.0.doit?;
        // SAFETY: The function meets the contract of `doit` (type invariant). The arguments are
        // valid (type invariant of `Incoming`).
        Some(to_result(unsafe { doit(skb, header, extack) }))
    }

    /// Starts a dump; `None` if there is no `dump` function.
    pub(super) fn start_dump(&self, message: &Incoming<'_>) -> Option<Result> {
        let mut control = bindings::netlink_dump_control {
            dump: Some(self.0.dump?),
            module: rdma::this_module!().as_ptr(),
            ..Default::default()
        };
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        // SAFETY: The arguments are valid (type invariant of `Incoming`); `control` is only read
        // during the call. The function meets the contract of `dump` (type invariant).
        Some(to_result(unsafe {
            bindings::__netlink_dump_start(message.sock(), skb, header, &mut control)
        }))
    }

    fn is_none(&self) -> bool {
        self.0.doit.is_none() && self.0.dump.is_none()
    }
}

/// A client's table of handlers.
///
/// # Invariants
///
/// `first` points to `count` handlers until the client is unregistered, which removes this value
/// from `client::CLIENTS`.
pub(crate) struct Handlers {
    first: *const Handler,
    count: usize,
}

// SAFETY: Handlers may be called from any thread.
unsafe impl Send for Handlers {}
// SAFETY: See `Send`.
unsafe impl Sync for Handlers {}

impl Handlers {
    /// Creates a table from a static array.
    pub(crate) fn of(table: &'static [Handler]) -> Self {
        // INVARIANT: The array is static.
        Self {
            first: table.as_ptr(),
            count: table.len(),
        }
    }

    /// Number of handlers.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the handler of an operation, if the client has one.
    pub(super) fn get(&self, op: usize) -> Option<Handler> {
        if op >= self.count {
            return None;
        }
        // SAFETY: `op` is below `count`, so the handler is valid (type invariant). It consists of
        // function pointers and flags, which may be copied.
        let handler = unsafe { self.first.add(op).read() };
        (!handler.is_none()).then_some(handler)
    }
}

/// Registers a client with its handlers. May sleep.
///
/// # Safety
///
/// `table` has as many handlers as the client has operations (`rdma/rdma_netlink.h`), and stays
/// valid until `rdma_nl_unregister` returns.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_register(
    index: kernel::ffi::c_uint,
    table: *const bindings::rdma_nl_cbs,
) {
    // INVARIANT: By the contract of this function.
    let table = Handlers {
        first: table.cast(),
        count: super::client::operations(index),
    };
    super::client::register(index, table);
}

rdma::exported!(rdma_nl_register);
