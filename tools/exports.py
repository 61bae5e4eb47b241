#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare the symbols that a module's C file exports with the functions that Rust declares.

    exports.py           fail if the two lists of a module differ, or if a module calls what it
                         exports itself
    exports.py selftest

Rust declares a function for other modules by `export!`, or by `exported!` if it is written by
hand; both check its type against the kernel's headers. A variable is a `#[no_mangle]` static. Only
C can export them: EXPORT_SYMBOL in the module's exports.c. A symbol that is exported must be
declared in Rust or defined in that file, and what is declared must be exported.

A module calls its own functions in Rust, where the compiler checks the arguments, and not by the
bindings of what it exports. (The crate `rdma` does: its wrappers are for other modules.)
"""
import importlib.util
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# The C file of a module, and the folders of its Rust sources.
MODULES = {
    "cm/exports.c": ["cm"],
    "core/exports.c": ["core", "mad", "rw", "umem"],
    "uverbs/exports.c": ["uverbs"],
    "uverbs/support/exports.c": ["uverbs/support"],
    "iwcm/exports.c": ["iwcm"],
    "cma/exports.c": ["cma"],
}
# Declared in the kernel's headers, but not exported by the C module either.
INTERNAL = {"rdma_find_gid_by_filter"}
EXPORT = re.compile(r"\bEXPORT_SYMBOL(?:_GPL|_NS|_NS_GPL)?\(\s*(\w+)")
TABLE = re.compile(r"\bexport!\s*\{")
FUNCTION = re.compile(r"\bfn\s+(\w+)\s*(?:<[^>]*>)?\s*\(")
BY_HAND = re.compile(r"\bexported!\s*[({]([^)}]*)[)}]")
STATIC = re.compile(r"#\[no_mangle\]\s*(?:#\[[^\]]*\]\s*)*pub(?:\([^)]*\))?\s+static\s+(\w+)\s*:")
# What a source takes from the bindings, and the C functions of its tables of imports.
BOUND = re.compile(r"\b(?:bindings|private)\s*::\s*(\w+)")
IMPORTS = re.compile(r"\b(?:import!|extern\s*\"\")\s*\{")
IMPORTED = re.compile(r"=\s*(\w+)\s*;|\bfn\s+(\w+)[^;{}=]*;")
# Names of exported functions that are also names of structures.
STRUCTURES = {"ib_wq"}
# Comments, and definitions of macros with their continuation lines.
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.M)


def unsafe_py():
    """The module tools/unsafe.py, which knows comments and strings of Rust."""
    spec = importlib.util.spec_from_file_location("unsafe_count", TOP / "tools/unsafe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared(text, rust):
    """The symbols that a Rust source declares for other modules."""
    code = rust.strip(text)
    names = set(STATIC.findall(code))
    for found in TABLE.finditer(code):
        names |= set(FUNCTION.findall(rust.body(code, found.end())))
    for found in BY_HAND.finditer(code):
        names |= set(re.findall(r"\w+", found[1]))
    return names


def exported(text):
    """The symbols that a C source exports, and those among them that it defines."""
    code = C_COMMENT.sub(" ", text)
    names = set(EXPORT.findall(code))
    rest = EXPORT.sub(" ", code)
    defined = {name for name in names
               if re.search(rf"^[a-z][\w \t*]*?\b{name}\b\s*(?:[;=\[]|\([^;]*?\)\s*\{{)", rest, re.M)}
    return names, defined


def differences(c_text, rust_names):
    names, defined = exported(c_text)
    return ([f"{name} is exported, but not declared in Rust" for name in sorted(names - defined - rust_names)]
            + [f"{name} is declared in Rust, but not exported" for name in sorted(rust_names - names - INTERNAL)])


def through_c(text, names, rust):
    """The symbols among `names` that a Rust source takes from C."""
    code = rust.strip(text)
    taken = set(BOUND.findall(code))
    for found in IMPORTS.finditer(code):
        for row in IMPORTED.findall(rust.body(code, found.end())):
            taken |= set(row)
    return sorted(taken & names - STRUCTURES)


def selftest(rust):
    c_text = """/* EXPORT_SYMBOL(no) */
#define EXPORTED(name) void name(void) { } \\
	EXPORT_SYMBOL(name)
bool flag = true;
EXPORT_SYMBOL(flag);
int two(int a,
        int b)
{ return a; }
EXPORT_SYMBOL_GPL(two);
EXPORT_SYMBOL(one);
"""
    names = declared("// export! { fn no(); }\nrdma::export! { in rdma::bindings;\n    fn one<'a>(a: &'a X) -> Result = f;\n}\n", rust)
    static = "#[no_mangle]\npub(crate) static three: u8 = 0;\n"
    good = [names == {"one"}, declared(static, rust) == {"three"}, not differences(c_text, names), declared("rdma::exported!(a, b);", rust) == {"a", "b"},
            len(differences(c_text, set())) == 1, len(differences(c_text, {"one", "three"})) == 1]
    own = {"one", "two", "three", "four"}
    calls = """fn f() { unsafe { bindings::one(1) } } // bindings::two
use rdma::bindings::two;
rdma::import! { in rdma::bindings; fn g(a: u8) -> u8 = three; }
extern "C" { fn four(a: u8); }
"""
    good.append(through_c(calls, own, rust) == ["four", "one", "three", "two"])
    good.append(not through_c("rdma::export! { in rdma::bindings; fn one(a: u8) = two; }\nextern \"C\" fn three(a: u8) {}\none();", own, rust))
    if not all(good):
        print(f"the self-test fails: {good}")
        return 1
    return 0


def owner(path):
    """The C file of the module whose folder a source is in, if any."""
    folders = [file for file in MODULES if (TOP / file).parent in path.parents]
    return max(folders, key=len, default=None)


def main():
    rust = unsafe_py()
    if sys.argv[1:] == ["selftest"]:
        return selftest(rust)
    bad, total = selftest(rust), 0
    for file, folders in MODULES.items():
        text = (TOP / file).read_text()
        sources = [p for folder in folders for p in sorted((TOP / folder).rglob("*.rs"))
                   if owner(p) in (None, file)]
        names = set().union(*(declared(p.read_text(), rust) for p in sources))
        own, _ = exported(text)
        total += len(own)
        calls = [f"{p.relative_to(TOP)} takes {name} from C, which this module exports itself"
                 for p in sources for name in through_c(p.read_text(), own, rust)]
        for line in differences(text, names) + calls:
            print(f"{file}: {line}")
            bad = 1
    print(f"| exported symbols | {total}, as declared |")
    return bad


sys.exit(main())
