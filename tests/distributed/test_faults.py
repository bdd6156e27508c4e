# SPDX-License-Identifier: Apache-2.0
"""A rank that dies, is late, or calls something else: a typed error on every rank, before the time-out, and no hang."""

import os
import pickle
import socket
import threading
import time

import numpy as np
import pytest

import baracuda as bk
from baracuda.distributed import store
from baracuda.distributed.environment import World, world_of
from baracuda.distributed.errors import MismatchError, RankFailedError, RankTimeoutError, RendezvousError
from baracuda.distributed.store import TcpStore
from distributed import ranks

# --- functions of the ranks -----------------------------------------------------------------------------------------

MISMATCHES = {
    "shape": lambda comm: comm.all_reduce(np.zeros(3 + (comm.rank == 1))),
    "dtype": lambda comm: comm.all_reduce(np.zeros(3, np.float32 if comm.rank == 1 else np.float64)),
    "op": lambda comm: comm.all_reduce(np.zeros(3), "max" if comm.rank == 1 else "sum"),
    "function": lambda comm: comm.barrier() if comm.rank == 1 else comm.all_reduce(np.zeros(3)),
    "root": lambda comm: comm.broadcast(np.zeros(3), int(comm.rank == 1)),
    "rows": lambda comm: comm.all_gather(np.zeros((2, 3 + (comm.rank == 1)))),
    "counts": lambda comm: comm.all_to_all(np.zeros(2 * comm.size), [2] * comm.size,
                                           [2 + (comm.rank == 1)] * comm.size),
    "refusal": lambda comm: comm.all_reduce(np.zeros((4, 4))[:, ::2] if comm.rank == 1 else np.zeros((4, 2))),
    "no average": lambda comm: comm.all_reduce(np.zeros(3, np.int32 if comm.rank == 1 else np.float32), "avg"),
}  # fmt: skip


def mismatch(comm, kind):
    """The error, and a sum afterwards: nothing is broken."""
    try:
        MISMATCHES[kind](comm)
        error = None
    except bk.BaracudaError as raised:
        error = raised
    return error, float(comm.all_reduce(np.ones(1))[0])


def wrong_message(comm):
    if comm.rank == 0:
        comm.send(np.zeros(100_000), 1)
    elif comm.rank == 1:
        comm.receive(np.zeros(99_999), 0)


def death(comm, when):
    comm.barrier()
    if comm.rank == comm.size - 1:
        time.sleep(when)
        os._exit(1)
    try:
        comm.all_reduce(np.zeros(10))
    except RankFailedError as error:  # the time-out would be another error
        return type(error).__name__, error.ranks, raised_again(comm)


def raised_again(comm):
    try:
        comm.barrier()
    except bk.distributed.DistributedError as error:
        return type(error).__name__


def late(comm):
    """Rank 0 comes when the others have given up."""
    segment = comm.engine.segment
    if comm.rank == 0:
        while not segment.trouble():
            time.sleep(0.01)
    else:
        segment.timeout = 0.3
    try:
        comm.all_reduce(np.zeros(10))
    except RankTimeoutError as error:
        return error.ranks


def gives_up(comm):
    """A rank leaves its block by an exception of its own."""
    try:
        with comm:
            if comm.rank == 1:
                raise KeyError("a fault of the program")
            comm.all_reduce(np.zeros(3))
    except (KeyError, RankFailedError) as error:
        return type(error).__name__, str(error)


def closes(comm):
    if comm.rank == 1:
        comm.close()
        return None
    try:
        comm.all_reduce(np.zeros(3))
    except RankFailedError as error:
        return str(error)


def waits_for_a_message(comm):
    if comm.rank == 0:
        return None
    try:
        comm.receive(np.zeros(3), 0)
    except bk.distributed.DistributedError as error:
        return type(error).__name__


# --- tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MISMATCHES)
def test_mismatches_reach_every_rank(kind):
    found = ranks.run(3, mismatch, kind)
    texts = set()
    for rank, (error, total) in enumerate(found):
        is_own = kind in ("refusal", "no average") and rank == 1
        assert isinstance(error, bk.UnsupportedError if is_own else MismatchError), (rank, error)
        assert total == 3.0
        if not is_own:
            assert 1 in error.ranks
            texts.add(str(error))
    assert len(texts) == 1, texts  # every rank says the same


def test_messages_of_other_sizes():
    found = ranks.outcomes(3, wrong_message)
    assert isinstance(found[0], MismatchError) and isinstance(found[1], MismatchError)
    assert found[2] is None
    assert "799992" in str(found[1]) and "800000" in str(found[1])


@pytest.mark.parametrize("when", [0.0, 0.3], ids=["before", "while waiting"])
def test_a_rank_that_dies(when):
    found = ranks.outcomes(3, death, when)
    assert isinstance(found[2], ranks.Failed)
    assert found[:2] == [("RankFailedError", (2,), "RankFailedError")] * 2


def test_a_rank_that_is_late():
    assert all(0 in each for each in ranks.run(3, late))


def test_errors_are_pickled():
    for kind in (RankTimeoutError, RankFailedError, MismatchError, RendezvousError):
        error = pickle.loads(pickle.dumps(kind("a text", (1, 2), symbol="x")))
        assert (type(error), str(error), error.ranks, error.symbol) == (kind, "a text", (1, 2), "x")


def test_a_rank_that_raises():
    found = ranks.run(3, gives_up)
    assert found[1][0] == "KeyError"
    assert [found[0][0], found[2][0]] == ["RankFailedError"] * 2
    assert "a fault of the program" in found[0][1]


def test_a_rank_that_closes():
    found = ranks.run(2, closes)
    assert "rank 1 has closed its communicator" in found[0]


def test_a_message_that_does_not_come():
    """The rank that would send it has left."""
    assert ranks.run(2, waits_for_a_message)[1] == "RankFailedError"


def test_a_wrong_number_of_ranks(tmp_path):
    """Both ranks find it, and wait for no other."""
    raised = {}

    def start(rank, size):
        try:
            bk.distributed.init(rank=rank, size=size, rendezvous=tmp_path.as_uri(), timeout=ranks.TIMEOUT)
        except bk.BaracudaError as error:
            raised[rank] = error

    threads = [threading.Thread(target=start, args=each) for each in ((0, 2), (1, 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ranks.LIMIT)
    assert {type(error) for error in raised.values()} == {RendezvousError}
    assert all("as one of 2" in str(error) and "as one of 3" in str(error) for error in raised.values())


def test_a_rank_that_never_comes(tmp_path):
    with pytest.raises(RendezvousError, match="rank 1 of 2 has not come"):
        bk.distributed.init(rank=0, size=2, rendezvous=tmp_path.as_uri(), timeout=0.3)
    with pytest.raises(RendezvousError, match="name a new folder"):
        bk.distributed.init(rank=0, size=2, rendezvous=tmp_path.as_uri(), timeout=0.3)


def test_bad_arguments(tmp_path):
    for options, text in (
        ({"rank": 3, "size": 2}, "rank is 3"), ({"rank": 0, "size": 2, "rendezvous": "http://x"}, "rendezvous is"),
        ({"timeout": 0}, "timeout is 0"), ({"timeout": "soon"}, "timeout is 'soon'"),
    ):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=text):
            bk.distributed.init(**options)


def test_variables_of_launchers():
    tcp = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert world_of({}) == World(0, 1, 0)
    assert world_of({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", **tcp}) == World(
        5, 8, 1, "tcp://10.0.0.1:29500"
    )
    ompi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    assert world_of({**ompi, "BARACUDA_RENDEZVOUS": "file:///x"}) == World(1, 2, 1, "file:///x")
    assert world_of({"PMI_RANK": "0", "PMI_SIZE": "2", **tcp}).size == 2
    assert world_of({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", **tcp}).local_rank == 0
    with pytest.raises(bk.InvalidProblemError, match="MASTER_ADDR"):
        world_of(ompi)
    with pytest.raises(bk.InvalidProblemError, match="RANK of torchrun is 'one'"):
        world_of({"RANK": "one", "WORLD_SIZE": "2"})


def test_the_tcp_store(monkeypatch):
    """The second rank finds the server beside a port that something else has taken."""
    monkeypatch.setattr(store, "_HANDSHAKE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        first = TcpStore("127.0.0.1", port, World(0, 2, 0), ranks.TIMEOUT)
        second = TcpStore("127.0.0.1", port, World(1, 2, 1), ranks.TIMEOUT)
        thread = threading.Timer(0.1, lambda: second.set("key", b"value"))
        thread.start()
        assert first.get("key", ranks.TIMEOUT) == second.get("key", ranks.TIMEOUT) == b"value"
        thread.join()
        with pytest.raises(RankTimeoutError):
            second.get("nothing", 0.1)
        second.close(is_last=False)
        first.close(is_last=True)


def maps(comm):
    """The files whose memory this process shares; the last rank then dies."""
    with open("/proc/self/maps") as file:
        lines = [line.strip().split(maxsplit=5) for line in file]
    comm.barrier()
    if comm.rank == comm.size - 1:
        os._exit(1)
    return sorted({line[5] for line in lines if line[1] == "rw-s"})


def test_no_shared_memory_is_left():
    """It has no name from the start, so that no fault can leave it."""
    found = ranks.outcomes(3, maps)
    assert isinstance(found[2], ranks.Failed)
    for paths in found[:2]:
        assert paths and all(path.endswith("(deleted)") for path in paths)
        assert not any(os.path.exists(path.removesuffix(" (deleted)")) for path in paths)
