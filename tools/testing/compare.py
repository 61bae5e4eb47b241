#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare two runs of the suite case by case.

    compare.py A B [SKIPPED...]

A and B are results of one kernel (build/NAME/KERNEL/results). Cases that did not end alike are
listed, as are tests in which a guest died: what they had shown until then still counts. A report
of the kernel's counts as a case that fails, and its absence as one that passes. SKIPPED are globs of
tests that are left out. Exit status 1 when a case passes only on A.
"""
import fnmatch
import pathlib
import sys

from report import read

DIED = "the guest died or hung in this test"
# Cases that are there only if they fail.
REPORTS = ("kernel log", "kmemleak")


def results(folder, left_out):
    """{test: {(case, which of that name): verdict}} of a folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.ktap")):
        if any(fnmatch.fnmatch(path.stem, glob) for glob in left_out):
            continue
        cases, seen = {}, {}
        for verdict, name, _ in read(path)[0]:
            seen[name] = seen.get(name, 0) + 1
            cases[name, seen[name]] = verdict
        found[path.stem] = cases
    if not found:
        sys.exit(f"{folder} has no results: give build/NAME/KERNEL/results")
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    a, b = (results(folder, sys.argv[3:]) for folder in sys.argv[1:3])
    counts = dict.fromkeys(["alike", "only A passes", "only B passes", "otherwise"], 0)
    lines = []
    for test in sorted(a.keys() | b.keys()):
        if test not in a or test not in b:
            lines.append(f"{test}: not run on {'B' if test in a else 'A'}")
            continue
        for who, cases in (("A", a[test]), ("B", b[test])):
            if cases.pop((DIED, 1), None):
                lines.append(f"{test}: died on {who}, after {len(cases)} cases")
        for case in sorted(a[test].keys() | b[test].keys()):
            absent = "ok" if case[0] in REPORTS else None
            one, other = a[test].get(case, absent), b[test].get(case, absent)
            name = case[0] if case[1] == 1 else f"{case[0]}, {case[1]}"
            if one == other:
                kind = "alike"
            elif one == "ok":
                kind = "only A passes"
            elif other == "ok":
                kind = "only B passes"
            else:
                kind = "otherwise"
            counts[kind] += 1
            if kind != "alike":
                lines.append(f"{test}: {name}: {one or 'not there'} on A, {other or 'not there'} on B")
    print("\n".join(lines))
    common = a.keys() & b.keys()
    failed = sum(a[test][case] == "not ok" == b[test].get(case) for test in common for case in a[test])
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f"; {failed} of those alike fail")
    sys.exit(1 if counts["only A passes"] else 0)


main()
