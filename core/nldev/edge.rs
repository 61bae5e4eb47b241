// SPDX-License-Identifier: GPL-2.0

//! What drivers write of their objects, and the texts of drivers' attributes.

use super::request::Answer;
use crate::device::Device;
use crate::edge::cm::CmId;
use crate::proto::nla::Entry;
use crate::proto::nla::Full;
use crate::verbs::object::Cq;
use crate::verbs::object::Mr;
use crate::verbs::object::Object;
use crate::verbs::object::Qp;
use crate::verbs::object::Srq;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::edge::View;

/// What becomes of an object's entry in a message.
pub(super) type Put = Result<(), Entry<Error>>;

/// An object that a driver can describe.
trait Described: View {
    /// The device whose driver describes it.
    fn describer(&self) -> Option<&Device>;
}

macro_rules! described {
    ($($name:ident),*) => { $(
        impl Described for $name {
            fn describer(&self) -> Option<&Device> {
                Some(self.device())
            }
        }
    )* };
}

described!(Qp, Cq, Mr, Srq);

impl Described for CmId {
    fn describer(&self) -> Option<&Device> {
        self.device()
    }
}

/// What a driver's method answered.
fn answered(ret: c_int) -> Put {
    match to_result(ret) {
        Ok(()) => Ok(()),
        Err(EMSGSIZE) => Err(Entry::Full(Full)),
        Err(EAGAIN) => Err(Entry::Skip),
        Err(error) => Err(Entry::Failed(error)),
    }
}

/// Methods of drivers that describe an object: of what, and the part of it that C gets. None if
/// the driver has no such method. May sleep.
macro_rules! fills {
    ($(fn $method:ident($object:ty $(, $part:ident)?);)*) => { $(
        pub(super) fn $method(w: &mut Answer<'_>, object: &$object) -> Option<Put> {
            let method = object.describer()?.ops().$method?;
            let c = object$(.$part())?.raw();
            // SAFETY: The method is of the object's driver (`ib_verbs.h`), and the object exists
            // while it is borrowed. The buffer is lent for whole attributes at its end, as `Tail`
            // allows.
            Some(answered(unsafe { method(w.sink().raw(), c) }))
        }
    )* };
}

fills! {
    fn fill_res_qp_entry(Qp);
    fn fill_res_cm_id_entry(CmId, id);
    fn fill_res_cq_entry(Cq);
    fn fill_res_mr_entry(Mr);
    fn fill_res_srq_entry(Srq);
    fn fill_stat_mr_entry(Mr);
    fn fill_res_qp_entry_raw(Qp);
    fn fill_res_cq_entry_raw(Cq);
    fn fill_res_mr_entry_raw(Mr);
    fn fill_res_srq_entry_raw(Srq);
}
