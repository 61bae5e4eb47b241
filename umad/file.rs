// SPDX-License-Identifier: GPL-2.0

//! An open file of `umadN`: the agents of a program, and MADs that wait to be read.
//!
//! ```text
//!   write -> sends (by transaction) -- response, error --> removed
//!                                   \- no response ------> TimedOut -\
//!   handler of an agent ---------------------------------> Received --+-> waiting -> read
//! ```
//!
//! A MAD that cannot be read as requested returns to the front of the queue. Agents refer to the
//! file, and the file to its agents: [`File::die`] removes the agents at the last close or when the
//! device is removed.

use crate::edge::trace;
use crate::edge::Event;
use crate::port::Port;
use crate::proto::header;
use crate::proto::header::Header;
use crate::proto::header::Layout;
use crate::proto::receive;
use crate::proto::receive::Copied;
use crate::proto::register;
use crate::proto::register::Form;
use crate::proto::register::Request;
use crate::proto::register::Wrong;
use crate::proto::send::Key;
use crate::proto::send::Plan;
use crate::proto::send::Rmpp;
use crate::proto::send::Start;
use crate::proto::wire;
use crate::proto::wire::Special;
use crate::proto::AGENTS;
use crate::proto::WAITING;
use crate::Mads;
use core::mem;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::ioctl::_IO;
use kernel::ioctl::_IOW;
use kernel::ioctl::_IOWR;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;
use kernel::uaccess::UserSliceReader;
use kernel::uaccess::UserSliceWriter;
use rdma::accounted;
use rdma::bindings;
use rdma::chrdev::Files;
use rdma::chrdev::Opening;
use rdma::chrdev::PollTable;
use rdma::mad::Agent;
use rdma::mad::Grh;
use rdma::mad::Lengths;
use rdma::mad::Mad;
use rdma::mad::MadUser;
use rdma::mad::Received;
use rdma::mad::Registration;
use rdma::mad::To;
use rdma::mad::Unsolicited;
use rdma::nospec;
use rdma::sync::new_wait_queue;
use rdma::sync::WaitQueue;

const REGISTER_AGENT: u32 = _IOWR::<[u8; register::SIZE]>(0x1b, 1);
const UNREGISTER_AGENT: u32 = _IOW::<u32>(0x1b, 2);
const ENABLE_PKEY: u32 = _IO(0x1b, 3);
const REGISTER_AGENT2: u32 = _IOWR::<[u8; register::SIZE2]>(0x1b, 4);

/// Content of a waiting MAD.
enum Body {
    /// A received MAD.
    Received(Mad),
    /// The header of a send that got no response.
    TimedOut([u8; wire::HEADER]),
}

/// A MAD that waits to be read, with its header.
#[pin_data]
pub(crate) struct Message {
    header: Header,
    body: Body,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Message { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Message { using ListLinks { self.links }; }
}

impl Message {
    fn new(header: Header, body: Body) -> Result<ListArc<Self>> {
        ListArc::pin_init(
            try_pin_init!(Self {
                header,
                body,
                links <- ListLinks::new(),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

/// A registered agent.
struct Registered {
    agent: Agent<Listener>,
    /// Whether the core does RMPP for the agent.
    kernel_rmpp: bool,
}

/// A place for an agent. Until the program knows the agent's number, the agent cannot be used, nor
/// what it receives be read, because the registration may still fail.
enum Slot {
    Free,
    /// The agent is being registered; MADs that it has received.
    Coming(List<Message>),
    /// The agent is registered, but the program does not know its number yet; MADs that it has
    /// received.
    Untold(Registered, List<Message>),
    /// The program knows the number.
    Live(Registered),
}

/// All places.
type Slots = [Slot; AGENTS];

fn no_slots() -> Slots {
    core::array::from_fn(|_| Slot::Free)
}

/// An open file.
#[pin_data]
pub(crate) struct File {
    port: Arc<Port>,
    #[pin]
    inner: Mutex<Inner>,
    /// Waiters for `waiting`, or `dead`.
    #[pin]
    readers: WaitQueue,
}

/// State protected by the file's lock.
struct Inner {
    slots: Slots,
    waiting: List<Message>,
    count: usize,
    /// Outstanding sends, and their destinations.
    sends: RBTree<Key, Header>,
    /// Sequence number of the next send.
    seq: u64,
    layout: Layout,
    /// Whether an agent was registered.
    used: bool,
    /// Set once the agents are removed for good.
    dead: bool,
}

impl Inner {
    /// Queues a MAD that an agent received. Returns it if there is no such agent.
    fn queue(&mut self, id: u32, message: ListArc<Message>) -> Option<ListArc<Message>> {
        let place = usize::try_from(id).ok();
        let list = match place.and_then(|place| self.slots.get_mut(place)) {
            Some(Slot::Coming(early) | Slot::Untold(_, early)) => early,
            Some(Slot::Live(_)) => &mut self.waiting,
            Some(Slot::Free) | None => return Some(message),
        };
        list.push_back(message);
        self.count = self.count.saturating_add(1);
        None
    }

    /// Clears a place whose agent's number the program does not know. The caller drops the content
    /// after it has released the lock.
    fn give_up(&mut self, place: usize) -> Slot {
        let Some(slot) = self.slots.get_mut(place) else {
            return Slot::Free;
        };
        let early = match slot {
            Slot::Coming(early) | Slot::Untold(_, early) => {
                early.iter().fold(0_usize, |n, _| n.saturating_add(1))
            }
            Slot::Free | Slot::Live(_) => return Slot::Free,
        };
        self.count = self.count.saturating_sub(early);
        mem::replace(slot, Slot::Free)
    }
}

/// Looks up an agent by the number that a program has, and whether the core does RMPP for it.
fn agent_at(slots: &Slots, id: u32) -> Option<(&Agent<Listener>, bool)> {
    match nospec::get(slots, usize::try_from(id).ok()?)? {
        Slot::Live(registered) => Some((&registered.agent, registered.kernel_rmpp)),
        Slot::Free | Slot::Coming(_) | Slot::Untold(..) => None,
    }
}

/// Returns whether a send like this one is outstanding.
fn repeats(sends: &mut RBTree<Key, Header>, key: &Key, header: &Header) -> bool {
    let mut at = sends.cursor_lower_bound_mut(&key.first_alike());
    while let Some(cursor) = at {
        let (other, its_header) = cursor.current();
        if !key.is_alike(other) {
            return false;
        }
        if key.repeats(header, other, its_header) {
            return true;
        }
        at = cursor.move_next();
    }
    false
}

/// The user of an agent: a place of a file.
pub(crate) struct Listener {
    file: Arc<File>,
    id: u32,
}

/// The value that a send carries.
pub(crate) struct Sent {
    key: Key,
    /// Queued for reading if there is no response.
    notice: ListArc<Message>,
}

impl MadUser for Listener {
    type Sent = Sent;

    fn received(&self, mad: Received<'_>) {
        let Ok(from) = mad.from() else { return };
        let mad = mad.into_mad();
        let layout = self.file.inner.lock().layout;
        let has_grh = from.grh.is_some();
        let grh = from.grh.unwrap_or_default().0;
        let header = Header {
            id: self.id,
            // CAST: A MAD is shorter than 2^31.
            length: layout.size().saturating_add(mad.len()) as u32,
            qpn: from.qpn,
            lid: from.lid,
            sl: from.sl,
            path_bits: from.path_bits,
            pkey_index: from.pkey_index,
            grh_present: has_grh.into(),
            gid_index: grh.gid_index,
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
            gid: grh.dgid,
            flow_label: grh.flow_label,
            ..Header::default()
        };
        let Ok(message) = Message::new(header, Body::Received(mad)) else {
            return;
        };
        let mut inner = self.file.inner.lock();
        let refused = if inner.count <= WAITING {
            inner.queue(self.id, message)
        } else {
            Some(message)
        };
        drop(inner);
        if refused.is_none() {
            self.file.readers.wake();
        }
    }

    fn sent(&self, sent: KBox<Sent>, timed_out: bool) {
        let Sent { key, notice } = KBox::into_inner(sent);
        let mut inner = self.file.inner.lock();
        let _: Option<Header> = inner.sends.remove(&key);
        let refused = if timed_out {
            inner.queue(self.id, notice)
        } else {
            Some(notice)
        };
        drop(inner);
        if refused.is_none() {
            self.file.readers.wake();
        }
    }
}

impl File {
    /// Removes all agents for good. The caller drops them under the port's lock, so that the device
    /// exists as long, but not under the file's lock.
    pub(crate) fn die(&self) -> impl Sized {
        let mut inner = self.inner.lock();
        inner.dead = true;
        let agents = mem::replace(&mut inner.slots, no_slots());
        drop(inner);
        self.readers.wake();
        agents
    }

    fn trace(&self, event: Event, header: &Header, mad: &[u8; wire::HEADER]) {
        let header = header.to_bytes();
        trace(
            event,
            self.port.device_index,
            self.port.number,
            header,
            *mad,
        );
    }

    /// Copies a message to the program; returns its length.
    fn give(&self, message: &Message, layout: Layout, to: &mut UserSliceWriter) -> Result<usize> {
        let header = message.header.to_bytes();
        let header = header.get(..layout.size()).ok_or(EINVAL)?;
        match &message.body {
            Body::TimedOut(mad) => {
                let all = layout.size().saturating_add(mad.len());
                if to.len() < all {
                    return Err(EINVAL);
                }
                to.write_slice(header)?;
                to.write_slice(mad)?;
                self.trace(Event::ReadSent, &message.header, mad);
                Ok(all)
            }
            Body::Received(mad) => {
                let (length, segment) = (mad.len(), mad.segment_size());
                let copied = receive::copied(to.len(), layout.size(), length, segment)
                    .map_err(|_| EINVAL)?;
                to.write_slice(header)?;
                let (mut left, mut index, mut offset) = (length, 0_usize, 0);
                let mut first = [0; wire::HEADER];
                mad.segments(|bytes| {
                    if index == 0 {
                        first = bytes.first_chunk().copied().ok_or(EINVAL)?;
                        offset = wire::data_offset(bytes.get(1).copied().unwrap_or(0));
                    }
                    let Some((from, count)) = receive::part(index, left, segment, offset) else {
                        return Ok(false);
                    };
                    let part = bytes.get(from..).and_then(|bytes| bytes.get(..count));
                    to.write_slice(part.ok_or(EINVAL)?)?;
                    index = index.saturating_add(1);
                    left = left.saturating_sub(count);
                    Ok(copied == Copied::All && left != 0)
                })?;
                match copied {
                    Copied::All => {
                        self.trace(Event::ReadReceived, &message.header, &first);
                        Ok(layout.size().saturating_add(length.saturating_sub(left)))
                    }
                    Copied::First => Err(ENOSPC),
                }
            }
        }
    }

    /// Refuses a write with `error`, unless its address or its lengths are invalid: the C module
    /// checks these before it copies the MAD.
    fn refuse(&self, header: &Header, lengths: Option<&Lengths>, error: Error) -> Error {
        let inner = self.inner.lock();
        let Some((agent, _)) = agent_at(&inner.slots, header.id) else {
            return EIO;
        };
        let tried = agent
            .address(&to(header))
            .and_then(|address| match lengths {
                Some(lengths) => address.buffer(lengths).map(drop),
                None => Ok(()),
            });
        tried.err().unwrap_or(error)
    }

    fn register(self: ArcBorrow<'_, Self>, arg: usize, form: Form) -> Result<u32> {
        if self.port.state.lock().device.is_none() {
            return Err(EPIPE);
        }
        let user = |at: usize, len| UserSlice::new(UserPtr::from_addr(arg.wrapping_add(at)), len);
        let mut raw = [0; register::SIZE2];
        let raw = raw.get_mut(..form.size()).ok_or(EINVAL)?;
        user(0, form.size()).reader().read_slice(raw)?;
        let parsed = Request::parse(raw, form, size_of::<usize>());
        match parsed {
            Err(Wrong::Flags(_)) => {
                user(register::FLAGS_AT, 4)
                    .writer()
                    .write(&register::USER_RMPP)?;
                return Err(EINVAL);
            }
            Err(Wrong::Short | Wrong::Qpn(_)) => return Err(EINVAL),
            Err(Wrong::Oui(_)) | Ok(_) => {}
        }
        let id = self.add(parsed)?;
        let place = usize::try_from(id)?;
        // Without a lock: it may fault in a page of the program.
        match user(register::ID_AT, 4).writer().write(&id) {
            Ok(()) => {
                self.told(place, form);
                Ok(0)
            }
            Err(e) => {
                self.not_told(place);
                Err(e)
            }
        }
    }

    /// Records that the program knows the number of its agent, and may use it. Sets the header
    /// layout of the file, if it is not set.
    fn told(&self, place: usize, form: Form) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if !inner.used {
            inner.used = true;
            if form == Form::Second {
                inner.layout = Layout::Pkey;
            }
        }
        let Some(slot) = inner.slots.get_mut(place) else {
            return;
        };
        match mem::replace(slot, Slot::Free) {
            Slot::Untold(agent, mut early) => {
                *slot = Slot::Live(agent);
                inner.waiting.push_all_back(&mut early);
            }
            // The device was removed meanwhile, and `die` took the agent.
            other => *slot = other,
        }
        self.readers.wake();
    }

    /// Unregisters an agent whose number could not be copied to the program, and drops the MADs
    /// that it received.
    fn not_told(&self, place: usize) {
        let state = self.port.state.lock();
        let agent = self.inner.lock().give_up(place);
        // Waits for handlers, which take the file's lock.
        drop(agent);
        drop(state);
    }

    /// Registers an agent whose number the program does not know yet; returns its place.
    fn add(self: ArcBorrow<'_, Self>, parsed: Result<Request, Wrong>) -> Result<u32> {
        let state = self.port.state.lock();
        let device = state.device.as_ref().ok_or(EPIPE)?;
        let mut inner = self.inner.lock();
        let free = inner.slots.iter_mut().zip(0_u32..);
        let (slot, id) = free
            .into_iter()
            .find(|(slot, _)| matches!(slot, Slot::Free))
            .ok_or(ENOMEM)?;
        let request = parsed.map_err(|_| EINVAL)?;
        *slot = Slot::Coming(List::new());
        drop(inner);

        let user = Listener {
            file: self.into(),
            id,
        };
        let how = Registration {
            gsi: request.special == Special::Gsi,
            unsolicited: request.unsolicited.map(|wanted| Unsolicited {
                class: wanted.class,
                version: wanted.version,
                oui: wanted.oui,
                methods: wanted.methods,
            }),
            rmpp_version: request.rmpp_version,
            flags: request.flags,
        };
        let place = usize::try_from(id)?;
        let agent = Arc::new(user, GFP_KERNEL)
            .map_err(Error::from)
            .and_then(|user| {
                Agent::register(rdma::resident!(), device, self.port.number, &how, user)
            });
        let mut inner = self.inner.lock();
        // The place is still reserved: files die, and agents are unregistered, under the port's
        // lock.
        let added = match agent {
            Ok(agent) => {
                let slot = inner.slots.get_mut(place).ok_or(EINVAL)?;
                let early = match slot {
                    Slot::Coming(early) => mem::replace(early, List::new()),
                    Slot::Free | Slot::Untold(..) | Slot::Live(_) => List::new(),
                };
                let kernel_rmpp =
                    request.rmpp_version != 0 && request.flags & register::USER_RMPP == 0;
                *slot = Slot::Untold(Registered { agent, kernel_rmpp }, early);
                Ok(id)
            }
            Err(e) => Err((e, inner.give_up(place))),
        };
        drop(inner);
        drop(state);
        added.map_err(|(e, _)| e)
    }

    /// Unregisters an agent whose number the program knows.
    fn remove(&self, id: u32) -> Result {
        let place = usize::try_from(id)?;
        let state = self.port.state.lock();
        let mut inner = self.inner.lock();
        let slot = nospec::get_mut(&mut inner.slots, place).ok_or(EINVAL)?;
        let agent = match slot {
            Slot::Live(_) => mem::replace(slot, Slot::Free),
            Slot::Free | Slot::Coming(_) | Slot::Untold(..) => return Err(EINVAL),
        };
        drop(inner);
        // Waits for handlers, which take the file's lock.
        drop(agent);
        drop(state);
        Ok(())
    }
}

fn to(header: &Header) -> To {
    To {
        lid: header.lid,
        sl: header.sl,
        path_bits: header.path_bits,
        grh: (header.grh_present != 0).then_some(Grh(bindings::rdma_helper_grh {
            flow_label: header.flow_label,
            gid_index: header.gid_index,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class,
            dgid: header.gid,
        })),
    }
}

/// The operations of the files.
pub(crate) struct UmadFiles;

#[vtable]
impl Files for UmadFiles {
    type Class = Mads;
    type Open = File;
    const OWNER: &'static ThisModule = rdma::this_module!();

    fn open(port: &Arc<Port>, _how: Opening) -> Result<Arc<File>> {
        let mut state = port.state.lock();
        let device = state.device.as_ref().ok_or(ENXIO)?;
        if !device.is_accessible() {
            return Err(EPERM);
        }
        let file = Arc::pin_init(
            pin_init!(File {
                port: port.clone(),
                inner <- new_mutex!(
                    Inner {
                        slots: no_slots(),
                        waiting: List::new(),
                        count: 0,
                        sends: RBTree::new(),
                        seq: 1,
                        layout: Layout::Old,
                        used: false,
                        dead: false,
                    },
                    "File::inner"
                ),
                readers <- new_wait_queue!("File::readers"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        state.files.push(file.clone(), GFP_KERNEL)?;
        Ok(file)
    }

    fn release(file: Arc<File>) {
        let mut state = file.port.state.lock();
        rdma::kvec::retain(&mut state.files, |other| !Arc::ptr_eq(other, &file));
        let agents = file.die();
        drop(agents);
        drop(state);
        let mut inner = file.inner.lock();
        let waiting = mem::replace(&mut inner.waiting, List::new());
        drop(inner);
        drop(waiting);
    }

    fn read(file: &File, mut to: UserSliceWriter, how: Opening) -> Result<usize> {
        let mut inner = file.inner.lock();
        if to.len() < inner.layout.size() {
            return Err(EINVAL);
        }
        let message = loop {
            if inner.dead {
                return Err(EIO);
            }
            if let Some(message) = inner.waiting.pop_front() {
                inner.count = inner.count.saturating_sub(1);
                break message;
            }
            if how.nonblock {
                return Err(EAGAIN);
            }
            inner = file.readers.wait(inner)?;
        };
        let layout = inner.layout;
        drop(inner);
        let result = file.give(&message, layout, &mut to);
        if result.is_err() {
            let mut inner = file.inner.lock();
            inner.waiting.push_front(message);
            inner.count = inner.count.saturating_add(1);
            drop(inner);
            // Another reader may have gone to sleep meanwhile.
            file.readers.wake();
        }
        result
    }

    fn write(file: &File, mut from: UserSliceReader) -> Result<usize> {
        let count = from.len();
        let layout = file.inner.lock().layout;
        if count < layout.size().saturating_add(wire::RMPP_HEADER) {
            return Err(EINVAL);
        }
        let mut raw = [0; header::SIZE];
        from.read_slice(raw.get_mut(..layout.size()).ok_or(EINVAL)?)?;
        let header = Header::parse(&raw, layout).ok_or(EINVAL)?;
        if usize::try_from(header.id)? >= AGENTS {
            return Err(EINVAL);
        }
        let mut start = Start([0; wire::RMPP_HEADER]);
        from.read_slice(&mut start.0)?;
        file.trace(Event::Write, &header, start.mad());

        // Determine what is copied; then copy it without a lock.
        let kernel_rmpp = agent_at(&file.inner.lock().slots, header.id).ok_or(EIO)?.1;
        let Ok(plan) = Plan::new(count, layout, &start, kernel_rmpp) else {
            return Err(file.refuse(&header, None, EINVAL));
        };
        let lengths = Lengths {
            qpn: header.qpn,
            pkey_index: header.pkey_index,
            rmpp: plan.rmpp == Rmpp::Core,
            headers: plan.headers,
            data: plan.data,
            base_version: start.base_version(),
        };
        let rest = plan.copied.saturating_sub(start.0.len());
        let mut mad = match accounted::from_user(&start.0, &mut from, rest) {
            Ok(mad) => mad,
            Err(e) => return Err(file.refuse(&header, Some(&lengths), e)),
        };

        let mut inner = file.inner.lock();
        let Inner {
            slots, sends, seq, ..
        } = &mut *inner;
        // The counter does not wrap in practice.
        *seq = seq.wrapping_add(1);
        let (agent, now) = agent_at(slots, header.id).ok_or(EIO)?;
        if now != kernel_rmpp {
            // Another agent has the place.
            return Err(EIO);
        }
        let address = agent.address(&to(&header))?;
        let buffer = address.buffer(&lengths)?;
        if !start.is_response() {
            start.set_hi_tid(agent.hi_tid());
        }
        if let Some(place) = mad.first_chunk_mut() {
            *place = start.sent(plan.rmpp);
        }
        let filled = buffer.fill(&mad)?;
        drop(mad);
        let key = Key::new(&start, *seq);
        let notice = Header {
            status: bindings::ETIMEDOUT,
            ..header
        };
        let sent = KBox::new(
            Sent {
                key,
                notice: Message::new(notice, Body::TimedOut(*start.mad()))?,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        if !plan.may_repeat && repeats(sends, &key, &header) {
            return Err(EINVAL);
        }
        sends.try_create_and_insert(key, header, GFP_KERNEL_ACCOUNT)?;
        // `sent` waits for the lock.
        if let Err(e) = filled.post(header.timeout_ms, header.retries, sent) {
            sends.remove(&key);
            return Err(e);
        }
        Ok(count)
    }

    fn poll<'f>(file: &'f File, table: PollTable<'f>) -> u32 {
        table.wait_at(&file.readers);
        let inner = file.inner.lock();
        if inner.dead {
            return bindings::POLLERR;
        }
        let can = bindings::POLLOUT | bindings::POLLWRNORM;
        if inner.waiting.is_empty() {
            can
        } else {
            can | bindings::POLLIN | bindings::POLLRDNORM
        }
    }

    fn ioctl(file: ArcBorrow<'_, File>, cmd: u32, arg: usize, compat: bool) -> Result<u32> {
        match cmd {
            REGISTER_AGENT if compat => file.register(arg, Form::FirstCompat),
            REGISTER_AGENT => file.register(arg, Form::First),
            REGISTER_AGENT2 => file.register(arg, Form::Second),
            UNREGISTER_AGENT => {
                let from = UserSlice::new(UserPtr::from_addr(arg), size_of::<u32>());
                file.remove(from.reader().read()?)?;
                Ok(0)
            }
            ENABLE_PKEY => {
                let mut inner = file.inner.lock();
                if inner.used {
                    return Err(EINVAL);
                }
                inner.layout = Layout::Pkey;
                Ok(0)
            }
            _ => Err(ENOIOCTLCMD),
        }
    }
}
