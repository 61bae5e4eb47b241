// SPDX-License-Identifier: GPL-2.0

//! The Provider API: how a driver offers an RDMA device.
//!
//! A driver implements [`Provider`] for the type that holds its device's data and registers a
//! [`device::Unregistered`] of it. The C core then calls the driver through `ib_device_ops`;
//! [`adapter`] builds that table from the trait. A driver author writes no `unsafe` for it.
//!
//! # Who owns what
//!
//! - The core allocates and frees the device and every verbs object except memory regions. The
//!   driver's part of an object (the associated types of [`Provider`]) lies in the same
//!   allocation, behind the C structure; it is initialised in place when the create method has
//!   succeeded and dropped when the destroy method has.
//! - A create method gets [`object::New`], the object before it has data, and returns an
//!   initialiser which cannot fail any more. Whatever can fail, and whatever makes the object
//!   known to others, belongs in the body of the method, the latter last.
//! - References to objects handed to a method are valid for the call. A data path that outlives
//!   the call keeps its own `Arc`s, and reaches the verbs object through the `upcall` of the
//!   object ([`upcall`]), which goes dead when the object is destroyed.
//!
//! # Context
//!
//! Methods may sleep unless they say that they must not. Several may run at once, on one object
//! too, except that create comes before and destroy after everything else.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_device_ops`). The verbs themselves are
//! described in the InfiniBand Architecture Specification, volume 1, chapter 11.

use crate::bindings;
use crate::net::DeviceName;
use crate::udata::Udata;
use kernel::prelude::*;

mod adapter;
pub mod attr;
pub mod device;
pub mod mad;
pub mod mmap;
pub mod object;
pub mod stats;
pub mod sub;
mod sysfs;
pub mod upcall;
pub mod wc;
pub mod wr;

pub use self::attr::Access;
pub use self::attr::Advice;
pub use self::attr::AhAttr;
pub use self::attr::AhInit;
pub use self::attr::CqAttr;
pub use self::attr::DeviceAttr;
pub use self::attr::DeviceModify;
pub use self::attr::DeviceModifyMask;
pub use self::attr::Gid;
pub use self::attr::LinkLayer;
pub use self::attr::MrType;
pub use self::attr::NotifyFlags;
pub use self::attr::PortAttr;
pub use self::attr::PortImmutable;
pub use self::attr::PortModify;
pub use self::attr::PortModifyMask;
pub use self::attr::QpAttr;
pub use self::attr::QpAttrMask;
pub use self::attr::QpCap;
pub use self::attr::QpChange;
pub use self::attr::QpInitAttr;
pub use self::attr::QpState;
pub use self::attr::QpType;
pub use self::attr::RegionMask;
pub use self::attr::SrqAttr;
pub use self::attr::SrqAttrMask;
pub use self::attr::SrqInitAttr;
pub use self::attr::SrqType;
pub use self::attr::UserRegion;
pub use self::device::Device;
pub use self::device::DeviceRef;
pub use self::device::Live;
pub use self::device::Registration;
pub use self::device::Unregistered;
pub use self::mad::Mad;
pub use self::mad::MadResult;
pub use self::mmap::Mappable;
pub use self::mmap::MmapEntry;
pub use self::object::Ah;
pub use self::object::Cq;
pub use self::object::Mr;
pub use self::object::Mw;
pub use self::object::New;
pub use self::object::Pd;
pub use self::object::Qp;
pub use self::object::SgList;
pub use self::object::Srq;
pub use self::object::UContext;
pub use self::object::Xrcd;
pub use self::stats::HwStats;
pub use self::stats::StatDesc;
pub use self::sub::SubDevice;
pub use self::upcall::CqUpcall;
pub use self::upcall::QpEvent;
pub use self::upcall::QpUpcall;
pub use self::upcall::SrqEvent;
pub use self::upcall::SrqUpcall;
pub use self::wc::Wc;
pub use self::wc::WcSlots;
pub use self::wr::RecvWr;
pub use self::wr::RecvWrs;
pub use self::wr::SendOp;
pub use self::wr::SendWr;
pub use self::wr::SendWrs;
pub use self::wr::Sge;
pub use self::wr::Sges;

/// `EOPNOTSUPP`, which the kernel crate has no constant for: what was asked for cannot be had here.
pub fn unsupported() -> Error {
    // CAST, OVERFLOW: a small number.
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// A driver of RDMA devices. `Self` is the data of one device.
///
/// A method without a body must be written; one with a body is an optional verb: as long as it is
/// not written, the core finds no such operation and answers its callers with `EOPNOTSUPP`.
///
/// An error a method returns is what the caller of the verb gets.
#[vtable]
pub trait Provider: Sized + Send + Sync + 'static {
    /// Which driver this is, `RDMA_DRIVER_*` of `rdma/ib_user_ioctl_verbs.h`. User libraries are
    /// chosen by it.
    const DRIVER_ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
    /// Version of the ABI between this driver and its user library.
    const UVERBS_ABI_VERSION: u32;
    /// What the device is, `RDMA_NODE_*`.
    const NODE_TYPE: u8 = attr::NODE_IB_CA;
    /// The node description a new device has; an administrator may change it. At most 63 bytes.
    const NODE_DESC: &'static CStr;
    /// Commands of the old `write` interface to allow beyond the usual ones, a mask of
    /// `1 << IB_USER_VERBS_CMD_*`. See [`attr::CMD_POST_SEND`].
    const UVERBS_CMDS: u64 = 0;
    /// Names of the counters each port has. With none, the port has no counters.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// Driver data of a user context (one open of the uverbs device).
    type UContext: Send + Sync;
    /// Driver data of a protection domain.
    type Pd: Send + Sync;
    /// Driver data of an address handle. It is created and dropped in any context.
    type Ah: Send + Sync;
    /// Driver data of a completion queue.
    type Cq: Send + Sync;
    /// Driver data of a queue pair.
    type Qp: Send + Sync;
    /// Driver data of a shared receive queue; `()` without.
    type Srq: Send + Sync;
    /// Driver data of a memory region.
    type Mr: Send + Sync;
    /// Driver data of a memory window; `()` without.
    type Mw: Send + Sync;
    /// Driver data of a domain of extended reliable connections; `()` without.
    type Xrcd: Send + Sync;

    /// Fills in what the device can do (IBA 11.2.1.2). `attr` is all zero at the call. Runs once
    /// during registration, when the device is not yet visible to anybody.
    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, udata: &mut Udata<'_>) -> Result;

    /// Changes the attributes named in `mask`.
    fn modify_device(_: &Device<Self>, _mask: DeviceModifyMask, _attr: &DeviceModify) -> Result {
        Err(unsupported())
    }

    /// Fills in the state of a port. `attr` is all zero at the call. `port` is within the
    /// device's ports.
    fn query_port(dev: &Device<Self>, port: u32, attr: &mut PortAttr) -> Result;

    /// Changes the attributes of a port named in `mask`.
    fn modify_port(
        _: &Device<Self>,
        _port: u32,
        _mask: PortModifyMask,
        _attr: &PortModify,
    ) -> Result {
        Err(unsupported())
    }

    /// Says what a port is for as long as the device is registered. Runs during registration.
    fn port_immutable(dev: &Device<Self>, port: u32) -> Result<PortImmutable>;

    /// The link layer of a port. Without this method it follows from [`Self::NODE_TYPE`].
    /// Must not sleep.
    fn link_layer(_: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Unspecified
    }

    /// The P_Key at `index` of the port's table.
    fn query_pkey(_: &Device<Self>, _port: u32, _index: u16) -> Result<u16> {
        Err(unsupported())
    }

    /// The GID at `index` of the port's table. The core does not ask for ports with Ethernet
    /// below, whose GIDs it manages itself.
    fn query_gid(_: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        Err(unsupported())
    }

    /// The name of the network device below, for the file `parent` of the device's folder in
    /// sysfs, which exists if a driver has this method. May sleep.
    fn parent(_: &Device<Self>) -> Result<DeviceName> {
        Err(unsupported())
    }

    /// Runs when the device has been registered and before clients are told of it. An error
    /// undoes the registration.
    fn enable_driver(_: &Device<Self>) -> Result {
        Ok(())
    }

    /// Makes and registers a device below this one, called `name`, for the task that `kind`
    /// says; see [`sub`]. May sleep.
    fn add_sub_device(
        _: &Device<Self>,
        _kind: SubDevice,
        _name: &CStr,
    ) -> Result<Registration<Self>> {
        Err(unsupported())
    }

    /// Handles a management datagram that came in on `port`.
    fn process_mad(_: &Device<Self>, _port: u32, _mad: &mut Mad<'_>) -> MadResult {
        MadResult::Success
    }

    /// Writes the current values of the counters of [`Self::PORT_STATS`] of a port.
    fn get_hw_stats(_: &Device<Self>, _port: u32, _stats: &mut HwStats<'_>) -> Result {
        Err(unsupported())
    }

    /// Makes a user context.
    fn alloc_ucontext(
        _: &New<'_, UContext<Self>>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::UContext>> {
        Err::<Self::UContext, Error>(unsupported())
    }

    /// Runs when the device goes away while user space still has the context open. A driver that
    /// has this method promises that what it mapped into user space may outlive the device.
    fn disassociate_ucontext(_: &UContext<Self>) {}

    /// Makes a protection domain (IBA 11.2.1.5).
    fn alloc_pd(pd: &New<'_, Pd<Self>>, udata: &mut Udata<'_>) -> Result<impl PinInit<Self::Pd>>;

    /// Makes an address handle (IBA 11.2.2.1), for user space (then `udata.is_user()`) or for the
    /// kernel. **Must not sleep unless `init.can_sleep()`**; allocate with `init.flags()`.
    fn create_ah(
        _: &New<'_, Ah<Self>>,
        _init: &AhInit<'_>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Ah>> {
        Err::<Self::Ah, Error>(unsupported())
    }

    /// Changes where an address handle leads.
    fn modify_ah(_: &Ah<Self>, _attr: &AhAttr) -> Result {
        Err(unsupported())
    }

    /// Says where an address handle leads. `attr` is all zero except for its type.
    fn query_ah(_: &Ah<Self>, _attr: &mut AhAttr) -> Result {
        Err(unsupported())
    }

    /// Makes a completion queue (IBA 11.2.8.1). Set the number of entries it really has with
    /// [`New::set_entries`].
    fn create_cq(
        cq: &New<'_, Cq<Self>>,
        attr: &CqAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Cq>>;

    /// Changes the size of a user's completion queue to at least `entries` and no completion is
    /// lost. Use [`Cq::set_entries`].
    fn resize_cq(_: &Cq<Self>, _entries: u32, _: &mut Udata<'_>) -> Result {
        Err(unsupported())
    }

    /// Runs before a completion queue is dropped. An error keeps it alive.
    fn destroy_cq(_: &Cq<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Moves completions of a kernel's queue into `out`, oldest first, until either is exhausted.
    /// **Must not sleep**, any context.
    fn poll_cq(cq: &Cq<Self>, out: &mut WcSlots<'_>) -> Result;

    /// How many completions are waiting, at most `max`. **Must not sleep.**
    fn peek_cq(_: &Cq<Self>, _max: u32) -> Result<u32> {
        Err(unsupported())
    }

    /// Arms the completion queue: the next completion of the wanted sort leads to one
    /// [`CqUpcall::completed`]. Answers whether completions were missed, which the consumer is
    /// only told if `flags` asked for it. **Must not sleep**, any context.
    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool>;

    /// Makes a queue pair in state RESET (IBA 11.2.4.1). Set its number with
    /// [`New::set_qp_num`] and write the capabilities it really has to `attr`.
    fn create_qp(
        qp: &New<'_, Qp<Self>>,
        attr: &mut QpInitAttr<Self>,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Qp>>;

    /// Changes the attributes named in `mask`, among them the state (IBA 11.2.4.2). Calls for one
    /// queue pair may overlap. Check the transition with [`attr::modify_is_ok`].
    fn modify_qp(
        qp: &Qp<Self>,
        attr: QpChange<'_>,
        mask: QpAttrMask,
        udata: &mut Udata<'_>,
    ) -> Result;

    /// Tells the attributes (all, or those of `mask`) and the initial attributes. May race with
    /// any other operation.
    fn query_qp(
        _: &Qp<Self>,
        _attr: &mut QpAttr,
        _mask: QpAttrMask,
        _init: &mut QpInitAttr<Self>,
    ) -> Result {
        Err(unsupported())
    }

    /// Runs before a queue pair is dropped. An error keeps it alive.
    fn destroy_qp(_: &Qp<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Posts work to the send queue of a kernel's queue pair. On an error the caller is told that
    /// the request last taken from `wrs` (or the first, if none was) and all after it were not
    /// posted. For a user's queue pair `wrs` is empty and the call is a doorbell; but where the
    /// user library posts by [`attr::CMD_POST_SEND`], it has requests whose addresses are those
    /// of the process.
    /// **Must not sleep**, any context.
    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result;

    /// Posts work to the receive queue of a kernel's queue pair, as [`Self::post_send`].
    /// **Must not sleep**, any context.
    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result;

    /// Makes a shared receive queue (IBA 11.2.3.1).
    fn create_srq(
        _: &New<'_, Srq<Self>>,
        _attr: &mut SrqInitAttr,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Srq>> {
        Err::<Self::Srq, Error>(unsupported())
    }

    /// Changes the size or the limit of a shared receive queue, as `mask` says.
    fn modify_srq(_: &Srq<Self>, _attr: &SrqAttr, _mask: SrqAttrMask, _: &mut Udata<'_>) -> Result {
        Err(unsupported())
    }

    /// Tells the attributes of a shared receive queue.
    fn query_srq(_: &Srq<Self>) -> Result<SrqAttr> {
        Err(unsupported())
    }

    /// Runs before a shared receive queue is dropped. An error keeps it alive.
    fn destroy_srq(_: &Srq<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Posts work to a kernel's shared receive queue, as [`Self::post_send`].
    /// **Must not sleep**, any context.
    fn post_srq_recv(_: &Srq<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        Err(unsupported())
    }

    /// Makes a region that is all memory the kernel may hand to the device. For a device without
    /// DMA of its own the addresses used with it are kernel virtual addresses. Set the keys with
    /// [`New::set_keys`].
    fn get_dma_mr(mr: &New<'_, Mr<Self>>, access: Access) -> Result<impl PinInit<Self::Mr>>;

    /// Registers memory of the calling process (IBA 11.2.5.3). Set the keys with
    /// [`New::set_keys`].
    fn reg_user_mr(
        mr: &New<'_, Mr<Self>>,
        region: &UserRegion,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Mr>>;

    /// Registers a part of a buffer of another driver's, which a process has as the file
    /// `fd`; `region.start` is the offset in it. Set the keys with [`New::set_keys`].
    fn reg_user_mr_dmabuf(
        _: &New<'_, Mr<Self>>,
        _region: &UserRegion,
        _fd: i32,
    ) -> Result<impl PinInit<Self::Mr>> {
        Err::<Self::Mr, Error>(unsupported())
    }

    /// Changes what `mask` names of a user's region, in place; `pd` is the new protection domain
    /// if the mask names it.
    fn rereg_user_mr(
        _: &Mr<Self>,
        _mask: RegionMask,
        _region: &UserRegion,
        _pd: &Pd<Self>,
        _: &mut Udata<'_>,
    ) -> Result {
        Err(unsupported())
    }

    /// Follows a process's advice on memory of regions in `pd` that is paged on demand, in
    /// the addresses and by the local keys of `list`. Unless `flush`, nobody waits for what
    /// comes of it.
    fn advise_mr(_: &Pd<Self>, _advice: Advice, _flush: bool, _list: &[Sge]) -> Result {
        Err(unsupported())
    }

    /// Makes a region for fast registration of up to `max_sg` pages. Set the keys with
    /// [`New::set_keys`].
    fn alloc_mr(
        _: &New<'_, Mr<Self>>,
        _kind: MrType,
        _max_sg: u32,
    ) -> Result<impl PinInit<Self::Mr>> {
        Err::<Self::Mr, Error>(unsupported())
    }

    /// Sets the pages of a region made by [`Self::alloc_mr`]: forget the old ones, then
    /// [`SgList::to_pages`], which calls [`Self::set_page`] for each. Answers how many entries of
    /// the list were mapped. Calls for one region do not overlap. **Must not sleep.**
    fn map_mr_sg(_: &Mr<Self>, _sg: SgList<'_>) -> Result<u32> {
        Err(unsupported())
    }

    /// Takes the next page (of [`Mr::page_size`] bytes) of a region; `ENOMEM` if it is full.
    /// Only called from within [`Self::map_mr_sg`].
    fn set_page(_: &Mr<Self>, _addr: u64) -> Result {
        Err(unsupported())
    }

    /// Runs before a region is dropped. An error keeps it alive. When it returns success, nobody
    /// may use the memory any more.
    fn dereg_mr(_: &Mr<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Makes a memory window (IBA 11.2.5.9). Set the key with [`New::set_rkey`].
    fn alloc_mw(_: &New<'_, Mw<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<Self::Mw>> {
        Err::<Self::Mw, Error>(unsupported())
    }

    /// Runs before a memory window is dropped. An error keeps it alive.
    fn dealloc_mw(_: &Mw<Self>) -> Result {
        Ok(())
    }

    /// Makes a domain of extended reliable connections (IBA 11.2.3.4). Queue pairs of
    /// [`QpType::XrcTgt`] belong to one; they have no protection domain and no completion queues,
    /// and processes that open one again, by its number, are the core's business.
    fn alloc_xrcd(_: &New<'_, Xrcd<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<Self::Xrcd>> {
        Err::<Self::Xrcd, Error>(unsupported())
    }

    /// Runs before a domain is dropped. An error keeps it alive.
    fn dealloc_xrcd(_: &Xrcd<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Makes an unreliable-datagram queue pair receive what is sent to a group.
    fn attach_mcast(_: &Qp<Self>, _gid: &Gid, _lid: u16) -> Result {
        Err(unsupported())
    }

    /// Ends what [`Self::attach_mcast`] began.
    fn detach_mcast(_: &Qp<Self>, _gid: &Gid, _lid: u16) -> Result {
        Err(unsupported())
    }
}
