// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use crate::device::Dev;
use crate::device::Rxe;
use crate::limits;
use crate::proto::RecvFetch;
use crate::queue::encode;
use crate::queue::encode::PostError;
use crate::queue::layout::Layout;
use crate::queue::ring::Consumer;
use crate::queue::ring::Producer;
use crate::queue::store::Store;
use crate::queue::work::RecvBuffers;
use crate::queue::work::RecvQueue;
use crate::queue::wqe::RECV_HEAD;
use crate::queue::RingBuf;
use crate::user;
use crate::user::MapInfo;
use crate::user::QueueMap;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;
use rdma::accounted;
use rdma::new_spinlock_irq;
use rdma::provider;
use rdma::provider::unsupported;
use rdma::provider::New;
use rdma::provider::RecvWrs;
use rdma::provider::SrqAttr;
use rdma::provider::SrqAttrMask;
use rdma::provider::SrqEvent;
use rdma::provider::SrqInitAttr;
use rdma::provider::SrqType;
use rdma::provider::SrqUpcall;
use rdma::sync::SpinLockIrq;
use rdma::udata::Udata;
use zerocopy::IntoBytes;

/// The part of a shared receive queue that queue pairs hold.
#[pin_data]
pub(crate) struct Srq {
    #[pin]
    inner: SpinLockIrq<Inner>,
    max_sge: u32,
    upcall: SrqUpcall,
}

struct Inner {
    queue: RecvQueue,
    /// The producer of a kernel user.
    posts: Option<Producer<RingBuf>>,
    /// A limit event is raised when fewer requests are waiting; 0 disables it.
    limit: u32,
}

impl Srq {
    /// Returns the maximum number of scatter-gather entries of a request.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next request and copies its buffers. Any context.
    pub(crate) fn take(&self, buffers: &mut RecvBuffers) -> RecvFetch {
        let (fetched, low) = {
            let mut inner = self.inner.lock();
            let fetched = inner.queue.take(buffers);
            let low = inner.limit != 0
                && fetched != RecvFetch::Empty
                && inner.queue.waiting() < inner.limit;
            if low {
                inner.limit = 0;
            }
            (fetched, low)
        };
        if low {
            self.upcall.event(SrqEvent::LimitReached);
        }
        fetched
    }

    /// Frees the memory of a destroyed queue. No queue pair uses it any more, but remains of
    /// destroyed queue pairs may keep the object a little longer. May sleep.
    fn retire(&self) {
        let memory = {
            let mut inner = self.inner.lock();
            (inner.queue.take_memory(), inner.posts.take())
        };
        drop(memory);
    }

    /// Moves waiting requests to a new ring. If they do not fit, `EINVAL` is returned and the queue
    /// is unchanged. Process context.
    fn resize(&self, ring: RingBuf, layout: Layout) -> Result {
        // Drop rings and their ends after unlocking.
        let mut posts = None;
        let left = {
            let mut inner = self.inner.lock();
            inner.queue.resize(ring, layout).map(|(old, producer)| {
                posts = Some(producer);
                if inner.posts.is_some() {
                    core::mem::swap(&mut inner.posts, &mut posts);
                }
                old
            })
        };
        left.map(drop).map_err(|_fresh| EINVAL)
    }
}

/// The driver's data of a shared receive queue.
#[pin_data(PinnedDrop)]
pub(crate) struct SrqObject {
    dev: Arc<Dev>,
    number: u32,
    pub(crate) core: Arc<Srq>,
    #[pin]
    map: Mutex<Option<QueueMap>>,
}

impl SrqObject {
    /// Creates a shared receive queue (IBTA 11.2.3.1).
    pub(crate) fn create(
        new: &New<'_, provider::Srq<Rxe>>,
        init: &mut SrqInitAttr,
        udata: &mut Udata<'_>,
    ) -> Result<impl PinInit<Self>> {
        if udata.is_user() {
            udata.expect_room::<SrqAnswer>()?;
        }
        if init.srq_type()? != SrqType::Basic {
            return Err(unsupported());
        }
        let attr = init.attr();
        let max_sge = attr.max_sge.max(1);
        // The limit has no meaning yet for most users, so any value is accepted.
        if !SIZES.contains(&attr.max_wr) || attr.max_sge > limits::MAX_SRQ_SGE {
            return Err(EINVAL);
        }
        let (layout, ring) = recv_ring(attr.max_wr, max_sge, user::store(udata))?;
        let posts = (!udata.is_user()).then(|| Producer::new(ring.clone(), layout));
        let queue = RecvQueue::new(
            Consumer::new(ring.clone(), layout),
            usize::try_from(max_sge)?,
        );
        let inner = Inner {
            queue,
            posts,
            limit: attr.srq_limit,
        };
        let core = Arc::pin_init(
            pin_init!(Srq {
                inner <- new_spinlock_irq!(inner, "rxe::Srq::inner"),
                max_sge,
                upcall: new.upcall(),
            }),
            accounted::GFP,
        )?;
        let dev = new.device().dev.clone();
        let slot = dev.srqs.reserve(limits::SRQN, accounted::GFP)?;
        let number = slot.id();
        let map = QueueMap::new(udata, &ring)?;
        if let Some(map) = &map {
            udata.respond_all(&SrqAnswer {
                map: map.info(),
                number,
                reserved: 0,
            })?;
        }
        init.attr_mut().max_wr = layout.capacity();
        slot.publish(Arc::new((), accounted::GFP)?);
        Ok(pin_init!(Self {
            dev,
            number,
            core,
            map <- new_mutex!(map, "rxe::SrqObject::map"),
        }))
    }

    /// Changes size or limit (IBTA 11.2.3.3). May sleep. Waiting requests stay; the user unmaps the
    /// old ring once it has mapped the new one.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes and limits that exceed the device's, contradict each other or are below
    /// the number of waiting requests, or if input is missing; `EFAULT` if the description of the
    /// new ring cannot be written; `ENOMEM`.
    pub(crate) fn modify(
        &self,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        udata: &mut Udata<'_>,
    ) -> Result {
        let request = if udata.is_user() {
            Some(udata.read::<ModifyRequest>()?)
        } else {
            None
        };
        let mut map = self.map.lock();
        let (size, limit) = {
            let inner = self.core.inner.lock();
            (inner.queue.ring().layout().capacity(), inner.limit)
        };
        if mask.intersects(SrqAttrMask::MAX_WR)
            && (!SIZES.contains(&attr.max_wr) || attr.max_wr < limit)
        {
            return Err(EINVAL);
        }
        if mask.intersects(SrqAttrMask::LIMIT) && attr.srq_limit > size {
            return Err(EINVAL);
        }
        if mask.intersects(SrqAttrMask::MAX_WR) {
            let (layout, ring) = recv_ring(attr.max_wr, self.core.max_sge, user::store(udata))?;
            let fresh = QueueMap::new(udata, &ring)?;
            if let (Some(fresh), Some(request)) = (&fresh, request) {
                request.answer(&fresh.info())?;
            }
            self.core.resize(ring, layout)?;
            *map = fresh;
        }
        if mask.intersects(SrqAttrMask::LIMIT) {
            self.core.inner.lock().limit = attr.srq_limit;
        }
        Ok(())
    }

    /// Returns sizes and limit.
    pub(crate) fn query(&self) -> SrqAttr {
        let inner = self.core.inner.lock();
        SrqAttr {
            max_wr: inner.queue.ring().layout().capacity(),
            max_sge: self.core.max_sge,
            srq_limit: inner.limit,
        }
    }

    /// Posts a kernel user's requests. Any context.
    pub(crate) fn post(&self, wrs: &mut RecvWrs<'_>) -> Result {
        let mut inner = self.core.inner.lock();
        let posts = inner.posts.as_mut().ok_or(EINVAL)?;
        post_recvs(posts, self.core.max_sge, wrs)
    }
}

#[pinned_drop]
impl PinnedDrop for SrqObject {
    fn drop(self: Pin<&mut Self>) {
        drop(self.dev.srqs.remove(self.number));
        self.core.retire();
    }
}

/// Valid numbers of requests of a queue.
const SIZES: core::ops::RangeInclusive<u32> = 1..=limits::MAX_SRQ_WR;

/// `struct rxe_modify_srq_cmd`: address for the description of the new ring.
#[derive(Clone, Copy, zerocopy_derive::FromBytes)]
#[repr(C)]
struct ModifyRequest {
    info_addr: u64,
}

const _: () =
    assert!(size_of::<ModifyRequest>() == size_of::<rdma::bindings::rxe_modify_srq_cmd>());

impl ModifyRequest {
    /// Writes the reply to the address in the request, not to the usual response buffer. May sleep.
    fn answer(self, info: &MapInfo) -> Result {
        let to = UserPtr::from_addr(usize::try_from(self.info_addr).map_err(|_| EFAULT)?);
        let bytes = info.as_bytes();
        UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
    }
}

/// `struct rxe_create_srq_resp`.
#[derive(zerocopy_derive::IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
struct SrqAnswer {
    map: MapInfo,
    number: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<SrqAnswer>() == size_of::<rdma::bindings::rxe_create_srq_resp>());

/// Creates a ring for receive requests; `store` is that of a user's context. May sleep.
pub(crate) fn recv_ring(
    max_wr: u32,
    max_sge: u32,
    store: Option<&Arc<Store>>,
) -> Result<(Layout, RingBuf)> {
    let entry = usize::try_from(max_sge)?
        .checked_mul(16)
        .and_then(|bytes| bytes.checked_add(RECV_HEAD))
        .ok_or(EINVAL)?;
    let layout = Layout::new(max_wr, entry).ok_or(EINVAL)?;
    let ring = RingBuf::new(&layout, store)?;
    Ok((layout, ring))
}

/// Posts a kernel user's receive requests until one is refused.
pub(crate) fn post_recvs(
    ring: &mut Producer<RingBuf>,
    max_sge: u32,
    wrs: &mut RecvWrs<'_>,
) -> Result {
    let room = usize::try_from(max_sge)?;
    for wr in wrs {
        with_sges(wr.sges(), |list| {
            encode::post_recv(ring, room, wr.wr_id(), list).map_err(post_error)
        })?;
    }
    Ok(())
}

/// Number of entries that suffices for nearly all requests.
const FEW: usize = 4;

/// Calls `f` with the consumer's scatter-gather entries, converted. Initialising an array of
/// maximum size costs more than the rest of a request, so it is used for long lists only.
pub(crate) fn with_sges(
    from: provider::Sges<'_>,
    f: impl FnOnce(&[crate::mem::Sge]) -> Result,
) -> Result {
    if from.len() <= FEW {
        f(copy_sges(&mut [crate::mem::Sge::default(); FEW], from)?)
    } else {
        let mut many = [crate::mem::Sge::default(); limits::MAX_SGE as usize];
        f(copy_sges(&mut many, from)?)
    }
}

/// Converts the consumer's scatter-gather entries. `EINVAL` if there are too many.
fn copy_sges<'a>(
    to: &'a mut [crate::mem::Sge],
    from: provider::Sges<'_>,
) -> Result<&'a [crate::mem::Sge]> {
    let to = to.get_mut(..from.len()).ok_or(EINVAL)?;
    for (to, from) in to.iter_mut().zip(from) {
        *to = crate::mem::Sge {
            addr: from.addr,
            length: from.length,
            lkey: from.lkey,
        };
    }
    Ok(to)
}

/// Returns the errno of a refused request.
pub(crate) fn post_error(error: PostError) -> Error {
    match error {
        PostError::Full => ENOMEM,
        PostError::Invalid => EINVAL,
    }
}
