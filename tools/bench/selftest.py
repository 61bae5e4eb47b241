#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Self-test of table.py: n/N, failed boots, stamps, ages, and the comparison of CI."""
import sys

sys.dont_write_bytecode = True
import table  # noqa: E402

ABOUT = "#tree|abc123\n#kernel|kernel-fast-1|7.2.12\n#date|2026-01-02\n"
EMPTY = "# P\n\n<!-- bench: begin -->\n<!-- bench: end -->\n\ntail\n"


def boots(c, rust):
    return "".join(f"#boot|icount|{which}|{v}\n" for which, vs in (("c", c), ("rust", rust)) for v in vs)


def rows(case, c, rust):
    return "".join(f"icount|{which}|{case}|{v}|us\n" for which, vs in (("c", c), ("rust", rust)) for v in vs)


def written(text, page=EMPTY):
    return table.write(table.Figures(text), page, "bench")


def refused(text):
    try:
        written(text)
    except SystemExit as end:
        return str(end)
    raise AssertionError("was not refused")


OK = ["ok"] * 3
whole = written(ABOUT + boots(OK, OK) + rows("a", [10, 20, 30], [5, 5, 5]))
assert "| a | us | 20 (±50 %) | 5 (±0 %) | 4.00x |" in whole, whole
assert ("Tree `abc123`, kernel `kernel-fast-1` (Linux 7.2.12), 2026-01-02; "
        "boots: 3 of 3 with C, 3 of 3 with Rust.") in whole, whole
assert whole.startswith("# P\n") and whole.endswith("<!-- bench: end -->\n\ntail\n")

# Less is better in milliseconds, too; rates are the other way round.
for unit, ratio in ("ms", "4.00x"), ("MiB/s", "0.25x"):
    text = written((ABOUT + boots(OK, OK) + rows("a", [20] * 3, [5] * 3)).replace("|us", "|" + unit))
    assert f"| a | {unit} | 20 (±0 %) | 5 (±0 %) | {ratio} |" in text, text

# A failed run, a row that one boot did not give, a boot that failed, a stack that never ended well.
text = written(ABOUT + boots(OK, OK) + rows("a", [10, "failed", 30], [5, 5]))
assert "| a | us | 20 (±50 %), 2/3 | 5 (±0 %), 2/3 | 4.00x |" in text, text
text = written(ABOUT + boots(["ok", "failed", "ok"], ["failed"] * 3) + rows("a", [10, 10], []))
assert "| a | us | 10 (±0 %), 2/3 | failed, 0/3 | - |" in text, text
assert "boots: 2 of 3 with C, 0 of 3 with Rust." in text, text

# A row that no boot gave any more stays, as failed; the other mode's table stays as it was.
text = written(ABOUT + boots(OK, OK) + rows("b", [1, 1, 1], [1, 1, 1]), whole)
assert "| a | us | failed, 0/3 | failed, 0/3 | - |" in text and "| b | us | 1 (±0 %)" in text, text
text = written((ABOUT + boots(OK, OK) + rows("a", [1, 1, 1], [1, 1, 1])).replace("icount|", "wall|"), whole)
assert "20 (±50 %)" in text and "### Wall clock" in text, text

assert "no boot gave" in refused(ABOUT + boots(["failed"], ["failed"]))
assert "no boot is recorded" in refused(ABOUT)
assert "do not name their tree" in refused(boots(OK, OK) + rows("a", [1], [1]))
assert "bad line" in refused(ABOUT + "nonsense\n")

# Ages.
KEY = f"abc123 {table.EVERYTHING}"


def complaints(page, age):
    return [line for bad, line in table.check(page, {KEY: age} if age else {}) if bad]


assert [table.key(t, s) for s, _, t in table.tables(whole)] == [KEY]
assert not complaints(whole, "same") and not complaints(whole, "unknown") and not complaints(whole, None)
assert "is older than the code and does not say so" in complaints(whole, "older")[0]
marked = table.mark(whole, {KEY: "older"})
assert "**Older than the code:**" in marked and not complaints(marked, "older")
assert table.mark(marked, {KEY: "older"}) == marked
assert "and is not" in complaints(marked, "same")[0]
assert table.mark(marked, {KEY: "same"}) == whole
assert table.mark(marked, {KEY: "unknown"}) == marked
assert "does not name" in complaints(whole.replace("Tree `", "From `"), "same")[0]

# The comparison of CI: 5 % of 5 us is the bound, and the least of the runs counts.
def verdicts(kernel, *values, case="a"):
    runs = [table.Figures(rows("a", [], [v])) for v in values]
    return [row[0] for row in table.compare(whole, kernel, runs, [case])]


assert verdicts("kernel-fast-1", 5.24) == ["good"] and verdicts("kernel-fast-1", 5.26) == ["rise"]
assert verdicts("kernel-fast-1", 5.5, 5.1) == ["good"] and verdicts("kernel-fast-1", 5.5, 5.6) == ["rise"]
assert verdicts("kernel-fast-2", 50) == ["report"]
assert verdicts("kernel-fast-1", "failed") == ["missing"] and verdicts("kernel-fast-1") == ["missing"]
assert verdicts("kernel-fast-1", 5, case="core: a") == ["report"]
assert verdicts("kernel-fast-2") == ["report"]
print("table.py: self-test passed")
