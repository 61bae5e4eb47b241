#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Per-symbol tables of the counts that plugin.c made: table.py FOLDER SYMBOLS."""
import bisect
import collections
import pathlib
import re
import sys


def symbols(path):
    found = []
    for line in path.read_text().splitlines():
        address, kind, name, *module = line.split()
        if kind in "tTwW":
            found.append((int(address, 16), name, module[0].strip("[]") if module else "kernel"))
    return sorted(found)


def counts(path):
    """(address, instructions, locked) -> executions"""
    found = collections.Counter()
    for line in path.read_text().splitlines():
        address, instructions, locked, count = line.split()
        at = -1 if address == "user" else int(address, 16)
        found[at, int(instructions), int(locked)] += int(count)
    return found


def plain(symbol):
    """The last names in a mangled symbol of Rust, which is enough to find it."""
    if not symbol.startswith("_R"):
        return symbol
    names, at = [], 2
    # Disambiguators, back references, and what has a length.
    parts = re.compile(r"(s[0-9a-zA-Z]*_(?=\d))|(B[0-9a-zA-Z]*_)|(\d+)_?")
    while at < len(symbol):
        match = parts.match(symbol, at)
        if not match:
            at += 1
            continue
        at = match.end()
        if match[3]:
            names.append(symbol[at:at + int(match[3])])
            at += int(match[3])
    names = [name for name in names if name not in ("main", "kernel", "rdma", "core", "rdma_rxe")]
    return "::".join(dict.fromkeys(names)) if names else symbol


def compare(name, short, long, times, known, top):
    addresses = [address for address, _, _ in known]
    total, locked, calls, module = (collections.Counter() for _ in range(4))
    of = {}
    for key in set(short) | set(long):
        address, instructions, locks = key
        count = (long[key] - short[key]) / times
        if address < 0:
            symbol, of["(programs)"] = "(programs)", "user"
        else:
            start, symbol, of_symbol = known[bisect.bisect_right(addresses, address) - 1]
            of[symbol] = of_symbol
            if start == address:
                calls[symbol] += count
        total[symbol] += count * instructions
        locked[symbol] += count * locks
        module[of[symbol]] += count * instructions
    idle = sum(v for s, v in total.items() if "idle" in s and "halt" in s)
    crc = sum(v for s, v in calls.items() if s.startswith("crc32_le") and not s.endswith("base"))
    print(f"\n== {name}: {sum(total.values()) - idle:.0f} instructions, {sum(locked.values()):.1f} locked operations, {crc:.2f} CRC calls")
    print("   " + ", ".join(f"{m} {v:.0f}" for m, v in module.most_common(8)))
    print("   locked: " + ", ".join(f"{plain(s)} {v:.1f}" for s, v in locked.most_common(12) if v >= 0.05))
    for symbol, value in total.most_common(top):
        print(f"   {value:9.1f} in {calls[symbol]:6.2f} calls  {plain(symbol)[:100]} [{of[symbol]}]")


def main():
    folder, top = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    runs = [line.split("|")[1:3] for line in (folder / "guest/share1/output").read_text().splitlines() if line.startswith("P|")]
    known = symbols(folder / "guest/share1/symbols")
    if any(count == "failed" for _, count in runs):
        sys.exit("a run failed: see guest/share1/output")
    for at in range(0, len(runs) - 1, 2):
        (name, few), (_, many) = runs[at], runs[at + 1]
        short, long = (counts(folder / f"count.{k}") for k in (at, at + 1))
        compare(name, short, long, int(many) - int(few), known, top)


main()
