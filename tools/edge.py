#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Unsafe code is in the edge only, and C structures are reached through its tables.

    edge.py check    fail if another source has some, and is not known for it
    edge.py write    lower the numbers of tools/edge-known.txt to what there is
    edge.py selftest

Outside rust/ and the files edge.rs and folders edge/ of a module, a source has no unsafe block,
function or implementation; neither does it follow a raw pointer to a field, `(*p).field`, nor borrow
a C structure, `&bindings::T`, by any path or imported name. The structures `ib_uverbs_*` may be
borrowed: programs pass them, and ib_uverbs has copies. The exceptions are in tools/edge-known.txt with the number of such
places. A number may only fall; what is at zero leaves the list.
"""
import importlib.util
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
KNOWN = TOP / "tools/edge-known.txt"
SKIP = {"tools", "build", "target", ".git", "Documentation", "proto", "wire", "edge"}
# (*p).field, (*self.raw()).field, (*f(g(x))).field
FIELD = re.compile(r"(?<![\w>])\(\s*\*\s*[A-Za-z_](?:[^(),]|\((?:[^()]|\([^()]*\))*\))*\)\s*\.\s*[a-z_]")
# Not the operator: `flags & bindings::ib_flag`.
REF = r"(?<![\w)\]] )&\s*(?:'\w+\s+)?(?:mut\s+)?"
BINDINGS = r"(?:::\s*)?(?:\w+\s*::\s*)*(?:bindings|private)\s*::\s*"
BORROW = re.compile(REF + BINDINGS + r"(?!ib_uverbs_)[a-z]\w*")
IMPORT = re.compile(r"\buse\s+" + BINDINGS + r"([a-z]\w*)(?:\s+as\s+(\w+))?\s*;")
# Imports that would hide a name from the pattern above.
HIDDEN = re.compile(r"\buse\s+(?:" + BINDINGS + r"[{*]|" + BINDINGS[:-len(r"\s*::\s*")] + r"\s+as\b)")
# A block, an implementation or the definition of a function; not the type of one, nor the attribute
# of a lock, `unsafe(uninit)`.
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|impl\b|trait\b|(?:extern\s+\S+\s+)?fn\s+\w)")
HEAD = """# Sources outside the edge with unsafe code or accesses to C structures, and in how many places each.
# tools/edge.py keeps it; the numbers may only fall.
"""


def code(text):
    """The text without comments and strings."""
    spec = importlib.util.spec_from_file_location("unsafe_count", TOP / "tools/unsafe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.strip(text)


def imported(text):
    """The pattern of borrows of the structures that the source imports by name."""
    names = {alias or name for name, alias in IMPORT.findall(text) if not name.startswith("ib_uverbs_")}
    return [re.compile(REF + rf"(?:{'|'.join(sorted(names))})\b(?!\s*(?:::|\())")] if names else []


def places(text):
    return sum(len(each.findall(text)) for each in [FIELD, BORROW, HIDDEN, UNSAFE, *imported(text)])


def found():
    rows = {}
    for path in sorted(TOP.rglob("*.rs")):
        name = path.relative_to(TOP)
        if SKIP & set(name.parts) or name.parts[0] == "rust" or name.name == "edge.rs":
            continue
        count = places(code(path.read_text()))
        if count:
            rows[name.as_posix()] = count
    return rows


def known():
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return {name: int(count) for count, name in (line.split() for line in lines if line and line[0] != "#")}


def selftest():
    bad = ["unsafe { f() }", "unsafe impl Send for A {}", "unsafe fn f() {}", 'unsafe extern "C" fn f() {}',
           "(*p).field", "(*self.raw()).a.b = 1;", "&raw mut (*qp.real().raw()).lock", "(*f(g(x, y))).z()",
           "fn f(x: &bindings::ib_qp)", "fn f<'a>(x: &'a mut bindings::ib_qp)", "&private::ib_uobject",
           "x: &crate::private::ib_uobject", "x: &crate::bindings::ib_qp", "x: &kernel::bindings::ib_qp",
           "x: &::rdma::bindings::ib_qp", "use rdma::bindings::ib_qp;\nfn f(x: &ib_qp)",
           "use rdma::bindings::ib_qp as Qp;\nfn f(x: &mut Qp)", "use rdma::bindings::{ib_qp, ib_cq};",
           "use rdma::bindings as b;", "use rdma::bindings::*;"]
    good = ["// unsafe { f() }", "unsafe_key", 'f: Option<unsafe extern "C" fn(u8)>', "unsafe(uninit) static A: u8;", "// (*p).field", '"(*p).field"', "*p", "(*count)", "(a * b).max(c)", "bindings::ib_qp", "*mut bindings::ib_qp",
            "&bindings::IB_QP_STATE", "(2 * x).min(y)", "f(*key, false).map_err(g)", "f(*key).map(g)",
            "flags & bindings::ib_flag", "f(x) & bindings::ib_flag",
            "use rdma::bindings;", "use rdma::bindings::ib_uverbs_ah_attr;\nfn f(x: &ib_uverbs_ah_attr)",
            "use rdma::bindings::ib_qp;\nfn f(x: *mut ib_qp, y: &ib_qp_attr)",
            "use rdma::bindings::ib_flag as FLAG;\nf(x) & FLAG",
            "use rdma::bindings::in6_addr;\nf(&in6_addr::default())"]
    wrong = [text for text in bad if not places(code(text))] + [text for text in good if places(code(text))]
    for text in wrong:
        print(f"judged wrongly: {text}")
    return 1 if wrong else 0


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "check"
    if mode == "selftest":
        sys.exit(selftest())
    have, had = found(), known()
    if mode == "write":
        lower = {name: min(count, had.get(name, count) if had else count) for name, count in have.items() if not had or name in had}
        KNOWN.write_text(HEAD + "".join(f"{count:4} {name}\n" for name, count in sorted(lower.items())))
        return
    bad = [f"{name}: {count} places are unsafe, or reach C structures, outside the edge; {had.get(name, 0)} are known"
           for name, count in have.items() if count > had.get(name, 0)]
    stale = [f"{name}: {count} places are known, {have.get(name, 0)} are there (make fmt lowers the number)"
             for name, count in had.items() if have.get(name, 0) < count]
    for line in bad + stale:
        print(line)
    print(f"| unsafe places outside the edge | {sum(have.values())} in {len(have)} files |")
    sys.exit(1 if bad or stale else selftest())


if __name__ == "__main__":
    main()
