#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judge the results of a test run, print the table and the closing line.

    report.py [--tables DIR] DIR STACK
    report.py [--tables DIR] --again STACK FILE...

DIR/<kernel or host>/results/*.ktap are the inputs; DIR/<kernel>/expected names the files
that must be there, and DIR/<kernel>/first/ has the results of tests that were tried again.
--again prints which of the FILEs fail only in cases for which a second try is allowed.
Exit status 1 when a case failed or none passed.

A file has one section per guest: the output of the test, then what the runner knows of it.

    # guest: node=1 kernel=fast stack=rust staged=ib_core,rdma_rxe    (before the test)
    ok 1 - NAME, not ok 2 - NAME, 1..2                                (by the test)
    # ended: STATUS                                                   (after the test)
    # modules: ib_core=rust siw=c                                     (loaded then)
    not ok - kernel log                                               (cases of the runner)
    # of node 1                                                       (the next section)

The cases, the plan and the exit status of a section must agree; each disagreement is one
more failed case. What is allowed is listed in three tables of this folder, with lines of
"test | case | kernel | stack | why", each of the first four a list of globs:

    skips.txt           cases that may be skipped; binding for STACK=rust
    peer-failures.txt   cases that the C driver fails: shown, not counted as ours
    chance.txt          cases that have a second try (AGAIN=1)

The tables name cases of the tests. A death, a hang, a report of the kernel's, a leak, a wrong
plan or status is neither excused nor tried again, except in a guest that has no module of ours.
"""
import fnmatch
import pathlib
import re
import sys
from typing import NamedTuple

LINE = re.compile(r"^(ok|not ok)\b(?: \d+)?(?: -)? ?(.*)$")
# The tests' drivers, which have no C peer: stage.sh adds them to every stack with modules of ours.
TEST_DRIVERS = {"countdev", "fakeib", "fakeverbs", "iwstub"}
FACT = re.compile(r"^# (?:(guest|modules): (.*)|(ended): (\d+)|(of node|seconds) (\d+))$")
DIED = "the guest died or hung in this test"
HOST = "host"
NO_REASON = "no reason given"


class Case(NamedTuple):
    verdict: str  # ok, not ok, skip; in the table also "peer fails"
    name: str
    info: object  # the reason of a skip, or a list of lines
    by_test: bool = False  # printed by the test itself
    c_only: bool = False  # in a guest without a module of ours


class Section:
    """What one guest, or the host, tells of a test."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.cases = []
        self.plans = []
        self.guest = self.ended = self.modules = None
        self.tail = []  # diagnostics after the last case

    def stack(self):
        return (self.guest or {}).get("stack")


def pairs(text):
    return dict(word.partition("=")[::2] for word in text.split())


def parse(text):
    """The sections of a file, and its seconds."""
    sections, seconds = [Section("")], None
    for line in text.splitlines():
        section = sections[-1]
        if fact := FACT.match(line):
            name, value = filter(lambda group: group is not None, fact.groups())
            if name == "of node":
                sections.append(Section(f"node {value}: "))
            elif name == "seconds":
                if len(sections) == 1:
                    seconds = int(value)
            elif name == "ended":
                section.ended = int(value)
            else:
                setattr(section, name, pairs(value))
        elif line.startswith("#"):
            section.tail.append(line)
        elif plan := re.match(r"^1\.\.(\d+)", line):
            section.plans.append(int(plan.group(1)))
        elif match := LINE.match(line):
            verdict, rest = match.groups()
            name, _, directive = rest.partition(" # SKIP")
            info = section.tail
            if verdict == "ok" and directive:
                verdict, info = "skip", directive.strip() or NO_REASON
            by_test, c_only = section.ended is None, section.stack() == "c"
            section.cases.append(Case(verdict, section.prefix + name, info, by_test, c_only))
            section.tail = []
    return sections, seconds


def disagreements(section, host):
    """What is wrong with a section beside its cases: (name, lines)."""
    cases = [case for case in section.cases if case.by_test]
    failed = any(case.verdict == "not ok" for case in cases)
    status = section.ended
    if status is None:
        yield ("the run did not come to its end" if host else DIED), section.tail
    elif status in (124, 137):
        yield "the test did not end within its limit", [f"# exit status {status}"]
    elif status != 0 and not failed:
        yield f"exit status {status} without a failed case", section.tail
    elif status == 0 and failed:
        yield "exit status 0 with a failed case", []
    if status is not None:
        if not section.plans:
            yield "no plan (1..N)", []
        elif section.plans != [len(cases)]:
            yield f"planned {' and '.join(map(str, section.plans))} cases, told {len(cases)}", []
        if (section.guest or {}).get("boot") and not section.cases:
            yield "boot: kernel log: nobody looked at it", []
        if not host:
            yield from wrong_modules(section)


def wrong_modules(section):
    """Modules that are not those of STACK; a module that is not loaded is none."""
    if section.guest is None or section.modules is None:
        yield "nothing is known of the loaded modules", []
        return
    stack = section.stack()
    rust = set()
    if stack != "c":
        rust = set(section.guest.get("staged", "").split(",") if stack == "rust" else stack.split(","))
        rust |= TEST_DRIVERS
    if stack == "rust":
        rust |= {"ib_core", "rdma_rxe"}
    for module, what in sorted(section.modules.items()):
        if (what == "rust") != (module in rust):
            yield f"modules: {module} is the {what} one", [f"# STACK={stack}"]
    if section.guest.get("boot"):
        for module in sorted(rust & {"ib_core", "rdma_rxe"} - section.modules.keys()):
            yield f"modules: {module} is not loaded", [f"# STACK={stack}"]


def judge(text, host=False):
    """All cases of a file's text, those among them that the runner adds; and its seconds."""
    sections, seconds = parse(text)
    cases = []
    for section in sections:
        cases += section.cases
        for name, info in disagreements(section, host):
            cases.append(Case("not ok", section.prefix + name, info, False, section.stack() == "c"))
    boot = any((section.guest or {}).get("boot") for section in sections)
    if not boot and not any(case.by_test for case in cases):
        cases.append(Case("not ok", "the test printed no result", []))
    return cases, seconds


def read(path):
    return judge(path.read_text(errors="replace"), path.parts[-3:-2] == (HOST,))


class Table:
    """A list of what is allowed, and why."""

    def __init__(self, path):
        self.rows = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                row = [part.strip() for part in line.split("|")]
                if len(row) != 5 or not all(row):
                    sys.exit(f"{path.name}:{number}: test | case | kernel | stack | why")
                self.rows.append(row)

    def why(self, test, case, kernel, stack):
        for *globs, why in self.rows:
            # Names of cases have spaces; the other columns are lists.
            lists = [globs[0].split(), [globs[1]], globs[2].split(), globs[3].split()]
            values = (test, case, kernel, stack)
            if all(any(fnmatch.fnmatchcase(v, g) for g in gs) for v, gs in zip(values, lists)):
                return why
        return None


class Rules:
    def __init__(self, tables, stack):
        self.stack = stack
        self.skips, self.peer, self.chance = (
            Table(tables / name) for name in ("skips.txt", "peer-failures.txt", "chance.txt"))

    def allowed(self, table, kernel, test, case):
        if not (case.by_test or case.c_only):
            return None
        return table.why(test, case.name, kernel, self.stack)

    def again(self, kernel, test, cases):
        """All that failed may be tried once more."""
        failed = [case for case in cases if case.verdict == "not ok"]
        return bool(failed) and all(self.allowed(self.chance, kernel, test, case) for case in failed)

    def settle(self, kernel, test, case):
        """The case as it counts, and the line for skips.txt that is missing."""
        if case.verdict == "not ok":
            why = self.allowed(self.peer, kernel, test, case)
            return (case._replace(verdict="peer fails", info=why) if why else case), None
        if case.verdict != "skip":
            return case, None
        listed = self.skips.why(test, case.name, kernel, self.stack)
        if listed and case.info == NO_REASON:
            case = case._replace(info=listed)
        if listed or self.stack != "rust":
            return case, None
        row = f"{test} | {case.name} | {kernel} | {self.stack} | {case.info}"
        return case._replace(verdict="not ok", name=f"skipped, not in skips.txt: {case.name}", info=[f"# {case.info}"]), row


def not_mended(first, second):
    """Cases that failed at the first try and did not pass at the second, in which they do not fail."""
    now = {case.name: case.verdict for case in second}
    for case in first:
        if case.verdict == "not ok" and now.get(case.name, "missing") in ("skip", "missing"):
            yield Case("not ok", f"failed at the first try, {now.get(case.name, 'missing')} at the second: {case.name}", [])


def results(top):
    """(kernel, test, cases, seconds, first): each result that is there or should be."""
    for folder in sorted(path.parent for path in top.glob("*/results")):
        paths = {path.stem: path for path in folder.glob("results/*.ktap")}
        expected = folder / "expected"
        names = set(expected.read_text().split()) if expected.exists() else set()
        for test in sorted(names | paths.keys()):
            cases, seconds = judge("", folder.name == HOST) if test not in paths else read(paths[test])
            first = folder / "first" / f"{test}.ktap"
            first = read(first)[0] if first.exists() else []
            yield folder.name, test, cases + list(not_mended(first, cases)), seconds, first


def lines(info):
    return ["    " + line for line in info[-25:]]


def report(top, rules):
    total = {"ok": 0, "not ok": 0, "skip": 0, "peer fails": 0}
    rows, details, unlisted, second_try = [], [], [], []
    for where, test, cases, seconds, first in results(top):
        count = dict.fromkeys(total, 0)
        for case in cases:
            case, row = rules.settle(where, test, case)
            if row:
                unlisted.append(row)
            count[case.verdict] += 1
            if case.verdict == "not ok":
                details.append(f"failed: {where}/{test}: {case.name}")
                details += lines(case.info)
            elif case.verdict != "ok":
                label = "skipped" if case.verdict == "skip" else "peer fails"
                details.append(f"{label}: {where}/{test}: {case.name}: {case.info}")
        for case in first:
            if case.verdict == "not ok":
                why = rules.allowed(rules.chance, where, test, case)
                details.append(f"failed at the first try (AGAIN=1): {where}/{test}: {case.name} ({why})")
                details += lines(case.info)
        if first and not count["not ok"]:
            second_try.append(f"{where}/{test}")
        for verdict in total:
            total[verdict] += count[verdict]
        rows.append((where, test, *count.values(), "" if seconds is None else seconds))
    head = ("where", "test", "passed", "failed", "skipped", "peer fails", "seconds")
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    for r in [head, *rows]:
        print("  ".join(f"{str(c):<{w}}" if i < 2 else f"{str(c):>{w}}" for i, (c, w) in enumerate(zip(r, widths))))
    print("\n".join(["", *details]) if details else "")
    if unlisted:
        print("Skips that tools/testing/skips.txt does not list (its lines would be these):")
        print("\n".join("    " + row for row in unlisted))
    if total["peer fails"]:
        print(f"{total['peer fails']} of the skipped are known failures of the C stack (tools/testing/peer-failures.txt)")
    if second_try:
        print(f"{len(second_try)} on the second try (tools/testing/chance.txt): {', '.join(second_try)}")
    # For who runs several suites and adds up: .ci/run.
    (top / "second-try").write_text("".join(f"{name}\n" for name in second_try))
    skipped = total["skip"] + total["peer fails"]
    print(f"{total['ok']} passed, {total['not ok']} failed, {skipped} skipped")
    return 1 if total["not ok"] or not total["ok"] else 0


def main(argv):
    tables = pathlib.Path(__file__).parent
    if argv[:1] == ["--tables"]:
        tables, argv = pathlib.Path(argv[1]), argv[2:]
    if argv[:1] == ["--again"]:
        rules = Rules(tables, argv[1])
        for path in map(pathlib.Path, argv[2:]):
            if rules.again(path.parts[-3], path.stem, read(path)[0]):
                print(path.stem)
        return 0
    if len(argv) != 2:
        sys.exit(__doc__)
    return report(pathlib.Path(argv[0]), Rules(tables, argv[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
