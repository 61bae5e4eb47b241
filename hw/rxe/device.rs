// SPDX-License-Identifier: GPL-2.0

//! A soft-RoCE device.
//!
//! [`Rxe`] is the driver's part of the verbs device; [`Dev`] is the state that the data path
//! shares. Incoming packets are dispatched to their queue pairs here.
//!
//! Lifetimes: `Rxe` owns the attachment to the network. It is dropped after the core has
//! unregistered the device and destroyed all of the device's objects. `Dev` lives as long as any
//! queue pair, and an armed timer or a packet may hold a queue pair longer; a page fault that does not
//! end holds `Dev` itself.

use crate::ah::Ah;
use crate::ah::Holders;
use crate::counters::Counter;
use crate::counters::Counters;
use crate::edge::random_u64;
use crate::faults::Faults;
use crate::limits;
use crate::mcast::Groups;
use crate::mcast::Members;
use crate::mem::Memory;
use crate::mem::PdId;
use crate::mem::QpTag;
use crate::net;
use crate::net::Attachment;
use crate::net::DropReason;
use crate::net::Endpoint;
use crate::net::NetEdge;
use crate::net::Path;
use crate::net::PathSpec;
use crate::net::RxPacket;
use crate::net::RxRun;
use crate::net::RxSink;
use crate::net::Stream;
use crate::qp::Qp;
use crate::queue::wqe::UserAv;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::SetOnce;
use rdma::net::LiveGid;
use rdma::net::NetDevice;
use rdma::net::NetdevEvent;
use rdma::new_table;
use rdma::provider::device::PortEvent;
use rdma::provider::DeviceRef;
use rdma::provider::Gid;
use rdma::table::Table;
use rdma::wire::Bth;
use rdma::wire::Ext;

/// Destination queue pair number of multicast packets.
pub(crate) const MULTICAST_QPN: u32 = 0x00ff_ffff;
/// Bytes of the network device's MTU that are reserved for packet headers.
const MAX_HEADERS: u32 = 80;

/// The part of a device that the data path shares.
#[pin_data]
pub(crate) struct Dev {
    pub(crate) counters: Counters,
    pub(crate) endpoint: Arc<Endpoint<Dev>>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) faults: Arc<Faults>,
    #[pin]
    pub(crate) qps: Table<Qp, 256>,
    #[pin]
    pub(crate) ahs: Table<Ah, 64>,
    pub(crate) holders: Holders,
    #[pin]
    pub(crate) groups: Groups,
    /// Shared receive queues by number.
    #[pin]
    pub(crate) srqs: Table<()>,
    /// Number of protection domains.
    pds: Atomic<u32>,
    /// Number of the next one. Consecutive, as they choose places in `holders`.
    next_pd: Atomic<u64>,
    /// Packets received with an unknown P_Key.
    pub(crate) bad_pkeys: Atomic<u32>,
    /// Datagrams with the wrong Q_Key.
    pub(crate) bad_qkeys: Atomic<u32>,
    /// Bytes of buffers that queue pairs keep for packets that came early.
    pub(crate) early: Atomic<usize>,
    tags: Atomic<u64>,
    /// MTU of the network device in bytes.
    mtu: Atomic<u32>,
    device: SetOnce<DeviceRef<Rxe>>,
}

/// The driver's part of a verbs device.
pub(crate) struct Rxe {
    pub(crate) dev: Arc<Dev>,
    pub(crate) netdev: ARef<NetDevice>,
    /// Hardware address of the network device, or a random one if it has none.
    pub(crate) mac: [u8; 6],
    attachment: Attachment<Dev>,
    /// System image GUID; `modify_device` may change it.
    pub(crate) image_guid: Atomic<u64>,
}

impl Rxe {
    /// Creates the data of a device on `netdev` and starts reception. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if `netdev` already has a device; those of [`Attachment::new`].
    pub(crate) fn new(
        edge: &NetEdge<Dev>,
        faults: Arc<Faults>,
        netdev: &NetDevice,
    ) -> Result<Self> {
        let endpoint = Endpoint::new(edge, netdev)?;
        let counters = Counters::new()?;
        let memory = Arc::pin_init(Memory::new(), GFP_KERNEL)?;
        let for_dev = endpoint.clone();
        let dev = Arc::pin_init(
            pin_init!(Dev {
                counters,
                endpoint: for_dev,
                memory,
                faults,
                qps <- new_table!("rxe::Dev::qps"),
                ahs <- new_table!("rxe::Dev::ahs"),
                holders: Holders::new(),
                groups <- Groups::new(),
                srqs <- new_table!("rxe::Dev::srqs"),
                pds: Atomic::new(0),
                next_pd: Atomic::new(0),
                bad_pkeys: Atomic::new(0),
                early: Atomic::new(0),
                bad_qkeys: Atomic::new(0),
                tags: Atomic::new(0),
                mtu: Atomic::new(netdev.mtu()),
                device: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        let mac = if netdev.addr_len() >= 6 {
            netdev.mac()
        } else {
            random_mac()
        };
        let attachment = Attachment::new(edge, endpoint, netdev, dev.clone())?;
        Ok(Self {
            dev,
            netdev: netdev.hold(),
            mac,
            attachment,
            image_guid: Atomic::new(u64::from_be_bytes(guid(mac))),
        })
    }

    /// Returns the node GUID in network byte order.
    pub(crate) fn guid(&self) -> [u8; 8] {
        guid(self.mac)
    }
}

/// Returns the modified EUI-64 of a hardware address (RFC 4291, appendix A).
fn guid([a, b, c, d, e, f]: [u8; 6]) -> [u8; 8] {
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// Returns a random locally administered address, for network devices without an address.
fn random_mac() -> [u8; 6] {
    let [mut mac @ .., _, _] = random_u64().to_ne_bytes();
    let [first, ..] = &mut mac;
    *first = *first & 0xfe | 2;
    mac
}

impl Dev {
    /// Sets the verbs device of the data path. Called once, before registration.
    pub(crate) fn set_device(&self, device: DeviceRef<Rxe>) {
        self.device.populate(device);
    }

    /// Returns the largest `IB_MTU_*` whose packets fit the network device's MTU.
    pub(crate) fn mtu_code(&self) -> u32 {
        match self.mtu.load(Relaxed).saturating_sub(MAX_HEADERS) {
            4096.. => 5,
            2048.. => 4,
            1024.. => 3,
            512.. => 2,
            _ => 1,
        }
    }

    /// Returns a tag for a queue pair that is unique for the lifetime of the device.
    pub(crate) fn tag(&self) -> QpTag {
        QpTag(self.tags.fetch_add(1u64, Relaxed))
    }

    /// Counts a protection domain, and returns its number.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are too many.
    pub(crate) fn count_pd(&self) -> Result<PdId> {
        if self.pds.fetch_add(1u32, Relaxed) >= limits::MAX_PD {
            self.uncount_pd();
            return Err(EBUSY);
        }
        Ok(PdId(self.next_pd.fetch_add(1u64, Relaxed)))
    }

    /// Undoes [`count_pd`](Self::count_pd) once.
    pub(crate) fn uncount_pd(&self) {
        let _: u32 = self.pds.fetch_sub(1u32, Relaxed);
    }

    /// Returns the GID at `index` of the port's table, if the device is registered. Any context but
    /// hard interrupts.
    pub(crate) fn gid(&self, index: u8) -> Option<LiveGid<'_, Rxe>> {
        let live = self.device.as_ref()?.live()?;
        LiveGid::get(live, 1, index).ok()
    }

    /// Returns the GID table entry of a path's source. This is the entry at the path's index or, if
    /// that index now holds another GID, the entry that holds the path's GID: when a bond changes
    /// its active link, the core removes entries and adds them at other indices. Any context but
    /// hard interrupts.
    pub(crate) fn source_gid(&self, path: &PathSpec) -> Option<LiveGid<'_, Rxe>> {
        if let Some(entry) = self.gid(path.sgid_index) {
            if entry.gid() == path.sgid {
                return Some(entry);
            }
        }
        let live = self.device.as_ref()?.live()?;
        LiveGid::find(live, 1, &path.sgid).ok()
    }

    /// Returns the path of an address vector, which old user libraries put into each datagram
    /// request; `None` if the address is not usable.
    pub(crate) fn path_of_av(&self, av: &UserAv, qpn: u32) -> Option<Path> {
        let spec = PathSpec {
            sgid: self.gid(av.sgid_index)?.gid(),
            sgid_index: av.sgid_index,
            dgid: av.dgid,
            dmac: av.dmac,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
            flow_label: av.flow_label,
        };
        Path::new(spec, net::default_source_port(qpn)).ok()
    }

    /// Returns whether a packet's destination address is one of the device's GIDs.
    fn is_ours(&self, packet: &RxPacket) -> bool {
        packet.is_local()
            || packet
                .addrs()
                .is_some_and(|addrs| self.has_gid(&addrs.dst_gid()))
    }

    /// Returns whether a GID is in the device's table. Any context but hard interrupts.
    fn has_gid(&self, gid: &Gid) -> bool {
        let Some(live) = self.device.as_ref().and_then(DeviceRef::live) else {
            return false;
        };
        LiveGid::find(live, 1, gid).is_ok()
    }

    /// Delivers the next packets of `stream`, which go to one multicast group, to all members except
    /// their sender (IBTA 10.5.2.2). Takes at least one packet.
    fn receive_multicast(&self, stream: Stream, run: &mut RxRun<'_>, rcu: &rcu::Guard) {
        let Some(addrs) = run.peek().and_then(RxPacket::addrs) else {
            drop(run.take());
            return;
        };
        let members = self.groups.members(&addrs.dst_gid());
        let members = members.as_ref().map_or(&[][..], Members::numbers);
        // Rarely needed; the addresses of all these packets are the same.
        let mut from_here = None;
        let mut is_from_here = || *from_here.get_or_insert_with(|| self.has_gid(&addrs.src_gid()));
        run.only(Some(addrs));
        // The first packet was examined, and satisfies the condition.
        while let Some(packet) = run.take_of(stream) {
            self.deliver_copies(packet, members, &mut is_from_here, rcu);
        }
        run.only(None);
    }

    /// Delivers a multicast packet to all `members` except its sender.
    fn deliver_copies(
        &self,
        mut packet: RxPacket,
        members: &[u32],
        is_from_here: &mut impl FnMut() -> bool,
        rcu: &rcu::Guard,
    ) {
        let from = match packet.ext() {
            Some(Ext::Deth(deth) | Ext::DethImm(deth, _)) => deth.src_qpn,
            Some(_) | None => return,
        };
        // Each member found waits for the next one, so that the last gets the original packet.
        let mut found: Option<ArcBorrow<'_, Qp>> = None;
        for number in members {
            if *number == from && is_from_here() {
                continue;
            }
            let Some(qp) = self
                .qps
                .borrow(*number, rcu)
                .filter(|qp| qp.admits(&packet))
            else {
                continue;
            };
            if let Some(previous) = found.replace(qp) {
                // Without memory the copy is lost, as datagrams may be.
                if let Ok(copy) = packet.try_clone() {
                    Qp::receive(previous, copy.stream(), &mut RxRun::one(copy), 1);
                }
            }
        }
        if let Some(qp) = found {
            Qp::receive(qp, packet.stream(), &mut RxRun::one(packet), 1);
        }
    }
}

impl Dev {
    /// Takes the next packets of `stream` from `run`; at least one.
    #[inline]
    fn receive_some(&self, stream: Stream, run: &mut RxRun<'_>, rcu: &rcu::Guard) {
        let Some(packet) = run.peek() else { return };
        let start = *packet.start();
        let qp = if start.pkey() | 0x8000 != Bth::DEFAULT_PKEY {
            // The P_Key table has one entry, the default full-membership key. Limited members match
            // it too (IBTA 10.9.3).
            let _: u32 = self.bad_pkeys.fetch_add(1u32, Relaxed);
            None
        } else {
            // The multicast QPN and a multicast address must occur together (IBTA 9.6.1.3.1). A
            // connected queue pair compares the address with its own, which is never multicast.
            let is_multicast = || packet.addrs().is_none_or(|addrs| addrs.is_multicast());
            match start.dest_qpn() == MULTICAST_QPN {
                true if is_multicast() => {
                    self.receive_multicast(stream, run, rcu);
                    return;
                }
                true => None,
                false => self.qps.borrow(start.dest_qpn(), rcu).filter(|qp| {
                    qp.admits(packet)
                        && (!qp.kind.is_datagram() || (!is_multicast() && self.is_ours(packet)))
                }),
            }
        };
        match qp {
            Some(qp) if qp.kind.is_datagram() => {
                // The addresses of each datagram must be checked; those of a train are the same.
                let addrs = packet.addrs();
                run.only(addrs);
                Qp::receive(qp, stream, run, u32::MAX);
                run.only(None);
            }
            Some(qp) => Qp::receive(qp, stream, run, u32::MAX),
            None => drop(run.take()),
        }
    }
}

impl RxSink for Dev {
    fn receive(&self, run: &mut RxRun<'_>) {
        let rcu = rcu::read_lock();
        while let Some(packet) = run.peek() {
            self.receive_some(packet.stream(), run, &rcu);
        }
        let (packets, bytes) = run.taken();
        self.counters.add(Counter::ReceivedPackets, packets.into());
        let bytes = i64::try_from(bytes).unwrap_or(0);
        self.counters.add(Counter::ReceivedBytes, bytes);
    }

    fn dropped(&self, _reason: DropReason) {}

    fn link_event(&self, event: NetdevEvent, ndev: &NetDevice) {
        match event {
            NetdevEvent::Down | NetdevEvent::Change => {
                if !ndev.is_active() {
                    self.counters.inc(Counter::LinkDowned);
                }
            }
            NetdevEvent::Unregister => {
                if let Some(live) = self.device.as_ref().and_then(DeviceRef::live) {
                    live.unregister_queued();
                }
            }
            NetdevEvent::ChangeMtu => self.mtu.store(ndev.mtu(), Relaxed),
            NetdevEvent::Register
            | NetdevEvent::Up
            | NetdevEvent::GoingDown
            | NetdevEvent::ChangeAddr
            | NetdevEvent::ChangeName
            | NetdevEvent::ChangeUpper
            | NetdevEvent::BondingFailover
            | NetdevEvent::Other(_) => {}
        }
    }
}

/// Reports the port state to event listeners when a device has become live: after registration, and
/// after each move to another network namespace. If its network device was unregistered while the
/// device was not live, so that the notifier could not find it, the device is unregistered here.
/// May sleep; must not be called under RTNL.
pub(crate) fn enabled(device: &rdma::provider::Device<Rxe>, edge: &NetEdge<Dev>) {
    if let Some(live) = device.live() {
        let event = if device.netdev.is_active() {
            PortEvent::Active
        } else {
            PortEvent::Error
        };
        live.port_event(1, event);
        if !device.attachment.is_attached(edge, &device.netdev) {
            live.unregister_queued();
        }
    }
}
