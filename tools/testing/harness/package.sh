# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The package of make deb, in a root with the distribution's kernel: installed without the kernel's
# source, then with it; the guest loads its modules and moves data; removed and purged. The metadata
# and the packages that it depends on are kept in the cache, so a second run is offline. KERNEL=stock
# or stock-7.3.

stock=${KERNEL:-stock}
case $stock in stock | stock-*) ;; *) stock=stock ;; esac
kernel=$("$TOP/tools/kernel.sh" --name "$stock")
if ! done_with "$kernel"; then
    skip "the package" "the kernel $stock is not in the cache: make setup KERNEL=$stock"
    finish
fi
release=$(cat "$CACHE/$kernel/include/config/kernel.release")
version=$(cut -d. -f1,2 <<<"$release")
read -r _ archived <"$CACHE/archive-$version"
kept=package-$(key "$release" "$archived" "$(cat "$TOP/tools/metadata.sh" "$TOP/tools/deb/dkms-build.sh")")

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
        mkdir -p "/lib/modules/$1" /etc/apt/apt.conf.d
        echo "APT::Sandbox::User \"root\"; Dir::Cache::Archives \"/c/debs\"; APT::Keep-Downloaded-Packages \"true\";" >/etc/apt/apt.conf.d/90debs
        cp -a "/c/$2/mods/lib/modules/$1/." "/lib/modules/$1/"
        apt-get -q -y --no-install-recommends install dkms lintian "linux-headers-$1=$3" "linux-source-$4=$3"
        depmod "$1"' set_up "$release" "$kernel" "$archived" "$version"
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
all_c() { for m in ib_core ib_umad ib_uverbs_support rdma_rxe; do is_c $m || return; done; }
all_ours() { for m in ib_core ib_umad ib_uverbs_support rdma_rxe; do is_ours $m || return; done; }
# shellcheck disable=SC2016
source_hidden() { # yes|no
    inside bash -euc 'cd /usr/src; for f in linux-source-*.tar.xz*; do
        if [ "$1" = yes ]; then mv "$f" "$f.hidden"; else mv "$f" "${f%.hidden}"; fi
    done' source_hidden "$1"
}
install_package() { inside dpkg -i "/src/build/deb/$(basename "$deb")" >"$work/install" 2>&1; }
without_source() {
    install_package || { cat "$work/install"; return 1; }
    cat "$work/install"
    grep -q "the C modules stay in use" "$work/install" && grep -q "apt install linux-source-$version=$archived" "$work/install"
}
nothing_installed() { ! own | grep . && [ -z "$(inside dkms status | grep installed)" ]; }
# shellcheck disable=SC2016
with_source() {
    if [ -e "$CACHE/$kept.ok" ]; then
        inside bash -euc 'mkdir -p /var/cache/rust-rdma; cp -a "/c/$1/." "/var/cache/rust-rdma/$2"' seed "$kept" "$release"
    fi
    inside dpkg-reconfigure rust-rdma-dkms || { inside bash -c 'tail -n 20 /var/lib/dkms/rust-rdma/*/build/make.log'; return 1; }
    if [ ! -e "$CACHE/$kept.ok" ]; then
        rm -rf "${CACHE:?}/$kept"
        inside bash -euc 'cp -a "/var/cache/rust-rdma/$2" "/c/$1"' keep "$kept" "$release"
        publish "$kept"
    fi
}
cat >"$work/script" <<'END'
mount --bind /share/root/lib/modules /usr/lib/modules || exit 1
for m in rdma_rxe ib_uverbs rdma_ucm ib_umad; do modprobe $m || exit 1; done
rust-rdma-status
rust-rdma-status | awk '$2 == "rust" && $3 == "rust" && $5 ~ "/updates/dkms/" { print $1 }' | diff - <(printf '%s\n' ib_core ib_umad ib_uverbs_support rdma_rxe) || exit 1
. /share/tests/rdma.sh
two_nodes 1500 || exit 1
pair 60 v4 ibv_rc_pingpong -c -n 100
END
loads() {
    mkdir -p "$work/share/root/lib/modules"
    cp -a "$layer/upper/usr/lib/modules/$release" "$work/share/root/lib/modules/"
    STACK=c KERNEL=$stock NODES=1 LOAD= TIMEOUT=600 SHARE=$work/share "$TOP/tools/boot.sh" "$work/guest" "$work/script"
}
remove() { inside dpkg -r rust-rdma-dkms; }
purge() { inside dpkg -P rust-rdma-dkms; }
# shellcheck disable=SC2016
nothing_left() {
    local left
    left=$(inside bash -c 'ls -d /usr/src/rust-rdma* /var/lib/dkms/rust-rdma /var/cache/rust-rdma /etc/kernel/postrm.d/rust-rdma* \
        /usr/bin/rust-rdma* /usr/share/man/man?/rust-rdma* /usr/share/doc/rust-rdma* "/lib/modules/$1/updates" 2>/dev/null' left "$release" || :)
    echo "$left"
    [ -z "$left" ]
}
lint() { inside lintian --fail-on error --allow-root "/src/build/deb/$(basename "$deb")"; }

check "make deb" "$TOP/tools/deb.sh"
deb=$(ls "$BUILD"/deb/*.deb)
check "a root with the kernel $release, its headers and its source" set_up
check "lintian has no error" lint
source_hidden yes
check "installed without the kernel's source: says what is missing" without_source
check "no module is installed then" nothing_installed
check "the C modules are the ones that are taken" all_c
source_hidden no
check "dpkg-reconfigure with the source builds the modules" with_source
check "ours are the ones that are taken" all_ours
check "they load, and move data" loads
check "removed" remove
check "the C modules are the ones that are taken again" all_c
check "purged" purge
check "no file is left" nothing_left
rm -rf --one-file-system "$work/share" "$layer" "$work/guest"
