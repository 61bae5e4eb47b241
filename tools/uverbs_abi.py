#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The ABI page of ib_uverbs, made from the tables of uverbs/object/, and those tables against C's.

    uverbs_abi.py write LINUX    write Documentation/uverbs-abi.md
    uverbs_abi.py check LINUX    fail if the page is not current, or the tables are not those of the
                                 C ib_uverbs in the kernel source LINUX

The tables are read as they are in the sources, Rust's (`uverbs/table.rs` has the constructors) and
C's (`include/rdma/uverbs_ioctl.h` has the macros): both are expressions of calls, lists and names.
What is not understood is an error. What Rust's have only with a feature of the kernel (`only!`) must
be in those C sources that have the feature (features.sh). Numbers and sizes come from a C compiler
with the headers of LINUX; numbers that those lack from `rust/features/uapi.rs`. The tests of the
guest read the page (`tools/testing/guest/uverbs_grammar.py`). What a constructor of Rust's means is
stated here once more: 26-uverbs-diff tells if that is not what the module does.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGE = TOP / "Documentation/uverbs-abi.md"
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|\b(?:struct|enum)\b(?= \w)|(".*?")', re.S)
# Sizes are C expressions until Values settles them.
Attribute = collections.namedtuple("Attribute", "kind low high object access marks")
Command = collections.namedtuple("Command", "object request answer udata needs")


# The mark of an attribute that needs a feature, before its name.
ONLY = "only with "


def features(linux):
    """The features that a kernel source has."""
    told = subprocess.run([TOP / "tools/features.sh", linux], capture_output=True, check=True, text=True)
    return set(told.stdout.split())


class Table:
    """What a set of sources defines, by the names of the uapi headers."""

    def __init__(self):
        self.files, self.needs = set(), collections.defaultdict(set)
        self.methods, self.commands = collections.defaultdict(dict), {}
        # The features that objects, and methods (object, method), need.
        self.only = {}

    def on(self, found):
        """What is left of this with the features that were found."""
        lost = {key for key, feature in self.only.items() if feature not in found}
        table = Table()
        table.files, table.commands = self.files - lost, self.commands
        table.needs |= {obj: needs for obj, needs in self.needs.items() if obj not in lost}
        table.methods |= {obj: {
            name: dict(self.there(attributes, found)) for name, attributes in methods.items()
            if (obj, name) not in lost} for obj, methods in self.methods.items() if obj not in lost}
        return table

    @staticmethod
    def there(attributes, found):
        for name, attr in attributes.items():
            only = {mark for mark in attr.marks if mark.startswith(ONLY)}
            if only <= {ONLY + feature for feature in found}:
                yield name, attr._replace(marks=attr.marks - only)

    def attributes(self):
        """Each method's attributes."""
        return [attributes for methods in self.methods.values() for attributes in methods.values()]

    def differences(self, other):
        for what in ("files", "needs", "methods", "commands"):
            yield from differ(what, getattr(self, what), getattr(other, what))


def differ(what, mine, peer):
    """The differences of two nested dictionaries, as text."""
    if isinstance(mine, dict) and isinstance(peer, dict):
        for key in sorted(mine.keys() | peer.keys()):
            yield from differ(f"{what} {key}", mine.get(key), peer.get(key))
    elif mine != peer:
        yield f"{what}: {mine} in Rust, {peer} in C"


# Expressions

class Node:
    """A name with what follows it: types in <>, arguments in () or [], fields in {}, and the
    methods that are called on it. A list has no name."""

    def __init__(self, name):
        self.name, self.types, self.args, self.fields, self.marks = name, [], [], {}, []


def parse(text):
    """The expression that the text begins with."""
    tokens = collections.deque(re.findall(r"::<|\w+(?:::\w+)*!?|[^\s&]", text))

    def several(end, one):
        found = []
        while tokens[0] != end:
            found.append(one())
            if tokens[0] == ",":
                tokens.popleft()
        tokens.popleft()
        return found

    def field():
        name = tokens.popleft()
        if tokens.popleft() != ":":
            raise SyntaxError(f"a field {name} without a value")
        return name, expression()

    def type_():
        name = tokens.popleft()
        return name + tokens.popleft() if name == "(" else name

    def expression():
        token = tokens.popleft()
        node = Node(token if token != "[" else None)
        if token == "[":
            node.args = several("]", expression)
        elif not re.match(r"\w", token):
            raise SyntaxError(f"{token} is not understood")
        if tokens[0] == "::<":
            tokens.popleft()
            node.types = several(">", type_)
        if tokens[0] == "(":
            tokens.popleft()
            node.args = several(")", expression)
        elif tokens[0] == "{":
            tokens.popleft()
            node.fields = dict(several("}", field))
        while tokens and tokens[0] in (".", "+", "as"):
            how = tokens.popleft()
            if how == "+":
                left, node = node, Node("+")
                node.args = [left, expression()]
                continue
            node.marks.append(tokens.popleft())
            if how == "." and (tokens.popleft(), tokens.popleft()) != ("(", ")"):
                raise SyntaxError(f"{node.marks[-1]} has arguments")
        return node

    return expression()


def of_type(name):
    """A type as C names it; () is none."""
    name = name.split("::")[-1]
    if name.startswith("ib_"):
        return f"struct {name}"
    return {"u8": "uint8_t", "u32": "uint32_t", "u64": "uint64_t", "int": "int", "()": ""}[name]


def size(name):
    return f"sizeof({of_type(name)})"


def to(name, last):
    """The size up to a member and with it."""
    return f"offsetofend({of_type(name)}, {last})"


def attribute(kind, low="0", high="0", obj="", access="", marks=()):
    # One that is made or destroyed is mandatory.
    more = {"mandatory"} if access in ("new", "destroy") else set()
    return Attribute(kind, low, high, obj, access, frozenset(marks) | more)


UHW = {"UVERBS_ATTR_UHW_IN": attribute("in", "0", "65535", marks=["driver"]),
       "UVERBS_ATTR_UHW_OUT": attribute("out", "0", "65535", marks=["driver"])}


# The tables of uverbs/object/

class Rust:
    """The table of one file."""

    def __init__(self, text, ids):
        self.text, self.ids = NOT_CODE.sub("", text), ids
        use = r"use (?:rdma::)?(?:bindings|(?:features::)?uapi)::(\w+) as (\w+);"
        self.names = {alias: name for name, alias in re.findall(rf"(?m)^{use}", self.text)}
        for module, body in re.findall(r"(?ms)^mod (\w+) \{$(.*?)^\}", self.text):
            self.names |= {f"{module}::{alias}": name for name, alias in re.findall(use, body)}
        self.names |= {alias: value for alias, value in
                       re.findall(r"(?m)^const (\w+): \w+ = (?:bindings::)?(\w+);", self.text)}

    def name(self, node):
        """A constant of the headers."""
        name = self.ids.get(node.name) or self.names.get(node.name, node.name)
        found = re.search(r"(?:UVERBS|IB_USER_VERBS)_[A-Z_]+$", name)
        if not found:
            raise SyntaxError(f"{node.name} is no name of the headers")
        return found[0]

    def number(self, node):
        if node.name == "+":
            left, right = node.args
            if (left.name, right.name) == ("offset_of!", "size_of"):
                return to(left.args[0].name, left.args[1].name)
        if node.name == "size_of":
            return size(node.types[0])
        return {"u16::MAX": "65535"}.get(node.name) or str(int(self.names.get(node.name, node.name)))

    def attribute(self, node):
        how, of, args = node.name.removeprefix("Attribute::"), node.types, node.args
        marks = node.marks
        kind, _, form = how.partition("_")
        kind = {"input": "in", "output": "out", "constant": "const", "choice": "enum"}.get(kind, kind)
        if how in ("input", "output"):
            made = attribute(kind, *map(self.number, args[1:]), marks=marks)
        elif form == "of":
            made = attribute(kind, size(of[0]), size(of[0]), marks=marks)
        elif form == "struct":
            made = attribute(kind, self.number(args[1]), size(of[0]), marks=marks + ["zero_trailing"])
        elif how in ("constant", "flags"):
            made = attribute(kind, {"const": "8", "flags": "4"}[kind], "8", marks=marks)
        elif how == "choice":
            made = attribute(kind, "0", self.number(args[1]), marks=marks)
        elif how == "raw_file":
            made = attribute("rawfd", marks=marks)
        elif how in ("handle", "file"):
            made = attribute({"handle": "idr", "file": "fd"}[how], obj=self.name(args[1]), marks=marks,
                             access=args[2].name.removeprefix("Access::").lower())
        else:
            raise SyntaxError(f"{node.name} is not understood")
        return self.name(args[0]), made

    def group(self, node):
        marks = set()
        if node.name == "only!":
            marks = {ONLY + node.args[0].name.lower()}
            node = node.args[1]
        for name, attr in map(self.attribute, node.args):
            yield name, attr._replace(marks=attr.marks | marks)

    def method(self, node):
        found = {}
        for group in node.fields["attributes"].args:
            found |= UHW if group.name == "UHW" else dict(self.group(group))
        return self.name(node.fields["id"]), found

    def command(self, node, obj):
        request, answer = (node.types + ["()"])[:2]
        name = self.name(node.args[0])
        if (node.name == "Write::extended") != ("_EX_CMD_" in name):
            raise SyntaxError(f"{name} is made by {node.name}")
        return name, Command(obj, of_type(request), of_type(answer), "udata" in node.marks, set())

    def add(self, table, feature):
        """Adds this to a table, with the feature that all of this needs, if any."""
        obj = command = None
        text = self.text.split("TABLE: &[Def] = ", 1)[1]
        for entry in parse(text).args:
            what, value = entry.name.removeprefix("Def::"), entry.args[0]
            if what == "Tree":
                obj = self.name(value.fields["id"])
                methods = dict(map(self.method, value.fields["methods"].args))
                table.methods[obj] |= methods
                if feature and value.fields["of"].name == "Some":
                    table.only[obj] = feature
                elif feature:
                    table.only |= {(obj, name): feature for name in methods}
                if re.search(r"static TYPE: FileType\b", self.text):
                    table.files.add(obj)
            elif what == "Object":
                obj = self.name(value)
            elif what == "Write":
                name, command = self.command(value, obj)
                table.commands[name] = command
            elif what in ("ObjectNeeds", "CommandNeeds"):
                (table.needs[obj] if what == "ObjectNeeds" else command.needs).add(value.args[0].name)
            else:
                raise SyntaxError(f"{entry.name} is not understood")


def rust():
    table, ids = Table(), {}
    texts = {path.stem: path.read_text() for path in sorted((TOP / "uverbs/object").glob("*.rs"))}
    ids |= {f"{kind}::ID": name for kind, name in re.findall(
        r"object::\w+::(\w+) = (\w+)", (TOP / "uverbs/edge/kinds.rs").read_text())}
    tables = {name: text for name, text in texts.items() if "TABLE: &[Def]" in text}
    core = (TOP / "uverbs/table.rs").read_text()
    if sorted(tables) != sorted(re.findall(r"object::(\w+)::TABLE", core)):
        raise SyntaxError("uverbs/table.rs has not the tables of all objects")
    only = {name: feature.lower() for feature, name in
            re.findall(r"only!\((\w+), object::(\w+)::TABLE\)", core)}
    for name, text in tables.items():
        Rust(text, ids).add(table, only.get(name))
    return table


def numbers_without(found):
    """The names that need features, but those that were found, with their numbers."""
    text = (TOP / "rust/features/uapi.rs").read_text()
    for feature, body in re.findall(r"(?ms)^names! \{ rdma_has_(\w+):$(.*?)^\}", text):
        if feature not in found:
            yield from re.findall(r"_(UVERBS_[A-Z_]+) = (\d+);", body)


# The definitions of the C module

class C:
    def __init__(self, folder):
        files = [*sorted(folder.glob("uverbs_std_types*.c")), folder / "uverbs_cmd.c"]
        self.text = NOT_CODE.sub(lambda found: "0" if found[1] else "",
                                 "".join(path.read_text() for path in files))
        self.methods = {}

    def calls(self, pattern):
        """The expressions that begin with a name."""
        for found in re.finditer(rf"(?<=[\s(]){pattern}(?=\()", self.text):
            yield parse(self.text[found.start():found.start() + 9000])

    def bytes(self, node):
        """The least and the largest size, and a mark."""
        args = [arg.name if not arg.args else size(arg.args[0].name) for arg in node.args]
        return {
            "UVERBS_ATTR_TYPE": lambda of: (size(of), size(of), []),
            "UVERBS_ATTR_STRUCT": lambda of, last: (to(of, last), size(of), ["zero_trailing"]),
            "UVERBS_ATTR_MIN_SIZE": lambda low: (low, "65535", []),
        }[node.name](*args)

    def attribute(self, node):
        how, args = node.name.removeprefix("UVERBS_ATTR_"), node.args
        if how == "UHW":
            return UHW
        flags = {arg.name for arg in args}
        marks = [mark for flag, mark in (("UA_MANDATORY", "mandatory"), ("UA_ALLOC_AND_COPY", "copied"))
                 if flag in flags]
        if how in ("PTR_IN", "PTR_OUT"):
            low, high, more = self.bytes(args[1])
            made = attribute(how[4:].lower(), low, high, marks=marks + more)
        elif how == "UMEM":
            of = size("ib_uverbs_buffer_desc")
            made = attribute("in", of, of, marks=marks)
        elif how in ("CONST_IN", "FLAGS_IN"):
            made = attribute(how[:5].lower(), "8" if how == "CONST_IN" else "4", "8", marks=marks)
        elif how == "ENUM_IN":
            choices = re.search(rf"\b{args[1].name}\[\] = \{{(.*?)\n\}};", self.text, re.S)[1]
            made = attribute("enum", "0", str(choices.count("] =")), marks=marks)
        elif how == "RAW_FD":
            made = attribute("rawfd", marks=marks)
        elif how in ("IDR", "FD"):
            made = attribute(how.lower(), obj=args[1].name, marks=marks,
                             access=args[2].name.removeprefix("UVERBS_ACCESS_").lower())
        else:
            raise SyntaxError(f"{node.name} is not understood")
        return {args[0].name: made}

    def command(self, node, obj):
        how, args = node.args[2].name, [arg.name for arg in node.args[2].args]
        if how.endswith("_EX"):
            # The members up to which a program must give them; uverbs does not look at that.
            args = args[::2]
        request, answer = (args + ["()"])[:2]
        return Command(obj, of_type(request), of_type(answer), "_UDATA_" in how,
                       {need.args[0].name for need in node.args[3:]})

    def table(self):
        table = Table()
        for node in self.calls(r"DECLARE_UVERBS_NAMED_METHOD(?:_DESTROY)?"):
            found = self.methods[node.args[0].name] = {}
            for each in node.args[1:]:
                found |= self.attribute(each)
        for node in self.calls(r"DECLARE_UVERBS_(?:NAMED_OBJECT|GLOBAL_METHODS)"):
            obj = node.args[0].name
            for method in node.args[1:]:
                if method.name == "UVERBS_METHOD":
                    name = method.args[0].name
                    table.methods[obj][name] = self.methods[name]
                elif method.name.startswith("UVERBS_TYPE_ALLOC_FD"):
                    table.files.add(obj)
            table.methods[obj] |= {}
        for list_ in re.findall(r"uverbs_def_obj_\w+\[\] = \{(.*?)\n\};", self.text, re.S):
            parts = re.split(r"UAPI_DEF_CHAIN_OBJ_TREE_NAMED\(\s*(\w+)", list_)
            for obj, needs in zip(parts[1::2], parts[2::2]):
                table.needs[obj] |= set(re.findall(r"UAPI_DEF_OBJ_NEEDS_FN\((\w+)\)", needs))
        for node in self.calls("DECLARE_UVERBS_OBJECT"):
            obj = node.args[0].name
            for each in node.args[1:]:
                if each.name == "UAPI_DEF_OBJ_NEEDS_FN":
                    table.needs[obj].add(each.args[0].name)
                else:
                    table.commands[each.args[0].name] = self.command(each, obj)
        return table


# The page

class Values:
    """What a C compiler with the kernel's headers makes of names and sizes."""

    def __init__(self, linux, *tables):
        asked = set()
        for table in tables:
            asked |= {*table.methods, *table.commands, *(name for obj in table.methods.values() for name in obj)}
            for attributes in table.attributes():
                asked |= {*attributes, *(size for a in attributes.values() for size in (a.low, a.high))}
            asked |= {f"sizeof({of})" for c in table.commands.values() for of in (c.request, c.answer) if of}
        self.of = self.ask(linux, sorted(asked))
        for table in tables:
            for attributes in table.attributes():
                attributes |= {name: a._replace(low=self.of[a.low], high=self.of[a.high])
                               for name, a in attributes.items()}

    @staticmethod
    def ask(linux, expressions):
        source = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
        for name in ("ib_user_ioctl_cmds", "ib_user_ioctl_verbs", "ib_user_verbs"):
            source += f"#include <rdma/{name}.h>\n"
        source += "".join(f"#define {name} {number}\n" for name, number in numbers_without(features(linux)))
        source += "#define offsetofend(t, m) (offsetof(t, m) + sizeof(((t *)0)->m))\nint main(void)\n{\n"
        source += "".join(f'printf("%llu\\n", (unsigned long long)({each}));\n' for each in expressions)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # Of these headers only: the kernel's others are not for programs as they are.
            (folder / "rdma").symlink_to(linux / "include/uapi/rdma")
            (folder / "ask.c").write_text(source + "}\n")
            subprocess.run(["gcc", f"-I{folder}", "-o", folder / "ask", folder / "ask.c"], check=True)
            told = subprocess.run([folder / "ask"], capture_output=True, check=True).stdout
        return dict(zip(expressions, map(int, told.split())))

    def order(self, names):
        return sorted(names, key=lambda name: (self.of[name], name))


HEAD = """<!-- SPDX-License-Identifier: GPL-2.0 -->

# The ABI of `ib_uverbs`

What programs may ask of `/dev/infiniband/uverbsN`: {objects} objects, {methods} methods by ioctl, {plain} commands
by write, {extended} extended ones. `tools/uverbs_abi.py` makes this page from the tables in `uverbs/object/`
(`make fmt`); `make check` fails if it is not current, or if the tables are not those of the C
module. The fuzzers of the guest read it, so it is also the grammar of their requests.

An object and all that takes its handle is there if the driver has every operation that the object
needs; so is a command. Drivers may add objects, methods and attributes. "Only with" names the
feature that the kernel must have ([kernels.md](kernels.md#72-and-73)).

| kind of an attribute | what a program gives |
|---|---|
| in, out | memory that the kernel reads or writes; up to 8 bytes that are read stand in the attribute |
| const, flags | a number of 8 bytes; flags of 4 or 8 |
| enum | one of so many choices, from 0, in the attribute's header |
| idr, fd | a number or a file descriptor that stands for an object, and what is done with that |
| rawfd | a file descriptor of another kind |

`4..8` bytes are from 4 to 8; `4..` has no limit but 65535; `48 0..` may be followed by any number of zeros.
A mandatory attribute must be given. One that is copied is in the kernel's memory before the method
runs; one of the driver is passed on to it.
"""


class Page:
    def __init__(self, table, values):
        self.table, self.value, self.order = table, values.of, values.order

    @staticmethod
    def bytes(attr):
        if attr.kind in ("idr", "fd", "rawfd"):
            return ""
        if attr.kind == "enum":
            return f"{attr.high} choices"
        text = str(attr.low) if attr.low == attr.high else f"{attr.low}..{attr.high}"
        return text.removesuffix("65535") + (" 0.." if "zero_trailing" in attr.marks else "")

    def only(self, key):
        return f"Only with `{self.table.only[key]}`.\n" if key in self.table.only else ""

    def structure(self, of):
        return f"`{of.removeprefix('struct ')}` {self.value[f'sizeof({of})']}" if of else ""

    def text(self):
        table = self.table
        plain = [name for name in table.commands if "_EX_" not in name]
        yield HEAD.format(objects=len(table.methods), methods=sum(map(len, table.methods.values())),
                          plain=len(plain), extended=len(table.commands) - len(plain))
        for obj in self.order(table.methods):
            yield f"\n## {obj.removeprefix('UVERBS_OBJECT_')}, {self.value[obj]}\n\n"
            yield "Handles are file descriptors.\n" if obj in table.files else ""
            needs = ", ".join(f"`{need}`" for need in sorted(table.needs[obj]))
            yield f"Needs {needs}.\n" if needs else "Needs nothing.\n"
            yield self.only(obj)
            for method in self.order(table.methods[obj]):
                yield f"\n### {method}, {self.value[method]}\n\n"
                if (obj, method) in table.only:
                    yield self.only((obj, method)) + "\n"
                yield "| attribute | number | kind | bytes | object | marks |\n|---|---:|---|---|---|---|\n"
                for name in self.order(table.methods[obj][method]):
                    attr = table.methods[obj][method][name]
                    use = f"{attr.access} {attr.object.removeprefix('UVERBS_OBJECT_')}".strip()
                    marks = ", ".join(sorted(attr.marks - {"zero_trailing"}))
                    cells = name, f"{self.value[name]:#x}", attr.kind, self.bytes(attr), use, marks
                    yield "| " + " | ".join(cells) + " |\n"
        yield "\n## Commands\n\nOf an extended command, the driver may have a request and an answer always.\n\n"
        yield "| command | number | object | request | answer | driver's bytes | needs |\n"
        yield "|---|---:|---|---|---|---|---|\n"
        for name in sorted(table.commands, key=lambda name: ("_EX_" in name, self.value[name])):
            command = table.commands[name]
            yield "| " + " | ".join([
                name, str(self.value[name]), command.object.removeprefix("UVERBS_OBJECT_"),
                self.structure(command.request), self.structure(command.answer),
                "yes" if command.udata or "_EX_" in name else "no",
                ", ".join(f"`{need}`" for need in sorted(command.needs))]) + " |\n"


def main():
    mode, linux = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    table, peer = rust(), C(linux / "drivers/infiniband/core").table()
    page = "".join(Page(table, Values(linux, table, peer)).text())
    if mode == "write":
        PAGE.write_text(page)
        return
    wrong = list(table.on(features(linux)).differences(peer))
    if not PAGE.exists() or PAGE.read_text() != page:
        wrong.append(f"{PAGE.relative_to(TOP)} is not what the tables say (make fmt updates it)")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
