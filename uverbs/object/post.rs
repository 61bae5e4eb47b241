// SPDX-License-Identifier: GPL-2.0

//! Work requests that programs post by commands: for drivers whose queues programs cannot write, and
//! as a doorbell.
//!
//! A doorbell is a command without work requests (`rdma_rxe` has its send queue in shared memory):
//! it allocates nothing. What is allocated for others is as long as the command at most, but for a
//! small factor, and charged to the program. Each byte of a command is copied once.
//!
//! C headers: `struct ib_uverbs_post_send` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::api::errno;
use crate::edge::call::Call;
use crate::edge::call::Rest;
use crate::edge::definitions::needs;
use crate::edge::handle::Id;
use crate::edge::handle::Shared;
use crate::edge::object::post::Entry;
use crate::edge::object::post::Recvs;
use crate::edge::object::post::Refused;
use crate::edge::object::post::Sends;
use crate::edge::object::post::Special;
use crate::edge::user::Address;
use crate::edge::user::Plain;
use crate::object::ah::Ah;
use crate::object::qp::Qp;
use crate::object::srq::Srq;
use crate::proto::post::form;
use crate::proto::post::layout;
use crate::proto::post::Entries;
use crate::proto::post::Extra;
use crate::proto::post::Form;
use crate::proto::post::Layout;
use crate::proto::post::RecvRequest;
use crate::proto::post::SendRequest;
use crate::proto::post::Way;
use crate::proto::post::RECV;
use crate::proto::post::SEND;
use crate::table::Def;
use crate::table::Write;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::bindings::ib_uverbs_post_recv;
use rdma::bindings::ib_uverbs_post_recv_resp;
use rdma::bindings::ib_uverbs_post_send;
use rdma::bindings::ib_uverbs_post_send_resp;
use rdma::bindings::ib_uverbs_post_srq_recv;
use rdma::bindings::ib_uverbs_post_srq_recv_resp;
use rdma::edge::verbs;

/// The table of work requests.
pub(crate) const TABLE: &[Def] = &[
    Def::Object(Qp::ID),
    Def::Write(
        Write::both::<ib_uverbs_post_send, ib_uverbs_post_send_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND,
            post_send,
        ),
    ),
    Def::CommandNeeds(needs!(post_send)),
    Def::Write(
        Write::both::<ib_uverbs_post_recv, ib_uverbs_post_recv_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_RECV,
            post_recv,
        ),
    ),
    Def::CommandNeeds(needs!(post_recv)),
    Def::Object(Srq::ID),
    Def::Write(Write::both::<
        ib_uverbs_post_srq_recv,
        ib_uverbs_post_srq_recv_resp,
    >(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SRQ_RECV,
        post_srq_recv,
    )),
    Def::CommandNeeds(needs!(post_srq_recv)),
];

/// The work requests behind a command, and where they are.
struct Requests {
    at: Address,
    layout: Layout,
    count: u32,
    entries: Entries,
}

impl Requests {
    /// Finds the parts of a command.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `EOPNOTSUPP`, `EINVAL`: see [`layout`].
    fn find(way: Way, rest: Rest, (count, size, entries): (u32, u32, u32)) -> Result<Self> {
        let (at, room) = rest.parts();
        let cleared = |from: usize| at.after(from).is_cleared(room.saturating_sub(from));
        let layout = layout(way, (count, size, entries), room, cleared).map_err(errno)?;
        Ok(Self {
            at,
            layout,
            count,
            entries: Entries::new(&layout),
        })
    }

    fn len(&self) -> usize {
        // CAST: Lossless on 64 bits, and so many are in the command.
        self.count as usize
    }

    /// Copies the begin of the request at `index`, which is less than the number of them.
    fn read<T: Plain>(&self, index: u32) -> Result<T> {
        // CAST: Lossless on 64 bits. The last one is in the command.
        let at = (index as usize).saturating_mul(self.layout.size);
        self.at.after(at).read()
    }

    /// Copies the scatter entries that the requests have taken.
    fn entries(&self) -> Result<KVVec<Entry>> {
        // CAST: Lossless on 64 bits.
        let count = self.entries.taken() as usize;
        let mut entries = accounted::from_elem(Entry::default(), count)?;
        if count != 0 {
            let at = self.at.after(self.layout.requests);
            at.read_slice(&mut entries)?;
        }
        Ok(entries)
    }

    /// Reads requests to receive.
    fn receives(&mut self) -> Result<(Recvs, KVVec<Entry>)> {
        let mut list = Recvs::with_capacity(self.len())?;
        for index in 0..self.count {
            let request = RecvRequest::parse(&self.read::<[u8; RECV]>(index)?);
            self.entries
                .take(Way::Recv, request.entries)
                .map_err(errno)?;
            list.push(&request)?;
        }
        Ok((list, self.entries()?))
    }

    /// Reads requests to send.
    fn sends<'c>(&mut self, call: &'c Call, qp: &verbs::Qp) -> Result<(Sends<'c>, KVVec<Entry>)> {
        let is_ud = qp.qp_type() == bindings::ib_qp_type_IB_QPT_UD;
        let mut list = Sends::with_capacity(self.len(), is_ud)?;
        for index in 0..self.count {
            let mut request = SendRequest::parse(&self.read::<[u8; SEND]>(index)?);
            self.entries.check(request.entries).map_err(errno)?;
            let (form, extra) = form(request.opcode, is_ud).map_err(errno)?;
            self.entries
                .take(Way::Send, request.entries)
                .map_err(errno)?;
            if extra == Extra::None {
                request.extra = 0;
            }
            let special = match form {
                Form::Plain => Special::Plain,
                Form::Rdma => Special::Rdma,
                Form::Atomic => Special::Atomic,
                Form::Ud => Special::Ud(Shared::<Ah>::get(call, request.ah)?),
            };
            list.push(&request, special)?;
        }
        Ok((list, self.entries()?))
    }
}

/// The answer's number, and the result, of requests that were posted. The program gets the answer
/// also if the driver has refused one.
fn outcome(result: core::result::Result<(), Refused>) -> (u32, Result) {
    match result {
        Ok(()) => (0, Ok(())),
        Err(Refused { error, at }) => (at, Err(error)),
    }
}

fn post_send(call: &Call) -> Result {
    let (command, rest) = call.request_start::<ib_uverbs_post_send>()?;
    let numbers = (command.wr_count, command.wqe_size, command.sge_count);
    let mut requests = Requests::find(Way::Send, rest, numbers)?;
    let qp = Shared::<Qp>::get(call, command.qp_handle)?;
    let (list, mut entries) = requests.sends(call, &qp)?;
    let (bad_wr, result) = outcome(list.post(&qp, &mut entries));
    call.respond_with(&ib_uverbs_post_send_resp { bad_wr })?;
    result
}

fn post_recv(call: &Call) -> Result {
    let (command, rest) = call.request_start::<ib_uverbs_post_recv>()?;
    let numbers = (command.wr_count, command.wqe_size, command.sge_count);
    let (list, mut entries) = Requests::find(Way::Recv, rest, numbers)?.receives()?;
    let qp = Shared::<Qp>::get(call, command.qp_handle)?;
    let (bad_wr, result) = outcome(list.post(&qp, &mut entries));
    drop(qp);
    call.respond_with(&ib_uverbs_post_recv_resp { bad_wr })?;
    result
}

fn post_srq_recv(call: &Call) -> Result {
    let (command, rest) = call.request_start::<ib_uverbs_post_srq_recv>()?;
    let numbers = (command.wr_count, command.wqe_size, command.sge_count);
    let (list, mut entries) = Requests::find(Way::Recv, rest, numbers)?.receives()?;
    let srq = Shared::<Srq>::get(call, command.srq_handle)?;
    let (bad_wr, result) = outcome(list.post_shared(&srq, &mut entries));
    drop(srq);
    call.respond_with(&ib_uverbs_post_srq_recv_resp { bad_wr })?;
    result
}
