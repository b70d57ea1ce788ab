#!/usr/bin/env python3
"""Loads libnccl.so.2 as Python frameworks do (ctypes, no header) and makes every call on ranks that are processes.

usage: ctypes_client.py LIBRARY [RANK SIZE ID-FILE]
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from ctypes import byref, c_char, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

INT32, FLOAT32, SUM, MAX, AVG = 2, 7, 0, 2, 4
SIZE = 3


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", c_char * 128)]


class SimInfo(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("time", c_float)]


# name -> types of the arguments; all return a result unless listed in OTHERS.
FUNCTIONS = {
    "ncclGetVersion": [c_void_p],
    "ncclGetUniqueId": [c_void_p],
    "ncclCommInitRank": [c_void_p, c_int, UniqueId, c_int],
    "ncclCommInitRankConfig": [c_void_p, c_int, UniqueId, c_int, c_void_p],
    "ncclCommInitRankScalable": [c_void_p, c_int, c_int, c_int, c_void_p, c_void_p],
    "ncclCommInitAll": [c_void_p, c_int, c_void_p],
    "ncclCommSplit": [c_void_p, c_int, c_int, c_void_p, c_void_p],
    "ncclCommShrink": [c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int],
    "ncclCommFinalize": [c_void_p],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclCommRevoke": [c_void_p, c_int],
    "ncclCommGetAsyncError": [c_void_p, c_void_p],
    "ncclCommCount": [c_void_p, c_void_p],
    "ncclCommCuDevice": [c_void_p, c_void_p],
    "ncclCommUserRank": [c_void_p, c_void_p],
    "ncclMemAlloc": [c_void_p, c_size_t],
    "ncclMemFree": [c_void_p],
    "ncclCommRegister": [c_void_p, c_void_p, c_size_t, c_void_p],
    "ncclCommDeregister": [c_void_p, c_void_p],
    "ncclCommWindowRegister": [c_void_p, c_void_p, c_size_t, c_void_p, c_int],
    "ncclCommWindowDeregister": [c_void_p, c_void_p],
    "ncclRedOpCreatePreMulSum": [c_void_p, c_void_p, c_int, c_int, c_void_p],
    "ncclRedOpDestroy": [c_int, c_void_p],
    "ncclAllReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p],
    "ncclReduceScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclBroadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclBcast": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclAllGather": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "ncclAlltoAll": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "ncclGather": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclGroupSimulateEnd": [c_void_p],
}
OTHERS = {"ncclGetErrorString": (c_char_p, [c_int]), "ncclGetLastError": (c_char_p, [c_void_p])}


class Nccl:
    """Checked functions: Nccl.AllReduce(...) raises when ncclAllReduce does not return success."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.called = set()
        for name, arguments in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = c_int, arguments
            setattr(self, name[4:], self._checked(name, function))
        for name, (result, arguments) in OTHERS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name[4:], function)

    def _checked(self, name, function):
        def call(*arguments):
            result = function(*arguments)
            self.called.add(name)
            if result != 0:
                raise RuntimeError(f"{name}: {self.GetErrorString(result).decode()}: {self.GetLastError(None).decode()}")
        return call


def ints(*values):
    return (ctypes.c_int32 * len(values))(*values)


def expect(what, found, wanted):
    if list(found) != list(wanted):
        raise AssertionError(f"{what}: {list(found)}; expected {list(wanted)}")


def collectives(nccl, comm, rank):
    n, others = SIZE, range(SIZE)
    total, out = n * (n + 1) // 2, ints(0)
    own = ints(rank + 1)
    nccl.AllReduce(own, out, 1, INT32, SUM, comm, None)
    expect("all_reduce", out, [total])
    out = ints(0)
    nccl.Reduce(own, out, 1, INT32, MAX, 1, comm, None)
    expect("reduce", out, [n if rank == 1 else 0])
    out = ints(0)
    nccl.Broadcast(own, out, 1, INT32, 2, comm, None)
    expect("broadcast", out, [3])
    same = ints(rank + 1)
    nccl.Bcast(same, 1, INT32, 1, comm, None)
    expect("bcast", same, [2])
    gathered = ints(*[0] * n)
    nccl.AllGather(own, gathered, 1, INT32, comm, None)
    expect("all_gather", gathered, [r + 1 for r in others])
    table = ints(*[10 * rank + r for r in others])
    nccl.ReduceScatter(table, out, 1, INT32, SUM, comm, None)
    expect("reduce_scatter", out, [sum(10 * r + rank for r in others)])
    nccl.AlltoAll(table, gathered, 1, INT32, comm, None)
    expect("all_to_all", gathered, [10 * r + rank for r in others])
    gathered = ints(*[0] * n)
    nccl.Gather(own, gathered, 1, INT32, 0, comm, None)
    expect("gather", gathered, [r + 1 for r in others] if rank == 0 else [0] * n)
    nccl.Scatter(table, out, 1, INT32, 1, comm, None)
    expect("scatter", out, [10 + rank])
    mean = (c_float * 2)(rank, 2 * rank)
    nccl.AllReduce(mean, mean, 2, FLOAT32, AVG, comm, None)
    expect("average", mean, [1, 2])


def messages(nccl, comm, rank):
    sent, got = ints(rank, 7), ints(-1, -1)
    nccl.GroupStart()
    nccl.Send(sent, 2, INT32, (rank + 1) % SIZE, comm, None)
    nccl.Recv(got, 2, INT32, (rank + SIZE - 1) % SIZE, comm, None)
    nccl.GroupEnd()
    expect("received", got, [(rank + SIZE - 1) % SIZE, 7])
    info = SimInfo(ctypes.sizeof(SimInfo), 0x74685283, 22809, -1.0)
    nccl.GroupStart()
    nccl.AllReduce(sent, sent, 2, INT32, SUM, comm, None)
    nccl.GroupSimulateEnd(byref(info))
    expect("simulated", [info.time > 0], [True])


def memory_and_operators(nccl, comm):
    buffer, handle, window, op = c_void_p(), c_void_p(), c_void_p(), c_int()
    nccl.MemAlloc(byref(buffer), 4096)
    nccl.CommRegister(comm, buffer, 4096, byref(handle))
    nccl.CommWindowRegister(comm, buffer, 4096, byref(window), 1)
    nccl.CommWindowDeregister(comm, window)
    nccl.CommDeregister(comm, handle)
    nccl.MemFree(buffer)
    nccl.RedOpCreatePreMulSum(byref(op), byref(c_float(0.5)), FLOAT32, 1, comm)
    halved = (c_float * 1)(4)
    nccl.AllReduce(halved, halved, 1, FLOAT32, op, comm, None)
    expect("half of 4 from each rank", halved, [2 * SIZE])
    nccl.RedOpDestroy(op, comm)


def queries(nccl, comm, rank, size):
    number = c_int(-1)
    for ask, wanted in ((nccl.CommCount, size), (nccl.CommUserRank, rank), (nccl.CommCuDevice, rank),
                        (nccl.CommGetAsyncError, 0)):
        ask(comm, byref(number))
        expect("a query", [number.value], [wanted])


def family(nccl, comm, rank):
    child, shrunk = c_void_p(), c_void_p()
    nccl.CommSplit(comm, rank % 2, -rank, byref(child), None)
    count, own = c_int(), c_int()
    nccl.CommCount(child, byref(count))
    nccl.CommUserRank(child, byref(own))
    expect("the child's size and rank", [count.value, own.value], {0: [2, 1], 1: [1, 0], 2: [2, 0]}[rank])
    nccl.CommFinalize(child)
    nccl.CommDestroy(child)
    if rank != 1:
        nccl.CommShrink(comm, ints(1), 1, byref(shrunk), None, 0)
        nccl.CommRevoke(shrunk, 0)
        nccl.CommAbort(shrunk)


def run_rank(path, rank, size, id_file):
    nccl = Nccl(path)
    version, identity, comm = c_int(), UniqueId(), c_void_p()
    nccl.GetVersion(byref(version))
    expect("version", [version.value], [22809])
    if rank == 0:
        nccl.GetUniqueId(byref(identity))
        with open(id_file + ".part", "wb") as file:
            file.write(bytes(identity))
        os.rename(id_file + ".part", id_file)
    while not os.path.exists(id_file):
        time.sleep(0.01)
    with open(id_file, "rb") as file:
        identity = UniqueId.from_buffer_copy(file.read())
    nccl.CommInitRank(byref(comm), size, identity, rank)
    queries(nccl, comm, rank, size)
    collectives(nccl, comm, rank)
    messages(nccl, comm, rank)
    memory_and_operators(nccl, comm)
    family(nccl, comm, rank)
    alone, again = c_void_p(), UniqueId()
    for init in (lambda: nccl.CommInitRankConfig(byref(alone), 1, again, 0, None),
                 lambda: nccl.CommInitRankScalable(byref(alone), 1, 0, 1, byref(again), None),
                 lambda: nccl.CommInitAll(byref(alone), 1, None)):
        nccl.GetUniqueId(byref(again))
        init()
        nccl.CommDestroy(alone)
    nccl.CommDestroy(comm)
    missing = set(FUNCTIONS) - nccl.called - (set() if rank != 1 else {"ncclCommShrink", "ncclCommRevoke",
                                                                      "ncclCommAbort"})
    if missing:
        raise AssertionError(f"never called: {missing}")
    print(f"rank {rank}: {len(nccl.called)} functions")


def main():
    if len(sys.argv) > 2:
        return run_rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    with tempfile.TemporaryDirectory() as work:
        ranks = [subprocess.Popen([sys.executable, "-B", __file__, sys.argv[1], str(rank), str(SIZE),
                                   os.path.join(work, "id")]) for rank in range(SIZE)]
        if any([rank.wait(timeout=100) != 0 for rank in ranks]):
            sys.exit("a rank failed")


main()
