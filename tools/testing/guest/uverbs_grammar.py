# SPDX-License-Identifier: GPL-2.0
"""What ib_uverbs takes: the objects with their ioctl methods and attributes, and the write commands,
as Documentation/uverbs-abi.md tells, which is made from the module's own tables: what there is with
the kernel's features, which are in a file beside the page (tools/features.sh). Without it, everything.

METHODS[object, method] = Method(object, method id, attributes)
COMMANDS[name, extended] = Command(number, object, request, answer, driver bytes)"""

import os
import re
from collections import namedtuple

# kind: as in the page. low, high: the lengths that an "in" or "out" may have; high None is no
# bound but 65535. zero: it may be longer than high, with zeros behind. mask: bytes of an output
# that are not the same twice, since the device or the keys' generator chooses them.
Attr = namedtuple("Attr", "name id kind low high mandatory zero obj access mask")
Method = namedtuple("Method", "object id attrs")
# request and answer: the sizes without driver bytes, with the 8 bytes of the answer's address in
# a request that is not extended. reply: it has that address. mask: as of an attribute.
Command = namedtuple("Command", "number object request answer driver reply mask")

# The keys of regions and windows, and the numbers of queues. What the driver gives back are offsets
# for mmap and numbers of its own: only whether.
MASKS = {"UHW_OUT": ((0, 65535),)}
MASKS.update({name: ((0, 4),) for name in (
    "RESP_LKEY", "RESP_RKEY", "RESP_QP_NUM", "RESP_SRQ_NUM", "RESP_WQ_NUM")})
COMMAND_MASKS = {
    ("REG_MR", False): ((4, 12),), ("REREG_MR", False): ((0, 8),), ("ALLOC_MW", False): ((4, 8),),
    ("CREATE_QP", False): ((4, 8),), ("CREATE_SRQ", False): ((12, 16),),
    ("CREATE_XSRQ", False): ((12, 16),), ("OPEN_QP", False): ((4, 8),),
    ("CREATE_QP", True): ((4, 8),), ("CREATE_WQ", True): ((20, 24),),
    ("CREATE_RWQ_IND_TBL", True): ((12, 16),),
}

# Of FDS, handles are file descriptors.
OBJECTS, FDS, METHODS, COMMANDS = {}, set(), {}, {}


def attribute(name, number, kind, size, use, marks):
    low, dots, high = size.split()[0].partition("..") if size and kind != "enum" else ("0", "", "")
    high = int(high or 0) or None if dots else int(low)
    access, _, obj = use.partition(" ")
    return Attr(name, int(number, 16), kind, int(low), high, "mandatory" in marks,
                size.endswith(" 0.."), obj or None, access or None, MASKS.get(name, ()))


def attributes(rows):
    """The attributes of a method, by names without what these have in common."""
    own = [row[0].split("_") for row in rows if "_UHW_" not in row[0]]
    common = len(os.path.commonprefix(own)) if len(own) > 1 else len(own[0]) - 1
    return tuple(attribute("_".join(row[0].split("_")[2 if "_UHW_" in row[0] else common:]),
                           *row[1:]) for row in rows)


def command(name, number, obj, request, answer, driver):
    key = re.sub("IB_USER_VERBS_(EX_)?CMD_", "", name), "_EX_" in name
    request, answer = (int(size.rpartition(" ")[2] or 0) for size in (request, answer))
    COMMANDS[key] = Command(int(number), obj, request, answer, driver == "yes", answer > 0,
                            COMMAND_MASKS.get(key, ()))


def there(page, features):
    """The lines of the page that are of what there is with these features."""
    lost = False
    for section in re.split(r"(?m)^(?=##)", page):
        only = re.search(r"(?m)^Only with `(\w+)`", section)
        missing = only and only[1] not in features
        if not section.startswith("###"):
            # Its methods follow.
            lost = missing
        for line in section.splitlines() if not (lost or missing) else ():
            mark = re.search(r"\bonly with (\w+)", line)
            if not mark or mark[1] in features:
                yield line


def read():
    """Reads the page: the guest has it beside the tests."""
    here = os.path.dirname(os.path.abspath(__file__))
    page = os.path.join(here, "uverbs-abi.md")
    if not os.path.exists(page):
        page = os.path.join(here, "../../../Documentation/uverbs-abi.md")
    page = open(page, encoding="utf-8").read()
    features = set(re.findall(r"(?i)\bonly with `?(\w+)", page))
    if os.path.exists(os.path.join(here, "features")):
        features = open(os.path.join(here, "features"), encoding="utf-8").read().split()
    obj, rows = None, []
    for line in there(page, features):
        title = re.match(r"##(#?) (\w+), (\d+)$", line)
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if title and title[1]:
            rows = []
            name = title[2].removeprefix("UVERBS_METHOD_").removeprefix(obj + "_")
            METHODS[obj, name] = Method(obj, int(title[3]), rows)
        elif title:
            obj = title[2]
            OBJECTS[obj] = int(title[3])
        elif line.startswith("Handles are file descriptors"):
            FDS.add(obj)
        elif line.startswith("| UVERBS_ATTR_"):
            rows.append(cells)
        elif line.startswith("| IB_USER_VERBS_"):
            command(*cells[:6])
    for key, method in METHODS.items():
        METHODS[key] = method._replace(attrs=attributes(method.attrs))


read()
EXTENDED = 0x80000000
HOLES = sorted(set(range(41)) - {c.number for (_, ex), c in COMMANDS.items() if not ex})
IOCTL = 0xC0181B01
VALID_OUTPUT = 2
