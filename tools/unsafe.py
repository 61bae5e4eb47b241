#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Count `unsafe` in the kernel-side sources, module by module.

    unsafe.py          print the table
    unsafe.py write    write it to Documentation/unsafe.md
    unsafe.py check    fail if that file is not current, or the figures of README.md are not

A module is a folder with a main.rs or lib.rs, or a folder of this tree with a mod.rs,
which is part of another's module; the pure parts of it (proto/, wire/) have a row of
their own, which must stay at nothing, and so has its edge to C (edge.rs, edge/). Comments and strings do not
count, neither as code nor as `unsafe`. The file is current when each count of
`unsafe` and of raw accesses is exact and each count of lines is right within 5 percent, so that it does
not change with every edit.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGE = TOP / "Documentation/unsafe.md"
SKIP = {"tools", "build", "target", ".git", "Documentation"}
PURE = ("proto", "wire")
README = TOP / "README.md"
# The sentence of the README with the blocks outside the edge, and the folders of its modules.
CLAIM = re.compile(r"`ib_core` has (\w+) `unsafe`\s+block in ([\d,]+) lines, "
                   r"`ib_uverbs` (\w+) in ([\d,]+),\s+and\s+`rdma_rxe` (\w+)\s+in\s+([\d,]+)\.")
CLAIMED = {"ib_core": ("core", "mad", "rw", "umem"), "ib_uverbs": ("uverbs",), "rdma_rxe": ("hw/rxe",)}
NUMBERS = ["no", "one", "two", "three", "four", "five", "six"]

# Parts that are not code: comments (block comments nest, but none here do),
# strings, and character literals that could be taken for the start of a string.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'', re.DOTALL)

KINDS = {
    "blocks": re.compile(r"\bunsafe\s*\{"),
    "impls": re.compile(r"\bunsafe\s+(?:impl|trait)\b"),
    "functions": re.compile(r'\bunsafe\s+(?:extern\s+"?C?"?\s*)?fn\s+\w'),
}

# Parts that are one module, or one subsystem in C: with their edges, without their pure engines.
SUMS = {"core, mad, rw": ("core", "mad", "rw"), "umem": ("umem",), "cm, iwcm": ("cm", "iwcm"), "cma": ("cma",),
        "uverbs, support": ("uverbs", "uverbs/support")}
SUM_HEAD = """
Sums of a module's code and its edge, without pure engines:

"""
MOVED = """
A block that a wrapper takes in leaves the module's row and is counted in that of `rust/`, which has
{} of all {} blocks. So a row that falls does not tell that there are fewer; the last row of the
first table does.
"""
TAIL = """
Sources without any unsafe block, of those that are neither pure nor edge:

"""
EXTRA = ("lines inside", "rows", "raw accesses")

# A field reached through a raw pointer: (*p).field, (*self.raw()).field, (*f(g(x))).field
RAW = re.compile(r"(?<![\w>])\(\s*\*\s*[A-Za-z_](?:[^(),]|\((?:[^()]|\([^()]*\))*\))*\)\s*\.\s*[a-z_]")

# Tables of the edge (rust/edge.rs): a row is one field, method, export, callback,
# type of an argument, or import.
TABLES = re.compile(r"\b(c_struct|methods|ends|export|callback|import|argument)!\s*\{")
FIELD = re.compile(r"^\s*(?:init|const|racy|guarded|embed|bit|cell|put)\s+\w+(?:\s+(?:at|in)\s+[\w.]+)?\s*:", re.M)
INIT = re.compile(r"\binit\s+\w+<'\w+>\s*\{")
INIT_FIELD = re.compile(r"^\s*\w+(?:\s+at\s+[\w.]+)?\s*:", re.M)
ARGUMENT = re.compile(r"^\s*impl\b[^=]*=\s*\|", re.M)
FUNCTION = re.compile(r"\bfn\s+\w+\s*\(")

HEAD = """# Unsafe code

What `tools/unsafe.py` counts in the kernel-side sources; `make check` fails when this page
is out of date, `make fmt` writes it. Lines are code only, without comments and blank
lines. A block is one `unsafe { }`, each with the `SAFETY:` comment that `make check`
asks for; impls are `unsafe impl` and `unsafe trait`; functions are `unsafe fn`, callbacks
that C calls among them. Lines inside are lines of code within blocks. Rows are the rows of the
edge's tables (`rust/edge.rs`): each declares how one field of a C structure may be reached, or the
types of one driver method, export, callback or C function, or what C promises of an argument, and
is a claim that a reviewer holds against a C header, as a block is one. `proto/` and `wire/` are pure engines and have none.

Raw accesses are fields reached as `(*p).field`, without a row. They are in the edge only
(`tools/edge.py`), within its blocks and unsafe functions, and a new one must be entered here. A row
gives one contract for all uses of a field, so it does not fit where the contract depends on the
place: structures that are filled in before anybody else has them (`rust/edge/xrcd.rs`,
`core/edge/class.rs`), lists that are walked or linked under a lock (`mad/edge/receive.rs`,
`uverbs/edge/mmap.rs`), arrays that C sized (`uverbs/edge/frame.rs`), methods of a consumer's table
(`core/edge/client.rs`), fields of other subsystems' structures (`file`, `vm_area_struct`). The
others could be rows, and are not yet.

Methods of a driver (`struct ib_device_ops`) have rows too, in the tables `methods!` of
`core/edge/device.rs` and `core/object/edge/driver.rs`, which take the object from the receiver and
check that the others are of the same device. Some 35 methods are called in a block instead. Most of
these calls are in `uverbs/edge/`: the tables make methods of views that `ib_core` alone has, and
`ib_uverbs` passes structures that the block fills in, or takes over the object that the method
makes or ends. The same holds for posting (`rw/edge/mod.rs`), for management datagrams
(`mad/edge/port.rs`, `core/sysfs/edge.rs`) and for what a driver writes into a device that is being
registered (`core/edge/device.rs`). There the function itself takes the method from the device of the
object that it passes.

The aim is that the blocks per 1000 lines go down: wrappers in `rust/` take them in, once,
and modules use the wrappers.

"""


def strip(text):
    """The text without comments and with empty strings."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return "\n" * token.count("\n")
        return '""'
    return NOT_CODE.sub(blank, text)


def unit_of(path, units):
    """The row that a source belongs to: its module's folder, or the pure part of it."""
    parts = path.relative_to(TOP).parts
    for n in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:n])
        if parts[n - 1] in PURE:
            return folder + "/ (pure)"
        if folder in units:
            edge = (parts[-1] == "edge.rs" or "edge" in parts[:-1]) and parts[0] != "rust"
            return folder + ("/ (edge)" if edge else "/")
    return None


def body(code, start):
    """The text between the brace that ends before `start` and the one that closes it."""
    depth = 1
    for at in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return code[start:at]
    return code[start:]


def inside(code):
    """Lines of code within unsafe blocks; of nested ones, once."""
    total = end = 0
    for found in KINDS["blocks"].finditer(code):
        if found.end() < end:
            continue
        text = body(code, found.end())
        end = found.end() + len(text)
        total += sum(1 for line in text.splitlines() if line.strip()) or 1
    return total


def table_rows(code):
    """Rows of the tables in a source."""
    total = 0
    for found in TABLES.finditer(code):
        text = body(code, found.end())
        if found[1] != "c_struct":
            row = ARGUMENT if found[1] == "argument" else FUNCTION
            total += len(row.findall(text))
            continue
        for init in INIT.finditer(text):
            total += len(INIT_FIELD.findall(body(text, init.end())))
        total += len(FIELD.findall(text))
    return total


def sources():
    """Each kernel-side source with the row that it belongs to."""
    files = [p for p in sorted(TOP.rglob("*.rs")) if not SKIP & set(p.relative_to(TOP).parts)]
    units = {p.parent.relative_to(TOP).as_posix() for p in files
             if p.name in ("main.rs", "lib.rs") or p.relative_to(TOP).parts[1:] == ("mod.rs",)}
    for path in files:
        unit = unit_of(path, units)
        if unit is None:
            sys.exit(f"error: {path.relative_to(TOP)} is in no module; add a main.rs or lib.rs beside or above it")
        yield unit, path


def count():
    rows = {}
    for unit, path in sources():
        code = strip(path.read_text())
        row = rows.setdefault(unit, dict.fromkeys([*KINDS, *EXTRA, "lines"], 0))
        row["lines"] += sum(1 for line in code.splitlines() if line.strip())
        for kind, pattern in KINDS.items():
            row[kind] += len(pattern.findall(code))
        row["lines inside"] += inside(code)
        row["rows"] += table_rows(code)
        # A pure part has no unsafe block, so `*` follows references there.
        row["raw accesses"] += 0 if unit.endswith("(pure)") else len(RAW.findall(code))
    return rows


def without():
    """Per module, how many of the files that are neither pure nor edge have no unsafe block."""
    zero, files = {}, {}
    for unit, path in sources():
        if unit.endswith(")"):
            continue
        files[unit] = files.get(unit, 0) + 1
        if not KINDS["blocks"].search(strip(path.read_text())):
            zero[unit] = zero.get(unit, 0) + 1
    return "".join(f"- {unit}: {zero.get(unit, 0)} of {n} files\n" for unit, n in sorted(files.items()))


def cells(name, row):
    rate = 1000 * row["blocks"] / max(row["lines"], 1)
    return [name, *(str(row[k]) for k in ("lines", *KINDS, *EXTRA)), f"{rate:.1f}"]


def table(rows):
    total = {k: sum(r[k] for r in rows.values()) for k in [*KINDS, *EXTRA, "lines"]}
    lines = [cells(name, row) for name, row in sorted(rows.items())] + [cells("all", total)]
    lines.insert(0, ["module", "lines", *KINDS, *EXTRA, "blocks per 1000 lines"])
    lines.insert(1, ["---"] + ["---:"] * 8)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def sums(rows):
    """The table of SUMS, and where the wrappers are."""
    lines = [["modules", "lines", *KINDS, *EXTRA, "blocks per 1000 lines"], ["---"] + ["---:"] * 8]
    for name, folders in SUMS.items():
        parts = [row for unit, row in rows.items()
                 if not unit.endswith("(pure)") and unit.split("/ ")[0].removesuffix("/") in folders]
        lines.append(cells(name, {key: sum(row[key] for row in parts) for key in [*KINDS, *EXTRA, "lines"]}))
    moved = MOVED.format(rows.get("rust/", {}).get("blocks", 0), sum(row["blocks"] for row in rows.values()))
    return SUM_HEAD + "".join("| " + " | ".join(line) + " |\n" for line in lines) + moved


def page_rows():
    """The rows that the page has, in the form that count() gives."""
    rows = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        found = re.fullmatch(r"\| (\S.*?/.*?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| .* \|", line)
        if found:
            rows[found[1]] = dict(zip(("lines", *KINDS, *EXTRA), map(int, found.groups()[1:])))
    return rows


def stale(old, new):
    """What the page has wrong, as text."""
    if not PAGE.exists() or not PAGE.read_text().startswith(HEAD + table(old) + sums(old) + TAIL):
        yield "the page is not what this tool writes"
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{name}: {'not on the page' if name in new else 'on the page, but gone'}"
            continue
        for kind in (*KINDS, "raw accesses"):
            if old[name][kind] != new[name][kind]:
                yield f"{name}: {new[name][kind]} {kind}, the page has {old[name][kind]}"
        if abs(old[name]["lines"] - new[name]["lines"]) * 20 > new[name]["lines"]:
            yield f"{name}: {new[name]['lines']} lines, the page has {old[name]['lines']}"


def claims(text, rows):
    """What the README has wrong, as text: numbers of blocks, and lines that are more than 5 percent off."""
    found = CLAIM.search(text)
    if not found:
        yield "README.md: the sentence with the blocks outside the edge is gone, or has another form"
        return
    words = iter(found.groups())
    for module, folders in CLAIMED.items():
        parts = [row for name, row in rows.items()
                 if not name.endswith("(edge)") and name.split("/ ")[0].removesuffix("/").removesuffix("/proto") in folders]
        blocks, lines = (sum(row[key] for row in parts) for key in ("blocks", "lines"))
        said, size = next(words).replace("none", "no"), int(next(words).replace(",", ""))
        if said not in NUMBERS or NUMBERS.index(said) != blocks:
            yield f"README.md: {module} has {blocks} unsafe blocks outside the edge, it says {said}"
        if abs(size - lines) * 20 > lines:
            yield f"README.md: {module} has {lines} lines outside the edge, it says {size}"


def main():
    rows = count()
    mode = sys.argv[1] if len(sys.argv) > 1 else "print"
    if mode == "write":
        if list(stale(page_rows(), rows)):
            PAGE.write_text(HEAD + table(rows) + sums(rows) + TAIL + without())
    elif mode == "check":
        print(table(rows), end="")
        wrong = [f"{name}: unsafe in a pure part" for name, row in rows.items()
                 if name.endswith("(pure)") and any(row[k] for k in KINDS)]
        wrong += [f"{text} (make fmt updates the page)" for text in stale(page_rows(), rows)]
        wrong += claims(README.read_text(), rows)
        for text in wrong:
            print(text)
        sys.exit(1 if wrong else 0)
    else:
        print(table(rows), end="")


if __name__ == "__main__":
    main()
