#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""clippy.py BUILD: the kernel's clippy rules over our kernel crates, and four more.

Runs in the builder root. BUILD is a folder that tools/modules.sh has filled: the flags are those
of its modules, and only metadata is made. The four are arithmetic that may overflow, indexing
that may panic, casts that may truncate and, in pure code (folders `proto`), match arms `_ =>` over
the variants of an enum, which a new variant would pass unseen. Each place where one of them is meant
has a comment that says why it is right, on the same line or at most four lines above: `// OVERFLOW:`,
`// INDEX:`, `// CAST:`, `// OTHERS:`, or more than one (`// CAST, OVERFLOW:`). Anything else that clippy
finds is an error.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

from rustc_command import command

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CRATES = ["rust/lib", "core/main", "umad/main", "iwcm/main", "uverbs/support/main", "uverbs/main", "hw/rxe/main", "samples/softpair/main", "samples/echo/main", "tools/testing/ulp_check/main", "cm/main", "cma/main", "ucma/main"]
MARKS = {
    "clippy::arithmetic_side_effects": "OVERFLOW",
    "clippy::indexing_slicing": "INDEX",
    "clippy::cast_possible_truncation": "CAST",
    "clippy::wildcard_enum_match_arm": "OTHERS",
}
# Lints that hold in some folders only.
FOLDERS = {"clippy::wildcard_enum_match_arm": "/proto/"}
REACH = 4
# What the kernel's own .clippy.toml has; and circular numbers, whose operators wrap
# (rust/wire/psn.rs).
CONFIG = """msrv = "1.85.0"
check-private-items = true
disallowed-methods = [
    { path = "core::ffi::CStr::as_ptr", replacement = "kernel::prelude::CStrExt::as_char_ptr" },
    { path = "core::ffi::CStr::from_ptr", replacement = "kernel::prelude::CStrExt::from_char_ptr" },
]
arithmetic-side-effects-allowed = ["rdma::wire::Psn", "rdma::wire::Msn"]
"""
PLANTED = """#![no_std]
//! Planted: each function has a fault, the last one with its reason.
/// Overflows.
pub fn sum(a: u8, b: u8) -> u8 {
    a + b
}
/// Panics.
pub fn first(a: &[u8]) -> u8 {
    a[0]
}
/// Truncates.
pub fn low(a: u32) -> u8 {
    a as u8
}
/// Passes over a new variant.
pub fn weight(a: core::cmp::Ordering) -> u8 {
    match a {
        core::cmp::Ordering::Less => 1,
        _ => 2,
    }
}





/// Is right.
pub fn counted(a: u32) -> u8 {
    // CAST: the low byte is meant.
    a as u8
}
"""


def findings(build, target, root, out):
    """What clippy says of a crate: (file, line, lint, text). Leaves its metadata in `out`."""
    env, words = command(build, target)
    env = {**os.environ, **env, "RUSTC_BOOTSTRAP": "1", "CLIPPY_CONF_DIR": out,
           "RDMA_BINDINGS": f"{build}/rust/bindings_generated.rs",
           "RDMA_PRIVATE": f"{build}/core/private_generated.rs"}
    words = [f"rdma={out}/librdma.rmeta" if word == "rdma" else word for word in words]
    words[0] = "clippy-driver"
    name = "rdma" if target == "rust/lib" else "linted"
    words += ["--crate-name", name, *(f"-W{lint}" for lint in MARKS), "--error-format=json",
              f"--emit=metadata={out}/lib{name}.rmeta", root]
    done = subprocess.run(words, env=env, cwd=build, capture_output=True, text=True, check=False)
    found = []
    for line in done.stderr.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        for span in message["spans"]:
            if span["is_primary"]:
                while span["expansion"] and not inside(build, span["file_name"]):
                    span = span["expansion"]["span"]
                path = os.path.realpath(os.path.join(build, span["file_name"]))
                lint = (message["code"] or {}).get("code", message["level"])
                found.append((path, span["line_start"], lint, message["message"]))
    if done.returncode:
        sys.exit(f"{target} does not compile; were the modules built from these sources?\n"
                 + "".join(json.loads(line)["rendered"] for line in done.stderr.splitlines()
                           if line.startswith("{") and '"level":"error"' in line))
    return found


def inside(build, path):
    """Whether a file is one of this tree's."""
    return os.path.realpath(os.path.join(build, path)).startswith(TOP)


def is_meant(path, line, lint):
    """Whether the source says why."""
    mark = MARKS.get(lint)
    if mark is None:
        return False
    with open(path, encoding="utf-8") as file:
        near = file.read().splitlines()[max(0, line - 1 - REACH):line]
    return any(re.search(rf"//.*\b{mark}(, [A-Z]+)*:", text) for text in near)


def judge(found, build):
    """How many findings are meant, and those that are not. What a build makes does not count."""
    ours = {one for one in found
            if not one[0].startswith(build + os.sep) and FOLDERS.get(one[2], "") in one[0]}
    bad = sorted(one for one in ours if not is_meant(*one[:3]))
    return len(ours) - len(bad), bad


def selftest(build, out):
    """Whether the planted faults are found, and only they."""
    path = os.path.join(out, "proto/planted.rs")
    os.mkdir(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(PLANTED)
    meant, bad = judge(findings(build, "samples/softpair/main", path, out), build)
    lints = [lint for _, _, lint, _ in bad]
    if sorted(lints) != sorted(MARKS) or meant != 1:
        sys.exit(f"the planted faults are not found: {lints}")


def main():
    build = os.path.realpath(sys.argv[1])
    bad = []
    meant = 0
    with tempfile.TemporaryDirectory() as out:
        with open(os.path.join(out, "clippy.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        for target in CRATES:
            root = os.path.join(TOP, target + ".rs")
            right, wrong = judge(findings(build, target, root, out), build)
            meant += right
            bad += wrong
        selftest(build, out)
    for path, line, lint, text in bad:
        mark = f" (or say why: `// {MARKS[lint]}: ...`)" if lint in MARKS else ""
        print(f"{os.path.relpath(path, TOP)}:{line}: {lint}: {text}{mark}")
    print(f"| arithmetic, indexing, casts and match arms that clippy doubts | {meant}, each with its reason |")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
