#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# metadata.sh HEADERS SOURCE OUT RELEASE: make OUT a build folder for modules of a distribution's
# kernel. HEADERS is what its headers package has, which lacks the metadata of the kernel crate, the
# bindings and the procedural macros; SOURCE the source of the same version; RELEASE what uname -r
# prints. tools/stock.sh runs this in the builder root, and the dkms package on a user's machine, so
# it depends on no other file. Exit status 3, and one line that begins with "unfit: ", if this
# kernel or these compilers do not fit; another status if a step fails.
set -euo pipefail

headers=$1 source=$2 out=$3 release=$4
unfit() { printf 'unfit: %s\n' "$*" >&2; exit 3; }

mkdir -p "$out"
cp "$headers/.config" "$headers/Module.symvers" "$out/"
version=${release%%+*}
mk=(make -C "$source" "O=$out" ARCH=x86_64 "LOCALVERSION=${release#"$version"}")
# Options that the configuration got from the compiler are asked of it again. Versions of tools by
# themselves change nothing; that of rustc does.
"${mk[@]}" olddefconfig
options() { grep -vE '^#|^CONFIG_(CC_VERSION_TEXT|GCC_VERSION|AS_VERSION|LD_VERSION|PAHOLE_VERSION)=' "$1/.config"; }
lost=$(diff <(options "$headers") <(options "$out") | grep -c '^[<>]' || :)
[ "$lost" = 0 ] || {
    diff <(options "$headers") <(options "$out") || :
    unfit "the compilers here are not those of Linux $release ($lost lines of its configuration differ)"
}
"${mk[@]}" -j"${JOBS:-$(nproc)}" prepare modules_prepare
made=$(cat "$out/include/config/kernel.release")
[ "$made" = "$release" ] || unfit "the source is of release $made, the kernel of $release"
[ -e "$out/rust/libkernel.rmeta" ] || unfit "Linux $release has no Rust"
# Every Rust symbol and helper that a module may refer to must be one of the kernel.
lost=$(sed -n 's/.*EXPORT_SYMBOL_RUST_GPL(\([^)]*\)).*/\1/p' "$out"/rust/exports_*_generated.h |
    grep -vxFf <(cut -f2 "$out/Module.symvers") | wc -l || :)
[ "$lost" = 0 ] || unfit "$lost symbols of the kernel crate are not in Linux $release"
