# SPDX-License-Identifier: Apache-2.0
"""MoePlan: products of rows with the matrix of their expert, of pairs sorted by expert."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import MoeKind, OpCategory
from baracuda.plan import Plan
from baracuda.quantize.formats import GgufBlockFormat, bytes_of

# Formats of expert matrices in the order of C's gguf_dtype.
_FORMATS = (
    GgufBlockFormat.Q8_0, GgufBlockFormat.Q4_K, GgufBlockFormat.Q2_K, GgufBlockFormat.Q3_K, GgufBlockFormat.Q5_K,
    GgufBlockFormat.Q6_K, GgufBlockFormat.MXFP4, GgufBlockFormat.NVFP4,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class MoeDescriptor(Descriptor):
    """block_format is of the GGUF kinds alone. element is the dtype of activations: f32 of SCALAR_GGUF.

    With is_weighted activations have a row for each pair, as those of a second product, and topk_weight_flat is given;
    without they have one for each token. is_prefill changes nothing.
    """

    kind: MoeKind = descriptor.choice(MoeKind)
    num_tokens: int = descriptor.extent(1)
    num_experts: int = descriptor.extent(1)
    top_k: int = descriptor.extent(1)
    d_model: int = descriptor.extent(1)
    d_expert: int = descriptor.extent(1)
    block_format: GgufBlockFormat | None = descriptor.choice(GgufBlockFormat, default=None)
    is_prefill: bool = descriptor.flag()
    is_weighted: bool = descriptor.flag()

    @property
    def size_m(self) -> int:
        """(token, slot) pairs."""
        return self.num_tokens * self.top_k

    @property
    def tokens(self) -> int:
        """Rows of activations."""
        return self.size_m if self.is_weighted else self.num_tokens

    @property
    def offset_count(self) -> int:
        return self.num_experts + 1

    @property
    def gguf_dtype(self) -> int:
        if self.block_format not in _FORMATS:
            served = ", ".join(f.name for f in _FORMATS)
            raise InvalidProblemError(f"block_format is {self.block_format!r}, {self.kind.name} serves {served}")
        return _FORMATS.index(self.block_format)

    @property
    def row_bytes(self) -> int:
        _ = self.gguf_dtype
        assert self.block_format is not None
        return bytes_of(self.d_model, self.block_format, "d_model")


class MoePlan(Plan):
    """output[t] = w W x for each pair t of sorted_token_ids, W the matrix of flat_expert_ids: (num_experts, d_expert,
    d_model), or blocks of bytes. Nothing is summed over a token's slots: MoeCombinePlan does this.

    expert_counts_scratch and expert_offsets_scratch are of the WMMA kinds; output is f32 of the GGUF kinds.
    """

    __slots__ = ()
    op = "moe_{kind}_{T}"
    others: ClassVar = ("moe_{kind}",)
    category = OpCategory.MOE
    names: ClassVar = {
        "topk": "top_k", "size_n": "d_expert", "size_k": "d_model", "input": "activations", "inputs": "activations",
        "weights": "expert_matrices", "expert_ids": "flat_expert_ids", "topk_weights": "topk_weight_flat",
        "outputs": "output", "expert_counts": "expert_counts_scratch", "expert_offsets": "expert_offsets_scratch",
    }  # fmt: skip
