// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0515

//! A client from a locked list that is kept when the list is not locked any more: it may be taken
//! off the list, unregistered and freed.

use crate::edge::client::ClientUse;
use kernel::prelude::*;
use rdma::sync::StaticRwSem;

static LIST: StaticRwSem<KVec<ClientUse>> = StaticRwSem::new(KVec::new());

#[cfg(not(wrong))]
pub(crate) fn last() -> Option<ClientUse> {
    LIST.read()?.last().cloned()
}

#[cfg(wrong)]
pub(crate) fn last() -> Option<&'static ClientUse> {
    LIST.read()?.last()
}
