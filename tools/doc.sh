#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# doc.sh: the Rust documentation of the host crates (wire formats, engines) in
# build/doc; the kernel-side crates are documented in their sources and under
# Documentation/.
. "$(dirname "$0")/lib.sh"
"$TOP/tools/roots.sh" builder
[ -e "$TOP/tools/testing/host/Cargo.toml" ] || die "there are no host crates" "nothing to document"
in_builder bash -euc 'cd /src/tools/testing/host
    CARGO_TARGET_DIR=/c/target RUSTDOCFLAGS="-D warnings" cargo doc -q --no-deps --workspace --document-private-items
    rm -rf /src/build/doc; cp -r /c/target/doc /src/build/doc'
say "the documentation is in build/doc"
