"""The case table: one Case a row of the op tables. model.py says what each field means."""

from . import attention, elementwise, embedding, gemm, image, segment, shape_layout
from .model import Array, Bad, Case, Draw, Expected, Idle, Problem, strides_for

FAMILIES = (attention, elementwise, embedding, gemm, image, segment, shape_layout)
CASES: dict[str, Case] = {case.row: case for family in FAMILIES for case in family.CASES}

__all__ = [
    "CASES", "Array", "Bad", "Case", "Draw", "Expected", "Idle", "Problem",
    "strides_for",
]  # fmt: skip
