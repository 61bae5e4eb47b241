// SPDX-License-Identifier: GPL-2.0

//! What is asked, and the answer.
//!
//! An [`Request`] is a request as its handler sees it. Its attributes are judged by
//! [`crate::proto::nldev`]; answers are written straight into the buffer that is sent.

use core::ffi::CStr;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::NetDevice;

use crate::device::registry;
use crate::device::Registered;
use crate::netlink;
use crate::netlink::Message;
use crate::netlink::Tail;
use crate::proto::nla;
use crate::proto::nla::ListError;
use crate::proto::nla::Listed;
use crate::proto::nla::Strictness;
use crate::proto::nla::Why;
use crate::proto::nla::Writer;
use crate::proto::nla::MESSAGE_HEADER;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;
pub(super) use crate::proto::nldev::Request as Attributes;

/// Writes an answer.
pub(super) type Answer<'a> = Writer<Tail<'a>>;

/// A request.
///
/// # Invariants
///
/// For `'a`, `skb` is a buffer that came by a netlink socket.
pub(super) struct Request<'a> {
    skb: NonNull<bindings::sk_buff>,
    head: bindings::nlmsghdr,
    body: &'a [u8],
    net: &'a Net,
    extack: *mut bindings::netlink_ext_ack,
    _skb: PhantomData<&'a bindings::sk_buff>,
}

impl<'a> Request<'a> {
    /// # Safety
    ///
    /// For `'a`, `skb` is a buffer that came by a netlink socket, `header` that of a
    /// message which lies whole in there, and `extack` null or to be written.
    pub(super) unsafe fn new(
        skb: NonNull<bindings::sk_buff>,
        header: *const bindings::nlmsghdr,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Self {
        // SAFETY: By this function's duty the message is there, and nobody changes it.
        let (head, body, net) = unsafe {
            let head = *header;
            let len = usize::try_from(head.nlmsg_len).unwrap_or(0);
            let start = header.cast::<u8>().add(MESSAGE_HEADER);
            let body = slice::from_raw_parts(start, len.saturating_sub(MESSAGE_HEADER));
            let sk = (*skb.as_ptr()).sk;
            (
                head,
                body,
                Net::from_raw(bindings::rdma_helper_sock_net(sk)),
            )
        };
        Self {
            skb,
            head,
            body,
            net,
            extack,
            _skb: PhantomData,
        }
    }

    /// What is asked.
    pub(super) fn command(&self) -> Option<Command> {
        Command::from_type(self.head.nlmsg_type)
    }

    /// The namespace that it is asked in.
    pub(super) fn net(&self) -> &'a Net {
        self.net
    }

    /// The request's buffer, for those who judge by it.
    pub(super) fn skb(&self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }

    /// Says in words why something is refused.
    pub(super) fn explain(&self, why: &'static CStr) {
        if !self.extack.is_null() {
            // SAFETY: It is whole, as whoever made this said, and the text static.
            unsafe { (*self.extack)._msg = why.as_ptr().cast() };
        }
    }

    /// Its attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(super) fn attributes(&self, strictness: Strictness) -> Result<Attributes<'a>> {
        self.parse(self.body, strictness).map_err(|_| EINVAL)
    }

    /// Its attributes, or those of a nest in it.
    ///
    /// # Errors
    ///
    /// `EINVAL`; `ERANGE` for a number that is too short, and such: of most commands it is
    /// not told apart.
    pub(super) fn parse(&self, bytes: &'a [u8], strictness: Strictness) -> Result<Attributes<'a>> {
        let parsed = Attributes::parse(bytes, strictness);
        if parsed.is_ok() && nla::has_rest(bytes) {
            // It is said, whatever becomes of the request.
            self.explain(Why::Trailing.words());
        }
        parsed.map_err(|refusal| {
            self.explain(refusal.why.words());
            let whole = !matches!(refusal.why, Why::Trailing);
            if let Some(attr) = bytes
                .get(refusal.at..)
                .filter(|_| whole && !self.extack.is_null())
            {
                // SAFETY: It is whole, as whoever made this said; it is read as long as the
                // message is there.
                unsafe { (*self.extack).bad_attr = attr.as_ptr().cast() };
            }
            if refusal.why.is_range() {
                ERANGE
            } else {
                EINVAL
            }
        })
    }

    /// All bytes of its attributes.
    pub(super) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Whether the asker administers the network of the first user namespace.
    pub(super) fn is_admin(&self) -> bool {
        // CAST: A small number.
        let admin = bindings::CAP_NET_ADMIN as c_int;
        // SAFETY: By the type invariant.
        unsafe { bindings::netlink_capable(self.skb.as_ptr(), admin) }
    }

    /// The device that is asked about.
    ///
    /// # Errors
    ///
    /// `EINVAL` if none is named, or there is none that the asker may see.
    pub(super) fn device(&self, attrs: &Attributes<'_>) -> Result<Registered> {
        let index = attrs.u32(Attr::DevIndex).ok_or(EINVAL)?;
        registry::by_index(self.net, index).ok_or(EINVAL)
    }

    /// The network device of a name in the asker's namespace.
    pub(super) fn netdev(&self, name: &CStr) -> Option<ARef<NetDevice>> {
        // SAFETY: Namespace and name are there.
        let found = unsafe {
            bindings::rdma_helper_dev_get_by_name(self.net.as_raw(), name.as_ptr().cast())
        };
        // SAFETY: What is found is counted, for us.
        NonNull::new(found).map(|found| unsafe { ARef::from_raw(found.cast()) })
    }

    fn port(&self) -> u32 {
        // SAFETY: A buffer that came by a netlink socket has such parameters in its
        // scratch space, which is aligned for them.
        unsafe {
            let parms = core::ptr::addr_of!((*self.skb.as_ptr()).cb);
            (*parms.cast::<bindings::netlink_skb_parms>()).portid
        }
    }

    fn head_of_answer(&self, command: Command, flags: u16) -> nla::Message {
        nla::Message {
            message_type: command.message_type(),
            flags,
            seq: self.head.nlmsg_seq,
            port: self.port(),
        }
    }

    /// Writes an answer and sends it. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `fill`; `EMSGSIZE` if it does not fit; `ENOMEM`; `ECONNREFUSED` or `EAGAIN`
    /// if the asker has gone or does not read.
    pub(super) fn answer(
        &self,
        command: Command,
        fill: impl FnOnce(&mut Answer<'_>) -> Result,
    ) -> Result {
        let mut message = Message::new()?;
        message
            .writer()
            .message(self.head_of_answer(command, 0), fill)?;
        netlink::unicast(self.net, message, self.port())
    }
}

/// A request for a list, which is answered by as many messages as it takes.
pub(super) struct Dump<'a> {
    /// What is asked.
    pub(super) request: Request<'a>,
    reply: Answer<'a>,
    cursor: &'a mut DumpCursor,
}

/// Where a list goes on, between its messages. All zeros at its beginning.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct DumpCursor {
    /// The least number that was not shown.
    next: u32,
    /// There is none.
    end: u32,
    /// Not even the next one alone did fit.
    stuck: u32,
}

impl DumpCursor {
    /// What comes next, unless the end was reached.
    pub(super) fn next(&self) -> Option<u32> {
        (self.end == 0).then_some(self.next)
    }

    /// The next one is at `number`, or after it.
    pub(super) fn at(&mut self, number: u32) {
        self.next = number;
    }

    /// The next one is after `number`.
    pub(super) fn after(&mut self, number: u32) {
        self.stuck = 0;
        match number.checked_add(1) {
            Some(next) => self.next = next,
            None => self.end = 1,
        }
    }

    /// What becomes of a message with a list, which goes on where this says. If not even one
    /// entry fits the list is empty, once: the first buffer is made before it is known how much
    /// the asker reads at a time, and the next may be larger.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if an entry does not fit into that either; those of the list.
    pub(super) fn settle(
        &mut self,
        w: &mut Answer<'_>,
        table: u16,
        listed: Result<Listed, ListError<Error>>,
    ) -> Result {
        match listed {
            Ok(_listed) => Ok(()),
            Err(ListError::Full(_)) if self.stuck == 0 => {
                self.stuck = 1;
                w.nest_unmarked(table, |_| Ok(()))
            }
            Err(ListError::Full(_)) => Err(EMSGSIZE),
            Err(ListError::Failed(error)) => Err(error),
        }
    }
}

impl<'a> Dump<'a> {
    /// # Safety
    ///
    /// For `'a`, `reply` is a linear buffer that nobody else changes, and `callback` that of
    /// the dump that it is for.
    pub(super) unsafe fn new(
        reply: NonNull<bindings::sk_buff>,
        callback: *mut bindings::netlink_callback,
    ) -> Option<Self> {
        const {
            assert!(
                size_of::<DumpCursor>() <= size_of::<bindings::netlink_callback__bindgen_ty_1>()
            );
            assert!(
                align_of::<DumpCursor>() <= align_of::<bindings::netlink_callback__bindgen_ty_1>()
            );
        }
        // SAFETY: By this function's duty. The place is in the callback's own memory, which
        // C has filled with zeros and leaves to us.
        unsafe {
            let skb = NonNull::new((*callback).skb)?;
            // Dumps have always refused without words.
            let request = Request::new(skb, (*callback).nlh, core::ptr::null_mut());
            Some(Self {
                request,
                reply: Tail::new(reply).writer(),
                cursor: &mut *core::ptr::addr_of_mut!((*callback).__bindgen_anon_1).cast(),
            })
        }
    }

    /// Where the list goes on.
    pub(super) fn next(&self) -> Option<u32> {
        self.cursor.next()
    }

    /// Writes one message. `fill` may move the place.
    ///
    /// # Errors
    ///
    /// Those of `fill`; `EMSGSIZE` if it does not fit any more. Then there is none.
    pub(super) fn message(
        &mut self,
        command: Command,
        fill: impl FnOnce(&Request<'a>, &mut Answer<'_>, &mut DumpCursor) -> Result,
    ) -> Result {
        // CAST: A flag of 16 bits.
        let head = self
            .request
            .head_of_answer(command, bindings::NLM_F_MULTI as u16);
        let Self {
            request,
            reply,
            cursor,
        } = self;
        reply.message(head, |w| fill(request, w, cursor))
    }

    /// Writes a message for each item, as many as fit. `next` answers the item of a number
    /// or the first one after it, with its number. Items that fail are passed over, so that
    /// one bad device does not hide the others.
    pub(super) fn each<T>(
        &mut self,
        command: Command,
        next: impl Fn(&Request<'a>, u32) -> Option<(u32, T)>,
        fill: impl Fn(&Request<'a>, &mut Answer<'_>, &T) -> Result,
    ) {
        let mut written = false;
        while let Some((number, item)) = self.next().and_then(|from| next(&self.request, from)) {
            match self.message(command, |request, w, _| fill(request, w, &item)) {
                Ok(()) => written = true,
                // It goes into the next buffer, if it does not fill one alone.
                Err(EMSGSIZE) if written => return,
                Err(_) => {}
            }
            self.cursor.after(number);
        }
    }
}

/// A text of less than `N` bytes, with its end.
pub(super) struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// That of a request. What is too long is cut, as it always was.
    pub(super) fn of(attrs: &Attributes<'_>, attr: Attr) -> Option<Self> {
        let mut text = [0; N];
        let sent = attrs.text(attr, N.checked_sub(1)?)?;
        for (to, from) in text.iter_mut().zip(sent) {
            *to = *from;
        }
        Some(Self(text))
    }

    /// Without its end.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.as_cstr().to_bytes()
    }

    /// With its end.
    pub(super) fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}
