// SPDX-License-Identifier: GPL-2.0

//! The host of one simulated queue pair: memory, rings, completion queues.
//!
//! It plays the part that the kernel glue plays, and panics when the engine breaks
//! the contract of `proto::host`.

use std::collections::VecDeque;

use crate::proto::early::Early;
use crate::proto::early::Place;
use crate::proto::host::AtomicOp;
use crate::proto::host::BadRecv;
use crate::proto::host::Counter;
use crate::proto::host::FlushKind;
use crate::proto::host::LocalFault;
use crate::proto::host::QpEvent;
use crate::proto::host::RecvFetch;
use crate::proto::host::RecvHost;
use crate::proto::host::RemoteFault;
use crate::proto::host::SendFetch;
use crate::proto::host::SendHost;
use crate::proto::host::TxError;
use crate::proto::packet::Payload;
use crate::proto::packet::RxPacket;
use crate::proto::packet::TxPacket;
use crate::proto::types::AccessFlags;
use crate::proto::types::Key;
use crate::proto::types::WcStatus;
use crate::proto::wqe::RecvCompletion;
use crate::proto::wqe::RecvWqe;
use crate::proto::wqe::SendCompletion;
use crate::proto::wqe::SendOp;
use crate::proto::wqe::SendWqe;
use crate::rng::Rng;
use crate::wire;

/// A region that the peer may name.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its key.
    pub key: Key,
    /// The address of its first byte.
    pub base: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What the peer may do.
    pub access: AccessFlags,
    /// Whether the key still works.
    pub valid: bool,
}

/// A posted send request with its buffer: what to send, or what a read received.
#[derive(Clone, Debug)]
pub struct PostedSend {
    /// The request, or how it is bad.
    pub wqe: Result<SendWqe, (u64, WcStatus)>,
    /// The buffer. A length of the request beyond it cannot be read or written.
    pub buf: Vec<u8>,
}

impl PostedSend {
    fn wr_id(&self) -> u64 {
        match self.wqe {
            Ok(wqe) => wqe.wr_id,
            Err((wr_id, _)) => wr_id,
        }
    }
}

/// A posted receive request with its buffer.
#[derive(Clone, Debug)]
pub struct PostedRecv {
    /// The user's name for it.
    pub wr_id: u64,
    /// Whether it makes sense.
    pub good: bool,
    /// The buffer.
    pub buf: Vec<u8>,
}

/// The way to a peer on the same machine, which nothing is lost on while it is open.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Requests may go this way now.
    pub open: bool,
    /// Into pieces of how many bytes messages are cut that begin while it is open.
    pub piece: u32,
    /// Requests on their way.
    pub requests: Vec<(RxPacket, Vec<u8>)>,
    /// How many of them the host takes in one poll.
    pub most: usize,
    /// Answers for the peer to fetch.
    pub answers: Vec<(RxPacket, Vec<u8>)>,
    /// The last request came this way.
    pub answering: bool,
    /// The peer takes answers just now.
    pub fetching: bool,
    /// There are answers that the peer does not know of.
    pub poked: bool,
    /// Packets that no other way carries, lost while this one was closed.
    pub lost: u32,
}

/// Early packets that are kept on either side, unless a test wants others.
const EARLY: usize = 64;

/// Answers that wait at a time.
const ANSWERS: usize = 3;

impl Beside {
    /// Whether no more requests are taken for now.
    pub fn is_full(&self) -> bool {
        self.open && self.requests.len() >= self.most
    }

    /// Takes a packet that goes this way.
    fn take(&mut self, p: &TxPacket, body: &[u8]) -> Option<Result<(), TxError>> {
        let packet = RxPacket {
            opcode: p.opcode,
            psn: p.psn,
            ack_req: p.ack_req,
            solicited: p.solicited,
            ext: p.ext,
            len: body.len() as u32,
            mtu: Some(p.mtu),
        };
        if p.opcode.is_request() {
            if !self.open {
                return None;
            }
            if self.requests.len() >= self.most {
                return Some(Err(TxError::Enough));
            }
            self.requests.push((packet, body.to_vec()));
            return Some(Ok(()));
        }
        if !self.answering {
            return None;
        }
        if !self.fetching || self.answers.len() >= ANSWERS {
            self.poked = true;
            return Some(Err(TxError::Blocked));
        }
        self.answers.push((packet, body.to_vec()));
        Some(Ok(()))
    }
}

/// Everything of a node but the engine.
#[derive(Debug)]
pub struct Host {
    /// Regions that the peer may name.
    pub regions: Vec<Region>,
    /// Posted and not fetched.
    pub sq: VecDeque<PostedSend>,
    /// Fetched and not retired, by slot.
    pub slots: Vec<Option<PostedSend>>,
    /// The slots in the order of fetching.
    order: VecDeque<u32>,
    /// Retired just now: a completion may follow.
    retired: Option<u64>,
    /// Buffers of finished requests, in order.
    pub sent: Vec<PostedSend>,
    /// Completions of send requests.
    pub send_cq: Vec<SendCompletion>,
    /// Posted receive requests.
    pub rq: VecDeque<PostedRecv>,
    /// The one in hand.
    pub current: Option<PostedRecv>,
    /// Finished receive requests.
    pub recv_cq: Vec<(RecvCompletion, Vec<u8>)>,
    /// Events so far.
    pub events: Vec<QpEvent>,
    /// Counted so far.
    pub counts: Vec<Counter>,
    /// Datagrams for the wire, without addresses.
    pub out: Vec<Vec<u8>>,
    /// How many more datagrams the wire takes; `None` is any number.
    pub room: Option<u32>,
    /// The payload of the packet being handled.
    pub payload: Vec<u8>,
    /// Atomics carried out.
    pub atomics_run: u32,
    /// Local operations carried out.
    pub locals_run: Vec<SendOp>,
    /// What the peer made us invalidate.
    pub invalidated: Vec<Key>,
    /// The path MTU, to check packets by; `None` if it changes at will.
    pub mtu: Option<u32>,
    /// The way to a peer beside this node.
    pub beside: Beside,
    /// How often memory is not there when it is wanted, in thousandths, and chance.
    pub absent: Option<(u32, Rng)>,
    /// Somebody waits for memory.
    pub faulted: bool,
    /// Responses and requests that came before their turn.
    pub early: [Early<Vec<Place<Vec<u8>>>>; 2],
    /// What the engine was told that the peer may do: without it, it may not ask for it.
    granted: Vec<Grant>,
}

/// One answer of [`RecvHost::check_remote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant {
    key: Key,
    start: u64,
    end: u64,
    access: AccessFlags,
}

impl Host {
    /// A host for `slots` send requests.
    pub fn new(slots: usize, mtu: u32) -> Self {
        Self {
            regions: Vec::new(),
            sq: VecDeque::new(),
            slots: vec![None; slots],
            order: VecDeque::new(),
            retired: None,
            sent: Vec::new(),
            send_cq: Vec::new(),
            rq: VecDeque::new(),
            current: None,
            recv_cq: Vec::new(),
            events: Vec::new(),
            counts: Vec::new(),
            out: Vec::new(),
            room: None,
            payload: Vec::new(),
            atomics_run: 0,
            locals_run: Vec::new(),
            invalidated: Vec::new(),
            mtu: Some(mtu),
            beside: Beside::default(),
            absent: None,
            faulted: false,
            early: [EARLY; 2].map(Self::room_for),
            granted: Vec::new(),
        }
    }

    /// A store for so many early packets.
    pub fn room_for(count: usize) -> Early<Vec<Place<Vec<u8>>>> {
        Early::new((0..count).map(|_| None).collect())
    }

    /// How many send requests are posted and not retired.
    pub fn in_queue(&self) -> usize {
        self.sq.len() + self.order.len()
    }

    /// What reset does to the rings.
    pub fn clear_rings(&mut self) {
        self.sq.clear();
        self.order.clear();
        self.slots.fill(None);
        self.rq.clear();
        self.current = None;
    }

    /// Whether memory is not there this time.
    fn is_absent(&mut self) -> bool {
        let absent = match &mut self.absent {
            Some((permille, rng)) => rng.permille(*permille),
            None => false,
        };
        self.faulted |= absent;
        absent
    }

    fn region(
        &mut self,
        key: Key,
        va: u64,
        len: usize,
        access: AccessFlags,
    ) -> Result<&mut [u8], RemoteFault> {
        let region = self
            .regions
            .iter_mut()
            .find(|r| r.key == key && r.valid && r.access.contains(access))
            .ok_or(RemoteFault::Access)?;
        let start = va.checked_sub(region.base).ok_or(RemoteFault::Access)?;
        let start = usize::try_from(start).map_err(|_| RemoteFault::Access)?;
        let end = start.checked_add(len).ok_or(RemoteFault::Access)?;
        region.bytes.get_mut(start..end).ok_or(RemoteFault::Access)
    }

    /// Asserts that this was granted before, as a whole; nothing needs no grant.
    fn was_granted(&self, key: Key, va: u64, len: usize, access: AccessFlags) {
        let end = va.saturating_add(len as u64);
        let covers =
            |g: &Grant| g.key == key && g.access.contains(access) && g.start <= va && end <= g.end;
        assert!(
            len == 0 || self.granted.iter().rev().any(covers),
            "{len} bytes at {va:#x}, which were never checked"
        );
    }

    fn cell(&mut self, key: Key, va: u64, access: AccessFlags) -> Result<&mut [u8], RemoteFault> {
        let cell = self.region(key, va, 8, access)?;
        if va % 8 != 0 {
            return Err(RemoteFault::Misaligned);
        }
        Ok(cell)
    }

    fn transmit(&mut self, p: &TxPacket) -> Result<(), TxError> {
        if matches!(p.payload, Payload::Slot { .. } | Payload::Remote { .. }) && self.is_absent() {
            return Err(TxError::Blocked);
        }
        let body = match p.payload {
            Payload::None => Vec::new(),
            Payload::Bytes(bytes) => bytes.to_vec(),
            Payload::Slot { slot, offset, len } => {
                let posted = self.slots[slot as usize].as_ref().expect("busy slot");
                let wqe = posted.wqe.expect("a good request");
                assert!(u64::from(offset) + u64::from(len) <= u64::from(wqe.length));
                posted
                    .buf
                    .get(offset as usize..offset as usize + len as usize)
                    .ok_or(TxError::BadPayload(WcStatus::LocProt))?
                    .to_vec()
            }
            Payload::Remote { key, va, len } => {
                self.was_granted(key, va, len as usize, AccessFlags::REMOTE_READ);
                self.region(key, va, len as usize, AccessFlags::REMOTE_READ)
                    .map_err(|_| TxError::BadPayload(WcStatus::LocProt))?
                    .to_vec()
            }
        };
        if self.mtu.is_some() {
            let rule = p.opcode.payload_rule();
            assert!(rule.permits(body.len(), p.mtu as usize), "{p:?}");
        }
        if let Some(taken) = self.beside.take(p, &body) {
            return taken;
        }
        if self.mtu.is_some_and(|mtu| mtu != p.mtu) {
            self.beside.lost += 1;
            return Ok(());
        }
        if self.room == Some(0) {
            return Err(TxError::Blocked);
        }
        let mut bth = wire::Bth::new(p.opcode, p.dest.qpn().0, p.psn);
        bth.pad = wire::pad_len(body.len());
        bth.ack_req = p.ack_req;
        bth.solicited = p.solicited;
        bth.becn = p.opcode == wire::Opcode::Cnp;
        let mut bytes = vec![0; wire::MAX_HEADER_LEN];
        let len = wire::write_headers(&mut bytes, &bth, &p.ext).expect("headers of the opcode");
        bytes.truncate(len);
        bytes.extend(&body);
        bytes.resize(bytes.len() + usize::from(bth.pad) + wire::ICRC_LEN, 0);
        self.out.push(bytes);
        self.room = self.room.map(|room| room - 1);
        Ok(())
    }

    fn next_recv(&mut self) -> RecvFetch {
        let Some(posted) = self.rq.pop_front() else {
            return RecvFetch::Empty;
        };
        let wqe = RecvWqe {
            wr_id: posted.wr_id,
            capacity: posted.buf.len() as u32,
        };
        let good = posted.good;
        self.current = Some(posted);
        if good {
            RecvFetch::Wqe(wqe)
        } else {
            RecvFetch::Bad(BadRecv {
                wr_id: wqe.wr_id,
                status: WcStatus::LocQpOp,
            })
        }
    }
}

impl SendHost for Host {
    fn fetch(&mut self, slot: u32) -> SendFetch {
        assert!(self.slots[slot as usize].is_none(), "slot {slot} is in use");
        if let Some(&last) = self.order.back() {
            assert_eq!((last + 1) % self.slots.len() as u32, slot, "not circular");
        }
        let Some(posted) = self.sq.pop_front() else {
            return SendFetch::Empty;
        };
        let fetched = match posted.wqe {
            Ok(wqe) => SendFetch::Wqe(wqe),
            Err((wr_id, status)) => SendFetch::Bad { wr_id, status },
        };
        self.slots[slot as usize] = Some(posted);
        self.order.push_back(slot);
        fetched
    }

    fn retire(&mut self, slot: u32) {
        assert_eq!(self.order.pop_front(), Some(slot), "retired out of order");
        let posted = self.slots[slot as usize].take().expect("a busy slot");
        self.retired = Some(posted.wr_id());
        self.sent.push(posted);
    }

    fn cut(&mut self, mtu: u32) -> u32 {
        if self.beside.open {
            self.beside.piece
        } else {
            mtu
        }
    }

    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        assert!(packet.opcode.is_request() || packet.opcode == wire::Opcode::Cnp);
        self.transmit(packet)
    }

    fn scatter(&mut self, slot: u32, offset: u32) -> Result<(), LocalFault> {
        if self.is_absent() {
            return Err(LocalFault::Absent);
        }
        let posted = self.slots[slot as usize].as_mut().expect("busy slot");
        let wqe = posted.wqe.expect("a good request");
        let end = offset as usize + self.payload.len();
        assert!(end as u64 <= u64::from(wqe.length), "beyond the request");
        posted
            .buf
            .get_mut(offset as usize..end)
            .ok_or(WcStatus::LocProt)?
            .copy_from_slice(&self.payload);
        Ok(())
    }

    fn scatter_u64(&mut self, slot: u32, value: u64) -> Result<(), LocalFault> {
        if self.is_absent() {
            return Err(LocalFault::Absent);
        }
        let posted = self.slots[slot as usize].as_mut().expect("busy slot");
        posted
            .buf
            .get_mut(..8)
            .ok_or(WcStatus::LocProt)?
            .copy_from_slice(&value.to_ne_bytes());
        Ok(())
    }

    fn local(&mut self, slot: u32, op: &SendOp) -> Result<(), WcStatus> {
        assert!(self.slots[slot as usize].is_some() && op.is_local());
        if *op == (SendOp::LocalInv { key: Key(0) }) {
            return Err(WcStatus::LocQpOp);
        }
        self.locals_run.push(*op);
        Ok(())
    }

    fn first_early(&self) -> Option<wire::Psn> {
        self.early[0].first()
    }

    fn complete(&mut self, completion: &SendCompletion) {
        assert_eq!(self.retired.take(), Some(completion.wr_id));
        self.send_cq.push(*completion);
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn count(&mut self, counter: Counter) {
        self.counts.push(counter);
    }
}

impl RecvHost for Host {
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError> {
        assert!(packet.opcode.is_response() || packet.opcode == wire::Opcode::Cnp);
        self.transmit(packet)
    }

    fn take_recv(&mut self) -> RecvFetch {
        assert!(self.current.is_none(), "one receive request at a time");
        self.next_recv()
    }

    fn flush_recv(&mut self) -> RecvFetch {
        assert!(self.current.is_none(), "one receive request at a time");
        self.next_recv()
    }

    fn scatter_recv(&mut self, offset: u32) -> Result<(), LocalFault> {
        if self.is_absent() {
            return Err(LocalFault::Absent);
        }
        let payload = &self.payload;
        let current = self.current.as_mut().expect("one in hand");
        let end = offset as usize + payload.len();
        assert!(end <= current.buf.len(), "beyond the receive buffers");
        current.buf[offset as usize..end].copy_from_slice(payload);
        Ok(())
    }

    fn scatter_grh(&mut self) -> Result<(), LocalFault> {
        if self.is_absent() {
            return Err(LocalFault::Absent);
        }
        let current = self.current.as_mut().expect("one in hand");
        current.buf[..40].fill(0xee);
        Ok(())
    }

    fn check_remote(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: AccessFlags,
    ) -> Result<(), RemoteFault> {
        self.region(key, va, len as usize, access)?;
        let grant = Grant {
            key,
            start: va,
            end: va.saturating_add(u64::from(len)),
            access,
        };
        if !self.granted.contains(&grant) {
            self.granted.push(grant);
        }
        Ok(())
    }

    fn write_remote(&mut self, key: Key, va: u64) -> Result<(), RemoteFault> {
        let payload = self.payload.clone();
        self.was_granted(key, va, payload.len(), AccessFlags::REMOTE_WRITE);
        if self.is_absent() {
            return Err(RemoteFault::Absent);
        }
        self.region(key, va, payload.len(), AccessFlags::REMOTE_WRITE)?
            .copy_from_slice(&payload);
        Ok(())
    }

    fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteFault> {
        if self.is_absent() {
            return Err(RemoteFault::Absent);
        }
        let cell = self.cell(key, va, AccessFlags::REMOTE_ATOMIC)?;
        let found = u64::from_ne_bytes((&*cell).try_into().expect("eight bytes"));
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if compare == found => swap,
            AtomicOp::CompareSwap { .. } => found,
            AtomicOp::FetchAdd { add } => found.wrapping_add(add),
        };
        cell.copy_from_slice(&new.to_ne_bytes());
        self.atomics_run += 1;
        Ok(found)
    }

    fn atomic_write(&mut self, key: Key, va: u64) -> Result<(), RemoteFault> {
        let payload = self.payload.clone();
        assert_eq!(payload.len(), 8);
        if self.is_absent() {
            return Err(RemoteFault::Absent);
        }
        self.cell(key, va, AccessFlags::REMOTE_WRITE)?
            .copy_from_slice(&payload);
        Ok(())
    }

    fn flush(&mut self, key: Key, va: u64, len: u32, what: FlushKind) -> Result<(), RemoteFault> {
        if what.persistent && self.is_absent() {
            return Err(RemoteFault::Absent);
        }
        if what.whole_region {
            let known = self.regions.iter().any(|r| r.key == key && r.valid);
            return known.then_some(()).ok_or(RemoteFault::Access);
        }
        self.region(key, va, len as usize, AccessFlags::NONE)
            .map(drop)
    }

    fn invalidate(&mut self, key: Key) -> Result<(), RemoteFault> {
        if key == Key(0) {
            return Err(RemoteFault::Access);
        }
        self.invalidated.push(key);
        Ok(())
    }

    fn complete(&mut self, completion: &RecvCompletion) {
        let current = self.current.take().expect("one in hand");
        assert_eq!(current.wr_id, completion.wr_id);
        assert!(completion.byte_len as usize <= current.buf.len() || completion.imm.is_some());
        self.recv_cq.push((*completion, current.buf));
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn count(&mut self, counter: Counter) {
        self.counts.push(counter);
    }
}
