# SPDX-License-Identifier: Apache-2.0
"""The case table: one Case a row of the op tables, of the modules here that have CASES. model.py explains fields."""

import importlib
import pkgutil

from .model import Array, Bad, Case, Draw, Expected, Idle, Problem, strides_for

FAMILIES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
CASES: dict[str, Case] = {case.row: case for family in FAMILIES for case in getattr(family, "CASES", ())}

__all__ = [
    "CASES", "Array", "Bad", "Case", "Draw", "Expected", "Idle", "Problem",
    "strides_for",
]  # fmt: skip
