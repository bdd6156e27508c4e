# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on matrices and batches of matrices, under the names of torch.linalg and the array API standard.

    x = bk.linalg.solve(a, b)  # a (..., n, n) and b (..., n) or (..., n, k): batches broadcast
    q, r = bk.linalg.qr(a)

Arrays are those that `baracuda.functions` takes, f32, f64, c32 or c64, of any strides. A matrix that cannot be factored
gives NaN in its own results and in those of no other matrix of the batch; functions with the suffix `_ex` return the
number of the failure besides, on the device. Under `bk.checked()` each call reads these numbers, and raises.
"""

from __future__ import annotations

import importlib
from typing import Any

# Module -> the public names that it has; each is imported when one of its names is first asked for.
_MODULES = {
    "factor": (
        "cholesky cholesky_ex lu_factor lu_factor_ex lu ldl_factor ldl_factor_ex qr householder_product geqrf ormqr"
    ),
    "solvers": (
        "cholesky_solve cholesky_inverse lu_solve ldl_solve solve solve_ex solve_triangular inv inv_ex lstsq "
        "det slogdet tensorsolve tensorinv"
    ),
    "products": (
        "matmul multi_dot matrix_power matrix_exp matrix_transpose vecdot outer cross diagonal trace "
        "matrix_norm vector_norm norm"
    ),
    "spectral": (
        "eigh eigh_ex eigvalsh eig eig_ex eigvals svd svd_ex svdvals pinv pinv_ex matrix_rank cond polar orthogonalize"
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
