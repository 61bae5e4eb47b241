# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The tables of ib_uverbs, the page that is made from them and the grammar that the guest's tests read
# in it, in a copy of the sources: all are as the C module in the kernel source has it, and a planted
# difference of each kind is seen.

tree=$work/uverbs
mkdir -p "$tree"
tar -C "$TOP" --exclude=__pycache__ -cf - uverbs Documentation rust/features rust/features.Kbuild tools/lib.sh tools/features.sh tools/uverbs_abi.py tools/roots tools/guest \
    tools/testing/guest tools/testing/harness | tar -C "$tree" -xf -
"$TOP/tools/kernel.sh" --unpack
linux=/c/$("$TOP/tools/kernel.sh" --source)

# shellcheck disable=SC2016
python() { bash -c '. "$0/tools/lib.sh"; in_builder python3 -B "/src/tools/$1" "${@:2}"' "$tree" "$@"; }
abi() { python uverbs_abi.py "$1" "$linux"; }
grammar() { python testing/harness/uverbs_grammar_peer.py /src "$linux"; }
features() { "$TOP/tools/features.sh" "$CACHE/${linux#/c/}" >"$tree/tools/testing/guest/features"; }
older=$linux
if [ -e "$CACHE/archive-7.3.ok" ] && done_with "$("$TOP/tools/kernel.sh" --source stock-7.3)"; then
    linux=/c/$("$TOP/tools/kernel.sh" --source stock-7.3)
    features
    check "uverbs: the tables are those of C 7.3, and the page is theirs" abi check
    check "uverbs: the grammar is that of C 7.3: 44 methods, 35 commands, 12 extended ones" grammar
fi
linux=$older
features
check "uverbs: the tables are C's, and the page is theirs" abi check
check "uverbs: the grammar is C's: 38 methods, 35 commands, 12 extended ones" grammar

# sees PATTERN CMD...: CMD fails, and says PATTERN.
sees() {
    local pattern=$1
    shift
    if "$@" >"$work/log" 2>&1; then echo "nothing was seen"; return 1; fi
    cat "$work/log"
    grep -q -- "$pattern" "$work/log"
}
# planted FILE CHANGE PATTERN CMD...: with the change of sed in the FILE, which changes it.
planted() {
    local file=$tree/$1 status=0
    cp "$file" "$work/kept"
    sed -i "$2" "$file"
    if cmp -s "$file" "$work/kept"; then echo "sed changed nothing"; return 1; fi
    sees "${@:3}" || status=1
    cp "$work/kept" "$file"
    return $status
}
while IFS='|' read -r file change pattern what; do
    check "uverbs: seen in a table: $what" planted "uverbs/object/$file" "$change" "$pattern" abi check
done <<'CHANGES'
cq.rs|s/(attr::CQE).mandatory()/(attr::CQE)/|UVERBS_ATTR_CREATE_CQ_CQE: |an attribute that need not be given
cq.rs|/attr::BUFFER_VA),/d|UVERBS_ATTR_CREATE_CQ_BUFFER_VA: None|an attribute that is missing
dm.rs|s/<u32>(ALIGNMENT)/<u64>(ALIGNMENT)/|UVERBS_ATTR_ALLOC_DM_ALIGNMENT: |a size
qp.rs|s/output_of::<u32>(RESP_QP_NUM)/input_of::<u32>(RESP_QP_NUM)/|UVERBS_ATTR_CREATE_QP_RESP_QP_NUM: |a direction
mr.rs|s/reg_dm::DM, Dm::ID, Access::Read/reg_dm::DM, Dm::ID, Access::Write/|UVERBS_ATTR_REG_DM_MR_DM_HANDLE: |an access
wq.rs|s/attr::CQ_HANDLE, Cq::ID/attr::CQ_HANDLE, Wq::ID/|UVERBS_ATTR_CREATE_WQ_CQ_HANDLE: |the type of a handle
pd.rs|s/NumberedType</FileType</|^files: |handles that are file descriptors
dmah.rs|s/MEMORY_TYPES: u8 = 2/MEMORY_TYPES: u8 = 3/|UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE: |the choices of an attribute
qp.rs|s/ObjectNeeds(needs!(destroy_qp))/ObjectNeeds(needs!(create_qp))/|^needs UVERBS_OBJECT_QP: |what an object needs
pd.rs|/CommandNeeds(needs!(alloc_pd))/d|IB_USER_VERBS_CMD_ALLOC_PD: |what a command needs
xrcd.rs|s/\.udata()//|IB_USER_VERBS_CMD_OPEN_XRCD: |bytes of the driver
wq.rs|s/extended::<ib_uverbs_ex_modify_wq/extended::<ib_uverbs_ex_destroy_wq/|IB_USER_VERBS_EX_CMD_MODIFY_WQ: |the request of a command
post.rs|s/Def::Object(Srq::ID)/Def::Object(Qp::ID)/|IB_USER_VERBS_CMD_POST_SRQ_RECV: |the object of a command
srq.rs|s/attr::LIMIT)/attr::BOUND)/|attr::BOUND is no name|a name that the headers do not have
srq.rs|s/SRQ_BUF_UMEM,/NO_FEATURE,/|uverbs-abi.md is not what|an attribute with another feature
CHANGES
page=Documentation/uverbs-abi.md
check "uverbs: seen: a page that was edited" planted $page 's/^| UVERBS_ATTR_DESTROY_PD_HANDLE/&S/' "$page is not what" abi check
while IFS='|' read -r change pattern what; do
    check "uverbs: seen in the grammar: $what" planted $page "$change" "$pattern" grammar
done <<'CHANGES'
/^. UVERBS_ATTR_CREATE_CQ_FLAGS /d|^method ('CQ', 0) 5: None|an attribute that is missing
/^. IB_USER_VERBS_EX_CMD_MODIFY_CQ /d|^command (57, True): None|a command that is missing
/^### UVERBS_METHOD_DM_ALLOC/d|^method ('DM', 0)|a method that is missing
/UVERBS_ATTR_QUERY_PORT_RESP/s/48 0[.][.]/48/|^method ('DEVICE', 2) 1: |a size
s/^Handles are file.*//|^files: |handles that are file descriptors
CHANGES

# The random chains of 26-uverbs-chains, against a model in Python: every method and command is reached,
# a seed repeats them, and they see what a kernel does wrong with its objects.
model() { python testing/harness/uverbs_model.py /src/tools/testing/guest "$@"; }
check "uverbs: random chains reach all methods and commands of a model" model reach 4000
check "uverbs: a seed repeats a random chain" model repeat 300
check "uverbs: the program of the random chains ends in time" model program 2
check "uverbs: seen by a random chain: a refused command leaves an object" model left 800
check "uverbs: seen by a random chain: an object is lost" model lost 800
check "uverbs: seen by a random chain: an object is kept" model kept 800
