# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on matrices and batches of matrices, under the names of torch.linalg and the array API standard.

    x = bk.linalg.solve(a, b)  # a (..., n, n) and b (..., n) or (..., n, k): batches broadcast
    q, r = bk.linalg.qr(a)

Arrays are those that `baracuda.functions` takes, f32, f64, c32 or c64, of any strides. A matrix that cannot be factored
gives NaN in its own results and in those of no other matrix of the batch; functions with the suffix `_ex` return the
number of the failure besides, on the device. Under `bk.checked()` each call reads these numbers, and raises.

On the CPU large matrices are computed by LAPACK if the package scipy-openblas64 is installed (`baracuda[linalg]`) and
BARACUDA_LAPACK is not "off"; failures and layouts are the same.

baracuda.torch.linalg and baracuda.jax.linalg have the functions with gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from baracuda.errors import naming
from baracuda.linalg.names import NAMES

__all__ = list(NAMES)


if TYPE_CHECKING:
    from baracuda._linalg import *  # noqa: F403  (written by tools/gen_stub.py)
else:

    def __getattr__(name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from baracuda.linalg.arrays import AnyArrays, described, function_of  # opens the bindings

        function = naming(f"linalg.{name}")(function_of(AnyArrays(), name))
        value = globals()[name] = described(function, name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
