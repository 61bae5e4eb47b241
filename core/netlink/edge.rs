// SPDX-License-Identifier: GPL-2.0

//! Netlink messages, handlers and sockets as C has them, with safe types around.
//!
//! | type | what |
//! |---|---|
//! | [`Batch`], [`Incoming`] | what came in by a socket, and one message of it |
//! | [`Handler`], [`Handlers`] | a client's function for an operation, and its table of them |
//! | [`DumpCall`] | one call of a handler that answers by a list |
//! | [`Message`], [`Tail`] | a message under construction, and where it grows |
//!
//! To be held against `include/rdma/rdma_netlink.h` and `include/linux/netlink.h`.

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
    /// Words for the sender about why a message was refused (`struct netlink_ext_ack`).
    pub(crate) struct ExtAck: bindings::netlink_ext_ack;
    fields {
        /// Sets the text.
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

/// Has the module of a client loaded, if there is one. May sleep.
pub(super) fn request_client(client: u32) {
    // SAFETY: The format takes one unsigned number. The result does not matter: the caller looks
    // for the client again.
    let _: c_int = unsafe {
        bindings::__request_module(true, c"rdma-netlink-subsys-%u".as_char_ptr(), client)
    };
}

/// A buffer that came in by a socket: any number of messages.
///
/// # Invariants
///
/// For `'a`, `skb` is a linear buffer that came in by a netlink socket, and that nobody else uses.
pub(super) struct Batch<'a> {
    skb: NonNull<bindings::sk_buff>,
    extack: ExtAck,
    _skb: PhantomData<&'a mut bindings::sk_buff>,
}

rdma::argument! {
    /// What `input` of a netlink socket gets: a linear buffer that nobody else uses.
    impl<'a> Batch<'a> = |skb: NonNull<bindings::sk_buff>| Batch {
        skb,
        extack: ExtAck::new(),
        _skb: PhantomData,
    };
}

impl Batch<'_> {
    /// The message at the beginning, if a whole one is there.
    pub(super) fn first(&self) -> Option<Incoming<'_>> {
        let skb = self.skb.as_ptr();
        // SAFETY: The buffer is there and ours: type invariant.
        let (data, len) = unsafe { ((*skb).data, (*skb).len) };
        let len = usize::try_from(len).ok()?;
        if len < MESSAGE_HEADER {
            return None;
        }
        let header = NonNull::new(data)?.cast::<bindings::nlmsghdr>();
        // SAFETY: There are as many bytes; the beginning is aligned, and each message goes on at a
        // multiple of four.
        let whole = usize::try_from(unsafe { header.read() }.nlmsg_len).ok()?;
        // INVARIANT: The message lies whole in the buffer, which is borrowed.
        (whole >= MESSAGE_HEADER && whole <= len).then_some(Incoming {
            skb: self.skb,
            header,
            extack: Some(&self.extack),
            _message: PhantomData,
        })
    }

    /// Tells the sender of the first message how it ended.
    pub(super) fn acknowledge(&self, message: &Incoming<'_>, done: Result) {
        let code = done.answer();
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        // SAFETY: Buffer and header are those that came in; the words are whole.
        unsafe { bindings::netlink_ack(skb, header, code, self.extack.raw()) };
    }

    /// Removes so many bytes from the beginning, or all there are.
    pub(super) fn skip(&mut self, bytes: u32) {
        let skb = self.skb.as_ptr();
        // SAFETY: The buffer is there and ours, and has at least as many bytes.
        unsafe { bindings::skb_pull(skb, bytes.min((*skb).len)) };
    }
}

rdma::c_struct! {
    /// What netlink keeps of a message in its buffer (`NETLINK_CB`). Private to this file.
    struct Parms: bindings::netlink_skb_parms;
    fields {
        /// The number of the socket that sent it. Written before it is delivered.
        const portid: u32;
        /// That socket, null of a message of the kernel's. Written before it is delivered.
        const sk: Passed<bindings::sock>;
    }
}

/// A message that came in, as its handler gets it.
///
/// # Invariants
///
/// For `'a`, `skb` is a buffer that came in by a netlink socket, and `header` that of a message
/// which lies whole in it. Nobody changes the message.
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
    /// The arguments are as the type invariant says, or null; `extack` is null or to be written.
    unsafe fn new(
        skb: *mut bindings::sk_buff,
        header: *const bindings::nlmsghdr,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Option<Self> {
        // INVARIANT: Contract of this function.
        Some(Self {
            skb: NonNull::new(skb)?,
            header: NonNull::new(header.cast_mut())?,
            // SAFETY: Contract of this function.
            extack: unsafe { Option::from_c(extack) },
            _message: PhantomData,
        })
    }

    /// The header.
    pub(crate) fn head(&self) -> bindings::nlmsghdr {
        // SAFETY: The message is there, and nobody changes it: type invariant.
        unsafe { self.header.read() }
    }

    /// What follows the header.
    pub(crate) fn payload(&self) -> &'a [u8] {
        let len = usize::try_from(self.head().nlmsg_len).unwrap_or(0);
        // SAFETY: The message lies whole in the buffer for `'a`, and nobody changes it: type
        // invariant.
        unsafe {
            let start = self.header.as_ptr().cast::<u8>().add(MESSAGE_HEADER);
            slice::from_raw_parts(start, len.saturating_sub(MESSAGE_HEADER))
        }
    }

    /// The parameters that netlink keeps of a message.
    fn parms(&self) -> &Parms {
        // SAFETY: A buffer that came in by netlink has its parameters in its scratch space, and
        // nobody changes them while the message is handled (type invariant).
        unsafe { Parms::view((&raw mut (*self.skb.as_ptr()).cb).cast()) }
    }

    /// The number of the socket that sent it.
    pub(crate) fn port(&self) -> u32 {
        self.parms().portid()
    }

    /// Whether a user's socket sent it.
    pub(crate) fn is_from_user(&self) -> bool {
        !self.parms().sk().as_ptr().is_null()
    }

    fn sock(&self) -> *mut bindings::sock {
        // SAFETY: The buffer is there: type invariant.
        unsafe { (*self.skb.as_ptr()).sk }
    }

    /// The namespace of the socket that it came in by.
    pub(crate) fn net(&self) -> &'a CountedNet {
        // SAFETY: The socket has a namespace, which stays while the socket has messages.
        unsafe { CountedNet::from_raw(bindings::rdma_helper_sock_net(self.sock())) }
    }

    /// Whether the sender has a capability in the first user namespace.
    pub(crate) fn is_capable(&self, capability: u32) -> bool {
        c_int::try_from(capability).is_ok_and(|capability| {
            // SAFETY: The buffer came in by a netlink socket: type invariant.
            unsafe { bindings::netlink_capable(self.skb.as_ptr(), capability) }
        })
    }

    /// Whether the sender has a capability in the user namespace that owns a network namespace.
    pub(crate) fn is_capable_in(&self, net: &Net, capability: u32) -> bool {
        c_int::try_from(capability).is_ok_and(|capability| {
            let skb = self.skb.as_ptr();
            // SAFETY: The buffer came in by a netlink socket: type invariant.
            unsafe { bindings::rdma_helper_skb_net_capable(skb, net.as_raw(), capability) }
        })
    }

    /// Without words for the sender.
    fn silent(self) -> Self {
        Self {
            extack: None,
            ..self
        }
    }

    /// Tells the sender in words why the message is refused.
    pub(crate) fn explain(&self, why: &'static CStr) {
        if let Some(extack) = self.extack {
            extack.set_text(why);
        }
    }

    /// Shows the sender the attribute that was refused, a part of the message.
    pub(crate) fn set_bad_attr(&self, attr: &'a [u8]) {
        if let Some(extack) = self.extack {
            // SAFETY: One message is handled at a time (`OfCall`); the attribute is read as long
            // as the message is there.
            unsafe { (*extack.raw()).bad_attr = attr.as_ptr().cast() };
        }
    }

    /// The network device of a name in the sender's namespace.
    pub(crate) fn netdev(&self, name: &CStr) -> Option<ARef<NetDevice>> {
        // SAFETY: Namespace and name are there.
        let found = unsafe {
            bindings::rdma_helper_dev_get_by_name(self.net().as_raw(), name.as_char_ptr())
        };
        // SAFETY: What is found is counted, for us.
        NonNull::new(found).map(|found| unsafe { ARef::from_raw(found.cast()) })
    }
}

/// Whether a message to the log is within the limit of messages that the network may cause.
pub(crate) fn may_warn() -> bool {
    // SAFETY: The function has no requirements.
    unsafe { bindings::net_ratelimit() != 0 }
}

/// What a client does with a message.
pub(crate) trait Doit {
    /// Handles one message. May sleep.
    fn doit(message: &Incoming<'_>) -> Result;
}

/// What a client does with a request for a list.
pub(crate) trait Dump {
    /// Writes the next messages of the list; it has ended when there are none. May sleep.
    fn dump(call: DumpCall<'_>) -> Result;
}

/// What a list keeps between its messages, all zeros at its beginning.
pub(crate) type DumpState = [u32; 3];

/// One call for a list.
pub(crate) struct DumpCall<'a> {
    /// The request for the list, without words for the sender: there never were any.
    pub(crate) request: Incoming<'a>,
    /// Where messages are written to.
    pub(crate) reply: Tail<'a>,
    /// What the list keeps.
    pub(crate) state: &'a mut DumpState,
}

/// See [`Doit`].
///
/// # Safety
///
/// For netlink, as `doit`: a buffer that came in by a socket, a whole message in it, and words for
/// the sender or null.
unsafe extern "C" fn doit<T: Doit>(
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: Contract of this function.
    match unsafe { Incoming::new(skb, header, extack) } {
        Some(message) => T::doit(&message).answer(),
        None => EINVAL.to_errno(),
    }
}

/// See [`Dump`].
///
/// # Safety
///
/// For netlink, as `dump`: an empty linear buffer, and the state of the dump that it is for.
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
        // SAFETY: Contract of this function. The scratch space of the callback is the handler's
        // alone, and begins as zeros.
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
        // SAFETY: The buffer is there: contract of this function.
        Ok(c_int::try_from(unsafe { (*skb).len })?)
    })
}

/// A client's functions for one operation (`struct rdma_nl_cbs`).
///
/// # Invariants
///
/// The functions keep to the contract of `doit` and `dump` in `rdma_netlink.h`.
#[repr(transparent)]
pub(crate) struct Handler(bindings::rdma_nl_cbs);

impl Handler {
    /// None.
    pub(crate) const NONE: Self = Self(bindings::rdma_nl_cbs {
        doit: None,
        dump: None,
        flags: 0,
    });

    /// With a function that handles a message.
    pub(crate) const fn with_doit<T: Doit>(mut self) -> Self {
        self.0.doit = Some(doit::<T>);
        self
    }

    /// With a function that answers by a list.
    pub(crate) const fn with_dump<T: Dump>(mut self) -> Self {
        self.0.dump = Some(dump::<T>);
        self
    }

    /// Only for senders with `CAP_NET_ADMIN`.
    pub(crate) const fn for_admin(mut self) -> Self {
        self.0.flags |= Self::ADMIN;
        self
    }

    // CAST: A flag of 8 bits.
    const ADMIN: u8 = bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8;

    /// Whether only administrators may send such messages.
    pub(super) fn needs_admin(&self) -> bool {
        self.0.flags & Self::ADMIN != 0
    }

    /// Calls the function for a message; none if there is none.
    pub(super) fn call_doit(&self, message: &Incoming<'_>) -> Option<Result> {
        let extack = message.extack.map_or(ptr::null_mut(), View::raw);
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        let doit = self.0.doit?;
        // SAFETY: Its contract: type invariant. The arguments are those of `Incoming`.
        Some(to_result(unsafe { doit(skb, header, extack) }))
    }

    /// Begins a list for a message; none if there is no function for that.
    pub(super) fn start_dump(&self, message: &Incoming<'_>) -> Option<Result> {
        let mut control = bindings::netlink_dump_control {
            dump: Some(self.0.dump?),
            module: crate::THIS_MODULE.as_ptr(),
            ..Default::default()
        };
        let (skb, header) = (message.skb.as_ptr(), message.header.as_ptr());
        // SAFETY: The arguments are those of `Incoming`; `control` is read before this returns.
        // The function keeps to its contract: type invariant.
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
/// There are `count` handlers at `first` until the client is unregistered, which takes the value
/// out of its place (`client::CLIENTS`).
pub(crate) struct Handlers {
    first: *const Handler,
    count: usize,
}

// SAFETY: Handlers are functions that any thread may call.
unsafe impl Send for Handlers {}
// SAFETY: See `Send`.
unsafe impl Sync for Handlers {}

impl Handlers {
    /// A table that stays.
    pub(crate) fn of(table: &'static [Handler]) -> Self {
        // INVARIANT: The table is static.
        Self {
            first: table.as_ptr(),
            count: table.len(),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The handler of an operation, if the client has one.
    pub(super) fn get(&self, op: usize) -> Option<Handler> {
        if op >= self.count {
            return None;
        }
        // SAFETY: There are so many handlers, of which this is a copy: type invariant. They are
        // functions and flags.
        let handler = unsafe { self.first.add(op).read() };
        (!handler.is_none()).then_some(handler)
    }
}

/// Gives a client its handlers. May sleep.
///
/// # Safety
///
/// `table` has as many handlers as the client has operations (`rdma/rdma_netlink.h`), until
/// `rdma_nl_unregister` returns.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_register(
    index: kernel::ffi::c_uint,
    table: *const bindings::rdma_nl_cbs,
) {
    // INVARIANT: Contract of this function.
    let table = Handlers {
        first: table.cast(),
        count: super::client::operations(index),
    };
    super::client::register(index, table);
}

rdma::exported!(rdma_nl_register);
