"""The functions on arrays for JAX: `baracuda.jax.gelu(x)`, under jit, grad and vmap, on the CPU and on CUDA.

Each is a call of the library by XLA (jax.ffi), which allocates results and workspaces and gives the stream. Where the
op table has a gradient, it is the function's, in reverse mode; those of common functions can be differentiated again.
Under vmap elementwise functions, softmax, scans and gated units stay one call; others are called for each element of
the batch. Arrays of several dtypes are promoted as JAX does it, and Python numbers take the dtype of the arrays.
Numbers and axes are static. There is no `out`, and a gradient that is not wanted (`needs`) is None.

Where `jax_enable_x64` is off, indices have 32 bits, and so have results that are of 64 bits elsewhere.

The handler that XLA calls is compiled when the first function is called, by g++ or what `CXX` names, or by `make jax`.
"""

from __future__ import annotations

from typing import Any

from baracuda import _jax_joins
from baracuda._functions.spec import specs
from baracuda._jax_calls import made as _made

# Functions become attributes here, some of the name of a builtin: the code that makes them is elsewhere.


def __getattr__(name: str) -> Any:
    spec = specs().get(name) if not name.startswith("_") else None
    if spec is not None:
        value = _made(spec, __name__)
    elif name in _jax_joins.FUNCTIONS:
        value = _jax_joins.made(name, __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*specs(), *_jax_joins.FUNCTIONS})
