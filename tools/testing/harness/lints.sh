# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Each mechanical rule of make check, in a copy of the sources: nothing is said of the tree as it
# is, and a planted violation of each rule is found. (clippy.py and panics.sh test themselves in
# make check; tools/testing/compile-fail has the types' rules.)

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
    "$tree/tools/check.sh" format >"$work/format.log" 2>&1 </dev/null || status=1
    return $status
}
clean() {
    all || { cat "$work"/{lint,edge,unsafe,knots,exports,format}.log; return 1; }
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
plant ucma/planted_queue.rs 'fn f(w: W) { kernel::workqueue::system().enqueue(w); }'
plant ucma/planted_format.rs 'fn f ( ) { }'
plant ucma/planted_name.rs 'struct Question;'
plant ucma/proto/planted_kernel.rs 'use kernel::prelude::*;'
plant ucma/planted_field.rs 'fn f(p: *const A) -> u8 { (*p).field }'
plant ucma/planted_borrow.rs 'fn f(p: &bindings::ib_qp) {}'
plant ucma/planted_path.rs 'fn f(p: &crate::private::ib_uobject) {}'
plant ucma/planted_kernel_path.rs 'fn f(p: &kernel::bindings::device) {}'
plant ucma/planted_import.rs 'use rdma::bindings::ib_qp;' '' 'fn f(p: &ib_qp) {}'
plant ucma/planted_group.rs 'use rdma::bindings::{ib_qp, ib_cq};'
plant uverbs/edge/planted_row.rs 'rdma::c_struct! {' '    struct Planted: bindings::ib_pd;' '    fields {' \
    '        const device: Passed<bindings::ib_device>;' '    }' '}'
plant ucma/planted_fn.rs '/// # Safety' '///' '/// Planted.' 'unsafe fn f() {}'
echo '   3 ucma/planted_stale.rs' >>"$tree/tools/edge-known.txt"
plant uverbs/edge/planted_caller.rs 'fn f(p: *const u8) -> u8 {' '    // SAFETY: The address is valid, as' \
    '    // the caller has seen.' '    unsafe { p.read() }' '}'
plant ucma/planted_impl.rs '// SAFETY: Planted.' 'unsafe impl Send for A {}'
plant cm/proto/planted_pure.rs '// SAFETY: Planted.' 'unsafe fn f() {}'
printf '//! Planted.\n' >"$tree/ucma/planted_licence.rs"
printf '// SPDX-License-Identifier: GPL-2.0\nfn f() {}\n' >"$tree/ucma/planted_header.rs"
printf 'echo\n' >"$tree/tools/planted_licence.sh"
sed -i 's/`rdma_rxe` none in/`rdma_rxe` one in/; s/block in [0-9,]* lines/block in 90,000 lines/' "$tree/README.md"
printf '# SPDX-License-Identifier: GPL-2.0\ndie "it is broken" "mend it"\n' >"$tree/tools/planted_mend.sh"
# shellcheck disable=SC2016
printf 'See `core/planted_missing.rs`.\n' >"$tree/Documentation/planted_name.md"
printf 'See /%s/planted.\n' work >"$tree/Documentation/planted_path.md"
echo 'use crate::nldev::planted;' >>"$tree/core/device.rs"
echo 'use crate::device::planted;' >>"$tree/core/proto/mod.rs"
printf '%s\n' 'use crate::life::planted;' 'use crate::{planted, other};' >>"$tree/core/cache.rs"
echo 'EXPORT_SYMBOL(planted_export);' >>"$tree/core/exports.c"
plant mad/planted_own.rs 'fn f(b: *mut B) { bindings::ib_free_send_mad(b) }'
plant iwcm/planted_declared.rs 'rdma::export! { in rdma::bindings;' '    fn planted_declared() = f;' '}'
check "lints: the planted tree is refused" eval '! all'

found() { # LOG PATTERN
    grep -q -- "$2" "$work/$1.log" || { echo "nothing in $1.log has: $2"; cat "$work/$1.log"; return 1; }
}
# There are no modules in the copy.
panics() { (cd "$tree" && tools/panics.sh check) >"$work/panics.log" 2>&1 </dev/null; }
check "lints: functions that panic are not counted in modules of other sources" eval 'CI= panics && found panics "not counted"'
check "lints: where CI is set, functions that panic are counted" eval '! CI=1 panics && found panics "not counted"'

while IFS='|' read -r log pattern rule; do
    check "lints: $rule" found "$log" "$pattern"
done <<'RULES'
lint|^ucma/planted_safety.rs:6: unsafe without a SAFETY|an unsafe block has a SAFETY comment
lint|^rust/planted_duty.rs:5:.*which promise|a SAFETY comment names an invariant
lint|^ucma/planted_long.rs: .*more than 800|a file has at most 800 lines
lint|^ucma/planted_panic.rs:5: may panic|nothing is unwrapped
lint|^ucma/planted_queue.rs:5:.*outlast the module|no work on a queue of the system
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
edge|^ucma/planted_path.rs: 1 places|C structures are not borrowed by another path
edge|^ucma/planted_kernel_path.rs: 1 places|C structures are not borrowed from the kernel crate
edge|^ucma/planted_import.rs: 1 places|C structures are not borrowed by an imported name
edge|^ucma/planted_group.rs: 1 places|structures are imported one by one
edge|^ib_pd.device: 2 rows|a field of a C structure has one row
edge|^ib_pd.device: rows with different contracts|rows of a field have one contract
edge|^ucma/planted_safety.rs: 1 places|unsafe blocks are in the edge
edge|^ucma/planted_fn.rs: 1 places|unsafe functions are in the edge
edge|^ucma/planted_stale.rs: 3 are known, 0 are there|a known number falls with the places
edge|^callers:uverbs/edge/planted_caller.rs: 1 SAFETY|a SAFETY comment of a safe function names no callers
edge|^ucma/planted_impl.rs: 1 places|unsafe implementations are in the edge
unsafe|^cm/proto/ (pure): unsafe in a pure part|a pure engine has no unsafe code
unsafe|^README.md: rdma_rxe has 0 unsafe blocks.*says one|blocks in the README are counted
unsafe|^README.md: ib_core has .* it says 90000|lines in the README are counted
unsafe|^rust/: .* the page has|the page of unsafe code is up to date
knots|^device names nldev|the device's life knows none of its users
knots|^cache names life|nothing names what is above all modules
knots|^proto is to have no dependencies|a leaf has no dependencies
knots|^core/cache.rs:.*one import a line|imports are not grouped
knots|^modules depend on each other in a circle|modules do not depend on each other in a circle
exports|planted_export is exported, but not declared|an exported symbol is declared in Rust
exports|mad/planted_own.rs takes ib_free_send_mad from C|a module does not call its own exports through C
exports|planted_declared is declared in Rust, but not exported|a symbol that is declared in Rust is exported
format|ucma/planted_format.rs|sources are formatted
RULES
