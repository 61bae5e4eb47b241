// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that queue pairs are attached to.
//!
//! A queue pair that is attached is not destroyed by a command; when the file is closed or the
//! device is removed, it is detached first. So the groups are noted beside its handle. The list is
//! charged to the program, and its length has a limit.
//!
//! C headers: `struct ib_uverbs_attach_mcast` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Id;
use crate::edge::handle::Shared;
use crate::edge::object::qp;
use crate::object::qp::Qp;
use crate::table::Def;
use crate::table::Write;
use core::mem::ManuallyDrop;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::accounted;
use rdma::bindings;
use rdma::bindings::ib_uverbs_attach_mcast;
use rdma::bindings::ib_uverbs_detach_mcast;
use rdma::edge::verbs;

/// The most groups of a queue pair: as many as there are multicast LIDs.
const MOST: usize = 0x4000;
/// Room for groups at first.
const FEW: usize = 8;

/// The table of multicast groups.
pub(crate) const TABLE: &[Def] = &[
    Def::Object(Qp::ID),
    Def::Write(Write::input::<ib_uverbs_attach_mcast>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ATTACH_MCAST,
        attach,
    )),
    Def::CommandNeeds(needs!(attach_mcast)),
    Def::CommandNeeds(needs!(detach_mcast)),
    Def::Write(Write::input::<ib_uverbs_detach_mcast>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DETACH_MCAST,
        detach,
    )),
    Def::CommandNeeds(needs!(detach_mcast)),
];

/// A multicast group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its GID.
    pub(crate) gid: [u8; 16],
    /// Its LID, which is not used on Ethernet.
    pub(crate) lid: u16,
}

/// The groups that a queue pair is attached to, beside its handle. The lock is held while the
/// driver attaches and detaches, so that the list is what the driver has.
#[pin_data]
pub(crate) struct Groups {
    /// Without a drop, as all that is beside a handle; see [`leave`](Self::leave).
    #[pin]
    list: Mutex<ManuallyDrop<KVVec<Group>>>,
}

impl Groups {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- kernel::new_mutex!(ManuallyDrop::new(KVVec::new()), "Groups::list"),
        })
    }

    /// Whether the queue pair is attached to a group.
    pub(crate) fn any(&self) -> bool {
        !self.list.lock().is_empty()
    }

    /// Detaches the queue pair from all groups, before it is destroyed. May sleep.
    pub(crate) fn leave(&self, qp: &verbs::Qp) {
        let groups = core::mem::take(&mut **self.list.lock());
        for group in &groups {
            // The queue pair goes in any case.
            let _ = qp::detach(qp, group);
        }
    }

    /// Frees the memory of the list, of a queue pair that is in no group any more.
    pub(crate) fn free(&self) {
        drop(core::mem::take(&mut **self.list.lock()));
    }

    fn attach(&self, qp: &verbs::Qp, group: Group) -> Result {
        let mut list = self.list.lock();
        if list.contains(&group) {
            return Ok(());
        }
        if list.len() == list.capacity() {
            grow(&mut list)?;
        }
        qp::attach(qp, &group)?;
        // There is room.
        list.push_within_capacity(group).map_err(|_| ENOMEM)
    }

    fn detach(&self, qp: &verbs::Qp, group: Group) -> Result {
        let mut list = self.list.lock();
        let place = list.iter().position(|other| *other == group);
        let place = place.ok_or(EINVAL)?;
        // It is still in the group if the driver refuses.
        qp::detach(qp, &group)?;
        list.remove(place).map(|_| ()).map_err(|_| EINVAL)
    }
}

/// Doubles the room of a list.
///
/// # Errors
///
/// `ENOMEM`.
fn grow(list: &mut KVVec<Group>) -> Result {
    let room = list.capacity().saturating_mul(2).clamp(FEW, MOST);
    if room <= list.len() {
        return Err(ENOMEM);
    }
    let mut more = accounted::with_capacity(room)?;
    for group in list.iter() {
        more.push_within_capacity(*group).map_err(|_| ENOMEM)?;
    }
    *list = more;
    Ok(())
}

fn attach(call: &Call) -> Result {
    let request: ib_uverbs_attach_mcast = call.request()?;
    let qp = Shared::<Qp>::get(call, request.qp_handle)?;
    let group = Group {
        gid: request.gid,
        lid: request.mlid,
    };
    qp.handle().beside().groups.attach(&qp, group)
}

fn detach(call: &Call) -> Result {
    let request: ib_uverbs_detach_mcast = call.request()?;
    let qp = Shared::<Qp>::get(call, request.qp_handle)?;
    let group = Group {
        gid: request.gid,
        lid: request.mlid,
    };
    qp.handle().beside().groups.detach(&qp, group)
}
