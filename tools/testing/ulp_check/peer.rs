// SPDX-License-Identifier: GPL-2.0

//! The ends of the connections: the listener, a client for each check, and a server for it.
//!
//! An end refers to its identifier and its queue pair, and they to it: [`Peer::close`] takes both out
//! and ends them. Handlers take the lock of `id`; whoever ends either does so without.

use crate::NAME;
use crate::SIZE;
use core::net::SocketAddr;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use kernel::time::msecs_to_jiffies;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
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
use rdma::errno::edeadlk;
use rdma::errno::eopnotsupp;
use rdma::kvec;
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

const TIMEOUT_MS: u32 = 2000;
/// How long a check waits for a step.
const PATIENCE_MS: u32 = 30_000;
/// One request at a time: a second one is refused.
const DEPTH: Depth = Depth {
    sends: 1,
    receives: 1,
    regions: 1,
    region_size: SIZE,
};
/// `IB_CM_REJ_CONSUMER_DEFINED`.
const REASON: u8 = 28;
const DATA: &[u8] = b"because";
/// The wish of a client that waits for its own handler, and never asks the server.
pub(crate) const ENTANGLE: &[u8] = b"entangle";

fn param(private: &[u8]) -> ConnParam<'_> {
    ConnParam {
        private,
        retry_count: 7,
        // Without end.
        rnr_retry_count: 7,
        ..ConnParam::default()
    }
}

/// How a connection begins.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Connected,
    Rejected {
        reason: i32,
        /// Whether the private data are the server's.
        data: bool,
    },
    /// Not at all: whether it was refused to wait for the handler in itself, for its lock, to connect, and to
    /// end the identifier.
    Entangled([bool; 3]),
}

/// A request of a client that has ended successfully.
pub(crate) enum Ended {
    Sent,
    Done(Done),
}

/// What the checks look at.
#[derive(Default)]
struct Seen {
    ends: bool,
    flush: bool,
}

#[pin_data]
pub(crate) struct Bench {
    #[pin]
    pds: Mutex<KVec<Arc<Pd>>>,
    #[pin]
    server: Mutex<Option<Arc<Peer>>>,
    #[pin]
    seen: Mutex<Seen>,
    #[pin]
    served: TimedCompletion,
}

impl Bench {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let bench = pin_init!(Self {
            pds <- new_mutex!(KVec::new(), "Bench::pds"),
            server <- new_mutex!(None, "Bench::server"),
            seen <- new_mutex!(Seen::default(), "Bench::seen"),
            served <- TimedCompletion::new(),
        });
        Arc::pin_init(bench, GFP_KERNEL)
    }

    /// Returns a protection domain of any device.
    pub(crate) fn any_pd(&self) -> Result<Arc<Pd>> {
        Ok(self.pds.lock().first().ok_or(ENODEV)?.clone())
    }

    /// Returns that of the device of an event.
    fn pd_of(&self, event: &CmEvent<'_>) -> Result<Arc<Pd>> {
        let pds = self.pds.lock();
        let mut all = pds.iter();
        let pd = all.find(|pd| pd.device().raw() == event.device());
        Ok(pd.ok_or(ENODEV)?.clone())
    }

    /// Waits for the server of the connection that was just made.
    pub(crate) fn server(&self) -> Result<Arc<Peer>> {
        if !self.served.wait(msecs_to_jiffies(PATIENCE_MS)) {
            return Err(ETIMEDOUT);
        }
        Ok(self.server.lock().as_ref().ok_or(EIO)?.clone())
    }

    pub(crate) fn has_seen_ends(&self) -> bool {
        self.seen.lock().ends
    }

    pub(crate) fn has_seen_flush(&self) -> bool {
        self.seen.lock().flush
    }

    /// Closes the server, if there is one.
    pub(crate) fn close(&self) {
        let server = self.server.lock().take();
        if let Some(server) = server {
            server.close();
        }
    }
}

rdma::static_slot!(impl for Bench: ClientSlot<Bench>);

impl Client for Bench {
    type Data = Arc<Pd>;
    const NAME: &'static CStr = NAME;

    fn add(&self, device: DeviceRef) -> Result<Arc<Pd>> {
        let pd = Pd::new(&device, NAME)?;
        self.pds.lock().push(pd.clone(), GFP_KERNEL)?;
        Ok(pd)
    }

    fn remove(&self, pd: Arc<Pd>) {
        let listed = kvec::take(&mut self.pds.lock(), |it| Arc::ptr_eq(it, &pd));
        drop(listed);
    }

    fn nl_info<'a>(&self, _: &'a Arc<Pd>, _: &DeviceRef, _: u32) -> Result<NlInfo<'a>> {
        Err(eopnotsupp())
    }
}

#[pin_data]
pub(crate) struct Peer {
    bench: Arc<Bench>,
    /// What a client asks of the server, in its private data.
    wish: &'static [u8],
    #[pin]
    id: Mutex<Option<CmId<Peer>>>,
    #[pin]
    qp: Mutex<Option<Arc<Qp<Peer>>>>,
    #[pin]
    outcome: Mutex<Option<Result<Outcome>>>,
    #[pin]
    begun: TimedCompletion,
    #[pin]
    last: Mutex<Option<Ended>>,
    #[pin]
    ended: TimedCompletion,
}

impl Peer {
    fn new(bench: &Arc<Bench>, wish: &'static [u8]) -> Result<Arc<Self>> {
        let peer = pin_init!(Self {
            bench: bench.clone(),
            wish,
            id <- new_mutex!(None, "Peer::id"),
            qp <- new_mutex!(None, "Peer::qp"),
            outcome <- new_mutex!(None, "Peer::outcome"),
            begun <- TimedCompletion::new(),
            last <- new_mutex!(None, "Peer::last"),
            ended <- TimedCompletion::new(),
        });
        Arc::pin_init(peer, GFP_KERNEL)
    }

    pub(crate) fn listen(bench: &Arc<Bench>, address: SocketAddr) -> Result<Arc<Self>> {
        let peer = Self::new(bench, &[])?;
        let mut id = CmId::create(peer.clone(), Net::init(), NAME)?;
        id.bind(SocketAddress::new(address))?;
        id.listen(4)?;
        *peer.id.lock() = Some(id);
        Ok(peer)
    }

    pub(crate) fn connect(
        bench: &Arc<Bench>,
        to: SocketAddr,
        wish: &'static [u8],
    ) -> Result<Arc<Self>> {
        let peer = Self::new(bench, wish)?;
        let mut id = CmId::create(peer.clone(), Net::init(), NAME)?;
        // An event that comes early waits until the identifier is in its place.
        let mut place = peer.id.lock();
        let from = SocketAddress([0; rdma::cm::ADDRESS]);
        id.resolve_addr(from, SocketAddress::new(to), TIMEOUT_MS)?;
        *place = Some(id);
        drop(place);
        Ok(peer)
    }

    /// Waits until the connection has begun, or not.
    pub(crate) fn wait(&self) -> Result<Outcome> {
        if !self.begun.wait(msecs_to_jiffies(PATIENCE_MS)) {
            return Err(ETIMEDOUT);
        }
        self.outcome.lock().unwrap_or(Err(EIO))
    }

    fn begin(&self, outcome: Result<Outcome>) {
        self.outcome.lock().get_or_insert(outcome);
        self.begun.complete();
    }

    /// Waits for the end of the one request that is underway.
    pub(crate) fn ended(&self) -> Result<Ended> {
        if !self.ended.wait(msecs_to_jiffies(PATIENCE_MS)) {
            return Err(ETIMEDOUT);
        }
        self.last.lock().take().ok_or(EIO)
    }

    fn end(&self, ended: Ended) {
        let before = self.last.lock().replace(ended);
        drop(before);
        self.ended.complete();
    }

    pub(crate) fn qp(&self) -> Result<Arc<Qp<Self>>> {
        Ok(self.qp.lock().as_ref().ok_or(EIO)?.clone())
    }

    /// Posts a receive.
    pub(crate) fn receive(&self) -> Result {
        let qp = self.qp()?;
        Ok(qp.receive(Buffer::new(qp.pd(), 64)?)?)
    }

    /// Ends the connection. May sleep. Not in a handler.
    pub(crate) fn close(&self) {
        let (id, qp) = (self.id.lock().take(), self.qp.lock().take());
        if let Some(id) = id {
            // This is no handler.
            let _: Result = id.end_and_wait();
        }
        drop(qp);
    }

    /// Does in a handler what would wait for the handler, and gives the identifier up. Begins with what
    /// that has shown.
    fn entangle(&self, place: &mut Option<CmId<Self>>) -> Result {
        let would_wait = |result: Result| result.err() == Some(edeadlk());
        let id = place.as_mut().ok_or(EIO)?;
        let lock = would_wait(id.lock().map(drop));
        let connect = would_wait(id.connect(&param(&[]), (0, 0)));
        let end = place.take().is_some_and(|id| would_wait(id.end_and_wait()));
        self.begin(Ok(Outcome::Entangled([lock, connect, end])));
        Ok(())
    }

    fn step(self: ArcBorrow<'_, Self>, event: &CmEvent<'_>) -> Result {
        let mut place = self.id.lock();
        let Some(id) = &mut *place else {
            // It is being closed.
            return Ok(());
        };
        match event.what() {
            What::AddrResolved if self.wish == ENTANGLE => self.entangle(&mut place),
            What::AddrResolved => {
                let pd = self.bench.pd_of(event)?;
                *self.qp.lock() = Some(id.create_qp(&pd, DEPTH, self.into())?);
                id.resolve_route(TIMEOUT_MS)
            }
            What::RouteResolved => id.connect_in_handler(event, &param(self.wish)),
            What::Established(..) => {
                self.begin(Ok(Outcome::Connected));
                Ok(())
            }
            What::Rejected(reason, private) => {
                let data = private.starts_with(DATA);
                self.begin(Ok(Outcome::Rejected { reason, data }));
                Ok(())
            }
            What::Disconnected | What::TimewaitExit => Ok(()),
            What::Failed(error) => Err(error),
            _ => Err(EIO),
        }
    }
}

impl CmUser for Peer {
    fn resident() -> Resident {
        rdma::resident!()
    }

    type After = After<Self>;

    fn event(this: ArcBorrow<'_, Self>, event: &CmEvent<'_>) -> After<Self> {
        if let Err(error) = this.step(event) {
            this.begin(Err(error));
        }
        After::Keep
    }

    fn request<'a>(
        this: ArcBorrow<'_, Self>,
        request: Request<'a, Self>,
        event: &CmEvent<'_>,
    ) -> Answered<'a> {
        let bench = &this.bench;
        let Params::Conn(_, wish) = event.params() else {
            return request.refuse(Refusal::Reject);
        };
        if wish.starts_with(b"reject") {
            // It is connected with itself.
            let (from, to) = event.gids();
            bench.seen.lock().ends = event.route().has_device && from == to && from != [0; 16];
            return request.reject(DATA, REASON);
        }
        let fails = wish.starts_with(b"fail");
        let (Ok(server), Ok(pd)) = (Self::new(bench, &[]), bench.pd_of(event)) else {
            return request.refuse(Refusal::Reject);
        };
        // Handlers of the queue pair take it, too, and so it must not be dropped under it.
        let mut place = server.id.lock();
        let accepted = request.accept(server.clone(), &param(&[]), |id| {
            let qp = id.create_qp(&pd, DEPTH, server.clone())?;
            if fails {
                qp.receive(Buffer::new(&pd, 64)?)?;
                return Err(EIO);
            }
            *server.qp.lock() = Some(qp);
            Ok(())
        });
        match accepted {
            Ok((id, answered)) => {
                *place = Some(id);
                drop(place);
                let before = bench.server.lock().replace(server);
                drop(before);
                bench.served.complete();
                answered
            }
            Err(NotAccepted { answered, qp }) => {
                drop(place);
                drop(qp);
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
        _: &Queues<Self>,
        buffer: Buffer,
        result: Result<(), Status>,
    ) {
        drop(buffer);
        if result.is_ok() {
            this.end(Ended::Sent);
        }
    }

    fn received(
        this: ArcBorrow<'_, Self>,
        _: &Queues<Self>,
        _: Buffer,
        result: Result<Received<'_>, NoMessage>,
    ) {
        let _place = this.id.lock();
        if matches!(result, Err(NoMessage::Failed(Status::FLUSHED))) {
            this.bench.seen.lock().flush = true;
        }
    }

    fn done(this: ArcBorrow<'_, Self>, _: &Queues<Self>, done: Done, result: Result<(), Status>) {
        if result.is_ok() {
            this.end(Ended::Done(done));
        }
    }
}
