#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Unsafe code is in the edge only, and C structures are reached through its tables.

    edge.py check    fail if another source has some, and is not known for it
    edge.py write    lower the numbers of tools/edge-known.txt to what there is
    edge.py selftest

Outside rust/ and the files edge.rs and folders edge/ of a module, a source has no unsafe block,
function or implementation; neither does it follow a raw pointer to a field, `(*p).field`, nor borrow
a C structure, `&bindings::T`, by any path or imported name. The structures `ib_uverbs_*` may be
borrowed: programs pass them, and ib_uverbs has copies.

The tables (`c_struct!`) have one row for each field of a C structure, wherever they are: two rows
of a field may state two contracts. Rows that do (`const` and `racy`) are always refused; only a
`put` may stand beside the `cell` of the same table, as its setter.

A SAFETY comment in a safe function does not rest on what the function's callers do: a caller that
does otherwise would compile. Such a duty belongs into a type, or the function is unsafe.

The exceptions are in tools/edge-known.txt with the number of such places in a source, of rows of a
field, and of such comments in a source (callers:SOURCE). A number may only fall; what is at zero, or
at one row, leaves the list.
"""
import importlib.util
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
KNOWN = TOP / "tools/edge-known.txt"
SKIP = {"tools", "build", "target", ".git", "Documentation", "proto", "wire", "edge"}
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
HEAD = """# Sources outside the edge with unsafe code or accesses to C structures, and in how many places each;
# fields of C structures with rows in several tables, and how many; and SAFETY comments of safe functions
# that name callers.
# tools/edge.py keeps it; the numbers may only fall.
"""


STRUCT = re.compile(r"\bc_struct!\s*\{")
OF = re.compile(r"\bstruct\s+(\w+)\s*:\s*([\w:]+)\s*;")
ROW = re.compile(r"^\s*(const|racy|guarded|embed|bit|cell|put)\s+(\w+)(?:\s+(?:at|in)\s+([\w.]+))?\s*:", re.M)
INIT_ROW = re.compile(r"^\s*(\w+)(?:\s+at\s+([\w.]+))?\s*:", re.M)


def unsafe_py():
    """The module tools/unsafe.py, which knows comments, strings and braces of Rust."""
    spec = importlib.util.spec_from_file_location("unsafe_count", TOP / "tools/unsafe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUST = unsafe_py()
code = RUST.strip


def rows(text):
    """The rows of the tables in a source without comments: field of a C structure, table, contract."""
    for start in STRUCT.finditer(text):
        table = RUST.body(text, start.end())
        of = OF.search(table)
        if not of: # the macro's own pattern
            continue
        name = of[2].split("::")[-1]
        for init in RUST.INIT.finditer(table):
            for row in INIT_ROW.finditer(RUST.body(table, init.end())):
                yield f"{name}.{row[2] or row[1]}", of[1], "init"
        for row in ROW.finditer(table):
            yield f"{name}.{row[3] or row[2]}", of[1], row[1]


def several(sources):
    """The fields with more than one row in these sources: their number, and whether they disagree."""
    fields = {}
    for name, text in sources:
        for field, table, how in rows(text):
            fields.setdefault(field, []).append((name, table, how))
    result = {}
    for field, found in fields.items():
        readers = {(name, table) for name, table, how in found if how == "cell"}
        found = [row for row in found if not (row[2] == "put" and row[:2] in readers)]
        if len(found) > 1:
            result[field] = len(found), len({how for _, _, how in found}) > 1
    return result


def imported(text):
    """The pattern of borrows of the structures that the source imports by name."""
    names = {alias or name for name, alias in IMPORT.findall(text) if not name.startswith("ib_uverbs_")}
    return [re.compile(REF + rf"(?:{'|'.join(sorted(names))})\b(?!\s*(?:::|\())")] if names else []


def places(text):
    return sum(len(each.findall(text)) for each in [RUST.RAW, BORROW, HIDDEN, UNSAFE, *imported(text)])


FN = re.compile(r'^\s*(?:pub(?:\([^)]*\))?\s+)?(?:const\s+)?(unsafe\s+)?(?:extern\s+"C"\s+)?fn\s+\w')
SAFETY = re.compile(r"^\s*//\s*SAFETY:")
MORE = re.compile(r"^\s*//(?!/)")
# Not a duty: C's part of a contract, and what the caller gets.
GETS = re.compile(r"\bC callers?\b|\bto (?:the|one)\s+caller\b|\bthe caller\s+(?:owns|gets|gives up|passes on)\b|\bfrom the caller to the callee\b")
CALLER = re.compile(r"\bcallers?\b")


def blaming(text):
    """How many SAFETY comments within safe functions rest on the callers."""
    count, safe, comment = 0, False, None
    for line in text.splitlines() + [""]:
        if comment is not None and MORE.match(line):
            comment += " " + line.strip().lstrip("/ ")
            continue
        if comment is not None:
            count += safe and bool(CALLER.search(GETS.sub("", comment)))
        comment = line.strip() if SAFETY.match(line) else None
        found = FN.match(line)
        if found:
            safe = not found[1]
    return count


def callers():
    rows = {}
    for path in sorted(TOP.rglob("*.rs")):
        name = path.relative_to(TOP)
        if not {"tools", "build", "target", ".git"} & set(name.parts):
            count = blaming(path.read_text())
            if count:
                rows[f"callers:{name.as_posix()}"] = count
    return rows


def tables():
    return several((path.relative_to(TOP).as_posix(), code(path.read_text())) for path in sorted(TOP.rglob("*.rs"))
                   if not {"tools", "build", "target", ".git"} & set(path.relative_to(TOP).parts))


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
    table = "rdma::c_struct! { /// T\n struct %s: bindings::ib_x;\n init New<'a> { a: u8 }\n fields {\n%s\n } }"
    for rows_a, rows_b, is_bad in [("const f: u8;", "const f: u8;", True), ("const f: u8;", "racy g at f: u8, set_g;", True),
                                   ("const f: u8;", "const f at h.f: u8;", False), ("cell f: u8;\n put set_f at f: u8;", "", False),
                                   ("cell f: u8;", "put set_f at f: u8;", True), ("const a: u8;", "", True)]:
        both = [("a.rs", code(table % ("A", rows_a))), ("b.rs", code((table % ("B", rows_b)).replace("a: u8 }", "}")))]
        if bool(several(both)) != is_bad:
            wrong.append(f"{rows_a} and {rows_b}")
    for text, count in [("fn f() {\n// SAFETY: The lock is\n// held by the caller.\n", 1), ("unsafe fn f() {\n// SAFETY: The caller has it.\n", 0),
                        ("fn f() {\n// SAFETY: All callers do.\n", 1), ("fn f() {\n// SAFETY: The reference passes to the\n// caller.\n", 0),
                        ("/// The caller sleeps.\nfn f() {\n// SAFETY: True.\n// The caller.\n\n// A caller.\n", 1),
                        ("fn f() {\n// SAFETY: C callers own it.\n// A word.\n", 0), ("fn f() {}\nunsafe fn g() {\n// SAFETY: See the caller.\n", 0)]:
        if blaming(text) != count:
            wrong.append(text)
    for text in wrong:
        print(f"judged wrongly: {text}")
    return 1 if wrong else 0


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "check"
    if mode == "selftest":
        sys.exit(selftest())
    shared = tables()
    have, had = found(), known()
    have.update(callers())
    have.update({field: count for field, (count, _) in shared.items()})
    if mode == "write":
        lower = {name: min(count, had.get(name, count) if had else count) for name, count in have.items() if not had or name in had}
        KNOWN.write_text(HEAD + "".join(f"{count:4} {name}\n" for name, count in sorted(lower.items())))
        return
    def what(name):
        if name in shared:
            return "rows in the tables"
        if name.startswith("callers:"):
            return "SAFETY comments of safe functions rest on their callers"
        return "places are unsafe, or reach C structures, outside the edge"

    bad = [f"{name}: {count} {what(name)}; {had.get(name, 0)} are known"
           for name, count in have.items() if count > had.get(name, 0)]
    bad += [f"{field}: rows with different contracts" for field, (_, differ) in shared.items() if differ]
    stale = [f"{name}: {count} are known, {have.get(name, 0)} are there (make fmt lowers the number)"
             for name, count in had.items() if have.get(name, 0) < count]
    for line in bad + stale:
        print(line)
    files = [count for name, count in have.items() if name not in shared and not name.startswith("callers:")]
    blame = [count for name, count in have.items() if name.startswith("callers:")]
    print(f"| unsafe places outside the edge | {sum(files)} in {len(files)} files |")
    print(f"| SAFETY comments of safe functions that rest on callers | {sum(blame)} in {len(blame)} files |")
    print(f"| fields of C structures with rows in several tables | {len(shared)} |")
    sys.exit(1 if bad or stale else selftest())


if __name__ == "__main__":
    main()
