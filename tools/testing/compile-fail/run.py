#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""run.py BUILD [GLOB]: compile the cases beside this file; see README.md.

Runs in the builder root. BUILD is a folder that tools/modules.sh has filled: rustc's flags are
those of its modules. Only metadata is made. Prints one line of KTAP for each case.
"""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "../../.."))
sys.path.insert(0, f"{TOP}/tools")
from rustc_command import command  # noqa: E402
# A folder of cases: the module whose flags they are compiled with, and the folder whose crate they
# become a part of. Without one each case is a crate that uses `rdma`.
FOLDERS = {"rdma": ("samples/softpair", None), "core": ("core", "core"), "rxe": ("hw/rxe", "hw/rxe"),
           "uverbs": ("uverbs", "uverbs"), "cma": ("cma", "cma")}


class Case:
    """One file: what is wrong in it is under cfg(wrong), and must be refused as line 2 says."""

    def __init__(self, folder, path):
        self.path = path
        self.name = f"{folder}/{os.path.basename(path)[:-3]}"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        found = re.search(r"\A.*\n// compile-fail: (E\d{4})(?: (.+))?\n", text)
        if not found:
            sys.exit(f"{self.name}: line 2 must be `// compile-fail: E0000 [words of the message]`")
        self.code, self.words = found.groups()
        if "(wrong)" not in text:
            sys.exit(f"{self.name}: nothing depends on cfg(wrong)")

    def verdict(self, errors):
        """None if `errors`, those of this file, are the expected one alone; else what is wrong."""
        if not errors:
            return "it compiles"
        codes = {code for code, _ in errors}
        if codes != {self.code}:
            return f"refused as {' '.join(sorted(str(code) for code in codes))}, not as {self.code}"
        if self.words and not any(self.words in text for _, text in errors):
            return f"{self.code}, but not of `{self.words}`"
        return None


def spans(message):
    """The files that a message is about, those of macro calls too."""
    files = set()
    for span in message["spans"]:
        while span:
            files.add(os.path.realpath(span["file_name"]))
            span = (span.get("expansion") or {}).get("span")
    return files


def rustc(build, module, root, out, *flags):
    """Compiles `root`. Returns its errors as (code, text, files)."""
    env, words = command(build, module)
    env = {**os.environ, **env, "RUSTC_BOOTSTRAP": "1",
           "RDMA_BINDINGS": f"{build}/rust/bindings_generated.rs",
           "RDMA_PRIVATE": f"{build}/core/private_generated.rs"}
    words = [f"rdma={out}/librdma.rmeta" if word == "rdma" else word for word in words]
    words += [*flags, "-Awarnings", "--error-format=json", f"--emit=metadata={out}/{flags[1]}.rmeta", root]
    done = subprocess.run(words, env=env, cwd=build, capture_output=True, text=True, check=False)
    errors = []
    for line in done.stderr.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message["level"] == "error" and message["spans"]:
            code = (message["code"] or {}).get("code")
            errors.append((code, message["rendered"], spans(message)))
    if done.returncode and not errors:
        errors.append((None, done.stderr, set()))
    return errors


def farm(folder, cases, out):
    """A root of `folder`'s crate with the cases as modules of it; the rest are links."""
    root = tempfile.mkdtemp(dir=out)
    parts = folder.split("/")
    for depth, part in enumerate(parts):
        here = os.path.join(root, *parts[:depth])
        for entry in os.listdir(os.path.join(TOP, *parts[:depth])):
            if entry != part and not entry.startswith(".") and entry != "build":
                os.symlink(os.path.join(TOP, *parts[:depth], entry), os.path.join(here, entry))
        os.mkdir(os.path.join(here, part))
    here = os.path.join(root, folder)
    for entry in os.listdir(os.path.join(TOP, folder)):
        if entry != "main.rs":
            os.symlink(os.path.join(TOP, folder, entry), os.path.join(here, entry))
    with open(os.path.join(TOP, folder, "main.rs"), encoding="utf-8") as file:
        text = file.read()
    for number, case in enumerate(cases):
        text += f'\n#[path = "{case.path}"]\nmod compile_fail_{number};\n'
    with open(os.path.join(here, "main.rs"), "w", encoding="utf-8") as file:
        file.write(text)
    return os.path.join(here, "main.rs")


def alone(build, module, case, out):
    """Both builds of a case that is a crate."""
    right = rustc(build, module, case.path, out, "--crate-name", "right")
    if right:
        return "without cfg(wrong): " + right[0][1]
    wrong = rustc(build, module, case.path, out, "--crate-name", "wrong", "--cfg", "wrong")
    return case.verdict([error[:2] for error in wrong])


def inside(build, module, folder, cases, out):
    """The cases of a module's crate: all at once, and those apart whose errors others hide."""
    name = "compile_fail"
    right = rustc(build, module, farm(folder, cases, out), out, "--crate-name", name)
    verdicts = {}
    if right:
        for case in cases:
            mine = [text for _, text, files in right if case.path in files]
            verdicts[case] = "without cfg(wrong): " + (mine or [right[0][1]])[0]
        return verdicts
    together = rustc(build, module, farm(folder, cases, out), out, "--crate-name", name, "--cfg", "wrong")
    for case in cases:
        mine = [(code, text) for code, text, files in together if case.path in files]
        verdicts[case] = case.verdict(mine)
        if verdicts[case]:
            errors = rustc(build, module, farm(folder, [case], out), out, "--crate-name", name, "--cfg", "wrong")
            verdicts[case] = case.verdict([error[:2] for error in errors])
    return verdicts


def main():
    build, glob = os.path.abspath(sys.argv[1]), (sys.argv[2:] or ["*"])[0]
    out = tempfile.mkdtemp()
    bad = told = 0
    try:
        # That of this tree, whether the modules are of it or older.
        stale = rustc(build, "rust/lib", f"{TOP}/rust/lib.rs", out, "--crate-name", "rdma")
        if not os.path.exists(f"{out}/librdma.rmeta"):
            os.rename(f"{out}/rdma.rmeta", f"{out}/librdma.rmeta")
        if stale:
            sys.exit(f"the crate rdma does not compile: {stale[0][1]}")
        for folder, (module, crate) in FOLDERS.items():
            if not os.path.isdir(os.path.join(HERE, folder)):
                continue
            cases = [Case(folder, os.path.join(HERE, folder, file))
                     for file in sorted(os.listdir(os.path.join(HERE, folder))) if file.endswith(".rs")]
            cases = [case for case in cases if fnmatch.fnmatch(case.name, glob)]
            if not cases:
                continue
            root = f"{module}/main"
            if crate:
                verdicts = inside(build, root, crate, cases, out)
            else:
                verdicts = {case: alone(build, root, case, out) for case in cases}
            for case, verdict in verdicts.items():
                for line in (verdict or "").splitlines():
                    print(f"# {line}")
                print(f"{'not ok' if verdict else 'ok'} - compile-fail {case.name}")
                bad += bool(verdict)
                told += 1
        print(f"1..{told}")
    finally:
        shutil.rmtree(out)
    sys.exit(bad != 0)


main()
