// SPDX-License-Identifier: GPL-2.0

//! Counters of a port: four groups of one per [`Kind`](super::wire::Kind), in the order of the
//! attribute ids ([`Kind::index`](super::wire::Kind::index)).
//!
//! Received messages are counted when they are parsed, duplicates as
//! [`Actions::duplicate`](super::conn::Actions::duplicate) tells, sent messages when the send ends.

/// Names of the counters of a group, in sysfs.
pub const NAMES: [&str; 11] = [
    "req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr",
];

/// A group of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `cm_tx_msgs`: sent, retries included.
    Sent,
    /// `cm_tx_retries`.
    Retries,
    /// `cm_rx_msgs`.
    Received,
    /// `cm_rx_duplicates`.
    Duplicates,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::Sent, Self::Retries, Self::Received, Self::Duplicates];

    /// Name of its folder in sysfs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "cm_tx_msgs",
            Self::Retries => "cm_tx_retries",
            Self::Received => "cm_rx_msgs",
            Self::Duplicates => "cm_rx_duplicates",
        }
    }
}

/// How a send is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A message, which the MAD layer may repeat.
    Message,
    /// The answer to a repeated message
    /// ([`SendRequest::is_repeat`](super::conn::SendRequest::is_repeat), and
    /// [`Answer::to_stranger`](super::answer::Answer::to_stranger)): as a message that was sent
    /// twice, as the C module does.
    Answer,
    /// The [early repeat](super::repeat) of a message: a retry, not another message.
    Early,
}

impl Count {
    /// Of an answer; `is_repeat`: to a repeated message.
    pub const fn of(is_repeat: bool) -> Self {
        if is_repeat {
            Self::Answer
        } else {
            Self::Message
        }
    }
}

/// What a send that ended adds to [`Group::Sent`] and [`Group::Retries`]. `retries`: number of
/// retries that the MAD layer made.
pub const fn sent(retries: u32, count: Count) -> (u32, u32) {
    match count {
        Count::Message => (retries.saturating_add(1), retries),
        Count::Answer => (2, 1),
        Count::Early => (1, 1),
    }
}
