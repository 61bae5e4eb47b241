// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 ending

//! The registration of a device is ended twice: the second time its memory may be gone.

use crate::device::Device;
use crate::edge::end::Ending;

pub(crate) fn end(device: &Device) {
    let Some(ending) = Ending::of(device) else {
        return;
    };
    let ended = ending.unused();
    #[cfg(wrong)]
    drop(ending.unused());
    drop(ended);
}
