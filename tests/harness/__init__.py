# SPDX-License-Identifier: Apache-2.0
"""Runs ops of the library under test on guarded memory of its backend."""

from tools.oracle.numerics import (
    COMPUTE,
    FLOATS,
    FP8,
    INTEGERS,
    LARGEST,
    LIMITS,
    PACKED,
    SMALLEST,
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    decode,
    encode,
    is_float,
    itemsize,
    round_to,
    width,
)

from .launch import (
    OPS,
    ROOT,
    ROWS,
    SANITIZED,
    Launch,
    Outcome,
    can_implement,
    claims_determinism,
    is_seen,
    last_error,
    launch,
    workspace_size,
    workspaces,
)
from .memory import FINITE_POISON, NAN_POISON, Guarded, cuda_check, dense_strides, memory_of

__all__ = [
    "COMPUTE", "FINITE_POISON", "FLOATS", "FP8", "INTEGERS", "LARGEST", "LIMITS", "NAN_POISON", "OPS", "PACKED", "ROOT",
    "ROWS", "SANITIZED", "SMALLEST", "SMALLEST_NORMAL", "UNIT_ROUNDOFF", "Guarded", "Launch", "Outcome",
    "can_implement", "claims_determinism", "cuda_check", "decode", "dense_strides", "encode", "is_float",
    "is_seen", "itemsize", "last_error", "launch", "memory_of", "round_to", "width", "workspace_size",
    "workspaces",
]  # fmt: skip
