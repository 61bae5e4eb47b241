// SPDX-License-Identifier: GPL-2.0

//! Requests and responses.
//!
//! A [`Request`] is one message as passed to its handler. [`crate::proto::nldev`] parses its
//! attributes. Responses are written directly to the buffer that is sent.

use kernel::prelude::*;
use rdma::bindings;
use rdma::net::CountedNet;

use crate::device::registry;
use crate::device::Registered;
use crate::netlink;
use crate::netlink::DumpCall;
use crate::netlink::DumpState;
use crate::netlink::Incoming;
use crate::netlink::Message;
use crate::netlink::Tail;
use crate::proto::nla;
use crate::proto::nla::ListError;
use crate::proto::nla::Listed;
use crate::proto::nla::Strictness;
use crate::proto::nla::Why;
use crate::proto::nla::Writer;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;
pub(super) use crate::proto::nldev::Request as Attributes;

/// Writer of a response.
pub(super) type Answer<'a> = Writer<Tail<'a>>;

/// A request.
pub(super) struct Request<'a> {
    message: Incoming<'a>,
}

impl<'a> Request<'a> {
    pub(super) fn new(message: Incoming<'a>) -> Self {
        Self { message }
    }

    /// The command.
    pub(super) fn command(&self) -> Option<Command> {
        Command::from_type(self.message.head().nlmsg_type)
    }

    /// The sender's network namespace.
    pub(super) fn net(&self) -> &'a CountedNet {
        self.message.net()
    }

    /// The message.
    pub(super) fn message(&self) -> &Incoming<'a> {
        &self.message
    }

    /// Reports to the sender why the request is rejected.
    pub(super) fn explain(&self, why: &'static CStr) {
        self.message.explain(why);
    }

    /// Parses the attributes of the request.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(super) fn attributes(&self, strictness: Strictness) -> Result<Attributes<'a>> {
        self.parse(self.body(), strictness).map_err(|_| EINVAL)
    }

    /// Parses attributes: those of the request, or those nested in one of them.
    ///
    /// # Errors
    ///
    /// `EINVAL`; `ERANGE` for a value out of range, which most commands report as `EINVAL`.
    pub(super) fn parse(&self, bytes: &'a [u8], strictness: Strictness) -> Result<Attributes<'a>> {
        let parsed = Attributes::parse(bytes, strictness, super::ATTRS);
        if parsed.is_ok() && nla::has_rest(bytes) {
            // Reported even if the request succeeds.
            self.explain(Why::Trailing.words());
        }
        parsed.map_err(|refusal| {
            self.explain(refusal.why.words());
            let whole = !matches!(refusal.why, Why::Trailing);
            if let Some(attr) = bytes.get(refusal.at..).filter(|_| whole) {
                self.message.set_bad_attr(attr);
            }
            if refusal.why.is_range() {
                ERANGE
            } else {
                EINVAL
            }
        })
    }

    /// All attributes as raw bytes.
    pub(super) fn body(&self) -> &'a [u8] {
        self.message.payload()
    }

    /// Returns whether the sender has `CAP_NET_ADMIN` in the initial user namespace.
    pub(super) fn is_admin(&self) -> bool {
        self.message.is_capable(bindings::CAP_NET_ADMIN)
    }

    /// Returns the device that the request selects.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the attribute is missing, or if there is no such device that the sender may see.
    pub(super) fn device(&self, attrs: &Attributes<'_>) -> Result<Registered> {
        let index = attrs.u32(Attr::DevIndex).ok_or(EINVAL)?;
        registry::by_index(self.net(), index).ok_or(EINVAL)
    }

    fn head_of_answer(&self, command: Command, flags: u16) -> nla::Message {
        nla::Message {
            message_type: command.message_type(),
            flags,
            seq: self.message.head().nlmsg_seq,
            port: self.message.port(),
        }
    }

    /// Writes a response and sends it. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of `fill`; `EMSGSIZE` if the response does not fit; `ENOMEM`; `ECONNREFUSED` if the
    /// sender's socket was closed; `EAGAIN` if its receive buffer is full.
    pub(super) fn answer(
        &self,
        command: Command,
        fill: impl FnOnce(&mut Answer<'_>) -> Result,
    ) -> Result {
        let mut message = Message::new()?;
        message
            .writer()
            .message(self.head_of_answer(command, 0), fill)?;
        netlink::unicast(self.net(), message, self.message.port())
    }
}

/// One call of a dump, which appends messages to one buffer.
pub(super) struct Dump<'a> {
    /// The dump request.
    pub(super) request: Request<'a>,
    reply: Answer<'a>,
    cursor: DumpCursor<'a>,
}

/// Position of a dump between calls. Initially all zeros.
pub(super) struct DumpCursor<'a> {
    /// Smallest number that was not shown yet.
    next: &'a mut u32,
    /// Nonzero if no number is left.
    end: &'a mut u32,
    /// Nonzero if the next entry did not fit even into an empty message.
    stuck: &'a mut u32,
}

impl<'a> DumpCursor<'a> {
    fn new(state: &'a mut DumpState) -> Self {
        let [next, end, stuck] = state;
        Self { next, end, stuck }
    }

    /// Returns the next number to show; `None` at the end of the dump.
    pub(super) fn next(&self) -> Option<u32> {
        let over = *self.end != 0;
        (!over).then_some(*self.next)
    }

    /// Continues at `number`.
    pub(super) fn at(&mut self, number: u32) {
        *self.next = number;
    }

    /// Continues after `number`.
    pub(super) fn after(&mut self, number: u32) {
        *self.stuck = 0;
        match number.checked_add(1) {
            Some(next) => *self.next = next,
            None => *self.end = 1,
        }
    }

    /// Converts the result of writing a list that starts at this cursor. If not even one entry
    /// fits, writes an empty list once: the first buffer is allocated before the size of the
    /// receiver's reads is known, and the next one may be larger.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if an entry does not fit into the next buffer either; errors of the list.
    pub(super) fn settle(
        &mut self,
        w: &mut Answer<'_>,
        table: u16,
        listed: Result<Listed, ListError<Error>>,
    ) -> Result {
        match listed {
            Ok(_listed) => Ok(()),
            Err(ListError::Full(_)) if *self.stuck == 0 => {
                *self.stuck = 1;
                w.nest_unmarked(table, |_| Ok(()))
            }
            Err(ListError::Full(_)) => Err(EMSGSIZE),
            Err(ListError::Failed(error)) => Err(error),
        }
    }
}

impl<'a> Dump<'a> {
    pub(super) fn new(call: DumpCall<'a>) -> Self {
        Self {
            request: Request::new(call.request),
            reply: call.reply.writer(),
            cursor: DumpCursor::new(call.state),
        }
    }

    /// Returns the next number to show; `None` at the end of the dump.
    pub(super) fn next(&self) -> Option<u32> {
        self.cursor.next()
    }

    /// Writes one message. `fill` may move the cursor.
    ///
    /// # Errors
    ///
    /// Errors of `fill`; `EMSGSIZE` if the message does not fit. On failure nothing is written.
    pub(super) fn message(
        &mut self,
        command: Command,
        fill: impl FnOnce(&Request<'a>, &mut Answer<'_>, &mut DumpCursor<'a>) -> Result,
    ) -> Result {
        // CAST: The flag has 16 bits.
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

    /// Writes one message per item, as many as fit. `next` returns the first item at or after a
    /// number, with its number. Items that fail are skipped, so that one faulty device does not
    /// hide the others.
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
                // Retry in the next buffer, unless this one was empty.
                Err(EMSGSIZE) if written => return,
                Err(_) => {}
            }
            self.cursor.after(number);
        }
    }
}

/// A NUL-terminated string of at most `N` bytes, including the NUL.
pub(super) struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Returns a string attribute of a request, truncated if it is too long.
    pub(super) fn of(attrs: &Attributes<'_>, attr: Attr) -> Option<Self> {
        let mut text = [0; N];
        let sent = attrs.text(attr, N.checked_sub(1)?)?;
        for (to, from) in text.iter_mut().zip(sent) {
            *to = *from;
        }
        Some(Self(text))
    }

    /// Returns the string without its NUL.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.as_cstr().to_bytes()
    }

    /// Returns the string with its NUL.
    pub(super) fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}
