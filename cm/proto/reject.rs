// SPDX-License-Identifier: GPL-2.0

//! Texts of rejection reasons (`ibcm_reject_msg`).

use core::ffi::CStr;

/// Text of a reason, as the C module words it.
pub const fn text(reason: i32) -> &'static CStr {
    match reason {
        1 => c"no QP",
        2 => c"no EEC",
        3 => c"no resources",
        4 => c"timeout",
        5 => c"unsupported",
        6 => c"invalid comm ID",
        7 => c"invalid comm instance",
        8 => c"invalid service ID",
        9 => c"invalid transport type",
        10 => c"stale conn",
        11 => c"RDC not exist",
        12 => c"invalid GID",
        13 => c"invalid LID",
        14 => c"invalid SL",
        15 => c"invalid traffic class",
        16 => c"invalid hop limit",
        17 => c"invalid packet rate",
        18 => c"invalid alt GID",
        19 => c"invalid alt LID",
        20 => c"invalid alt SL",
        21 => c"invalid alt traffic class",
        22 => c"invalid alt hop limit",
        23 => c"invalid alt packet rate",
        24 => c"port CM redirect",
        25 => c"port redirect",
        26 => c"invalid MTU",
        27 => c"insufficient resp resources",
        28 => c"consumer defined",
        29 => c"invalid RNR retry",
        30 => c"duplicate local comm ID",
        31 => c"invalid class version",
        32 => c"invalid flow label",
        33 => c"invalid alt flow label",
        35 => c"vendor option is not supported",
        _ => c"unrecognized reason",
    }
}
