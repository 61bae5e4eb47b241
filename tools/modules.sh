#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh KERNEL: build our modules out of tree against the kernel KERNEL, in
# build/modules-KERNEL. With KDIR= they are built on this machine, with its own compilers, against
# that built kernel tree, in build/modules-kdir, and without test modules. CLIPPY=1 runs the
# kernel's clippy rules during the build. RDMA_TESTS=n leaves out test modules and samples.
# OVERFLOW=1 compiles our crates with overflow checks and without debug assertions, as for
# distribution kernels, in build/modules-overflow; the kernel is not changed.
. "$(dirname "$0")/lib.sh"

KERNEL=${1:-fast}
[ -e "$TOP/Kbuild" ] || exit 0
lock "modules-$(key "$TOP" "${KDIR:-$KERNEL}")"

# Check the user's kernel tree; set LLVM to the value it was built with.
check_kdir() {
    local conf=$KDIR/include/config/auto.conf tool want have
    [ -e "$KDIR/Makefile" ] && [ -e "$conf" ] ||
        die "$KDIR is not a built kernel tree" "install the kernel's headers, or give KDIR="
    # The headers of a distribution's kernel lack the metadata of the kernel crate.
    if grep -q '^CONFIG_RUST=y' "$conf" && [ ! -e "$KDIR/rust/libkernel.rmeta" ] &&
        [ "$(readlink -f "$KDIR")" = "/usr/src/linux-headers-$(cat "$KDIR/include/config/kernel.release")" ]; then
        want=$(cat "$KDIR/include/config/kernel.release")
        bash "$TOP/tools/deb/dkms-build.sh" metadata "$want" >&2 ||
            die "the metadata of the kernel crate of $want cannot be made" "see the lines above"
        KDIR=/var/cache/rust-rdma/$want/build
        conf=$KDIR/include/config/auto.conf
        type_info=CONFIG_DEBUG_INFO_BTF_MODULES=
    fi
    grep -q '^CONFIG_RUST=y' "$conf" && [ -e "$KDIR/rust/libkernel.rmeta" ] ||
        die "the kernel in $KDIR was built without Rust" "use a kernel with CONFIG_RUST=y and its rust/ folder in the headers"
    grep -q '^CONFIG_INFINIBAND=m' "$conf" ||
        die "the kernel in $KDIR has no RDMA modules" "use a kernel with CONFIG_INFINIBAND=m"
    if grep -q '^CONFIG_CC_IS_CLANG=y' "$conf"; then
        LLVM=${LLVM:--$(($(sed -n 's/^CONFIG_CLANG_VERSION=//p' "$conf") / 10000))}
    fi
    for tool in make rustc bindgen ${LLVM:+"$(llvm_tool clang)" "$(llvm_tool ld.lld)"}; do
        command -v "$tool" >/dev/null ||
            die "$tool is missing" "install what built the kernel in $KDIR: $(sed -n 's/^CONFIG_CC_VERSION_TEXT=//p' "$conf"), rustc, bindgen, make"
    done
    # The kernel crate's metadata can only be read by the compiler that wrote it.
    want=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT=//p' "$conf" | tr -d '"')
    have=$(rustc --version)
    [ "$want" = "$have" ] || die "the kernel in $KDIR was built with $want and this is $have" "put that rustc first in PATH"
}

# LLVM=-19 is a suffix, LLVM=/DIR/ a prefix, LLVM=1 neither (Documentation/kbuild/llvm.rst).
llvm_tool() {
    case $LLVM in
    -*) echo "$1$LLVM" ;;
    */) echo "$LLVM$1" ;;
    *) echo "$1" ;;
    esac
}

if [ -n "${KDIR:-}" ]; then
    check_kdir
    mkdir -p "$BUILD/modules-kdir"
    make -s -j"${JOBS:-$(nproc)}" -C "$KDIR" M="$TOP" MO="$BUILD/modules-kdir" RDMA_TESTS=n ${LLVM:+"LLVM=$LLVM"} ${type_info:+"$type_info"} modules </dev/null ||
        die "our modules do not build for the kernel in $KDIR" "see the lines above; they are written for Linux 7.2 and 7.3"
    exit
fi

"$TOP/tools/kernel.sh" "$KERNEL"
name=$("$TOP/tools/kernel.sh" --name "$KERNEL")
arch=x86_64
! user_mode "$KERNEL" || arch=um
mo=modules-$KERNEL
[ -z "${OVERFLOW:-}" ] || mo=modules-overflow
mkdir -p "$BUILD/$mo"
# A patched kernel has our modules: only those that test are built.
case $KERNEL in patched*) ONLY=${ONLY:-$(sed -n '/RDMA_TESTS/,$ s|^include $(src)/\(.*\)/Kbuild$|\1|p' "$TOP/Kbuild" | xargs)} ;; esac
# Distribution kernels are built with GCC, and their vmlinux, from which type information of modules
# is generated, is not available. Their modules come without debugging information, which would be
# nine tenths of ours.
options=("LLVM=$LLVM_PREFIX")
case $KERNEL in stock | stock-*) options=(CONFIG_DEBUG_INFO_BTF_MODULES= CONFIG_DEBUG_INFO=) ;; esac
in_builder make -s -j"${JOBS:-$(nproc)}" -C "/c/$name" M=/src MO="/src/build/$mo" ARCH=$arch \
    "${options[@]}" ${CLIPPY:+CLIPPY=1} ${OVERFLOW:+OVERFLOW=1} ${ONLY:+"ONLY=$ONLY"} ${RDMA_TESTS:+"RDMA_TESTS=$RDMA_TESTS"} modules </dev/null ||
    die "our modules do not build for the $KERNEL kernel" "see the lines above"
