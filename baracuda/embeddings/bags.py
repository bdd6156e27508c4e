# SPDX-License-Identifier: Apache-2.0
"""Embedding bags: sums, means, weighted sums and maxima of the rows of each bag.

embedding_bag: out[b] = sum (SUM) or mean (MEAN) of weight[indices[k]] over offsets[b] <= k < offsets[b + 1], the last
bag ending at total_indices. Indices equal to padding_idx or outside [0, num_embeddings) are dropped, from the mean's
count too; a bag without indices gives 0. The backward adds dout[b] (MEAN: divided by the number of indices that count)
to dweight[indices[k]]. embedding_bag_last_offset has one more offset, the end of the last bag. embedding_bag_weighted
is the sum of per_sample_weights[k] * weight[indices[k]], with gradients of the table and of the weights.

embedding_bag_max: the maximum of a bag's rows in each column, the first of equal ones, and its row; 0 and row -1
for a bag without indices. Its backward adds dout[b, d] to dweight[output_index[b, d], d].

embedding_bag_dense_backward is the gradient of the table with all options, such as scale_grad_by_freq;
embedding_bag_sparse_backward gives the sorted unique indexed rows, their gradients, and their count. Rows of maxima
have the dtype of the offsets.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.embeddings.rows import PaddedDescriptor, optional_index
from baracuda.kinds import EmbeddingBagMode, EmbeddingKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class EmbeddingBagDescriptor(PaddedDescriptor):
    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_bags: int = descriptor.extent()
    total_indices: int = descriptor.extent()
    mode: EmbeddingBagMode = descriptor.choice(EmbeddingBagMode)
    padding_idx: int | None = descriptor.checked(optional_index, default=None)


@dataclasses.dataclass(frozen=True)
class EmbeddingBagLastOffsetDescriptor(EmbeddingBagDescriptor):
    """offsets have num_bags + 1 entries; the last one is the end of the last bag."""

    @property
    def offset_count(self) -> int:
        return self.num_bags + 1


@dataclasses.dataclass(frozen=True)
class EmbeddingBagWeightedDescriptor(PaddedDescriptor):
    """With include_last_offset offsets have num_bags + 1 entries; the last one is the end of the last bag."""

    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_bags: int = descriptor.extent()
    total_indices: int = descriptor.extent()
    include_last_offset: bool = descriptor.flag()
    padding_idx: int | None = descriptor.checked(optional_index, default=None)

    @property
    def offset_count(self) -> int:
        return self.num_bags + self.include_last_offset


@dataclasses.dataclass(frozen=True)
class EmbeddingBagDenseBackwardDescriptor(EmbeddingBagDescriptor):
    """Gradient for all kinds of bags. With include_last_offset offsets have num_bags + 1 entries, the last being the
    end of the last bag; with scale_grad_by_freq each row's gradient is divided by the number of its indices.
    """

    include_last_offset: bool = descriptor.flag()
    scale_grad_by_freq: bool = descriptor.flag()

    @property
    def offset_count(self) -> int:
        return self.num_bags + self.include_last_offset


@dataclasses.dataclass(frozen=True)
class EmbeddingBagMaxDescriptor(PaddedDescriptor):
    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_bags: int = descriptor.extent()
    total_indices: int = descriptor.extent()
    padding_idx: int | None = descriptor.checked(optional_index, default=None)


@dataclasses.dataclass(frozen=True)
class EmbeddingBagMaxLastOffsetDescriptor(EmbeddingBagMaxDescriptor):
    """With include_last_offset offsets have num_bags + 1 entries; the last one is the end of the last bag."""

    include_last_offset: bool = descriptor.flag()

    @property
    def offset_count(self) -> int:
        return self.num_bags + self.include_last_offset


@dataclasses.dataclass(frozen=True)
class EmbeddingBagMaxBackwardDescriptor(Descriptor):
    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_bags: int = descriptor.extent()


class EmbeddingBagPlan(Plan):
    __slots__ = ()
    op = "embedding_bag{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    names: ClassVar = {"padding_idx": "padding", "out": "output"}

    @property
    def kind(self) -> EmbeddingKind:
        is_sum = self.descriptor.mode is EmbeddingBagMode.SUM
        return EmbeddingKind.EMBEDDING_BAG_SUM if is_sum else EmbeddingKind.EMBEDDING_BAG_MEAN


class EmbeddingBagBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = EmbeddingBagDescriptor
    op = "embedding_bag_backward{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    names: ClassVar = {"padding_idx": "padding"}

    @property
    def kind(self) -> EmbeddingKind:
        is_sum = self.descriptor.mode is EmbeddingBagMode.SUM
        return EmbeddingKind.EMBEDDING_BAG_SUM_BACKWARD if is_sum else EmbeddingKind.EMBEDDING_BAG_MEAN_BACKWARD


class EmbeddingBagLastOffsetPlan(EmbeddingBagPlan):
    __slots__ = ()
    op = "embedding_bag_last_offset{I}{O}_{T}"


class EmbeddingBagLastOffsetBackwardPlan(EmbeddingBagBackwardPlan):
    __slots__ = ()
    descriptor_base = EmbeddingBagLastOffsetDescriptor
    op = "embedding_bag_last_offset_backward{I}{O}_{T}"


class EmbeddingBagWeightedPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_weighted{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_WEIGHTED
    names: ClassVar = {"padding_idx": "padding", "out": "output"}


class EmbeddingBagWeightedBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = EmbeddingBagWeightedDescriptor
    op = "embedding_bag_weighted_backward{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_WEIGHTED_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingBagWeightsBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = EmbeddingBagWeightedDescriptor
    op = "embedding_bag_weights_backward{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_WEIGHTS_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingBagDenseBackwardPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_dense_backward{I}{O}_{T}"
    fields: ClassVar = {"per_sample_weights": "given"}
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_DENSE_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingBagSparseBackwardPlan(Plan):
    """After the first `count` entries rows are -1 and values 0."""

    __slots__ = ()
    descriptor_base = EmbeddingBagDenseBackwardDescriptor
    op = "embedding_bag_sparse_backward{I}{O}_{T}"
    fields: ClassVar = {"per_sample_weights": "given"}
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_SPARSE_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingBagMaxPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_max{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_MAX
    names: ClassVar = {"padding_idx": "padding", "out": "output", "out_index": "output_index"}


class EmbeddingBagMaxLastOffsetPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_max_last_offset{I}{O}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_MAX_LAST_OFFSET
    names: ClassVar = {"padding_idx": "padding", "out": "output", "out_index": "output_index"}


class EmbeddingBagMaxBackwardPlan(Plan):
    __slots__ = ()
    op = "embedding_bag_max_backward{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BAG_MAX_BACKWARD
    names: ClassVar = {"out_index": "output_index"}
