# SPDX-License-Identifier: Apache-2.0
"""Embeddings: rows of a table by index, their gradients, and renormalisation.

embedding: out[n] = weight[indices[n]], a row of zeros where the index is padding_idx or outside [0, num_embeddings).
Its backward adds dout[n] to dweight[indices[n]].

embedding_renorm: scales the indexed rows of a table down to a norm of at most max_norm; output may be weight.

embedding_dense_backward is the gradient of the table with all options, such as scale_grad_by_freq;
embedding_sparse_backward gives the sorted unique indexed rows, their gradients, and their count.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import INT32_MIN, as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import EmbeddingKind, OpCategory
from baracuda.plan import Plan


def optional_index(name: str, value: object) -> int | None:
    return None if value is None else as_integer(name, value)


class PaddedDescriptor(Descriptor):
    padding_idx: int | None

    @property
    def padding(self) -> int:
        """padding_idx as C takes it: INT32_MIN matches no index."""
        return INT32_MIN if self.padding_idx is None else self.padding_idx


@dataclasses.dataclass(frozen=True)
class EmbeddingDescriptor(PaddedDescriptor):
    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_indices: int = descriptor.checked(lambda name, value: as_integer(name, value, 0))
    padding_idx: int | None = descriptor.checked(optional_index, default=None)


@dataclasses.dataclass(frozen=True)
class EmbeddingDenseBackwardDescriptor(PaddedDescriptor):
    """With scale_grad_by_freq each row's gradient is divided by the number of its indices."""

    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_indices: int = descriptor.extent()
    scale_grad_by_freq: bool = descriptor.flag()
    padding_idx: int | None = descriptor.checked(optional_index, default=None)


@dataclasses.dataclass(frozen=True)
class EmbeddingRenormDescriptor(Descriptor):
    """norm_type is the order of the norm, above 0, or infinity; max_norm is not negative."""

    num_embeddings: int = descriptor.extent()
    embedding_dim: int = descriptor.extent()
    num_indices: int = descriptor.extent()
    max_norm: float = descriptor.real()
    norm_type: float = descriptor.real(default=2.0)


class EmbeddingPlan(Plan):
    __slots__ = ()
    op = "embedding{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING
    names: ClassVar = {"padding_idx": "padding", "out": "output"}


class EmbeddingBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = EmbeddingDescriptor
    op = "embedding_backward{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingDenseBackwardPlan(Plan):
    __slots__ = ()
    op = "embedding_dense_backward{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_DENSE_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingSparseBackwardPlan(Plan):
    """After the first `count` entries rows are -1 and values 0."""

    __slots__ = ()
    descriptor_base = EmbeddingDenseBackwardDescriptor
    op = "embedding_sparse_backward{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_SPARSE_BACKWARD
    names: ClassVar = {"padding_idx": "padding"}


class EmbeddingRenormPlan(Plan):
    __slots__ = ()
    op = "embedding_renorm{I}_{T}"
    category = OpCategory.EMBEDDING
    kind = EmbeddingKind.EMBEDDING_RENORM
    names: ClassVar = {"out": "output"}
