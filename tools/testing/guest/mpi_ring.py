# SPDX-License-Identifier: GPL-2.0
"""MPI with data verified. Run by mpirun in 71-hpc.sh; rank 0 prints "N ranks: right".

Messages travel around the ring of ranks and each rank checks them, from empty ones to those that the
library moves by RDMA; then collective operations, then one-sided ones. `wrong` as argument: the last
rank changes one byte, and the run must fail.
"""
import sys
from array import array

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
SIZES = (0, 1, 63, 4096, 8193, 70001, 300007)


def pattern(seed, size):
    """`size` bytes that differ by seed and by position."""
    return bytes((seed * 37 + i * 11 + (i >> 8)) & 255 for i in range(251)) * (size // 251 + 1)


def expect(what, got, wanted):
    if got != wanted:
        print(f"rank {RANK}: {what}: wrong", flush=True)
        # The other ranks wait for this one; an exit would wait for them.
        WORLD.Abort(1)


def ring(size, wrong):
    """The message of rank 0 goes around; meanwhile every rank sends one of its own to the next."""
    wanted = pattern(size, size)[:size]
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    buffer = bytearray(wanted if RANK == 0 else size)
    if RANK != 0:
        WORLD.Recv(buffer, before)
        expect(f"ring of {size}", bytes(buffer), wanted)
    if wrong and RANK == RANKS - 1 and size:
        buffer[size // 2] ^= 1
    WORLD.Send(buffer, after)
    if RANK == 0:
        got = bytearray(size)
        WORLD.Recv(got, before)
        expect(f"ring of {size}", bytes(got), wanted)
    got = bytearray(size)
    WORLD.Sendrecv(pattern(RANK, size)[:size], after, 1, got, before, 1)
    expect(f"neighbours with {size}", bytes(got), pattern(before, size)[:size])


def collectives():
    total = array("q", [0] * 100)
    WORLD.Allreduce(array("q", [RANK + i for i in range(100)]), total)
    expect("allreduce", list(total), [RANKS * i + RANKS * (RANKS - 1) // 2 for i in range(100)])
    got = bytearray(3000 * RANKS)
    WORLD.Alltoall(b"".join(pattern(RANK * RANKS + to, 3000)[:3000] for to in range(RANKS)), got)
    expect("alltoall", bytes(got), b"".join(pattern(of * RANKS + RANK, 3000)[:3000] for of in range(RANKS)))
    got = bytearray(pattern(9, 50000)[:50000] if RANK == 0 else 50000)
    WORLD.Bcast(got)
    expect("bcast", bytes(got), pattern(9, 50000)[:50000])


def one_sided():
    """A window of each rank: a put by the rank before, a get by the same, and a counter of rank 0."""
    size = 20000
    window = MPI.Win.Allocate(8 + size, comm=WORLD)
    memory = window.tomemory()
    memory[:] = bytes(8 + size)
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    # What a one-sided operation reads must stay until it is complete.
    mine, step = pattern(RANK, size)[:size], array("q", [RANK + 1])
    window.Fence()
    window.Put(mine, after, (8, size, MPI.BYTE))
    window.Fence()
    expect("put", bytes(memory[8:]), pattern(before, size)[:size])
    got = bytearray(size)
    window.Get(got, after, (8, size, MPI.BYTE))
    window.Fence()
    expect("get", bytes(got), mine)
    seen = array("q", [-1])
    # Shared locks: the addition itself is atomic, and ranks that spin for an exclusive lock would keep
    # the holder from the CPU.
    for _ in range(10):
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op(step, seen, 0)
        window.Unlock(0)
        expect("fetch and add", seen[0] >= 0, True)
    WORLD.Barrier()
    window.Lock(0, MPI.LOCK_SHARED)
    window.Get(seen, 0)
    window.Unlock(0)
    expect("sum of the counter", seen[0], 10 * RANKS * (RANKS + 1) // 2)
    WORLD.Barrier()
    window.Free()


for length in SIZES:
    ring(length, "wrong" in sys.argv)
collectives()
if "two-sided" not in sys.argv:
    one_sided()
WORLD.Barrier()
if RANK == 0:
    print(f"{RANKS} ranks: right")
