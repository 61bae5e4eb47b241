#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of tools/ itself, as `make test T=harness`: the parts in harness/, or those that are
# named as arguments. Prints KTAP. Works in build/harness, or WORK=.
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/guest/ktap.sh"
set +e
# The run that this is a part of may have one; the stubs of the tools take the default.
unset TEST_DIR

work=${WORK:-$BUILD/harness}
rm -rf --one-file-system "$work"
mkdir -p "$work/stubs" "$work/kdir/include/config" "$work/kdir/rust"

# says PATTERN CMD...: CMD fails, with exactly one line "error: CAUSE; REMEDY", which
# has PATTERN, and with no other complaint.
says() {
    local pattern=$1 status=0
    shift
    "$@" >"$work/log" 2>&1 </dev/null || status=$?
    cat "$work/log"
    [ "$status" = 1 ] && grep -q "^error: .*$pattern.*; " "$work/log" &&
        [ "$(grep -vc '^== ' "$work/log")" = 1 ]
}

stub() { # NAME TEXT: a program of that name, before all others in PATH
    printf '#!/bin/bash\n%s\n' "$2" >"$work/stubs/$1"
    chmod +x "$work/stubs/$1"
}

[ $# -gt 0 ] || set -- install log judge runner roots stock guest mutants lints uverbs sizes
for part; do
    [ -r "$here/harness/$part.sh" ] || die "there is no part $part of these tests" "name some of $(basename -s .sh -a "$here"/harness/*.sh | xargs)"
    # shellcheck disable=SC1090
    . "$here/harness/$part.sh"
done
finish
