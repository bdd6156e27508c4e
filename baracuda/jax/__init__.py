# SPDX-License-Identifier: Apache-2.0
"""The functions on arrays for JAX: `baracuda.jax.gelu(x)`, under jit, grad and vmap, on the CPU and on CUDA.

Each is an XLA FFI call (jax.ffi) of the library; XLA allocates results and workspaces and gives the stream. Functions
with a gradient in the op table are differentiable in reverse mode; gradients of common functions can be differentiated
again. Under vmap elementwise functions, softmax, scans and gated units stay one call; others are called for each
element of the batch. Mixed dtypes are promoted as in JAX, and Python numbers take the dtype of the arrays. Numbers and
axes are static. There is no `out`, and a gradient that is not wanted (`needs`) is None.

Without `jax_enable_x64`, indices and 64-bit results have 32 bits.

The FFI handler is compiled at the first call, by g++ or `CXX`, or by `make jax`.
"""

from __future__ import annotations

import importlib
from typing import Any

from baracuda._functions import deform_calls
from baracuda._functions.spec import specs
from baracuda.jax import _attention, _concat, _convolution, _moe, _pages, _pool, _quantize, _recurrent, _sorting
from baracuda.jax._calls import made as _made

# Modules of functions that do not follow from the op tables, and of functions that call other ones.
_BY_HAND: tuple[Any, ...] = (_concat, _pages)
_COMPOSED: tuple[Any, ...] = (_attention, _convolution, _moe, _pool, _quantize, _recurrent, _sorting, deform_calls)

# Functions become attributes of this module, some with names of builtins, so the code that makes them is elsewhere.


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg"):
        return importlib.import_module(f"{__name__}.{name}")
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is not None:
        value = _made(spec, __name__)
    elif module := next((each for each in _BY_HAND if name in each.FUNCTIONS), None):
        value = module.made(name, __name__)
    elif module := next((each for each in _COMPOSED if name in each.NAMES), None):
        value = module.made(name, lambda each: globals().get(each) or __getattr__(each))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    composed = [name for module in _COMPOSED for name in module.NAMES]
    by_hand = [name for module in _BY_HAND for name in module.FUNCTIONS]
    return sorted({*specs(), *by_hand, *composed, "fft", "linalg"})
