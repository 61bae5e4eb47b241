# SPDX-License-Identifier: GPL-2.0
"""How a kernel crate of this tree is compiled, for tools that compile it again in their way."""

import os
import re
import shlex


def command(build, target):
    """The rustc command of a module's root, without what it writes."""
    folder, name = os.path.split(target)
    with open(f"{build}/{folder}/.{name}.o.cmd", encoding="utf-8") as file:
        line = file.readline()
    line = line.split(" := ", 1)[1].replace("$(pound)", "#").replace("$$", "$")
    words, env = shlex.split(re.split(r"\s;", line)[0]), {}
    while "=" in words[0] and not words[0].startswith("-"):
        name, value = words.pop(0).split("=", 1)
        env[name] = value
    keep, skip = [], False
    for word in words[:-1]:
        if skip or word.startswith("--emit="):
            skip = False
        elif word in ("--out-dir", "--crate-name"):
            skip = True
        else:
            keep.append(word)
    return env, keep
