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
from baracuda.jax import _attention, _concat, _convolution, _moe, _pool, _quantize, _recurrent
from baracuda.jax._calls import made as _made

# Functions become attributes of this module, some with names of builtins, so the code that makes them is elsewhere.


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg"):
        return importlib.import_module(f"{__name__}.{name}")
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is not None:
        value = _made(spec, __name__)
    elif name in _concat.FUNCTIONS:
        value = _concat.made(name, __name__)
    elif name in _attention.NAMES:
        value = _attention.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in _quantize.NAMES:
        value = _quantize.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in _pool.NAMES:
        value = _pool.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in _recurrent.NAMES:
        value = _recurrent.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in _moe.NAMES:
        value = _moe.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in deform_calls.NAMES:
        value = deform_calls.made(name, lambda each: globals().get(each) or __getattr__(each))
    elif name in _convolution.NAMES:
        value = _convolution.made(name, lambda each: globals().get(each) or __getattr__(each))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(
        {
            *_attention.NAMES,
            *_concat.FUNCTIONS,
            *_convolution.NAMES,
            *_moe.NAMES,
            *_pool.NAMES,
            *_quantize.NAMES,
            *_recurrent.NAMES,
            *deform_calls.NAMES,
            *specs(),
            "fft",
            "linalg",
        }
    )
