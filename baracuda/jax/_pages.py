# SPDX-License-Identifier: Apache-2.0
"""paged_kv_append for JAX: it returns the caches with the new rows. A cache that jax.jit may donate is written in
place, another one is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baracuda._library.loader import symbol_name
from baracuda._library.op_table import ops
from baracuda.attention import pages
from baracuda.dtypes import as_element
from baracuda.errors import InvalidProblemError, UnsupportedError, naming
from baracuda.jax import _handler
from baracuda.jax._calls import INTEGER, OPERAND, STREAM, libraries
from baracuda.tensor import EMPTY_ADDRESS, TensorRef

FUNCTIONS = ("paged_kv_append",)
_ROWS = ("k_new", "v_new")
_INTEGERS = ("page_ids", "page_offsets", "batch_indices", "positions")
_CACHES = ("k_cache", "v_cache", "k_scales", "v_scales")


def made(name: str, module: str) -> Any:
    paged_kv_append.__module__ = module
    return paged_kv_append


def paged_kv_append(
    k_new: Any, v_new: Any, k_cache: Any, v_cache: Any, page_ids: Any, page_offsets: Any, batch_indices: Any,
    positions: Any, *, k_scales: Any = None, v_scales: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """baracuda.paged_kv_append as a function: (k_cache, v_cache), or (k_cache, v_cache, k_scales, v_scales) of a cache
    of i8 or fp8, with the new rows. Under jax.jit, caches of donate_argnums are written in place. There is no gradient.
    """
    with naming("paged_kv_append"):
        if (k_scales is None) != (v_scales is None):
            raise InvalidProblemError("k_scales and v_scales go together")
        rows = [jnp.asarray(each) for each in (k_new, v_new)]
        integers = [_as_i32(each) for each in (page_ids, page_offsets, batch_indices, positions)]
        caches = [jnp.asarray(each) for each in (k_cache, v_cache, k_scales, v_scales) if each is not None]
        given = dict(zip((*_ROWS, *_INTEGERS, *_CACHES), (*rows, *integers, *caches)))
        pages._check({name: TensorRef(EMPTY_ADDRESS, array.shape, _element(array)) for name, array in given.items()})
        return _append(rows, integers, caches)  # type: ignore[no-any-return]


def _as_i32(array: Any) -> Any:
    found = jnp.asarray(array)
    return found.astype(np.int32) if jnp.issubdtype(found.dtype, jnp.integer) else found


def _element(array: Any) -> Any:
    return as_element(np.dtype(array.dtype))


@jax.custom_vjp  # type: ignore[untyped-decorator, unused-ignore]
def _append(rows: Sequence[Any], integers: Sequence[Any], caches: Sequence[Any]) -> tuple[Any, ...]:
    (key, _), (keys, *_) = rows, caches
    stem = "paged_kv_append" if len(caches) == 2 else "paged_kv_append_quantized"
    name = "_".join([stem, _element(key).symbol, *[_element(keys).symbol] * (len(caches) > 2)])
    op = ops().get(name)
    if op is None:
        raise UnsupportedError(f"there is no op {name}")
    libraries()  # registered with XLA
    inputs = [*rows, *integers, *caches]
    first = len(inputs) - len(caches)
    results = [jax.ShapeDtypeStruct(cache.shape, cache.dtype) for cache in caches]
    # C reads and writes the caches of the results, on which XLA lays those that are given.
    buffers = {
        **{n: k for k, n in enumerate((*_ROWS, *_INTEGERS))},
        **{n: len(inputs) + k for k, n in enumerate(_CACHES)},
    }
    tokens, heads, width = key.shape
    numbers = {
        "batch": integers[1].shape[0] - 1, "num_tokens": tokens, "num_pages": keys.shape[0], "page_size": keys.shape[2],
        "num_page_ids": integers[0].shape[0], "heads": heads, "d_k": width, "d_v": width,
    }  # fmt: skip
    sources: list[int] = []
    for param in op.row.params:
        sources += [OPERAND, buffers[param.name]] if param.is_pointer else [INTEGER, numbers[param.name]]
    if not op.row.is_bare:
        sources += [OPERAND, -1, INTEGER, 0]  # no workspace
    compute = jax.ffi.ffi_call(
        _handler.TARGET, results, input_output_aliases={first + k: k for k in range(len(caches))},
        vmap_method="sequential",
    )  # fmt: skip
    found = compute(
        *inputs, symbol=symbol_name(op.name), signature=_handler.signature(op),
        sources=np.array([*sources, STREAM, 0], np.int64), host=np.zeros(1, np.int64),
    )  # fmt: skip
    return tuple(found)


def _refused(*arrays: Any) -> Any:
    leaves = jax.tree.leaves(arrays, is_leaf=lambda each: hasattr(each, "perturbed"))
    if any(each.perturbed and jnp.issubdtype(each.value.dtype, jnp.inexact) for each in leaves):
        raise UnsupportedError(
            "paged_kv_append has no gradient: call it on jax.lax.stop_gradient of its rows and caches"
        )
    return _append(*jax.tree.map(lambda each: each.value, arrays, is_leaf=lambda each: hasattr(each, "perturbed"))), ()


_append.defvjp(_refused, lambda _, grads: (None, None, None), symbolic_zeros=True)
