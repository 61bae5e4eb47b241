// SPDX-License-Identifier: GPL-2.0

//! Completion channels: files from which programs read which completion queue has completions.
//!
//! C headers: `struct ib_uverbs_comp_event_desc` and others in
//! `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
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
use crate::edge::handle::Shared;
use crate::table::Def;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_comp_event_desc;
use rdma::bindings::ib_uverbs_create_comp_channel;
use rdma::bindings::ib_uverbs_create_comp_channel_resp;
use rdma::edge::uverbs::Reason;

/// Handles of completion channels.
pub(crate) struct Channel;

impl Kind for Channel {
    type Beside = Queue;

    fn beside() -> impl PinInit<Queue> {
        Queue::new()
    }
}

impl File for Channel {
    fn destroy(handle: &Handle<Self>, _why: Reason) {
        handle.beside().close();
    }
}

impl EventFile for Channel {
    type Events = Queue;
    type Event = ib_uverbs_comp_event_desc;

    fn queue(handle: &Handle<Self>) -> &Queue {
        handle.beside()
    }

    fn event(seen: &Seen) -> ib_uverbs_comp_event_desc {
        ib_uverbs_comp_event_desc {
            cq_handle: seen.element,
        }
    }
}

/// Finds the channel with a file descriptor, for an object that keeps it. May sleep.
///
/// # Errors
///
/// `EBADF`, `EINVAL`: there is no such channel of this program; `EIO`: the device is gone.
pub(crate) fn get(call: &Call, fd: i32) -> Result<Kept<Channel>> {
    Ok(Shared::<Channel>::by_file(call, fd)?.handle().keep())
}

static TYPE: FileType<Channel> = FileType::of_events();

/// The table of completion channels.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Channel::ID,
        of: Some(TYPE.get()),
        methods: &[],
    }),
    Def::ObjectNeeds(needs!(dealloc_pd)),
    Def::Write(Write::both::<
        ib_uverbs_create_comp_channel,
        ib_uverbs_create_comp_channel_resp,
    >(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        create,
    )),
];

fn create(call: &Call) -> Result {
    call.request::<ib_uverbs_create_comp_channel>()?;
    let handle = New::<Channel>::begin(call)?.ready();
    call.respond(|answer: &mut ib_uverbs_create_comp_channel_resp| answer.fd = handle.number())
}
