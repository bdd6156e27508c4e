# SPDX-License-Identifier: Apache-2.0
"""New keys and values into a cache in pages, for arrays of any framework."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from baracuda._arrays.frameworks import as_array, library_for, result_framework
from baracuda._library.loader import Library
from baracuda.attention.serving import (
    PagedKvAppendDescriptor,
    PagedKvAppendPlan,
    PagedKvAppendQuantizedDescriptor,
    PagedKvAppendQuantizedPlan,
)
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, naming
from baracuda.tensor import TensorRef, tensor

__all__ = ["paged_kv_append"]


@naming("paged_kv_append")
def paged_kv_append(
    k_new: Any, v_new: Any, k_cache: Any, v_cache: Any, page_ids: Any, page_offsets: Any, batch_indices: Any,
    positions: Any, *, k_scales: Any = None, v_scales: Any = None,
) -> None:  # fmt: skip
    """Write keys and values of new tokens into the pages of their sequences, which attention_paged reads.

    k_new, v_new            (tokens, heads, head_dim)
    k_cache, v_cache        (pages, heads, page_size, head_dim), written in place
    page_ids, page_offsets  i32 pages of all sequences, and where those of each begin (sequences + 1)
    batch_indices, positions
                            i32 (tokens): the sequence of a token, and its position there
    k_scales, v_scales      f32 (pages, heads, page_size), written in place, for a cache of i8 or fp8: a row
                            of a head is stored with the scale max |x| / M, where M is 127, 448 or 57344

    A token outside the sequences or their pages is dropped. Two tokens of one slot race.
    """
    given = {
        "k_new": k_new, "v_new": v_new, "batch_indices": batch_indices, "positions": positions, "page_ids": page_ids,
        "page_offsets": page_offsets, "k_cache": k_cache, "v_cache": v_cache,
    }  # fmt: skip
    if (k_scales is None) != (v_scales is None):
        raise InvalidProblemError("k_scales and v_scales go together")
    if k_scales is not None:
        given |= {"k_scales": k_scales, "v_scales": v_scales}
    like = as_array(k_new, "k_new")
    views = {name: tensor(as_array(array, name), name) for name, array in given.items()}
    _check(views)
    key, keys = views["k_new"], views["k_cache"]
    library = library_for(key.device)
    plan = _plan(
        library, key.dtype, keys.dtype if k_scales is not None else None, views["page_offsets"].numel - 1, key.shape,
        keys.shape[0], keys.shape[2], views["page_ids"].numel,
    )  # fmt: skip
    stream = result_framework(like).stream(like) if library.backend == "cuda" else None
    plan.run(stream, None, plan.args_type(*views.values()))


def _check(views: Mapping[str, TensorRef]) -> None:
    """Raise InvalidProblemError for a shape or a dtype that does not fit k_new and k_cache."""
    key, keys = views["k_new"], views["k_cache"]
    for name, rank in (("k_new", 3), ("k_cache", 4), ("page_ids", 1), ("page_offsets", 1)):
        if views[name].rank != rank:
            raise InvalidProblemError(f"{name} has shape {views[name].shape}, must have {rank} axes")
    if not views["page_offsets"].numel:
        raise InvalidProblemError("page_offsets is empty, must have one element more than there are sequences")
    tokens, heads, head_dim = key.shape
    cache = (keys.shape[0], heads, keys.shape[2], head_dim)
    expected = {
        "v_new": (key.shape, key.dtype), "batch_indices": ((tokens,), ElementKind.I32),
        "positions": ((tokens,), ElementKind.I32), "page_ids": (views["page_ids"].shape, ElementKind.I32),
        "page_offsets": (views["page_offsets"].shape, ElementKind.I32),
        "k_cache": (cache, keys.dtype if "k_scales" in views else key.dtype), "v_cache": (cache, keys.dtype),
        "k_scales": (cache[:3], ElementKind.F32), "v_scales": (cache[:3], ElementKind.F32),
    }  # fmt: skip
    for name, view in views.items():
        shape, dtype = expected.get(name, (view.shape, view.dtype))
        if view.shape != shape or view.dtype is not dtype:
            raise InvalidProblemError(
                f"{name} has shape {view.shape} and dtype {view.dtype}, expected {shape} and {dtype}"
            )


@functools.lru_cache(maxsize=256)
def _plan(
    library: Library, element: ElementKind, kv_element: ElementKind | None, sequences: int, rows: tuple[int, ...],
    pages: int, page_size: int, page_ids: int,
) -> PagedKvAppendPlan:  # fmt: skip
    tokens, heads, head_dim = rows
    numbers = (sequences, tokens, heads, head_dim, page_size, pages, page_ids)
    if kv_element is None:
        described = PagedKvAppendDescriptor(*numbers, element=element)
        return PagedKvAppendPlan.select(None, described, library=library)
    quantized = PagedKvAppendQuantizedDescriptor(*numbers, kv_element=kv_element, element=element)
    return PagedKvAppendQuantizedPlan.select(None, quantized, library=library)
