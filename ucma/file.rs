// SPDX-License-Identifier: GPL-2.0

//! An open file: its contexts, and the queue of their events.
//!
//! ```text
//!   File::inner.ready, by order of the first event:   Context --- Context --- Context
//!   Context::queue.events:                               |  \        |           |
//!                                                       ev   ev     ev          ev
//! ```
//!
//! A program reads events of all contexts in the order in which they occurred. Removing a context,
//! or moving it to another file, touches its own events only.

use crate::command;
use crate::context::Context;
use crate::context::Event;
use crate::context::Kind;
use crate::context::Queue;
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
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::chrdev::PollTable;
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
    /// Contexts with events, by the order of their first one.
    ready: RBTree<u64, Arc<Context>>,
    /// All contexts that were published and are not being ended, by number.
    contexts: RBTree<u32, Arc<Context>>,
    /// Number of events that the program has queued and not read.
    written: u32,
}

impl Inner {
    /// Puts a context into the queue, if it has events.
    fn index(&mut self, context: &Arc<Context>, queue: &mut Queue) {
        if queue.key.is_some() {
            return;
        }
        let Some(first) = queue.events.iter().next().map(|event| event.seq) else {
            return;
        };
        if let Some(spare) = queue.spare.take() {
            // Each event has a number of its own, so there is no other with this key.
            let _ = self.ready.insert(spare.into_node(first, context.clone()));
            queue.key = Some(first);
        }
    }

    /// Takes a context out of the queue.
    fn unindex(&mut self, queue: &mut Queue) {
        let Some(key) = queue.key else { return };
        if let Some(node) = self.ready.remove_node(&key) {
            queue.key = None;
            queue.spare = Some(node.into_reservation());
        }
    }

    /// Takes the first context with events out of the queue, and its first event.
    fn first(&mut self) -> Option<(Arc<Context>, ListArc<Event>)> {
        loop {
            let (key, context) = {
                let front = self.ready.cursor_front()?;
                let (key, context) = front.current();
                (*key, context.clone())
            };
            let mut queue = context.queue.lock();
            self.unindex(&mut queue);
            // The key was that of the context; if it were not, the node would stay the first.
            drop(self.ready.remove_node(&key));
            let event = queue.events.pop_front();
            self.index(&context, &mut queue);
            drop(queue);
            if let Some(event) = event {
                return Some((context, event));
            }
        }
    }

    /// Takes the first event, which the program reads.
    fn pop(&mut self) -> Option<(Arc<Context>, ListArc<Event>)> {
        let (context, event) = self.first()?;
        let mut queue = context.queue.lock();
        queue.reported = queue.reported.wrapping_add(1);
        match &event.kind {
            // The place of a request is free once the program has read it.
            Kind::Plain | Kind::Request(_) => {}
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
        Some((context, event))
    }

    /// Reverses [`pop`](Self::pop). Returns the event if the file does not have the context any
    /// more.
    fn unpop(
        &mut self,
        context: &Arc<Context>,
        event: ListArc<Event>,
    ) -> Result<(), ListArc<Event>> {
        match self.contexts.get(&context.id) {
            Some(mine) if Arc::ptr_eq(mine, context) => {}
            _ => return Err(event),
        }
        let mut queue = context.queue.lock();
        queue.reported = queue.reported.wrapping_sub(1);
        match &event.kind {
            Kind::Plain | Kind::Request(_) => {}
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
        self.unindex(&mut queue);
        queue.events.push_front(event);
        self.index(context, &mut queue);
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
    Moved(ListArc<Event>),
    /// The event was refused.
    Refused,
}

/// What a context takes along when it moves to another file.
pub(crate) struct Moving {
    own: Option<RBTreeNode<u32, Arc<Context>>>,
    /// Without it, no event puts the context into a queue: of a listener, events may occur meanwhile.
    spare: Option<RBTreeNodeReservation<u64, Arc<Context>>>,
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
        context: &Arc<Context>,
        event: ListArc<Event>,
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
        queue.events.push_back(event);
        inner.index(context, &mut queue);
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
        context: &Arc<Context>,
        mut event: ListArc<Event>,
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
    pub(crate) fn push_written(context: &Arc<Context>, mut event: ListArc<Event>) -> Result {
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
        listener: &Arc<Context>,
        context: &Context,
        node: RBTreeNode<u32, Arc<Context>>,
        event: ListArc<Event>,
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
            // The number is reserved, so no other context has it.
            let _ = inner.contexts.insert(node);
            publish();
            let mut queue = listener.queue.lock();
            queue.events.push_back(event);
            inner.index(listener, &mut queue);
            drop(queue);
            drop(inner);
            return file.readers.wake();
        }
    }

    /// Makes a context known to the file: `publish` makes it known to programs, under the lock.
    pub(crate) fn add(&self, node: RBTreeNode<u32, Arc<Context>>, publish: impl FnOnce()) {
        let mut inner = self.inner.lock();
        // The number is reserved, so no other context has it.
        let _ = inner.contexts.insert(node);
        publish();
    }

    /// Takes a context that ends out of the file.
    pub(crate) fn forget(&self, context: &Arc<Context>) -> (List<Event>, KVec<Joined>, u32) {
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        inner.unindex(&mut queue);
        inner.written = inner.written.saturating_sub(queue.written);
        queue.written = 0;
        let taken = queue.take();
        drop(queue);
        let own = inner.contexts.remove_node(&context.id);
        drop(inner);
        drop(own);
        taken
    }

    /// Removes a join of a context, and its events. The connection manager was told to leave the
    /// group, if it has `left`.
    pub(crate) fn forget_join(
        &self,
        context: &Arc<Context>,
        id: u32,
        left: bool,
    ) -> Option<Joined> {
        let mut gone = List::new();
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        let at = if left {
            joins::left(&mut queue.joins, id)
        } else {
            joins::by_id(&queue.joins, id)
        };
        let join = at.and_then(|at| queue.joins.remove(at).ok());
        inner.unindex(&mut queue);
        let mut kept = List::new();
        while let Some(event) = queue.events.pop_front() {
            match event.kind {
                Kind::Join(of) if of == id => gone.push_back(event),
                _ => kept.push_back(event),
            }
        }
        queue.events = kept;
        inner.index(context, &mut queue);
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
    pub(crate) fn give(&self, context: &Arc<Context>, to: &Arc<File>) -> Result<Moving, Lost> {
        let mut inner = self.inner.lock();
        let mut place = context.place.lock();
        let mine = core::ptr::eq(&*place.file, self);
        place.life.find(mine)?;
        let was = mem::replace(&mut place.file, to.clone());
        drop(place);
        let mut queue = context.queue.lock();
        inner.unindex(&mut queue);
        inner.written = inner.written.saturating_sub(queue.written);
        Ok(Moving {
            own: inner.contexts.remove_node(&context.id),
            spare: queue.spare.take(),
            written: queue.written,
            was,
        })
    }

    /// Takes over a context. Returns the number of events that the program has read.
    pub(crate) fn receive(&self, context: &Arc<Context>, moving: Moving) -> u32 {
        let mut inner = self.inner.lock();
        let mut queue = context.queue.lock();
        inner.written = inner.written.saturating_add(moving.written);
        queue.spare = moving.spare;
        if let Some(own) = moving.own {
            let _ = inner.contexts.insert(own);
        }
        inner.index(context, &mut queue);
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
    pub(crate) fn take(&self, nonblock: bool) -> Result<(Arc<Context>, ListArc<Event>)> {
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
    pub(crate) fn put_back(context: &Arc<Context>, mut event: ListArc<Event>) {
        loop {
            let (file, life) = {
                let place = context.place.lock();
                (place.file.clone(), place.life)
            };
            let tried = file.inner.lock().unpop(context, event);
            match tried {
                // Another reader may have gone to sleep meanwhile.
                Ok(()) => return file.readers.wake(),
                Err(back) => event = back,
            }
            if life == Life::Dead {
                break;
            }
            // It moves to another file, under this lock.
            drop(context.cm.lock());
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
                        ready: RBTree::new(),
                        contexts: RBTree::new(),
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
            let first = {
                let mut inner = file.inner.lock();
                let cursor = inner.contexts.cursor_front_mut();
                cursor.map(|cursor| cursor.remove_current().1)
            };
            let Some(first) = first else { break };
            let (_, context) = first.to_key_value();
            // If another thread ends it, with the listener of its request, that is enough.
            if context.win_any() {
                let _: u32 = context.end();
            }
        }
    }

    fn write(file: ArcBorrow<'_, File>, call: &Call<'_, Self>) -> Result<usize> {
        command::write(&file.into(), call)
    }

    fn poll<'f>(file: &'f File, table: PollTable<'f>) -> u32 {
        table.wait_at(&file.readers);
        if file.inner.lock().ready.is_empty() {
            0
        } else {
            bindings::POLLIN | bindings::POLLRDNORM
        }
    }
}
