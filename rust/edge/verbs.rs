// SPDX-License-Identifier: GPL-2.0

//! The C structures of verbs, field by field.
//!
//! The words at the fields are explained in [`crate::edge`]. To be held against
//! `include/rdma/ib_verbs.h`. A reference in an `init` list is to an object that counts its users
//! (`Object::uses` in the core), or to the device, which outlives all of its objects.

pub use super::ah::AhAttr;
pub use super::ah::AhMake;
pub use super::ah::GidAttr;

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
use crate::net::NetDevice;
use crate::sync::Completion;
use crate::sync::IrqLock;
use crate::workqueue::CWork;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

/// A consumer's function that is told of events of an object, with a context of its own.
pub type EventHandler = Option<unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void)>;
/// A consumer's context.
pub type Context = Passed<c_void>;

crate::c_struct! {
    /// A protection domain.
    pub struct Pd: bindings::ib_pd;
    init PdInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// What it was asked for with (`enum ib_pd_flags`).
        flags: u32,
    }
    fields {
        /// How many objects use it.
        embed usecnt: UseCount;
        /// As it is tracked.
        embed res: Restrack;
        /// The region behind the keys, if it has one.
        embed internal_mr at __internal_mr: Slot<Mr>;
        /// The key to the consumer's own memory.
        const local_dma_lkey: u32, set_local_dma_lkey;
        /// The key to all memory.
        const unsafe_global_rkey: u32, set_unsafe_global_rkey;
        /// The user's handle.
        const uobject: Option<&Uobject>;
    }
}

crate::c_struct! {
    /// An address handle. Not tracked.
    pub struct Ah: bindings::ib_ah;
    init AhInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain.
        pd: &'a Pd,
        /// The kind of its vector (`enum rdma_ah_attr_type`).
        kind at type_: u32,
    }
    fields {
        /// The local GID.
        embed sgid_attr: GidSlot;
    }
}

crate::c_struct! {
    /// A shared receive queue.
    pub struct Srq: bindings::ib_srq;
    init SrqInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain.
        pd: &'a Pd,
        /// A user's handle to it.
        uobject: Passed<bindings::ib_usrq_object>,
        /// Is told of events.
        event_handler: EventHandler,
        /// The handler's.
        srq_context: Context,
        /// `enum ib_srq_type`.
        srq_type: u32,
    }
    fields {
        /// How many queue pairs use it.
        embed usecnt: UseCount;
        /// As it is tracked.
        embed res: Restrack;
        /// Its completion queue.
        const cq at ext.cq: Option<&Cq> where has_cq, set_cq;
    }
}

crate::c_struct! {
    /// A queue pair, or one user's handle to one.
    pub struct Qp: bindings::ib_qp;
    init QpInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain.
        pd: Option<&'a Pd>,
        /// Where sends complete.
        send_cq: Option<&'a Cq>,
        /// Where receives complete.
        recv_cq: Option<&'a Cq>,
        /// Where receives come from, if not from its own queue.
        srq: Option<&'a Srq>,
        /// The queues that packets are spread over.
        rwq_ind_tbl: Option<&'a RwqTable>,
        /// A user's handle to it.
        uobject: Option<&'a UQp>,
        /// The one that drivers tell of events.
        event_handler: EventHandler,
        /// The consumer's.
        registered_event_handler: EventHandler,
        /// The handler's.
        qp_context: Context,
        /// `enum ib_qp_type`.
        qp_type: u32,
    }
    fields {
        /// How often it is open, a member of groups, and so on.
        embed usecnt: UseCount;
        /// As it is tracked.
        embed res: Restrack;
        /// Changed with the queue pair.
        racy port: u32, set_port;
        /// The counter that it is bound to: for who does not bind, whether there was one.
        racy counter: *mut bindings::rdma_counter;
        /// The same, of which it has a count.
        guarded bound at counter: Option<&Counter>, set_bound => CounterLock<'_>;
        /// The local GID of its path.
        embed av_sgid_attr: GidSlot;
        /// The local GID of its alternate path.
        embed alt_path_sgid_attr: GidSlot;
        /// Of a handle, the queue pair; its own otherwise, see [`Qp::real`].
        const real_qp: Option<&Qp>;
        /// Its domain, if it is a target of extended reliable connections.
        const xrcd: Option<&Xrcd>;
        /// Its number, the driver's to give.
        const qp_num: u32;
        /// Entries of a list that a send may have.
        const max_write_sge: u32, set_max_write_sge;
        /// Entries of a list that a read may have.
        const max_read_sge: u32, set_max_read_sge;
        /// Whether it takes requests with protection information.
        const integrity_en: bool, set_integrity_en;
        /// Regions that are out of its pools. Changed under `mr_lock`, but read without.
        racy mrs_used: i32, set_mrs_used;
        /// Protects the pools of regions. `set_up` initialises it.
        embed mr_lock: IrqLock;
        /// The pool of regions. Under `mr_lock`; `set_up` initialises it.
        embed rdma_mrs: Chain<Mr>;
        /// That of regions with protection information, as the other.
        embed sig_mrs: Chain<Mr>;
        /// Completed with the last request of its shared receive queue. `set_up` initialises it.
        embed srq_completion: Completion;
    }
}

crate::c_struct! {
    /// A completion queue.
    pub struct Cq: bindings::ib_cq;
    init CqInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Is told of completions.
        comp_handler: bindings::ib_comp_handler,
        /// Is told of events.
        event_handler: EventHandler,
        /// The handlers'.
        cq_context: Context,
    }
    fields {
        /// How many queues use it.
        embed usecnt: UseCount;
        /// As it is tracked.
        embed res: Restrack;
        /// Whether it is one of a pool. Written by who alone has the queue, so that nobody writes the
        /// bits beside it.
        bit shared: bool, set_shared;
        /// How many of its entries consumers of a pool have taken.
        racy cqe_used: u32, set_cqe_used;
        /// How many entries it has. A driver changes it when the user resizes the queue.
        racy cqe: i32, set_cqe;
        /// Where the kernel's completions are polled (`enum ib_poll_context`). Of a user's queue
        /// nobody writes it.
        const poll_ctx: u32;
        /// The completion vector. Of a queue that the core does not poll nobody writes it.
        const comp_vector: u32, set_comp_vector;
        /// The state of adaptive moderation, which the queue owns, or null.
        embed dim: Slot<Dim>;
        /// The user's handle.
        const uobject: Option<&UCq>;
    }
}

crate::c_struct! {
    /// The state of adaptive moderation (`include/linux/dim.h`). The library has it while it is
    /// measured, its work while that is queued.
    pub struct Dim: bindings::dim;
    fields {
        /// Applies the profile that the library has chosen. Initialised before the queue has it.
        embed work: CWork;
    }
}

// SAFETY: The core makes it, and gives it to a queue.
unsafe impl Boxed for Dim {}

crate::c_struct! {
    /// A domain of extended reliable connections. Not tracked.
    pub struct Xrcd: bindings::ib_xrcd;
    init XrcdInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// The file that it belongs to.
        inode: Passed<bindings::inode>,
    }
    fields {
        /// How many objects use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// A memory region. The driver allocates and frees it, of a size that it alone knows.
    pub struct Mr: bindings::ib_mr;
    init MrInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain. `IB_MR_REREG_PD` changes it, under the lock of the user's handle.
        pd: &'a Pd,
        /// `enum ib_mr_type`.
        kind at type_: u32,
    }
    fields {
        /// As it is tracked.
        embed res: Restrack;
        /// The device's memory that it is of.
        const dm: Option<&Dm>, set_dm;
        /// The handle that says how the device reaches the memory.
        const dmah: Option<&Dmah>;
        /// The local key. The region's only user gives it another one before each use, while
        /// `rdma resource` may show it.
        racy lkey: u32, set_lkey;
        /// The remote key, as the local one.
        racy rkey: u32, set_rkey;
        /// Address of the first byte.
        const iova: u64, set_iova;
        /// Length in bytes. The region's only user maps other memory to it, while `rdma resource`
        /// may show it.
        racy length: u64, set_length;
        /// Whether it must be invalidated before it is used again; its user's.
        const need_inval: bool, set_need_inval;
        /// Size of a page; who maps the region writes it.
        racy page_size: u32, set_page_size;
        /// What is to be checked, of kmalloc.
        embed sig_attrs: Slot<SigAttrs>;
        /// The user's handle.
        const uobject in __bindgen_anon_1.uobject: Passed<bindings::ib_uobject>, set_uobject;
    }
}

crate::c_struct! {
    /// A memory window. Not tracked.
    pub struct Mw: bindings::ib_mw;
    init MwInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain.
        pd: &'a Pd,
        /// Its type (`enum ib_mw_type`).
        kind at type_: u32,
    }
    fields {
        /// The remote key. The driver of a window of type 2 changes it, while its user may read it.
        racy rkey: u32, set_rkey;
    }
}

// SAFETY: The union that begins there has the link of the kernel's regions, which only pools use. Of
// a user's region, which no pool gets, it is the handle.
unsafe impl Linked for Mr {
    const AT: usize = core::mem::offset_of!(bindings::ib_mr, __bindgen_anon_1);
}

// SAFETY: `pool_entry` is for the pools of the device only.
unsafe impl Linked for Cq {
    const AT: usize = core::mem::offset_of!(bindings::ib_cq, pool_entry);
}

crate::c_struct! {
    /// A work queue. The driver allocates and frees it. Not tracked.
    pub struct Wq: bindings::ib_wq;
    init WqInit<'a> {
        /// The device that it belongs to.
        dev at device: &'a Device,
        /// Its domain.
        pd: &'a Pd,
        /// Where receives complete.
        cq: Option<&'a Cq>,
        /// Is told of events.
        event_handler: EventHandler,
        /// The handler's.
        wq_context: Context,
        /// `enum ib_wq_type`.
        wq_type: u32,
        /// A user's handle to it.
        uobject: Passed<bindings::ib_uwq_object>,
    }
    fields {
        /// How many tables use it.
        embed usecnt: UseCount;
        /// The same, when it is made.
        const first_usecnt at usecnt.counter: c_int, set_first_usecnt;
    }
}

crate::c_struct! {
    /// A table of work queues.
    pub struct RwqTable: bindings::ib_rwq_ind_table;
    fields {
        /// How many queue pairs use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// Memory of a device.
    pub struct Dm: bindings::ib_dm;
    fields {
        /// How many regions use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// How a device reaches memory.
    pub struct Dmah: bindings::ib_dmah;
    fields {
        /// How many regions use it.
        embed usecnt: UseCount;
    }
}

crate::c_struct! {
    /// What is to be checked of a region.
    pub struct SigAttrs: bindings::ib_sig_attrs;
    fields {
        /// What there is on the wire (`enum ib_signature_type`).
        const on_wire at wire.sig_type: u32;
    }
}

crate::c_struct! {
    /// A user's handle to a queue pair.
    pub struct UQp: bindings::ib_uqp_object;
    fields {}
}

crate::c_struct! {
    /// A user's handle to a completion queue, declared in a header that only the core's modules
    /// read.
    pub struct UCq: bindings::ib_ucq_object;
    fields {}
}

/// A driver's function that takes one page of a region (`ib_sg_to_pages`).
///
/// # Invariants
///
/// It may be called for the region of the call that it is an argument of, during that call.
pub struct SetPage(unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int);

// SAFETY: `from_c`'s contract is the type invariant, or null.
unsafe impl FromC for Option<SetPage> {
    type C = Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int>;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: `from_c`'s contract.
        c.map(SetPage)
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for Option<SetPage> {}

impl SetPage {
    /// Hands over a page; the region is that of the call. Negative for a refusal.
    #[inline(always)]
    pub fn hand(&self, mr: &Alone<'_, Mr>, page: u64) -> c_int {
        // SAFETY: The driver's own function, for the region of the call (type invariant).
        unsafe { (self.0)(mr.raw(), page) }
    }
}

impl OpenAttr {
    /// To open a queue pair that is at hand.
    pub fn new(event_handler: EventHandler, context: Context) -> Self {
        Self(Opaque::new(bindings::ib_qp_open_attr {
            event_handler,
            qp_context: context.into_c(),
            ..Default::default()
        }))
    }
}

// SAFETY: `new` alone makes them; they are the regions' that the core gives them to.
unsafe impl Boxed for SigAttrs {}

impl SigAttrs {
    /// Some, all zeros.
    pub fn new() -> Result<Owned<Self>> {
        let attrs = KBox::new(bindings::ib_sig_attrs::default(), GFP_KERNEL)?;
        Ok(Owned::of_box(attrs))
    }

    /// Frees some.
    pub fn free(this: Owned<Self>) {
        drop(this.into_box());
    }
}

crate::c_struct! {
    /// A user's call, as drivers know it.
    pub struct UserCall: bindings::ib_udata;
    fields {
        /// The user's address of the input. `ib_uverbs` sets it before the driver sees it.
        const inbuf: UserPtr;
        /// Bytes of input.
        const inlen: usize;
        /// The user's address of the output.
        const outbuf: Passed<c_void>;
        /// Bytes of room for output.
        const outlen: usize;
    }
}

crate::c_struct! {
    /// A user's call.
    pub struct Bundle: bindings::uverbs_attr_bundle;
    fields {
        /// The driver's part.
        embed driver_udata at __bindgen_anon_1.__bindgen_anon_1.driver_udata: UserCall;
        /// Which attributes the user sent, by `rdma_helper_uverbs_attr_bit`. `ib_uverbs` writes it
        /// before the method's handler runs.
        const attr_present at __bindgen_anon_1.__bindgen_anon_1.attr_present: Present;
        /// The user's context, once there is one. `ib_uverbs` writes it before the driver sees the
        /// call.
        const context at __bindgen_anon_1.__bindgen_anon_1.context: Option<&UContext>;
    }
}

/// Structures of one call: arguments.
macro_rules! of_call {
    ($($name:ident),*) => { $(
        // SAFETY: C's callers own them for the call; `Opaque` is not `Sync`.
        unsafe impl OfCall for $name {}
    )* };
}

of_call!(AhAttr, QpAttr, QpMake, SrqMake, SrqAttr, CqMake, WqMake, QpEvent, OpenAttr);

crate::c_struct! {
    /// Attributes of a queue pair.
    pub struct QpAttr: bindings::ib_qp_attr;
    fields {
        /// The state (`enum ib_qp_state`).
        cell qp_state: u32, set_qp_state;
        /// The port.
        cell port_num: u32;
        /// The path.
        embed ah_attr: AhAttr;
        /// The alternate path.
        embed alt_ah_attr: AhAttr;
        /// The next packet to come.
        cell rq_psn: u32, set_rq_psn;
        /// The next packet to send.
        cell sq_psn: u32, set_sq_psn;
        /// The number of the peer's queue pair.
        cell dest_qp_num: u32;
        /// The state of the migration to the alternate path (`enum ib_mig_state`).
        cell path_mig_state: u32;
        /// The place in the table of P_Keys.
        cell pkey_index: u16;
        /// That of the alternate path.
        cell alt_pkey_index: u16;
        /// The alternate port.
        cell alt_port_num: u32;
        /// Sets the device of a bond that packets leave by.
        put set_xmit_slave at xmit_slave: Option<&NetDevice>;
    }
}

crate::c_struct! {
    /// What a queue pair is made from.
    pub struct QpMake: bindings::ib_qp_init_attr;
    fields {
        /// Is told of events.
        cell event_handler: EventHandler;
        /// The handler's.
        cell qp_context: Context;
        /// Where sends complete.
        cell send_cq: Option<&Cq>;
        /// Where receives complete.
        cell recv_cq: Option<&Cq>;
        /// Where receives come from, if not from its own queue.
        cell srq: Option<&Srq>;
        /// Its domain, of extended reliable connections.
        cell xrcd: Option<&Xrcd>;
        /// The queues that packets are spread over.
        cell rwq_ind_tbl: Option<&RwqTable>;
        /// `enum ib_qp_type`.
        cell qp_type: u32;
        /// `enum ib_qp_create_flags`.
        cell create_flags: u32;
        /// The port, of a special queue pair.
        cell port_num: u32;
        /// Transfers of the RW API that it must have room for.
        cell max_rdma_ctxs at cap.max_rdma_ctxs: u32;
        /// Entries of the scatter list of a send.
        cell max_send_sge at cap.max_send_sge: u32;
        /// Sends that may be posted.
        cell max_send_wr at cap.max_send_wr: u32, set_max_send_wr;
        /// Receives that may be posted.
        cell max_recv_wr at cap.max_recv_wr: u32, set_max_recv_wr;
        /// Entries of the scatter list of a receive.
        cell max_recv_sge at cap.max_recv_sge: u32, set_max_recv_sge;
    }
}

crate::c_struct! {
    /// What a shared receive queue is made from.
    pub struct SrqMake: bindings::ib_srq_init_attr;
    fields {
        /// Is told of events.
        cell event_handler: EventHandler;
        /// The handler's.
        cell srq_context: Context;
        /// `enum ib_srq_type`.
        cell srq_type: u32;
        /// Its completion queue, if its type has one.
        cell cq at ext.cq: Option<&Cq>;
    }
}

crate::c_struct! {
    /// Size and limit of a shared receive queue.
    pub struct SrqAttr: bindings::ib_srq_attr;
    fields {}
}

crate::c_struct! {
    /// What a completion queue is made from.
    pub struct CqMake: bindings::ib_cq_init_attr;
    fields {
        /// Number of entries.
        cell cqe: u32, set_cqe;
        /// Sets the completion vector.
        put set_comp_vector at comp_vector: u32;
    }
}

crate::c_struct! {
    /// What a work queue is made from.
    pub struct WqMake: bindings::ib_wq_init_attr;
    fields {
        /// Is told of events.
        cell event_handler: EventHandler;
        /// The handler's.
        cell wq_context: Context;
        /// `enum ib_wq_type`.
        cell wq_type: u32;
        /// Where receives complete.
        cell cq: Option<&Cq>;
    }
}

crate::c_struct! {
    /// An event of a queue pair.
    pub struct QpEvent: bindings::ib_event;
    fields {
        /// The queue pair.
        cell qp in element.qp: &Qp, set_qp;
        /// `enum ib_event_type`.
        cell kind at event: u32;
    }
}

crate::c_struct! {
    /// Which shared queue pair is to be opened.
    pub struct OpenAttr: bindings::ib_qp_open_attr;
    fields {
        /// Is told of events.
        cell event_handler: EventHandler;
        /// The handler's.
        cell qp_context: Context;
        /// Its number.
        cell qp_num: u32;
        /// `enum ib_qp_type`.
        cell qp_type: u32;
    }
}

/// Arguments that the core makes for itself, all zeros at first.
macro_rules! zeroed {
    ($($name:ident: $c:ident),*) => { $(
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: All zeros are the structure.
                unsafe { core::mem::zeroed() }
            }
        }
    )* };
}

zeroed!(AhAttr: rdma_ah_attr, CqMake: ib_cq_init_attr, QpAttr: ib_qp_attr, QpMake: ib_qp_init_attr);

impl Srq {
    /// Whether it has a completion queue of its own.
    pub fn has_cq(&self) -> bool {
        matches!(
            self.srq_type(),
            bindings::ib_srq_type_IB_SRQT_XRC | bindings::ib_srq_type_IB_SRQT_TM
        )
    }

    /// Its domain of extended reliable connections, if it is of one.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        if self.srq_type() != bindings::ib_srq_type_IB_SRQT_XRC {
            return None;
        }
        // SAFETY: Written before the object was handed out; the type says that it is there.
        unsafe { Option::from_c((*self.raw()).ext.__bindgen_anon_1.xrc.xrcd) }
    }

    /// Sets [`Self::xrcd`] to what one is asked for with, if it is of one.
    pub fn set_xrcd(
        this: &mut (impl SoleOwner<Of = Self> + Deref<Target = Self>),
        asked: &SrqMake,
    ) {
        if this.srq_type() == bindings::ib_srq_type_IB_SRQT_XRC {
            let c = this.sole();
            // SAFETY: Nobody else has the object; the type says which member is there in both.
            unsafe {
                (*(*c).ext.__bindgen_anon_1.xrc).xrcd =
                    (*asked.raw()).ext.__bindgen_anon_1.xrc.xrcd;
            }
        }
    }
}

impl Qp {
    /// The queue pair proper: of a handle the one that it is to.
    #[inline]
    pub fn real(&self) -> &Qp {
        self.real_qp().unwrap_or(self)
    }

    /// Whether this is a handle to another.
    #[inline]
    pub fn is_handle(&self) -> bool {
        !core::ptr::eq(self.real(), self)
    }

    /// Tells the consumer of an event.
    pub fn tell(&self, event: &QpEvent) {
        self.call(true, event);
    }

    /// Tells the one who has a handle of an event.
    pub fn pass_on(&self, event: &QpEvent) {
        self.call(false, event);
    }

    /// Calls the consumer's handler, if `registered`, or the one that drivers know.
    #[inline]
    fn call(&self, registered: bool, event: &QpEvent) {
        let handler = if registered {
            self.registered_event_handler()
        } else {
            self.event_handler()
        };
        if let Some(handler) = handler {
            // SAFETY: The consumer gave handler and context, and they work while the queue pair, or
            // the handle, lives.
            unsafe { handler(event.raw(), self.qp_context().into_c()) };
        }
    }

    /// Tells the one who has it of an event that the core has found, as its driver does of others.
    pub fn raise(&self, kind: u32) {
        self.pass_on(&QpEvent(Opaque::new(bindings::ib_event {
            device: self.dev().raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                qp: ManuallyDrop::new(self.raw()),
            },
            event: kind,
        })));
    }

    /// The last request of its shared receive queue has gone; a drain waits for that.
    pub fn last_request_gone(&self) {
        self.srq_completion().complete();
    }

    /// Initialises locks, lists and the completion of a new queue pair, which do not move.
    pub fn set_up(this: &mut impl SoleOwner<Of = Self>) {
        let c = this.sole();
        // SAFETY: Nobody else has the object, and a C object does not move.
        unsafe {
            (*c).real_qp = c;
            bindings::rdma_helper_qp_init_mr_lock(c);
            bindings::INIT_LIST_HEAD(&raw mut (*c).rdma_mrs);
            bindings::INIT_LIST_HEAD(&raw mut (*c).sig_mrs);
            bindings::init_completion(&raw mut (*c).srq_completion);
        }
    }

    /// Puts back the completion queues, which some drivers replace by their own.
    pub fn restore_cqs(this: &mut impl SoleOwner<Of = Self>, attr: &QpMake) {
        let c = this.sole();
        // SAFETY: Nobody else has the object.
        unsafe {
            (*c).send_cq = attr.send_cq().into_c();
            (*c).recv_cq = attr.recv_cq().into_c();
        }
    }
}

crate::c_struct! {
    /// What tracks an object (`rdma restrack`). How it changes is `core/restrack`'s to know.
    pub struct Restrack: bindings::rdma_restrack_entry;
    fields {
        /// The id by which readers find it; of no meaning before it is added.
        racy id: u32;
    }
}

crate::c_struct! {
    /// A counter that queue pairs may be bound to (`rdma statistic`).
    pub struct Counter: bindings::rdma_counter;
    fields {}
}

/// Proof that the lock is held under which queue pairs are bound to counters. The core's
/// `counter` module makes it while it holds that lock.
pub struct CounterLock<'a>(PhantomData<&'a ()>);

impl<'a> CounterLock<'a> {
    /// # Safety
    ///
    /// The lock of the bindings of the device whose queue pairs are used with the result is held
    /// during `'a`.
    pub unsafe fn held() -> Self {
        Self(PhantomData)
    }
}
