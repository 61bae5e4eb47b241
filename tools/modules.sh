#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh KERNEL: build our modules out of tree against the kernel KERNEL, in
# build/modules-KERNEL. With KDIR= they are built on this machine, with its own
# compilers, against that built kernel tree, in build/modules-kdir.
# CLIPPY=1 runs the kernel's clippy rules over the same build.
. "$(dirname "$0")/lib.sh"

KERNEL=${1:-fast}
[ -e "$TOP/Kbuild" ] || exit 0
lock "modules-$(key "$TOP")"

if [ -n "${KDIR:-}" ]; then
    [ -e "$KDIR/Module.symvers" ] || die "KDIR=$KDIR is not a built kernel tree" "build it with CONFIG_RUST=y first"
    grep -q '^CONFIG_RUST=y' "$KDIR/.config" || die "the kernel in $KDIR has no Rust support" "enable CONFIG_RUST and rebuild it"
    mkdir -p "$BUILD/modules-kdir"
    exec make -s -C "$KDIR" M="$TOP" MO="$BUILD/modules-kdir" ${LLVM:+LLVM=$LLVM} modules
fi

"$TOP/tools/kernel.sh" "$KERNEL"
name=$("$TOP/tools/kernel.sh" --name "$KERNEL")
arch=x86_64
[ "$KERNEL" = um ] && arch=um
out=$BUILD/modules-$KERNEL
mkdir -p "$out"
in_builder make -s -j"${JOBS:-$(nproc)}" -C "/c/$name" M=/src MO="/src/build/modules-$KERNEL" ARCH=$arch \
    LLVM=$LLVM_PREFIX ${CLIPPY:+CLIPPY=1} modules </dev/null ||
    die "our modules do not build for the $KERNEL kernel" "see the lines above"
