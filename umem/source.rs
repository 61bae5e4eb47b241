// SPDX-License-Identifier: GPL-2.0

//! Selection of the memory that a user's call refers to.
//!
//! A call may specify memory by an attribute of the kind "buffer", which holds a descriptor; by
//! older attributes (completion queues only); or by an address in the driver's part of the call.
//! The first two exclude each other; the last one is the default.

use super::dmabuf;
use super::edge::Made;
use super::edge::MaybeMade;
use super::edge::Plain;
use super::pinned::Pinned;
use crate::uverbs::attrs;
use bindings::ib_uverbs_buffer_desc;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::umem::HostDevice;
use rdma::edge::verbs::Bundle;
use rdma::edge::In;

/// Gets and maps the memory of a descriptor.
///
/// # Errors
///
/// `EINVAL` for unknown flags or an unknown kind; `EOVERFLOW` if address or length does not fit in
/// `usize`; those of the kind.
fn get(host: HostDevice, desc: &Descriptor, access: c_int) -> Result<Made> {
    // No mandatory flag is defined (`IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK`).
    if desc.flags != 0 {
        return Err(EINVAL);
    }
    let addr = usize::try_from(desc.addr).map_err(|_| EOVERFLOW)?;
    let len = usize::try_from(desc.length).map_err(|_| EOVERFLOW)?;
    match desc.type_ {
        bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF => {
            let dma_device = host.dma_device();
            let dmabuf = dmabuf::get_pinned(host, dma_device, addr, len, desc.fd, access)?;
            Ok(Made::Dmabuf(dmabuf))
        }
        bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA => {
            Ok(Made::Pinned(Pinned::get(host, addr, len, access)?))
        }
        _ => Err(EINVAL),
    }
}

/// A user's descriptor of memory.
type Descriptor = ib_uverbs_buffer_desc;

/// A user's call.
struct Call<'a>(&'a Bundle);

impl Call<'_> {
    /// Reads the descriptor of an attribute of the kind "buffer".
    fn descriptor(&self, attr: u16) -> Result<Option<Descriptor>> {
        match attrs::buffer(self.0, attr) {
            Ok(desc) => Ok(Some(desc)),
            Err(e) if e == ENOENT => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn has(&self, attr: u32) -> bool {
        // CAST: Attribute identifiers have 16 bits.
        attrs::has(self.0, attr as usize)
    }

    fn number(&self, attr: u32) -> Result<u64> {
        // CAST: Attribute identifiers have 16 bits.
        attrs::copy_number(self.0, attr as usize)
    }

    fn fd(&self, attr: u32) -> Result<c_int> {
        // CAST: Attribute identifiers have 16 bits; the value keeps its bits.
        let value = attrs::number(self.0, attr as usize, None)? as i64;
        c_int::try_from(value).map_err(|_| EINVAL)
    }

    /// Reads the older attributes of "create completion queue": address and length, or file, offset
    /// and length.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an incomplete or mixed set, or if the driver does not support such memory;
    /// those of missing attributes.
    fn old_cq(&self) -> Result<Option<Descriptor>> {
        const VA: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA;
        const LENGTH: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH;
        const FD: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD;
        const OFFSET: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET;

        let mut desc = Descriptor::default();
        let alone = if self.has(VA) {
            desc.type_ = bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA;
            desc.addr = self.number(VA)?;
            desc.length = self.number(LENGTH)?;
            !self.has(FD) && !self.has(OFFSET)
        } else if self.has(FD) {
            desc.type_ = bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF;
            desc.fd = self.fd(FD)?;
            desc.addr = self.number(OFFSET)?;
            desc.length = self.number(LENGTH)?;
            true
        } else if self.has(OFFSET) || self.has(LENGTH) {
            return Err(EINVAL);
        } else {
            return Ok(None);
        };
        let device = self.0.context().and_then(crate::edge::uverbs::device);
        let able = device.is_some_and(|device| device.ops().create_user_cq.is_some());
        if alone && able {
            Ok(Some(desc))
        } else {
            Err(EINVAL)
        }
    }
}

/// Ways other than a descriptor by which a call may specify memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Nowhere,
    CqAttributes,
}

/// Returns a descriptor of the memory that the call specifies, if any.
fn named(call: Option<In<'_, Bundle>>, attr: u16, old: Old) -> Result<Option<Descriptor>> {
    let Some(In(call)) = call else {
        return Ok(None);
    };
    let call = Call(call);
    let by_descriptor = call.descriptor(attr)?;
    let by_old = match old {
        Old::Nowhere => None,
        Old::CqAttributes => match call.old_cq() {
            // An incomplete set of older attributes counts as none, even if there is a descriptor:
            // drivers have always fallen back to other sources.
            Err(e) if e == ENOENT => return Ok(None),
            old => old?,
        },
    };
    match (by_descriptor, by_old) {
        (Some(_), Some(_)) => Err(EINVAL),
        (desc, None) | (None, desc) => Ok(desc),
    }
}

/// Gets the memory of a descriptor, which must have at least `min` bytes.
fn get_at_least(host: HostDevice, desc: &Descriptor, min: usize, access: c_int) -> Result<Made> {
    let made = get(host, desc, access)?;
    if made.head().length() < min {
        super::release(made.into());
        return Err(EINVAL);
    }
    Ok(made)
}

/// Gets the memory that the call specifies, if any.
fn get_named(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    (attr, old): (u16, Old),
    size: usize,
    access: c_int,
) -> Result<MaybeMade> {
    let made = match named(call, attr, old)? {
        Some(desc) => Some(get_at_least(host, &desc, size, access)?),
        None => None,
    };
    Ok(MaybeMade(made))
}

/// Gets the memory that the call specifies, or else `size` bytes at `addr`.
fn get_named_or_va(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    (attr, old): (u16, Old),
    (addr, size): (u64, usize),
    access: c_int,
) -> Result<Made> {
    let desc = named(call, attr, old)?.unwrap_or(Descriptor {
        type_: bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA,
        addr,
        length: size as u64,
        ..Descriptor::default()
    });
    get_at_least(host, &desc, size, access)
}

/// The attribute of "create completion queue" for its memory.
const CQ_BUFFER: (u16, Old) = (
    // CAST: Attribute identifiers have 16 bits.
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM as u16,
    Old::CqAttributes,
);

/// Gets the memory of a descriptor ([`get`]).
fn get_desc(host: HostDevice, desc: Plain<'_, Descriptor>, access: c_int) -> Result<Made> {
    get(host, desc.0, access)
}

/// Gets the memory of the attribute `attr` of a call, at least `size` bytes; `None` if the call has
/// no such attribute.
fn get_attr(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    attr: u16,
    size: usize,
    access: c_int,
) -> Result<MaybeMade> {
    get_named(host, call, (attr, Old::Nowhere), size, access)
}

/// Like [`get_attr`]; without the attribute, gets `size` bytes at `addr` of the process.
fn get_attr_or_va(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    attr: u16,
    addr: u64,
    size: usize,
    access: c_int,
) -> Result<Made> {
    get_named_or_va(host, call, (attr, Old::Nowhere), (addr, size), access)
}

/// Gets the memory that a call specifies for a new completion queue, at least `size` bytes; `None`
/// if it specifies none.
fn get_cq_buf(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    size: usize,
    access: c_int,
) -> Result<MaybeMade> {
    get_named(host, call, CQ_BUFFER, size, access)
}

/// Like [`get_cq_buf`]; if the call specifies none, gets `size` bytes at `addr` of the process.
fn get_cq_buf_or_va(
    host: HostDevice,
    call: Option<In<'_, Bundle>>,
    addr: u64,
    size: usize,
    access: c_int,
) -> Result<Made> {
    get_named_or_va(host, call, CQ_BUFFER, (addr, size), access)
}

rdma::export! {
    in rdma::bindings;

    /// See [`get_desc`].
    fn ib_umem_get_desc(host: HostDevice, desc: Plain<'_, Descriptor>, access: c_int)
        -> Result<Made> = get_desc;
    /// See [`get_attr`].
    fn ib_umem_get_attr(
        host: HostDevice, call: Option<In<'_, Bundle>>, attr: u16, size: usize, access: c_int,
    ) -> Result<MaybeMade> = get_attr;
    /// See [`get_attr_or_va`].
    fn ib_umem_get_attr_or_va(
        host: HostDevice, call: Option<In<'_, Bundle>>, attr: u16, addr: u64, size: usize,
        access: c_int,
    ) -> Result<Made> = get_attr_or_va;
    /// See [`get_cq_buf`].
    fn ib_umem_get_cq_buf(
        host: HostDevice, call: Option<In<'_, Bundle>>, size: usize, access: c_int,
    ) -> Result<MaybeMade> = get_cq_buf;
    /// See [`get_cq_buf_or_va`].
    fn ib_umem_get_cq_buf_or_va(
        host: HostDevice, call: Option<In<'_, Bundle>>, addr: u64, size: usize, access: c_int,
    ) -> Result<Made> = get_cq_buf_or_va;
}
