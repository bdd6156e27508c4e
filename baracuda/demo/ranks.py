# SPDX-License-Identifier: Apache-2.0
"""Communication of the ranks of a training within the forward and the backward: none, if there is one rank.

Units of parameters are the embedding with the last norm, 0, and the layers, from 1 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.distributed.linear import share_of
from baracuda.distributed.mesh import Mesh, Split
from baracuda.distributed.ring import positions_of, ring_attention, ring_attention_backward
from baracuda.distributed.vocabulary import (
    vocabulary_parallel_cross_entropy,
    vocabulary_parallel_embedding,
    vocabulary_parallel_embedding_backward,
)
from baracuda.distributed.zero import ShardedParameters

Array = np.ndarray[Any, Any]
LAYOUT = "zigzag"  # of the tokens of a text among ranks


class Alone:
    """One rank."""

    divides_matrices = False
    sharded: ShardedParameters | None = None
    mesh: Mesh | None = None

    def share(self, name: str, count: int) -> int:
        """This rank's part of a number of heads or features."""
        return count

    def positions(self, length: int) -> Any:
        """The positions of this rank's tokens, of which there are `length`."""
        return slice(0, length)

    def start(self) -> None:
        """A forward begins."""

    def open(self, unit: int) -> None:
        """The parameters of a unit are needed."""

    def open_gradients(self, unit: int) -> None:
        """Gradients will be added to those of a unit."""

    def close_gradients(self, unit: int) -> None:
        """The gradients of a unit are complete."""

    def begin_batch(self, *, is_first: bool, is_last: bool) -> None:
        """A batch of a step begins."""

    def finish_gradients(self) -> None:
        """The exchange of gradients ends, before they are used."""

    def publish(self) -> None:
        """The optimiser has made a step: every rank needs the new values."""

    def split(self, name: str) -> Split:
        """The division of a parameter among the ranks of a tensor group."""
        return Split()

    def take(self, name: str, values: Array) -> Array:
        """This rank's part of a parameter."""
        return values

    def is_divided(self, name: str) -> bool:
        """Whether the ranks of a tensor group have different parts of a parameter."""
        return False

    def add_up(self, x: bk.TensorRef) -> None:
        """Sum partial products over the ranks that divide the matrices."""

    def write(self, name: str, values: Array) -> None:
        """Set a parameter, of which this rank has a part."""
        raise NotImplementedError

    def whole(self, name: str) -> Array:
        """A parameter of the whole model; every rank calls it."""
        raise NotImplementedError

    def loss(
        self, features: bk.TensorRef, weight: bk.TensorRef, targets: bk.TensorRef, out: bk.TensorRef,
        dfeatures: bk.TensorRef, dweight: bk.TensorRef,
    ) -> None:  # fmt: skip
        """The mean loss and its gradients, over a divided vocabulary."""
        raise NotImplementedError

    def embedding(self, tokens: bk.TensorRef, weight: bk.TensorRef, out: bk.TensorRef) -> None:
        bk.embedding(tokens, weight, out=out)

    def embedding_backward(self, dy: bk.TensorRef, tokens: bk.TensorRef, gradient: bk.TensorRef) -> None:
        """Added to the gradient."""
        bk.embedding_backward(dy, tokens, gradient.shape[0], out=gradient)

    def attention(self, q: bk.TensorRef, k: bk.TensorRef, v: bk.TensorRef, y: bk.TensorRef, lse: bk.TensorRef) -> None:
        """Causal attention into y and lse. The last query sees the last key."""
        bk.fused_attention_forward(q, k, v, tokens_first=True, is_causal=True, aligns_ends=True, out=(y, lse))

    def attention_backward(
        self, dy: bk.TensorRef, q: bk.TensorRef, k: bk.TensorRef, v: bk.TensorRef, y: bk.TensorRef, lse: bk.TensorRef,
        dq: bk.TensorRef, dk: bk.TensorRef, dv: bk.TensorRef,
    ) -> None:  # fmt: skip
        bk.fused_attention_backward(
            dy, q, k, v, y, lse, tokens_first=True, is_causal=True, aligns_ends=True,
            needs=(True, True, True, False, False), out=(dq, dk, dv, None, None),
        )  # fmt: skip


class Ranks(Alone):
    """Several ranks in a mesh."""

    def __init__(
        self, mesh: Mesh, splits: Mapping[str, Split], shapes: Mapping[str, tuple[int, ...]], dtype: bk.ElementKind,
        library: bk.Library,
    ) -> None:  # fmt: skip
        self.mesh: Mesh = mesh
        self.splits, self.divides_matrices = splits, mesh.tensor.size > 1
        local = {name: splits[name].shape(shape, mesh.tensor.size) for name, shape in shapes.items()}
        layers: dict[str, dict[str, tuple[int, ...]]] = {"": {}}
        for name, shape in local.items():
            layers.setdefault(name.rpartition(".")[0], {})[name] = shape
        self.sharded: ShardedParameters = ShardedParameters(
            mesh.replicas, list(layers.values()), dtype, library, stage=mesh.layout.zero
        )
        self.is_first = self.is_last = True  # batch of a step

    def share(self, name: str, count: int) -> int:
        return share_of(name, count, self.mesh.tensor.size)

    def positions(self, length: int) -> Any:
        return positions_of(LAYOUT, length * self.mesh.context.size, self.mesh.context.rank, self.mesh.context.size)

    def start(self) -> None:
        self.sharded.start()

    def open(self, unit: int) -> None:
        self.sharded.open(unit)

    def open_gradients(self, unit: int) -> None:
        self.sharded.open_gradients(unit)

    def close_gradients(self, unit: int) -> None:
        self.sharded.close_gradients(unit, is_first=self.is_first, is_last=self.is_last)

    def begin_batch(self, *, is_first: bool, is_last: bool) -> None:
        self.is_first, self.is_last = is_first, is_last

    def finish_gradients(self) -> None:
        self.sharded.finish()

    def publish(self) -> None:
        self.sharded.updated()

    def is_divided(self, name: str) -> bool:
        return self.divides_matrices and self.splits[name].axis is not None

    def add_up(self, x: bk.TensorRef) -> None:
        if self.divides_matrices:
            self.mesh.tensor.all_reduce(x, out=x)

    def split(self, name: str) -> Split:
        return self.splits[name]

    def take(self, name: str, values: Array) -> Array:
        return self.splits[name].take(values, self.mesh.tensor.rank, self.mesh.tensor.size)

    def write(self, name: str, values: Array) -> None:
        self.sharded.write(name, self.take(name, values))

    def whole(self, name: str) -> Array:
        """A parameter of the whole model; every rank calls it."""
        self.open(self.sharded.unit_of[name])
        view = self.sharded.values[name]
        parts = self.mesh.tensor.all_gather(view.reshape(1, -1))
        self.mesh.tensor.wait()
        arrays = bk.download(parts, library=self.sharded.library).reshape(-1, *view.shape)
        return self.splits[name].combine(list(arrays))

    def loss(
        self, features: bk.TensorRef, weight: bk.TensorRef, targets: bk.TensorRef, out: bk.TensorRef,
        dfeatures: bk.TensorRef, dweight: bk.TensorRef,
    ) -> None:  # fmt: skip
        found, dx, dw = vocabulary_parallel_cross_entropy(
            self.mesh.tensor, features, weight, targets, needs_gradient=True
        )
        for x, target in ((found.reshape(1), out.reshape(1)), (dx, dfeatures), (dw, dweight)):
            bk.cast(x, target.dtype, out=target)

    def embedding(self, tokens: bk.TensorRef, weight: bk.TensorRef, out: bk.TensorRef) -> None:
        if self.divides_matrices:
            vocabulary_parallel_embedding(self.mesh.tensor, tokens, weight, out=out)
        else:
            super().embedding(tokens, weight, out)

    def embedding_backward(self, dy: bk.TensorRef, tokens: bk.TensorRef, gradient: bk.TensorRef) -> None:
        vocabulary_parallel_embedding_backward(self.mesh.tensor, dy, tokens, gradient.shape[0], out=gradient)

    def attention(self, q: bk.TensorRef, k: bk.TensorRef, v: bk.TensorRef, y: bk.TensorRef, lse: bk.TensorRef) -> None:
        if self.mesh.context.size == 1:
            super().attention(q, k, v, y, lse)
            return
        found, sums = ring_attention(self.mesh.context, q, k, v, is_causal=True, layout=LAYOUT)
        bk.cast(found, y.dtype, out=y)
        bk.cast(sums, lse.dtype, out=lse)

    def attention_backward(
        self, dy: bk.TensorRef, q: bk.TensorRef, k: bk.TensorRef, v: bk.TensorRef, y: bk.TensorRef, lse: bk.TensorRef,
        dq: bk.TensorRef, dk: bk.TensorRef, dv: bk.TensorRef,
    ) -> None:  # fmt: skip
        if self.mesh.context.size == 1:
            super().attention_backward(dy, q, k, v, y, lse, dq, dk, dv)
            return
        found = ring_attention_backward(self.mesh.context, dy, q, k, v, y, lse, is_causal=True, layout=LAYOUT)
        for x, target in zip(found, (dq, dk, dv)):
            bk.cast(x, target.dtype, out=target)
