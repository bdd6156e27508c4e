"""The case table: one Case a row of the op tables. model.py says what each field means."""

from . import attention, elementwise, embedding, image, reduce, reduce_backward, scan, segment, shape_layout, softmax
from .model import Array, Bad, Case, Draw, Expected, Idle, Problem, strides_for

FAMILIES = (attention, elementwise, embedding, image, reduce, reduce_backward, scan, segment, shape_layout, softmax)
CASES: dict[str, Case] = {case.row: case for family in FAMILIES for case in family.CASES}

__all__ = [
    "CASES", "Array", "Bad", "Case", "Draw", "Expected", "Idle", "Problem",
    "strides_for",
]  # fmt: skip
