#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# mutants.py: scores the host tests by mutation. It runs in the builder root, by
# tools/mutants.sh ("make mutants").
#
# tools/mutants/ lists every mutant of FOLDERS. A sample in an order that SEED decides is built
# into one set of test programs: at each place a switch chooses the original or one mutant by
# RDMA_MUTANT=number, so a mutant costs a run of the tests and not a build. Places that the
# compiler evaluates (constants, macros) cannot have a switch; one mutant in TENTH is such a one
# and is built by itself. A mutant that does not compile is not counted.
#
# A mutant is killed when a test fails, a program dies, or the tests need more than LIMIT times
# their usual CPU time. The tree is copied first; nothing in it is changed.
import argparse
import fnmatch
import json
import os
import random
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

# What is mutated: folder, the crate that takes it, and the crates that test it, its own first.
# Another folder of pure engines is one more line here.
FOLDERS = [
    ("rust/wire", "wire", ["rdma-wire", "rxe-mem", "rxe-sim", "rxe-fuzz"]),
    ("core/proto", "core", ["rdma-core-engines"]),
    ("mad/proto", "core", ["rdma-core-engines"]),
    ("hw/rxe/proto", "rxe-sim", ["rxe-mem", "rxe-sim", "rxe-fuzz"]),
    ("umad/proto", "umad", ["rdma-umad-engines"]),
    ("iwcm/proto", "iwcm", ["rdma-iwcm-engines"]),
    ("uverbs/proto", "uverbs", ["rdma-uverbs-engines"]),
    ("cma/proto", "cma", ["rdma-cma-engines"]),
    ("cm/proto", "cm", ["rdma-cm-engine"]),
    ("ucma/proto", "ucma", ["rdma-ucma-engines"]),
]
HOST = "tools/testing/host"
# What the host crates are built from.
COPIED = ["cm", "cma", "core", "hw", "iwcm", "mad", "rust", "rw", "ucma", "umad", "uverbs", "tools/testing/host", "tools/testing/fakeib"]
EQUIVALENT = "tools/testing/mutants-equivalent.txt"
TENTH = 10
LIMIT = 4
WANTED = 95

# The switch. It costs one load; evaluated at compile time, it chooses the original.
SWITCH_HEAD = "#![feature(core_intrinsics, const_eval_select)] #![allow(internal_features)] "
SWITCH_TAIL = """
extern crate std as mutant_std;
#[doc(hidden)] #[inline(always)]
pub const fn mutant(n: u32) -> bool {
    const fn never(_: u32) -> bool { false }
    #[inline(always)]
    fn chosen(n: u32) -> bool {
        use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static CHOSEN: AtomicU32 = AtomicU32::new(u32::MAX);
        let mut now = CHOSEN.load(Relaxed);
        if now == u32::MAX {
            now = mutant_std::env::var("RDMA_MUTANT").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
            CHOSEN.store(now, Relaxed);
        }
        now == n
    }
    core::intrinsics::const_eval_select((n,), never, chosen)
}
"""


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def squeeze(text):
    return " ".join(text.split())


class Mutant:
    def __init__(self, number, line):
        entry = json.loads(line)
        self.number = number
        self.file, self.line = entry["file"], entry["line"]
        self.op, self.old, self.new = entry["op"], entry["old"], entry["new"]
        self.own, self.const_fn = entry["own"], entry["const_fn"]
        self.edits = entry["edits"]
        self.result = None
        self.by = ""

    def __str__(self):
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"


class Equivalents:
    """The list of mutants that change nothing a test may ask for."""

    def __init__(self, path):
        self.entries = []
        if not path.exists():
            return
        text = re.sub(r"(?m)^#.*\n?", "", path.read_text())
        for block in re.split(r"\n\s*\n", text.strip()):
            if not block.strip():
                continue
            entry = {"file": block.split("\n")[0].strip()}
            for line in block.split("\n")[1:]:
                name, _, value = line.strip().partition(": ")
                entry[name] = squeeze(value)
            missing = {"file", "line", "new", "why"} - set(entry)
            if missing or not entry.get("why"):
                sys.exit(f"error: {path}: an entry lacks {missing or 'a reason'}: {block}")
            self.entries.append(entry)

    def has(self, mutant, text):
        return any(
            entry["file"] == mutant.file
            and entry["line"] == squeeze(text)
            and entry["new"] in (squeeze(mutant.new), "*")
            for entry in self.entries
        )

    def stale(self, root):
        """Entries whose line is no longer in their file."""
        for entry in self.entries:
            path = root / entry["file"]
            lines = path.read_text().split("\n") if path.exists() else []
            if not any(squeeze(line) == entry["line"] for line in lines):
                yield entry


class Tree:
    """A copy of the sources, whose files are written only when they change."""

    def __init__(self, root, copy, copied, host):
        self.root, self.copy, self.host = root, copy, host
        for name in copied:
            for path in (root / name).rglob("*"):
                part = path.relative_to(root)
                if path.is_file() and "target" not in part.parts:
                    self.write(str(part), path.read_bytes())
        kept = {
            str(path.relative_to(root))
            for name in copied
            for path in (root / name).rglob("*")
            if path.is_file()
        }
        for path in list(copy.rglob("*")):
            if path.is_file() and str(path.relative_to(copy)) not in kept:
                path.unlink()

    def original(self, name):
        return (self.root / name).read_bytes()

    def write(self, name, data):
        path = self.copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def switched(text, mutants, spans):
    """TEXT (bytes) with a switch at each mutant's place. `spans` gets, for each mutant, where
    its places are in the result: (start, end, number, is the mutant's own text)."""
    edits = []
    for mutant in mutants:
        for start, end, new, form in mutant.edits:
            edits.append((start, end, new.encode(), form, mutant.number))
    edits.sort(key=lambda e: (e[0], -e[1], e[3] != "arm", e[3] != "stmt", e[4]))
    out = bytearray()

    def put(low, high, edits):
        at = low
        i = 0
        while i < len(edits):
            start, end, _, form, _ = edits[i]
            out.extend(text[at:start])
            same = [e for e in edits[i:] if e[:2] == (start, end) and e[3] == form]
            rest = [e for e in edits[i + 1 :] if e[0] < end and e not in same]
            i += len(same) + len(rest)
            begin = len(out)
            pairs = {"expr": ("(", ")"), "arm": ("{", "}")}
            left, right = pairs.get(form, ("", ""))
            out.extend(left.encode())
            for n, (_, _, new, _, number) in enumerate(same):
                out.extend(f"{' else ' if n and form != 'start' else ''}if crate::mutant({number}) {{ ".encode())
                mark = len(out)
                out.extend(new)
                spans.append((mark, len(out), number, True))
                out.extend(b" }")
            if form != "start":
                out.extend(b" else { ")
                put(start, end, rest)
                out.extend(b" }")
            out.extend(right.encode())
            for e in same:
                spans.append((begin, len(out), e[4], False))
            at = end
        out.extend(text[at:high])

    put(0, len(text), edits)
    return bytes(out)


def replaced(text, mutant):
    """TEXT (bytes) with a mutant in it and no switch."""
    for start, end, new, form in sorted(mutant.edits, reverse=True):
        new = new.encode()
        if form == "expr":
            new = b"(" + new + b")"
        if form == "arm":
            new = b"{" + new + b"}"
        text = text[:start] + new + text[end:]
    return text


class Lab:
    """Builds and runs the host crates of a copied tree."""

    def __init__(self, tree, target, folders, seed):
        self.tree, self.folders = tree, folders
        self.env = dict(
            os.environ,
            CARGO_TARGET_DIR=str(target),
            CARGO_INCREMENTAL="1",
            CARGO_PROFILE_DEV_OPT_LEVEL="1",
            CARGO_PROFILE_DEV_DEBUG="0",
            RUSTC_BOOTSTRAP="1",
            RUSTFLAGS="-Awarnings",
            PROPTEST_RNG_SEED=str(seed),
            PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
        )
        self.programs = {}
        # Of each program its CPU seconds, and of each test its seconds, without a mutant.
        self.usual = {}
        self.seconds = {}
        for _, crate, _ in folders:
            name = f"{tree.host}/{crate}/src/lib.rs"
            tree.write(name, SWITCH_HEAD.encode() + tree.original(name) + SWITCH_TAIL.encode())

    def cargo(self, command, crates):
        """(whether it went well, the compiler's errors); what was built goes to `programs`."""
        packages = [f"-p{crate}" for crate in crates]
        run = subprocess.run(
            ["nice", "cargo", *command, "--message-format=json", *packages],
            cwd=self.tree.copy / self.tree.host,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        errors = []
        for line in run.stdout.split("\n"):
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
                errors.append(message["message"])
            if message.get("executable") and message["profile"]["test"]:
                crate = Path(message["manifest_path"]).parent
                name = re.search(r'(?m)^name = "(.*)"', (crate / "Cargo.toml").read_text())[1]
                kinds = self.programs.setdefault(name, {})
                kinds[message["target"]["name"]] = (message["executable"], crate)
        if run.returncode and not errors:
            sys.exit(f"error: cargo: {run.stderr[-2000:]}")
        return run.returncode == 0, errors

    def run(self, program, where, number, seconds, chosen=()):
        """None if the chosen tests of a program pass, or what failed; and the CPU seconds."""
        env = dict(self.env, RDMA_MUTANT=str(number))

        def limits():
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen(
            ["nice", program, "--test-threads=2", "--report-time", "-Zunstable-options", *chosen],
            cwd=where,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=limits,
        )
        failed, rest, start = None, b"", time.monotonic()
        with selectors.DefaultSelector() as wait:
            wait.register(child.stdout, selectors.EVENT_READ)
            while failed is None:
                if time.monotonic() - start > seconds * 10:
                    failed = "time"
                    break
                if not wait.select(5):
                    continue
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    found = re.match(rb"test (\S+).* \.\.\. (ok|FAILED)(?: <([0-9.]+)s>)?", line)
                    if found and found[2] == b"FAILED":
                        failed = found[1].decode()
                    elif found and found[3] and number == 0 and not chosen:
                        self.seconds[program, found[1].decode()] = float(found[3])
        if failed:
            child.kill()
        child.stdout.close()
        status = child.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if failed is None and status == -signal.SIGXCPU:
            failed = "time"
        if failed is None and status:
            failed = f"status {status}"
        return failed, spent

    def crates_of(self, name):
        for folder, _, crates in self.folders:
            if name.startswith(folder + "/"):
                return crates
        raise KeyError(name)

    def baseline(self, crates):
        """All must pass without a mutant; the CPU time they take is the measure of limits."""
        for crate in crates:
            for program, where in self.programs.get(crate, {}).values():
                failed, spent = self.run(program, where, 0, 600)
                if failed:
                    sys.exit(f"error: {crate} fails without a mutant: {failed}")
                self.usual[program] = spent

    def parts(self, program):
        """The tests of a program in two parts, the quick ones first: most mutants are killed
        by one of them."""
        times = {test: s for (of, test), s in self.seconds.items() if of == program}
        slow = sorted(t for t, s in times.items() if s > sum(times.values()) / 20)
        if not slow or len(slow) == len(times):
            return [["--exact"]]
        quick = ["--exact"] + [word for test in slow for word in ("--skip", test)]
        return [quick, ["--exact", *slow]]

    def judge(self, mutant, crates, build):
        """Runs the crates in turn until one fails. With `build`, each is built first."""
        for n, crate in enumerate(crates):
            if build:
                ok, errors = self.cargo(["test", "--no-run"], [crate])
                if not ok:
                    # The mutant is compiled with the first crate; an error in a later one is a
                    # test that it breaks at compile time.
                    mutant.result = "uncompiled" if n == 0 else "killed"
                    mutant.by = "a compile error of its test" if n else ""
                    return
            for program, where in self.programs[crate].values():
                usual = self.usual.get(program, max(self.usual.values(), default=10))
                for part in self.parts(program):
                    number = 0 if build else mutant.number
                    failed, _ = self.run(program, where, number, int(usual * LIMIT) + 5, part)
                    if failed:
                        mutant.result = "killed"
                        mutant.by = f"{crate}: {failed}"
                        return
        mutant.result = "survived"


def prepare(lab, mutants):
    """Builds all with switches. Those whose switched form does not compile become `own`."""
    files = {mutant.file for mutant in mutants}
    crates = sorted({crate for _, _, all in lab.folders for crate in all})
    for _ in range(40):
        spans = {}
        for name in files:
            here = [m for m in mutants if m.file == name and not m.own]
            spans[name] = []
            lab.tree.write(name, switched(lab.tree.original(name), here, spans[name]))
        ok, errors = lab.cargo(["check"], crates)
        if ok:
            ok, errors = lab.cargo(["test", "--no-run"], crates)
        if ok:
            return
        bad = set()
        for error in errors:
            bad |= blamed(error, spans)
        if not bad:
            texts = "\n".join(error.get("rendered") or "" for error in errors)
            sys.exit(f"error: the tree does not compile, and no mutant is to blame:\n{texts[:3000]}")
        for mutant in mutants:
            if mutant.number in bad:
                mutant.own = True
    sys.exit("error: the mutants with switches do not compile")


def blamed(error, spans):
    """The mutants at the places that a compiler error names: those whose own text it is, or
    else the innermost switches around it."""
    found = set()
    places = list(error["spans"])
    for child in error.get("children", []):
        places += child["spans"]
    for primary in (True, False):
        for place in places:
            if primary and not place["is_primary"]:
                continue
            while place:
                name = place["file_name"].split("../")[-1]
                low, high = place["byte_start"], place["byte_end"]
                around = [
                    (not own, end - start, number)
                    for start, end, number, own in spans.get(name, [])
                    if start <= low and high <= end
                ]
                if around:
                    best = min(around)
                    found |= {n for own, size, n in around if (own, size) == best[:2]}
                else:
                    # The error spans whole switches: all that begin in it.
                    found |= {n for s, e, n, own in spans.get(name, []) if low <= s and e <= high}
                place = (place.get("expansion") or {}).get("span")
        if found:
            return found
    return found


def sample(mutants, seed):
    """All in an order that the seed decides; one in TENTH needs a build of its own."""
    chance = random.Random(seed)
    own = [m for m in mutants if m.own]
    quick = [m for m in mutants if not m.own]
    chance.shuffle(own)
    chance.shuffle(quick)
    order = []
    while quick or own:
        order += [quick.pop() for _ in range(min(TENTH - 1, len(quick)))]
        order += [own.pop()] if own else []
    return order


def listed(lister, root, folders, pattern):
    names = sorted(
        str(path.relative_to(root))
        for folder, _, _ in folders
        for path in (root / folder).rglob("*.rs")
    )
    chosen = [n for n in names if fnmatch.fnmatch(n, pattern) or fnmatch.fnmatch(n, f"*/{pattern}")]
    if not chosen:
        sys.exit(f"error: no mutated file is called {pattern}")
    run = subprocess.run([lister, root, *chosen], capture_output=True, text=True, check=True)
    return [Mutant(n, line) for n, line in enumerate(run.stdout.splitlines(), 1)]


def score(lab, mutants, equivalents, until, most, seed, only):
    """Runs a sample until the time is over; the mutants that were judged."""
    lines = {}
    for mutant in mutants:
        if mutant.file not in lines:
            lines[mutant.file] = lab.tree.original(mutant.file).decode().split("\n")
        text = lines[mutant.file][mutant.line - 1]
        mutant.equivalent = equivalents.has(mutant, text)
    order = sample(mutants, seed)
    if only:
        order = [m for m in order if m.equivalent]
    # A mutant takes about a second at best.
    order = order[: min(most, int(max(until - time.monotonic(), 60)))]
    crates = sorted({crate for m in order for crate in lab.crates_of(m.file)})
    say(f"{len(mutants)} mutants in all; building a sample of {len(order)}")
    prepare(lab, order)
    lab.baseline(crates)
    say(f"built; {sum(m.own for m in order)} of them need a build of their own")
    done, again = [], []
    quick = [m for m in order if not m.own]
    own = [m for m in order if m.own]
    # Those with a build of their own have the last third of the time at most.
    begin = time.monotonic()
    last = {"quick": begin + (until - begin) * 2 / 3 if own else until, "own": until}

    def step(mutant, build):
        if mutant.equivalent and not only:
            mutant.result = "equivalent"
        else:
            lab.judge(mutant, lab.crates_of(mutant.file), build)
            if mutant.result == "survived" and mutant.const_fn and not build:
                again.append(mutant)
                return
        tell(mutant)

    def tell(mutant):
        done.append(mutant)
        if mutant.result == "survived":
            print(f"survived: {mutant}", flush=True)
        if only and mutant.result == "killed":
            print(f"not equivalent ({mutant.by}): {mutant}", flush=True)
        if len(done) % 25 == 0:
            counts = Counter(m.result for m in done)
            say(", ".join(f"{n} {result}" for result, n in sorted(counts.items())))

    for mutant in quick:
        if time.monotonic() > last["quick"]:
            break
        step(mutant, False)
    for name in {m.file for m in order}:
        lab.tree.write(name, lab.tree.original(name))
    for mutant in again + own:
        if time.monotonic() > last["own"]:
            if mutant not in again:
                break
            tell(mutant)
            continue
        lab.tree.write(mutant.file, replaced(lab.tree.original(mutant.file), mutant))
        step(mutant, True)
        lab.tree.write(mutant.file, lab.tree.original(mutant.file))
    return done


def report(done, folders):
    """The table and the closing line; whether the score is good enough."""
    print()
    print(f"{'folder':<16}{'compiling':>10}{'killed':>8}{'equivalent':>12}{'survived':>10}{'score':>8}")
    total = Counter()
    for folder, _, _ in folders:
        counts = Counter(m.result for m in done if m.file.startswith(folder + "/"))
        total += counts
        row(folder, counts)
    row("all", total)
    alone = [m for m in done if m.result == "killed" and m.by.startswith("rxe-fuzz")]
    for mutant in alone:
        print(f"killed by the replay of fuzzing alone: {mutant}")
    judged = total["killed"] + total["survived"]
    percent = 100 * total["killed"] / judged if judged else 0
    print(
        f"{judged + total['equivalent']} mutants compile: {total['killed']} killed, "
        f"{total['equivalent']} equivalent, {total['survived']} survived; "
        f"score {percent:.0f} % ({WANTED} % wanted)"
    )
    return judged and percent >= WANTED


def row(name, counts):
    judged = counts["killed"] + counts["survived"]
    percent = f"{100 * counts['killed'] / judged:.0f} %" if judged else "-"
    print(
        f"{name:<16}{judged + counts['equivalent']:>10}{counts['killed']:>8}"
        f"{counts['equivalent']:>12}{counts['survived']:>10}{percent:>8}"
    )


# The scorer's own test: functions with tests and without, and what must come of them.
FIXTURE = {
    "code/mod.rs": """
pub const MOST: u32 = 3;
pub fn tested(a: u32) -> bool {
    a < MOST
}
pub fn untested(a: u32) -> u32 {
    a + 7
}
pub const fn listed(a: u32) -> u32 {
    a * 9
}
pub const fn folded(a: u32) -> u32 {
    a + 6
}
pub const FOLDED: u32 = folded(21);
pub fn counts(n: u32) -> u32 {
    let mut i = 0;
    while i != n {
        i += 1;
    }
    i
}
pub fn named(a: Option<u32>) -> u32 {
    match a {
        Some(n) => n,
        None => 5,
    }
}
""",
    "host/Cargo.toml": '[workspace]\nmembers = ["fix"]\nresolver = "2"\n',
    "host/fix/Cargo.toml": '[package]\nname = "fix"\nversion = "0.0.0"\nedition = "2021"\n',
    "host/fix/src/lib.rs": '#[path = "../../../code/mod.rs"]\npub mod code;\n',
    "host/fix/tests/main.rs": """
use fix::code::*;
const KNOWN: u32 = listed(1);
#[test]
fn all() {
    assert_eq!([0, 2, 3, 4].map(tested), [true, true, false, false]);
    assert_eq!([0, 1, 2].map(counts), [0, 1, 2]);
    assert_eq!(FOLDED, 27);
    assert_eq!([Some(0), Some(8), None].map(named), [0, 8, 5]);
    let _ = (untested(100), listed(100), KNOWN);
}
""",
    "equivalent.txt": """# a comment
code/mod.rs
    line: a * 9
    new: a / 9
    why: the fixture says so

code/mod.rs
    line: pub const fn listed(a: u32) -> u32 {
    new: *
    why: a whole line

code/mod.rs
    line: a * 10
    new: a / 10
    why: there is no such line
""",
}


def selftest(lister):
    cases = []

    def expect(name, good, *more):
        cases.append(good)
        print(f"{'ok' if good else 'not ok'} - mutants: {name}", flush=True)
        if not good:
            print("#", *more, flush=True)

    with tempfile.TemporaryDirectory() as place:
        root, work = Path(place) / "root", Path(place) / "work"
        for name, text in FIXTURE.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folders = [("code", "fix", ["fix"])]
        equivalents = Equivalents(root / "equivalent.txt")
        stale = [entry["line"] for entry in equivalents.stale(root)]
        expect("a listed line that is gone is told", stale == ["a * 10"], stale)
        mutants = listed(lister, root, folders, "*")
        orders = [[m.number for m in sample(mutants, seed)] for seed in "112"]
        expect("a seed decides the sample", orders[0] == orders[1] != orders[2])
        lab = Lab(Tree(root, work / "tree", ["code", "host"], "host"), work / "target", folders, "1")
        until = time.monotonic() + 600
        done = score(lab, mutants, equivalents, until, 10**9, "1", False)
        expect("every mutant is judged", len(done) == len(mutants) > 20, len(done), len(mutants))

        def results(line, *wanted):
            found = {str(m): m.result for m in done if m.line == line}
            return bool(found) and set(found.values()) == set(wanted), found

        lines = FIXTURE["code/mod.rs"].split("\n")
        at = {text: n for n, text in enumerate(lines, 1)}
        expect("a tested function has no survivor", *results(at["    a < MOST"], "killed"))
        expect("a tested constant has none", *results(at["pub const MOST: u32 = 3;"], "killed"))
        expect(
            "a function that the compiler evaluates has none",
            *results(at["    a + 6"], "killed"),
        )
        expect("an untested function survives", *results(at["    a + 7"], "survived"))
        expect("a loop without end is killed", *results(at["        i += 1;"], "killed"))
        expect("and by its time", any(m.by == "fix: time" for m in done))
        expect(
            "what does not compile is not counted",
            *results(at["        Some(n) => n,"], "uncompiled"),
        )
        listing = {m.new: m.result for m in done if m.line == at["    a * 9"]}
        expect(
            "a listed mutant is equivalent, the others of its line are not",
            listing.pop("a / 9", "") == "equivalent" and set(listing.values()) == {"survived"},
            listing,
        )
        expect(
            "a whole line can be listed",
            *results(at["pub const fn listed(a: u32) -> u32 {"], "equivalent"),
        )
        expect("survivors make the score bad", not report(done, folders))
        good = [m for m in done if m.result == "killed"]
        expect("kills alone make it good", report(good, folders))
        expect("nothing judged is no score", not report([], folders))
        expect(
            "the sources are as they were",
            all((root / name).read_text() == text for name, text in FIXTURE.items()),
        )
    print(f"1..{len(cases)}")
    sys.exit(0 if all(cases) else 1)


def main():
    if sys.argv[1:2] == ["--selftest"]:
        selftest(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("lister")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--files", default="*")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--equivalent", action="store_true", help="only those listed as equivalent")
    parser.add_argument("--again", type=Path, help="only the survivors of this log")
    parser.add_argument("--log", type=Path, help="every mutant and its result")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    equivalents = Equivalents(options.root / EQUIVALENT)
    stale = list(equivalents.stale(options.root))
    for entry in stale:
        print(f"{EQUIVALENT}: this line is no longer in {entry['file']}: {entry['line']}")
    mutants = listed(options.lister, options.root, FOLDERS, options.files)
    if options.again:
        # Lines move, so by file and replacement.
        fields = [line.split("\t") for line in options.again.read_text().splitlines()]
        names = {re.sub(r":\d+: ", ": ", f[2]) for f in fields if f[0] == "survived"}
        mutants = [m for m in mutants if f"{m.file}: {m.old} -> {m.new}" in names]
    tree = Tree(options.root, options.work / "tree", COPIED, HOST)
    lab = Lab(tree, options.work / "target", FOLDERS, options.seed)
    done = score(lab, mutants, equivalents, until, options.most, options.seed, options.equivalent)
    if options.log:
        with options.log.open("w") as log:
            for mutant in done:
                print(mutant.result, mutant.op, mutant, mutant.by, sep="\t", file=log)
    if options.equivalent:
        wrong = [m for m in done if m.result == "killed"]
        print(f"{len(done)} listed as equivalent, {len(wrong)} of them killed")
        sys.exit(1 if wrong or stale else 0)
    good = report(done, FOLDERS)
    print(f"seed {options.seed}; repeat with SEED={options.seed}")
    sys.exit(0 if good and not stale else 1)


if __name__ == "__main__":
    main()
