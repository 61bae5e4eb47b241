// SPDX-License-Identifier: GPL-2.0

//! Methods that programs call by ioctl.
//!
//! See [`crate::proto::ioctl`] for header and attributes. Process context; may sleep.

use crate::api::errno;
use crate::api::Method;
use crate::edge::device::CharDevice;
use crate::edge::frame;
use crate::edge::frame::Frame;
use crate::edge::user::Address;
use crate::proto::ioctl::Call as Judge;
use crate::proto::ioctl::Header;
use crate::proto::ioctl::Step;
use crate::proto::ioctl::HEADER;
use crate::quick;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::UFile;

/// The number of the ioctl (`RDMA_VERBS_IOCTL`).
const RDMA_VERBS_IOCTL: u32 = kernel::ioctl::_IOWR::<[u8; HEADER]>(bindings::RDMA_IOCTL_MAGIC, 1);

/// Carries out the method whose header is at `from`.
///
/// # Errors
///
/// `ENOIOCTLCMD`: another ioctl; `EFAULT`, `EINVAL`, `EPROTONOSUPPORT`, `EOPNOTSUPP`: header or
/// attributes; `EIO`: the driver's method, and the device is gone; those of the method.
#[inline]
pub(crate) fn ioctl(file: &UFile, cmd: u32, from: Address) -> Result {
    if cmd != RDMA_VERBS_IOCTL {
        return Err(ENOIOCTLCMD);
    }
    let header = Header::parse(from.words()?);
    match quick::ioctl(file, &header, from.after(HEADER)) {
        Some(result) => result,
        None => any(file, &header, from),
    }
}

/// Carries out any method.
#[inline(never)]
fn any(file: &UFile, header: &Header, from: Address) -> Result {
    header.check(PAGE_SIZE).map_err(errno)?;
    let node = CharDevice::of(file);
    let section = node.enter();
    if header.driver != node.api().driver() {
        return Err(EINVAL);
    }
    let method = node.api().method(header.object, header.method);
    let method = method.ok_or_else(rdma::errno::eprotonosupport)?;
    frame::run(&section, method, file, from.after(HEADER), |frame| {
        call(frame, method, header.attributes)
    })
}

/// Fills in the attributes of a call, and carries it out.
fn call(frame: &mut Frame<'_>, method: &Method, count: u16) -> Result {
    let run = method.run(frame.call())?;
    frame.copy_attributes(count)?;
    let mut judge = Judge::new();
    for index in 0..count {
        fill(frame, method, &mut judge, index)?;
    }
    frame.set_present(judge.present());
    let summary = method.summary();
    judge.complete(summary.mandatory).map_err(errno)?;
    if summary.has_udata {
        frame.fill_udata();
    }
    if let Some(bit) = summary.destroys {
        frame.destroy(bit)?;
    }
    let result = run.run(frame.call()).and_then(|()| {
        // Drivers do not tell whether they have answered.
        let answered = bindings::UVERBS_ATTR_UHW_OUT;
        if summary.has_udata && frame.call().has(answered) {
            frame.call().set_written(answered)?;
        }
        Ok(())
    });
    // Only for a method that there is not.
    result.map_err(|error| match error == rdma::errno::eprotonosupport() {
        true => EINVAL,
        false => error,
    })
}

/// Fills in an attribute.
fn fill(frame: &mut Frame<'_>, method: &Method, judge: &mut Judge, index: u16) -> Result {
    let attribute = frame.attribute(index)?;
    let step = judge
        .judge(
            &attribute,
            |bit| method.spec(bit),
            |at, len| Address::new(at).is_cleared(len.into()),
        )
        .map_err(errno)?;
    let bit = match step {
        Step::Ignore => return Ok(()),
        Step::Bytes { bit, choice, copy } => {
            frame.keep_bytes(bit, index, &attribute, choice.unwrap_or(0), copy)?;
            bit
        }
        Step::Object {
            bit,
            object,
            access,
            handle,
        } => {
            frame.keep_handle(bit, index, object, access, handle)?;
            bit
        }
        Step::File { bit, file } => {
            frame.keep_number(bit, index, file.into())?;
            bit
        }
        Step::Objects {
            bit,
            object,
            access,
            count,
        } => {
            frame.keep_handles(bit, &attribute, object, access, count)?;
            bit
        }
    };
    judge.note(bit);
    Ok(())
}
