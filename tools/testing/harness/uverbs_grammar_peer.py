# SPDX-License-Identifier: GPL-2.0
"""The grammar of the guest's requests to ib_uverbs (guest/uverbs_grammar.py) against the definitions
in the kernel source of the C module, from which it does not come.

uverbs_grammar_peer.py TREE LINUX: prints how they differ, and fails then."""

import pathlib
import sys

tree, linux = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path[:0] = [str(tree / "tools"), str(tree / "tools/testing/guest")]
import uverbs_abi as abi  # noqa: E402
import uverbs_grammar as grammar  # noqa: E402

# Methods, their attributes, commands, extended ones: as many as the first grammar had, which was
# written by hand; with completion counters, and buffers of shared receive queues.
COUNTS = (44, 180, 35, 12) if "comp_cntr" in abi.features(linux) else (38, 164, 35, 12)


def short(obj):
    return obj.removeprefix("UVERBS_OBJECT_") or None


def peer():
    """The C module's definitions, in the words of the grammar."""
    table = abi.C(linux / "drivers/infiniband/core").table()
    value = abi.Values(linux, table).of
    methods = {(short(obj), value[method]): {
        value[name]: (a.kind, a.low, 0 if a.kind == "enum" else a.high, "mandatory" in a.marks,
                      "zero_trailing" in a.marks, short(a.object), a.access or None)
        for name, a in attributes.items()}
        for obj, of in table.methods.items() for method, attributes in of.items()}

    def size(of):
        return value[f"sizeof({of})"] if of else 0
    commands = {(value[name], "_EX_" in name): (
        short(c.object), size(c.request), size(c.answer), c.udata or "_EX_" in name, bool(c.answer))
        for name, c in table.commands.items()}
    objects = {short(obj): value[obj] for obj in table.methods}
    return objects, {short(obj) for obj in table.files}, methods, commands


def ours():
    methods = {(m.object, m.id): {
        a.id: (a.kind, a.low, 65535 if a.high is None else a.high, a.mandatory, a.zero, a.obj, a.access)
        for a in m.attrs} for m in grammar.METHODS.values()}
    commands = {(c.number, ex): (c.object, c.request, c.answer, c.driver, c.reply)
                for (_, ex), c in grammar.COMMANDS.items()}
    return grammar.OBJECTS, grammar.FDS, methods, commands


def main():
    wrong = []
    for what, mine, theirs in zip(("object", "files", "method", "command"), ours(), peer()):
        wrong += abi.differ(what, mine, theirs)
    # Attributes of one method need names of their own.
    wrong += [f"{key}: two attributes have one name" for key, m in grammar.METHODS.items()
              if len({a.name for a in m.attrs}) != len(m.attrs)]
    counts = (len(grammar.METHODS), sum(len(m.attrs) for m in grammar.METHODS.values()),
              *(len([key for key in grammar.COMMANDS if key[1] == ex]) for ex in (False, True)))
    if counts != COUNTS:
        wrong.append(f"{counts} methods, attributes, commands, extended ones, not {COUNTS}")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


main()
