// SPDX-License-Identifier: GPL-2.0

//! Commands that programs write to a node.
//!
//! See [`crate::proto::write`] for their headers. Process context; may sleep.

use crate::api::errno;
use crate::edge::device::CharDevice;
use crate::edge::frame::run_command;
use crate::edge::user::Address;
use crate::proto::write;
use crate::proto::write::Answer;
use crate::proto::write::ExtendedHeader;
use crate::proto::write::Header;
use crate::proto::write::Span;
use crate::quick;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::edge::uverbs::UFile;

/// Warns once about a program whose credentials differ from those that it opened the file with.
pub(crate) fn warn_of_credentials() {
    static SAID: Atomic<bool> = Atomic::new(false);
    if !SAID.xchg(true, Relaxed) {
        pr_err!("a program has changed its credentials after it opened the file, and must not write to it\n");
    }
}

/// Carries out the command of `count` bytes at `from`.
///
/// # Errors
///
/// `EINVAL`, `EFAULT`, `EOPNOTSUPP`, `ENOSPC`: the header; those of the command.
#[inline]
pub(crate) fn write(file: &UFile, from: Address, count: usize) -> Result {
    match quick::write(file, from, count) {
        Some(result) => result,
        None => any(file, from, count),
    }
}

/// As [`write()`], not for quick calls alone.
#[inline(never)]
fn any(file: &UFile, from: Address, count: usize) -> Result {
    if count < write::HEADER {
        return Err(EINVAL);
    }
    let header = Header::parse(from.read()?);
    let node = CharDevice::of(file);
    let command = node.api().command(header.number().map_err(errno)?)?;
    let layout = if command.command.is_extended {
        if count < write::HEADER.saturating_add(write::EXTENDED_HEADER) {
            return Err(EINVAL);
        }
        let more = ExtendedHeader::parse(from.after(write::HEADER).read()?);
        write::extended(&header, &more, count, &command.command, |at, len| {
            Address::new(at).is_accessible(len)
        })
    } else {
        write::plain(&header, count, &command.command)
    }
    .map_err(errno)?;

    let section = node.enter();
    let input = |span: Span| match span.len {
        0 => (Address::NULL, 0),
        len => (from.after(span.at), len),
    };
    let (core_in, driver_in) = (input(layout.core_in), input(layout.driver_in));
    let answer = match layout.answer {
        Answer::None => Address::NULL,
        Answer::InRequest => Address::new(from.after(write::HEADER).get_u64()?),
        Answer::At(at) => Address::new(at),
    };
    let output = |span: Span| match span.len {
        0 => (Address::NULL, 0),
        len => (answer.after(span.at), len),
    };
    run_command(
        &section,
        file,
        (core_in, output(layout.core_out)),
        (driver_in, output(layout.driver_out)),
        |call| command.run(call),
    )
}
