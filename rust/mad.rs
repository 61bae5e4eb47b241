// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs), for kernel consumers of `ib_core` in other modules.
//!
//! | type | what |
//! |---|---|
//! | [`Agent`] | sends and receives MADs of a class at a port; dropping it waits for its handlers |
//! | [`Buffer`], [`Filled`] | a MAD to be sent, until it is posted |
//! | [`Received`] | a MAD, or the segments of an RMPP transfer, in the receive handler |
//! | [`Mad`] | the same, kept beyond the handler |
//!
//! Each send carries a value of the consumer. [`MadUser::sent`] returns it, exactly once for each
//! send that was posted.
//!
//! C header: `include/rdma/ib_mad.h`. Only exported functions are called, so the core may be the C
//! one.

mod handles;
pub mod request;
mod route;

pub use self::route::Path;
pub use self::route::Route;

use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr;
use core::ptr::NonNull;
use core::slice;

use crate::accounted;
use crate::bindings;
use crate::client::DeviceRef;
use crate::edge::mad::MadAgent;
use crate::edge::mad::RecvWc;
use crate::edge::mad::SendBuf;
use crate::edge::wc::Wc;
use crate::edge::FromC;
use crate::edge::Passed;
use crate::edge::View;
use crate::edge::Within;
use crate::module::Resident;
use crate::task::cond_resched;
use kernel::container_of;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Offsets of the RMPP header in a MAD (`struct ib_rmpp_hdr`, after `struct ib_mad_hdr`).
const RMPP: Range<usize> = 24..36;

/// Bytes of an InfiniBand MAD. An Omni-Path MAD is longer.
const MAD_SIZE: usize = size_of::<bindings::ib_mad>();

/// Handlers of an agent. They run in work items of the port, one at a time, and may sleep.
pub trait MadUser: Send + Sync + 'static {
    /// Value that a send carries.
    type Sent: Send + 'static;

    /// Handles a received MAD.
    fn received(&self, mad: Received<'_>);

    /// Handles the end of a send. `timed_out` means that no response was received in time.
    fn sent(&self, sent: KBox<Self::Sent>, timed_out: bool);
}

/// Unsolicited MADs that an agent receives.
pub struct Unsolicited {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// OUI of a vendor class.
    pub oui: [u8; 3],
    /// Bitmap of methods.
    pub methods: u128,
}

/// Registration of an agent.
pub struct Registration {
    /// Uses queue pair 1 (GSI) if set, else queue pair 0 (SMI).
    pub gsi: bool,
    /// Unsolicited MADs that it receives, if any.
    pub unsolicited: Option<Unsolicited>,
    /// Version of RMPP; 0 for none.
    pub rmpp_version: u8,
    /// `IB_MAD_USER_RMPP`, or 0.
    pub flags: u32,
}

/// A registration with the core, and what its handlers need. Drop waits until the handlers have
/// returned and all sends have ended. Drop may sleep.
///
/// # Invariants
///
/// `raw` is registered, with the address of `_user` as its context.
struct Registered<U> {
    raw: NonNull<bindings::ib_mad_agent>,
    _user: Arc<U>,
    _device: DeviceRef,
    /// The handlers are the module's code.
    _resident: Resident,
}

// SAFETY: The core locks agents; the user is `Send` and `Sync`.
unsafe impl<U: Send + Sync> Send for Registered<U> {}
// SAFETY: As for `Send`: the core locks agents, and the user is `Sync`.
unsafe impl<U: Send + Sync> Sync for Registered<U> {}

impl<U> Registered<U> {
    /// Registers an agent with its handlers for sends and receives.
    ///
    /// # Safety
    ///
    /// The handlers are for agents whose context is a `U`.
    unsafe fn new(
        resident: Resident,
        device: &DeviceRef,
        port: u32,
        how: &Registration,
        (sent, received): (bindings::ib_mad_send_handler, bindings::ib_mad_recv_handler),
        user: Arc<U>,
    ) -> Result<Self> {
        // The C core looks the port up in an array before it checks anything.
        if !device.ports().contains(&port) {
            return Err(EINVAL);
        }
        let mut request = bindings::ib_mad_reg_req::default();
        if let Some(unsolicited) = &how.unsolicited {
            request.mgmt_class = unsolicited.class;
            request.mgmt_class_version = unsolicited.version;
            request.oui = unsolicited.oui;
            let [low, high] = &mut request.method_mask;
            // CAST: The lower half.
            *low = unsolicited.methods as usize;
            // CAST: The upper half.
            *high = (unsolicited.methods >> 64) as usize;
        }
        let wanted = match how.unsolicited {
            Some(_) => &raw mut request,
            None => ptr::null_mut(),
        };
        let queue = if how.gsi {
            bindings::ib_qp_type_IB_QPT_GSI
        } else {
            bindings::ib_qp_type_IB_QPT_SMI
        };
        // SAFETY: The device and the context exist as long as the agent (`_device`, `_user`), whose
        // drop waits for the handlers; these expect a `U` (contract of this function). The port is
        // one of the device's (checked above). The core copies the request.
        let raw = from_err_ptr(unsafe {
            bindings::ib_register_mad_agent(
                device.raw(),
                port,
                queue,
                wanted,
                how.rmpp_version,
                sent,
                received,
                Arc::as_ptr(&user).cast_mut().cast(),
                how.flags,
            )
        })?;
        Ok(Self {
            // INVARIANT: Just registered with these arguments.
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            _user: user,
            _device: device.clone(),
            _resident: resident,
        })
    }

    fn view(&self) -> &MadAgent {
        // SAFETY: The agent is registered as long as this exists (type invariant).
        unsafe { MadAgent::view(self.raw.as_ptr()) }
    }

    /// Returns the upper half of the transaction IDs of its requests.
    fn hi_tid(&self) -> u32 {
        self.view().hi_tid()
    }
}

impl<U> Drop for Registered<U> {
    fn drop(&mut self) {
        // SAFETY: The agent is registered (type invariant).
        unsafe { bindings::ib_unregister_mad_agent(self.raw.as_ptr()) };
    }
}

/// A registered agent. Drop waits until its handlers have returned and all its sends have ended, so
/// the caller must not hold a lock that a handler takes. Drop may sleep.
///
/// # Invariants
///
/// - Its handlers are [`on_sent`] and [`on_received`] of `U`.
/// - Only [`Filled::post`] posts its sends.
pub struct Agent<U: MadUser>(Registered<U>);

impl<U: MadUser> Agent<U> {
    /// Registers an agent at a port. Its handlers may run before this function returns. May sleep.
    /// `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that the device does not have, and for a class or method that the core
    /// does not support or that another agent has registered; `EPROTONOSUPPORT`, `ENOMEM`.
    pub fn register(
        resident: Resident,
        device: &DeviceRef,
        port: u32,
        how: &Registration,
        user: Arc<U>,
    ) -> Result<Self> {
        // SAFETY: These handlers expect a `U`.
        let registered = unsafe {
            Registered::new(
                resident,
                device,
                port,
                how,
                (Some(on_sent::<U>), Some(on_received::<U>)),
                user,
            )
        }?;
        // INVARIANT: Registered with these handlers. Only `Filled::post` posts sends of the agent.
        Ok(Self(registered))
    }

    /// Returns the upper half of the transaction IDs of the agent's requests, by which responses
    /// are matched.
    pub fn hi_tid(&self) -> u32 {
        self.0.hi_tid()
    }

    /// Creates an address handle for its sends. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a GID, port or path that does not exist; those of the driver.
    pub fn address(&self, to: &To) -> Result<Address<'_, U>> {
        let grh = to.grh.as_ref().map_or(ptr::null(), |grh| &raw const grh.0);
        // SAFETY: The agent is registered (type invariant), so its queue pair and protection domain
        // exist; `grh` is null or points to a route that is borrowed for the call.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_helper_mad_ah(self.0.raw.as_ptr(), to.lid, to.sl, to.path_bits, grh)
        })?;
        // INVARIANT: Just created, by this agent.
        Ok(Address {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            agent: self,
        })
    }
}

/// A global route: the fields of a GRH that the sender selects.
#[derive(Default)]
pub struct Grh(pub bindings::rdma_helper_grh);

/// Destination of a MAD.
pub struct To {
    /// LID of the destination.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits of the source LID.
    pub path_bits: u8,
    /// Global route, if any.
    pub grh: Option<Grh>,
}

/// An address handle of an agent, destroyed on drop. Drop may sleep.
///
/// # Invariants
///
/// `raw` was created by `agent`, in its protection domain, and is owned by this.
pub struct Address<'a, U: MadUser> {
    raw: NonNull<bindings::ib_ah>,
    agent: &'a Agent<U>,
}

impl<'a, U: MadUser> Address<'a, U> {
    /// Allocates a MAD for this address, to be sent by its agent. Its memory is charged to the
    /// cgroup of the current task. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for lengths that are not possible for such a MAD; `ENOMEM`, also at the limit of the
    /// cgroup.
    pub fn buffer(self, lengths: &Lengths) -> Result<Buffer<'a, U>> {
        let headers = c_int::try_from(lengths.headers).map_err(|_| EINVAL)?;
        let data = c_int::try_from(lengths.data).map_err(|_| EINVAL)?;
        // The C core does not check the headers: it writes the RMPP header of a transfer into them,
        // and divides the data by what they leave of a MAD.
        let possible = if lengths.rmpp {
            (RMPP.end..MAD_SIZE).contains(&lengths.headers)
        } else {
            lengths.headers <= MAD_SIZE
        };
        if !possible {
            return Err(EINVAL);
        }
        // The core adds both, and rounds up to a whole segment.
        headers
            .checked_add(data)
            .and_then(|sum| sum.checked_add(4096))
            .ok_or(EINVAL)?;
        // SAFETY: The agent is registered (invariant of `Agent`). The headers are shorter than a
        // MAD, and longer than the RMPP header of a transfer (checked above).
        let raw = from_err_ptr(unsafe {
            bindings::ib_create_send_mad(
                self.agent.0.raw.as_ptr(),
                lengths.qpn,
                lengths.pkey_index,
                c_int::from(lengths.rmpp),
                headers,
                data,
                accounted::FLAGS,
                lengths.base_version,
            )
        })?;
        // INVARIANT: Just created by the agent of the address, and not posted.
        Ok(Buffer {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            address: self,
            rmpp: lengths.rmpp,
        })
    }
}

impl<U: MadUser> Drop for Address<'_, U> {
    fn drop(&mut self) {
        // SAFETY: The handle is owned by this (type invariant). No posted send uses it:
        // `Filled::post` forgets it.
        unsafe { bindings::rdma_helper_mad_ah_destroy(self.raw.as_ptr()) };
    }
}

/// Lengths of a MAD to be sent, and the fields of its destination that are not in the address
/// handle.
pub struct Lengths {
    /// Number of the destination's queue pair.
    pub qpn: u32,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// Whether the core sends it as an RMPP transfer.
    pub rmpp: bool,
    /// Bytes of headers.
    pub headers: usize,
    /// Bytes of data.
    pub data: usize,
    /// Base version of the MAD.
    pub base_version: u8,
}

/// A MAD to be sent, with undefined bytes.
///
/// # Invariants
///
/// `raw` was created by the agent of `address`, is not posted, and is owned by this.
pub struct Buffer<'a, U: MadUser> {
    raw: NonNull<bindings::ib_mad_send_buf>,
    address: Address<'a, U>,
    rmpp: bool,
}

/// A MAD that can be sent.
///
/// # Invariants
///
/// Headers and data were copied into it.
pub struct Filled<'a, U: MadUser>(Buffer<'a, U>);

impl<'a, U: MadUser> Buffer<'a, U> {
    fn view(&self) -> &SendBuf {
        // SAFETY: The buffer is owned by this (type invariant).
        unsafe { SendBuf::view(self.raw.as_ptr()) }
    }

    /// Copies the MAD, headers and data. May sleep. Bytes beyond the lengths passed to [`Address::buffer`] are
    /// ignored, and so is the RMPP header of a transfer, which the core writes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `mad` is shorter than headers and data: the core does not clear the segments of
    /// a transfer.
    pub fn fill(self, mad: &[u8]) -> Result<Filled<'a, U>> {
        let buf = self.view();
        let length = |raw: c_int| usize::try_from(raw).unwrap_or(0);
        let (headers, data) = (length(buf.hdr_len()), length(buf.data_len()));
        let segment = length(buf.seg_size());
        let all = headers.saturating_add(data);
        let mad = mad.get(..all).ok_or(EINVAL)?;
        let first = if self.rmpp { headers } else { all };
        let (first, rest) = mad.split_at_checked(first).ok_or(EINVAL)?;
        let skipped = if self.rmpp { RMPP } else { 0..0 };
        let before = first.get(..skipped.start).unwrap_or(first);
        let after = first.get(skipped.end..).unwrap_or(&[]);
        let place: *mut u8 = buf.mad().as_ptr().cast_mut().cast();
        // SAFETY: `ib_create_send_mad` makes `buf.mad` as long as headers and data, or, for a
        // transfer, as long as the headers. `first` is no longer; both of its parts are copied to
        // their own offsets. No other code uses the buffer (type invariant).
        unsafe {
            ptr::copy_nonoverlapping(before.as_ptr(), place, before.len());
            ptr::copy_nonoverlapping(after.as_ptr(), place.add(skipped.end), after.len());
        }
        let mut number: c_int = 0;
        // Without RMPP there is no rest, and no segment.
        for part in rest.chunks(segment.max(1)) {
            number = number.saturating_add(1);
            if number % 256 == 0 {
                cond_resched();
            }
            // SAFETY: A transfer has segments of `seg_size` bytes for all of its data, numbered
            // from 1 (`ib_get_rmpp_segment` in `ib_mad.h`).
            unsafe {
                let place = bindings::ib_get_rmpp_segment(self.raw.as_ptr(), number);
                ptr::copy_nonoverlapping(part.as_ptr(), place.cast(), part.len());
            }
        }
        // INVARIANT: All bytes were copied.
        Ok(Filled(self))
    }
}

impl<U: MadUser> Filled<'_, U> {
    /// Posts the MAD. `sent` is returned by [`MadUser::sent`] from a work item, never from within
    /// this function, so the caller may hold a lock that the handler takes. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the core or the driver; the handler is not called then.
    pub fn post(self, timeout_ms: u32, retries: u32, sent: KBox<U::Sent>) -> Result {
        let Self(buffer) = self;
        let buf = buffer.view();
        let sent: *mut U::Sent = KBox::into_raw(sent);
        buf.set_ah(buffer.address.raw.as_ptr());
        // CAST: The core uses signed numbers, and accepts those of programs unchecked.
        buf.set_timeout_ms(timeout_ms as c_int);
        // CAST: Signed in the core, as the timeout.
        buf.set_retries(retries as c_int);
        buf.context().store(sent.cast(), Relaxed);
        let this = ManuallyDrop::new(buffer);
        // SAFETY: The buffer is owned by this, and not posted (type invariant). If the core accepts
        // it, `Ended` takes back buffer, address handle and context.
        let refused = unsafe { bindings::ib_post_send_mad(this.raw.as_ptr(), ptr::null_mut()) };
        let result = to_result(refused);
        if result.is_err() {
            // SAFETY: From `into_raw` above; the core did not accept it.
            drop(unsafe { KBox::from_raw(sent) });
            drop(ManuallyDrop::into_inner(this));
        }
        result
    }
}

impl<U: MadUser> Drop for Buffer<'_, U> {
    fn drop(&mut self) {
        // SAFETY: The buffer is owned by this, and not posted (type invariant).
        unsafe { bindings::ib_free_send_mad(self.raw.as_ptr()) };
    }
}

crate::callback! {
    /// The send handler of an [`Agent`].
    fn on_sent<U: MadUser>(agent: Called<'_, U>, ended: Ended<U>) = sent;
    /// The receive handler of an [`Agent`].
    fn on_received<U: MadUser>(
        agent: Called<'_, U>, request: Passed<bindings::ib_mad_send_buf>, mad: Mad,
    ) = received;
}

fn sent<U: MadUser>(called: Called<'_, U>, ended: Ended<U>) {
    let Ended { sent, timed_out } = ended;
    called.user.sent(sent, timed_out);
}

fn received<U: MadUser>(
    called: Called<'_, U>,
    _request: Passed<bindings::ib_mad_send_buf>,
    mad: Mad,
) {
    // INVARIANT: Both are arguments of one call of the handler.
    let mad = Received {
        mad,
        agent: called.agent,
    };
    if mad.wc().status() == bindings::ib_wc_status_IB_WC_SUCCESS {
        called.user.received(mad);
    }
}

/// The agent whose handler is called, and its user.
struct Called<'a, U> {
    agent: &'a MadAgent,
    user: &'a U,
}

// SAFETY: `from_c` is for the first argument of `on_sent` and `on_received`: the C structure of an
// `Agent<U>`, whose context is its user (type invariant). Both exist until the handler has
// returned.
unsafe impl<U: MadUser> FromC for Called<'_, U> {
    type C = *mut bindings::ib_mad_agent;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The agent is registered during the call, and its context is a `U` (`Agent`).
        unsafe {
            let agent = MadAgent::view(c);
            let user = &*agent.context().as_ptr().cast::<U>();
            Self { agent, user }
        }
    }
}
// SAFETY: Both references have the lifetime `'a`.
unsafe impl<'a, U: MadUser> Within<'a> for Called<'a, U> {}

/// A send that has ended. Its buffer and its address handle are freed.
struct Ended<U: MadUser> {
    sent: KBox<U::Sent>,
    timed_out: bool,
}

// SAFETY: `from_c` is for the second argument of `on_sent`: a send of an `Agent<U>`, which
// `Filled::post` posted (invariant of `Agent`), and which the core does not use any more.
unsafe impl<U: MadUser> FromC for Ended<U> {
    type C = *mut bindings::ib_mad_send_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The completion is valid during the call, and the consumer owns the send again
        // (`ib_mad_send_handler` in `ib_mad.h`). `post` set the address handle and the context. The
        // status is read before the buffer is freed, because the completion may be part of it.
        unsafe {
            let (status, raw) = ((*c).status, (*c).send_buf);
            let buf = SendBuf::view(raw);
            let (sent, ah) = (buf.context().load(Relaxed), buf.ah());
            bindings::ib_free_send_mad(raw);
            bindings::rdma_helper_mad_ah_destroy(ah);
            Self {
                sent: KBox::from_raw(sent.cast::<U::Sent>()),
                timed_out: status == bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR,
            }
        }
    }
}
// SAFETY: It contains no references.
unsafe impl<U: MadUser> Within<'_> for Ended<U> {}

/// A received MAD in its handler.
///
/// # Invariants
///
/// `mad` and `agent` are arguments of one call of the receive handler, which lasts for `'a`.
pub struct Received<'a> {
    mad: Mad,
    agent: &'a MadAgent,
}

/// Source of a received MAD.
pub struct Origin {
    /// Number of the sender's queue pair.
    pub qpn: u32,
    /// LID of the sender, its lower half on Omni-Path.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits of the destination LID.
    pub path_bits: u8,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// Route back to the sender, if the MAD has a GRH.
    pub grh: Option<Grh>,
}

impl Received<'_> {
    fn wc(&self) -> &Wc {
        // SAFETY: The completion exists during the call of the handler (type invariant, table of
        // `RecvWc`), and is not changed.
        unsafe { Wc::view(self.mad.view().wc().as_ptr().cast_mut()) }
    }

    /// Returns the source of the MAD. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODEV` and others if there is no route back to the sender.
    pub fn from(&self) -> Result<Origin> {
        let wc = self.wc();
        let grh = if wc.has(bindings::ib_wc_flags_IB_WC_GRH) {
            let mut grh = Grh::default();
            // SAFETY: The agent, the message and its completion exist during the call of the
            // handler (type invariant). `grh` is a local.
            to_result(unsafe {
                bindings::rdma_helper_mad_recv_grh(
                    self.agent.raw(),
                    self.mad.0.as_ptr(),
                    &mut grh.0,
                )
            })?;
            Some(grh)
        } else {
            None
        };
        Ok(Origin {
            qpn: wc.src_qp(),
            // CAST: The upper half of Omni-Path's LIDs is in the MAD itself.
            lid: wc.slid() as u16,
            sl: wc.sl(),
            path_bits: wc.dlid_path_bits(),
            pkey_index: wc.pkey_index(),
            grh,
        })
    }

    /// Returns the GID of the sender, if the MAD has a GRH.
    pub fn source_gid(&self) -> Option<[u8; 16]> {
        let wc = self.wc();
        if !wc.has(bindings::ib_wc_flags_IB_WC_GRH) {
            return None;
        }
        // SAFETY: The message exists during the call of the handler (type invariant), and has a GRH,
        // in place of which RoCE has an IP header, at the end of it for IPv4
        // (`union rdma_network_hdr` in `ib_verbs.h`). The version is found by its checksum.
        let (header, version): ([u8; 40], c_int) = unsafe {
            let grh: *mut bindings::ib_grh = (*self.mad.0.as_ptr()).recv_buf.grh;
            if grh.is_null() {
                return None;
            }
            let version = bindings::ib_get_rdma_header_version(grh.cast());
            (grh.cast::<[u8; 40]>().read(), version)
        };
        let is_ipv4 = if wc.has(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE) {
            u32::from(wc.network_hdr_type()) == bindings::rdma_network_type_RDMA_NETWORK_IPV4
        } else {
            version == 4
        };
        let mut gid = [0; 16];
        if is_ipv4 {
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&header[32..36]);
        } else {
            gid.copy_from_slice(&header[8..24]);
        }
        Some(gid)
    }

    /// Returns the MAD.
    pub const fn mad(&self) -> &Mad {
        &self.mad
    }

    /// Returns the LID of the sender.
    pub fn slid(&self) -> u32 {
        self.wc().slid()
    }

    /// Returns the service level.
    pub fn sl(&self) -> u8 {
        self.wc().sl()
    }

    /// Returns the path bits of the destination LID.
    pub fn path_bits(&self) -> u8 {
        self.wc().dlid_path_bits()
    }

    /// Returns the index of the P_Key in the port's table.
    pub fn pkey_index(&self) -> u16 {
        self.wc().pkey_index()
    }

    /// Returns the MAD, which may be kept beyond the call.
    pub fn into_mad(self) -> Mad {
        self.mad
    }
}

/// A received MAD, or the segments of an RMPP transfer. Drop frees it.
///
/// # Invariants
///
/// `0` was passed to the receive handler of an [`Agent`], is owned by this, and is not changed.
pub struct Mad(NonNull<bindings::ib_mad_recv_wc>);

// SAFETY: The memory is not bound to a thread, and is not changed (type invariant).
unsafe impl Send for Mad {}
// SAFETY: It is not changed (type invariant).
unsafe impl Sync for Mad {}

// SAFETY: `from_c` is for the third argument of `on_received`: a message whose ownership passes to
// the consumer (`ib_mad_recv_handler` in `ib_mad.h`).
unsafe impl FromC for Mad {
    type C = *mut bindings::ib_mad_recv_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: The message passes to the consumer, see above.
        // SAFETY: The core passes a message, never null (`ib_mad_recv_handler`).
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}
// SAFETY: It contains no references.
unsafe impl Within<'_> for Mad {}

impl Mad {
    fn view(&self) -> &RecvWc {
        // SAFETY: The message is owned by this (type invariant).
        unsafe { RecvWc::view(self.0.as_ptr()) }
    }

    /// Returns the length of the message in bytes: the first segment, and the data of the others.
    #[allow(clippy::len_without_is_empty, reason = "a MAD is never empty")]
    pub fn len(&self) -> usize {
        usize::try_from(self.view().mad_len()).unwrap_or(0)
    }

    /// Returns the size of a segment in bytes.
    pub fn segment_size(&self) -> usize {
        self.view().mad_seg_size()
    }

    /// Returns the MAD, or the first segment.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The message is owned by this and not changed (type invariant); its first buffer
        // has `mad_seg_size` bytes (`struct ib_mad_recv_wc` in `ib_mad.h`).
        unsafe {
            let mad: *mut bindings::ib_mad = (*self.0.as_ptr()).recv_buf.__bindgen_anon_1.mad;
            slice::from_raw_parts(mad.cast::<u8>(), self.segment_size())
        }
    }

    /// Calls `take` with each segment, in order, until it returns `false` or an error.
    ///
    /// # Errors
    ///
    /// Those of `take`.
    pub fn segments(&self, mut take: impl FnMut(&[u8]) -> Result<bool>) -> Result {
        let size = self.segment_size();
        // SAFETY: The message is owned by this and not changed (type invariant). Its `recv_buf`
        // and the other segments are in the list whose head is `rmpp_list`, and each has a buffer
        // of `mad_seg_size` bytes (`struct ib_mad_recv_wc` in `ib_mad.h`).
        unsafe {
            let head = &raw mut (*self.0.as_ptr()).rmpp_list;
            let mut buf = &raw mut (*self.0.as_ptr()).recv_buf;
            loop {
                let mad: *mut bindings::ib_mad = (*buf).__bindgen_anon_1.mad;
                if !take(slice::from_raw_parts(mad.cast::<u8>(), size))? {
                    return Ok(());
                }
                let next = (*buf).list.next;
                if next == head || next.is_null() {
                    return Ok(());
                }
                buf = container_of!(next, bindings::ib_mad_recv_buf, list);
            }
        }
    }
}

impl Drop for Mad {
    fn drop(&mut self) {
        // SAFETY: The message is owned by this (type invariant).
        unsafe { bindings::ib_free_recv_mad(self.0.as_ptr()) };
    }
}
