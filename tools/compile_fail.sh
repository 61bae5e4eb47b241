#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# compile_fail.sh [GLOB]: what types forbid does not compile; see
# tools/testing/compile-fail/README.md. Prints KTAP. Takes rustc's flags from modules that
# were built for KERNEL (fast), or for any kernel.
. "$(dirname "$0")/lib.sh"

for build in "$BUILD/modules-${KERNEL:-fast}" "$BUILD"/modules-*; do
    [ -e "$build/rust/bindings_generated.rs" ] && [ -e "$build/core/.main.o.cmd" ] || continue
    in_builder nice python3 /src/tools/testing/compile-fail/run.py "/src${build#"$TOP"}" "$@" </dev/null
    exit
done
die "no modules are built" "make modules first"
