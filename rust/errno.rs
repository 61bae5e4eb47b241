// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate does not define.

use crate::bindings;
use kernel::error::Error;

macro_rules! errors {
    ($($function:ident: $name:ident),* $(,)?) => { $(
        #[doc = concat!("`", stringify!($name), "` of `errno.h`.")]
        #[inline]
        pub fn $function() -> Error {
            // CAST, OVERFLOW: the values are below 200.
            Error::from_errno(-(bindings::$name as i32))
        }
    )* };
}

errors!(
    eaddrinuse: EADDRINUSE,
    eaddrnotavail: EADDRNOTAVAIL,
    eafnosupport: EAFNOSUPPORT,
    ealready: EALREADY,
    ecanceled: ECANCELED,
    econnaborted: ECONNABORTED,
    econnrefused: ECONNREFUSED,
    edeadlk: EDEADLK,
    ehostunreach: EHOSTUNREACH,
    eisconn: EISCONN,
    enetreset: ENETRESET,
    enodata: ENODATA,
    enomsg: ENOMSG,
    enosys: ENOSYS,
    enotconn: ENOTCONN,
    eopnotsupp: EOPNOTSUPP,
    eprotonosupport: EPROTONOSUPPORT,
    eprototype: EPROTOTYPE,
);
