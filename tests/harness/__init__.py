"""Runs ops of the library under test on guarded memory of its backend."""

from .launch import (
    OPS,
    ROOT,
    ROWS,
    Launch,
    Outcome,
    can_implement,
    claims_determinism,
    last_error,
    launch,
    workspace_size,
)
from .memory import FINITE_POISON, NAN_POISON, Guarded, cuda_check, dense_strides, memory_of
from .numerics import COMPUTE, FLOATS, LARGEST, SMALLEST, SMALLEST_NORMAL, UNIT_ROUNDOFF, decode, encode, round_to

__all__ = [
    "COMPUTE", "FINITE_POISON", "FLOATS", "LARGEST", "NAN_POISON", "OPS", "ROOT", "ROWS", "SMALLEST", "SMALLEST_NORMAL",
    "UNIT_ROUNDOFF", "Guarded", "Launch", "Outcome", "can_implement", "claims_determinism", "cuda_check", "decode",
    "dense_strides", "encode", "last_error", "launch", "memory_of", "round_to", "workspace_size",
]  # fmt: skip
