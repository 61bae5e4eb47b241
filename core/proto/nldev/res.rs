// SPDX-License-Identifier: GPL-2.0

//! Answers about the objects of a device: how many there are, and each of them.
//!
//! Keys that give access to memory are for a network administrator only; the host
//! says who reads by leaving them out (`Option`). An object of the kernel has no
//! user's context and protection domain to name.

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

/// The list of a kind, and an entry of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The command that asks for it.
    pub command: Command,
    /// The list.
    pub table: Attr,
    /// An entry.
    pub entry: Attr,
    /// The id by which one is asked for alone.
    pub id: Attr,
}

/// How the objects of a kind are listed. Not all are.
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
        Kind::Dmah => return None,
    };
    Some(Table {
        command,
        table,
        entry,
        id,
    })
}

/// Writes how many objects of each kind there are: `RDMA_NLDEV_CMD_RES_GET`.
pub fn put_summary(
    w: &mut Writer<impl Sink>,
    handle: &Handle<'_>,
    count: impl Fn(Kind) -> u32,
) -> Result<(), Full> {
    handle.put(w)?;
    let kinds = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, kind.summary_name()?)));
    w.nest_unmarked(Attr::ResSummary.raw(), |w| {
        for (kind, name) in kinds {
            w.nest_unmarked(Attr::ResSummaryEntry.raw(), |w| {
                w.put_str(Attr::ResSummaryEntryName.raw(), name.as_bytes())?;
                let count = u64::from(count(kind));
                w.put_u64(Attr::ResSummaryEntryCurr.raw(), count, PAD)
            })?;
        }
        Ok::<(), Full>(())
    })
}

/// Who owns an object, as its reader is shown.
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
    /// Its port; 0 before it has one.
    pub port: u32,
    /// Its number.
    pub lqpn: u32,
    /// The user's protection domain.
    pub pdn: Option<u32>,
    /// Who owns it.
    pub owner: Owner<'a>,
    /// Of a connected one (RC, UC): the peer's number, the next packet to come.
    pub peer: Option<(u32, u32)>,
    /// The next packet to go.
    pub sq_psn: u32,
    /// Where path migration stands, for types that have it (RC, UC, XRC).
    pub path_mig_state: Option<u8>,
    /// `enum ib_qp_type`.
    pub qp_type: u8,
    /// `enum ib_qp_state`.
    pub state: u8,
}

impl Qp<'_> {
    /// Writes it.
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

/// A connection manager's id.
#[derive(Clone, Copy, Debug)]
pub struct CmId<'a> {
    /// Its port; 0 before it has one.
    pub port: u32,
    /// Number and type of its queue pair.
    pub qp: Option<(u32, u8)>,
    /// Port space.
    pub port_space: u32,
    /// State of the connection.
    pub state: u8,
    /// Its own address (`struct sockaddr_storage`), once it has one.
    pub src_addr: Option<&'a [u8; 128]>,
    /// The peer's.
    pub dst_addr: Option<&'a [u8; 128]>,
    /// Its id.
    pub cm_idn: u32,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl CmId<'_> {
    /// Writes it.
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
    /// How many completions it holds.
    pub cqe: u32,
    /// How many objects use it.
    pub usecnt: u64,
    /// How a kernel's one is polled (`enum ib_poll_context`).
    pub poll_ctx: Option<u8>,
    /// Whether it adapts its moderation.
    pub dim: bool,
    /// Its id.
    pub cqn: u32,
    /// The user's context.
    pub ctxn: Option<u32>,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl Cq<'_> {
    /// Writes it.
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
    /// Remote and local key, for an administrator.
    pub keys: Option<(u32, u32)>,
    /// Its bytes.
    pub length: u64,
    /// Its id.
    pub mrn: u32,
    /// The user's protection domain.
    pub pdn: Option<u32>,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl Mr<'_> {
    /// Writes it.
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
    /// The local key of all memory, for an administrator.
    pub local_dma_lkey: Option<u32>,
    /// The remote one, if it was asked for, for an administrator.
    pub unsafe_global_rkey: Option<u32>,
    /// How many objects use it.
    pub usecnt: u64,
    /// Its id.
    pub pdn: u32,
    /// The user's context.
    pub ctxn: Option<u32>,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl Pd<'_> {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        put_some(w, Attr::ResLocalDmaLkey, self.local_dma_lkey)?;
        put_some(w, Attr::ResUnsafeGlobalRkey, self.unsafe_global_rkey)?;
        w.put_u64(Attr::ResUsecnt.raw(), self.usecnt, PAD)?;
        w.put_u32(Attr::ResPdn.raw(), self.pdn)?;
        put_some(w, Attr::ResCtxn, self.ctxn)?;
        put_owner(w, &self.owner)
    }
}

/// A user's context.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// Its id.
    pub ctxn: u32,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl Ctx<'_> {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::ResCtxn.raw(), self.ctxn)?;
        put_owner(w, &self.owner)
    }
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq<'a, Q> {
    /// Its id.
    pub srqn: u32,
    /// `enum ib_srq_type`.
    pub srq_type: u8,
    /// Its protection domain.
    pub pdn: u32,
    /// Its completion queue, for types that have one.
    pub cqn: Option<u32>,
    /// The queue pairs that use it, by number, rising.
    pub qpns: Q,
    /// Who owns it.
    pub owner: Owner<'a>,
}

impl<Q: Iterator<Item = u32> + Clone> Srq<'_, Q> {
    /// Writes it. Runs of numbers are written as their ends.
    ///
    /// # Errors
    ///
    /// [`ListError::Full`] if it does not fit; `Failed` if the numbers do not rise.
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

/// Numbers that should rise do not.
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
