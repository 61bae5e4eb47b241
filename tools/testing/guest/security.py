# SPDX-License-Identifier: GPL-2.0
"""What the policy of security.conf lets queue pairs and agents on fakeib0 and fakeib1 do.

security.py [FILE]

Prints what comes of each step, one line each, the same on every core; of events to queue pairs
into FILE. The process is one after the other whoever it says: a queue pair or agent belongs to
whom it was when it was made."""
import ctypes
import errno
import fcntl
import glob
import os
import select
import signal
import struct
import sys
import tempfile
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

from umad import Agents, say

SCALE = int(os.environ.get("SCALE") or 1)
TOLD = open(sys.argv[1], "w") if len(sys.argv) > 1 else None
SELINUX = "/sys/fs/selinux"
DEFAULT, RED, BLUE, EMPTY, NOWHERE = 0, 1, 2, 5, 40
KEYS = [0xFFFF, 0x8001, 0x8002]
PREFIX = 0xFE80 << 48
FOREIGN = 0xFEC0 << 48


def put(path, text):
    with open(path, "wb", buffering=0) as f:
        f.write(text.encode())


def be(who):
    put("/proc/self/attr/current", f"u:r:{who}_t")


def policy(**bools):
    for name, value in bools.items():
        put(f"{SELINUX}/booleans/stranger_{name}", str(int(value)))
    put(f"{SELINUX}/commit_pending_bools", "1")


def enforce(value):
    put(f"{SELINUX}/enforce", str(int(value)))


def attempt(what, run):
    try:
        run()
        say(what, "ok")
    except OSError as error:
        say(what, errno.errorcode[error.errno])
    except PyverbsRDMAError as error:
        say(what, errno.errorcode[error.error_code])


def eventually(what, check):
    end = time.monotonic() + 30 * SCALE
    while not check():
        if time.monotonic() > end:
            say(what, "never")
            return
        time.sleep(0.05)
    say(what, "yes")


# --- subnet management, as kernel_t: packets that never leave the adapter

class Manager(Agents):
    """An agent of queue pair 0."""

    def __init__(self, device):
        super().__init__(device)
        self.agent = self.register(0x81, 1, qpn=0)
        self.tid = 0

    def smp(self, method, attr, mod=0, data=bytes(64)):
        self.tid += 1
        mad = struct.pack(">BBBBHBBQHHIQHH28x", 1, 0x81, 1, method, 0, 0, 0, self.tid, attr, 0,
                          mod, 0, 0xFFFF, 0xFFFF) + data + bytes(128)
        addr = struct.pack(">IIHBBBBBB16sI", 0, 0, 0xFFFF, 0, 0, 0, 0, 0, 0, bytes(16), 0)
        head = struct.pack("=IIIII", self.agent, 0, 1000 * SCALE, 3, 0) + addr + bytes(8)
        os.write(self.fd, head + mad)
        got = self.recv(10 * SCALE)
        if got is None:
            raise OSError(errno.ETIMEDOUT, "no answer")
        status, answer = got[1], got[3]
        (mad_status,) = struct.unpack_from(">H", answer, 4)
        if status or mad_status & 0x7FFF:
            raise OSError(errno.EIO, f"status {status}, {mad_status:#x}")
        return answer[64:128]

    def set_pkeys(self, keys):
        self.smp(2, 0x16, 0, struct.pack(">32H", *keys, *[0] * (32 - len(keys))))

    def set_prefix(self, prefix):
        info = bytearray(self.smp(1, 0x15, 1))
        struct.pack_into(">Q", info, 8, prefix)
        # No change of the link's state.
        info[32] &= 0xF0
        info[33] &= 0x0F
        self.smp(2, 0x15, 1, bytes(info))


def is_first(key):
    path = "/sys/class/infiniband/fakeib0/ports/1/pkeys/0"
    return lambda: int(open(path).read(), 16) == key


# --- queue pairs

class Qp:
    def __init__(self, who):
        be(who)
        self.ctx = Context(name="fakeib0")
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(self.pd, init)
        # Who changes it does not matter.
        be("kernel")

    def init(self, index):
        attr = QPAttr(port_num=1)
        attr.qp_state = e.IBV_QPS_INIT
        attr.pkey_index = index
        mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
        self.qp.modify(attr, mask)

    def connect(self, alternate=None):
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RTR
        attr.path_mtu = e.IBV_MTU_1024
        attr.dest_qp_num = 1234
        attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        attr.ah_attr = AHAttr(dlid=1, port_num=1)
        mask = (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN
                | e.IBV_QP_RQ_PSN | e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER)
        if alternate is not None:
            attr.alt_ah_attr = AHAttr(dlid=1, port_num=1)
            attr.alt_port_num = 1
            attr.alt_pkey_index = alternate
            mask |= e.IBV_QP_ALT_PATH
        self.qp.modify(attr, mask)

    def reset(self):
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RESET
        self.qp.modify(attr, e.IBV_QP_STATE)

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def show(self, what):
        names = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]
        say(what, names[self.state()])

    def stopped(self, what):
        eventually(f"{what} is stopped", lambda: self.state() == e.IBV_QPS_ERR)
        if TOLD:
            self.told(what)

    def told(self, what):
        # A handler makes the call end.
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.alarm(30 * SCALE)
        try:
            event = self.ctx.get_async_event()
        except PyverbsRDMAError:
            print(f"{what} is told nothing", file=TOLD)
            return
        finally:
            signal.alarm(0)
        fatal = event.event_type == e.IBV_EVENT_QP_FATAL
        print(f"{what} is told {'that' if fatal else event.event_type}", file=TOLD)
        event.ack()

    def close(self):
        self.qp.close()
        self.cq.close()
        self.pd.close()
        self.ctx.close()


def made(who, index):
    qp = Qp(who)
    qp.init(index)
    return qp


def queue_pairs(manager):
    for who in ["friend", "stranger"]:
        qp = Qp(who)
        places = [("default", DEFAULT), ("red", RED), ("unlabelled", BLUE), ("empty", EMPTY), ("none", NOWHERE)]
        for name, index in places:
            attempt(f"{who}, {name} partition", lambda: qp.init(index))
            qp.show(f"{who} after that")
            qp.reset()
        attempt(f"{who} once more", lambda: qp.init(DEFAULT))
        attempt(f"{who}, alternate path in red", lambda: qp.connect(RED))
        qp.show(f"{who} after that")
        qp.reset()
        attempt(f"{who} begins again", lambda: qp.init(DEFAULT))
        attempt(f"{who}, alternate path in default", lambda: qp.connect(DEFAULT))
        qp.close()

    # The policy changes under queue pairs.
    policy(red=True)
    red, default, friend = made("stranger", RED), made("stranger", DEFAULT), made("friend", RED)
    policy(red=False)
    red.stopped("the stranger in red")
    default.show("the stranger in default")
    friend.show("the friend in red")
    red.reset()
    attempt("it tries again", lambda: red.init(RED))
    policy(red=True)
    attempt("it is let in again", lambda: red.init(RED))
    red.show("it")

    # An alternate path counts, too.
    default.connect(RED)
    default.show("a path and an alternate one")
    policy(red=False)
    red.stopped("it")
    default.stopped("who has the alternate path")
    red.close()
    default.close()

    # No program is stopped in permissive mode.
    default = made("stranger", DEFAULT)
    enforce(False)
    red = made("stranger", RED)
    red.show("a stranger in red, not enforced")
    enforce(True)
    red.stopped("it, when it is")
    red.close()

    # The table changes under them.
    default.show("the stranger in default")
    manager.set_pkeys([0x8001] + KEYS[1:])
    eventually("default becomes red", is_first(0x8001))
    default.stopped("the stranger in what was default")
    friend.show("the friend in red")
    attempt("a new stranger there", lambda: made("stranger", DEFAULT))
    manager.set_pkeys(KEYS)
    eventually("and default again", is_first(0xFFFF))
    default.close()
    default = made("stranger", DEFAULT)

    # And the subnet.
    manager.set_prefix(FOREIGN)
    default.stopped("the stranger in another subnet")
    friend.show("the friend")
    attempt("a new stranger there", lambda: made("stranger", DEFAULT))
    attempt("a new friend there", lambda: made("friend", DEFAULT))
    manager.set_prefix(PREFIX)
    default.close()
    for _ in range(200 * SCALE):
        try:
            made("stranger", DEFAULT).close()
            break
        except PyverbsRDMAError:
            time.sleep(0.05)
    attempt("a new stranger at home", lambda: made("stranger", DEFAULT))

    # Many come and go while the policy changes.
    policy(red=True)
    for turn in range(8):
        crowd = [made("stranger", RED) for _ in range(16)]
        policy(red=False)
        for qp in crowd[:8]:
            qp.close()
        policy(red=True)
        for qp in crowd[8:]:
            qp.close()
    policy(red=False)
    say("a crowd", "gone")
    friend.show("the friend")
    friend.close()


# --- shared queue pairs: targets of extended reliable connections, which no user library here
# knows to ask for

class Cmd:
    """Commands of ib_user_verbs.h."""
    GET_CONTEXT, CREATE_QP, QUERY_QP, MODIFY_QP, OPEN_XRCD, OPEN_QP = 0, 24, 25, 26, 37, 40


class Handle(Qp):
    """A handle to the queue pair of this number, or to a new one, in the domain of a file."""

    def __init__(self, who, domain, number=None):
        self.fd = self.events = None
        self.opened = number is not None
        be(who)
        try:
            self.open(domain.fileno(), number)
        except OSError:
            self.close()
            raise
        finally:
            be("kernel")

    def open(self, domain, number):
        (name,) = [os.path.basename(os.path.dirname(path))
                   for path in glob.glob("/sys/class/infiniband_verbs/*/ibdev")
                   if open(path).read().strip() == "fakeib0"]
        self.fd = os.open(f"/dev/infiniband/{name}", os.O_RDWR)
        self.events = self.context()
        (xrcd,) = self.command(Cmd.OPEN_XRCD, struct.pack("=QII", 0, domain, os.O_CREAT), "=I")
        if number is None:
            make = struct.pack("=QQ9IBBBx", 0, 0, xrcd, 0, 0, 0, 0, 0, 0, 0, 0, 0, e.IBV_QPT_XRC_RECV, 0)
            self.qp, self.number = self.command(Cmd.CREATE_QP, make, "=II24x")
        else:
            find = struct.pack("=QQIIB7x", 0, 0, xrcd, number, e.IBV_QPT_XRC_RECV)
            self.qp, self.number = self.command(Cmd.OPEN_QP, find, "=II24x")

    def context(self):
        """Makes the context by a write: in the ioctl below, the kernel takes the number of the
        command for an attribute of this command's own, a list of capabilities."""
        got = ctypes.create_string_buffer(8)
        os.write(self.fd, struct.pack("=IHHQ", Cmd.GET_CONTEXT, 4, 2, ctypes.addressof(got)))
        events, _ = struct.unpack("=II", got.raw)
        return events

    def command(self, number, request, answer):
        """The ioctl that takes commands of the older interface, as libibverbs uses it."""
        asked = ctypes.create_string_buffer(request, len(request))
        got = ctypes.create_string_buffer(struct.calcsize(answer))
        attrs = [(0, len(request), ctypes.addressof(asked)), (2, 8, number)]
        if len(got):
            attrs.insert(1, (1, len(got), ctypes.addressof(got)))
        head = struct.pack("=HHHHQII", 24 + 16 * len(attrs), 0, 0, len(attrs), 0, 15, 0)
        body = b"".join(struct.pack("=HHHHQ", name, size, 1, 0, data) for name, size, data in attrs)
        fcntl.ioctl(self.fd, 0xC0181B01, bytearray(head + body), True)
        return struct.unpack(answer, got.raw)

    def modify(self, mask, state, index=0):
        request = struct.pack("=64x7I2H16B", self.qp, mask, 0, 0, 0, 0, 0, index, 0,
                              state, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
        self.command(Cmd.MODIFY_QP, request, "")

    def init(self, index):
        mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
        self.modify(mask, e.IBV_QPS_INIT, index)

    def reset(self):
        self.modify(e.IBV_QP_STATE, e.IBV_QPS_RESET)

    def state(self):
        request = struct.pack("=QII", 0, self.qp, e.IBV_QP_STATE)
        (state,) = self.command(Cmd.QUERY_QP, request, "=108xB19x")
        return state

    def told(self, what):
        # The C ib_uverbs delivers events to the creator of a queue pair, and drops those of others that opened it.
        if self.opened:
            return
        if not select.select([self.events], [], [], 30 * SCALE)[0]:
            print(f"{what} is told nothing", file=TOLD)
            return
        _, kind, _ = struct.unpack("=QII", os.read(self.events, 16))
        print(f"{what} is told {'that' if kind == e.IBV_EVENT_QP_FATAL else kind}", file=TOLD)

    def close(self):
        for fd in [self.events, self.fd]:
            if fd is not None:
                os.close(fd)


def shared_queue_pairs():
    domain = tempfile.TemporaryFile()
    maker = Handle("friend", domain)
    other = []

    def join(who):
        other.append(Handle(who, domain, maker.number))

    def leave():
        other.pop().close()

    def anew(index):
        maker.reset()
        maker.init(index)

    attempt("a friend's target in red", lambda: maker.init(RED))
    attempt("a stranger opens it", lambda: join("stranger"))
    attempt("another friend opens it", lambda: join("friend"))
    leave()
    maker.show("the target")
    attempt("in default", lambda: anew(DEFAULT))
    attempt("the stranger opens it", lambda: join("stranger"))
    attempt("the friend takes it to red", lambda: anew(RED))
    maker.show("the target")
    attempt("the stranger takes it to default", lambda: other[0].init(DEFAULT))
    leave()
    attempt("the friend, when the stranger has left", lambda: anew(RED))

    # The policy changes while both have it open.
    policy(red=True)
    attempt("a stranger who may opens it", lambda: join("stranger"))
    maker.show("the target")
    policy(red=False)
    maker.stopped("what both have open")
    other[0].stopped("by the other handle it")
    attempt("it tries again", lambda: anew(RED))
    leave()
    attempt("without the stranger", lambda: anew(RED))

    # A handle outlives the one that made it.
    join("friend")
    maker.close()
    maker = other.pop()
    policy(red=True)
    join("stranger")
    maker.show("the target, its maker gone")
    policy(red=False)
    maker.stopped("it, its maker gone")
    leave()
    maker.close()


# --- agents

def managers():
    def manager_as(who):
        be(who)
        try:
            return Manager("fakeib0")
        finally:
            be("kernel")

    def node_info(agent):
        agent.smp(1, 0x11)

    attempt("a friend manages", lambda: node_info(manager_as("friend")))
    attempt("a stranger manages", lambda: node_info(manager_as("stranger")))
    policy(manages=True)
    agent = manager_as("stranger")
    attempt("a stranger who may", lambda: node_info(agent))
    policy(manages=False)
    attempt("and may no longer", lambda: node_info(agent))
    policy(manages=True)
    attempt("and may again", lambda: node_info(agent))
    policy(manages=False)


VENDOR, OUI = 0x31, 0x1405


class Talker(Agents):
    """An agent of queue pair 1 for messages of a vendor that want no answer."""

    def __init__(self, who, device):
        be(who)
        super().__init__(device)
        self.agent = self.register(VENDOR, 1, [3], oui=OUI)
        be("kernel")

    def say_to(self, lid, index, text):
        mad = struct.pack(">BBBBHHQHHI", 1, VENDOR, 1, 3, 0, 0, 1, 0x10, 0, 0)
        mad += bytes(13) + OUI.to_bytes(3, "big") + text.encode()
        addr = struct.pack(">IIHBBBBBB16sI", 1, 0x80010000, lid, 0, 0, 0, 0, 0, 0, bytes(16), 0)
        head = struct.pack("=IIIII", self.agent, 0, 0, 0, 0) + addr + struct.pack("=H6x", index)
        os.write(self.fd, head + mad.ljust(256, b"\0"))

    def hear(self, seconds):
        got = self.recv(seconds)
        return got[3][40:].rstrip(b"\0").decode() if got else "nothing"


def lid_of(device):
    return int(open(f"/sys/class/infiniband/{device}/ports/1/lid").read(), 16)


def talkers():
    stranger, friend = Talker("stranger", "fakeib0"), Talker("friend", "fakeib1")
    here, there = lid_of("fakeib0"), lid_of("fakeib1")
    attempt("a stranger speaks in default", lambda: stranger.say_to(there, DEFAULT, "one"))
    say("the friend hears", friend.hear(30 * SCALE))
    attempt("a stranger speaks in red", lambda: stranger.say_to(there, RED, "two"))
    attempt("a stranger speaks nowhere", lambda: stranger.say_to(there, NOWHERE, "three"))
    attempt("a friend speaks", lambda: friend.say_to(here, DEFAULT, "four"))
    say("the stranger hears", stranger.hear(30 * SCALE))
    policy(default=False)
    attempt("a friend speaks to who may not hear", lambda: friend.say_to(here, DEFAULT, "five"))
    # What does not come cannot be waited for: the next shows that it was on its way.
    time.sleep(1 * SCALE)
    policy(default=True)
    attempt("a friend speaks again", lambda: friend.say_to(here, DEFAULT, "six"))
    say("the stranger hears", stranger.hear(30 * SCALE))


def main():
    manager = Manager("fakeib0")
    for talk in [talkers, managers]:
        talk()
    manager.set_pkeys(KEYS)
    eventually("the table is set", lambda: is_first(0xFFFF)() and int(
        open("/sys/class/infiniband/fakeib0/ports/1/pkeys/1").read(), 16) == 0x8001)
    queue_pairs(manager)
    shared_queue_pairs()


main()
