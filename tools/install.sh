#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# install.sh install|uninstall: put our modules into updates/rust-rdma of a
# kernel's module folder, where depmod prefers them to the stock ones, or take
# them out again. KDIR= is the kernel's build tree (default: the running one's),
# DESTDIR= another root than /. Both may be repeated; uninstall needs no build tree
# for the running kernel. Loaded modules are not touched.
. "$(dirname "$0")/lib.sh"

running=$(uname -r)
release=$running
if [ -n "${KDIR:-}" ] || [ "$1" = install ]; then
    KDIR=${KDIR:-/lib/modules/$running/build}
    [ -e "$KDIR/include/config/kernel.release" ] ||
        die "$KDIR is not a kernel build tree" "install the headers of the kernel, or give KDIR="
    release=$(cat "$KDIR/include/config/kernel.release")
fi
PATH=$PATH:/usr/sbin:/sbin
modules=${DESTDIR:-}/lib/modules/$release
target=$modules/updates/rust-rdma
# depmod reads all of $modules, so the modules are put together beside it; earlier, in the other folder.
fresh=${DESTDIR:-}/lib/modules/.rust-rdma-$release
old_fresh=$target.new
command -v depmod >/dev/null || die "depmod is missing" "install kmod"
[ -d "$modules" ] || die "$modules does not exist" "install that kernel's modules first, or give KDIR= of another"
[ -w "$modules" ] || die "$modules cannot be written" "run make $1 as root"
if [ -z "${DESTDIR:-}" ] && owner=$(dpkg -S "*/lib/modules/$release/updates/rust-rdma" 2>/dev/null); then
    die "$target belongs to the package ${owner%%:*}" "apt purge ${owner%%:*}"
fi

case $1 in
install)
    # depmod does not define which of two folders of updates/ it prefers.
    [ -z "$(ls "$modules"/updates/dkms/ib_core.ko* 2>/dev/null)" ] ||
        die "dkms has put RDMA modules into $modules/updates/dkms" "apt purge rust-rdma-dkms, or whose they are, then make install again"
    KDIR=$KDIR "$TOP/tools/modules.sh"
    mapfile -t built < <(sed "s|^|$BUILD/modules-kdir/|; s|\\.o\$|.ko|" "$BUILD/modules-kdir/modules.order")
    [ ${#built[@]} -gt 0 ] || die "no module was built" "see the lines above"
    # Complete beside the old ones, then in their place: never half of both.
    rm -rf "$fresh" "$old_fresh"
    install -D -m 644 -t "$fresh" "${built[@]}" || {
        rm -rf "$fresh"
        die "$fresh could not be written" "free some space, then make install again"
    }
    mkdir -p "$modules/updates"
    rm -rf "$target"
    mv "$fresh" "$target"
    ;;
uninstall)
    [ -d "$target" ] || [ -d "$fresh" ] || [ -d "$old_fresh" ] || { say "nothing is installed in $target"; exit; }
    rm -rf "$target" "$fresh" "$old_fresh"
    [ ! -d "$modules/updates" ] || rmdir --ignore-fail-on-non-empty "$modules/updates"
    ;;
esac
depmod ${DESTDIR:+-b "$DESTDIR"} "$release" || die "depmod failed for $release" "see the lines above"
if [ "$1" = install ]; then
    say "$(basename -as .ko "${built[@]}" | xargs): in $target; make uninstall takes them out"
else
    say "$target is removed"
fi
say "what is loaded stays loaded: a reboot, or modprobe -r and modprobe, changes it"
