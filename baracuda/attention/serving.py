# SPDX-License-Identifier: Apache-2.0
"""Attention of a serving engine: decoding, caches in pages, ragged batches, and merges of partial results.

Query head h reads key-value head h / (num_qo_heads / num_kv_heads). A cache in pages is (page, head, slot, element);
sequence b owns the pages indices[indptr[b]] to indices[indptr[b + 1] - 1], all full but the last, of last_page_len[b]
slots. indices, indptr and last_page_len are i32 on the device, which reads them: no plan synchronises. lse has base 2
in the plans of pages, ragged batches and merges, as FlashInfer has it, and base e in FlashDecodingPlan. A row without
keys has the result 0 and lse -inf.

With PlanPreference(batch_invariant=True) the bits of a query's result depend on that query and the keys that it sees:
not on the batch, on pages or on other queries, but over 8-bit caches with factors on those of its sequence. On a GPU
the partial results of long sequences need the workspace then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan


class _ServingPlan(Plan):
    """Attention that may be batch-invariant."""

    __slots__ = ()
    category = OpCategory.ATTENTION

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {"is_batch_invariant": int(self.preference.batch_invariant)}

    def _choose_workspace(self) -> tuple[int, bool]:
        chosen, preference = super()._choose_workspace(), self.preference
        if preference.batch_invariant and self.library.backend == "cuda":
            needed = self._workspace_of(self._forms[0])
            if needed > preference.max_workspace_bytes:
                raise UnsupportedError(
                    f"the batch-invariant kernel needs {needed} workspace bytes, max_workspace_bytes is "
                    f"{preference.max_workspace_bytes}"
                )
        return chosen


# --- one query row, contiguous keys ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FlashDecodingDescriptor(Descriptor):
    """One query row a sequence over k_len keys."""

    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    num_kv_heads: int = descriptor.extent()
    k_len: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    scale: float = descriptor.real()

    @property
    def q_shape(self) -> tuple[int, ...]:
        return (self.batch_size, self.num_heads, self.head_dim)

    @property
    def kv_shape(self) -> tuple[int, ...]:
        return (self.batch_size, self.num_kv_heads, self.k_len, self.head_dim)


class FlashDecodingPlan(_ServingPlan):
    """q, y: (batch_size, num_heads, head_dim); k, v: (batch_size, num_kv_heads, k_len, head_dim). Features must be
    adjacent, other strides are any. a: the f32 weights, (batch_size, num_heads, k_len); a_mean: their mean over the
    heads, which needs a; lse: of base e. These three may be None.
    """

    __slots__ = ()
    op = "attention_decode_{T}"
    kind = AttentionKind.FLASH_ATTENTION
    names: ClassVar = {
        "batch": "batch_size", "heads": "num_heads", "kv_heads": "num_kv_heads", "d_k": "head_dim", "d_v": "head_dim",
        "weights": "a", "mean_weights": "a_mean",
    }  # fmt: skip
    shapes: ClassVar = {"q": "q_shape", "k": "kv_shape", "v": "kv_shape", "y": "q_shape"}

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        if strides[-1] != 1 and self.descriptor.head_dim > 1:
            raise InvalidProblemError(f"{name.split('_')[1]} has stride {strides[-1]} along head_dim, must be 1")
        return strides["bhs".index(name[-1])]


# --- pages and ragged batches ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BatchPagedDecodeDescriptor(Descriptor):
    """One query row a sequence. indices has num_page_ids entries, of a cache with num_total_pages pages. window >= 0
    hides keys further from the query; softcap c > 0 gives scores c tanh(sm_scale q.k / c).
    """

    batch_size: int = descriptor.extent()
    num_qo_heads: int = descriptor.extent()
    num_kv_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    page_size: int = descriptor.extent()
    num_total_pages: int = descriptor.extent()
    num_page_ids: int = descriptor.extent()
    sm_scale: float = descriptor.real()
    window: int = descriptor.extent(-1, default=-1)
    softcap: float = descriptor.real(default=0.0)

    @property
    def total_num_rows(self) -> int:
        return self.batch_size

    @property
    def offset_count(self) -> int:
        return self.batch_size + 1


def _kv_element(default: ElementKind) -> Any:
    return dataclasses.field(
        default=default, kw_only=True, metadata={"check": lambda name, value: as_element(value, name)}
    )


@dataclasses.dataclass(frozen=True)
class BatchPagedDecodeFp8Descriptor(BatchPagedDecodeDescriptor):
    """A cache of 8-bit floats, kv_element, without a scale of its own."""

    kv_element: ElementKind = _kv_element(ElementKind.FP8_E4M3)

    @property
    def output_element(self) -> ElementKind:
        return self.kv_element


@dataclasses.dataclass(frozen=True)
class BatchPagedDecodeQuantizedDescriptor(BatchPagedDecodeDescriptor):
    """A cache of kv_element, S8, FP8_E4M3 or FP8_E5M2, with a factor for each slot of a head."""

    kv_element: ElementKind = _kv_element(ElementKind.S8)

    @property
    def output_element(self) -> ElementKind:
        return self.kv_element


@dataclasses.dataclass(frozen=True)
class BatchPagedPrefillDescriptor(Descriptor):
    """total_num_rows query rows of all sequences. With causal the last query of a sequence sees its last key."""

    batch_size: int = descriptor.extent()
    total_num_rows: int = descriptor.extent()
    num_qo_heads: int = descriptor.extent()
    num_kv_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    page_size: int = descriptor.extent()
    num_total_pages: int = descriptor.extent()
    num_page_ids: int = descriptor.extent()
    sm_scale: float = descriptor.real()
    causal: bool = descriptor.flag()
    window: int = descriptor.extent(-1, default=-1)
    softcap: float = descriptor.real(default=0.0)

    @property
    def offset_count(self) -> int:
        return self.batch_size + 1


@dataclasses.dataclass(frozen=True)
class BatchRaggedPrefillDescriptor(Descriptor):
    """total_num_rows query rows and total_kv_rows keys of all sequences."""

    batch_size: int = descriptor.extent()
    total_num_rows: int = descriptor.extent()
    total_kv_rows: int = descriptor.extent()
    num_qo_heads: int = descriptor.extent()
    num_kv_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    sm_scale: float = descriptor.real()
    causal: bool = descriptor.flag()
    window: int = descriptor.extent(-1, default=-1)
    softcap: float = descriptor.real(default=0.0)

    @property
    def offset_count(self) -> int:
        return self.batch_size + 1


_HEADS = {
    "batch": "batch_size", "heads": "num_qo_heads", "kv_heads": "num_kv_heads", "d_k": "head_dim", "d_v": "head_dim",
    "scale": "sm_scale", "is_causal": "causal", "total_q": "total_num_rows", "y": "o",
}  # fmt: skip
_PAGED = _HEADS | {
    "num_pages": "num_total_pages", "k_cache": "k_data", "v_cache": "v_data", "page_ids": "indices",
    "page_offsets": "indptr", "q_offsets": "q_indptr",
}  # fmt: skip


class BatchPagedDecodePlan(_ServingPlan):
    """q, o: (batch_size, num_qo_heads, head_dim); k_data, v_data: (num_total_pages, num_kv_heads, page_size, head_dim);
    lse: f32 (batch_size, num_qo_heads), of base 2, or None.
    """

    __slots__ = ()
    op = "attention_paged_{T}"
    kind = AttentionKind.PAGED_ATTENTION
    names: ClassVar = _PAGED

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {**super().numbers, "is_causal": 0, "is_base2": 1}


class BatchPagedDecodeFp8Plan(BatchPagedDecodePlan):
    """k_data and v_data are decoded exactly: sm_scale has the scale of the keys, and o times that of the values is the
    whole result.
    """

    __slots__ = ()
    op = "attention_paged_{T}_{U}"
    rows: ClassVar = ("attention_paged_{T}_fp8e4m3",)


class BatchPagedDecodeQuantizedPlan(BatchPagedDecodePlan):
    """Key j is k_scales[j] k_data[j], value j v_scales[j] v_data[j]; k_scales, v_scales: f32 (num_total_pages,
    num_kv_heads, page_size).
    """

    __slots__ = ()
    op = "attention_paged_quantized_{T}_{U}"
    rows: ClassVar = ("attention_paged_quantized_{T}_i8",)


class BatchPagedPrefillPlan(_ServingPlan):
    """q, o: (total_num_rows, num_qo_heads, head_dim), sequence b in rows q_indptr[b] to q_indptr[b + 1]; k_data,
    v_data: (num_total_pages, num_kv_heads, page_size, head_dim); lse: f32 (total_num_rows, num_qo_heads), of base 2, or
    None.
    """

    __slots__ = ()
    op = "attention_paged_{T}"
    kind = AttentionKind.PAGED_ATTENTION
    names: ClassVar = _PAGED | {"page_ids": "kv_indices", "page_offsets": "kv_indptr"}
    fields: ClassVar = {"q_indptr": "given"}

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {**super().numbers, "is_causal": int(self.descriptor.causal), "is_base2": 1}


class BatchRaggedPrefillPlan(_ServingPlan):
    """q, o: (total_num_rows, num_qo_heads, head_dim); k_data, v_data: (total_kv_rows, num_kv_heads, head_dim). Sequence
    b has the rows q_indptr[b] to q_indptr[b + 1] and kv_indptr[b] to kv_indptr[b + 1]. lse: f32 (total_num_rows,
    num_qo_heads), of base 2, or None.
    """

    __slots__ = ()
    op = "attention_ragged_{T}"
    kind = AttentionKind.PAGED_ATTENTION
    names: ClassVar = _HEADS | {
        "total_k": "total_kv_rows", "k": "k_data", "v": "v_data", "q_offsets": "q_indptr", "k_offsets": "kv_indptr",
    }  # fmt: skip

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {**super().numbers, "is_causal": int(self.descriptor.causal), "is_base2": 1}


@dataclasses.dataclass(frozen=True)
class PagedKvAppendDescriptor(Descriptor):
    """num_tokens new rows of keys and values."""

    batch_size: int = descriptor.extent()
    num_tokens: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    page_size: int = descriptor.extent()
    num_total_pages: int = descriptor.extent()
    num_page_ids: int = descriptor.extent()

    @property
    def offset_count(self) -> int:
        return self.batch_size + 1


@dataclasses.dataclass(frozen=True)
class PagedKvAppendQuantizedDescriptor(PagedKvAppendDescriptor):
    """Rows are stored as kv_element, S8, FP8_E4M3 or FP8_E5M2."""

    kv_element: ElementKind = _kv_element(ElementKind.S8)

    @property
    def output_element(self) -> ElementKind:
        return self.kv_element


class PagedKvAppendPlan(Plan):
    """Token t goes to position positions[t] of sequence batch_indices[t]; key, value: (num_tokens, num_heads,
    head_dim). Tokens outside the batch or their sequence's pages are dropped.
    """

    __slots__ = ()
    op = "paged_kv_append_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.PAGED_ATTENTION
    names: ClassVar = {
        "batch": "batch_size", "heads": "num_heads", "d_k": "head_dim", "d_v": "head_dim",
        "num_pages": "num_total_pages", "k_new": "key", "v_new": "value", "page_ids": "indices",
        "page_offsets": "indptr", "k_cache": "k_data", "v_cache": "v_data",
    }  # fmt: skip


class PagedKvAppendQuantizedPlan(PagedKvAppendPlan):
    """Each row of a head is stored with the factor max |x| / M in k_scales or v_scales, f32 (num_total_pages,
    num_heads, page_size), where M is 127, 448 or 57344.
    """

    __slots__ = ()
    op = "paged_kv_append_quantized_{T}_{U}"


# --- merges of partial results ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CascadeAttentionDescriptor(Descriptor):
    seq_len: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()


class CascadeAttentionPlan(Plan):
    """Merges (v_other, s_other) into (v, s): attention over the keys of both. v: (seq_len, num_heads, head_dim), s: f32
    (seq_len, num_heads), of base 2. An infinite s marks a state without keys.
    """

    __slots__ = ()
    op = "flashinfer_merge_state_in_place_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.PAGED_ATTENTION


@dataclasses.dataclass(frozen=True)
class CascadeMergeStatesDescriptor(Descriptor):
    num_index_sets: int = descriptor.extent()
    seq_len: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()


class CascadeMergeStatesPlan(Plan):
    """v: (seq_len, num_index_sets, num_heads, head_dim), s: f32 (seq_len, num_index_sets, num_heads), of base 2."""

    __slots__ = ()
    op = "flashinfer_merge_states_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.PAGED_ATTENTION


@dataclasses.dataclass(frozen=True)
class MergeAttentionStatesDescriptor(Descriptor):
    num_states: int = descriptor.extent()
    num_rows: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    is_base2: bool = descriptor.flag()


class MergeAttentionStatesPlan(Plan):
    """values: (num_states, num_rows, head_dim), lse: f32 (num_states, num_rows), of base e unless is_base2."""

    __slots__ = ()
    op = "merge_attention_states_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.PAGED_ATTENTION
