// SPDX-License-Identifier: GPL-2.0

//! Transfers of many MADs (RMPP): chapter 13.6 of the specification.
//!
//! The sender numbers its segments from 1 and sends as far as the window reaches; the
//! receiver acknowledges the last that came without a gap, and moves the window. What is
//! not acknowledged in time is sent again from there.
//!
//! ```text
//!   Sender                                    Receiver
//!   start, next: segment 1  --------------->  first: window of w more
//!                           <-- ack 1, w+1 --
//!   next: 2 .. w+1          --------------->  arrived: kept, in any order
//!                           <- ack w+1, .. --  at the end of the window, or the last
//! ```

use super::wire;

/// The version of RMPP.
pub const VERSION: u8 = 1;

/// Flags in the header.
pub mod flag {
    /// The MAD is one of RMPP.
    pub const ACTIVE: u8 = 1;
    /// The first segment.
    pub const FIRST: u8 = 2;
    /// The last segment.
    pub const LAST: u8 = 4;
    /// All that there are; the bits above are a time.
    pub const ALL: u8 = 7;
}

/// Why a transfer ends.
pub mod status {
    /// It goes on.
    pub const SUCCESS: u8 = 0;
    /// The receiver has no room.
    pub const NO_RESOURCES: u8 = 1;
    /// The first of those that abort a transfer, and: it takes too long.
    pub const TOO_LONG: u8 = 118;
    /// A segment's number and flags do not fit.
    pub const BAD_SEGMENT: u8 = 120;
    /// No such type of packet.
    pub const BAD_TYPE: u8 = 121;
    /// The window ends before what is acknowledged.
    pub const WINDOW_TOO_SMALL: u8 = 122;
    /// More is acknowledged than was sent.
    pub const SEGMENT_TOO_BIG: u8 = 123;
    /// A status that makes no sense here.
    pub const BAD_STATUS: u8 = 124;
    /// No such version.
    pub const BAD_VERSION: u8 = 125;
    /// The last of those that abort a transfer.
    pub const ABORT_LAST: u8 = 127;
}

/// Types of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A segment.
    Data = 1,
    /// Acknowledges segments.
    Ack = 2,
    /// The receiver stops the transfer.
    Stop = 3,
    /// Either end aborts it.
    Abort = 4,
}

/// Where the header of RMPP is.
const AT: usize = wire::HEADER;

/// The header of RMPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its version.
    pub version: u8,
    /// Type, as it came.
    pub kind: u8,
    /// Flags, without the time above them.
    pub flags: u8,
    /// Status.
    pub status: u8,
    /// Number of the segment.
    pub segment: u32,
    /// Length of the payload, or the new end of the window.
    pub length_or_window: u32,
}

impl Header {
    /// Reads the header; none, if the MAD is too short for one.
    pub fn parse(mad: &[u8]) -> Option<Self> {
        let [version, kind, flags, status] = wire::bytes(mad, AT)?;
        Some(Self {
            version,
            kind,
            flags: flags & flag::ALL,
            status,
            segment: u32::from_be_bytes(wire::bytes(mad, AT + 4)?),
            length_or_window: u32::from_be_bytes(wire::bytes(mad, AT + 8)?),
        })
    }

    /// Writes the header; the time above the flags stays.
    pub fn write(&self, mad: &mut [u8]) {
        let Some(place) = mad.get_mut(AT..wire::RMPP_HEADER) else {
            return;
        };
        let [_, _, time, ..] = *place else { return };
        let [s0, s1, s2, s3] = self.segment.to_be_bytes();
        let [l0, l1, l2, l3] = self.length_or_window.to_be_bytes();
        let flags = time & !flag::ALL | self.flags & flag::ALL;
        place.copy_from_slice(&[
            self.version,
            self.kind,
            flags,
            self.status,
            s0,
            s1,
            s2,
            s3,
            l0,
            l1,
            l2,
            l3,
        ]);
    }

    /// Whether it is a MAD of RMPP at all.
    pub const fn is_active(&self) -> bool {
        self.flags & flag::ACTIVE != 0
    }

    /// Whether it is an active segment.
    pub const fn is_data(&self) -> bool {
        self.is_active() && self.kind == Kind::Data as u8
    }
}

/// What a packet is, once its header was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A segment.
    Data {
        /// Its number.
        segment: u32,
        /// Whether it is the last.
        last: bool,
    },
    /// An acknowledgement.
    Ack {
        /// Of this segment and all before.
        segment: u32,
        /// Segments up to this may be sent.
        window_end: u32,
    },
    /// The other end has ended the transfer, for this reason.
    Ended(u8),
    /// It is wrong, and the transfer is to be aborted for this reason. `data`: it is a
    /// segment, so that this end is the receiver, which aborts what it sends itself only
    /// for other reasons.
    Wrong {
        /// Why.
        status: u8,
        /// Whether it is a segment.
        data: bool,
    },
}

impl Packet {
    /// Judges an active header.
    pub fn judge(header: &Header) -> Self {
        let wrong = |status| Self::Wrong {
            status,
            data: false,
        };
        if header.version != VERSION {
            return wrong(status::BAD_VERSION);
        }
        match header.kind {
            1 => {
                let is_first = header.flags & flag::FIRST != 0;
                let status = if header.status != status::SUCCESS {
                    status::BAD_STATUS
                } else if is_first != (header.segment == 1) {
                    status::BAD_SEGMENT
                } else {
                    return Self::Data {
                        segment: header.segment,
                        last: header.flags & flag::LAST != 0,
                    };
                };
                Self::Wrong { status, data: true }
            }
            2 if header.status != status::SUCCESS => wrong(status::BAD_STATUS),
            2 if header.length_or_window < header.segment => wrong(status::WINDOW_TOO_SMALL),
            2 => Self::Ack {
                segment: header.segment,
                window_end: header.length_or_window,
            },
            3 if header.status == status::NO_RESOURCES => Self::Ended(header.status),
            4 if header.status >= status::TOO_LONG && header.status <= status::ABORT_LAST => {
                Self::Ended(header.status)
            }
            3 | 4 => wrong(status::BAD_STATUS),
            _ => wrong(status::BAD_TYPE),
        }
    }
}

/// A segment to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From 1.
    pub number: u32,
    /// First and last, of [`flag`].
    pub flags: u8,
    /// The length that goes into its header.
    pub length: u32,
}

/// The sending end of a transfer.
///
/// # Invariants
///
/// `acked <= sent <= count`, and `count` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// How many segments there are.
    count: u32,
    /// Bytes of a segment as RMPP counts, and how many of the last are zeros.
    segment: u32,
    pad: u32,
    /// The last that was sent, or is being sent.
    sent: u32,
    /// The last that was acknowledged.
    acked: u32,
    /// The last that may be sent.
    window_end: u32,
}

/// What an acknowledgement means to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// It is an old one.
    Old,
    /// More is acknowledged than can have come: the transfer is to be aborted.
    TooMuch,
    /// Some are.
    Some {
        /// Whether any that were not acknowledged before.
        new: bool,
    },
    /// All have come.
    All,
}

impl Sender {
    /// A transfer of so many segments; none, if there are none or too many.
    pub fn new(layout: &wire::Layout) -> Option<Self> {
        let count = u32::try_from(layout.segments).ok()?;
        let segment = u32::try_from(layout.rmpp_segment()).ok()?;
        let pad = u32::try_from(layout.pad).ok()?;
        let whole = count.checked_mul(segment)?;
        // INVARIANT: Nothing is sent; there is a segment.
        (count != 0 && pad <= segment && pad <= whole).then_some(Self {
            count,
            segment,
            pad,
            sent: 0,
            acked: 0,
            window_end: 1,
        })
    }

    /// Begins anew, with a window up to this segment.
    pub fn start(&mut self, window_end: u32) {
        (self.sent, self.acked) = (0, 0);
        self.window_end = window_end.max(1);
    }

    /// Whether all was acknowledged.
    pub const fn is_done(&self) -> bool {
        self.acked == self.count
    }

    /// Whether there is something to send within the window.
    pub const fn may_send(&self) -> bool {
        self.sent < self.count && self.sent < self.window_end
    }

    /// The segment that was given out last; 1, if none was.
    pub const fn current(&self) -> u32 {
        if self.sent == 0 {
            1
        } else {
            self.sent
        }
    }

    /// The next segment, whatever the window says: after [`rewind`](Self::rewind) the
    /// first one is sent again even so. None, if there is none.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if self.sent >= self.count {
            return None;
        }
        // INVARIANT, OVERFLOW: It was below.
        self.sent += 1;
        let number = self.sent;
        let mut flags = flag::ACTIVE;
        let mut length = 0;
        if number == 1 {
            flags |= flag::FIRST;
            // Neither overflows: checked when it was made.
            length = self
                .count
                .saturating_mul(self.segment)
                .saturating_sub(self.pad);
        }
        if number == self.count {
            flags |= flag::LAST;
            length = self.segment.saturating_sub(self.pad);
        }
        Some(Segment {
            number,
            flags,
            length,
        })
    }

    /// Nothing was heard: what is not acknowledged is to be sent again.
    pub fn rewind(&mut self) {
        // INVARIANT: `acked <= count`.
        self.sent = self.acked;
    }

    /// An acknowledgement came, while not all was acknowledged.
    pub fn ack(&mut self, segment: u32, window_end: u32) -> Acked {
        if segment > self.count || segment > self.window_end {
            return Acked::TooMuch;
        }
        if window_end < self.window_end || segment < self.acked {
            return Acked::Old;
        }
        let new = segment > self.acked;
        // INVARIANT: `segment <= count`. One that was sent before a rewind may be
        // acknowledged late; it need not be sent again.
        self.acked = segment;
        self.sent = self.sent.max(segment);
        self.window_end = window_end;
        if self.is_done() {
            Acked::All
        } else {
            Acked::Some { new }
        }
    }
}

/// The most segments that a window can have.
pub const WINDOW_MAX: u32 = 1024;

/// How it is with a transfer that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Segments are missing.
    Active,
    /// It took too long.
    TimedOut,
    /// All have come; kept for a while, to acknowledge repetitions.
    Complete,
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a segment that is kept has to be"]
pub enum Arrival {
    /// Forget it.
    Drop,
    /// Forget it, and repeat the acknowledgement.
    Repeat,
    /// Keep it.
    Keep {
        /// Acknowledge what has come.
        ack: bool,
    },
    /// Keep it: now all has come. Acknowledge; what was kept with higher numbers than
    /// this is to be forgotten.
    Last(u32),
}

/// The receiving end of a transfer.
///
/// # Invariants
///
/// - `contiguous >= 1`, `acked <= contiguous <= window_end`, `window_end - contiguous <=
///   WINDOW_MAX`.
/// - Bit `n % WINDOW_MAX` of `held` says of segment `n`, `contiguous < n <= window_end`,
///   whether it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    phase: Phase,
    window: u32,
    /// All up to this have come.
    contiguous: u32,
    /// The last that we acknowledged.
    acked: u32,
    /// The last that may come.
    window_end: u32,
    /// The one that says it is the last, once it came.
    last: Option<u32>,
    held: [u64; (WINDOW_MAX / 64) as usize],
    /// The window that the other end has opened for the answer.
    reply_window: u32,
}

impl Receiver {
    /// A transfer whose first segment came. `window`: how many segments may be on their
    /// way at a time.
    pub fn new(window: u32, last: bool) -> Self {
        let window = window.clamp(1, WINDOW_MAX);
        // OVERFLOW: it is at most `WINDOW_MAX`.
        let window_end = if last { 1 } else { 1 + window };
        // INVARIANT: The first has come, and nothing is held.
        Self {
            phase: if last { Phase::Complete } else { Phase::Active },
            window,
            contiguous: 1,
            acked: 0,
            window_end,
            last: last.then_some(1),
            held: [0; (WINDOW_MAX / 64) as usize],
            reply_window: 1,
        }
    }

    /// How it is with it.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// All up to this segment have come.
    pub const fn contiguous(&self) -> u32 {
        self.contiguous
    }

    /// What to acknowledge: the segment, and the end of the window. From now on this was
    /// acknowledged.
    pub fn acknowledge(&mut self) -> (u32, u32) {
        // INVARIANT: Not more than has come.
        self.acked = self.contiguous;
        (self.contiguous, self.window_end)
    }

    /// It took too long. False, if that does not matter any more.
    pub fn time_out(&mut self) -> bool {
        let was_active = self.phase == Phase::Active;
        if was_active {
            self.phase = Phase::TimedOut;
        }
        was_active
    }

    /// The other end has opened a window for the answer, after all has come.
    pub fn open_reply(&mut self, window_end: u32) {
        if self.phase == Phase::Complete {
            self.reply_window = window_end;
        }
    }

    /// The window for the answer.
    pub const fn reply_window(&self) -> u32 {
        self.reply_window
    }

    fn bit(&mut self, segment: u32) -> Option<(&mut u64, u64)> {
        let at = segment % WINDOW_MAX;
        let word = self.held.get_mut((at / 64) as usize)?;
        Some((word, 1 << (at % 64)))
    }

    /// Takes the mark of a segment that is kept.
    fn take(&mut self, segment: u32) -> bool {
        self.bit(segment).is_some_and(|(word, mask)| {
            let had = *word & mask != 0;
            *word &= !mask;
            had
        })
    }

    /// Marks a segment as kept. False, if it is already.
    fn mark(&mut self, segment: u32) -> bool {
        self.bit(segment).is_some_and(|(word, mask)| {
            let had = *word & mask != 0;
            *word |= mask;
            !had
        })
    }

    /// A segment came.
    pub fn arrived(&mut self, segment: u32, last: bool) -> Arrival {
        match self.phase {
            Phase::TimedOut => return Arrival::Drop,
            Phase::Complete if segment <= self.window_end => return Arrival::Repeat,
            _ if segment > self.window_end => return Arrival::Drop,
            _ if segment <= self.acked => return Arrival::Repeat,
            _ if segment <= self.contiguous => return Arrival::Drop,
            Phase::Complete | Phase::Active => {}
        }
        if self.last.is_some_and(|last| segment > last) || !self.mark(segment) {
            return Arrival::Drop;
        }
        if last {
            self.last = Some(segment);
        }
        if segment != self.contiguous.wrapping_add(1) {
            return Arrival::Keep { ack: false };
        }
        // INVARIANT: Only what is held, so within the window.
        while self.contiguous < self.window_end && self.take(self.contiguous.wrapping_add(1)) {
            // OVERFLOW: it was below the window's end.
            self.contiguous += 1;
            if self.last == Some(self.contiguous) {
                self.phase = Phase::Complete;
                return Arrival::Last(self.contiguous);
            }
        }
        let at_end = self.contiguous == self.window_end;
        if at_end {
            // INVARIANT: By one window, from an empty one.
            self.window_end = self.window_end.saturating_add(self.window);
        }
        Arrival::Keep { ack: at_end }
    }
}

/// Bytes of the message that a complete transfer carried: headers once, and the data.
/// `mad_size`: of each MAD; `length`: of the payload, in the last one's header. None, if it
/// is longer than C can say.
pub fn message_len(class: u8, segments: u32, length: u32, mad_size: usize) -> Option<i32> {
    let header = wire::data_offset(class);
    let full = mad_size.checked_sub(wire::RMPP_HEADER)?;
    let length = usize::try_from(length).ok()?;
    // A length that makes no sense is taken for a full one.
    let pad = full.saturating_sub(length);
    let data = mad_size.checked_sub(header)?;
    let all = usize::try_from(segments).ok()?.checked_mul(data)?;
    i32::try_from(header.checked_add(all)?.checked_sub(pad)?).ok()
}
