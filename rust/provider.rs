// SPDX-License-Identifier: GPL-2.0

//! The Provider API, with which a driver implements an RDMA device.
//!
//! A driver implements [`Provider`] for the type of its device data and registers a
//! [`device::Unregistered`] of it. The core then calls the driver through `ib_device_ops`;
//! [`adapter`] builds that table from the trait. A driver needs no `unsafe` for it.
//!
//! # Ownership
//!
//! - The core allocates and frees the device and every verbs object except memory regions. The
//!   driver's part of an object (the associated types of [`Provider`]) is in the same allocation,
//!   behind the C structure. It is initialised in place when the create method has succeeded and
//!   dropped when the destroy method has succeeded.
//! - A create method gets [`object::New`], the object before it has data, and returns an infallible
//!   initialiser. Everything that can fail, and everything that makes the object visible to others,
//!   belongs in the body of the method, the latter last.
//! - References to objects that are passed to a method are valid during the call. A data path that
//!   outlives the call holds `Arc`s, and reaches the verbs object through its `upcall`
//!   ([`upcall`]), which has no effect once the object is destroyed.
//!
//! # Context
//!
//! Methods may sleep unless documented otherwise. Methods may run concurrently, also on one object;
//! but create precedes, and destroy follows, all other methods of the object.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_device_ops`). The verbs are specified in the
//! InfiniBand Architecture Specification (IBA), volume 1, chapter 11.

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
/// The operation is not supported.
pub use crate::errno::eopnotsupp as unsupported;
pub use crate::features::raw_limit;

/// A driver of RDMA devices. `Self` is the data of one device.
///
/// A method without a default body is mandatory. The others are optional verbs: if a driver does
/// not implement one, the operation is null in `ib_device_ops`, and the core returns `EOPNOTSUPP`
/// to callers.
///
/// Errors that a method returns are returned to the caller of the verb.
#[vtable]
pub trait Provider: Sized + Send + Sync + 'static {
    /// The driver, `RDMA_DRIVER_*` of `rdma/ib_user_ioctl_verbs.h`. User libraries select their
    /// provider by it.
    const DRIVER_ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
    /// Version of the ABI between this driver and its user library.
    const UVERBS_ABI_VERSION: u32;
    /// The node type, `RDMA_NODE_*`.
    const NODE_TYPE: u8 = attr::NODE_IB_CA;
    /// Number of ports. Constant, because the core allocates memory for each.
    const PORTS: u32 = 1;
    /// Node description of a new device, at most 63 bytes; an administrator may change it.
    const NODE_DESC: &'static CStr;
    /// Commands of the old `write` interface that are allowed in addition to the common ones, a
    /// mask of `1 << IB_USER_VERBS_CMD_*`. See [`attr::CMD_POST_SEND`].
    const UVERBS_CMDS: u64 = 0;
    /// Names of the counters of each port. If empty, ports have no counters.
    const PORT_STATS: &'static [StatDesc] = &[];

    /// Driver data of a user context (one open of the uverbs device).
    type UContext: Send + Sync;
    /// Driver data of a protection domain.
    type Pd: Send + Sync;
    /// Driver data of an address handle. Created and dropped in any context.
    type Ah: Send + Sync;
    /// Driver data of a completion queue.
    type Cq: Send + Sync;
    /// Driver data of a queue pair.
    type Qp: Send + Sync;
    /// Driver data of a shared receive queue; `()` if not supported.
    type Srq: Send + Sync;
    /// Driver data of a memory region.
    type Mr: Send + Sync;
    /// Driver data of a memory window; `()` if not supported.
    type Mw: Send + Sync;
    /// Driver data of an XRC domain; `()` if not supported.
    type Xrcd: Send + Sync;

    /// Returns the device attributes (IBA 11.2.1.2). `attr` is zeroed. Called once, during
    /// registration, before the device is visible.
    fn query_device(dev: &Device<Self>, attr: &mut DeviceAttr, udata: &mut Udata<'_>) -> Result;

    /// Changes the attributes selected by `mask`.
    fn modify_device(_: &Device<Self>, _mask: DeviceModifyMask, _attr: &DeviceModify) -> Result {
        Err(unsupported())
    }

    /// Returns the attributes of a port. `attr` is zeroed; `port` is valid.
    fn query_port(dev: &Device<Self>, port: u32, attr: &mut PortAttr) -> Result;

    /// Changes the attributes of a port that are selected by `mask`.
    fn modify_port(
        _: &Device<Self>,
        _port: u32,
        _mask: PortModifyMask,
        _attr: &PortModify,
    ) -> Result {
        Err(unsupported())
    }

    /// Returns the attributes of a port that are constant while the device is registered. Called
    /// during registration.
    fn port_immutable(dev: &Device<Self>, port: u32) -> Result<PortImmutable>;

    /// Returns the link layer of a port. Without this method it follows from [`Self::NODE_TYPE`].
    /// **Must not sleep.**
    fn link_layer(_: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Unspecified
    }

    /// Returns the P_Key at `index` of the port's table.
    fn query_pkey(_: &Device<Self>, _port: u32, _index: u16) -> Result<u16> {
        Err(unsupported())
    }

    /// Returns the GID at `index` of the port's table. Not called for RoCE ports, whose GIDs the
    /// core manages.
    fn query_gid(_: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        Err(unsupported())
    }

    /// Returns the name of the underlying network device, the content of the file `parent` in the
    /// device's sysfs directory. The file exists if a driver implements this method. May sleep.
    fn parent(_: &Device<Self>) -> Result<DeviceName> {
        Err(unsupported())
    }

    /// Called after registration of the device, before clients are notified. If it fails, the
    /// device is unregistered.
    fn enable_driver(_: &Device<Self>) -> Result {
        Ok(())
    }

    /// Creates and registers a sub-device of this one, called `name`, of type `kind`; see [`sub`].
    /// May sleep.
    fn add_sub_device(
        _: &Device<Self>,
        _kind: SubDevice,
        _name: &CStr,
    ) -> Result<Registration<Self>> {
        Err(unsupported())
    }

    /// Processes a MAD that was received on `port`.
    fn process_mad(_: &Device<Self>, _port: u32, _mad: &mut Mad<'_>) -> MadResult {
        MadResult::Success
    }

    /// Returns the current values of the counters of [`Self::PORT_STATS`] of a port.
    fn get_hw_stats(_: &Device<Self>, _port: u32, _stats: &mut HwStats<'_>) -> Result {
        Err(unsupported())
    }

    /// Creates a user context.
    fn alloc_ucontext(
        _: &New<'_, UContext<Self>>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::UContext>> {
        Err::<Self::UContext, Error>(unsupported())
    }

    /// Called when the device is removed while a process has the context open. A driver that
    /// implements this method guarantees that its mappings in user space may outlive the device.
    fn disassociate_ucontext(_: &UContext<Self>) {}

    /// Creates a protection domain (IBA 11.2.1.5).
    fn alloc_pd(pd: &New<'_, Pd<Self>>, udata: &mut Udata<'_>) -> Result<impl PinInit<Self::Pd>>;

    /// Creates an address handle (IBA 11.2.2.1), for user space if `udata.is_user()`, else for the
    /// kernel. **Must not sleep unless `init.can_sleep()`**; allocate with `init.flags()`.
    fn create_ah(
        _: &New<'_, Ah<Self>>,
        _init: &AhInit<'_>,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Ah>> {
        Err::<Self::Ah, Error>(unsupported())
    }

    /// Changes the address vector of an address handle.
    fn modify_ah(_: &Ah<Self>, _attr: &AhAttr) -> Result {
        Err(unsupported())
    }

    /// Returns the address vector of an address handle. `attr` is zeroed except for its type.
    fn query_ah(_: &Ah<Self>, _attr: &mut AhAttr) -> Result {
        Err(unsupported())
    }

    /// Creates a completion queue (IBA 11.2.8.1). Set the actual number of entries with
    /// [`New::set_entries`].
    fn create_cq(
        cq: &New<'_, Cq<Self>>,
        attr: &CqAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Cq>>;

    /// Resizes a user's completion queue to at least `entries`, without loss of completions. Set
    /// the actual number with [`Cq::set_entries`].
    fn resize_cq(_: &Cq<Self>, _entries: u32, _: &mut Udata<'_>) -> Result {
        Err(unsupported())
    }

    /// Called before a completion queue is dropped. If it fails, the queue is kept.
    fn destroy_cq(_: &Cq<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Moves completions of a kernel's queue to `out`, oldest first, until the queue is empty or
    /// `out` is full. Any context. **Must not sleep.**
    fn poll_cq(cq: &Cq<Self>, out: &mut WcSlots<'_>) -> Result;

    /// Returns the number of waiting completions, at most `max`. **Must not sleep.**
    fn peek_cq(_: &Cq<Self>, _max: u32) -> Result<u32> {
        Err(unsupported())
    }

    /// Requests a notification: the next completion of the requested type causes one
    /// [`CqUpcall::completed`]. Returns whether completions were missed, which the core reports to
    /// the consumer only if `flags` requests it. Any context. **Must not sleep.**
    fn req_notify_cq(cq: &Cq<Self>, flags: NotifyFlags) -> Result<bool>;

    /// Creates a queue pair in state RESET (IBA 11.2.4.1). Set its number with [`New::set_qp_num`],
    /// and write the actual capabilities to `attr`.
    fn create_qp(
        qp: &mut New<'_, Qp<Self>>,
        attr: &mut QpInitAttr<Self>,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Qp>>;

    /// Changes the attributes selected by `mask`, which may include the state (IBA 11.2.4.2). Calls
    /// for one queue pair may overlap. Check transitions with [`attr::modify_is_ok`].
    fn modify_qp(
        qp: &Qp<Self>,
        attr: QpChange<'_>,
        mask: QpAttrMask,
        udata: &mut Udata<'_>,
    ) -> Result;

    /// Returns the attributes (all, or at least those of `mask`) and the initial attributes. May
    /// run concurrently with any other operation.
    fn query_qp(
        _: &Qp<Self>,
        _attr: &mut QpAttr,
        _mask: QpAttrMask,
        _init: &mut QpInitAttr<Self>,
    ) -> Result {
        Err(unsupported())
    }

    /// Called before a queue pair is dropped. If it fails, the queue pair is kept.
    fn destroy_qp(_: &Qp<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Posts work requests to the send queue of a kernel's queue pair. On error, the request last
    /// taken from `wrs` (the first, if none was taken) and all after it count as not posted. For a
    /// user's queue pair `wrs` is empty and the call is a doorbell; but if the user library posts
    /// with [`attr::CMD_POST_SEND`], `wrs` has requests whose addresses are those of the process.
    /// Any context. **Must not sleep.**
    fn post_send(qp: &Qp<Self>, wrs: &mut SendWrs<'_, Self>) -> Result;

    /// Posts work requests to the receive queue of a kernel's queue pair, as [`Self::post_send`].
    /// Any context. **Must not sleep.**
    fn post_recv(qp: &Qp<Self>, wrs: &mut RecvWrs<'_>) -> Result;

    /// Creates a shared receive queue (IBA 11.2.3.1).
    fn create_srq(
        _: &New<'_, Srq<Self>>,
        _attr: &mut SrqInitAttr,
        _: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Srq>> {
        Err::<Self::Srq, Error>(unsupported())
    }

    /// Changes the size or the limit of a shared receive queue, as selected by `mask`.
    fn modify_srq(_: &Srq<Self>, _attr: &SrqAttr, _mask: SrqAttrMask, _: &mut Udata<'_>) -> Result {
        Err(unsupported())
    }

    /// Returns the attributes of a shared receive queue.
    fn query_srq(_: &Srq<Self>) -> Result<SrqAttr> {
        Err(unsupported())
    }

    /// Called before a shared receive queue is dropped. If it fails, the queue is kept.
    fn destroy_srq(_: &Srq<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Posts work requests to a kernel's shared receive queue, as [`Self::post_send`]. Any context.
    /// **Must not sleep.**
    fn post_srq_recv(_: &Srq<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        Err(unsupported())
    }

    /// Creates a memory region that covers all memory the kernel may use for DMA. For a device
    /// without DMA of its own, addresses are kernel virtual addresses. Set the keys with
    /// [`New::set_keys`].
    fn get_dma_mr(mr: &New<'_, Mr<Self>>, access: Access) -> Result<impl PinInit<Self::Mr>>;

    /// Registers memory of the calling process (IBA 11.2.5.3). Set the keys with [`New::set_keys`].
    fn reg_user_mr(
        mr: &New<'_, Mr<Self>>,
        region: &UserRegion,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self::Mr>>;

    /// Registers a part of a dma-buf, which the process passes as the file descriptor `fd`;
    /// `region.start` is the offset in it. Set the keys with [`New::set_keys`].
    fn reg_user_mr_dmabuf(
        _: &New<'_, Mr<Self>>,
        _region: &UserRegion,
        _fd: i32,
    ) -> Result<impl PinInit<Self::Mr>> {
        Err::<Self::Mr, Error>(unsupported())
    }

    /// Changes the attributes of a user's region that are selected by `mask`, in place; `pd` is the
    /// new protection domain if `mask` selects it.
    fn rereg_user_mr(
        _: &Mr<Self>,
        _mask: RegionMask,
        _region: &UserRegion,
        _pd: &Pd<Self>,
        _: &mut Udata<'_>,
    ) -> Result {
        Err(unsupported())
    }

    /// Handles a process's advice about on-demand paged regions in `pd`; `list` has the addresses
    /// and local keys. If `flush` is false, the work may be asynchronous and its result is not
    /// reported.
    fn advise_mr(_: &Pd<Self>, _advice: Advice, _flush: bool, _list: &[Sge]) -> Result {
        Err(unsupported())
    }

    /// Creates a region for fast registration of up to `max_sg` pages. Set the keys with
    /// [`New::set_keys`].
    fn alloc_mr(
        _: &New<'_, Mr<Self>>,
        _kind: MrType,
        _max_sg: u32,
    ) -> Result<impl PinInit<Self::Mr>> {
        Err::<Self::Mr, Error>(unsupported())
    }

    /// Sets the pages of a region created by [`Self::alloc_mr`]: discard the old ones, then call
    /// [`SgList::to_pages`], which calls [`Self::set_page`] for each page. Returns the number of
    /// mapped entries of the list. Calls for one region do not overlap. **Must not sleep.**
    fn map_mr_sg(_: &Mr<Self>, _sg: SgList<'_>) -> Result<u32> {
        Err(unsupported())
    }

    /// Adds a page (of [`Mr::page_size`] bytes) to a region; `ENOMEM` if the region is full. Called
    /// only from [`Self::map_mr_sg`].
    fn set_page(_: &Mr<Self>, _addr: u64) -> Result {
        Err(unsupported())
    }

    /// Called before a region is dropped. If it fails, the region is kept. When it succeeds,
    /// nothing may use the memory any more.
    fn dereg_mr(_: &Mr<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Creates a memory window (IBA 11.2.5.9). Set the key with [`New::set_rkey`].
    fn alloc_mw(_: &New<'_, Mw<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<Self::Mw>> {
        Err::<Self::Mw, Error>(unsupported())
    }

    /// Called before a memory window is dropped. If it fails, the window is kept.
    fn dealloc_mw(_: &Mw<Self>) -> Result {
        Ok(())
    }

    /// Creates an XRC domain (IBA 11.2.3.4). Queue pairs of [`QpType::XrcTgt`] belong to one; they
    /// have no protection domain and no completion queues. The core handles processes that open
    /// such a queue pair by its number.
    fn alloc_xrcd(_: &New<'_, Xrcd<Self>>, _: &mut Udata<'_>) -> Result<impl PinInit<Self::Xrcd>> {
        Err::<Self::Xrcd, Error>(unsupported())
    }

    /// Called before an XRC domain is dropped. If it fails, the domain is kept.
    fn dealloc_xrcd(_: &Xrcd<Self>, _: &mut Udata<'_>) -> Result {
        Ok(())
    }

    /// Attaches a UD queue pair to a multicast group.
    fn attach_mcast(_: &Qp<Self>, _gid: &Gid, _lid: u16) -> Result {
        Err(unsupported())
    }

    /// Detaches a queue pair from a multicast group.
    fn detach_mcast(_: &Qp<Self>, _gid: &Gid, _lid: u16) -> Result {
        Err(unsupported())
    }
}
