# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# make install fails for kernels that it cannot build for, with one line that names cause and remedy.

conf=$work/kdir/include/config/auto.conf
install_to() { # KDIR
    mkdir -p "$work/away/lib/modules/7.2.0-mine"
    KDIR=$1 DESTDIR=$work/away PATH=$work/stubs:$PATH "$TOP/tools/install.sh" install
}
stub depmod 'exit 0'
stub bindgen ''
stub rustc 'echo "rustc 1.0.0 (another)"'
check "install: no headers" says "not a kernel build tree" install_to /nonexistent
echo 7.2.0-mine >"$work/kdir/include/config/kernel.release"
touch "$work/kdir/Makefile"
echo CONFIG_INFINIBAND=m >"$conf"
check "install: a kernel without Rust" says "built without Rust" install_to "$work/kdir"
echo CONFIG_RUST=y >>"$conf"
check "install: headers without rust/" says "built without Rust" install_to "$work/kdir"
touch "$work/kdir/rust/libkernel.rmeta"
echo 'CONFIG_RUSTC_VERSION_TEXT=rustc 1.85.1 (theirs)' >>"$conf"
check "install: another rustc" says "built with rustc 1.85.1 (theirs)" install_to "$work/kdir"
printf 'CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=990000\n' >>"$conf"
check "install: no such clang" says "clang-99 is missing" install_to "$work/kdir"
sed -i '/INFINIBAND/d' "$conf"
check "install: a kernel without RDMA" says "no RDMA modules" install_to "$work/kdir"
rmdir "$work/away/lib/modules/7.2.0-mine"
check "uninstall: no such kernel" says "does not exist" \
    env KDIR="$work/kdir" DESTDIR="$work/away" PATH="$work/stubs:$PATH" "$TOP/tools/install.sh" uninstall
