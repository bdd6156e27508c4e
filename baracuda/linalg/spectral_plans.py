# SPDX-License-Identifier: Apache-2.0
"""Plans of eigenvalues, singular values and what follows from them, of batches (batch, m, n) of any strides.

info, i32, has a number for each matrix: 0, one more than there are values if it is not finite, or the number of values
that did not converge; such a matrix gives NaN, and no other does. Vectors and info may be None.
On the CPU large matrices may be LAPACK's (baracuda.linalg).
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.linalg.kinds import LinalgKind
from baracuda.linalg.plans import LinalgPlan


@dataclasses.dataclass(frozen=True)
class EighDescriptor(Descriptor):
    """Hermitian matrices (batch, n, n), of which the triangle `upper` names is read."""

    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    upper: bool = descriptor.flag()


class EighPlan(LinalgPlan):
    """Eigenvalues w (batch, n), real and ascending, and eigenvectors, the columns of v."""

    __slots__ = ()
    op = "linalg_eigh_{T}"
    kind = LinalgKind.EIGH


@dataclasses.dataclass(frozen=True)
class EigDescriptor(Descriptor):
    """Square matrices (batch, n, n)."""

    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)


class EigPlan(LinalgPlan):
    """Eigenvalues w (batch, n), right eigenvectors v and left ones vl, all complex."""

    __slots__ = ()
    op = "linalg_eig_{T}"
    kind = LinalgKind.EIG


@dataclasses.dataclass(frozen=True)
class SvdDescriptor(Descriptor):
    """Matrices (batch, m, n). With full_matrices u has m columns and vh n rows, else both min(m, n)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    full_matrices: bool = descriptor.flag()

    @property
    def least(self) -> int:
        return min(self.m, self.n)

    @property
    def left_vectors(self) -> int:
        return self.m if self.full_matrices else self.least

    @property
    def right_vectors(self) -> int:
        return self.n if self.full_matrices else self.least


class SvdPlan(LinalgPlan):
    """Singular values s (batch, min(m, n)), descending, and vectors: a = u s vh."""

    __slots__ = ()
    op = "linalg_svd_{T}"
    kind = LinalgKind.SVD


@dataclasses.dataclass(frozen=True)
class PinvDescriptor(Descriptor):
    """Matrices (batch, m, n). Values up to max(atol, rtol s[0]) count as 0; a negative rtol stands for max(m, n)
    eps."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    atol: float = descriptor.real(default=0.0)
    rtol: float = descriptor.real(default=-1.0)


class PinvPlan(LinalgPlan):
    """Pseudoinverses y (batch, n, m), and ranks, i32."""

    __slots__ = ()
    op = "linalg_pinv_{T}"
    kind = LinalgKind.PINV


@dataclasses.dataclass(frozen=True)
class PolarDescriptor(Descriptor):
    """Matrices (batch, m, n)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)


class PolarPlan(LinalgPlan):
    """a = u p, with u (batch, m, n) of orthonormal columns or rows, and p (batch, n, n) Hermitian and not negative."""

    __slots__ = ()
    op = "linalg_polar_{T}"
    kind = LinalgKind.POLAR
