// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate does not define.

use kernel::error::Error;
use rdma::bindings;

macro_rules! errors {
    ($($function:ident: $name:ident),* $(,)?) => { $(
        #[doc = concat!("`", stringify!($name), "` of `errno.h`.")]
        #[inline]
        pub(crate) fn $function() -> Error {
            // CAST, OVERFLOW: the values are below 200.
            Error::from_errno(-(bindings::$name as i32))
        }
    )* };
}

errors!(
    eaddrnotavail: EADDRNOTAVAIL,
    ecanceled: ECANCELED,
    enetreset: ENETRESET,
    enodata: ENODATA,
    eopnotsupp: EOPNOTSUPP,
    eprotonosupport: EPROTONOSUPPORT,
    eprototype: EPROTOTYPE,
);
