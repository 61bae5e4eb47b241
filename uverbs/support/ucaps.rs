// SPDX-License-Identifier: GPL-2.0

//! User capabilities: nodes in `/dev/infiniband` that stand for a right. A program that was given
//! an open file of such a node may make a context with that right
//! (`UVERBS_ATTR_GET_CONTEXT_FD_ARR`). Nodes belong to root at first.
//!
//! Drivers create and remove capabilities, and each may do so several times; the node is there as
//! long as one of them has it. Class and device numbers are registered with the first capability,
//! and stay until the module is unloaded.
//!
//! Header: `include/rdma/ib_ucaps.h`.

use crate::edge::ucaps::Count;
use crate::edge::ucaps::FilesAt;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::chrdev::Class;
use rdma::chrdev::Files;
use rdma::chrdev::Node;
use rdma::chrdev::NodeClass;
use rdma::chrdev::NodeGroups;
use rdma::chrdev::Numbers;
use rdma::chrdev::Opening;
use rdma::edge::Lent;

/// Number of capabilities (`enum rdma_user_cap`).
const ALL: usize = bindings::rdma_user_cap_RDMA_UCAP_MAX as usize;

/// The names of the nodes, in the order of `enum rdma_user_cap`.
const NAMES: [&CStr; ALL] = [c"mlx5_perm_ctrl_local", c"mlx5_perm_ctrl_other_vhca"];

rdma::global_lock! {
    /// Everything that drivers have created. [`init`] initialises the lock before the module's
    /// functions can be called.
    // SAFETY: `init` runs in the module's initialisation.
    unsafe(uninit) static UCAPS: Mutex<Option<Ucaps>> = None;
}

/// The class of the nodes.
struct Rights;

impl NodeClass for Rights {
    type Node = ();
    const NAME: &'static CStr = c"infiniband_ucaps";
    const FOLDER: &'static CStr = c"infiniband";
    const MODE: Option<u16> = Some(0o600);
    const ABI_VERSION: Option<u32> = None;
    const GROUPS: &'static NodeGroups<Self> = &NO_GROUPS;
}

static NO_GROUPS: NodeGroups<Rights> = NodeGroups::none();

/// An open node has no methods.
struct Right;

#[vtable]
impl Files for Right {
    type Class = Rights;
    type Open = ();
    const OWNER: &'static ThisModule = rdma::this_module!();

    fn open((): &(), _how: Opening) -> Result<Arc<()>> {
        Ok(Arc::new((), GFP_KERNEL)?)
    }

    fn release(_open: Arc<()>) {}
}

/// A capability, and how many times it was created.
struct Ucap {
    _node: Node<Rights>,
    count: u32,
}

/// The capabilities. Fields are dropped in this order.
struct Ucaps {
    by_kind: [Option<Ucap>; ALL],
    class: Arc<Class<Rights>>,
    numbers: Arc<Numbers>,
}

impl Ucaps {
    fn new() -> Result<Self> {
        let class = Arc::new(Class::register(rdma::resident!())?, GFP_KERNEL)?;
        let numbers = Numbers::dynamic(bindings::rdma_user_cap_RDMA_UCAP_MAX, Rights::NAME)?;
        Ok(Self {
            by_kind: [const { None }; ALL],
            class,
            numbers: Arc::new(numbers, GFP_KERNEL)?,
        })
    }
}

/// Initialises the lock. Called once, before the module's functions can be called.
pub(crate) fn init() {
    rdma::sync::init_once(&UCAPS);
}

/// Unregisters class and numbers, at the end of the module. Drivers have removed their
/// capabilities.
pub(crate) fn cleanup() {
    let Some(ucaps) = UCAPS.lock().take() else {
        return;
    };
    kernel::warn_on!(ucaps.by_kind.iter().any(Option::is_some));
}

/// Creates a capability, or counts another creation. May sleep.
///
/// # Errors
///
/// `EINVAL`: there is no such capability; `ENOMEM`, errors of the device model.
fn create(kind: u32) -> Result {
    let place = usize::try_from(kind)?;
    let name = NAMES.get(place).ok_or(EINVAL)?;
    let mut all = UCAPS.lock();
    let ucaps = match &mut *all {
        Some(ucaps) => ucaps,
        none => none.insert(Ucaps::new()?),
    };
    let ucap = ucaps.by_kind.get_mut(place).ok_or(EINVAL)?;
    match ucap {
        Some(ucap) => ucap.count = ucap.count.saturating_add(1),
        None => {
            let node = Node::add_alone::<Right>(
                &ucaps.class,
                (&ucaps.numbers, kind),
                name,
                rdma::resident!(),
                (),
            )?;
            *ucap = Some(Ucap {
                _node: node,
                count: 1,
            });
        }
    }
    Ok(())
}

/// Takes back one creation; with the last one the node goes. May sleep.
fn remove(kind: u32) {
    let mut all = UCAPS.lock();
    let ucap = usize::try_from(kind)
        .ok()
        .and_then(|place| all.as_mut()?.by_kind.get_mut(place));
    let Some(ucap) = ucap.filter(|ucap| ucap.is_some()) else {
        kernel::warn_on!(true);
        return;
    };
    *ucap = ucap.take().and_then(|ucap| {
        Some(Ucap {
            count: ucap.count.checked_sub(1).filter(|count| *count != 0)?,
            ..ucap
        })
    });
}

/// Finds which capabilities are open in the given files: sets a bit for each in `mask`. May sleep.
///
/// # Errors
///
/// `EBADF`: a descriptor is not of an open node; `EINVAL`: its capability was removed.
fn get(files: FilesAt<'_>, count: Count<'_>, mask: Lent<'_, u64>) -> Result {
    *mask.0 = 0;
    let all = UCAPS.lock();
    for file in files.with(count) {
        // CAST: A negative descriptor is one that nobody has.
        let fd = *file as u32;
        let ucaps = all.as_ref().ok_or(EBADF)?;
        let index = ucaps.numbers.index_of_file::<Right>(fd)?;
        let ucap = ucaps.by_kind.get(usize::try_from(index)?);
        if !ucap.is_some_and(Option::is_some) {
            return Err(EINVAL);
        }
        *mask.0 |= 1_u64.checked_shl(index).unwrap_or(0);
    }
    Ok(())
}

rdma::export! {
    in rdma::bindings;

    /// See [`create`].
    fn ib_create_ucap(kind: u32) -> Result = create;
    /// See [`remove`].
    fn ib_remove_ucap(kind: u32) = remove;
    /// See [`get`].
    fn ib_get_ucaps(files: FilesAt<'_>, count: Count<'_>, mask: Lent<'_, u64>) -> Result = get;
}
