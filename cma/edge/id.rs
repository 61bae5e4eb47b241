// SPDX-License-Identifier: GPL-2.0

//! An ID: `struct rdma_id_private`, which begins with the `struct rdma_cm_id` of consumers, and
//! our own data behind it.
//!
//! Of the C structure, consumers and the core read addresses, state, device, port, queue pair and
//! paths. Own data is the truth; methods here mirror it. Consumers write context, handler and `qp`.
//! Must match `drivers/infiniband/core/cma_priv.h` and `include/rdma/rdma_cm.h`.
//!
//! References: each `Id` is in an `Arc`. The consumer has one reference, from [`Id::give`] to
//! [`Id::reclaim`]; the tables of ports and devices have others, until the ID is destroyed.
//!
//! Locks: `handler`, which consumers also take, then those of the tables, then `inner`. `qp` is taken
//! under `handler` or alone, `starts` alone, `children` under `starts` or alone, `tracked` under
//! `handler`, `starts` or alone.

use super::core::Gid;
use super::transport::Transport;
use crate::device::Attached;
use crate::mcast::Membership;
use crate::private;
use crate::proto::addr::Address;
use crate::proto::addr::Family;
use crate::proto::addr::LONGEST;
use crate::proto::event::Status;
use crate::proto::option::Options;
use crate::proto::option::QpType;
use crate::proto::state::Cause;
use crate::proto::state::Life;
use crate::proto::state::Tracked;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::types::Opaque;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::Within;
use rdma::list::Tag;
use rdma::net::CountedNet;
use rdma::sync::SpinLockIrq;
use rdma::workqueue::QueueLease;

mod lock;

pub(crate) use self::lock::HandlerGuard;
pub(crate) use self::lock::Locked;

rdma::c_struct! {
    /// The words of an ID that C reads, too.
    pub(crate) struct Words: private::rdma_id_private;
    fields {
        /// `enum rdma_cm_state`.
        racy state: u32, set_state;
        /// Number of the queue pair.
        racy qp_num: u32, set_qp_num;
        /// Port of the device.
        racy port_num at id.port_num: u32, set_port_num;
        /// `enum rdma_ucm_port_space`.
        racy port_space at id.ps: u32;
        /// `enum ib_qp_type`.
        racy qp_type at id.qp_type: u32;
        /// The network interface; 0 for any.
        racy bound_dev_if at id.route.addr.dev_addr.bound_dev_if: i32, set_bound_dev_if;
        /// `enum rdma_network_type`.
        racy network at id.route.addr.dev_addr.network: u32;
        /// Hop limit of the route.
        racy hop_limit at id.route.addr.dev_addr.hoplimit: i32;
        /// `enum rdma_transport_type`.
        racy transport at id.route.addr.dev_addr.transport: u32, set_transport;
        /// Number of paths, with alternate ones.
        racy num_paths at id.route.num_pri_alt_paths: i32, set_num_paths;
        /// Number of service records.
        racy num_service_recs at id.route.num_service_recs: u32, set_num_service_recs;
    }
}

/// The consumer's handler and context.
#[derive(Clone, Copy)]
pub(crate) struct Consumer {
    handler: bindings::rdma_cm_event_handler,
    context: *mut c_void,
}

// SAFETY: The pointers are only passed on, to the handler.
unsafe impl Send for Consumer {}
// SAFETY: As for `Send`: only passed on.
unsafe impl Sync for Consumer {}

impl Consumer {
    /// None, for internal IDs, which are asked nothing.
    pub(crate) const NONE: Self = Self {
        handler: None,
        context: ptr::null_mut(),
    };

    /// # Safety
    ///
    /// `handler` may be called with IDs that have this context, until they are destroyed.
    pub(crate) unsafe fn new(
        handler: bindings::rdma_cm_event_handler,
        context: *mut c_void,
    ) -> Self {
        Self { handler, context }
    }
}

/// Why an ID exists.
pub(crate) enum Kind {
    /// A module made it.
    Plain,
    /// A program made it, by `rdma_ucm`.
    Program,
    /// For a peer's request.
    Request,
    /// Listens on one device for the listener here, which has no address.
    Internal(Arc<Id>),
}

/// Whether a listener may get internal IDs.
#[derive(Default)]
pub(crate) struct Starts {
    /// The listener is closed: no further ones.
    pub(crate) closed: bool,
}

/// Own data of an ID.
pub(crate) struct Inner {
    pub(crate) life: Life,
    pub(crate) options: Options,
    pub(crate) source: Address,
    pub(crate) destination: Address,
    pub(crate) afonly: bool,
    pub(crate) backlog: c_int,
    /// A listener without address has begun to listen on all devices: its consumer gets requests.
    pub(crate) open: bool,
    pub(crate) device: Option<Attached>,
    /// The GID of the local address.
    pub(crate) gid: Option<Gid>,
    pub(crate) transport: Option<Transport>,
    /// The port space and port that it owns.
    pub(crate) port: Option<crate::ports::Key>,
    pub(crate) qkey: u32,
    pub(crate) srq: bool,
    pub(crate) ece: (u32, u32),
    /// What the work item delivers.
    pub(crate) queued: Option<(Cause, Status)>,
    /// An address was resolved by IP: a request may have to be cancelled before the next one.
    pub(crate) asked: bool,
    /// The reference that a request to resolve an address has to this ID.
    pub(super) resolving: Option<Arc<Id>>,
    /// The query for its path.
    pub(crate) query: Option<super::sa::Query>,
    /// Its key in the list of peers.
    pub(crate) listed: Option<crate::news::Key>,
    /// The consumer has a reference.
    given: bool,
    paths: KVec<bindings::sa_path_rec>,
    /// Paths of data from the peer, and to it, if these are others. Set once.
    one_way: [Option<KBox<bindings::sa_path_rec>>; 2],
    /// Set once.
    service_recs: KVec<bindings::sa_service_rec>,
}

/// An ID. See the [module](self).
///
/// # Invariants
///
/// It is in an [`Arc`]. The C structure is initialised: a restrack entry, and a `dev_addr` with the
/// namespace `net`. `path_rec`, `path_rec_inbound`, `path_rec_outbound` and `service_recs` are null or
/// point to what `Inner` owns.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct Id {
    #[pin]
    c: Opaque<private::rdma_id_private>,
    #[pin]
    handler: Mutex<()>,
    // Consumers call `rdma_notify` in any context.
    #[pin]
    inner: SpinLockIrq<Inner>,
    #[pin]
    pub(crate) qp: Mutex<()>,
    /// Held while the list for users changes.
    #[pin]
    tracked: Mutex<Tracked>,
    #[pin]
    pub(crate) starts: Mutex<Starts>,
    /// The internal IDs of a listener. Requests look at them, so the lock is held briefly.
    #[pin]
    pub(crate) children: Mutex<KVec<Arc<Id>>>,
    /// Multicast groups, oldest first.
    #[pin]
    pub(crate) groups: Mutex<KVec<Arc<Membership>>>,
    /// Groups of which the consumer is to be told.
    #[pin]
    pub(crate) news: Mutex<KVec<Arc<Membership>>>,
    #[pin]
    work: Work<Id>,
    /// For the list of the device that it is attached to.
    #[pin]
    links: ListLinks,
    #[pin]
    tracker: AtomicTracker,
    tag: Tag,
    net: ARef<CountedNet>,
    pub(crate) kind: Kind,
    /// The peer has another hardware address; the consumer is not told yet.
    pub(crate) lost: Atomic<bool>,
    /// The network device has another hardware address; the consumer is not told yet.
    pub(crate) moved: Atomic<bool>,
    /// Starting packet sequence number.
    pub(crate) seq_num: u32,
    queue: QueueLease,
}

// SAFETY: The C structure is accessed by words, or under locks, as the methods say; all else is
// `Send`.
unsafe impl Send for Id {}
// SAFETY: As for `Send`.
unsafe impl Sync for Id {}

kernel::impl_has_work! {
    impl HasWork<Self> for Id { self.work }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Id { tracked_by tracker: AtomicTracker; }
}
impl_list_item! {
    impl ListItem<0> for Id { using ListLinks { self.links }; }
}
rdma::impl_tagged!(impl Tagged<0> for Id { self.tag });

impl WorkItem for Id {
    type Pointer = Arc<Id>;

    fn run(this: Arc<Id>) {
        crate::deliver::queued(&this);
    }
}

impl Id {
    /// Creates an ID. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        net: ARef<CountedNet>,
        consumer: Consumer,
        kind: Kind,
        port_space: u32,
        qp_type: u32,
    ) -> Result<Arc<Self>> {
        let life = match &kind {
            Kind::Plain | Kind::Program => Life::new(),
            Kind::Request => Life::passive(),
            Kind::Internal(_) => Life::internal(),
        };
        let (name, key) = if matches!(kind, Kind::Request) {
            // A listener's lock is held when that of a request is taken.
            (c"Id::handler (request)", kernel::static_lock_class!())
        } else {
            (c"Id::handler", kernel::static_lock_class!())
        };
        let queue = crate::queue()?;
        let raw_net = net.as_raw();
        // CAST: 24 bits remain.
        // SAFETY: The function has no preconditions.
        let seq_num = unsafe { bindings::get_random_u32() } & 0x00ff_ffff;
        // Made in its place, as it is large.
        let inner = init!(Inner {
            life,
            options: Options::default(),
            source: Family::V4.unspecified(),
            destination: Family::V4.unspecified(),
            afonly: false,
            backlog: 0,
            open: false,
            device: None,
            gid: None,
            transport: None,
            port: None,
            qkey: 0,
            srq: false,
            ece: (0, 0),
            queued: None,
            asked: false,
            resolving: None,
            query: None,
            listed: None,
            given: false,
            paths: KVec::new(),
            one_way: [None, None],
            service_recs: KVec::new(),
        });
        let state = life.state().raw();
        Arc::pin_init(
            pin_init!(Self {
                c <- Opaque::ffi_init(|c: *mut private::rdma_id_private| {
                    // SAFETY: The memory is new, and has the size of the structure. Zeros are valid
                    // for all its fields.
                    unsafe {
                        c.write_bytes(0, 1);
                        (*c).state = state;
                        (*c).id.context = consumer.context;
                        (*c).id.event_handler = consumer.handler;
                        (*c).id.ps = port_space;
                        (*c).id.qp_type = qp_type;
                        (*c).id.route.addr.dev_addr.net = raw_net;
                        private::rdma_restrack_new(
                            &raw mut (*c).res,
                            bindings::rdma_restrack_type_RDMA_RESTRACK_CM_ID,
                        );
                    }
                }),
                handler <- Mutex::new((), name, key),
                inner <- rdma::new_spinlock_irq!(inner, "Id::inner"),
                qp <- kernel::new_mutex!((), "Id::qp"),
                tracked <- kernel::new_mutex!(Tracked::No, "Id::tracked"),
                starts <- kernel::new_mutex!(Starts::default(), "Id::starts"),
                children <- kernel::new_mutex!(KVec::new(), "Id::children"),
                groups <- kernel::new_mutex!(KVec::new(), "Id::groups"),
                news <- kernel::new_mutex!(KVec::new(), "Id::news"),
                work <- kernel::new_work!("Id::work"),
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                tag: Tag::new(),
                net,
                kind,
                lost: Atomic::new(false),
                moved: Atomic::new(false),
                seq_num,
                queue,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the C structure.
    pub(super) fn c(&self) -> *mut private::rdma_id_private {
        self.c.get()
    }

    /// Returns the words that C reads, too.
    pub(crate) fn words(&self) -> &Words {
        // SAFETY: The structure exists as long as the ID, and is initialised (type invariant).
        unsafe { rdma::edge::View::view(self.c()) }
    }

    /// Returns the consumer's part.
    pub(crate) fn as_raw(&self) -> *mut bindings::rdma_cm_id {
        self.c().cast()
    }

    /// Returns a counted reference.
    pub(crate) fn counted(&self) -> Arc<Self> {
        // SAFETY: The ID is in an `Arc` (type invariant), which is not dropped here.
        let this = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(self) });
        Arc::clone(&this)
    }

    /// The namespace.
    pub(crate) fn net(&self) -> &CountedNet {
        &self.net
    }

    /// Another reference to the namespace.
    pub(crate) fn net_ref(&self) -> ARef<CountedNet> {
        self.net.clone()
    }

    /// The type of the queue pair.
    pub(crate) fn qp_type(&self) -> QpType {
        QpType::from_raw(self.words().qp_type())
    }

    /// Gives a reference to the consumer.
    pub(crate) fn give(this: Arc<Self>) -> *mut bindings::rdma_cm_id {
        this.with(|inner| inner.given = true);
        let raw = this.as_raw();
        let _kept_by_consumer = Arc::into_raw(this);
        raw
    }

    /// Takes the consumer's reference back, if it has one.
    pub(crate) fn reclaim(&self) -> Option<Arc<Self>> {
        if !self.with(|inner| core::mem::take(&mut inner.given)) {
            return None;
        }
        // SAFETY: `give` has left this reference to the consumer, which is taken once (`given`).
        Some(unsafe { Arc::from_raw(self) })
    }

    /// Accesses own data, and mirrors the state. Any context, so nothing may be dropped here whose
    /// drop may not be in any.
    pub(crate) fn with<T>(&self, access: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = access(&mut inner);
        self.words().set_state(inner.life.state().raw());
        result
    }

    /// Looks at own data. Any context; nothing is dropped.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.lock())
    }

    /// Queues the delivery of an event. Before it is delivered there is no other, because the state
    /// has only one query.
    pub(crate) fn queue(this: &Arc<Self>, cause: Cause, status: Status) {
        this.with(|inner| inner.queued = Some((cause, status)));
        Self::wake(this);
    }

    /// Queues the work item.
    pub(crate) fn wake(this: &Arc<Self>) {
        // It is refused if it is queued and did not begin; then it finds the new cause.
        let _refused = this.queue.enqueue(this.clone());
    }

    /// Sets the local address.
    pub(crate) fn set_source(&self, addr: Address) {
        self.with(|inner| {
            inner.source = addr;
            // SAFETY: The field is part of the ID; consumers do not write it. The bytes behind the
            // longest address stay zero.
            unsafe {
                (&raw mut (*self.c()).id.route.addr.src_addr)
                    .cast::<[u8; LONGEST]>()
                    .write_volatile(addr.to_longest());
            }
        });
    }

    /// Sets the remote address.
    pub(crate) fn set_destination(&self, addr: Address) {
        self.with(|inner| {
            inner.destination = addr;
            // SAFETY: As in `set_source`.
            unsafe {
                (&raw mut (*self.c()).id.route.addr.dst_addr)
                    .cast::<[u8; LONGEST]>()
                    .write_volatile(addr.to_longest());
            }
        });
    }

    /// Returns local and remote address.
    pub(crate) fn addrs(&self) -> (Address, Address) {
        self.look(|inner| (inner.source, inner.destination))
    }

    /// Mirrors the type of service, for tracepoints.
    pub(crate) fn mirror_tos(&self, tos: u8) {
        // SAFETY: The field is part of the ID; consumers do not write it.
        unsafe { (&raw mut (*self.c()).tos).write_volatile(tos) };
    }

    /// Mirrors the device.
    pub(crate) fn set_device(&self, device: Option<&DeviceRef>) {
        let device = device.map_or(ptr::null_mut(), DeviceRef::raw);
        // SAFETY: The field is part of the ID; consumers do not write it.
        unsafe { (&raw mut (*self.c()).id.device).write_volatile(device) };
    }

    /// Mirrors the GID entry.
    pub(crate) fn set_sgid(&self, gid: Option<&Gid>) {
        let attr = gid.map_or(ptr::null(), Gid::as_raw);
        // SAFETY: The field is part of the ID; only `rdma_cm` writes it.
        unsafe { (&raw mut (*self.c()).id.route.addr.dev_addr.sgid_attr).write_volatile(attr) };
    }

    /// The paths become these.
    pub(crate) fn set_paths(&self, paths: KVec<bindings::sa_path_rec>) {
        // CAST, OVERFLOW: At most two.
        let count = paths.len() as i32;
        let old = self.with(|inner| {
            let old = core::mem::replace(&mut inner.paths, paths);
            let first = if count == 0 {
                ptr::null_mut()
            } else {
                inner.paths.as_mut_ptr()
            };
            // SAFETY: The field is part of the ID. INVARIANT: It points to the first path.
            unsafe { (&raw mut (*self.c()).id.route.path_rec).write_volatile(first) };
            self.words().set_num_paths(count);
            old
        });
        drop(old);
    }

    /// Makes a place for a path that [`fill_path`](Self::fill_path) sets later. `path_rec` points to
    /// it, but the number of paths is 0 until then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve_path(&self) -> Result {
        if !self.path_rec().is_null() {
            return Ok(());
        }
        let mut paths = KVec::with_capacity(1, GFP_KERNEL)?;
        paths.push(bindings::sa_path_rec::default(), GFP_KERNEL)?;
        self.set_paths(paths);
        self.words().set_num_paths(0);
        Ok(())
    }

    /// The first path becomes this one.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no place for it.
    pub(crate) fn fill_path(&self, path: bindings::sa_path_rec) -> Result {
        self.with(|inner| {
            *inner.paths.first_mut().ok_or(EINVAL)? = path;
            self.words().set_num_paths(1);
            Ok(())
        })
    }

    /// The paths, for calls that read them while the state is one in which they are not set; null
    /// without any.
    pub(super) fn path_rec(&self) -> *mut bindings::sa_path_rec {
        // SAFETY: The field is part of the ID.
        unsafe { (&raw const (*self.c()).id.route.path_rec).read_volatile() }
    }

    /// The paths of data from the peer, and to it, become these, if they are given. They are read
    /// without locks, so they are set once; see [`State::RouteQuery`](crate::proto::state::State).
    pub(crate) fn set_one_way_paths(&self, paths: [Option<KBox<bindings::sa_path_rec>>; 2]) {
        let old = self.with(|inner| {
            let old = core::mem::replace(&mut inner.one_way, paths);
            let [inbound, outbound] = &mut inner.one_way;
            let at = |path: &mut Option<KBox<bindings::sa_path_rec>>| {
                path.as_mut()
                    .map_or(ptr::null_mut(), |path| &raw mut **path)
            };
            // SAFETY: The fields are part of the ID. INVARIANT: They point to what `Inner` owns.
            unsafe {
                (&raw mut (*self.c()).id.route.path_rec_inbound).write_volatile(at(inbound));
                (&raw mut (*self.c()).id.route.path_rec_outbound).write_volatile(at(outbound));
            }
            old
        });
        drop(old);
    }

    /// The paths of data from the peer, and to it, as [`path_rec`](Self::path_rec).
    pub(super) fn one_way_paths(&self) -> [*mut bindings::sa_path_rec; 2] {
        // SAFETY: The fields are part of the ID.
        unsafe {
            [
                (&raw const (*self.c()).id.route.path_rec_inbound).read_volatile(),
                (&raw const (*self.c()).id.route.path_rec_outbound).read_volatile(),
            ]
        }
    }

    /// The service records become these. They are read without locks, so they are set once.
    ///
    /// # Errors
    ///
    /// `EALREADY`: there are some.
    pub(crate) fn set_service_recs(&self, recs: KVec<bindings::sa_service_rec>) -> Result {
        let count = u32::try_from(recs.len()).map_err(|_| EINVAL)?;
        let refused = self.with(|inner| {
            if !inner.service_recs.is_empty() {
                return Some(recs);
            }
            inner.service_recs = recs;
            let first = inner.service_recs.as_mut_ptr();
            // SAFETY: The field is part of the ID. INVARIANT: It points to the first record.
            unsafe { (&raw mut (*self.c()).id.route.service_recs).write_volatile(first) };
            self.words().set_num_service_recs(count);
            None
        });
        match refused {
            None => Ok(()),
            Some(recs) => {
                drop(recs);
                Err(rdma::errno::ealready())
            }
        }
    }

    /// The queue pair that the consumer made through us, or set; null for none. Under `qp`.
    pub(super) fn qp_ptr(&self) -> *mut bindings::ib_qp {
        // SAFETY: The field is part of the ID.
        unsafe { (&raw const (*self.c()).id.qp).read_volatile() }
    }

    /// Whether there is a queue pair that we move.
    pub(crate) fn has_qp(&self) -> bool {
        !self.qp_ptr().is_null()
    }

    pub(super) fn set_qp_ptr(&self, qp: *mut bindings::ib_qp) {
        // SAFETY: The field is part of the ID; consumers change it in no race with these calls.
        unsafe { (&raw mut (*self.c()).id.qp).write_volatile(qp) };
    }

    /// What a listener's consumer gave, for IDs of requests.
    pub(crate) fn consumer(&self) -> Consumer {
        // SAFETY: The fields are part of the ID. Consumers write them when no event can be
        // delivered.
        unsafe {
            Consumer {
                handler: (&raw const (*self.c()).id.event_handler).read_volatile(),
                context: (&raw const (*self.c()).id.context).read_volatile(),
            }
        }
    }

    /// Copies the name of the owner from a listener.
    pub(crate) fn name_from(&self, parent: &Self) {
        // SAFETY: Both entries are initialised (type invariant).
        unsafe {
            private::rdma_restrack_parent_name(
                &raw mut (*self.c()).res,
                &raw const (*parent.c()).res,
            )
        };
    }

    /// Lists the ID for users, if it is attached to a device. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is being destroyed.
    pub(crate) fn track(&self) -> Result {
        let mut tracked = self.tracked.lock();
        if tracked.begin().map_err(super::errno)? {
            // SAFETY: The entry is initialised (type invariant), and is not listed. Before the ID is
            // freed it is destroyed, which takes it out of the list (`untrack`).
            unsafe { private::rdma_restrack_add(&raw mut (*self.c()).res) };
        }
        Ok(())
    }

    /// Ends [`track`](Self::track), also if the ID was not listed, and refuses it from now on. Waits
    /// for users who look at the ID. Before the ID is detached from its device.
    pub(crate) fn untrack(&self) {
        let mut tracked = self.tracked.lock();
        tracked.end();
        // SAFETY: The entry is initialised (type invariant).
        unsafe { private::rdma_restrack_del(&raw mut (*self.c()).res) };
    }
}

#[pinned_drop]
impl PinnedDrop for Id {
    fn drop(self: Pin<&mut Self>) {}
}

// SAFETY: `from_c`'s contract: an ID of ours, which is not destroyed during the call.
unsafe impl FromC for &Id {
    type C = *mut bindings::rdma_cm_id;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Consumers have IDs from `give`, which begin with the structure that they see.
        unsafe { &*c.cast() }
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for &'a Id {}

/// Creates IDs for consumers.
pub(crate) struct Make;

impl Make {
    /// Creates an ID for a consumer.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create(
        handler: Handler,
        context: rdma::edge::Passed<c_void>,
        net: ARef<CountedNet>,
        port_space: u32,
        qp_type: u32,
        (kind, caller): (Kind, Option<&CStr>),
    ) -> Result<Given> {
        let context = context.as_ptr().cast_mut();
        // SAFETY: The consumer's handler may be called with its IDs (`rdma_cm.h`).
        let consumer = unsafe { Consumer::new(handler.0, context) };
        let id = Id::new(net, consumer, kind, port_space, qp_type)?;
        let name = caller.map_or(ptr::null(), |name| name.as_char_ptr());
        // SAFETY: The entry is initialised. Names of modules stay as long as the module's IDs.
        unsafe { private::rdma_restrack_set_name(&raw mut (*id.c()).res, name) };
        Ok(Given(id))
    }
}

/// A consumer's handler.
pub(crate) struct Handler(bindings::rdma_cm_event_handler);

// SAFETY: `from_c`'s contract: the handler may be called with IDs that are made with it.
unsafe impl FromC for Handler {
    type C = bindings::rdma_cm_event_handler;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: The type contains no reference.
unsafe impl Within<'_> for Handler {}

/// A new ID, which its consumer gets.
pub(crate) struct Given(Arc<Id>);

impl AnswerOk for Given {
    type C = *mut bindings::rdma_cm_id;

    fn ok(self) -> Self::C {
        Id::give(self.0)
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// The place of an ID as the context of a transport's callbacks.
pub(super) fn context(id: &Arc<Id>) -> *mut c_void {
    Arc::as_ptr(id).cast_mut().cast()
}

/// The ID of a context.
///
/// # Safety
///
/// `context` is that of an ID which exists.
pub(super) unsafe fn of_context(context: *mut c_void) -> Option<Arc<Id>> {
    let id = NonNull::new(context.cast::<Id>())?;
    // SAFETY: It exists (contract of this function).
    Some(unsafe { id.as_ref() }.counted())
}
