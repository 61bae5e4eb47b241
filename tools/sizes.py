#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print where the text of our modules is, beside that of the C modules, as tables in Markdown.

    sizes.py OURS C SOURCE

OURS and C are folders with .ko files, at any depth: build/modules-fast, and lib/modules of the same
kernel. SOURCE is drivers/infiniband/core in the kernel source.

Text is what `size` calls so: all sections that are loaded and not written. A function belongs to
the part of ib_core that its symbol names (crate::PART), or whose source has its name; a C function,
to the part that C_PARTS gives for its source. What is inlined counts for the function it is in.
Instances are functions that differ only in the types they are made for. Calls are counted by their
relocations.
"""
import collections
import pathlib
import re
import shutil
import struct
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
MODULES = ("ib_core", "ib_umad", "iw_cm", "ib_uverbs_support", "ib_uverbs", "ib_cm", "rdma_cm",
           "rdma_ucm", "rdma_rxe")

# The part of ib_core for each C source that has another name than the part.
C_PARTS = {
    "agent": "mad", "mad_rmpp": "mad", "smi": "mad", "sa_query": "sa", "multicast": "sa",
    "roce_gid_mgmt": "gid", "cache": "gid", "counters": "counter", "lag": "addr", "iter": "umem",
    "umem_dmabuf": "umem", "umem_odp": "umem", "ib_core_uverbs": "uverbs", "frmr_pools": "frmr",
    "packer": "pack", "ud_header": "pack",
}
# The same for our files and modules. What is in no part by itself belongs to its user.
OUR_PARTS = {
    "IbCore": "start and end", "Main": "start and end", "cache": "gid", "gid_marks": "gid",
    "gid_plan": "gid", "gid_table": "gid", "roce": "gid", "resolve": "addr", "smi": "mad",
    "client": "device", "class": "device", "life": "device", "names": "device", "netns": "device",
    "cq_pool": "cq", "modify_qp": "verbs", "mr": "verbs", "object": "verbs", "nla": "netlink",
    "rw_plan": "rw", "stats": "sysfs", "ud_header": "pack", "private": "bindings",
}
# What functions do, and which do it, here and in C: for the largest of ours.
TASKS = (
    ("netlink: commands with one answer",
     r"nldev::handle",
     r"nldev_\w*(doit|newlink|dellink|newdev|deldev|chardev)|res_get_common_doit|stat_get_doit\w*"),
    ("netlink: lists",
     r"<nldev::Nldev as netlink::edge::Dump>::dump|nldev::res::list",
     r"nldev_\w*dumpit|res_get_common_dumpit"),
    ("GIDs follow addresses",
     r"<gid::Gids>::catch_up|<?proto::gid_(plan::sync|marks::).*|gid::writer::.*",
     r"_add_netdev_ips|(handle_)?netdev(ice)?_(event|upper)\w*|\w*del_netdev\w*|\w*_gids?_of_dev\w*|"
     r"add_modify_gid|__ib_cache_gid_add|_ib_cache_gid_del|del_gid|ib_cache_gid_(set|del)\w*|"
     r"callback_for_addr\w*|inet6?addr_event|update_gid\w*"),
    ("management datagrams: received",
     r"mad::edge::receive::on_received",
     r"ib_mad_recv_done|\w*smi_(handle|check|get)\w*|find_mad_agent|generate_unmatched_resp|"
     r"agent_send_response"),
    ("management datagrams: sent",
     r"mad::transact::(post|submit)|mad::send::new",
     r"ib_post_send_mad|ib_send_mad|ib_create_send_mad"),
    ("management datagrams: agents come and go",
     r"<mad::agent::Agent>::(un)?register",
     r"ib_(un)?register_mad_agent|add_(non)?oui_reg_req|is_vendor_method_in_use|check_vendor_table|"
     r"find_vendor_oui|method_in_use"),
    ("management datagrams: ports open",
     r"<mad::Client as device::client::edge::Part>::add",
     r"ib_mad_init_device|ib_mad_post_receive_mads|ib_agent_port_open"),
    ("multicast groups",
     r"<sa::group::Group as .*>::run|ib_sa_join_multicast|sa::group::.*",
     r"mcast_work_handler|ib_sa_join_multicast|\w*mcmember_rec_(query|callback)|mcast_add_one"),
    ("queries of the subnet administrator",
     r"<sa::query::Query>::(start|tell)|ib_sa_path_rec_get",
     r"ib_sa_(path|service|guid_?info|classport_info)_rec\w*|send_mad"),
    ("path records to and from bits",
     r"<proto::sa::path::Path as proto::sa::wire::Record>::walk.*|ib_sa_(un)?pack_path",
     r"ib_(un)?pack|ib_sa_(un)?pack_path"),
    ("headers of a UD packet", r"ib_ud_header_pack", r"ib_ud_header_pack"),
    ("files of ports", r".*sysfs::set_up_ports.*", r"ib_setup_port_attrs"),
    ("addresses are resolved",
     r"rdma_resolve_ip|addr::resolve_unicast|addr::attempt::.*|<addr::request::Request>::attempt|"
     r"rdma_translate_ip",
     r"addr_resolve|rdma_resolve_ip|process_one_req|rdma_translate_ip|ib_nl_fetch_ha|dst_fetch_ha|"
     r"rdma_copy_src_l2_addr"),
    ("a transfer of bio_vecs begins", r"rdma_rw_ctx_init_bvec",
     r"rdma_rw_ctx_init_bvec|rdma_rw_init_\w*bvec"),
)

# What is counted: calls of any of these.
CALLS = (
    ("memory taken, changed in size, or given back",
     r"_*k\w*(alloc|free)\w*"),
    # Each reference that is taken or dropped inline has such a call, for a count that is wrong.
    ("references taken and dropped inline", "refcount_warn_saturate"),
    ("locks taken", r"_raw_(spin|read|write)_lock\w*|mutex_lock\w*|down_(read|write)\w*"),
    ("locks released", r"_raw_(spin|read|write)_unlock\w*|mutex_unlock|up_(read|write)"),
    ("all", ".*"),
)


# The first that fits: mnemonic and operands.
INSTRUCTIONS = (
    ("padding", r"nop|int3|cs$|data16", ""),
    ("calls", "call", ""),
    ("jumps", "j", ""),
    ("comparisons", "cmp|test", ""),
    ("moves of bytes", "mov", r"%([abcd]l|sil|dil|bpl|r\d+b)\b"),
    ("moves of bytes", "movb|movzbl", ""),
    ("moves to and from the stack", "mov", r"\(%r[bs]p\)"),
    ("other moves, and addresses", "mov|lea", ""),
    ("registers saved", "push|pop", ""),
    ("other", "", ""),
)


class Module:
    """The sections, functions and calls of one .ko file (ELF, 64 bits, little endian)."""

    def __init__(self, path):
        self.path = path
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"error: {path} is no module of a 64-bit machine; name folders of .ko files")
        at, = struct.unpack_from("<Q", data, 40)
        size, count, _ = struct.unpack_from("<HHH", data, 58)
        # Fields: name, type, flags, address, offset, size, link, info, align, size of an entry.
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
        self.text = sum(h[5] for h in heads if h[2] & 3 == 2 and h[1] != 8)
        code = {i for i, h in enumerate(heads) if h[2] & 4}
        self.functions, self.calls = {}, collections.Counter()
        names = []
        for head in (h for h in heads if h[1] == 2):
            strings = heads[head[6]][4]
            for place in range(head[4], head[4] + head[5], 24):
                name, info, _, section, _, length = struct.unpack_from("<IBBHQQ", data, place)
                end = data.index(0, strings + name)
                names.append(data[strings + name:end].decode())
                if section in code and info & 15 == 2:
                    self.functions[names[-1]] = self.functions.get(names[-1], 0) + length
        for head in (h for h in heads if h[1] == 4 and h[7] in code):
            for place in range(head[4], head[4] + head[5], 24):
                _, info, _ = struct.unpack_from("<QQq", data, place)
                # Relocation 4 is that of a call.
                if info & 0xffffffff == 4:
                    self.calls[names[info >> 32]] += 1


def load(folder, name):
    found = sorted(pathlib.Path(folder).rglob(name + ".ko"))
    if not found:
        sys.exit(f"error: {folder} has no {name}.ko; build the modules, or name another folder")
    return Module(found[0])


def run(tool, gnu, *args, text=""):
    """The output of a program of LLVM or, where there is none, of binutils."""
    tool = next((t for t in (tool, "/usr/lib/llvm-19/bin/" + tool, gnu) if shutil.which(t)), None)
    if tool is None:
        sys.exit(f"error: there is no {gnu}; install LLVM or binutils")
    return subprocess.run([tool, *args], input=text, text=True, capture_output=True, check=True).stdout


def demangle(names):
    # Crates have a hash.
    plain = re.sub(r"\[[0-9a-f]+\]", "", run("llvm-cxxfilt", "c++filt", text="\n".join(names)))
    return dict(zip(names, plain.split("\n")))


def instructions(path):
    """Bytes of instructions by what they do."""
    lengths, last = collections.Counter(), None
    for line in run("llvm-objdump", "objdump", "-d", "--no-show-raw-insn", str(path)).splitlines():
        found = re.match(r" *([0-9a-f]+):\s+(\S+)\s*(.*)", line)
        if not found:
            last = None
            continue
        at = int(found[1], 16)
        if last is not None:
            lengths[kind] += at - last
        last, kind = at, next(kind for kind, operation, operands in INSTRUCTIONS
                              if re.match(operation, found[2]) and re.search(operands, found[3]))
    return lengths


def without_types(name):
    """The path of a function, without what it is generic over."""
    kept, depth = [], 0
    # `<Type as Trait>::function` is a name; what is in angle brackets elsewhere are types.
    outer = 1 if name.startswith("<") else 0
    for char in name.replace("->", ""):
        depth -= char == ">"
        if depth <= outer:
            kept.append(char)
        depth += char == "<"
    return "".join(kept)


def where(files, pattern, part):
    """Function to part, for those that the files define."""
    found = {}
    for file in files:
        for name in re.findall(pattern, file.read_text(), re.M):
            found.setdefault(name, part(file))
    return found


def ours_of(file):
    parts = list(file.relative_to(TOP).with_suffix("").parts)
    return named(parts[1:] if parts[0] == "core" else parts)


def named(path):
    path = [p for p in path if p not in ("proto", "edge")] or ["edge"]
    return OUR_PARTS.get(path[0], path[0])


def c_sources(folder):
    lines = (folder / "Makefile").read_text().replace("\\\n", " ")
    names = " ".join(re.findall(r"^ib_core-.*?:?\+?=(.*)", lines, re.M)).split()
    return [folder / name.replace(".o", ".c") for name in names]


def part_of(name, found):
    """The part of ib_core that a function belongs to, by its demangled name."""
    if name.startswith("rdma_helper_"):
        return "helpers"
    if re.match(r"_*(do_|perf_|bpf_)?(trace|traceiter|probestub|SCT__tp_func)_", name):
        return "trace"
    path = re.search(r"\bmain::([\w:]+)", name)
    if path:
        return named([p for p in path[1].split("::") if p])
    if name in found:
        return found[name]
    # Clang and rustc give parts of functions names with a suffix.
    return found.get(name.split(".")[0], "other")


def kind_of(name):
    if name.startswith("rdma_helper_"):
        return "C helpers"
    if "drop_in_place" in name or "ops::drop::Drop" in name:
        return "drop glue and `Drop`"
    if "fmt::" in name or "fmt>" in name:
        return "formatting"
    return None


def table(head, rows):
    print("|", " | ".join(head), "|")
    print("|" + "---|" * len(head))
    for row in rows:
        print("|", " | ".join(str(cell) for cell in row), "|")
    print()


def count(numbers, pattern):
    return sum(n for name, n in numbers.items() if re.fullmatch(pattern, name))


def times(ours, c):
    return f"{ours / c:.1f}x" if c else ""


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    ours_dir, c_dir, source = map(pathlib.Path, sys.argv[1:])

    both = [(f"`{n}`", load(ours_dir, n).text, load(c_dir, n).text) for n in MODULES]
    both.append(("all", sum(b[1] for b in both), sum(b[2] for b in both)))
    table(("module", "ours", "C", ""), [(*b, times(*b[1:])) for b in both])

    ours, c = load(ours_dir, "ib_core"), load(c_dir, "ib_core")
    names = demangle(list(ours.functions))
    code = collections.Counter()
    for symbol, size in ours.functions.items():
        code[names[symbol]] += size

    rust = [f for part in ("core", "mad", "umem", "rw") for f in sorted((TOP / part).rglob("*.rs"))]
    exported = where(rust, r"\bfn (\w+)\s*[(<]", ours_of)
    written = where(c_sources(source), r"^[A-Za-z_][^;={}()]*?\b(\w+)\(",
                    lambda file: C_PARTS.get(file.stem, file.stem))
    sums = collections.defaultdict(lambda: [0, 0])
    for which, functions, found in ((0, code, exported), (1, c.functions, written)):
        for name, size in functions.items():
            sums[part_of(name, found)][which] += size
            sums["all functions"][which] += size
    table(("part of `ib_core`", "ours", "C", ""),
          [(n, *s, times(*s)) for n, s in sorted(sums.items(), key=lambda s: -s[1][0])])

    groups, kinds = collections.defaultdict(list), collections.Counter()
    for name, size in code.items():
        kind = kind_of(name)
        if kind is None:
            groups[without_types(name)].append(size)
        else:
            kinds[kind] += size
    for sizes in groups.values():
        several = len(sizes) > 1
        one = "the largest instance of a generic function" if several else "other functions"
        kinds[one] += max(sizes)
        kinds["the other instances of generic functions"] += sum(sizes) - max(sizes)
    table(("functions of `ib_core` by kind", "bytes"), kinds.most_common())

    table(("calls in `ib_core`", "ours", "C"),
          [(what, count(ours.calls, calls), count(c.calls, calls)) for what, calls in CALLS])
    lengths = instructions(ours.path), instructions(c.path)
    table(("instructions of `ib_core`, bytes", "ours", "C", "more"),
          [(kind, *(n[kind] for n in lengths), lengths[0][kind] - lengths[1][kind])
           for kind, _ in (lengths[0] - lengths[1]).most_common()])
    short = {n.replace("main::", ""): s for n, s in code.items()}
    tasks = [(what, count(short, here), count(c.functions, there)) for what, here, there in TASKS]
    table(("task", "ours", "C", ""), [(*t, times(*t[1:])) for t in tasks])
    largest = sorted(short.items(), key=lambda f: -f[1])[:40]
    table(("function", "ours", "C, of the same name"),
          [(f"`{n[:90]}`", s, c.functions.get(n, "")) for n, s in largest])


main()
