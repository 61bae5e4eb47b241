// SPDX-License-Identifier: GPL-2.0

//! Joins of multicast groups.
//!
//! A program leaves by the number of the join, in [`Shared::joins`](crate::Shared). The joins
//! themselves are in the queue of their context, where events find them by the cookie that the
//! connection manager keeps; it is a number, not an address, so an event of a join that was left
//! finds nothing.

use crate::context::Context;
use crate::file::File;
use crate::proto::command;
use crate::proto::command::Address;
use crate::proto::joins::Joined;
use crate::Shared;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::cm::SocketAddress;

/// A join that a program knows.
pub(crate) struct Member {
    context: Arc<Context>,
    /// Set by the one who removes it.
    gone: Atomic<bool>,
}

impl Member {
    /// Returns true for one of all callers.
    fn win(&self) -> bool {
        !self.gone.xchg(true, Full)
    }

    /// Removes the number of a join of a context that ends.
    pub(crate) fn forget(shared: &Shared, id: u32, context: &Arc<Context>) {
        if let Some(member) = shared.joins.get(id) {
            if Arc::ptr_eq(&member.context, context) && member.win() {
                drop(shared.joins.remove(id));
            }
        }
    }
}

/// Bits of the states of members (`enum ib_sa_mc_join_states`).
const FULL: u8 = 1 << bindings::ib_sa_mc_join_states_FULLMEMBER_JOIN;
const SEND_ONLY: u8 = 1 << bindings::ib_sa_mc_join_states_SENDONLY_FULLMEMBER_JOIN;

/// Joins a group. `tell` copies the number to the program.
///
/// # Errors
///
/// Those of the connection manager and of `tell`; `ENOMEM`.
pub(crate) fn join(
    file: &File,
    wanted: &command::Join<'_>,
    tell: impl FnOnce(u32) -> Result,
) -> Result {
    let context = Context::find(file, wanted.id)?;
    let shared = &file.shared;
    context.with_cm(|cm| cm.has_device().then_some(()).ok_or(EINVAL))?;
    let slot = crate::number(&shared.joins, GFP_KERNEL_ACCOUNT)?;
    let id = slot.id();
    let member = Arc::new(
        Member {
            context: context.clone(),
            gone: Atomic::new(false),
        },
        GFP_KERNEL_ACCOUNT,
    )?;
    let state = if wanted.send_only { SEND_ONLY } else { FULL };
    context.with_cm(|cm| {
        let address = wanted.address.whole();
        let cookie = add(&context, id, wanted.uid, address)?;
        cm.join(SocketAddress(address.0), state, cookie)
            .inspect_err(|_| {
                let _ = context.file().forget_join(&context, id, false);
            })
    })?;
    if let Err(e) = tell(id) {
        // If the context ends meanwhile, so does the join.
        let _: Result<u32> = left(&context, id);
        return Err(e);
    }
    let _: u32 = slot.publish(member);
    if context.check_alive().is_err() {
        // Its end may have missed the number.
        Member::forget(shared, id, &context);
    }
    Ok(())
}

/// Adds a join. Returns its cookie.
fn add(context: &Context, id: u32, uid: u64, address: Address) -> Result<usize> {
    let mut queue = context.queue.lock();
    let cookie = queue.next_cookie;
    let joined = Joined {
        id,
        uid,
        cookie,
        address,
        reported: 0,
    };
    queue.joins.push(joined, GFP_KERNEL_ACCOUNT)?;
    queue.next_cookie = cookie.wrapping_add(1);
    Ok(cookie)
}

/// Leaves the group of a join of a context. Returns the number of its events that the program has
/// read.
fn left(context: &Arc<Context>, id: u32) -> Result<u32> {
    context.with_cm(|cm| {
        let address = {
            let queue = context.queue.lock();
            let found = queue.joins.iter().find(|join| join.id == id);
            found.map(|join| join.address).ok_or(ENOENT)?
        };
        // Waits for handlers of the join.
        cm.leave(SocketAddress(address.0));
        let join = context.file().forget_join(context, id, true);
        Ok(join.ok_or(ENOENT)?.reported)
    })
}

/// Leaves the group of a join. Returns the number of its events that the program has read.
///
/// # Errors
///
/// `ENOENT`; `EINVAL` if another file has the context; `ENXIO` if its device is gone.
pub(crate) fn leave(file: &File, id: u32) -> Result<u32> {
    let member = file.shared.joins.get(id).ok_or(ENOENT)?;
    member.context.check(file)?;
    if !member.win() {
        return Err(ENOENT);
    }
    let reported = left(&member.context, id);
    // The number is free only now: until then, the list of the context has it.
    drop(file.shared.joins.remove(id));
    reported
}
