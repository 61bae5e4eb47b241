# SPDX-License-Identifier: GPL-2.0
"""Requests to /dev/infiniband/uverbs* that are almost right, always the same ones: prints how each is
answered. Two modules ib_uverbs must print the same.

uverbs_answers.py [--careful] [--remove COMMAND] DEVICE SEED COUNT

COUNT pairs of faults of ioctls, as many of commands, and as many steps of chains of valid calls.
--remove: at the end COMMAND, which makes the device go. It may take as long as files are open.
--careful: without what is known to break the C module, see CAREFUL."""

import argparse
import os
import random
import subprocess
import sys
import traceback

import uverbs_faults as faults
from uverbs_grammar import COMMANDS, EXTENDED, FDS, HOLES, METHODS, OBJECTS
from uverbs_lib import Counts, Memory, changed, ioctl, node
from uverbs_sequences import after_removal, as_nobody, chains, tried
from uverbs_world import GONE, MADE_BY, NEW_HANDLE, Port, World

# Commands that --careful leaves out, each with the reason.
CAREFUL = {
    ("MODIFY_WQ", True): "a state that is refused keeps the lock of the WQ: a warning at close",
    ("OPEN_QP", False): "the QP's mutex for multicast is never initialised",
}


def close_answered(out):
    """Closes the file that an answer names. Where that cannot be read, mend() finds it."""
    fd = int.from_bytes(out[:4], "little")
    if len(out) >= 4 and 2 < fd < 1024:
        tried(lambda: os.close(fd))


class Asker:
    """Sends requests, one line for each, and mends what they left behind."""

    def __init__(self, device, path, careful=False):
        self.device, self.path, self.careful = device, path, careful
        self.memory, self.port = Memory(), Port(device)
        self.asked = 0
        # method -> attributes that were in a request that succeeded; commands that succeeded.
        self.reached, self.done, self.present = {}, set(), set()
        self.other = World(path, self.memory, self.port)
        # So that its handles are not those of the first file.
        self.spare = [self.other.make("PD") for _ in range(40)]
        for obj in ("PD", "CQ", "QP", "MR", "AH", "XRCD", "SRQ"):
            if obj in self.other.have:
                made = self.other.make(obj)
                self.other.have[obj] = self.other.have[obj] if made is None else made
        # A file that mend() may not close, though it was opened after the world.
        self.keep = None
        self.world = None
        self.rebuild()

    def rebuild(self):
        if self.world:
            self.world.close()
        self.world = World(self.path, self.memory, self.port)
        self.base = self.world.census()
        # The types that there are stay the same.
        self.counts = Counts(self.memory, self.world.driver, {o: OBJECTS[o] for o in self.base})
        self.free = self.free_fd()

    @staticmethod
    def free_fd():
        fd = os.dup(0)
        os.close(fd)
        return fd

    def mend(self):
        """Back to the world as it was; what was left is said."""
        world, left = self.world, []
        world.forget_temporary()
        now = self.free_fd()
        if now != self.free:
            left.append(f"files {now - self.free:+}")
            for fd in range(self.free, now):
                if fd != self.keep:
                    os.close(fd)
            world.fds = [fd for fd in world.fds if fd < self.free]
        census = self.counts.of(world.fd)
        for obj, number in self.base.items():
            if census.get(obj) != number:
                left.append(f"{obj} {census.get(obj, 0) - number:+}")
        if left:
            self.rebuild()
        self.asked += 1
        if self.asked % 500 == 0:
            self.resources()
        return " left: " + ", ".join(left) if left else ""

    def resources(self):
        got = subprocess.run(["rdma", "res", "show", self.device], capture_output=True, text=True,
                             check=False).stdout
        print("resources", " ".join(got.split()[1:]), dict(self.base))

    def ioctl(self, what, key, raws, fresh=False, **header):
        """One ioctl and its line."""
        world = self.world
        method = METHODS[key]
        target = World(self.path, self.memory, self.port, lonely=True) if fresh else world
        target.driver = world.driver
        sent = target.send(key, raws, **header)
        parts = []
        for i, raw in enumerate(raws):
            if i >= len(sent.after) or not raw.attr:
                continue
            if sent.after[i][4] != sent.before[i][4]:
                # Before anything is made of it, so it can be any.
                parts.append(f"{raw.name}={sent.after[i][4]:#x}")
            if sent.outputs[i]:
                text = changed(self.memory.readable(*sent.outputs[i]), raw.attr.mask)
                if text != "-":
                    parts.append(f"{raw.name}: {text}")
        valid = [raws[i].name for i in sent.valid if i < len(raws)]
        if valid:
            parts.append("valid " + ",".join(valid))
        if sent.answer == 0:
            self.reached.setdefault(key, set()).update(r.attr.name for r in raws if r.attr)
            for i, raw in enumerate(raws):
                if raw.attr and raw.attr.access == "new":
                    if raw.attr.kind == "idr":
                        world.destroy(raw.attr.obj, sent.after[i][4])
                    else:
                        tried(lambda fd=sent.after[i][4]: os.close(fd))
        if fresh:
            target.close()
        print(f"{method.object}.{key[1]} {what} -> {sent.answer} {'; '.join(parts)}".rstrip()
              + self.mend())
        return sent.answer

    def command(self, what, key, write, fresh=False):
        """One write() and its line."""
        world = self.world
        target = World(self.path, self.memory, self.port, lonely=True) if fresh else world
        answer, out = write.send(target.fd, self.memory)
        mask = write.command.mask
        if write.ex and "out_words" in write.wrong:
            # The driver's answer has moved there.
            mask = ((0, 1 << 16),)
        # Behind the core's answer is the driver's.
        core = changed(out[:write.answer], mask)
        driver = changed(out[write.answer:write.answer + write.driver_out], ((0, 1 << 16),))
        beyond = changed(out[write.answer + write.driver_out:], ((0, 1 << 16),))
        parts = [f"{name}{text}" for name, text in
                 (("", core), ("driver ", driver), ("beyond ", beyond)) if text != "-"]
        if not isinstance(answer, str):
            self.done.add(key)
            obj = MADE_BY.get(key)
            if obj in GONE and len(out) >= 12:
                at = NEW_HANDLE.get(obj, 0)
                number = int.from_bytes(out[at:at + 4], "little")
                if number != 0xA5A5A5A5:
                    world.destroy(obj, number)
            elif obj in FDS:
                close_answered(out)
        if fresh:
            target.close()
        kind = " ex" if key[1] else ""
        print(f"write {key[0]}{kind} {what} -> {answer} {'; '.join(parts)}".rstrip() + self.mend())
        return answer

    # The parts. Each request has objects of its own to end, so it is made anew for each fault.

    def fit(self, key, everything=False):
        return self.world.request(key, everything)

    def methods(self):
        """The requests that fit, and with each of the attributes that they need not have."""
        for key in METHODS:
            fresh = key == ("DEVICE", "GET_CONTEXT")
            if self.ioctl("fits", key, self.fit(key), fresh) != "EPROTONOSUPPORT":
                self.present.add(key)
            raws = self.fit(key, True)
            least = {r.name for r in self.fit(key)}
            self.ioctl("has everything", key, raws, fresh)
            for name in [r.name for r in raws if r.name not in least]:
                raws = [r for r in self.fit(key, True) if r.name in least | {name}]
                self.ioctl(f"with {name}", key, raws, fresh)
            self.ioctl("turned round", key, self.fit(key)[::-1], fresh)
            self.ioctl("empty", key, [], fresh)
        key = "MR", "REG_MR"
        least = {r.name for r in self.fit(key)} - {"ADDR"}
        raws = [r for r in self.fit(key, True) if r.name in least | {"FD", "FD_OFFSET"}]
        self.ioctl("of a dma-buf", key, raws)

    def attribute_faults(self, key, attr):
        raw = next(r for r in self.fit(key, True) if r.name == attr.name)
        self.world.forget_temporary()
        return list(faults.of_attribute(self.world, self.other, attr, raw))

    def with_faults(self, key, chosen, r=None):
        """The request, with {attribute: fault} done to it."""
        least = {raw.name for raw in self.fit(key)}
        self.world.forget_temporary()
        raws = [raw for raw in self.fit(key, True) if raw.name in least or raw.name in chosen]
        raws = [one for raw in raws
                for one in (chosen[raw.name](raw) if raw.name in chosen else [raw])]
        if r:
            r.shuffle(raws)
        return raws

    def single_faults(self):
        for key, method in METHODS.items():
            fresh = key == ("DEVICE", "GET_CONTEXT")
            for attr in method.attrs:
                for what, fault in self.attribute_faults(key, attr):
                    self.ioctl(f"{attr.name} {what}", key,
                               self.with_faults(key, {attr.name: fault}), fresh)
            for what, raw in faults.strangers():
                self.ioctl(f"{what} before", key, [raw] + self.fit(key), fresh)
                self.ioctl(f"{what} behind", key, self.fit(key) + [raw], fresh)
            for what, header in faults.headers(len(self.fit(key))):
                self.world.forget_temporary()
                self.ioctl(what, key, self.fit(key), fresh, **header)

    def pairs_of_faults(self, r, count):
        keys = list(METHODS)
        for _ in range(count):
            key = r.choice(keys)
            attrs = METHODS[key].attrs
            chosen, names = {}, []
            for attr in r.sample(attrs, min(2, len(attrs))):
                what, fault = r.choice(self.attribute_faults(key, attr))
                chosen[attr.name] = fault
                names.append(f"{attr.name} {what}")
            header = {}
            if r.random() < 0.2:
                what, header = r.choice(list(faults.headers(len(self.fit(key)))))
                self.world.forget_temporary()
                names.append(what)
            mixed = r.random() < 0.5
            raws = self.with_faults(key, chosen, r if mixed else None)
            if r.random() < 0.1:
                what, raw = r.choice(list(faults.strangers()))
                raws.insert(r.randrange(len(raws) + 1), raw)
                names.append(what)
            order = " order " + ",".join(raw.name for raw in raws) if mixed else ""
            self.ioctl(" & ".join(names) + order, key, raws, key == ("DEVICE", "GET_CONTEXT"),
                       **header)

    def numbers(self):
        """All objects and methods, with nothing, and with as many attributes as there may be."""
        for obj, method in faults.objects():
            sent = ioctl(self.world.fd, self.memory, obj, method, [], self.world.driver)
            if (obj, method) == (OBJECTS["DEVICE"], 3) and sent.answer == 0:
                self.rebuild()
            print(f"object {obj:#x} method {method:#x} -> {sent.answer}{self.mend()}")

    def allowed(self):
        return [key for key in COMMANDS if not (self.careful and key in CAREFUL)]

    def fit_command(self, key):
        return self.world.write(key, self.world.body(key))

    def commands(self, r, count):
        for key in self.allowed():
            fresh = key == ("GET_CONTEXT", False)
            if self.command("fits", key, self.fit_command(key), fresh) != "EOPNOTSUPP":
                self.present.add(key)
            write = self.fit_command(key)
            self.world.forget_temporary()
            for what, fault in faults.of_header(write):
                self.command(what, key, fault(self.fit_command(key)), fresh)
            for what, fault in faults.of_body(key, write, r, count):
                self.command(what, key, fault(self.fit_command(key)), fresh)
        for number in HOLES + [41, 42, 49, 58, 63, 64, 100, 255]:
            for ex in (False, True):
                for key in (("QUERY_DEVICE", False), ("QUERY_DEVICE", True)):
                    write = self.fit_command(key).copy(number=number | (EXTENDED if ex else 0))
                    self.command(f"as {number} {'ex' if ex else ''}", key, write)

    def pairs_of_commands(self, r, count):
        keys = self.allowed()
        for _ in range(count):
            key = r.choice(keys)
            write = self.fit_command(key)
            self.world.forget_temporary()
            both = r.sample(list(faults.of_header(write)) + list(faults.of_body(key, write)), 2)
            write = self.fit_command(key)
            for _, fault in both:
                write = fault(write)
            self.command(" & ".join(what for what, _ in both), key, write,
                         key == ("GET_CONTEXT", False))

    def invoked(self):
        """The same commands by the ioctl, with each word of them otherwise."""
        how = "DEVICE", "INVOKE_WRITE"
        for key in self.allowed():
            kind = " ex" if key[1] else ""
            fresh = key == ("GET_CONTEXT", False)
            self.invoke(f"{key[0]}{kind} fits", key, self.world.body(key), fresh)
            write = self.fit_command(key)
            self.world.forget_temporary()
            for what, fault in faults.of_body(key, write):
                body = fault(self.fit_command(key)).wrong["body"]
                self.invoke(f"{key[0]}{kind} {what}", key, body, fresh)
            for name in ("CORE_IN", "CORE_OUT", "UHW_OUT"):
                attr = World.attr(how, name)
                present = [x for x in self.world.invoke(key, write.body) if x.name == name]
                for what, fault in faults.of_attribute(self.world, self.other, attr, present[0]) \
                        if present else ():
                    if what.startswith("word"):
                        continue
                    raws = self.world.invoke(key, self.world.body(key))
                    raws = [one for raw in raws
                            for one in (fault(raw) if raw.name == name else [raw])]
                    self.invoke(f"{key[0]}{kind} {name} {what}", key, None, fresh, raws)

    def invoke(self, what, key, body, fresh=False, raws=None):
        """As command(), by the ioctl: the handle that is made is in the answer."""
        how = "DEVICE", "INVOKE_WRITE"
        raws = self.world.invoke(key, body) if raws is None else raws
        masked = World.attr(how, "CORE_OUT")._replace(mask=COMMANDS[key].mask)
        target = World(self.path, self.memory, self.port, lonely=True) if fresh else self.world
        target.driver = self.world.driver
        sent = target.send(how, raws)
        parts = []
        for i, raw in enumerate(raws):
            out = self.memory.readable(*sent.outputs[i]) if sent.outputs[i] else b""
            attr = masked if raw.name == "CORE_OUT" else raw.attr
            text = changed(out, attr.mask)
            if text != "-":
                parts.append(f"{raw.name}: {text}")
            obj = MADE_BY.get(key)
            if sent.answer == 0 and raw.name == "CORE_OUT" and obj in GONE and len(out) >= 12:
                at = NEW_HANDLE.get(obj, 0)
                number = int.from_bytes(out[at:at + 4], "little")
                if number != 0xA5A5A5A5:
                    self.world.destroy(obj, number)
            elif sent.answer == 0 and raw.name == "CORE_OUT" and obj in FDS:
                close_answered(out)
        valid = [raws[i].name for i in sent.valid if i < len(raws)]
        if valid:
            parts.append("valid " + ",".join(valid))
        if sent.answer == 0:
            self.reached.setdefault(how, set()).update(r.name for r in raws)
        if fresh:
            target.close()
        print(f"invoke {what} -> {sent.answer} {'; '.join(parts)}".rstrip() + self.mend())

    def without_context(self):
        """Every request, to a file that has no context yet."""
        bare = World(self.path, self.memory, self.port, lonely=True)
        bare.driver = self.world.driver
        self.free, self.keep = self.free_fd(), bare.fd
        for key in METHODS:
            if key != ("DEVICE", "GET_CONTEXT"):
                sent = bare.send(key, self.fit(key))
                print(f"no context: {key[0]}.{key[1]} -> {sent.answer}{self.mend()}")
        for key in self.allowed():
            if key != ("GET_CONTEXT", False):
                answer, _ = self.fit_command(key).send(bare.fd, self.memory)
                print(f"no context: write {key[0]} {key[1]} -> {answer}{self.mend()}")
        bare.close()
        self.free, self.keep = self.free_fd(), None

    def coverage(self):
        methods = [k for k in METHODS if k in self.reached]
        there = [k for k in METHODS if k in self.present]
        attrs = sum(len(METHODS[k].attrs) for k in there)
        reached = sum(len(self.reached[k]) for k in methods)
        print(f"coverage: {len(methods)} of the {len(there)} methods that are there (of "
              f"{len(METHODS)}) succeeded, with {reached} of their {attrs} attributes")
        for ex in (False, True):
            every = [k for k in COMMANDS if k[1] == ex]
            print(f"coverage: {len([k for k in every if k in self.done])} of the "
                  f"{len([k for k in every if k in self.present])} commands that are there (of "
                  f"{len(every)}{', extended' if ex else ''}) succeeded")
        never = [".".join(k) for k in there if k not in self.reached]
        never += [".".join(k) + "." + a.name for k in methods for a in METHODS[k].attrs
                  if a.name not in self.reached[k]]
        never += [k[0] + (" ex" if k[1] else "") for k in COMMANDS
                  if k in self.present and k not in self.done]
        print("coverage: there, without success:", " ".join(never) or "nothing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--careful", action="store_true")
    parser.add_argument("--remove")
    parser.add_argument("device")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    args = parser.parse_args()
    path = node(args.device)
    if not path:
        sys.exit(f"{args.device} has no node")
    r = random.Random(args.seed)
    asker = Asker(args.device, path, args.careful)
    print("there are", asker.base)
    asker.resources()
    failed = False
    for part in (
            asker.methods, asker.numbers, asker.single_faults,
            lambda: asker.pairs_of_faults(r, args.count),
            lambda: asker.commands(r, max(1, args.count // 50)),
            lambda: asker.pairs_of_commands(r, args.count), asker.invoked, asker.without_context,
            lambda: chains(asker, r, args.count), lambda: as_nobody(asker), asker.resources,
            lambda: args.remove and after_removal(asker, args.remove)):
        try:
            part()
        except Exception:
            # What the other parts say is still worth reading.
            traceback.print_exc()
            failed = True
    asker.coverage()
    if failed:
        sys.exit("not all requests were sent")
    print("end")


if __name__ == "__main__":
    main()
