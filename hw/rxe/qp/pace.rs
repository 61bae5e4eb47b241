// SPDX-License-Identifier: GPL-2.0

//! How many packets of a queue pair may wait for the network device.
//!
//! Nobody acknowledges packets of UC and UD, so without a limit a sender that is faster than its
//! interface would fill the interface's queue, and lose packets there. The limit follows the
//! interface: if it has sent all by the next try, a turn later, the limit was too low for it; if half
//! of them are still there, the limit is higher than needed. So what waits takes the interface about as
//! long as the time between two tries.
//!
//! Context: the send half during its turn.

use kernel::sync::Arc;

use rdma::net::InFlight;

/// Bounds of the limit, in packets. The lower one is the C driver's limit.
const LEAST: u32 = 64;
const MOST: u32 = 2048;

/// The limit of a queue pair, and the packets it is compared with.
pub(super) struct Pace {
    in_flight: Arc<InFlight>,
    limit: u32,
    /// The last packet had to wait.
    waits: bool,
}

impl Pace {
    pub(super) fn new(in_flight: Arc<InFlight>) -> Self {
        Self {
            in_flight,
            limit: LEAST,
            waits: false,
        }
    }

    /// Returns the count of packets, for the sender.
    pub(super) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    /// Returns whether another packet may be sent. If not, the turn should end and be tried again.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        let count = self.in_flight.count();
        if count == 0 && !self.waits {
            return true;
        }
        if self.waits {
            self.limit = adapted(self.limit, count);
        }
        self.waits = count >= self.limit;
        !self.waits
    }
}

/// Returns the limit after a wait, if `count` packets are still there.
fn adapted(limit: u32, count: u32) -> u32 {
    // OVERFLOW: limits are at most `MOST`.
    if count == 0 {
        (limit * 2).min(MOST)
    } else if count >= limit / 2 {
        (limit / 2).max(LEAST)
    } else {
        limit
    }
}
