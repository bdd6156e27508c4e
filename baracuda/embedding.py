"""Embedding bags.

out[b] = sum (SUM) or mean (MEAN) of weight[indices[k]] over offsets[b] <= k < offsets[b + 1], the last bag ending at
total_indices. Indices equal to padding_idx or outside [0, num_embeddings) are dropped, from the mean's count too; a bag
without indices gives 0. The backward adds dout[b] (MEAN: over the number of kept indices) to dweight[indices[k]]; the
caller zeroes dweight. indices are i32 or i64, offsets i32.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._scalars import INT32_MIN, as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import EmbeddingBagMode, EmbeddingKind, OpCategory
from baracuda.operands import Args, Viewable
from baracuda.plan import Plan


def _optional_index(name: str, value: object) -> int | None:
    return None if value is None else as_integer(name, value)


@dataclasses.dataclass(frozen=True)
class EmbeddingBagDescriptor(Descriptor):
    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_bags: int = descriptor.extent()
    total_indices: int = descriptor.extent()
    mode: EmbeddingBagMode = descriptor.choice(EmbeddingBagMode)
    padding_idx: int | None = descriptor.checked(_optional_index, default=None)

    @property
    def padding(self) -> int:
        """padding_idx as C takes it: INT32_MIN matches no index."""
        return INT32_MIN if self.padding_idx is None else self.padding_idx


@dataclasses.dataclass(frozen=True)
class EmbeddingBagBackwardDescriptor(EmbeddingBagDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EmbeddingBagArgs(Args):
    weight: Viewable
    indices: Viewable
    offsets: Viewable
    output: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EmbeddingBagBackwardArgs(Args):
    """dweight is added to, where every other gradient is overwritten: clear it first to have the gradient alone."""

    dout: Viewable
    indices: Viewable
    offsets: Viewable
    dweight: Viewable


class EmbeddingBagPlan(Plan):
    __slots__ = ()
    op = "embedding_bag{I}_{T}"
    category = OpCategory.EMBEDDING
    descriptor_type = EmbeddingBagDescriptor
    args_type = EmbeddingBagArgs
    names: ClassVar = {"padding_idx": "padding", "out": "output"}

    @property
    def kind(self) -> EmbeddingKind:
        is_sum = self.descriptor.mode is EmbeddingBagMode.SUM
        return EmbeddingKind.EMBEDDING_BAG_SUM if is_sum else EmbeddingKind.EMBEDDING_BAG_MEAN


class EmbeddingBagBackwardPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_backward{I}_{T}"
    category = OpCategory.EMBEDDING
    descriptor_type = EmbeddingBagBackwardDescriptor
    args_type = EmbeddingBagBackwardArgs
    names: ClassVar = {"padding_idx": "padding"}

    @property
    def kind(self) -> EmbeddingKind:
        is_sum = self.descriptor.mode is EmbeddingBagMode.SUM
        return EmbeddingKind.EMBEDDING_BAG_SUM_BACKWARD if is_sum else EmbeddingKind.EMBEDDING_BAG_MEAN_BACKWARD
