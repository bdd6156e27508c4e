# SPDX-License-Identifier: Apache-2.0
"""Plans of factorisations and solutions of batches (batch, m, n), and of the reference's tools of reflectors.

Matrices have any strides; those of the tools are column-major slots, which the extents of their operands name from the
slowest axis on. info, i32, has a number for each matrix: 0, or what failed; such a matrix gives NaN, and no other does.
On the CPU large matrices may be LAPACK's (baracuda.linalg).
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory
from baracuda.linalg.kinds import LinalgKind
from baracuda.plan import Plan


class LinalgPlan(Plan):
    """Base of the plans of linear algebra."""

    __slots__ = ()
    category = OpCategory.LINALG

    def _invariance(self) -> str:
        """Their number may choose OpenBLAS's threads for larger matrices, and bits (native/linalg/lapack/lapack.h)."""
        extents = [getattr(self.descriptor, name, 0) for name in ("m", "n", "k")]
        return "no" if self.library.backend == "cpu" and max(extents) > 256 else super()._invariance()


@dataclasses.dataclass(frozen=True)
class CholeskyDescriptor(Descriptor):
    """Hermitian positive definite matrices (batch, n, n), of which the triangle `upper` names is read."""

    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    upper: bool = descriptor.flag()


class CholeskyPlan(LinalgPlan):
    """a = l l^H, or with upper a = l^H l; l may be a."""

    __slots__ = ()
    op = "linalg_cholesky_{T}"
    kind = LinalgKind.CHOLESKY


@dataclasses.dataclass(frozen=True)
class LuDescriptor(Descriptor):
    """Matrices (batch, m, n)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)

    @property
    def least(self) -> int:
        return min(self.m, self.n)


class LuPlan(LinalgPlan):
    """P a = L U, packed in lu, which may be a; pivots (batch, min(m, n)) count rows from 1."""

    __slots__ = ()
    op = "linalg_lu_factor_{T}"
    kind = LinalgKind.LU


class BatchedQrPlan(LinalgPlan):
    """a = Q R, packed as R above the vectors of reflectors; tau (batch, min(m, n)). packed may be a."""

    __slots__ = ()
    op = "linalg_qr_factor_{T}"
    descriptor_base = LuDescriptor
    kind = LinalgKind.BATCHED_QR


@dataclasses.dataclass(frozen=True)
class QrDescriptor(Descriptor):
    """Matrices (batch, m, n); Q has min(m, n) columns, or with complete m."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    complete: bool = descriptor.flag()

    @property
    def columns(self) -> int:
        return self.m if self.complete else min(self.m, self.n)


class QrPlan(LinalgPlan):
    """a = Q R as dense matrices, the lower triangle of r being 0. q or r may be None."""

    __slots__ = ()
    op = "linalg_qr_{T}"
    kind = LinalgKind.QR


@dataclasses.dataclass(frozen=True)
class SolveDescriptor(Descriptor):
    """Matrices (batch, n, n) and k right-hand sides each."""

    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)


class SolvePlan(LinalgPlan):
    """x = a^-1 b, in place of b too."""

    __slots__ = ()
    op = "linalg_solve_{T}"
    kind = LinalgKind.SOLVE


@dataclasses.dataclass(frozen=True)
class InverseDescriptor(Descriptor):
    """Matrices (batch, n, n)."""

    n: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)


class InversePlan(LinalgPlan):
    """x = a^-1, in place of a too."""

    __slots__ = ()
    op = "linalg_inv_{T}"
    kind = LinalgKind.INVERSE


@dataclasses.dataclass(frozen=True)
class LstSqDescriptor(Descriptor):
    """Matrices (batch, m, n) of any rank, and k right-hand sides each. A negative rcond stands for eps max(m, n)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    batch: int = descriptor.extent(default=1)
    rcond: float = descriptor.real(default=-1.0)


class LstSqPlan(LinalgPlan):
    """The x of least norm that makes |a x - b| least; residuals are sums of squares, rank is i32."""

    __slots__ = ()
    op = "linalg_lstsq_{T}"
    kind = LinalgKind.LST_SQ


# --- the reference's tools of reflectors ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BatchedOrmqrDescriptor(Descriptor):
    """Slots c of m x n and k reflectors; side 0 is left, 1 right; form 0 is Q, 1 its transpose, 2 its adjoint."""

    batch: int = descriptor.extent()
    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    side: int = descriptor.extent(default=0)
    form: int = descriptor.extent(default=0)

    @property
    def packed_rows(self) -> int:
        return self.n if self.side else self.m

    @property
    def packed_columns(self) -> int:
        return self.n if self.side else self.k


class BatchedOrmqrPlan(LinalgPlan):
    """c = op(Q) c or c op(Q), in place."""

    __slots__ = ()
    op = "batched_ormqr_{T}"
    others = ("batched_ormqr_complex32", "batched_ormqr_complex64")
    kind = LinalgKind.BATCHED_ORMQR


@dataclasses.dataclass(frozen=True)
class BatchedOrmqrWyBuildTDescriptor(Descriptor):
    """Slots a_packed of m x k, of which num_blocks blocks of nb reflectors each get a triangle nb x nb."""

    batch: int = descriptor.extent()
    m: int = descriptor.extent()
    k: int = descriptor.extent()
    nb: int = descriptor.extent(1)
    num_blocks: int = descriptor.extent()


class BatchedOrmqrWyBuildTPlan(LinalgPlan):
    """Triangles T of H_a ... H_b = I - V T V^H."""

    __slots__ = ()
    op = "batched_ormqr_wy_build_t_{T}"
    others = ("batched_ormqr_wy_build_t_complex32", "batched_ormqr_wy_build_t_complex64")
    kind = LinalgKind.BATCHED_ORMQR_WY_BUILD_T


@dataclasses.dataclass(frozen=True)
class BatchedOrmqrWyExtractVDescriptor(Descriptor):
    """Slots a_packed of m x k, and block_k of its reflectors from block_start on as dense slots of m x nb."""

    batch: int = descriptor.extent()
    m: int = descriptor.extent()
    k: int = descriptor.extent()
    nb: int = descriptor.extent(1)
    block_start: int = descriptor.extent(default=0)
    block_k: int = descriptor.extent(default=0)


class BatchedOrmqrWyExtractVPlan(LinalgPlan):
    """Vectors of reflectors with zeros above their ones."""

    __slots__ = ()
    op = "batched_ormqr_wy_extract_v_{T}"
    others = ("batched_ormqr_wy_extract_v_complex32", "batched_ormqr_wy_extract_v_complex64")
    kind = LinalgKind.BATCHED_ORMQR_WY_EXTRACT_V


@dataclasses.dataclass(frozen=True)
class BatchedQrMaterializeRDescriptor(Descriptor):
    """Slots a_packed of m x n, and r of k x n."""

    batch: int = descriptor.extent()
    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()


class BatchedQrMaterializeRPlan(LinalgPlan):
    """The upper triangles of packed factors."""

    __slots__ = ()
    op = "batched_qr_materialize_r_{T}"
    kind = LinalgKind.BATCHED_QR_MATERIALIZE_R


@dataclasses.dataclass(frozen=True)
class BatchedQrMaterializeIdentityDescriptor(Descriptor):
    """Slots q of m x m."""

    batch: int = descriptor.extent()
    m: int = descriptor.extent()


class BatchedQrMaterializeIdentityPlan(LinalgPlan):
    """Identities."""

    __slots__ = ()
    op = "batched_qr_materialize_identity_{T}"
    kind = LinalgKind.BATCHED_QR_MATERIALIZE_IDENTITY
