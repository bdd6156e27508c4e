# SPDX-License-Identifier: Apache-2.0
"""Measures a function on arguments in host memory against references in 80-bit floats, for both backends."""

from __future__ import annotations

from typing import Any

import baracuda as bk
from tools.accuracy import inputs
from tools.accuracy.functions import Function
from tools.accuracy.library import run
from tools.accuracy.ulp import Array, Worst, worst_of
from tools.oracle.numerics import decode


def measure(library: bk.Library, torch: Any, function: Function, dtype: str, quick: bool) -> tuple[Worst, Worst | None]:
    """(our error, PyTorch's or None)"""
    ours, theirs = Worst(), Worst()
    other = function.peer(torch)
    for operands in _operands(function, dtype, quick):
        values = [decode(bits, dtype) for bits in operands]
        true = function.true(dtype, *values)
        named = dict(zip(function.operands, values))
        ours.add(worst_of(decode(run(library, function, dtype, *operands), dtype), true, dtype, named))
        if other is not None:
            try:
                theirs.add(worst_of(_torch_values(torch, library.backend, other, dtype, operands), true, dtype, named))
            except (RuntimeError, NotImplementedError):  # PyTorch lacks the dtype or the gradient
                other = None
    return ours, theirs if other is not None else None


def _operands(function: Function, dtype: str, quick: bool) -> list[tuple[Array, ...]]:
    if function.kind == "binary":
        return [inputs.pairs(dtype, quick)]
    bits = inputs.sample(dtype, quick)
    if function.kind == "unary":
        return [(bits,)]
    bits = bits[function.inside(decode(bits, dtype), dtype)]
    return [(inputs.gradients(dtype, bits.size, random), bits) for random in (False, True)]


def _torch_values(torch: Any, device: str, other: Any, dtype: str, operands: tuple[Array, ...]) -> Array:
    kinds = {"f16": (torch.int16, torch.float16), "bf16": (torch.int16, torch.bfloat16)}
    kinds |= {"f32": (torch.int32, torch.float32), "f64": (torch.int64, torch.float64)}
    carrier, kind = kinds[dtype]
    signed = [torch.from_numpy(bits.view(f"i{bits.dtype.itemsize}").copy()) for bits in operands]
    result = other(*(bits.to(device).view(kind) for bits in signed))
    bits = result.detach().contiguous().view(carrier).cpu().numpy()
    return decode(bits.view(operands[0].dtype), dtype)
