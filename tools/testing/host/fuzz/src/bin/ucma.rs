// SPDX-License-Identifier: GPL-2.0

//! The fuzzer's program for the target `ucma`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rxe_fuzz::ucma::run(data));
