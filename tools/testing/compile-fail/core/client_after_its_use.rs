// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 used

//! A client that outlives the use that keeps it: its owner has unregistered and freed it meanwhile.

use crate::edge::client::Client;
use crate::edge::client::ClientUse;

pub(crate) fn end(used: ClientUse) -> bool {
    let client: &Client = &used;
    #[cfg(wrong)]
    drop(used);
    client.no_kverbs_req()
}
