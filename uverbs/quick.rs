// SPDX-License-Identifier: GPL-2.0

//! Calls that programs make all the time, carried out without what a call needs in general: no
//! frame, no allocation, no lock, and a section of the device that costs no locked operation.
//!
//! See [`crate::proto::quick`] for their forms. A call that is not of such a form, or that is refused
//! here, is left to [`crate::write`] or [`crate::ioctl`], which read it again and find out why. So
//! there is one place for each error, and errors are as slow as ever.
//!
//! Process context; may sleep.

use crate::api::Api;
use crate::edge::device::CharDevice;
use crate::edge::device::Quick;
use crate::edge::handle::Used;
use crate::edge::object::cq;
use crate::edge::object::post;
use crate::edge::user::Address;
use crate::object::cq::Cq;
use crate::object::qp::Qp;
use crate::proto::ioctl;
use crate::proto::quick::Notify;
use crate::proto::quick::Ring;
use crate::proto::quick::CORE_IN;
use crate::proto::quick::NOTIFY;
use crate::proto::quick::RING;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::UFile;

pub(crate) use crate::proto::quick::DEVICE;
pub(crate) use crate::proto::quick::INVOKE_WRITE;
pub(crate) use crate::proto::quick::POST_SEND;
pub(crate) use crate::proto::quick::REQ_NOTIFY_CQ;
pub(crate) use crate::proto::quick::WRITE_CMD;

const _: () = {
    assert!(POST_SEND as u32 == bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND);
    assert!(REQ_NOTIFY_CQ as u32 == bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
    assert!(DEVICE as u32 == bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE);
    assert!(INVOKE_WRITE as u32 == bindings::uverbs_methods_device_UVERBS_METHOD_INVOKE_WRITE);
    assert!(CORE_IN as u32 == bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_CORE_IN);
    assert!(
        WRITE_CMD as u32 == bindings::uverbs_attrs_invoke_write_cmd_attr_ids_UVERBS_ATTR_WRITE_CMD
    );
};

/// Which of them a device has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Supported {
    /// [`Ring`].
    pub(crate) ring: bool,
    /// [`Notify`] by a written command.
    pub(crate) notify: bool,
    /// [`Notify`] by an ioctl.
    pub(crate) invoke: bool,
}

fn api(file: &UFile) -> &Api {
    CharDevice::of(file).api()
}

/// Carries out the command of `count` bytes at `from`; `None` if that is left to others.
#[inline]
pub(crate) fn write(file: &UFile, from: Address, count: usize) -> Option<Result> {
    const RING_BYTES: usize = RING * size_of::<u64>();
    const NOTIFY_BYTES: usize = NOTIFY * size_of::<u64>();
    match count {
        RING_BYTES if api(file).quick().ring => ring(file, &Ring::written(&from.words().ok()?)?),
        NOTIFY_BYTES if api(file).quick().notify => {
            notify(file, &Notify::written(&from.words().ok()?)?)
        }
        _ => None,
    }
}

/// Carries out the ioctl with this header, whose attributes are at `from`; `None` if that is left to
/// others.
#[inline]
pub(crate) fn ioctl(file: &UFile, header: &ioctl::Header, from: Address) -> Option<Result> {
    if !Notify::has_header(header)
        || !api(file).quick().invoke
        || header.driver != api(file).driver()
    {
        return None;
    }
    notify(file, &Notify::invoked(&from.words().ok()?)?)
}

#[inline]
fn ring(file: &UFile, ring: &Ring) -> Option<Result> {
    let section = Quick::enter(file)?;
    let qp = Used::<Qp>::find(&section, ring.qp)?;
    let result = post::ring(&qp);
    // The program gets the answer also if the driver has refused: no request was posted.
    let answered = Address::new(ring.answer).put_u32(0);
    Some(answered.and(result))
}

#[inline]
fn notify(file: &UFile, notify: &Notify) -> Option<Result> {
    let section = Quick::enter(file)?;
    let queue = Used::<Cq>::find(&section, notify.cq)?;
    Some(cq::request_notify(&queue, notify.solicited))
}
