// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 use of moved value: `request`

//! A connection request that is taken and then refused: the connection manager destroys the
//! identifier, and so does its owner. (Who has taken it keeps it beyond the handler.)

use kernel::sync::Arc;
use rdma::cm::Answered;
use rdma::cm::CmId;
use rdma::cm::CmUser;
use rdma::cm::Refusal;
use rdma::cm::Request;

/// Takes one half of the requests.
pub fn half<'a, U: CmUser>(
    request: Request<'a, U>,
    user: Arc<U>,
    even: bool,
    place: &mut Option<CmId<U>>,
) -> Answered<'a> {
    #[cfg(wrong)]
    drop(request.take(user).is_ok());
    #[cfg(not(wrong))]
    if even {
        return match request.take(user) {
            Ok((id, answered)) => {
                *place = Some(id);
                answered
            }
            Err(answered) => answered,
        };
    }
    let _ = (even, place);
    request.refuse(Refusal::Reject)
}
