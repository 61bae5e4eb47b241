# SPDX-License-Identifier: GPL-2.0
"""Requests to /dev/infiniband/uverbs* byte by byte, so that they can be wrong in any way; and
memory of every kind for them to point at."""

import ctypes
import errno
import fcntl
import os
import struct
import zlib

from uverbs_grammar import EXTENDED, IOCTL, VALID_OUTPUT

libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]

BASE = "/sys/class/infiniband_verbs"
PAGE = 4096
NO_FILE = 1000
UDMABUF_CREATE = 0x40187542
FILL = b"\xa5"
HEADER = struct.Struct("=HHHHQII")
ATTR = struct.Struct("=HHHHQ")


def node(device):
    for entry in sorted(os.listdir(BASE)):
        try:
            if open(f"{BASE}/{entry}/ibdev").read().strip() == device:
                return f"/dev/infiniband/{entry}"
        except OSError:
            pass
    return None


def call(function, *args):
    """The answer of a system call, an error by its name."""
    ctypes.set_errno(0)
    got = function(*args)
    if got >= 0:
        return got
    return error_name(ctypes.get_errno())


def error_name(number):
    return "EOPNOTSUPP" if number == errno.EOPNOTSUPP else errno.errorcode.get(number, f"E{number}")


def dma_buf(size):
    """A file of the udmabuf driver, or a number that no file has where there is no such driver."""
    try:
        maker = os.open("/dev/udmabuf", os.O_RDWR)
    except OSError:
        return NO_FILE
    shared = os.memfd_create("shared", os.MFD_ALLOW_SEALING)
    os.ftruncate(shared, size)
    fcntl.fcntl(shared, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    # Only of a buffer that may change does Python tell what the kernel returned.
    request = bytearray(struct.pack("=IIQQ", shared, 0, 0, size))
    made = fcntl.ioctl(maker, UDMABUF_CREATE, request)
    os.close(maker)
    os.close(shared)
    return made


class Memory:
    """Pages at addresses that are the same in every run, since a request that is wrong may name
    others by them: half of an address must never hit something by chance."""

    START = 0x10_F0000000
    SIZE = 1 << 20
    NULL, KERNEL, UNMAPPED = 0, 0xFFFF_8880_0010_0000, START - (64 << 20)
    # What commands that take an address of memory for the device are given.
    REGION = START + (16 << 20)
    # Pieces behind which nothing is: for requests, and for what they point at.
    EDGES = (START + (32 << 20), START + (40 << 20))
    EDGE_SIZE = 128 << 10
    # For what is asked after every request.
    ASIDE = START + (48 << 20)

    def __init__(self):
        self.map(self.START, self.SIZE)
        self.map(self.REGION, 64 << 10)
        self.end = self.START + self.SIZE
        for edge in self.EDGES:
            self.map(edge, self.EDGE_SIZE)
        self.map(self.ASIDE, 2 * PAGE)
        self.dma_buf = dma_buf(16 * PAGE)
        self.read_only = self.map(self.START + (8 << 20), 32 * PAGE, 1)
        self.used = self.START

    @staticmethod
    def map(at, size, rights=3):
        # MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE
        if libc.mmap(at, size, rights, 0x100022, -1, 0) != at:
            raise MemoryError(f"no memory at {at:#x}")
        return at

    def fresh(self):
        """Forgets what was put."""
        self.used = self.START

    def put(self, content):
        """The address of the content."""
        at = self.used
        if at + len(content) > self.end - 2 * PAGE:
            raise MemoryError("too much in one request")
        ctypes.memmove(at, content, len(content))
        self.used += -(-len(content) // 16) * 16 + 16
        return at

    def put_across(self, content, there, request=False):
        """The address of the content, of which all after `there` bytes is not mapped."""
        end = self.EDGES[request] + self.EDGE_SIZE
        ctypes.memmove(end - there, content[:there], there)
        return end - there

    def readable(self, at, size):
        """What is there of a piece of memory, at most."""
        for start, room in ((self.START, self.SIZE), *((e, self.EDGE_SIZE) for e in self.EDGES)):
            if start <= at < start + room:
                return ctypes.string_at(at, min(size, start + room - at))
        return b""


class Raw:
    """An attribute as it goes into a request."""

    def __init__(self, attr, number=None, content=None, value=0, size=None):
        self.attr = attr
        self.name = attr.name if attr else f"{number:#x}"
        self.id = attr.id if attr else number
        self.flags = 1
        self.reserved = 0
        # Bytes to be given (inline, if no more than 8); or the size of an answer; or a value.
        self.content, self.value, self.size = content, value, size
        # What contradicts them, if anything.
        self.length = self.address = self.there = None

    def copy(self):
        other = Raw.__new__(Raw)
        other.__dict__.update(self.__dict__)
        return other


class Sent:
    """What came back of a request: its answer, and the attributes as they were and are."""

    def __init__(self, answer, before, after, outputs):
        self.answer, self.before, self.after, self.outputs = answer, before, after, outputs

    @property
    def valid(self):
        """Which attributes the kernel says that it has answered."""
        return [i for i, a in enumerate(self.after) if a[2] & VALID_OUTPUT]


def pack(memory, raw):
    """The attribute's 16 bytes, and where its answer would be: (address, size) or None."""
    out, value, length = None, raw.value, 0
    if raw.content is not None:
        length = len(raw.content) if raw.length is None else raw.length
        if raw.there is not None:
            value = memory.put_across(raw.content, raw.there)
        elif length <= 8 and raw.address is None:
            value = int.from_bytes(raw.content[:8].ljust(8, b"\0"), "little")
        else:
            # More may be read than was meant: it is always the same.
            value = memory.put(raw.content.ljust(length, b"\0"))
    elif raw.size is not None:
        length = raw.size if raw.length is None else raw.length
        room = FILL * length
        if raw.there is not None:
            value = memory.put_across(room, raw.there)
        else:
            value = memory.put(room + FILL * 16)
        out = value, length + 16 if raw.there is None else raw.there
    elif raw.length is not None:
        length = raw.length
    if raw.address is not None:
        value, out = raw.address, None
    return ATTR.pack(raw.id, length, raw.flags, raw.reserved, value & (1 << 64) - 1), out


def ioctl(fd, memory, obj, method, raws, driver=0, **header):
    """One request of the ioctl. `header`: length, count, reserved1, reserved2, command."""
    memory.fresh()
    packed = [pack(memory, raw) for raw in raws]
    body = b"".join(p[0] for p in packed)
    head = HEADER.pack(header.get("length", (HEADER.size + len(body)) & 0xFFFF), obj, method,
                       header.get("count", len(raws)), header.get("reserved1", 0), driver,
                       header.get("reserved2", 0))
    at = memory.put_across(head + body, header.get("there", HEADER.size + len(body)),
                           True)
    answer = call(libc.ioctl, fd, header.get("command", IOCTL), at)
    after = memory.readable(at, HEADER.size + len(body))[HEADER.size:]
    whole = len(after) // ATTR.size * ATTR.size
    return Sent(answer, [ATTR.unpack(p[0]) for p in packed],
                [ATTR.unpack_from(after, i) for i in range(0, whole, ATTR.size)],
                [p[1] for p in packed])


class Counts:
    """How many objects there are of each type, as the kernel counts them: asked for after every
    request, so it is made in advance."""

    STEP = HEADER.size + 3 * ATTR.size + 8

    def __init__(self, memory, driver, objects):
        self.requests = []
        handles = memory.ASIDE + PAGE
        for obj, number in objects.items():
            at = memory.ASIDE + number * self.STEP
            body = ATTR.pack(0, 8, 1, 0, number) + ATTR.pack(1, 4, 1, 0, at + self.STEP - 8)
            body += ATTR.pack(2, 1024, 1, 0, handles)
            head = HEADER.pack(HEADER.size + len(body), 0, 1, 3, 0, driver, 0)
            ctypes.memmove(at, head + body, len(head + body))
            self.requests.append((obj, at, ctypes.c_uint32.from_address(at + self.STEP - 8)))

    def of(self, fd):
        return {obj: total.value for obj, at, total in self.requests
                if libc.ioctl(fd, IOCTL, at) == 0}


class Write:
    """A command of write(): what can be wrong about it has a name."""

    def __init__(self, command, ex, body, driver_in=b"", driver_out=0, answer=None):
        self.command, self.ex, self.body = command, ex, body
        self.driver_in, self.driver_out = driver_in, driver_out
        self.answer = command.answer if answer is None else answer
        self.wrong = {}

    def copy(self, **wrong):
        other = Write(self.command, self.ex, self.body, self.driver_in, self.driver_out,
                      self.answer)
        other.wrong = {**self.wrong, **wrong}
        return other

    def send(self, fd, memory):
        """The answer of write(), what came into the answer's place, and how much of that is the
        command's own."""
        w = self.wrong.get
        memory.fresh()
        body = w("body", self.body) + self.driver_in
        room = self.answer + self.driver_out
        if "there" in self.wrong:
            at = memory.put_across(FILL * room, min(w("there"), room))
        else:
            at = memory.put(FILL * (room + 64))
        address = w("response", at if room else 0)
        number = w("number", self.command.number | (EXTENDED if self.ex else 0))
        if self.ex:
            head = struct.pack("=IHH", number, w("in_words", len(self.body) // 8),
                               w("out_words", self.answer // 8))
            head += struct.pack("=QHHI", address, w("provider_in", len(self.driver_in) // 8),
                                w("provider_out", self.driver_out // 8), w("reserved", 0))
        else:
            if self.command.reply and len(body) >= 8:
                body = struct.pack("=Q", address) + body[8:]
            total = 8 + len(body)
            head = struct.pack("=IHH", number, w("in_words", total // 4 & 0xFFFF),
                               w("out_words", room // 4))
        data = head + body
        count = w("count", len(data))
        if "request_there" in self.wrong:
            source = memory.put_across(data, w("request_there"), True)
        elif "source" in self.wrong:
            source = w("source")
        else:
            source = memory.put(data.ljust(count, b"\0"))
        answer = call(libc.write, fd, source, count)
        return answer, memory.readable(at, room + 64 if "there" not in self.wrong else w("there"))


def changed(content, mask=()):
    """What was written into an answer's place, as text. Masked bytes: only whether."""
    words = []
    content = content[:(len(content.rstrip(FILL)) + 3) // 4 * 4]
    for i in range(0, len(content), 4):
        word = content[i:i + 4]
        if word == FILL * len(word):
            words.append("." * 8)
        elif any(low <= i < high for low, high in mask):
            words.append("*" * 8)
        else:
            words.append(word.hex())
    text = " ".join(words)
    if len(words) > 12:
        # A change anywhere is one of the sum.
        return f"{len(words)} words, sum {zlib.crc32(text.encode()):08x}"
    return text or "-"
