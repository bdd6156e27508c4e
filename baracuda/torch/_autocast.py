# SPDX-License-Identifier: Apache-2.0
"""torch.autocast for the operators, by PyTorch's policy for CUDA, on the CPU too.

GEMMs and convolutions run in autocast's dtype. Softmax, losses, layer, RMS and group norms run in float32, in which
their 16-bit forms compute anyway, so that results are not rounded. Other operators take tensors as they are, and
promote mixed dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from baracuda._functions.spec import Spec

_DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_WIDE = ("softmax", "loss")  # families
_WIDE_NORMS = (
    "layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm", "group_norm", "group_norm_wide",
    "group_norm_channels_last",
)  # fmt: skip
_NARROW = ("matmul", "linear", "linear_gated", "grouped_gemm", "convolution")  # shape rules


def policy(spec: Spec) -> str:
    """ "narrow" (autocast's dtype), "wide" (float32), or "" for operators without a policy."""
    if "_backward" in spec.name:
        return ""
    if spec.layout in _NARROW:
        is_integer = spec.layout == "convolution" and "bf16" not in spec.row.slots["T"]
        return "" if is_integer else "narrow"
    is_wide = spec.row.family in _WIDE or spec.name.removesuffix("_forward") in _WIDE_NORMS
    return "wide" if is_wide and "f32" in spec.row.slots.get("T", ()) else ""


def register(library: Any, spec: Spec, operator: Callable[..., Any]) -> None:
    """Register the kernel that converts an operator's arguments under autocast."""
    kind = policy(spec)
    for device, key in _DEVICES.items() if kind else ():
        library.impl(spec.name, _kernel(operator, device, kind == "narrow"), key)


def _kernel(operator: Callable[..., Any], device: str, is_narrow: bool) -> Callable[..., Any]:
    def kernel(*arguments: Any, **numbers: Any) -> Any:
        dtype = torch.get_autocast_dtype(device) if is_narrow else torch.float32
        with torch.autocast(device, enabled=False):
            return operator(*[_converted(each, device, dtype) for each in arguments], **numbers)

    return kernel


def _converted(argument: Any, device: str, dtype: torch.dtype) -> Any:
    """The argument in `dtype`; float64 is not converted, as in PyTorch."""
    takes = isinstance(argument, torch.Tensor) and argument.is_floating_point() and argument.device.type == device
    return argument.to(dtype) if takes and argument.dtype is not torch.float64 else argument
