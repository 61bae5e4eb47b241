// SPDX-License-Identifier: GPL-2.0

//! Requests, and the answers to them.
//!
//! A [`Request`] is one message as its handler sees it. Its attributes are parsed by
//! [`crate::proto::nldev`]; answers are written straight into the buffer that is sent.

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

/// Writes an answer.
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

    /// Tells the sender in words why the request is refused.
    pub(super) fn explain(&self, why: &'static CStr) {
        self.message.explain(why);
    }

    /// Its attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(super) fn attributes(&self, strictness: Strictness) -> Result<Attributes<'a>> {
        self.parse(self.body(), strictness).map_err(|_| EINVAL)
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

    /// All bytes of its attributes.
    pub(super) fn body(&self) -> &'a [u8] {
        self.message.payload()
    }

    /// Whether the sender has `CAP_NET_ADMIN` in the first user namespace.
    pub(super) fn is_admin(&self) -> bool {
        self.message.is_capable(bindings::CAP_NET_ADMIN)
    }

    /// The device that the request is about.
    ///
    /// # Errors
    ///
    /// `EINVAL` if none is named, or there is none that the sender may see.
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

    /// Writes an answer and sends it. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `fill`; `EMSGSIZE` if it does not fit; `ENOMEM`; `ECONNREFUSED` or `EAGAIN`
    /// if the sender has gone or does not read.
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

/// A request for a list, which is answered by as many messages as it takes.
pub(super) struct Dump<'a> {
    /// The command.
    pub(super) request: Request<'a>,
    reply: Answer<'a>,
    cursor: DumpCursor<'a>,
}

/// Where a list goes on, between its messages. All zeros at its beginning.
pub(super) struct DumpCursor<'a> {
    /// The least number that was not shown.
    next: &'a mut u32,
    /// Not 0 if there is none.
    end: &'a mut u32,
    /// Not 0 if not even the next one alone fitted.
    stuck: &'a mut u32,
}

impl<'a> DumpCursor<'a> {
    fn new(state: &'a mut DumpState) -> Self {
        let [next, end, stuck] = state;
        Self { next, end, stuck }
    }

    /// What comes next, unless the end was reached.
    pub(super) fn next(&self) -> Option<u32> {
        let over = *self.end != 0;
        (!over).then_some(*self.next)
    }

    /// The next one is at `number`, or after it.
    pub(super) fn at(&mut self, number: u32) {
        *self.next = number;
    }

    /// The next one is after `number`.
    pub(super) fn after(&mut self, number: u32) {
        *self.stuck = 0;
        match number.checked_add(1) {
            Some(next) => *self.next = next,
            None => *self.end = 1,
        }
    }

    /// What becomes of a message with a list, which goes on where this says. If not even one
    /// entry fits the list is empty, once: the first buffer is made before it is known how much
    /// the sender reads at a time, and the next may be larger.
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
        fill: impl FnOnce(&Request<'a>, &mut Answer<'_>, &mut DumpCursor<'a>) -> Result,
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
