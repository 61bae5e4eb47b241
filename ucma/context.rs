// SPDX-License-Identifier: GPL-2.0

//! A context: an identifier that a program has, and what it has not read of it yet.
//!
//! ```text
//!   new (Private) --published (Live)--+-- commands: find, then `with_cm`
//!                                     +-- the device is removed: work `close` (Closing)
//!                                     +-- one destroys it (Dead): end()
//! ```

use crate::file::File;
use crate::joins::Member;
use crate::proto::event;
use crate::proto::joins::Joined;
use crate::proto::life::Life;
use crate::proto::life::Lost;
use crate::proto::queue::Backlog;
use crate::proto::queue::Unread;
use core::mem;
use core::ops::Deref;
use core::ptr;
use kernel::alloc::Flags;
use kernel::impl_has_work;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::new_mutex;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::sync::SpinLock;
use kernel::sync::UniqueArc;
use kernel::workqueue::new_work;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::cm::CmId;
use rdma::list::Tag;
use rdma::list::TaggedList;
use rdma::module::Resident;
use rdma::workqueue;
use rdma::workqueue::KeepsModule;

/// What reading an event means.
pub(crate) enum Kind {
    /// Nothing else.
    Plain,
    /// A connection request: the listener may queue one more, and the program knows this context.
    Request(Arc<Context>),
    /// An event of a join, by number.
    Join(u32),
    /// An event that the program has queued.
    Written,
}

/// Lists of events: those of files, and those of contexts.
pub(crate) const OF_FILE: u64 = 0;
/// See [`OF_FILE`].
pub(crate) const OF_CONTEXT: u64 = 1;

/// An event that waits to be read. It is in the list of its file, and in that of its context.
#[pin_data]
pub(crate) struct Event {
    pub(crate) context: Arc<Context>,
    pub(crate) kind: Kind,
    pub(crate) bytes: [u8; event::SIZE],
    #[pin]
    of_file: ListLinks<OF_FILE>,
    in_file: Tag,
    #[pin]
    of_context: ListLinks<OF_CONTEXT>,
    in_context: Tag,
}

impl_list_arc_safe! {
    impl ListArcSafe<OF_FILE> for Event { untracked; }
    impl ListArcSafe<OF_CONTEXT> for Event { untracked; }
}
impl_list_item! {
    impl ListItem<OF_FILE> for Event { using ListLinks { self.of_file }; }
    impl ListItem<OF_CONTEXT> for Event { using ListLinks { self.of_context }; }
}
rdma::impl_tagged!(impl Tagged<OF_FILE> for Event { self.in_file });
rdma::impl_tagged!(impl Tagged<OF_CONTEXT> for Event { self.in_context });

/// An event that is in no list.
pub(crate) struct Loose {
    pub(crate) of_file: ListArc<Event, OF_FILE>,
    pub(crate) of_context: ListArc<Event, OF_CONTEXT>,
}

impl Deref for Loose {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.of_file
    }
}

impl Event {
    /// Creates an event. May sleep.
    #[allow(
        clippy::new_ret_no_self,
        reason = "it is in no list yet, which the type says"
    )]
    pub(crate) fn new(
        context: &Arc<Context>,
        kind: Kind,
        told: &event::Event<'_>,
        flags: Flags,
    ) -> Result<Loose> {
        let event = UniqueArc::pin_init(
            try_pin_init!(Self {
                context: context.clone(),
                kind,
                bytes <- pin_init::init_zeroed().chain(|bytes| {
                    told.write(bytes);
                    Ok(())
                }),
                of_file <- ListLinks::new(),
                in_file: Tag::new(),
                of_context <- ListLinks::new(),
                in_context: Tag::new(),
            }? Error),
            flags,
        )?;
        let (of_file, of_context) = ListArc::pair_from_pin_unique(event);
        Ok(Loose {
            of_file,
            of_context,
        })
    }
}

/// What waits at a context.
pub(crate) struct Queue {
    pub(crate) events: TaggedList<Event, OF_CONTEXT>,
    /// While the context moves to another file: its events, in place of that file's list.
    pub(crate) moving: Option<TaggedList<Event, OF_FILE>>,
    /// Connection requests that are not read.
    pub(crate) backlog: Backlog,
    /// Events of the context that are not read.
    pub(crate) unread: Unread,
    /// Number of events that the program has read.
    pub(crate) reported: u32,
    /// Number of events that the program has queued and not read.
    pub(crate) written: u32,
    /// Joins of multicast groups.
    pub(crate) joins: KVec<Joined>,
    /// The cookie of the next join.
    pub(crate) next_cookie: usize,
}

/// Where a context is.
pub(crate) struct Place {
    /// Changed under the lock of the old file, and that of the identifier.
    pub(crate) file: Arc<File>,
    pub(crate) life: Life,
}

/// A context. From when it is published until it is ended, it is in the list of its file.
#[pin_data]
pub(crate) struct Context {
    /// The number that the program knows.
    pub(crate) id: u32,
    /// The program's name of it; 0 until a connection is accepted. Read and changed under the
    /// handler lock.
    pub(crate) uid: Atomic<u64>,
    /// Whether the records of services are complete.
    pub(crate) has_services: Atomic<bool>,
    #[pin]
    pub(crate) cm: Mutex<Option<CmId<Context>>>,
    #[pin]
    pub(crate) place: SpinLock<Place>,
    #[pin]
    pub(crate) queue: Mutex<Queue>,
    #[pin]
    work: Work<Context>,
    #[pin]
    links: ListLinks,
    tag: Tag,
    resident: Resident,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Context { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Context { using ListLinks { self.links }; }
}
rdma::impl_tagged!(impl Tagged<0> for Context { self.tag });

impl_has_work! {
    impl HasWork<Self> for Context { self.work }
}

impl KeepsModule for Context {
    fn resident(&self) -> &Resident {
        &self.resident
    }
}

impl WorkItem for Context {
    type Pointer = Arc<Self>;

    /// The device is removed: it waits until nobody uses it.
    fn run(this: Arc<Self>) {
        this.place.lock().life.close();
        this.end_cm();
    }
}

/// Returns the error for a context that is not found.
fn refused(lost: Lost) -> Error {
    match lost {
        Lost::None => ENOENT,
        Lost::Foreign => EINVAL,
        Lost::Closing => ENXIO,
    }
}

impl Context {
    /// Creates a context without an identifier. May sleep.
    pub(crate) fn new(id: u32, file: Arc<File>, uid: u64, flags: Flags) -> Result<ListArc<Self>> {
        ListArc::pin_init(
            try_pin_init!(Self {
                id,
                uid: Atomic::<u64>::new(uid),
                has_services: Atomic::<bool>::new(false),
                cm <- new_mutex!(None, "Context::cm"),
                place <- new_spinlock!(Place { file, life: Life::Private }, "Context::place"),
                queue <- new_mutex!(
                    Queue {
                        events: TaggedList::new(),
                        moving: None,
                        backlog: Backlog::default(),
                        unread: Unread::default(),
                        reported: 0,
                        written: 0,
                        joins: KVec::new(),
                        next_cookie: 0,
                    },
                    "Context::queue"
                ),
                work <- new_work!("Context::work"),
                links <- ListLinks::new(),
                tag: Tag::new(),
                resident: rdma::resident!(),
            }? Error),
            flags,
        )
    }

    /// Finds a context of a file.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EINVAL` if another file has it, `ENXIO` if its device is gone.
    pub(crate) fn find(file: &File, id: u32) -> Result<Arc<Self>> {
        let context = file.shared.contexts.get(id).ok_or(ENOENT)?;
        context.check(file)?;
        Ok(context)
    }

    /// Checks whether a file finds the context.
    ///
    /// # Errors
    ///
    /// Those of [`find`](Self::find).
    pub(crate) fn check(&self, file: &File) -> Result {
        let place = self.place.lock();
        let mine = ptr::eq(&*place.file, file);
        place.life.find(mine).map_err(refused)
    }

    /// Checks whether the context is not being ended.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(crate) fn check_alive(&self) -> Result {
        match self.place.lock().life {
            Life::Dead => Err(ENOENT),
            Life::Private | Life::Live | Life::Closing => Ok(()),
        }
    }

    /// Returns its file.
    pub(crate) fn file(&self) -> Arc<File> {
        self.place.lock().file.clone()
    }

    /// Calls `f` with the identifier. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `f`; `ENXIO` or `ENOENT` if the identifier is gone.
    pub(crate) fn with_cm<R>(&self, f: impl FnOnce(&mut CmId<Self>) -> Result<R>) -> Result<R> {
        let mut cm = self.cm.lock();
        match &mut *cm {
            Some(cm) => f(cm),
            None => Err(match self.place.lock().life {
                Life::Closing => ENXIO,
                Life::Private | Life::Live | Life::Dead => ENOENT,
            }),
        }
    }

    /// Calls `f`, which asks the connection manager for something that an event answers, with the
    /// identifier. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`with_cm`](Self::with_cm); `ENOMEM` if too many events are not read.
    pub(crate) fn ask(&self, f: impl FnOnce(&mut CmId<Self>) -> Result) -> Result {
        self.with_cm(|cm| {
            // The event of a question that is just answered may be missing: one more is harmless.
            if !self.queue.lock().unread.may_ask() {
                return Err(ENOMEM);
            }
            f(cm)
        })
    }

    /// The device is removed, and waits for its identifiers: has this one destroyed.
    pub(crate) fn close_later(self: Arc<Self>) {
        if self.place.lock().life == Life::Live {
            // It is queued already, or is now.
            let _ = workqueue::enqueue_system::<Self, 0>(self);
        }
    }

    /// Begins the end for a program.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL` if another file has it.
    pub(crate) fn win(&self, file: &File) -> Result {
        let mut place = self.place.lock();
        let mine = ptr::eq(&*place.file, file);
        place.life.destroy_found(mine).map_err(refused)
    }

    /// Begins the end. Returns true for one of all callers, who calls [`end`](Self::end).
    pub(crate) fn win_any(&self) -> bool {
        self.place.lock().life.destroy()
    }

    /// Ends the context, and contexts of connection requests that the program has not read. Waits
    /// for calls and handlers. Returns the number of events that the program has read. May sleep.
    pub(crate) fn end(self: &Arc<Self>) -> u32 {
        let mut requests = List::new();
        let reported = self.end_one(&mut requests);
        while let Some(event) = requests.pop_front() {
            if let Kind::Request(context) = &event.kind {
                if context.win_any() {
                    let _: u32 = context.end_one(&mut requests);
                }
            }
        }
        reported
    }

    /// Destroys the identifier, if it is there. Waits for its handlers, under the lock: whoever does the same
    /// meanwhile waits, too.
    fn end_cm(&self) {
        let mut cm = self.cm.lock();
        if let Some(cm) = cm.take() {
            // It does not fail for identifiers of programs. This is not a handler.
            let _: Result = cm.end_and_wait();
        }
    }

    fn end_one(self: &Arc<Self>, requests: &mut List<Event, OF_CONTEXT>) -> u32 {
        self.end_cm();
        drop(workqueue::cancel(self));
        let file = self.file();
        let (mut events, joins, reported) = file.forget(self);
        while let Some(event) = events.pop_front() {
            if let Kind::Request(_) = event.kind {
                requests.push_back(event);
            }
        }
        for join in joins {
            Member::forget(&file.shared, join.id, self);
        }
        // The number is free only now.
        drop(file.shared.contexts.remove(self.id));
        reported
    }
}

impl Queue {
    /// Takes what the end of a context needs.
    pub(crate) fn take(&mut self) -> (TaggedList<Event, OF_CONTEXT>, KVec<Joined>, u32) {
        let events = mem::replace(&mut self.events, TaggedList::new());
        let joins = mem::replace(&mut self.joins, KVec::new());
        (events, joins, self.reported)
    }
}
