// SPDX-License-Identifier: GPL-2.0

//! The port mapper, a program (`iwpmd`) that maps the TCP ports of iWARP connections.
//!
//! It reserves a port of the TCP stack for each mapping, and learns from the peer's port mapper
//! which port the peer has mapped. Requests are netlink messages; a call waits up to ten seconds for
//! the answer, without a lock of this module.
//!
//! All data is protected by one mutex. While it is held, no message is sent and nothing is allocated:
//! a work item that memory reclaim may wait for takes it. Handlers of messages run in the context of
//! the mapper.

use crate::edge::netlink;
use crate::edge::netlink::Blocking;
use crate::proto::addr::Address;
use crate::proto::mapper::Mapper;
use crate::proto::mapper::Outcome;
use crate::proto::mapper::Pending;
use crate::proto::mapper::Request;
use crate::proto::message;
use crate::proto::message::Answer;
use crate::proto::message::Batch;
use crate::proto::message::Mapping;
use crate::proto::message::Message;
use crate::proto::message::Names;
use crate::proto::message::Op;
use crate::proto::remote::Slot;
use crate::proto::remote::Table;
use crate::proto::remote::ENTRIES;
use crate::proto::Invalid;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdma::bindings;
use rdma::sync::init_once;
use rdma::sync::TimedCompletion;

/// Time that a request waits for its answer.
const TIMEOUT_MS: u32 = 10_000;

/// Flag of a request: the mapped port must be the real one.
const NO_PORT_MAP: u32 = bindings::IWPM_FLAGS_NO_PORT_MAP;

/// All that is known.
struct State {
    mapper: Mapper,
    /// Requests that wait for their answer, by sequence number.
    waiting: RBTree<u32, Waiting>,
    /// Mappings of IDs, by a number.
    mappings: RBTree<u64, Mapping>,
    last: u64,
    remotes: Table<KVVec<Slot>>,
    began: Instant<Monotonic>,
}

/// A request that waits for its answer.
struct Waiting {
    pending: Pending,
    done: Arc<TimedCompletion>,
}

rdma::global_lock! {
    // SAFETY: `Owner::new` initialises it once, before other functions of this file are called.
    unsafe(uninit) static STATE: Mutex<Option<State>> = None;
}

/// Owner of the data: it is freed when this is dropped.
pub(crate) struct Owner(());

impl Owner {
    /// Must be called once, before the functions of this file. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        init_once(&STATE);
        let mut slots = KVVec::with_capacity(ENTRIES, GFP_KERNEL)?;
        slots.extend_with(ENTRIES, None, GFP_KERNEL)?;
        *STATE.lock() = Some(State {
            mapper: Mapper::NEW,
            waiting: RBTree::new(),
            mappings: RBTree::new(),
            last: 0,
            remotes: Table::new(slots, crate::edge::netlink::random()),
            began: Instant::now(),
        });
        Ok(Self(()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let state = STATE.lock().take();
        drop(state);
    }
}

/// Runs `run` under the lock. `None` before and after the life of [`Owner`].
fn with<T>(run: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.lock().as_mut().map(run)
}

impl From<Invalid> for Error {
    fn from(_: Invalid) -> Self {
        EINVAL
    }
}

impl From<message::Full> for Error {
    fn from(_: message::Full) -> Self {
        EMSGSIZE
    }
}

impl State {
    /// Seconds since the start of the module.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0) / 1000
    }

    /// Answers the request with the number `to`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if no such request waits.
    fn answer(&mut self, to: u32, answer: &Answer) -> Result<Outcome> {
        let waiting = self.waiting.get_mut(&to).ok_or(EINVAL)?;
        if !waiting.pending.awaits(answer) {
            return Err(EINVAL);
        }
        let outcome = waiting.pending.answer(answer);
        waiting.done.complete();
        Ok(outcome)
    }
}

/// A request that waits for its answer, until it is dropped.
///
/// # Invariants
///
/// `seq` is the number of an entry of `State::waiting`, which only this removes.
struct Sent {
    seq: u32,
    done: Arc<TimedCompletion>,
}

impl Sent {
    /// Adds the request with the number `seq`, which is not in use.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(seq: u32, request: Request) -> Result<Self> {
        let done = Arc::pin_init(TimedCompletion::new(), GFP_KERNEL)?;
        let waiting = Waiting {
            pending: Pending::new(request),
            done: done.clone(),
        };
        let node = RBTreeNode::new(seq, waiting, GFP_KERNEL)?;
        let replaced = with(|state| state.waiting.insert(node));
        drop(replaced);
        Ok(Self { seq, done })
    }

    /// Waits for the answer.
    fn wait(&self) -> Option<Outcome> {
        if !self.done.wait(msecs_to_jiffies(TIMEOUT_MS)) {
            pr_info!("no answer of the port mapper within 10 seconds\n");
        }
        with(|state| state.waiting.get(&self.seq)?.pending.outcome()).flatten()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let node = with(|state| state.waiting.remove_node(&self.seq));
        drop(node);
    }
}

/// Finds out who the mapper is, unless that is known. Returns its port ID, if there is one.
fn find(names: &Names) -> Option<u32> {
    let request = with(|state| {
        let mapper = &mut state.mapper;
        mapper
            .must_register()
            .then(|| (mapper.next_seq(), mapper.echo()))
    })?;
    if let Some((seq, echo)) = request {
        let message = message::register(seq, echo, names).ok()?;
        let sent = Sent::new(seq, Request::register(names)).ok()?;
        if let Err(error) = netlink::multicast(message.bytes()) {
            if error == ESRCH {
                with(|state| state.mapper.absent());
            }
            return None;
        }
        let Some(Outcome::Registered(_)) = sent.wait() else {
            return None;
        };
    }
    with(|state| state.mapper.pid()).flatten()
}

/// Addresses that a provider uses for an ID.
pub(crate) struct Mapped {
    pub(crate) local: Address,
    /// Address of the peer, if its mapping was asked for.
    pub(crate) remote: Option<Address>,
    pub(crate) registration: Registration,
}

/// Maps the addresses of an ID: `remote` for one that connects. If the mapper refuses, the addresses
/// are the real ones, which the mapper is told when it asks. `None` if there is no mapper. May sleep.
///
/// # Errors
///
/// `EINVAL` if an address is not of IP; `ENOMEM`.
pub(crate) fn map(
    names: &Names,
    no_port_map: bool,
    local: &Address,
    remote: Option<&Address>,
) -> Result<Option<Mapped>> {
    let Some(pid) = find(names) else {
        return Ok(None);
    };
    if local.endpoint().is_none() {
        return Err(EINVAL);
    }
    let flags = if no_port_map { NO_PORT_MAP } else { 0 };
    let (mapped_local, mapped_remote) = match ask(pid, local, remote, flags) {
        Some(Outcome::Added(mapped)) => (mapped, None),
        Some(Outcome::Found { local, remote }) => (local, Some(remote)),
        Some(Outcome::Registered(_) | Outcome::Refused(_)) | None => (*local, None),
    };
    let mapping = Mapping {
        local: *local,
        mapped: mapped_local,
        flags,
    };
    Ok(Some(Mapped {
        local: mapped_local,
        remote: mapped_remote,
        registration: Registration::new(mapping)?,
    }))
}

/// Asks the mapper for mappings.
fn ask(pid: u32, local: &Address, remote: Option<&Address>, flags: u32) -> Option<Outcome> {
    let (seq, echo, flags) = with(|state| {
        let mapper = &mut state.mapper;
        let flags = mapper.flags(flags).ok()?;
        let registered = mapper.is_registered();
        registered.then(|| (mapper.next_seq(), mapper.echo(), flags))
    })
    .flatten()?;
    let local = *local;
    let (request, message) = match remote {
        Some(remote) => (
            Request::Query {
                local,
                remote: *remote,
            },
            message::query(seq, echo, &local, remote, flags),
        ),
        None => (
            Request::Add { local },
            message::add(seq, echo, &local, flags),
        ),
    };
    let message = message.ok()?;
    let sent = Sent::new(seq, request).ok()?;
    if let Err(error) = netlink::unicast(message.bytes(), pid, Blocking::Yes) {
        lost(pid, error);
        return None;
    }
    sent.wait()
}

/// A message to the mapper at `pid` could not be sent. If nobody has that port ID, it is forgotten.
fn lost(pid: u32, error: Error) {
    let gone = error == rdma::errno::econnrefused();
    with(|state| {
        // Another one may have announced itself meanwhile.
        if gone && state.mapper.pid() == Some(pid) {
            state.mapper.lost();
        }
    });
}

/// The mapping of an ID. Drop tells the mapper that the ID does not use it any more, and may sleep.
///
/// # Invariants
///
/// `number` is that of an entry of `State::mappings`, which only this removes.
pub(crate) struct Registration {
    number: u64,
    local: Address,
}

impl Registration {
    fn new(mapping: Mapping) -> Result<Self> {
        let local = mapping.local;
        let reserved = RBTreeNodeReservation::new(GFP_KERNEL);
        let number = reserved.ok().zip(with(|state| {
            state.last = state.last.wrapping_add(1);
            state.last
        }));
        let Some((reserved, number)) = number else {
            tell_removed(&local);
            return Err(ENOMEM);
        };
        let node = reserved.into_node(number, mapping);
        let replaced = with(|state| state.mappings.insert(node));
        drop(replaced);
        // INVARIANT: Just inserted; the numbers are unique.
        Ok(Self { number, local })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let node = with(|state| state.mappings.remove_node(&self.number));
        drop(node);
        tell_removed(&self.local);
    }
}

/// Tells the mapper, if there is one, that a mapping is not used any more.
fn tell_removed(local: &Address) {
    let ready = with(|state| {
        let pid = state.mapper.pid()?;
        let seq = state.mapper.next_seq();
        let message = message::remove(seq, state.mapper.echo(), local).ok()?;
        Some((pid, message))
    });
    let Some((pid, message)) = ready.flatten() else {
        return;
    };
    if let Err(error) = netlink::unicast(message.bytes(), pid, Blocking::Yes) {
        lost(pid, error);
    }
}

/// Returns the real address of the peer that connects from `mapped_remote` to a listener with the
/// mapped address `mapped_local`, if the mapper has announced it.
pub(crate) fn take_remote(mapped_local: &Address, mapped_remote: &Address) -> Option<Address> {
    with(|state| {
        let now = state.now();
        state.remotes.take(mapped_local, mapped_remote, now)
    })?
}

/// Handles a message of the port mapper.
///
/// # Errors
///
/// `EINVAL` if it is malformed, or answers no request; errors of sending. As the C module, always
/// `EINVAL` for addresses of a peer.
pub(crate) fn received(op: Op, bytes: &[u8]) -> Result {
    let parsed = message::parse(op, bytes)?;
    let (seq, pid) = message::header(bytes).ok_or(EINVAL)?;
    match parsed {
        Message::Answer { to, answer } => {
            let answered = with(|state| {
                let outcome = state.answer(to, &answer)?;
                state.mapper.heard(seq);
                if let Outcome::Registered(version) = outcome {
                    state.mapper.registered(pid, version);
                }
                Ok(())
            });
            match answered.unwrap_or(Err(EINVAL)) {
                // An error may be of a request that nobody waits for.
                Err(_) if op == Op::HandleError => Ok(()),
                result => result,
            }
        }
        Message::Remote(remote) => {
            if !remote.families_agree() {
                return Err(EINVAL);
            }
            with(|state| {
                state.mapper.heard(seq);
                let now = state.now();
                let (local, peer) = (&remote.mapped_local, &remote.mapped_remote);
                state.remotes.insert(local, peer, remote.remote, now)
            });
            Err(EINVAL)
        }
        Message::MapInfo { known: false } => Err(EINVAL),
        Message::MapInfo { known: true } => {
            with(|state| {
                state.mapper.asked(pid);
                state.mapper.heard(seq);
            });
            send_mappings(pid)
        }
        Message::MapInfoNum { sent, stored } => {
            if sent != stored {
                pr_info!("the port mapper has stored {stored} of {sent} mappings\n");
            }
            with(|state| state.mapper.heard(seq));
            Ok(())
        }
        Message::Hello(version) => {
            let answer = with(|state| {
                let version = state.mapper.greeted(pid, version);
                state.mapper.heard(seq);
                message::hello(state.mapper.next_seq(), version)
            });
            netlink::unicast(answer.ok_or(EINVAL)??.bytes(), pid, Blocking::No)
        }
    }
}

/// Sends all mappings to the mapper at `pid`, and then their number. Nothing if there are none.
///
/// # Errors
///
/// `ENOMEM`; `EAGAIN` if the mapper does not read.
fn send_mappings(pid: u32) -> Result {
    let mut total: u32 = 0;
    let mut next = Some(0);
    while let Some(from) = next {
        let mut batch = KBox::new(Batch::default(), GFP_KERNEL)?;
        next = with(|state| fill(state, &mut batch, from)).flatten();
        if batch.count() == 0 {
            break;
        }
        let sent = netlink::unicast(batch.end(), pid, Blocking::No);
        sent.inspect_err(|_| pr_info!("the port mapper got only {total} mappings\n"))?;
        total = total.saturating_add(batch.count());
    }
    if total == 0 {
        return Ok(());
    }
    let seq = with(|state| state.mapper.next_seq()).ok_or(EINVAL)?;
    netlink::unicast(message::count(seq, total)?.bytes(), pid, Blocking::No)
}

/// Writes mappings from the number `from` on. Returns the number to continue with, if any.
fn fill(state: &mut State, batch: &mut Batch, from: u64) -> Option<u64> {
    let with_flags = state.mapper.takes_flags();
    let mut cursor = state.mappings.cursor_lower_bound_mut(&from);
    while let Some(at) = cursor {
        let (number, mapping) = at.current();
        if batch.put(mapping, with_flags).is_err() {
            return Some(*number);
        }
        cursor = at.move_next();
    }
    None
}
