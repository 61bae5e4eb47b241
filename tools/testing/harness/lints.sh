# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Each mechanical rule of make check, in a copy of the sources: nothing is said of the tree as it
# is, and a planted violation of each rule is found. (clippy.py, panics.sh and exports.py test
# themselves in make check; tools/testing/compile-fail has the types' rules.)

tree=$work/lints
mkdir -p "$tree"
tar -C "$TOP" --exclude=./build --exclude=./.git --exclude=target --exclude=__pycache__ -cf - . | tar -C "$tree" -xf -

lint() { "$tree/tools/lint.sh"; }
# shellcheck disable=SC2016
python() { bash -c '. "$0/tools/lib.sh"; in_builder python3 "/src/tools/$1" "${@:2}"' "$tree" "$@"; }
all() {
    local status=0
    lint >"$work/lint.log" 2>&1 || status=1
    python edge.py check >"$work/edge.log" 2>&1 || status=1
    python unsafe.py check >"$work/unsafe.log" 2>&1 || status=1
    python knots.py >"$work/knots.log" 2>&1 || status=1
    python exports.py >"$work/exports.log" 2>&1 || status=1
    return $status
}
clean() {
    all || { cat "$work"/{lint,edge,unsafe,knots,exports}.log; return 1; }
}
check "lints: nothing is found in the tree" clean

# plant FILE TEXT...: a source with these lines after a head that all rules accept.
plant() {
    local file=$tree/$1
    shift
    printf '%s\n' '// SPDX-License-Identifier: GPL-2.0' '' '//! Planted.' '' "$@" >"$file"
}
plant ucma/planted_safety.rs 'fn f() {' '    unsafe { g() }' '}'
plant rust/planted_duty.rs "// SAFETY: By this function's duty." 'unsafe impl Send for A {}'
plant ucma/planted_long.rs "$(yes '//' | head -n 800)"
plant ucma/planted_panic.rs 'fn f(a: Option<u8>) -> u8 { a.unwrap() }'
plant ucma/planted_name.rs 'struct Question;'
plant ucma/proto/planted_kernel.rs 'use kernel::prelude::*;'
plant ucma/planted_field.rs 'fn f(p: *const A) -> u8 { (*p).field }'
plant ucma/planted_borrow.rs 'fn f(p: &bindings::ib_qp) {}'
plant ucma/planted_impl.rs '// SAFETY: Planted.' 'unsafe impl Send for A {}'
plant cm/proto/planted_pure.rs '// SAFETY: Planted.' 'unsafe fn f() {}'
printf '//! Planted.\n' >"$tree/ucma/planted_licence.rs"
printf '// SPDX-License-Identifier: GPL-2.0\nfn f() {}\n' >"$tree/ucma/planted_header.rs"
printf 'echo\n' >"$tree/tools/planted_licence.sh"
printf '# SPDX-License-Identifier: GPL-2.0\ndie "it is broken" "mend it"\n' >"$tree/tools/planted_mend.sh"
# shellcheck disable=SC2016
printf 'See `core/planted_missing.rs`.\n' >"$tree/Documentation/planted_name.md"
printf 'See /%s/planted.\n' work >"$tree/Documentation/planted_path.md"
echo 'use crate::nldev::planted;' >>"$tree/core/device.rs"
echo 'EXPORT_SYMBOL(planted_export);' >>"$tree/core/exports.c"
check "lints: the planted tree is refused" eval '! all'

found() { # LOG PATTERN
    grep -q -- "$2" "$work/$1.log" || { echo "nothing in $1.log has: $2"; cat "$work/$1.log"; return 1; }
}
while IFS='|' read -r log pattern rule; do
    check "lints: $rule" found "$log" "$pattern"
done <<'RULES'
lint|^ucma/planted_safety.rs:6: unsafe without a SAFETY|an unsafe block has a SAFETY comment
lint|^rust/planted_duty.rs:5:.*which promise|a SAFETY comment names an invariant
lint|^ucma/planted_long.rs: .*more than 800|a file has at most 800 lines
lint|^ucma/planted_panic.rs:5: may panic|nothing is unwrapped
lint|^ucma/proto/planted_kernel.rs:5:.*knows no kernel|a pure engine has no kernel calls
lint|^ucma/planted_licence.rs: no licence|a source has a licence
lint|^tools/planted_licence.sh: no licence|a script has a licence
lint|^ucma/planted_header.rs: no header|a source says what it is
lint|^ucma/planted_name.rs:5:.*the field has a word for|a name is one that the field has
lint|^tools/planted_mend.sh:2:.*correct, or update|a message says correct, or update
lint|^Documentation/planted_name.md:1: there is no|a document names files that exist
lint|^Documentation/planted_path.md:1:.*of one machine|no path of one machine
edge|^ucma/planted_field.rs: 1 places|fields of C structures are reached by the tables
edge|^ucma/planted_borrow.rs: 1 places|C structures are not borrowed
edge|^ucma/planted_safety.rs: 1 places|unsafe blocks are in the edge
edge|^ucma/planted_impl.rs: 1 places|unsafe implementations are in the edge
unsafe|^cm/proto/ (pure): unsafe in a pure part|a pure engine has no unsafe code
unsafe|^rust/: .* the page has|the page of unsafe code is up to date
knots|^device names nldev|the device's life knows none of its users
knots|^modules depend on each other in a circle|modules do not depend on each other in a circle
exports|planted_export is exported, but not declared|an exported symbol is declared in Rust
RULES
