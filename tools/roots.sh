#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# roots.sh builder|guest: make a Debian root, if it is not in the cache.
#   builder  the toolchain, QEMU and the kernel source: everything runs in it
#   guest    the unmodified RDMA user space, and from it the guest's disk image
# MIRROR= overrides the Debian mirror, which is else the host's own.
. "$(dirname "$0")/lib.sh"

mirror() {
    if [ -n "${MIRROR:-}" ]; then echo "$MIRROR"; return; fi
    # A Debian host knows a mirror that works for it. Security and backports
    # archives have another layout or content, so the main one is taken.
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Origin: Debian' 2>/dev/null |
        awk '$2 !~ /-/ { print $1; exit }'
}

no_source=5 # returned if linux-source-7.2 is not in the archive any more
make_root() { # NAME PACKAGES [mmdebstrap option...]
    local name=$1 packages=$2 from start=$SECONDS
    shift 2
    need_root
    if ! command -v mmdebstrap >/dev/null; then
        say "installing mmdebstrap on this machine"
        quietly "$CACHE/mmdebstrap.log" apt-get install -y --no-install-recommends mmdebstrap ||
            die "mmdebstrap is missing and apt-get could not install it" "install mmdebstrap (apt-get update may help)"
    fi
    from=$(mirror)
    [ -n "$from" ] || die "no Debian mirror in this machine's apt configuration" "run apt-get update, or give MIRROR="
    need_space 8 "a Debian root"
    rm -rf --one-file-system "${CACHE:?}/$name.tmp" "${CACHE:?}/$name"
    quietly "$CACHE/$name.log" mmdebstrap --variant=apt \
        --aptopt='Apt::Install-Recommends "false"' --include="$packages" "$@" \
        trixie "$CACHE/$name.tmp" \
        "deb $from trixie main" "deb $from trixie-updates main" \
        "deb $from trixie-backports main" "deb-src $from trixie main" || {
        if grep 'linux-source-7.2' "$CACHE/$name.log" | grep -qE 'Unable to locate|no installation candidate|was not found'; then
            return $no_source
        fi
        failed "the Debian root $name could not be made" "$CACHE/$name.log" "see the lines above, then make again"
    }
    mv "$CACHE/$name.tmp" "$CACHE/$name"
    say "$name made in $(minutes $((SECONDS - start)))"
}

builder() {
    local name packages status=0
    name=$(builder_name)
    done_with "$name" && return
    lock builder
    done_with "$name" && return
    say "builder root (compilers, QEMU, kernel source): 1 to 3 minutes"
    packages=$(words "$TOP/tools/roots/builder.packages")
    make_root "$name" "$packages" || status=$?
    if [ $status = $no_source ]; then
        # Kernels of a distribution come with a source of their own.
        say "trixie-backports does not have linux-source-7.2 any more: kernels that are built here need LINUX_TARBALL="
        make_root "$name" "${packages/,linux-source-7.2\/trixie-backports/}"
    fi
    publish "$name"
}

# pyverbs' tests are part of rdma-core's source package, in the guest's version. Only
# its upstream tarball is needed (apt checks it against the signed index).
# shellcheck disable=SC2016
fetch_tests='cd "$1/opt" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q source --tar-only --download-only rdma-core &&
    mkdir rdma-core-tests && tar -xf rdma-core_*.orig.tar.* -C rdma-core-tests --strip-components=1 --wildcards "*/tests" &&
    rm -f rdma-core_*'

guest() {
    local name size start
    name=$(guest_name)
    done_with "$name" && return
    builder
    lock guest
    done_with "$name" && return
    say "guest root (RDMA programs) and its disk image: 2 to 4 minutes"
    make_root "$name" "$(words "$TOP/tools/roots/guest.packages")" --customize-hook="$fetch_tests"
    start=$SECONDS
    install -m 755 "$TOP/tools/guest/stub.sh" "$CACHE/$name/rdma-init"
    size=$(du -sm --one-file-system "$CACHE/$name" | cut -f1)
    rm -f "$CACHE/$name.img"
    truncate -s $((size + size / 4 + 512))M "$CACHE/$name.img"
    quietly "$CACHE/$name.img.log" in_builder mke2fs -q -t ext4 -d "/c/$name" "/c/$name.img" ||
        failed "the guest image could not be made" "$CACHE/$name.img.log" "see the lines above, then make again"
    publish "$name"
    say "guest image made in $(minutes $((SECONDS - start)))"
}

case ${1:-} in
builder) builder ;;
guest) guest ;;
*) die "roots.sh: unknown root '${1:-}'" "say builder or guest" ;;
esac
