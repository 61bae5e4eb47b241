#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn bench figures into a table, and put it between the markers of a document.

    table.py FIGURES DOCUMENT

FIGURES has lines "mode|c or rust|case|value|unit". A ratio above 1 means that ours
is better: more per second, or less time.
"""
import collections
import pathlib
import statistics
import sys

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
TITLES = {"icount": "Instructions (one CPU, one instruction is one nanosecond of the guest)",
          "wall": "Wall clock (two CPUs, emulated)"}


def show(values):
    if not values:
        return "-", None
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
    figures, document = (pathlib.Path(a) for a in sys.argv[1:])
    by_mode = collections.defaultdict(list)
    for line in figures.read_text().splitlines():
        mode, *row = line.split("|")
        by_mode[mode].append(row)
    text = [BEGIN, ""]
    for mode, rows in by_mode.items():
        text += [f"### {TITLES.get(mode, mode)}", "", *table(rows), ""]
    text.append(END)
    print("\n".join(text[1:-1]))
    old = document.read_text() if document.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    if BEGIN not in old or END not in old:
        old += f"\n{BEGIN}\n{END}\n"
    head, rest = old.split(BEGIN, 1)
    document.write_text(head + "\n".join(text) + rest.split(END, 1)[1])


main()
