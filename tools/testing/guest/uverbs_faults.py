# SPDX-License-Identifier: GPL-2.0
"""The ways in which a request to ib_uverbs can be almost right. A fault is (name, function): of an
attribute, the function takes it and gives the attributes to send instead; of a command of
write(), it takes the command and gives the one to send."""

import struct

from uverbs_grammar import EXTENDED, OBJECTS
from uverbs_lib import Memory, Raw

MOST = 65535
NUMBERS = {"0": 0, "1": 1, "2^31": 1 << 31, "2^32": 1 << 32, "2^63": 1 << 63, "-1": (1 << 64) - 1}


def change(**fields):
    """A fault that sets fields of the attribute."""
    def fault(raw):
        other = raw.copy()
        for name, value in fields.items():
            setattr(other, name, value)
        return [other]
    return fault


def long(size, tail=b"\0"):
    def fault(raw):
        other = raw.copy()
        if raw.content is not None:
            other.content = (raw.content + tail * size)[:size]
        else:
            other.size = size
        return [other]
    return fault


def sizes(attr):
    found = {"len 0": 0, "len 4": 4, "len 8": 8, "len 9": 9, f"len {MOST}": MOST,
             "len min-1": attr.low - 1, "len min": attr.low}
    if attr.high is not None:
        found.update({"len max+1": attr.high + 1, "len max+8": attr.high + 8})
    return {name: size for name, size in found.items() if size >= 0}


def pointers(attr, raw):
    """Of a piece of memory that is not there, or not wholly."""
    size = raw.size if raw.content is None else len(raw.content)
    # Up to 8 bytes that are given stand in the attribute itself: there is no pointer.
    if raw.content is not None and size <= 8:
        return
    for name, at in {"null": Memory.NULL, "unmapped": Memory.UNMAPPED, "kernel": Memory.KERNEL,
                     "top": (1 << 64) - 1}.items():
        yield name, change(address=at)
    if raw.content is None:
        yield "read-only", change(address=Memory.START + (8 << 20))
    if size > 1:
        yield "into nothing", change(there=size // 2)
        yield "last byte missing", change(there=size - 1)


def of_handle(world, other, attr):
    for name, value in NUMBERS.items():
        yield f"handle {name}", change(value=value)
    mine = world.get(attr.obj)
    yield "handle 2^32 too much", change(value=1 << 32 | mine)
    yield "handle 2^63 too much", change(value=1 << 63 | mine)
    yield "free", change(value=1000)
    if attr.kind == "idr":
        if world.dead.get(attr.obj) is not None:
            yield "destroyed", change(value=world.dead[attr.obj])
        for obj, number in world.have.items():
            if obj != attr.obj:
                yield f"a {obj}", change(value=number)
        if other.get(attr.obj) != world.get(attr.obj):
            yield "another file's", change(value=other.get(attr.obj))
        return
    for obj in ("COMP_CHANNEL", "ASYNC_EVENT"):
        if obj in world.have and obj != attr.obj:
            yield f"a {obj}", change(value=world.have[obj])
        if obj in other.have:
            yield f"another file's {obj}", change(value=other.have[obj])
    yield "the node", change(value=world.fd)
    yield "a file", change(value=0)


def of_attribute(world, other, attr, raw):
    """Faults of one attribute, of which the request has the Raw."""
    yield "absent", lambda raw: []
    yield "twice", lambda raw: [raw, raw.copy()]
    yield "reserved", change(reserved=raw.reserved | 1 << 8)
    yield "reserved 1", change(reserved=1)
    yield "reserved all", change(reserved=MOST)
    yield "not mandatory", change(flags=0)
    yield "unknown flags", change(flags=0xFFFD)
    if attr.access == "new":
        yield "len 4", change(length=4)
        return
    if attr.kind in ("idr", "fd"):
        yield "len 4", change(length=4)
        yield "len 8", change(length=8)
        yield from of_handle(world, other, attr)
        return
    if attr.kind == "rawfd":
        yield "len 4", change(length=4)
        for name, value in {**NUMBERS, "2^31-1": (1 << 31) - 1, "-2^31": (1 << 64) - (1 << 31),
                            "the node": world.fd, "free": 1000}.items():
            yield f"value {name}", change(value=value)
        return
    for name, size in sizes(attr).items():
        yield name, long(size)
    if attr.kind == "out":
        yield "null and len 0", change(size=0, address=0)
    else:
        now = len(raw.content)
        yield "tail", long(now + 8, b"\xff")
        yield "tail, last byte", long(now + 200, bytes(100) + b"\x01")
        if now <= 8:
            for name, value in NUMBERS.items():
                size = max(now, 4)
                content = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
                yield f"value {name}", change(content=content)
        else:
            for at in range(0, min(now, 64), 4):
                for name, word in WORDS.items():
                    content = raw.content[:at] + word + raw.content[at + 4:]
                    yield f"word {at} {name}", change(content=content[:now])
    if attr.kind == "enum":
        for elem in (1, 2, 3, 255):
            yield f"element {elem}", change(reserved=elem)
    if attr.kind in ("const", "flags"):
        for bit in range(64):
            if 8 * len(raw.content) > bit:
                yield f"bit {bit}", change(content=(1 << bit).to_bytes(len(raw.content), "little"))
        for value in (2, 3, 4, 5, 6, 7, 9, 10, 11, 255, 256, 257):
            yield f"value {value}", change(content=value.to_bytes(len(raw.content), "little"))
    yield from pointers(attr, raw)


WORDS = {"0": bytes(4), "1": b"\1\0\0\0", "2^31": b"\0\0\0\x80", "-1": b"\xff" * 4}


def strangers():
    """Attributes that no method has: (name, the Raw)."""
    for number in (63, 0x7FF, 0x1FFF, 0x2000, MOST):
        for flags in (0, 1, 2, 0xFFFC):
            raw = Raw(None, number, value=7)
            raw.flags = flags
            yield f"unknown {number:#x} flags {flags:#x}", raw


def headers(count):
    """Faults of the ioctl's header: (name, its fields)."""
    size = 24 + 16 * count
    for length in (0, 1, 23, 24, size - 16, size - 1, size + 1, size + 16, 4096, 4097, MOST):
        if length != size:
            yield f"length {length}", {"length": length}
    for number in (0, count - 1, count + 1, 254, 255, 256, MOST):
        if 0 <= number != count:
            yield f"attributes {number}", {"count": number}
            yield f"attributes {number} and length", {
                "count": number, "length": 24 + 16 * number & MOST}
    for name in ("reserved1", "reserved2"):
        yield name, {name: 1}
    yield "reserved1, top", {"reserved1": 1 << 63}
    for there in (0, 1, 23, 24, 25, size - 1):
        yield f"ends after {there}", {"there": there}
    for driver in (1 << 31, MOST, 100):
        yield f"driver {driver}", {"driver": driver}
    for command in (0, 0x1B01, 0xC0181B00, 0xC0181B02, 0xC0191B01, 0x5401):
        yield f"command {command:#x}", {"command": command}
    yield "length and reserved1", {"length": 1, "reserved1": 1}
    yield "reserved1 and driver", {"reserved1": 1, "driver": 100}


def set_(**wrong):
    return lambda write: write.copy(**wrong)


def of_header(write):
    """Faults of what stands before and behind a command."""
    unit = 8 if write.ex else 4
    head = 24 if write.ex else 8
    total = head + len(write.body) + len(write.driver_in)
    words = len(write.body) // 8 if write.ex else total // 4
    for name, value in {"0": 0, "-1": words - 1, "+1": words + 1, "most": MOST}.items():
        yield f"in_words {name}", set_(in_words=value & MOST)
    room = write.answer + (0 if write.ex else write.driver_out)
    for value in sorted({0, 1, room // unit - 1, room // unit + 1, 64, MOST}):
        if value >= 0:
            yield f"out_words {value}", set_(out_words=value)
    for value in sorted({0, 1, 4, 7, 8, 9, 12, 16, 23, 24, 25, total - 4, total - 1, total + 1,
                         total + 4, total + 8}):
        if value != total:
            yield f"count {value}", set_(count=value)
    flag = EXTENDED if write.ex else 0
    number = write.command.number
    for name, value in {"the other kind": number | flag ^ EXTENDED, "bit 30": flag | 1 << 30,
                        "bit 8": flag | 1 << 8, "bit 24": flag | 1 << 24}.items():
        yield name, set_(number=number | value)
    for longer in (4, 8, 64):
        yield f"longer by {longer}", set_(body=write.body + bytes(longer))
        yield f"longer by {longer}, not zero", set_(body=write.body + b"\1" * longer)
    for shorter in (1, 2, 4, 8, 16):
        if shorter <= len(write.body):
            yield f"shorter by {shorter}", set_(body=write.body[:-shorter])
            if not write.ex:
                yield f"shorter by {shorter}, words kept", set_(body=write.body[:-shorter],
                                                                in_words=words)
    for there in (0, 1, 7, 8, 9, 16, 24, total - 4, total - 1):
        if there < total:
            yield f"ends after {there}", set_(request_there=there)
    for name, at in {"null": 0, "unmapped": Memory.UNMAPPED, "kernel": Memory.KERNEL}.items():
        yield f"request at {name}", set_(source=at, count=total)
    for name, at in {"null": 0, "unmapped": Memory.UNMAPPED, "kernel": Memory.KERNEL,
                     "read-only": Memory.START + (8 << 20), "top": (1 << 64) - 1,
                     "odd": Memory.START + (1 << 19) + 1}.items():
        yield f"answer at {name}", set_(response=at)
    for there in (0, 1, 4, write.answer // 2, write.answer - 1):
        if 0 <= there < write.answer:
            yield f"answer ends after {there}", set_(there=there)
    if write.ex:
        yield "provider_in", set_(provider_in=1)
        yield "provider_in of the body", set_(provider_in=1, in_words=words - 1 & MOST)
        yield "provider_in wraps", set_(provider_in=MOST, in_words=words + 1)
        yield "provider_out", set_(provider_out=1 + write.driver_out // 8)
        yield "provider_out alone", set_(out_words=0, provider_out=1)
        yield "no answer wanted", set_(response=0, out_words=0, provider_out=0)
        yield "reserved", set_(reserved=1)
        yield "reserved, top", set_(reserved=1 << 31)


def of_body(key, write, r=None, count=0):
    """Each word of the request otherwise; with a generator, some of its bytes."""
    first = 8 if write.command.reply and not write.ex else 0
    # An address that does not answer is waited for.
    slow = range(24, 40) if key[0] == "CREATE_AH" else ()
    for at in range(first, len(write.body) - 3, 4):
        if at in slow:
            continue
        for name, word in WORDS.items():
            if write.body[at:at + 4] != word:
                yield f"word {at} {name}", set_(body=write.body[:at] + word + write.body[at + 4:])
    for _ in range(count):
        at = r.randrange(first, len(write.body)) if len(write.body) > first else None
        value = r.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 31, 32, 64, 127, 128, 255])
        if at is not None and at not in slow and write.body[at] != value:
            yield f"byte {at} {value}", set_(
                body=write.body[:at] + struct.pack("B", value) + write.body[at + 1:])


def objects():
    """Numbers of objects and methods, known or not."""
    for obj in list(range(len(OBJECTS) + 2)) + [0x7F, 0x1000, 0x1001, 0x2000, MOST]:
        for method in list(range(9)) + [0x1F, 0x20, 0x1000, MOST]:
            yield obj, method
