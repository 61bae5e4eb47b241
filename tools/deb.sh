#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deb.sh: build/deb/rust-rdma-dkms_VERSION_all.deb from the sources of this tree; tools/deb has its
# parts. The version is 0.1 and the time of the last commit. Built in the builder root; the modules
# are compiled by dkms where the package is installed.
. "$(dirname "$0")/lib.sh"

"$TOP/tools/roots.sh" builder
parts=$TOP/tools/deb
stamp=$(git -C "$TOP" log -1 --format=%ct 2>/dev/null || stat -c %Y "$TOP/Kbuild")
version=0.1.$(date -u -d "@$stamp" +%Y%m%d.%H%M)
deb=$BUILD/deb
root=$deb/root
rm -rf --one-file-system "$deb"
mkdir -p "$root/DEBIAN"

# The sources of modules, without tests. Files that are not in git are left out where there is git.
sources=$root/usr/src/rust-rdma-$version
mkdir -p "$sources"
folders=(core hw mad rust rw umad umem uverbs)
{
    git -C "$TOP" ls-files "${folders[@]}" Kbuild 2>/dev/null || (cd "$TOP" && find "${folders[@]}" Kbuild -type f)
} | (cd "$TOP" && xargs cp --parents -t "$sources")
cp "$TOP/tools/metadata.sh" "$parts/dkms-build.sh" "$sources/"
chmod 755 "$sources"/*.sh

filled() { sed "s/@VERSION@/$version/g" "$parts/$1"; } # FILE
place() { # FILE TARGET MODE
    mkdir -p "$(dirname "$root/$2")"
    filled "$1" >"$root/$2"
    chmod "$3" "$root/$2"
}
place dkms.conf "usr/src/rust-rdma-$version/dkms.conf" 644
place control DEBIAN/control 644
for script in postinst prerm postrm; do place $script DEBIAN/$script 755; done
place kernel-postrm etc/kernel/postrm.d/rust-rdma-dkms 755
echo /etc/kernel/postrm.d/rust-rdma-dkms >"$root/DEBIAN/conffiles"
place rust-rdma-status usr/bin/rust-rdma-status 755
doc=usr/share/doc/rust-rdma-dkms
place copyright $doc/copyright 644
place README.Debian $doc/README.Debian 644
{
    printf 'rust-rdma-dkms (%s) unstable; urgency=medium\n\n  * Built from the sources of that time.\n\n' "$version"
    printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' "$parts/control")" "$(date -u -R -d "@$stamp")"
} | gzip -9n >"$root/$doc/changelog.gz"
for page in rust-rdma-status.8 rust-rdma.7; do
    place $page "usr/share/man/man${page##*.}/$page" 644
    gzip -9n "$root/usr/share/man/man${page##*.}/$page"
done
(cd "$root" && find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -type d -exec chmod 755 {} +
echo "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)" >>"$root/DEBIAN/size"
sed -i "/^Architecture:/r $root/DEBIAN/size" "$root/DEBIAN/control"
rm "$root/DEBIAN/size"
in_builder env "SOURCE_DATE_EPOCH=$stamp" dpkg-deb --root-owner-group -Zxz --build /src/build/deb/root /src/build/deb >"$deb/log" </dev/null ||
    failed "the package could not be built" "$deb/log" "see the lines above"
rm -rf "$root"
say "$(ls "$deb"/*.deb)"
