// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that an ID has joined. On InfiniBand the subnet administrator is asked, and the
//! consumer is told from its client's work item. On RoCE a group is joined locally: by IGMP, if the
//! network device receives its packets by IP. The consumer is told from the ID's work item.
//!
//! Locks: the lock of callbacks, then `Membership::left`, which is held while the consumer is told,
//! so that leaving waits for that. RTNL and `Membership::joined` are taken alone; a group of
//! InfiniBand is left without locks, which waits for its callback.

use crate::edge::core::caps;
use crate::edge::core::multicast_event;
use crate::edge::core::Group;
use crate::edge::core::GroupContext;
use crate::edge::errno;
use crate::edge::event::Event;
use crate::edge::ib::DatagramEvent;
use crate::edge::id::HandlerGuard;
use crate::edge::id::Id;
use crate::edge::qp::default_qkey;
use crate::edge::qp::set_qkey;
use crate::edge::sa;
use crate::edge::sa::Joined;
use crate::proto::addr::Address;
use crate::proto::event::Kind;
use crate::proto::event::Status;
use crate::proto::group;
use crate::proto::option::QpType;
use crate::proto::route;
use crate::proto::route::GidType;
use crate::proto::service::Space;
use crate::proto::state::After;
use crate::proto::state::Answer;
use crate::proto::state::Cause;
use crate::proto::state::Turn;
use crate::proto::Refusal;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::bindings;
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
    gid_type: GidType,
    context: GroupContext,
    /// On RoCE.
    local: Option<Local>,
    /// On InfiniBand.
    #[pin]
    joined: Mutex<Option<Joined>>,
    /// The consumer has left the group, and must not be told of it any more.
    #[pin]
    left: Mutex<bool>,
}

/// What a group on RoCE is.
struct Local {
    group: Group,
    /// The group that was joined by IGMP, and the interface.
    igmp: Option<(Ipv4Addr, i32)>,
}

impl Membership {
    fn new(
        addr: Address,
        gid_type: GidType,
        context: Passed<c_void>,
        local: Option<Local>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                addr,
                gid_type,
                context: GroupContext::new(context),
                local,
                joined <- kernel::new_mutex!(None, "Membership::joined"),
                left <- kernel::new_mutex!(false, "Membership::left"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Joins a group. May sleep.
///
/// # Errors
///
/// `EINVAL`: the ID has a queue pair of its own, no device, another type or state, or the address is
/// unspecified on RoCE; `EADDRNOTAVAIL`: nobody on this port of InfiniBand has joined the broadcast
/// group; `ENODEV`, `ENOSYS`, `ENOTSUPP`, `ENOMEM`.
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
    let attached = id.attached().ok_or(EINVAL)?;
    let gid_type = attached.device.gid_type(port);
    let caps = caps(device.view(), port);
    if caps.roce() {
        join_roce(id, addr, join_state, gid_type, context)
    } else if caps.ib_mcast() {
        join_ib(id, addr, join_state, gid_type, context)
    } else {
        Err(enosys())
    }
}

/// Joins a group on InfiniBand.
fn join_ib(
    id: &Arc<Id>,
    addr: Address,
    join_state: u8,
    gid_type: GidType,
    context: Passed<c_void>,
) -> Result {
    let broadcast = sa::broadcast_group(id)?;
    if id.with(|inner| inner.qkey) == 0 {
        default_qkey(id)?;
    }
    let space = Space::from_raw(id.words().port_space());
    let mgid = group::of_ib(&addr, space, &id.link().broadcast);
    let member = Membership::new(addr, gid_type, context, None)?;
    let joined = Joined::join(
        id,
        &member,
        broadcast,
        mgid,
        join_state,
        group::fields(space),
    )?;
    *member.joined.lock() = Some(joined);
    let listed = id.groups.lock().push(member.clone(), GFP_KERNEL);
    listed.map_err(|error| {
        end(id, &member);
        error.into()
    })
}

/// Joins a group on RoCE.
fn join_roce(
    id: &Arc<Id>,
    addr: Address,
    join_state: u8,
    gid_type: GidType,
    context: Passed<c_void>,
) -> Result {
    if addr.is_zero() {
        return Err(EINVAL);
    }
    let udp = gid_type == GidType::RoceUdp;
    let interface = id.words().bound_dev_if();
    let dev = match interface {
        0 => None,
        interface => id.net().device_by_index(interface),
    }
    .ok_or(ENODEV)?;
    let ip = match addr {
        Address::V4(v4) if udp => Some(Ipv4Addr::from(v4.addr)),
        Address::V4(_) => None,
        Address::V6(_) | Address::Ib(_) if udp => return Err(errno(Refusal::NotSupported)),
        Address::V6(_) | Address::Ib(_) => None,
    };
    let mgid = group::of_roce(&addr, udp).ok_or(EINVAL)?;
    let igmp = ip.filter(|_| join_state != SEND_ONLY);
    let mtu = route::mtu(dev.mtu()).ok_or(EINVAL)?;
    if id.with(|inner| inner.qkey) == 0 {
        default_qkey(id)?;
    }
    let (source, _) = id.addrs();
    let local = Local {
        group: Group {
            mgid,
            port_gid: source.gid().unwrap_or_default(),
            mtu,
            hop_limit: if ip.is_some() { HOP_LIMIT } else { 1 },
        },
        igmp: igmp.map(|ip| (ip, interface)),
    };
    let member = Membership::new(addr, gid_type, context, Some(local))?;
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
    let igmp = member.local.as_ref().and_then(|local| local.igmp);
    if let Some((ip, interface)) = igmp {
        if let Some(dev) = id.net().device_by_index(interface) {
            dev.leave_group(IpAddr::V4(ip));
        }
    }
}

fn end(id: &Id, member: &Membership) {
    undo(id, member);
    let joined = member.joined.lock().take();
    // Waits for the consumer's callback of a group of InfiniBand, if it runs.
    drop(joined);
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
        let Some(local) = &member.local else { continue };
        let guard = id.lock();
        let left = member.left.lock();
        if !*left {
            let record = local.group.record();
            let made = multicast_event(id, record, member.gid_type, &member.context);
            deliver(id, &guard, member, made, Status::Ok);
        }
        drop(left);
        drop(guard);
    }
}

/// The subnet administrator has answered a request to join, or ended the membership: tells the
/// consumer. May sleep.
pub(crate) fn joined(
    id: &Id,
    member: &Membership,
    status: i32,
    record: bindings::ib_sa_mcmember_rec,
) {
    let guard = id.lock();
    let qkey = u32::from_be(record.qkey);
    // The C module tells the consumer nothing if the group has another Q_Key.
    let result = match status {
        0 => set_qkey(id, qkey).map_err(|error| error.to_errno()),
        status => Err(status),
    };
    let (made, status) = match result {
        Ok(()) => {
            let made = multicast_event(id, record, member.gid_type, &member.context);
            (made, Status::Ok)
        }
        Err(status) => (None, Status::Reported(status)),
    };
    deliver(id, &guard, member, made, status);
}

/// Tells the consumer of a group. `made`: the event, if the group was joined and can be reached.
fn deliver(
    id: &Id,
    guard: &HandlerGuard<'_>,
    member: &Membership,
    made: Option<DatagramEvent>,
    status: Status,
) {
    let (kind, mut event) = match made {
        Some(event) => (Kind::MulticastJoin, event),
        None => (
            Kind::MulticastError,
            Event::for_group(&member.context).into(),
        ),
    };
    // The consumer must not ask for destruction here (`rdma_cm.h`); it is ignored.
    let delivery = id.with(|inner| inner.life.begin(Cause::Around(kind)));
    if let Turn::Deliver(delivery) = delivery {
        event.event().set(kind, status.raw());
        let _ignored = id.call(event.event(), guard);
        let After::Keep = id.with(|inner| inner.life.over(delivery, Answer::Keep)) else {
            return pr_warn!("an event of a group ended an ID\n");
        };
    }
}
