// SPDX-License-Identifier: GPL-2.0

//! Responses about the objects of a device: number of objects, and each object.
//!
//! Keys that give access to memory are shown to a network administrator only; the host leaves them
//! out (`None`) for other readers. An object of the kernel has no user context and no protection
//! domain of a user to show.

use super::super::nla::Full;
use super::super::nla::ListError;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::super::restrack::Kind;
use super::super::restrack::Shown;
use super::attr::PAD;
use super::dev::Handle;
use super::Attr;
use super::Command;

/// Command and attributes of a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The command that requests it.
    pub command: Command,
    /// The nest of the list.
    pub table: Attr,
    /// The nest of an entry.
    pub entry: Attr,
    /// The id by which a single object is requested.
    pub id: Attr,
}

/// Returns how objects of a kind are listed; `None` if they are not.
pub const fn table(kind: Kind) -> Option<Table> {
    let (command, table, entry, id) = match kind {
        Kind::Qp => (
            Command::ResQpGet,
            Attr::ResQp,
            Attr::ResQpEntry,
            Attr::ResLqpn,
        ),
        Kind::CmId => (
            Command::ResCmIdGet,
            Attr::ResCmId,
            Attr::ResCmIdEntry,
            Attr::ResCmIdn,
        ),
        Kind::Cq => (
            Command::ResCqGet,
            Attr::ResCq,
            Attr::ResCqEntry,
            Attr::ResCqn,
        ),
        Kind::Mr => (
            Command::ResMrGet,
            Attr::ResMr,
            Attr::ResMrEntry,
            Attr::ResMrn,
        ),
        Kind::Pd => (
            Command::ResPdGet,
            Attr::ResPd,
            Attr::ResPdEntry,
            Attr::ResPdn,
        ),
        Kind::Ctx => (
            Command::ResCtxGet,
            Attr::ResCtx,
            Attr::ResCtxEntry,
            Attr::ResCtxn,
        ),
        Kind::Srq => (
            Command::ResSrqGet,
            Attr::ResSrq,
            Attr::ResSrqEntry,
            Attr::ResSrqn,
        ),
        Kind::Counter => (
            Command::StatGet,
            Attr::StatCounter,
            Attr::StatCounterEntry,
            Attr::StatCounterId,
        ),
        Kind::Dmah | Kind::CompCntr => return None,
    };
    Some(Table {
        command,
        table,
        entry,
        id,
    })
}

/// Number of objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// How many there are.
    pub now: u32,
    /// How many there can be; 0 if not known.
    pub max: u32,
}

/// Writes the number of objects of each of `kinds`: `RDMA_NLDEV_CMD_RES_GET`.
pub fn put_summary(
    w: &mut Writer<impl Sink>,
    handle: &Handle<'_>,
    kinds: &[Kind],
    number: impl Fn(Kind) -> Number,
) -> Result<(), Full> {
    handle.put(w)?;
    let kinds = kinds
        .iter()
        .filter_map(|kind| Some((*kind, kind.summary_name()?)));
    w.nest_unmarked(Attr::ResSummary.raw(), |w| {
        for (kind, name) in kinds {
            w.nest_unmarked(Attr::ResSummaryEntry.raw(), |w| {
                w.put_str(Attr::ResSummaryEntryName.raw(), name.as_bytes())?;
                let Number { now, max } = number(kind);
                w.put_u64(Attr::ResSummaryEntryCurr.raw(), now.into(), PAD)?;
                if max == 0 {
                    return Ok(());
                }
                w.put_u64(Attr::ResSummaryEntryMax.raw(), max.into(), PAD)
            })?;
        }
        Ok::<(), Full>(())
    })
}

/// Owner of an object, as shown to the reader.
pub type Owner<'a> = Shown<&'a [u8]>;

pub(super) fn put_owner(w: &mut Writer<impl Sink>, owner: &Owner<'_>) -> Result<(), Full> {
    match owner {
        Shown::KernelName(name) => w.put_str(Attr::ResKernName.raw(), name),
        Shown::Pid(pid) => w.put_u32(Attr::ResPid.raw(), *pid),
        Shown::Nothing => Ok(()),
    }
}

fn put_some(w: &mut Writer<impl Sink>, attr: Attr, value: Option<u32>) -> Result<(), Full> {
    value.map_or(Ok(()), |value| w.put_u32(attr.raw(), value))
}

/// A queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Qp<'a> {
    /// Port number; 0 if not bound to one yet.
    pub port: u32,
    /// Queue pair number.
    pub lqpn: u32,
    /// Id of the user's protection domain.
    pub pdn: Option<u32>,
    /// Owner of the object.
    pub owner: Owner<'a>,
    /// For connected types (RC, UC): the peer's QP number and the expected receive PSN.
    pub peer: Option<(u32, u32)>,
    /// PSN of the next packet to be sent.
    pub sq_psn: u32,
    /// Path migration state, for types that have it (RC, UC, XRC).
    pub path_mig_state: Option<u8>,
    /// `enum ib_qp_type`.
    pub qp_type: u8,
    /// `enum ib_qp_state`.
    pub state: u8,
}

impl Qp<'_> {
    /// Writes the attributes of the queue pair.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        put_some(
            w,
            Attr::PortIndex,
            Some(self.port).filter(|port| *port != 0),
        )?;
        w.put_u32(Attr::ResLqpn.raw(), self.lqpn)?;
        put_some(w, Attr::ResPdn, self.pdn)?;
        put_owner(w, &self.owner)?;
        if let Some((rqpn, rq_psn)) = self.peer {
            w.put_u32(Attr::ResRqpn.raw(), rqpn)?;
            w.put_u32(Attr::ResRqPsn.raw(), rq_psn)?;
        }
        w.put_u32(Attr::ResSqPsn.raw(), self.sq_psn)?;
        if let Some(state) = self.path_mig_state {
            w.put_u8(Attr::ResPathMigState.raw(), state)?;
        }
        w.put_u8(Attr::ResType.raw(), self.qp_type)?;
        w.put_u8(Attr::ResState.raw(), self.state)
    }
}

/// An id of the connection manager.
#[derive(Clone, Copy, Debug)]
pub struct CmId<'a> {
    /// Port number; 0 if not bound to one yet.
    pub port: u32,
    /// Number and type of the queue pair.
    pub qp: Option<(u32, u8)>,
    /// Port space (`enum rdma_ucm_port_space`).
    pub port_space: u32,
    /// State of the connection (`enum rdma_cm_state`).
    pub state: u8,
    /// Source address (`struct sockaddr_storage`), if bound.
    pub src_addr: Option<&'a [u8; 128]>,
    /// Destination address, if resolved.
    pub dst_addr: Option<&'a [u8; 128]>,
    /// Id of the tracked object.
    pub cm_idn: u32,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl CmId<'_> {
    /// Writes the attributes of the id.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        put_some(
            w,
            Attr::PortIndex,
            Some(self.port).filter(|port| *port != 0),
        )?;
        if let Some((lqpn, qp_type)) = self.qp {
            w.put_u32(Attr::ResLqpn.raw(), lqpn)?;
            w.put_u8(Attr::ResType.raw(), qp_type)?;
        }
        w.put_u32(Attr::ResPs.raw(), self.port_space)?;
        w.put_u8(Attr::ResState.raw(), self.state)?;
        if let Some(addr) = self.src_addr {
            w.put(Attr::ResSrcAddr.raw(), addr)?;
        }
        if let Some(addr) = self.dst_addr {
            w.put(Attr::ResDstAddr.raw(), addr)?;
        }
        w.put_u32(Attr::ResCmIdn.raw(), self.cm_idn)?;
        put_owner(w, &self.owner)
    }
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Cq<'a> {
    /// Number of completions that the queue holds.
    pub cqe: u32,
    /// Number of objects that use the queue.
    pub usecnt: u64,
    /// How a kernel CQ is polled (`enum ib_poll_context`).
    pub poll_ctx: Option<u8>,
    /// Whether adaptive moderation is on.
    pub dim: bool,
    /// Id of the tracked object.
    pub cqn: u32,
    /// Id of the user context.
    pub ctxn: Option<u32>,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl Cq<'_> {
    /// Writes the attributes of the queue.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::ResCqe.raw(), self.cqe)?;
        w.put_u64(Attr::ResUsecnt.raw(), self.usecnt, PAD)?;
        if let Some(poll_ctx) = self.poll_ctx {
            w.put_u8(Attr::ResPollCtx.raw(), poll_ctx)?;
        }
        w.put_u8(Attr::DevDim.raw(), u8::from(self.dim))?;
        w.put_u32(Attr::ResCqn.raw(), self.cqn)?;
        put_some(w, Attr::ResCtxn, self.ctxn)?;
        put_owner(w, &self.owner)
    }
}

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct Mr<'a> {
    /// Remote and local key, for a network administrator.
    pub keys: Option<(u32, u32)>,
    /// Length in bytes.
    pub length: u64,
    /// Id of the tracked object.
    pub mrn: u32,
    /// Id of the user's protection domain.
    pub pdn: Option<u32>,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl Mr<'_> {
    /// Writes the attributes of the region.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        if let Some((rkey, lkey)) = self.keys {
            w.put_u32(Attr::ResRkey.raw(), rkey)?;
            w.put_u32(Attr::ResLkey.raw(), lkey)?;
        }
        w.put_u64(Attr::ResMrlen.raw(), self.length, PAD)?;
        w.put_u32(Attr::ResMrn.raw(), self.mrn)?;
        put_some(w, Attr::ResPdn, self.pdn)?;
        put_owner(w, &self.owner)
    }
}

/// A protection domain.
#[derive(Clone, Copy, Debug)]
pub struct Pd<'a> {
    /// The `local_dma_lkey`, for a network administrator.
    pub local_dma_lkey: Option<u32>,
    /// The unsafe global rkey, if one was requested, for a network administrator.
    pub unsafe_global_rkey: Option<u32>,
    /// Number of objects that use the domain.
    pub usecnt: u64,
    /// Id of the tracked object.
    pub pdn: u32,
    /// Id of the user context.
    pub ctxn: Option<u32>,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl Pd<'_> {
    /// Writes the attributes of the domain.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        put_some(w, Attr::ResLocalDmaLkey, self.local_dma_lkey)?;
        put_some(w, Attr::ResUnsafeGlobalRkey, self.unsafe_global_rkey)?;
        w.put_u64(Attr::ResUsecnt.raw(), self.usecnt, PAD)?;
        w.put_u32(Attr::ResPdn.raw(), self.pdn)?;
        put_some(w, Attr::ResCtxn, self.ctxn)?;
        put_owner(w, &self.owner)
    }
}

/// A user context.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// Id of the tracked object.
    pub ctxn: u32,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl Ctx<'_> {
    /// Writes the attributes of the context.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::ResCtxn.raw(), self.ctxn)?;
        put_owner(w, &self.owner)
    }
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq<'a, Q> {
    /// Id of the tracked object.
    pub srqn: u32,
    /// `enum ib_srq_type`.
    pub srq_type: u8,
    /// Id of the protection domain.
    pub pdn: u32,
    /// Id of the completion queue, for types that have one.
    pub cqn: Option<u32>,
    /// Numbers of the queue pairs that use it, ascending.
    pub qpns: Q,
    /// Owner of the object.
    pub owner: Owner<'a>,
}

impl<Q: Iterator<Item = u32> + Clone> Srq<'_, Q> {
    /// Writes the attributes of the queue. Consecutive numbers are written as a range.
    ///
    /// # Errors
    ///
    /// [`ListError::Full`] if it does not fit; [`ListError::Failed`] if `qpns` is not ascending.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), ListError<NotRising>> {
        w.put_u32(Attr::ResSrqn.raw(), self.srqn)?;
        w.put_u8(Attr::ResType.raw(), self.srq_type)?;
        w.put_u32(Attr::ResPdn.raw(), self.pdn)?;
        put_some(w, Attr::ResCqn, self.cqn)?;
        w.nest(Attr::ResQp.raw(), |w| {
            let mut run: Option<(u32, u32)> = None;
            for qpn in self.qpns.clone() {
                run = Some(match run {
                    None => (qpn, qpn),
                    Some((_, last)) if qpn <= last => return Err(ListError::Failed(NotRising)),
                    Some((first, last)) if last.checked_add(1) == Some(qpn) => (first, qpn),
                    Some(run) => {
                        put_run(w, run)?;
                        (qpn, qpn)
                    }
                });
            }
            run.map_or(Ok(()), |run| Ok(put_run(w, run)?))
        })?;
        Ok(put_owner(w, &self.owner)?)
    }
}

/// Numbers are not in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRising;

fn put_run(w: &mut Writer<impl Sink>, (first, last): (u32, u32)) -> Result<(), Full> {
    w.nest(Attr::ResQpEntry.raw(), |w| {
        if first == last {
            return w.put_u32(Attr::ResLqpn.raw(), first);
        }
        w.put_u32(Attr::MinRange.raw(), first)?;
        w.put_u32(Attr::MaxRange.raw(), last)
    })
}
