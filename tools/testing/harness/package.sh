# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The packages of make deb, in a root with the distribution's kernel: installed without the kernel's
# source, then with it; the guest loads its modules and moves data; with KERNEL=stock, upgraded to the
# kernel 7.3, and to a newer version; removed and purged; then the one with compiled modules; then make
# install, without a package. The metadata and the packages that they depend on are kept in the cache, so
# a second run is offline.
# KERNEL=stock or stock-7.3.

stock=${KERNEL:-stock}
case $stock in stock | stock-*) ;; *) stock=stock ;; esac
# on KERNEL: the functions below are about this kernel.
on() {
    stock=$1
    kernel=$("$TOP/tools/kernel.sh" --name "$stock")
    done_with "$kernel" || return
    release=$(cat "$CACHE/$kernel/include/config/kernel.release")
    version=$(cut -d. -f1,2 <<<"$release")
    read -r _ archived <"$CACHE/archive-$version"
    kept=package-$(key "$release" "$archived" "$(cat "$TOP/tools/metadata.sh")" "$(sed -n '/^prune()/,/^}/p' "$TOP/tools/deb/dkms-build.sh")")
}
if ! on "$stock"; then
    skip "the package" "the kernel $stock is not in the cache: make setup KERNEL=$stock"
    finish
fi

# The builder root with a layer over it, in a mount namespace of its own for each command.
layer=$work/layer
mkdir -p "$layer"/{upper,work,root}
inside() { # CMD...
    # shellcheck disable=SC2016
    layer=$layer lower=$CACHE/$(builder_name) TOP=$TOP unshare -m bash -euc '
        . "$TOP/tools/lib.sh"
        mount -t overlay overlay -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
        export DEBIAN_FRONTEND=noninteractive
        PASS=DEBIAN_FRONTEND in_root "$layer/root" "$@"' inside "$@" </dev/null
}
# shellcheck disable=SC2016
set_up() {
    mkdir -p "$CACHE/debs"
    inside bash -euc '
        mkdir -p /etc/apt/apt.conf.d
        echo "APT::Sandbox::User \"root\"; Dir::Cache::Archives \"/c/debs\"; APT::Keep-Downloaded-Packages \"true\";" >/etc/apt/apt.conf.d/90debs
        apt-get -q -y -o Dpkg::Options::=--force-unsafe-io --no-install-recommends install dkms lintian initramfs-tools
        echo MODULES=list >/etc/initramfs-tools/conf.d/modules
        echo rdma_rxe >>/etc/initramfs-tools/modules' set_up && add_kernel
}
# The kernel's package is not installed, only its modules; then the headers, last, as their arrival
# makes dkms build.
# shellcheck disable=SC2016
add_kernel() {
    inside bash -euc '
        mkdir -p "/lib/modules/$1"
        cp -a "/c/$2/mods/lib/modules/$1/." "/lib/modules/$1/"
        depmod "$1"
        cp "/c/$2/.config" "/boot/config-$1"
        update-initramfs -c -k "$1"
        for package in "linux-source-$4" "linux-headers-$1"; do
            apt-get -q -y -o Dpkg::Options::=--force-unsafe-io --no-install-recommends install "$package=$3"
        done' add_kernel "$release" "$kernel" "$archived" "$version"
}
own() { inside find "/lib/modules/$release/updates" "/lib/modules/$release/extra" -name '*.ko*'; }
taken() { inside modinfo -k "$release" -F filename "$1"; }
is_c() { # MODULE
    taken "$1"
    taken "$1" | grep -q "^/\(usr/\)\?lib/modules/$release/kernel/drivers/infiniband/.*/$1\.ko"
}
is_ours() { # MODULE
    taken "$1"
    taken "$1" | grep -q "^/\(usr/\)\?lib/modules/$release/updates/dkms/$1\.ko"
}
all_c() { for m in "${modules[@]}"; do is_c "$m" || return; done; }
all_ours() { for m in "${modules[@]}"; do is_ours "$m" || return; done; }
# The initramfs has these two modules, one of them as a dependency.
initramfs() { # FOLDER
    inside lsinitramfs "/boot/initrd.img-$release" >"$work/initramfs"
    grep '\.ko' "$work/initramfs"
    grep -q "/lib/modules/$release/$1/.*rdma_rxe\.ko" "$work/initramfs" && grep -q "/lib/modules/$release/$1/.*ib_core\.ko" "$work/initramfs"
}
# shellcheck disable=SC2016
source_hidden() { # yes|no
    inside bash -euc 'mkdir -p /usr/src/hidden; cd /usr/src
        if [ "$1" = yes ]; then mv linux-source-*.tar.* hidden/; else mv hidden/* .; rmdir hidden; fi' source_hidden "$1"
}
install_package() { inside dpkg -i "/src/build/deb/$(basename "$deb")" >"$work/install" 2>&1; }
without_source() {
    install_package || { cat "$work/install"; return 1; }
    cat "$work/install"
    grep -q "the C modules stay in use" "$work/install" && grep -q "apt install linux-source-$version=$archived" "$work/install"
}
nothing_installed() { ! own | grep . && [ -z "$(inside dkms status | grep installed)" ]; }
# seeded CMD...: with the metadata from the cache, if it is there, into which it is put otherwise.
# shellcheck disable=SC2016
seeded() {
    if [ -e "$CACHE/$kept.ok" ]; then
        inside bash -euc 'mkdir -p /var/cache/rust-rdma; cp -a "/c/$1/." "/var/cache/rust-rdma/$2"' seed "$kept" "$release"
    fi
    "$@" || { inside bash -c 'tail -n 20 /var/lib/dkms/rust-rdma/*/build/make.log'; return 1; }
    if [ ! -e "$CACHE/$kept.ok" ]; then
        rm -rf "${CACHE:?}/$kept"
        inside bash -euc 'cp -a "/var/cache/rust-rdma/$2" "/c/$1"' keep "$kept" "$release" || return
        publish "$kept"
    fi
}
# The metadata of the kernel that comes later is what KERNEL=stock-7.3 has: the same script made it.
# shellcheck disable=SC2016
later_kernel() {
    inside bash -euc 'mkdir -p "/var/cache/rust-rdma/$1"; ln -s "/c/$2" "/var/cache/rust-rdma/$1/build"; touch "/var/cache/rust-rdma/$1/ok"' \
        later "$release" "$kernel" && add_kernel
}
with_source() { seeded inside dpkg-reconfigure rust-rdma-dkms; }
# shellcheck disable=SC2016
write_script() {
    printf 'modules=(%s)\n' "${modules[*]}"
    cat <<'END'
mount --bind /share/root/lib/modules /usr/lib/modules || exit 1
for m in "${modules[@]}" rdma_ucm; do modprobe $m || exit 1; done
rust-rdma-status
rust-rdma-status | awk '$2 == "rust" && $3 == "rust" && $5 ~ "/updates/dkms/" { print $1 }' | diff - <(printf '%s\n' "${modules[@]}" | sort) || exit 1
# The boot has none of the tree's modules; those of the package are to be loaded.
STACK=rust
. /share/tests/rdma.sh
two_nodes 1500 || exit 1
pair 60 v4 ibv_rc_pingpong -c -n 100
END
}
loads() {
    mkdir -p "$work/share/root/lib/modules"
    write_script >"$work/script"
    cp -a "$layer/upper/usr/lib/modules/$release" "$work/share/root/lib/modules/"
    STACK=c KERNEL=$stock NODES=1 LOAD= TIMEOUT=600 SHARE=$work/share "$TOP/tools/boot.sh" "$work/guest" "$work/script"
}
# Both kernels get the new version, and no file of the old one is left.
newer() {
    DEB_VERSION=$(dpkg-deb -f "$deb" Version)+next DEB_DIR=package/next env -u KERNEL "$TOP/tools/deb.sh" || return
    inside bash -c 'dpkg -i /src/build/package/next/*.deb' || { inside bash -c 'tail -n 20 /var/lib/dkms/rust-rdma/*/build/make.log'; return 1; }
}
# shellcheck disable=SC2016
only_newer() {
    local m
    for m in "${modules[@]}"; do inside modinfo -k "$release" -F rust_rdma "$m" | tee /dev/stderr | grep -q '+next$' || return; done
    [ "$(inside bash -c 'ls -d /usr/src/rust-rdma-* /var/lib/dkms/rust-rdma/[0-9]* | grep -vc "+next$"')" = 0 ]
}
# The package of compiled modules, for this kernel.
compiled() { KERNEL=$stock DEB_DIR=package/compiled "$TOP/tools/deb.sh" && inside bash -c 'dpkg -i /src/build/package/compiled/rust-rdma-modules-*.deb'; }
lint_compiled() { inside bash -c 'lintian --fail-on error --allow-root /src/build/package/compiled/rust-rdma-modules-*.deb'; }
compiled_taken() {
    local m
    for m in "${modules[@]}"; do taken "$m" | tee /dev/stderr | grep -q "/updates/rust-rdma/$m\.ko" || return; done
}
compiled_purged() { inside dpkg -P "rust-rdma-modules-$release"; }
# From the tree, without a package, for the distribution's headers.
make_install() {
    seeded inside make -C /src install "KDIR=/usr/src/linux-headers-$release"
}
make_uninstall() { inside make -C /src uninstall "KDIR=/usr/src/linux-headers-$release" && inside rm -r /var/cache/rust-rdma; }
remove() { inside dpkg -r rust-rdma-dkms; }
purge() { inside dpkg -P rust-rdma-dkms; }
# shellcheck disable=SC2016
nothing_left() {
    local left
    left=$(inside bash -c 'ls -d /usr/src/rust-rdma* /var/lib/dkms/rust-rdma /var/cache/rust-rdma /etc/kernel/postrm.d/rust-rdma* \
        /etc/kernel/header_postinst.d/rust-rdma* /var/lib/dpkg/info/rust-rdma* /usr/lib/rust-rdma* /usr/bin/rust-rdma* /usr/share/man/man?/rust-rdma* /usr/share/doc/rust-rdma* "/lib/modules/$1/updates" 2>/dev/null' left "$release" || :)
    echo "$left"
    [ -z "$left" ]
}
lint() { inside lintian --fail-on error --allow-root "/src/build/deb/$(basename "$deb")"; }

check "make deb" env -u KERNEL "$TOP/tools/deb.sh"
deb=$(ls "$BUILD"/deb/rust-rdma-dkms_*.deb)
# shellcheck disable=SC2016
mapfile -t modules < <(dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './usr/src/*/dkms.conf' | sed -n 's/^for name in \(.*\); do$/\1/p' | xargs -n1)
check "a root with the kernel $release, its headers and its source" set_up
check "lintian has no error" lint
source_hidden yes
check "installed without the kernel's source: says what is missing" without_source
check "no module is installed then" nothing_installed
check "the C modules are the ones that are taken" all_c
check "so are those in the initramfs" initramfs kernel/drivers/infiniband
source_hidden no
check "dpkg-reconfigure with the source builds the modules" with_source
check "ours are the ones that are taken" all_ours
check "the initramfs has ours" initramfs updates/dkms
check "they load, and move data" loads
if [ "$stock" = stock ] && on stock-7.3; then
    check "the kernel 7.3 comes, and dkms builds the modules for it" later_kernel
    check "ours are the ones that are taken" all_ours
    check "they load on 7.3, and move data" loads
    check "a newer package" newer
    check "the newer modules are the ones that are taken on 7.3" only_newer
    on stock
    check "and on 7.2" only_newer
else
    skip "upgrades of the kernel and of the package" "they need KERNEL=stock, and stock-7.3 in the cache"
    on "${KERNEL:-stock}"
fi
check "removed" remove
check "the C modules are the ones that are taken again" all_c
check "so has the initramfs" initramfs kernel/drivers/infiniband
check "purged" purge
check "no file is left" nothing_left
check "compiled modules as a package" compiled
check "lintian has no error in it" lint_compiled
check "its modules are the ones that are taken" compiled_taken
check "so are those in the initramfs" initramfs updates/rust-rdma
check "purged" compiled_purged
check "the C modules are back" all_c
check "no file is left of it" nothing_left
check "make install for the headers folder" make_install
check "its modules are the ones that are taken" compiled_taken
check "make uninstall" make_uninstall
check "the C modules are back" all_c
check "no file is left of it" nothing_left
rm -rf --one-file-system "$work/share" "$layer" "$work/guest"
