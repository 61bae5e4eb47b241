#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn bench figures into a table, and put it between the markers of a document.

    table.py FIGURES DOCUMENT [SECTION]

FIGURES has lines "mode|c or rust|case|value|unit". The markers are those of SECTION,
"bench" if it is not said; what it says of modes that were not measured stays. A ratio above 1
means that ours is better: more per second, or less time.
"""
import collections
import pathlib
import statistics
import sys

TITLES = {"icount": "Instructions (one CPU, one instruction is one nanosecond of the guest)",
          "wall": "Wall clock (two CPUs, emulated)"}


def show(values):
    if not values:
        return "failed", None
    middle = statistics.median(values)
    spread = (max(values) - min(values)) / middle * 100 if middle else 0
    noise = f" (±{spread / 2:.0f} %)" if len(values) > 1 else ""
    return f"{middle:.4g}{noise}", middle


def table(rows):
    units, data, order = {}, collections.defaultdict(list), []
    for which, case, value, unit in rows:
        units[case] = unit
        if case not in order:
            order.append(case)
        if value != "failed":
            data[case, which].append(float(value))
    yield "| case | unit | C | Rust | Rust against C |"
    yield "|---|---|---|---|---|"
    for case in order:
        c_text, c = show(data[case, "c"])
        r_text, r = show(data[case, "rust"])
        ratio = "-"
        if c and r:
            ratio = f"{(c / r if units[case] == 'us' else r / c):.2f}x"
        yield f"| {case} | {units[case]} | {c_text} | {r_text} | {ratio} |"


def main():
    figures, document = (pathlib.Path(a) for a in sys.argv[1:3])
    section = sys.argv[3] if len(sys.argv) > 3 else "bench"
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    by_mode = collections.defaultdict(list)
    for line in figures.read_text().splitlines():
        mode, *row = line.split("|")
        by_mode[mode].append(row)
    old = document.read_text() if document.exists() else f"# Performance\n\n{begin}\n{end}\n"
    if begin not in old or end not in old:
        old += f"\n{begin}\n{end}\n"
    head, rest = old.split(begin, 1)
    before, rest = rest.split(end, 1)
    tables = {mode: "\n".join(table(rows)) for mode, rows in by_mode.items()}
    # The other sections have one mode, as a rule, and a text of their own above them.
    if section == "bench" or len(tables) > 1:
        kept = dict(part.split("\n", 1) for part in before.split("### ")[1:])
        new = {TITLES.get(mode, mode): lines for mode, lines in tables.items()}
        parts = [f"### {title}\n\n{lines.strip()}" for title, lines in {**kept, **new}.items()]
    else:
        parts = list(tables.values())
    print("\n\n".join(parts))
    document.write_text(head + "\n\n".join([begin, *parts, end]) + rest)


main()
