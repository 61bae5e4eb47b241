# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The packages of make deb, on a fresh Debian 13 with a kernel of backports, all from Debian's archive and by
# apt: installed before the kernel's source, which comes later; the guest loads its modules and moves data;
# with KERNEL=stock, upgraded to the kernel 7.3, and to a newer version; removed and purged; then the
# compiled modules, and make install. What is downloaded is kept in the cache, so a second run is offline.
# KERNEL=stock or stock-7.3. STEPS="a b" runs only these steps, on what the last run left in
# build/package.layer, which a run without a failure removes. QUICK=1 compiles nothing in the machine: it
# takes the modules that make modules KERNEL=stock and stock-7.3 have built; the steps unfit and make_install
# are left out then.

stock=${KERNEL:-stock}
case $stock in stock | stock-*) ;; *) stock=stock ;; esac
first=$stock
later=
[ "$stock" != stock ] || later=stock-7.3
# on KERNEL: the functions below are about this kernel.
on() {
    stock=$1
    kernel=$("$TOP/tools/kernel.sh" --name "$stock")
    done_with "$kernel" || return
    release=$(cat "$CACHE/$kernel/include/config/kernel.release")
    version=$(cut -d. -f1,2 <<<"$release")
    read -r _ archived <"$CACHE/archive-$version"
    kept=package-$(key "$release" "$archived" "$(cat "$TOP/tools/metadata.sh")" "$(sed -n '/^is_made()/p; /^prune()/,/^}/p' "$TOP/tools/deb/dkms-build.sh")")
}
if ! on "$first"; then
    skip "the package" "the kernel $stock is not in the cache: make setup KERNEL=$stock"
    finish
fi
if [ -n "$later" ] && ! on "$later"; then later=; fi
on "$first"

# The machine: Debian's essential packages and apt, with the lists of the archive of that time. Its layer
# is mounted in a namespace of its own for each command.
machine=machine-$(key trixie "$(cat "$CACHE/$(builder_name)/etc/apt/sources.list" "$CACHE"/archive-7.[0-9])")
make_machine() {
    done_with "$machine" && return
    rm -rf --one-file-system "${CACHE:?}/$machine" "$CACHE/$machine.tmp"
    mmdebstrap --variant=apt --skip=cleanup/apt/lists trixie "$CACHE/$machine.tmp" "$CACHE/$(builder_name)/etc/apt/sources.list" || return
    mv "$CACHE/$machine.tmp" "$CACHE/$machine"
    publish "$machine"
}
layer=$BUILD/package.layer
# apt in two machines cannot use one folder of packages.
lock package
[ -n "${STEPS:-}" ] || rm -rf --one-file-system "$layer"
mkdir -p "$layer"/{upper,work,root}
inside() { # CMD...
    # shellcheck disable=SC2016
    layer=$layer lower=$CACHE/$machine TOP=$TOP unshare -m bash -euc '
        . "$TOP/tools/lib.sh"
        mount -t overlay overlay -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
        export DEBIAN_FRONTEND=noninteractive
        PASS="DEBIAN_FRONTEND ${PASS:-}" in_root "$layer/root" "$@"' inside "$@" </dev/null
}
# there PATH: a path in $work, for commands inside.
there() { echo "/src/${1#"$TOP"/}"; }

# The commands of README.md, as they are.
readme() { sed -n '/^## On a real machine/,/^## /s/^    \('"$1"'\)/\1/p' "$TOP/README.md" | sed 's/   *[^ ].*//'; } # PATTERN
# shellcheck disable=SC2016
by_readme() { # PATTERN
    local command
    command=$(readme "$1")
    echo "$command"
    [ "$(wc -l <<<"$command")" = 1 ] && [ -n "$command" ] && inside bash -euc 'cd /src && eval "$1"' by_readme "$command"
}
# apt's plan for both installations at once, with recommended packages: one version of the kernel's packages.
# shellcheck disable=SC2016
simulated() {
    local plan
    plan=$(inside bash -euc 'cd /src && eval "apt-get -s -o APT::Install-Recommends=true install $1"' simulate \
        "$(readme 'apt install' | sed 's/apt install//' | xargs)") || { echo "$plan"; return 1; }
    grep -E '^Inst (linux|rust-rdma|dkms|rustc)' <<<"$plan"
    # Image, headers and source.
    [ "$(sed -nE '/common/d; s/^Inst linux-(image|headers|source)-7\.[^ ]* (\[[^ ]* )?\(([^ ]*) .*/\3/p' <<<"$plan" | sort | uniq -c | awk '{ print $1 }' | xargs)" = 3 ] &&
        grep -q '^Inst rust-rdma-dkms' <<<"$plan"
}
# The package's recommendation is one that backports alone satisfy, in each version.
# shellcheck disable=SC2016
recommended() {
    inside bash -euc 'for v in 7.2 7.3; do apt-cache show linux-source | grep -q "^Version: $v\."; done'
    dpkg-deb -f "$deb" Recommends | grep -x 'linux-source (>= 7.2)'
}

# What the test needs of the machine. An initramfs has two of the modules, one of them as a dependency.
# shellcheck disable=SC2016
set_up() {
    mkdir -p "$CACHE/debs"
    inside bash -euc '
        printf "%s;\n" "APT::Sandbox::User \"root\"" "Dir::Cache::Archives \"/c/debs\"" "APT::Keep-Downloaded-Packages \"true\"" \
            "APT::Get::Assume-Yes \"true\"" "APT::Install-Recommends \"false\"" "DPkg::Options { \"--force-unsafe-io\" }" "Dpkg::Use-Pty \"false\"" >/etc/apt/apt.conf.d/90test
        apt-get -q install initramfs-tools
        echo MODULES=list >/etc/initramfs-tools/conf.d/modules
        echo rdma_rxe >>/etc/initramfs-tools/modules'
}
add_kernel() { inside apt-get -q install "linux-image-$release=$archived" "linux-headers-$release=$archived" linux-base/trixie-backports; }
add_source() { inside apt-get -q install "linux-source=$archived"; }
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
signed() { for m in "${modules[@]}"; do inside modinfo -k "$release" -F signer "$m" | tee /dev/stderr | grep -q DKMS || return; done; }
initramfs() { # FOLDER
    inside lsinitramfs "/boot/initrd.img-$release" >"$work/initramfs"
    grep '\.ko' "$work/initramfs"
    grep -q "/lib/modules/$release/$1/.*rdma_rxe\.ko" "$work/initramfs" && grep -q "/lib/modules/$release/$1/.*ib_core\.ko" "$work/initramfs"
}
configured() { [ -z "$(inside dpkg --audit | tee /dev/stderr)" ]; }
# tells TEXT CMD...: CMD succeeds, and says TEXT. So it does if something is missing for the modules.
tells() {
    local text=$1 status=0
    shift
    "$@" >"$work/log" 2>&1 || status=$?
    tail -n 40 "$work/log"
    [ $status = 0 ] && grep -qF -- "$text" "$work/log" && configured
}
# lacks TEXT RELEASE [COMMAND...]: no modules can be built for RELEASE, because of TEXT.
# shellcheck disable=SC2016
lacks() {
    local text=$1 of=$2 status=0
    shift 2
    inside "$@" bash -c 'bash /usr/src/rust-rdma-*/dkms-build.sh check "$1"' lacks "$of" >"$work/log" 2>&1 || status=$?
    cat "$work/log"
    [ $status = 1 ] && grep -q "the C modules stay in use" "$work/log" && grep -qF -- "$text" "$work/log" && ! grep -q 'line [0-9]*:' "$work/log"
}
nothing_installed() { ! own | grep . && [ -z "$(inside dkms status | grep installed)" ]; }
# shellcheck disable=SC2016
without_rustc() {
    inside bash -c 'mv /usr/bin/rustc /usr/bin/rustc.away; dpkg-reconfigure rust-rdma-dkms; status=$?; mv /usr/bin/rustc.away /usr/bin/rustc; exit $status'
}
# The headers of a kernel that clang compiled.
# shellcheck disable=SC2016
of_clang() {
    inside bash -euc 'mkdir -p "$1"
        printf "CONFIG_%s\n" RUST=y INFINIBAND=m CC_IS_CLANG=y "CC_VERSION_TEXT=\"clang of theirs\"" GCC_VERSION=0 >"$1/.config"
        touch "$1/Module.symvers"' of_clang /usr/src/linux-headers-7.2.0-clang
    lacks "a kernel that gcc compiled (this one: clang of theirs)" 7.2.0-clang
    local status=$?
    inside rm -r /usr/src/linux-headers-7.2.0-clang
    return $status
}
make_log() { inside bash -c 'tail -n 20 /var/lib/dkms/rust-rdma/*/build/make.log'; }
# seeded CMD...: with the metadata from the cache, if it is there, into which it is put otherwise.
# shellcheck disable=SC2016
seeded() {
    if [ -z "${QUICK:-}" ] && [ -e "$CACHE/$kept.ok" ]; then
        inside bash -euc 'mkdir -p /var/cache/rust-rdma; cp -a "/c/$1/." "/var/cache/rust-rdma/$2"' seed "$kept" "$release"
    fi
    "$@" || { make_log; return 1; }
    if [ -z "${QUICK:-}" ] && [ ! -e "$CACHE/$kept.ok" ]; then
        rm -rf "${CACHE:?}/$kept"
        inside bash -euc 'cp -a "/var/cache/rust-rdma/$2" "/c/$1"' keep "$kept" "$release" || return
        publish "$kept"
    fi
}
# Metadata of an earlier revision of the kernel's package is not used: the source is asked for.
# shellcheck disable=SC2016
stale() {
    inside bash -euc 'cd /var/cache/rust-rdma/$1; cp ok ok.kept; echo 7.2.0-0 >ok; mkdir /usr/src/hidden; mv /usr/src/linux-source-*.tar.* /usr/src/hidden/' stale "$release"
    lacks "apt install linux-source-$version=$archived" "$release"
    local status=$?
    inside bash -euc 'cd /var/cache/rust-rdma/$1; mv ok.kept ok; mv /usr/src/hidden/* /usr/src/; rmdir /usr/src/hidden' stale "$release"
    return $status
}
# The headers of a kernel whose configuration the compilers here do not give, as a package that does what
# Debian's do.
# shellcheck disable=SC2016
unfit_package() {
    inside bash -euc '
        rm -rf /root/odd
        mkdir -p /root/odd/DEBIAN "/root/odd/usr/src/linux-headers-$2" "/root/odd/usr/lib/modules/$2"
        cd "/root/odd/usr/src/linux-headers-$2"
        cp "/usr/src/linux-headers-$1/.config" "/usr/src/linux-headers-$1/Module.symvers" .
        mkdir include
        echo CONFIG_NO_SUCH_OPTION=y >>.config
        ln -s "/usr/src/linux-headers-$2" "/root/odd/usr/lib/modules/$2/build"
        printf "%s\n" "Package: linux-headers-$2" "Version: $3" "Architecture: amd64" "Maintainer: None <none@example>" "Description: unfit" >/root/odd/DEBIAN/control
        printf "#!/bin/sh\nset -e\nlinux-run-hooks headers postinst %s -- \"\$@\"\n" "$2" >/root/odd/DEBIAN/postinst
        chmod 755 /root/odd/DEBIAN/postinst
        dpkg-deb --build /root/odd /root/odd.deb
        dpkg -i /root/odd.deb' unfit "$release" "$odd" "$archived"
}
odd=7.2.99+deb13-amd64
# It is not tried again, until something else changes.
remembered() { lacks "1 lines of its configuration differ" "$odd" && ! grep -q "making the metadata" "$work/log"; }
# shellcheck disable=SC2016
unfit_purged() { inside bash -euc 'dpkg -P "linux-headers-$1"; rm -rf "/lib/modules/$1" /root/odd*' purge "$odd" && configured; }

# The guest loads what modprobe takes in that root, and moves data.
# shellcheck disable=SC2016
write_script() { # KIND FOLDER: rust or c
    printf 'kind=%s folder=%s modules=(%s)\n' "$1" "$2" "${modules[*]}"
    cat <<'END'
mount --bind /share/root/lib/modules /usr/lib/modules || exit 1
for m in "${modules[@]}" rdma_ucm; do modprobe $m || exit 1; done
rust-rdma-status
rust-rdma-status | awk -v kind=$kind -v folder=$folder '$2 == kind && $3 ~ "^" kind && index($NF, folder) { print $1 }' >/tmp/loaded
printf '%s\n' "${modules[@]}" | sort | comm -13 /tmp/loaded - | grep . && exit 1
[ $kind = rust ] || ! rust-rdma-status | grep rust || exit 1
# The boot has none of the tree's modules; those of the machine are to be loaded.
STACK=$kind
. /share/tests/rdma.sh
two_nodes 1500 || exit 1
pair 60 v4 ibv_rc_pingpong -c -n 100
END
}
loads() { # KIND FOLDER
    local status=0
    mkdir -p "$work/share/root/lib/modules"
    write_script "$@" >"$work/script"
    cp -a "$layer/upper/usr/lib/modules/$release" "$work/share/root/lib/modules/"
    STACK=c KERNEL=$stock NODES=1 LOAD= TIMEOUT=600 SHARE=$work/share "$TOP/tools/boot.sh" "$work/guest" "$work/script" || status=$?
    rm -rf --one-file-system "$work/share" "$work/guest/share1"
    return $status
}
# Nothing is missing at any moment of it.
later_kernel() { by_readme 'apt install linux' >"$work/log" 2>&1 && ! grep "the C modules stay in use" "$work/log" || { cat "$work/log"; return 1; }; }
# The kernel of the other stock is what backports have.
is_release() { inside test -e "/boot/vmlinuz-$release" || { echo "backports have another kernel than $release: REFRESH=1 make setup KERNEL=$stock"; return 1; }; }
# One kernel cannot be built for; the other gets the new version.
# shellcheck disable=SC2016
newer() {
    DEB_VERSION=$(dpkg-deb -f "$deb" Version)+next DEB_DIR=package/next env -u KERNEL "$TOP/tools/deb.sh" && quickened "$work/next" || return
    inside bash -c 'mv "/var/cache/rust-rdma/$1/build/Makefile" /root/; dpkg -i /src/build/package/next/*.deb; status=$?
        mv /root/Makefile "/var/cache/rust-rdma/$1/build/"; [ $status != 0 ]' newer "$release"
}
only_newer() {
    local m
    inside dkms status -k "$release" | tee /dev/stderr | grep -q '+next, .*: installed' || return
    [ -z "${QUICK:-}" ] || return 0
    for m in "${modules[@]}"; do inside modinfo -k "$release" -F rust_rdma "$m" | tee /dev/stderr | grep -q '+next$' || return; done
}
# shellcheck disable=SC2016
no_older() { [ "$(inside bash -c 'ls -d /usr/src/rust-rdma-* /var/lib/dkms/rust-rdma/[0-9]* | grep -vc "+next$"')" = 0 ]; }
kernel_gone() {
    inside apt-get -q purge "linux-image-$release" "linux-headers-$release" "linux-base-$release" || return
    [ -z "$(inside bash -c 'ls -d "/lib/modules/$1" "/var/cache/rust-rdma/$1"* 2>/dev/null' gone "$release" | tee /dev/stderr)" ] && configured
}
# /boot is as large as its files.
# shellcheck disable=SC2016
boot_is_full() {
    local status=0
    inside bash -c 'cp -a /boot /root/boot; mount -t tmpfs -o "size=$(($(du -sk /boot | cut -f1) + 512))k" tmpfs /boot; cp -a /root/boot/. /boot/; rm -r /root/boot
        dpkg -r rust-rdma-dkms' full >"$work/log" 2>&1 || status=$?
    tail -n 40 "$work/log"
    [ $status != 0 ] && grep -q "^rust-rdma: /boot/initrd.img-$release could not be made again" "$work/log" &&
        [ "$(inside dpkg-query -W -f '${db:Status-Status}' rust-rdma-dkms)" = installed ]
}
# shellcheck disable=SC2016
nothing_left() {
    local left
    left=$(inside bash -c 'ls -d /usr/src/rust-rdma* /var/lib/dkms/rust-rdma /var/cache/rust-rdma /etc/kernel/postrm.d/rust-rdma* \
        /etc/kernel/header_postinst.d/rust-rdma* /var/lib/dpkg/info/rust-rdma* /usr/lib/rust-rdma* /usr/bin/rust-rdma* /usr/share/man/man?/rust-rdma* \
        /usr/share/doc/rust-rdma* "/lib/modules/$1/updates" /lib/modules/.[!.]* 2>/dev/null' left "$release" || :)
    echo "$left"
    [ -z "$left" ]
}
# The packages of compiled modules, for this kernel.
compiled() { KERNEL=$stock DEB_DIR=package/compiled "$TOP/tools/deb.sh" && inside bash -c 'apt-get -q install /src/build/package/compiled/rust-rdma-{modules,status}*.deb'; }
compiled_taken() { # [VERSION]
    local m
    for m in "${modules[@]}"; do
        taken "$m" | tee /dev/stderr | grep -q "/updates/rust-rdma/$m\.ko" || return
        [ -z "${1:-}" ] || inside modinfo -k "$release" -F rust_rdma "$m" | grep -qxF "$1" || return
    done
}
compiled_status() { inside test -x /usr/bin/rust-rdma-status && inside test -e /usr/share/man/man8/rust-rdma-status.8.gz; }
compiled_purged() { inside apt-get -q purge "rust-rdma-modules-$release" rust-rdma-status; }
headers() { echo "KDIR=/usr/src/linux-headers-$release"; }
owned() { says "belongs to the package rust-rdma-modules-" inside env "$(headers)" /src/tools/install.sh install; }
# From the tree, without a package, for the distribution's headers, with another pahole than the kernel's.
# shellcheck disable=SC2016
make_install() {
    stub pahole '[ "$*" = --version ] && echo v1.99 || exec /usr/bin/pahole "$@"'
    inside bash -euc 'test ! -e /var/cache/rust-rdma
        PATH=$1:$PATH make -C /src install "$2"' install "$(there "$work/stubs")" "$(headers)"
    local status=$?
    rm "$work/stubs/pahole"
    return $status
}
# Killed when half of the modules are written.
# shellcheck disable=SC2016
interrupted() {
    stub install 'set -- "${@:1:6}"; /usr/bin/install "$@"; kill -KILL $PPID'
    inside bash -c 'rm -r "/lib/modules/$3/updates"; PATH=$1:$PATH make -C /src install "$2"; depmod "$3"' install "$(there "$work/stubs")" "$(headers)" "$release"
    rm "$work/stubs/install"
    all_c && inside bash -c 'ls -d /lib/modules/.[!.]*'
}
make_uninstall() { inside make -C /src uninstall "$(headers)"; }
package_refused() { says "dkms has put RDMA modules" inside env "$(headers)" /src/tools/install.sh install; }
lint() { inside bash -c 'lintian --fail-on error --allow-root /src/build/deb/*.deb /src/build/package/compiled/*.deb'; }

step_readme() {
    check "a fresh Debian 13: $machine" make_machine
    check "README's installation, as apt plans it: one version of the kernel's packages" simulated
    check "what the package recommends is in backports" recommended
    check "apt for the test" set_up
    check "the kernel $release and its headers" add_kernel
}
step_without_source() {
    check "installed without the kernel's source: says what is missing" tells "apt install linux-source-$version=$archived" by_readme 'apt install .*dkms'
    check "no module is installed then" nothing_installed
    check "the C modules are the ones that are taken" all_c
    check "so are those in the initramfs" initramfs kernel/drivers/infiniband
    check "without rustc: says so" tells "(here: none): apt install rustc" without_rustc
    check "a kernel of clang: says so" of_clang
    check "not as root: says so" lacks "run it as root" "$release" setpriv --reuid=65534 --clear-groups
}
step_source() {
    check "the source comes after the headers, and the modules are built" seeded add_source
    check "all packages are configured" configured
    check "ours are the ones that are taken" all_ours
    check "they are signed" signed
    check "the initramfs has ours" initramfs updates/dkms
    check "metadata of another revision is not used" stale
    check "make install is refused beside them" package_refused
}
step_unfit() {
    check "the headers of a kernel that does not fit: nothing fails, and the cause is said" tells "1 lines of its configuration differ" unfit_package
    check "it is remembered" remembered
    check "and they are purged" unfit_purged
}
step_load() { check "they load, and move data" loads rust /updates/dkms/; }
step_upgrade() {
    on "$later"
    check "the kernel 7.3 comes with its headers and source, and the modules are built" later_kernel
    check "it is $release" is_release
    check "all packages are configured" configured
    check "ours are the ones that are taken" all_ours
    check "they are signed" signed
    check "the initramfs has ours" initramfs updates/dkms
    check "they load on 7.3, and move data" loads rust /updates/dkms/
    on "$first"
    check "7.2 has ours still" all_ours
    check "a newer package: the build fails for 7.2 alone" newer
    check "7.2 has its C modules then" all_c
    on "$later"
    check "7.3 has the newer ones" only_newer
    check "dpkg --configure builds those for 7.2" inside dpkg --configure -a
    on "$first"
    check "7.2 has the newer ones" only_newer
    check "no file of the older package is left" no_older
    on "$later"
    check "the kernel 7.3 goes, and nothing of it is left" kernel_gone
    on "$first"
}
step_remove() {
    check "a removal that cannot make the initramfs again fails, and says so" boot_is_full
    check "removed" inside dpkg -r rust-rdma-dkms
    check "the C modules are the ones that are taken again" all_c
    check "so has the initramfs" initramfs kernel/drivers/infiniband
    check "they load, and move data" loads c /kernel/drivers/infiniband/
    check "purged" by_readme 'apt purge'
    check "no file is left" nothing_left
}
step_compiled() {
    check "compiled modules as a package" compiled
    check "they are the ones that are taken, of this version" compiled_taken "$(dpkg-deb -f "$work"/compiled/rust-rdma-modules-*.deb Version)"
    check "so are those in the initramfs" initramfs updates/rust-rdma
    check "rust-rdma-status and its page are there" compiled_status
    check "make install leaves them alone" owned
    check "purged" compiled_purged
    check "the C modules are back" all_c
    check "no file is left of it" nothing_left
}
step_make_install() {
    check "make install for the headers folder, with its own metadata" make_install
    check "its modules are the ones that are taken" compiled_taken
    check "interrupted, it leaves no module to depmod" interrupted
    check "make uninstall" make_uninstall
    check "the C modules are back" all_c
    inside rm -r /var/cache/rust-rdma
    check "no file is left of it" nothing_left
}
step_lint() {
    check "lintian" inside apt-get -q install lintian
    check "it has no error" lint
}

# quickened FOLDER: with QUICK=1, the package there gets a metadata.sh that makes a folder in which
# "make modules" copies modules of this tree.
# shellcheck disable=SC2016
quickened() {
    local root=$work/quick file
    [ -n "${QUICK:-}" ] || return 0
    file=$(echo "$1"/rust-rdma-dkms_*.deb)
    rm -rf "$root"
    dpkg-deb -R "$file" "$root" || return
    cat >"$(echo "$root"/usr/src/*/metadata.sh)" <<'END'
case $4 in 7.2.*) name=stock ;; *) name=stock-$(cut -d. -f1,2 <<<"$4") ;; esac
mkdir -p "$3"
printf 'modules:\n\tcp /src/build/modules-%s/*.ko $(MO)/\n' "$name" >"$3/Makefile"
END
    sed -i '/metadata\.sh$/d' "$root/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zgzip -b "$root" "$file"
}
make_deb() { env -u KERNEL "$TOP/tools/deb.sh" && quickened "$BUILD/deb"; }
check "make deb" make_deb
deb=$(ls "$BUILD"/deb/rust-rdma-dkms_*.deb)
# shellcheck disable=SC2016
mapfile -t modules < <(dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './usr/src/*/dkms.conf' | sed -n 's/^for name in \(.*\); do$/\1/p' | xargs -n1)
for step in ${STEPS:-readme without_source source unfit load upgrade remove compiled make_install lint}; do
    if [ "$step" = upgrade ] && [ -z "$later" ]; then
        skip "upgrades of the kernel and of the package" "they need KERNEL=stock, and stock-7.3 in the cache"
        continue
    fi
    case ${QUICK:+quick}$step in quickunfit | quickmake_install) continue ;; esac
    echo "# step $step, $SECONDS s"
    "step_$step"
done
if [ "$ktap_bad" = 0 ] && [ -z "${STEPS:-}" ]; then rm -rf --one-file-system "$layer"; fi
