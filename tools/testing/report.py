#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Read the KTAP files of a test run, print the table and the closing line.

    report.py DIR STACK

DIR/<kernel or host>/results/*.ktap are the inputs. With a STACK that leaves the C
driver in place, what peer-failures.txt names is its known failure: shown, not counted
as ours.
Exit status 1 when a case failed or none passed.
"""
import fnmatch
import pathlib
import re
import sys

LINE = re.compile(r"^(ok|not ok)(?: \d+)?(?: -)? ?(.*)$")


def peer_failures():
    table = []
    path = pathlib.Path(__file__).with_name("peer-failures.txt")
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            test, case, reason = (part.strip() for part in line.split("|"))
            table.append((test, case, reason))
    return table


def read(path):
    """The cases of one file: (result, name, reason or diagnostics), and seconds."""
    cases, diagnostics, seconds = [], [], None
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("#"):
            if line.startswith("# seconds "):
                seconds = int(line.split()[2])
            else:
                diagnostics.append(line)
            continue
        match = LINE.match(line)
        if not match:
            continue
        verdict, rest = match.groups()
        name, _, directive = rest.partition(" # SKIP")
        if verdict == "ok" and directive:
            cases.append(("skip", name, directive.strip() or "no reason given"))
        else:
            cases.append((verdict, name, list(diagnostics)))
        diagnostics = []
    return cases, seconds


def main():
    top, stack = pathlib.Path(sys.argv[1]), sys.argv[2]
    ours = stack == "rust" or "rdma_rxe" in stack.split(",")
    known = [] if ours else peer_failures()
    total = {"ok": 0, "not ok": 0, "skip": 0, "peer fails": 0}
    rows, details = [], []
    for path in sorted(top.glob("*/results/*.ktap")):
        where, test = path.parts[-3], path.stem
        count = dict.fromkeys(total, 0)
        cases, seconds = read(path)
        if not cases:
            cases = [("not ok", "the test printed no result", [])]
        for verdict, name, info in cases:
            if verdict == "not ok":
                for k_test, k_case, reason in known:
                    if fnmatch.fnmatch(test, k_test) and fnmatch.fnmatch(name, k_case):
                        verdict, info = "peer fails", reason
                        break
            count[verdict] += 1
            if verdict == "not ok":
                details.append(f"failed: {where}/{test}: {name}")
                details.extend("    " + line for line in info[-25:])
            elif verdict != "ok":
                label = "skipped" if verdict == "skip" else "peer fails"
                details.append(f"{label}: {where}/{test}: {name}: {info}")
        for verdict in total:
            total[verdict] += count[verdict]
        rows.append((where, test, *count.values(), "" if seconds is None else seconds))
    for path in sorted(top.glob("*/first/*.ktap")):
        for verdict, name, info in read(path)[0]:
            if verdict == "not ok":
                details.append(f"failed at the first try (AGAIN=1): {path.parts[-3]}/{path.stem}: {name}")
                details.extend("    " + line for line in info[-25:])
    head = ("where", "test", "passed", "failed", "skipped", "peer fails", "seconds")
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    for r in [head, *rows]:
        print("  ".join(f"{str(c):<{w}}" if i < 2 else f"{str(c):>{w}}" for i, (c, w) in enumerate(zip(r, widths))))
    print("\n".join(["", *details]) if details else "")
    if total["peer fails"]:
        print(f"{total['peer fails']} of the skipped are known failures of the C stack (tools/testing/peer-failures.txt)")
    skipped = total["skip"] + total["peer fails"]
    print(f"{total['ok']} passed, {total['not ok']} failed, {skipped} skipped")
    sys.exit(1 if total["not ok"] or not total["ok"] else 0)


if __name__ == "__main__":
    main()
