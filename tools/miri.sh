#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# miri.sh: the host tests of code that has unsafe blocks, under Miri, which says of each access
# whether it is allowed and, between threads, ordered: the run token, the front of tables, and
# registered memory with its copies. The other pure engines (folders proto, rust/wire) are safe Rust,
# which unsafe.py check enforces, and no type of theirs is shared by threads: Miri could find nothing
# there that the tests under a plain build do not. The machine's own nightly toolchain does it, since Debian's
# has no Miri: rustup component add --toolchain nightly miri rust-src. Three minutes.
. "$(dirname "$0")/lib.sh"

cargo +nightly miri --version >/dev/null 2>&1 ||
    die "Miri is missing" "rustup toolchain install nightly; rustup component add --toolchain nightly miri rust-src"
cd "$TOP/tools/testing/host"
export CARGO_TARGET_DIR=$BUILD/miri PROPTEST_CASES=2
# Registered memory is known by its address, as the page lists of hardware have it.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
run() { # PACKAGE TEST [GLOB...]
    local package=$1 test=$2
    shift 2
    cargo +nightly miri test -p "$package" --test "$test" -- "$@"
}
status=0
run rdma-token threads || status=$?
run rdma-core-engines core front:: || status=$?
run rxe-mem rxe-mem cq:: map:: ring:: shelf:: || status=$?
exit $status
