# SPDX-License-Identifier: Apache-2.0
"""Enumeration of plans of linear algebra."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class LinalgKind(IntEnum):
    CHOLESKY = 0
    LU = 1
    QR = 2
    BATCHED_QR = 3
    SOLVE = 4
    INVERSE = 5
    LST_SQ = 6
    BATCHED_ORMQR = 7
    BATCHED_ORMQR_WY_BUILD_T = 8
    BATCHED_ORMQR_WY_EXTRACT_V = 9
    BATCHED_QR_MATERIALIZE_R = 10
    BATCHED_QR_MATERIALIZE_IDENTITY = 11
    EIGH = 12
    EIG = 13
    SVD = 14
    PINV = 15
    POLAR = 16
