#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare the symbols that a module's C file exports with the functions that Rust declares.

    exports.py           fail if the two lists of a module differ
    exports.py selftest

Rust declares a function for other modules by `export!`, or by `exported!` if it is written by
hand; both check its type against the kernel's headers. A variable is a `#[no_mangle]` static. Only
C can export them: EXPORT_SYMBOL in the module's exports.c. A symbol that is exported must be
declared in Rust or defined in that file, and what is declared must be exported.
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
        total += len(exported(text)[0])
        for line in differences(text, names):
            print(f"{file}: {line}")
            bad = 1
    print(f"| exported symbols | {total}, as declared |")
    return bad


sys.exit(main())
