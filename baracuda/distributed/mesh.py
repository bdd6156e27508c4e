# SPDX-License-Identifier: Apache-2.0
"""Layouts of training: the ranks as a grid of data, context and tensor, and tensors split along one axis of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda.distributed.communicator import Communicator
from baracuda.errors import InvalidProblemError

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Numbers of ranks along the axes of the mesh.

    data     copies of the model, each with texts of its own
    context  ranks among which the tokens of a text are divided (ring attention)
    tensor   ranks among which the matrices are divided (column- and row-parallel linear layers)
    zero     what the data x context copies of a parameter divide among them (Rajbhandari et al. 2020):
             0 nothing, 1 states of the optimiser, 2 gradients too, 3 parameters too
    """

    data: int = 1
    context: int = 1
    tensor: int = 1
    zero: int = 0

    def __post_init__(self) -> None:
        for name in ("data", "context", "tensor"):
            if getattr(self, name) < 1:
                raise InvalidProblemError(f"{name} is {getattr(self, name)}, must be >= 1")
        if self.zero not in range(4):
            raise InvalidProblemError(f"zero is {self.zero}, must be 0, 1, 2 or 3")

    @property
    def size(self) -> int:
        return self.data * self.context * self.tensor


class Mesh:
    """The communicators of a rank: `tensor`, `context`, and `replicas`, the ranks that have the same parameters. Ranks
    of a tensor group are neighbours, since they exchange most. Every rank makes the mesh.
    """

    def __init__(self, comm: Communicator, layout: Layout) -> None:
        if layout.size != comm.size:
            raise InvalidProblemError(f"{layout} has {layout.size} ranks, the communicator {comm.size}")
        self.world, self.layout = comm, layout
        at_tensor = comm.rank % layout.tensor
        at_context = comm.rank // layout.tensor % layout.context
        self.data_rank = comm.rank // (layout.tensor * layout.context)
        self.tensor = _group(comm, comm.rank // layout.tensor)
        self.context = _group(comm, self.data_rank * layout.tensor + at_tensor)
        self.replicas = _group(comm, at_tensor)
        self.tensor_rank, self.context_rank = at_tensor, at_context

    def close(self) -> None:
        for each in (self.tensor, self.context, self.replicas):
            each.close()


def _group(comm: Communicator, color: int) -> Communicator:
    found = comm.split(color)
    assert found is not None
    return found


@dataclasses.dataclass(frozen=True)
class Split:
    """A tensor divided evenly along an axis. With blocks > 1 the axis has that many blocks, each of which is divided,
    such as the two halves of a gated layer. axis None is a tensor that every rank has.
    """

    axis: int | None = None
    blocks: int = 1

    def shape(self, shape: Sequence[int], size: int) -> tuple[int, ...]:
        """The shape of a rank's part."""
        if self.axis is None:
            return tuple(shape)
        if shape[self.axis] % (size * self.blocks):
            raise InvalidProblemError(
                f"an axis of {shape[self.axis]} cannot be divided into {self.blocks} blocks on each of {size} ranks"
            )
        return tuple(n // size if axis == self.axis else n for axis, n in enumerate(shape))

    def take(self, whole: Array, rank: int, size: int) -> Array:
        """A rank's part, contiguous."""
        if self.axis is None:
            return np.ascontiguousarray(whole)
        blocks = np.split(whole, self.blocks, self.axis)
        return np.ascontiguousarray(np.concatenate([np.split(x, size, self.axis)[rank] for x in blocks], self.axis))

    def combine(self, parts: Sequence[Array]) -> Array:
        """The whole tensor of all ranks' parts."""
        if self.axis is None:
            return parts[0]
        blocks = [np.split(part, self.blocks, self.axis) for part in parts]
        return np.concatenate([each[k] for k in range(self.blocks) for each in blocks], self.axis)
