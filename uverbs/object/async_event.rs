// SPDX-License-Identifier: GPL-2.0

//! Files from which programs read asynchronous events: of ports, of objects, and of the removal of
//! the device.
//!
//! C header: `struct ib_uverbs_async_event_desc` in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::events;
use crate::edge::events::AsyncEvents;
use crate::edge::events::EventFile;
use crate::edge::events::Queue;
use crate::edge::events::Seen;
use crate::edge::handle::File;
use crate::edge::handle::FileType;
use crate::edge::handle::Handle;
use crate::edge::handle::Id;
use crate::edge::handle::Kept;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::proto::spec::Access;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_async_event_desc;
use rdma::edge::uverbs::Reason;

/// Handles of files for asynchronous events.
pub(crate) struct AsyncFile;

impl Kind for AsyncFile {
    type Beside = AsyncEvents;

    fn beside() -> impl PinInit<AsyncEvents> {
        AsyncEvents::new()
    }
}

impl File for AsyncFile {
    /// Events can be read after the device was removed, of which the last one tells that.
    const RELEASE: Option<fn(&Handle<Self>)> = Some(|handle| handle.beside().queue.close());

    fn destroy(handle: &Handle<Self>, why: Reason) {
        handle.beside().unregister();
        if why == Reason::DRIVER_REMOVE {
            let fatal = bindings::ib_event_type_IB_EVENT_DEVICE_FATAL;
            handle.beside().queue.push(None, 0, fatal);
        }
    }
}

impl EventFile for AsyncFile {
    type Events = AsyncEvents;
    type Event = ib_uverbs_async_event_desc;

    fn queue(handle: &Handle<Self>) -> &Queue {
        &handle.beside().queue
    }

    fn event(seen: &Seen) -> ib_uverbs_async_event_desc {
        ib_uverbs_async_event_desc {
            element: seen.element,
            event_type: seen.kind,
            reserved: 0,
        }
    }
}

/// The file for an object's events: the one in an attribute, or else the default one.
///
/// # Errors
///
/// `EINVAL`: the attribute is of another type.
pub(crate) fn of_attribute(call: &Call, id: u32) -> Result<Option<Kept<AsyncFile>>> {
    if !call.has(id) {
        return Ok(events::default_file(call));
    }
    Ok(Some(call.handle::<AsyncFile>(id)?.keep()))
}

/// Makes a new file ready for events. The first one of an open file gets those of objects that name
/// none. May sleep.
///
/// # Errors
///
/// `EINVAL`: there is no context.
pub(crate) fn start(new: &New<'_, AsyncFile>) -> Result {
    let device = new.device()?;
    events::set_default(new.call().file(), new.handle());
    AsyncEvents::register(new, device);
    Ok(())
}

static TYPE: FileType<AsyncFile> = FileType::of_events();

/// The table of files for asynchronous events.
pub(crate) const TABLE: &[Def] = &[Def::Tree(Tree {
    id: AsyncFile::ID,
    of: Some(TYPE.get()),
    methods: &[Method {
        id: bindings::uverbs_method_async_event_UVERBS_METHOD_ASYNC_EVENT_ALLOC,
        run: alloc,
        attributes: &[&[Attribute::file(
            bindings::uverbs_attrs_async_event_create_UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
            AsyncFile::ID,
            Access::New,
        )]],
    }],
})];

fn alloc(call: &Call) -> Result {
    let new = call.take_new::<AsyncFile>(
        bindings::uverbs_attrs_async_event_create_UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
    )?;
    start(&new)?;
    new.ready();
    Ok(())
}
