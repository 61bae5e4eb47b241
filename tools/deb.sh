#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deb.sh: build/deb/rust-rdma-dkms_VERSION_all.deb from the sources of this tree; tools/deb has its
# parts. The modules are compiled by dkms where the package is installed. With KERNEL=stock or
# stock-7.3 also rust-rdma-modules-RELEASE_VERSION_amd64.deb, the modules for that kernel, and
# rust-rdma-status_VERSION_all.deb, the command and man pages, which rust-rdma-dkms has itself. The version
# is 0.1 and the time of the last commit, or DEB_VERSION=; DEB_DIR= names another folder of build/. Built
# in the builder root.
. "$(dirname "$0")/lib.sh"

"$TOP/tools/roots.sh" builder
parts=$TOP/tools/deb
stamp=$(git -C "$TOP" log -1 --format=%ct 2>/dev/null || stat -c %Y "$TOP/Kbuild")
version=${DEB_VERSION:-0.1.$(date -u -d "@$stamp" +%Y%m%d.%H%M)}
folder=${DEB_DIR:-deb}
deb=$BUILD/$folder
root=$deb/root
lock "deb-$(key "$deb")"
rm -rf --one-file-system "$deb"
mkdir -p "$root/DEBIAN"

# The sources of modules, without tests. Files that are not in git are left out where there is git.
sources=$root/usr/src/rust-rdma-$version
mkdir -p "$sources"
# The modules of a user's machine: those that Kbuild includes before the ones that only test.
mapfile -t modules < <(sed '/RDMA_TESTS/,$d' "$TOP/Kbuild" | sed -n 's|^include $(src)/\(.*/Kbuild\)$|\1|p' |
    (cd "$TOP" && xargs sed -n 's/^obj-.* += \([a-z_0-9]*\)\.o$/\1/p'))
list=${modules[*]}
list=${list// /, }
# All folders with Rust, but samples and tools.
mapfile -t folders < <(cd "$TOP" && for folder in */; do
    case $folder in build/ | samples/ | tools/) continue ;; esac
    [ -z "$(find "$folder" -name '*.rs' -print -quit)" ] || echo "${folder%/}"
done)
{
    git -C "$TOP" ls-files "${folders[@]}" Kbuild 2>/dev/null || (cd "$TOP" && find "${folders[@]}" Kbuild -type f)
} | (cd "$TOP" && xargs cp --parents -t "$sources")
cp "$TOP/tools/metadata.sh" "$parts/dkms-build.sh" "$sources/"
chmod 755 "$sources"/*.sh

release=
filled() { sed "s/@VERSION@/$version/g; s/@MODULES@/${modules[*]}/g; s/@LIST@/$list/g; s/@RELEASE@/$release/g" "$parts/$1"; } # FILE
place() { # FILE TARGET MODE
    mkdir -p "$(dirname "$root/$2")"
    filled "$1" >"$root/$2"
    chmod "$3" "$root/$2"
}
place dkms.conf "usr/src/rust-rdma-$version/dkms.conf" 644
place control DEBIAN/control 644
for script in postinst prerm postrm; do place $script DEBIAN/$script 755; done
place triggers DEBIAN/triggers 644
place kernel-postrm etc/kernel/postrm.d/rust-rdma-dkms 755
place kernel-headers etc/kernel/header_postinst.d/rust-rdma-dkms 755
printf '%s\n' /etc/kernel/{postrm.d,header_postinst.d}/rust-rdma-dkms >"$root/DEBIAN/conffiles"
for script in build refresh-initramfs; do place $script usr/lib/rust-rdma-dkms/$script 755; done
place README.Debian usr/share/doc/rust-rdma-dkms/README.Debian 644
# The command that tells what is loaded, and man pages.
status() {
    local page
    place rust-rdma-status usr/bin/rust-rdma-status 755
    for page in rust-rdma-status.8 rust-rdma.7; do
        place $page "usr/share/man/man${page##*.}/$page" 644
        gzip -9n "$root/usr/share/man/man${page##*.}/$page"
    done
}
status
# pack PACKAGE: add what every package has to the files in $root, and build it.
pack() {
    local doc=usr/share/doc/$1
    place copyright "$doc/copyright" 644
    {
        printf '%s (%s) unstable; urgency=medium\n\n  * Built from the sources of that time.\n\n' "$1" "$version"
        printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' "$parts/control")" "$(date -u -R -d "@$stamp")"
    } | gzip -9n >"$root/$doc/changelog.gz"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    find "$root" -type d -exec chmod 755 {} +
    echo "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)" >"$root/DEBIAN/size"
    sed -i "/^Architecture:/r $root/DEBIAN/size" "$root/DEBIAN/control"
    rm "$root/DEBIAN/size"
    in_builder env "SOURCE_DATE_EPOCH=$stamp" dpkg-deb --root-owner-group -Zxz --build "/src/build/$folder/root" "/src/build/$folder" >"$deb/log" </dev/null ||
        failed "the package could not be built" "$deb/log" "see the lines above"
    rm -rf "$root"
    say "$(ls "$deb/$1"_*.deb)"
}
pack rust-rdma-dkms

case ${KERNEL:-} in stock | stock-*) ;; *) exit ;; esac
mkdir -p "$root/DEBIAN"
place status.control DEBIAN/control 644
status
pack rust-rdma-status
PASS=RDMA_VERSION RDMA_VERSION=$version "$TOP/tools/modules.sh" "$KERNEL"
release=$(cat "$CACHE/$("$TOP/tools/kernel.sh" --name "$KERNEL")/include/config/kernel.release")
updates=usr/lib/modules/$release/updates/rust-rdma
mkdir -p "$root/DEBIAN" "$root/$updates"
for name in "${modules[@]}"; do
    install -m 644 "$BUILD/modules-$KERNEL/$name.ko" "$root/$updates/"
done
# shellcheck disable=SC2016
in_builder bash -euc 'cd "$1" && strip --strip-debug -- *.ko' strip "/src/build/$folder/root/$updates" </dev/null ||
    die "the modules could not be stripped" "see the lines above"
place modules.control DEBIAN/control 644
for script in postinst postrm; do
    { filled modules.script; filled refresh-initramfs | tail -n +2; } >"$root/DEBIAN/$script"
    chmod 755 "$root/DEBIAN/$script"
done
pack "rust-rdma-modules-$release"
