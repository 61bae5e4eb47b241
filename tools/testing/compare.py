#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare two runs of the suite case by case.

    compare.py A B [SKIPPED...]

A and B are results of one kernel (build/NAME/KERNEL/results). Cases that did not end alike are
listed, as are tests in which a guest died: what they had shown until then still counts. What the
runner and report.py add if something is wrong counts as a case that fails, and its absence as one
that passes. SKIPPED are globs of tests that are left out. Exit status 1 when a case passes only on
A, or a test was run on one side only.
"""
import fnmatch
import pathlib
import sys

from report import DIED, read


def results(folder, left_out):
    """{test: {(case, which of that name): verdict}} of a folder, and the cases that are there only
    if they fail."""
    found, added = {}, set()
    for path in sorted(pathlib.Path(folder).glob("*.ktap")):
        # A boot is no test: how many there were depends on the deaths.
        if path.stem.startswith("boot-") or any(fnmatch.fnmatch(path.stem, glob) for glob in left_out):
            continue
        cases, seen = {}, {}
        for case in read(path)[0]:
            seen[case.name] = seen.get(case.name, 0) + 1
            cases[case.name, seen[case.name]] = case.verdict
            if not case.by_test:
                added.add((case.name, seen[case.name]))
        found[path.stem] = cases
    if not found:
        sys.exit(f"{folder} has no results: give build/NAME/KERNEL/results")
    return found, added


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    (a, added_a), (b, added_b) = (results(folder, sys.argv[3:]) for folder in sys.argv[1:3])
    added = added_a | added_b
    counts = dict.fromkeys(["alike", "only A passes", "only B passes", "otherwise"], 0)
    missing = a.keys() ^ b.keys()
    lines = []
    for test in sorted(a.keys() | b.keys()):
        if test not in a or test not in b:
            lines.append(f"{test}: not run on {'B' if test in a else 'A'}")
            continue
        for who, cases in (("A", a[test]), ("B", b[test])):
            for died in [case for case in cases if case[0].endswith(DIED)]:
                del cases[died]
                lines.append(f"{test}: died on {who}, after {len(cases)} cases")
        for case in sorted(a[test].keys() | b[test].keys()):
            absent = "ok" if case in added else None
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
    if missing:
        print(f"{len(missing)} tests were run on one side only: {', '.join(sorted(missing))}")
    sys.exit(1 if counts["only A passes"] or missing else 0)


main()
