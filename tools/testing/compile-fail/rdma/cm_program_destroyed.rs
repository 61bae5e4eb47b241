// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0271 After

//! An identifier of a program whose events may destroy it. They may come within a call of the
//! identifier, which is still used then.

use kernel::prelude::*;
use kernel::sync::Arc;
#[cfg(wrong)]
use rdma::cm::After;
use rdma::cm::CmId;
use rdma::cm::CmUser;

/// Creates an identifier.
#[cfg(not(wrong))]
pub fn create<U: CmUser<After = ()>>(user: Arc<U>) -> Result<CmId<U>> {
    CmId::create_for_program(user, 0, 0)
}

/// Creates an identifier.
#[cfg(wrong)]
pub fn create<U: CmUser<After = After<U>>>(user: Arc<U>) -> Result<CmId<U>> {
    CmId::create_for_program(user, 0, 0)
}
