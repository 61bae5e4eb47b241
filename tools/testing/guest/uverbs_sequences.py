# SPDX-License-Identifier: GPL-2.0
"""What uverbs_answers.py asks beyond single requests: chains of valid calls, the rights of users, and
files whose device has gone."""

import fcntl
import mmap
import os
import select
import subprocess
import sys
import time
import traceback

from uverbs_grammar import METHODS
from uverbs_lib import changed, error_name, node
from uverbs_world import GONE, UD, World

NOBODY = 65534


def tried(run):
    try:
        return run()
    except OSError as error:
        return error_name(error.errno)


def chains(asker, r, count):
    """Valid calls in any order: what depends on what, and what is refused because of it."""
    world = World(asker.path, asker.memory, asker.port)
    live = {obj: [number] for obj, number in world.have.items() if obj in GONE}
    kinds = [obj for obj in live if obj != "FLOW_ACTION"]
    for step in range(count):
        obj = r.choice(kinds)
        if r.random() < 0.5 and len(live[obj]) < 12:
            parents = {o: r.choice(live[o]) for o in live if live[o] and o in kinds}
            parents = {o: n if r.random() < 0.9 else r.randrange(100) for o, n in parents.items()}
            world.have.update(parents)
            made = world.make(obj)
            world.forget_temporary()
            if made is not None:
                live[obj].append(made)
            print(f"chain {step} make {obj} of {sorted(parents.items())} -> {made}")
        elif live[obj]:
            number = r.choice(live[obj])
            gone = world.destroy(obj, number)
            if gone == 0:
                live[obj].remove(number)
            print(f"chain {step} end {obj} {number} -> {gone}")
        if step % 25 == 24:
            print("chain census", world.census())
    world.close()


def as_nobody(asker):
    """The same calls by root and by nobody, and by nobody through root's file."""
    for who in ("root", "nobody"):
        sys.stdout.flush()
        inherited = World(asker.path, asker.memory, asker.port)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if who == "nobody":
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                rights(asker, who, inherited)
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if status:
            raise ChildProcessError(f"the calls of {who} ended with {status}")
        inherited.close()


def rights(asker, who, inherited):
    for key in (("QUERY_DEVICE", False), ("QUERY_DEVICE", True), ("ALLOC_PD", False)):
        answer, _ = inherited.command(key, inherited.body(key))
        print(f"{who}, inherited file: write {key[0]} -> {answer}")
    print(f"{who}, inherited file: census {inherited.census()}")
    world = World(asker.path, asker.memory, asker.port)
    for kind in range(12):
        for ex in (False, True):
            key = "CREATE_QP", ex
            answer, _ = world.command(key, world.body(key, kind=kind))
            print(f"{who}: write CREATE_QP {ex} of type {kind} -> {answer}")
        raws = world.request(("QP", "CREATE"))
        next(r for r in raws if r.name == "TYPE").content = kind.to_bytes(8, "little")
        print(f"{who}: QP.CREATE of type {kind} -> {world.send(('QP', 'CREATE'), raws).answer}")
    for bit in range(13):
        body = world.body(("CREATE_QP", True), kind=UD)
        body = body[:52] + (1 << bit).to_bytes(4, "little") + body[56:60] + b"\1\0\0\0"
        print(f"{who}: write CREATE_QP flag {bit} -> {world.command(('CREATE_QP', True), body)[0]}")
        raws = [r for r in world.request(("QP", "CREATE"), True)
                if r.attr.mandatory or r.name in (
                    "PD_HANDLE", "SEND_CQ_HANDLE", "RECV_CQ_HANDLE", "UHW_OUT", "SOURCE_QPN",
                    "FLAGS")]
        next(r for r in raws if r.name == "TYPE").content = UD.to_bytes(8, "little")
        next(r for r in raws if r.name == "FLAGS").content = (1 << bit).to_bytes(4, "little")
        print(f"{who}: QP.CREATE flag {bit} -> {world.send(('QP', 'CREATE'), raws).answer}")
    # The number of another QP needs no flag here.
    wanted = ("PD_HANDLE", "SEND_CQ_HANDLE", "RECV_CQ_HANDLE", "UHW_OUT", "SOURCE_QPN")
    raws = [r for r in world.request(("QP", "CREATE"), True)
            if r.attr.mandatory or r.name in wanted]
    next(r for r in raws if r.name == "TYPE").content = UD.to_bytes(8, "little")
    print(f"{who}: QP.CREATE SOURCE_QPN -> {world.send(('QP', 'CREATE'), raws).answer}")
    for qkey in (0x11111111, 0x7FFFFFFF, 0x80000000, 0x80010000, 0xFFFFFFFF):
        one = world.make("QP", kind=UD)
        answer, _ = world.command(("MODIFY_QP", False), world.modify_qp(one, 0x71, 1, qkey))
        print(f"{who}: modify_qp to Q_Key {qkey:#x} -> {answer}")
    answer, _ = world.command(("CREATE_FLOW", True), world.body(("CREATE_FLOW", True)))
    print(f"{who}: write CREATE_FLOW -> {answer}")
    print(f"{who}: census {world.census()}")


def after_removal(asker, command):
    """What files answer whose device has gone."""
    world, memory = asker.world, asker.memory
    bare = World(asker.path, memory, asker.port, lonely=True)
    ready = {key: world.request(key) for key in METHODS}
    bodies = {key: world.write(key, world.body(key)) for key in asker.allowed()}
    sys.stdout.flush()
    with subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL) as removal:
        until = time.monotonic() + 60
        while node(asker.device) and time.monotonic() < until:
            time.sleep(0.05)
        print("the node is gone:", node(asker.device) is None)
        try:
            removal.wait(5)
            waits = False
        except subprocess.TimeoutExpired:
            waits = True
        print("the removal waits for files:", waits)
        for name in [name for name in ("COMP_CHANNEL", "ASYNC_EVENT") if name in world.have]:
            poll = select.poll()
            poll.register(world.have[name])
            print(f"removed: poll {name}", [e for _, e in poll.poll(0)])
            fcntl.fcntl(world.have[name], fcntl.F_SETFL, os.O_NONBLOCK)
            for size in (4, 8, 16, 64):
                print(f"removed: read {name} {size}",
                      tried(lambda n=name, s=size: os.read(world.have[n], s).hex()))
        print("removed: mmap", tried(lambda: mmap.mmap(world.fd, 4096) and None))
        print("removed: open", tried(lambda: os.close(os.open(asker.path, os.O_RDWR))))
        for name, one in (("removed", world), ("removed, no context", bare)):
            one.driver = world.driver
            for key, write in bodies.items():
                if key[0].startswith(("DE", "CLOSE")):
                    continue
                answer, out = write.send(one.fd, memory)
                print(f"{name}: write {key[0]} {key[1]} -> {answer}",
                      "same" if waits else changed(out, ((0, 1 << 16),)))
            for key, raws in ready.items():
                sent = one.send(key, raws)
                print(f"{name}: {key[0]}.{key[1]} -> {sent.answer}",
                      [raws[i].name for i in sent.valid])
            for key, write in bodies.items():
                if key[0].startswith(("DE", "CLOSE")):
                    answer, out = write.send(one.fd, memory)
                    print(f"{name}: write {key[0]} {key[1]} -> {answer}", changed(out))
            for obj, number in sorted(world.have.items()):
                if obj in GONE:
                    key = GONE[obj]
                    raws = [one.raw(key, a.name, number if a.kind == "idr" else a.low)
                            for a in METHODS[key].attrs]
                    for again in range(2):
                        print(f"{name}: end {obj} {again} -> {one.send(key, raws).answer}")
        world.close()
        bare.close()
        asker.other.close()
        try:
            print("the removal ended:", removal.wait(60))
        except subprocess.TimeoutExpired:
            print("the removal ended: never")
            removal.kill()
