// SPDX-License-Identifier: GPL-2.0

//! An end of a connection: the listener, a server for each request, or a client.
//!
//! ```text
//!   server: request -> accept -> echo ... -> disconnected
//!   client: resolve address -> resolve route -> connect -> send, compare ... -> close
//! ```
//!
//! Its identifier and its queue pair refer to it, so it exists until both are gone: it is closed by
//! taking them out of `state`. Handlers of events run under the lock of the identifier and take that
//! of `state`; whoever closes waits for them without it.

use crate::job::Job;
use crate::job::Next;
use crate::service::Service;
use crate::transfer::Transfers;
use crate::transfer::MARK;
use crate::transfer::ORDER;
use crate::NAME;
use core::net::SocketAddr;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use kernel::time::msecs_to_jiffies;
use rdma::cm::After;
use rdma::cm::Answered;
use rdma::cm::CmEvent;
use rdma::cm::CmId;
use rdma::cm::CmUser;
use rdma::cm::ConnParam;
use rdma::cm::NotAccepted;
use rdma::cm::Params;
use rdma::cm::Refusal;
use rdma::cm::Request;
use rdma::cm::SocketAddress;
use rdma::cm::What;
use rdma::errno::econnrefused;
use rdma::errno::ehostunreach;
use rdma::errno::enotconn;
use rdma::module::Resident;
use rdma::net::Net;
use rdma::sync::TimedCompletion;
use rdma::ulp::Buffer;
use rdma::ulp::Depth;
use rdma::ulp::Done;
use rdma::ulp::Ends;
use rdma::ulp::NoMessage;
use rdma::ulp::Pd;
use rdma::ulp::Qp;
use rdma::ulp::Queues;
use rdma::ulp::Received;
use rdma::ulp::Status;

/// Bytes of the largest message.
pub(crate) const SIZE: usize = 65536;
/// Number of messages of a client that have not come back.
const WINDOW: u16 = 16;
/// Number of buffers of a server. A message that finds none is repeated after 655 ms, which is the
/// connection manager's default, so there are twice as many as messages are underway: the client may
/// send the next one before the server knows that the answer has arrived.
const BUFFERS: u16 = 32;
const DEPTH: Depth = Depth {
    sends: BUFFERS,
    receives: BUFFERS,
    regions: 0,
    region_size: SIZE,
};
/// Requests that wait to be accepted.
const BACKLOG: u32 = 64;
const TIMEOUT_MS: u32 = 2000;
/// How long a client waits for its job.
const PATIENCE_MS: u32 = 60_000;
const PARAM: ConnParam<'static> = ConnParam {
    private: &[],
    // RDMA READs at a time.
    responder_resources: 4,
    initiator_depth: 4,
    flow_control: 0,
    retry_count: 7,
    // Without end: the peer posts its receives again.
    rnr_retry_count: 7,
    srq: 0,
    qp_num: 0,
    qkey: 0,
};

enum State {
    /// No identifier yet.
    New,
    Open {
        id: CmId<Peer>,
        qp: Option<Arc<Qp<Peer>>>,
    },
    Closed,
}

/// What a client sends.
struct Client {
    job: Job,
    /// Buffers that are not posted.
    spare: KVec<Buffer>,
    /// How many messages more may be underway.
    credits: u16,
}

#[pin_data]
pub(crate) struct Peer {
    service: Arc<Service>,
    #[pin]
    state: Mutex<State>,
    #[pin]
    pd: Mutex<Option<Arc<Pd>>>,
    /// Nothing at a server.
    #[pin]
    client: Mutex<Option<Client>>,
    /// If data go by RDMA.
    #[pin]
    transfers: Mutex<Option<Transfers>>,
    /// How the client's job, or the service, has ended.
    #[pin]
    result: Mutex<Option<Result>>,
    #[pin]
    done: TimedCompletion,
}

impl Peer {
    fn new(service: &Arc<Service>, job: Option<Job>, by_rdma: bool) -> Result<Arc<Self>> {
        let transfers = by_rdma.then(Transfers::new);
        let client = job.map(|job| Client {
            job,
            spare: KVec::new(),
            credits: 0,
        });
        let peer = pin_init!(Self {
            service: service.clone(),
            state <- new_mutex!(State::New, "Peer::state"),
            pd <- new_mutex!(None, "Peer::pd"),
            client <- new_mutex!(client, "Peer::client"),
            transfers <- new_mutex!(transfers, "Peer::transfers"),
            result <- new_mutex!(None, "Peer::result"),
            done <- TimedCompletion::new(),
        });
        Arc::pin_init(peer, GFP_KERNEL)
    }

    /// Listens at an address. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_bind_addr` and `rdma_listen`.
    pub(crate) fn listen(service: &Arc<Service>, address: SocketAddr) -> Result<Arc<Self>> {
        let peer = Self::new(service, None, false)?;
        let mut id = CmId::create(peer.clone(), Net::init(), NAME)?;
        id.bind(SocketAddress::new(address))?;
        id.listen(BACKLOG)?;
        *peer.state.lock() = State::Open { id, qp: None };
        Ok(peer)
    }

    /// Begins to connect to a service; see [`wait`](Self::wait). May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_resolve_addr`.
    pub(crate) fn connect(
        service: &Arc<Service>,
        to: SocketAddr,
        job: Job,
        by_rdma: bool,
    ) -> Result<Arc<Self>> {
        let peer = Self::new(service, Some(job), by_rdma)?;
        let mut id = CmId::create(peer.clone(), Net::init(), NAME)?;
        // An event that comes early waits until the identifier is in its place.
        let mut state = peer.state.lock();
        let from = SocketAddress([0; rdma::cm::ADDRESS]);
        id.resolve_addr(from, SocketAddress::new(to), TIMEOUT_MS)?;
        *state = State::Open { id, qp: None };
        drop(state);
        Ok(peer)
    }

    /// Waits until a client's job has ended. May sleep.
    ///
    /// # Errors
    ///
    /// Why it has failed.
    pub(crate) fn wait(&self) -> Result {
        if !self.done.wait(msecs_to_jiffies(PATIENCE_MS)) {
            self.finish(Err(ETIMEDOUT));
        }
        self.result.lock().unwrap_or(Err(EIO))
    }

    /// Ends a client's job or a server's service, unless it has ended before. Returns whether it had
    /// not.
    fn finish(&self, result: Result) -> bool {
        let mut ended = self.result.lock();
        if ended.is_some() {
            return false;
        }
        *ended = Some(result);
        self.done.complete();
        true
    }

    /// Takes the identifier, if there is one. None is put there afterwards.
    fn take(&self) -> Option<CmId<Self>> {
        let state = core::mem::replace(&mut *self.state.lock(), State::Closed);
        match state {
            // The identifier keeps the queue pair.
            State::Open { id, .. } => Some(id),
            State::New | State::Closed => None,
        }
    }

    /// Ends the connection, and waits until nothing of it is underway. May sleep. In a handler of the
    /// identifier, the end is only begun.
    pub(crate) fn close(&self) {
        // First: then requests that are flushed do not close it once more.
        self.finish(Err(enotconn()));
        if let Some(id) = self.take() {
            let _begun: Result = id.end_and_wait();
        }
    }

    /// Ends the connection, and tells the other end. As [`close`](Self::close).
    pub(crate) fn disconnect(&self) {
        if let Some(mut id) = self.take() {
            // The other end may have done so, or be gone.
            let _: Result = id.disconnect();
            let _begun: Result = id.end_and_wait();
        }
    }

    pub(crate) fn set_pd(&self, pd: &Arc<Pd>) {
        *self.pd.lock() = Some(pd.clone());
    }

    /// Returns whether it is on the device of this protection domain.
    pub(crate) fn is_on(&self, pd: &Arc<Pd>) -> bool {
        let mine = self.pd.lock();
        mine.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, pd))
    }

    /// Makes the queue pair, with all receives posted.
    fn open(self: ArcBorrow<'_, Self>, id: &mut CmId<Self>, pd: &Arc<Pd>) -> Result<Arc<Qp<Self>>> {
        let depth = Depth {
            regions: if self.by_rdma() && self.is_client() {
                WINDOW
            } else {
                0
            },
            ..DEPTH
        };
        // A key is good on all queue pairs of its protection domain, and keys can be guessed.
        let own = match depth.regions {
            0 => None,
            _ => Some(Pd::new(pd.device(), NAME)?),
        };
        let pd = own.as_ref().unwrap_or(pd);
        let qp = id.create_qp(pd, depth, self.into())?;
        for _ in 0..BUFFERS {
            qp.receive(Buffer::new(pd, self.message_size())?)?;
        }
        Ok(qp)
    }

    /// Takes a client a step further.
    fn step(self: ArcBorrow<'_, Self>, event: &CmEvent<'_>) -> Result {
        let mut state = self.state.lock();
        let State::Open { id, qp } = &mut *state else {
            // It is being closed.
            return Ok(());
        };
        match event.what() {
            What::AddrResolved => {
                let pd = self.service.admit(event, &self.into())?;
                *qp = Some(self.open(id, &pd)?);
                id.resolve_route(TIMEOUT_MS)
            }
            What::RouteResolved => {
                let private = if self.by_rdma() { MARK } else { &[] };
                id.connect_in_handler(event, &ConnParam { private, ..PARAM })
            }
            What::Established(..) => match qp {
                Some(qp) if self.is_client() => self.begin(qp),
                // A server echoes what comes.
                _ => Ok(()),
            },
            What::Failed(error) => Err(error),
            What::Unreachable => Err(ehostunreach()),
            What::Rejected(..) => Err(econnrefused()),
            What::Disconnected | What::DeviceRemoval => Err(enotconn()),
            What::AddrChange | What::TimewaitExit | What::Response(..) | What::Other(_) => Ok(()),
        }
    }

    /// Sends the first messages of a client.
    fn begin(&self, queues: &Queues<Self>) -> Result {
        for _ in 0..WINDOW {
            let buffer = Buffer::new(queues.pd(), self.message_size())?;
            self.send_next(queues, Some(buffer), true)?;
        }
        Ok(())
    }

    /// A client has got a buffer back, or a message has come back: sends the next messages.
    fn send_next(&self, queues: &Queues<Self>, buffer: Option<Buffer>, came_back: bool) -> Result {
        let mut client = self.client.lock();
        let Some(client) = &mut *client else {
            return Ok(());
        };
        if let Some(buffer) = buffer {
            client.spare.push(buffer, GFP_KERNEL)?;
        }
        client.credits = client.credits.saturating_add(came_back.into());
        // Under the lock: messages are sent in the order of their numbers.
        while client.credits > 0 {
            let Some(mut buffer) = client.spare.pop() else {
                break;
            };
            let job = &mut client.job;
            if let Some(transfers) = &mut *self.transfers.lock() {
                if transfers
                    .order(queues, buffer, |data| job.write(data))?
                    .is_some()
                {
                    break;
                }
            } else {
                let Some(len) = job.write(buffer.bytes_mut()) else {
                    break;
                };
                queues.send(buffer, len)?;
            }
            client.credits = client.credits.saturating_sub(1);
        }
        Ok(())
    }

    /// A message has come back to a client: checks it.
    fn check(&self, message: &mut Received<'_>, buffer: &Buffer) -> Result<Next> {
        let mut client = self.client.lock();
        let Some(Client { job, .. }) = &mut *client else {
            return Err(EIO);
        };
        match &mut *self.transfers.lock() {
            Some(transfers) => transfers.came_back(message, |data| {
                let data = data.get_mut(..job.size()).ok_or(EIO)?;
                data.iter_mut().for_each(|byte| *byte = !*byte);
                job.check(data)
            }),
            None => job.check(buffer.bytes().get(..message.len()).ok_or(EIO)?),
        }
    }

    /// A server has received a message.
    fn serve(&self, queues: &Queues<Self>, buffer: Buffer, len: usize) -> Result {
        match &mut *self.transfers.lock() {
            Some(transfers) => transfers.ordered(queues, buffer, len),
            None => Ok(queues.send(buffer, len)?),
        }
    }

    /// What was done for a connection may have failed: it ends. Requests that are flushed are such a
    /// failure, too: the queue pair may be broken while the connection manager, and the peer, keep the
    /// connection, and no event tells.
    fn after(this: ArcBorrow<'_, Self>, done: Result) {
        let Err(error) = done else {
            return;
        };
        let is_first = this.finish(Err(error));
        // Nobody waits for a server. Not here: to close waits for this handler of the queue pair.
        if is_first && !this.is_client() {
            this.service.close_later(&this.into());
        }
    }

    fn by_rdma(&self) -> bool {
        self.transfers.lock().is_some()
    }

    /// Returns the bytes of the largest message.
    fn message_size(&self) -> usize {
        if self.by_rdma() {
            ORDER
        } else {
            SIZE
        }
    }

    fn is_client(&self) -> bool {
        self.client.lock().is_some()
    }
}

impl CmUser for Peer {
    fn resident() -> Resident {
        rdma::resident!()
    }

    type After = After<Self>;

    fn event(this: ArcBorrow<'_, Self>, event: &CmEvent<'_>) -> After<Self> {
        let Err(error) = this.step(event) else {
            return After::Keep;
        };
        this.finish(Err(error));
        this.service.forget(&this.into());
        // Not if somebody is closing it, who waits for this handler.
        this.take().map_or(After::Keep, After::Destroy)
    }

    fn request<'a>(
        this: ArcBorrow<'_, Self>,
        request: Request<'a, Self>,
        event: &CmEvent<'_>,
    ) -> Answered<'a> {
        let service = &this.service;
        let (by_rdma, reads) = match event.params() {
            Params::Conn(conn, private) => (private.starts_with(MARK), conn.initiator_depth()),
            Params::Ud(..) => (false, 0),
        };
        if by_rdma && reads == 0 {
            // The data could not be read.
            return request.refuse(Refusal::Reject);
        }
        // No more RDMA READs at a time than the client has room for.
        let param = ConnParam {
            initiator_depth: PARAM.initiator_depth.min(reads),
            ..PARAM
        };
        let Ok(server) = Self::new(service, None, by_rdma) else {
            return request.refuse(Refusal::Silent);
        };
        // Whoever closes it waits until the identifier is in its place.
        let mut state = server.state.lock();
        let Ok(pd) = service.admit(event, &server) else {
            return request.refuse(Refusal::Reject);
        };
        let mut qp = None;
        let accepted = request.accept(server.clone(), &param, |id| {
            qp = Some(server.as_arc_borrow().open(id, &pd)?);
            Ok(())
        });
        match accepted {
            Ok((id, answered)) => {
                *state = State::Open { id, qp };
                answered
            }
            Err(NotAccepted { answered, qp: made }) => {
                drop(state);
                server.finish(Err(enotconn()));
                // Not under the lock: the last one waits for its handlers.
                drop((qp, made));
                service.forget(&server);
                answered
            }
        }
    }
}

impl Ends for Peer {
    fn resident() -> Resident {
        rdma::resident!()
    }

    fn sent(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        buffer: Buffer,
        result: Result<(), Status>,
    ) {
        let done = match result {
            Err(Status::FLUSHED) => Err(enotconn()),
            Err(_) => Err(EIO),
            Ok(()) if this.is_client() => this.send_next(queues, Some(buffer), false),
            Ok(()) => queues.receive(buffer).map_err(Error::from),
        };
        Self::after(this, done);
    }

    fn received(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        buffer: Buffer,
        result: Result<Received<'_>, NoMessage>,
    ) {
        let done = match result {
            Err(NoMessage::Failed(Status::FLUSHED)) => Err(enotconn()),
            // The protocol has no RDMA WRITE with immediate data.
            Err(NoMessage::Failed(_) | NoMessage::Written) => Err(EIO),
            Ok(mut message) if this.is_client() => match this.check(&mut message, &buffer) {
                Ok(Next::Done) => {
                    this.finish(Ok(()));
                    return;
                }
                Ok(Next::More) => queues
                    .receive(buffer)
                    .map_err(Error::from)
                    .and_then(|()| this.send_next(queues, None, true)),
                Err(error) => Err(error),
            },
            Ok(message) => this.serve(queues, buffer, message.len()),
        };
        Self::after(this, done);
    }

    fn done(
        this: ArcBorrow<'_, Self>,
        queues: &Queues<Self>,
        done: Done,
        result: Result<(), Status>,
    ) {
        let done = match (&mut *this.transfers.lock(), result) {
            (None, _) => return,
            (_, Err(Status::FLUSHED)) => Err(enotconn()),
            (_, Err(_)) => Err(EIO),
            (Some(transfers), Ok(())) => match done {
                Done::Read(data) => transfers.read(queues, data),
                Done::Written(data) => transfers.written(queues, data),
                Done::Exposed | Done::Invalidated(..) | Done::NotInvalidated => Ok(()),
            },
        };
        Self::after(this, done);
    }
}
