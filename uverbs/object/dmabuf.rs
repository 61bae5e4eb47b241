// SPDX-License-Identifier: GPL-2.0

//! DMA-bufs: files by which other devices reach memory of a device.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::File;
use crate::edge::handle::FileType;
use crate::edge::handle::Handle;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::object::dmabuf;
use crate::edge::object::dmabuf::Beside;
use crate::proto::spec::Access;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::uverbs_attrs_alloc_dmabuf_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMABUF_HANDLE as HANDLE;
use rdma::bindings::uverbs_attrs_alloc_dmabuf_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMABUF_PGOFF as PGOFF;
use rdma::edge::uverbs::Reason;

/// Handles of DMA-bufs.
pub(crate) struct DmaBuf;

impl Kind for DmaBuf {
    type Beside = Beside;

    fn beside() -> impl PinInit<Beside> {
        Beside::new()
    }
}

impl File for DmaBuf {
    fn destroy(handle: &Handle<Self>, why: Reason) {
        dmabuf::revoke(handle, why == Reason::ABORT);
    }
}

static TYPE: FileType<DmaBuf> = dmabuf::file_type();

/// The table of DMA-bufs.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: DmaBuf::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_dmabuf_UVERBS_METHOD_DMABUF_ALLOC,
            run: alloc,
            attributes: &[&[
                Attribute::file(HANDLE, DmaBuf::ID, Access::New),
                Attribute::input_of::<u64>(PGOFF).mandatory(),
            ]],
        }],
    }),
    Def::ObjectNeeds(needs!(mmap_get_pfns)),
    Def::ObjectNeeds(needs!(pgoff_to_mmap_entry)),
];

fn alloc(call: &Call) -> Result {
    let pgoff: u64 = call.constant(PGOFF)?;
    dmabuf::export(call.take_new(HANDLE)?, pgoff)
}
