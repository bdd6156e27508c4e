# SPDX-License-Identifier: Apache-2.0
"""The functions of linear algebra by name."""

from __future__ import annotations

# Module -> its class and the public functions that it has; each is imported when one of them is first asked for.
CLASSES = {
    "factor": "Factors",
    "solvers": "Solvers",
    "products": "Products",
    "spectral": "Spectra",
}
_FUNCTIONS = {
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
}
HOME = {name: module for module, names in _FUNCTIONS.items() for name in names.split()}
NAMES = tuple(sorted(HOME))
