// SPDX-License-Identifier: GPL-2.0

//! C structures of verbs, field by field.
//!
//! The keywords of the tables are explained in [`crate::edge`]. Must match
//! `include/rdma/ib_verbs.h`. A reference in an `init` list is to an object that counts its users
//! (`Object::uses` in the core), or to the device, which outlives all of its objects.

pub use super::ah::AhAttr;
pub use super::ah::AhMake;
pub use super::ah::GidAttr;
pub use super::qp_attr::QpAttr;
pub use super::srq::SrqWhole;

use super::chain::Chain;
use super::chain::Linked;
use super::device::Device;
use super::object::Boxed;
use super::object::GidSlot;
use super::object::Owned;
use super::object::Slot;
use super::object::UseCount;
use super::uverbs::Present;
use super::uverbs::UContext;
use super::uverbs::Uobject;
use super::uverbs::UserPtr;
use crate::bindings;
use crate::edge::Alone;
use crate::edge::FromC;
use crate::edge::IntoC;
use crate::edge::OfCall;
use crate::edge::Passed;
use crate::edge::SoleOwner;
use crate::edge::View;
use crate::edge::Within;
use crate::sync::Completion;
use crate::sync::IrqLock;
use crate::workqueue::CWork;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;

/// A consumer's handler of events of an object, with the consumer's context as an argument.
pub type EventHandler = Option<unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void)>;
/// Context of a consumer's handler.
pub type Context = Passed<c_void>;

crate::c_struct! {
    /// A protection domain.
    pub struct Pd: bindings::ib_pd;
    init PdInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Flags of creation (`enum ib_pd_flags`).
        flags: u32,
    }
    fields {
        /// Number of objects that use it.
        embed usecnt: UseCount;
        /// Restrack entry.
        embed res: Restrack;
        /// Memory region of the keys, if any.
        embed internal_mr at __internal_mr: Slot<Mr>;
        /// Local key for all memory of the consumer.
        const local_dma_lkey: u32, set_local_dma_lkey;
        /// Remote key for all memory.
        const unsafe_global_rkey: u32, set_unsafe_global_rkey;
        /// User handle.
        const uobject: Option<&Uobject>;
    }
}

crate::c_struct! {
    /// An address handle. It has no restrack entry.
    pub struct Ah: bindings::ib_ah;
    init AhInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain.
        pd: &'a Pd,
        /// Type of its address vector (`enum rdma_ah_attr_type`).
        kind at type_: u32,
    }
    fields {
        /// Local GID.
        embed sgid_attr: GidSlot;
    }
}

crate::c_struct! {
    /// A shared receive queue.
    pub struct Srq: bindings::ib_srq;
    init SrqInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain.
        pd: &'a Pd,
        /// User handle.
        uobject: Passed<bindings::ib_usrq_object>,
        /// Event handler.
        event_handler: EventHandler,
        /// Context of the handler.
        srq_context: Context,
        /// `enum ib_srq_type`.
        srq_type: u32,
    }
    fields {
        /// Number of queue pairs that use it.
        embed usecnt: UseCount;
        /// Restrack entry.
        embed res: Restrack;
        /// Completion queue.
        const cq at ext.cq: Option<&Cq> where has_cq;
    }
}

crate::c_struct! {
    /// A queue pair, or a user's handle to a shared one.
    pub struct Qp: bindings::ib_qp;
    init QpInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain.
        pd: Option<&'a Pd>,
        /// Completion queue of sends.
        send_cq: Option<&'a Cq>,
        /// Completion queue of receives.
        recv_cq: Option<&'a Cq>,
        /// Shared receive queue, if any.
        srq: Option<&'a Srq>,
        /// Indirection table of receive work queues (RSS).
        rwq_ind_tbl: Option<&'a RwqTable>,
        /// User handle.
        uobject: Option<&'a UQp>,
        /// Event handler that drivers call.
        event_handler: EventHandler,
        /// Event handler of the consumer.
        registered_event_handler: EventHandler,
        /// Context of the handlers.
        qp_context: Context,
        /// `enum ib_qp_type`.
        qp_type: u32,
    }
    fields {
        /// Number of uses: handles, multicast memberships and others.
        embed usecnt: UseCount;
        /// Restrack entry.
        embed res: Restrack;
        /// Port number; may change when the queue pair is modified.
        racy port: u32, set_port;
        /// Counter that the queue pair is bound to. Changed under the lock of the device's counters;
        /// without it, only for comparison. See [`Qp::bound`].
        racy counter: *mut bindings::rdma_counter;
        /// Local GID of the path.
        embed av_sgid_attr: GidSlot;
        /// Local GID of the alternate path.
        embed alt_path_sgid_attr: GidSlot;
        /// For a handle, the shared queue pair; otherwise the queue pair itself. See [`Qp::real`].
        const real_qp: Option<&Qp>;
        /// XRC domain of an XRC target.
        const xrcd: Option<&Xrcd>;
        /// Queue pair number, set by the driver.
        const qp_num: u32;
        /// Maximum number of scatter list entries of a send or write.
        const max_write_sge: u32, set_max_write_sge;
        /// Maximum number of scatter list entries of a read.
        const max_read_sge: u32, set_max_read_sge;
        /// Whether it accepts requests with protection information.
        const integrity_en: bool, set_integrity_en;
        /// Number of regions taken from its pools. Changed under `mr_lock`, read without.
        racy mrs_used: i32, set_mrs_used;
        /// Protects the pools of regions. Initialised by `set_up`.
        embed mr_lock: IrqLock;
        /// Pool of regions, protected by `mr_lock`. Initialised by `set_up`.
        embed rdma_mrs: Chain<Mr>;
        /// Pool of regions with protection information, as `rdma_mrs`.
        embed sig_mrs: Chain<Mr>;
        /// Completed with the last request of its shared receive queue. Initialised by `set_up`.
        embed srq_completion: Completion;
    }
}

crate::c_struct! {
    /// A completion queue.
    pub struct Cq: bindings::ib_cq;
    init CqInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Completion handler.
        comp_handler: bindings::ib_comp_handler,
        /// Event handler.
        event_handler: EventHandler,
        /// Context of the handlers.
        cq_context: Context,
    }
    fields {
        /// Number of queues that use it.
        embed usecnt: UseCount;
        /// Restrack entry.
        embed res: Restrack;
        /// Whether it belongs to a pool. Written only by the sole owner of the queue, so nobody
        /// else writes the bit field.
        bit shared: bool, set_shared;
        /// Number of its entries that consumers of a pool have reserved.
        racy cqe_used: u32, set_cqe_used;
        /// Number of entries. The driver changes it when the user resizes the queue.
        racy cqe: i32, set_cqe;
        /// Polling context of a kernel's queue (`enum ib_poll_context`). Not written for a user's
        /// queue.
        const poll_ctx: u32;
        /// Completion vector. Not written for a queue that the core does not poll.
        const comp_vector: u32, set_comp_vector;
        /// State of adaptive moderation, owned by the queue, or null.
        embed dim: Slot<Dim>;
        /// User handle.
        const uobject: Option<&UCq>;
    }
}

crate::c_struct! {
    /// State of adaptive moderation (`include/linux/dim.h`). Used by the library during a
    /// measurement, and by its work while that is queued.
    pub struct Dim: bindings::dim;
    fields {
        /// Applies the profile that the library has chosen. Initialised before the queue gets the
        /// state.
        embed work: CWork;
    }
}

// SAFETY: The core allocates it in a box, and passes it to a queue.
unsafe impl Boxed for Dim {}

crate::c_struct! {
    /// An XRC domain. It has no restrack entry.
    pub struct Xrcd: bindings::ib_xrcd;
    init XrcdInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Inode of the file that identifies it, if any.
        inode: Passed<bindings::inode>,
    }
    fields {
        /// Number of objects that use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// A memory region. The driver allocates and frees it, with a size that only the driver knows.
    pub struct Mr: bindings::ib_mr;
    init MrInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain. `IB_MR_REREG_PD` changes it, under the lock of the user handle.
        pd: &'a Pd,
        /// `enum ib_mr_type`.
        kind at type_: u32,
        /// Device memory that the region covers, if any.
        dm: Option<&'a Dm>,
        /// DMA handle, if any.
        dmah: Option<&'a Dmah>,
    }
    fields {
        /// Restrack entry.
        embed res: Restrack;
        /// Local key. The region's only user changes it before each use, concurrently with reads by
        /// `rdma resource`.
        racy lkey: u32, set_lkey;
        /// Remote key; changes as the local key does.
        racy rkey: u32, set_rkey;
        /// Address of the first byte.
        const iova: u64, set_iova;
        /// Length in bytes. The region's only user changes it when it maps other memory,
        /// concurrently with reads by `rdma resource`.
        racy length: u64, set_length;
        /// Whether it must be invalidated before its next use. Belongs to the region's user.
        const need_inval: bool, set_need_inval;
        /// Page size in bytes. Written when the region is mapped.
        racy page_size: u32, set_page_size;
        /// Signature attributes, allocated with kmalloc.
        embed sig_attrs: Slot<SigAttrs>;
        /// User handle.
        const uobject in __bindgen_anon_1.uobject: Passed<bindings::ib_uobject>, set_uobject;
    }
}

crate::c_struct! {
    /// A memory window. It has no restrack entry.
    pub struct Mw: bindings::ib_mw;
    init MwInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain.
        pd: &'a Pd,
        /// Type (`enum ib_mw_type`).
        kind at type_: u32,
    }
    fields {
        /// Remote key. The driver of a type 2 window changes it, concurrently with reads by the
        /// user.
        racy rkey: u32, set_rkey;
    }
}

// SAFETY: The union at this offset contains the link of kernel regions, which only pools use. For a
// user region, which is never in a pool, it contains the user handle.
unsafe impl Linked for Mr {
    const AT: usize = core::mem::offset_of!(bindings::ib_mr, __bindgen_anon_1);
}

// SAFETY: Only the pools of the device use `pool_entry`.
unsafe impl Linked for Cq {
    const AT: usize = core::mem::offset_of!(bindings::ib_cq, pool_entry);
}

crate::c_struct! {
    /// A work queue. The driver allocates and frees it. It has no restrack entry.
    pub struct Wq: bindings::ib_wq;
    init WqInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Protection domain.
        pd: &'a Pd,
        /// Completion queue of receives.
        cq: Option<&'a Cq>,
        /// Event handler.
        event_handler: EventHandler,
        /// Context of the handler.
        wq_context: Context,
        /// `enum ib_wq_type`.
        wq_type: u32,
        /// User handle.
        uobject: Passed<bindings::ib_uwq_object>,
    }
    fields {
        /// Number of tables that use it.
        embed usecnt: UseCount;
        /// The same, at creation.
        const first_usecnt at usecnt.counter: c_int, set_first_usecnt;
        /// State (`enum ib_wq_state`). The driver changes it.
        racy state: u32;
        /// Number of the queue, set by the driver.
        const wq_num: u32;
    }
}

crate::c_struct! {
    /// An indirection table of work queues.
    pub struct RwqTable: bindings::ib_rwq_ind_table;
    fields {
        /// Number of queue pairs that use it.
        embed usecnt: UseCount;
        /// Number of the table, set by the driver.
        const ind_tbl_num: u32;
    }
}

crate::c_struct! {
    /// Device memory.
    pub struct Dm: bindings::ib_dm;
    init DmInit<'a> {
        /// Device of the object.
        dev at device: &'a Device,
        /// Length in bytes.
        length: u32,
        /// User handle.
        uobject: Passed<bindings::ib_uobject>,
    }
    fields {
        /// Number of uses at creation.
        const first_usecnt at usecnt.counter: c_int, set_first_usecnt;
        /// Number of regions that use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// A DMA handle: attributes of a device's access to memory, such as TPH.
    pub struct Dmah: bindings::ib_dmah;
    fields {
        /// Device of the object.
        const dev at device: &Device;
        /// Restrack entry.
        embed res: Restrack;
        /// Number of regions that use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// Signature attributes of a region.
    pub struct SigAttrs: bindings::ib_sig_attrs;
    fields {
        /// Signature type on the wire (`enum ib_signature_type`).
        const on_wire at wire.sig_type: u32;
    }
}

crate::c_struct! {
    /// A user handle of a queue pair.
    pub struct UQp: bindings::ib_uqp_object;
    fields {}
}

crate::c_struct! {
    /// A user handle of a completion queue. Its C structure is declared in a header that only the
    /// core's modules include.
    pub struct UCq: bindings::ib_ucq_object;
    fields {}
}

/// A driver's function that takes a page of a region (`ib_sg_to_pages`).
///
/// # Invariants
///
/// It may be called for the region that is an argument of the same call, during that call, `'a`.
/// Calls have one such region.
pub struct SetPage<'a>(
    unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int,
    PhantomData<&'a ()>,
);

// SAFETY: The contract of `from_c` is the type invariant, or null.
unsafe impl FromC for Option<SetPage<'_>> {
    type C = Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int>;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        c.map(|set_page| SetPage(set_page, PhantomData))
    }
}
// SAFETY: The lifetime is that of the call.
unsafe impl<'a> Within<'a> for Option<SetPage<'a>> {}

impl SetPage<'_> {
    /// Passes a page to the driver. Returns a negative errno if the driver refuses.
    #[inline(always)]
    pub fn hand(&self, mr: &Alone<'_, Mr>, page: u64) -> c_int {
        // SAFETY: It is the driver's function, called during the call, whose only region is `mr`
        // (type invariant).
        unsafe { (self.0)(mr.raw(), page) }
    }
}

impl OpenAttr {
    /// Creates the attributes for a queue pair that is already known.
    pub fn new(event_handler: EventHandler, context: Context) -> Self {
        Self(Opaque::new(bindings::ib_qp_open_attr {
            event_handler,
            qp_context: context.into_c(),
            ..Default::default()
        }))
    }
}

// SAFETY: Only `new` creates them, in a box; the core passes them to regions.
unsafe impl Boxed for SigAttrs {}

impl SigAttrs {
    /// Allocates zeroed attributes. May sleep.
    pub fn new() -> Result<Owned<Self>> {
        let attrs = KBox::new(bindings::ib_sig_attrs::default(), GFP_KERNEL)?;
        Ok(Owned::of_box(attrs))
    }

    /// Frees attributes.
    pub fn free(this: Owned<Self>) {
        drop(this.into_box());
    }
}

crate::c_struct! {
    /// Driver-specific data of a user's call.
    pub struct UserCall: bindings::ib_udata;
    fields {
        /// User address of the input. `ib_uverbs` sets it before it calls the driver.
        const inbuf: UserPtr;
        /// Bytes of input.
        const inlen: usize;
        /// User address of the output.
        const outbuf: Passed<c_void>;
        /// Bytes available for output.
        const outlen: usize;
    }
}

crate::c_struct! {
    /// Attributes of a user's call.
    pub struct Bundle: bindings::uverbs_attr_bundle;
    fields {
        /// Driver-specific data.
        embed driver_udata at __bindgen_anon_1.__bindgen_anon_1.driver_udata: UserCall;
        /// Attributes that the user passed, by `rdma_helper_uverbs_attr_bit`. `ib_uverbs` writes it
        /// before it calls the method's handler.
        cell attr_present at __bindgen_anon_1.__bindgen_anon_1.attr_present: Present;
        /// User context, if one exists. `ib_uverbs` writes it before it calls the driver.
        const context at __bindgen_anon_1.__bindgen_anon_1.context: Option<&UContext>;
    }
}

/// Structures that exist for one call: arguments.
macro_rules! of_call {
    ($($name:ident),*) => { $(
        // SAFETY: The C caller owns the structure during the call; `Opaque` is not `Sync`.
        unsafe impl OfCall for $name {}
    )* };
}

of_call!(Bundle, AhAttr, QpAttr, QpMake, SrqMake, SrqAttr, CqMake, WqMake, QpEvent, OpenAttr);

crate::c_struct! {
    /// Creation attributes of a queue pair.
    pub struct QpMake: bindings::ib_qp_init_attr;
    fields {
        /// Event handler.
        cell event_handler: EventHandler;
        /// Context of the handler.
        cell qp_context: Context;
        /// Completion queue of sends.
        cell send_cq: Option<&Cq>;
        /// Completion queue of receives.
        cell recv_cq: Option<&Cq>;
        /// Shared receive queue, if any.
        cell srq: Option<&Srq>;
        /// XRC domain.
        cell xrcd: Option<&Xrcd>;
        /// Indirection table of receive work queues (RSS).
        cell rwq_ind_tbl: Option<&RwqTable>;
        /// `enum ib_qp_type`.
        cell qp_type: u32;
        /// `enum ib_qp_create_flags`.
        cell create_flags: u32;
        /// Port number of a special queue pair.
        cell port_num: u32;
        /// Number of RW API transfers that it must have room for.
        cell max_rdma_ctxs at cap.max_rdma_ctxs: u32;
        /// Maximum number of scatter list entries of a send.
        cell max_send_sge at cap.max_send_sge: u32;
        /// Maximum number of posted sends.
        cell max_send_wr at cap.max_send_wr: u32, set_max_send_wr;
        /// Maximum number of posted receives.
        cell max_recv_wr at cap.max_recv_wr: u32, set_max_recv_wr;
        /// Maximum number of scatter list entries of a receive.
        cell max_recv_sge at cap.max_recv_sge: u32, set_max_recv_sge;
        /// Maximum number of bytes of a send that are in the work request.
        cell max_inline_data at cap.max_inline_data: u32;
        /// Which sends are completed with an entry (`enum ib_sig_type`).
        cell sq_sig_type: u32;
    }
}

crate::c_struct! {
    /// Creation attributes of a shared receive queue.
    pub struct SrqMake: bindings::ib_srq_init_attr;
    fields {
        /// Event handler.
        cell event_handler: EventHandler;
        /// Context of the handler.
        cell srq_context: Context;
        /// `enum ib_srq_type`.
        cell srq_type: u32;
    }
}

crate::c_struct! {
    /// Size and limit of a shared receive queue.
    pub struct SrqAttr: bindings::ib_srq_attr;
    fields {}
}

crate::c_struct! {
    /// Creation attributes of a completion queue.
    pub struct CqMake: bindings::ib_cq_init_attr;
    fields {
        /// Number of entries.
        cell cqe: u32, set_cqe;
        /// Sets the completion vector.
        put set_comp_vector at comp_vector: u32;
    }
}

crate::c_struct! {
    /// Creation attributes of a work queue.
    pub struct WqMake: bindings::ib_wq_init_attr;
    fields {
        /// Event handler.
        cell event_handler: EventHandler;
        /// Context of the handler.
        cell wq_context: Context;
        /// `enum ib_wq_type`.
        cell wq_type: u32;
        /// Completion queue of receives.
        cell cq: Option<&Cq>;
    }
}

crate::c_struct! {
    /// An event of a queue pair.
    pub struct QpEvent: bindings::ib_event;
    fields {
        /// The queue pair.
        cell qp in element.qp: &Qp;
        /// `enum ib_event_type`.
        cell kind at event: u32;
    }
}

crate::c_struct! {
    /// Attributes for opening a shared queue pair.
    pub struct OpenAttr: bindings::ib_qp_open_attr;
    fields {
        /// Event handler.
        cell event_handler: EventHandler;
        /// Context of the handler.
        cell qp_context: Context;
        /// Queue pair number.
        cell qp_num: u32;
        /// `enum ib_qp_type`.
        cell qp_type: u32;
    }
}

/// Arguments that the core creates, zeroed.
macro_rules! zeroed {
    ($($name:ident: $c:ident),*) => { $(
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: The structure consists of integers and pointers, for which zero is valid.
                unsafe { core::mem::zeroed() }
            }
        }
    )* };
}

zeroed!(AhAttr: rdma_ah_attr, CqMake: ib_cq_init_attr, QpAttr: ib_qp_attr, QpMake: ib_qp_init_attr);

impl Qp {
    /// Returns the shared queue pair of a handle; `self` if it is not a handle.
    #[inline]
    pub fn real(&self) -> &Qp {
        self.real_qp().unwrap_or(self)
    }

    /// Returns whether this is a handle to a shared queue pair.
    #[inline]
    pub fn is_handle(&self) -> bool {
        !core::ptr::eq(self.real(), self)
    }

    /// Passes an event to the consumer's handler.
    pub fn tell(&self, event: &QpEvent) {
        self.call(true, event);
    }

    /// Calls the consumer's handler if `registered`, else the one that drivers call.
    #[inline]
    fn call(&self, registered: bool, event: &QpEvent) {
        let handler = if registered {
            self.registered_event_handler()
        } else {
            self.event_handler()
        };
        if let Some(handler) = handler {
            // SAFETY: The consumer registered handler and context, which are valid as long as the
            // queue pair or the handle.
            unsafe { handler(event.raw(), self.qp_context().into_c()) };
        }
    }

    /// Raises an event of this queue pair or handle, in the way a driver does.
    pub fn raise(&self, kind: u32) {
        let event = QpEvent(Opaque::new(bindings::ib_event {
            device: self.dev().raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                qp: ManuallyDrop::new(self.raw()),
            },
            event: kind,
        }));
        self.call(false, &event);
    }

    /// Completes `srq_completion`, for which a drain waits: the last request of the shared receive
    /// queue was consumed.
    pub fn last_request_gone(&self) {
        self.srq_completion().complete();
    }

    /// Initialises locks, lists and the completion of a new queue pair.
    pub fn set_up(this: &mut impl SoleOwner<Of = Self>) {
        let c = this.sole();
        // SAFETY: No other reference to the object exists (contract of `SoleOwner`), and C objects
        // do not move.
        unsafe {
            (*c).real_qp = c;
            bindings::rdma_helper_qp_init(c);
            bindings::INIT_LIST_HEAD(&raw mut (*c).rdma_mrs);
            bindings::INIT_LIST_HEAD(&raw mut (*c).sig_mrs);
            bindings::init_completion(&raw mut (*c).srq_completion);
        }
    }

    /// Has the driver create a queue pair by `create`, and restores the completion queues that it had
    /// before, which some drivers replace with their own.
    pub fn keeping_cqs<S: SoleOwner<Of = Self>, R>(
        this: &mut S,
        create: impl FnOnce(&S) -> R,
    ) -> R {
        let c = this.sole();
        // SAFETY: No other reference to the object exists (contract of `SoleOwner`).
        let (send, recv) = unsafe { ((*c).send_cq, (*c).recv_cq) };
        let result = create(&*this);
        let c = this.sole();
        // SAFETY: No other reference to the object exists (contract of `SoleOwner`). It is the
        // same object, since `create` cannot replace it.
        unsafe {
            (*c).send_cq = send;
            (*c).recv_cq = recv;
        }
        result
    }

    /// Returns the counter that the queue pair is bound to. Warns, and returns `None`, if the lock is
    /// that of another device.
    pub fn bound<'a>(&'a self, by: &'a CounterLock<'_>) -> Option<&'a Counter> {
        if kernel::warn_on!(!by.is_for(self)) {
            return None;
        }
        // SAFETY: Null, or a counter of which the queue pair has a count. The field changes only
        // under the lock, which is held.
        unsafe { Option::from_c(self.counter()) }
    }

    /// Clears [`bound`](Self::bound). The count that the queue pair has on the counter passes to
    /// the caller. Warns, and does nothing, if the lock is that of another device.
    pub fn clear_bound(&self, by: &mut CounterLock<'_>) {
        if !kernel::warn_on!(!by.is_for(self)) {
            // SAFETY: The object exists. The field changes only under the lock, which is held, and
            // is read without it by whole words (row of `counter`, which has no setter: a pointer
            // in it is one to a counter).
            unsafe { Atomic::from_ptr(&raw mut (*self.raw()).counter) }
                .store(core::ptr::null_mut(), Relaxed);
        }
    }
}

crate::c_struct! {
    /// Restrack entry of an object (`rdma resource`). `core/restrack` defines how it changes.
    pub struct Restrack: bindings::rdma_restrack_entry;
    fields {
        /// ID in the restrack table; undefined before it is added.
        racy id: u32;
    }
}

crate::c_struct! {
    /// A counter that queue pairs may be bound to (`rdma statistic`).
    pub struct Counter: bindings::rdma_counter;
    fields {}
}

/// Proof that a device's lock of the bindings of queue pairs to counters is held. Created by the
/// core's `counter` module while it holds that lock.
pub struct CounterLock<'a>(&'a Device);

impl<'a> CounterLock<'a> {
    /// Creates the proof.
    ///
    /// # Safety
    ///
    /// During `'a` the caller holds the lock of the device.
    pub unsafe fn held(device: &'a Device) -> Self {
        Self(device)
    }

    /// Returns whether the lock is that of a queue pair's device.
    fn is_for(&self, qp: &Qp) -> bool {
        core::ptr::eq(self.0, qp.dev())
    }
}
