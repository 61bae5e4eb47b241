# SPDX-License-Identifier: GPL-2.0
"""The random chains of the guest (guest/uverbs_chains.py) against a model of ib_uverbs in Python, to
test the chains: what they reach, that a seed repeats them, and that they see what a kernel does wrong.

uverbs_model.py GUEST-FOLDER reach|repeat|left|lost|kept STEPS
uverbs_model.py GUEST-FOLDER program SECONDS"""

import collections
import ctypes
import errno
import hashlib
import os
import sys

sys.path.insert(0, sys.argv[1])
import uverbs_lib as lib  # noqa: E402
import uverbs_chains as chains  # noqa: E402
from uverbs_chains import INVOKE, Chain, ended_by  # noqa: E402
from uverbs_grammar import COMMANDS, EXTENDED, FDS, IOCTL, METHODS, OBJECTS  # noqa: E402
from uverbs_world import MADE_BY, NEW_HANDLE, Port  # noqa: E402

BY_ID = {(OBJECTS[m.object], m.id): (key, m) for key, m in METHODS.items()}
BY_NUMBER = {(c.number, ex): (name, ex) for (name, ex), c in COMMANDS.items()}


class Refused(Exception):
    """With an errno."""


class Kernel:
    """Handles, and what must be right about a request. `bug` is what it does wrong, now and then:
    "left": a command that is refused leaves an object; "lost": one that succeeds ends another one;
    "kept": an object stays that was destroyed."""

    def __init__(self, bug):
        self.bug, self.asked, self.digest = bug, 0, hashlib.sha256()
        self.memory = None, None
        self.numbers, self.files = collections.defaultdict(dict), collections.defaultdict(dict)
        self.mmap = lib.libc.mmap

    def mem(self):
        """The memory of this process, if it has forked meanwhile."""
        if self.memory[0] != os.getpid():
            self.memory = os.getpid(), os.open("/proc/self/mem", os.O_RDWR)
        return self.memory[1]

    def read(self, at, size):
        try:
            got = os.pread(self.mem(), size, at) if at < 1 << 63 else b""
        except OSError:
            got = b""
        if len(got) != size:
            raise Refused(errno.EFAULT)
        return got

    def write_to(self, at, data):
        self.read(at, len(data))
        os.pwrite(self.mem(), data, at)

    def answer(self, run, *args):
        try:
            return run(*args)
        except Refused as refused:
            ctypes.set_errno(refused.args[0])
            return -1

    def ioctl(self, fd, command, at):
        return self.answer(self.call, fd, command, at)

    def write(self, fd, at, count):
        return self.answer(self.written, fd, at, count)

    # Objects

    def make(self, fd, obj):
        if obj in FDS:
            made = os.memfd_create(f"{obj}-{self.asked}")
            self.files[fd][made] = obj, os.readlink(f"/proc/self/fd/{made}")
            return made
        number = next(n for n in range(1 << 16) if n not in self.numbers[fd])
        self.numbers[fd][number] = obj
        return number

    def are_open(self, fd):
        for number, (obj, name) in self.files[fd].items():
            try:
                if os.readlink(f"/proc/self/fd/{number}") == name:
                    yield number, obj
            except OSError:
                pass

    def find(self, fd, obj, number):
        table = dict(self.are_open(fd)) if obj in FDS else self.numbers[fd]
        if table.get(number) != obj:
            raise Refused(errno.ENOENT)

    def end(self, fd, obj, number):
        self.find(fd, obj, number)
        if not (self.bug == "kept" and self.asked % 50 == 0):
            del self.numbers[fd][number]

    # Requests

    def call(self, fd, command, at):
        if command != IOCTL:
            raise Refused(errno.ENOTTY)
        length, obj, method, count, reserved, driver, reserved2 = lib.HEADER.unpack(self.read(at, 24))
        if length != 24 + 16 * count or driver:
            raise Refused(errno.EINVAL)
        data = self.read(at, length)
        if reserved or reserved2 or (obj, method) not in BY_ID:
            raise Refused(errno.EPROTONOSUPPORT)
        key, method = BY_ID[obj, method]
        if key != ("DEVICE", "INFO_HANDLES"):
            self.asked += 1
        given, attrs = {}, {a.id: a for a in method.attrs}
        for i in range(count):
            number, size, flags, reserved, value = lib.ATTR.unpack_from(data, 24 + 16 * i)
            attr = attrs.get(number)
            if attr is None:
                if flags & 1:
                    raise Refused(errno.EPROTONOSUPPORT)
                continue
            if number in given or reserved and attr.kind != "enum":
                raise Refused(errno.EINVAL)
            given[number] = size, value, at + 24 + 16 * i + 8
            if attr.kind in ("in", "out", "const", "flags"):
                if size < attr.low or not attr.zero and attr.high is not None and size > attr.high:
                    raise Refused(errno.EINVAL)
                if attr.kind == "out" or size > 8:
                    self.read(value, size)
            elif attr.kind in ("idr", "fd"):
                if size:
                    raise Refused(errno.EINVAL)
                if attr.access not in ("new", "destroy"):
                    self.find(fd, attr.obj, value)
        if any(a.mandatory and a.id not in given for a in method.attrs):
            raise Refused(errno.EINVAL)
        self.digest.update(repr((key, sorted((n, g[:2]) for n, g in given.items()))).encode())
        if key == ("DEVICE", "INFO_HANDLES"):
            kinds = [*self.numbers[fd].values(), *(obj for _, obj in self.are_open(fd))]
            total = len([kind for kind in kinds if OBJECTS[kind] == given[0][1]])
            if 1 in given:
                self.write_to(given[1][1], total.to_bytes(4, "little"))
        elif key == INVOKE:
            number, (size, value, _) = given[2][1], given.get(0, (0, 0, 0))
            body = self.read(value, size) if size > 8 else value.to_bytes(8, "little")[:size]
            # An extended command need not have an answer.
            ex = bool(number & EXTENDED)
            self.command(fd, number & 0xFF, ex, body, given.get(1, (0, None if ex else 0))[1])
        elif key == ("DEVICE", "GET_CONTEXT"):
            raise Refused(errno.EINVAL)
        for attr in method.attrs:
            if attr.access == "destroy":
                self.end(fd, attr.obj, given[attr.id][1])
            elif attr.access == "new":
                self.write_to(given[attr.id][2], self.make(fd, attr.obj).to_bytes(8, "little"))
        return 0

    def written(self, fd, at, count):
        self.asked += 1
        head = self.read(at, 8)
        number = int.from_bytes(head[:4], "little")
        in_words, out_words = (int.from_bytes(head[i:i + 2], "little") for i in (4, 6))
        ex = bool(number & EXTENDED)
        data = self.read(at, count)
        self.digest.update(data)
        if not ex:
            if in_words * 4 != count or len(data) < 16 and number in (3, 17):
                raise Refused(errno.EINVAL)
            response = int.from_bytes(data[8:16].ljust(8, b"\0"), "little")
            self.command(fd, number & 0xFF, ex, data[8:], response)
        else:
            response = int.from_bytes(data[8:16].ljust(8, b"\0"), "little")
            if count < 24 or in_words * 8 != count - 24 or data[20:24] != bytes(4):
                raise Refused(errno.EINVAL)
            self.command(fd, number & 0xFF, ex, data[24:], response if out_words else None)
        return count

    def command(self, fd, number, ex, body, response):
        key = BY_NUMBER.get((number, ex))
        if key is None:
            raise Refused(errno.EOPNOTSUPP)
        command = COMMANDS[key]
        if len(body) < command.request and not ex:
            raise Refused(errno.ENOSPC)
        ended, obj = ended_by(key, body), MADE_BY.get(key)
        if ended:
            self.end(fd, *ended)
        if key[0] == "GET_CONTEXT" and self.files[fd]:
            raise Refused(errno.EINVAL)
        if command.reply and response is not None:
            try:
                self.read(response, command.answer)
            except Refused:
                if self.bug == "left" and obj:
                    self.make(fd, obj)
                raise
        if obj:
            made = self.make(fd, obj).to_bytes(4, "little")
            if response is not None:
                self.write_to(response + NEW_HANDLE.get(obj, 0), made)
        if self.bug == "lost" and self.asked > 300 and self.asked % 50 == 0 and self.numbers[fd]:
            self.numbers[fd].popitem()


def reach(how, steps, port):
    """Whether the chain is judged as it deserves; of a repetition, whether it is the same."""
    reading, writing = os.pipe()

    def run(seed):
        lib.libc = kernel = Kernel(how)
        chain = Chain("/dev/null", port, seed)
        for _ in range(steps):
            chain.step()
        os.write(writing, kernel.digest.digest())
        # Nothing makes a FLOW_ACTION, and there is a context.
        never = (METHODS.keys() | COMMANDS.keys()) - chain.succeeded - {
            INVOKE, ("FLOW_ACTION", "DESTROY"), ("DEVICE", "GET_CONTEXT"), ("GET_CONTEXT", False)}
        print(f"{chain.asked} requests, {chain.wrong} wrong; never succeeded: {sorted(never)}")
        if how in ("left", "lost", "kept"):
            return chain.wrong > 0
        return chain.wrong == 0 and (how == "repeat" or not never)

    if how != "repeat":
        return chains.in_processes(1, run)
    right = all([chains.in_processes(1, lambda _, seed=seed: run(seed)) for seed in (1, 1, 2)])
    first, again, other = (os.read(reading, 32) for _ in range(3))
    return right and first == again != other


def main():
    how, steps = sys.argv[2], int(sys.argv[3])
    port = Port.__new__(Port)
    port.ethernet, port.index, port.gid, port.lid = True, 0, bytes(16), 1
    if how == "program":
        # As the guest runs it: two processes of their own, two that share a file.
        lib.libc = Kernel(None)
        chains.node, chains.Port = lambda device: "/dev/null", lambda device: port
        sys.argv[1:] = ["model", "1", str(steps), "2"]
        chains.main()
    sys.exit(0 if reach(how, steps, port) else 1)


main()
