// SPDX-License-Identifier: GPL-2.0

//! Netlink messages and attributes: writer and reader.
//!
//! An attribute is a header (16 bits of length, 16 of type, both in host byte order), its payload,
//! and zero padding to a multiple of four bytes; a nest is an attribute whose payload is attributes
//! (`include/uapi/linux/netlink.h`, RFC 3549).
//!
//! # Writing
//!
//! A [`Writer`] writes into a [`Sink`], which is a slice or the host's buffer. It never writes
//! outside of it and never leaves a partial attribute: whatever does not fit returns [`Full`], and
//! an enclosing nest or message that propagates the error is removed. So "the message is full"
//! costs one `?` a line. [`Writer::list`] is the loop of a dump: it stops at the first entry that
//! does not fit and reports where to continue in the next message.
//!
//! Received messages are parsed by [`parse`].

use super::errno::Errno;

mod read;
mod sink;

pub use self::read::has_rest;
pub use self::read::judge;
pub use self::read::parse;
pub use self::read::Attr;
pub use self::read::Attrs;
pub use self::read::Kind;
pub use self::read::Refusal;
pub use self::read::Strictness;
pub use self::read::Why;
pub use self::sink::Sink;
pub use self::sink::Slice;

/// Size of an attribute header in bytes.
const HEADER: usize = 4;
/// Size of a message header in bytes.
pub const MESSAGE_HEADER: usize = 16;
/// Flag of a nest in the attribute type (not all writers set it).
const NESTED: u16 = 1 << 15;
/// Bits of the attribute type without flags.
const TYPE_MASK: u16 = 0x3fff;

const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// The data does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Full {
    /// The errno for it.
    pub const fn errno(self) -> Errno {
        Errno::Emsgsize
    }
}

/// Alignment of 64-bit values in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align64 {
    /// None: the machine reads them at any address (`CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS`).
    Packed,
    /// At a multiple of eight bytes from the start of the first message.
    Aligned,
}

/// Header of a message, without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Type of the message.
    pub message_type: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Sequence number of the request, repeated in every response.
    pub seq: u32,
    /// Port of the destination socket.
    pub port: u32,
}

/// Writes messages into a sink, one after another.
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    align64: Align64,
}

impl<'b> Writer<Slice<'b>> {
    /// A writer that starts at the beginning of this slice.
    pub fn new(buf: &'b mut [u8], align64: Align64) -> Self {
        Self::over(Slice::new(buf), align64)
    }

    /// The bytes written so far.
    pub fn written(&self) -> &[u8] {
        self.sink.written()
    }
}

impl<S: Sink> Writer<S> {
    /// A writer that appends to this sink, whose length is a multiple of four bytes.
    pub fn over(sink: S, align64: Align64) -> Self {
        Self { sink, align64 }
    }

    /// The sink, for other writers: whole attributes including padding. If such a writer fails, the
    /// enclosing nest or message must fail too, which removes what was written.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the sink.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Appends `len` zeroed bytes and padding. Returns the bytes without the padding.
    fn room(&mut self, len: usize) -> Result<&mut [u8], Full> {
        let room = self.sink.grow(align(len)).ok_or(Full)?;
        room.get_mut(..len).ok_or(Full)
    }

    /// Writes an attribute with this payload.
    #[inline(never)]
    pub fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), Full> {
        let len = HEADER.checked_add(payload.len()).ok_or(Full)?;
        let short = u16::try_from(len).map_err(|_| Full)?;
        let room = self.room(len)?;
        let (header, body) = room.split_at_mut_checked(HEADER).ok_or(Full)?;
        for (to, from) in header
            .iter_mut()
            .zip(short.to_ne_bytes().into_iter().chain(attr.to_ne_bytes()))
        {
            *to = from;
        }
        body.copy_from_slice(payload);
        Ok(())
    }

    /// Writes an attribute of one byte.
    #[inline(never)]
    pub fn put_u8(&mut self, attr: u16, value: u8) -> Result<(), Full> {
        self.put(attr, &[value])
    }

    /// Writes an attribute of 32 bits.
    #[inline(never)]
    pub fn put_u32(&mut self, attr: u16, value: u32) -> Result<(), Full> {
        self.put(attr, &value.to_ne_bytes())
    }

    /// Writes an attribute of 64 bits. If alignment requires it, an empty attribute of type `pad`
    /// is written before it.
    #[inline(never)]
    pub fn put_u64(&mut self, attr: u16, value: u64, pad: u16) -> Result<(), Full> {
        let before = self.sink.len();
        if self.align64 == Align64::Aligned && before.wrapping_add(HEADER) % 8 != 0 {
            self.put(pad, &[])?;
        }
        let put = self.put(attr, &value.to_ne_bytes());
        if put.is_err() {
            self.sink.cut(before);
        }
        put
    }

    /// Writes an attribute of this text and a NUL. The text ends before its first NUL.
    #[inline(never)]
    pub fn put_str(&mut self, attr: u16, text: &[u8]) -> Result<(), Full> {
        let text = text.split(|b| *b == 0).next().unwrap_or_default();
        let len = text.len().checked_add(HEADER + 1).ok_or(Full)?;
        let short = u16::try_from(len).map_err(|_| Full)?;
        let room = self.room(len)?;
        for (to, from) in room.iter_mut().zip(
            short
                .to_ne_bytes()
                .into_iter()
                .chain(attr.to_ne_bytes())
                .chain(text.iter().copied()),
        ) {
            *to = from;
        }
        Ok(())
    }

    fn nest_typed<E: From<Full>>(
        &mut self,
        raw_type: u16,
        fill: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.open_nest()?;
        let done = fill(self).and_then(|()| Ok(self.close_nest(start, raw_type)?));
        if done.is_err() {
            self.sink.cut(start);
        }
        done
    }

    /// Makes room for the header of a nest. Returns its offset.
    #[inline(never)]
    fn open_nest(&mut self) -> Result<usize, Full> {
        let start = self.sink.len();
        let _: &mut [u8] = self.room(HEADER)?;
        Ok(start)
    }

    /// Writes the header of a nest.
    #[inline(never)]
    fn close_nest(&mut self, start: usize, raw_type: u16) -> Result<(), Full> {
        let len = self.sink.len().saturating_sub(start);
        let len = u16::try_from(len).map_err(|_| Full)?;
        let ([a, b], [c, d]) = (len.to_ne_bytes(), raw_type.to_ne_bytes());
        let written = self.sink.written_mut().get_mut(start..);
        let place = written.and_then(<[u8]>::first_chunk_mut).ok_or(Full)?;
        *place = [a, b, c, d];
        Ok(())
    }

    /// Writes a nest with the `NLA_F_NESTED` flag.
    pub fn nest<E: From<Full>>(
        &mut self,
        attr: u16,
        fill: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.nest_typed(attr | NESTED, fill)
    }

    /// Writes a nest without the flag, as the older ones of this subsystem are; user space depends
    /// on it.
    pub fn nest_unmarked<E: From<Full>>(
        &mut self,
        attr: u16,
        fill: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.nest_typed(attr, fill)
    }

    /// Writes a message.
    pub fn message<E: From<Full>>(
        &mut self,
        message: Message,
        fill: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let Message {
            message_type,
            flags,
            seq,
            port,
        } = message;
        let head = |len: usize| -> Result<_, Full> {
            let len = u32::try_from(len).map_err(|_| Full)?;
            let mut bytes = [0; MESSAGE_HEADER];
            let all = len
                .to_ne_bytes()
                .into_iter()
                .chain(message_type.to_ne_bytes())
                .chain(flags.to_ne_bytes())
                .chain(seq.to_ne_bytes())
                .chain(port.to_ne_bytes());
            for (to, from) in bytes.iter_mut().zip(all) {
                *to = from;
            }
            Ok(bytes)
        };
        let start = self.sink.len();
        let write = || -> Result<(), E> {
            let _: &mut [u8] = self.room(MESSAGE_HEADER)?;
            fill(self)?;
            let bytes = head(self.sink.len().saturating_sub(start))?;
            let written = self.sink.written_mut().get_mut(start..);
            let place = written.and_then(<[u8]>::first_chunk_mut).ok_or(Full)?;
            *place = bytes;
            Ok(())
        };
        let done = write();
        if done.is_err() {
            self.sink.cut(start);
        }
        done
    }

    /// Writes a list of entries, each in a nest of its own, as many as fit.
    ///
    /// `entries` continues where the last message ended; `fill` writes one entry, or returns
    /// [`Entry::Skip`] to omit it.
    ///
    /// # Errors
    ///
    /// [`ListError::Full`] if not even the first entry fits: it never will, and continuing with it
    /// would loop forever. Other errors are those of `fill`.
    pub fn list<T, E>(
        &mut self,
        table: u16,
        entry: u16,
        entries: impl Iterator<Item = T>,
        mut fill: impl FnMut(&mut Self, T) -> Result<(), Entry<E>>,
    ) -> Result<Listed, ListError<E>> {
        let mut listed = Listed::default();
        self.nest_unmarked(table, |w| {
            for item in entries {
                match w.nest_unmarked(entry, |w| fill(w, item)) {
                    Ok(()) => listed.written = listed.written.saturating_add(1),
                    Err(Entry::Skip) => {}
                    Err(Entry::Full(_)) if listed.written > 0 => {
                        listed.more = true;
                        return Ok(());
                    }
                    Err(Entry::Full(full)) => return Err(ListError::Full(full)),
                    Err(Entry::Failed(error)) => return Err(ListError::Failed(error)),
                }
                listed.passed = listed.passed.saturating_add(1);
            }
            Ok(())
        })?;
        Ok(listed)
    }
}

/// Result of [`Writer::list`].
#[must_use = "a list that was cut has to be continued"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Number of entries written.
    pub written: usize,
    /// Number of entries consumed, written or skipped: the next message continues after these.
    pub passed: usize,
    /// Whether entries are left that did not fit.
    pub more: bool,
}

/// Why an entry of a list is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<E> {
    /// It does not fit.
    Full(Full),
    /// The entry is not to be shown.
    Skip,
    /// The whole list fails with this error.
    Failed(E),
}

impl<E> From<Full> for Entry<E> {
    fn from(full: Full) -> Self {
        Entry::Full(full)
    }
}

/// Why a list is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListError<E> {
    /// Not even one entry fits.
    Full(Full),
    /// An entry failed.
    Failed(E),
}

impl<E> From<Full> for ListError<E> {
    fn from(full: Full) -> Self {
        ListError::Full(full)
    }
}
