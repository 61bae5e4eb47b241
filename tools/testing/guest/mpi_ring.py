# SPDX-License-Identifier: GPL-2.0
"""MPI with data verified. Run by mpirun in 72-mpi.sh; rank 0 prints "N ranks: right".

Messages travel around the ring of ranks and each rank checks them, from empty ones to those that the
library moves by RDMA reads or in fragments; one of them is spoiled on its way, which must be noticed. Then
collective operations, and, with the argument `windows`, one-sided ones.
"""
import sys
from array import array

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
AFTER, BEFORE = (RANK + 1) % RANKS, (RANK - 1) % RANKS
SIZES = (0, 1, 8, 63, 4096, 8193, 70001, 300007, 1 << 20)


def pattern(seed, size):
    """`size` bytes that differ by seed and by position."""
    period = bytes((seed * 37 + i * 11 + (i >> 4)) & 255 for i in range(251))
    return (period * (size // 251 + 1))[:size]


def expect(what, got, wanted, same=True):
    if (got == wanted) != same:
        print(f"rank {RANK}: {what}: wrong", flush=True)
        if isinstance(got, bytes) and len(got) == len(wanted):
            print([i for i in range(len(got)) if got[i] != wanted[i]][:5], got[:16].hex(), wanted[:16].hex(), flush=True)
        # The other ranks wait for this one; an exit would wait for them.
        WORLD.Abort(1)


def ring(size):
    """The message of rank 0 goes around, from hand to hand."""
    wanted = pattern(size, size)
    buffer = bytearray(size)
    if RANK == 0:
        WORLD.Send(wanted, AFTER)
    WORLD.Recv(buffer, BEFORE)
    expect(f"ring of {size}", bytes(buffer), wanted)
    if RANK != 0:
        WORLD.Send(buffer, AFTER)


def spoiled(size):
    """The same, but rank 1 changes one byte."""
    wanted = pattern(size, size)
    buffer = bytearray(size)
    if RANK == 0:
        WORLD.Send(wanted, AFTER)
    WORLD.Recv(buffer, BEFORE)
    if RANK == 1:
        buffer[size // 2] ^= 1
    expect(f"spoiled ring of {size}", bytes(buffer), wanted, same=False)
    if RANK != 0:
        WORLD.Send(buffer, AFTER)


def neighbours(size):
    """Every rank sends to the next one at the same time, three messages that are all under way."""
    got = [bytearray(size) for _ in range(3)]
    requests = [WORLD.Irecv(got[tag], BEFORE, tag) for tag in range(3)]
    # The last one first: the tag, not the order, says which is which.
    mine = [pattern(RANK + 5 * tag, size) for tag in range(3)]
    requests += [WORLD.Isend(mine[tag], AFTER, tag) for tag in (2, 1, 0)]
    MPI.Request.Waitall(requests)
    for tag in range(3):
        expect(f"neighbours with {size}, tag {tag}", bytes(got[tag]), pattern(BEFORE + 5 * tag, size))


def collectives():
    for count in (1, 100, 20000):
        total = array("q", [0] * count)
        WORLD.Allreduce(array("q", [RANK + i for i in range(count)]), total)
        expect(f"allreduce of {count}", list(total), [RANKS * i + RANKS * (RANKS - 1) // 2 for i in range(count)])
    got = bytearray(3000 * RANKS)
    WORLD.Alltoall(b"".join(pattern(RANK * RANKS + to, 3000) for to in range(RANKS)), got)
    expect("alltoall", bytes(got), b"".join(pattern(of * RANKS + RANK, 3000) for of in range(RANKS)))
    got = bytearray(pattern(9, 50000) if RANK == 0 else 50000)
    WORLD.Bcast(got)
    expect("bcast", bytes(got), pattern(9, 50000))


def windows():
    """A window of each rank: a put by the rank before, a get by the same, and a counter of rank 0."""
    size = 20000
    window = MPI.Win.Allocate(8 + size, comm=WORLD)
    memory = window.tomemory()
    memory[:] = bytes(8 + size)
    # What a one-sided operation reads must stay until it is complete.
    mine, step = pattern(RANK, size), array("q", [RANK + 1])
    window.Fence()
    window.Put(mine, AFTER, (8, size, MPI.BYTE))
    window.Fence()
    expect("put", bytes(memory[8:]), pattern(BEFORE, size))
    got = bytearray(size)
    window.Get(got, AFTER, (8, size, MPI.BYTE))
    window.Fence()
    expect("get", bytes(got), mine)
    # Shared locks: the addition itself is atomic, and ranks that spin for an exclusive lock would keep
    # the holder from the CPU.
    for _ in range(10):
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op(step, array("q", [0]), 0)
        window.Unlock(0)
    WORLD.Barrier()
    seen = array("q", [-1])
    window.Lock(0, MPI.LOCK_SHARED)
    window.Get(seen, 0)
    window.Unlock(0)
    expect("sum of the counter", seen[0], 10 * RANKS * (RANKS + 1) // 2)
    WORLD.Barrier()
    window.Free()


def tell(words):
    if RANK == 0:
        print(words, flush=True)


for length in SIZES:
    tell(f"messages of {length}")
    ring(length)
    neighbours(length)
spoiled(63)
tell("collectives")
collectives()
if "windows" in sys.argv:
    tell("windows")
    windows()
WORLD.Barrier()
tell(f"{RANKS} ranks: right")
