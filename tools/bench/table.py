#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn bench figures into tables of a document, and say which tables are older than the code.

    table.py write FIGURES DOCUMENT SECTION    put the tables of FIGURES between SECTION's markers
    table.py trees DOCUMENT                    print "TREE PATH..." for each table, for ages.sh
    table.py mark DOCUMENT AGES                write or remove the lines "older than the code"
    table.py check DOCUMENT AGES               fail if a table lacks its stamp or that line
    table.py compare DOCUMENT KERNEL FIGURES... CASE...   instructions against the recorded tables

FIGURES has lines "mode|c or rust|case|value|unit" of boots that ended well, and

    #tree|COMMIT, with -dirty     #kernel|NAME|VERSION     #date|YYYY-MM-DD
    #boot|mode|c or rust|ok or failed                      one for each boot

AGES has lines "TREE PATH...|same, older or unknown". A ratio above 1 means that ours is better:
more per second, or less time. "n/N" behind a figure: only n of N boots gave it.
"""
import collections
import pathlib
import re
import statistics
import sys

TITLES = {"icount": "Instructions (one CPU, one instruction is one nanosecond of the guest)",
          "wall": "Wall clock (two CPUs, emulated)"}
SECTIONS = ("bench", "gro", "ud", "netem", "fair", "core", "uverbs", "cm", "tcp", "ulp")
EVERYTHING = "hw/rxe core mad umem rust"
PATHS = {"core": "core mad umem rust", "uverbs": "uverbs rust", "cm": "cm iwcm cma ucma rust"}
# Less is better. The other units are rates.
LESS = ("us", "ms", "KiB")
HEADER = "| case | unit | C | Rust | Rust against C |\n|---|---|---|---|---|"
STAMP = re.compile(r"^Tree `([^`]+)`, kernel `([^`]+)` \(([^)]*)\), (\S+); boots: .*\.$", re.M)
OLDER = "**Older than the code:** commits after this tree changed `{}`."
RISE = 5  # per cent


class Figures:
    def __init__(self, text):
        self.about, self.rows = {}, collections.defaultdict(list)
        self.boots = collections.defaultdict(lambda: collections.defaultdict(list))
        for line in text.splitlines():
            kind, *rest = line.split("|")
            if kind == "#boot":
                mode, which, verdict = rest
                self.boots[mode][which].append(verdict)
            elif kind.startswith("#"):
                self.about[kind[1:]] = rest
            elif len(rest) == 4:
                self.rows[kind].append(rest)
            else:
                sys.exit(f"error: bad line of figures: {line!r}; measure again")

    def stamp(self, mode):
        for name in ("tree", "kernel", "date"):
            if name not in self.about:
                sys.exit(f"error: the figures do not name their {name}; measure again")
        kernel, version = self.about["kernel"]
        boots = [f"{sum(v == 'ok' for v in verdicts)} of {len(verdicts)} with {name}"
                 for name, verdicts in (("C", self.boots[mode]["c"]), ("Rust", self.boots[mode]["rust"])) if verdicts]
        return (f"Tree `{self.about['tree'][0]}`, kernel `{kernel}` (Linux {version}), "
                f"{self.about['date'][0]}; boots: {', '.join(boots)}.")


def show(values, boots):
    """A cell's text, and the median. BOOTS is how many boots should have given a value."""
    count = "" if len(values) == boots else f", {len(values)}/{boots}"
    if not values:
        return f"failed{count or ', 0/0'}", None
    middle = statistics.median(values)
    spread = (max(values) - min(values)) / middle * 100 if middle else 0
    noise = f" (±{spread / 2:.0f} %)" if len(values) > 1 else ""
    return f"{middle:.4g}{noise}{count}", middle


def cells(text):
    """The rows of a table: lists of five texts."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows[2:] if len(row) == 5]


def table(figures, mode, before=""):
    """The table of one mode. A case of the table BEFORE that no boot gave is a failed one."""
    units, data = {}, collections.defaultdict(list)
    for case, unit, *_ in cells(before):
        units[case] = unit
    order = []
    for which, case, value, unit in figures.rows[mode]:
        units[case] = unit
        if case not in order:
            order.append(case)
        if value != "failed":
            data[case, which].append(float(value))
    yield HEADER
    for case in order + [case for case in units if case not in order]:
        c_text, c = show(data[case, "c"], len(figures.boots[mode]["c"]))
        r_text, r = show(data[case, "rust"], len(figures.boots[mode]["rust"]))
        ratio = "-"
        if c and r:
            ratio = f"{(c / r if units[case] in LESS else r / c):.2f}x"
        yield f"| {case} | {units[case]} | {c_text} | {r_text} | {ratio} |"


def split(document, section):
    """The text before the section's markers, in them, and behind."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    if document.count(begin) != 1 or document.count(end) != 1:
        sys.exit(f"error: the document lacks the markers of {section}; put them in")
    head, rest = document.split(begin)
    body, tail = rest.split(end)
    return head + begin, body, end + tail


def parts(body):
    """The tables of a section by title; without titles, under the empty one."""
    if "### " not in body:
        return {"": body.strip()} if body.strip() else {}
    return {title: text.strip() for title, text in (p.split("\n", 1) for p in body.split("### ")[1:])}


def join(tables):
    return "\n\n" + "\n\n".join((f"### {title}\n\n" if title else "") + text for title, text in tables.items()) + "\n\n"


def write(figures, document, section):
    modes = list(figures.boots) or sys.exit("error: no boot is recorded; measure again")
    head, body, tail = split(document, section)
    old = parts(body)
    for mode in modes:
        title = TITLES.get(mode, mode) if section == "bench" or len(modes) > 1 else ""
        if not figures.rows[mode] and not cells(old.get(title, "")):
            sys.exit("error: no boot gave a figure; see the consoles in build/bench")
        text = "\n".join(table(figures, mode, old.get(title, "")))
        old[title] = f"{figures.stamp(mode)}\n\n{text}"
    if "" in old and len(old) > 1:
        del old[""]
    return head + join(old) + tail


def tables(document):
    """(section, title, text) of every table that make bench writes."""
    for section in SECTIONS:
        if f"<!-- {section}: begin -->" in document:
            for title, text in parts(split(document, section)[1]).items():
                yield section, title, text


def key(text, section):
    found = STAMP.search(text)
    return f"{found[1]} {PATHS.get(section, EVERYTHING)}" if found else None


def mark(document, ages):
    """The document with the lines that AGES asks for. What is unknown stays as it is."""
    for section in SECTIONS:
        if f"<!-- {section}: begin -->" not in document:
            continue
        head, body, tail = split(document, section)
        found = parts(body)
        for title, text in found.items():
            age = ages.get(key(text, section), "unknown")
            if age == "unknown" or not STAMP.search(text):
                continue
            lines = [line for line in text.splitlines() if not line.startswith("**Older than the code:**")]
            at = next(i for i, line in enumerate(lines) if STAMP.match(line))
            if age == "older":
                # Directly behind the stamp: one paragraph.
                lines.insert(at + 1, OLDER.format("`, `".join(PATHS.get(section, EVERYTHING).split())))
            found[title] = "\n".join(lines)
        document = head + join(found) + tail
    return document


def check(document, ages):
    """Complaints about the document, and what could not be told."""
    for section, title, text in tables(document):
        name = f"{section}{': ' if title else ''}{title}"
        age = ages.get(key(text, section), "unknown")
        has = "**Older than the code:**" in text
        if not STAMP.search(text):
            yield True, f"{name}: does not name its tree, kernel and date"
        elif age == "older" and not has:
            yield True, f"{name}: is older than the code and does not say so (make fmt writes it)"
        elif age == "same" and has:
            yield True, f"{name}: says that it is older than the code, and is not (make fmt updates it)"
        elif age == "unknown":
            yield False, f"{name}: its tree is not in this history; its age is not checked"
        elif has:
            yield False, f"{name}: older than the code, and says so"


def recorded(document, case):
    """(kernel, our instructions) of a case in the table of instructions; those of core for "core: CASE"."""
    section = "core" if case.startswith("core: ") else "bench"
    for where, title, text in tables(document):
        if where == section and title in ("", TITLES["icount"]):
            stamp = STAMP.search(text)
            for name, _, _, ours, _ in cells(text):
                if name == case.removeprefix("core: "):
                    number = re.match(r"[0-9.e+]+", ours)
                    return stamp[2] if stamp else None, float(number[0]) if number else None
    return None, None


def compare(document, kernel, figures, cases):
    """Rows "verdict|case|recorded|now"; the least of several figures counts."""
    for case in cases:
        now = [float(v) for f in figures for which, name, v, _ in f.rows["icount"]
               if which == "rust" and name == case and v != "failed"]
        made_on, value = recorded(document, case)
        if value is None or made_on != kernel:
            yield "report", case, value, min(now, default=None)
        elif not now:
            yield "missing", case, value, None
        else:
            yield "rise" if min(now) > value * (1 + RISE / 100) else "good", case, value, min(now)


def read_ages(text):
    return dict(line.rsplit("|", 1) for line in text.splitlines() if "|" in line)


def main(command, *arguments):
    first = pathlib.Path(arguments[0])
    if command == "write":
        document = pathlib.Path(arguments[1])
        new = write(Figures(first.read_text()), document.read_text(), arguments[2])
        document.write_text(new)
        print(split(new, arguments[2])[1].strip())
    elif command == "trees":
        for line in sorted({key(text, section) for section, _, text in tables(first.read_text())} - {None}):
            print(line)
    elif command == "mark":
        first.write_text(mark(first.read_text(), read_ages(pathlib.Path(arguments[1]).read_text())))
    elif command == "check":
        told = list(check(first.read_text(), read_ages(pathlib.Path(arguments[1]).read_text())))
        for _, line in told:
            print(f"| {line}")
        sys.exit(any(bad for bad, _ in told))
    elif command == "compare":
        files = [a for a in arguments[2:] if a.startswith("/")]
        rows = list(compare(first.read_text(), arguments[1], [Figures(pathlib.Path(f).read_text()) for f in files],
                            [a for a in arguments[2:] if not a.startswith("/")]))
        for verdict, case, value, now in rows:
            change = f" ({(now / value - 1) * 100:+.1f} %)" if now and value else ""
            print(f"{verdict}: {case}: recorded {value or 'nothing'}, now {now or 'nothing'}{change}")
        # 1: something rose; 3: something is missing; both are tried once more.
        verdicts = {row[0] for row in rows}
        sys.exit(1 if "rise" in verdicts else 3 if "missing" in verdicts else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
