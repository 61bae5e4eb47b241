// SPDX-License-Identifier: GPL-2.0

//! An open file: its contexts, and the queue of their events.
//!
//! ```text
//!   Inner::contexts:      Context         Context
//!   Queue::events:         |     \           |
//!   Inner::events:      Event -- Event -- Event
//! ```
//!
//! A program reads events of all contexts in the order in which they occurred. Removing a context,
//! or moving it to another file, touches its own events only.

use crate::command;
use crate::context::Context;
use crate::context::Event;
use crate::context::Kind;
use crate::context::Loose;
use crate::context::Queue;
use crate::context::OF_CONTEXT;
use crate::context::OF_FILE;
use crate::proto::joins;
use crate::proto::joins::Joined;
use crate::proto::life::Life;
use crate::proto::life::Lost;
use crate::proto::queue::WRITTEN;
use crate::Shared;
use core::mem;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::chrdev::PollTable;
use rdma::list::TaggedList;
use rdma::misc::AnnouncedSlot;
use rdma::misc::Call;
use rdma::misc::MiscFiles;
use rdma::sync::new_wait_queue;
use rdma::sync::WaitQueue;

/// An open file.
#[pin_data]
pub(crate) struct File {
    pub(crate) shared: Arc<Shared>,
    #[pin]
    inner: Mutex<Inner>,
    /// Waiters for events.
    #[pin]
    readers: WaitQueue,
}

/// What the lock of a file protects.
pub(crate) struct Inner {
    /// Events of its contexts that are not read, oldest first.
    events: TaggedList<Event, OF_FILE>,
    /// All contexts that were published and are not being ended.
    contexts: TaggedList<Context>,
    /// Number of events that the program has queued and not read.
    written: u32,
}

impl Inner {
    /// The list that has the events of a context, beside its own.
    fn list<'a>(
        &'a mut self,
        moving: &'a mut Option<TaggedList<Event, OF_FILE>>,
    ) -> &'a mut TaggedList<Event, OF_FILE> {
        moving.as_mut().unwrap_or(&mut self.events)
    }

    /// Queues an event of a context of the file.
    fn insert(&mut self, queue: &mut Queue, event: Loose) {
        if let Kind::Plain = event.kind {
            queue.unread.queued();
        }
        self.list(&mut queue.moving).push_back(event.of_file);
        queue.events.push_back(event.of_context);
    }

    /// Takes the first event, which the program reads.
    fn pop(&mut self) -> Option<Loose> {
        let of_file = self.events.pop_front()?;
        let mut queue = of_file.context.queue.lock();
        // There, as an event is in both lists or in none.
        let of_context = queue.events.remove(&of_file)?;
        queue.reported = queue.reported.wrapping_add(1);
        match &of_file.kind {
            Kind::Plain => queue.unread.read(),
            // The place of a request is free once the program has read it.
            Kind::Request(_) => {}
            Kind::Join(id) => {
                if let Some(join) = join(&mut queue, *id) {
                    join.reported = join.reported.wrapping_add(1);
                }
            }
            Kind::Written => {
                queue.written = queue.written.saturating_sub(1);
                self.written = self.written.saturating_sub(1);
            }
        }
        drop(queue);
        Some(Loose {
            of_file,
            of_context,
        })
    }

    /// Reverses [`pop`](Self::pop). Returns the event if the file does not have the context any
    /// more.
    fn unpop(&mut self, event: Loose) -> Result<(), Loose> {
        let context = event.context.clone();
        if !self.contexts.contains(&context) {
            return Err(event);
        }
        let mut queue = context.queue.lock();
        queue.reported = queue.reported.wrapping_sub(1);
        match &event.kind {
            Kind::Plain => queue.unread.queued(),
            Kind::Request(_) => {}
            Kind::Join(id) => match join(&mut queue, *id) {
                Some(join) => join.reported = join.reported.wrapping_sub(1),
                // The program has left the group.
                None => return Ok(()),
            },
            Kind::Written => {
                queue.written = queue.written.saturating_add(1);
                self.written = self.written.saturating_add(1);
            }
        }
        self.list(&mut queue.moving).push_front(event.of_file);
        queue.events.push_front(event.of_context);
        Ok(())
    }
}

fn join(queue: &mut Queue, id: u32) -> Option<&mut Joined> {
    let at = joins::by_id(&queue.joins, id)?;
    queue.joins.get_mut(at)
}

/// Why an event was not queued.
pub(crate) enum NotQueued {
    /// The context has moved to another file.
    Moved(Loose),
    /// The event was refused.
    Refused,
}

/// What a context takes along when it moves to another file.
pub(crate) struct Moving {
    own: Option<ListArc<Context>>,
    written: u32,
    was: Arc<File>,
}

impl File {
    /// Returns whether a context has not moved; the lock of this file is held, under which it would
    /// move to another.
    fn has(&self, context: &Context) -> bool {
        core::ptr::eq(&*context.place.lock().file, self)
    }

    /// Queues an event, if `check` agrees.
    fn try_push(
        &self,
        context: &Context,
        event: Loose,
        check: impl FnOnce(&mut Inner, &mut Queue) -> bool,
    ) -> Result<(), NotQueued> {
        let mut inner = self.inner.lock();
        if !self.has(context) {
            drop(inner);
            return Err(NotQueued::Moved(event));
        }
        let mut queue = context.queue.lock();
        if !check(&mut inner, &mut queue) {
            drop(queue);
            drop(inner);
            return Err(NotQueued::Refused);
        }
        inner.insert(&mut queue, event);
        drop(queue);
        drop(inner);
        self.readers.wake();
        Ok(())
    }

    /// Queues an event of a context at the file that has it, if `check` agrees. Returns whether it
    /// did.
    ///
    /// A listener may move meanwhile: on a wildcard address its handlers do not run under its own
    /// handler lock, but under those of hidden identifiers, one for each device.
    pub(crate) fn push(
        context: &Context,
        mut event: Loose,
        check: impl Fn(&mut Queue) -> bool,
    ) -> bool {
        loop {
            let tried = context
                .file()
                .try_push(context, event, |_, queue| check(queue));
            match tried {
                Ok(()) => return true,
                Err(NotQueued::Refused) => return false,
                Err(NotQueued::Moved(back)) => event = back,
            }
        }
    }

    /// Queues an event that the program has written.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there are too many.
    pub(crate) fn push_written(context: &Context, mut event: Loose) -> Result {
        loop {
            let tried = context.file().try_push(context, event, |inner, queue| {
                if inner.written >= WRITTEN {
                    return false;
                }
                inner.written = inner.written.saturating_add(1);
                queue.written = queue.written.saturating_add(1);
                true
            });
            match tried {
                Ok(()) => return Ok(()),
                Err(NotQueued::Refused) => return Err(ENOMEM),
                Err(NotQueued::Moved(back)) => event = back,
            }
        }
    }

    /// Adds the context of a connection request, which `publish` makes known to programs, to the
    /// file of its listener, and queues the event.
    pub(crate) fn push_request(
        listener: &Context,
        context: ListArc<Context>,
        event: Loose,
        publish: impl FnOnce(),
    ) {
        loop {
            let file = listener.file();
            // Nobody has found it yet.
            let was = mem::replace(&mut context.place.lock().file, file.clone());
            drop(was);
            let mut inner = file.inner.lock();
            if !file.has(listener) {
                continue;
            }
            inner.contexts.push_back(context);
            publish();
            let mut queue = listener.queue.lock();
            inner.insert(&mut queue, event);
            drop(queue);
            drop(inner);
            return file.readers.wake();
        }
    }

    /// Makes a context known to the file: `publish` makes it known to programs, under the lock.
    pub(crate) fn add(&self, context: ListArc<Context>, publish: impl FnOnce()) {
        let mut inner = self.inner.lock();
        inner.contexts.push_back(context);
        publish();
    }

    /// Takes a context that ends out of the file.
    pub(crate) fn forget(
        &self,
        context: &Context,
    ) -> (TaggedList<Event, OF_CONTEXT>, KVec<Joined>, u32) {
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        // It does not move: its identifier is gone.
        for event in queue.events.iter() {
            drop(inner.events.remove(&event));
        }
        inner.written = inner.written.saturating_sub(queue.written);
        queue.written = 0;
        let taken = queue.take();
        drop(queue);
        let own = inner.contexts.remove(context);
        drop(inner);
        drop(own);
        taken
    }

    /// Removes a join of a context, and its events. The connection manager was told to leave the
    /// group, if it has `left`.
    pub(crate) fn forget_join(&self, context: &Context, id: u32, left: bool) -> Option<Joined> {
        let mut gone: List<Event, OF_CONTEXT> = List::new();
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        let at = if left {
            joins::left(&mut queue.joins, id)
        } else {
            joins::by_id(&queue.joins, id)
        };
        let join = at.and_then(|at| queue.joins.remove(at).ok());
        let mut kept: List<Event, OF_CONTEXT> = List::new();
        while let Some(event) = queue.events.pop_front() {
            match event.kind {
                Kind::Join(of) if of == id => {
                    drop(inner.list(&mut queue.moving).remove(&event));
                    gone.push_back(event);
                }
                _ => kept.push_back(event),
            }
        }
        while let Some(event) = kept.pop_front() {
            queue.events.push_back(event);
        }
        drop(queue);
        drop(inner);
        drop(gone);
        join
    }

    /// Takes a context out of this file, which moves it to another. The queue is empty for programs
    /// until that one [receives](Self::receive) it. The caller has its identifier locked.
    ///
    /// # Errors
    ///
    /// Why this file does not find the context.
    pub(crate) fn give(&self, context: &Context, to: &Arc<File>) -> Result<Moving, Lost> {
        let mut inner = self.inner.lock();
        let mut place = context.place.lock();
        let mine = core::ptr::eq(&*place.file, self);
        place.life.find(mine)?;
        let was = mem::replace(&mut place.file, to.clone());
        drop(place);
        let mut queue = context.queue.lock();
        let queue = &mut *queue;
        let moving = queue.moving.insert(TaggedList::new());
        for event in queue.events.iter() {
            if let Some(event) = inner.events.remove(&event) {
                moving.push_back(event);
            }
        }
        inner.written = inner.written.saturating_sub(queue.written);
        Ok(Moving {
            own: inner.contexts.remove(context),
            written: queue.written,
            was,
        })
    }

    /// Takes over a context. Returns the number of events that the program has read.
    pub(crate) fn receive(&self, context: &Context, moving: Moving) -> u32 {
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        inner.written = inner.written.saturating_add(moving.written);
        if let Some(own) = moving.own {
            inner.contexts.push_back(own);
        }
        if let Some(mut events) = queue.moving.take() {
            while let Some(event) = events.pop_front() {
                inner.events.push_back(event);
            }
        }
        let reported = queue.reported;
        drop(queue);
        drop(inner);
        drop(moving.was);
        self.readers.wake();
        reported
    }

    /// Waits for an event, and takes it. May sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none and it must not block; `ERESTARTSYS`.
    pub(crate) fn take(&self, nonblock: bool) -> Result<Loose> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(taken) = inner.pop() {
                return Ok(taken);
            }
            if nonblock {
                return Err(EAGAIN);
            }
            inner = self.readers.wait(inner)?;
        }
    }

    /// Puts an event back that could not be copied.
    pub(crate) fn put_back(mut event: Loose) {
        loop {
            let (file, life) = {
                let place = event.context.place.lock();
                (place.file.clone(), place.life)
            };
            let tried = file.inner.lock().unpop(event);
            match tried {
                // Another reader may have gone to sleep meanwhile.
                Ok(()) => return file.readers.wake(),
                Err(back) => event = back,
            }
            if life == Life::Dead {
                break;
            }
            // It moves to another file, under this lock.
            drop(event.context.cm.lock());
        }
        // As the end of the context would have done.
        if let Kind::Request(new) = &event.kind {
            if new.win_any() {
                let _: u32 = new.end();
            }
        }
    }
}

/// The misc device.
pub(crate) struct UcmFiles;

rdma::static_slot!(impl for UcmFiles: AnnouncedSlot);

impl MiscFiles for UcmFiles {
    type Data = Arc<Shared>;
    type Open = File;
    const OWNER: &'static ThisModule = rdma::this_module!();
    const NAME: &'static CStr = c"rdma_cm";
    const NODE: &'static CStr = c"infiniband/rdma_cm";
    const MODE: u16 = 0o666;
    const ABI_VERSION: u32 = bindings::RDMA_USER_CM_ABI_VERSION;

    fn open(shared: &Arc<Shared>) -> Result<Arc<File>> {
        Arc::pin_init(
            pin_init!(File {
                shared: shared.clone(),
                inner <- new_mutex!(
                    Inner {
                        events: TaggedList::new(),
                        contexts: TaggedList::new(),
                        written: 0,
                    },
                    "File::inner"
                ),
                readers <- new_wait_queue!("File::readers"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn release(file: Arc<File>) {
        // A listener may still get connection requests until it ends, but adds them to its own file,
        // so this ends when the last context has.
        loop {
            let first = file.inner.lock().contexts.pop_front();
            let Some(first) = first else { break };
            let context = first.into_arc();
            // If another thread ends it, with the listener of its request, that is enough.
            if context.win_any() {
                let _: u32 = context.end();
            }
        }
    }

    fn write(file: ArcBorrow<'_, File>, call: &Call<'_, Self>) -> Result<usize> {
        command::write(file, call)
    }

    fn poll<'f>(file: &'f File, table: PollTable<'f>) -> u32 {
        table.wait_at(&file.readers);
        if file.inner.lock().events.is_empty() {
            0
        } else {
            bindings::POLLIN | bindings::POLLRDNORM
        }
    }
}
