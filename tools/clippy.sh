#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# clippy.sh: clippy on the kernel crates, with four lints more; see clippy.py. Takes rustc's
# flags from modules that were built, for any kernel.
. "$(dirname "$0")/lib.sh"

for build in "$BUILD/modules-fast" "$BUILD"/modules-*; do
    [ -e "$build/rust/bindings_generated.rs" ] && [ -e "$build/core/.main.o.cmd" ] || continue
    in_builder nice python3 /src/tools/clippy.py "/src${build#"$TOP"}" </dev/null
    exit
done
die "no modules are built" "make modules first"
