// SPDX-License-Identifier: GPL-2.0

//! XRC domains. Programs share one by the file that they open it with ([`crate::xrcd`]).
//!
//! C headers: `struct ib_uverbs_open_xrcd` and others in `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Ended;
use crate::edge::handle::Ends;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::xrcd;
use crate::edge::object::xrcd::Inode;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use crate::table::Write;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::bindings::ib_uverbs_close_xrcd;
use rdma::bindings::ib_uverbs_open_xrcd;
use rdma::bindings::ib_uverbs_open_xrcd_resp;

/// Handles of XRC domains.
pub(crate) struct Xrcd;

/// The number of objects that were made with a handle, beside it.
pub(crate) struct Users(Atomic<i32>);

impl Users {
    /// Adds an object.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Removes an object, which does not use the domain any more.
    pub(crate) fn remove(&self) {
        self.0.fetch_add(-1, Full);
    }

    fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

impl Ends for Users {
    /// Objects that were made with a domain that is forgotten refer to its handle still.
    fn end(_: Ended<'_, Self>) {}
}

impl Kind for Xrcd {
    type Beside = Users;

    fn beside() -> impl PinInit<Users> {
        Users(Atomic::new(0))
    }
}

impl Object for Xrcd {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        if object.handle().beside().any() {
            return Err(EBUSY);
        }
        xrcd::close(object)
    }
}

static TYPE: NumberedType<Xrcd> = NumberedType::new();

/// The table of XRC domains.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Xrcd::ID,
        of: Some(TYPE.get()),
        methods: &[Method {
            id: bindings::uverbs_methods_xrcd_UVERBS_METHOD_XRCD_DESTROY,
            run: nothing,
            attributes: &[&[Attribute::handle(
                bindings::uverbs_attrs_xrcd_destroy_ids_UVERBS_ATTR_DESTROY_XRCD_HANDLE,
                Xrcd::ID,
                Access::Destroy,
            )]],
        }],
    }),
    Def::ObjectNeeds(needs!(alloc_xrcd)),
    Def::ObjectNeeds(needs!(dealloc_xrcd)),
    Def::Write(
        Write::both::<ib_uverbs_open_xrcd, ib_uverbs_open_xrcd_resp>(
            bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_XRCD,
            open,
        )
        .udata(),
    ),
    Def::Write(Write::input::<ib_uverbs_close_xrcd>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CLOSE_XRCD,
        close,
    )),
];

/// The file descriptor of a domain that nobody shares.
const NO_FILE: u32 = u32::MAX;

fn open(call: &Call) -> Result {
    let request: ib_uverbs_open_xrcd = call.request()?;
    let handle = match request.fd {
        NO_FILE => {
            let new = New::<Xrcd>::begin(call)?;
            let made = xrcd::alloc(&new)?;
            new.made(made)
        }
        fd => xrcd::open(call, Inode::of_file(fd)?, request.oflags)?,
    };
    call.respond(|answer: &mut ib_uverbs_open_xrcd_resp| answer.xrcd_handle = handle.number())
}

fn close(call: &Call) -> Result {
    let request: ib_uverbs_close_xrcd = call.request()?;
    handle::destroy::<Xrcd>(call, request.xrcd_handle)
}
