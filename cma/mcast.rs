// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that an ID has joined. On RoCE a group is joined locally: by IGMP, if the
//! network device receives its packets by IP. The consumer is told from the work item.
//!
//! Locks: the lock of callbacks, then `Membership::left`, which is held while the consumer is told,
//! so that leaving waits for that. RTNL is taken alone.

use crate::edge::core::caps;
use crate::edge::core::multicast_event;
use crate::edge::core::Group;
use crate::edge::core::GroupContext;
use crate::edge::errno;
use crate::edge::event::Event;
use crate::edge::id::Id;
use crate::edge::qp::default_qkey;
use crate::proto::addr::Address;
use crate::proto::event::Kind;
use crate::proto::event::Status;
use crate::proto::group;
use crate::proto::option::QpType;
use crate::proto::route;
use crate::proto::route::GidType;
use crate::proto::state::Cause;
use crate::proto::Refusal;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::edge::Passed;
use rdma::errno::enosys;

/// Join state of members that only send (`SENDONLY_FULLMEMBER_JOIN`).
const SEND_ONLY: u8 = 1 << 3;

/// Hop limit of groups of IP.
const HOP_LIMIT: u8 = 64;

/// A group that was joined.
#[pin_data]
pub(crate) struct Membership {
    addr: Address,
    group: Group,
    gid_type: GidType,
    /// The group that was joined by IGMP, and the interface.
    igmp: Option<(Ipv4Addr, i32)>,
    context: GroupContext,
    /// The consumer has left the group, and must not be told of it any more.
    #[pin]
    left: Mutex<bool>,
}

/// Joins a group. May sleep.
///
/// # Errors
///
/// `EINVAL`: the ID has a queue pair of its own, no device, another type or state, or the address is
/// unspecified; `ENODEV`, `ENOSYS`, `ENOTSUPP`, `ENOMEM`.
pub(crate) fn join(
    id: &Arc<Id>,
    addr: Option<Address>,
    join_state: u8,
    context: Passed<c_void>,
) -> Result {
    let may_join = id.with(|inner| inner.life.may_join());
    let (device, port) = id.device().ok_or(EINVAL)?;
    if id.has_qp() || !may_join || id.qp_type() != QpType::Ud {
        return Err(EINVAL);
    }
    let addr = addr.ok_or(EINVAL)?;
    if !caps(device.view(), port).roce() {
        // Groups of InfiniBand are not supported yet.
        return Err(enosys());
    }
    let attached = id.attached().ok_or(EINVAL)?;
    if addr.is_zero() {
        return Err(EINVAL);
    }
    let gid_type = attached.device.gid_type(port);
    let udp = gid_type == GidType::RoceUdp;
    let interface = id.words().bound_dev_if();
    let dev = match interface {
        0 => None,
        interface => id.net().device_by_index(interface),
    }
    .ok_or(ENODEV)?;
    let mgid = group::of_roce(&addr, udp).ok_or(EINVAL)?;
    let ip = match addr {
        Address::V4(v4) if udp => Some(Ipv4Addr::from(v4.addr)),
        Address::V4(_) => None,
        Address::V6(_) | Address::Ib(_) if udp => return Err(errno(Refusal::NotSupported)),
        Address::V6(_) | Address::Ib(_) => None,
    };
    let igmp = ip.filter(|_| join_state != SEND_ONLY);
    let mtu = route::mtu(dev.mtu()).ok_or(EINVAL)?;
    if id.with(|inner| inner.qkey) == 0 {
        default_qkey(id)?;
    }
    let (source, _) = id.addrs();
    let member = Arc::pin_init(
        pin_init!(Membership {
            addr,
            group: Group {
                mgid,
                port_gid: source.gid().unwrap_or_default(),
                mtu,
                hop_limit: if ip.is_some() { HOP_LIMIT } else { 1 },
            },
            gid_type,
            igmp: igmp.map(|ip| (ip, interface)),
            context: GroupContext::new(context),
            left <- kernel::new_mutex!(false, "Membership::left"),
        }),
        GFP_KERNEL,
    )?;
    if let Some(ip) = igmp {
        dev.join_group(IpAddr::V4(ip))?;
    }
    // First for the consumer, which finds it left if there is no memory for the second list.
    let listed = id
        .news
        .lock()
        .push(member.clone(), GFP_KERNEL)
        .and_then(|()| id.groups.lock().push(member.clone(), GFP_KERNEL));
    if let Err(error) = listed {
        end(id, &member);
        return Err(error.into());
    }
    Id::wake(id);
    Ok(())
}

/// Undoes what [`join`] did outside of the ID.
fn undo(id: &Id, member: &Membership) {
    if let Some((ip, interface)) = member.igmp {
        if let Some(dev) = id.net().device_by_index(interface) {
            dev.leave_group(IpAddr::V4(ip));
        }
    }
}

fn end(id: &Id, member: &Membership) {
    undo(id, member);
    // Waits for the consumer's callback of this group, if it runs.
    *member.left.lock() = true;
}

/// Leaves the group that was joined last with this address. May sleep.
pub(crate) fn leave(id: &Id, addr: Option<Address>) {
    let found = {
        let mut groups = id.groups.lock();
        let at = groups.iter().rposition(|member| Some(member.addr) == addr);
        at.and_then(|at| groups.remove(at).ok())
    };
    if let Some(member) = found {
        end(id, &member);
    }
}

/// Leaves all groups. May sleep.
pub(crate) fn leave_all(id: &Id) {
    let groups = core::mem::take(&mut *id.groups.lock());
    for member in &groups {
        end(id, member);
    }
    let news = core::mem::take(&mut *id.news.lock());
    drop(news);
}

/// Tells the consumer of groups that were joined, from the work item.
pub(crate) fn tell(id: &Arc<Id>) {
    let news = core::mem::take(&mut *id.news.lock());
    for member in &news {
        let guard = id.lock();
        let left = member.left.lock();
        if *left {
            continue;
        }
        let made = multicast_event(id, &member.group, member.gid_type, &member.context);
        let (kind, mut event) = match made {
            Some(event) => (Kind::MulticastJoin, event),
            None => (
                Kind::MulticastError,
                Event::for_group(&member.context).into(),
            ),
        };
        // The consumer must not ask for destruction here (`rdma_cm.h`); it is ignored.
        let delivery = id.with(|inner| inner.life.begin(Cause::Around(kind)));
        if let crate::proto::state::Turn::Deliver(delivery) = delivery {
            event.event().set(kind, Status::Ok.raw());
            let _ignored = id.call(event.event(), &guard);
            let over =
                id.with(|inner| inner.life.over(delivery, crate::proto::state::Answer::Keep));
            debug_kept(over);
        }
        drop(left);
        drop(guard);
    }
}

/// A delivery that was answered with `Keep` leaves nothing to do.
fn debug_kept(after: crate::proto::state::After) {
    if after != crate::proto::state::After::Keep {
        pr_warn!("an event of a group ended an ID\n");
    }
}
