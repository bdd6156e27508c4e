# SPDX-License-Identifier: Apache-2.0
"""Communicators of the world: how the processes of a run meet, and the groups that are split from them."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from baracuda import memory
from baracuda._library.loader import Library, default_library, load
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.control import Control, Record, SegmentControl, StoreControl, agree, host_name
from baracuda.distributed.engines.host import HostEngine
from baracuda.distributed.engines.segment import Address, Segment, address_of, make_file, segment_bytes
from baracuda.distributed.engines.solo import SoloControl, SoloEngine
from baracuda.distributed.environment import World, has_peers, timeout_of, world_of
from baracuda.distributed.errors import RankTimeoutError, RendezvousError
from baracuda.distributed.store import Store, open_store
from baracuda.errors import InternalError, InvalidProblemError, UnsupportedError

_SLOT_BYTES = 1 << 20
_CHANNEL_BYTES = 1 << 18


@dataclasses.dataclass(frozen=True)
class Options:
    library: Library
    timeout: float
    verify: bool
    deterministic: bool
    local_rank: int
    peers: bool


def init(
    *, rank: int | None = None, size: int | None = None, local_rank: int | None = None, rendezvous: str | None = None,
    library: Library | None = None, timeout: float | None = None, verify: bool = True, deterministic: bool = False,
    peers: bool | None = None,
) -> Communicator:  # fmt: skip
    """The communicator of all ranks of this run. Every rank calls it.

    Rank, number of ranks and rendezvous come from the environment of torchrun, MPI or Slurm, unless given; without any
    there is one rank. rendezvous is "tcp://host:port" (as MASTER_ADDR and MASTER_PORT say) or "file:///folder", a
    folder that is new for each run. The library decides on the backend: with one for CUDA, ranks are GPUs, this one the
    device local_rank, which becomes the current device, and NCCL moves the data; with one for the CPU, ranks are
    processes of one host.

    timeout is in seconds (BARACUDA_DISTRIBUTED_TIMEOUT, 300). With deterministic=True sums of NCCL are made in the
    order of the ranks and rounded once, as those of the CPU always are. With peers=False (BARACUDA_DISTRIBUTED_PEERS=0)
    NCCL has small all-reduces of GPUs of one host, too, which are otherwise made by kernels that write to the memory of
    the other GPUs, in the order of the ranks.
    """
    found = world_of() if rank is None and size is None else World(rank or 0, size or 1, rank or 0)
    changes: dict[str, Any] = {"local_rank": local_rank, "rendezvous": rendezvous}
    world = dataclasses.replace(found, **{key: value for key, value in changes.items() if value is not None})
    library = library or default_library()
    options = Options(library, timeout_of(timeout), verify, deterministic, world.local_rank, has_peers(peers))
    if library.backend == "cuda":
        runtime = memory.cuda_runtime()
        count = int(memory.runtime_result(runtime.cudaGetDeviceCount(), "cudaGetDeviceCount"))
        if world.local_rank >= count:
            raise InvalidProblemError(f"local_rank is {world.local_rank}, this host has {count} devices")
        memory.runtime_result(runtime.cudaSetDevice(world.local_rank), "cudaSetDevice")
    if world.size == 1:
        return _alone(options, (0,))
    store = open_store(world, options.timeout)
    try:
        _compare_sizes(store, world, options.timeout)
        control = StoreControl(store, "world", world.rank, world.size, options.timeout)
        made: Communicator = _group(control, world.rank, range(world.size), options)
        made.control.exchange({}, "init")
    except RankTimeoutError as error:
        raise RendezvousError(f"the {world.size} ranks have not met: {error}", error.ranks) from error
    except BaseException:
        store.close(is_last=False)
        raise
    if isinstance(made.control, SegmentControl):
        store.close(is_last=world.rank == 0)  # all have come, and need it no more
    atexit.register(made.close)
    return made


def from_nccl(
    handle: int, rank: int, size: int, *, library: Library | None = None, timeout: float | None = None,
    deterministic: bool = False,
) -> Communicator:  # fmt: skip
    """A communicator on an ncclComm_t of someone else, such as torch.distributed's, which stays theirs. Calls are not
    compared across ranks, and the communicator cannot be split.
    """
    from baracuda.distributed.engines.nccl import NcclEngine

    library = library or default_library()
    if library.backend != "cuda":
        raise UnsupportedError(f"the library {library.path} is of the CPU, NCCL's communicators are of GPUs")
    engine = NcclEngine.adopted(handle, rank, size, timeout_of(timeout), library, deterministic)
    return Communicator(engine, SoloControl(), library, ranks=range(size), local_rank=rank, verify=False)


def _compare_sizes(store: Store, world: World, timeout: float) -> None:
    """Every rank must have been started as one of the same number."""
    store.set(f"size.{world.rank}", str(world.size).encode())
    for rank in range(world.size):
        try:
            theirs = int(store.get(f"size.{rank}", timeout))
        except RankTimeoutError:
            raise RendezvousError(
                f"rank {rank} of {world.size} has not come to {world.rendezvous} within {timeout:g} s", (rank,)
            ) from None
        if theirs != world.size:
            raise RendezvousError(
                f"rank {world.rank} was started as one of {world.size} ranks, rank {rank} as one of {theirs}", (rank,)
            )


def _alone(options: Options, ranks: Sequence[int]) -> Communicator:
    remake = functools.partial(_split, options=options, ranks=ranks)
    return Communicator(
        SoloEngine(options.library.backend), SoloControl(), options.library, ranks=ranks, local_rank=options.local_rank,
        verify=options.verify, remake=remake,
    )  # fmt: skip


def _split(control: Control, members: Sequence[int], rank: int, *, options: Options, ranks: Sequence[int]) -> Any:
    """A group of some ranks of a group; the others take part in the rounds of `control` alone."""
    own = list(members)
    found = _group(control, own.index(rank) if own else -1, [ranks[member] for member in own], options, own)
    return found


def _group(
    control: Control, rank: int, ranks: Sequence[int], options: Options, members: Sequence[int] | None = None
) -> Any:
    """Make a communicator by four rounds of `control`, in which all its ranks take part. `members` are the numbers of
    the group's ranks there, by default all; rank -1 is in no group.
    """
    size, backend = len(ranks), options.library.backend
    order = range(size) if members is None else members
    hosts = agree(control, "init", {"host": host_name(), "backend": backend, "in": rank >= 0}, own=("host", "in"))
    is_one_host = len({hosts[member]["host"] for member in order}) <= 1
    if size > 1 and backend == "cpu" and not is_one_host:
        raise UnsupportedError("ranks on the CPU share memory and must be on one host")
    shares, is_leader = size > 1 and is_one_host, rank == 0
    slot, channel = (_SLOT_BYTES, _CHANNEL_BYTES) if backend == "cpu" else (0, 64)
    if size > 16:
        slot, channel = slot // 4, max(channel // size // 64 * 64, 64)
    segment: Segment | None = None
    with contextlib.ExitStack() as until_attached:
        address: Address | None = None
        failure = ""
        if shares and is_leader:
            try:
                address = address_of(until_attached.enter_context(make_file(segment_bytes(size, slot, channel))))
                segment = Segment(address, 0, size, slot, channel, options.timeout)
            except (OSError, InternalError) as error:
                failure = str(error)
        unique = ""
        if size > 1 and is_leader and backend == "cuda":
            from baracuda.distributed.engines.nccl import unique_id

            unique = unique_id(options.library).hex()
        record: Record = {"address": address, "nccl": unique}
        found = agree(control, "init", record, own=("address", "nccl"))
        address = found[order[0]]["address"] if shares else None
        if address is not None and not is_leader:
            try:
                segment = Segment(address, rank, size, slot, channel, options.timeout)
            except InternalError as error:
                failure = str(error)
        attached = agree(control, "init", {"failure": failure}, own=("failure",))
    failures = tuple(r for r, each in enumerate(attached) if each["failure"])
    if failures:
        raise RendezvousError(f"rank {failures[0]}: {attached[failures[0]]['failure']}", failures)
    if rank < 0:
        return None
    if size == 1:
        return _alone(options, ranks)
    inner: Control
    if segment is not None:
        inner = SegmentControl(segment)
    else:
        assert isinstance(control, StoreControl)
        name = ".".join([control.prefix, str(control.round), str(order[0])])
        inner = StoreControl(control.store, name, rank, size, options.timeout)
    engine: Any
    if backend == "cpu":
        assert segment is not None
        engine = HostEngine(segment)
    else:
        from baracuda.distributed.engines.nccl import NcclEngine

        identity = bytes.fromhex(found[order[0]]["nccl"])
        engine = NcclEngine.created(
            identity, rank, size, options.timeout, options.library, options.deterministic, inner,
            has_peers=options.peers,
        )  # fmt: skip
    return Communicator(
        engine, inner, options.library, ranks=ranks, local_rank=options.local_rank, verify=options.verify,
        remake=functools.partial(_split, options=options, ranks=ranks),
    )  # fmt: skip


def default_world_library(backend: str | None) -> Library:
    return load(backend=backend) if backend else default_library()
