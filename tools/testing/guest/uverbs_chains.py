# SPDX-License-Identifier: GPL-2.0
"""Random chains of requests to ib_uverbs: any method or command that there is, on objects that the
chain has made or ended before, now and then with faults, and objects that are no more.

uverbs_chains.py [--fail] DEVICE SEED SECONDS PROCESSES

First each process has a file of its own. The life of its objects is the judge, whatever was asked:
* a request that succeeds has made and ended what the grammar says, and nothing else;
* one that is refused has made nothing. It may have ended its object, if the answer could not be
  written.
Then all share one file, where only the kernel's survival is judged. Each takes half of SECONDS.
--fail: allocations of each request fail as /sys/kernel/debug/failslab says.

The same seed makes the same chain, as long as it is answered alike."""

import argparse
import collections
import os
import random
import sys
import time
import traceback

import uverbs_faults as faults
from uverbs_grammar import COMMANDS, FDS, METHODS, OBJECTS
from uverbs_lib import FILL, Counts, Memory, node
from uverbs_world import FREE, GONE, MADE_BY, NEW_HANDLE, RC, UD, XRC_TGT, Port, World

# Objects of a type, beyond which they are ended rather than used.
MANY = 24
ENDS = ("DESTROY_", "DEALLOC_", "DEREG_", "CLOSE_")
INVOKE = "DEVICE", "INVOKE_WRITE"


def made_by(key, out):
    """The type and the handle of what a command has made; no handle if the answer is elsewhere."""
    obj = MADE_BY.get(key)
    at = NEW_HANDLE.get(obj, 0)
    handle = out[at:at + 4]
    known = len(handle) == 4 and handle != FILL * 4
    return obj and (obj, int.from_bytes(handle, "little") if known else None)


def ended_by(key, body):
    """The type and the handle of what a command is to end."""
    if not key[0].startswith(ENDS):
        return None
    at = 4 if key[1] else 8 if COMMANDS[key].reply else 0
    # A request that is too short is taken as if zeros followed.
    return COMMANDS[key].object, int.from_bytes(body[at:at + 4], "little")


class Chain(World):
    """A file with its objects, as the requests that were answered let expect them."""

    def __init__(self, path, port, seed, fail=None):
        self.random, self.fail = random.Random(seed), fail
        self.live, self.judged = None, True
        super().__init__(path, Memory(), port)
        self.other = World(path, self.memory, port)
        self.live = {obj: [number] for obj, number in self.have.items()}
        if self.target is not None:
            self.live["QP"].append(self.target)
        self.total = self.census()
        self.counts = Counts(self.memory, self.driver, {obj: OBJECTS[obj] for obj in self.total})
        self.asked, self.succeeded = 0, set()
        self.last, self.wrong = collections.deque(maxlen=12), 0

    def close(self):
        self.other.close()
        super().close()

    # What requests are made of, in place of the world's own objects.

    def get(self, obj):
        if self.live is None:
            return super().get(obj)
        if self.random.random() < 0.04:
            return self.random.choice([FREE, self.other.get(obj), self.random.randrange(64)] + [
                numbers[-1] for numbers in self.live.values() if numbers])
        return self.random.choice(self.live.get(obj) or [FREE])

    def temporary_one(self, obj, **how):
        return super().temporary_one(obj, **how) if self.live is None else self.get(obj)

    def sender(self):
        return super().sender() if self.live is None else self.get("QP")

    def body(self, key, **how):
        if self.live is not None and key[0] == "CREATE_QP":
            how["kind"] = self.random.choice((RC, UD, XRC_TGT))
        return super().body(key, **how)

    # Faults: each function returns what was done, as text

    def how_many(self):
        return self.random.choices((0, 1, 2), (60, 30, 10))[0]

    def spoil(self, raws, first=0):
        """A fault of each of some attributes from the first one on."""
        done = []
        for raw in self.random.sample(raws[first:], min(self.how_many(), len(raws) - first)):
            what, fault = self.random.choice(
                list(faults.of_attribute(self, self.other, raw.attr, raw)))
            done.append(f"{raw.name} {what}")
            at = raws.index(raw)
            raws[at:at + 1] = fault(raw)
        return " & ".join(done)

    def spoil_command(self, key, write):
        done = []
        for _ in range(self.how_many()):
            what, fault = self.random.choice(
                list(faults.of_header(write)) + list(faults.of_body(key, write)))
            # As another command, it would have to be judged as that.
            if "number" not in fault(write).wrong:
                write = fault(write)
                done.append(what)
        return write, " & ".join(done)

    # Requests

    def sent(self, send):
        """What send() answers, while allocations fail if they shall."""
        if self.fail is None:
            return send()
        os.pwrite(self.fail, b"1", 0)
        try:
            return send()
        finally:
            os.pwrite(self.fail, b"0", 0)

    def method(self, key, faulty=True):
        least = {raw.name for raw in self.request(key)}
        raws = [raw for raw in self.request(key, True)
                if raw.name in least or faulty and self.random.random() < 0.15]
        what, header = "", {}
        if faulty:
            what = self.spoil(raws)
            if self.random.random() < 0.05:
                more, header = self.random.choice(list(faults.headers(len(raws))))
                what += " & " + more
        sent = self.sent(lambda: self.send(key, raws, **header))
        made = ended = None
        for raw, after in zip(raws, sent.after):
            if raw.attr.access == "new":
                made = raw.attr.obj, after[4]
            elif raw.attr.access == "destroy":
                ended = raw.attr.obj, raw.value
        self.judge(key, what, sent.answer, made, ended)

    def write_command(self, key):
        write, what = self.spoil_command(key, self.write(key, self.body(key)))
        answer, out = self.sent(lambda: write.send(self.fd, self.memory))
        body = write.wrong.get("body", write.body)
        if key[1]:
            body = body[:8 * write.wrong.get("in_words", len(write.body) // 8)]
        self.judge(key, what, answer, made_by(key, out[:write.answer]), ended_by(key, body))

    def invoked_command(self, key):
        raws = self.invoke(key, self.body(key))
        what = self.spoil(raws, 1)
        sent = self.sent(lambda: self.send(INVOKE, raws))
        # Without room for an answer an extended command is carried out all the same.
        made, ended = made_by(key, b""), None
        for raw, place in zip(raws, sent.outputs):
            if raw.name == "CORE_OUT":
                made = made_by(key, self.memory.readable(*place) if place else b"")
            elif raw.name == "CORE_IN":
                ended = ended_by(key, raw.content)
        self.judge(key, "invoked " + what, sent.answer, made, ended)

    def end(self, obj):
        """One of the objects, without a fault."""
        if obj not in FDS:
            self.method(GONE[obj], False)
            return
        number = self.random.choice(self.live[obj])
        self.destroy(obj, number)
        self.judge(("close", obj), "", 0, None, (obj, number))

    def step(self):
        many = [obj for obj, numbers in self.live.items() if len(numbers) > MANY]
        if many:
            self.end(self.random.choice(many))
            return
        how = self.random.random()
        if how < 0.5:
            self.method(self.random.choice([key for key in METHODS if key != INVOKE]))
        elif how < 0.98:
            ask = self.write_command if how < 0.8 else self.invoked_command
            ask(self.random.choice(list(COMMANDS)))
        else:
            self.end(self.random.choice([obj for obj, numbers in self.live.items() if numbers]))

    # The judge

    def judge(self, key, what, answer, made, ended):
        self.asked += 1
        fine = not isinstance(answer, str)
        self.last.append(f"{self.asked}: {key} {what} -> {answer}, made {made}, ended {ended}")
        now = self.counts.of(self.fd)
        wanted = collections.Counter(self.total)
        if fine:
            self.succeeded.add(key)
            if made:
                wanted[made[0]] += 1
        gone = ended and (fine or now.get(ended[0]) == self.total.get(ended[0], 0) - 1)
        if gone:
            wanted[ended[0]] -= 1
        if self.judged and +wanted != +collections.Counter(now):
            self.wrong += 1
            print("not the objects that were expected:", {
                obj: (wanted[obj], now.get(obj)) for obj in wanted.keys() | now.keys()
                if wanted[obj] != now.get(obj, 0)}, *self.last, sep="\n  ")
        self.total = now
        if fine and made and made[1] is not None:
            self.live.setdefault(made[0], []).append(made[1])
            if made[0] in FDS:
                self.fds.append(made[1])
        if gone and ended[1] in self.live.get(ended[0], []):
            self.live[ended[0]].remove(ended[1])

    def run(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.wrong < 5:
            try:
                self.step()
            except MemoryError:
                # Too large a request, or an allocation of Python's: it may have been sent or not.
                self.total = self.counts.of(self.fd)
        methods = len([key for key in self.succeeded if key in METHODS])
        commands = len([key for key in self.succeeded if key in COMMANDS])
        print(f"chain: {self.asked} requests; of {methods} methods and {commands} commands some "
              f"succeeded; {self.wrong} wrong")
        return self.wrong == 0 and methods > 0 and commands > 0


def in_processes(count, run):
    """run(NUMBER) in so many processes at a time; whether all were right."""
    pids = []
    for number in range(count):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = 0 if run(number) else 1
            except Exception:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        pids.append(pid)
    return [os.waitpid(pid, 0)[1] for pid in pids] == [0] * count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("device")
    parser.add_argument("seed", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("processes", type=int)
    args = parser.parse_args()
    path, port = node(args.device), Port(args.device)

    def alone(number):
        # The file is that of the process that writes to it.
        fail = os.open("/proc/self/make-it-fail", os.O_WRONLY) if args.fail else None
        chain = Chain(path, port, args.seed * 1000 + number, fail)
        right = chain.run(args.seconds / 2)
        chain.close()
        return right

    right = in_processes(args.processes, alone)
    shared = Chain(path, port, args.seed)

    def together(number):
        if args.fail:
            shared.fail = os.open("/proc/self/make-it-fail", os.O_WRONLY)
        shared.random.seed(args.seed * 1000 + number)
        shared.judged = False
        return shared.run(args.seconds / 2)

    right &= in_processes(args.processes, together)
    shared.close()
    print("end")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
