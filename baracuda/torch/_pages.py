# SPDX-License-Identifier: Apache-2.0
"""paged_kv_append for PyTorch: an operator that writes the caches it is given, which torch.compile traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from baracuda.attention import pages
from baracuda.errors import UnsupportedError
from baracuda.torch._autograd import call_below_autograd

FUNCTIONS = ("paged_kv_append",)
SCHEMAS = {
    "paged_kv_append": (
        "paged_kv_append(Tensor k_new, Tensor v_new, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor page_ids, "
        "Tensor page_offsets, Tensor batch_indices, Tensor positions, *, Tensor(c!)? k_scales=None, "
        "Tensor(d!)? v_scales=None) -> ()"
    ),
}
Operator = Callable[[str], Any]


def define(name: str, library: torch.library.Library, operator: Operator) -> None:
    """Register the operator with its fake kernel; it has no gradient."""

    def below_autograd(keyset: Any, *tensors: torch.Tensor, **scales: torch.Tensor | None) -> None:
        given = [*tensors, *[scale for scale in scales.values() if scale is not None]]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
            raise UnsupportedError("paged_kv_append has no gradient: call it under torch.no_grad(), or detach its rows")
        call_below_autograd(operator(name), keyset, *tensors, **scales)

    library.define(SCHEMAS[name], tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, _append, "CompositeExplicitAutograd")
    library.impl(name, below_autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"{library.ns}::{name}", lambda *tensors, **scales: None, lib=library)


def _append(*tensors: torch.Tensor, **scales: torch.Tensor | None) -> None:
    # Rows that require a gradient can be exported only without it; a detached cache is the same memory.
    given = {name: None if scale is None else scale.detach() for name, scale in scales.items()}
    pages.paged_kv_append(*[tensor.detach() for tensor in tensors], **given)


def made(name: str, operator: Operator, promoted: Callable[..., list[Any]]) -> Any:
    """A function of FUNCTIONS, with the signature of baracuda's."""
    append = operator(name)  # Dynamo cannot register it

    def paged_kv_append(
        k_new: torch.Tensor, v_new: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_ids: torch.Tensor,
        page_offsets: torch.Tensor, batch_indices: torch.Tensor, positions: torch.Tensor, *,
        k_scales: torch.Tensor | None = None, v_scales: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        append(
            k_new, v_new, k_cache, v_cache, page_ids, page_offsets, batch_indices, positions, k_scales=k_scales,
            v_scales=v_scales,
        )  # fmt: skip

    paged_kv_append.__doc__, paged_kv_append.__module__ = pages.paged_kv_append.__doc__, "baracuda.torch"
    paged_kv_append.__qualname__ = name
    return paged_kv_append
