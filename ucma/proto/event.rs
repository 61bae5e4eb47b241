// SPDX-License-Identifier: GPL-2.0

//! Events as programs read them: `struct rdma_ucm_event_resp`.

use super::command::Ece;
use super::command::PRIVATE;

/// Bytes of an event.
pub const SIZE: usize = 336;
/// Bytes that old 32-bit programs read: without padding and [`Ece`].
pub const OLD: usize = 324;
/// Bytes of an address vector (`struct ib_uverbs_ah_attr`).
pub const VECTOR: usize = 32;

/// An event of a program (`RDMA_CM_EVENT_USER`).
pub const USER: u32 = 18;
/// An event of the library (`RDMA_CM_EVENT_INTERNAL`).
pub const INTERNAL: u32 = 19;

/// Offset of the parameters.
const PARAM: usize = 20;

/// Parameters of a connection that the peer has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub struct Conn<'a> {
    pub qp_num: u32,
    pub private: &'a [u8],
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
}

/// Parameters of a datagram queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub struct Ud<'a> {
    pub qp_num: u32,
    pub qkey: u32,
    pub vector: [u8; VECTOR],
    pub private: &'a [u8],
}

/// Parameters of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// None.
    Empty,
    /// Of a connection.
    Conn(Conn<'a>),
    /// Of a datagram queue pair.
    Ud(Ud<'a>),
    /// What the program has written.
    Arg(u64),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The program's name of the context or join.
    pub uid: u64,
    /// The context or join.
    pub id: u32,
    /// `enum rdma_cm_event_type`.
    pub event: u32,
    /// Status.
    pub status: u32,
    /// Parameters.
    pub body: Body<'a>,
    /// Enhanced connection establishment.
    pub ece: Ece,
}

/// Copies as much as fits.
fn put(to: &mut [u8; SIZE], at: usize, from: &[u8]) {
    for (to, from) in to.iter_mut().skip(at).zip(from) {
        *to = *from;
    }
}

/// Copies private data, at most what an event holds. Returns the number of bytes.
fn put_private(to: &mut [u8; SIZE], at: usize, from: &[u8]) -> u8 {
    // 255 at most, which is less than the room.
    let len = u8::try_from(from.len()).unwrap_or(u8::MAX);
    put(to, at, from.get(..len.into()).unwrap_or_default());
    len
}

impl Event<'_> {
    /// Returns the bytes that a program reads. What has no meaning is zero.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut to = [0; SIZE];
        put(&mut to, 0, &self.uid.to_ne_bytes());
        put(&mut to, 8, &self.id.to_ne_bytes());
        put(&mut to, 12, &self.event.to_ne_bytes());
        put(&mut to, 16, &self.status.to_ne_bytes());
        match &self.body {
            Body::Empty => {}
            Body::Conn(conn) => {
                put(&mut to, PARAM, &conn.qp_num.to_ne_bytes());
                let len = put_private(&mut to, PARAM + 8, conn.private);
                let rest = [
                    len,
                    conn.srq,
                    conn.responder_resources,
                    conn.initiator_depth,
                    conn.flow_control,
                    conn.retry_count,
                    conn.rnr_retry_count,
                ];
                put(&mut to, PARAM + 8 + PRIVATE, &rest);
            }
            Body::Ud(ud) => {
                put(&mut to, PARAM, &ud.qp_num.to_ne_bytes());
                put(&mut to, PARAM + 4, &ud.qkey.to_ne_bytes());
                put(&mut to, PARAM + 8, &ud.vector);
                let len = put_private(&mut to, PARAM + 8 + VECTOR, ud.private);
                put(&mut to, PARAM + 8 + VECTOR + PRIVATE, &[len]);
            }
            Body::Arg(arg) => put(&mut to, PARAM, &arg.to_ne_bytes()),
        }
        put(&mut to, 328, &self.ece.vendor_id.to_ne_bytes());
        put(&mut to, 332, &self.ece.attr_mod.to_ne_bytes());
        to
    }
}
