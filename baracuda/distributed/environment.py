# SPDX-License-Identifier: Apache-2.0
"""Rank and number of ranks from the variables that torchrun, MPI and Slurm set for the processes that they start."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from baracuda.errors import InvalidProblemError

# (launcher, rank, number of ranks, rank on this host); the first of which both of the former are set.
VARIABLES = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
TIMEOUT = "BARACUDA_DISTRIBUTED_TIMEOUT"
PEERS = "BARACUDA_DISTRIBUTED_PEERS"
RENDEZVOUS = "BARACUDA_RENDEZVOUS"
DEFAULT_TIMEOUT = 300.0  # seconds


@dataclasses.dataclass(frozen=True)
class World:
    """Description of the group before its processes connect. `rendezvous` is "tcp://host:port" or
    "file:///folder"; one rank needs none.
    """

    rank: int
    size: int
    local_rank: int
    rendezvous: str = ""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidProblemError(f"the number of ranks is {self.size}, must be >= 1")
        if not 0 <= self.rank < self.size:
            raise InvalidProblemError(f"rank is {self.rank}, must be in [0, {self.size})")
        if self.local_rank < 0:
            raise InvalidProblemError(f"local_rank is {self.local_rank}, must be >= 0")


def world_of(variables: Mapping[str, str] | None = None) -> World:
    """The world that the environment describes; one rank if no launcher has set anything."""
    env = os.environ if variables is None else variables
    for launcher, rank, size, local in VARIABLES:
        if rank in env and size in env:
            numbers = [_number(env, name, launcher) for name in (rank, size)]
            own = _number(env, local, launcher) if local in env else numbers[0]
            return World(numbers[0], numbers[1], own, _rendezvous(env) if numbers[1] > 1 else "")
    return World(0, 1, 0)


def timeout_of(seconds: float | None) -> float:
    """The time-out in seconds: the argument, else BARACUDA_DISTRIBUTED_TIMEOUT, else 300."""
    given: object = os.environ.get(TIMEOUT, DEFAULT_TIMEOUT) if seconds is None else seconds
    try:
        value = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = -1.0
    if not 0 < value < 1e9:
        raise InvalidProblemError(f"timeout is {given!r}, must be seconds above 0")
    return value


def has_peers(given: bool | None) -> bool:
    """Whether GPUs may write to each other's memory: the argument, else BARACUDA_DISTRIBUTED_PEERS, else yes."""
    return os.environ.get(PEERS, "1") not in ("", "0") if given is None else bool(given)


def _number(env: Mapping[str, str], name: str, launcher: str) -> int:
    try:
        return int(env[name])
    except ValueError:
        raise InvalidProblemError(f"{name} of {launcher} is {env[name]!r}, must be an integer") from None


def _rendezvous(env: Mapping[str, str]) -> str:
    """BARACUDA_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT."""
    if url := env.get(RENDEZVOUS):
        return url
    address, port = env.get("MASTER_ADDR"), env.get("MASTER_PORT")
    if address and port:
        return f"tcp://{address}:{port}"
    raise InvalidProblemError(
        f"the ranks cannot find each other: set MASTER_ADDR and MASTER_PORT, or {RENDEZVOUS} to file:///folder"
    )
