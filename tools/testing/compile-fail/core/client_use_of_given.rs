// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308

//! A client that C has passed for a call, put where uses are kept: nobody has promised that it stays,
//! and it may have no use count.

use crate::device::Device;
use crate::edge::client::Client;
use crate::edge::client::ClientUse;

#[cfg(not(wrong))]
pub(crate) fn keep(_: &Device, client: &ClientUse, _: &Client) -> ClientUse {
    client.clone()
}

#[cfg(wrong)]
pub(crate) fn keep(_: &Device, _: &ClientUse, client: &Client) -> ClientUse {
    client.clone()
}
