#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# doc.sh: the Rust documentation in build/doc (index.html there): the crate rdma as its
# users see it, each module with its private items, and the host crates of the pure
# engines. What rustdoc warns of, a dead link say, is an error.
. "$(dirname "$0")/lib.sh"

"$TOP/tools/modules.sh" fast
say "documentation: half a minute"

# shellcheck disable=SC2016
in_builder bash -euc '
    quiet="-D warnings -A rustdoc::private_intra_doc_links -A rustdoc::redundant_explicit_links"
    rm -rf /src/build/doc
    cd /src/tools/testing/host
    RUSTDOCFLAGS=$quiet CARGO_TARGET_DIR=/c/target-doc nice cargo doc -q --no-deps --workspace --document-private-items
    cp -r /c/target-doc/doc /src/build/doc

    # Kbuild keeps the command that made each object; rustdoc takes the same, less its
    # outputs. The crate of a module has the name of the module.
    cd /src/build/modules-fast
    export RDMA_PRIVATE=$PWD/core/private_generated.rs
    for kept in rust/.lib.o.cmd $(find . -path ./tools -prune -o -name .main.o.cmd -print); do
        name=$(sed -nE "1 s/.* RUST_MODFILE=\.\/([^ ]*) rustc .*/\1/p" "$kept")
        items=--document-private-items
        if [ "$name" = lib ]; then name=rdma items=; fi
        command=$(sed -n "1 { s/^savedcmd_[^ ]* := //; s/ ;.*//; s/ --emit=[^ ]*//g; s/ --out-dir [^ ]*//
            s/ --crate-name [^ ]*//; s/ -Zcross-crate[^ ]*//; s/ rustc / nice rustdoc / p }" "$kept")
        options="--crate-name $name $items $quiet --enable-index-page --out-dir /src/build/doc"
        RUSTC_BOOTSTRAP=1 bash -euc "${command/ rustdoc / rustdoc $options }"
    done' </dev/null || die "the documentation could not be made" "correct what the lines above name"
say "the documentation is in build/doc/index.html"
