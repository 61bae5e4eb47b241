// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 client

//! A client whose last use two threads wait for: the completion ends one wait, and the other lasts
//! for ever.

use crate::edge::client::ClientUse;
use crate::edge::client::OwnedClient;

pub(crate) fn unregister(client: OwnedClient, own: ClientUse) {
    #[cfg(wrong)]
    client.wait(own.clone());
    client.wait(own);
}
