#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stock.sh NAME: fetch a distribution kernel (NAME is stock or stock-7.3) and make what
# building modules against it needs, if it is not in the cache. kernel.sh calls this; the
# options are those of kernel.sh. The result has the layout of a kernel built by kernel.sh:
#   arch/x86/boot/bzImage  mods/      from linux-binary, -base and -modules (the modules of
#                                     drivers/infiniband without their compression)
#   .config  Module.symvers           from linux-headers, unchanged but for the compiler's name
#   include/ rust/ scripts/ ...       headers, bindings and metadata of the kernel crate, made
#                                     from linux-source by metadata.sh
#   initrd                            busybox and the drivers of the guest's disk and share
# The release is chosen once, and kept in the cache as archive-VERSION: REFRESH=1 asks again. If the
# archive does not have it any more, or its metadata cannot be made here, the next one is taken.
# Exit status 3: the archive has no release that fits.
. "$(dirname "$0")/lib.sh"

# Raise it when the recipe below changes in a way that changes its result.
RECIPE=1

# The drivers of the guest's disk, share, console and random numbers, which are modules here.
EARLY="virtio_pci virtio_blk ext4 9p 9pnet_virtio virtio_net virtio_console virtio_rng"

# Exit statuses.
no_release=3
choose_again=4

unfit() { printf 'error: %s; %s\n' "$1" "$2" >&2; exit $no_release; }

version_of() { # NAME: 7.2 or 7.3
    case $1 in
    stock) echo 7.2 ;;
    stock-*) echo "${1#stock-}" ;;
    esac
}

# Releases for which this builder root cannot make metadata.
unfit_record() { echo "$CACHE/unfit-$1-$(builder_name)"; }

# choose VERSION: the newest release of that version that has all packages, as
# "RELEASE PACKAGE-VERSION" in archive-VERSION.
choose() {
    local record=archive-$1 log=$CACHE/archive-$1.log start=$SECONDS
    done_with "$record" && return
    lock apt
    done_with "$record" && return
    say "looking for Linux $1 packages in the archive: a few seconds"
    # Without Error-Mode, apt-get succeeds if it reaches no server.
    # shellcheck disable=SC2016
    in_builder bash -euc '
        apt-get -o APT::Update::Error-Mode=any -q update >&2
        suffix=$(dpkg --print-architecture)
        versions() { apt-cache madison "$1" | awk -F" *[|] *" "\$3 ~ /Packages/ { print \$2 }"; }
        apt-cache pkgnames "linux-binary-$1." | sed -n "s/^linux-binary-\([0-9.]*+deb[0-9]*-$suffix\)\$/\1/p" | sort -rV |
            while read -r release; do
                if [[ " $2 " == *" $release "* ]]; then continue; fi
                for v in $(versions "linux-binary-$release"); do
                    for p in "linux-base-$release" "linux-modules-$release" "linux-headers-$release" "linux-source-$1"; do
                        versions "$p" | grep -qxF "$v" || continue 2
                    done
                    echo "$release $v"
                    exit
                done
            done' choose "$1" "$(cat "$(unfit_record "$1")" 2>/dev/null | xargs)" >"$CACHE/$record.new" 2>"$log" </dev/null ||
        failed "the archive could not be read" "$log" "check the network, then make again"
    [ -s "$CACHE/$record.new" ] ||
        unfit "the archive has no Linux $1 with image, modules, headers and source of one version that can be used here" "use KERNEL=fast"
    mv "$CACHE/$record.new" "$CACHE/$record"
    publish "$record"
    say "chosen: $(cat "$CACHE/$record") ($((SECONDS - start)) s)"
}

installed() { # PACKAGE...: versions in the builder root
    awk -v want=" $* " '/^Package: / { p = $2 } /^Version: / && index(want, " " p " ") { print p, $2 }' \
        "$CACHE/$(builder_name)/var/lib/dpkg/status"
}

source_of() { echo "linux/src-$(key "linux-source-$1 $2")"; } # VERSION PACKAGE-VERSION

# fetch DIR PACKAGE=VERSION...: download them by apt, which checks them, and unpack into DIR.
fetch() {
    local dir=$1 log=$CACHE/$1.fetch.log
    shift
    # shellcheck disable=SC2016
    quietly "$log" in_builder bash -euc '
        dir=/c/$1
        shift
        rm -rf "$dir"
        mkdir -p "$dir/debs" "$dir/root"
        cd "$dir/debs"
        [ -n "$(find /var/lib/apt/lists -name "*_Packages*" -print -quit)" ] || apt-get -q update
        apt-get -q -o APT::Sandbox::User=root download "$@"
        for deb in *.deb; do dpkg-deb -x "$deb" ../root; done
        rm -rf ../debs' fetch "$dir" "$@" && return
    if grep -qE '404 +Not Found|was not found|Unable to locate package' "$log"; then
        say "the archive does not have $package any more"
        rm -f "$CACHE/archive-$version.ok"
        exit $choose_again
    fi
    failed "the packages could not be fetched" "$log" "see the lines above, then make again"
}

unpack() { # VERSION PACKAGE-VERSION: the source
    local src tarball
    src=$(source_of "$1" "$2")
    done_with "$src" && return
    lock "source-$1"
    done_with "$src" && return
    need_space 4 "the kernel source"
    mkdir -p "$CACHE/linux"
    tarball=
    if [ "$(installed "linux-source-$1")" = "linux-source-$1 $2" ]; then
        tarball=$(ls "$CACHE/$(builder_name)/usr/src/linux-source-$1".tar.*)
    else
        say "downloading the source of Linux $1: 160 MB"
        fetch "$src.deb" "linux-source-$1=$2"
        tarball=$(ls "$CACHE/$src.deb/root/usr/src/linux-source-$1".tar.*)
    fi
    say "unpacking the source of Linux $1: under a minute"
    rm -rf "${CACHE:?}/$src.tmp" "${CACHE:?}/$src"
    mkdir "$CACHE/$src.tmp"
    tar -xf "$tarball" -C "$CACHE/$src.tmp" --strip-components=1 ||
        die "$tarball could not be unpacked" "check the free space of $CACHE"
    rm -rf "${CACHE:?}/$src.deb"
    mv "$CACHE/$src.tmp" "$CACHE/$src"
    publish "$src"
}

# metadata NAME RELEASE SRC: NAME becomes a build folder for modules of that release.
metadata() {
    local log=$CACHE/$1.log status=0
    PASS=JOBS quietly "$log" in_builder nice /src/tools/metadata.sh \
        "/c/$1.deb/root/usr/src/linux-headers-$2" "/c/$3" "/c/$1" "$2" || status=$?
    case $status in
    0) ;;
    3)
        say "$2 cannot be used here: $(sed -n 's/^unfit: //p' "$log")"
        echo "$2" >>"$(unfit_record "$version")"
        rm -f "$CACHE/archive-$version.ok"
        exit $choose_again
        ;;
    *) failed "the metadata of the kernel crate could not be made" "$log" "see the lines above, then make again" ;;
    esac
}

# initrd NAME RELEASE: loads the early drivers, mounts the disk, and starts the guest's stub.
initrd() {
    # shellcheck disable=SC2016
    quietly "$CACHE/$1.initrd.log" in_builder bash -euc '
        cd "/c/$1"
        # Tests name these files, and a guest loads them often. Each has a second link, which unxz
        # takes with --force only.
        find "mods/lib/modules/$2/kernel/drivers/infiniband" -name "*.ko.xz" -exec unxz --force {} +
        depmod -b mods "$2"
        rm -rf initrd.dir
        mkdir -p initrd.dir/{bin,dev,proc,sys,disk,mods}
        cp /bin/busybox initrd.dir/bin/busybox
        cp /src/tools/guest/initrd.sh initrd.dir/init
        chmod 755 initrd.dir/init
        n=100
        for name in $3; do modprobe -d "/c/$1/mods" -S "$2" --show-depends "$name" || exit; done >initrd.list
        awk "\$1 == \"insmod\" && !seen[\$2]++ { print \$2 }" initrd.list | while read -r file; do
            target=initrd.dir/mods/$n-$(basename "$file" .xz)
            case $file in *.xz) xz -dc "$file" >"$target" ;; *) cp "$file" "$target" ;; esac
            n=$((n + 1))
        done
        (cd initrd.dir && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >initrd
        rm -rf initrd.dir' initrd "$1" "$2" "$EARLY" ||
        failed "the initramfs could not be made" "$CACHE/$1.initrd.log" "see the lines above, then make again"
}

case ${1:-} in --*) ;; *) set -- --make "${1:-}" ;; esac
version=$(version_of "$2")
if [ "$1" = --make ]; then
    if [ -n "${REFRESH:-}" ]; then rm -f "$CACHE/archive-$version.ok" "$(unfit_record "$version")"; fi
    # Each try has another release, but for one that left the archive while it was fetched.
    for _ in 1 2 3 4 5; do
        status=0
        "$TOP/tools/stock.sh" --try "$2" || status=$?
        [ $status = $choose_again ] || exit $status
    done
    unfit "none of the last releases of Linux $version could be used" "use KERNEL=fast"
fi
choose "$version"
read -r release package <"$CACHE/archive-$version"
src=$(source_of "$version" "$package")
name=kernel-$2-$(key "$RECIPE" "$release" "$package" "$EARLY" "$(cat "$TOP/tools/guest/initrd.sh")" "$(installed rustc bindgen gcc-14 libclang-dev)")
case $1 in
--name) echo "$name" && exit ;;
--source) echo "$src" && exit ;;
--release) echo "$release" && exit ;;
--unpack) unpack "$version" "$package" && exit ;;
esac
done_with "$name" && exit
lock "kernel-$2"
done_with "$name" && exit
need_space 6 "a distribution kernel"
# step NAME TEXT CMD...: a step whose result is kept if a later one fails.
step() {
    local stamp=$CACHE/$name.$1.done start=$SECONDS
    [ ! -e "$stamp" ] || return 0
    say "$2"
    "${@:3}"
    touch "$stamp"
    say "$1: done in $(minutes $((SECONDS - start)))"
}
step download "kernel $2, $release: downloading image, modules and headers: 180 MB" \
    fetch "$name.deb" "linux-binary-$release=$package" "linux-base-$release=$package" "linux-modules-$release=$package" "linux-headers-$release=$package"
step source "the source of Linux $release, for the metadata of the kernel crate" unpack "$version" "$package"
step metadata "metadata of the kernel crate: 2 to 4 minutes on 2 cores (log: $CACHE/$name.log)" \
    metadata "$name" "$release" "$src"
start=$SECONDS
files=$CACHE/$name.deb/root
rm -rf --one-file-system "$CACHE/$name/mods" "$CACHE/$name/arch/x86/boot/bzImage"
mkdir -p "$CACHE/$name/mods/lib/modules" "$CACHE/$name/arch/x86/boot"
# Links: if this step is interrupted, it begins again.
cp -al "$files/usr/lib/modules/$release" "$CACHE/$name/mods/lib/modules/"
rm -f "$CACHE/$name/mods/lib/modules/$release/"{build,source}
mv "$CACHE/$name/mods/lib/modules/$release/vmlinuz" "$CACHE/$name/arch/x86/boot/bzImage"
initrd "$name" "$release"
publish "$name"
rm -rf --one-file-system "${CACHE:?}/$name.deb" "$CACHE/$name".*.done
say "image, modules and initramfs in $(minutes $((SECONDS - start)))"
