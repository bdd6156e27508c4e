# SPDX-License-Identifier: Apache-2.0
"""Training with 8-bit floats: scales that follow the largest magnitudes of earlier passes (delayed), of the tensor
itself (current), or of blocks of 128 elements (blocks), and linear layers whose three products have 8-bit operands.

    layer = bk.fp8.Linear("delayed")
    y, saved = layer.forward(x, weight)
    dx, dweight = layer.backward(dy, saved)
    layer.update()                              # once a step: new scales
"""

from __future__ import annotations

from baracuda.fp8.linear import Linear, Saved
from baracuda.fp8.recipe import FORMATS, Fp8CastPlan, Fp8DequantPlan, Fp8Recipe

__all__ = ["FORMATS", "Fp8CastPlan", "Fp8DequantPlan", "Fp8Recipe", "Linear", "Saved"]
