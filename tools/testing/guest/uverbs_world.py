# SPDX-License-Identifier: GPL-2.0
"""A file of /dev/infiniband/uverbs* with one object of each type that its device has, and for each
ioctl method and write command a request that fits them."""

import os
import struct

from uverbs_grammar import COMMANDS, EXTENDED, FDS, METHODS, OBJECTS
from uverbs_lib import Counts, Memory, Raw, Write, ioctl

FREE = 0xFFF0
DRIVER_OUT = 64
RC, UD, RAW_PACKET, XRC_TGT = 2, 4, 8, 10
ON_DEMAND = 0x41
UD_TO_RTS = ((0x71, 1), (0x1, 2), (0x10001, 3))

# How an object is made: (command, extended), or an ioctl method; and how it goes.
MAKE = {
    "PD": ("ALLOC_PD", False), "AH": ("CREATE_AH", False), "MR": ("REG_MR", False),
    "MW": ("ALLOC_MW", False), "CQ": ("CREATE_CQ", False), "QP": ("CREATE_QP", False),
    "SRQ": ("CREATE_SRQ", False), "XRCD": ("OPEN_XRCD", False), "WQ": ("CREATE_WQ", True),
    "RWQ_IND_TBL": ("CREATE_RWQ_IND_TBL", True), "FLOW": ("CREATE_FLOW", True),
    "COMP_CHANNEL": ("CREATE_COMP_CHANNEL", False), "DM": ("DM", "ALLOC"),
    "COUNTERS": ("COUNTERS", "CREATE"), "DMAH": ("DMAH", "ALLOC"),
    "ASYNC_EVENT": ("ASYNC_EVENT", "ALLOC"), "DMABUF": ("DMABUF", "ALLOC"),
    "COMP_CNTR": ("COMP_CNTR", "CREATE"),
}
ORDER = ("PD", "COMP_CHANNEL", "ASYNC_EVENT", "CQ", "XRCD", "SRQ", "QP", "MR", "MW", "AH", "WQ",
         "RWQ_IND_TBL", "FLOW", "DM", "COUNTERS", "DMAH", "DMABUF", "COMP_CNTR")
SENDS = {"POST_SEND", "POST_RECV", "ATTACH_MCAST", "DETACH_MCAST", "CREATE_FLOW"}
# The place of the new handle in a command's answer.
NEW_HANDLE = {"WQ": 8, "RWQ_IND_TBL": 8, "FLOW": 4}
GONE = {
    "PD": ("PD", "DESTROY"), "AH": ("AH", "DESTROY"), "MR": ("MR", "DESTROY"),
    "MW": ("MW", "DESTROY"), "CQ": ("CQ", "DESTROY"), "QP": ("QP", "DESTROY"),
    "SRQ": ("SRQ", "DESTROY"), "XRCD": ("XRCD", "DESTROY"), "WQ": ("WQ", "DESTROY"),
    "RWQ_IND_TBL": ("RWQ_IND_TBL", "DESTROY"), "FLOW": ("FLOW", "DESTROY"), "DM": ("DM", "FREE"),
    "COUNTERS": ("COUNTERS", "DESTROY"), "DMAH": ("DMAH", "FREE"),
    "FLOW_ACTION": ("FLOW_ACTION", "DESTROY"), "COMP_CNTR": ("COMP_CNTR", "DESTROY"),
}
# Not all kernels have all of these.
MAKE, GONE = ({obj: key for obj, key in of.items() if key in METHODS or key in COMMANDS} for of in (MAKE, GONE))
# What a command makes, beside what MAKE says.
MADE_BY = {key: obj for obj, key in MAKE.items() if key in COMMANDS}
MADE_BY.update({("CREATE_XSRQ", False): "SRQ", ("OPEN_QP", False): "QP",
                ("CREATE_CQ", True): "CQ", ("CREATE_QP", True): "QP",
                ("GET_CONTEXT", False): "ASYNC_EVENT"})


class Port:
    """What a request must know of the device's first port."""

    def __init__(self, device):
        base = f"/sys/class/infiniband/{device}/ports/1"
        self.ethernet = open(f"{base}/link_layer").read().strip() == "Ethernet"
        gids = []
        for index in range(16):
            try:
                gids.append((index, open(f"{base}/gids/{index}").read().strip()))
            except OSError:
                pass
        used = [(i, g) for i, g in gids if g.replace("0", "").strip(":")] or [(0, "0" * 32)]
        self.index, text = used[0]
        self.gid = bytes.fromhex(text.replace(":", ""))
        try:
            self.lid = int(open(f"{base}/lid").read(), 16) or 1
        except (OSError, ValueError):
            self.lid = 1


class World:
    def __init__(self, path, memory, port, lonely=False):
        self.path, self.memory, self.port = path, memory, port
        self.fd = os.open(path, os.O_RDWR)
        self.have, self.temporary, self.numbers, self.fds = {}, [], {}, []
        self.driver = 0
        if lonely:
            return
        answer, out = Write(COMMANDS["GET_CONTEXT", False], False, bytes(8),
                            driver_out=DRIVER_OUT).send(self.fd, memory)
        if isinstance(answer, str):
            raise OSError(f"no context of {path}: {answer}")
        self.fds.append(struct.unpack_from("=I", out)[0])
        self.find_driver()
        for obj in ORDER:
            made = self.make(obj)
            if made is not None:
                self.have[obj] = made
        self.forget_temporary()
        self.target = self.make("QP", kind=XRC_TGT) if "XRCD" in self.have else None
        self.dead = {}
        for obj in self.have:
            if obj in GONE:
                self.dead[obj] = self.make(obj)
        for obj, number in self.dead.items():
            if number is not None:
                self.destroy(obj, number)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        os.close(self.fd)

    def find_driver(self):
        """The ioctl wants the number of the driver, so that no other one's attributes are taken."""
        for self.driver in range(40):
            if self.census():
                return
        raise OSError(f"no driver's number fits {self.path}")

    def get(self, obj):
        return self.have.get(obj, FREE)

    # Objects

    def make(self, obj, **how):
        """A new object, or None if there can be none."""
        # Nothing makes a FLOW_ACTION any more.
        key = MAKE.get(obj)
        if key is None:
            return None
        if key in COMMANDS:
            answer, out = self.command(key, self.body(key, **how))
            if isinstance(answer, str):
                return None
            number = struct.unpack_from("=I", out, NEW_HANDLE.get(obj, 0))[0]
            if obj in ("QP", "MR"):
                self.numbers[obj, number] = struct.unpack_from("=I", out, 4)[0]
        else:
            sent = self.send(key, self.request(key))
            if sent.answer != 0:
                return None
            number = sent.after[0][4]
        if obj in FDS:
            self.fds.append(number)
        return number

    def temporary_one(self, obj, **how):
        number = self.make(obj, **how)
        if number is None:
            return FREE
        self.temporary.append((obj, number))
        return number

    def sender(self):
        """A temporary QP that can send, with a CQ of its own, since nobody polls it. New each time
        also because of multicast: one QP attached to one group under two MLIDs cannot be destroyed
        on rxe any more, which forgets the second; the C module warns when it closes the file."""
        self.temporary_one("CQ")
        number = self.make("QP", kind=UD, cq=self.temporary[-1][1] if self.temporary else FREE)
        if number is None:
            return FREE
        self.temporary.append(("QP", number))
        for mask, state in UD_TO_RTS:
            self.command(("MODIFY_QP", False), self.modify_qp(number, mask, state))
        return number

    def destroy(self, obj, number):
        if obj in FDS:
            if number in self.fds:
                self.fds.remove(number)
            os.close(number)
            return 0
        key = GONE[obj]
        raws = [self.raw(key, a.name, number if a.kind == "idr" else a.low)
                for a in METHODS[key].attrs]
        return self.send(key, raws).answer

    def forget_temporary(self):
        while self.temporary:
            self.destroy(*self.temporary.pop())

    def census(self):
        return Counts(self.memory, self.driver, OBJECTS).of(self.fd)

    # Requests of the ioctl

    def send(self, key, raws, **header):
        method = METHODS[key]
        return ioctl(self.fd, self.memory, OBJECTS[method.object], method.id, raws,
                     header.pop("driver", self.driver), **header)

    @staticmethod
    def attr(key, name):
        return next(a for a in METHODS[key].attrs if a.name == name)

    def raw(self, key, name, value):
        attr = self.attr(key, name)
        if attr.kind == "out":
            return Raw(attr, size=value)
        if attr.kind in ("idr", "fd", "rawfd"):
            return Raw(attr, value=0x5A5A5A5A if attr.access == "new" else value)
        if attr.kind == "enum":
            raw = Raw(attr, content=b"")
            raw.reserved = value
            return raw
        if attr.kind in ("const", "flags") or isinstance(value, int):
            size = 8 if attr.kind == "const" else attr.low or 8
            value = value.to_bytes(size, "little")
        return Raw(attr, content=value)

    def request(self, key, everything=False):
        """The attributes of a request that fits; or of one with all that there are."""
        values, base = self.values(key)
        return [self.raw(key, a.name, values.get(a.name, a.low if a.kind == "out" else 0))
                for a in METHODS[key].attrs if everything or a.mandatory or a.name in base]

    def values(self, key):
        """Values of all attributes of which the least is not enough, and which optional ones are
        part of a request."""
        obj, _ = key
        values = {"USER_HANDLE": 0x1122334455667788, "UHW_IN": b"", "UHW_OUT": DRIVER_OUT,
                  "PORT_NUM": 1, "PORT": 1}
        for attr in METHODS[key].attrs:
            if attr.kind in ("idr", "fd"):
                values[attr.name] = self.temporary_one(obj) if attr.access == "destroy" \
                    else self.get(attr.obj)
            elif attr.kind == "rawfd":
                values[attr.name] = self.memory.dma_buf
        lkey = 1
        if key == ("MR", "ADVISE_MR"):
            on_demand = self.temporary_one("MR", access=ON_DEMAND)
            lkey = self.numbers.get(("MR", on_demand), 1)
        region = {"IOVA": Memory.REGION, "ADDR": Memory.REGION, "LENGTH": 8192}
        more, base = {
            ("DEVICE", "INVOKE_WRITE"): (
                {"WRITE_CMD": 2, "CORE_IN": struct.pack("=QB7x", 0, 1), "CORE_OUT": 40},
                ("CORE_IN", "CORE_OUT")),
            ("DEVICE", "INFO_HANDLES"): ({"OBJECT_ID": 1, "HANDLES_LIST": 64},
                                         ("TOTAL_HANDLES", "HANDLES_LIST")),
            ("DEVICE", "GET_CONTEXT"): ({"FD_ARR": struct.pack("=i", 0)},
                                        ("NUM_COMP_VECTORS", "CORE_SUPPORT", "UHW_OUT")),
            ("DEVICE", "QUERY_CONTEXT"): ({}, ("NUM_COMP_VECTORS", "CORE_SUPPORT")),
            ("DEVICE", "QUERY_GID_TABLE"): ({"ENTRY_SIZE": 32, "RESP_ENTRIES": 32 * 1100}, ()),
            ("DEVICE", "QUERY_GID_ENTRY"): ({"GID_INDEX": self.port.index}, ()),
            ("CQ", "CREATE"): ({"CQE": 16, "BUF_UMEM": self.buffer()}, ("UHW_OUT",)),
            ("QP", "CREATE"): (
                {"CAP": struct.pack("=5I", 4, 4, 1, 1, 0), "TYPE": RC, "BUF_UMEM": self.buffer(),
                 "RQ_BUF_UMEM": self.buffer(), "SQ_BUF_UMEM": self.buffer(), "SOURCE_QPN": 1},
                ("PD_HANDLE", "SEND_CQ_HANDLE", "RECV_CQ_HANDLE", "UHW_OUT")),
            ("SRQ", "CREATE"): ({"MAX_WR": 4, "MAX_SGE": 1, "TYPE": 0, "BUF_UMEM": self.buffer()},
                                ("UHW_OUT",)),
            ("QP", "ATTACH_COMP_CNTR"): ({"OP_MASK": 1}, ()),
            ("DEVICE", "QUERY_COMP_CNTR_CAPS"): ({}, ("MAX_COUNTERS", "MAX_VALUE")),
            ("WQ", "CREATE"): ({"MAX_WR": 4, "MAX_SGE": 1, "TYPE": 0}, ("CQ_HANDLE", "UHW_OUT")),
            ("MR", "DM_MR_REG"): ({"LENGTH": 64, "ACCESS_FLAGS": 0x21}, ("ACCESS_FLAGS",)),
            ("MR", "ADVISE_MR"): (
                {"FLAGS": 1, "SGE_LIST": struct.pack("=QII", Memory.REGION, 4096, lkey)}, ()),
            ("MR", "REG_DMABUF_MR"): (
                {**region, "FD": self.memory.dma_buf, "ACCESS_FLAGS": 1}, ("ACCESS_FLAGS",)),
            ("MR", "REG_MR"): ({**region, "ACCESS_FLAGS": 1}, ("ADDR",)),
            ("DM", "ALLOC"): ({"LENGTH": 4096}, ()),
            ("COUNTERS", "READ"): ({"BUFF": 64}, ()),
        }.get(key, ({}, ()))
        values.update(more)
        return values, base

    @staticmethod
    def buffer():
        return struct.pack("=IiIIQQ", 1, -1, 0, 0, Memory.REGION, 4096)

    # Commands of write()

    def write(self, key, body):
        command = COMMANDS[key]
        answer = 64 if key == ("POLL_CQ", False) else command.answer
        # The driver rxe wants an address of its own there.
        given = struct.pack("=Q", Memory.REGION) if key == ("MODIFY_SRQ", False) else b""
        return Write(command, key[1], body, given, driver_out=DRIVER_OUT if command.driver and
                     command.reply else 0, answer=answer)

    def command(self, key, body):
        return self.write(key, body).send(self.fd, self.memory)

    def invoke(self, key, body):
        """The same command by the ioctl."""
        command, how = COMMANDS[key], ("DEVICE", "INVOKE_WRITE")
        raws = [self.raw(how, "WRITE_CMD", command.number | (EXTENDED if key[1] else 0)),
                self.raw(how, "CORE_IN", body)]
        if command.reply:
            raws.append(self.raw(how, "CORE_OUT", self.write(key, body).answer))
        if key == ("MODIFY_SRQ", False):
            raws.append(self.raw(how, "UHW_IN", struct.pack("=Q", Memory.REGION)))
        if command.driver and command.reply:
            raws.append(self.raw(how, "UHW_OUT", DRIVER_OUT))
        return raws

    @staticmethod
    def modify_qp(qp, mask=0x39, state=1, qkey=0x11111111):
        qp = FREE if qp is None else qp
        return bytes(64) + struct.pack("=7I2H14B2x", qp, mask, qkey, 0, 0, 0, 0, 0, 0, state, 0, 1,
                                       0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0)

    def ah_attr(self):
        port = self.port
        return struct.pack("=16sI4BH6B", port.gid, 0, port.index, 1, 0, 0, port.lid, 0, 0, 0,
                           port.ethernet, 1, 0)

    def body(self, key, kind=RC, cq=None, access=1):
        """A command's request. What it ends is a temporary object."""
        pack, get = struct.pack, self.get
        name, ex = key
        user = 0x1122334455667788
        pd = get("PD")
        cq = get("CQ") if cq is None else cq
        if name.startswith(("DE", "CLOSE", "RESIZE", "MODIFY", "REREG")) and \
                name not in ("DETACH_MCAST",):
            obj = COMMANDS[key].object
            one = self.temporary_one(obj)
            forms = {
                "DESTROY_CQ": ("=QII", 0, one, 0), "DESTROY_QP": ("=QII", 0, one, 0),
                "DESTROY_SRQ": ("=QII", 0, one, 0), "RESIZE_CQ": ("=QII", 0, one, 32),
                "REREG_MR": ("=QIIQQQII", 0, one, 4, 0, 0, 0, 0, 1),
                "MODIFY_SRQ": ("=IIII", one, 2, 0, 1),
                "MODIFY_WQ": ("=6I", 1, one, 1, 0, 0, 0), "MODIFY_CQ": ("=IIHHI", one, 1, 1, 1, 0),
            }
            if name == "MODIFY_QP":
                return self.modify_qp(one) + bytes(8 if ex else 0)
            if name in forms:
                return pack(*forms[name])
            return pack("=II", 0, one) if ex else pack("=I", one)
        if name == "CREATE_QP":
            xrc = kind == XRC_TGT
            body = pack("=Q9I4B", user, get("XRCD") if xrc else pd, 0 if xrc else cq,
                        0 if xrc else cq, 0, 4, 4, 1, 1, 0, 1, kind, 0, 0)
            return body + bytes(16) if ex else bytes(8) + body
        ud = self.sender() if name in SENDS else FREE
        target = getattr(self, "target", None)
        group = pack("=16sIHH", bytes.fromhex("ff0e") + bytes(13) + b"\1", ud, 0xC000, 0)
        if name == "DETACH_MCAST":
            self.command(("ATTACH_MCAST", False), group)
        return {
            "QUERY_PORT": pack("=QB7x", 0, 1),
            "CREATE_AH": pack("=QQII", 0, user, pd, 0) + self.ah_attr(),
            "REG_MR": pack("=QQQQII", 0, Memory.REGION, 8192, Memory.REGION, pd, access),
            "ALLOC_MW": pack("=QIB3x", 0, pd, 1),
            "CREATE_CQ": pack("=QIIiIII", user, 16, 0, -1, 0, 0, 0) if ex else
            pack("=QQIIiI", 0, user, 16, 0, -1, 0),
            "POLL_CQ": pack("=QII", 0, cq, 1),
            "REQ_NOTIFY_CQ": pack("=II", cq, 0),
            "QUERY_QP": pack("=QII", 0, get("QP"), 1),
            "POST_SEND": pack("=Q4I", 0, ud, 1, 0, 56) +
            pack("=Q4I4I16x", 7, 0, 2, 2, 0, get("AH"), 0xFFFFF, 0x11111111, 0),
            "POST_RECV": pack("=Q4IQII", 0, ud, 1, 0, 16, 7, 0, 0),
            "ATTACH_MCAST": group, "DETACH_MCAST": group,
            "CREATE_SRQ": pack("=QQ4I", 0, user, pd, 4, 1, 0),
            "QUERY_SRQ": pack("=QII", 0, get("SRQ"), 0),
            "POST_SRQ_RECV": pack("=Q4IQII", 0, get("SRQ"), 1, 0, 16, 7, 0, 0),
            "OPEN_XRCD": pack("=QiI", 0, -1, os.O_CREAT),
            "CREATE_XSRQ": pack("=QQ8I", 0, user, int("XRCD" in self.have), pd, 4, 1, 0, 0,
                                get("XRCD"), cq),
            "OPEN_QP": pack("=QQIIB7x", 0, user, get("XRCD"),
                            self.numbers.get(("QP", target), 0), XRC_TGT),
            # One filter, for any frame of Ethernet.
            "CREATE_FLOW": pack("=IIIHHB2xBI", 0, ud, 0, 40, 0, 1, 1, 0) +
            pack("=IHH", 0x20, 40, 0) + bytes(32),
            "CREATE_WQ": pack("=IIQ6I", 0, 0, user, pd, cq, 4, 1, 0, 0),
            "CREATE_RWQ_IND_TBL": pack("=4I", 0, 0, get("WQ"), 0),
        }.get(name, bytes(COMMANDS[key].request))
