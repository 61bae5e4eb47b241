#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# install.sh install|uninstall: put our modules into updates/rust-rdma of a
# kernel's module folder, where depmod prefers them to the stock ones, or take
# them out again. KDIR= is the kernel's build tree (default: the running one's),
# DESTDIR= another root than /.
. "$(dirname "$0")/lib.sh"

KDIR=${KDIR:-/lib/modules/$(uname -r)/build}
[ -e "$KDIR/include/config/kernel.release" ] ||
    die "$KDIR is not a kernel build tree" "install the kernel's headers, or give KDIR="
release=$(cat "$KDIR/include/config/kernel.release")
target=${DESTDIR:-}/lib/modules/$release/updates/rust-rdma
need_root

case $1 in
install)
    KDIR=$KDIR "$TOP/tools/modules.sh" kdir
    mapfile -t built < <(sed "s|^|$BUILD/modules-kdir/|; s|\\.o\$|.ko|" "$BUILD/modules-kdir/modules.order")
    [ ${#built[@]} -gt 0 ] || die "no module was built" "see the lines above"
    rm -rf "$target"
    install -D -m 644 -t "$target" "${built[@]}"
    say "${#built[@]} modules are in $target; make uninstall takes them out"
    ;;
uninstall)
    [ -d "$target" ] || { say "nothing is installed in $target"; exit; }
    rm -rf "$target"
    say "$target is removed; the stock modules are used from the next load on"
    ;;
esac
depmod ${DESTDIR:+-b "$DESTDIR"} "$release"
