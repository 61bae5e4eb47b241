// SPDX-License-Identifier: GPL-2.0

//! Transfers of many MADs (RMPP): IBTA volume 1, chapter 13.6.
//!
//! The sender numbers its segments from 1 and sends up to the end of the window; the receiver
//! acknowledges the last segment before a gap, and moves the window. Segments that are not
//! acknowledged in time are retransmitted from there.
//!
//! ```text
//!   Sender                                    Receiver
//!   start, next: segment 1  --------------->  first: window of w more
//!                           <-- ack 1, w+1 --
//!   next: 2 .. w+1          --------------->  arrived: kept, in any order
//!                           <- ack w+1, .. --  at the end of the window, or the last
//! ```

use super::wire;

/// RMPP version.
pub const VERSION: u8 = 1;

/// Flags in the header.
pub mod flag {
    /// The MAD is part of an RMPP transfer.
    pub const ACTIVE: u8 = 1;
    /// The first segment.
    pub const FIRST: u8 = 2;
    /// The last segment.
    pub const LAST: u8 = 4;
    /// All flags; the bits above are the response time.
    pub const ALL: u8 = 7;
}

/// Status of a transfer, in particular why it is aborted.
pub mod status {
    /// The transfer continues.
    pub const SUCCESS: u8 = 0;
    /// The receiver has no resources.
    pub const NO_RESOURCES: u8 = 1;
    /// The first abort status: the transfer takes too long.
    pub const TOO_LONG: u8 = 118;
    /// Segment number and flags are inconsistent.
    pub const BAD_SEGMENT: u8 = 120;
    /// Unknown packet type.
    pub const BAD_TYPE: u8 = 121;
    /// The end of the window is before the acknowledged segment.
    pub const WINDOW_TOO_SMALL: u8 = 122;
    /// More is acknowledged than was sent.
    pub const SEGMENT_TOO_BIG: u8 = 123;
    /// The status is not valid here.
    pub const BAD_STATUS: u8 = 124;
    /// Unknown version.
    pub const BAD_VERSION: u8 = 125;
    /// The last abort status.
    pub const ABORT_LAST: u8 = 127;
}

/// Packet types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A data segment.
    Data = 1,
    /// Acknowledges segments.
    Ack = 2,
    /// The receiver stops the transfer.
    Stop = 3,
    /// Either end aborts it.
    Abort = 4,
}

/// Offset of the RMPP header.
const AT: usize = wire::HEADER;

/// The RMPP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// RMPP version.
    pub version: u8,
    /// Packet type, not validated.
    pub kind: u8,
    /// Flags, without the response time above them.
    pub flags: u8,
    /// Status.
    pub status: u8,
    /// Segment number.
    pub segment: u32,
    /// Payload length, or the new end of the window.
    pub length_or_window: u32,
}

impl Header {
    /// Parses the header; `None` if the MAD is too short.
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

    /// Writes the header; the response time above the flags is kept.
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

    /// Returns whether the MAD is part of an RMPP transfer.
    pub const fn is_active(&self) -> bool {
        self.flags & flag::ACTIVE != 0
    }

    /// Returns whether the MAD is a data segment.
    pub const fn is_data(&self) -> bool {
        self.is_active() && self.kind == Kind::Data as u8
    }
}

/// A packet whose header was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A data segment.
    Data {
        /// Segment number.
        segment: u32,
        /// Whether it is the last segment.
        last: bool,
    },
    /// An acknowledgement.
    Ack {
        /// Last segment that is acknowledged, including all before.
        segment: u32,
        /// Last segment that may be sent.
        window_end: u32,
    },
    /// The other end has ended the transfer, with this status.
    Ended(u8),
    /// The packet is invalid, and the transfer must be aborted with this status. If it is a data
    /// segment, this end is the receiver, and its own sends are not aborted for this reason.
    Wrong {
        /// Abort status.
        status: u8,
        /// Whether it is a data segment.
        data: bool,
    },
}

impl Packet {
    /// Checks an active header.
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
    /// Segment number, from 1.
    pub number: u32,
    /// Flags for the first and last segment, of [`flag`].
    pub flags: u8,
    /// The payload length in its header.
    pub length: u32,
}

/// The sending end of a transfer.
///
/// # Invariants
///
/// `acked <= sent <= count`, and `count` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Number of segments.
    count: u32,
    /// Size of a segment as RMPP counts, and number of padding bytes in the last one.
    segment: u32,
    pad: u32,
    /// Last segment that was sent, or is being sent.
    sent: u32,
    /// Last segment that was acknowledged.
    acked: u32,
    /// Last segment that may be sent.
    window_end: u32,
}

/// Effect of an acknowledgement on the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// It is outdated.
    Old,
    /// It acknowledges more than can have been received: the transfer must be aborted.
    TooMuch,
    /// Some segments are acknowledged.
    Some {
        /// Whether some of them were not acknowledged before.
        new: bool,
    },
    /// All segments are acknowledged.
    All,
}

impl Sender {
    /// Creates a transfer with this layout; `None` if it has no segments, or too many.
    pub fn new(layout: &wire::Layout) -> Option<Self> {
        let count = u32::try_from(layout.segments).ok()?;
        let segment = u32::try_from(layout.rmpp_segment()).ok()?;
        let pad = u32::try_from(layout.pad).ok()?;
        let whole = count.checked_mul(segment)?;
        // INVARIANT: Nothing is sent yet, and `count` is not 0.
        (count != 0 && pad <= segment && pad <= whole).then_some(Self {
            count,
            segment,
            pad,
            sent: 0,
            acked: 0,
            window_end: 1,
        })
    }

    /// Restarts the transfer, with a window up to this segment.
    pub fn start(&mut self, window_end: u32) {
        (self.sent, self.acked) = (0, 0);
        self.window_end = window_end.max(1);
    }

    /// Returns whether all segments are acknowledged.
    pub const fn is_done(&self) -> bool {
        self.acked == self.count
    }

    /// Returns whether a segment is left to be sent within the window.
    pub const fn may_send(&self) -> bool {
        self.sent < self.count && self.sent < self.window_end
    }

    /// The segment that was sent last; 1 if none was.
    pub const fn current(&self) -> u32 {
        if self.sent == 0 {
            1
        } else {
            self.sent
        }
    }

    /// Returns the next segment, regardless of the window: after [`rewind`](Self::rewind) the first
    /// one is sent again in any case. `None` if there is none.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if self.sent >= self.count {
            return None;
        }
        // INVARIANT, OVERFLOW: `sent` was below `count`.
        self.sent += 1;
        let number = self.sent;
        let mut flags = flag::ACTIVE;
        let mut length = 0;
        if number == 1 {
            flags |= flag::FIRST;
            // No overflow: checked in `new`.
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

    /// Records a timeout: segments that are not acknowledged are to be sent again.
    pub fn rewind(&mut self) {
        // INVARIANT: `acked <= count`.
        self.sent = self.acked;
    }

    /// Records an acknowledgement, while not all segments are acknowledged.
    pub fn ack(&mut self, segment: u32, window_end: u32) -> Acked {
        if segment > self.count || segment > self.window_end {
            return Acked::TooMuch;
        }
        if window_end < self.window_end || segment < self.acked {
            return Acked::Old;
        }
        let new = segment > self.acked;
        // INVARIANT: `segment <= count`. A segment sent before a rewind may be acknowledged late;
        // it need not be sent again.
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

/// Maximum window size in segments.
pub const WINDOW_MAX: u32 = 1024;

/// State of an incoming transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Segments are missing.
    Active,
    /// It timed out.
    TimedOut,
    /// All segments are received; kept for some time, to acknowledge retransmissions.
    Complete,
}

/// What to do with a received segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a segment that is kept has to be"]
pub enum Arrival {
    /// Discard it.
    Drop,
    /// Discard it, and repeat the acknowledgement.
    Repeat,
    /// Keep it.
    Keep {
        /// Whether to acknowledge the segments received so far.
        ack: bool,
    },
    /// Keep it: now the transfer is complete. Acknowledge it, and discard kept segments with a
    /// higher number than this.
    Last(u32),
}

/// The receiving end of a transfer.
///
/// # Invariants
///
/// - `contiguous >= 1`, `acked <= contiguous <= window_end`, `window_end - contiguous <=
///   WINDOW_MAX`.
/// - Bit `n % WINDOW_MAX` of `held` says whether segment `n`, `contiguous < n <= window_end`, is
///   kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    phase: Phase,
    window: u32,
    /// Last segment before a gap: all up to this one are received.
    contiguous: u32,
    /// Last segment that was acknowledged.
    acked: u32,
    /// Last segment that may be received.
    window_end: u32,
    /// The segment flagged as the last one, once it is received.
    last: Option<u32>,
    held: [u64; (WINDOW_MAX / 64) as usize],
    /// The window that the other end has opened for the response.
    reply_window: u32,
}

impl Receiver {
    /// Creates a transfer whose first segment was received. `window`: maximum number of segments in
    /// flight.
    pub fn new(window: u32, last: bool) -> Self {
        let window = window.clamp(1, WINDOW_MAX);
        // OVERFLOW: `window` is at most `WINDOW_MAX`.
        let window_end = if last { 1 } else { 1 + window };
        // INVARIANT: The first segment is received, and nothing is held.
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

    /// State of the transfer.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Last segment before a gap: all up to this one are received.
    pub const fn contiguous(&self) -> u32 {
        self.contiguous
    }

    /// Returns the segment to acknowledge and the end of the window, and records them as
    /// acknowledged.
    pub fn acknowledge(&mut self) -> (u32, u32) {
        // INVARIANT: Not more than has been received.
        self.acked = self.contiguous;
        (self.contiguous, self.window_end)
    }

    /// Records the timeout of the transfer. Returns whether it was still active.
    pub fn time_out(&mut self) -> bool {
        let was_active = self.phase == Phase::Active;
        if was_active {
            self.phase = Phase::TimedOut;
        }
        was_active
    }

    /// Records the window that the other end has opened for the response, after all segments are
    /// received.
    pub fn open_reply(&mut self, window_end: u32) {
        if self.phase == Phase::Complete {
            self.reply_window = window_end;
        }
    }

    /// The window for the response.
    pub const fn reply_window(&self) -> u32 {
        self.reply_window
    }

    fn bit(&mut self, segment: u32) -> Option<(&mut u64, u64)> {
        let at = segment % WINDOW_MAX;
        let word = self.held.get_mut((at / 64) as usize)?;
        Some((word, 1 << (at % 64)))
    }

    /// Clears the mark of a kept segment. Returns whether it was kept.
    fn take(&mut self, segment: u32) -> bool {
        self.bit(segment).is_some_and(|(word, mask)| {
            let had = *word & mask != 0;
            *word &= !mask;
            had
        })
    }

    /// Marks a segment as kept. Returns false if it already is.
    fn mark(&mut self, segment: u32) -> bool {
        self.bit(segment).is_some_and(|(word, mask)| {
            let had = *word & mask != 0;
            *word |= mask;
            !had
        })
    }

    /// Records a received segment, and returns what to do with it.
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
        // INVARIANT: Only held segments, which are within the window.
        while self.contiguous < self.window_end && self.take(self.contiguous.wrapping_add(1)) {
            // OVERFLOW: it was below `window_end`.
            self.contiguous += 1;
            if self.last == Some(self.contiguous) {
                self.phase = Phase::Complete;
                return Arrival::Last(self.contiguous);
            }
        }
        let at_end = self.contiguous == self.window_end;
        if at_end {
            // INVARIANT: Moved by one window, starting with nothing held in it.
            self.window_end = self.window_end.saturating_add(self.window);
        }
        Arrival::Keep { ack: at_end }
    }
}

/// Length of the message of a complete transfer: headers once, and the data. `mad_size`: size of
/// each MAD; `length`: payload length in the header of the last one. `None` if it does not fit into
/// `i32`.
pub fn message_len(class: u8, segments: u32, length: u32, mad_size: usize) -> Option<i32> {
    let header = wire::data_offset(class);
    let full = mad_size.checked_sub(wire::RMPP_HEADER)?;
    let length = usize::try_from(length).ok()?;
    // An invalid length is treated as a full segment.
    let pad = full.saturating_sub(length);
    let data = mad_size.checked_sub(header)?;
    let all = usize::try_from(segments).ok()?.checked_mul(data)?;
    i32::try_from(header.checked_add(all)?.checked_sub(pad)?).ok()
}
