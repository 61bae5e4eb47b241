# SPDX-License-Identifier: GPL-2.0
"""What ib_uverbs takes, as a table: the objects with their ioctl methods and attributes, and the
write commands. From the uapi headers and the definitions of Linux 7.2.

METHODS[object, method] = Method(object id, method id, attributes)
COMMANDS[name, extended] = Command(number, object, request, answer, driver bytes, op)"""

from collections import namedtuple

OBJECTS = {name: number for number, name in enumerate(
    "DEVICE PD COMP_CHANNEL CQ QP SRQ AH MR MW FLOW XRCD RWQ_IND_TBL WQ FLOW_ACTION DM COUNTERS "
    "ASYNC_EVENT DMAH DMABUF".split())}
# Of these, handles are file descriptors.
FDS = {"COMP_CHANNEL", "ASYNC_EVENT", "DMABUF"}

# kind: in (bytes), out, const (8 bytes), flags (4 or 8), enum (the element is in the header),
#   idr and fd (a handle of the object `obj`), rawfd.
# low, high: the lengths that an "in" or "out" may have; high None is no bound but 65535.
# zero: it may be longer than high, with zeros behind. mask: bytes of an output that are not the
# same twice, since the device or the keys' generator chooses them.
Attr = namedtuple("Attr", "name id kind low high mandatory zero obj access mask")
Method = namedtuple("Method", "object id attrs")
# request and answer: the sizes without driver bytes, with the 8 bytes of the answer's address in
# a request that is not extended. reply: it has that address. mask: as of an attribute.
Command = namedtuple("Command", "number object request answer driver reply op mask")


def data(name, number, kind, size, mandatory=True, high=0, zero=False, mask=()):
    return Attr(name, number, kind, size, size if high == 0 else high, mandatory, zero, None, None,
                mask)


def given(name, number, size, mandatory=True, **more):
    return data(name, number, "in", size, mandatory, **more)


def answered(name, number, size, mandatory=True, **more):
    return data(name, number, "out", size, mandatory, **more)


def const(name, number):
    return data(name, number, "const", 8)


def flags(name, number, mandatory=False):
    return data(name, number, "flags", 4, mandatory, high=8)


def handle(name, number, obj, access="read", mandatory=True):
    kind = "fd" if obj in FDS else "idr"
    return Attr(name, number, kind, 0, 0, mandatory, False, obj, access, ())


def rawfd(name, number):
    return Attr(name, number, "rawfd", 0, 0, False, False, None, None, ())


# struct ib_uverbs_buffer_desc
def umem(name, number):
    return given(name, number, 32, False)


# What the driver gives back are offsets for mmap and numbers of its own: only whether.
UHW = (given("UHW_IN", 0x1000, 0, False, high=None),
       answered("UHW_OUT", 0x1001, 0, False, high=None, mask=((0, 65535),)))
KEY = ((0, 4),)


def destroy(obj, number, *attrs):
    return Method(obj, number, (handle("HANDLE", 0, obj, "destroy"),) + attrs)


METHODS = {
    ("DEVICE", "INVOKE_WRITE"): Method("DEVICE", 0, (
        given("CORE_IN", 0, 4, False, high=None), answered("CORE_OUT", 1, 0, False, high=None),
        const("WRITE_CMD", 2)) + UHW),
    ("DEVICE", "INFO_HANDLES"): Method("DEVICE", 1, (
        const("OBJECT_ID", 0), answered("TOTAL_HANDLES", 1, 4, False),
        answered("HANDLES_LIST", 2, 4, False, high=None))),
    ("DEVICE", "QUERY_PORT"): Method("DEVICE", 2, (
        const("PORT_NUM", 0), answered("RESP", 1, 48, high=48, zero=True))),
    ("DEVICE", "GET_CONTEXT"): Method("DEVICE", 3, (
        answered("NUM_COMP_VECTORS", 0, 4, False), answered("CORE_SUPPORT", 1, 8, False),
        given("FD_ARR", 2, 4, False, high=None)) + UHW),
    ("DEVICE", "QUERY_CONTEXT"): Method("DEVICE", 4, (
        answered("NUM_COMP_VECTORS", 0, 4, False), answered("CORE_SUPPORT", 1, 8, False))),
    ("DEVICE", "QUERY_GID_TABLE"): Method("DEVICE", 5, (
        const("ENTRY_SIZE", 0), flags("FLAGS", 1), answered("RESP_ENTRIES", 2, 0, high=None),
        answered("RESP_NUM_ENTRIES", 3, 8))),
    ("DEVICE", "QUERY_GID_ENTRY"): Method("DEVICE", 6, (
        const("PORT", 0), const("GID_INDEX", 1), flags("FLAGS", 2, True),
        answered("RESP_ENTRY", 3, 32, high=32, zero=True))),
    ("DEVICE", "QUERY_PORT_SPEED"): Method("DEVICE", 7, (
        const("PORT_NUM", 0), answered("RESP", 1, 8))),
    ("PD", "DESTROY"): destroy("PD", 0),
    ("AH", "DESTROY"): destroy("AH", 0),
    ("MW", "DESTROY"): destroy("MW", 0),
    ("FLOW", "DESTROY"): destroy("FLOW", 0),
    ("XRCD", "DESTROY"): destroy("XRCD", 0),
    ("RWQ_IND_TBL", "DESTROY"): destroy("RWQ_IND_TBL", 0),
    ("CQ", "CREATE"): Method("CQ", 0, (
        handle("HANDLE", 0, "CQ", "new"), given("CQE", 1, 4), given("USER_HANDLE", 2, 8),
        handle("COMP_CHANNEL", 3, "COMP_CHANNEL", mandatory=False), given("COMP_VECTOR", 4, 4),
        flags("FLAGS", 5), answered("RESP_CQE", 6, 4),
        handle("EVENT_FD", 7, "ASYNC_EVENT", mandatory=False), given("BUFFER_VA", 8, 8, False),
        given("BUFFER_LENGTH", 9, 8, False), rawfd("BUFFER_FD", 10),
        given("BUFFER_OFFSET", 11, 8, False), umem("BUF_UMEM", 12)) + UHW),
    ("CQ", "DESTROY"): destroy("CQ", 1, answered("RESP", 1, 8)),
    ("QP", "CREATE"): Method("QP", 0, (
        handle("HANDLE", 0, "QP", "new"), handle("XRCD_HANDLE", 1, "XRCD", mandatory=False),
        handle("PD_HANDLE", 2, "PD", mandatory=False),
        handle("SRQ_HANDLE", 3, "SRQ", mandatory=False),
        handle("SEND_CQ_HANDLE", 4, "CQ", mandatory=False),
        handle("RECV_CQ_HANDLE", 5, "CQ", mandatory=False),
        handle("IND_TABLE_HANDLE", 6, "RWQ_IND_TBL", mandatory=False), given("USER_HANDLE", 7, 8),
        given("CAP", 8, 20, high=20, zero=True), const("TYPE", 9), flags("FLAGS", 10),
        given("SOURCE_QPN", 11, 4, False),
        handle("EVENT_FD", 12, "ASYNC_EVENT", mandatory=False),
        answered("RESP_CAP", 13, 20, high=20, zero=True),
        answered("RESP_QP_NUM", 14, 4, mask=KEY), umem("BUF_UMEM", 15), umem("RQ_BUF_UMEM", 16),
        umem("SQ_BUF_UMEM", 17)) + UHW),
    ("QP", "DESTROY"): destroy("QP", 1, answered("RESP", 1, 4)),
    ("SRQ", "CREATE"): Method("SRQ", 0, (
        handle("HANDLE", 0, "SRQ", "new"), handle("PD_HANDLE", 1, "PD"),
        handle("XRCD_HANDLE", 2, "XRCD", mandatory=False),
        handle("CQ_HANDLE", 3, "CQ", mandatory=False), given("USER_HANDLE", 4, 8),
        given("MAX_WR", 5, 4), given("MAX_SGE", 6, 4), given("LIMIT", 7, 4),
        given("MAX_NUM_TAGS", 8, 4, False), const("TYPE", 9),
        handle("EVENT_FD", 10, "ASYNC_EVENT", mandatory=False), answered("RESP_MAX_WR", 11, 4),
        answered("RESP_MAX_SGE", 12, 4), answered("RESP_SRQ_NUM", 13, 4, False, mask=KEY)) + UHW),
    ("SRQ", "DESTROY"): destroy("SRQ", 1, answered("RESP", 1, 4)),
    ("WQ", "CREATE"): Method("WQ", 0, (
        handle("HANDLE", 0, "WQ", "new"), handle("PD_HANDLE", 1, "PD"),
        handle("CQ_HANDLE", 2, "CQ", mandatory=False), given("USER_HANDLE", 3, 8),
        const("TYPE", 4), handle("EVENT_FD", 5, "ASYNC_EVENT", mandatory=False),
        given("MAX_WR", 6, 4), given("MAX_SGE", 7, 4), flags("FLAGS", 8, True),
        answered("RESP_MAX_WR", 9, 4), answered("RESP_MAX_SGE", 10, 4),
        answered("RESP_WQ_NUM", 11, 4, False, mask=KEY)) + UHW),
    ("WQ", "DESTROY"): destroy("WQ", 1, answered("RESP", 1, 4)),
    ("MR", "DM_MR_REG"): Method("MR", 0, (
        handle("HANDLE", 0, "MR", "new"), given("OFFSET", 1, 8), given("LENGTH", 2, 8),
        handle("PD_HANDLE", 3, "PD"), flags("ACCESS_FLAGS", 4), handle("DM_HANDLE", 5, "DM"),
        answered("RESP_LKEY", 6, 4, mask=KEY), answered("RESP_RKEY", 7, 4, mask=KEY))),
    ("MR", "DESTROY"): destroy("MR", 1),
    ("MR", "ADVISE"): Method("MR", 2, (
        handle("PD_HANDLE", 0, "PD"), const("ADVICE", 1), flags("FLAGS", 2, True),
        given("SGE_LIST", 3, 16, high=None))),
    ("MR", "QUERY"): Method("MR", 3, (
        handle("HANDLE", 0, "MR"), answered("RESP_LKEY", 1, 4, mask=KEY),
        answered("RESP_RKEY", 2, 4, mask=KEY), answered("RESP_LENGTH", 3, 8),
        answered("RESP_IOVA", 4, 8, False))),
    ("MR", "REG_DMABUF"): Method("MR", 4, (
        handle("HANDLE", 0, "MR", "new"), handle("PD_HANDLE", 1, "PD"), given("OFFSET", 2, 8),
        given("LENGTH", 3, 8), given("IOVA", 4, 8), given("FD", 5, 4), flags("ACCESS_FLAGS", 6),
        answered("RESP_LKEY", 7, 4, mask=KEY), answered("RESP_RKEY", 8, 4, mask=KEY))),
    ("MR", "REG_MR"): Method("MR", 5, (
        handle("HANDLE", 0, "MR", "new"), handle("PD_HANDLE", 1, "PD"),
        handle("DMA_HANDLE", 2, "DMAH", mandatory=False), given("IOVA", 3, 8),
        given("ADDR", 4, 8, False), given("LENGTH", 5, 8), flags("ACCESS_FLAGS", 6, True),
        rawfd("FD", 7), given("FD_OFFSET", 8, 8, False),
        answered("RESP_LKEY", 9, 4, mask=KEY), answered("RESP_RKEY", 10, 4, mask=KEY)) + UHW),
    ("FLOW_ACTION", "DESTROY"): destroy("FLOW_ACTION", 1),
    ("DM", "ALLOC"): Method("DM", 0, (
        handle("HANDLE", 0, "DM", "new"), given("LENGTH", 1, 8), given("ALIGNMENT", 2, 4))),
    ("DM", "FREE"): destroy("DM", 1),
    ("COUNTERS", "CREATE"): Method("COUNTERS", 0, (handle("HANDLE", 0, "COUNTERS", "new"),)),
    ("COUNTERS", "DESTROY"): destroy("COUNTERS", 1),
    ("COUNTERS", "READ"): Method("COUNTERS", 2, (
        handle("HANDLE", 0, "COUNTERS"), answered("BUFF", 1, 0, high=None), flags("FLAGS", 2))),
    ("ASYNC_EVENT", "ALLOC"): Method("ASYNC_EVENT", 0, (
        handle("FD_HANDLE", 0, "ASYNC_EVENT", "new"),)),
    ("DMAH", "ALLOC"): Method("DMAH", 0, (
        handle("HANDLE", 0, "DMAH", "new"), given("CPU_ID", 1, 4, False),
        data("TPH_MEM_TYPE", 2, "enum", 0, False), given("PH", 3, 1, False))),
    ("DMAH", "FREE"): destroy("DMAH", 1),
    ("DMABUF", "ALLOC"): Method("DMABUF", 0, (
        handle("HANDLE", 0, "DMABUF", "new"), given("PGOFF", 1, 8))),
}


def plain(number, obj, request, answer=0, driver=False, op=None, mask=()):
    return Command(number, obj, request, answer, driver, answer > 0, op, mask)


def extended(number, obj, request, answer=0, op=None, mask=()):
    return Command(number, obj, request, answer, answer > 0, answer > 0, op, mask)


# The keys of regions and windows, and the numbers of queues.
COMMANDS = {
    ("GET_CONTEXT", False): plain(0, "DEVICE", 8, 8, True, "alloc_ucontext"),
    ("QUERY_DEVICE", False): plain(1, "DEVICE", 8, 176, op="alloc_ucontext"),
    ("QUERY_PORT", False): plain(2, "DEVICE", 16, 40, op="query_port"),
    ("ALLOC_PD", False): plain(3, "PD", 8, 4, True, "alloc_pd"),
    ("DEALLOC_PD", False): plain(4, "PD", 4, op="dealloc_pd"),
    ("CREATE_AH", False): plain(5, "AH", 56, 4, True, "create_user_ah"),
    ("DESTROY_AH", False): plain(8, "AH", 4, op="destroy_ah"),
    ("REG_MR", False): plain(9, "MR", 40, 12, True, "reg_user_mr", ((4, 12),)),
    ("REREG_MR", False): plain(11, "MR", 48, 8, True, "rereg_user_mr", ((0, 8),)),
    ("DEREG_MR", False): plain(13, "MR", 4, op="dereg_mr"),
    ("ALLOC_MW", False): plain(14, "MW", 16, 8, True, "alloc_mw", ((4, 8),)),
    ("DEALLOC_MW", False): plain(16, "MW", 4, op="dealloc_mw"),
    ("CREATE_COMP_CHANNEL", False): plain(17, "COMP_CHANNEL", 8, 4),
    ("CREATE_CQ", False): plain(18, "CQ", 32, 8, True, "create_cq"),
    ("RESIZE_CQ", False): plain(19, "CQ", 16, 8, True, "resize_user_cq"),
    ("DESTROY_CQ", False): plain(20, "CQ", 16, 8, op="destroy_cq"),
    ("POLL_CQ", False): plain(21, "CQ", 16, 8, op="poll_cq"),
    ("REQ_NOTIFY_CQ", False): plain(23, "CQ", 8, op="req_notify_cq"),
    ("CREATE_QP", False): plain(24, "QP", 56, 32, True, "create_qp", ((4, 8),)),
    ("QUERY_QP", False): plain(25, "QP", 16, 128, op="query_qp"),
    ("MODIFY_QP", False): plain(26, "QP", 112, op="modify_qp"),
    ("DESTROY_QP", False): plain(27, "QP", 16, 4, op="destroy_qp"),
    ("POST_SEND", False): plain(28, "QP", 24, 4, op="post_send"),
    ("POST_RECV", False): plain(29, "QP", 24, 4, op="post_recv"),
    ("ATTACH_MCAST", False): plain(30, "QP", 24, op="attach_mcast"),
    ("DETACH_MCAST", False): plain(31, "QP", 24, op="detach_mcast"),
    ("CREATE_SRQ", False): plain(32, "SRQ", 32, 16, True, "create_srq", ((12, 16),)),
    ("MODIFY_SRQ", False): plain(33, "SRQ", 16, driver=True, op="modify_srq"),
    ("QUERY_SRQ", False): plain(34, "SRQ", 16, 16, op="query_srq"),
    ("DESTROY_SRQ", False): plain(35, "SRQ", 16, 4, op="destroy_srq"),
    ("POST_SRQ_RECV", False): plain(36, "SRQ", 24, 4, op="post_srq_recv"),
    ("OPEN_XRCD", False): plain(37, "XRCD", 16, 4, True, "alloc_xrcd"),
    ("CLOSE_XRCD", False): plain(38, "XRCD", 4, op="dealloc_xrcd"),
    ("CREATE_XSRQ", False): plain(39, "SRQ", 48, 16, True, "create_srq", ((12, 16),)),
    ("OPEN_QP", False): plain(40, "XRCD", 32, 32, True, "alloc_xrcd", ((4, 8),)),
    ("QUERY_DEVICE", True): extended(1, "DEVICE", 8, 304, "query_device"),
    ("CREATE_CQ", True): extended(18, "CQ", 32, 16, "create_cq"),
    ("CREATE_QP", True): extended(24, "QP", 64, 40, "create_qp", ((4, 8),)),
    ("MODIFY_QP", True): extended(26, "QP", 120, 8, "modify_qp"),
    ("CREATE_FLOW", True): extended(50, "FLOW", 24, 8, "create_flow"),
    ("DESTROY_FLOW", True): extended(51, "FLOW", 8, op="destroy_flow"),
    ("CREATE_WQ", True): extended(52, "WQ", 40, 24, "create_wq", ((20, 24),)),
    ("MODIFY_WQ", True): extended(53, "WQ", 24, op="modify_wq"),
    ("DESTROY_WQ", True): extended(54, "WQ", 8, 16, "destroy_wq"),
    ("CREATE_RWQ_IND_TBL", True): extended(55, "RWQ_IND_TBL", 8, 16, "create_rwq_ind_table",
                                           ((12, 16),)),
    ("DESTROY_RWQ_IND_TBL", True): extended(56, "RWQ_IND_TBL", 8, op="destroy_rwq_ind_table"),
    ("MODIFY_CQ", True): extended(57, "CQ", 16, op="modify_cq"),
}

EXTENDED = 0x80000000
HOLES = sorted(set(range(41)) - {c.number for (_, ex), c in COMMANDS.items() if not ex})
IOCTL = 0xC0181B01
MANDATORY, VALID_OUTPUT = 1, 2
