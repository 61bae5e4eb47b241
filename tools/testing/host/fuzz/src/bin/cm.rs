// SPDX-License-Identifier: GPL-2.0

//! The fuzzer's program for the target `cm`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rxe_fuzz::cm::run(data));
