# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# make install fails for kernels that it cannot build for, with one line that names cause and remedy; make
# uninstall removes what an interrupted install left.

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
mkdir -p "$work/away/lib/modules/7.2.0-mine/updates/dkms"
touch "$work/away/lib/modules/7.2.0-mine/updates/dkms/ib_core.ko.xz"
check "install: modules of dkms are there" says "dkms has put RDMA modules" install_to "$work/kdir"
rm -r "$work/away/lib/modules/7.2.0-mine/updates"
uninstall() { env KDIR="$work/kdir" DESTDIR="$work/away" PATH="$work/stubs:$PATH" "$TOP/tools/install.sh" uninstall; }
# The first folder is where an earlier version of install.sh put the modules together.
interrupted_install() {
    local left
    for left in 7.2.0-mine/updates/rust-rdma.new .rust-rdma-7.2.0-mine; do
        mkdir -p "$work/away/lib/modules/$left"
        touch "$work/away/lib/modules/$left/ib_core.ko"
        uninstall || return
        [ -z "$(find "$work/away/lib/modules" -name 'ib_core.ko')" ] || return
    done
}
check "uninstall: what an interrupted install left" interrupted_install
rmdir "$work/away/lib/modules/7.2.0-mine"
check "uninstall: no such kernel" says "does not exist" uninstall
