#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check the dependencies between the modules of ib_core.

    knots.py         fail on modules that depend on each other in a circle, or on an import by
                     `device` of a module that is built on it
    knots.py list    print every dependency, with its first line

The modules are those that core/main.rs declares (`mod x;`, with `#[path]` where the folder is
elsewhere). A module depends on another if its code says `crate::OTHER` or, in the module's
root file, `super::OTHER`. Comments and strings do not count.

core/edge/ is left out: it holds tables of C structures, which refer to each other as they do in
C.

`device` may name only LEAVES. What it asks of others goes through the trait `device::Hooks`,
which core/life.rs implements; so nothing but main.rs may name `life`.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
MAIN = TOP / "core/main.rs"

# Modules with no state and no dependencies: bindings, numbers, pure engines.
LEAVES = {"proto", "private", "edge"}

NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?c?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.DOTALL)
MOD = re.compile(
    r'^(?:#\[path\s*=\s*"(?P<path>[^"]+)"\]\s*)?(?:pub(?:\([^)]*\))?\s+)?mod (?P<name>\w+);',
    re.MULTILINE)
USE = re.compile(r"\bcrate\s*::\s*(\w+)")
# `use crate::{a, b::c}` is not the style of this tree, but it would be missed.
GROUP = re.compile(r"\bcrate\s*::\s*\{")


def modules():
    """Each module's files, its root first."""
    found = {}
    for match in MOD.finditer(MAIN.read_text()):
        name, path = match["name"], match["path"]
        root = (MAIN.parent / (path or f"{name}.rs")).resolve()
        if not root.exists():
            root = MAIN.parent / name / "mod.rs"
        folder = root.parent if root.name == "mod.rs" else root.with_suffix("")
        rest = sorted(folder.rglob("*.rs")) if folder.is_dir() else []
        found[name] = [root] + [file for file in rest if file != root]
    # The folder of one module within that of another is the inner one's.
    for name, files in found.items():
        inner = [other[0].parent for key, other in found.items()
                 if key != name and other[0].name == "mod.rs"]
        found[name] = [file for file in files
                       if file == files[0] or not any(d in file.parents for d in inner
                                                      if files[0].parent in d.parents)]
    return found


def dependencies(found):
    """(module, other) -> "file:line: text" of the first mention."""
    edges = {}
    bad = []
    for name, files in found.items():
        for file in files:
            if file.is_relative_to(TOP / "core/edge"):
                continue
            text = file.read_text()
            code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
            lines = text.splitlines()
            patterns = [USE]
            if file == files[0]:
                patterns.append(re.compile(r"(?<!::)\bsuper\s*::\s*(\w+)"))
            for pattern in patterns:
                for match in pattern.finditer(code):
                    other = match[1]
                    if other == name or other not in found:
                        continue
                    line = code.count("\n", 0, match.start())
                    place = f"{file.relative_to(TOP)}:{line + 1}: {lines[line].strip()}"
                    edges.setdefault((name, other), place)
            for match in GROUP.finditer(code):
                line = code.count("\n", 0, match.start())
                bad.append(f"{file.relative_to(TOP)}:{line + 1}: one import a line")
    return edges, bad


def cycle(edges, start):
    """The shortest way from a module back to itself, or None."""
    ways = [[start]]
    seen = set()
    while ways:
        way = ways.pop(0)
        for name, other in sorted(edges):
            if name != way[-1]:
                continue
            if other == start:
                return way + [other]
            if other not in seen:
                seen.add(other)
                ways.append(way + [other])
    return None


def main():
    found = modules()
    edges, bad = dependencies(found)
    if sys.argv[1:] == ["list"]:
        for (name, other), place in sorted(edges.items()):
            print(f"{name} -> {other}: {place}")
        return 0
    for (name, other), place in sorted(edges.items()):
        if name == "device" and other not in LEAVES:
            bad.append(f"device names {other}, which is built on it: {place}")
        if other == "life":
            bad.append(f"{name} names life, which is above all others: {place}")
        if name in LEAVES and other not in LEAVES:
            bad.append(f"{name} is to have no dependencies: {place}")
    for name in sorted(found):
        way = cycle(edges, name)
        # Told once, by the first of those in it.
        if way and name == min(way):
            bad.append("modules depend on each other in a circle:\n" + "\n".join(
                f"    {edges[step]}" for step in zip(way, way[1:])))
    for line in bad:
        print(line)
    if not bad:
        print(f"| knots | {len(found)} modules, {len(edges)} dependencies, "
              "no circle |")
    return 1 if bad else 0


sys.exit(main())
