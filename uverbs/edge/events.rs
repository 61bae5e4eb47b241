// SPDX-License-Identifier: GPL-2.0

//! Events that programs read from file descriptors: completions, and asynchronous events.
//!
//! ```text
//!   Queue (beside a handle that is a file) --- list of Node, in the order of their first event
//!     Completions (beside a completion queue): one node, how many events wait
//!     Asynchronous (beside any object): the nodes of its events, which were allocated
//! ```
//!
//! All of it changes under the lock of the queue only, in any context. Events of an object leave
//! the queue when the object is destroyed; all do when the file is closed. A completion queue's
//! events are all alike, so they are counted and not allocated: none is lost, and none is coalesced.
//! Asynchronous events are allocated in any context, and lost if there is no memory.
//!
//! Objects keep a reference to the handle of the file ([`Kept`]), so the queue exists as long as
//! they refer to it.

use super::call::Call;
use super::handle::Ended;
use super::handle::Ends;
use super::handle::FileType;
use super::handle::Handle;
use super::handle::Kept;
use super::handle::Kind;
use super::handle::New;
use super::user::Address;
use super::user::Plain;
use crate::object::async_event::AsyncFile;
use crate::object::comp_channel::Channel;
use core::cell::Cell;
use core::marker::PhantomData;
use core::marker::PhantomPinned;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::UFile;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::new_spinlock_irq;
use rdma::sync::SpinLockIrq;
use rdma::sync::SpinLockIrqGuard;
use rdma::sync::WaitQueue;

/// A handle that is a file from which events are read.
pub(crate) trait EventFile: super::handle::File<Beside = Self::Events> {
    /// What such a handle has beside.
    type Events: Ends;
    /// What a program reads of one event.
    type Event: Plain;

    /// The queue of a handle.
    fn queue(handle: &Handle<Self>) -> &Queue;

    /// Makes what is read of an event.
    fn event(seen: &Seen) -> Self::Event;
}

/// An event that was taken out of a queue.
pub(crate) struct Seen {
    /// What the program knows the object by.
    pub(crate) element: u64,
    /// `enum ib_event_type`.
    pub(crate) kind: u32,
}

/// The events that wait for a program.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    list: SpinLockIrq<List>,
    #[pin]
    wait: WaitQueue,
    /// Programs that get a signal with each event. Changed by `fasync_helper`, which has a lock of
    /// its own.
    fasync: Opaque<*mut bindings::fasync_struct>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The list has a lock; `fasync_helper` locks `fasync`.
unsafe impl Send for Queue {}
// SAFETY: As for `Send`.
unsafe impl Sync for Queue {}

/// The list of a queue.
///
/// # Invariants
///
/// `first` and `last` are the ends of a list of nodes that are linked by `next` and `before`, and
/// whose `linked` is set; both are null if it is empty. The nodes exist until they are unlinked.
struct List {
    first: *const Node,
    last: *const Node,
    closed: bool,
}

// SAFETY: The nodes change only under the lock.
unsafe impl Send for List {}

/// A place in the list of a queue. It changes under the lock of the queue only.
struct Node {
    before: Cell<*const Node>,
    next: Cell<*const Node>,
    linked: Cell<bool>,
    /// How many events wait.
    waiting: Cell<u32>,
    element: Cell<u64>,
    kind: Cell<u32>,
    /// How many events of the object were read.
    reported: Cell<*const Atomic<u32>>,
    /// The list of the object that the node is in, for nodes that were allocated.
    of: Cell<*const Asynchronous>,
    /// The nodes of the object before and behind it.
    older: Cell<*const Node>,
    newer: Cell<*const Node>,
    allocated: bool,
}

impl Node {
    const fn new(allocated: bool) -> Self {
        Self {
            before: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            linked: Cell::new(false),
            waiting: Cell::new(0),
            element: Cell::new(0),
            kind: Cell::new(0),
            reported: Cell::new(ptr::null()),
            of: Cell::new(ptr::null()),
            older: Cell::new(ptr::null()),
            newer: Cell::new(ptr::null()),
            allocated,
        }
    }
}

impl List {
    /// Puts a node to the end.
    ///
    /// # Safety
    ///
    /// The node is in no list, and exists until it is unlinked.
    unsafe fn append(&mut self, node: &Node) {
        node.before.set(self.last);
        node.next.set(ptr::null());
        node.linked.set(true);
        // SAFETY: A node in the list exists (type invariant).
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(node),
            None => self.first = node,
        }
        // INVARIANT: The node is the last one.
        self.last = node;
    }

    /// Takes a node out, if it is in.
    ///
    /// # Safety
    ///
    /// The node is in this list or in none.
    unsafe fn unlink(&mut self, node: &Node) {
        if !node.linked.replace(false) {
            return;
        }
        let (before, next) = (node.before.get(), node.next.get());
        // SAFETY: Nodes in the list exist (type invariant).
        unsafe {
            match before.as_ref() {
                Some(before) => before.next.set(next),
                None => self.first = next,
            }
            match next.as_ref() {
                Some(next) => next.before.set(before),
                None => self.last = before,
            }
        }
    }

    /// Takes a node that was allocated out of both lists, and frees it.
    ///
    /// # Safety
    ///
    /// The node was allocated, and is in this list.
    unsafe fn free(&mut self, node: NonNull<Node>) {
        // SAFETY: The node exists; it is in this list (this function's contract), and in that of
        // its object, which exists as long as it has events.
        unsafe {
            self.unlink(node.as_ref());
            if let Some(of) = node.as_ref().of.get().as_ref() {
                of.remove(node.as_ref());
            }
            drop(KBox::from_raw(node.as_ptr()));
        }
    }

    /// Takes the first event out.
    fn take(&mut self) -> Option<Seen> {
        let node = NonNull::new(self.first.cast_mut())?;
        // SAFETY: Nodes in the list exist (type invariant), and so do the counts of their objects.
        unsafe {
            let at = node.as_ref();
            let seen = Seen {
                element: at.element.get(),
                kind: at.kind.get(),
            };
            if let Some(reported) = at.reported.get().as_ref() {
                // Wraps, as C's does.
                reported.store(reported.load(Relaxed).wrapping_add(1), Relaxed);
            }
            if at.allocated {
                self.free(node);
            } else {
                let left = at.waiting.get().saturating_sub(1);
                at.waiting.set(left);
                self.unlink(at);
                // Behind the events of others.
                if left != 0 {
                    self.append(at);
                }
            }
            Some(seen)
        }
    }
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock_irq!(List {
                first: ptr::null(),
                last: ptr::null(),
                closed: false,
            }, "Queue::list"),
            wait <- rdma::new_wait_queue!("Queue::wait"),
            fasync: Opaque::new(ptr::null_mut()),
            _pin: PhantomPinned,
        })
    }

    fn lock(&self) -> SpinLockIrqGuard<'_, List> {
        self.list.lock()
    }

    /// Tells waiting programs that there is something new. Any context.
    fn tell(&self) {
        self.wait.wake();
        // SAFETY: The list of programs is initialised; the function has a lock of its own.
        unsafe {
            bindings::kill_fasync(self.fasync.get(), bindings::SIGIO as c_int, POLL_IN);
        }
    }

    /// Adds an event of an object, or of none. Any context.
    pub(crate) fn push(&self, of: Option<&Asynchronous>, element: u64, kind: u32) {
        let Ok(node) = KBox::new(Node::new(true), GFP_ATOMIC) else {
            return;
        };
        node.element.set(element);
        node.kind.set(kind);
        let mut list = self.lock();
        if list.closed {
            drop(list);
            return;
        }
        let node = KBox::leak(node);
        if let Some(of) = of {
            node.reported.set(&of.reported);
            node.of.set(of);
            // SAFETY: The node is new; `List::free` removes it.
            unsafe { of.add(node) };
        }
        // SAFETY: The node is new, and is freed when it is unlinked.
        unsafe { list.append(node) };
        drop(list);
        self.tell();
    }

    /// No events are added any more, and those that wait are gone. May sleep.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.by_turns(|list| {
            let Some(node) = NonNull::new(list.first.cast_mut()) else {
                return false;
            };
            // SAFETY: Nodes in the list exist, and are linked: invariant of `List`.
            unsafe {
                if node.as_ref().allocated {
                    list.free(node);
                } else {
                    node.as_ref().waiting.set(0);
                    list.unlink(node.as_ref());
                }
            }
            true
        });
        self.tell();
    }

    /// Repeats `step` under the lock until it returns `false`. A program can leave any number of
    /// events unread, so the lock is released, and interrupts enabled, now and then. May sleep.
    fn by_turns(&self, mut step: impl FnMut(&mut List) -> bool) {
        const TURN: usize = 64;
        let mut more = true;
        while more {
            let mut list = self.lock();
            more = (0..TURN).all(|_| step(&mut list));
        }
    }

    /// Takes an event of which a program reads `size` bytes.
    fn read(&self, size: usize, room: usize, nonblock: bool) -> Result<Seen> {
        loop {
            let mut list = self.lock();
            if !list.first.is_null() {
                if size > room {
                    return Err(EINVAL);
                }
                if let Some(seen) = list.take() {
                    return Ok(seen);
                }
            }
            if list.closed {
                return Err(EIO);
            }
            drop(list);
            if nonblock {
                return Err(EAGAIN);
            }
            self.wait.wait_until(|| {
                let list = self.lock();
                !list.first.is_null() || list.closed
            })?;
        }
    }
}

/// `POLL_IN` of `asm-generic/siginfo.h`, which is a macro that bindgen does not see. Another number
/// stops the kernel (`send_sigio_to_task`).
const POLL_IN: c_int = 1;

/// Completion events of a queue, beside its handle.
#[pin_data]
pub(crate) struct Completions {
    node: Node,
    /// The channel that the events go to; null for none.
    channel: Atomic<*mut Handle<Channel>>,
    reported: Atomic<u32>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The node changes under the lock of the queue only.
unsafe impl Send for Completions {}
// SAFETY: As for `Send`.
unsafe impl Sync for Completions {}

impl Completions {
    /// No events, and no channel.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            node: Node::new(false),
            channel: Atomic::new(ptr::null_mut()),
            reported: Atomic::new(0),
            _pin: PhantomPinned,
        })
    }

    /// Sets the channel, before the first event. Warns if there is one already, which stays.
    pub(crate) fn attach(&self, channel: Kept<Channel>) {
        keep_once(&self.channel, channel);
    }

    fn queue(&self) -> Option<&Queue> {
        // SAFETY: The reference to the channel is kept until `end`, after the last event.
        let channel = unsafe { self.channel.load(Acquire).as_ref() }?;
        Some(Channel::queue(channel))
    }

    /// Adds an event of the queue that programs know as `element`. Any context.
    pub(crate) fn push(&self, element: u64) {
        let Some(queue) = self.queue() else {
            return;
        };
        let mut list = queue.lock();
        if list.closed {
            return;
        }
        let node = &self.node;
        node.element.set(element);
        node.reported.set(&self.reported);
        node.waiting.set(node.waiting.get().saturating_add(1));
        if !node.linked.get() {
            // SAFETY: The node is in no list, and is unlinked by `end`, before it goes.
            unsafe { list.append(node) };
        }
        drop(list);
        queue.tell();
    }

    /// How many events were read.
    pub(crate) fn reported(&self) -> u32 {
        self.reported.load(Relaxed)
    }
}

impl Ends for Completions {
    /// Events that wait are gone.
    fn end(this: Ended<'_, Self>) {
        let channel = this.channel.xchg(ptr::null_mut(), Full);
        // SAFETY: `attach` has given the reference; the exchange gives it to one caller.
        let Some(channel) = (unsafe { Kept::from_raw(channel) }) else {
            return;
        };
        let mut list = Channel::queue(&channel).lock();
        // SAFETY: The node is in this list or in none.
        unsafe { list.unlink(&this.node) };
        this.node.waiting.set(0);
    }
}

/// Gives a reference to a field. Warns if that has one already, which it keeps.
fn keep_once<K: Kind>(place: &Atomic<*mut Handle<K>>, handle: Kept<K>) {
    let handle = handle.into_raw();
    if place.cmpxchg(ptr::null_mut(), handle, Full).is_err() {
        kernel::warn_on!(true);
        // SAFETY: `into_raw` has given it, and the field has not taken it.
        drop(unsafe { Kept::from_raw(handle) });
    }
}

/// Asynchronous events of an object, beside its handle.
#[pin_data]
pub(crate) struct Asynchronous {
    /// The newest event that waits.
    first: Cell<*const Node>,
    /// The file that the events go to; null for none.
    file: Atomic<*mut Handle<AsyncFile>>,
    reported: Atomic<u32>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The list changes under the lock of the queue only.
unsafe impl Send for Asynchronous {}
// SAFETY: As for `Send`.
unsafe impl Sync for Asynchronous {}

impl Asynchronous {
    /// No events, and no file.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            first: Cell::new(ptr::null()),
            file: Atomic::new(ptr::null_mut()),
            reported: Atomic::new(0),
            _pin: PhantomPinned,
        })
    }

    /// Sets the file, if any. Warns if there is one already, which stays.
    pub(crate) fn attach(&self, file: Option<Kept<AsyncFile>>) {
        if let Some(file) = file {
            keep_once(&self.file, file);
        }
    }

    fn queue(&self) -> Option<&Queue> {
        // SAFETY: The reference to the file is kept until `end`, after the last event.
        let file = unsafe { self.file.load(Acquire).as_ref() }?;
        Some(AsyncFile::queue(file))
    }

    /// Adds an event of the object that programs know as `element`. Any context.
    pub(crate) fn push(&self, element: u64, kind: u32) {
        if let Some(queue) = self.queue() {
            queue.push(Some(self), element, kind);
        }
    }

    /// Adds a new node to the list. The lock of the queue is held.
    ///
    /// # Safety
    ///
    /// The node is in the list of no object, and is removed before it is freed.
    unsafe fn add(&self, node: &Node) {
        let first = self.first.replace(node);
        node.older.set(first);
        // SAFETY: Nodes in the list exist: `remove` comes before they are freed.
        if let Some(first) = unsafe { first.as_ref() } {
            first.newer.set(node);
        }
    }

    /// Takes a node out of the list. The lock of the queue is held.
    ///
    /// # Safety
    ///
    /// The node is in the list.
    unsafe fn remove(&self, node: &Node) {
        let (older, newer) = (node.older.get(), node.newer.get());
        // SAFETY: As in `add`.
        unsafe {
            match newer.as_ref() {
                Some(newer) => newer.older.set(older),
                None => self.first.set(older),
            }
            if let Some(older) = older.as_ref() {
                older.newer.set(newer);
            }
        }
    }

    /// How many events were read.
    pub(crate) fn reported(&self) -> u32 {
        self.reported.load(Relaxed)
    }
}

impl Ends for Asynchronous {
    /// Events that wait are gone.
    fn end(this: Ended<'_, Self>) {
        let file = this.file.xchg(ptr::null_mut(), Full);
        // SAFETY: `attach` has given the reference; the exchange gives it to one caller.
        let Some(file) = (unsafe { Kept::from_raw(file) }) else {
            return;
        };
        AsyncFile::queue(&file).by_turns(|list| {
            let Some(node) = NonNull::new(this.first.get().cast_mut()) else {
                return false;
            };
            // SAFETY: The node was allocated, and is in the list of the queue, since it is in that of
            // the object.
            unsafe { list.free(node) };
            true
        });
    }
}

/// The file for asynchronous events of objects that name none: the first that was made.
pub(crate) fn default_file(call: &Call) -> Option<Kept<AsyncFile>> {
    // SAFETY: Written once, with release ordering; the open file keeps a reference to it.
    let file: *mut bindings::ib_uobject = unsafe {
        let place = &raw mut (*call.file().raw()).default_async_file;
        bindings::atomic_ptr_read_acquire(place.cast())
            .cast_mut()
            .cast()
    };
    // SAFETY: `set_default` writes handles of this type only; before that it is null.
    let file = unsafe { <Option<&Handle<AsyncFile>> as FromC>::from_c(file) };
    file.map(Handle::keep)
}

/// Makes a file the default one, unless there is one. May sleep.
pub(crate) fn set_default(file: &UFile, handle: &Handle<AsyncFile>) {
    let c = file.raw();
    // SAFETY: The mutex is initialised. The field is written under it, and read as in
    // `default_file`. `ib_uverbs_support` puts the reference with the open file.
    unsafe {
        bindings::mutex_lock(&raw mut (*c).ucontext_lock);
        if (*c).default_async_file.is_null() {
            let kept = handle.keep().into_raw();
            bindings::rdma_helper_ufile_set_async(c, kept.cast());
        }
        bindings::mutex_unlock(&raw mut (*c).ucontext_lock);
    }
}

/// A registration for the events of a device, which [`AsyncEvents::unregister`] ends.
struct DeviceEvents(Opaque<bindings::ib_event_handler>);

// SAFETY: It changes at registration and its end only, of which each happens once.
unsafe impl Send for DeviceEvents {}
// SAFETY: As for `Send`.
unsafe impl Sync for DeviceEvents {}

/// The events of a handle for asynchronous events.
#[pin_data]
pub(crate) struct AsyncEvents {
    /// The queue.
    #[pin]
    pub(crate) queue: Queue,
    handler: DeviceEvents,
    registered: Atomic<bool>,
}

impl AsyncEvents {
    /// Creates a queue that is not registered for events yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- Queue::new(),
            handler: DeviceEvents(Opaque::zeroed()),
            registered: Atomic::new(false),
        })
    }

    /// Registers a new file for the events of a device, once. May sleep.
    pub(crate) fn register(new: &New<'_, AsyncFile>, device: &Device) {
        let events = new.handle().beside();
        if events.registered.xchg(true, Full) {
            return;
        }
        let c = events.handler.0.get();
        // SAFETY: The registration ends with the handle's object, which removal of the device waits
        // for, or with `new` if that is dropped (`unregister`).
        unsafe {
            (*c).device = device.raw();
            (*c).handler = Some(device_event);
            bindings::INIT_LIST_HEAD(&raw mut (*c).list);
            bindings::ib_register_event_handler(c);
        }
    }

    /// Ends the registration; waits for a handler that runs. May sleep.
    pub(crate) fn unregister(&self) {
        if self.registered.xchg(false, Full) {
            // SAFETY: Registered, and not unregistered yet.
            unsafe { bindings::ib_unregister_event_handler(self.handler.0.get()) };
        }
    }
}

impl Ends for AsyncEvents {
    /// No events come any more.
    fn end(this: Ended<'_, Self>) {
        this.unregister();
    }
}

impl Ends for Queue {
    fn end(_: Ended<'_, Self>) {}
}

/// The handler of events of a device.
///
/// # Safety
///
/// For the core only, with the handler of an [`AsyncEvents`], and an event.
unsafe extern "C" fn device_event(
    handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: This function's contract. Events that are told to such handlers are of ports.
    unsafe {
        let events = &*container_of!(handler.cast::<DeviceEvents>(), AsyncEvents, handler);
        let port = *(&raw const (*event).element).cast::<u32>();
        events.queue.push(None, port.into(), (*event).event);
    }
}

/// The operations of files of `K`.
struct Table<K>(PhantomData<K>);

impl<K: EventFile> Table<K> {
    const OPERATIONS: bindings::file_operations = bindings::file_operations {
        owner: rdma::this_module!().as_ptr(),
        read: Some(Self::read),
        poll: Some(Self::poll),
        release: Some(bindings::uverbs_uobject_fd_release),
        fasync: Some(Self::fasync),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `file` is an open file of `K` for `'a`.
    unsafe fn of<'a>(file: *mut bindings::file) -> &'a Queue {
        // SAFETY: The file keeps its handle until it is released.
        K::queue(unsafe { <&Handle<K> as FromC>::from_c((*file).private_data.cast()) })
    }

    /// # Safety
    ///
    /// For the VFS only, with an open file of `K`.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: This function's contract. Other threads may change the flags.
        let (queue, flags) =
            unsafe { (Self::of(file), (&raw const (*file).f_flags).read_volatile()) };
        let size = size_of::<K::Event>();
        let result = queue
            .read(size, count, flags & bindings::O_NONBLOCK != 0)
            .and_then(|seen| Address::of(to).write(&K::event(&seen), size));
        match result {
            // CAST: A few bytes.
            Ok(()) => size as isize,
            Err(error) => error.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// For the VFS only, with an open file of `K`, and a poll table or null.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) -> bindings::__poll_t {
        // SAFETY: This function's contract. The queue exists until the file is released, before
        // which pollers leave it.
        let queue = unsafe {
            let queue = Self::of(file);
            bindings::poll_wait(file, queue.wait.raw(), table);
            queue
        };
        let list = queue.lock();
        if !list.first.is_null() {
            bindings::POLLIN | bindings::POLLRDNORM
        } else if list.closed {
            bindings::POLLERR
        } else {
            0
        }
    }

    /// # Safety
    ///
    /// For the VFS only, with an open file of `K`.
    unsafe extern "C" fn fasync(fd: c_int, file: *mut bindings::file, on: c_int) -> c_int {
        // SAFETY: This function's contract. The list exists as long as the file.
        unsafe {
            let queue = Self::of(file);
            bindings::fasync_helper(fd, file, on, queue.fasync.get())
        }
    }
}

impl<K: EventFile> FileType<K> {
    /// Describes a type of files from which events are read.
    pub(crate) const fn of_events() -> Self {
        // SAFETY: The operations are for files of `K`, with the release that is asked for.
        unsafe {
            Self::new(
                c"[infinibandevent]",
                &Table::<K>::OPERATIONS,
                bindings::O_RDONLY,
            )
        }
    }
}
