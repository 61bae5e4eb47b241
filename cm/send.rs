// SPDX-License-Identifier: GPL-2.0

//! What a send carries: how it is counted, and whom its end concerns.

use crate::conn::Conn;
use crate::proto::conn::SendEnd;
use crate::proto::counters::Count;
use crate::proto::ids::SendId;
use crate::proto::wire::Kind;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::mad::request::How;

/// Value of a send.
pub(crate) struct Ending {
    /// The message.
    pub(crate) kind: Kind,
    /// How it is counted.
    pub(crate) count: Count,
    /// The connection that waits for its end.
    conn: Option<(Arc<Conn>, SendId)>,
}

impl Ending {
    /// Of a send whose end nobody waits for.
    pub(crate) const fn untracked(kind: Kind, count: Count) -> Self {
        Self {
            kind,
            count,
            conn: None,
        }
    }

    /// Of a send that is part of a connection's state.
    pub(crate) const fn tracked(kind: Kind, conn: Arc<Conn>, id: SendId) -> Self {
        Self {
            kind,
            count: Count::Message,
            conn: Some((conn, id)),
        }
    }

    /// Whether it is part of a connection's state, and waits for its answer.
    pub(crate) const fn is_tracked(&self) -> bool {
        self.conn.is_some()
    }

    /// Handles the end. May sleep.
    pub(crate) fn ended(&self, how: How) {
        let Some((conn, id)) = &self.conn else {
            return;
        };
        let end = match how.status {
            bindings::ib_wc_status_IB_WC_SUCCESS | bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR => {
                SendEnd::Ended
            }
            status => SendEnd::Failed(status),
        };
        Conn::send_ended(conn, *id, end);
    }
}
