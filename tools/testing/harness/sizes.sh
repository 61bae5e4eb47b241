# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# tools/sizes.py on planted modules: what it prints is what llvm-size and llvm-nm say of them, and what is
# no module is refused.

sizes=$work/sizes
mkdir -p "$sizes/ours" "$sizes/c/deep" "$sizes/source"
planted=${sizes#"$TOP"/}

# A function of mad, two instances of a generic one of sa, drop glue, and a C helper; in C, a function of
# mad and one of sa.
cat >"$sizes/ours.c" <<'C'
void kfree(const void *);
void refcount_warn_saturate(void);
extern volatile int memory[64];
const int table[64] = { 1 };
#define FUNCTION(name, body) void name(void); void name(void) { body; }
FUNCTION(_RNvNtCs1_4main3mad4post, kfree(0); kfree((void *)memory); refcount_warn_saturate(); memory[1] = 2)
FUNCTION(_RINvNtCs1_4main2sa4walkmE, kfree(0); memory[1] = 2; memory[2] = 3; memory[3] = 4)
FUNCTION(_RINvNtCs1_4main2sa4walkyE, kfree(0); memory[1] = 2)
FUNCTION(_RINvNtCs2_4core3ptr13drop_in_placeNtNtCs1_4main2sa5QueryE, kfree((void *)memory); memory[5] = 2)
FUNCTION(rdma_helper_planted, memory[1]++)
C
cat >"$sizes/c.c" <<'C'
void kfree(const void *);
extern volatile int memory[64];
void post(void);
void post(void) { kfree(0); memory[1]++; }
void walk(void);
void walk(void) { memory[1]++; memory[2]++; memory[3]++; }
C
printf 'ib_core-y := mad.o \\\n\tsa_query.o\nib_cm-y := cm.o\n' >"$sizes/source/Makefile"
printf 'void post(void)\n{\n' >"$sizes/source/mad.c"
printf 'static void\nunused(void)\n{\n}\nvoid walk(void)\n{\n' >"$sizes/source/sa_query.c"
printf 'void walk(void)\n{\n' >"$sizes/source/cm.c"

# shellcheck disable=SC2016
in_builder bash -euc 'cd "/src/$1"
    for side in ours c; do
        "$0clang" -c -O1 -ffreestanding $side.c -o $side.o
        "$0llvm-size" $side.o | awk "NR == 2 { print \$1 }" >$side.text
        "$0llvm-nm" -S $side.o | awk "/ T / { print \$4, \$2 }" >$side.nm
    done
    for name in ib_core ib_umad iw_cm ib_uverbs_support ib_uverbs ib_cm rdma_cm rdma_ucm rdma_rxe; do
        cp ours.o ours/$name.ko
        cp c.o c/deep/$name.ko
    done' "$LLVM_PREFIX" "$planted" </dev/null

run_sizes() { in_builder python3 -B /src/tools/sizes.py "/src/$planted/$1" "/src/$planted/c" "/src/$planted/source" </dev/null; }
check "sizes: the planted modules are read" eval 'run_sizes ours >"$sizes/log"'

bytes() { # SIDE NAME...: of these functions
    local side=$1 name sum=0
    shift
    for name; do sum=$((sum + 0x$(awk -v name="$name" '$1 == name { print $2 }' "$sizes/$side.nm"))); done
    echo "$sum"
}
row() { # TEXT: a line of a table that begins so
    grep -qF -- "| $1 |" "$sizes/log" || { echo "there is no row: $1"; cat "$sizes/log"; return 1; }
}
walk32=$(bytes ours _RINvNtCs1_4main2sa4walkmE)
walk64=$(bytes ours _RINvNtCs1_4main2sa4walkyE)
drop=$(bytes ours _RINvNtCs2_4core3ptr13drop_in_placeNtNtCs1_4main2sa5QueryE)
check "sizes: text is that of size" row "\`rdma_cm\` | $(cat "$sizes/ours.text") | $(cat "$sizes/c.text")"
check "sizes: a part has its functions" row "mad | $(bytes ours _RNvNtCs1_4main3mad4post) | $(bytes c post)"
check "sizes: a part has its instances and drop glue" row "sa | $((walk32 + walk64 + drop)) | $(bytes c walk)"
check "sizes: a C helper is no part's" row "helpers | $(bytes ours rdma_helper_planted) | 0"
check "sizes: drop glue is a kind" row "drop glue and \`Drop\` | $drop"
check "sizes: of two instances, one is more than needed" row "the other instances of generic functions | $walk64"
check "sizes: calls are counted" row "memory taken, changed in size, or given back | 5 | 1"
check "sizes: references are counted" row "references taken and dropped inline | 1 | 0"
check "sizes: the largest function is named" row "\`sa::walk::<u32>\` | $walk32 | "

rm "$sizes/ours/ib_cm.ko"
check "sizes: a module that is missing is told" says "has no ib_cm.ko" run_sizes ours
echo "no module" >"$sizes/ours/ib_cm.ko"
check "sizes: what is no module is refused" says "is no module" run_sizes ours
