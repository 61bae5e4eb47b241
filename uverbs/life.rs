// SPDX-License-Identifier: GPL-2.0

//! The end of an open file's context: the file is closed, or the device is removed.
//!
//! All objects are destroyed, the newest first, and then the context. A driver may refuse to
//! destroy an object that another one uses, so this is repeated as long as one is destroyed. What is
//! left then is forgotten: the driver has not done what it must.

use crate::edge::file::End;
use crate::edge::file::Ending;
use crate::edge::mmap;
use rdma::edge::uverbs::UFile;

/// Destroys the objects and the context of an open file. May be called several times. May sleep.
pub(crate) fn end(file: &UFile, why: End) {
    let mut ending = Ending::begin(file);
    // Without a context there are no objects.
    if ending.context().is_none() {
        return;
    }
    while ending.has_objects() && ending.pass(why, false) {}
    if kernel::warn_on!(ending.has_objects()) {
        ending.pass(why, true);
    }
    if why == End::Remove {
        // A file that is closed has no mappings: each has a reference to it.
        mmap::zap(&mut ending);
    }
    ending.drop_context(why);
}
