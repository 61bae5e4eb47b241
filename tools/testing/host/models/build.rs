// SPDX-License-Identifier: GPL-2.0

//! Has the files take their atomics from loom.

fn main() {
    println!("cargo::rustc-cfg=model");
}
